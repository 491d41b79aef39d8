"""The fit to a table whose cells have other masses."""

from tvdbayes._typing import Array
from tvdbayes.objective import Layout, Objective
from tvdbayes.objective.divergences import KLD, DensityPower
from tvdbayes.solvers import newton

__all__ = ["weighted_fit"]


def weighted_fit(
    layout: Layout,
    mass: Array,
    start: Array,
    ridge: float,
    divergence: KLD | DensityPower | None = None,
) -> Array:
    """Parameters (d,) with these masses (m,) of the cells; maximum likelihood unless told."""
    objective = Objective(layout, divergence or KLD(), ridge, reference=start)
    theta: Array = newton(objective.on((mass / mass.sum())[:, None]), start[:, None]).theta[:, 0]
    return theta
