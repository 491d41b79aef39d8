"""Chunks of encoded rows on a worker, and what all chunks share."""

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import numpy as np
from scipy import sparse

from tvdbayes._array import Ones, Segments
from tvdbayes._errors import DataError
from tvdbayes._typing import Array, BoolArray, IntArray
from tvdbayes.data.cells import Cells
from tvdbayes.models.model import Model
from tvdbayes.models.predictors import AbstractBound
from tvdbayes.objective import Layout, Pairs
from tvdbayes.objective.partitions import Bins, Distinct, Grouping

_FEWEST, _MOST = 1 << 12, 1 << 14
"""Rows of a batch: many, so that adding its units to the sum costs little beside it; few, so that
its arrays stay near the cache."""
_ELEMENTS = 1 << 21
"""Rows x draws x nodes of a batch: 16 MiB for each array."""


def realigned(self: Any, state: dict[str, Any]) -> None:
    """Unpickle a record with arrays of its own.

    Those that arrive over a network may lie at odd addresses, and NumPy adds up what does not lie
    at multiples of 8 bytes in another order.
    """
    self.__dict__.update(deepcopy(state))


@dataclass(frozen=True, eq=False)
class Chunk:
    """Some consecutive rows, encoded; what all rows have alike is left out.

    Its weights depend on the number of its `first` row. Of x (n, p), y and the further columns (n,)
    whole numbers are in the smallest type that holds them; offset, trials and counts are None where
    they are 0, 1 and 1. Groups (n, R) are those of each row in each partition; no two partitions
    share one.
    """

    first: int
    x: Array
    y: Array
    offset: Array | None
    trials: Array | None
    counts: Array | None
    groups: IntArray

    __setstate__ = realigned

    def __sizeof__(self) -> int:
        # What Dask takes an object for, when it decides what to put on disk.
        columns = (self.x, self.y, self.offset, self.trials, self.counts, self.groups)
        return sum(column.nbytes for column in columns if column is not None)

    @classmethod
    def of(cls, first: int, cells: Cells, groups: IntArray, *, counted: bool) -> "Chunk":
        """The rows of a table in which every row is its own x row; groups are (R, n)."""
        return cls(
            first,
            cells.x,
            _small(cells.y),
            cells.offset if cells.offset.any() else None,
            _small(cells.trials) if (cells.trials != 1).any() else None,
            cells.counts if counted else None,
            np.ascontiguousarray(groups.T.astype(np.min_scalar_type(int(groups.max())))),
        )

    def cells(self, rows: slice, names: tuple[str, ...]) -> Cells:
        """Some rows as a table; every row is its own x row."""
        return Cells.by_row(
            self.x[rows],
            self.y[rows].astype(float),
            offset=None if self.offset is None else self.offset[rows],
            trials=None if self.trials is None else self.trials[rows].astype(float),
            counts=None if self.counts is None else self.counts[rows],
            names=names,
        )


def _small(values: Array) -> Array:
    """The same whole numbers in the smallest type that holds them."""
    small: Array = values.astype(np.min_scalar_type(int(values.max())))
    return small


@dataclass(frozen=True, eq=False)
class Rules:
    """What is the same for every chunk.

    Coordinates are standardised by mean and spread of the small table
    `scale_on`. `n_groups` counts the groups of all partitions together. Bins hold all outcomes that
    occur, as do `trials` their numbers; there are none where one of two outcomes stands for both.
    """

    model: Model
    scale_on: Cells
    n_groups: int
    n_partitions: int
    bins: Bins | None
    trials: Array
    seed: int

    @property
    def all_bins(self) -> Bins:
        """The same, both of two outcomes included."""
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
    def bound(self) -> AbstractBound:
        """The predictor, to take parameters from and to the user's coordinates."""
        return self.model.bind(self.scale_on, self.scale_on)


