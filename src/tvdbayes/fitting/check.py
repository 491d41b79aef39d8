"""What is good and what is doubtful about a fit, in plain words."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np

from tvdbayes.fitting.record import Fit
from tvdbayes.results import better_family
from tvdbayes.results.ties import flat_ranges
from tvdbayes.sampling.html import html_table
from tvdbayes.sampling.rows_used import rows_used
from tvdbayes.sampling.rules import (
    FALSE_ALARM,
    differing,
    far_draws,
    few_groups,
    is_frequent,
    small_groups,
    unsure,
)
from tvdbayes.solvers import Status

__all__ = ["Check", "Finding", "check"]

Level = Literal["good", "note", "problem"]

_FEW_DRAWS = 200
_MANY = 0.02
"""Share of dropped rows from which that is a note."""


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at."""

    level: Level
    about: str
    text: str


@dataclass(frozen=True)
class Check:
    """Findings about a fit; prints as a list."""

    findings: tuple[Finding, ...]

    @property
    def problems(self) -> tuple[Finding, ...]:
        """Problems to resolve before the fit is used."""
        return tuple(f for f in self.findings if f.level == "problem")

    def __str__(self) -> str:
        width = max(len(f.about) for f in self.findings)
        return "\n".join(f"{f.level:<8} {f.about:<{width}}  {f.text}" for f in self.findings)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        lines = ([f.about, f.level, f.text] for f in self.findings)
        return html_table("Check", ["", "", ""], lines)


def check(fit: Fit, *, misfit: bool = True) -> Check:
    """Look at the search, the groups, ties, the draws, and what cannot be explained.

    The rules, and how often each reports something on clean data, are in `posterior.rules`.
    """
    found = [
        *_search(fit),
        *_groups(fit),
        *_rows_used(fit),
        *_ties(fit),
        *_draws(fit),
        *_difference(fit),
        *_rounding(fit),
        *_family(fit),
    ]
    if misfit and fit.posterior.n_draws > 1 and fit.posterior.prior is None:
        found.append(_misfit(fit))
    return Check(tuple(found))


def _by_coefficient(fit: Fit) -> bool:
    """Whether parameters can be looked at one by one; those of networks cannot."""
    return fit.posterior.model.predictor.averages


def _search(fit: Fit) -> Iterator[Finding]:
    ends = fit.posterior.model.predictor.ends
    for about, status in (
        ("search", fit.status),
        ("ordinary search", fit.posterior.kld_status),
    ):
        n = len(status)
        gone = int((status == Status.SEPARATED).sum())
        uncertain = unsure(status)
        if gone:
            yield Finding(
                "problem",
                about,
                f"{gone} of {n} draws have their optimum at infinity, or far out: some covariate "
                "separates the outcomes. Look for a level with a single outcome, merge it, or pass "
                "a larger ridge=.",
            )
        if uncertain:
            level: Level = "problem" if is_frequent(uncertain, n) else "note"
            yield Finding(level, about, f"{uncertain} of {n} draws {ends.badly}.")
        if n and not gone and not uncertain:
            yield Finding("good", about, f"All {n} draws {ends.well}.")


def _groups(fit: Fit) -> Iterator[Finding]:
    groups = fit.groups
    if not fit.posterior.divergence.on_groups:
        return
    if small_groups(fit.posterior):
        yield Finding(
            "problem",
            "groups",
            f"The median row is compared with only {groups.median_size:g} rows, too few: slopes "
            f"come out too steep {groups.steepness}. Use "
            'partition="auto", or fewer covariates.',
        )
    else:
        # Slopes of a trimmed likelihood are not fitted to groups.
        shown = groups.made if fit.posterior.refine == "trim" else groups
        yield Finding("good", "groups", f"Rows are compared by {shown}.")
    if few_groups(fit.posterior):
        d = fit.posterior.model.complexity(fit.posterior.cells)
        yield Finding(
            "problem",
            "groups",
            f"{groups.n_groups:g} groups for {d} parameters are few. Drop covariates.",
        )
    if fit.bins is not None:
        yield Finding("note", "bins", f"Counts are compared in bins: {fit.bins}.")


def _rows_used(fit: Fit) -> Iterator[Finding]:
    posterior = fit.posterior
    kept, used = posterior.kept_rows, rows_used(posterior)
    if kept is None or used is None:
        return
    dropped = 1 - posterior.cells.p @ kept.share
    doubtful = dropped > _MANY or kept.route == "ordinary"
    yield Finding("note" if doubtful else "good", "rows used", used.kept)
    if used.far:
        yield Finding("note" if used.doubtful else "good", "far rows", used.far)


def _ties(fit: Fit) -> Iterator[Finding]:
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
    if ranges:
        yield Finding(
            "note",
            "ties",
            f"The distance between data and model is nearly constant for {', '.join(ranges)}: "
            'the data hardly distinguish these values. refine="reweight" chooses among them by a '
            "weighted likelihood.",
        )
    else:
        yield Finding("good", "ties", "Moving any single coefficient changes the distance.")


def _draws(fit: Fit) -> Iterator[Finding]:
    n = len(fit.draws)
    if n < _FEW_DRAWS:
        yield Finding(
            "problem" if n < 2 else "note",
            "draws",
            f"{n} draws are few for intervals; n_draws=1000 puts their ends within about 7 % of a "
            "deviation.",
        )
        return
    yield Finding(
        "good",
        "draws",
        f"{n} independent draws: a mean is off by {1 / np.sqrt(n):.1%} of its deviation.",
    )
    if not _by_coefficient(fit):
        return
    away = far_draws(fit.draws)
    if is_frequent(away, n):
        yield Finding(
            "note",
            "draws",
            f"{away / n:.1%} of the draws lie more than 6 deviations from the others, so the "
            "posterior may have a second mode. Plot a histogram of the draws.",
        )


def _difference(fit: Fit) -> Iterator[Finding]:
    if len(fit.draws) < 2 or fit.posterior.divergence.name == "kld" or not _by_coefficient(fit):
        return
    apart = np.array(fit.param_names)[differing(fit.draws, fit.kld_draws)]
    level = f"{FALSE_ALARM:.0%} level, all coefficients together"
    if apart.size:
        yield Finding(
            "note",
            "ordinary fit",
            f"The robust and the likelihood fit differ in {', '.join(apart)} ({level}): some rows, "
            "or the form of the model, influence the likelihood fit. See rows() and the columns "
            "diff of summary().",
        )
    else:
        used = rows_used(fit.posterior)
        caveat = used.caveat if used else ""
        yield Finding(
            "good",
            "ordinary fit",
            f"The robust and the likelihood fit do not differ by more than chance ({level}). "
            f"{caveat}".strip(),
        )


def _rounding(fit: Fit) -> Iterator[Finding]:
    if fit.rounded is not None:
        yield Finding("note" if fit.rounded.matters else "good", "rounding", str(fit.rounded))


def _family(fit: Fit) -> Iterator[Finding]:
    better = better_family(fit.posterior)
    if better is not None:
        yield Finding("note", "family", str(better))


def _misfit(fit: Fit) -> Finding:
    share = fit.misfit()
    level: Level = "good" if share.lower == 0 else "note"
    return Finding(level, "misfit", " ".join(str(share).split("\n")[:2]))
