"""Rows that are too many: more rows of an outcome in a group, or in the tails, than due.

Both checks take away weight only where the data hold more rows than chance would make of the
model: P(Poisson(expected) >= observed) below a level. What lies within chance keeps weight 1, so
that on clean data a trimmed likelihood is the likelihood.
"""

from collections.abc import Callable

import numpy as np
from scipy.special import ndtr

from tvdbayes._array import poisson_tail, tiny, xp
from tvdbayes._typing import Array, BoolArray
from tvdbayes.families import AbstractFamily
from tvdbayes.objective import Layout

__all__ = ["good_share", "kept_share"]

_GROUP_LEVEL = 0.005
_ROUNDS = 2
"""How often the good part of a group is estimated. A group all of whose rows are wrong then keeps
next to nothing; in groups of few rows more rounds would follow the noise."""

_TAIL_LEVEL = 0.01
_TAILS = 10.0 ** np.array([-8, -6, -5, -4.5, -4, -3.5, -3.25, -3, -2.75, -2.5])
"""Tail probabilities up to which rows are counted."""
_MOST_ROWS = 1000
"""Rows whose laws are summed to find how many rows are due in the tails."""


def kept_share(layout: Layout, p: Array, theta: Array, n_obs: float) -> Array:
    """The share of each cell's mass that is kept at parameters theta (d,), of a table p (m,)."""
    return np.minimum(
        _of_groups(layout, p[:, None], theta[:, None], n_obs)[:, 0],
        _of_tails(layout, p, theta, n_obs),
    )


def good_share(
    layout: Layout, p: Array, theta: Array, too_many: Callable[[Array, Array], BoolArray]
) -> Array:
    """The share of each cell's mass that the model explains, (m, B), of tables p (m, B).

    ``too_many`` says in which units (a group and an outcome) the masses of data and model (U, B)
    differ by more than chance. Such a unit keeps the mass that the model at theta (d, B) would give
    it if only the good part of its group were there. A cell in several groups has the mean of its
    shares.
    """
    units = layout.units
    groups = units.group_of_unit
    data = xp.maximum(units.data_mass(p), tiny(p))
    model = units.total(units.atom_mass(p) * units.pairs.pmf(theta))
    in_group = groups.total(data)
    good = model
    for _ in range(_ROUNDS):
        good = groups.spread(groups.total(xp.minimum(data, good)) / in_group) * model
    return units.of_cells(xp.where(too_many(data, model), xp.minimum(good / data, 1.0), 1.0))


def _of_groups(layout: Layout, p: Array, theta: Array, n_obs: float) -> Array:
    """Kept shares by groups, (m, B), of tables p (m, B) at parameters (d, B)."""
    scale = n_obs * layout.units.n_partitions

    def too_many(data: Array, model: Array) -> BoolArray:
        surplus: BoolArray = (data > model) & (
            poisson_tail(scale * data, scale * model) < _GROUP_LEVEL
        )
        return surplus

    return good_share(layout, p, theta, too_many)


def _of_tails(layout: Layout, p: Array, theta: Array, n_obs: float) -> Array:
    """Kept shares by tails, (m,): where too many rows are surprising, the most surprising go.

    Groups mix rows of different rates: a count that is impossible for a row may be usual for its
    neighbour. Here every row is judged by its own law.
    """
    cells = layout.cells
    eta = layout.bound.eta(theta[:, None])[..., 0]
    tail = _tail(layout.family, cells.y, eta[:, cells.x_index], cells.trials[cells.x_index])
    seen = n_obs * np.array([p[tail <= level].sum() for level in _TAILS])
    kept = np.ones(len(p))
    if not seen[-1]:
        return kept
    due = n_obs * _due(layout, layout.cell_pairs.x_of_pair.total(p[:, None])[:, 0], eta)
    surprising = (seen > 0) & (poisson_tail(np.maximum(seen, 1e-9), due) < _TAIL_LEVEL)
    too_many = float(np.max(np.where(surprising, seen - due, 0.0)))
    order = np.argsort(tail, kind="stable")
    before = np.cumsum(n_obs * p[order]) - n_obs * p[order]
    kept[order] = np.clip(
        1 - (round(too_many) - before) / np.maximum(n_obs * p[order], tiny(p)), 0, 1
    )
    return kept


def _due(layout: Layout, x_mass: Array, eta: Array) -> Array:
    """The mass that the model itself puts at or below each of `_TAILS`."""
    family, trials = layout.family, layout.cells.trials
    # Of many rows some are enough: evenly spaced in the order of their predictors, which does not
    # depend on the order of rows and columns.
    order = np.lexsort((*eta, trials))
    order = order[:: -(-len(order) // _MOST_ROWS)]
    at, mass = eta[:, order], x_mass[order] / x_mass[order].sum()
    y, weights = family.nodes(at, trials[order], 1.0)
    tail = _tail(family, y, at[:, None], trials[order])
    law = mass * weights * family.pmf(y, at[:, None], trials[order])
    return np.array([law[tail <= level].sum() for level in _TAILS])


def _tail(family: AbstractFamily, y: Array, eta: Array, trials: Array) -> Array:
    """How far out outcomes are, as a probability; arrays broadcast as in `AbstractFamily`.

    Outcomes that are names: the probability of all outcomes at most as probable. Counts: with r the
    probability of the outcome over that of the mean, the normal tail beyond sqrt(-2 log r).
    """
    if not family.counts:
        levels = [float(level) for level in range(max(len(family.levels), 2))]
        own = family.pmf(y, eta, trials) * (1 + 1e-12)
        each = (family.pmf(np.full_like(y, level), eta, trials) for level in levels)
        return np.asarray(sum(np.where(pmf <= own, pmf, 0.0) for pmf in each))
    centre = np.round(family.mean(eta, trials))
    centre = np.where(family.possible(centre, trials), centre, y)
    gap = family.log_pmf(centre, eta, trials) - family.log_pmf(y, eta, trials)
    tail: Array = ndtr(-np.sqrt(2 * np.maximum(gap, 0.0)))
    return tail
