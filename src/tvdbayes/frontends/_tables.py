"""Any data to a table of distinct rows: what formulas are evaluated on.

Data frames of every library come in through narwhals; only the columns that are used are read.
Equal rows are kept once, with a count, in a sorted order: a weight of 2 is then the row twice, the
order of the rows cannot matter, and ten million rows with few distinct ones cost little more than
those few.
"""

import csv
import os
import warnings
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd

from tvdbayes._errors import DataError, MissingRowsWarning, SettingsError, listing
from tvdbayes._typing import Array, BoolArray, IntArray
from tvdbayes.cells import distinct_rows, totals

__all__ = ["Data", "Missing", "Source", "Table", "did_you_mean", "open_data", "read_file"]

Data = Any
"""A data frame (pandas, polars, pyarrow, ...), a dict of columns, or a path to CSV or Parquet."""

Missing = Literal["error", "drop"]

_SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
_NAMED_COLUMNS = 30
_LOOKED_AT = 1 << 16


@dataclass(frozen=True, eq=False)
class Table:
    """Distinct rows of the columns in use, with counts.

    Parameters
    ----------
    frame : DataFrame
        The distinct rows, sorted.
    counts : (m,)
        Total weight of each.
    index : (n,)
        The distinct row of each row that was kept.
    rows : (n,)
        The number of each kept row in the input.
    n_rows : int
        Rows of the input.
    """

    frame: pd.DataFrame
    counts: Array
    index: IntArray
    rows: IntArray
    n_rows: int

    def listing(self, wrong: BoolArray, values: Any) -> str:
        """Say how many input rows are wrong, and name the first, from flags of distinct rows."""
        spread = np.asarray(values, dtype=object)[self.index]
        return listing(wrong[self.index], spread, "row", self.rows)

    def of_input(self, numbers: IntArray) -> IntArray:
        """Numbers of distinct rows for every row of the input, -1 where it was left out."""
        out = np.full(self.n_rows, -1)
        out[self.rows] = numbers[self.index]
        return out


@dataclass(frozen=True, eq=False)
class Source:
    """Data whose columns are read on demand."""

    native: nw.DataFrame[Any]

    @property
    def columns(self) -> list[str]:
        """Names of the columns."""
        return list(self.native.columns)

    def table(self, used: Sequence[str], weights: str | None, missing: Missing) -> Table:
        """The distinct rows of some columns, rows without weight left out."""
        if missing not in ("error", "drop"):
            raise SettingsError(f'missing must be "error" or "drop"; got {missing!r}.')
        used = list(dict.fromkeys(used))
        wanted = used if weights is None else [*used, weights]
        for name in wanted:
            _require(name, self.columns)
        columns = {name: _column(self.native[name], name) for name in dict.fromkeys(wanted)}
        n = len(self.native)
        kept = np.ones(n, bool)
        if missing == "drop":
            for column in columns.values():
                kept &= ~column.isna().to_numpy()
            _say_dropped(n - int(kept.sum()), n)
        counts = np.ones(n)
        if weights is not None:
            counts = _weights(columns[weights], weights, kept)
            kept &= ~(counts == 0)
        if not kept.any():
            raise DataError(
                "No row is left: all have a weight of zero or a gap. Give some rows a positive "
                "weight and values in every column that is used."
            )
        for name in used:
            _require_present(columns[name], name, kept)
        rows = np.flatnonzero(kept)
        frame = pd.DataFrame({name: columns[name].to_numpy()[rows] for name in used}, copy=False)
        for name in used:
            if isinstance(columns[name].dtype, pd.CategoricalDtype):
                levels = columns[name].iloc[rows].cat.remove_unused_categories()
                frame[name] = pd.Series(levels.array)
        index, first = distinct_rows([_codes(frame[name], name) for name in used])
        total = totals(index, counts[rows], len(first))
        return Table(frame.iloc[first].reset_index(drop=True), total, index, rows, n)


def open_data(data: Data) -> Source:
    """Whatever a user calls data."""
    if isinstance(data, str | os.PathLike):
        data = read_file(data)
    if isinstance(data, dict):
        try:
            data = pd.DataFrame(data)
        except (ValueError, TypeError) as error:
            raise DataError(f"The data must be columns of equal length: {error}") from error
    if isinstance(data, pd.DataFrame):
        _require_unique(data.columns.tolist())
    try:
        frame = nw.from_native(data, eager_only=True)
    except TypeError as error:
        raise DataError(
            "The data must be a data frame, a dict of columns, or a path to a CSV or Parquet file; "
            f"got {type(data).__name__}."
        ) from error
    if not len(frame):
        raise DataError(
            "Found data with 0 sample(s): 0 rows. Check that they were read, and that filters "
            "left some."
        )
    return Source(frame)


