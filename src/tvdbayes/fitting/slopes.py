"""How fast columns change: derivatives of a function that is known by its values alone.

Differences of fourth order at two steps are combined (Richardson) and compared. Rows where the two
disagree are tried again with a smaller step, so that a logarithm near 0 costs no accuracy, and no
row is evaluated outside the range of the data, where splines refuse to go.

`scipy.differentiate.derivative` is not used: it takes one column at a time, keeps shrinking a step
that is below rounding already (a column of 1e6 + x**2 comes out wrong by 13 % and more), and gives
a number for a root at 0.
"""

from collections.abc import Callable

import numpy as np

from tvdbayes._typing import Array, IntArray

__all__ = ["row_slopes"]

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
"""What is worse than this after all steps is no derivative: a root at 0 has none."""

_ROUNDING = 64 * np.finfo(float).eps
_CHUNK = 1 << 17
"""Rows that are evaluated at a time."""

_NODES = np.array([[-2.0, -1.0, 0.0, 1.0, 2.0], [0.0, 1.0, 2.0, 3.0, 4.0]])
_WEIGHTS = np.array([[1.0, -8.0, 0.0, 8.0, -1.0], [-25.0, 48.0, -36.0, 16.0, -3.0]])


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
        # What rounding may do grows as steps shrink: below it there is nothing to gain.
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
