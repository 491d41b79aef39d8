r"""How much wider the draws of a weighted likelihood must be for rows with leverage.

The Bayesian bootstrap of an estimate has, to first order, the sandwich covariance

.. math:: V_0 = I^{-1} \Big(\sum_i w_i^2 s_i s_i^T\Big) I^{-1},

with scores s, weights w and the information I (White, 1980: HC0). Rows with leverage pull the fit
to themselves, so their scores are too small, and intervals from few rows too short. HC3 (MacKinnon
and White, 1985) takes the score of each row at the fit without it,
:math:`(1 - h_i)^{-1} s_i`, where h is the leverage of the row.
"""

import numpy as np

from tvdbayes._typing import Array
from tvdbayes.objective import Layout

__all__ = ["widening"]

_MOST = 0.9
"""Leverages are taken to be at most this."""


def widening(layout: Layout, kept: Array, theta: Array) -> Array:
    """The map (d, d) that takes the covariance HC0 to HC3; ``kept`` (m,) are the weights of rows.

    Of the maps that do so it is the one that does not depend on the coding of the columns: with
    ``V' HC0 V = 1`` and ``V' HC3 V = L`` it is ``inv(V') sqrt(L) V'``.
    """
    cells, linear = layout.cells, layout.linear
    _, score, curvature = layout.cell_pairs.log_jet(theta[:, None])
    score, information = score[..., 0], -curvature[..., 0]
    d, k = linear.n_params, len(score)
    total = layout.cell_pairs.x_of_pair.total

    def pulled(weights: Array) -> Array:
        """Sum over cells of z_a w_ab z_b', for weights (k, k, m)."""
        parts = [[total(weights[a, b][:, None]) for b in range(a + 1)] for a in range(k)]
        return linear.pull_curvature(parts)[:, :, 0]

    whole = pulled(cells.counts * kept * information)
    try:
        inverse = np.linalg.inv(whole)
        leverage = np.empty((k, k, cells.n_x))
        for a, left in enumerate(linear.slices):
            for b, right in enumerate(linear.slices):
                leverage[a, b] = np.einsum(
                    "ni,ij,nj->n", linear.designs[a], inverse[left, right], linear.designs[b]
                )
        share = kept * np.einsum("abm,bcm->acm", information, leverage[:, :, cells.x_index])
        size = np.trace(share)
        share *= np.minimum(1.0, _MOST / np.maximum(size, 1e-300))
        away = np.linalg.solve(np.eye(k) - share.transpose(2, 0, 1), score.T[:, :, None])[:, :, 0].T
        plain, wide = (
            inverse @ pulled(cells.counts * kept**2 * each[:, None] * each) @ inverse
            for each in (score, away)
        )
        root = np.linalg.cholesky(plain)
        inside = np.linalg.solve(root, np.linalg.solve(root, wide).T)
        size, axes = np.linalg.eigh((inside + inside.T) / 2)
        found: Array = root @ (axes * np.sqrt(np.maximum(size, 1.0))) @ axes.T
        return found @ np.linalg.inv(root)
    except np.linalg.LinAlgError:
        # A fit without any spread in some direction has nothing to widen there.
        return np.eye(d)
