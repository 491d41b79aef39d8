"""What the paper's released code did, where it matters to its figures, and its optimiser.

Its random numbers come from NumPy's legacy generator, whose streams are frozen: so the very data
sets, splits and weights behind the published figures can be made again.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
from scipy.optimize import OptimizeResult, minimize
from scipy.special import ndtr, ndtri

from tvdbayes._typing import Array, IntArray
from tvdbayes.data.cells import Cells, Compressed
from tvdbayes.models.model import Model
from tvdbayes.sampling.bootstrap import posterior_bootstrap
from tvdbayes.sampling.plan import draws_of
from tvdbayes.sampling.planners import plan_of
from tvdbayes.solvers import Problem, Solution, Status

TVDOf = Callable[[Cells, Array], Callable[[Array], float]]
"""From a table and its masses (m,) to the TVD as a function of the parameters."""

LARGEST = 100.0
"""Results beyond this were left out of the published boxes."""

_MOST_STEPS = 100
"""Steps of BFGS and of reweighted least squares in the released code."""
_TOLERANCE, _RANK = 1e-8, 1e-15
"""Change of the deviance at which least squares end; singular values below this share of the
largest count as 0."""
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


def split_nine_tenths(state: np.random.RandomState, n_rows: int) -> tuple[IntArray, IntArray]:
    """Nine tenths of the rows to train on, and the last tenth to test on."""
    return split(state, n_rows, int(np.floor(0.9 * n_rows)))


def tables(made: Compressed, row_weights: Array) -> Array:
    """Weights of rows (B, n) added up by cell, (m, B)."""
    n_cells = made.cells.n_cells
    return np.stack([np.bincount(made.cell_of_row, w, n_cells) for w in row_weights], axis=1)


def optimal_draws(
    model: Model, made: Compressed, n_draws: int, **options: Any
) -> tuple[Array, Array, Array]:
    """Draws (B, d) of TVD and of maximum likelihood on these weights, and their tables (m, B)."""
    plan = plan_of(posterior_bootstrap(model, made.cells, n_draws=0, refine=None, **options))
    p = tables(made, weights(len(made.cell_of_row), n_draws))
    return *draws_of(plan, p), p


def descents(tvd_of: TVDOf, cells: Cells, p: Array, starts: Array) -> Array:
    """Draws by the released optimiser, one from each start (k, d), on the first tables of p."""
    found = [descend(tvd_of(cells, p[:, j]), start) for j, start in enumerate(starts)]
    return np.array(found)


def descend(objective: Callable[[Array], float], start: Array) -> Array:
    """BFGS with numerical gradients; whether it says to have converged was not looked at.

    Where the objective is not a number (a negative rate), neither is the line search.
    """
    with np.errstate(all="ignore"):
        return np.asarray(_bfgs(objective, start).x, float)


def reference_bfgs(problem: Problem, start: Array) -> Solution:
    """Minimise each draw on its own from start (d, B), to compare our solvers with.

    It reports failure on most draws and stops in worse local minima on many (see the benchmarks).
    """
    n_draws = start.shape[1]
    theta, value = start.copy(), np.empty(n_draws)
    status, n_iter = np.empty(n_draws, np.intp), np.empty(n_draws, np.intp)
    residual = np.empty(n_draws)
    for j in range(n_draws):
        one = problem.take(np.array([j]))

        def objective(params: Array, one: Problem = one) -> float:
            return float(one.value(params[:, None])[0])

        found = _bfgs(objective, start[:, j])
        theta[:, j], value[j], n_iter[j] = found.x, found.fun, found.nfev
        residual[j] = np.abs(found.jac).max()
        status[j] = Status.CONVERGED if found.success else Status.STALLED
    return Solution(theta, value, status, n_iter, np.full(n_draws, np.nan), residual)


def _bfgs(objective: Callable[[Array], float], start: Array) -> OptimizeResult:
    """With numerical gradients, and at most as many steps as published."""
    return minimize(objective, start, method="BFGS", options={"maxiter": _MOST_STEPS})


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
