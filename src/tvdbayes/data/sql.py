"""Tables in a database, grouped by its engine.

The engine groups the raw columns that a formula uses, and returns only distinct rows with their
counts, so a billion rows cost as much as their distinct rows. Formulas are evaluated in this
process, on those rows, so no formula becomes SQL. Names of tables and columns reach the engine only
through Ibis, which quotes them.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import reduce
from operator import and_, or_
from typing import Any

import numpy as np
import pandas as pd

from tvdbayes._errors import (
    DataError,
    MissingRowsWarning,
    TVDBayesError,
    first_line,
    warn,
)
from tvdbayes._validate import (
    REPAIR,
    REPAIR_OR_DROP,
    bad_exposure,
    check_weights,
    has_gaps,
    negative_weights,
    no_rows_left,
    not_finite,
    not_numbers,
    not_values,
    rows_left_out,
    whole_number,
)
from tvdbayes.data.duckdb import register, require_cases
from tvdbayes.data.files import typed_text
from tvdbayes.data.frames import FrameSource, open_frame
from tvdbayes.data.grid import Coarsening, Grid
from tvdbayes.data.rounding import Rounding, learn_rounding
from tvdbayes.data.table import AbstractSource, Missing, Table, Wanted, count_name, mark
from tvdbayes.data.weigh import Weigh

_NAMED = 3
"""Columns that a message lists at most."""

MAX_CELLS = 1_000_000
"""Distinct rows that are read into memory unless another limit is given: about 2 GB with draws."""


@dataclass(frozen=True, eq=False)
class SqlSource(AbstractSource):
    """A table of Ibis, or any query on it, that an engine can group; refused if it has too many
    distinct rows.

    The engine rounds continuous columns to the grid. If untyped, numbers and truth values are text,
    as in CSV. Columns of text that are categories have levels.
    """

    expression: Any
    max_cells: int = MAX_CELLS
    grid: Grid | None = None
    untyped: bool = False
    levels: Mapping[str, "pd.CategoricalDtype"] = field(default_factory=dict)

    def __post_init__(self) -> None:
        whole_number("max_cells", self.max_cells, 1)

    @property
    def columns(self) -> list[str]:
        return list(self.expression.columns)

    def group(self, wanted: Wanted) -> Table:
        used, every, weights = wanted.used, wanted.every, wanted.weights
        rows, n_unexposed = _with_exposure(self._plain(every, weights), wanted)
        seen = _count_rows(rows, every, weights, wanted.missing)
        rows = _without_gaps(rows, seen, wanted.missing)
        if weights is not None:
            rows = rows.filter(rows[weights] > 0)
            check_weights(np.array([seen.largest_weight]))
        if self.grid is not None:
            _require_exposure(rows, wanted.exposure.exposure)
        weigh = Weigh(weights, seen.largest_weight)
        frame, coarsening = self._cells(rows, wanted, weigh, seen.n_kept)
        found = open_frame(frame).table(used, count_name(used), "error")
        return replace(
            found,
            unit="distinct row",
            n_grouped=seen.n_rows + n_unexposed,
            n_dropped=seen.n_rows + n_unexposed - seen.n_kept,
            n_unexposed=n_unexposed,
            coarsening=coarsening,
        )

    def _cells(
        self, rows: Any, wanted: Wanted, weigh: Weigh, n_rows: int
    ) -> tuple[pd.DataFrame, Coarsening | None]:
        """The distinct rows with their counts, rounded where that is asked for."""
        used, count = wanted.used, count_name(wanted.used)
        rounding = None
        if self.grid is not None:
            with _engine_errors():
                rounding = learn_rounding(rows, n_rows, wanted, grid=self.grid, typed=self._typed)
        if rounding is None:
            self._require_few(rows, dict(zip(used, used, strict=True)))
            frame = _fetch(rows.group_by(used).aggregate(**{count: weigh.total(rows)}))
            return self._typed(frame), None
        return self._rounded(rows, used, weigh, rounding)

    def _rounded(
        self, rows: Any, used: list[str], weigh: Weigh, rounding: Rounding
    ) -> tuple[pd.DataFrame, Coarsening]:
        count, first = count_name(used), mark(used)
        rows = rounding.binned(rows, first)
        bins = rounding.bins(first)
        keys = dict(zip(bins, rounding.columns, strict=True))
        keys |= {name: name for name in used if name not in rounding.columns}
        self._require_few(rows, keys)
        asked = {count: weigh.total(rows), **rounding.sums(rows, weigh, first)}
        frame = self._typed(_fetch(rows.group_by(list(keys)).aggregate(**asked)))
        means, coarsening = rounding.rounded(frame, first, count)
        return frame.assign(**means), coarsening

    def _plain(self, every: list[str], weights: str | None) -> Any:
        """The columns in use, of types that are read alike from every engine."""
        kept = {}
        for name in every:
            column = self.expression[name]
            kind = column.type()
            if kind.is_decimal() or (name == weights and self.untyped):
                if kind.is_string():
                    self._require_numbers(name)
                column = column.try_cast("float64") if kind.is_string() else column.cast("float64")
            elif kind.is_boolean() and name == weights:
                column = column.cast("int64")
            elif not (kind.is_numeric() or kind.is_boolean() or kind.is_string()):
                raise not_values(name, kind)
            kept[name] = column
        return self.expression.select(**kept)

    def _require_numbers(self, name: str) -> None:
        """Raise if a text in a column is not a number: casting would make it a missing value."""
        column = self.expression[name]
        wrong = column.notnull() & column.try_cast("float64").isnull() & (column.strip() != "")
        found = self.expression.filter(wrong).select(name).limit(1).to_pyarrow()[name]
        if len(found):
            raise not_numbers(name, f"got {found[0].as_py()!r}. {REPAIR}")

    def _typed(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Rows from the engine, with text converted to numbers, truth values or categories."""
        if self.untyped:
            frame = frame.assign(**{str(name): typed_text(c) for name, c in frame.items()})
        for name, kind in self.levels.items():
            if name in frame:
                unknown = ~frame[name].isin(kind.categories) & frame[name].notna()
                if unknown.any():
                    raise DataError(
                        f"The category {name!r} has the value {frame[name][unknown].iloc[0]!r}, "
                        "which is none of its declared levels. Save the column as text."
                    )
                frame = frame.astype({name: kind})
        return frame

    def _require_few(self, rows: Any, keys: dict[str, str]) -> None:
        """Count the distinct rows, and say which columns make them many."""
        names = list(keys)
        with _engine_errors():
            n_cells = int(rows.select(*names).distinct().count().to_pyarrow().as_py())
            if n_cells <= self.max_cells:
                return
            each = rows.aggregate(**{f"n_{j}": rows[c].nunique() for j, c in enumerate(names)})
            (line,) = each.to_pyarrow().to_pylist()
        counts = {name: int(n or 0) for name, n in zip(keys.values(), line.values(), strict=True)}
        widest = sorted(counts, key=lambda name: -counts[name])[:_NAMED]
        grid = (
            "Round such columns in the engine (grid=20)"
            if self.grid is None
            else f"Ask for fewer bins than {self.grid.n_bins}"
        )
        raise DataError(
            f"The columns in use have {n_cells:,} distinct rows; at most {self.max_cells:,} are "
            "read into memory. Most values: "
            + ", ".join(f"{name} ({counts[name]:,})" for name in widest)
            + f". {grid}, fit all rows as a Dask DataFrame, read a sample into a data "
            "frame, or raise max_cells=."
        )


