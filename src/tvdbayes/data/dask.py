"""Dask DataFrames, grouped partition by partition wherever Dask computes.

Each partition becomes its distinct rows with counts, and these are joined. Formulas are evaluated
in this process, on the distinct rows, as for tables in a database.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any, TypeVar

import pandas as pd

from tvdbayes._errors import (
    DataError,
    MemoryBudgetError,
    MissingRowsWarning,
    SettingsError,
    TVDBayesError,
    warn,
)
from tvdbayes._validate import rows_left_out, whole_number
from tvdbayes.data.frames import open_frame
from tvdbayes.data.table import AbstractSource, Table, Wanted, count_name, require_unique

Part = TypeVar("Part")

_BRANCHES = 8
"""Results that one task joins."""


@dataclass(frozen=True, eq=False)
class DaskSource(AbstractSource):
    """A Dask DataFrame that is grouped; refused if it has too many distinct rows."""

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
        if found.n_gaps:
            warn(rows_left_out(found.n_gaps, found.n_rows), MissingRowsWarning)
        if found.frame is None:
            raise DataError(
                f"The columns in use have more than {self.max_cells:,} distinct rows, which are "
                "not read into memory. Round continuous columns, fit all rows on a cluster "
                "(tvdbayes.fit_large), read a sample into a data frame, or raise max_cells=."
            )
        if not found.n_rows:
            raise DataError("Found data with 0 sample(s): 0 rows. Check that they were read.")
        table = open_frame(found.frame).table(wanted.used, count_name(wanted.used), "error")
        return replace(
            table,
            unit="distinct row",
            n_grouped=found.n_rows,
            n_dropped=found.n_rows - found.n_kept,
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

    Of the `n_rows` rows some are not kept, for a gap or a weight of zero; `n_gaps` have a gap.
    """

    wanted: Wanted
    most: int
    frame: pd.DataFrame | None
    n_rows: int
    n_kept: int
    n_gaps: int


def _group(part: pd.DataFrame, wanted: Wanted, most: int) -> _Grouped:
    n_rows, n_gaps = len(part), 0
    if wanted.missing == "drop":
        # All partitions are warned of together: threads share their warnings.
        part = part.dropna()
        n_gaps = n_rows - len(part)
    if not len(part):
        return _Grouped(wanted, most, pd.DataFrame(), n_rows, 0, n_gaps)
    table = open_frame(part).group(wanted)
    frame = _few(table, count_name(wanted.used), most)
    return _Grouped(wanted, most, frame, n_rows, len(table.rows), n_gaps)


def _join(parts: Sequence[_Grouped]) -> _Grouped:
    first, frame = parts[0], None
    frames = [part.frame for part in parts if part.frame is not None and len(part.frame)]
    if all(part.frame is not None for part in parts):
        frame = _together(frames, first.wanted, first.most) if frames else pd.DataFrame()
    numbers = (sum(getattr(p, name) for p in parts) for name in ("n_rows", "n_kept", "n_gaps"))
    return _Grouped(first.wanted, first.most, frame, *numbers)


def _together(frames: Sequence[pd.DataFrame], wanted: Wanted, most: int) -> pd.DataFrame | None:
    """The distinct rows of several tables of distinct rows."""
    for name in wanted.used:
        if len({_levels(frame[name]) for frame in frames}) > 1:
            raise DataError(
                f"The category {name!r} has other levels in other partitions. Call "
                "data.categorize() first, or make the column text."
            )
    name = count_name(wanted.used)
    joined = open_frame(pd.concat(frames, ignore_index=True))
    return _few(joined.table(wanted.used, name, "error"), name, most)


def _levels(column: pd.Series) -> tuple[object, ...]:
    """The levels of a category, in order."""
    kind = column.dtype
    return tuple(kind.categories) if isinstance(kind, pd.CategoricalDtype) else ()


def _few(table: Table, name: str, most: int) -> pd.DataFrame | None:
    """Distinct rows with their counts, and all declared levels; None if they are too many."""
    if len(table.counts) > most:
        return None
    declared = {
        column: table.frame[column].cat.set_categories(levels)
        for column, levels in table.declared.items()
    }
    return table.frame.assign(**declared, **{name: table.counts})


def dask_module(name: str) -> Any:
    """The module "dask" or "distributed", or an error that says how to get it."""
    try:
        return import_module(name)
    except ImportError as error:
        raise SettingsError("Rows in Dask need it. Run: pip install 'tvdbayes[dask]'") from error


def partitions(data: Any, work: Callable[..., Any], *more: Any) -> list[Any]:
    """For each partition a task for ``work(frame, *more)``; errors name the partition."""
    delayed = dask_module("dask").delayed
    task, shared = delayed(_on_partition, pure=False), delayed((work, more), pure=False)
    parts = data.to_delayed()
    return [task(part, number, len(parts), shared) for number, part in enumerate(parts)]


def _on_partition(part: pd.DataFrame, number: int, n: int, shared: Any) -> Any:
    work, more = shared
    try:
        return work(part, *more)
    except TVDBayesError as error:
        raise type(error)(f"In partition {number} of {n}: {error}") from error


def tree(parts: Sequence[Any], join: Callable[[Sequence[Any]], Any]) -> Any:
    """A task that joins the results of tasks, eight neighbours at a time.

    Its shape depends on the number of parts alone, so that sums are the same wherever they are
    computed.
    """
    task = dask_module("dask").delayed(join, pure=False)
    while len(parts) > 1:
        parts = [task(list(parts[at : at + _BRANCHES])) for at in range(0, len(parts), _BRANCHES)]
    return parts[0]


def compute(task: Any) -> Any:
    """The result of a task, computed where Dask's settings or the client in use say."""
    try:
        return task.compute()
    except TVDBayesError as error:
        # A client keeps the error, and its traceback would keep rows in memory.
        copied = type(error)(str(error))
        error.__traceback__ = None
        raise copied from None
    except Exception as error:
        if type(error).__name__ != "KilledWorker":
            raise
        raise MemoryBudgetError(
            "Workers were lost again and again over the same rows, most likely for want of "
            "memory. Give each worker more memory, or make partitions smaller "
            "(data.repartition)."
        ) from error
