"""The share of each row that a trimmed likelihood keeps, as a function of the row.

It is made of sums over all rows: the masses of units (a group and an outcome), and the tail
probability up to which rows are too many.
"""

from dataclasses import dataclass

import numpy as np

from tvdbayes._typing import Array
from tvdbayes.objective import Batch, Layout
from tvdbayes.trimming import tail_probability
from tvdbayes.trimming.far import FarRule

_SAME = 1e-9
"""Relative difference of tail probabilities that are equal but for rounding."""


@dataclass(frozen=True, eq=False)
class Cut:
    """Rows whose tail probability at theta (d,) is below a value are dropped; of those at the value
    a share is kept.
    """

    theta: Array
    value: float
    kept: float

    @classmethod
    def after(cls, theta: Array, tail: Array, weights: Array, too_many: int) -> "Cut":
        """Drop so many of the rows with these smallest tail probabilities, ascending."""
        at = min(int(np.searchsorted(np.cumsum(weights), too_many)), len(tail) - 1)
        equal = np.abs(tail - tail[at]) <= _SAME * tail[at]
        before = weights[: int(np.argmax(equal))].sum()
        return cls(theta, float(tail[at]), float(1 - (too_many - before) / weights[equal].sum()))

    def of(self, batch: Batch[Layout]) -> Array:
        """The share of the rows of each cell that is kept, (m,)."""
        tail = tail_probability(batch.rows, self.theta[:, None])[:, 0]
        at = np.abs(tail - self.value) <= _SAME * self.value
        return np.where(at, np.clip(self.kept, 0.0, 1.0), np.where(tail < self.value, 0.0, 1.0))


@dataclass(frozen=True, eq=False)
class Shares:
    """The share of each row that is kept.

    Parameters
    ----------
    of_units : (U,) or None
        The share of the mass of each unit, all outcomes compared; None where that is all of it.
    cut : Cut or None
        Which rows are too many in the tails.
    out : FarRule or None
        The rows that stay out, being far out in the covariates.
    in_whole : FarRule or None
        The rows that are kept in whole, whatever their units say.
    """

    of_units: Array | None = None
    cut: Cut | None = None
    out: FarRule | None = None
    in_whole: FarRule | None = None

    def of(self, batch: Batch[Layout]) -> Array:
        """The share of the rows of each cell, (m,)."""
        x, at = batch.rows.cells.x, batch.rows.cells.x_index
        share = np.ones(len(at))
        if self.of_units is not None:
            share = batch.of_cells(self.of_units[:, None])[:, 0]
        if self.cut is not None:
            share = np.minimum(share, self.cut.of(batch))
        if self.in_whole is not None:
            share = np.where(self.in_whole(x)[at], 1.0, share)
        if self.out is not None:
            share = np.where(self.out(x)[at], 0.0, share)
        return share
