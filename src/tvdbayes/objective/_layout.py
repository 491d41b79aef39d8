"""The fixed part of an objective: a model bound to a table and its groups."""

from dataclasses import dataclass, replace
from functools import cached_property

from tvdbayes._array import Segments
from tvdbayes._typing import Array
from tvdbayes.cells import Cells
from tvdbayes.families import AbstractFamily
from tvdbayes.model import Model
from tvdbayes.objective._pairs import Pairs
from tvdbayes.objective._units import AbstractUnits, make_units
from tvdbayes.partitions import AbstractPartition, Bins, Grouping
from tvdbayes.predictors import BoundLinear

__all__ = ["Layout"]


@dataclass(frozen=True, eq=False)
class Layout:
    """A model bound to a table and its groups, in coordinates standardised on `scale_on`.

    ``fold`` lets one of two outcomes stand for both, where family and divergence allow; ``bins``
    are the outcomes that are compared together; ``grouped`` is the grouping where it is known.
    """

    model: Model
    cells: Cells
    partition: AbstractPartition
    scale_on: Cells
    fold: bool = False
    bins: Bins | None = None
    grouped: Grouping | None = None

    @cached_property
    def bound(self) -> BoundLinear:
        """The predictor at the x rows of the table."""
        return self.model.bind(self.cells, self.scale_on)

    @property
    def family(self) -> AbstractFamily:
        """The law of the outcome."""
        return self.model.family

    @cached_property
    def cell_pairs(self) -> Pairs:
        """The cells as pairs of an x row and an outcome."""
        cells = self.cells
        x_of_pair = Segments(cells.x_index, cells.n_x)
        trials = cells.trials[cells.x_index, None]
        return Pairs(self.family, self.bound, x_of_pair, cells.y[:, None], trials)

    @cached_property
    def units(self) -> AbstractUnits:
        """Where data and model are compared."""
        return make_units(
            self.family, self.bound, self.cells, self.grouping, fold=self.fold, bins=self.bins
        )

    @cached_property
    def grouping(self) -> Grouping:
        """The partition applied to the table."""
        return self.grouped or self.partition.group(self.cells)

    @property
    def x_trials(self) -> Array:
        """Trials of each x row, (n_x, 1)."""
        return self.cells.trials[:, None]

    def rebind(self, cells: Cells) -> "Layout":
        """The same model, groups and coordinates on another table."""
        return replace(self, cells=cells, grouped=None)
