"""Checks of an encoded table, before the fit: enough rows, identified coefficients, odd values."""

from numbers import Real

import numpy as np

from tvdbayes._errors import DataError, WildValueWarning, warn
from tvdbayes._typing import Array
from tvdbayes.data.cells import Cells
from tvdbayes.models.families import AbstractFamily
from tvdbayes.models.model import check_sizes
from tvdbayes.models.predictors import Linear, dependent_columns

_WILD_X = 1e8
"""Ratio of the range of a covariate to its interquartile range that is worth a warning: heavy tails
of real data stay far below it, codes such as 999999999 do not."""

_WILD_Y = 1e6
"""The same for the largest outcome beside the median."""


def check_table(cells: Cells, family: AbstractFamily, linear: Linear, ridge: float | str) -> None:
    """Raise for data that cannot identify the coefficients; warn of wild values."""
    if cells.n_obs < 2:
        held = "1 sample" if cells.n_obs == 1 else f"rows of a total weight of {cells.n_obs:g}"
        raise DataError(f"The data hold {held}; at least 2 rows are needed. Weights count rows.")
    check_sizes(cells)
    if family.binary and np.ptp(cells.y) == 0:
        raise DataError(
            f"Every outcome is {cells.y[0]:g}; both 0 and 1 must occur to tell them apart."
        )
    for block in dict.fromkeys(linear.columns or ()):
        columns = [j for j in block if j >= 0]
        dependent = [columns[j] for j in dependent_columns(cells.x[:, columns])] if columns else []
        if dependent and not (isinstance(ridge, Real) and ridge > 0):
            raise DataError(
                "The other columns already determine "
                f"{', '.join(repr(cells.names[j]) for j in dependent)} (constant, duplicated, an "
                f"unused level, or more columns than distinct rows: {len(columns)} and "
                f'{cells.n_x}). Leave it out, or pass collinear="drop" or a ridge above 0.'
            )
    for name, column in zip(cells.names, cells.x.T, strict=True):
        low, high = _quantiles(column, cells.x_counts, [0.25, 0.75])
        if high > low and np.ptp(column) > _WILD_X * (high - low):
            warn(
                f"The column {name!r} ranges from {column.min():g} to {column.max():g}, but half "
                f"of it lies between {low:g} and {high:g}. Look for wrong units or typing errors.",
                WildValueWarning,
            )
    (middle,) = _quantiles(cells.y, cells.counts, [0.5])
    if cells.y.max() > _WILD_Y * max(middle, 1):
        warn(
            f"The largest outcome is {cells.y.max():g}, the median {middle:g}. "
            "Look for wrong units or typing errors.",
            WildValueWarning,
        )


def _quantiles(values: Array, counts: Array, shares: list[float]) -> Array:
    return np.quantile(values, shares, weights=counts, method="inverted_cdf")
