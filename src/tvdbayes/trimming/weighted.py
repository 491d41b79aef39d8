r"""The fit to tables whose cells have other masses, and how much wider its draws must be.

They are widened where rows have leverage. To first order, the Bayesian bootstrap of an estimate has
the sandwich covariance

.. math:: V_0 = I^{-1} \Big(\sum_i w_i^2 s_i s_i^T\Big) I^{-1},

with scores s, weights w and the information I (White, 1980: HC0). Two things make intervals from
few rows too short. Rows with leverage pull the fit to themselves, so their scores are too small:
HC3 (MacKinnon and White, 1985) takes the score of each row at the fit without it,
:math:`(1 - h_i)^{-1} s_i` with its leverage h. And the covariance is itself an estimate, from few
rows if few have leverage: along a direction its law is nearly chi-squared with

.. math::

    \nu = \Big(\sum_i \operatorname{Var} q_i\Big)^2 \Big/ \sum_{ij} \operatorname{Cov}(q_i, q_j)^2

degrees of freedom, q being the terms whose squares it adds up (Bell and McCaffrey, 2002), so that
deviations are those of a t law, :math:`\sqrt{\nu / (\nu - 2)}` times as large.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from tvdbayes._typing import Array
from tvdbayes.data.sampling_units import SamplingUnits
from tvdbayes.objective import Layout, Objective
from tvdbayes.objective.divergences import KLD, DensityPower
from tvdbayes.solvers import newton
from tvdbayes.trimming.unit_scores import UnitScores


def weighted_fits(
    layout: Layout,
    mass: Array,
    start: Array,
    ridge: float,
    divergence: KLD | DensityPower | None = None,
) -> Array:
    """Parameters (d, B) with these masses (m, B) of the cells; maximum likelihood unless told."""
    objective = Objective(layout, divergence or KLD(), ridge, reference=start[:, 0])
    theta: Array = newton(objective.on(mass / mass.sum(0)), start).theta
    return theta


def weighted_fit(layout: Layout, mass: Array, start: Array, *how: Any) -> Array:
    """The same for one table: parameters (d,) with masses (m,)."""
    return weighted_fits(layout, mass[:, None], start[:, None], *how)[:, 0]


_MOST = 0.9
"""Leverages are taken to be at most this."""
_UNLIMITED = 1e9
"""Degrees of freedom of a variance that is known."""


Sums = tuple[Array, ...]
SumOfRows = Callable[..., Sums]
"""A sum over the rows of a table, from (layout, kept, theta, ...)."""


def widening(
    layout: Layout, kept: Array, theta: Array, units: SamplingUnits | None = None
) -> Array:
    """The map (d, d) of deviations from the estimate theta (d,) that corrects both.

    ``kept`` (m,) are the weights of the rows of each cell; ``units`` are what is reweighted, if not
    the rows (see `unit_scores`).
    """
    jet = _jet(layout, kept, theta)

    def scores(inverse: Array) -> RowScores | UnitScores:
        if units is None:
            return RowScores(layout, *jet, inverse)
        return UnitScores(layout, units, *jet, inverse)

    return _widened(_pulled(layout, jet[1]), scores)


def widening_by(total: Callable[..., Sums]) -> Array:
    """The same where ``total(of, *given)`` adds up ``of(layout, kept, theta, *given)`` over the
    parts of a table.
    """
    (information,) = total(_informations)
    return _widened(information, lambda inverse: SummedScores(total, information, inverse))


def _widened(information: Array, scores_of: Callable[[Array], "AnyScores"]) -> Array:
    """The map, from the information (d, d) and scores that are made of its inverse.

    With ``V' HC0 V = 1`` and ``V' HC3 V = L`` it is ``inv(V') sqrt(L) F V'``, where F are the
    factors of the t laws along the columns of V. Of all maps from HC0 to HC3 this one does not
    depend on the coding of the columns.
    """
    try:
        inverse = np.asarray(np.linalg.inv(information), float)
        scores = scores_of(inverse)
        plain, wide = (inverse @ each @ inverse for each in scores.covariances())
        root = np.linalg.cholesky(plain)
        inside = np.linalg.solve(root, np.linalg.solve(root, wide).T)
        size, axes = np.linalg.eigh((inside + inside.T) / 2)
    except np.linalg.LinAlgError:
        # Where the data leave a direction without any spread there is nothing to widen.
        return np.eye(len(information))
    directions = np.linalg.solve(root.T, axes)
    freedom = scores.freedoms(inverse @ directions)
    factor = np.sqrt(np.maximum(size, 1.0) * freedom / np.maximum(freedom - 2, 1.0))
    found: Array = np.linalg.solve(directions.T, factor[:, None] * directions.T)
    return found


@dataclass(frozen=True, eq=False)
class RowScores:
    """Scores of rows at an estimate, and their covariance; fields are those of `UnitScores`."""

    layout: Layout
    score: Array
    information: Array
    inverse: Array

    @cached_property
    def _leverage(self) -> Array:
        return _leverage(self.layout, self.inverse)

    @cached_property
    def _alone(self) -> Array:
        return _alone(self.information, self._leverage)

    def covariances(self) -> tuple[Array, Array]:
        """The covariance of the draws, and HC3, of the scores (d, d)."""
        wide = np.einsum("mab,bm->am", self._alone, self.score)
        plain, wide = (_pulled(self.layout, each[:, None] * each) for each in (self.score, wide))
        return plain, wide

    def freedom(self, along: Array) -> float:
        """Degrees of freedom of the variance of ``along @ score``, from HC3; ``along`` is (d,)."""
        information = _pulled(self.layout, self.information)
        return float(_freedoms(information, *self.terms(along[:, None]))[0])

    def freedoms(self, along: Array) -> Array:
        """The same along several columns (d, D)."""
        return _freedoms(_pulled(self.layout, self.information), *self.terms(along))

    def terms(self, along: Array) -> Sums:
        """What the degrees of freedom along columns (d, D) are made of: sums over rows.

        The terms q of a row are ``b' s`` with scores s at the estimate, whose covariances under the
        model are ``b_i' C_i b_i [i = j] - g_i' inv(I) g_j``, ``g = z C b``. The sums are those of
        ``g g'`` (D, d, d), of squares of the covariances beside these, and of variances (D,).
        """
        linear, cells = self.layout.bound, self.layout.cells
        joint, squares, variances = [], [], []
        for one in along.T:
            at_x = [z @ one[part] for z, part in zip(linear.designs, linear.slices, strict=True)]
            b = np.einsum("mab,am->bm", self._alone, np.array(at_x)[:, cells.x_index])
            g = np.einsum("abm,bm->am", self.information, b)
            own, pulled = (b * g).sum(0), np.einsum("am,abm,bm->m", g, self._leverage, g)
            joint.append(_pulled(self.layout, g[:, None] * g))
            squares.append(cells.counts @ (own**2 - 2 * own * pulled))
            variances.append(cells.counts @ (own - pulled))
        return np.array(joint), np.array(squares), np.array(variances)


@dataclass(frozen=True, eq=False)
class SummedScores:
    """The same of a table in parts; ``total`` is that of `widening_by`."""

    total: Callable[..., Sums]
    information: Array
    inverse: Array

    def covariances(self) -> Sums:
        """The covariance of the draws, and HC3, of the scores (d, d)."""
        return self.total(_covariances, self.inverse)

    def freedoms(self, along: Array) -> Array:
        """See `RowScores`."""
        return _freedoms(self.information, *self.total(_terms, self.inverse, along))


AnyScores = RowScores | UnitScores | SummedScores


def _jet(layout: Layout, kept: Array, theta: Array) -> tuple[Array, Array]:
    """Scores (k, m) and informations (k, k, m) of the rows of each cell."""
    _, score, curvature = layout.cell_pairs.log_jet(theta[:, None])
    return kept * score[..., 0], -kept * curvature[..., 0]


def _informations(layout: Layout, kept: Array, theta: Array) -> Sums:
    return (_pulled(layout, _jet(layout, kept, theta)[1]),)


def _covariances(layout: Layout, kept: Array, theta: Array, inverse: Array) -> Sums:
    return RowScores(layout, *_jet(layout, kept, theta), inverse).covariances()


def _terms(layout: Layout, kept: Array, theta: Array, inverse: Array, along: Array) -> Sums:
    return RowScores(layout, *_jet(layout, kept, theta), inverse).terms(along)


def _pulled(layout: Layout, weights: Array) -> Array:
    """The sum over rows of ``z_a w_ab z_b'`` (d, d), for weights (k, k, m) of each cell's rows."""
    total, each = layout.cell_pairs.x_of_pair.total, layout.cells.counts * weights
    lower = [[total(each[a, b][:, None]) for b in range(a + 1)] for a in range(len(each))]
    return layout.bound.pullback_curvature(lower)[:, :, 0]


def _leverage(layout: Layout, inverse: Array) -> Array:
    """``z_a' inverse z_b`` of the rows of each cell, (k, k, m)."""
    linear = layout.bound
    blocks = list(zip(linear.designs, linear.slices, strict=True))
    at_x = [
        [((z @ inverse[rows, columns]) * other).sum(1) for other, columns in blocks]
        for z, rows in blocks
    ]
    return np.array(at_x)[:, :, layout.cells.x_index]


def _alone(information: Array, leverage: Array) -> Array:
    """What takes the score of a row to that at the fit without it, (m, k, k)."""
    share = np.einsum("abm,bcm->mac", information, leverage)
    size = np.trace(share, axis1=1, axis2=2)
    share *= np.minimum(1.0, _MOST / np.maximum(size, _MOST))[:, None, None]
    return np.linalg.inv(np.eye(share.shape[1]) - share)


def _freedoms(information: Array, joint: Array, squares: Array, variances: Array) -> Array:
    """Degrees of freedom (D,) of variances from HC3, from `RowScores.terms`."""
    shared = np.linalg.solve(information, joint)
    all_squares = squares + np.trace(shared @ shared, axis1=1, axis2=2)
    total = variances**2
    # Without any spread of the terms the freedom is unlimited, and so is it where there are none.
    least = np.maximum(total / _UNLIMITED, 1e-300)
    freedom: Array = total / np.maximum(all_squares, least)
    return freedom
