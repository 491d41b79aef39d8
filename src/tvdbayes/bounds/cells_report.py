"""How often covariates repeat in a table, and what follows for guarantees."""

from dataclasses import dataclass

import numpy as np

from tvdbayes._validate import probability
from tvdbayes.bounds._words import INDEPENDENT, AbstractGuarantee, at_most, percent, row_counts
from tvdbayes.bounds.radius import tvd_radius
from tvdbayes.data.cells import Cells
from tvdbayes.objective.partitions import ENOUGH_ROWS, Distinct, report_groups

_AT = (0.05, 0.25, 0.5, 0.75, 0.95)
"""Quantiles that are reported."""


@dataclass(frozen=True)
class CellsReport(AbstractGuarantee):
    """How often the rows of a table repeat, and how near it is to the distribution they come from.

    Parameters
    ----------
    n_obs : int
        Rows.
    n_x, n_y, n_cells : int
        Distinct covariate rows, outcomes, and pairs of them that were seen.
    rows_per_x : dict
        Quantiles, over rows, of how many rows share their covariates.
    alone : float
        Share of rows that are alone with their covariates.
    expected_bias : float
        By how much slopes are too steep on clean data if distinct x are groups, as a share.
    radius, delta : float
        The table is within this distance of the law, except with probability delta.
    statement, assumptions : str, tuple of str
        The same in words, and what must be true for it.

    Examples
    --------
    Ages in years repeat; ages in days hardly do, and are compared in groups:

    >>> import numpy as np, tvdbayes as tb
    >>> from tvdbayes.bounds import cells_report
    >>> days = np.random.default_rng(0).integers(7300, 11000, 500)
    >>> for age in (days // 365, days):
    ...     found = cells_report(tb.Cells.from_rows(np.c_[np.ones(500), age], days % 2))
    ...     print(f"{found.n_x} ages, {found.alone:.0%} alone, groups: {found.needs_groups}")
    11 ages, 0% alone, groups: False
    465 ages, 86% alone, groups: True
    """

    n_obs: int
    n_x: int
    n_y: int
    n_cells: int
    rows_per_x: dict[float, float]
    alone: float
    expected_bias: float
    radius: float
    delta: float

    @property
    def needs_groups(self) -> bool:
        """Whether covariates repeat so little that different ones must be compared together."""
        return self.rows_per_x[0.5] < ENOUGH_ROWS


def cells_report(cells: Cells, delta: float = 0.05) -> CellsReport:
    """Describe a table, and bound its distance from the law behind it by its counts alone.

    Parameters
    ----------
    cells : Cells
        The data, with whole counts.
    delta : float
        Probability of failure that is accepted.

    Examples
    --------
    >>> import numpy as np, tvdbayes as tb
    >>> from tvdbayes.bounds import cells_report
    >>> x = np.column_stack([np.ones(400), np.arange(400) % 4])
    >>> print(cells_report(tb.Cells.from_rows(x, np.arange(400) // 4 % 2)))
    400 rows at 4 distinct covariate rows, 2 outcomes, 8 cells; the median row shares its covariates
    with 99 others and 0% of the rows are alone, so slopes are too steep by about 0.6%. With
    probability 95% the table is within 0.235 (total variation) of the law behind it. Assumes: rows
    are drawn independently from one law.
    """
    delta = probability("delta", delta)
    counts = row_counts(cells)
    n = int(counts.sum())
    rows = np.sort(cells.x_counts)
    quantiles = np.searchsorted(np.cumsum(rows), np.array(_AT) * n).clip(max=len(rows) - 1)
    rows_per_x = dict(zip(_AT, rows[quantiles].tolist(), strict=True))
    report = report_groups(cells, Distinct.name, Distinct().group(cells))
    alone = float(rows[rows == 1].sum() / n)
    radius = tvd_radius(n, delta, counts=counts).radius
    n_y = len(np.unique(cells.y))
    if cells.n_x == 1:
        follows = "there is nothing to group"
    elif report.median_size >= ENOUGH_ROWS:
        follows = f"slopes are too steep {report.steepness}"
    else:
        follows = "rows of different covariates must be compared in groups"
    statement = (
        f"{n:,} rows at {cells.n_x:,} distinct covariate rows, {n_y:,} outcomes, "
        f"{cells.n_cells:,} cells; the median row shares its covariates with "
        f"{report.median_size - 1:,.0f} others and {alone:.0%} of the rows are alone, so "
        f"{follows}. With probability {percent(1 - delta)} the table is within "
        f"{at_most(radius)} (total variation) of the law behind it."
    )
    return CellsReport(
        n,
        cells.n_x,
        n_y,
        cells.n_cells,
        rows_per_x,
        alone,
        report.expected_bias,
        radius,
        delta,
        statement=statement,
        assumptions=(INDEPENDENT,),
    )
