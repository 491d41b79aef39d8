"""Rows compressed to cells: the distinct (x, y) of a data set with their counts.

A cell table is all that the method sees of the data. Its order is canonical (sorted by x,
offset, trials, then y), so the order of the rows cannot matter, and a row of weight 2 is the
same table as that row twice. Tables add up: compressing chunks and merging them is compressing
the whole (to the bit for whole weights, to rounding for fractional ones).
"""

from dataclasses import dataclass
from functools import reduce
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from tvdbayes._errors import DataError, listing
from tvdbayes._typing import Array, BoolArray, IntArray
from tvdbayes._validate import LARGEST, check_weights, no_rows_left, not_finite

_TABLE = 1 << 22
"""Up to this many possible keys a counting table (32 MiB) is faster than sorting."""


@dataclass(frozen=True, eq=False)
class Cells:
    """Distinct (x, y) with counts; offset and trials belong to the x row.

    Parameters
    ----------
    x : (n_x, p)
        Distinct covariate rows.
    offset, trials : (n_x,)
        Known part of the first linear predictor, and number of trials, of each x row.
    x_index : (m,)
        The x row of each cell.
    y, counts : (m,)
        Outcome of each cell, and its number of rows (or total weight).
    names : tuple of str
        One name for each column of x.

    Examples
    --------
    >>> from tvdbayes import Cells
    >>> cells = Cells.from_rows([[1], [1], [1]], [0, 2, 2])
    >>> cells.y, cells.counts
    (array([0., 2.]), array([1., 2.]))
    """

    x: Array
    offset: Array
    trials: Array
    x_index: IntArray
    y: Array
    counts: Array
    names: tuple[str, ...]

    def __post_init__(self) -> None:
        step, rise = np.diff(self.x_index), np.diff(self.y)
        if not ((step > 0) | ((step == 0) & (rise > 0))).all():
            raise DataError(
                "The cells of a table must be distinct and sorted by x row, then outcome. "
                "Build it with Cells.from_rows or Cells.from_counts."
            )

    @classmethod
    def from_rows(
        cls,
        x: ArrayLike,
        y: ArrayLike,
        *,
        weights: ArrayLike | None = None,
        offset: ArrayLike | None = None,
        trials: ArrayLike | None = None,
        names: tuple[str, ...] | None = None,
    ) -> Self:
        """Compress rows, each with a frequency weight (1 unless given)."""
        made = compress(x, y, weights=weights, offset=offset, trials=trials, names=names)
        return cls(**vars(made.cells))

    @classmethod
    def from_counts(
        cls,
        x: ArrayLike,
        y: ArrayLike,
        counts: ArrayLike,
        *,
        offset: ArrayLike | None = None,
        trials: ArrayLike | None = None,
        names: tuple[str, ...] | None = None,
    ) -> Self:
        """Take a table that is already counted; repeated (x, y) are added up."""
        return cls.from_rows(x, y, weights=counts, offset=offset, trials=trials, names=names)

    @classmethod
    def by_row(
        cls,
        x: Array,
        y: Array,
        *,
        names: tuple[str, ...],
        offset: Array | None = None,
        trials: Array | None = None,
        counts: Array | None = None,
    ) -> Self:
        """Rows as they are: every row is an x row of its own, and equal ones stay apart."""
        n, ones = len(x), np.ones(len(x))
        return cls(
            x,
            np.zeros(n) if offset is None else offset,
            ones if trials is None else trials,
            np.arange(n),
            y,
            ones if counts is None else counts,
            names,
        )

    def merge(self, *others: "Cells") -> "Cells":
        """Add tables of the same columns: the table of all their rows together."""
        tables = (self, *others)
        for other in others:
            if other.names != self.names:
                raise DataError(
                    f"Only tables of the same columns can be merged; got {list(self.names)} and "
                    f"{list(other.names)}. Encode both with the same columns first."
                )

        def rows(name: str) -> Array:
            return np.concatenate([getattr(t, name)[t.x_index] for t in tables])

        return Cells.from_rows(
            rows("x"),
            np.concatenate([t.y for t in tables]),
            weights=np.concatenate([t.counts for t in tables]),
            offset=rows("offset"),
            trials=rows("trials"),
            names=self.names,
        )

    @property
    def n_obs(self) -> float:
        """Number of rows behind the table (total weight)."""
        return float(self.counts.sum())

    @property
    def n_cells(self) -> int:
        """Number of cells, m."""
        return len(self.y)

    @property
    def n_x(self) -> int:
        """Number of distinct covariate rows."""
        return len(self.x)

    @property
    def p(self) -> Array:
        """Empirical mass of each cell, (m,)."""
        return self.counts / self.n_obs

    @property
    def x_counts(self) -> Array:
        """Number of rows at each covariate row, (n_x,)."""
        return np.bincount(self.x_index, self.counts, self.n_x).astype(float)


