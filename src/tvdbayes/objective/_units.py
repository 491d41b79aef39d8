"""Where data and model are compared: a group of covariate rows and an outcome seen in it.

The mass of an x row is spread by the model over outcomes; a unit's model mass is the sum over the
rows of its group, and over the outcomes of its bin where outcomes are binned. With one row per
group (distinct x) units, pairs and cells are the same thing, and everything here is the identity.
With larger groups, or an ensemble of R partitions, the pairs of a row and a bin are first added up
to a *slot*; a sparse matrix of ones takes slots to units and back.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from tvdbayes._array import Device, Ones, Segments, tiny, to_host, xp
from tvdbayes._typing import Array, IntArray
from tvdbayes.objective._pairs import Pairs
from tvdbayes.objective._slots import Slots
from tvdbayes.solvers import Accuracy

_STEADY = 80
"""Rows of a group from which sums over it hardly depend on random weights. In smaller ones steps
without second derivatives, or with a common Jacobian, left one draw in seven uncertified."""

FLOOR = 0.02
"""Share of the mean curvature of a kink that every kink has, so that far-off ones count too."""


@dataclass(frozen=True, eq=False)
class Listed:
    """The units of one partition as plain lists, to be cut into pieces.

    Parameters
    ----------
    x, y, trials, weight : (Q,)
        The x row of each pair, its outcome and trials, and how often its mass counts.
    atom, unit : (Q,)
        The atom whose mass a pair has, and the unit that it belongs to.
    unit_of_cell : (m,)
        The unit of each cell, -1 where it is not counted.
    group_of_unit : (U,)
    """

    x: IntArray
    y: Array
    trials: Array
    weight: Array
    atom: IntArray
    unit: IntArray
    unit_of_cell: IntArray
    group_of_unit: IntArray


class AbstractUnits(ABC):
    """The map between cells, pairs (an atom and an outcome) and units (a group and an outcome)."""

    pairs: Pairs
    atom_of_cell: Segments
    n_partitions: int
    group_of_unit: Segments
    folded: bool
    """Whether one of two outcomes stands for both."""
    exact: ClassVar[bool]
    """Whether units are cells, so that a problem in one parameter knows where its kinks are."""
    accuracy: ClassVar[Accuracy]
    """How fine the smoothing of the kinks must end, and when a step is no longer worth taking."""

    @property
    @abstractmethod
    def curved(self) -> bool:
        """Whether every step needs the second derivatives of the pmf."""

    @property
    @abstractmethod
    def n_elements(self) -> int:
        """Array elements that a draw needs."""

    @abstractmethod
    def put(self, device: Device) -> "AbstractUnits":
        """The same on a device."""

    @abstractmethod
    def listed(self) -> Listed:
        """The same as lists, of one partition."""

    @abstractmethod
    def slots(self, law: str) -> Slots:
        """The same as lists that the kernel reads, under a law that it knows."""

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
    def slot_pmf(self, theta: Array) -> Array:
        """The pmf summed over the nodes of each slot, (n_slots, K), at points theta (d, K)."""

    @abstractmethod
    def of_cells(self, values: Array) -> Array:
        """Mean over the units that each cell belongs to: (U, B) to (m, B); not where folded."""

    def masses(self, p: Array, theta: Array) -> tuple[Array, Array]:
        """Masses (U, B) of data and model in each unit, of tables p (m, B) at theta (d, B)."""
        data = xp.maximum(self.data_mass(p), tiny(p))
        return data, self.total(self.atom_mass(p) * self.pairs.pmf(theta))

    @abstractmethod
    def anchor(self, theta: Array, mass: Array) -> Array | None:
        """What `expand` can reuse at every point of every draw, taken at theta (d, 1).

        ``mass`` (Q, 1) is the mass of each pair's atom.
        """

    @abstractmethod
    def expand(
        self,
        anchor: Array | None,
        mass: Array,
        jet: tuple[Array, Array, Array | None],
        slope: Array,
        unit_curvature: Array,
    ) -> tuple[Array, Array, Array]:
        """Gradient (d, B), curvature (d, d, B), and the Jacobian that `change` needs.

        ``mass`` (U, B) is the model mass of the units; ``jet`` holds the pairs' masses (Q, B) per
        pmf, and the first (k, Q, B) and, where asked for, second (k, k, Q, B) derivatives of the
        pmf in eta;
        ``slope`` and ``unit_curvature`` (U, B) are the derivatives of the divergence in the units'
        masses.
        """

    @abstractmethod
    def change(self, jacobian: Array, step: Array) -> Array:
        """Change of the unit masses (U, B) along a step (d, B)."""


@dataclass(frozen=True, eq=False)
class SingleUnits(AbstractUnits):
    """Every group is one atom, so a unit is a pair is a cell."""

    pairs: Pairs
    atom_of_cell: Segments

    n_partitions: int = 1
    folded: bool = False
    exact: ClassVar[bool] = True

    @property
    def group_of_unit(self) -> Segments:  # type: ignore[override]
        return self.atom_of_cell

    @property
    def curved(self) -> bool:
        return True

    accuracy: ClassVar[Accuracy] = Accuracy(tau=1e-9, decrement=1e-13)

    def put(self, device: Device) -> "SingleUnits":
        return replace(self, pairs=self.pairs.put(device))

    @property
    def n_elements(self) -> int:
        return len(self.pairs.y)

    def listed(self) -> Listed:
        pairs, cells = self.pairs, np.arange(len(self.pairs.y))
        atom = self.atom_of_cell.index
        return Listed(
            pairs.x_of_pair.index,
            pairs.y[:, 0],
            pairs.trials[:, 0],
            np.ones(cells.size),
            atom,
            cells,
            cells,
            atom,
        )

    def slots(self, law: str) -> Slots:
        cells, atom = np.arange(len(self.pairs.y)), self.atom_of_cell.index
        return Slots.of(
            law,
            self.pairs,
            slot_of_pair=cells,
            atom_of_pair=atom,
            weight=np.ones(cells.size),
            units=(np.arange(cells.size + 1), cells),
            atom_of_cell=atom,
            slot_of_cell=cells,
        )

    def data_mass(self, p: Array) -> Array:
        return p

    def atom_mass(self, p: Array) -> Array:
        return self.atom_of_cell.spread(self.atom_of_cell.total(p))

    def whole(self, p: Array) -> Array | None:
        return None

    def total(self, values: Array) -> Array:
        return values

    def slot_pmf(self, theta: Array) -> Array:
        return self.pairs.pmf(theta)

    def of_cells(self, values: Array) -> Array:
        return values

    def anchor(self, theta: Array, mass: Array) -> Array | None:
        return None

    def expand(
        self,
        anchor: Array | None,
        mass: Array,
        jet: tuple[Array, Array, Array | None],
        slope: Array,
        unit_curvature: Array,
    ) -> tuple[Array, Array, Array]:
        atom_mass, first, second = jet
        first = atom_mass * first
        curvature = unit_curvature * first[:, None] * first
        assert second is not None
        curvature += (slope * atom_mass) * second
        return *self.pairs.pullback(slope * first, curvature), first

    def change(self, jacobian: Array, step: Array) -> Array:
        along = self.pairs.spread(self.pairs.bound.direction(step))
        change: Array = xp.einsum("kqb,kqb->qb", jacobian, along)
        return change


@dataclass(frozen=True, eq=False)
class PooledUnits(AbstractUnits):
    """Groups of several atoms, in an ensemble of R partitions; masses are divided by R."""

    pairs: Pairs
    slot_of_pair: Segments
    to_units: Ones
    from_cells: Ones
    atom_of_cell: Segments
    atom_of_pair: IntArray
    node_weight: Array
    group_of_unit: Segments
    n_partitions: int
    folded: bool

    exact: ClassVar[bool] = False
    # Only a few of the many units end on their kinks: their smoothing adds less than 1e-6.
    accuracy: ClassVar[Accuracy] = Accuracy(tau=1e-4, decrement=1e-7, begin=0.02)

    @property
    def n_elements(self) -> int:
        return len(self.pairs.y) + self.to_units.shape[1] * (1 + self.pairs.bound.n_params)

    @property
    def curved(self) -> bool:
        return self.to_units.nnz < _STEADY * self.to_units.shape[1]

    def put(self, device: Device) -> "PooledUnits":
        pairs, weight = self.pairs.put(device), device.put(self.node_weight)
        return replace(self, pairs=pairs, node_weight=weight)

    def listed(self) -> Listed:
        unit_of_slot = self.to_units.only_column()
        return Listed(
            self.pairs.x_of_pair.index,
            self.pairs.y[:, 0],
            self.pairs.trials[:, 0],
            self.node_weight[:, 0],
            self.atom_of_pair,
            unit_of_slot[self.slot_of_pair.index],
            np.append(unit_of_slot, -1)[self.from_cells.T.only_column()],
            self.group_of_unit.index,
        )

    def slots(self, law: str) -> Slots:
        return Slots.of(
            law,
            self.pairs,
            slot_of_pair=self.slot_of_pair.index,
            atom_of_pair=self.atom_of_pair,
            weight=self.node_weight[:, 0],
            units=self.to_units.columns,
            atom_of_cell=self.atom_of_cell.index,
            slot_of_cell=self.from_cells.T.only_column(),
        )

    def data_mass(self, p: Array) -> Array:
        summed: Array = self.to_units.T @ (self.from_cells @ p)
        return summed / self.n_partitions

    def whole(self, p: Array) -> Array | None:
        return self.total(self.atom_mass(p)) if self.folded else None

    def atom_mass(self, p: Array) -> Array:
        share = self.node_weight / self.n_partitions
        return self.atom_of_cell.total(p).take(self.atom_of_pair, axis=0) * share

    def total(self, values: Array) -> Array:
        summed: Array = self.to_units.T @ self.slot_of_pair.total(values)
        return summed

    def slot_pmf(self, theta: Array) -> Array:
        return self.slot_of_pair.total(self.node_weight * self.pairs.pmf(theta))

    def of_cells(self, values: Array) -> Array:
        spread: Array = self.from_cells.T @ (self.to_units @ values)
        return spread / self.n_partitions

    def anchor(self, theta: Array, mass: Array) -> Array | None:
        # The Jacobian as a share of the mass hardly changes with theta, nor with the weights of
        # the draws: taking it once saves d sums over all pairs in every step. With dispersion or
        # inflation beside the mean it does change.
        if self.pairs.bound.n_predictors > 1 or self.curved:
            return None
        pmf, first = self.pairs.slopes(theta)
        total = xp.maximum(self.total(mass * pmf), tiny(mass))
        return self.jacobian(mass * first) / total

    def expand(
        self,
        anchor: Array | None,
        mass: Array,
        jet: tuple[Array, Array, Array | None],
        slope: Array,
        unit_curvature: Array,
    ) -> tuple[Array, Array, Array]:
        atom_mass, first, second = jet
        pair_slope = atom_mass * self.slot_of_pair.spread(self.to_units @ slope)
        jacobian = self.jacobian(atom_mass * first) if anchor is None else anchor * mass
        if second is not None:
            grad, hess = self.pairs.pullback(pair_slope * first, pair_slope * second)
            hess += _products(jacobian, unit_curvature)
        else:
            grad, hess = (
                self.pairs.pullback_slope(pair_slope * first),
                gauss_newton(jacobian, unit_curvature),
            )
        return grad, hess, jacobian

    def change(self, jacobian: Array, step: Array) -> Array:
        change: Array = xp.einsum("iub,ib->ub", jacobian, step)
        return change

    def jacobian(self, first: Array) -> Array:
        """Derivative of the unit masses in theta, (d, U, B)."""
        return xp.stack([self.total(first[k] * z) for k, z in self.pairs.columns])


def gauss_newton(jacobian: Array, curvature: Array) -> Array:
    """Curvature (d, d, B) from the Jacobian (d, U, B) and the curvature of the kinks (U, B).

    The second derivatives of the pmf nearly cancel over a group, and without them the curvature is
    never negative. Measured: fewer steps, half the time.
    """
    return _products(jacobian, curvature + FLOOR * curvature.mean(0))


def _products(jacobian: Array, curvature: Array) -> Array:
    return to_host(xp.einsum("iub,jub->ijb", jacobian * curvature, jacobian))
