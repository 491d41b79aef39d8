"""What was sampled as one: rows of unequal weight, clusters of rows, within strata.

A sampling unit is a cluster (a patient with all visits), or a single row. Units of a stratum are
exchangeable. Equal ones are kept once, with a count, in an order that depends on nothing but their
rows, as distinct rows are in a table of cells. So units that are single rows of equal weight are
just the cells, and `SamplingUnits.of_rows` says so by returning None.

References
----------
Kish, L. (1965). Survey Sampling. Wiley.
Rao, J. N. K. and Wu, C. F. J. (1988). Resampling inference with complex survey data. Journal of the
American Statistical Association 83, 231-241.
"""

from dataclasses import dataclass
from functools import cached_property
from math import fsum
from typing import TYPE_CHECKING

import numpy as np
from scipy import sparse

from tvdbayes._errors import DataError, SettingsError
from tvdbayes._typing import Array, BoolArray, IntArray
from tvdbayes.data.cells import distinct_rows, totals

if TYPE_CHECKING:
    import pandas as pd


_FULL = 8
"""A product with a full matrix takes about an eighth of the time for each of its numbers."""


@dataclass(frozen=True, eq=False)
class Labels:
    """Labels of lines of data: the number of each (n,), and the labels by number, in order."""

    numbers: IntArray
    names: tuple[object, ...]

    @classmethod
    def of(cls, values: "pd.Series") -> "Labels":
        """The labels of a column without gaps."""
        import pandas as pd

        try:
            numbers, names = pd.factorize(values, sort=True)
        except TypeError as error:
            raise DataError(
                f"Labels of clusters and strata must be numbers or text, not both: {error}."
            ) from error
        return cls(numbers.astype(np.intp), tuple(names.tolist()))


@dataclass(frozen=True, eq=False)
class SamplingUnits:
    """Distinct units, and how many there are of each.

    A unit has an entry for each cell and weight of its rows; entries are sorted by unit, units by
    stratum.

    Parameters
    ----------
    unit, cell : (e,)
        The unit of each entry, and its cell.
    rows, mass : (e,)
        Rows of the entry, and how many rows these stand for: their weights, scaled so that all
        rows together stand for as many rows as there are.
    counts, stratum : (u,)
        How many units are like this, and their stratum, from 0.
    n_cells : int
    clustered : bool
        Whether units are clusters of rows, not single rows.
    """

    unit: IntArray
    cell: IntArray
    rows: Array
    mass: Array
    counts: Array
    stratum: IntArray
    n_cells: int
    clustered: bool

    @classmethod
    def of_rows(
        cls,
        cell: IntArray,
        n_cells: int,
        rows: Array,
        *,
        clusters: Labels | None = None,
        strata: Labels | None = None,
        weights: Array | None = None,
    ) -> "SamplingUnits | None":
        """The units of lines of data; None where these are single rows of equal weight.

        Each line is in a ``cell`` and holds so many equal ``rows``; ``weights`` say how many rows
        each of them stands for, see `relative_weights`.
        """
        stratum = np.zeros(len(cell), np.intp) if strata is None else strata.numbers
        if clusters is not None:
            _require_nested(clusters, stratum)
        mass = np.ones(len(cell)) if weights is None else weights
        _, weight_code = np.unique(mass, return_inverse=True)
        keys = [_coded(stratum), _coded(cell), _coded(weight_code.ravel())]
        if clusters is None:
            # Every row is a unit: equal lines are one kind of unit.
            kind, first = distinct_rows(keys)
            one = np.ones(len(first))
            found = cls(
                np.arange(len(first)),
                *(cell[first], one, mass[first], totals(kind, rows, len(first)), stratum[first]),
                n_cells,
                clustered=False,
            )
        else:
            found = _clusters(
                keys,
                clusters.numbers,
                cell=cell,
                rows=rows,
                mass=mass,
                stratum=stratum,
                n_cells=n_cells,
            )
        if strata is not None:
            _require_several(found, strata)
        return None if found._plain else found

    @property
    def _plain(self) -> bool:
        """Whether units are single rows of equal weight, all in one stratum."""
        single = len(self.unit) == len(self.counts) and bool((self.rows == 1).all())
        return single and bool((self.mass == 1).all()) and self.n_strata == 1

    @property
    def n_units(self) -> float:
        """How many units there are."""
        return float(self.counts.sum())

    @cached_property
    def size(self) -> Array:
        """How many rows each unit has, (u,)."""
        return self.total(self.rows)

    @property
    def n_strata(self) -> int:
        """How many strata there are."""
        return int(self.stratum.max()) + 1

    @property
    def strata_starts(self) -> IntArray:
        """Where the units of each stratum begin."""
        return np.searchsorted(self.stratum, np.arange(self.n_strata))

    @cached_property
    def units_of_stratum(self) -> Array:
        """How many units each stratum has, (H,)."""
        return np.add.reduceat(self.counts, self.strata_starts)

    @cached_property
    def by_cell(self) -> sparse.csr_array:
        """How many rows a unit stands for in each cell, (m, u)."""
        shape = (self.n_cells, len(self.counts))
        # Half as much memory has to be read for each product.
        kind = np.int32 if max(shape) < 1 << 31 else np.int64
        at = self.cell.astype(kind), self.unit.astype(kind)
        return sparse.csr_array((self.mass, at), shape)

    @cached_property
    def _full(self) -> Array | None:
        """`by_cell` with its zeros, (u, m), where products with it are cheaper."""
        kinds = self.by_cell
        full = kinds.shape[0] * kinds.shape[1] <= _FULL * kinds.nnz
        return np.ascontiguousarray(kinds.toarray().T) if full else None

    def masses(self, weight: Array, number: Array) -> Array:
        """Masses (B, m) of the cells where the units of each kind together have weights (B, u).

        In each stratum weights are scaled so that they add up to the ``number`` (H,) of its units.
        That number is fixed by the design; what the units of a stratum stand for together is an
        estimate, and varies from draw to draw (Rao and Wu, 1988).
        """
        if self.n_strata > 1:
            total = np.add.reduceat(weight, self.strata_starts, axis=1)
            weight = weight * (number / np.where(total > 0, total, 1.0))[:, self.stratum]
        full, kinds = self._full, self.by_cell
        found: Array = np.stack([kinds @ w for w in weight]) if full is None else weight @ full
        found /= found.sum(1, keepdims=True)
        return found

    @property
    def kish(self) -> float:
        """By how much unequal weights enlarge the variance of a mean (Kish, 1965); at least 1."""
        each = self.counts[self.unit] * self.rows
        weight = self.mass / self.rows
        return float((each @ weight**2) * each.sum() / (each @ weight) ** 2)

    def total(self, of_entries: Array) -> Array:
        """Sums over the entries of each unit, (u, ...), of values (e, ...)."""
        return np.add.reduceat(of_entries, np.searchsorted(self.unit, np.arange(len(self.counts))))


