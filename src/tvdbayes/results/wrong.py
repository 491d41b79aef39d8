r"""The share of rows that are wrong, from what a trimmed likelihood drops.

Let each row be wrong with probability :math:`\epsilon`, all rows alike. Of n rows the rule drops K:
the wrong ones, and by chance a share c of the others,

.. math:: E(K / n) = \epsilon + (1 - \epsilon) c.

Given K, the law of the dropped share is in equal parts Beta(K, n - K + 1) and Beta(K + 1, n - K):
the laws behind both ends of the interval of Clopper and Pearson (1934), the former of which is 0
where nothing is dropped. The law of c is that of what the rule drops of data sets of the model's
own making. Solved for :math:`\epsilon` and cut at 0, this gives the law of the share of wrong rows.

Here rows far out in the covariates are judged like all others, by their own outcomes: where they
were kept out of the fit as a block, some of them may be good. Wrong rows whose outcomes are usual
under the model are not dropped, so no data can say how many of them there are.
"""

import numpy as np
from scipy.special import betaincinv

from tvdbayes._typing import Array
from tvdbayes.results.rows import layout_of
from tvdbayes.sampling.posterior import Posterior
from tvdbayes.trimming import kept_share

__all__ = ["dropped_rows", "wrong_share"]

_POINTS = 200
"""Quantiles that stand for the law of the dropped share: ends of intervals are right to 1 %."""


def dropped_rows(posterior: Posterior) -> float:
    """How many rows of the data the rule of a trimmed fit drops for their own outcomes."""
    layout, cells = layout_of(posterior), posterior.cells
    theta = layout.bound.from_user(posterior.minimiser[:, None])[:, 0]
    return float(cells.counts @ (1 - kept_share(layout, cells.p, theta, cells.n_obs)))


def wrong_share(dropped: float, n_obs: float, by_chance: Array) -> Array:
    """Equally likely values of the share of wrong rows, sorted, where so many rows were dropped.

    ``by_chance`` holds the share that is dropped of each of some clean data sets.

    Examples
    --------
    >>> import numpy as np
    >>> from tvdbayes.results.wrong import wrong_share
    >>> np.quantile(wrong_share(50, 500, np.zeros(20)), [0.05, 0.95]).round(3)
    array([0.08 , 0.124])
    >>> np.quantile(wrong_share(1, 500, np.full(20, 0.002)), [0.05, 0.95]).round(3)
    array([0.   , 0.006])
    """
    at = (np.arange(_POINTS) + 0.5) / _POINTS
    left = max(n_obs - dropped, 0.0)
    high = betaincinv(dropped + 1, left, at) if left else np.ones(_POINTS)
    low = betaincinv(dropped, left + 1, at) if dropped else np.zeros(_POINTS)
    share = np.concatenate([low, high])
    chance = by_chance[:, None]
    wrong: Array = np.maximum((share - chance) / (1 - chance), 0.0)
    return np.sort(wrong.ravel())
