"""What the paper's released code did, where it matters to its figures.

Its random numbers come from NumPy's legacy generator, whose streams are frozen: so the very data
sets, splits and weights behind the published figures can be made again.
"""

from collections.abc import Callable
from functools import lru_cache

import numpy as np
from scipy.optimize import minimize
from scipy.special import ndtr, ndtri

from tvdbayes._typing import Array, IntArray
from tvdbayes.data.cells import Compressed

__all__ = ["LARGEST", "descend", "probit_irls", "split", "tables", "weights"]

LARGEST = 100.0
"""Results beyond this were left out of the published boxes."""

_MOST_STEPS = 100
_TOLERANCE, _RANK = 1e-8, 1e-15
_EDGE = float(np.finfo(float).eps)


@lru_cache(maxsize=2)
def weights(n_rows: int, n_draws: int) -> Array:
    """Weights of the draws, (B, n): draw j is seeded with j, for every data set alike."""
    ones = np.ones(n_rows)
    return np.array([np.random.RandomState(j).dirichlet(ones) for j in range(n_draws)])


def split(state: np.random.RandomState, n_rows: int, n_train: int) -> tuple[IntArray, IntArray]:
    """Rows to train on and rows to test on."""
    train = state.choice(n_rows, size=n_train, replace=False)
    return train, np.setdiff1d(np.arange(n_rows), train)


def tables(made: Compressed, row_weights: Array) -> Array:
    """Weights of rows (B, n) added up by cell, (m, B)."""
    n_cells = made.cells.n_cells
    return np.stack([np.bincount(made.cell_of_row, w, n_cells) for w in row_weights], axis=1)


def descend(objective: Callable[[Array], float], start: Array) -> Array:
    """BFGS with numerical gradients; whether it says to have converged was not looked at.

    Where the objective is not a number (a negative rate), neither is the line search.
    """
    with np.errstate(all="ignore"):
        found = minimize(objective, start, method="BFGS", options={"maxiter": _MOST_STEPS})
    return np.asarray(found.x, float)


def probit_irls(x: Array, y: IntArray, row_weights: Array) -> Array:
    """Weighted maximum likelihood of a probit as the released code had it from a library, (d,).

    Reweighted least squares solve by singular values and take those far below the largest for 0,
    a little more of them in the last step. One absurd value in x then puts all other columns among
    the zeros, and what comes out is not maximum likelihood.
    """
    mu = (y + 0.5) / 2
    eta, before = np.asarray(ndtri(mu), float), np.inf
    for _ in range(_MOST_STEPS):
        inside = np.clip(mu, _EDGE, 1 - _EDGE)
        density = np.exp(-(ndtri(inside) ** 2) / 2) / np.sqrt(2 * np.pi)
        root = np.sqrt(row_weights * density**2 / (inside * (1 - inside)))
        scaled, target = x * root[:, None], (eta + (y - mu) / density) * root
        eta = x @ np.linalg.lstsq(scaled, target, rcond=-1)[0]
        mu = np.asarray(ndtr(eta), float)
        likely = np.maximum(np.where(y == 1, mu, 1 - mu), _EDGE)
        deviance = -2 * float(row_weights @ np.log(likely))
        if abs(deviance - before) <= _TOLERANCE:
            break
        before = deviance
    return np.asarray(np.linalg.pinv(scaled, rcond=_RANK) @ target, float)
