"""What is good and what is doubtful about a fit, in plain words."""

from collections.abc import Iterator

import numpy as np

from tvdbayes._typing import BoolArray
from tvdbayes.fitting.base import AbstractFit
from tvdbayes.fitting.misfit import MisfitAnswers
from tvdbayes.report import listed
from tvdbayes.results import better_family
from tvdbayes.results.findings import Check, Finding, Level
from tvdbayes.results.misfit import Misfit
from tvdbayes.results.ties import flat_ranges
from tvdbayes.sampling.posterior import Posterior
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

__all__ = ["Check", "CheckAnswers", "check", "comparison"]

_FEW_DRAWS = 200
_MANY = 0.02
"""Share of dropped rows from which that is a note."""


class CheckAnswers(MisfitAnswers):
    """The method of `Fit` that looks for problems."""

    def check(self, *, misfit: bool = True) -> Check:
        """What is good and what is doubtful about this fit, in plain words.

        `misfit` includes the unexplained share, which takes some refits.

        Lines that depend on chance are false alarms on at most 5 % of clean data sets each:
        ``search``, ``ties`` (a nearly flat range at least 1.4 posterior deviations wide),
        ``draws`` (a second mode), ``far rows`` (these contradict the others, or decide), ``ordinary
        fit`` (a simultaneous interval for all coefficients excludes 0, and the difference is at
        least half a posterior deviation), ``family`` (another one explains more) and ``misfit``
        (its lower bound is above 0). The measured shares are in benchmarks/results/statements.md.
        The lines ``rows used``, ``groups``, ``bins``, ``rounding`` and the number of draws are
        facts about the fit.

        Examples
        --------
        >>> import tvdbayes as tb
        >>> fit = tb.fit("y ~ 1", {"y": [0, 1, 1, 2, 2, 3, 30] * 10}, n_draws=50)
        >>> found = fit.check(misfit=False)
        >>> for finding in found.findings:
        ...     print(finding.level, finding.about)
        good search
        good ordinary search
        good groups
        note rows used
        note draws
        note ordinary fit
        >>> print(found.findings[-1].text)
        The robust and the likelihood fit differ in Intercept (5% level, all coefficients together):
        some rows, or the form of the model, influence the likelihood fit. See rows() and the
        columns diff of summary().
        >>> found.problems
        ()
        """
        looked_at = misfit and self.posterior.n_draws > 1 and self.posterior.prior is None
        return check(self, self.misfit() if looked_at else None)


def check(fit: AbstractFit, misfit: Misfit | None) -> Check:
    """Look at the search, the groups, ties, the draws, and what cannot be explained.

    The rules, and how often each reports something on clean data, are in `sampling.rules`.
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
    if misfit is not None:
        found.append(_misfit(misfit))
    return Check(tuple(found))


def _by_coefficient(fit: AbstractFit) -> bool:
    """Whether parameters can be looked at one by one; those of networks cannot."""
    return fit.posterior.model.predictor.averages


def _search(fit: AbstractFit) -> Iterator[Finding]:
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


def _groups(fit: AbstractFit) -> Iterator[Finding]:
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
        yield Finding("good", "groups", f"Rows are compared within groups ({shown}).")
    if few_groups(fit.posterior):
        d = fit.posterior.model.complexity(fit.posterior.cells)
        yield Finding(
            "problem",
            "groups",
            f"{groups.n_groups:g} groups for {d} parameters are few. Drop covariates.",
        )
    if fit.bins is not None:
        yield Finding("note", "bins", f"Counts are compared in bins: {fit.bins}.")


def _rows_used(fit: AbstractFit) -> Iterator[Finding]:
    posterior = fit.posterior
    kept, used = posterior.kept_rows, rows_used(posterior)
    if kept is None or used is None:
        return
    dropped = 1 - posterior.cells.p @ kept.share
    doubtful = dropped > _MANY or kept.route == "ordinary"
    yield Finding("note" if doubtful else "good", "rows used", used.kept)
    if used.far:
        yield Finding("note" if used.doubtful else "good", "far rows", used.far)


def _ties(fit: AbstractFit) -> Iterator[Finding]:
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
        yield Finding("good", "ties", "The data determine all coefficients.")


def _draws(fit: AbstractFit) -> Iterator[Finding]:
    n = len(fit.draws)
    if n < _FEW_DRAWS:
        yield Finding(
            "problem" if n < 2 else "note",
            "draws",
            f"{n} draws are few for intervals; n_draws=1000 puts their ends within about 7 % of a "
            "posterior standard deviation.",
        )
        return
    yield Finding(
        "good",
        "draws",
        f"{n} independent draws: the Monte Carlo error of a posterior mean is "
        f"{1 / np.sqrt(n):.1%} of the posterior standard deviation.",
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


def _difference(fit: AbstractFit) -> Iterator[Finding]:
    if len(fit.draws) < 2 or fit.posterior.divergence.name == "kld" or not _by_coefficient(fit):
        return
    differs = differing(fit.draws, fit.kld_draws)
    text = comparison(fit.posterior, differs)
    if differs.any():
        text += " See rows() and the columns diff of summary()."
    yield Finding("note" if differs.any() else "good", "ordinary fit", text)


def _rounding(fit: AbstractFit) -> Iterator[Finding]:
    if fit.rounded is not None:
        yield Finding("note" if fit.rounded.matters else "good", "rounding", str(fit.rounded))


def _family(fit: AbstractFit) -> Iterator[Finding]:
    better = better_family(fit.posterior)
    if better is not None:
        yield Finding("note", "family", str(better))


def _misfit(share: Misfit) -> Finding:
    return Finding("note" if share.lower else "good", "misfit", share.about_share)
