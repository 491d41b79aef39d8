"""Sums of powers of a pmf over its support, from a table.

With one predictor and no trials the sum S is a function of eta alone. The table holds log S with
its first two derivatives on a grid; between the points it is the polynomial of degree five that
meets all six values (quintic Hermite interpolation), so that the derivatives that are returned are
those of the value that is returned. Its error is ``h^6 / 46080`` times the sixth derivative of
log S: on this grid below the rounding errors of the sum itself.
"""

from functools import lru_cache

import numpy as np

from tvdbayes._typing import Array
from tvdbayes.models.families._base import AbstractFamily, Jet

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