@dataclass(frozen=True, eq=False)
class Compressed:
    """A cell table and, for each row it came from, its cell (-1: the row had weight zero)."""

    cells: Cells
    cell_of_row: IntArray


def compress(
    x: ArrayLike,
    y: ArrayLike,
    *,
    weights: ArrayLike | None = None,
    offset: ArrayLike | None = None,
    trials: ArrayLike | None = None,
    names: tuple[str, ...] | None = None,
) -> Compressed:
    """Compress rows into cells and remember where each row went."""
    x, y = _numbers(x, "x", 2), _numbers(y, "y", 1)
    n, p = x.shape
    names = tuple(f"x{j}" for j in range(p)) if names is None else tuple(map(str, names))
    if n == 0 or p == 0:
        raise DataError(
            f"x holds {n} row(s) and {p} column(s), but at least one of each is needed. "
            "Check that the data were read, and that filters left something."
        )
    if len(names) != p:
        raise DataError(f"{p} names are needed, one for each column of x; got {len(names)}.")
    given = {"weights": weights, "offset": offset, "trials": trials}
    columns = {"y": y, **{k: _numbers(v, k, 1) for k, v in given.items() if v is not None}}
    for name, column in columns.items():
        if column.shape != (n,):
            raise DataError(
                f"{name} must have one entry for each row of x, shape ({n},); "
                f"got shape {column.shape}. Pass columns of equal length."
            )
    for name, column in [*zip(names, x.T, strict=True), *columns.items()]:
        finite = np.isfinite(column)
        if not finite.all():
            raise not_finite(name, listing(~finite, column, "row"))
    counts = columns.get("weights", np.ones(n))
    check_weights(counts)
    used = counts > 0
    if not used.any():
        raise no_rows_left()
    rows = np.arange(n) if used.all() else np.flatnonzero(used)
    offset_rows, trials_rows = columns.get("offset"), columns.get("trials")
    x_columns = [*x.T, *(c for c in (offset_rows, trials_rows) if c is not None)]
    x_index, x_rows = distinct_rows([_codes(c[rows]) for c in x_columns])
    index, cell_rows = distinct_rows([(x_index, x_rows.size), _codes(y[rows])])
    x_rows, cell_rows = rows[x_rows], rows[cell_rows]
    x_of_row = np.full(n, -1)
    x_of_row[rows] = x_index
    cell_of_row = np.full(n, -1)
    cell_of_row[rows] = index
    cells = Cells(
        # Adding 0 turns -0 into 0, so that the sign of a zero cannot depend on the row order.
        x=np.ascontiguousarray(x[x_rows]) + 0.0,
        offset=np.zeros(x_rows.size) if offset_rows is None else offset_rows[x_rows] + 0.0,
        trials=np.ones(x_rows.size) if trials_rows is None else trials_rows[x_rows],
        x_index=x_of_row[cell_rows],
        y=y[cell_rows] + 0.0,
        counts=totals(index, counts[rows], cell_rows.size),
        names=tuple(names),
    )
    return Compressed(cells, cell_of_row)


