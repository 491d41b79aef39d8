"""A grid applied to a table: learned on a sample, used by the engine on all rows."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import cycle
from typing import Any

import numpy as np
import pandas as pd

from tvdbayes._errors import DataError
from tvdbayes._typing import Array
from tvdbayes.data.duckdb import require_ibis
from tvdbayes.data.grid import Coarsening, Grid, bin_expression, learn_cuts
from tvdbayes.data.table import Wanted
from tvdbayes.data.weigh import Weigh

_MANY = 100
"""A column with more different values than this is rounded, unless columns are named."""

_SPREAD = 1 << 31
"""Hashes are reduced to 31 bits, so that their sum with the factors below fits into 64 bits."""

_PRIMES = (100_003, 200_003, 300_007, 400_009, 500_009, 600_011, 700_001, 800_011)
"""Factors of the hashes of different columns, so that equal columns do not cancel. They are prime
and large, so that they have no factor in common with the step of the sample."""


@dataclass(frozen=True, eq=False)
class Rounding:
    """The bins of some columns, and what an engine must add up to know their means.

    Cuts are the values between the bins of each column; centre and scale (q,) make the columns
    comparable, so that decimals can hold their squares. The bins were learned on the sample.
    """

    grid: Grid
    columns: tuple[str, ...]
    cuts: tuple[Array, ...]
    centre: Array
    scale: Array
    sample: pd.DataFrame

    def bins(self, mark: str) -> list[str]:
        """The names of the columns that hold bins; all that is added to a table has the mark."""
        return [f"{mark}bin_{j}" for j in range(len(self.columns))]

    def binned(self, rows: Any, mark: str) -> Any:
        """The rows with their bins as further columns."""
        ibis = require_ibis()
        found = (
            bin_expression(ibis, rows[column].cast("float64"), cuts)
            for column, cuts in zip(self.columns, self.cuts, strict=True)
        )
        return rows.mutate(**dict(zip(self.bins(mark), found, strict=True)))

    def sums(self, rows: Any, weigh: Weigh, mark: str) -> dict[str, Any]:
        """What to find out over the rows of a cell: sums of values and squares, and their ends."""
        asked = {}
        for j, (name, c, s) in enumerate(zip(self.columns, self.centre, self.scale, strict=True)):
            x = rows[name].cast("float64")
            z = (x - float(c)) / float(s)
            asked[f"{mark}sum_{j}"] = weigh.sum(rows, z)
            asked[f"{mark}squares_{j}"] = weigh.sum(rows, z * z)
            asked[f"{mark}low_{j}"], asked[f"{mark}high_{j}"] = x.min(), x.max()
        return asked

    def rounded(
        self, frame: pd.DataFrame, mark: str, count: str
    ) -> tuple[dict[str, Array], Coarsening]:
        """The columns of the cells in a frame of sums, and what that does to the data.

        Means are taken over all rows that share their bins, whatever their outcome.
        """
        bins = self.bins(mark)
        sums = [f"{mark}sum_{j}" for j in range(len(self.columns))]
        squares = [f"{mark}squares_{j}" for j in range(len(self.columns))]
        by_bins = frame.groupby(bins, sort=True)
        whole = by_bins[[count, *sums, *squares]].sum()
        n = whole[count].to_numpy(float)[:, None]
        total, square = whole[sums].to_numpy(float), whole[squares].to_numpy(float)
        within = (square - total * total / n).sum(0)
        spread = square.sum(0) - total.sum(0) ** 2 / n.sum()
        lost = np.maximum(within, 0) / np.maximum(spread, 1e-300)
        # Far from the centre a sum has few digits: a mean lies among its values all the same.
        low = by_bins[[f"{mark}low_{j}" for j in range(len(self.columns))]].min().to_numpy(float)
        high = by_bins[[f"{mark}high_{j}" for j in range(len(self.columns))]].max().to_numpy(float)
        mean = np.clip(self.centre + self.scale * (total / n), low, high)
        means = pd.DataFrame(mean, whole.index, self.columns)

        def of(keys: pd.DataFrame) -> dict[str, Array]:
            joined = keys[bins].merge(means.reset_index(), on=bins, how="left", validate="m:1")
            return {name: joined[name].to_numpy() for name in self.columns}

        of_sample = pd.DataFrame(
            {
                name: np.searchsorted(cuts, self.sample[column].to_numpy(float))
                for name, column, cuts in zip(bins, self.columns, self.cuts, strict=True)
            }
        )
        shares = dict(zip(self.columns, lost.tolist(), strict=True))
        rounded = self.sample.assign(**of(of_sample))
        return of(frame), Coarsening(self.grid, shares, self.sample, rounded)


def learn_rounding(
    rows: Any,
    n_rows: int,
    wanted: Wanted,
    *,
    grid: Grid,
    typed: Callable[[pd.DataFrame], pd.DataFrame],
) -> Rounding | None:
    """Learn the bins of a table of so many rows; None where no column has many values.

    The function `typed` converts text to numbers or truth values.
    """
    sample = typed(_sample(rows, wanted.every, grid.sample, n_rows))
    columns = _chosen(sample, [name for name in wanted.used if name not in wanted.exact], grid)
    if not columns:
        return None
    values = sample[list(columns)].to_numpy(float)
    low, high = np.quantile(values, [0.25, 0.75], axis=0)
    # A column that is mostly one value has no quartiles to speak of, a constant one no spread.
    spread = np.where(high > low, (high - low) / 1.349, values.std(0))
    return Rounding(
        grid,
        columns,
        tuple(learn_cuts(column, grid) for column in values.T),
        np.median(values, axis=0),
        np.where(spread > 0, spread, 1.0),
        sample,
    )


def _chosen(sample: pd.DataFrame, free: list[str], grid: Grid) -> tuple[str, ...]:
    numbers = [name for name in free if sample[name].dtype.kind in "iuf"]
    if grid.columns is None:
        return tuple(name for name in numbers if sample[name].nunique() > _MANY)
    for name in grid.columns:
        if name not in free:
            raise DataError(
                f"The grid names {name!r}, which is not a covariate, offset or exposure of this "
                f"fit. Choose from: {', '.join(free)}."
            )
        if name not in numbers:
            raise DataError(f"Only numbers can be rounded; {name!r} holds text or truth values.")
    return tuple(grid.columns)


def _sample(rows: Any, wanted: list[str], size: int, n: int) -> pd.DataFrame:
    """Rows chosen by a hash of their values: the same ones in every run and order of rows."""
    every = -(-n // size)
    mixed = sum((rows[c].hash() % _SPREAD * p for c, p in zip(wanted, cycle(_PRIMES))), start=0)
    some = rows.filter(mixed % every == 0) if every > 1 else rows
    # Where many rows are equal the hash may keep too many of them: these are cut at random, too.
    some = some.order_by([mixed, *wanted]).limit(2 * size).select(*wanted)
    frame: pd.DataFrame = some.to_pyarrow().to_pandas()
    if not len(frame):
        raise DataError("The sample for the grid is empty. Ask for a larger one, Grid(sample=...).")
    return frame
