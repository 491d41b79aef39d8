"""What "near" means when covariates are grouped: linear maps of x, blind to y.

The plain one scales every covariate by its spread. The *tail* metric gives most weight to the
directions in which the bulk of the rows is tight and the tails are heavy, so that rows far out get
groups of their own; that is what resists leverage points.
"""

from collections.abc import Callable

import numpy as np

from tvdbayes._typing import Array

__all__ = ["METRICS", "spread_metric", "tail_metric"]

_BULK = 0.75
_STEPS = 8
_SHRINK = 0.02


def spread_metric(z: Array, weights: Array) -> Array:
    """Map (q, q) under which every covariate has unit standard deviation."""
    return np.diag(1 / np.sqrt(np.diag(_covariance(z, weights))))


def tail_metric(z: Array, weights: Array) -> Array:
    """Map (q, q) whose distance is that of C^-1 F C^-1.

    C is the covariance of the bulk (concentration steps from median and MAD), F that of all rows.
    """
    full = _covariance(z, weights)
    centre = np.array([_weighted_median(column, weights) for column in z.T])
    mad = np.array([_weighted_median(c, weights) for c in np.abs(z - centre).T])
    # A dummy that is mostly 0 has MAD 0: its standard deviation must serve.
    scale = np.where(mad > 0, 1.4826 * mad, np.sqrt(np.diag(full)))
    far = (((z - centre) / scale) ** 2).sum(1)
    bulk = full
    for _ in range(_STEPS):
        inside = weights * (far <= _weighted_quantile(far, weights, _BULK))
        bulk = _covariance(z, inside)
        if not np.trace(bulk) > 1e-12 * np.trace(full):
            # The bulk is one and the same row: it says nothing of directions.
            bulk = full + _SHRINK * np.diag(np.diag(full))
            break
        bulk *= (1 - _SHRINK) * np.trace(full) / np.trace(bulk)
        bulk += _SHRINK * np.diag(np.diag(full))
        away = z - np.average(z, axis=0, weights=inside)
        far = np.einsum("ij,ij->i", away @ np.linalg.inv(bulk), away)
    root = np.linalg.cholesky(bulk)
    inner = np.linalg.solve(root, np.linalg.solve(root, full).T)
    size, axes = np.linalg.eigh((inner + inner.T) / 2)
    # Columns that nearly determine each other leave a size of 0 to within rounding.
    size = np.maximum(size, 1e-12 * size[-1])
    tilted: Array = np.linalg.solve(root.T, axes * np.sqrt(size / np.median(size)))
    return tilted


METRICS: dict[str, Callable[[Array, Array], Array]] = {
    "tail": tail_metric,
    "spread": spread_metric,
}


def _covariance(z: Array, weights: Array) -> Array:
    return np.atleast_2d(np.cov(z.T, aweights=weights, ddof=0))


def _weighted_quantile(values: Array, weights: Array, share: float) -> float:
    order = np.argsort(values, kind="stable")
    total = np.cumsum(weights[order])
    return float(values[order][np.searchsorted(total, share * total[-1])])


def _weighted_median(values: Array, weights: Array) -> float:
    return _weighted_quantile(values, weights, 0.5)
