"""Modified Cholesky factorisation of many small symmetric matrices at once.

Gill, Murray and Wright's rule: a positive definite matrix is left as it is; otherwise pivots are
replaced so that the result is positive definite and as near as its own size allows. Vectorised
over the last axis, which for small matrices beats a call of LAPACK for each by far.
"""

import numpy as np

from tvdbayes._typing import Array

__all__ = ["solve_positive"]


def solve_positive(hess: Array, grad: Array, floor: float = 1e-10) -> Array:
    """Solve ``H step = grad`` for hess (d, d, B), with H made positive definite where it is not."""
    d = grad.shape[0]
    diagonal = np.abs(hess[range(d), range(d)])
    # The diagonal in the second maximum changes nothing: it is divided by at least 1.
    largest_entry = np.abs(hess).max((0, 1)) / np.sqrt(max(d * d - 1, 1))
    bound = np.maximum(np.maximum(diagonal.max(0), largest_entry), 1e-100)
    smallest = floor * bound
    factor = np.empty_like(hess)
    pivots = np.empty_like(grad)
    solution = grad.copy()
    for j in range(d):
        column = hess[j:, j] - np.einsum("ikb,kb->ib", factor[j:, :j], pivots[:j] * factor[j, :j])
        below = np.abs(column[1:]).max(0) if j + 1 < d else 0.0
        pivots[j] = np.maximum(np.maximum(np.abs(column[0]), below * below / bound), smallest)
        factor[j:, j] = column / pivots[j]
        solution[j + 1 :] -= factor[j + 1 :, j] * solution[j]
    solution /= pivots
    for j in range(d - 1, 0, -1):
        solution[:j] -= factor[j, :j] * solution[j]
    return solution
