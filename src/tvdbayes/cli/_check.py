"""``tvdbayes check``: what a fit would see, compare, need and take."""

import os
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import click
import numpy as np

from tvdbayes._errors import Interrupted
from tvdbayes.cli._answers import finite, lacking
from tvdbayes.cli._commands import noted, plain, printable
from tvdbayes.cli._fit import Request
from tvdbayes.cli._text import echo_json, echo_notes, heading, in_words, joined, paragraph
from tvdbayes.data.table import AbstractSource
from tvdbayes.fitting import Fit
from tvdbayes.fitting.run import draw, fit_of, survey_of, told_of_rounding
from tvdbayes.formula.survey import Survey
from tvdbayes.objective.partitions import Auto
from tvdbayes.results.replicates import replicate
from tvdbayes.sampling.execution import progress_bar
from tvdbayes.sampling.options import Options
from tvdbayes.sampling.planners import plan_of
from tvdbayes.sampling.posterior import Posterior

_ENOUGH_SECONDS = 1.0
_REPLICATES = 200
_TIMED_REPLICATES = 20
_SOLVES = 2
"""Fits of each replicate: with random weights and without."""


@dataclass(frozen=True, eq=False)
class Pilot:
    """The first draws of a fit; seconds before them, for each, and for the noise floor."""

    posterior: Posterior
    setup: float
    per_draw: float
    floor: float

    def seconds(self, options: Options) -> float:
        """What a fit takes, with the answers that need refits."""
        jobs = options.n_jobs or 1
        jobs = jobs if jobs > 0 else os.cpu_count() or 1
        return self.setup + self.per_draw * options.n_draws / jobs + self.floor


def run_check(*, as_json: bool, **model: Any) -> None:
    """Encode the data, time the first draws, and print."""
    request = Request.of(**model)
    source = request.open()
    with noted() as notes:
        options = request.options
        found = survey_of(request.formula, source, options)
        with progress_bar(None, "timing the first draws"):
            pilot = _pilot(options, found)
        fit = fit_of(found, pilot.posterior, options, Fit)
        if found.coarsening is not None:
            fit = told_of_rounding(fit, found.coarsening)
    doubts = [
        plain(f.text)
        for f in fit.check(misfit=False).findings
        if f.about == "family"
        or (f.level == "problem" and f.about in ("search", "likelihood search", "groups"))
    ]
    notes = list(dict.fromkeys([*notes, *doubts]))
    if as_json:
        echo_json(_facts(fit, pilot, options, notes))
        return
    click.echo(heading(printable(request.formula)))
    for about, text in _lines(source, fit, pilot, options):
        click.echo(paragraph(f"{about:<11}  {printable(text)}", " " * 13))
    echo_notes(notes)


def _pilot(options: Options, found: Survey) -> Pilot:
    """Draw until a second has passed and two blocks are done, or all draws are.

    A callback that raises what Ctrl-C raises ends a fit as that does: with its finished draws.
    """
    started = time.perf_counter()
    marks: list[tuple[int, float]] = []

    def watch(done: int, total: int) -> None:
        del total
        marks.append((done, time.perf_counter() - started))
        if _enough(marks):
            raise KeyboardInterrupt

    try:
        posterior = draw(found, options, watch)
    except Interrupted as stop:
        if not _enough(marks):
            raise
        posterior = stop.partial
    (first, first_at), (last, last_at) = marks[0], marks[-1]
    if last > first:
        per_draw = (last_at - first_at) / (last - first)
        setup = max(first_at - first * per_draw, 0.0)
    else:
        # One block holds all draws: the set-up before it is repeated, and timed.
        unprepared = replace(posterior, prepared=None)
        setup = min(_timed(lambda: plan_of(unprepared)), first_at)
        per_draw = (first_at - setup) / first
    if lacking(options):
        floor = 0.0
    elif last_at > 2 * _ENOUGH_SECONDS:
        # Refits would take long, too: they are reckoned from the draws.
        floor = setup + _REPLICATES * _SOLVES * per_draw
    else:
        few = _timed(lambda: replicate(posterior, _TIMED_REPLICATES))
        floor = _REPLICATES / _TIMED_REPLICATES * few
    return Pilot(posterior, setup, per_draw, floor)


def _enough(marks: list[tuple[int, float]]) -> bool:
    return len(marks) > 1 and marks[-1][1] > _ENOUGH_SECONDS


