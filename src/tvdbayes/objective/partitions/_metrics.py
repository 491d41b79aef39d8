"""Metrics for groups of covariate rows: linear maps of x that do not look at y.

The *tail* metric has the map C^-1 in coordinates in which all rows have unit covariance, where C is
the covariance of the bulk, by concentration steps (as in the minimum covariance determinant). It
gives most weight to directions in which most rows are close together and few lie far out, so that
the latter get groups of their own, which is what resists leverage points. Its distances are the
same after any invertible affine map of the columns: units, order, signs, and the reference level of
a category do not matter. The *spread* metric divides every covariate by its standard deviation:
units, order and signs do not matter, but the reference level does.

References
----------
Rousseeuw, P. and Van Driessen, K. (1999). A fast algorithm for the minimum covariance determinant
estimator. Technometrics 41, 212-223.
"""

from collections.abc import Callable

import numpy as np

from tvdbayes._typing import Array, IntArray

_BULK = 0.75
"""Share of the rows that the bulk holds, as the minimum covariance determinant often does."""

_STEPS = 8
"""Concentration steps and Weiszfeld steps: both settle in a few."""

_SHRINK = 0.02
"""Share of the identity in the covariance of the bulk, which keeps it invertible."""

_RANK = 1e-12
"""Directions whose variance is a smaller share than this are rounding errors."""

_SAME = 1e-9
"""Distances closer than this are the same but for rounding."""

_ROWS = 1 << 15
"""Rows that are computed with at a time."""

_SAME_KEY = 1e-11
"""Keys closer than this, relative to their size, are the same but for rounding."""


def spread_metric(z: Array, weights: Array) -> Array:
    """Map (q, q) under which every covariate has unit standard deviation."""
    return np.diag(1 / _deviations(z, weights))


def tail_metric(z: Array, weights: Array) -> Array:
    """Map (q, r) whose distance is that of C^-1 F C^-1, where r is the rank.

    C is the covariance of the bulk, by concentration steps, F that of all rows. In coordinates
    in which F is the identity nothing below depends on how they are turned.
    """
    white = _whitening(z, weights)
    u = z @ white
    u -= np.average(u, axis=0, weights=weights)
    rank = u.shape[1]
    identity = np.eye(rank)
    away = u - _spatial_median(u, weights)
    far = np.einsum("ij,ij->i", away, away)
    bulk = identity
    for _ in range(_STEPS):
        # Rows that are as far as the last one are in, whatever rounding says of them.
        inside = weights * (far <= (1 + _SAME) * _weighted_quantile(far, weights, _BULK))
        away = u - np.average(u, axis=0, weights=inside)
        bulk = (away.T * inside) @ away / inside.sum()
        if not np.trace(bulk) > 1e-12 * rank:
            # The bulk is one and the same row: it does not tell directions apart.
            bulk = identity
            break
        bulk = (1 - _SHRINK) * rank / np.trace(bulk) * bulk + _SHRINK * identity
        far = np.einsum("ij,ij->i", away @ np.linalg.inv(bulk), away)
    return white @ np.linalg.inv(bulk)


METRICS: dict[str, Callable[[Array, Array], Array]] = {
    "tail": tail_metric,
    "spread": spread_metric,
}


def row_order(z: Array, weights: Array) -> IntArray:
    """An order of the rows that stays the same after any affine map of the columns.

    Random choices are made by the number of a row in it. Rows are sorted by a function of moments
    in coordinates in which all rows have unit covariance. Where rows cannot be told apart by it
    (a design with exact symmetries) they keep the order that they came in.
    """
    u_of_z = _whitening(z, weights)
    middle = _mean(z, weights, lambda rows: rows @ u_of_z)
    total, size, key = weights.sum(), np.empty(len(z)), np.empty(len(z))
    third, fourth = np.zeros(u_of_z.shape[1]), np.zeros(2 * u_of_z.shape[1:])
    for part in _parts(z):
        u = z[part] @ u_of_z - middle
        size[part] = np.einsum("ij,ij->i", u, u)
        weighted = (weights[part] / total * size[part])[:, None] * u
        third += weighted.sum(0)
        fourth += weighted.T @ u
    third /= 1 + np.sqrt(third @ third)
    fourth /= np.trace(fourth)
    for part in _parts(z):
        u = z[part] @ u_of_z - middle
        squared = np.einsum("ij,ij->i", u @ fourth, u)
        key[part] = size[part] + u @ (third + fourth @ third) + squared
    order = np.argsort(key, kind="stable")
    apart = np.diff(key[order]) > _SAME_KEY * (1 + size[order[1:]])
    if not apart.all():
        order = order[np.lexsort((order, np.cumsum(np.append(0, apart))))]
    return order


def _whitening(z: Array, weights: Array) -> Array:
    """Map (q, r) under which the rows have unit covariance; it drops what others determine."""
    scale = _deviations(z, weights)
    size, axes = np.linalg.eigh(_covariance(z, weights, lambda rows: rows / scale))
    kept = size > _RANK * size[-1]
    found: Array = axes[:, kept] / np.sqrt(size[kept])
    # Again, for what rounding has left of a direction that is much tighter than another.
    size, axes = np.linalg.eigh(_covariance(z, weights, lambda rows: rows / scale @ found))
    again: Array = found @ (axes / np.sqrt(size))
    return again / scale[:, None]


def _deviations(z: Array, weights: Array) -> Array:
    """Standard deviation of each column; 1 where a sample has missed all rows that differ."""
    middle = _mean(z, weights)
    square = _mean(z, weights, lambda rows: (rows - middle) * (rows - middle))
    return np.where(np.ptp(z, axis=0) > 0, np.sqrt(square), 1.0)


def _covariance(z: Array, weights: Array, change: Callable[[Array], Array]) -> Array:
    """Of the rows after a change."""
    middle = _mean(z, weights, change)
    found: Array = np.zeros(2 * middle.shape)
    for part in _parts(z):
        away = change(z[part]) - middle
        found += (away.T * weights[part]) @ away
    found /= weights.sum()
    return found


def _mean(z: Array, weights: Array, change: Callable[[Array], Array] = lambda rows: rows) -> Array:
    """Of the rows after a change."""
    sums = [(change(z[part]) * weights[part][:, None]).sum(0) for part in _parts(z)]
    found: Array = sum(sums[1:], sums[0]) / weights.sum()
    return found


def _parts(z: Array) -> list[slice]:
    """Stretches of the rows, whose products stay in the cache where there are many."""
    return [slice(start, start + _ROWS) for start in range(0, max(len(z), 1), _ROWS)]


def _spatial_median(u: Array, weights: Array) -> Array:
    """The point with the smallest mean distance to the rows, by Weiszfeld's steps from the mean."""
    middle = np.average(u, axis=0, weights=weights)
    for _ in range(_STEPS):
        away = u - middle
        shares = weights / np.sqrt(np.einsum("ij,ij->i", away, away) + 1e-9)
        middle = np.average(u, axis=0, weights=shares)
    return middle


def _weighted_quantile(values: Array, weights: Array, share: float) -> float:
    order = np.argsort(values, kind="stable")
    total = np.cumsum(weights[order])
    return float(values[order][np.searchsorted(total, (1 - _SAME) * share * total[-1])])
