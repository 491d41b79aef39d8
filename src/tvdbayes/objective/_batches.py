"""Tables of many rows, so many rows at a time: masses of units are sums over batches of rows.

A unit is a group and an outcome (or a bin of outcomes), whether the outcome occurs in the group or
not. Nothing is kept that is as large as rows x outcomes x partitions: the pmf of a batch is summed
over its nodes, and a sparse matrix of ones takes its rows to their groups. Rows that lie elsewhere
(`large`) are summed by the same code, a chunk at a time.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Generic, Protocol, TypeVar

import numpy as np
from scipy import sparse

from tvdbayes._array import Ones, Segments, tiny
from tvdbayes._errors import DataError
from tvdbayes._typing import Array, BoolArray, IntArray
from tvdbayes.data.cells import Cells
from tvdbayes.models.families import AbstractFamily
from tvdbayes.models.predictors import AbstractBound
from tvdbayes.objective._pairs import Pairs
from tvdbayes.objective.partitions import Bins, Grouping

MANY_ROWS = 1 << 16
"""X rows above which a table is summed in batches."""

_FEWEST, _MOST = 1 << 12, 1 << 14
"""Rows of a batch: many, so that adding its units to the sum costs little beside it; few, so that
its arrays stay near the cache."""
_ELEMENTS = 1 << 21
"""Rows x draws x nodes of a batch: 16 MiB for each array."""


class Rows(Protocol):
    """A model at some rows; a `Layout` is one."""

    @property
    def family(self) -> AbstractFamily: ...

    @property
    def bound(self) -> AbstractBound: ...

    @property
    def cells(self) -> Cells: ...


R = TypeVar("R", bound=Rows)


@dataclass(frozen=True, eq=False)
class Compared:
    """What all batches of a table are compared in.

    ``n_groups`` counts the groups of all partitions together. Bins hold all outcomes that occur, as
    do ``trials`` their numbers; there are none where one of two outcomes stands for both.
    """

    n_groups: int
    n_partitions: int
    bins: Bins | None
    trials: Array

    @property
    def all_bins(self) -> Bins:
        """The bins, both of two outcomes included."""
        return self.bins or Bins(np.array([0.0, 1.0]), np.array([0.0, 1.0]))

    @property
    def n_bins(self) -> int:
        """Outcomes that a group is compared at."""
        return 1 if self.bins is None else self.bins.n_bins

    @property
    def n_units(self) -> int:
        """Groups x outcomes, whether they occur or not."""
        return self.n_groups * self.n_bins

    @cached_property
    def nodes(self) -> tuple[IntArray, Array, Array]:
        """The bin, outcome and weight of each node, see `Bins.nodes`."""
        if self.bins is None:
            return np.zeros(1, np.intp), np.ones(1), np.ones(1)
        return self.bins.nodes(self.trials)

    @cached_property
    def group_of_unit(self) -> Segments:
        """The groups of the units in which every outcome is compared."""
        each = np.repeat(np.arange(self.n_groups), self.all_bins.n_bins)
        return Segments(each, self.n_groups)

    def every(self, mass: Array, whole: Array) -> Array:
        """Masses (U, B) where every outcome is compared, from those of a batch and of the groups.

        Where one of two outcomes stands for both, the other one has the rest of its group.
        """
        if self.bins is not None:
            return mass
        return np.stack([whole - mass, mass], axis=1).reshape(-1, mass.shape[1])

    def batch_size(self, n_draws: int) -> int:
        """Rows that are computed at a time, for so many draws."""
        wanted = _ELEMENTS // (max(n_draws, 1) * self.nodes[1].size)
        return max(min(wanted, _MOST), _FEWEST)


@dataclass(frozen=True, eq=False)
class Batch(Generic[R]):
    """So many rows as are computed at a time, with their groups (n_x, partitions)."""

    compared: Compared
    rows: R
    groups: IntArray

    @cached_property
    def pairs(self) -> Pairs:
        """Every row with every node of every bin."""
        cells, (_, y, _) = self.rows.cells, self.compared.nodes
        family, bound, n = self.rows.family, self.rows.bound, cells.n_x
        if y.size == 1:
            return Pairs(family, bound, _each(n), np.ones((n, 1)), cells.trials[:, None])
        x_of_pair = Segments(np.repeat(np.arange(n), y.size), n)
        trials = np.repeat(cells.trials, y.size)[:, None]
        # An outcome of another row may be impossible for this one: it gets no mass, and the pmf is
        # evaluated at an outcome that is possible.
        own = cells.y[np.searchsorted(cells.x_index, np.arange(n)), None]
        outcome = np.where(self._possible, y, own).reshape(-1, 1)
        coded = None
        if self._possible.all():
            each, code = np.unique(y, return_inverse=True)
            coded = each, np.tile(code, n)
        return Pairs(family, bound, x_of_pair, outcome, trials, coded)

    @cached_property
    def _possible(self) -> BoolArray:
        cells, (_, y, _) = self.rows.cells, self.compared.nodes
        possible = self.rows.family.possible(np.ceil(y)[None], cells.trials[:, None])
        return np.broadcast_to(possible, (cells.n_x, y.size))

    @cached_property
    def _own_bin(self) -> IntArray:
        """The bin of each cell, where every outcome is compared, (m,)."""
        number = self.compared.all_bins.number(self.rows.cells.y)
        if (number < 0).any():
            raise DataError(
                "The data changed while they were read: an outcome is below all that were there. "
                "Fit again when the files are complete."
            )
        return number

    @property
    def units(self) -> IntArray:
        """The units (m, R) of each cell, where every outcome is compared."""
        groups = self.groups[self.rows.cells.x_index].astype(np.intp)
        return groups * self.compared.all_bins.n_bins + self._own_bin[:, None]

    @cached_property
    def _x_of_cell(self) -> Segments:
        return Segments(self.rows.cells.x_index, self.rows.cells.n_x)

    def mass(self, weights: Array) -> Array:
        """What the pmf of each pair is multiplied with, (Q, B), from weights of cells (m, B)."""
        _, y, node_weight = self.compared.nodes
        of_rows = self._x_of_cell.total(weights)
        if y.size == 1:
            return of_rows
        share = np.where(self._possible, node_weight, 0.0)
        return self.pairs.x_of_pair.spread(of_rows) * share.reshape(-1, 1)

    def total(self, values: Array) -> Array:
        """Sum over the pairs of each unit: (Q, B) to (U, B)."""
        return self._to_units(self._slot_of_pair.total(values))

    def spread(self, values: Array) -> Array:
        """To each pair the sum over its units: (U, B) to (Q, B)."""
        of_groups = values.reshape(self.compared.n_groups, -1)
        return self._slot_of_pair.spread((self._to_groups @ of_groups).reshape(-1, values.shape[1]))

    def data(self, weights: Array) -> Array:
        """Mass of the data in each unit, (U, B), from weights of cells (m, B)."""
        return self._to_units(self._at_slots(weights))

    def masses(self, weights: Array, theta: Array) -> Array:
        """Masses of the data, of the model at theta (d, B), and of the groups where one of two
        outcomes stands for both, in each unit, side by side: (U, 2 B) or (U, 3 B).
        """
        mass = self.mass(weights)
        model = self._slot_of_pair.total(mass * self.pairs.pmf(theta))
        whole = [mass] if self.compared.bins is None else []
        return self._to_units(np.hstack([self._at_slots(weights), model, *whole]))

    def of_cells(self, values: Array) -> Array:
        """Mean over the units of each cell, every outcome compared: (U, B) to (m, B)."""
        n, r = self.groups.shape
        at_rows = self._to_groups @ values.reshape(self.compared.n_groups, -1)
        at_rows = at_rows.reshape(n, -1, values.shape[1])
        found: Array = at_rows[self.rows.cells.x_index, self._own_bin] / r
        return found

    def excess(self, weights: Array, theta: Array) -> Array:
        """Mass of the data less that of the model at theta (d, B), in each unit, (U, B)."""
        pmf = self.pairs.pmf(theta)
        pmf *= self.mass(weights)
        return self._to_units(self._at_slots(weights) - self._slot_of_pair.total(pmf))

    def _at_slots(self, weights: Array) -> Array:
        """Weights of cells (m, B) at their row and bin, (slots, B)."""
        cells, n_bins = self.rows.cells, self.compared.n_bins
        if self.compared.bins is None:
            return self._x_of_cell.total(weights * (cells.y > 0)[:, None])
        slots = Segments(cells.x_index * n_bins + self._own_bin, cells.n_x * n_bins)
        return slots.total(weights)

    def _to_units(self, at_slots: Array) -> Array:
        """Sum over the slots (a row and a bin) of each unit."""
        summed: Array = self._to_groups.T @ at_slots.reshape(len(self.groups), -1)
        return summed.reshape(-1, at_slots.shape[1])

    @cached_property
    def _slot_of_pair(self) -> Segments:
        bin_of_node, y, _ = self.compared.nodes
        n, n_bins = len(self.groups), self.compared.n_bins
        if y.size == n_bins:
            return _each(n * n_bins)
        slots = np.arange(n)[:, None] * n_bins + bin_of_node
        return Segments(slots.ravel(), n * n_bins)

    @cached_property
    def _to_groups(self) -> Ones:
        n, r = self.groups.shape
        ends = np.arange(n + 1, dtype=np.int32) * r
        entries = np.ones(n * r), self.groups.ravel().astype(np.int32), ends
        return Ones(sparse.csr_array(entries, shape=(n, self.compared.n_groups)))


@cache
def _each(n: int) -> Segments:
    """Pieces of one entry each: the same for all pieces of a size."""
    return Segments(np.arange(n), n)


@dataclass(frozen=True, eq=False)
class _Some:
    """Some rows of a table."""

    family: AbstractFamily
    bound: AbstractBound
    cells: Cells


@dataclass(frozen=True, eq=False)
class Batches:
    """A table in memory that is summed in batches; ``groups`` (n_x, R) are those of its x rows, no
    two partitions share one.
    """

    compared: Compared
    rows: Rows
    groups: IntArray

    @classmethod
    def of(cls, rows: Rows, grouping: Grouping, bins: Bins | None, *, fold: bool) -> "Batches":
        """A table under a partition whose atoms are the x rows."""
        sizes = grouping.groups.max(1) + 1
        starts, n_groups = np.cumsum(sizes) - sizes, int(sizes.sum())
        groups = np.empty(grouping.groups.T.shape, np.min_scalar_type(n_groups))
        for column, (labels, start) in enumerate(zip(grouping.groups, starts, strict=True)):
            groups[:, column] = labels + start
        if not fold:
            outcomes = np.unique(rows.cells.y)
            bins, _ = (bins or Bins(outcomes, outcomes)).placing(rows.cells.y)
        trials = np.unique(rows.cells.trials)
        compared = Compared(n_groups, len(sizes), None if fold else bins, trials)
        return cls(compared, rows, groups)

    @property
    def n_partitions(self) -> int:
        """R."""
        return self.compared.n_partitions

    @property
    def group_of_unit(self) -> Segments:
        """The groups of the units of `masses`."""
        return self.compared.group_of_unit

    def masses(self, p: Array, theta: Array) -> tuple[Array, Array]:
        """Masses (U, B) of data and model in each unit, of tables p (m, B) at theta (d, B)."""
        compared = self.compared
        parts = [batch.masses(p[cells], theta) for batch, cells in self._batches(p.shape[1])]
        found = np.hsplit(sum(parts) / self.n_partitions, parts[0].shape[1] // p.shape[1])
        data, model = (compared.every(each, found[-1]) for each in found[:2])
        return np.maximum(data, tiny(data)), model

    def excess(self, p: Array, theta: Array) -> Array:
        """Mass of the data less that of the model in each unit, (U, B); where one of two outcomes
        stands for both, of that one alone.
        """
        excess = np.zeros((self.compared.n_units, p.shape[1]))
        for batch, cells in self._batches(p.shape[1]):
            excess += batch.excess(p[cells], theta)
        excess /= self.n_partitions
        return excess

    def of_cells(self, values: Array) -> Array:
        """Mean over the units that each cell belongs to: (U, B) to (m, B)."""
        return np.concatenate([b.of_cells(values) for b, _ in self._batches(values.shape[1])])

    def _batches(self, n_draws: int) -> Iterator[tuple[Batch[_Some], slice]]:
        """All rows, with the cells of each batch."""
        whole, size = self.rows.cells, self.compared.batch_size(n_draws)
        for start in range(0, whole.n_x, size):
            at = slice(start, min(start + size, whole.n_x))
            first, last = np.searchsorted(whole.x_index, [at.start, at.stop])
            own = slice(int(first), int(last))
            cells = Cells(
                whole.x[at],
                whole.offset[at],
                whole.trials[at],
                whole.x_index[own] - start,
                whole.y[own],
                whole.counts[own],
                whole.names,
            )
            rows = _Some(self.rows.family, self.rows.bound.cut(at), cells)
            yield Batch(self.compared, rows, self.groups[at]), own
