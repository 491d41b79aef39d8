"""Optimisation problems whose values and derivatives are sums over rows on workers."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from tvdbayes._array import tiny
from tvdbayes._typing import Array, IntArray
from tvdbayes.large.rows import AbstractRows
from tvdbayes.large.shares import Shares
from tvdbayes.large.sums import (
    Sum,
    data_masses,
    gradient,
    likelihood,
    loss,
    model_masses,
    weight,
)
from tvdbayes.objective import GroupExpansion, Penalty, RowExpansion, RowPoint, gauss_newton
from tvdbayes.objective._terms import AbstractComparison
from tvdbayes.objective.divergences import TVD
from tvdbayes.solvers import Accuracy


@dataclass(frozen=True, eq=False)
class UnitMasses:
    """The masses (U, B) of reweighted data, for draws (B,), in the units (U,) that have any.

    A weight times its share (B,) is a mass: those of all rows add up to 1. `whole` is the mass of
    each unit's group, where one of two outcomes stands for both.
    """

    draws: IntArray
    units: IntArray
    share: Array
    data: Array
    whole: Array | None

    @classmethod
    def make(
        cls, rows: AbstractRows, draws: IntArray, units: IntArray | None = None
    ) -> "UnitMasses":
        """Add up the weights of the draws with these numbers, in units that are known or found."""
        data, whole, total = rows.total(Sum(data_masses, draws))
        folded = rows.rules.compared.bins is None
        if units is None:
            units = np.flatnonzero((whole if folded else data).max(1) > 0)
        share = 1 / total
        mass = share / rows.rules.compared.n_partitions
        return cls(
            draws,
            units,
            share,
            np.maximum(data[units] * mass, tiny(data)),
            np.maximum(whole[units] * mass, tiny(whole)) if folded else None,
        )

    def take(self, index: IntArray) -> "UnitMasses":
        """The draws in these places."""
        whole = None if self.whole is None else self.whole.take(index, axis=1)
        data = self.data.take(index, axis=1)
        return UnitMasses(self.draws[index], self.units, self.share[index], data, whole)

    def compare(self, mass: Array) -> AbstractComparison:
        """These masses against those of the model (U, B)."""
        if self.whole is None:
            return TVD().compare(self.data, mass)
        return TVD().compare_halves(self.data, mass, self.whole)


@dataclass(frozen=True, eq=False)
class RowMasses:
    """The masses of reweighted rows, for draws (B,): the weight of a row, of which a share may be
    kept, times `share` (B,).
    """

    draws: IntArray
    share: Array
    shares: Shares | None

    @classmethod
    def make(cls, rows: AbstractRows, draws: IntArray, shares: Shares | None = None) -> "RowMasses":
        """Add up the weights of the draws with these numbers."""
        (total,) = rows.total(Sum(weight, draws, shares=shares))
        return cls(draws, 1 / total, shares)

    def take(self, index: IntArray) -> "RowMasses":
        """The draws in these places."""
        return RowMasses(self.draws[index], self.share[index], self.shares)


@dataclass(frozen=True, eq=False)
class _AbstractSummed(ABC):
    """B reweighted data sets to be matched by the model."""

    rows: AbstractRows
    table: Any
    penalty: Penalty

    compiled = None

    @property
    def n_params(self) -> int:
        """D."""
        return self.rows.rules.bound.n_params

    @property
    def n_draws(self) -> int:
        """B."""
        n: int = self.table.draws.size
        return n

    def take(self, index: IntArray) -> Self:
        """The problems with these numbers."""
        return replace(self, table=self.table.take(index))

    def batch_size(self, n: int) -> int:
        """As many as are needed."""
        return n

    @abstractmethod
    def distance(self, theta: Array) -> Array:
        """The divergence alone, (B,)."""

    def value(self, theta: Array) -> Array:
        """The value itself, not smoothed, (B,)."""
        return self.distance(theta) + self.penalty.value(theta)

    def score(self, pool: Array) -> Array:
        """The values of K common candidates (d, K) in every problem, (K, B)."""
        same = np.ones(self.n_draws)
        return np.stack([self.value(candidate[:, None] * same) for candidate in pool.T])


@dataclass(frozen=True, eq=False)
class SummedGroups(_AbstractSummed):
    """Data compared with the model unit by unit.

    The anchor (d, U, 1) is the derivative of the units' masses as a share of these, taken once; see
    `PooledUnits`.
    """

    table: UnitMasses
    anchor: Array
    accuracy: Accuracy

    kinked = True

    def at(self, theta: Array) -> "GroupsPoint":
        """Evaluate at (d, B)."""
        mass = self.masses(theta)
        return GroupsPoint(self, theta, mass, self.table.compare(mass))

    def masses(self, theta: Array) -> Array:
        """Model masses (U, B) of the units."""
        table = self.table
        (mass,) = self.rows.total(Sum(model_masses, table.draws, (theta,)))
        return mass[table.units] * (table.share / self.rows.rules.compared.n_partitions)

    def distance(self, theta: Array) -> Array:
        """The divergence alone, (B,)."""
        return self.table.compare(self.masses(theta)).total(np.zeros(self.n_draws))


@dataclass(frozen=True, eq=False)
class GroupsPoint:
    """`SummedGroups` at theta: masses compared."""

    problem: SummedGroups
    theta: Array
    mass: Array
    compared: AbstractComparison

    def merit(self, tau: Array) -> Array:
        """Smoothed value, (B,)."""
        return self.compared.total(tau) + self.problem.penalty.value(self.theta)

    def change(self, jacobian: Array, step: Array) -> Array:
        """Change of the unit masses (U, B) along a step (d, B)."""
        change: Array = np.einsum("iub,ib->ub", jacobian, step)
        return change

    def expand(self, tau: Array, dual: Array | None) -> GroupExpansion:
        """Gradient by one more sum over rows, curvature from the anchor."""
        problem, table = self.problem, self.problem.table
        slope, curvature = self.compared.derivatives(tau, dual)
        at_units = np.zeros((problem.rows.rules.compared.n_units, problem.n_draws))
        at_units[table.units] = slope * (table.share / problem.rows.rules.compared.n_partitions)
        (grad,) = problem.rows.total(Sum(gradient, table.draws, (self.theta, at_units)))
        grad = grad + problem.penalty.grad(self.theta)
        jacobian = problem.anchor * self.mass
        hess = gauss_newton(jacobian, curvature)
        problem.penalty.add_curvature(hess)
        return GroupExpansion(self, tau, grad, hess, curvature, jacobian)


@dataclass(frozen=True, eq=False)
class SummedRows(_AbstractSummed):
    """Data compared with the model row by row: weighted maximum likelihood."""

    table: RowMasses

    kinked = False
    accuracy = Accuracy(tau=0.0, decrement=1e-13, rounding=1e-14)

    def at(self, theta: Array) -> RowPoint:
        """Evaluate at (d, B)."""
        table = self.table
        wanted = Sum(likelihood, table.draws, (theta,), table.shares)
        merit, grad, hess = self.rows.total(wanted)
        merit = merit * table.share + self.penalty.value(theta)
        grad = grad * table.share + self.penalty.grad(theta)
        hess = hess * table.share
        self.penalty.add_curvature(hess)
        return RowPoint(RowExpansion(merit, grad, hess))

    def distance(self, theta: Array) -> Array:
        """The divergence from data of which no two rows have the same x, (B,)."""
        table = self.table
        (found,) = self.rows.total(Sum(loss, table.draws, (theta,), table.shares))
        return found * table.share