@dataclass(frozen=True, eq=False)
class RegisteredFrame(AbstractSource):
    """A data frame whose columns in use become a table of DuckDB's."""

    frame: FrameSource
    max_cells: int
    grid: Grid | None

    @property
    def columns(self) -> list[str]:
        return self.frame.columns

    def group(self, wanted: Wanted) -> Table:
        every = wanted.every
        require_cases(every, "The data frame")
        rows = self.frame.rows(every)
        kinds = {name: rows[name].dtype for name in every}
        levels = {n: kind for n, kind in kinds.items() if isinstance(kind, pd.CategoricalDtype)}
        source = SqlSource(register(rows), self.max_cells, self.grid, levels=levels)
        return source.group(wanted)


def _with_exposure(rows: Any, wanted: Wanted) -> tuple[Any, int]:
    """The rows that are not left out for having no exposure, and how many are."""
    lacks = [_numbers(rows[name]) == value for name, value in wanted.exposure.dropped.items()]
    if not lacks:
        return rows, 0
    lacking = reduce(or_, (one.fill_null(False) for one in lacks))
    with _engine_errors():
        asked = rows.aggregate(n=rows.count(), lacking=lacking.sum()).to_pyarrow()
    n_rows, n = (int(asked[name][0].as_py() or 0) for name in ("n", "lacking"))
    if n:
        warn(wanted.exposure.left_out(n, n_rows), MissingRowsWarning)
    return rows.filter(~lacking), n