def _timed(work: Any) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def _lines(
    source: AbstractSource, fit: Fit, pilot: Pilot, options: Options
) -> Iterator[tuple[str, str]]:
    posterior = fit.posterior
    cells, groups = posterior.cells, posterior.groups
    left_out = fit.n_left_out
    yield (
        "data",
        f"{fit.n_rows:,} rows, {len(source.columns)} columns"
        + (f"; {left_out:,} rows left out" if left_out else "")
        + ("" if fit.rounded is None else f". {fit.rounded}"),
    )
    if fit.n_rows > len(fit.cell_of_row):
        yield "grouped", f"by an engine, to {len(fit.cell_of_row):,} distinct rows"
    yield "outcome", _outcome(fit)
    yield (
        "covariates",
        f"{cells.n_x:,} distinct x, {cells.n_cells:,} cells (distinct x with an outcome)",
    )
    yield "parameters", f"{len(fit.param_names)}: {joined(fit.param_names)}"
    if posterior.divergence.on_groups:
        together = f"{groups.n_partitions} times over, " if groups.n_partitions > 1 else ""
        kind = {
            "distinct": "rows with equal covariates",
            "kmeans": "rows with nearby covariates",
            "singletons": "single rows",
        }[groups.name]
        asked = "auto chooses " if options.partition == Auto() else ""
        yield (
            "compared",
            f"{asked}{kind} ({groups.name}): {together}{groups.n_groups:,.0f} groups, median "
            f"{groups.median_size:,.0f} rows"
            + ("" if posterior.refine == "trim" else f"; slopes too steep {groups.steepness}"),
        )
        yield "bins", str(posterior.bins) if posterior.bins else "none: counts compared one by one"
    else:
        yield "compared", f"row by row ({posterior.divergence.name})"
    peak, each = _peak_memory(), "" if options.n_jobs in (None, 1) else " in each of its processes"
    yield (
        "memory",
        "not measured on this system"
        if peak is None
        else f"about {peak / 2**20:,.0f} MiB{each}: the peak of this check; draws come in blocks",
    )
    total = pilot.seconds(options)
    yield (
        "time",
        f"{in_words(total)} for {options.n_draws:,} draws"
        + (f", {in_words(pilot.floor)} of it for the noise floor" if pilot.floor else "")
        + f"; extrapolated from {posterior.n_draws:,} draws. A report takes a few seconds more.",
    )


def _outcome(fit: Fit) -> str:
    """The range of the outcome, or how often each of its levels comes."""
    posterior = fit.posterior
    cells, family = posterior.cells, posterior.model.family
    name = fit.data.outcome
    if family.levels:
        total = np.bincount(cells.y.astype(int), cells.counts, len(family.levels))
        levels = [f"{level} ({n:,g})" for level, n in zip(family.levels, total, strict=True)]
        return f"{name}: {joined(levels)}"
    mean = float(cells.p @ cells.y)
    zeros = float(cells.p[cells.y == 0].sum())
    return f"{name}: {cells.y.min():,g} to {cells.y.max():,g}, mean {mean:.3g}, {zeros:.0%} zeros"


def _peak_memory() -> float | None:
    """Bytes that this process has taken at its peak; None where the system does not say."""
    if sys.platform == "win32":
        return None
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return float(peak if sys.platform == "darwin" else 1024 * peak)


def _facts(fit: Fit, pilot: Pilot, options: Options, notes: list[str]) -> dict[str, Any]:
    """The same for a machine."""
    posterior = fit.posterior
    cells, groups = posterior.cells, posterior.groups
    return {
        "formula": fit.formula,
        "family": posterior.model.family.name,
        "n_rows": fit.n_rows,
        "n_distinct_rows": len(fit.data.counts),
        "n_left_out": fit.n_left_out,
        "n_unexposed": fit.data.n_unexposed,
        "n_x": cells.n_x,
        "n_cells": cells.n_cells,
        "parameters": list(fit.param_names),
        "outcome": {"low": finite(cells.y.min()), "high": finite(cells.y.max())},
        "levels": list(posterior.model.family.levels),
        "partition": groups.name,
        "n_partitions": groups.n_partitions,
        "n_groups": finite(groups.n_groups),
        "median_group": finite(groups.median_size),
        "expected_bias": finite(groups.expected_bias),
        "bins": str(posterior.bins) if posterior.bins else None,
        "peak_bytes": _peak_memory(),
        "seconds": finite(pilot.seconds(options)),
        "n_timed_draws": posterior.n_draws,
        "warnings": notes,
    }