def read_file(path: str | os.PathLike[str], sep: str = ",") -> pd.DataFrame:
    """The table in a CSV or Parquet file; `sep` stands between the values of a line of CSV."""
    path = Path(path)
    kind = path.suffix.lower()
    if kind not in (".csv", ".parquet", ".pq"):
        raise DataError(
            f"Files are read as CSV or Parquet, by their ending; got {path.name!r}. "
            "Read it yourself and pass the data frame."
        )
    if path.is_dir():
        raise DataError(f"{str(path)!r} is a folder. Give the name of a CSV or Parquet file.")
    if not path.is_file():
        raise DataError(
            f"There is no file {str(path)!r}. Check the name and the working directory."
        )
    try:
        frame = _read_csv(path, sep) if kind == ".csv" else pd.read_parquet(path)
    except DataError:
        raise
    except ImportError as error:
        raise DataError(
            "Parquet files need pyarrow: pip install pyarrow. Or pass a data frame."
        ) from error
    except UnicodeDecodeError as error:
        raise DataError(
            f"{str(path)!r} is not UTF-8 text (byte {error.object[error.start]:#04x} at "
            f"{error.start:,}). Save it as UTF-8, or read it with its encoding and pass the data "
            "frame."
        ) from error
    except (ValueError, OSError, csv.Error) as error:
        # Parsers raise their own kinds of ValueError; all mean that the file cannot be read.
        raise DataError(f"{str(path)!r} cannot be read: {_first_line(error)}.") from error
    if not len(frame):
        raise DataError(f"{str(path)!r} has {len(frame.columns)} columns but no rows.")
    return frame


def _read_csv(path: Path, sep: str) -> pd.DataFrame:
    """The table, once its first line is known to name columns: pandas would make do with less."""
    with path.open("rb") as file:
        if b"\0" in file.read(_LOOKED_AT):
            raise DataError(
                f"{str(path)!r} is not UTF-8 text: it holds zero bytes, as spreadsheets and other "
                "binary files do. Export it as CSV in UTF-8."
            )
    with path.open(encoding="utf-8-sig", newline="") as text:
        names = next(filter(None, csv.reader(text, delimiter=sep)), [])
    if not names:
        raise DataError(f"{str(path)!r} is empty. Its first line must name the columns.")
    other = [s for s in _SEPARATORS if s in names[0]]
    if len(names) == 1 and other:
        raise DataError(
            f"{str(path)!r} has one column, {names[0]!r:.60}: its values seem to be separated by "
            f"{_SEPARATORS[other[0]]}. Read it with pandas.read_csv(..., sep={other[0]!r}) and "
            "pass the data frame."
        )
    # Columns without a name are left behind by spreadsheets, and cannot be asked for.
    _require_unique(list(filter(None, names)))
    with warnings.catch_warnings():
        # Lines longer than the first are cut with a warning otherwise, and shift the columns.
        warnings.simplefilter("error", pd.errors.ParserWarning)
        try:
            return pd.read_csv(path, sep=sep, index_col=False, low_memory=False)
        except pd.errors.ParserWarning as error:
            raise DataError(
                f"{str(path)!r} has lines with more values than its first line names columns "
                f"({len(names)}). Name every column, and quote values that hold {sep!r}."
            ) from error


def _first_line(error: Exception) -> str:
    """What a parser or the system says, without its own prefix and full stop."""
    text = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return (
        str(text)
        .strip()
        .splitlines()[0]
        .removeprefix("Error tokenizing data. C error: ")
        .rstrip(".")
    )


def did_you_mean(name: object, known: Iterable[object]) -> str:
    """A question that names what was probably meant, with a blank before it; or nothing."""
    by_lower = {str(one).lower(): one for one in known}
    near = get_close_matches(str(name).lower(), by_lower, 1)
    return f" Did you mean {by_lower[near[0]]!r}?" if near else ""


