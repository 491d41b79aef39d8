"""Tables in a database, grouped where they are.

The engine groups the raw columns that a formula uses, and only distinct rows with their counts come
back: a billion rows cost what their cells cost. Formulas are evaluated here, on those few rows, so
no formula ever becomes SQL. Names of tables and columns reach the engine through Ibis alone, which
quotes them.
"""

import warnings
from collections.abc import Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pandas as pd

from tvdbayes._errors import DataError, MissingRowsWarning, SettingsError, TVDBayesError
from tvdbayes.sources._frames import open_frame
from tvdbayes.sources._grid import Grid
from tvdbayes.sources._rounding import EXACT, learn_rounding
from tvdbayes.sources._table import AbstractSource, Missing, Table, wanted

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["MAX_CELLS", "SqlSource"]

_NAMED = 3

MAX_CELLS = 1_000_000
"""Distinct rows that are brought here unless another limit is asked for: about 2 GB with draws."""


@dataclass(frozen=True, eq=False)
class SqlSource(AbstractSource):
    """A table that an engine can group.

    Parameters
    ----------
    expression : ibis.expr.types.Table
        The table, or any query on it.
    max_cells : int
        Distinct rows from which on it is refused.
    grid : Grid, optional
        How the engine rounds continuous columns.
    untyped : bool
        Whether columns of text may be truth values, as in CSV.
    """

    expression: Any
    max_cells: int = MAX_CELLS
    grid: Grid | None = None
    untyped: bool = False

    def __post_init__(self) -> None:
        if not (isinstance(self.max_cells, int) and self.max_cells >= 1):
            raise SettingsError(
                f"max_cells must be a whole number of at least 1; got {self.max_cells!r}."
            )

    @property
    def columns(self) -> list[str]:
        return list(self.expression.columns)

    def table(
        self,
        used: Sequence[str],
        weights: str | None,
        missing: Missing,
        exact: Sequence[str] = (),
    ) -> Table:
        used, every = wanted(self, used, weights, missing)
        rows = self._plain(every)
        seen = self._look(rows, every, weights)
        if not seen.n_rows:
            raise DataError("Found data with 0 sample(s): the table has no rows.")
        rows = _without_gaps(rows, seen, missing)
        if weights is not None:
            rows = rows.filter(rows[weights] > 0)
        rounding = None
        if self.grid is not None:
            with _said_plainly():
                rounding = learn_rounding(
                    rows, seen.n_rows, used, exact=exact, weights=weights, grid=self.grid
                )
        mark = _mark(every)
        count = f"{mark}count"
        if rounding is None:
            self._require_few(rows, used)
            frame = _fetch(rows.group_by(used).aggregate(**{count: _total(rows, weights)}))
            coarsening = None
        else:
            rows = rounding.binned(rows, mark)
            keys = [*rounding.bins(mark), *(name for name in used if name not in rounding.columns)]
            self._require_few(rows, keys)
            asked = {count: _total(rows, weights), **rounding.sums(rows, weights, mark)}
            frame = _fetch(rows.group_by(keys).aggregate(**asked))
            means, coarsening = rounding.rounded(frame, mark, count)
            frame = frame.assign(**means)
        if self.untyped:
            frame = frame.assign(**_truth_values(frame[used]))
        found = open_frame(frame).table(used, count, "error")
        return replace(found, unit="distinct row", n_grouped=seen.n_rows, coarsening=coarsening)

    def _plain(self, every: list[str]) -> Any:
        """The columns in use, of types that are read alike from every engine."""
        kept = {}
        for name in every:
            column = self.expression[name]
            kind = column.type()
            if kind.is_decimal():
                column = column.cast("float64")
            elif not (kind.is_numeric() or kind.is_boolean() or kind.is_string()):
                raise DataError(
                    f"The column {name!r} holds {kind}, which is neither a number nor a "
                    "category. Convert it first."
                )
            kept[name] = column
        return self.expression.select(**kept)

    def _look(self, rows: Any, every: list[str], weights: str | None) -> "_Look":
        """Count rows, gaps and what is no finite number, in one pass."""
        asked: dict[str, Any] = {"n": rows.count(), "any_gap": _gaps(rows, every).sum()}
        for j, name in enumerate(every):
            asked[f"gap_{j}"] = _gaps(rows, [name]).sum()
            if rows[name].type().is_floating():
                asked[f"infinite_{j}"] = rows[name].isinf().sum()
        if weights is not None:
            if not rows[weights].type().is_numeric():
                raise DataError(
                    f"The column {weights!r} must hold numbers; got {rows[weights].type()}. "
                    "Convert it first."
                )
            asked["negative"] = (rows[weights] < 0).sum()
        with _said_plainly():
            found = _first(rows.aggregate(**asked))
        if found.get("negative", 0):
            raise DataError(
                f"Weights count rows and must be at least 0; {found['negative']:,} of "
                f"{found['n']:,} are not."
            )
        for j, name in enumerate(every):
            infinite = found.get(f"infinite_{j}", 0)
            if infinite:
                raise DataError(
                    f"Every value of {name!r} must be a finite number; {infinite:,} of "
                    f"{found['n']:,} are not. Drop or repair these rows first."
                )
        gaps = {name: int(found[f"gap_{j}"]) for j, name in enumerate(every)}
        return _Look(int(found["n"]), int(found["any_gap"]), gaps)

    def _require_few(self, rows: Any, used: list[str]) -> None:
        """Count the distinct rows, and say which columns make them many."""
        with _said_plainly():
            n_cells = int(rows.select(*used).distinct().count().to_pyarrow().as_py())
            if n_cells <= self.max_cells:
                return
            each = rows.aggregate(**{f"n_{j}": rows[c].nunique() for j, c in enumerate(used)})
            counts = dict(zip(used, _first(each).values(), strict=True))
        widest = sorted(counts, key=lambda name: -counts[name])[:_NAMED]
        raise DataError(
            f"The columns in use have {n_cells:,} distinct rows; at most {self.max_cells:,} are "
            "brought here. Most values: "
            + ", ".join(f"{name} ({counts[name]:,})" for name in widest)
            + ". Round such columns in the engine (grid=20), fit all rows on a cluster "
            "(tvdbayes.fit_large), read a sample into a data frame, or raise max_cells=."
        )


