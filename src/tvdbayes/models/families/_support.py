"""What several families share: bounds, and nodes of sums over counts without a largest value.

A sum over a long stretch of counts is replaced by a weighted sum over few of them (Gaussian
quadrature for sums), which is exact to rounding where the pmf is smooth.
"""

import numpy as np

from tvdbayes._array import gauss_sum, xp
from tvdbayes._typing import Array
from tvdbayes.models.families._base import AbstractFamily

CERTAIN = 1e-6
"""A distribution is degenerate if it leaves less than this for all outcomes but one: its parameters
can then move without a visible change of the probabilities."""

LARGE_DISPERSION = 60.0
"""Bound on the log dispersion: exp of it, times any count, can still be squared."""

SMALL = 50
"""Below this count the pmf by log-gamma is right to 13 digits, and faster than Loader's form."""

_SIDE = 64
"""Nodes on either side of the mean: 16 deviations of a wide bump."""
_FIRST = 24.0
"""Counts below this are summed one by one."""

_FARTHEST = 1e15
"""Beyond this many, neighbouring counts are the same floating-point number."""
_NARROWEST, _WIDEST = 0.002, 0.5
"""Growth of stretches, as a share of y: at least the first, so that sums end; at most the second,
so that Gauss nodes stay accurate."""


def panels(reach: Array, width: Array, ndim: int) -> tuple[Array, Array]:
    """Nodes and weights, (S, 1, ...), of a sum from 0 to the largest `reach`.

    Stretches grow with the distance from 0: by a factor of at most the smallest `width`, which is
    how far, as a share of y, a pmf stays smooth.
    """
    last = min(float(np.max(reach)), _FARTHEST)
    growth = float(np.clip(np.min(width), _NARROWEST, _WIDEST))
    found, low = [gauss_sum(0.0, _FIRST - 1, int(_FIRST))], _FIRST
    while low <= last:
        high = low + max(12.0, np.floor(growth * low)) - 1
        found.append(gauss_sum(low, high))
        low = high + 1
    y, weights = (np.concatenate(parts) for parts in zip(*found, strict=True))
    shape = (-1,) + (1,) * ndim
    return y.reshape(shape), weights.reshape(shape)


def count_nodes(mean: Array, dispersion: Array) -> tuple[Array, Array]:
    """Nodes for counts of variance mean + dispersion * mean ** 2 with tails like a geometric's."""
    spread = np.sqrt(mean + dispersion * mean * mean)
    reach = mean + 45 * (1 + spread + dispersion * mean)
    return panels(reach, spread / np.maximum(mean, 1e-300), mean.ndim)


def bump_nodes(mean: Array, variance: Array) -> tuple[Array, Array]:
    """Nodes for sums of a unimodal pmf (or a power of it) with this mean and variance.

    Where it is wide, a sum over every step-th outcome times the step is the whole sum to all digits
    (the trapezoid rule on a smooth bump).
    """
    step = xp.maximum(1.0, xp.floor(xp.sqrt(variance) / 4))
    offsets = xp.arange(-_SIDE, _SIDE + 1.0).reshape((-1,) + (1,) * mean.ndim)
    y = xp.floor(mean) + step * offsets
    inside = y >= 0
    return xp.where(inside, y, 0.0), step * inside


def mean_by_sum(family: AbstractFamily, eta: Array, trials: Array) -> Array:
    """Expected outcome where there is no closed form."""
    y, weights = family.nodes(eta, trials, 1.0)
    total = np.zeros(eta.shape[1:])
    for outcome, weight in zip(y, weights, strict=True):
        total += weight * outcome * family.pmf(outcome, eta, trials)
    return total
