"""The fixed part of an objective: which pmf values are needed, and what they are summed into."""

from dataclasses import dataclass, replace
from functools import cached_property

from tvdbayes._array import Segments
from tvdbayes._typing import Array
from tvdbayes.cells import Cells
from tvdbayes.families import AbstractFamily, Jet
from tvdbayes.model import Model
from tvdbayes.partitions import AbstractPartition
from tvdbayes.predictors import BoundLinear

__all__ = ["Layout"]


@dataclass(frozen=True, eq=False)
class Layout:
    """A model bound to a table and its groups, in coordinates standardised on `scale_on`.

    A *pair* is an atom and an outcome seen in one of its groups; the pmf is evaluated once for
    each pair. A *unit* is a group and an outcome seen in it: where data mass and model mass are
    compared. When every group is one atom, pairs, units and cells are the same thing.
    """

    model: Model
    cells: Cells
    partition: AbstractPartition
    scale_on: Cells

    @cached_property
    def bound(self) -> BoundLinear:
        """The predictor at the x rows of the table."""
        return self.model.predictor.bind(self.cells, self.scale_on)

    @property
    def family(self) -> AbstractFamily:
        """The law of the outcome."""
        return self.model.family

    @cached_property
    def y(self) -> Array:
        """Outcome of each pair, (Q, 1)."""
        return self.cells.y[:, None]

    @cached_property
    def trials(self) -> Array:
        """Trials of each pair, (Q, 1)."""
        return self.cells.trials[self.cells.x_index, None]

    @property
    def x_trials(self) -> Array:
        """Trials of each x row, (n_x, 1)."""
        return self.cells.trials[:, None]

    @cached_property
    def x_of_pair(self) -> Segments:
        """The x row of each pair."""
        return Segments(self.cells.x_index, self.cells.n_x)

    @cached_property
    def atom_of_cell(self) -> Segments:
        """The atom of each cell."""
        grouping = self.partition.group(self.cells)
        return Segments(grouping.atom_of_cell, grouping.x_of_atom.size)

    def rebind(self, cells: Cells) -> "Layout":
        """The same model, groups and coordinates on another table."""
        return replace(self, cells=cells)

    def eta(self, theta: Array) -> Array:
        """Predictors at the pairs, (k, Q, B)."""
        return self.to_pairs(self.bound.eta(theta))

    def to_pairs(self, at_x: Array) -> Array:
        """(k, n_x, B) to (k, Q, B)."""
        if at_x.shape[0] == 1:
            return self.x_of_pair.spread(at_x[0])[None]
        return at_x.take(self.x_of_pair.index, axis=1)

    def pmf(self, theta: Array) -> Array:
        """(Q, B)."""
        return self.family.pmf(self.y, self.eta(theta), self.trials)

    def jet(self, theta: Array) -> Jet:
        """Pmf at the pairs with derivatives in eta."""
        return self.family.jet(self.y, self.eta(theta), self.trials)

    def log_jet(self, theta: Array) -> Jet:
        """Log pmf at the pairs with derivatives in eta."""
        return self.family.log_jet(self.y, self.eta(theta), self.trials)

    def atom_mass(self, p: Array) -> Array:
        """Mass of each pair's atom, (Q, B), from cell masses."""
        return self.atom_of_cell.spread(self.atom_of_cell.total(p))

    def x_mass(self, p: Array) -> Array:
        """Mass of each x row, (n_x, B), from cell masses."""
        return self.x_of_pair.total(p)

    def pull_back(self, slope: Array, curvature: Array) -> tuple[Array, Array]:
        """Gradient and second derivative in theta from those in the predictors of the pairs."""
        k = slope.shape[0]
        total = self.x_of_pair.total
        grad = self.bound.pullback([total(slope[a]) for a in range(k)])
        hess = self.bound.pull_curvature(
            [[total(curvature[a, b]) for b in range(a + 1)] for a in range(k)]
        )
        return grad, hess
