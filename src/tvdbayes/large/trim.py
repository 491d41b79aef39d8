"""The trimmed likelihood of all rows, begun where a sample of them has led.

The sample decides what needs a look at many rows at once: which rows are far out, whether these
agree with the others, and where the search begins. From there the last steps of `trimming.rule` are
taken on all rows: three times the shares that are kept and the fit to them, by sums over rows.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tvdbayes._array import tiny
from tvdbayes._typing import Array, IntArray
from tvdbayes.large.problems import RowMasses, SummedRows
from tvdbayes.large.rows import AbstractRows
from tvdbayes.large.shares import Cut, Shares
from tvdbayes.large.sums import Smallest, Sum, Sums, data_masses, model_masses, of_scores, tails
from tvdbayes.large.weights import UNWEIGHTED
from tvdbayes.objective import Layout, Penalty
from tvdbayes.solvers import Accuracy, Solution, newton
from tvdbayes.trimming import KeptRows, due_in_tails
from tvdbayes.trimming.far import FarRule
from tvdbayes.trimming.rule import search_ridge
from tvdbayes.trimming.surplus import good_of_units, more_than_chance, surplus_in_tails
from tvdbayes.trimming.weighted import SumOfRows, widening_by

_ALONE = np.array([UNWEIGHTED])
_ROUNDS = 3
_DECREMENT = 1e-10
"""Newton's method takes its last step where it promises less, see `sampling.trimmed`."""


@dataclass(frozen=True, eq=False)
class TrimmedRows:
    """All rows, and what a sample of them has decided.

    Parameters
    ----------
    rows : AbstractRows
    sample : Layout
        The layout of the sample, in the coordinates of all rows.
    kept : KeptRows
        The rows of the sample that its fit keeps.
    far : FarRule
        Which rows are far out.
    penalty : float
        The ridge beside the likelihood.
    """

    rows: AbstractRows
    sample: Layout
    kept: KeptRows
    far: FarRule
    penalty: float

    def estimate(self, start: Array) -> tuple[Array, Shares | None]:
        """The fit (d,) to the rows that are kept, and their shares; None where these are all.

        It begins at the fit of the sample without far rows.
        """
        if self.kept.route == "ordinary":
            return self.fit(None, start, self.penalty), None
        ridge = search_ridge(self.penalty, self._n_obs)
        theta, shares = start, Shares()
        for _ in range(_ROUNDS):
            shares = self.shares(theta)
            theta = self.fit(shares, theta, ridge)
        return self.fit(shares, theta, self.penalty), shares

    def fit(self, shares: Shares | None, start: Array, ridge: float) -> Array:
        """Maximum likelihood (d,) with these shares of the rows."""
        problem = self._problem(_ALONE, shares, start, ridge)
        found: Array = newton(problem, start[:, None]).theta[:, 0]
        return found

    def draws(self, draws: IntArray, shares: Shares | None, estimate: Array) -> Solution:
        """The same on reweighted rows, from the estimate."""
        start = np.repeat(estimate[:, None], draws.size, axis=1)
        goal = Accuracy(tau=0.0, decrement=_DECREMENT, rounding=1e-14)
        problem = self._problem(draws, shares, estimate, self.penalty)
        return newton(problem, start, accuracy=goal, values=False)

    def stretch(self, shares: Shares | None, theta: Array) -> Array:
        """The map (d, d) of deviations of the draws, see `trimming.weighted`."""

        def total(of: SumOfRows, *given: Array) -> Sums:
            return self.rows.total(Sum(of_scores, _ALONE, (of, theta, *given), shares))

        return widening_by(total)

    def shares(self, theta: Array) -> Shares:
        """The shares of the rows that are kept at parameters theta (d,)."""
        compared, (data, whole, _) = self.rows.rules.compared, self._data
        (model,) = self.rows.total(Sum(model_masses, _ALONE, (theta[:, None],)))
        data, model = (compared.every(mass, whole) for mass in (data, model))
        data = np.maximum(data, tiny(data))
        good = good_of_units(data, model, compared.group_of_unit, more_than_chance)
        out = in_whole = None
        if self.kept.bend is not None:
            in_whole = self.far
        elif not self.kept.far_agree:
            out = self.far
        return Shares(good[:, 0], self._cut(theta), out, in_whole)

    def _cut(self, theta: Array) -> Cut | None:
        """Which rows are too many in the tails."""
        due = due_in_tails(self.sample, self.sample.cells.p, theta)
        (seen,) = self.rows.total(Sum(tails, _ALONE, (theta,)))
        too_many = surplus_in_tails(seen, self._n_obs * due)
        if not too_many:
            return None
        few = Smallest(too_many)
        tail, weights = self.rows.total(Sum(few.of, _ALONE, (theta,), joined=few.joined))
        return Cut.after(theta, tail, weights, too_many)

    @cached_property
    def _data(self) -> Sums:
        return self.rows.total(Sum(data_masses, _ALONE))

    @property
    def _n_obs(self) -> float:
        return float(self._data[2][0])

    def _problem(
        self, draws: IntArray, shares: Shares | None, reference: Array, ridge: float
    ) -> SummedRows:
        masses = RowMasses.make(self.rows, draws, shares)
        return SummedRows(self.rows, masses, Penalty.make(ridge, self.rows.rules.bound, reference))
