"""Dask DataFrames, grouped partition by partition wherever Dask computes.

Each partition becomes its distinct rows with counts, and these are joined. Formulas are evaluated
in this process, on the distinct rows, as for tables in a database.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from tvdbayes._errors import DataError, MissingRowsWarning, warn
from tvdbayes._validate import rows_left_out, whole_number
from tvdbayes.data.frames import open_frame
from tvdbayes.data.parts import compute, joined_frames, partitions, tree
from tvdbayes.data.sample import sampled
from tvdbayes.data.table import AbstractSource, Table, Wanted, count_name, require_unique


@dataclass(frozen=True, eq=False)
class DaskSource(AbstractSource):
    """A Dask DataFrame that is grouped; with too many distinct rows for that, a sample of it."""

    data: Any
    max_cells: int

    def __post_init__(self) -> None:
        whole_number("max_cells", self.max_cells, 1)
        require_unique(list(self.data.columns))
        for name in self.data.columns:
            if not isinstance(name, str):
                raise DataError(f"Names of columns must be text; got {name!r}. Rename it.")

    @property
    def columns(self) -> list[str]:
        return list(self.data.columns)

    def group(self, wanted: Wanted) -> Table:
        found = self._grouped(wanted)
        if found.frame is None:
            return sampled(self.data[wanted.every], wanted)
        if found.n_unexposed:
            warn(wanted.exposure.left_out(found.n_unexposed, found.n_rows), MissingRowsWarning)
        if found.n_gaps:
            warn(rows_left_out(found.n_gaps, found.n_rows), MissingRowsWarning)
        if not found.n_rows:
            raise DataError("Found data with 0 sample(s): 0 rows. Check that they were read.")
        table = open_frame(found.frame).table(wanted.used, count_name(wanted.used), "error")
        return replace(
            table,
            unit="distinct row",
            n_grouped=found.n_rows,
            n_dropped=found.n_rows - found.n_kept,
            n_unexposed=found.n_unexposed,
        )

    def _grouped(self, wanted: Wanted) -> "_Grouped":
        """All partitions grouped: one, two more, four more, ..., until there are too many rows."""
        tasks = partitions(self.data[wanted.every], _group, wanted, self.max_cells)
        found: _Grouped = compute(tasks[0])
        done = 1
        while done < len(tasks) and found.frame is not None:
            more = tasks[done : 2 * done + 1]
            found = compute(tree([found, *more], _join))
            done += len(more)
        return found


@dataclass(frozen=True, eq=False)
class _Grouped:
    """The distinct rows of some partitions with their counts; none where there are too many.

    Of the `n_rows` rows some are not kept, for a gap, a weight of zero, or no exposure;
    `n_unexposed` have no exposure, and `n_gaps` others a gap.
    """

    wanted: Wanted
    most: int
    frame: pd.DataFrame | None
    n_rows: int
    n_kept: int
    n_unexposed: int
    n_gaps: int


def _group(part: pd.DataFrame, wanted: Wanted, most: int) -> _Grouped:
    n_rows = len(part)
    # All partitions are warned of together: threads share their warnings.
    part, n_lost = wanted.usable(part)
    if not len(part):
        return _Grouped(wanted, most, pd.DataFrame(), n_rows, 0, *n_lost)
    table = open_frame(part).group(wanted)
    frame = _few(table, count_name(wanted.used), most)
    return _Grouped(wanted, most, frame, n_rows, len(table.rows), *n_lost)


def _join(parts: Sequence[_Grouped]) -> _Grouped:
    first, frame = parts[0], None
    frames = [part.frame for part in parts if part.frame is not None and len(part.frame)]
    if all(part.frame is not None for part in parts):
        frame = _together(frames, first.wanted, first.most) if frames else pd.DataFrame()
    names = ("n_rows", "n_kept", "n_unexposed", "n_gaps")
    numbers = (sum(getattr(part, name) for part in parts) for name in names)
    return _Grouped(first.wanted, first.most, frame, *numbers)


def _together(frames: Sequence[pd.DataFrame], wanted: Wanted, most: int) -> pd.DataFrame | None:
    """The distinct rows of several tables of distinct rows."""
    name = count_name(wanted.used)
    table = open_frame(joined_frames(frames)).table(wanted.used, name, "error")
    return _few(table, name, most)


def _few(table: Table, name: str, most: int) -> pd.DataFrame | None:
    """Distinct rows with their counts, and all declared levels; None if they are too many."""
    if len(table.counts) > most:
        return None
    declared = {
        column: table.frame[column].cat.set_categories(levels)
        for column, levels in table.declared.items()
    }
    return table.frame.assign(**declared, **{name: table.counts})
