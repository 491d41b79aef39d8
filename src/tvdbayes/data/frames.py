"""Frames of any library, read through narwhals, and only the columns in use."""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any, cast, get_args

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd

from tvdbayes._errors import DataError, MissingRowsWarning, listing, warn
from tvdbayes._typing import Array, BoolArray, IntArray, Library
from tvdbayes._validate import (
    REPAIR_OR_DROP,
    check_weights,
    has_gaps,
    not_finite,
    not_numbers,
    not_values,
    rows_left_out,
)
from tvdbayes.data.cells import distinct_rows, totals
from tvdbayes.data.table import AbstractSource, Table, Wanted, no_numbers, require_unique

_WIDE = (np.dtype(bool), np.dtype(np.int64), np.dtype(np.float64))
"""Types that hold the results of formulas as they are."""

_INT64 = np.iinfo(np.int64)
"""The range of the widest integers that NumPy has."""


@dataclass(frozen=True, eq=False)
class FrameSource(AbstractSource):
    """A data frame of any library."""

    native: nw.DataFrame[Any]

    @property
    def columns(self) -> list[str]:
        return list(self.native.columns)

    @property
    def library(self) -> Library:
        found = str(self.native.implementation)
        return cast("Library", found) if found in get_args(Library) else "pandas"

    def whole(self) -> pd.DataFrame:
        return self.native.to_pandas()

    def rows(self, used: Sequence[str]) -> pd.DataFrame:
        """Some columns, every row for itself, gaps and all."""
        self.require(used)
        found = {name: _column(self.native[name], name) for name in used}
        return pd.DataFrame(found, copy=False)

    def group(self, wanted: Wanted) -> Table:
        used, weights = wanted.used, wanted.weights
        columns = {name: _column(self.native[name], name) for name in wanted.every}
        n = len(self.native)
        kept = ~wanted.exposure.lacking(columns, n)
        n_exposed = int(kept.sum())
        if n_exposed < n:
            warn(wanted.exposure.left_out(n - n_exposed, n), MissingRowsWarning)
        if wanted.missing == "drop":
            for column in columns.values():
                kept &= ~column.isna().to_numpy()
            if n_gaps := n_exposed - int(kept.sum()):
                warn(rows_left_out(n_gaps, n), MissingRowsWarning)
        counts = np.ones(n)
        if weights is not None:
            counts = row_weights(columns[weights], weights, kept)
            kept &= ~(counts == 0)
        for name in used:
            require_present(columns[name], name, kept)
        rows = np.flatnonzero(kept)
        frame = pd.DataFrame({name: columns[name].to_numpy()[rows] for name in used}, copy=False)
        declared = {}
        for name in used:
            if isinstance(columns[name].dtype, pd.CategoricalDtype):
                declared[name] = tuple(columns[name].cat.categories.tolist())
                levels = columns[name].iloc[rows].cat.remove_unused_categories()
                frame[name] = pd.Series(levels.array)
        index, first = distinct_rows([_codes(frame[name], name) for name in used])
        total = totals(index, counts[rows], len(first))
        distinct = frame.iloc[first].reset_index(drop=True)
        return Table(distinct, total, index, rows, n, declared=declared, n_unexposed=n - n_exposed)


def open_frame(data: Any) -> FrameSource:
    """A data frame, or a dict of columns."""
    if isinstance(data, dict):
        try:
            data = _framed(data)
        except (ValueError, TypeError) as error:
            raise DataError(f"The data must be columns of equal length: {error}") from error
    if isinstance(data, pd.DataFrame):
        require_unique(data.columns.tolist())
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
    return FrameSource(frame)


def _framed(data: dict[Any, Any]) -> pd.DataFrame:
    try:
        return pd.DataFrame(data)
    except OverflowError:
        # pandas 2 looks for dates among whole numbers, and stops at one beyond floating point.
        return pd.DataFrame({name: _series(values) for name, values in data.items()})


def _series(values: Any) -> pd.Series:
    try:
        return pd.Series(values)
    except OverflowError:
        return pd.Series(values, dtype=object)


