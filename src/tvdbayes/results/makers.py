"""What makes data sets like those of a fit, from its own model."""

from abc import ABC, abstractmethod
from dataclasses import dataclass

from tvdbayes._typing import Array, IntArray
from tvdbayes.data.cells import Cells
from tvdbayes.objective import Layout


@dataclass(frozen=True, eq=False)
class Made:
    """Some replicates: their cells together, and by replicate masses and random masses, (m, R).

    ``cell`` (R, n) is the cell of each row, where rows belong together.
    """

    table: Cells
    counts: Array
    random: Array
    cell: IntArray


class AbstractMaker(ABC):
    """Makes replicates of one fit."""

    @abstractmethod
    def make(self, numbers: range) -> Made:
        """The replicates of these numbers."""

    @abstractmethod
    def clusters(self, made: Made, layout: Layout, theta: Array) -> Array:
        """The largest surprise of any cluster of each replicate at its fit (d, R), (R,); 0 where
        rows are not clustered.
        """