@dataclass(frozen=True, eq=False)
class Batch:
    """So many rows of a chunk as are computed at a time."""

    rules: Rules
    layout: Layout
    groups: IntArray

    @cached_property
    def pairs(self) -> Pairs:
        """Every row with every node of every bin."""
        cells, (_, y, _) = self.layout.cells, self.rules.nodes
        family, bound = self.layout.family, self.layout.bound
        if y.size == 1:
            ones = np.ones((cells.n_x, 1))
            return Pairs(family, bound, _each(cells.n_x), ones, cells.trials[:, None])
        x_of_pair = Segments(np.repeat(np.arange(cells.n_x), y.size), cells.n_x)
        trials = np.repeat(cells.trials, y.size)
        # An outcome of another row may be impossible for this one: it gets no mass, and the pmf is
        # evaluated at an outcome that is possible.
        outcome = np.where(self._possible, y, cells.y[:, None])
        return Pairs(family, bound, x_of_pair, outcome.reshape(-1, 1), trials[:, None])

    @cached_property
    def _possible(self) -> BoolArray:
        cells, (_, y, _) = self.layout.cells, self.rules.nodes
        possible = self.layout.family.possible(np.ceil(y)[None], cells.trials[:, None])
        return np.broadcast_to(possible, (cells.n_x, y.size))

    @property
    def units(self) -> IntArray:
        """The units (n, R) of each row and its outcome, where every outcome is compared."""
        bins = self.rules.all_bins
        number = bins.number(self.layout.cells.y)
        if (number < 0).any():
            raise DataError(
                "The data changed while they were read: an outcome is below all that were there. "
                "Fit again when the files are complete."
            )
        return self.groups.astype(np.intp) * bins.n_bins + number[:, None]

    def mass(self, weights: Array) -> Array:
        """What the pmf of each pair is multiplied with, (Q, B), from weights of rows (n, B)."""
        _, y, node_weight = self.rules.nodes
        if y.size == 1:
            return weights
        share = np.where(self._possible, node_weight, 0.0)
        return self.pairs.x_of_pair.spread(weights) * share.reshape(-1, 1)

    def total(self, values: Array) -> Array:
        """Sum over the pairs of each unit: (Q, B) to (U, B)."""
        summed: Array = self._to_units.T @ self._slot_of_pair.total(values)
        return summed

    def spread(self, values: Array) -> Array:
        """To each pair the sum over its units: (U, B) to (Q, B)."""
        return self._slot_of_pair.spread(self._to_units @ values)

    def data(self, weights: Array) -> Array:
        """Mass of the data in each unit, (U, B), from weights of rows (n, B)."""
        if self.rules.bins is None:
            return self.total(weights * (self.layout.cells.y > 0)[:, None])
        found: Array = self._ones(self.units).T @ weights
        return found

    @cached_property
    def _slot_of_pair(self) -> Segments:
        """A slot is a row and a bin."""
        bin_of_node, y, _ = self.rules.nodes
        n, n_bins = self.layout.cells.n_x, self.rules.n_bins
        if y.size == n_bins:
            return _each(n * n_bins)
        slots = np.arange(n)[:, None] * n_bins + bin_of_node
        return Segments(slots.ravel(), n * n_bins)

    @cached_property
    def _to_units(self) -> Ones:
        n_bins = self.rules.n_bins
        units = self.groups[:, None, :].astype(np.int32) * n_bins + np.arange(n_bins)[:, None]
        return self._ones(units.reshape(-1, self.groups.shape[1]))

    def _ones(self, columns: IntArray) -> Ones:
        """Ones in these columns of each row, (rows, R)."""
        n, r = columns.shape
        entries = (np.ones(n * r), columns.ravel().astype(np.int32), np.arange(n + 1) * r)
        return Ones(sparse.csr_array(entries, shape=(n, self.rules.n_units)))


@cache
def _each(n: int) -> Segments:
    """Pieces of one entry each: the same for all pieces of a size."""
    return Segments(np.arange(n), n)


def batches_of(chunk: Chunk, rules: Rules, n_draws: int) -> Iterator[Batch]:
    """The rows of a chunk, so many at a time as suit so many draws."""
    wanted = _ELEMENTS // (max(n_draws, 1) * rules.nodes[1].size)
    size = max(min(wanted, _MOST), _FEWEST)
    for start in range(0, len(chunk.x), size):
        rows = slice(start, start + size)
        cells = chunk.cells(rows, rules.scale_on.names)
        each = np.arange(cells.n_x)
        grouped = Grouping(each, each, each[None])
        layout = Layout(rules.model, cells, Distinct(), rules.scale_on, grouped=grouped)
        yield Batch(rules, layout, chunk.groups[rows])


def spread_of(cells: Cells) -> Cells:
    """Few rows with the mean and covariance of a table: what coordinates and a ridge look at."""
    weights = cells.x_counts / cells.n_obs
    mean = weights @ cells.x
    constant = np.ptp(cells.x, axis=0) == 0
    away = cells.x - mean
    size, axes = np.linalg.eigh((away.T * weights) @ away)
    # Two rows on either side of the mean along each axis.
    steps = (axes * np.sqrt(len(size) * np.maximum(size, 0.0))).T
    x = np.concatenate([mean - steps, mean + steps])
    # A constant column must stay one to the last bit.
    x = np.where(constant, cells.x[0], x)
    return Cells.by_row(x, np.zeros(len(x)), names=cells.names)
