"""Several tables as one: each has the rows of all, with parameters, groups and bins of its own."""

from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from tvdbayes._typing import Array, IntArray
from tvdbayes.models.predictors import BoundSaturated
from tvdbayes.objective import Layout
from tvdbayes.objective.partitions import Bins, Grouping


@dataclass(frozen=True, eq=False)
class SideBySide:
    """R tables, one after the other, as a table of R n_x covariate rows.

    Parameters
    ----------
    layout : Layout
        Its parameters are the predictors of all rows.
    cell, table : (M,)
        The cell, of all tables together, and the table of each of its cells.
    ends : (R + 1,)
        The first cell of each table, and M.
    shape : (m, R)
        Cells of all tables together, and tables.
    """

    layout: Layout
    cell: IntArray
    table: IntArray
    ends: IntArray
    shape: tuple[int, ...]

    @classmethod
    def of(cls, layout: Layout, counts: Array) -> Self:
        """Tables with these rows (m, R) in the cells of a layout whose atoms are its x rows."""
        cells, n_tables = layout.cells, counts.shape[1]
        table, cell = np.nonzero(counts.T)
        joined = replace(
            cells,
            x=np.tile(cells.x, (n_tables, 1)),
            offset=np.tile(cells.offset, n_tables),
            trials=np.tile(cells.trials, n_tables),
            x_index=table * cells.n_x + cells.x_index[cell],
            y=cells.y[cell],
            counts=counts[cell, table],
        )
        groups = layout.grouping.groups
        apart = groups[:, None] + (int(groups.max()) + 1) * np.arange(n_tables)[:, None]
        rows = np.arange(joined.n_x)
        own = replace(
            layout,
            cells=joined,
            bins=None,
            grouped=Grouping(joined.x_index, rows, apart.reshape(len(groups), -1)),
            given=BoundSaturated(joined.n_x, layout.bound.n_predictors),
        )
        return cls(own, cell, table, np.searchsorted(table, np.arange(n_tables + 1)), counts.shape)

    def in_bins(self, bins: tuple[Bins, ...]) -> Self:
        """The same with the outcomes of each table in bins of its own."""
        joined = Bins.joined(bins, self.layout.cells.y, self.ends)
        return replace(self, layout=replace(self.layout, bins=joined))

    def parameters(self, layout: Layout, theta: Array) -> Array:
        """Parameters of the joined layout, in one column, where each table has its own (d, R)."""
        return layout.bound.eta(theta).transpose(0, 2, 1).reshape(-1, 1)

    def of_cells(self, values: Array) -> Array:
        """Values (m, R) of the tables at their cells, (M, 1)."""
        return values[self.cell, self.table, None]

    def by_table(self, values: Array, otherwise: float) -> Array:
        """Values (M, 1) of the cells by table, (m, R), and another one for cells without rows."""
        found = np.full(self.shape, otherwise)
        found[self.cell, self.table] = values[:, 0]
        return found
