"""The rules behind `Fit.check`, the warnings of a fit and the report, each defined once.

A *false alarm* is a line that appears on clean data: data drawn from the fitted model. Rules that
depend on chance state how often that may happen, `FALSE_ALARM`; the measured shares are in
``benchmarks/results/statements.md``. The other rules state facts about the fit, such as the size of
its groups, and have no error rate.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tvdbayes._typing import Array, BoolArray, IntArray
from tvdbayes.objective.partitions import ENOUGH_ROWS
from tvdbayes.solvers import Status

if TYPE_CHECKING:
    from tvdbayes.sampling.posterior import Posterior

FALSE_ALARM = 0.05
"""Stated share of clean data sets on which a rule that depends on chance may report something."""

# One draw in a hundred leaves quantiles and means where they are.
_FREQUENT = 0.01
_GROUPS_PER_PARAMETER = 2
# A normal law has 2e-9 of its mass beyond 6 deviations.
_FAR = 6.0
# Two estimates this near, in posterior deviations, lead to the same conclusions.
_MATTERS = 0.75
_ROUNDING = 1e-9


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
    Rule("ordinary search", "the same for the likelihood fit", FALSE_ALARM),
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
    Rule("bins", "counts are compared in bins", None),
    Rule("ties", "a nearly flat range is at least 1.4 posterior deviations wide", FALSE_ALARM),
    Rule("draws", "over 1 % of the draws lie more than 6 deviations from the others", FALSE_ALARM),
    Rule(
        "ordinary fit",
        "a simultaneous 95 % interval of the difference excludes 0, and it is at least "
        "three quarters of a posterior deviation",
        FALSE_ALARM,
    ),
    Rule("rounding", "rounding of covariates moves an estimate", None),
    Rule("family", "much is unexplained, and another family explains half of it", FALSE_ALARM),
    Rule("misfit", "the lower bound of the share of wrong rows is above 0", FALSE_ALARM),
)
"""Every line that `check` can print with the level "note" or "problem"."""


def unsure(status: IntArray) -> int:
    """How many draws ended without a certified minimum, those at infinity not counted."""
    return int(np.isin(status, [Status.STALLED, Status.OUT_OF_STEPS]).sum())


def is_frequent(number: int, n_draws: int) -> bool:
    """Whether so many draws of all are more than 1 %, enough to matter for summaries."""
    return number > _FREQUENT * n_draws


def small_groups(posterior: "Posterior") -> bool:
    """Whether the median row is compared with fewer rows than `ENOUGH_ROWS`, and that matters.

    A trimmed likelihood is not fitted to groups, so it does not suffer from small or few ones.
    """
    return _fits_groups(posterior) and posterior.groups.median_size < ENOUGH_ROWS


def few_groups(posterior: "Posterior") -> bool:
    """Whether pooled rows make fewer than 2 groups for each parameter (`Model.complexity`)."""
    pooled = _fits_groups(posterior) and posterior.partition.pools_rows
    d = posterior.model.complexity(posterior.cells)
    return pooled and posterior.groups.n_groups < _GROUPS_PER_PARAMETER * d


def _fits_groups(posterior: "Posterior") -> bool:
    return posterior.divergence.on_groups and posterior.refine != "trim"


def differing(draws: Array, kld_draws: Array) -> BoolArray:
    """Which coefficients of two sets of paired draws (B, d) differ by more than chance, (d,).

    The simultaneous interval of all d mean differences is ``mean +- q sd``, where q is the 95 %
    point of the largest deviation of any coefficient of a draw, in units of its sd (max-t, as in
    Westfall and Young, 1993). A coefficient differs if its interval excludes 0, so that on clean
    data any coefficient does with a probability of about `FALSE_ALARM`, whatever their number. At
    least 19 draws are needed to find q; with fewer none is called different.

    A difference must also be at least three quarters of a deviation of the draws: where a trimmed
    fit drops one row of clean data, the difference of the two fits hardly varies, so that it would
    be called significant however small it is.

    The draws of a TVD fit spread more than estimates do from data set to data set where x repeats,
    so that the rate is far below the stated one there. Biases of the robust fit are not subtracted.
    """
    difference = draws - kld_draws
    n = len(difference)
    rank = int(np.ceil((n + 1) * (1 - FALSE_ALARM)))
    if rank > n:
        return np.zeros(difference.shape[1], bool)
    mean, sd = difference.mean(0), difference.std(0, ddof=1)
    away = np.abs(difference - mean)
    largest = np.divide(away, sd, out=np.zeros_like(away), where=sd > 0).max(1)
    beyond = np.maximum(np.sort(largest)[rank - 1] * sd, _MATTERS * draws.std(0, ddof=1))
    # Where all draws are the same there is nothing but rounding.
    beyond = np.maximum(beyond, _ROUNDING * np.abs(draws).max(0))
    apart: BoolArray = np.abs(mean) > beyond
    return apart


def far_draws(draws: Array) -> int:
    """How many draws (B, d) lie more than 6 deviations from the median in some coefficient.

    The deviation is 1.4826 times the median absolute deviation, which draws far away do not change.
    """
    middle = np.median(draws, axis=0)
    spread = 1.4826 * np.median(np.abs(draws - middle), axis=0)
    return int((np.abs(draws - middle) > _FAR * np.maximum(spread, 1e-12)).any(1).sum())
