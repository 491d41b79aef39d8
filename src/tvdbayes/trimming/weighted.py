"""The fit to tables whose cells have other masses."""

from typing import Any

from tvdbayes._typing import Array
from tvdbayes.objective import Layout, Objective
from tvdbayes.objective.divergences import KLD, DensityPower
from tvdbayes.solvers import newton


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
