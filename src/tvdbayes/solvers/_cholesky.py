"""Cholesky factorisation of many small symmetric matrices at once.

Vectorised over the last axis, which for small matrices beats a call of LAPACK for each by far.
Matrices that are not positive definite are few. Theirs are the eigenvalues, of which the absolute
values are taken: unlike with a rule for pivots, the order of the parameters then does not matter,
and with it the minimum that is found.
"""

import numpy as np

from tvdbayes._typing import Array


def solve_positive(hess: Array, grad: Array, floor: float = 1e-10) -> Array:
    """Solve ``H step = grad`` for hess (d, d, B), with H made positive definite where it is not.

    A pivot is judged beside the curvature of its own parameter, so that a parameter that is flat
    beside a kink has a Newton step too.
    """
    d = grad.shape[0]
    smallest = floor * np.maximum(np.abs(hess[range(d), range(d)]), 1e-100)
    definite = np.ones(grad.shape[1], bool)
    factor = np.empty_like(hess)
    pivots = np.empty_like(grad)
    solution = grad.copy()
    for j in range(d):
        column = hess[j:, j] - np.einsum("ikb,kb->ib", factor[j:, :j], pivots[:j] * factor[j, :j])
        definite &= column[0] >= smallest[j]
        pivots[j] = np.maximum(column[0], smallest[j])
        factor[j:, j] = column / pivots[j]
        solution[j + 1 :] -= factor[j + 1 :, j] * solution[j]
    solution /= pivots
    for j in range(d - 1, 0, -1):
        solution[:j] -= factor[j, :j] * solution[j]
    if not definite.all():
        # What has overflowed has no eigenvalues: the caller sees that the step is not finite.
        other = np.flatnonzero(~definite)
        solution[:, other] = np.nan
        other = other[np.isfinite(hess[:, :, other]).all((0, 1))]
        solution[:, other] = _by_eigenvalues(hess[:, :, other], grad[:, other], floor)
    return solution


def _by_eigenvalues(hess: Array, grad: Array, floor: float) -> Array:
    size, axes = np.linalg.eigh(hess.transpose(2, 0, 1))
    size = np.abs(size)
    size = np.maximum(size, floor * np.maximum(size.max(1, keepdims=True), 1e-100))
    along = (axes.transpose(0, 2, 1) @ grad.T[:, :, None])[..., 0] / size
    found: Array = (axes @ along[..., None])[..., 0].T
    return found