def _column(series: nw.Series[Any], name: str) -> pd.Series:
    """A column as pandas has it; text of every flavour is plain objects."""
    native, dtype = series.to_native(), series.dtype
    if isinstance(native, pd.Series):
        column = native.reset_index(drop=True)
        if isinstance(column.dtype, pd.CategoricalDtype):
            return column
        return _plain(column, name)
    if dtype in (nw.Int128, nw.UInt128):
        # NumPy has no such numbers; beyond 64 bits they are rounded, as Python's integers are.
        narrow = bool(series.is_between(_INT64.min, _INT64.max).all())
        series = series.cast(nw.Int64 if narrow else nw.Float64)
    if dtype.is_numeric() or dtype == nw.Boolean:
        values = series.to_numpy()
        return _plain(pd.Series(values), name)
    if isinstance(dtype, nw.Enum):
        return pd.Series(pd.Categorical(series.to_list(), categories=list(dtype.categories)))
    if dtype in (nw.String, nw.Categorical, nw.Object):
        return _plain(pd.Series(np.array(series.to_list(), dtype=object)), name)
    raise not_values(name, dtype)


def _plain(column: pd.Series, name: str) -> pd.Series:
    """Numbers as numbers, text as objects; objects that are all numbers are numbers."""
    kind = getattr(column.dtype, "kind", "O")
    if kind in "biuf" and isinstance(column.dtype, np.dtype):
        # Formulas calculate with columns: narrow numbers would overflow, or round, unseen.
        # What no float64 can hold becomes infinite here, and is refused as such.
        with np.errstate(over="ignore"):
            if column.dtype in _WIDE:
                return column
            whole = kind != "f" and bool((column <= _INT64.max).all())
            return column.astype(np.int64 if whole else np.float64)
    if kind in "biuf":
        if kind == "b" and not column.isna().any():
            return column.astype(bool)
        return pd.Series(column.to_numpy(dtype=float, na_value=np.nan))
    if kind in "cmMV":
        raise not_values(name, column.dtype)
    values = column.astype(object)
    try:
        present = values[~values.isna()]
    except InvalidOperation as error:
        raise DataError(
            f"The column {name!r} holds a signalling NaN, a decimal that cannot be compared. "
            "Repair these rows first."
        ) from error
    numbers = present.map(lambda v: isinstance(v, int | float | np.number | Decimal)).to_numpy(bool)
    if len(present) and numbers.all():
        return pd.Series(values.map(_as_float, na_action="ignore").to_numpy(float, na_value=np.nan))
    if numbers.any():
        row = present.index[int(np.argmin(numbers))]
        raise DataError(
            f"The column {name!r} mixes numbers and text (first text: {values[row]!r} in row "
            f"{row}). Make it one or the other."
        )
    return values


def _as_float(value: Any) -> float:
    try:
        return float(value)
    except OverflowError:
        # As text of as many digits would be read; columns with infinite values are refused.
        return np.inf if value > 0 else -np.inf


def _codes(column: pd.Series, name: str) -> tuple[IntArray, int]:
    """Codes that keep the order of a column's values, and their number."""
    try:
        codes, levels = pd.factorize(column, sort=True)
    except TypeError as error:
        raise DataError(
            f"The values of {name!r} cannot be put in order: {error}. Make them text or numbers."
        ) from error
    return codes.astype(np.intp), len(levels)


def require_present(column: pd.Series, name: str, kept: BoolArray) -> None:
    """Raise where one of the rows that are kept has a gap, or a number that is not finite."""
    missing, fault = column.isna().to_numpy() & kept, has_gaps
    if column.dtype.kind == "f":
        missing |= ~np.isfinite(column.to_numpy()) & kept
        fault = not_finite
    if missing.any():
        raise fault(name, listing(missing, column.to_numpy(dtype=object), "row"), REPAIR_OR_DROP)


def row_weights(column: pd.Series, name: str, kept: BoolArray) -> Array:
    """The weights of rows from their column, 0 for those that are not kept."""
    if column.dtype.kind not in "biuf":
        wrong = no_numbers(column) & ~column.isna().to_numpy()
        found = (
            f"{listing(wrong, column.to_numpy(dtype=object), 'row')}. Repair or drop these rows"
            if wrong.any()
            else f"got numbers written as text (first: {column.iloc[0]!r}). Convert it"
        )
        raise not_numbers(name, f"{found} first.")
    require_present(column, name, kept)
    counts = np.where(kept, column.to_numpy(float), 0.0)
    check_weights(counts)
    return counts
