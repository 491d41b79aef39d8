"""The distinct rows of the columns in use, on which formulas are evaluated.

Equal rows are kept once, with a count, in a sorted order. So a weight of 2 is the same as the row
twice, the order of the rows does not matter, and ten million rows with few distinct ones cost
little more than those few.
"""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
import pandas as pd

from tvdbayes._errors import DataError, listing
from tvdbayes._typing import Array, BoolArray, IntArray, Library
from tvdbayes._validate import (
    no_column,
    no_rows_left,
    not_finite,
    one_of,
    rows_without_exposure,
)
from tvdbayes.data.grid import Coarsening

Missing = Literal["error", "drop"]


@dataclass(frozen=True)
class Exposure:
    """The columns of exposure and offset, and what is done with rows that have no exposure."""

    exposure: str | None = None
    offset: str | None = None
    zero: Missing = "error"

    @property
    def dropped(self) -> dict[str, float]:
        """Values by column: rows that have one of these are left out."""
        by_column = {self.exposure: 0.0, self.offset: -np.inf} if self.zero == "drop" else {}
        return {name: value for name, value in by_column.items() if name is not None}

    def left_out(self, n: int, n_rows: int) -> str:
        """The warning that some rows were left out for it."""
        return rows_without_exposure(n, n_rows, self.dropped)

    def lacking(self, frame: pd.DataFrame | dict[str, pd.Series], n: int) -> BoolArray:
        """Which of n rows are left out for that, (n,)."""
        found = np.zeros(n, bool)
        for name, value in self.dropped.items():
            read = pd.to_numeric(frame[name], errors="coerce")
            found |= read.to_numpy(float, na_value=np.nan) == value
        return found


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
    unit : str
        What the rows of the input are called in messages.
    n_grouped : int, optional
        Rows of the table that an engine has grouped; the input is then what it gave.
    n_dropped : int
        How many of them it has left out, for a gap, a weight of zero, or no exposure.
    n_unexposed : int
        How many rows were left out for having no exposure.
    coarsening : Coarsening, optional
        What rounding by the engine has done to them.
    declared : mapping
        The levels of each category in their order, those that no row has included.
    library : str
        Whose data frame the rows came in; "pandas" where they came in none.
    rest : optional
        All rows, where these are a sample of them, see `sample`.
    """

    frame: pd.DataFrame
    counts: Array
    index: IntArray
    rows: IntArray
    n_rows: int
    unit: str = "row"
    n_grouped: int | None = None
    n_dropped: int = 0
    n_unexposed: int = 0
    coarsening: Coarsening | None = None
    declared: Mapping[str, tuple[object, ...]] = field(default_factory=dict)
    library: Library = "pandas"
    rest: Any = None

    def listing(self, wrong: BoolArray, values: Any) -> str:
        """Say how many input rows are wrong, and name the first, from flags of distinct rows."""
        spread = np.asarray(values, dtype=object)[self.index]
        return listing(wrong[self.index], spread, self.unit, self.rows)

    def require_finite(self, names: Sequence[str], x: Array) -> None:
        """Raise unless covariates (m, p) of the distinct rows are finite; name the first row."""
        for name, column in zip(names, x.T, strict=True):
            wrong = ~np.isfinite(column)
            if wrong.any():
                raise not_finite(name, self.listing(wrong, column))

    def of_input(self, numbers: IntArray) -> IntArray:
        """Numbers of distinct rows for every row of the input, -1 where it was left out."""
        out = np.full(self.n_rows, -1)
        out[self.rows] = numbers[self.index]
        return out


@dataclass(frozen=True)
class Wanted:
    """Columns to group by, and `every` one that is needed, with the weights."""

    used: list[str]
    every: list[str]
    weights: str | None
    missing: Missing
    exact: Sequence[str]
    exposure: Exposure = Exposure()

    def usable(self, part: pd.DataFrame) -> tuple[pd.DataFrame, tuple[int, int]]:
        """The rows that are not left out; how many have no exposure, how many others a gap."""
        exposed = part[~self.exposure.lacking(part, len(part))]
        whole = exposed.dropna() if self.missing == "drop" else exposed
        return whole, (len(part) - len(exposed), len(exposed) - len(whole))


class AbstractSource(ABC):
    """Data whose columns are read on demand."""

    @property
    @abstractmethod
    def columns(self) -> list[str]:
        """Names of the columns."""

    def table(
        self,
        used: Sequence[str],
        weights: str | None,
        missing: Missing,
        exact: Sequence[str] = (),
        exposure: Exposure | None = None,
    ) -> Table:
        """The distinct rows of some columns, rows without weight left out.

        Columns in `exact` must stay as they are where others are rounded; `exposure` says which
        rows are left out for having none.
        """
        one_of("missing", missing, ("error", "drop"))
        used = list(dict.fromkeys(used))
        every = list(dict.fromkeys(used if weights is None else [*used, weights]))
        self.require(every)
        found = self.group(Wanted(used, every, weights, missing, exact, exposure or Exposure()))
        if not len(found.counts):
            raise no_rows_left()
        return replace(found, library=self.library)

    @property
    def library(self) -> Library:
        """The library of the data frame; "pandas" for other data."""
        return "pandas"

    @abstractmethod
    def group(self, wanted: Wanted) -> Table:
        """See `table`; without rows where none has weight."""

    def require(self, names: Sequence[str]) -> None:
        """Raise unless there are columns of these names."""
        for name in names:
            if name not in self.columns:
                raise DataError(no_column(name, self.columns))

    def whole(self) -> pd.DataFrame | None:
        """Every row with all columns, for data in memory."""
        return None


def mark(taken: Sequence[str]) -> str:
    """The beginning of names that no column has; engines may not tell capitals."""
    found = "tvd_"
    while any(name.casefold().startswith(found) for name in taken):
        found += "_"
    return found


def count_name(taken: Sequence[str]) -> str:
    """What the column of counts is called beside these columns."""
    return f"{mark(taken)}count"


def require_unique(names: Sequence[object]) -> None:
    """Raise where two columns have one name."""
    repeated = [name for name, times in Counter(names).items() if times > 1]
    if repeated:
        raise DataError(
            f"Column names must be unique; {', '.join(map(repr, repeated))} comes more than "
            "once. Rename one of them."
        )


def no_numbers(values: Any) -> BoolArray:
    """Which values are not finite numbers, nor text that reads as one, (n,)."""
    series = pd.Series(values, dtype=object).map(lambda v: v if isinstance(v, str) else str(v))
    read = pd.to_numeric(series, errors="coerce").to_numpy(float, na_value=np.nan)
    wrong: BoolArray = ~np.isfinite(read)
    return wrong


def mostly_numbers(levels: Any) -> bool:
    """Whether these different values are numbers in the main, but not all of them.

    At least half of them are: a column of 0 and 1 with one letter O has three. Where a user means
    categories such as 1, 2 and 3+, the formula says so by C().
    """
    n_wrong = int(no_numbers(levels).sum())
    return 0 < n_wrong <= len(levels) / 2
