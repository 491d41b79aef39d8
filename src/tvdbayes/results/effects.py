"""Effects: what the expected outcome, or a probability, does on average over rows.

Averages are taken a stretch of rows at a time, for all draws, those of the likelihood fit and both
minimisers together: the rows of `every_theta`. So rows x draws never stand in memory, and an effect
of the robust fit is paired with that of the likelihood fit.

How fast columns change is found by differences of fourth order at two steps, combined (Richardson)
and compared. Rows where the two disagree are tried again with a smaller step, so that a logarithm
near 0 costs no accuracy, and no row is evaluated outside the range of the data, where splines
refuse to go. `scipy.differentiate.derivative` is not used: it takes one column at a time, keeps
shrinking a step that is below rounding already (a column of 1e6 + x**2 comes out wrong by 1e-4 and
more), and gives a number for a root at 0.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from tvdbayes._typing import Array, IntArray, Library
from tvdbayes.models.families import AbstractFamily
from tvdbayes.results.prediction import NewRows, parts_of, possible_rows, probability_of, stretches
from tvdbayes.sampling.execution import single_threaded
from tvdbayes.sampling.posterior import Posterior
from tvdbayes.sampling.summary import Summary, summarise

Outcomes = tuple[float, ...] | None
"""The outcomes whose probabilities are meant, or None for the expected outcome."""

_STEP = 2.0**-9
"""Of the differences in eta, on whose unit scale means change: errors are then below 1e-11."""
Rows = Callable[[Array, IntArray], Array]
"""From values (m,) and the numbers of their rows (m,) to the columns of these rows, (m, q)."""

_MOST_TRIES = 14
"""The last step is then below a trillionth of the first."""

_FIRST = 2.0**-5
"""The first step, as a share of the spread: long, for columns that are large and hardly move."""

_SHRINK = 1 / 8
_AGREES = 1e-10
"""Two steps that differ by this share or less need no third."""

_GOOD_ENOUGH = 1e-7
"""Relative error above which a derivative is reported as missing; a root at 0 has none."""

_ROUNDING = 64 * np.finfo(float).eps
_CHUNK = 1 << 17
"""Rows that are evaluated at a time."""

_NODES = np.array([[-2.0, -1.0, 0.0, 1.0, 2.0], [0.0, 1.0, 2.0, 3.0, 4.0]])
_WEIGHTS = np.array([[1.0, -8.0, 0.0, 8.0, -1.0], [-25.0, 48.0, -36.0, 16.0, -3.0]])


@dataclass(frozen=True, eq=False, repr=False)
class Effect:
    """Effects or averages in the units of the outcome, with their posterior draws.

    Parameters
    ----------
    names : tuple of str
        What each column is.
    draws, kld_draws : (B, K)
        One line for each posterior draw, and for the likelihood fit on the same random weights.
    minimiser, kld_minimiser : (K,)
        The same at the minimisers for the unweighted data; the second is maximum likelihood.
    what : str
        What was computed, in a sentence.
    library : str
        Whose data frames `Summary.to_frame` makes of it: that of the data.

    Examples
    --------
    >>> import tvdbayes as tb
    >>> fit = tb.fit("visits ~ age + region", tb.example_data(wrong=0.1), n_draws=50)
    >>> effect = fit.effects("age")
    >>> effect.what
    'Average slope in age of expected visits, over 1,000 rows.'
    >>> effect.estimate.round(1)  # a year more, so many visits more
    array([0.8])
    >>> effect.summary()["low"].round(1), effect.summary()["kld_low"].round(1)
    (array([0.7]), array([0.5]))
    """

    names: tuple[str, ...]
    draws: Array
    kld_draws: Array
    minimiser: Array
    kld_minimiser: Array
    what: str
    library: Library = "pandas"

    @property
    def estimate(self) -> Array:
        """Mean of the draws, (K,); without any, the value at the minimiser."""
        mean: Array = self.draws.mean(0) if len(self.draws) else self.minimiser
        return mean

    def summary(self, interval: float = 0.9) -> Summary:
        """Effects with intervals, robust beside likelihood fit, and their paired difference."""
        found = summarise(self.names, self.draws, self.kld_draws, interval)
        return replace(found, library=self.library)

    def __str__(self) -> str:
        if len(self.draws) > 1:
            return f"{self.what}\n{self.summary()}"
        pairs = zip(self.names, self.estimate, strict=True)
        lines = (f"{name} {value:.4g}" for name, value in pairs)
        return "\n".join([self.what, *lines])

    __repr__ = __str__


def average_outcome(
    posterior: Posterior, rows: NewRows, counts: Array, outcomes: Outcomes = None
) -> Array:
    """Average over rows, each counted `counts` (n,) times, for `every_theta`: (2B + 2, K)."""
    family, table = posterior.model.family, rows.table
    share = np.bincount(rows.number, counts / counts.sum(), table.n_x)
    total = np.zeros(())
    with single_threaded():
        for part, eta in stretches(posterior, table, _every_theta(posterior)):
            total = total + share[part] @ _value(family, outcomes, eta, table.trials[part, None])
    return total.T


def average_slope(
    posterior: Posterior, rows: NewRows, counts: Array, change: Array, outcomes: Outcomes = None
) -> Array:
    """Average derivative for `every_theta`, (2B + 2, K), as the covariates of rows change.

    ``change`` (n, p + 1) is the derivative of each row's columns, and of its offset.
    """
    family, table = posterior.model.family, rows.table
    # A derivative is linear in the change: rows of equal x share one, weighted.
    share = counts / counts.sum()
    joint: Array = np.stack(
        [np.bincount(rows.number, share * c, table.n_x) for c in change.T], axis=-1
    )
    total = np.zeros(())
    with single_threaded():
        for part, bound, theta in parts_of(posterior, table, _every_theta(posterior)):
            moved = bound.slope(theta, joint[part])
            trials = table.trials[part, None]
            total = total + _slope(family, outcomes, bound.eta(theta), moved, trials).sum(1)
    return total.T


def _every_theta(posterior: Posterior) -> Array:
    """Draws, those of the likelihood fit, and both minimisers, (2B + 2, d)."""
    points = [posterior.minimiser, posterior.kld_minimiser]
    return np.concatenate([posterior.draws, posterior.kld_draws, points])


def _value(family: AbstractFamily, outcomes: Outcomes, eta: Array, trials: Array) -> Array:
    """The expected outcome, or probabilities, (K, n, B)."""
    if outcomes is None:
        return family.mean(eta, trials)[None]
    return np.array([probability_of(family, y, eta, trials) for y in outcomes])


def _slope(
    family: AbstractFamily, outcomes: Outcomes, eta: Array, change: Array, trials: Array
) -> Array:
    """The derivative of `_value` (K, n, B) as the predictors (k, n, B) change."""
    if outcomes is None and not family.binary:
        return _mean_slope(family, eta, change, trials)[None]
    outcomes = (1.0,) if outcomes is None else outcomes
    found = np.zeros((len(outcomes), *eta.shape[1:]))
    for slope, y in zip(found, outcomes, strict=True):
        can = possible_rows(family, y, trials)
        if can.any():
            _, first = family.slopes(np.asarray(y), eta[:, can], trials[can])
            slope[can] = (first * change[:, can]).sum(0)
    return found


def _mean_slope(family: AbstractFamily, eta: Array, change: Array, trials: Array) -> Array:
    """The derivative of the mean (n, B), by a difference of fourth order of fixed length in eta."""
    size = np.abs(change).max(0)
    step = change * (_STEP / np.where(size > 0, size, 1.0))

    def gap(times: float) -> Array:
        return family.mean(eta + times * step, trials) - family.mean(eta - times * step, trials)

    slope: Array = size * (8 * gap(1.0) - gap(2.0)) / (12 * _STEP)
    return slope


def row_slopes(function: Rows, x: Array, spread: float, within: tuple[float, float]) -> Array:
    """Derivatives (n, q) at x (n,) of a function's q columns; NaN where there is none.

    The function is asked for values `within` an interval only, which holds x and is no shorter
    than `spread`, the scale of x on which to begin.
    """
    size = _CHUNK // (2 * _NODES.shape[1])
    # A step that is a power of two is added without rounding, wherever x lies.
    step = 2.0 ** np.floor(np.log2(spread)) * _FIRST
    parts = [np.arange(start, min(start + size, len(x))) for start in range(0, len(x), size)]
    return np.concatenate([_by_shrinking(function, x, part, step, within) for part in parts])


def _by_shrinking(
    function: Rows, x: Array, rows: IntArray, step: float, within: tuple[float, float]
) -> Array:
    """Shorten the step for the rows where it is too long, and keep the best of each entry."""
    found, error, noise = _estimate(function, x[rows], rows, step, within)
    left = np.arange(len(rows))
    for _ in range(_MOST_TRIES):
        # Rounding errors grow as steps shrink: smaller steps would not help.
        left = left[~(error <= _AGREES * np.abs(found) + noise)[left].all(axis=1)]
        if not left.size:
            break
        step *= _SHRINK
        new = _estimate(function, x[rows[left]], rows[left], step, within)
        better = new[1] < error[left]
        for kept, now in zip((found, error, noise), new, strict=True):
            kept[left] = np.where(better, now, kept[left])
    # Where a column hardly moves, the error counts by how it moves elsewhere.
    size = np.maximum(np.abs(found), np.abs(np.nan_to_num(found)).max(axis=0))
    return np.where(error <= _GOOD_ENOUGH * size + noise, found, np.nan)


def _estimate(
    function: Rows, x: Array, rows: IntArray, step: float, within: tuple[float, float]
) -> tuple[Array, Array, Array]:
    """Derivatives (m, q), how far the two steps disagree, and what rounding may do to them."""
    at_low, at_high = x - 2 * step < within[0], x + 2 * step > within[1]
    side = (at_low | at_high).astype(int)
    sign = np.where(at_high & ~at_low, -1.0, 1.0)
    nodes, weights = sign * _NODES[side].T, sign * _WEIGHTS[side].T
    points = np.concatenate([x + step * nodes, x + step / 2 * nodes])
    values = function(points.ravel(), np.tile(rows, len(points)))
    values = values.reshape(*points.shape, -1)
    with np.errstate(invalid="ignore", over="ignore"):
        wide = (weights[..., None] * values[:5]).sum(0) / (12 * step)
        narrow = (weights[..., None] * values[5:]).sum(0) / (6 * step)
        gap = narrow - wide
        noise = _ROUNDING * np.abs(values).max(0) / step
    off = np.where(np.isfinite(gap), np.abs(gap), np.inf)
    return narrow + gap / 15, off, np.where(np.isfinite(noise), noise, 0.0)
