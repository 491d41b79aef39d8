"""The objective: the divergence of a model from a table and a penalty, for all draws of a block.

A draw is a table of masses p(x, y) that sum to 1. For a divergence that compares groups g of rows,

    F(theta) = sum_{g, y} t(p(g, y), f(g, y; theta)) + penalty(theta),
    f(g, y; theta) = sum_{i in g} p(x_i) f(y | x_i; theta),
    penalty(theta) = ridge * V(theta) + weight * |theta - reference|^2,

over the outcomes y seen in a group; t is the term of the divergence, and V the variance of the
linear predictor over the rows. For a divergence that looks at rows,

    F(theta) = sum_{x, y} p(x, y) l(log f(y | x; theta)) + penalty(theta),

with a loss l of the log-probability. With total variation and one distinct x per group the
minimiser is the estimator of the paper; with l = -log f it is weighted maximum likelihood.

The gradient follows from one chain rule, whatever the family, the divergence and the partition:

    dF/d eta_i = sum_{y} t'(g, y) p(x_i) df(y | x_i)/d eta_i,

which the predictor takes back to theta.

References
----------
Knoblauch, J. and Vomfell, L. (2020). Robust Bayesian inference for discrete outcomes with the total
variation distance. arXiv:2010.13456.
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from tvdbayes._array import Device
from tvdbayes._typing import Array, BoolArray, IntArray
from tvdbayes.data.cells import Cells
from tvdbayes.objective._batches import Batch, Compared
from tvdbayes.objective._group import GroupExpansion, GroupProblem
from tvdbayes.objective._kinds import AbstractDivergence
from tvdbayes.objective._layout import Layout
from tvdbayes.objective._pairs import Pairs
from tvdbayes.objective._penalty import (
    EDGE,
    TIE_BREAK,
    Penalty,
    at_boundary,
    runs_away,
)
from tvdbayes.objective._row import RowExpansion, RowPoint, RowProblem
from tvdbayes.objective._units import Listed, gauss_newton
from tvdbayes.solvers import Solution, Status

__all__ = [
    "EDGE",
    "TIE_BREAK",
    "Batch",
    "Compared",
    "GroupExpansion",
    "GroupProblem",
    "Layout",
    "Listed",
    "Objective",
    "Pairs",
    "Penalty",
    "RowExpansion",
    "RowPoint",
    "RowProblem",
    "at_boundary",
    "gauss_newton",
]

_LITTLE = 1e-6
"""A gain of a divergence that does not matter: one row in a million."""


@dataclass(frozen=True, eq=False)
class Objective:
    """Everything about the problem that does not change from draw to draw.

    Parameters in here are standardised (see `predictors`); `layout.bound` takes them back.

    Parameters
    ----------
    layout : Layout
        Model, table and groups.
    divergence : AbstractDivergence
        What is minimised.
    ridge : float
        Penalty on the spread of the linear predictor, see `AbstractBound.ridge_gradient`.
    reference : (d,), optional
        The parameters that ties go to; zeros unless given.
    pinned : (d,), optional
        Which parameters are held at the reference; their part of the penalty is not counted in
        distances.
    """

    layout: Layout
    divergence: AbstractDivergence
    ridge: float = 0.0
    reference: Array | None = None
    pinned: BoolArray | None = None

    def on(self, p: Array) -> GroupProblem | RowProblem:
        """The problems of the cell masses p (m, B)."""
        return self.divergence.problem(self, p)

    @property
    def penalty(self) -> Penalty:
        """The ridge, and what breaks ties and holds the pinned."""
        bound = self.layout.bound
        reference = np.zeros(bound.n_params) if self.reference is None else self.reference
        return Penalty.make(self.ridge, bound, reference, self.pinned)

    @property
    def near(self) -> bool:
        """Whether searches begin near their ends, which are near the reference."""
        return self.reference is not None

    @cached_property
    def anchor(self) -> Array | None:
        """What groups reuse at every point of every draw, taken at the reference."""
        if self.reference is None:
            return None
        units = self.layout.units
        p = self.layout.put(self.layout.cells.p[:, None])
        return units.anchor(self.reference[:, None], units.atom_mass(p))

    def to(self, device: Device) -> "Objective":
        """The same objective with its table on a device."""
        return replace(self, layout=self.layout.to(device))

    def rebind(self, cells: Cells) -> "Objective":
        """The same objective on another table."""
        return replace(self, layout=self.layout.rebind(cells))

    def ended(self, found: Solution, away: BoolArray) -> IntArray:
        """The status of each draw, where it is known whose optimum is at infinity.

        At the boundary the divergence falls in proportion to the dispersion or inflation itself: as
        its logarithm falls without end, the gain is no more than the gradient in it.
        """
        sure = (found.status == Status.CONVERGED) | (found.residual < _LITTLE)
        edge = at_boundary(self.layout, found.theta).any(0) & sure
        status = np.where(edge, int(Status.BOUNDARY), found.status)
        return np.where(away, int(Status.SEPARATED), status)

    def runs_away(self, problem: GroupProblem | RowProblem, theta: Array) -> BoolArray:
        """Draws of theta (d, B) whose optimum is at infinity.

        Some x row has a law that is (nearly) one point, and the flattest direction can be followed
        far without a cost that matters.
        """
        return runs_away(problem, theta)
