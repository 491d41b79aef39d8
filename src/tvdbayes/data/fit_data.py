"""What a fit keeps of its data: the distinct rows of the columns that it used.

They are arrays and lists of levels, so that a file holds them exactly, and a loaded fit gives the
same bits as the one that was saved.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, Self

import numpy as np
import pandas as pd

from tvdbayes._errors import DataError
from tvdbayes._typing import Array, BoolArray, IntArray, Library
from tvdbayes._validate import is_number
from tvdbayes.data.cells import distinct_rows, totals
from tvdbayes.data.sampling_units import relative_weights
from tvdbayes.data.table import Table

_NAMED_LEVELS = 20
"""Levels that a message lists at most."""


@dataclass(frozen=True, eq=False)
class Column:
    """The values (r,) of one column: numbers or booleans as they are, else numbers of levels.

    Levels are in their order: as declared by a category, sorted for text.
    """

    kind: Literal["number", "boolean", "text", "category", "ordered"]
    values: Array | IntArray | BoolArray
    levels: tuple[object, ...] = ()

    @classmethod
    def of(cls, series: "pd.Series") -> Self:
        """Take a column of a `Table` apart."""
        dtype = series.dtype
        if isinstance(dtype, pd.CategoricalDtype):
            codes = series.cat.codes.to_numpy().astype(np.intp)
            levels = tuple(dtype.categories.tolist())
            return cls("ordered" if dtype.ordered else "category", codes, levels)
        if dtype.kind == "b":
            return cls("boolean", series.to_numpy(bool))
        if dtype.kind in "iuf":
            whole = dtype.kind != "f" and bool((series <= np.iinfo(np.intp).max).all())
            return cls("number", series.to_numpy(np.intp if whole else float))
        codes, found = pd.factorize(series, sort=True)
        return cls("text", codes.astype(np.intp), tuple(found.tolist()))

    @property
    def choices(self) -> tuple[object, ...]:
        """All values that the column may have, in order; none for numbers."""
        return (False, True) if self.kind == "boolean" else self.levels

    def series(self) -> "pd.Series":
        """The column as it was."""
        if self.kind in ("number", "boolean"):
            return pd.Series(self.values)
        if self.kind == "text":
            return pd.Series(np.array(self.levels, dtype=object)[self.values])
        codes, levels = self.values.astype(np.intp), pd.Index(list(self.levels))
        return pd.Series(pd.Categorical.from_codes(codes, levels, self.kind == "ordered"))

    @property
    def is_flag(self) -> bool:
        """Whether it is one of numbers, and these are 0 and 1."""
        return self.kind == "number" and np.array_equal(np.unique(self.values), [0, 1])

    def typical(self, counts: Array, *, whole: bool = False) -> object:
        """The mean of numbers that are not flags, else the value that most rows have.

        Parameters
        ----------
        counts : (r,)
            Weights of the rows.
        whole : bool
            Whether a mean means nothing, since the numbers count.
        """
        if self.kind == "number" and not (self.is_flag or whole):
            return float(self.values @ counts / counts.sum())
        codes, n_values = self.codes()
        commonest = int(np.bincount(codes, counts, n_values).argmax())
        return self.choices[commonest] if self.choices else np.unique(self.values)[commonest]

    def codes(self) -> tuple[IntArray, int]:
        """Numbers that tell the values apart, in their order, and how many there are."""
        if self.levels:
            return self.values.astype(np.intp), len(self.levels)
        found, codes = np.unique(self.values, return_inverse=True)
        return codes, len(found)

    def named(self) -> "Column":
        """The same with levels that files can hold: intervals, dates and the like by their text."""
        plain = all(isinstance(level, str | int | float) for level in self.levels)
        return self if plain else replace(self, levels=tuple(map(str, self.levels)))

    def take(self, rows: IntArray) -> "Column":
        """Some rows of it."""
        return replace(self, values=self.values[rows])

    def set_to(self, value: Any, name: str) -> "Column":
        """The same column with one value in every row, which must be one that it may have."""
        if np.ndim(value) > 0:
            raise DataError(
                f"{name!r} is set to one value at a time; got {value!r:.80}. For several, ask for "
                "predictions(at=...)."
            )
        if self.kind == "number":
            if not (is_number(value) and np.isfinite(float(value))):
                raise DataError(f"{name!r} is set to a finite number; got {value!r}.")
        else:
            if pd.isna(value) or value not in self.choices:
                known = ", ".join(map(repr, self.choices[:_NAMED_LEVELS]))
                more = ", ..." if len(self.choices) > _NAMED_LEVELS else ""
                raise DataError(f"{name!r} has no level {value!r}. It has: {known}{more}.")
            value = self.choices.index(value)
        dtype = float if self.kind == "number" else self.values.dtype
        return replace(self, values=np.full(len(self.values), value, dtype))


@dataclass(frozen=True, eq=False)
class FitData:
    """The data of a fit: distinct rows, their weights, and what the columns were used for.

    Parameters
    ----------
    columns : dict of Column
        The distinct rows, by column: outcome, covariates, offset, exposure and trials.
    counts : (r,)
        Total weight of each distinct row.
    cell : (r,)
        The cell that it belongs to; several may share one.
    row : (n,)
        The distinct row of each input row, -1 where it was left out.
    outcome, offset, exposure, weights : str
        Columns by their use, None where there is none. Of the weights only `counts` are kept.
    trials : str or number
        The column of the trials, or their number for all rows.
    n_grouped : int or None
        Rows of the data, where an engine or an update has put equal ones together: `row` then has
        an entry for each distinct row.
    n_dropped : int
        How many of these an engine has left out, for a gap, a weight of zero, or no exposure.
    n_unexposed : int
        How many rows were left out for having no exposure (``zero_exposure="drop"``).
    clusters, strata, sampling_weights : str
        Columns that say which rows belong together and what they stand for, None where none does.
    library : str
        Whose data frames answers are given in: that in which the rows came.
    """

    columns: dict[str, Column]
    counts: Array
    cell: IntArray
    row: IntArray
    outcome: str
    offset: str | None = None
    exposure: str | None = None
    trials: str | float | None = None
    weights: str | None = None
    n_grouped: int | None = None
    n_dropped: int = 0
    n_unexposed: int = 0
    clusters: str | None = None
    strata: str | None = None
    sampling_weights: str | None = None
    library: Library = "pandas"

    @property
    def sampling(self) -> tuple[str, ...]:
        """The columns that say which rows belong together and what they stand for."""
        columns = (self.clusters, self.strata, self.sampling_weights)
        return tuple(name for name in columns if name is not None)

    @cached_property
    def stands_for(self) -> Array:
        """How many rows each distinct row stands for, (r,), in all as many as there are."""
        if self.sampling_weights is None:
            return self.counts
        weights = self.columns[self.sampling_weights].values.astype(float)
        return self.counts * relative_weights(self.counts, weights)

    @property
    def weighted(self) -> bool:
        """Whether input rows stand for more or less than one row each."""
        n_rows = np.bincount(self.row[self.row >= 0], minlength=len(self.counts))
        return not np.array_equal(n_rows, self.counts)

    def frame(self) -> pd.DataFrame:
        """The distinct rows as a data frame."""
        return _frame(self.columns, len(self.counts))

    def distinct(self, names: Iterable[str]) -> tuple[dict[str, Column], Array]:
        """The distinct rows of some columns only, and their total weights."""
        columns = {name: self.columns[name] for name in names}
        together = (np.zeros(len(self.counts), np.intp), 1)
        index, first = distinct_rows([together, *(c.codes() for c in columns.values())])
        weights = totals(index, self.stands_for, len(first))
        return {name: column.take(first) for name, column in columns.items()}, weights


def plain_table(columns: Mapping[str, Column], counts: Array) -> Table:
    """A table of these columns, in which every row is distinct."""
    n = len(counts)
    return Table(_frame(columns, n), counts, np.arange(n), np.arange(n), n)


def _frame(columns: Mapping[str, Column], n: int) -> pd.DataFrame:
    made = {name: column.series() for name, column in columns.items()}
    return pd.DataFrame(made, index=pd.RangeIndex(n), copy=False)
