"""What keeps an optimum finite: a quadratic penalty; and how one at infinity is recognised.

The penalty is the ridge, the rule that breaks ties, and what holds parameters at a value.
"""

from dataclasses import dataclass
from typing import Protocol, Self

import numpy as np

from tvdbayes._array import to_host, xp
from tvdbayes._typing import Array, BoolArray, IntArray
from tvdbayes.models.predictors import AbstractBound
from tvdbayes.objective._layout import Layout
from tvdbayes.solvers import Point

TIE_BREAK = 1e-11
"""Weight of the squared distance to the reference (in standardised coordinates). Among parameters
whose divergence is the same to about ten digits, the one nearest the reference is chosen; an
optimum at infinity becomes a finite one far out."""

PIN = 1e5
"""The same for parameters that are held at the reference: a divergence in [0, 1] whose slopes are
of the order of 1 moves them by less than 1e-5."""

EDGE = 12.0
"""Log odds or log scales beyond this are as good as infinite."""
_FAR = 4.0
_FREE = 1e-6
"""Moving the linear predictor by `_FAR` is free if it costs less than `_FREE` times the mass of
the rows that it moves. Rates or odds change by a factor of 55 then, so a finite optimum is left."""
_SMOOTH = 1e-6
"""Width of the smoothing at which the flattest direction is found; kinks have no curvature."""
_ROWS = 1 << 14
"""Rows that are computed with at a time."""


@dataclass(frozen=True, eq=False)
class Penalty:
    """``ridge * spread(slopes) + tie_break_weight * |theta - reference|^2``.

    Coordinates are standardised. The spread is what `bound` says, see
    `AbstractBound.ridge_gradient`.
    """

    ridge: float
    bound: AbstractBound | None
    tie_break_weight: Array
    reference: Array

    @classmethod
    def make(
        cls,
        ridge: float,
        bound: AbstractBound,
        reference: Array,
        pinned: BoolArray | None = None,
    ) -> "Penalty":
        """A ridge on the slopes, ties broken towards the reference (d,), which holds the pinned."""
        n_params = len(reference)
        weight = np.full(n_params, TIE_BREAK)
        if pinned is not None:
            weight = np.where(pinned, PIN, TIE_BREAK)
        return cls(ridge, bound, weight[:, None], reference[:, None])

    @classmethod
    def none(cls, n_params: int) -> "Penalty":
        """No penalty at all."""
        return cls(0.0, None, *np.zeros((2, n_params, 1)))

    def value(self, theta: Array) -> Array:
        """(d, B) to (B,)."""
        away = theta - self.reference
        total: Array = (theta * self._ridge(theta) + self.tie_break_weight * away * away).sum(0)
        return total

    def grad(self, theta: Array) -> Array:
        """(d, B) to (d, B)."""
        return 2 * (self._ridge(theta) + self.tie_break_weight * (theta - self.reference))

    def add_curvature(self, hess: Array) -> None:
        """Add the second derivative to hess (d, d, B) in place."""
        d = hess.shape[0]
        hess += 2 * self.ridge_form(d)[:, :, None]
        hess[range(d), range(d)] += 2 * self.tie_break_weight

    def ridge_form(self, n_params: int) -> Array:
        """The quadratic form (d, d) of the ridge."""
        return self._ridge(np.eye(n_params))

    def _ridge(self, theta: Array) -> Array:
        if self.bound is None or self.ridge == 0:
            return np.zeros_like(theta)
        return self.ridge * self.bound.ridge_gradient(theta)


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
    trials, some = layout.x_trials, np.arange(theta.shape[1])
    if layout.family.compiled is not None:
        # The laws that the kernel knows have their extremes at the ends of the predictor, and the
        # fewer trials the nearer they are.
        ends = _ends(layout, theta)
        fewest = trials.min(0, keepdims=True)
        some = np.flatnonzero(np.asarray(layout.family.degenerate(ends, fewest).any(0)))
    found = np.zeros(theta.shape[1], bool)
    if some.size:
        eta = layout.bound.eta(theta[:, some])
        found[some] = np.asarray(layout.family.degenerate(eta, trials).any(0))
    return found


def _ends(layout: Layout, theta: Array) -> Array:
    """The smallest and the largest value of each predictor of theta (d, B), (k, 2, B)."""
    bound, n_x = layout.bound, layout.cells.n_x
    if layout.device is not None or n_x <= _ROWS:
        eta = bound.eta(theta)
        return xp.stack([eta.min(1), eta.max(1)], axis=1)
    ends = []
    for start in range(0, n_x, _ROWS):
        eta = bound.cut(slice(start, start + _ROWS)).eta(theta)
        # Minima of long rows are found several times faster.
        across = np.ascontiguousarray(eta.transpose(0, 2, 1))
        ends.append((across.min(2), across.max(2)))
    low, high = zip(*ends, strict=True)
    return np.stack([np.min(low, axis=0), np.max(high, axis=0)], axis=1)