@dataclass(frozen=True)
class _Look:
    """What one pass over a table tells: rows, rows with a gap, and gaps by column."""

    n_rows: int
    n_gaps: int
    gaps: dict[str, int]


def _gaps(rows: Any, names: Sequence[str]) -> Any:
    """Whether a row has a gap in one of these columns."""
    missing = None
    for name in names:
        column = rows[name]
        gap = column.isnull()
        if column.type().is_floating():
            gap = gap | column.isnan().fill_null(False)
        missing = gap if missing is None else missing | gap
    return missing


def _without_gaps(rows: Any, seen: _Look, missing: Missing) -> Any:
    if not seen.n_gaps:
        return rows
    if missing == "error":
        name, n = next((name, n) for name, n in seen.gaps.items() if n)
        raise DataError(
            f"The column {name!r} must have no gaps; {n:,} of {seen.n_rows:,} rows have one. Drop "
            'or repair these rows first, or pass missing="drop" to leave out rows with gaps.'
        )
    warnings.warn(
        f"{seen.n_gaps} of {seen.n_rows} rows have a gap in a column that is used and were left "
        "out.",
        MissingRowsWarning,
        stacklevel=6,
    )
    return rows.filter(~_gaps(rows, list(seen.gaps)))


def _total(rows: Any, weights: str | None) -> Any:
    """The rows of a cell, or their weight."""
    if weights is None:
        return rows.count().cast("float64")
    column = rows[weights]
    return (column.cast(EXACT) if column.type().is_floating() else column).sum().cast("float64")


def _truth_values(frame: pd.DataFrame) -> dict[str, pd.Series]:
    """The columns that hold nothing but True and False, as pandas reads them from CSV."""
    spelled = {s: w for w in (True, False) for s in (str(w), str(w).lower(), str(w).upper())}
    text = (name for name in frame.columns if frame[name].dtype.kind not in "biuf")
    return {
        name: frame[name].map(spelled).astype(bool)
        for name in text
        if frame[name].isin(spelled).all()
    }


def _first(aggregated: Any) -> dict[str, int]:
    """The only line of some counts; what nothing was added up for is 0."""
    (line,) = aggregated.to_pyarrow().to_pylist()
    return {name: int(value or 0) for name, value in line.items()}


def _fetch(grouped: Any) -> pd.DataFrame:
    """The cells, brought here, in an order of our own."""
    with _said_plainly():
        frame: pd.DataFrame = grouped.to_pyarrow().to_pandas()
    if not len(frame):
        raise DataError(
            "No row is left: all have a weight of zero or a gap. Give some rows a positive "
            "weight and values in every column that is used."
        )
    return frame.sort_values(list(frame.columns), ignore_index=True)


def _mark(taken: Sequence[str]) -> str:
    """The beginning of names that no column has."""
    mark = "tvd_"
    while any(name.startswith(mark) for name in taken):
        mark += "_"
    return mark


@contextmanager
def _said_plainly() -> "Iterator[None]":
    """Let an engine's complaint through as ours: it is about the data, or the way to them."""
    try:
        yield
    except (TVDBayesError, MemoryError):
        raise
    except Exception as error:
        # Each engine has exceptions of its own; none of them is known here.
        text = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise DataError(f"The engine cannot group the table: {text}") from error
