"""Rows of a partition as a chunk: encoded as the sample was, with their groups."""

from dataclasses import dataclass
from threading import Lock

import numpy as np
import pandas as pd

from tvdbayes._typing import IntArray
from tvdbayes.data.cells import Cells
from tvdbayes.data.fit_data import FitData
from tvdbayes.data.table import Table
from tvdbayes.formula.columns import codes, numbers, offsets, trials_of
from tvdbayes.formula.design import Design
from tvdbayes.formula.survey import Survey
from tvdbayes.large.chunks import Chunk
from tvdbayes.models.families import AbstractFamily
from tvdbayes.objective.partitions import LearnedGroups

_CODED = 1 << 15
"""Rows that are encoded at a time, since encoding needs many times the memory of its result."""

_FORMULAIC = Lock()
"""Levels that are not known are told by warnings, which all threads of a process share."""


@dataclass(frozen=True, eq=False)
class Encoder:
    """How rows are encoded and grouped: as a sample of them was.

    Of `uses` only the names of columns are kept.
    """

    family: AbstractFamily
    design: Design
    uses: dict[str, str | float | None]
    groups: LearnedGroups

    @classmethod
    def of(cls, found: Survey, groups: LearnedGroups) -> "Encoder":
        """As the rows of a survey were, in these groups."""
        return cls(found.model.family, found.design, _uses(found.data), groups)

    @property
    def sizes(self) -> list[int]:
        """Groups of each partition, those that may stay empty included."""
        groups = self.groups
        own = len(groups.common)
        return [len(centres) + own for centres in groups.centres] or [own + 1]

    def chunk(self, frame: pd.DataFrame, first: int) -> Chunk:
        """Encode rows, the first of which has this number."""
        parts = [self._coded(frame[at : at + _CODED]) for at in range(0, len(frame), _CODED)]
        names = ("x", "y", "offset", "trials", "counts")
        joined = {
            name: np.concatenate([getattr(cells, name) for cells, _ in parts]) for name in names
        }
        cells = Cells.by_row(**joined, names=self.design.names)
        groups = np.concatenate([groups for _, groups in parts], axis=1)
        return Chunk.of(
            first, cells, self.numbered(groups), counted=self.uses["weights"] is not None
        )

    def numbered(self, groups: IntArray) -> IntArray:
        """Groups (R, n) with numbers that no two partitions share."""
        numbered: IntArray = groups + np.cumsum([0, *self.sizes[:-1]])[:, None]
        return numbered

    def _coded(self, frame: pd.DataFrame) -> tuple[Cells, IntArray]:
        """Some rows as a table in which every row is its own x row, and their groups (R, n)."""
        uses, family, n = self.uses, self.family, len(frame)
        table = Table(frame, np.ones(n), np.arange(n), frame.index.to_numpy(), n)
        outcome = str(uses["outcome"])
        with _FORMULAIC:
            x = np.ascontiguousarray(self.design.encode(table))
        table.require_finite(self.design.names, x)
        offset, exposure, weights = (_name(uses[use]) for use in ("offset", "exposure", "weights"))
        cells = Cells.by_row(
            x,
            codes(table, outcome, family.levels, all_seen=False)
            if family.levels
            else numbers(table, outcome),
            offset=offsets(table, offset, exposure),
            trials=trials_of(table, uses["trials"], family),
            counts=None if weights is None else numbers(table, weights),
            names=self.design.names,
        )
        family.check_outcomes(cells.y, cells.trials, numbers=table.rows)
        return cells, self.groups.group(cells).groups


def _name(use: str | float | None) -> str | None:
    return None if use is None else str(use)


def _uses(data: FitData) -> dict[str, str | float | None]:
    names = ("outcome", "offset", "exposure", "trials", "weights")
    return {name: getattr(data, name) for name in names}
