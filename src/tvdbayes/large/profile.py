"""A profile of all rows, piece by piece: what the columns hold, and which values are wrong."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import itemgetter
from typing import Any

import numpy as np
import pandas as pd

from tvdbayes._errors import DataError, FamilyError, FormulaError
from tvdbayes._typing import BoolArray, IntArray
from tvdbayes._validate import REPAIR, has_gaps, not_finite, not_numbers
from tvdbayes.data.sources import open_data
from tvdbayes.data.table import mostly_numbers, no_numbers
from tvdbayes.formula.matrix import alias_of, as_written
from tvdbayes.large.used import Used
from tvdbayes.models.families import AbstractFamily

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
        """The values of one chunk that are wrong."""
        if not wrong.any():
            return cls()
        first = int(wrong.argmax())
        return cls(int(wrong.sum()), values[first], first)

    def join(self, other: "Violations", n_before: int) -> "Violations":
        """These and those of the next chunk, before which there are ``n_before`` rows."""
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
    """What a column of the kind "number", "truth" or "text" holds.

    Faults are values that are missing ("gaps"), not finite ("infinite"), below what the column may
    hold ("low"), or text that does not read as a number ("not number"). Levels have their first
    rows, where they must be known.
    """

    kind: str
    faults: dict[str, Violations]
    ends: Ends | None
    levels: dict[object, tuple[int, ...]]

    @classmethod
    def of(
        cls, column: pd.Series, counts: BoolArray, levelled: bool, least: "Least | None"
    ) -> "ColumnProfile":
        """Profile a column; values of rows without weight (not `counts`) are not needed."""
        dtype_kind = getattr(column.dtype, "kind", "O")
        kind = {"b": "truth"}.get(dtype_kind, "number" if dtype_kind in "iuf" else "text")
        values, missing = column.to_numpy(), column.isna().to_numpy()
        wrong, ends = {"gaps": missing}, None
        if kind == "number" and len(values):
            finite = np.isfinite(values)
            wrong["infinite"] = ~finite & ~missing
            seen = finite & counts
            if seen.any():
                least_at = int(np.where(seen, values, np.inf).argmin())
                most_at = int(np.where(seen, values, -np.inf).argmax())
                ends = ((float(values[least_at]), least_at), (float(values[most_at]), most_at))
            if least is not None:
                bound, included = least
                with np.errstate(invalid="ignore"):
                    wrong["low"] = values < bound if included else values <= bound
        levels = _first_rows(column, counts) if levelled or kind != "number" else {}
        if kind == "text" and not isinstance(column.dtype, pd.CategoricalDtype):
            wrong["not number"] = no_numbers(values) & ~missing
        faults = {name: Violations.among(wrong[name], values) for name in wrong}
        return cls(kind, dict.fromkeys(_FAULTS, Violations()) | faults, ends, levels)

    def join(self, other: "ColumnProfile", n_before: int, n_after: int) -> "ColumnProfile":
        """The profile of this chunk and the next, with their numbers of rows."""
        levels = dict(self.levels)
        for level, rows in other.levels.items():
            moved = tuple(row + n_before for row in rows)
            levels[level] = (*levels.get(level, ()), *moved)[:_OF_A_LEVEL]
        if len(levels) > _MOST_LEVELS:
            # One level too many is kept, so that `check` refuses the column.
            levels = dict(list(levels.items())[: _MOST_LEVELS + 1])
        # A piece without values does not determine the kind.
        said = {self.kind} if self.faults["gaps"].n < n_before else set()
        said |= {other.kind} if other.faults["gaps"].n < n_after else set()
        kinds = said or {self.kind}
        return ColumnProfile(
            kinds.pop() if len(kinds) == 1 else _MIXED,
            {name: fault.join(other.faults[name], n_before) for name, fault in self.faults.items()},
            _outer(self.ends, other.ends, n_before),
            levels,
        )

    @property
    def slipped(self) -> bool:
        """Whether it is text because of a few cells; see `sources.mostly_numbers`."""
        text = self.faults["not number"]
        return text.n > 0 and mostly_numbers([*self.levels, text.value])


_FAULTS = ("gaps", "infinite", "low", "not number")

_MIXED = "mixed"
"""The kind of a column with numbers in some pieces and text in others."""


def _outer(left: Ends | None, right: Ends | None, n_before: int) -> Ends | None:
    if right is None:
        return left
    (low, at), (high, there) = right
    moved = (low, at + n_before), (high, there + n_before)
    if left is None:
        return moved
    return min(left[0], moved[0], key=itemgetter(0)), max(left[1], moved[1], key=itemgetter(0))


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
        # A column of text is rejected by `check`, not here.
        counts = np.ones(n, bool)
        if used.weights is not None and rows[used.weights].dtype.kind in "biuf":
            counts = rows[used.weights].to_numpy() != 0
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
            wrong = {fault: found.listing(n) for fault, found in column.faults.items() if found.n}
            text = wrong.get("not number")
            if "gaps" in wrong:
                raise has_gaps(name, wrong["gaps"])
            if "infinite" in wrong:
                raise not_finite(name, wrong["infinite"])
            as_categories = f"write C({as_written(alias_of(name))})."
            if column.kind == _MIXED and text is None:
                raise DataError(
                    f"The column {name!r} holds numbers in some parts of the data and text in "
                    "others. Make it one or the other."
                )
            if column.kind == _MIXED:
                raise DataError(
                    f"The column {name!r} holds numbers in some parts of the data; {text}. Repair "
                    "or drop these rows first. If they are categories, save the column as text, in "
                    f"Parquet files, and {as_categories}"
                )
            if column.kind == "text" and name in used.numbers:
                first = next(iter(column.levels))
                got = f"got text or categories (first: {first!r}). Convert it first."
                raise not_numbers(name, got if text is None else f"{text}. {REPAIR}")
            if name in used.uncoded and column.slipped:
                raise DataError(
                    f"Values of {name!r} are numbers in the main; {text}. Repair or drop these "
                    f"rows first. If they are categories, {as_categories}"
                )
            if "low" in wrong:
                at_least = "above" if name == used.exposure else "at least"
                raise DataError(f"Every value of {name!r} must be {at_least} 0; {wrong['low']}.")
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


def _trials(rows: pd.DataFrame, trials: str | float | None) -> Any:
    if not isinstance(trials, str):
        return np.full(len(rows), 1.0 if trials is None else float(trials))
    column = rows[trials]
    # A column of text is rejected by `check`, not here.
    return column.to_numpy(float) if column.dtype.kind in "biuf" else np.full(len(rows), np.inf)
