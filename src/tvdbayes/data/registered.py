"""A data frame that DuckDB groups, as asked by engine="duckdb" or grid=."""

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from tvdbayes.data.duckdb import register, require_cases
from tvdbayes.data.frames import FrameSource
from tvdbayes.data.grid import Grid
from tvdbayes.data.sql import SqlSource
from tvdbayes.data.table import AbstractSource, Missing, Table, wanted

__all__ = ["RegisteredFrame"]


@dataclass(frozen=True, eq=False)
class RegisteredFrame(AbstractSource):
    """A data frame whose columns in use become a table of DuckDB's."""

    frame: FrameSource
    max_cells: int
    grid: Grid | None

    @property
    def columns(self) -> list[str]:
        return self.frame.columns

    def table(
        self,
        used: Sequence[str],
        weights: str | None,
        missing: Missing,
        exact: Sequence[str] = (),
    ) -> Table:
        used, every = wanted(self, used, weights, missing)
        require_cases(every, "The data frame")
        rows = self.frame.rows(every)
        kinds = {name: rows[name].dtype for name in every}
        levels = {n: kind for n, kind in kinds.items() if isinstance(kind, pd.CategoricalDtype)}
        source = SqlSource(register(rows), self.max_cells, self.grid, levels=levels)
        return source.table(used, weights, missing, exact)