def _require_unique(names: Sequence[object]) -> None:
    repeated = [name for name, times in Counter(names).items() if times > 1]
    if repeated:
        raise DataError(
            f"Column names must be unique; {', '.join(map(repr, repeated))} comes more than "
            "once. Rename one of them."
        )


def _column(series: nw.Series[Any], name: str) -> pd.Series:
    """A column as pandas has it; text of every flavour is plain objects."""
    native, dtype = series.to_native(), series.dtype
    if isinstance(native, pd.Series):
        column = native.reset_index(drop=True)
        if isinstance(column.dtype, pd.CategoricalDtype):
            return column
        return _plain(column, name)
    if dtype.is_numeric() or dtype == nw.Boolean:
        values = series.to_numpy()
        return _plain(pd.Series(values), name)
    if isinstance(dtype, nw.Enum):
        return pd.Series(pd.Categorical(series.to_list(), categories=list(dtype.categories)))
    if dtype in (nw.String, nw.Categorical, nw.Object):
        return _plain(pd.Series(np.array(series.to_list(), dtype=object)), name)
    raise DataError(
        f"The column {name!r} holds {dtype}, which is neither a number nor a category. "
        "Convert it first."
    )


def _plain(column: pd.Series, name: str) -> pd.Series:
    """Numbers as numbers, text as objects; objects that are all numbers are numbers."""
    kind = getattr(column.dtype, "kind", "O")
    if kind in "biuf" and isinstance(column.dtype, np.dtype):
        return column
    if kind in "biuf":
        if kind == "b" and not column.isna().any():
            return column.astype(bool)
        return pd.Series(column.to_numpy(dtype=float, na_value=np.nan))
    if kind in "cmMV":
        raise DataError(
            f"The column {name!r} holds {column.dtype}, which is neither a number nor a "
            "category. Convert it first."
        )
    values = column.astype(object)
    present = values[~values.isna()]
    numbers = present.map(lambda v: isinstance(v, int | float | np.number)).to_numpy(bool)
    if len(present) and numbers.all():
        return pd.Series(values.to_numpy(dtype=float, na_value=np.nan))
    if numbers.any():
        first = present.iloc[int(np.argmin(numbers))]
        raise DataError(
            f"The column {name!r} mixes numbers and text (first text: {first!r}). "
            "Make it one or the other."
        )
    return values


def _codes(column: pd.Series, name: str) -> tuple[IntArray, int]:
    """Codes that keep the order of a column's values, and their number."""
    try:
        codes, levels = pd.factorize(column, sort=True)
    except TypeError as error:
        raise DataError(
            f"The values of {name!r} cannot be put in order: {error}. Make them text or numbers."
        ) from error
    return codes.astype(np.intp), len(levels)


def _require(name: object, columns: list[str]) -> None:
    if name not in columns:
        more = ", ..." if len(columns) > _NAMED_COLUMNS else ""
        raise DataError(
            f"{name!r} is no column of the data.{did_you_mean(name, columns)} "
            f"Columns: {', '.join(map(str, columns[:_NAMED_COLUMNS]))}{more}."
        )


def _require_present(column: pd.Series, name: str, kept: BoolArray) -> None:
    missing = column.isna().to_numpy() & kept
    if column.dtype.kind == "f":
        missing |= ~np.isfinite(column.to_numpy()) & kept
        rule = f"Every value of {name!r} must be a finite number"
    else:
        rule = f"The column {name!r} must have no gaps"
    if missing.any():
        raise DataError(
            f"{rule}; {listing(missing, column.to_numpy(dtype=object), 'row')}. Drop or repair "
            'these rows first, or pass missing="drop" to leave out rows with gaps.'
        )


def _weights(column: pd.Series, name: str, kept: BoolArray) -> Array:
    if column.dtype.kind not in "biuf":
        raise DataError(
            f"The column {name!r} must hold numbers; got {column.dtype} "
            f"(first: {column.iloc[0]!r}). Convert it first."
        )
    _require_present(column, name, kept)
    counts = np.where(kept, column.to_numpy(float), 0.0)
    if (counts < 0).any():
        raise DataError(
            f"Weights count rows and must be at least 0; {listing(counts < 0, counts, 'row')}."
        )
    return counts


def _say_dropped(n_dropped: int, n: int) -> None:
    if n_dropped:
        warnings.warn(
            f"{n_dropped} of {n} rows have a gap in a column that is used and were left out.",
            MissingRowsWarning,
            stacklevel=5,
        )
