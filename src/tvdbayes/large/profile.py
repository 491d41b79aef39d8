"""A profile of all rows, piece by piece: what the columns hold, and which values are wrong."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

import numpy as np
import pandas as pd

from tvdbayes._errors import DataError, FamilyError, FormulaError
from tvdbayes._typing import BoolArray, IntArray
from tvdbayes._validate import REPAIR, has_gaps, not_finite, not_numbers
from tvdbayes.data.sources import mostly_numbers, no_numbers, open_data
from tvdbayes.formula.names import alias_of, as_written
from tvdbayes.large.used import Used
from tvdbayes.models.families import AbstractFamily

__all__ = ["DataProfile"]

_MOST_LEVELS = 1000
"""Levels that can be encoded, as in formula/columns.py; a column with more is refused."""

_OF_A_LEVEL = 20
"""Rows of each level that the sample must have, where there are so many."""


@dataclass(frozen=True)
class Violations:
    """How many values break a rule; the first of them, and its row."""

    n: int = 0
    value: object = None
    row: int = 0

    @classmethod
    def among(cls, wrong: BoolArray, values: Any) -> "Violations":
        if not wrong.any():
            return cls()
        first = int(wrong.argmax())
        return cls(int(wrong.sum()), values[first], first)

    def join(self, other: "Violations", n_before: int) -> "Violations":
        if not self.n:
            return replace(other, row=other.row + n_before)
        return replace(self, n=self.n + other.n)

    def listing(self, n_rows: int) -> str:
        """What an error says of them."""
        verb = "is" if self.n == 1 else "are"
        return f"{self.n:,} of {n_rows:,} {verb} not (first: {self.value} in row {self.row})"


Least = tuple[float, bool]
"""A bound from below, and whether it may be reached."""

Ends = tuple[tuple[float, int], tuple[float, int]]
"""The smallest and the largest number, each with its row."""


@dataclass(frozen=True, eq=False)
class ColumnProfile:
    """What a column holds.

    Parameters
    ----------
    kind : str
        "number", "truth" or "text".
    gaps, infinite, low, not_number : Violations
        Values that are missing, not finite, below what the column may hold, or text that does not
        read as a number.
    ends : Ends or None
    levels : dict
        The first rows of each level, where they must be known.
    """

    kind: str
    gaps: Violations
    infinite: Violations
    low: Violations
    not_number: Violations
    ends: Ends | None
    levels: dict[object, tuple[int, ...]]

    @classmethod
    def of(
        cls, column: pd.Series, counts: BoolArray, levelled: bool, least: "Least | None"
    ) -> "ColumnProfile":
        """Profile a column; values of rows without weight (not `counts`) are not needed."""
        dtype_kind = getattr(column.dtype, "kind", "O")
        kind = {"b": "truth"}.get(dtype_kind, "number" if dtype_kind in "iuf" else "text")
        values = column.to_numpy()
        missing = column.isna().to_numpy()
        infinite, low, ends = Violations(), Violations(), None
        if kind == "number" and len(values):
            finite = np.isfinite(values)
            infinite = Violations.among(~finite & ~missing, values)
            seen = finite & counts
            if seen.any():
                least_at = int(np.where(seen, values, np.inf).argmin())
                most_at = int(np.where(seen, values, -np.inf).argmax())
                ends = ((float(values[least_at]), least_at), (float(values[most_at]), most_at))
            if least is not None:
                bound, included = least
                with np.errstate(invalid="ignore"):
                    low = Violations.among(values < bound if included else values <= bound, values)
        levels = _first_rows(column, counts) if levelled or kind != "number" else {}
        gaps, not_number = Violations.among(missing, values), Violations()
        if kind == "text" and not isinstance(column.dtype, pd.CategoricalDtype):
            not_number = Violations.among(no_numbers(values) & ~missing, values)
        return cls(kind, gaps, infinite, low, not_number, ends, levels)

    def join(self, other: "ColumnProfile", n_before: int, n_after: int) -> "ColumnProfile":
        levels = dict(self.levels)
        for level, rows in other.levels.items():
            moved = tuple(row + n_before for row in rows)
            levels[level] = (*levels.get(level, ()), *moved)[:_OF_A_LEVEL]
        if len(levels) > _MOST_LEVELS:
            # One level too many is kept, so that `check` refuses the column.
            levels = dict(list(levels.items())[: _MOST_LEVELS + 1])
        # A piece without values does not determine the kind.
        said = {self.kind} if self.gaps.n < n_before else set()
        said |= {other.kind} if other.gaps.n < n_after else set()
        kinds = said or {self.kind}
        return ColumnProfile(
            kinds.pop() if len(kinds) == 1 else _MIXED,
            self.gaps.join(other.gaps, n_before),
            self.infinite.join(other.infinite, n_before),
            self.low.join(other.low, n_before),
            self.not_number.join(other.not_number, n_before),
            _outer(self.ends, other.ends, n_before),
            levels,
        )

    @property
    def slipped(self) -> bool:
        """Whether it is text because of a few cells; see `sources.mostly_numbers`."""
        return self.not_number.n > 0 and mostly_numbers([*self.levels, self.not_number.value])


_MIXED = "mixed"
"""The kind of a column with numbers in some pieces and text in others."""


def _outer(left: Ends | None, right: Ends | None, n_before: int) -> Ends | None:
    if right is None:
        return left
    (low, at), (high, there) = right
    low_end, high_end = (low, at + n_before), (high, there + n_before)
    if left is None:
        return low_end, high_end
    return min(left[0], low_end, key=lambda end: end[0]), max(left[1], high_end, key=lambda e: e[0])


def _first_rows(column: pd.Series, counts: BoolArray) -> dict[object, tuple[int, ...]]:
    """The first rows of each level, among those that count."""
    rows = np.flatnonzero(counts)
    try:
        codes, found = pd.factorize(column.iloc[rows])
    except TypeError as error:
        raise DataError(
            f"The column {column.name!r} holds values that are neither numbers nor text: {error}. "
            "Convert it first."
        ) from error
    if len(found) > _MOST_LEVELS:
        return dict.fromkeys(found[: _MOST_LEVELS + 1].tolist(), ())
    order = np.argsort(codes, kind="stable")
    starts = np.searchsorted(codes[order], np.arange(len(found) + 1))
    return {
        level: tuple(rows[order[a : min(b, a + _OF_A_LEVEL)]].tolist())
        for level, a, b in zip(found.tolist(), starts[:-1], starts[1:], strict=True)
    }


@dataclass(frozen=True, eq=False)
class DataProfile:
    """What pieces of the data hold: rows of each, columns, and outcomes that cannot be."""

    sizes: tuple[int, ...]
    columns: dict[str, ColumnProfile]
    impossible: Violations

    @classmethod
    def at(cls, frame: pd.DataFrame, used: Used, law: AbstractFamily) -> "DataProfile":
        """Profile one piece."""
        n = len(frame)
        rows = open_data(frame).rows(used.columns) if n else frame
        least = {used.exposure: (0.0, False), used.weights: (0.0, True)}
        counts = _counts(rows, used.weights)
        columns = {
            name: ColumnProfile.of(rows[name], counts, name in used.levels, least.get(name))
            for name in used.columns
        }
        y = rows[used.outcome]
        impossible = Violations()
        if n and y.dtype.kind in "biuf":
            values = y.to_numpy(float)
            trials = _trials(rows, used.trials)
            # Missing values are reported as gaps, not as impossible outcomes.
            wrong = ~law.possible(np.nan_to_num(values), trials) & np.isfinite(values)
            impossible = Violations.among(wrong, values)
        return cls((n,), columns, impossible)

    @staticmethod
    def join(parts: "Sequence[DataProfile]") -> "DataProfile":
        """The profile of pieces, in their order."""
        return reduce(DataProfile._with, parts)

    def _with(self, other: "DataProfile") -> "DataProfile":
        n_before, n_after = self.n_rows, other.n_rows
        return DataProfile(
            self.sizes + other.sizes,
            {
                name: column.join(other.columns[name], n_before, n_after)
                for name, column in self.columns.items()
            },
            self.impossible.join(other.impossible, n_before),
        )

    @property
    def n_rows(self) -> int:
        """Rows in all."""
        return sum(self.sizes)

    def check(self, used: Used, law: AbstractFamily) -> None:
        """Raise where a column cannot be used, and say how many rows are wrong."""
        n = self.n_rows
        if not n:
            raise DataError("The data hold 0 rows. Check that they were read.")
        for name, column in self.columns.items():
            if column.gaps.n:
                raise has_gaps(name, column.gaps.listing(n))
            if column.infinite.n:
                raise not_finite(name, column.infinite.listing(n))
            if column.kind == _MIXED and not column.not_number.n:
                raise DataError(
                    f"The column {name!r} holds numbers in some parts of the data and text in "
                    "others. Make it one or the other."
                )
            if column.kind == _MIXED:
                raise DataError(
                    f"The column {name!r} holds numbers in some parts of the data; "
                    f"{column.not_number.listing(n)}. Repair or drop these rows first. If they are "
                    f"categories, save the column as text, in Parquet files, and write "
                    f"C({as_written(alias_of(name))})."
                )
            if column.kind == "text" and name in used.numbers:
                first = next(iter(column.levels))
                found = (
                    f"{column.not_number.listing(n)}. {REPAIR}"
                    if column.not_number.n
                    else f"got text or categories (first: {first!r}). Convert it first."
                )
                raise not_numbers(name, found)
            if name in used.uncoded and column.slipped:
                raise DataError(
                    f"Values of {name!r} are numbers in the main; {column.not_number.listing(n)}. "
                    "Repair or drop these rows first. If they are categories, write "
                    f"C({as_written(alias_of(name))})."
                )
            if column.low.n:
                at_least = "above" if name == used.exposure else "at least"
                raise DataError(
                    f"Every value of {name!r} must be {at_least} 0; {column.low.listing(n)}."
                )
            if len(column.levels) > _MOST_LEVELS:
                raise FormulaError(
                    f"The column {name!r} has more than {_MOST_LEVELS} levels; at most so many can "
                    "be encoded. Is it an identifier?"
                )
        if self.impossible.n:
            raise FamilyError(
                f"{type(law).__name__} needs {law.needs}; {self.impossible.listing(n)}. "
                "Check the outcome column, or choose another family."
            )

    def must_see(self) -> IntArray:
        """Rows without which a sample does not know the data: ends of numbers, rows of levels."""
        rows: list[int] = []
        for column in self.columns.values():
            rows += [row for _, row in column.ends or ()]
            rows += [row for some in column.levels.values() for row in some]
        return np.unique(np.array(rows, np.intp))


def _counts(rows: pd.DataFrame, weights: str | None) -> BoolArray:
    """Which rows have a weight; a column of text is rejected by `check`, not here."""
    if weights is None or rows[weights].dtype.kind not in "biuf":
        return np.ones(len(rows), bool)
    counts: BoolArray = rows[weights].to_numpy() != 0
    return counts


def _trials(rows: pd.DataFrame, trials: str | float | None) -> Any:
    if not isinstance(trials, str):
        return np.full(len(rows), 1.0 if trials is None else float(trials))
    column = rows[trials]
    # A column of text is rejected by `check`, not here.
    return column.to_numpy(float) if column.dtype.kind in "biuf" else np.full(len(rows), np.inf)
