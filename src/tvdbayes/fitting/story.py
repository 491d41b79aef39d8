"""All that is told about a fit, asked of it once: what is doubtful about it, and the page."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain

import numpy as np

from tvdbayes._errors import DataError
from tvdbayes._typing import BoolArray
from tvdbayes.fitting.clusters import ClusterAnswers
from tvdbayes.fitting.effects import EffectAnswers, levels_of_column
from tvdbayes.report import INTERVAL, Averages, Story, covariates, listed, render
from tvdbayes.results.base import AbstractFit, needs_rows
from tvdbayes.results.better_family import better_family, fewer_dropped
from tvdbayes.results.findings import Check, Finding, Level, flat_ranges
from tvdbayes.results.misfit import Misfit
from tvdbayes.results.rows import suspicious_of
from tvdbayes.sampling.posterior import Posterior
from tvdbayes.sampling.statements import (
    FALSE_ALARM,
    FEW_CLUSTERS,
    differing,
    far_draws,
    few_clusters,
    few_groups,
    is_frequent,
    rows_used,
    sampled,
    second_answer,
    small_groups,
    unsure,
)
from tvdbayes.solvers import Status
from tvdbayes.storage import replacing

_FEW_DRAWS = 200
_MANY = 0.02
"""Share of dropped rows from which that is a note."""

Found = Iterator[tuple[Level, str, str]]
"""Findings: how good, about what, and what."""
_MOST_VARIABLES, _MOST_LEVELS = 12, 12
_FEW_VALUES = 8
"""Values of a column of numbers up to which each has a prediction of its own."""

_MOST_WORK = 1e8
"""Means of rows, draw by draw, that predictions may take: about two seconds."""


@dataclass(frozen=True)
class Rule:
    """A line of `check`, as in `Finding.about`, and when it is said.

    Beside them the stated share of clean data sets on which it may be; None for facts on the fit.
    """

    about: str
    when: str
    false_alarm: float | None


RULES = (
    Rule("search", "a draw has no certified minimum, or its optimum at infinity", FALSE_ALARM),
    Rule("likelihood search", "the same for the likelihood fit", FALSE_ALARM),
    Rule("sampling", "there are fewer than 20 clusters", None),
    Rule("groups", "groups are smaller, or fewer, than the method needs", None),
    Rule(
        "rows used",
        "over 2 % of the rows were dropped, or all are used because dropping many did not help",
        None,
    ),
    Rule(
        "far rows",
        "rows far out contradict the others, or are too few to be judged and decide a coefficient",
        FALSE_ALARM,
    ),
    Rule(
        "second answer", "over 5 % of reweighted tables choose another fit, far away", FALSE_ALARM
    ),
    Rule("bins", "counts are compared in bins", None),
    Rule("ties", "a nearly flat range is at least 1.4 posterior deviations wide", FALSE_ALARM),
    Rule("draws", "over 1 % of the draws lie more than 6 deviations from the others", FALSE_ALARM),
    Rule(
        "likelihood fit",
        "a simultaneous 95 % interval of the difference excludes 0, and it is at least "
        "three quarters of a posterior deviation",
        FALSE_ALARM,
    ),
    Rule("rounding", "rounding of covariates moves an estimate", None),
    Rule(
        "family",
        "another family explains half of what is unexplained, or drops half as many rows",
        FALSE_ALARM,
    ),
    Rule("misfit", "the lower bound of the share of wrong rows is above 0", FALSE_ALARM),
)
"""Every line that `check` can print with the level "note" or "problem". Those that depend on chance
state how often they appear on clean data; what was measured is in benchmarks/results/statements.md.
The others state facts about the fit."""


def check(fit: AbstractFit, misfit: Misfit | None) -> Check:
    """Look at the search, the groups, ties, the draws, and what cannot be explained.

    The rules, and how often each reports something on clean data, are `RULES`.
    """
    looks = (_search, _sampling, _groups, _rows_used, _ties, _draws, _difference, _others)
    found = [Finding(*one) for one in chain.from_iterable(look(fit) for look in looks)]
    if misfit is not None:
        found.append(Finding("note" if misfit.lower else "good", "misfit", misfit.about_share))
    return Check(tuple(found))


def _by_coefficient(fit: AbstractFit) -> bool:
    """Whether parameters can be looked at one by one; those of networks cannot."""
    return fit.posterior.model.predictor.averages


def _search(fit: AbstractFit) -> Found:
    ends = fit.posterior.model.predictor.ends
    searches = {"search": fit.status, "likelihood search": fit.posterior.kld_status}
    for about, status in searches.items():
        n, gone, uncertain = len(status), int((status == Status.SEPARATED).sum()), unsure(status)
        if gone:
            text = (
                f"{gone} of {n} draws have their optimum at infinity, or far out: some covariate "
                "separates the outcomes. Look for a level with a single outcome, merge it, or pass "
                "a larger ridge=."
            )
            yield "problem", about, text
        if uncertain:
            level: Level = "problem" if is_frequent(uncertain, n) else "note"
            yield level, about, f"{uncertain} of {n} draws {ends.badly}."
        edge = int((status == Status.BOUNDARY).sum())
        if edge:
            yield "note", about, f"{edge} of {n} draws: {Status.BOUNDARY.sentence}"
        if n and not gone and not uncertain:
            yield "good", about, f"All {n} draws {ends.well}."


def _sampling(fit: AbstractFit) -> Found:
    posterior = fit.posterior
    if posterior.units is None:
        return
    if few_clusters(posterior):
        yield "note", "sampling", FEW_CLUSTERS.format(n=posterior.units.n_units)
    yield "good", "sampling", sampled(posterior)


def _groups(fit: AbstractFit) -> Found:
    groups, posterior = fit.groups, fit.posterior
    if not posterior.divergence.on_groups:
        return
    if small_groups(posterior):
        text = (
            f"The median row is compared with only {groups.median_size:g} rows, too few: slopes "
            f'come out too steep {groups.steepness}. Use partition="auto", or fewer covariates.'
        )
        yield "problem", "groups", text
    else:
        # Slopes of a trimmed likelihood are not fitted to groups.
        shown = groups.made if posterior.refine == "trim" else groups
        yield "good", "groups", f"Rows are compared within groups ({shown})."
    if few_groups(posterior):
        d = posterior.model.complexity(posterior.cells)
        few = f"{groups.n_groups:g} groups for {d} parameters are few. Drop covariates."
        yield "problem", "groups", few
    if fit.bins is not None:
        yield "note", "bins", f"Counts are compared in bins: {fit.bins}."


def _rows_used(fit: AbstractFit) -> Found:
    posterior = fit.posterior
    kept, used = posterior.kept_rows, rows_used(posterior)
    if kept is None or used is None:
        return
    dropped = 1 - posterior.cells.p @ kept.share
    doubtful = dropped > _MANY or kept.route == "ordinary"
    yield "note" if doubtful else "good", "rows used", used.kept
    if used.far:
        yield "note" if used.doubtful else "good", "far rows", used.far
    second = second_answer(posterior)
    if second:
        yield "note", "second answer", second


def _ties(fit: AbstractFit) -> Found:
    plain = fit.posterior.divergence.name == "tvd" and fit.posterior.refine is None
    at_infinity = (fit.status == Status.SEPARATED).any()
    if not (plain and _by_coefficient(fit)) or len(fit.draws) < 2 or at_infinity:
        return
    flat = flat_ranges(fit.posterior)
    ranges = [
        f"{fit.param_names[j]} from {flat.low[j]:.4g} to {flat.high[j]:.4g} (which holds "
        f"{flat.inside[j]:.0%} of the draws)"
        for j in np.flatnonzero(flat.wide)
    ]
    if not ranges:
        yield "good", "ties", "The data determine all coefficients."
        return
    text = (
        f"The distance between data and model is nearly constant for {', '.join(ranges)}: the data "
        'hardly distinguish these values. refine="reweight" chooses among them by a weighted '
        "likelihood."
    )
    yield "note", "ties", text


def _draws(fit: AbstractFit) -> Found:
    n = len(fit.draws)
    if n < _FEW_DRAWS:
        text = (
            f"{n} draws are few for intervals; n_draws=1000 puts their ends within about 7 % of a "
            "posterior standard deviation."
        )
        yield "problem" if n < 2 else "note", "draws", text
        return
    text = (
        f"{n} independent draws: the Monte Carlo error of a posterior mean is "
        f"{1 / np.sqrt(n):.1%} of the posterior standard deviation."
    )
    yield "good", "draws", text
    away = far_draws(fit.draws) if _by_coefficient(fit) else 0
    if is_frequent(away, n):
        text = (
            f"{away / n:.1%} of the draws lie more than 6 deviations from the others, so the "
            "posterior may have a second mode. Plot a histogram of the draws."
        )
        yield "note", "draws", text


def comparison(posterior: Posterior, differs: BoolArray) -> str:
    """Whether the coefficients of both fits differ, in which of them, and what that means."""
    level = f"{FALSE_ALARM:.0%} level, all coefficients together"
    if differs.any():
        names = [name for name, apart in zip(posterior.param_names, differs, strict=True) if apart]
        return (
            f"The robust and the likelihood fit differ in {listed(names)} ({level}): some rows, or "
            "the form of the model, influence the likelihood fit."
        )
    used = rows_used(posterior)
    caveat = used.caveat if used else ""
    return (
        "The robust and the likelihood fit do not differ by more than chance "
        f"({level}). {caveat}".strip()
    )


def _difference(fit: AbstractFit) -> Found:
    if len(fit.draws) < 2 or fit.posterior.divergence.name == "kld" or not _by_coefficient(fit):
        return
    differs = differing(fit.draws, fit.kld_draws)
    text = comparison(fit.posterior, differs)
    if differs.any():
        text += " See rows() and the columns diff of summary()."
    yield "note" if differs.any() else "good", "likelihood fit", text


def _others(fit: AbstractFit) -> Found:
    if fit.rounded is not None:
        yield "note" if fit.rounded.matters else "good", "rounding", str(fit.rounded)
    better = better_family(fit.posterior) or fewer_dropped(fit.posterior)
    if better is not None:
        yield "note", "family", str(better)


class ReportAnswers(EffectAnswers, ClusterAnswers):
    """Methods of `Fit` that look for problems, and that write a page of the answers."""

    @needs_rows
    def check(self, *, misfit: bool = True) -> Check:
        """What is good and what is doubtful about this fit, in plain words.

        `misfit` includes the unexplained share, which takes some refits.

        Lines that depend on chance are false alarms on at most 5 % of clean data sets each:
        ``search``, ``ties`` (a nearly flat range at least 1.4 posterior deviations wide),
        ``draws`` (a second mode), ``far rows`` (these contradict the others, or decide), ``second
        answer`` (reweighted tables would choose another fit), ``likelihood fit`` (a simultaneous
        interval for all coefficients excludes 0, and the difference is at least three quarters of
        a posterior deviation), ``family`` (another one explains more) and ``misfit`` (its lower
        bound is above 0). The measured shares are in benchmarks/results/statements.md.
        The lines ``rows used``, ``groups``, ``bins``, ``rounding`` and the number of draws are
        facts about the fit.

        Examples
        --------
        >>> import tvdbayes as tb
        >>> fit = tb.fit("visits ~ age", tb.example_data(wrong=0.1), n_draws=50)
        >>> found = fit.check(misfit=False)
        >>> [finding.about for finding in found.findings if finding.level == "note"]
        ['rows used', 'draws', 'likelihood fit']
        >>> found.problems
        ()
        """
        looked_at = misfit and self.posterior.n_draws > 1
        return check(self, self.misfit() if looked_at else None)

    @needs_rows
    def report(self, path: str | os.PathLike[str], *, title: str | None = None) -> None:
        """Write one self-contained HTML page about this fit, which must have coefficients.

        Parameters
        ----------
        path : str or path
            The file to write.
        title : str, optional
            What stands above; made from the formula unless given.

        Examples
        --------
        >>> import tempfile, tvdbayes as tb
        >>> from pathlib import Path
        >>> fit = tb.fit("visits ~ age", tb.example_data(wrong=0.1), n_draws=50)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     fit.report(f"{folder}/fit.html", title="Visits, for the record")
        ...     page = Path(folder, "fit.html").read_text()
        >>> page[:15], "Visits, for the record" in page
        ('<!DOCTYPE html>', True)
        """
        self.posterior.require_coefficients(
            "for a report to be about", "check(), misfit(), effects() and the pictures of plot"
        )
        # The file is begun first, so that nobody waits for a page that cannot be written.
        with replacing(path) as file:
            file.write(render(story_of(self), title=title).encode())


def story_of(fit: ReportAnswers, *, averages: bool = True) -> Story:
    """Ask a fit for everything that is told about it.

    ``averages`` includes average predictions and slopes, which only the page shows.
    """
    posterior = fit.posterior
    enough = posterior.n_draws > 1
    misfit, rows = fit.misfit(INTERVAL) if enough else None, fit._rows()
    differs = differing(posterior.draws, posterior.kld_draws)
    summary = posterior.summary(INTERVAL) if enough else None
    ratios = posterior.model.ratios(posterior.cells)
    return Story(
        fit=fit,
        summary=summary,
        ratios=summary.exponentiated(ratios) if summary is not None and any(ratios) else None,
        differs=differs,
        comparison=comparison(posterior, differs),
        misfit=misfit,
        rows=rows,
        suspicious=suspicious_of(fit, rows),
        rows_used=rows_used(posterior),
        findings=check(fit, misfit).findings,
        averages=averages_of(fit) if averages else None,
    )


def averages_of(fit: EffectAnswers) -> Averages:
    """Averages over the data, a column set to each of its values, and slopes in numbers."""
    data, family = fit.data, fit.posterior.model.family
    levels, slopes, notes, skipped = [fit.predictions()], [], list[str](), list[str]()
    each = fit.posterior.cells.n_x * (2 * fit.posterior.n_draws + 2) * max(1, len(family.levels))
    left, columns = _MOST_WORK, covariates(data, fit.formula)
    for name in columns:
        compared, column = levels_of_column(fit, name), data.columns[name]
        values = list(compared or np.unique(column.values).tolist())
        if compared is None and len(values) > _FEW_VALUES:
            values = []
        left -= each * max(1, len(values))
        if name in columns[_MOST_VARIABLES:] or len(values) > _MOST_LEVELS or left < 0:
            skipped.append(name)
            continue
        try:
            if values:
                levels.append(fit.predictions({name: values}))
            if compared is None:
                slopes.append(fit.effects(name))
        except DataError as error:
            # A slope need not exist, as that of log(x) at 0: the page says so.
            notes.append(f"{name}: {error}")
    if skipped:
        notes.append(
            f"Not shown here, for time and room: {listed(skipped)}. Ask fit.predictions or "
            "fit.effects for them."
        )
    quantity = f"probability of {data.outcome}" if family.levels else f"expected {data.outcome}"
    if family.binary:
        quantity = f"probability of {data.outcome} = {family.levels[1] if family.levels else 1}"
    return Averages(quantity, tuple(levels), tuple(slopes), tuple(notes))
