"""Where data and model are compared: a group of covariate rows and an outcome seen in it.

The mass of an x row is spread by the model over outcomes; a unit's model mass is the sum over the
rows of its group. With one row per group (distinct x) units, pairs and cells are the same thing,
and everything here is the identity; with larger groups, or an ensemble of R partitions, a sparse
matrix of ones takes pairs to units and back.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from scipy import sparse

from tvdbayes._array import Segments
from tvdbayes._typing import Array, IntArray
from tvdbayes.cells import Cells
from tvdbayes.families import AbstractFamily
from tvdbayes.objective._pairs import Pairs
from tvdbayes.partitions import Grouping
from tvdbayes.predictors import BoundLinear
from tvdbayes.solvers import Accuracy

__all__ = ["AbstractUnits", "make_units"]


_FLOOR = 0.02
"""Share of the mean curvature of a kink that every kink has, so that far-off ones count too."""

_PATH = ["einsum_path", (0, 1), (0, 1)]
"""Multiply the Jacobian by the curvature first; numpy would search for this order each time."""


class AbstractUnits(ABC):
    """The map between cells, pairs (an atom and an outcome) and units (a group and an outcome)."""

    pairs: Pairs
    accuracy: ClassVar[Accuracy]
    """How fine the smoothing of the kinks must end, and when a step is no longer worth taking."""

    @property
    @abstractmethod
    def n_elements(self) -> int:
        """Array elements that a draw needs."""

    @abstractmethod
    def data_mass(self, p: Array) -> Array:
        """Mass of the data in each unit, (U, B), from cell masses p (m, B)."""

    @abstractmethod
    def atom_mass(self, p: Array) -> Array:
        """Mass of each pair's atom, (Q, B): what its pmf is multiplied with."""

    @abstractmethod
    def whole(self, p: Array) -> Array | None:
        """Where one of two outcomes stands for both: the mass of each unit's group, (U, B)."""

    @abstractmethod
    def total(self, values: Array) -> Array:
        """Sum over the pairs of each unit: (Q, B) to (U, B)."""

    @abstractmethod
    def anchor(self, theta: Array, mass: Array) -> Array | None:
        """What `expand` can reuse at every point of a draw, taken at theta (d, B).

        ``mass`` (Q, B) is the mass of each pair's atom; last axis of the result B.
        """

    @abstractmethod
    def expand(
        self,
        anchor: Array | None,
        mass: Array,
        jet: tuple[Array, Array, Array | None],
        slope: Array,
        bend: Array,
    ) -> tuple[Array, Array, Array]:
        """Gradient (d, B), curvature (d, d, B), and the Jacobian that `change` needs.

        ``mass`` (U, B) is the model mass of the units; ``jet`` holds the pairs' masses (Q, B) per
        pmf, and the first (k, Q, B) and, without an anchor, second (k, k, Q, B) derivatives of the
        pmf in eta;
        ``slope`` and ``bend`` (U, B) are those of the divergence in the units' masses.
        """

    @abstractmethod
    def change(self, jacobian: Array, step: Array) -> Array:
        """Change of the unit masses (U, B) along a step (d, B)."""


@dataclass(frozen=True, eq=False)
class SingleUnits(AbstractUnits):
    """Every group is one atom, so a unit is a pair is a cell."""

    pairs: Pairs
    atom_of_cell: Segments

    accuracy: ClassVar[Accuracy] = Accuracy(tau=1e-9, decrement=1e-13)

    @property
    def n_elements(self) -> int:
        return len(self.pairs.y)

    def data_mass(self, p: Array) -> Array:
        return p

    def atom_mass(self, p: Array) -> Array:
        return self.atom_of_cell.spread(self.atom_of_cell.total(p))

    def whole(self, p: Array) -> Array | None:
        return None

    def total(self, values: Array) -> Array:
        return values

    def anchor(self, theta: Array, mass: Array) -> Array | None:
        return None

    def expand(
        self,
        anchor: Array | None,
        mass: Array,
        jet: tuple[Array, Array, Array | None],
        slope: Array,
        bend: Array,
    ) -> tuple[Array, Array, Array]:
        atom_mass, first, second = jet
        first = atom_mass * first
        curvature = bend * first[:, None] * first
        assert second is not None
        curvature += (slope * atom_mass) * second
        return *self.pairs.pull_back(slope * first, curvature), first

    def change(self, jacobian: Array, step: Array) -> Array:
        along = self.pairs.spread(self.pairs.bound.direction(step))
        change: Array = np.einsum("kqb,kqb->qb", jacobian, along)
        return change


