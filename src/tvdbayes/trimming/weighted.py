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


def widening(
    layout: Layout, kept: Array, theta: Array, units: SamplingUnits | None = None
) -> Array:
    """The map (d, d) of deviations from the estimate theta (d,) that corrects both.

    ``kept`` (m,) are the weights of the rows of each cell; ``units`` are what is reweighted, if not
    the rows (see `unit_scores`). With ``V' HC0 V = 1`` and
    ``V' HC3 V = L`` it is ``inv(V') sqrt(L) F V'``, where F are the factors of the t laws along the
    columns of V. Of all maps from HC0 to HC3 this one does not depend on the coding of the columns.
    """
    _, score, curvature = layout.cell_pairs.log_jet(theta[:, None])
    score, information = kept * score[..., 0], -kept * curvature[..., 0]
    try:
        inverse = np.asarray(np.linalg.inv(_pulled(layout, information)), float)
        scores = (
            RowScores(layout, score, information, inverse)
            if units is None
            else UnitScores(layout, units, score, information, inverse)
        )
        plain, wide = (inverse @ each @ inverse for each in scores.covariances())
        root = np.linalg.cholesky(plain)
        inside = np.linalg.solve(root, np.linalg.solve(root, wide).T)
        size, axes = np.linalg.eigh((inside + inside.T) / 2)
    except np.linalg.LinAlgError:
        # Where the data leave a direction without any spread there is nothing to widen.
        return np.eye(len(theta))
    directions = np.linalg.solve(root.T, axes)
    freedom = np.array([scores.freedom(inverse @ along) for along in directions.T])
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
        """Degrees of freedom of the variance of ``along @ score``, from HC3."""
        return _freedom(self.layout, self.information, self._leverage, self._alone, along)


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


def _freedom(
    layout: Layout, information: Array, leverage: Array, alone: Array, along: Array
) -> float:
    """Degrees of freedom of the variance of ``along @ score``, from HC3; ``along`` is (d,).

    The terms q of a row are ``b' s`` with scores s at the estimate, whose covariances under the
    model are ``b_i' C_i b_i [i = j] - g_i' inv(I) g_j``, ``g = z C b``.
    """
    linear, cells = layout.bound, layout.cells
    at_x = [z @ along[part] for z, part in zip(linear.designs, linear.slices, strict=True)]
    b = np.einsum("mab,am->bm", alone, np.array(at_x)[:, cells.x_index])
    g = np.einsum("abm,bm->am", information, b)
    own, pulled = (b * g).sum(0), np.einsum("am,abm,bm->m", g, leverage, g)
    joint = np.linalg.solve(_pulled(layout, information), _pulled(layout, g[:, None] * g))
    squares = cells.counts @ (own**2 - 2 * own * pulled) + np.trace(joint @ joint)
    total = float((cells.counts @ (own - pulled)) ** 2)
    # Without any spread of the terms the freedom is unlimited, and so is it where there are none.
    return total / max(float(squares), total / _UNLIMITED, 1e-300)
