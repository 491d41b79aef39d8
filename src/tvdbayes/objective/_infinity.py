"""Whether an optimum lies at infinity."""

from typing import Protocol, Self

import numpy as np

from tvdbayes._array import to_host, xp
from tvdbayes._typing import Array, BoolArray, IntArray
from tvdbayes.objective._layout import Layout
from tvdbayes.solvers import Point

EDGE = 12.0
"""Log odds or log scales beyond this are as good as infinite."""
_FAR = 4.0
_FREE = 1e-6
"""Moving the linear predictor by `_FAR` is free if it costs less than `_FREE` times the mass of
the rows that it moves. Rates or odds change by a factor of 55 then, so a finite optimum is left."""
_SMOOTH = 1e-6
"""Width of the smoothing at which the flattest direction is found; kinks have no curvature."""


class _Problem(Protocol):
    @property
    def layout(self) -> Layout: ...

    def take(self, index: IntArray) -> Self: ...

    def at(self, theta: Array) -> Point: ...

    def distance(self, theta: Array) -> Array: ...


def runs_away(problem: _Problem, theta: Array) -> BoolArray:
    """Draws of theta (d, B) whose optimum is at infinity, see `Objective.runs_away`."""
    layout = problem.layout
    gone = degenerate(layout, theta)
    index = np.flatnonzero(gone)
    if index.size:
        some, at = problem.take(index), theta[:, index]
        hess = some.at(at).expand(np.full(index.size, _SMOOTH), None).hess
        flattest = np.linalg.eigh(hess.transpose(2, 0, 1)).eigenvectors[:, :, 0].T
        along = to_host(xp.abs(layout.bound.direction(flattest)).max(0))
        reach = along.max(0)
        step = _FAR / np.maximum(reach, 1e-300) * flattest
        cells = layout.cells
        moved = (cells.x_counts / cells.n_obs) @ (along > reach / 2)
        limit = some.distance(at) + _FREE * moved
        gone[index] = (some.distance(at + step) < limit) | (some.distance(at - step) < limit)
    return gone


def at_boundary(layout: Layout, theta: Array) -> BoolArray:
    """Which further predictors (dispersion, inflation) of theta (d, B) are as good as 0 in all
    rows, (k - n_main, B): the law is then that of a simpler family.
    """
    family = layout.family
    if family.levels or len(family.predictors) == family.n_main:
        return np.zeros((0, theta.shape[1]), bool)
    return np.asarray((layout.bound.eta(theta)[family.n_main :] < -EDGE).all(1))


def degenerate(layout: Layout, theta: Array) -> BoolArray:
    """Draws (of theta (d, B)) under which some x row has a law that is (nearly) one point."""
    bound, family, trials = layout.bound, layout.family, layout.x_trials
    found, some = np.zeros(theta.shape[1], bool), np.arange(theta.shape[1])
    if family.compiled is not None:
        # The laws that the kernel knows have their extremes at the ends of the predictor, and the
        # fewer trials the nearer they are.
        fewest = trials.min(0, keepdims=True)
        for ends_at in (bound.enclosed, bound.extremes):
            if some.size:
                at_ends = family.degenerate(ends_at(theta[:, some]), fewest)
                some = some[np.asarray(at_ends.any(0))]
    if some.size:
        found[some] = np.asarray(family.degenerate(bound.eta(theta[:, some]), trials).any(0))
    return found
