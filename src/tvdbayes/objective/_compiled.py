"""Weighted likelihoods by the compiled kernel, where it knows the law."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from tvdbayes import kernel
from tvdbayes._typing import Array, BoolArray
from tvdbayes.models.families import AbstractFamily
from tvdbayes.objective._layout import Layout
from tvdbayes.objective._penalty import Penalty
from tvdbayes.solvers import Accuracy, Solution

_LAWS = {"logit": 0, "poisson": 1, "probit": 2, "cloglog": 3}
"""The numbers of laws in the kernel, by `AbstractFamily.compiled`."""

_AT_ONCE = 1e8
"""Products of rows, draws, and parameters and twenty, of one call: less than a tenth of a second,
after which Ctrl-C is heard."""
_EVALUATIONS = 6
"""Gradients that a draw takes, roughly."""
_MOST_STEPS = 40
"""Evaluations after which a draw is left to Newton's method. Five to eight are usual."""
_FEWEST = 4
"""Fewer draws than this would leave most lanes empty. The unweighted table is always NumPy's."""
_MOST_PARAMS = 256
"""Beyond so many parameters, a matrix for each draw would be large."""


@dataclass(frozen=True, eq=False)
class Compiled:
    """Rows of x and cells of a law that the kernel knows.

    Parameters
    ----------
    lib : kernel.Library
    law : int
        Its number in the kernel.
    design, offset, trials : array
        What a predictor is made of, and trials, of each x row.
    x_index, y : (m,)
        The x row and the outcome of each cell.
    family : AbstractFamily
        The law.
    """

    lib: kernel.Library
    law: int
    design: Array
    offset: Array
    trials: Array
    x_index: np.ndarray[Any, np.dtype[np.int64]]
    y: Array
    family: AbstractFamily

    @classmethod
    def of(cls, layout: Layout, n_draws: int) -> "Compiled | None":
        """What the kernel needs of a layout; None where NumPy has to do."""
        law = layout.family.compiled
        if n_draws < _FEWEST or law is None or layout.device is not None:
            return None
        if layout.model.predictor.solver != "newton":
            return None
        lib = kernel.library()
        if lib is None or layout.bound.n_params > _MOST_PARAMS:
            return None
        cells, (design,) = layout.cells, layout.bound.designs
        trials = cells.trials if layout.family.needs_trials else np.ones(cells.n_x)
        dense = np.ascontiguousarray
        return cls(
            *(lib, _LAWS[law], dense(design), dense(cells.offset), dense(trials)),
            *(dense(cells.x_index, np.int64), dense(cells.y), layout.family),
        )

    def minimise(self, p: Array, start: Array, penalty: Penalty, goal: Accuracy) -> Solution | None:
        """The minima for tables p (m, B) from start (d,), without values; None where the curvature
        there is of no use. Draws that are left to NumPy have another status than converged.
        """
        d, n_draws = self.design.shape[1], p.shape[1]
        ridge, pull = np.zeros((d, d, 1)), -penalty.grad(np.zeros((d, 1)))[:, 0]
        penalty.add_curvature(ridge)
        grad, curvature = self._beginning(p, start)
        grad += penalty.grad(start[:, None])
        curvature += ridge[:, :, 0]
        try:
            np.linalg.cholesky(curvature)
        except np.linalg.LinAlgError:
            return None
        theta, start = np.empty((d, n_draws)), np.repeat(start[:, None], n_draws, axis=1)
        n_iter, status = np.empty((2, n_draws), np.int64)
        decrement, residual = np.empty((2, n_draws))
        work = self._work(2 * self._n_x + (7 + d) * d)
        given = start, grad, ridge, pull, np.linalg.inv(curvature)
        for part in self._parts(n_draws, _EVALUATIONS):
            self.lib.call(
                *("minimise", *self._tables(p), *part, *given, goal.decrement, _MOST_STEPS),
                *(theta, n_iter, status, decrement, residual, work),
            )
        value = np.full(n_draws, np.nan)
        return Solution(theta, value, status, n_iter, decrement, residual)

    def _beginning(self, p: Array, start: Array) -> tuple[Array, Array]:
        """The gradients (d, B) of the loss at start (d,), and its curvature for the mean table."""
        eta, trials = (self.offset + self.design @ start)[None, :, None], self.trials[:, None]
        family, at = self.family, self.x_index
        if family.canonical:
            _, mean, variance = family.cumulant(eta, trials)
            first, second = mean[at, 0] - self.y, variance[at, 0]
        else:
            _, score, curvature = family.log_jet(self.y[:, None], eta[:, at], trials[at])
            first, second = -score[0, :, 0], -curvature[0, 0, :, 0]
        rows = self.design if self.one_each else self.design[at]
        grad = np.ascontiguousarray((rows * first[:, None]).T @ p)
        mass = p @ np.full(p.shape[1], 1 / p.shape[1])
        return grad, (rows.T * (mass * second)) @ rows

    def loss(self, p: Array, theta: Array) -> Array:
        """Minus the log-likelihood (B,) of tables p (m, B), up to a constant of each table."""
        values, work = np.empty(theta.shape[1]), self._work(2 * self._n_x + 2 * len(theta) + 1)
        theta = np.ascontiguousarray(theta)
        for part in self._parts(theta.shape[1], 1):
            self.lib.call("likelihood", *self._tables(p), *part, theta, values, None, work)
        return values

    def slope(self, p: Array, theta: Array) -> Array:
        """The gradient of `loss`, (d, B)."""
        values, work = np.empty(theta.shape[1]), self._work(2 * self._n_x + 2 * len(theta) + 1)
        theta, grad = np.ascontiguousarray(theta), np.empty(theta.shape)
        for part in self._parts(theta.shape[1], 2):
            self.lib.call("likelihood", *self._tables(p), *part, theta, values, grad, work)
        return grad

    def reach(self, theta: Array) -> Array:
        """The smallest and the largest predictor (2, B) of all rows at theta (d, B)."""
        d, n_draws = theta.shape
        ends, work, theta = np.empty((2, n_draws)), self._work(d + 2), np.ascontiguousarray(theta)
        for part in self._parts(n_draws, 1):
            self.lib.call(
                "reach", *self.design.shape, self.design, self.offset, *part, theta, *ends, work
            )
        return ends

    @property
    def one_each(self) -> bool:
        """Whether every x row has one cell."""
        return len(self.y) == len(self.design)

    @property
    def _n_x(self) -> int:
        return len(self.design)

    def _work(self, per_lane: int) -> Array:
        return np.empty(per_lane * self.lib.lanes)

    def _tables(self, p: Array) -> tuple[Any, ...]:
        """The first arguments of what is asked of tables; p may lie in memory either way."""
        if not (p.flags.c_contiguous or p.flags.f_contiguous):
            p = np.ascontiguousarray(p)
        whole = p if p.flags.c_contiguous else p.T
        steps = (p.shape[1], 1) if p.flags.c_contiguous else (1, p.shape[0])
        rows = self.design, self.offset, self.trials, self.x_index, self.y
        return (self.law, *self.design.shape, len(self.y), *rows, whole, *steps)

    def _parts(self, n_draws: int, n_passes: int) -> Iterator[tuple[int, int, int]]:
        """Draws in all, and the first and last of each call."""
        n_x, d = self.design.shape
        size = self.lib.padded(max(1, int(_AT_ONCE / (n_passes * max(n_x, 1) * (d + 20)))))
        for first in range(0, n_draws, size):
            yield n_draws, first, min(first + size, n_draws)


def degenerate(layout: Layout, theta: Array) -> BoolArray:
    """Draws (of theta (d, B)) under which some x row has a law that is (nearly) one point."""
    n_draws = theta.shape[1]
    compiled, some = Compiled.of(layout, n_draws), np.arange(n_draws)
    if compiled is not None:
        # The laws that the kernel knows have their extremes at the ends of the predictor, and the
        # fewer trials the nearer they are.
        ends = compiled.reach(theta)[None]
        fewest = layout.x_trials.min(0, keepdims=True)
        some = np.flatnonzero(layout.family.degenerate(ends, fewest).any(0))
    found = np.zeros(n_draws, bool)
    if some.size:
        eta = layout.bound.eta(theta[:, some])
        found[some] = np.asarray(layout.family.degenerate(eta, layout.x_trials).any(0))
    return found
