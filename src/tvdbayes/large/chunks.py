"""Chunks of encoded rows on a worker, and what all chunks share."""

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from tvdbayes._typing import Array, IntArray
from tvdbayes.data.cells import Cells
from tvdbayes.models.model import Model
from tvdbayes.models.predictors import AbstractBound
from tvdbayes.objective import Batch, Compared, Layout
from tvdbayes.objective.partitions import Distinct, Grouping


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

    Coordinates are standardised by mean and spread of the small table `scale_on`.
    """

    model: Model
    scale_on: Cells
    compared: Compared
    seed: int

    @cached_property
    def bound(self) -> AbstractBound:
        """The predictor, to take parameters from and to the user's coordinates."""
        return self.model.bind(self.scale_on, self.scale_on)


def batches_of(chunk: Chunk, rules: Rules, n_draws: int) -> Iterator[Batch[Layout]]:
    """The rows of a chunk, so many at a time as suit so many draws."""
    size = rules.compared.batch_size(n_draws)
    for start in range(0, len(chunk.x), size):
        rows = slice(start, start + size)
        cells = chunk.cells(rows, rules.scale_on.names)
        each = np.arange(cells.n_x)
        grouped = Grouping(each, each, each[None])
        layout = Layout(rules.model, cells, Distinct(), rules.scale_on, grouped=grouped)
        yield Batch(rules.compared, layout, chunk.groups[rows])


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