def relative_weights(rows: Array, weights: Array) -> Array:
    """Weights (n,) of lines of so many rows, scaled so that their mean over rows is 1.

    Doubling all weights changes no bit of these, nor does the order of the lines.
    """
    if (weights == weights[0]).all():
        return np.ones(len(weights))
    scale = fsum(rows) / fsum(rows * weights)
    return weights * scale


def _require_nested(clusters: Labels, strata: IntArray) -> None:
    """Raise unless every cluster lies in one stratum."""
    last = np.empty(len(clusters.names), np.intp)
    last[clusters.numbers] = strata
    several: BoolArray = np.zeros(len(last), bool)
    several[clusters.numbers[strata != last[clusters.numbers]]] = True
    if several.any():
        first = clusters.names[int(several.argmax())]
        raise DataError(
            f"{several.sum():,} clusters have rows in several strata (first: {first!r}), but a "
            "cluster is drawn within one stratum. Where strata use the same labels for different "
            "clusters, make a column that joins both labels."
        )


def _require_several(units: SamplingUnits, strata: Labels) -> None:
    """Raise where a stratum has a single unit, whose spread nothing tells."""
    alone = units.units_of_stratum < 2
    if alone.any():
        what = "cluster" if units.clustered else "row"
        raise SettingsError(
            f"{alone.sum():,} of {units.n_strata:,} strata have a single {what} (first: "
            f"{strata.names[int(alone.argmax())]!r}), so nothing tells how much it varies. Merge "
            "these strata with similar ones."
        )


def _coded(codes: IntArray) -> tuple[IntArray, int]:
    return codes, int(codes.max()) + 1


def _clusters(
    keys: list[tuple[IntArray, int]],
    clusters: IntArray,
    *,
    cell: IntArray,
    rows: Array,
    mass: Array,
    stratum: IntArray,
    n_cells: int,
) -> SamplingUnits:
    """Distinct clusters of lines: equal ones have the same rows in the same cells."""
    # An entry is what a cluster has of a kind of row; its place in order says which.
    kind, _ = distinct_rows(keys)
    entry, first = distinct_rows([_coded(clusters), _coded(kind)])
    n_rows = totals(entry, rows, len(first))
    of = clusters[first]
    _, rows_code = np.unique(n_rows, return_inverse=True)
    # A kind of row with its number, as one number.
    code, _ = distinct_rows([_coded(kind[first]), _coded(rows_code.ravel())])
    begin = np.searchsorted(of, np.arange(int(of.max()) + 2))
    size = np.diff(begin)
    order, starts, counts = [], [], []
    for length in np.unique(size[size > 0]):
        members = np.flatnonzero(size == length)
        lines = begin[members][:, None] + np.arange(length)
        _, chosen, number = np.unique(code[lines], axis=0, return_index=True, return_counts=True)
        order.append(lines[chosen])
        starts.append(stratum[first[lines[chosen, 0]]])
        counts.append(number.astype(float))
    strata = np.concatenate(starts)
    entries = [line for block in order for line in block]
    place = np.argsort(strata, kind="stable")
    picked = np.concatenate([entries[j] for j in place])
    unit = np.repeat(np.arange(len(place)), [len(entries[j]) for j in place])
    at = first[picked]
    return SamplingUnits(
        unit,
        *(cell[at], n_rows[picked], n_rows[picked] * mass[at]),
        *(np.concatenate(counts)[place], strata[place], n_cells),
        clustered=True,
    )
