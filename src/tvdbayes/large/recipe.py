"""Encode a piece of the data into a chunk of rows with their groups."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from tvdbayes._errors import DataError
from tvdbayes._typing import IntArray
from tvdbayes.data.cells import Cells
from tvdbayes.data.sources import open_data
from tvdbayes.data.table import Table
from tvdbayes.formula.columns import numbers, offsets, trials_of
from tvdbayes.formula.design import Design
from tvdbayes.large.cluster.chunks import Chunk
from tvdbayes.large.used import Used
from tvdbayes.models.families import AbstractFamily
from tvdbayes.objective.partitions import LearnedGroups
from tvdbayes.results.scores import part_of
from tvdbayes.sampling.execution import single_threaded

_CODED = 1 << 14
"""Rows that are encoded at a time, since encoding needs many times the memory of its result."""

_LABELLED = 1024
"""Rows whose groups are found at a time: distances to a thousand centres then stay in the cache."""


def some_rows(frame: pd.DataFrame, rows: IntArray, used: Sequence[str], size: int) -> pd.DataFrame:
    """These rows of a piece, which had so many rows when the data were profiled."""
    _require_size(frame, size)
    return open_data(frame).rows(used).iloc[rows]


def join_frames(parts: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Rows of neighbours, in their order."""
    return pd.concat(list(parts), ignore_index=True)


@dataclass(frozen=True, eq=False)
class Recipe:
    """How rows are encoded and grouped: as a sample of them was."""

    used: Used
    law: AbstractFamily
    design: Design
    groups: LearnedGroups

    @property
    def sizes(self) -> list[int]:
        """Groups of each partition, those that may stay empty included."""
        groups = self.groups
        own = len(groups.common)
        return [len(centres) + own for centres in groups.centres] or [own + 1]

    def chunk(self, frame: pd.DataFrame, number: int, first: int) -> Chunk:
        """Encode the piece with this number, which begins at this row of the data."""
        rows = np.arange(first, first + len(frame))
        if self.used.weights is not None:
            # Rows without weight are left out: their levels may be unknown.
            counted = open_data(frame).rows([self.used.weights])[self.used.weights] != 0
            frame, rows = frame[counted.to_numpy()], rows[counted]
        # Few rows at a time, since coding takes many times the memory of what it makes.
        parts = [
            self._coded(frame[at : at + _CODED], rows[at : at + _CODED])
            for at in range(0, len(frame), _CODED)
        ]
        if not parts:
            return Chunk.empty(number, len(self.design.names), len(self.sizes))
        names = ("x", "y", "offset", "trials", "counts")
        joined = {
            name: np.concatenate([getattr(cells, name) for cells, _ in parts]) for name in names
        }
        cells = Cells.by_row(**joined, names=self.design.names)
        groups = np.concatenate([groups for _, groups in parts], axis=1)
        groups += np.cumsum([0, *self.sizes[:-1]])[:, None]
        return Chunk.of(number, cells, groups, counted=self.used.weights is not None)

    def _coded(self, frame: pd.DataFrame, numbers_of: IntArray) -> tuple[Cells, IntArray]:
        """Some rows as a table in which every row is its own x row, and their groups (R, n)."""
        used, n = self.used, len(frame)
        table = Table(open_data(frame).rows(used.columns), np.ones(n), np.arange(n), numbers_of, n)
        x = np.ascontiguousarray(self.design.encode(table))
        span = f"among rows {numbers_of[0]} to {numbers_of[-1]}, "
        table.require_finite(self.design.names, x, span)
        cells = Cells.by_row(
            x,
            numbers(table, used.outcome),
            offset=offsets(table, used.offset, used.exposure),
            trials=trials_of(table, used.trials, self.law),
            counts=None if used.weights is None else numbers(table, used.weights),
            names=self.design.names,
        )
        # Rows may have changed since they were profiled.
        self.law.check_outcomes(cells.y, cells.trials, numbers=numbers_of)
        with single_threaded():
            groups = [
                self.groups.group(part_of(cells, rows, cells.counts[rows])).groups
                for rows in np.split(np.arange(n), range(_LABELLED, n, _LABELLED))
            ]
        return cells, np.concatenate(groups, axis=1)


def encode_piece(frame: pd.DataFrame, recipe: Recipe, number: int, first: int, size: int) -> Chunk:
    """See `Recipe.chunk`; the piece had so many rows when the data were profiled."""
    _require_size(frame, size)
    return recipe.chunk(frame, number, first)


def _require_size(frame: pd.DataFrame, size: int) -> None:
    if len(frame) != size:
        raise DataError(
            f"The data changed while they were read: a part had {size:,} rows, and now has "
            f"{len(frame):,}. Fit again when the files are complete."
        )
