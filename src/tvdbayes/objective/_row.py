"""Problems whose divergence looks at each cell's own log-probability.

For draw b with cell masses p, and a loss l of the log-probability,

    F(theta) = sum_{x, y} p(x, y) l(log f(y | x; theta)) + sum_x p(x) S(x; theta) + penalty(theta),

where S(x; theta) is the sum over the support of f(y | x; theta)^power, if the divergence has one.
The distance that is reported is F without penalty, less its value at the conditional probabilities
of the table itself. The likelihood of a canonical family, log f = y eta - K(eta) + c(y), needs the
sums of p and p y over the outcomes of each x row only.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property, reduce

import numpy as np

from tvdbayes._array import to_host, xp
from tvdbayes._typing import Array, IntArray
from tvdbayes.models.predictors import AbstractBound
from tvdbayes.objective._batches import MANY_ROWS
from tvdbayes.objective._compiled import Compiled
from tvdbayes.objective._layout import Layout
from tvdbayes.objective._pairs import Canonical
from tvdbayes.objective._penalty import Penalty, runs_away
from tvdbayes.objective._terms import RowTerms
from tvdbayes.solvers import Accuracy, Solution, Status

_ELEMENTS = 1 << 14
"""Rows x draws at a time where rows are many: 128 KiB for each array."""


@dataclass(frozen=True, eq=False)
class Sums:
    """What the likelihood of a canonical law needs of B tables.

    Parameters
    ----------
    mass, outcomes : (n_x, B)
        For each x row the mass, and the mass times the outcome.
    constant : (B,)
        What the log-likelihood has that does not depend on parameters.
    """

    mass: Array
    outcomes: Array
    constant: Array

    @classmethod
    def of(cls, form: Canonical, p: Array) -> "Sums":
        """The sums of tables p (m, B)."""
        total = form.x_of_pair.total
        return cls(total(p), total(p * form.y), (form.constant * p).sum(0))

    def cut(self, rows: slice, *, first: bool) -> "Sums":
        """Those of some x rows; the first ones have the constant."""
        return Sums(self.mass[rows], self.outcomes[rows], self.constant * first)

    def loss(self, eta: Array, cumulant: Array) -> Array:
        """Minus the log-likelihood (B,) at predictors and cumulants (n_x, B)."""
        loss: Array = (self.mass * cumulant - self.outcomes * eta).sum(0) - self.constant
        return loss


@dataclass(frozen=True, eq=False)
class RowProblem:
    """B reweighted tables, compared with the model cell by cell; p is (m, B)."""

    layout: Layout
    divergence: RowTerms
    penalty: Penalty
    p: Array

    kinked = False
    compiled = None

    @classmethod
    def make(cls, layout: Layout, divergence: RowTerms, penalty: Penalty, p: Array) -> "RowProblem":
        """The problems of tables p; the kernel reads them as they lie in memory."""
        compiled = divergence.likelihood and Compiled.of(layout, len(p.T)) is not None
        return cls(layout, divergence, penalty, p if compiled else layout.put(p))

    @property
    def accuracy(self) -> Accuracy:
        goal = Accuracy(tau=0.0, decrement=1e-13)
        if self._form is not None:
            # The terms of the sums are larger than what is left of them.
            size = float(self.layout.cells.p @ np.abs(self._form.constant[:, 0]))
            goal = replace(goal, rounding=goal.rounding * (1 + size))
        return self.layout.accuracy(goal)

    @property
    def n_params(self) -> int:
        return self.layout.bound.n_params

    @property
    def n_draws(self) -> int:
        return len(self.p.T)

    def take(self, index: IntArray) -> "RowProblem":
        return RowProblem(self.layout, self.divergence, self.penalty, self.p.take(index, axis=1))

    def batch_size(self, n: int) -> int:
        return self.layout.batch_size(n)

    @property
    def _form(self) -> Canonical | None:
        return self.layout.canonical if self.divergence.likelihood else None

    @cached_property
    def _sums(self) -> Sums | None:
        """Sufficient sums of the tables, where likelihood and law have them."""
        return None if self._form is None else Sums.of(self._form, self.p)

    @property
    def _compiled(self) -> Compiled | None:
        return Compiled.of(self.layout, self.n_draws) if self.divergence.likelihood else None

    def by_kernel(self, start: Array, goal: Accuracy, values: bool) -> Solution | None:
        """The minima by compiled code, where there is any for this problem; `newton` asks.

        Draws that are for Newton's method have another status than converged: those that are not
        found in a few steps, and those whose minimum is at infinity, where the search ends wherever
        it comes to.
        """
        compiled = self._compiled
        if compiled is None or (start != start[:, :1]).any():
            return None
        found = compiled.minimise(self.p, start[:, 0], self.penalty, goal)
        if found is None:
            return None
        away = runs_away(self, found.theta)
        status = np.where(away, int(Status.STALLED), found.status)
        value = self.value(found.theta) if values else found.value
        return replace(found, value=value, status=status)

    def at(self, theta: Array) -> "RowPoint":
        if self._sums is not None:
            return self._at_rows(self._sums, theta)
        layout, divergence, p = self.layout, self.divergence, self.p
        log_pmf, score, curvature = layout.cell_pairs.log_jet(theta)
        slope, loss_curvature = divergence.derivatives(log_pmf)
        merit = to_host((p * divergence.loss(log_pmf)).sum(0)) + self.penalty.value(theta)
        weighted = p * slope
        curvature = weighted * curvature
        if loss_curvature.any():
            curvature += (p * loss_curvature) * score[:, None] * score
        grad, hess = layout.cell_pairs.pullback(weighted * score, curvature)
        if divergence.power:
            x_mass = layout.cell_pairs.x_of_pair.total(p)
            total, first, second = layout.family.power_sum(
                layout.bound.eta(theta), divergence.power, layout.x_trials
            )
            merit += to_host((x_mass * total).sum(0))
            grad += layout.bound.pullback(list(x_mass * first))
            hess += layout.bound.pullback_curvature([list(row) for row in x_mass * second])
        grad += self.penalty.grad(theta)
        self.penalty.add_curvature(hess)
        return RowPoint(RowExpansion(merit, grad, hess))

    def _at_rows(self, sums: Sums, theta: Array) -> "RowPoint":
        """The likelihood by sums over the outcomes of each x row."""
        layout = self.layout
        # Where a search begins all draws are at one point.
        at = theta[:, :1] if bool((theta == theta[:, :1]).all()) else theta
        found: list[tuple[Array, Array, Array]] = []
        for bound, trials, some in self._row_parts(sums):
            eta = bound.eta(at)
            cumulant, mean, variance = layout.family.cumulant(eta, trials)
            grad = bound.pullback([some.mass * mean - some.outcomes])
            hess = bound.pullback_curvature([[some.mass * variance]])
            found.append((some.loss(eta[0], cumulant), grad, hess))
        merit, grad, hess = (reduce(np.add, parts) for parts in zip(*found, strict=True))
        merit = merit + self.penalty.value(theta)
        grad += self.penalty.grad(theta)
        self.penalty.add_curvature(hess)
        return RowPoint(RowExpansion(merit, grad, hess))

    def _row_parts(self, sums: Sums) -> Iterator[tuple[AbstractBound, Array, Sums]]:
        """Predictor, trials and sums of the x rows, so many as stay in the cache where these are
        many.
        """
        layout, n_x = self.layout, self.layout.cells.n_x
        if n_x <= MANY_ROWS:
            yield layout.bound, layout.x_trials, sums
            return
        size = max(_ELEMENTS // self.n_draws, 1)
        for start in range(0, n_x, size):
            rows = slice(start, start + size)
            yield layout.bound.cut(rows), layout.x_trials[rows], sums.cut(rows, first=not start)

    def value(self, theta: Array) -> Array:
        return self._loss(theta) + self.penalty.value(theta)

    def distance(self, theta: Array) -> Array:
        """The divergence from the table's own conditional probabilities, (B,)."""
        return self._loss(theta) - self._own_loss()

    def score(self, pool: Array) -> Array:
        layout, divergence = self.layout, self.divergence
        log_pmf = layout.cell_pairs.log_pmf(pool)
        scores = to_host(divergence.loss(log_pmf).T @ self.p)
        if divergence.power:
            total = layout.family.power_sum(
                layout.bound.eta(pool), divergence.power, layout.x_trials
            )[0]
            scores += to_host(total.T @ layout.cell_pairs.x_of_pair.total(self.p))
        return scores + self.penalty.value(pool)[:, None]

    def _loss(self, theta: Array) -> Array:
        layout, divergence = self.layout, self.divergence
        compiled = self._compiled
        constant = None if compiled is None else compiled.constant
        if compiled is not None and constant is not None:
            return compiled.loss(self.p, theta) - constant @ self.p
        if self._sums is not None:
            eta = layout.bound.eta(theta)
            cumulant = layout.family.cumulant(eta, layout.x_trials)[0]
            return self._sums.loss(eta[0], cumulant)
        log_pmf = layout.cell_pairs.log_pmf(theta)
        loss = to_host((self.p * divergence.loss(log_pmf)).sum(0))
        if divergence.power:
            total = layout.family.power_sum(
                layout.bound.eta(theta), divergence.power, layout.x_trials
            )[0]
            loss += to_host((layout.cell_pairs.x_of_pair.total(self.p) * total).sum(0))
        return loss

    def _own_loss(self) -> Array:
        """Loss of a model equal to the table; cells without mass contribute nothing."""
        rows = self.layout.cell_pairs.x_of_pair
        if rows.one_each and not self.divergence.power:
            # Every row is its own conditional law.
            return np.zeros(self.p.shape[1])
        x_mass = rows.spread(rows.total(self.p))
        own = xp.where(self.p > 0, self.p, 1.0) / xp.where(self.p > 0, x_mass, 1.0)
        loss = self.p * self.divergence.loss(xp.log(own))
        if self.divergence.power:
            loss += xp.where(self.p > 0, x_mass, 0.0) * own**self.divergence.power
        return to_host(loss.sum(0))


@dataclass(frozen=True, eq=False)
class RowPoint:
    """A `RowProblem` at theta. There is nothing to smooth, so its expansion is already known."""

    expansion: "RowExpansion"

    def merit(self, tau: Array) -> Array:
        return self.expansion.merit

    def expand(self, tau: Array, dual: Array | None) -> "RowExpansion":
        return self.expansion


@dataclass(frozen=True, eq=False)
class RowExpansion:
    """Value, gradient and curvature."""

    merit: Array
    grad: Array
    hess: Array

    def dual_after(self, step: Array) -> Array:
        """There are no kinks, hence no dual variables."""
        return np.zeros((0, step.shape[1]))
