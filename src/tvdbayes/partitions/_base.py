"""Which covariate rows are compared together.

A partition looks at x only, never at y: the model is averaged over a group's own x, so the
objective is zero at the truth whatever the groups.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tvdbayes._typing import Array, IntArray
from tvdbayes.cells import Cells

__all__ = ["AbstractPartition", "Distinct", "Grouping", "Singletons", "median_group_size"]


@dataclass(frozen=True, eq=False)
class Grouping:
    """A partition (or an ensemble of R) applied to a table.

    The pieces that carry mass are *atoms*: normally one for each x row.

    Parameters
    ----------
    atom_of_cell : (m,)
        The atom that each cell's mass belongs to; does not decrease.
    x_of_atom : (n_atoms,)
        The x row of each atom.
    groups : (R, n_atoms)
        The group of each atom in each of the R partitions.
    """

    atom_of_cell: IntArray
    x_of_atom: IntArray
    groups: IntArray


class AbstractPartition(ABC):
    """A rule that groups covariate rows."""

    name: ClassVar[str]
    pools_rows: ClassVar[bool] = False
    """Whether groups hold rows of different x. The point estimate is then the minimiser for the
    unweighted data, otherwise the posterior mean, which recovers half of the lost efficiency."""

    def learn(self, cells: Cells, n_params: int, seed: int) -> "AbstractPartition":
        """Fix the rule on a table; what is returned is a function of x alone."""
        return self

    @abstractmethod
    def group(self, cells: Cells) -> Grouping:
        """Apply the rule to a table."""


@dataclass(frozen=True)
class Distinct(AbstractPartition):
    """Rows with the same x form a group: the paper's estimator."""

    name: ClassVar[str] = "distinct"

    def group(self, cells: Cells) -> Grouping:
        rows = np.arange(cells.n_x)
        return Grouping(cells.x_index, rows, rows[None])


@dataclass(frozen=True)
class Singletons(AbstractPartition):
    """Every cell on its own: the paper's estimator for continuous x, an improper score.

    Its optimum does not tend to the truth on clean data; kept to show just that.
    """

    name: ClassVar[str] = "singletons"

    def group(self, cells: Cells) -> Grouping:
        atoms = np.arange(cells.n_cells)
        return Grouping(atoms, cells.x_index, atoms[None])


def median_group_size(cells: Cells, grouping: Grouping) -> float:
    """Size of the group that the median row finds itself in."""
    mass = np.bincount(grouping.atom_of_cell, cells.counts)
    sizes: Array = np.concatenate([np.bincount(labels, mass)[labels] for labels in grouping.groups])
    order = np.argsort(sizes)
    total = np.cumsum(np.tile(mass, len(grouping.groups))[order])
    return float(sizes[order][np.searchsorted(total, total[-1] / 2)])
