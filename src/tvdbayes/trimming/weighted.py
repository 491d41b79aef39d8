"""The fit to tables whose cells have other masses."""

from tvdbayes._typing import Array
from tvdbayes.objective import Layout, Objective
from tvdbayes.objective.divergences import KLD, DensityPower
from tvdbayes.solvers import newton

__all__ = ["weighted_fit", "weighted_fits"]


def weighted_fit(
    layout: Layout,
    mass: Array,
    start: Array,
    ridge: float,
    divergence: KLD | DensityPower | None = None,
) -> Array:
    """Parameters (d,) with these masses (m,) of the cells; maximum likelihood unless told."""
    return weighted_fits(layout, mass[:, None], start[:, None], ridge, divergence)[:, 0]


def weighted_fits(
    layout: Layout,
    mass: Array,
    start: Array,
    ridge: float,
    divergence: KLD | DensityPower | None = None,
) -> Array:
    """The same for several tables: parameters (d, B) with masses (m, B), each from its start."""
    objective = Objective(layout, divergence or KLD(), ridge, reference=start[:, 0])
    theta: Array = newton(objective.on(mass / mass.sum(0)), start).theta
    return theta
