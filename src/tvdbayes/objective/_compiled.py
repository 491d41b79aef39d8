"""Weighted likelihoods by the compiled kernel, where it knows the law."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from tvdbayes import kernel
from tvdbayes._array import gammaln
from tvdbayes._typing import Array, IntArray
from tvdbayes.objective._layout import Layout
from tvdbayes.objective._penalty import Penalty
from tvdbayes.objective._slots import MOST_DISPERSED, columns_of, further_constant
from tvdbayes.solvers import Accuracy, Solution

_LAWS = {"logit": 0, "poisson": 1, "probit": 2, "cloglog": 3, "negativebinomial": 4}
"""The numbers of laws in the kernel, by `AbstractFamily.compiled`."""

_AT_ONCE = 1e8
"""Products of rows, draws, and parameters and twenty, of one call: less than a tenth of a second,
after which Ctrl-C is heard."""
_EVALUATIONS = 6
"""Gradients that a draw takes, roughly."""
_MOST_STEPS = 60
"""Evaluations after which a draw is left to Newton's method. Five to eight are usual, and
thirty where a dispersion goes to 0."""
_CELLS = 1 << 14
"""Cells at a time where a search begins, so that their arrays stay in the cache."""
_FEWEST = 4
"""Fewer draws than this would leave most lanes empty. The unweighted table is always NumPy's."""
_SINGULAR = 1e-14
"""Smallest eigenvalue of the curvature, as a share of the largest, that is more than rounding."""
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
    outcome, outcome_of_cell
        The distinct outcomes, and that of each cell, where the law has a dispersion.
    layout : Layout
    """

    lib: kernel.Library
    law: int
    design: Array
    offset: Array
    trials: Array
    x_index: np.ndarray[Any, np.dtype[np.int64]]
    y: Array
    outcome: Array
    outcome_of_cell: IntArray
    layout: Layout

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
        if not further_constant(layout.bound):
            return None
        cells, dense = layout.cells, np.ascontiguousarray
        trials = cells.trials if layout.family.needs_trials else np.ones(cells.n_x)
        further = layout.bound.n_predictors > 1
        outcome, number = layout.cell_pairs.outcomes if further else (np.zeros(0), np.zeros(0))
        return cls(
            *(lib, _LAWS[law], columns_of(layout.bound), dense(cells.offset), dense(trials)),
            *(dense(cells.x_index, np.int64), dense(cells.y), outcome),
            *(dense(number, np.int64), layout),
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
        values, axes = np.linalg.eigh(curvature)
        sizes = np.abs(values)
        if not sizes.min() > _SINGULAR * sizes.max():
            return None
        theta, start = np.empty((d, n_draws)), np.repeat(start[:, None], n_draws, axis=1)
        n_iter, status = np.empty((2, n_draws), np.int64)
        decrement, residual = np.empty((2, n_draws))
        work = self._work((7 + d) * d)
        # A curvature that is negative is taken by its size, as in Newton's method.
        given = start, grad, ridge, pull, np.ascontiguousarray((axes / sizes) @ axes.T)
        for part in self._parts(n_draws, _EVALUATIONS):
            self.lib.call(
                *("minimise", *self._tables(p), *part, *given, goal.decrement, _MOST_STEPS),
                *(theta, n_iter, status, decrement, residual, work),
            )
        value = np.full(n_draws, np.nan)
        return Solution(theta, value, status, n_iter, decrement, residual)

    def _beginning(self, p: Array, start: Array) -> tuple[Array, Array]:
        """The gradients (d, B) of the loss at start (d,), and its curvature for the mean table."""
        d, n_draws = len(start), p.shape[1]
        grad, hess = np.zeros((d, n_draws)), np.zeros((d, d))
        for first in range(0, len(p), _CELLS):
            part = slice(first, first + _CELLS)
            slopes, curvature, rows = self._jet(part, start)
            some = np.ascontiguousarray(p[part])
            mass = some @ np.full((n_draws, 1), 1 / n_draws)
            grad -= slopes.T @ some
            hess -= np.block(
                [
                    [left.T @ (mass * curvature[a, b] * right) for b, right in enumerate(rows)]
                    for a, left in enumerate(rows)
                ]
            )
        return grad, hess

    def _jet(self, cells: slice, start: Array) -> tuple[Array, Array, list[Array]]:
        """Of some cells the scores in theta (m, d), the curvatures in the predictors (k, k, m, 1),
        and the columns of each predictor.
        """
        bound, family, at = self.layout.bound, self.layout.family, self.x_index[cells]
        x_rows = slice(at[0], at[-1] + 1)
        at, bound = at - at[0], bound.cut(x_rows)
        y, trials, eta = self.y[cells, None], self.trials[x_rows, None], bound.eta(start[:, None])
        if family.canonical:
            _, mean, variance = family.cumulant(eta, trials)
            score, curvature = y - mean[None, at], -variance[None, None, at]
        else:
            _, score, curvature = family.log_jet(y, eta[:, at], trials[at])
        rows = [z if self.one_each else z[at] for z in bound.designs]
        slopes = np.hstack([z * first for z, first in zip(rows, score, strict=True)])
        return slopes, curvature, rows

    def loss(self, p: Array, theta: Array) -> Array:
        """Minus the log-likelihood (B,) of tables p (m, B), up to a constant of each table."""
        values, work = np.empty(theta.shape[1]), self._work(2 * len(theta) + 1)
        theta = np.ascontiguousarray(theta)
        for part in self._parts(theta.shape[1], 1):
            self.lib.call("likelihood", *self._tables(p), *part, theta, values, None, work)
        return values

    def slope(self, p: Array, theta: Array) -> Array:
        """The gradient of `loss`, (d, B)."""
        values, work = np.empty(theta.shape[1]), self._work(2 * len(theta) + 1)
        theta, grad = np.ascontiguousarray(theta), np.empty(theta.shape)
        for part in self._parts(theta.shape[1], 2):
            self.lib.call("likelihood", *self._tables(p), *part, theta, values, grad, work)
        return grad

    @property
    def constant(self) -> Array | None:
        """What the log pmf of each cell has beside what `loss` adds up, (m,).

        None where the sum would lose digits.
        """
        form, family = self.layout.canonical, self.layout.family
        if form is not None:
            return form.constant[:, 0]
        if self.outcome.size and self.outcome[-1] <= MOST_DISPERSED:
            return -gammaln(self.y + 1)
        return np.zeros(len(self.y)) if family.binary and not family.canonical else None

    @property
    def one_each(self) -> bool:
        """Whether every x row has one cell."""
        return len(self.y) == len(self.design)

    @property
    def _n_x(self) -> int:
        return len(self.design)

    def _work(self, per_lane: int) -> Array:
        """What the kernel computes in: for its tables, and so many numbers for each lane."""
        of_tables = 2 * self._n_x + 4 * self.outcome.size
        return np.empty((of_tables + per_lane) * self.lib.lanes)

    def _tables(self, p: Array) -> tuple[Any, ...]:
        """The first arguments of what is asked of tables; p may lie in memory either way."""
        if not (p.flags.c_contiguous or p.flags.f_contiguous):
            p = np.ascontiguousarray(p)
        whole = p if p.flags.c_contiguous else p.T
        steps = (p.shape[1], 1) if p.flags.c_contiguous else (1, p.shape[0])
        rows = self.design, self.offset, self.trials, self.x_index, self.y
        outcomes = self.outcome.size, self.outcome, self.outcome_of_cell
        return (self.law, *self.design.shape, len(self.y), *rows, whole, *steps, *outcomes)

    def _parts(self, n_draws: int, n_passes: int) -> Iterator[tuple[int, int, int]]:
        """Draws in all, and the first and last of each call."""
        n_x, d = self.design.shape
        size = self.lib.padded(max(1, int(_AT_ONCE / (n_passes * max(n_x, 1) * (d + 20)))))
        for first in range(0, n_draws, size):
            yield n_draws, first, min(first + size, n_draws)