def _numbers(values: ArrayLike, name: str, ndim: int) -> Array:
    if np.ma.is_masked(values):
        raise DataError(f"{name} has masked values. Drop or fill these rows first.")
    try:
        raw = np.asarray(values)
    except ValueError as error:
        raise DataError(
            f"{name} must be a table of numbers with rows of equal length: {error}"
        ) from error
    if raw.dtype.kind not in "biuf":
        raise DataError(
            f"{name} must hold numbers; got {raw.dtype} (first: {raw.ravel()[:1].tolist()}). "
            "Convert the column, or encode categories first."
        )
    if raw.ndim != ndim:
        raise DataError(
            f"{name} must have {ndim} dimension(s); got shape {raw.shape}. Reshape it first."
        )
    return raw.astype(np.float64, copy=False)


def _codes(column: Array) -> tuple[IntArray, int]:
    """Order-preserving codes of a column and their number."""
    low, high = column.min(), column.max()
    if low == high:
        return np.zeros(column.size, np.intp), 1
    # Compared first: the difference of two large numbers may overflow.
    if low > -LARGEST and high < LARGEST and high - low < _TABLE:
        codes = (column - low).astype(np.intp)
        if (codes + low == column).all():
            return _ranks(codes, int(high - low) + 1)
    levels, codes = np.unique(column, return_inverse=True)
    return codes, levels.size


def _ranks(codes: IntArray, n_codes: int) -> tuple[IntArray, int]:
    """Renumber codes below `n_codes` without gaps, keeping their order."""
    seen: BoolArray = np.bincount(codes, minlength=n_codes) > 0
    n_seen = int(seen.sum())
    return (codes, n_codes) if n_seen == n_codes else ((np.cumsum(seen) - 1)[codes], n_seen)


def distinct_rows(columns: list[tuple[IntArray, int]]) -> tuple[IntArray, IntArray]:
    """Index of each row among the distinct rows, in order, and one row for each of them."""

    def join(left: tuple[IntArray, int], right: tuple[IntArray, int]) -> tuple[IntArray, int]:
        if left[1] == 1:
            return right
        if right[1] == 1:
            return left
        codes, n_codes = left[0] * right[1] + right[0], left[1] * right[1]
        if n_codes <= max(_TABLE, 2 * codes.size):
            return _ranks(codes, n_codes)
        levels, codes = np.unique(codes, return_inverse=True)
        return codes, levels.size

    index, n_distinct = reduce(join, columns)
    representative = np.empty(n_distinct, np.intp)
    representative[index] = np.arange(index.size)
    return index, representative


def places(whole: Cells, part: Cells) -> IntArray:
    """The cell of ``whole`` that each cell of ``part`` is, (m,); -1 where it has none."""

    def lines(cells: Cells) -> Array:
        at_x = np.column_stack([cells.x, cells.offset, cells.trials])[cells.x_index]
        return np.column_stack([at_x, cells.y])

    known = np.concatenate([lines(whole), lines(part)])
    found, code = np.unique(known, axis=0, return_inverse=True)
    code = code.ravel()
    at = np.full(len(found), -1)
    at[code[: whole.n_cells]] = np.arange(whole.n_cells)
    return at[code[whole.n_cells :]]


def totals(index: IntArray, weights: Array, n: int) -> Array:
    """Sums of weights by index, whatever the order of the rows."""
    if (weights != np.round(weights)).any():
        # Sums of fractions depend on their order in the last bit: sort them by size first.
        order = np.lexsort((weights, index))
        index, weights = index[order], weights[order]
    return np.bincount(index, weights, n).astype(float)


def amount(rows: float) -> str:
    """A number of rows as text; with weights it need not be whole.

    Examples
    --------
    >>> from tvdbayes.data.cells import amount
    >>> amount(12345.0), amount(5.53705425662)
    ('12,345', '5.5')
    """
    # Sums of weights are rounded.
    whole = abs(rows - round(rows)) <= 1e-9 * max(rows, 1.0)
    return f"{rows:,.0f}" if whole else f"{rows:,.1f}"
