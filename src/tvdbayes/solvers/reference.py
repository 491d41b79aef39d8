"""The paper's procedure: draw by draw, scipy's BFGS with numerical gradients from a given start.

Kept as the yardstick of the benchmarks, not for use: it reports failure on most draws and stops in
worse local minima on many (see the benchmarks).
"""

import numpy as np
from scipy.optimize import minimize

from tvdbayes._typing import Array
from tvdbayes.solvers._problem import Problem
from tvdbayes.solvers._solution import Solution, Status

__all__ = ["reference_bfgs"]


def reference_bfgs(problem: Problem, start: Array) -> Solution:
    """Minimise each draw on its own from start (d, B), at most 100 iterations as published."""
    n_draws = start.shape[1]
    theta, value = start.copy(), np.empty(n_draws)
    status, n_iter = np.empty(n_draws, np.intp), np.empty(n_draws, np.intp)
    residual = np.empty(n_draws)
    for j in range(n_draws):
        one = problem.take(np.array([j]))

        def objective(params: Array, one: Problem = one) -> float:
            return float(one.value(params[:, None])[0])

        found = minimize(objective, start[:, j], method="BFGS", options={"maxiter": 100})
        theta[:, j], value[j], n_iter[j] = found.x, found.fun, found.nfev
        residual[j] = np.abs(found.jac).max()
        status[j] = Status.CONVERGED if found.success else Status.STALLED
    return Solution(theta, value, status, n_iter, np.full(n_draws, np.nan), residual)
