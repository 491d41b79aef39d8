"""What a fit says by itself: its warnings, when they are said, and the rows that it used.

A *false alarm* is a statement about clean data: data drawn from the fitted model. Rules that
depend on chance state how often that may happen, `FALSE_ALARM`.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tvdbayes._errors import (
    BoundaryWarning,
    ConvergenceWarning,
    SeparationWarning,
    SmallGroupsWarning,
    TooFewRowsWarning,
    warn,
)
from tvdbayes._typing import Array, BoolArray, IntArray
from tvdbayes.data.cells import amount
from tvdbayes.models.model import name_of
from tvdbayes.objective import EDGE
from tvdbayes.objective.partitions import ENOUGH_ROWS
from tvdbayes.sampling.plan import AUTO_RIDGE, PILOT
from tvdbayes.sampling.summary import intervals
from tvdbayes.solvers import Status
from tvdbayes.trimming import KeptRows, farthest_column

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
_ENOUGH_CLUSTERS = 20
# A 90 % interval leaves out as much on each side.
_RIVAL = 0.05


def unsure(status: IntArray) -> int:
    """How many draws ended without a certified minimum, those at infinity not counted."""
    return int(np.isin(status, [Status.STALLED, Status.OUT_OF_STEPS]).sum())


def is_frequent(number: int, n_draws: int) -> bool:
    """Whether so many draws of all are more than 1 %, enough to matter for summaries."""
    return number > _FREQUENT * n_draws


def headline(posterior: "Posterior") -> str:
    """What was fitted: family, link, method, rows, draws and seed."""
    family = posterior.model.family
    link = f" ({family.link_name} link)" if family.link_name else ""
    return (
        f"{name_of(family)}{link} by {posterior.method}: {amount(posterior.cells.n_obs)} rows, "
        f"{posterior.n_draws:,} draws, seed {posterior.seed}"
    )


def how_it_went(posterior: "Posterior") -> str:
    """How the searches of all draws ended, by both fits, as a sentence."""
    ends, n = posterior.model.predictor.ends, posterior.n_draws
    told = []
    for whose, status in (("", posterior.status), (" of the likelihood fit", posterior.kld_status)):
        gone, uncertain = int((status == Status.SEPARATED).sum()), unsure(status)
        if gone:
            told.append(f"{gone:,} of {n:,} draws{whose} have their optimum at infinity")
        if uncertain:
            told.append(f"{uncertain:,} of {n:,} draws{whose} {ends.badly}")
    return f"{'; '.join(told) or f'all draws {ends.well}'}."


def small_groups(posterior: "Posterior") -> bool:
    """Whether the median row is compared with fewer rows than `ENOUGH_ROWS`, and that matters."""
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
    """How many draws (B, d) lie more than 6 robust deviations from the median in a coefficient."""
    middle = np.median(draws, axis=0)
    spread = 1.4826 * np.median(np.abs(draws - middle), axis=0)
    return int((np.abs(draws - middle) > _FAR * np.maximum(spread, 1e-12)).any(1).sum())


@dataclass(frozen=True)
class RowsUsed:
    """What is said of the rows of a fit; prints as a paragraph.

    Parameters
    ----------
    kept : str
    far : str
        What became of the rows far out in the covariates, with both answers where it matters; empty
        if there are none.
    doubtful : bool
        Whether the far rows contradict the others, or decide though they are too few to be judged.
    caveat : str
        Why two fits that agree do not tell that the far rows are right; empty if they do.
    """

    kept: str
    far: str
    doubtful: bool
    caveat: str

    def __str__(self) -> str:
        return " ".join(text for text in (self.kept, self.far) if text)


def rows_used(posterior: "Posterior") -> RowsUsed | None:
    """Which rows a fit used; None unless it is a trimmed likelihood."""
    kept, cells = posterior.kept_rows, posterior.cells
    if kept is None:
        return None
    out, far = kept.far_kept_out(cells), kept.of_far(cells)
    second = _with_and_without(posterior, kept, out)
    taken_in = kept.bend is not None or not kept.far_judged
    caveat = ""
    if out:
        caveat = "Rows far out that contradict the others were dropped, see rows used."
    elif far and taken_in:
        caveat = "Both use the rows far out, which need not be right: see rows used."
    doubtful = out or kept.bend is not None or bool(second and taken_in)
    return RowsUsed(kept.of_all(cells), f"{far} {second}".strip(), doubtful, caveat)


def second_answer(posterior: "Posterior") -> str:
    """The fit that some reweighted tables would choose instead; empty if hardly any does."""
    kept, draws = posterior.kept_rows, posterior.draws
    if kept is None or kept.second is None or kept.second_wins < _RIVAL or len(draws) < 2:
        return ""
    away = np.abs(draws.mean(0) - kept.second) / np.maximum(draws.std(0), 1e-300)
    j = int(np.argmax(away))
    return (
        f"In {kept.second_wins:.0%} of {PILOT} reweighted data sets other rows would be kept, "
        f"and the fit would be another one: the coefficient of {posterior.param_names[j]} is "
        f"{kept.second[j]:.3g} there, and {_shown(draws[:, j])} in this fit, whose draws do not "
        "show that. Look at the rows that are dropped."
    )


def _with_and_without(posterior: "Posterior", kept: KeptRows, out: bool) -> str:
    """Both answers for the coefficient in which they differ most; empty if none does."""
    draws, without = posterior.draws, kept.without_far
    others: Array = posterior.kld_draws
    if not out:
        if without is None or (kept.bend is None and kept.far_judged):
            return ""
        others = np.broadcast_to(without, draws.shape)
    apart = differing(draws, others)
    if not apart.any():
        return ""
    gap = draws - others
    away = np.abs(gap.mean(0)) / np.maximum(gap.std(0), 1e-300)
    j = int(np.argmax(np.where(apart, away, -1.0)))
    column = posterior.cells.names[
        farthest_column(posterior.cells, kept.far) if kept.bend is None else kept.bend
    ]
    spline = f"bs({column})" if column.isidentifier() else "a spline, bs(...),"
    name, shown = posterior.param_names[j], _shown(draws[:, j])
    if out:
        return (
            f"The coefficient of {name} is {shown} without them, which is shown, and "
            f"{_shown(others[:, j])} in the likelihood fit of all rows: "
            f'divergence="kld" shows that one, and {spline} in the formula models a bend.'
        )
    return (
        f"The coefficient of {name} is {shown} with them, which is shown, and {others[0, j]:.3g} "
        f"without them: leave them out of the data to see that fit, or model a bend by {spline} in "
        "the formula."
    )


def few_clusters(posterior: "Posterior") -> bool:
    """Whether clusters are so few that intervals are rough."""
    units = posterior.units
    return units is not None and units.clustered and units.n_units < _ENOUGH_CLUSTERS


def sampled(posterior: "Posterior") -> str:
    """What is reweighted at random, in a sentence; empty where it is single rows alike."""
    units, options = posterior.units, posterior.options
    if units is None:
        return ""

    def named(column: str | None) -> str:
        return "" if column is None else f" of {column!r}"

    text = "Random weights are those of "
    if units.clustered:
        size = np.sort(np.repeat(units.size, np.maximum(units.counts.astype(int), 1)))
        text += (
            f"{amount(units.n_units)} clusters{named(options.clusters)} "
            f"(median {size[len(size) // 2]:g} rows), not of single rows"
        )
    else:
        text += f"{amount(units.n_units)} rows"
    if units.n_strata > 1:
        text += f", within {units.n_strata:,} strata{named(options.strata)}"
    each = units.mass / units.rows
    if np.ptp(each) > 0:
        text += (
            f"; a row stands for {each.min():.2g} to {each.max():.2g} times as many as the mean"
            f"{named(options.sampling_weights)}"
        )
    if posterior.worth < 1:
        text += f". Where chance is judged, a row counts for {posterior.worth:.2f} independent ones"
    return f"{text}."


FEW_CLUSTERS = (
    "{n:g} clusters are few: how much clusters vary is found from {n:g} of them, so that intervals "
    "may hold the truth less often than they say, above all of effects that vary between clusters "
    "only. They are widened for that (jackknife by cluster, t law); from 20 clusters on it matters "
    "little."
)


def _shown(draws: Array) -> str:
    low, high = intervals(draws[:, None])[:, 0]
    return f"{draws.mean():.3g} [{low:.3g}, {high:.3g}]"


def warn_of(posterior: "Posterior", rescued: bool, alone: int) -> None:
    """Say once, with counts, what the statuses say draw by draw.

    ``alone`` is the status of the fit to the unweighted data, which matters where it is all.
    """
    n = posterior.status.size
    broken = alone in (Status.STALLED, Status.OUT_OF_STEPS)
    ends = posterior.model.predictor.ends
    if n == 0 and broken and ends.alone:
        warn(ends.alone, ConvergenceWarning)
    _warn_of_groups(posterior)
    if posterior.units is not None and few_clusters(posterior):
        warn(FEW_CLUSTERS.format(n=posterior.units.n_units), TooFewRowsWarning)
    if rescued:
        warn(
            "Some coefficients have their optimum at infinity (the covariates separate the "
            f"outcomes, or a rate is 0). A ridge of {AUTO_RIDGE} on the linear predictor keeps "
            "them finite; intercepts are not penalised. Pass ridge= to choose another.",
            SeparationWarning,
        )
    _warn_of_edges(posterior)
    for label, status in (("", posterior.status), ("likelihood (KLD) ", posterior.kld_status)):
        gone = int((status == Status.SEPARATED).sum())
        if gone:
            held = posterior.ridge > 0 and not label
            warn(
                f"{gone} of {n} {label}draws "
                + (
                    f"are kept finite by the ridge of {posterior.ridge:g} alone: without it their "
                    "minimum would lie far out or at infinity, so their slopes depend on it. "
                    if held
                    else f"have their optimum at infinity: {Status.SEPARATED.sentence} "
                )
                + "Look for a level or a rate with a single outcome, or covariates that separate "
                "the outcomes.",
                SeparationWarning,
            )
        badly = unsure(status)
        if is_frequent(badly, n):
            warn(
                f"{badly} of {n} {label}draws {ends.badly}{ends.advice}; `status` says which. "
                "They are kept.",
                ConvergenceWarning,
            )


def _warn_of_edges(posterior: "Posterior") -> None:
    """Say which further predictors (log scales, log odds) the data have driven to an end."""
    family, names = posterior.model.family, posterior.param_names
    named = family.predictors[family.n_main :] if not family.levels else family.predictors
    for name, value in zip(names, posterior.minimiser, strict=True):
        further = name.endswith(":Intercept") and name.rsplit(":", 1)[0] in named
        if further and abs(value) > EDGE:
            warn(
                f"{name!r} ended at {value:.3g}: the data drive it to {'-' if value < 0 else '+'}"
                "infinity (no inflation, no overdispersion, an unseen level). A simpler family "
                "fits as well; its interval means nothing.",
                BoundaryWarning,
            )


def _warn_of_groups(posterior: "Posterior") -> None:
    """Say what too small or too few groups do to the answer."""
    groups, d = posterior.groups, posterior.model.complexity(posterior.cells)
    if small_groups(posterior):
        warn(
            f"Half of the rows are compared in groups of fewer than {ENOUGH_ROWS} rows (median "
            f"group: {groups.median_size:g}). With so few, slopes are too steep and rates too low "
            f"even on clean data, here {groups.steepness}. Use the "
            'partition "auto", or fewer or coarser covariates.',
            SmallGroupsWarning,
        )
    if few_groups(posterior):
        warn(
            f"{posterior.cells.n_obs:g} rows make {groups.n_groups:g} groups for {d} parameters; "
            "with fewer than 2 groups per parameter the robust fit has little to go by. Drop "
            'covariates, raise the ridge, use divergence="density_power", or, if rows count '
            "successes of several trials, expand them to single 0/1 trials.",
            TooFewRowsWarning,
        )
