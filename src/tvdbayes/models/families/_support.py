"""What several families share: bounds, and sums over the outcomes that are possible.

A sum over a long stretch of counts is replaced by a weighted sum over few of them (Gaussian
quadrature for sums), which is exact to rounding where the pmf is smooth.

With one predictor and no trials the sum S of a power of the pmf is a function of eta alone. A table
holds log S with its first two derivatives on a grid; between the points it is the polynomial of
degree five that meets all six values (quintic Hermite interpolation), so that the derivatives that
are returned are those of the value that is returned. Its error is ``h^6 / 46080`` times the sixth
derivative of log S: on this grid below the rounding errors of the sum itself.
"""

from functools import lru_cache

import numpy as np
from scipy.linalg import eigh_tridiagonal

from tvdbayes._array import xp
from tvdbayes._typing import Array
from tvdbayes.models.families._base import AbstractFamily, Jet

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

_PER_UNIT = 64
"""Points of the grid in a unit of eta."""
_LOW, _HIGH = -30, 10
"""The table reaches from here to here, a rate of 22,000; beyond it every sum is taken."""
_HERMITE = np.array(
    [
        [1, 0, 0, 0, 0, 0],
        [0, 1, 0, 0, 0, 0],
        [0, 0, 0.5, 0, 0, 0],
        [-10, -6, -1.5, 10, -4, 0.5],
        [15, 8, 1.5, -15, 7, -1],
        [-6, -3, -0.5, 6, -3, 0.5],
    ]
)
"""Coefficients, from the constant up, on (0, 1) by value and two derivatives at 0, and at 1."""


def gauss_sum(low: float, high: float, n_nodes: int = 12) -> tuple[Array, Array]:
    """Nodes and weights of the sum over low, low + 1, ..., high.

    At most `n_nodes` of them: all outcomes of a short stretch; of a longer one the nodes that make
    the sum exact for polynomials of degree below twice their number (Gauss, for Gram polynomials).
    """
    n = high - low + 1
    if n <= n_nodes:
        return np.arange(low, high + 1), np.ones(int(n))
    nodes, weights = _gauss(n, n_nodes)
    return (low + high) / 2 + nodes, weights


@lru_cache(maxsize=4096)
def _gauss(n: float, n_nodes: int) -> tuple[Array, Array]:
    """Nodes about 0, and weights, of the sum over n outcomes."""
    k = np.arange(1.0, n_nodes)
    off = k / 2 * np.sqrt((n * n - k * k) / (4 * k * k - 1))
    nodes, vectors = eigh_tridiagonal(np.zeros(n_nodes), off)
    found = np.asarray(nodes, float), np.asarray(n * vectors[0] ** 2, float)
    for part in found:
        part.setflags(write=False)
    return found


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


def tabulated_power_sum(family: AbstractFamily, eta: Array, power: float) -> Jet:
    """`AbstractFamily.power_sum` of a family of one predictor without trials; eta is (1, ...)."""
    inside = (eta[0] >= _LOW) & (eta[0] < _HIGH)
    if inside.all():
        return _from_table(family, eta, power)
    total, first, second = (np.empty(shape + eta.shape[1:]) for shape in ((), (1,), (1, 1)))
    for part, values in (
        (inside, _from_table(family, eta[:, inside], power)),
        (~inside, _summed(family, eta[:, ~inside], power)),
    ):
        total[part], first[:, part], second[:, :, part] = values
    return total, first, second


def _from_table(family: AbstractFamily, eta: Array, power: float) -> Jet:
    place = (eta[0] - _LOW) * _PER_UNIT
    # Just below the end the difference above is rounded up.
    cell = np.minimum(place.astype(int), (_HIGH - _LOW) * _PER_UNIT - 1)
    at, c = place - cell, _coefficients(family, power)
    c = c.take(cell, axis=1)
    log_total = ((((c[5] * at + c[4]) * at + c[3]) * at + c[2]) * at + c[1]) * at + c[0]
    slope = (((5 * c[5] * at + 4 * c[4]) * at + 3 * c[3]) * at + 2 * c[2]) * at + c[1]
    curvature = ((20 * c[5] * at + 12 * c[4]) * at + 6 * c[3]) * at + 2 * c[2]
    total = np.exp(log_total)
    slope, curvature = slope * _PER_UNIT, curvature * _PER_UNIT**2
    return total, (total * slope)[None], (total * (slope * slope + curvature))[None, None]


@lru_cache(maxsize=16)
def _coefficients(family: AbstractFamily, power: float) -> Array:
    """Of the polynomial in each cell of the grid, (6, cells)."""
    grid = np.arange(_LOW * _PER_UNIT, _HIGH * _PER_UNIT + 1) / _PER_UNIT
    total, first, second = _summed(family, grid[None], power)
    slope = first[0] / total
    ends = np.stack(
        [
            np.log(total),
            slope / _PER_UNIT,
            (second[0, 0] / total - slope * slope) / _PER_UNIT**2,
        ]
    )
    found: Array = _HERMITE @ np.concatenate([ends[:, :-1], ends[:, 1:]])
    return found


def _summed(family: AbstractFamily, eta: Array, power: float) -> Jet:
    return AbstractFamily.power_sum(family, eta, power, np.ones(eta.shape[1:]))