@dataclass(frozen=True, eq=False)
class PooledUnits(AbstractUnits):
    """Groups of several atoms, in an ensemble of R partitions; masses are divided by R."""

    pairs: Pairs
    to_units: sparse.csr_array
    pair_of_cell: IntArray
    atom_of_cell: Segments
    atom_of_pair: IntArray
    n_partitions: int
    folded: bool

    # Only a few of the many units end on their kinks: their smoothing adds less than 1e-6.
    accuracy: ClassVar[Accuracy] = Accuracy(tau=1e-4, decrement=1e-8, begin=0.03)

    @property
    def n_elements(self) -> int:
        return len(self.pairs.y) + self.to_units.shape[1] * (1 + self.pairs.bound.n_params)

    @cached_property
    def _from_pairs(self) -> sparse.csc_array:
        # A transposed view: its product streams over pairs and adds into units.
        return self.to_units.T

    def data_mass(self, p: Array) -> Array:
        seen = np.zeros((self.atom_of_pair.size, p.shape[1]))
        here = self.pair_of_cell >= 0
        seen[self.pair_of_cell[here]] = p[here]
        return self.total(seen) / self.n_partitions

    def whole(self, p: Array) -> Array | None:
        return self.total(self.atom_mass(p)) if self.folded else None

    def atom_mass(self, p: Array) -> Array:
        return self.atom_of_cell.total(p).take(self.atom_of_pair, axis=0) / self.n_partitions

    def total(self, values: Array) -> Array:
        summed: Array = self._from_pairs @ values
        return summed

    def anchor(self, theta: Array, mass: Array) -> Array | None:
        # The Jacobian as a share of the mass hardly changes with theta. Taking it once for each
        # draw saves d sums over all pairs in every step.
        pmf, first = self.pairs.slopes(theta)
        total = np.maximum(self.total(mass * pmf), 1e-300)
        return self.jacobian(mass * first) / total

    def expand(
        self,
        anchor: Array | None,
        mass: Array,
        jet: tuple[Array, Array, Array | None],
        slope: Array,
        bend: Array,
    ) -> tuple[Array, Array, Array]:
        atom_mass, first, second = jet
        pull = atom_mass * (self.to_units @ slope)
        if anchor is None:
            assert second is not None
            jacobian = self.jacobian(atom_mass * first)
            grad, hess = self.pairs.pull_back(pull * first, pull * second)
        else:
            # Gauss-Newton: the second derivatives of the pmf nearly cancel over a group, and
            # without them the curvature is never negative. Measured: fewer steps, half the time.
            jacobian = anchor * mass
            grad = self.pairs.pull_back_slope(pull * first)
            hess = np.zeros((len(grad), *grad.shape))
            bend = bend + _FLOOR * bend.mean(0)
        hess += np.einsum("iub,ub,jub->ijb", jacobian, bend, jacobian, optimize=_PATH)
        return grad, hess, jacobian

    def change(self, jacobian: Array, step: Array) -> Array:
        change: Array = np.einsum("iub,ib->ub", jacobian, step)
        return change

    def jacobian(self, first: Array) -> Array:
        """Derivative of the unit masses in theta, (d, U, B)."""
        return np.stack([self.total(first[k] * z) for k, z in self.pairs.columns])


def make_units(
    family: AbstractFamily, bound: BoundLinear, cells: Cells, grouping: Grouping, fold: bool
) -> AbstractUnits:
    """The units of a table under a partition; `fold` lets one of two outcomes stand for both."""
    atom_of_cell = Segments(grouping.atom_of_cell, grouping.x_of_atom.size)
    n_atoms = grouping.x_of_atom.size
    if grouping.groups.shape[0] == 1 and np.array_equal(grouping.groups[0], np.arange(n_atoms)):
        x_of_pair = Segments(cells.x_index, cells.n_x)
        trials = cells.trials[cells.x_index, None]
        return SingleUnits(Pairs(family, bound, x_of_pair, cells.y[:, None], trials), atom_of_cell)
    groups = _numbered(grouping.groups)
    if fold:
        atom_of_pair, y_of_pair = np.arange(n_atoms), np.ones(n_atoms)
        to_units = _ones(np.tile(atom_of_pair, len(groups)), groups.ravel())
        pair_of_cell = np.where(cells.y > 0, grouping.atom_of_cell, -1)
    else:
        outcomes, y = np.unique(cells.y, return_inverse=True)
        pair_key, to_units = _incidence(groups, grouping.atom_of_cell, y, outcomes.size)
        atom_of_pair, number = np.divmod(pair_key, outcomes.size)
        y_of_pair = outcomes[number]
        pair_of_cell = np.searchsorted(pair_key, grouping.atom_of_cell * outcomes.size + y)
    x_index = grouping.x_of_atom[atom_of_pair]
    pairs = Pairs(
        family,
        bound,
        Segments(x_index, cells.n_x),
        y_of_pair[:, None],
        cells.trials[x_index, None],
    )
    return PooledUnits(pairs, to_units, pair_of_cell, atom_of_cell, atom_of_pair, len(groups), fold)


def _numbered(groups: IntArray) -> IntArray:
    """Give the groups of all partitions different numbers, without gaps, (R, n_atoms)."""
    numbered, start = [], 0
    for labels in groups:
        _, index = np.unique(labels, return_inverse=True)
        numbered.append(index + start)
        start += index.max() + 1
    return np.array(numbered)


def _incidence(
    groups: IntArray, atom_of_cell: IntArray, y: IntArray, n_outcomes: int
) -> tuple[IntArray, sparse.csr_array]:
    """Keys (atom * outcomes + outcome) of the pairs, and the matrix that takes them to units."""
    group_of_cell = groups[:, atom_of_cell]
    unit_key = np.unique((group_of_cell * n_outcomes + y).ravel())
    unit_group, unit_y = np.divmod(unit_key, n_outcomes)
    first = np.searchsorted(unit_group, np.arange(groups.max() + 2))
    keys, units = [], []
    for labels in groups:
        count = first[labels + 1] - first[labels]
        atom = np.repeat(np.arange(labels.size), count)
        within = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
        unit = first[labels[atom]] + within
        keys.append(atom * n_outcomes + unit_y[unit])
        units.append(unit)
    pair_key, pair = np.unique(np.concatenate(keys), return_inverse=True)
    return pair_key, _ones(pair, np.concatenate(units))


def _ones(rows: IntArray, columns: IntArray) -> sparse.csr_array:
    return sparse.csr_array((np.ones(rows.size), (rows, columns)))
