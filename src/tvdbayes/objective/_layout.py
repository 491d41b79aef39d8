"""The fixed part of an objective: a model bound to a table, and the units that compare both."""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from tvdbayes._array import Device, Ones, Segments
from tvdbayes._typing import Array, IntArray
from tvdbayes.data.cells import Cells
from tvdbayes.models.families import AbstractFamily
from tvdbayes.models.model import Model
from tvdbayes.models.predictors import AbstractBound
from tvdbayes.objective._batches import MANY_ROWS, Batches
from tvdbayes.objective._pairs import Canonical, Pairs
from tvdbayes.objective._slots import LAWS, MOST_DISPERSED, MOST_TRIALS, Slots, further_constant
from tvdbayes.objective._units import AbstractUnits, Listed, PooledUnits, SingleUnits
from tvdbayes.objective.partitions import AbstractPartition, Bins, Grouping
from tvdbayes.solvers import Accuracy

_MOST_KEYS = 1 << 16
"""Keys up to which a table of all of them, 64 KiB, is made without asking how many are used."""


@dataclass(frozen=True, eq=False)
class Layout:
    """A model bound to a table and its groups, in coordinates standardised on `scale_on`.

    ``fold`` lets one of two outcomes stand for both, where family and divergence allow; ``bins``
    are the outcomes that are compared together; ``grouped`` is the grouping where it is known;
    ``device`` is where the table lies, None for the memory of NumPy; ``given`` is the predictor at
    the x rows, where it is not the model's.
    """

    model: Model
    cells: Cells
    partition: AbstractPartition
    scale_on: Cells
    fold: bool = False
    bins: Bins | None = None
    grouped: Grouping | None = None
    device: Device | None = None
    given: AbstractBound | None = None

    def to(self, device: Device) -> "Layout":
        """The same with its table on a device."""
        return replace(self, grouped=self.grouping, device=device)

    def at_home(self) -> "Layout":
        """The same with its table in the memory of NumPy."""
        return self if self.device is None else replace(self, device=None)

    def put(self, p: Array) -> Array:
        """Masses (m, B) where the table is, so that draws lie side by side."""
        if self.device is not None:
            return self.device.put(p)
        return np.ascontiguousarray(p)

    def accuracy(self, wanted: Accuracy) -> Accuracy:
        """The accuracy that can be reached where the table is."""
        single = self.device is not None and self.device.dtype == "float32"
        return wanted.in_single_precision() if single else wanted

    def batch_size(self, n: int) -> int:
        """Draws to compute together where n are needed: a device compiles every size anew."""
        return n if self.device is None else 4 ** ((max(n - 1, 0).bit_length() + 1) // 2)

    @cached_property
    def bound(self) -> AbstractBound:
        """The predictor at the x rows of the table."""
        bound = self.given or self.model.bind(self.cells, self.scale_on)
        return bound if self.device is None else bound.put(self.device)

    @property
    def family(self) -> AbstractFamily:
        """The law of the outcome."""
        return self.model.family

    @cached_property
    def cell_pairs(self) -> Pairs:
        """The cells as pairs of an x row and an outcome."""
        cells = self.cells
        x_of_pair = Segments(cells.x_index, cells.n_x)
        trials = cells.trials[cells.x_index, None]
        pairs = Pairs(self.family, self.bound, x_of_pair, cells.y[:, None], trials)
        return pairs if self.device is None else pairs.put(self.device)

    @property
    def canonical(self) -> Canonical | None:
        """The cells in canonical form, where the law has one and they are in NumPy's memory."""
        return self.cell_pairs.canonical if self.device is None else None

    @cached_property
    def units(self) -> AbstractUnits:
        """Where data and model are compared."""
        units = make_units(
            self.family, self.bound, self.cells, self.grouping, fold=self.fold, bins=self.bins
        )
        return units if self.device is None else units.put(self.device)

    @cached_property
    def batches(self) -> Batches | None:
        """The same where there are many rows: summed batch by batch; None where there are few."""
        cells, bins = self.cells, self.bins
        if cells.n_x <= MANY_ROWS or not self.partition.pools_rows or self.device is not None:
            return None
        own_bins = bins is not None and bins.bin_of_cell is not None
        if own_bins or self.grouping.atom_of_cell is not cells.x_index:
            return None
        return Batches.of(self, self.grouping, bins, fold=self.fold)

    @cached_property
    def slots(self) -> Slots | None:
        """The units as lists that the kernel reads; None where it does not cover the model."""
        law, units = self.family.compiled_pmf(folded=self.units.folded), self.units
        covered = law in LAWS and self.device is None and self.bound.linear
        covered &= self.cells.trials.max(initial=1.0) <= MOST_TRIALS
        # Counts of thousands need another form of the pmf.
        covered &= not self.family.canonical or units.pairs.canonical is not None
        if len(self.family.predictors) > 1:
            covered = covered and further_constant(self.bound)
            covered &= units.pairs.y.max(initial=0.0) <= MOST_DISPERSED
        # In one parameter kinks are enumerated, many points for each draw.
        searched = not units.exact or self.bound.n_params > 1
        return units.slots(law) if law is not None and covered and searched else None

    def listed(self) -> list[Listed]:
        """The units of each partition of the ensemble, by themselves."""
        whole = self.grouping
        return [
            make_units(
                self.family,
                self.bound,
                self.cells,
                replace(whole, groups=groups[None]),
                fold=self.fold,
                bins=self.bins,
            ).listed()
            for groups in whole.groups
        ]

    @cached_property
    def grouping(self) -> Grouping:
        """The partition applied to the table."""
        return self.grouped or self.partition.group(self.cells)

    @property
    def x_trials(self) -> Array:
        """Trials of each x row, (n_x, 1)."""
        return self.cells.trials[:, None]

    def rebind(self, cells: Cells) -> "Layout":
        """The same model, groups and coordinates on another table."""
        return replace(
            self, cells=cells, grouped=self.grouping.of_other_outcomes(self.cells, cells)
        )


def make_units(
    family: AbstractFamily,
    bound: AbstractBound,
    cells: Cells,
    grouping: Grouping,
    *,
    fold: bool,
    bins: Bins | None,
) -> AbstractUnits:
    """The units of a table under a partition; `fold` lets one of two outcomes stand for both."""
    n_atoms = grouping.x_of_atom.size
    atom_of_cell = Segments(grouping.atom_of_cell, n_atoms)
    alone = len(grouping.groups) == 1 and np.array_equal(grouping.groups[0], np.arange(n_atoms))
    if alone and bins is None:
        x_of_pair = Segments(cells.x_index, cells.n_x)
        trials = cells.trials[cells.x_index, None]
        return SingleUnits(Pairs(family, bound, x_of_pair, cells.y[:, None], trials), atom_of_cell)
    groups = _numbered(grouping.groups)
    if fold:
        atom, y, weight = np.arange(n_atoms), np.ones(n_atoms), np.ones(n_atoms)
        slot_of_pair, coded = atom, None
        to_units = Ones.at(np.repeat(atom, len(groups)), groups.T.ravel())
        slot_of_cell, seen = grouping.atom_of_cell, cells.y > 0
        unit_group = np.arange(to_units.shape[1])
    else:
        outcomes = np.unique(cells.y)
        used, number = (bins or Bins(outcomes, outcomes)).placing(cells.y)
        slot_key, unit_group, to_units = _incidence(
            groups, grouping.atom_of_cell, number, used.n_bins
        )
        slot_of_cell = np.searchsorted(slot_key, grouping.atom_of_cell * used.n_bins + number)
        seen = np.ones(cells.n_cells, bool)
        slot_atom, slot_bin = np.divmod(slot_key, used.n_bins)
        bin_of_node, node_y, node_weight = used.nodes(np.unique(cells.trials))
        slot_of_pair, node = _expand(slot_bin, bin_of_node)
        atom, weight = slot_atom[slot_of_pair], node_weight[node]
        each, code = np.unique(node_y, return_inverse=True)
        coded = each, code[node]
        y = node_y[node]
    x_index = grouping.x_of_atom[atom]
    # A neighbour's outcome may be impossible here (more successes than trials): it gets no mass,
    # and an outcome that has one to be evaluated at.
    trials = cells.trials[x_index]
    possible = family.possible(np.ceil(y), trials)
    if not possible.all():
        y, coded = np.where(possible, y, cells.y[np.searchsorted(cells.x_index, x_index)]), None
    return PooledUnits(
        Pairs(family, bound, Segments(x_index, cells.n_x), y[:, None], trials[:, None], coded),
        Segments(slot_of_pair, to_units.shape[0]),
        to_units,
        Ones.at(slot_of_cell[seen], np.flatnonzero(seen), (to_units.shape[0], cells.n_cells)),
        atom_of_cell,
        atom,
        np.where(possible, weight, 0.0)[:, None],
        Segments(unit_group, int(groups.max()) + 1),
        len(groups),
        fold,
    )


def _expand(slot_bin: IntArray, bin_of_node: IntArray) -> tuple[IntArray, IntArray]:
    """One pair for each node of each slot's bin: the slot and the node of each pair."""
    first = np.searchsorted(bin_of_node, np.arange(bin_of_node[-1] + 2))
    count = (first[1:] - first[:-1])[slot_bin]
    slot = np.repeat(np.arange(slot_bin.size), count)
    within = np.arange(slot.size) - np.repeat(np.cumsum(count) - count, count)
    return slot, first[slot_bin[slot]] + within


def _numbered(groups: IntArray) -> IntArray:
    """Give the groups of all partitions different numbers, without gaps, (R, n_atoms)."""
    numbered: IntArray = np.empty_like(groups)
    start = 0
    for row, labels in enumerate(groups):
        used = np.bincount(labels) > 0
        numbered[row] = (np.cumsum(used) - 1 + start)[labels]
        start += int(used.sum())
    return numbered


def _incidence(
    groups: IntArray, atom_of_cell: IntArray, y: IntArray, n_outcomes: int
) -> tuple[IntArray, IntArray, Ones]:
    """Keys (atom * outcomes + outcome) of the slots, the groups of the units, and the matrix that
    takes slots to units.
    """
    group_of_cell = groups[:, atom_of_cell]
    n_keys = (int(groups.max()) + 1) * n_outcomes
    unit_key, _ = _distinct((group_of_cell * n_outcomes + y).ravel(), n_keys)
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
    slot_key, slot = _distinct(np.concatenate(keys), groups.shape[1] * n_outcomes)
    return slot_key, unit_group, Ones.at(slot, np.concatenate(units))


def _distinct(keys: IntArray, n: int) -> tuple[IntArray, IntArray]:
    """The distinct keys, all below n, in order, and the number of each key among them."""
    if n > _MOST_KEYS + 2 * keys.size:
        return np.unique(keys, return_inverse=True)
    # A table of all keys is faster than sorting.
    seen = np.zeros(n, bool)
    seen[keys] = True
    return np.flatnonzero(seen), (np.cumsum(seen) - 1)[keys]