def _require_exposure(rows: Any, exposure: str | None) -> None:
    """Raise where an exposure is 0 or below, which the mean of a bin would hide."""
    if exposure is None:
        return
    with _engine_errors():
        n_wrong = int(rows.filter(_numbers(rows[exposure]) <= 0).count().to_pyarrow().as_py())
        n_rows = int(rows.count().to_pyarrow().as_py())
    if n_wrong:
        raise bad_exposure(exposure, f"{n_wrong:,} of {n_rows:,} are not")


def _numbers(column: Any) -> Any:
    """The numbers in a column, which may be text."""
    return column.try_cast("float64") if column.type().is_string() else column


@dataclass(frozen=True)
class _TableCounts:
    """Rows in all, rows that are fitted, rows with a gap; gaps by column, in rows that count."""

    n_rows: int
    n_kept: int
    n_gaps: int
    gaps: dict[str, int]
    largest_weight: float


def _count_rows(rows: Any, every: list[str], weights: str | None, missing: Missing) -> _TableCounts:
    """Count rows, gaps and values that are not finite, in one pass.

    Rows without weight are not looked at, nor, where gaps are dropped, rows with one.
    """
    gap = _gaps(rows, every)
    alive = None
    if weights is not None:
        if not rows[weights].type().is_numeric():
            raise not_numbers(weights, f"got {rows[weights].type()}. Convert it first.")
        alive = (rows[weights] != 0).fill_null(True)
    whole = ~gap if missing == "drop" else None

    def number(*conditions: Any) -> Any:
        return reduce(and_, (c for c in conditions if c is not None)).sum()

    asked = {"n": rows.count(), "any_gap": gap.sum()}
    if alive is not None or whole is not None:
        asked["kept"] = number(alive, whole)
    for j, name in enumerate(every):
        asked[f"gap_{j}"] = number(_gaps(rows, [name]), alive)
        if rows[name].type().is_floating():
            asked[f"infinite_{j}"] = number(rows[name].isinf().fill_null(False), alive, whole)
    if weights is not None:
        asked["negative"] = number((rows[weights] < 0).fill_null(False), whole)
        asked["largest"] = rows[weights].cast("float64").max()
    with _engine_errors():
        largest, found = 1.0, rows.aggregate(**asked).to_pyarrow().to_pylist()[0]
    if weights is not None:
        largest = float(found.pop("largest") or 0.0)
    n = {name: int(value or 0) for name, value in found.items()}
    if not n["n"]:
        raise DataError("Found data with 0 sample(s): the table has no rows.")
    if n.get("negative", 0):
        raise negative_weights(f"{n['negative']:,} of {n['n']:,} are not")
    for j, name in enumerate(every):
        if n.get(f"infinite_{j}", 0):
            raise not_finite(name, f"{n[f'infinite_{j}']:,} of {n['n']:,} are not")
    gaps = {name: n[f"gap_{j}"] for j, name in enumerate(every)}
    return _TableCounts(n["n"], n.get("kept", n["n"]), n["any_gap"], gaps, largest)


def _gaps(rows: Any, names: Sequence[str]) -> Any:
    """Whether a row has a gap in one of these columns."""

    def gap(column: Any) -> Any:
        nan = column.isnan().fill_null(False) if column.type().is_floating() else None
        return column.isnull() if nan is None else column.isnull() | nan

    return reduce(or_, (gap(rows[name]) for name in names))


def _without_gaps(rows: Any, seen: _TableCounts, missing: Missing) -> Any:
    if missing == "error" and any(seen.gaps.values()):
        name, n = next((name, n) for name, n in seen.gaps.items() if n)
        raise has_gaps(name, f"{n:,} of {seen.n_rows:,} rows have one", REPAIR_OR_DROP)
    if missing == "error" or not seen.n_gaps:
        return rows
    warn(rows_left_out(seen.n_gaps, seen.n_rows), MissingRowsWarning)
    return rows.filter(~_gaps(rows, list(seen.gaps)))


def _fetch(grouped: Any) -> pd.DataFrame:
    """The cells as a data frame, sorted."""
    with _engine_errors():
        frame: pd.DataFrame = grouped.to_pyarrow().to_pandas()
    if not len(frame):
        raise no_rows_left()
    return frame.sort_values(list(frame.columns), ignore_index=True)


@contextmanager
def _engine_errors() -> Iterator[None]:
    """Raise errors of an engine as `DataError`: they are about the data, or the connection."""
    try:
        yield
    except (TVDBayesError, MemoryError):
        raise
    except Exception as error:
        # Each engine has exceptions of its own, which are not imported.
        text = first_line(error)
        hint = (
            " A value is too large beside the others to be added up: leave such rows out, or "
            "rescale the column."
            if "decimal" in text.casefold() or "numeric" in text.casefold()
            else ""
        )
        raise DataError(f"The engine cannot group the table: {text}{hint}") from error
