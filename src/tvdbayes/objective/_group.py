"""Problems whose divergence compares the masses of groups.

For draw b with cell masses p, and units u (a group g and an outcome y seen in it):

    data mass    p(u) = sum of the masses of the cells of u,
    model mass   f(u; theta) = sum_{i in g} p(x_i) f(y | x_i; theta),
    F(theta) = sum_u t(p(u), f(u; theta)) + penalty(theta).

Gradient and second derivative are J't' and J' diag(t'') J + sum_u t'(u) d2f(u), with the Jacobian
J = df / d theta. Where groups are large the last term nearly cancels and is left out
(Gauss-Newton).
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol

import numpy as np

from tvdbayes._array import tiny, to_host, xp
from tvdbayes._typing import Array, IntArray
from tvdbayes.kernel import library
from tvdbayes.objective._compiled_groups import CompiledGroups
from tvdbayes.objective._layout import Layout
from tvdbayes.objective._penalty import Penalty
from tvdbayes.objective._terms import AbstractComparison, GroupTerms, Parts
from tvdbayes.objective._units import AbstractUnits
from tvdbayes.solvers import Accuracy


@dataclass(frozen=True, eq=False)
class Masses:
    """What the tables of a block are to the units.

    Parameters
    ----------
    data : (U, B)
        Mass of the data in each unit.
    atom : (Q, B)
        Mass of each pair's atom: what its pmf is multiplied with.
    whole : (U, B) or None
        Mass of each unit's group, where one of two outcomes stands for both.
    """

    data: Array
    atom: Array
    whole: Array | None

    @classmethod
    def of(cls, units: AbstractUnits, p: Array) -> "Masses":
        """The masses of tables p (m, B)."""
        data, whole = units.data_mass(p), units.whole(p)
        # A group may be without mass: rows are left out by giving them none.
        whole = whole if whole is None else xp.maximum(whole, tiny(whole))
        return cls(xp.maximum(data, tiny(data)), units.atom_mass(p), whole)

    def take(self, index: IntArray) -> "Masses":
        """Those of the draws with these numbers."""
        data, atom = (part.take(index, axis=1) for part in (self.data, self.atom))
        return Masses(data, atom, None if self.whole is None else self.whole.take(index, axis=1))


@dataclass(frozen=True, eq=False)
class GroupProblem:
    """B reweighted tables to be matched by the model, unit by unit.

    Parameters
    ----------
    p : (m, B)
        Masses of the cells.
    """

    parts: Parts
    divergence: GroupTerms
    p: Array

    @property
    def layout(self) -> Layout:
        """Model, table and groups."""
        return self.parts.layout

    @cached_property
    def penalty(self) -> Penalty:
        """What is added to the divergence."""
        return self.parts.penalty

    @property
    def anchor(self) -> Array | None:
        """What the units reuse at every point of every draw."""
        return self.parts.anchor

    @cached_property
    def curved(self) -> bool:
        """Whether steps use the second derivatives of the pmf."""
        return self.layout.units.curved or not self.parts.near

    @cached_property
    def masses(self) -> Masses:
        """What the tables are to the units."""
        return Masses.of(self.layout.units, self.p)

    @property
    def data_mass(self) -> Array:
        return self.masses.data

    @property
    def atom_mass(self) -> Array:
        return self.masses.atom

    @property
    def whole(self) -> Array | None:
        return self.masses.whole

    @cached_property
    def compiled(self) -> CompiledGroups | None:
        """The same in the compiled kernel; None where that is missing or does not cover it."""
        kernel, slots = library(), self.layout.slots
        if kernel is None or slots is None or not self.divergence.compiled:
            return None
        units = self.layout.units
        return CompiledGroups(
            kernel,
            slots,
            self.penalty,
            np.ascontiguousarray(self.p),
            self.anchor,
            units.group_of_unit.index.size,
            units.n_partitions,
            units.folded,
            self.curved,
        )

    @property
    def accuracy(self) -> Accuracy:
        return self.layout.accuracy(self.layout.units.accuracy)

    @property
    def n_params(self) -> int:
        return self.layout.bound.n_params

    @property
    def n_draws(self) -> int:
        return len(self.p.T)

    @property
    def kinked(self) -> bool:
        return self.divergence.kinked

    @property
    def n_terms(self) -> int:
        return self.layout.units.group_of_unit.index.size

    def take(self, index: IntArray) -> "GroupProblem":
        taken = replace(self, p=self.p.take(index, axis=1))
        if "masses" in self.__dict__:
            taken.__dict__["masses"] = self.masses.take(index)
        return taken

    def batch_size(self, n: int) -> int:
        return self.layout.batch_size(n)

    def compare(self, model_mass: Array) -> AbstractComparison:
        """Data masses against these model masses (U, B)."""
        if self.whole is None:
            return self.divergence.compare(self.data_mass, model_mass)
        return self.divergence.compare_halves(self.data_mass, model_mass, self.whole)

    def at(self, theta: Array) -> "GroupPoint":
        pairs = self.layout.units.pairs
        second = None
        if self.curved:
            pmf, first, second = pairs.jet(theta)
        else:
            pmf, first = pairs.slopes(theta)
        model_mass = self.layout.units.total(self.atom_mass * pmf)
        compared = self.compare(model_mass)
        return GroupPoint(self, theta, model_mass, compared, (self.atom_mass, first, second))

    def distance(self, theta: Array) -> Array:
        """The divergence alone, (B,)."""
        batches = self.layout.batches if self.divergence.by_excess else None
        # The kernel knows where its search has ended.
        if batches is not None and "compiled" not in self.__dict__:
            excess = batches.excess(self.p, theta)
            return self.divergence.of_excess(excess, folded=self.layout.fold)
        if self.compiled is not None:
            return self.compiled.distance(theta)
        units = self.layout.units
        model_mass = units.total(self.atom_mass * units.pairs.pmf(theta))
        return self._exact(model_mass)

    def _exact(self, model_mass: Array) -> Array:
        if self.whole is None:
            return to_host(self.divergence.term(self.data_mass, model_mass).sum(0))
        return to_host(self.compare(model_mass).total(np.zeros(self.n_draws)))

    def value(self, theta: Array) -> Array:
        return self.distance(theta) + self.penalty.value(theta)

    def score(self, pool: Array) -> Array:
        penalty = self.penalty.value(pool)
        units = self.layout.units
        if self.compiled is not None:
            return self.compiled.score(units.slot_pmf(pool)) + penalty[:, None]
        scores = np.empty((pool.shape[1], self.n_draws))
        for number, pmf in enumerate(units.pairs.pmf(pool).T):
            model_mass = units.total(self.atom_mass * pmf[:, None])
            scores[number] = self._exact(model_mass)
        return scores + penalty[:, None]

    def kinks(self, candidates: Array, low: Array, high: Array) -> tuple[Array, IntArray]:
        """Where, in one parameter, model mass equals data mass: two roots for each cell."""
        pairs = self.layout.units.pairs
        pmf = pairs.pmf(candidates[None])
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = self.data_mass / self.atom_mass
            target = np.log(ratio)
        found = []
        first, last = np.searchsorted(candidates, [low.min(), high.max()])
        for piece in range(max(first - 1, 0), min(last + 1, candidates.size - 1)):
            above_left, above_right = (pmf[:, [piece + side]] > ratio for side in (0, 1))
            asked = (candidates[piece] < high) & (candidates[piece + 1] > low)
            cell, draw = np.nonzero((above_left != above_right) & asked)
            found.append((cell, draw, np.full(cell.size, piece), above_right[cell, draw]))
        if not found:
            return np.zeros(0), np.zeros(0, np.intp)
        cell, draw, piece_of, rising = (np.concatenate(parts) for parts in zip(*found, strict=True))
        a, b = candidates[piece_of], candidates[piece_of + 1]
        z = pairs.x_of_pair.spread(pairs.bound.designs[0])[cell, 0]
        offset = pairs.x_of_pair.spread(pairs.bound.offset)[cell]
        y, trials, target = pairs.y[cell, 0], pairs.trials[cell, 0], target[cell, draw]
        at = (a + b) / 2
        for _ in range(40):
            log_pmf, score, _ = pairs.family.log_jet(y, (z * at + offset)[None], trials)
            inside = (log_pmf > target) == rising
            a, b = np.where(inside, a, at), np.where(inside, at, b)
            with np.errstate(divide="ignore", invalid="ignore"):
                aim = at - (log_pmf - target) / (score[0] * z)
            before, at = at, np.where((aim >= a) & (aim <= b), aim, (a + b) / 2)
            if np.abs(at - before).max(initial=0.0) < 1e-14:
                break
        fits = (at > low[draw]) & (at < high[draw])
        return at[fits], draw[fits]


@dataclass(frozen=True, eq=False)
class GroupPoint:
    """A `GroupProblem` at theta: masses compared, and their derivatives in eta by pairs."""

    problem: GroupProblem
    theta: Array
    model_mass: Array
    compared: AbstractComparison
    jet: tuple[Array, Array, Array | None]

    def merit(self, tau: Array) -> Array:
        return to_host(self.compared.total(tau)) + self.problem.penalty.value(self.theta)

    def change(self, jacobian: Array, step: Array) -> Array:
        return self.problem.layout.units.change(jacobian, step)

    def expand(self, tau: Array, dual: Array | None) -> "GroupExpansion":
        slope, curvature = self.compared.derivatives(tau, dual)
        units = self.problem.layout.units
        grad, hess, jacobian = units.expand(
            self.problem.anchor, self.model_mass, self.jet, slope, curvature
        )
        grad += self.problem.penalty.grad(self.theta)
        self.problem.penalty.add_curvature(hess)
        return GroupExpansion(self, tau, grad, hess, curvature, jacobian)


class ComparedPoint(Protocol):
    """A point at which masses are compared, wherever they were added up."""

    @property
    def compared(self) -> AbstractComparison:
        """Data masses against model masses."""

    def merit(self, tau: Array) -> Array:
        """Smoothed value, (B,)."""

    def change(self, jacobian: Array, step: Array) -> Array:
        """Change of the unit masses (U, B) along a step (d, B)."""


@dataclass(frozen=True, eq=False)
class GroupExpansion:
    """Gradient and curvature, and what the dual variables of the kinks will be after a step."""

    point: ComparedPoint
    tau: Array
    grad: Array
    hess: Array
    curvature: Array
    jacobian: Array

    @property
    def merit(self) -> Array:
        return self.point.merit(self.tau)

    def dual_after(self, step: Array) -> Array:
        change = self.point.change(self.jacobian, step)
        return self.point.compared.dual_after(self.tau, self.curvature, change)
