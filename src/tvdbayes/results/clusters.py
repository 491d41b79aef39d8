"""How far whole clusters are from what the model expects of them.

Two sums over the rows i of a cluster are compared with what the model makes of them: outcomes that
are all too large, or all too small, and outcomes that are improbable,

    z = |sum_i s_i| / sd,    sd^2 = sum_i v_i + r sum_{i != j} sqrt(v_i v_j),

with scores s (`trimming.dependence`) of variance v and their correlation r within clusters; in the
second, one-sided, s is minus the standardised log-probability. Both are clipped, so that one wild
row is not a wild cluster. The surprise of a cluster is the larger z.
"""

from dataclasses import dataclass

import numpy as np

from tvdbayes._typing import Array, IntArray
from tvdbayes.objective import Layout
from tvdbayes.trimming import outcome_scores, rarity_scores


@dataclass(frozen=True)
class ClusterRule:
    """The correlations within clusters of both scores."""

    outcome: float
    rarity: float

    def surprise(
        self, layout: Layout, theta: Array, unit: IntArray, cell: IntArray, rows: Array
    ) -> Array:
        """How far each cluster (U,) is from the model at theta (d,), in deviations.

        So many ``rows`` (n,) are in these units and cells.
        """
        n_units = int(unit.max()) + 1

        def z(scores: tuple[Array, Array], r: float) -> Array:
            score, variance = scores
            total = np.array([np.bincount(unit, rows * s[cell], n_units) for s in score])
            own = np.bincount(unit, rows * variance[cell], n_units)
            whole = np.bincount(unit, rows * np.sqrt(variance)[cell], n_units) ** 2
            spread = np.maximum(own + r * (whole - own), 1e-12)
            # Indicators of names have no sign; other scores are a single one.
            away = np.sqrt((total**2).sum(0)) if len(total) > 1 else total[0]
            found: Array = away / np.sqrt(spread)
            return found

        large = np.abs(z(outcome_scores(layout, theta), self.outcome))
        rare = z(rarity_scores(layout, theta), self.rarity)
        return np.maximum(large, rare)
