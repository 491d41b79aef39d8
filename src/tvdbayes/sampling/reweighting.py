"""One-step reweighting: maximum likelihood with the weight of unexplained mass taken away.

The closest model in total variation says which outcomes hold more mass than can be explained. Their
weight is cut to what can, and weighted maximum likelihood uses the rest of the data at its full
efficiency. With masses p(u) and f(u; theta) of the units, of which n rows are seen,

    theta <- argmax sum_{x, y} p(x, y) v(u) log f(y | x; theta),
    v(u) = 1 if p(u) <= f(u) + 3 sqrt(f(u) / n), else g(u) f(u) / p(u),

where g(u) is the share of the group of u that is left.

References
----------
Gervini, D. and Yohai, V. J. (2002). A class of robust and fully efficient regression estimators.
Annals of Statistics 30, 583-616.
"""

from tvdbayes._array import xp
from tvdbayes._typing import Array, BoolArray
from tvdbayes.objective import Layout, Objective
from tvdbayes.solvers import newton
from tvdbayes.trimming import good_share, unit_masses

_PASSES = 3
"""Times that weights and fit are renewed, chosen by trial on the designs of ``benchmarks``."""
_DEVIATIONS = 3.0
"""Excess of data over model mass, in binomial standard deviations, that is called unexplained."""


def explained(layout: Layout, p: Array, theta: Array, n_obs: float) -> Array:
    """The share of each cell's mass that parameters (d, B) explain, (m, B), of tables p (m, B).

    It is 1 unless the mass of the cell's unit (group and outcome) exceeds that of the model by more
    than chance would make it; then it is the mass that the model would give the unit if only the
    good part of its group were there, divided by the mass that is there. A cell in several groups
    has the mean of its shares.
    """
    units = layout.units

    def too_many(data: Array, model: Array) -> BoolArray:
        deviation = xp.sqrt(model / (n_obs * units.n_partitions))
        excess: BoolArray = data > model + _DEVIATIONS * deviation
        return excess

    return good_share(layout, *unit_masses(layout, p, theta), too_many)


def reweighted_fit(
    layout: Layout, likelihood: Objective, p: Array, theta: Array, n_obs: float
) -> Array:
    """Weighted maximum likelihood (d, B) from robust parameters theta (d, B).

    ``layout`` must compare every outcome: of two, not just one.
    """
    p = layout.put(p)
    for _ in range(_PASSES):
        kept = p * explained(layout, p, theta, n_obs)
        kept /= kept.sum(0)
        theta = newton(likelihood.on(kept), theta).theta
    return theta
