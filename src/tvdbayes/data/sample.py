"""A sample of a Dask DataFrame whose rows do not fit into memory, and how all of them are visited.

The sample is drawn at random and the same for the same rows. It also has rows of each level and
the ends of each column, so that whoever has seen it knows the data.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from tvdbayes._errors import DataError, MissingRowsWarning, warn
from tvdbayes._typing import IntArray
from tvdbayes._validate import no_rows_left, rows_left_out
from tvdbayes.data.frames import open_frame, require_present, row_weights
from tvdbayes.data.parts import compute, joined_frames, partitions, tree
from tvdbayes.data.table import Table, Wanted

SAMPLE_ROWS = 100_000
"""Enough that a fit to them is near that of all rows, few enough for one process."""

_OF_A_LEVEL = 20
"""Rows of each level that the sample has, where there are so many."""
_MOST_LEVELS = 1000
"""Levels of a column that are looked for: one with more cannot be a category."""
_PARTITION = 1 << 40
"""What numbers of rows begin at in each partition: more rows than a partition can hold."""


@dataclass(frozen=True, eq=False)
class AllRows:
    """Rows that stay with Dask: those of a Dask DataFrame that take part in a fit.

    Parameters
    ----------
    data : dask.dataframe.DataFrame
        The columns in use.
    wanted : Wanted
    sizes : tuple of int
        Rows of each partition that take part.
    n_rows : int
        Rows in all, those included that do not.
    n_unexposed : int
        Rows that were left out for having no exposure.
    """

    data: Any
    wanted: Wanted
    sizes: tuple[int, ...]
    n_rows: int
    n_unexposed: int

    @property
    def n_kept(self) -> int:
        """Rows that take part."""
        return sum(self.sizes)

    def tasks(self, work: Callable[..., Any], *more: Any) -> list[Any]:
        """Tasks for ``work(rows, first, *more)`` of each partition with rows; `first` is the number
        of its first one.
        """
        starts = np.cumsum((0, *self.sizes))
        each = [(work, int(start), size) for start, size in zip(starts, self.sizes, strict=False)]
        found = partitions(self.data, _visit, self.wanted, *more, each=each)
        return [task for task, size in zip(found, self.sizes, strict=True) if size]


def sampled(data: Any, wanted: Wanted) -> Table:
    """A sample of the rows as a table, with all of them in `rest`."""
    numbers = [(number,) for number in range(data.npartitions)]
    seen: _Seen = compute(tree(partitions(data, _look, wanted, each=numbers), _join))
    n_kept = sum(seen.sizes)
    if seen.n_unexposed:
        warn(wanted.exposure.left_out(seen.n_unexposed, seen.n_rows), MissingRowsWarning)
    if seen.n_gaps:
        warn(rows_left_out(seen.n_gaps, seen.n_rows), MissingRowsWarning)
    if not n_kept:
        raise no_rows_left()
    rest = AllRows(data, wanted, seen.sizes, seen.n_rows, seen.n_unexposed)
    rng = np.random.default_rng(0)
    chosen = np.sort(rng.choice(n_kept, min(n_kept, SAMPLE_ROWS), replace=False))
    frame = compute(tree(rest.tasks(_pick, chosen, np.cumsum((0, *seen.sizes))), joined_frames))
    frame = joined_frames([seen.edges, frame])
    frame = frame[~frame.index.duplicated()].sort_index().reset_index(drop=True)
    table = open_frame(frame).table(wanted.used, wanted.weights, "error")
    return replace(table, rest=rest)


@dataclass(frozen=True, eq=False)
class _Seen:
    """What partitions hold: rows that take part, of how many, and rows at the edges.

    Columns that are `open` have more values than a category may have.
    """

    sizes: tuple[int, ...]
    n_rows: int
    n_unexposed: int
    n_gaps: int
    edges: pd.DataFrame
    open: frozenset[str]


def _kept(part: pd.DataFrame, wanted: Wanted) -> pd.DataFrame:
    """The rows of a partition that take part, with plain types."""
    part = wanted.usable(part)[0]
    if not len(part):
        return part
    frame, kept = open_frame(part).rows(wanted.every), np.ones(len(part), bool)
    if wanted.weights is not None:
        kept = row_weights(frame[wanted.weights], wanted.weights, kept) > 0
    for name in wanted.used:
        require_present(frame[name], name, kept)
    return frame[kept].reset_index(drop=True)


def _look(part: pd.DataFrame, number: int, wanted: Wanted) -> _Seen:
    frame = _kept(part, wanted)
    _, n_lost = wanted.usable(part)
    frame.index = frame.index + number * _PARTITION
    return _Seen((len(frame),), len(part), *n_lost, *_edges(frame, frozenset()))


def _join(parts: Sequence[_Seen]) -> _Seen:
    sizes = tuple(size for part in parts for size in part.sizes)
    names = ("n_rows", "n_unexposed", "n_gaps")
    n_rows, n_unexposed, n_gaps = (sum(getattr(part, name) for part in parts) for name in names)
    known = frozenset[str]().union(*(part.open for part in parts))
    edges = joined_frames([part.edges for part in parts])
    return _Seen(sizes, n_rows, n_unexposed, n_gaps, *_edges(edges, known))


def _edges(frame: pd.DataFrame, known: frozenset[str]) -> tuple[pd.DataFrame, frozenset[str]]:
    """The rows with the smallest and the largest numbers, and the first ones of each level.

    Returns the columns, too, that are open, those known included.
    """
    shown, many = np.zeros(len(frame), bool), set(known)
    for name, column in frame.items() if len(frame) else ():
        if column.dtype.kind in "iuf":
            values = column.to_numpy()
            shown[[values.argmin(), values.argmax()]] = True
        if name in many or column.nunique() > _MOST_LEVELS:
            many.add(str(name))
        else:
            shown |= column.groupby(column, observed=True).cumcount().to_numpy() < _OF_A_LEVEL
    return frame[shown], frozenset(many)


def _visit(
    part: pd.DataFrame,
    work: Callable[..., Any],
    first: int,
    size: int,
    wanted: Wanted,
    *more: Any,
) -> Any:
    frame = _kept(part, wanted)
    if len(frame) != size:
        raise DataError(
            f"The data changed while they were read: {size:,} rows took part, and now "
            f"{len(frame):,} do. Fit again when the files are complete."
        )
    return work(frame, first, *more)


def _pick(frame: pd.DataFrame, first: int, chosen: IntArray, starts: IntArray) -> pd.DataFrame:
    """The rows of a partition that are among the chosen ones, numbered as in `_look`."""
    mine = chosen[(chosen >= first) & (chosen < first + len(frame))] - first
    number = int(np.searchsorted(starts, first, side="right")) - 1
    picked = frame.iloc[mine]
    return picked.set_axis(picked.index + number * _PARTITION)
