"""What fits of the same rows are compared by: rows, or whole clusters, that are held out together.

A unit is a cluster, or an equal row as often as its frequency weight says. Units are in the order
of the data for every fit, whatever columns it used, so that the same are held out of all of them,
and random weights are paired.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from tvdbayes._errors import DataError, SettingsError
from tvdbayes._typing import AnyArray, Array, IntArray
from tvdbayes.data.sampling_units import Labels, SamplingUnits, relative_weights
from tvdbayes.fitting.record import Fit
from tvdbayes.results.scores import fold_counts
from tvdbayes.sampling.posterior import Posterior
from tvdbayes.sampling.weights import Stream


@dataclass(frozen=True, eq=False)
class HeldUnits:
    """A fit, and its units in the order of the data.

    Parameters
    ----------
    posterior : Posterior
    units : SamplingUnits
        One by one, with a count for each.
    key : tuple
        What must be the same in fits that are compared.
    """

    posterior: Posterior
    units: SamplingUnits
    key: tuple[AnyArray, ...]

    @property
    def refitted(self) -> Posterior:
        """The fit of these units, where what was sampled as one are not the rows."""
        known = self.posterior.units is None
        return self.posterior if known else replace(self.posterior, units=self.units)

    @property
    def size(self) -> Array:
        """How many rows each unit stands for, (u,)."""
        return self.units.total(self.units.mass)

    def folds(self, n_folds: int) -> IntArray:
        """How many of each unit are in each fold, (K, u)."""
        counts = self.units.counts.astype(np.intp)
        n, seed = int(counts.sum()), self.posterior.seed
        if (counts != self.units.counts).any():
            raise SettingsError(
                "Fits can be compared only where weights are whole numbers of rows."
            )
        if not 2 <= n_folds <= n:
            what = "clusters" if self.units.clustered else "rows"
            raise SettingsError(f"folds must be from 2 to {n} {what}; got {n_folds}.")
        if (counts > 1).any():
            return fold_counts(counts, n_folds, seed)
        fold = Stream.generator(seed, Stream.FOLDS).permutation(np.arange(n) % n_folds)
        return np.asarray(fold == np.arange(n_folds)[:, None], np.intp)

    def removed(self, dealt: IntArray) -> IntArray:
        """The same for the kinds of units that the posterior knows."""
        if self.posterior.units is not None:
            return dealt
        m = self.units.n_cells
        return np.array([np.bincount(self.units.cell, line, m) for line in dealt]).astype(np.intp)

    def sums(self, by_fold: Array, fold: IntArray, unit: IntArray) -> Array:
        """Sums of scores by fold and cell (K, m) over the rows of units in folds, (P,)."""
        units = self.units
        starts = np.searchsorted(units.unit, np.arange(len(units.counts) + 1))
        size = np.diff(starts)[unit]
        pair = np.repeat(np.arange(len(unit)), size)
        entry = np.arange(len(pair)) + np.repeat(starts[unit] - (np.cumsum(size) - size), size)
        score = units.mass[entry] * by_fold[fold[pair], units.cell[entry]]
        return np.bincount(pair, score, len(unit)).astype(float)


def units_of_rows(posterior: Posterior, cell_of_row: IntArray) -> HeldUnits:
    """Independent rows, one by one, each with its cell."""
    used = np.flatnonzero(cell_of_row >= 0)
    cell, n = cell_of_row[used], len(used)
    key = (np.asarray(cell_of_row >= 0), posterior.cells.y[cell])
    return HeldUnits(posterior, _units(posterior, np.arange(n), cell, clustered=False), key)


def held_units(fit: Fit) -> HeldUnits:
    """Clusters, or rows as often as they count."""
    posterior, data = fit.posterior, fit.data
    used = np.flatnonzero(fit.cell_of_row >= 0)
    row, cell = data.row[used], fit.cell_of_row[used]
    rows = (data.counts / np.bincount(row, minlength=len(data.counts)))[row]
    if (rows % 1 != 0).any():
        # Equal rows of different weights: only what they weigh together is known.
        row, cell, rows = np.arange(len(data.counts)), data.cell, data.counts
    if posterior.units is None:
        plain = units_of_rows(posterior, cell)
        units = replace(plain.units, counts=rows)
        return replace(plain, units=units, key=(fit.cell_of_row >= 0, *plain.key, rows))

    def labels(name: str | None) -> IntArray:
        if name is None:
            return np.zeros(len(row), np.intp)
        return Labels.of(data.columns[name].series()).numbers[row]

    weights, stratum = np.ones(len(row)), labels(data.strata)
    if data.sampling_weights is not None:
        each = data.columns[data.sampling_weights].series().to_numpy(float)
        weights = relative_weights(data.counts, each)[row]
    clustered = posterior.units.clustered
    unit = labels(data.clusters) if clustered else np.arange(len(row))
    units = _units(
        posterior, unit, cell, rows=rows, weights=weights, stratum=stratum, clustered=clustered
    )
    y = posterior.cells.y[units.cell]
    by_unit = (units.total(units.mass), units.total(units.mass * y), units.counts, units.stratum)
    return HeldUnits(posterior, units, by_unit)


def _units(
    posterior: Posterior,
    unit: IntArray,
    cell: IntArray,
    *,
    rows: Array | None = None,
    weights: Array | None = None,
    stratum: IntArray | None = None,
    clustered: bool,
) -> SamplingUnits:
    """Units of lines of so many equal rows, by stratum, then by number."""
    n, n_units = len(unit), int(unit.max()) + 1
    rows = np.ones(n) if rows is None else rows
    stands = np.ones(n) if weights is None else weights
    of = np.zeros(n_units, np.intp)
    of[unit] = 0 if stratum is None else stratum
    order = np.argsort(of, kind="stable")
    place = np.empty(n_units, np.intp)
    place[order] = np.arange(n_units)
    lines = np.argsort(place[unit], kind="stable")
    counts = np.ones(n_units)
    if not clustered:
        counts[place[unit]] = rows
        rows = np.ones(n)
    return SamplingUnits(
        place[unit][lines],
        cell[lines],
        rows[lines],
        (rows * stands)[lines],
        counts,
        of[order],
        posterior.cells.n_cells,
        clustered,
    )


def require_same(held: Mapping[str, HeldUnits]) -> None:
    """Raise unless all are fits of the same rows with draws."""
    if len(held) < 2:
        raise SettingsError(f"Comparing takes at least two fits; got {len(held)}.")
    for name, one in held.items():
        if not one.posterior.n_draws:
            raise SettingsError(f"{name!r} has no draws to compare. Fit it with n_draws=1000.")
    first, base = next(iter(held.items()))
    for name, one in held.items():
        same = len(one.key) == len(base.key) and all(
            a.shape == b.shape and np.allclose(a, b) for a, b in zip(one.key, base.key, strict=True)
        )
        if not same:
            raise DataError(
                f"{first!r} and {name!r} are fits of different rows or outcomes. Fit all of them "
                "to the same data, with the same rows left out, and the same clusters, strata and "
                "weights. Where equal rows were put together, by an engine or as their weights "
                "differ, let all of them use the same columns."
            )
