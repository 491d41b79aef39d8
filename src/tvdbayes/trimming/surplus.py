"""Rows that are too many: more rows of an outcome in a group, or in the tails, than due.

Both checks take away weight only where the data hold more rows than chance would make of the
model: P(Poisson(expected) >= observed) below a level. What lies within chance keeps weight 1, so
that on clean data a trimmed likelihood is the likelihood.
"""

from collections.abc import Callable
from functools import partial
from itertools import pairwise

import numpy as np
from scipy.special import ndtr

from tvdbayes._array import Segments, gammainc, tiny, xp
from tvdbayes._typing import Array, BoolArray, IntArray
from tvdbayes.models.families import AbstractFamily
from tvdbayes.objective import Layout

_GROUP_LEVEL = 0.005
_ROUNDS = 2
"""How often the good part of a group is estimated. A group all of whose rows are wrong then keeps
next to nothing; in groups of few rows more rounds would follow the noise."""

_TAIL_LEVEL = 0.01
_TAILS = 10.0 ** np.array([-8, -6, -5, -4.5, -4, -3.5, -3.25, -3, -2.75, -2.5])
"""Tail probabilities up to which rows are counted."""
_TAILS_OF_NAMES = 10.0 ** np.array([-2.25, -2, -1.75, -1.5])
"""Further ones where outcomes are names, more than two: reversed ratings are hardly rarer. Of two
outcomes the other one is usual, and dropping it makes the model surer than it should be."""
_MOST_ROWS = 1000
"""Rows whose laws are summed to find how many rows are due in the tails."""


def kept_share(layout: Layout, p: Array, theta: Array, n_obs: float) -> Array:
    """The share of each cell's mass that is kept at parameters theta (d,), of a table p (m,)."""
    return kept_shares(layout, p[:, None], theta[:, None], n_obs)[:, 0]


def kept_shares(
    layout: Layout,
    p: Array,
    theta: Array,
    n_obs: float,
    due: Array | None = None,
    *,
    masses: tuple[Array, Array] | None = None,
    ends: IntArray | None = None,
) -> Array:
    """The same for several tables p (m, B) at parameters (d, B).

    ``due`` is what `due_in_tails` says of them, where it is known. It hardly depends on the
    parameters, so one answer does for all tables with as many rows at each x. ``masses`` are those
    of `unit_masses`, where they are known. With ``ends`` several tables stand one after the other
    in each column; they are the first cells, and how many cells there are.
    """
    sums = layout.units if masses or layout.batches is None else layout.batches
    data, model = masses or sums.masses(p, theta)
    too_many = partial(more_than_chance, scale=n_obs * sums.n_partitions)
    return np.minimum(
        sums.of_cells(good_of_units(data, model, sums.group_of_unit, too_many)),
        _of_tails(layout, p, theta, n_obs, due=due, ends=ends),
    )


def unit_masses(layout: Layout, p: Array, theta: Array) -> tuple[Array, Array]:
    """Masses (U, B) of data and model, of tables p (m, B) at parameters (d, B), in each unit."""
    return layout.units.masses(p, theta)


def tail_probability(layout: Layout, theta: Array) -> Array:
    """How far out the outcome of each cell is, as a probability, (m, B), at parameters (d, B).

    Outcomes that are names: the probability of all outcomes at most as probable. Counts: with r the
    probability of the outcome over that of the mean, the normal tail beyond sqrt(-2 log r).
    """
    cells = layout.cells
    eta = layout.bound.eta(theta)[:, cells.x_index]
    return _tail(layout.family, cells.y[:, None], eta, cells.trials[cells.x_index, None])


def good_share(
    layout: Layout, data: Array, model: Array, too_many: Callable[[Array, Array], BoolArray]
) -> Array:
    """The share of each cell's mass that the model explains, (m, B), of masses as `unit_masses`.

    ``too_many`` says in which units (a group and an outcome) the masses of data and model (U, B)
    differ by more than chance. Such a unit keeps the mass that the model would give it if only the
    good part of its group were there. A cell in several groups has the mean of its shares.
    """
    return layout.units.of_cells(good_of_units(data, model, layout.units.group_of_unit, too_many))


def good_of_units(
    data: Array, model: Array, groups: Segments, too_many: Callable[[Array, Array], BoolArray]
) -> Array:
    """See `good_share`: the share of the mass of each unit, (U, B)."""
    in_group = groups.total(data)
    good = model
    for _ in range(_ROUNDS):
        good = groups.spread(groups.total(xp.minimum(data, good)) / in_group) * model
    kept: Array = xp.where(too_many(data, model), xp.minimum(good / data, 1.0), 1.0)
    return kept


def more_than_chance(data: Array, model: Array, scale: float = 1.0) -> BoolArray:
    """Whether units hold more rows than chance would make of the model; masses times the scale are
    numbers of rows.
    """
    surplus: BoolArray = data > model
    # The tail is slow, and of no interest elsewhere.
    tail = gammainc(scale * data[surplus], scale * model[surplus])
    surplus[surplus] = tail < _GROUP_LEVEL
    return surplus


def _of_tails(
    layout: Layout,
    p: Array,
    theta: Array,
    n_obs: float,
    *,
    due: Array | None = None,
    ends: IntArray | None = None,
) -> Array:
    """Kept shares by tails, (m, B): where too many rows are surprising, the most surprising go.

    Groups mix rows of different rates: a count that is impossible for a row may be usual for its
    neighbour. Here every row is judged by its own law.
    """
    tail, levels = tail_probability(layout, theta), tail_levels(layout.family)
    kept, surprising = np.ones(p.shape), (tail <= levels[-1]) & (p > 0)
    if not surprising.any():
        return kept
    if due is None:
        due = due_in_tails(layout, p.mean(1), theta.mean(1))
    for start, end in pairwise([0, len(p)] if ends is None else ends.tolist()):
        for column in np.flatnonzero(surprising[start:end].any(0)):
            table = slice(start, end), column
            kept[table] = _without_surplus(n_obs * p[table], tail[table], n_obs * due, levels)
    return kept


def _without_surplus(rows: Array, tail: Array, due: Array, levels: Array) -> Array:
    """Kept shares (m,) of so many rows (m,) with these tail probabilities; ``due`` are at or below
    each of the levels.
    """
    too_many = surplus_in_tails(np.array([rows[tail <= level].sum() for level in levels]), due)
    kept = np.ones(len(rows))
    if too_many > 0:
        order = np.argsort(tail, kind="stable")
        before = np.cumsum(rows[order]) - rows[order]
        kept[order] = np.clip(1 - (too_many - before) / np.maximum(rows[order], tiny(rows)), 0, 1)
    return kept


def surplus_in_tails(seen: Array, due: Array) -> int:
    """How many of the most surprising rows are too many, where so many were seen and so many are
    due at or below each level.
    """
    surprising = (seen > 0) & (gammainc(np.maximum(seen, 1e-9), due) < _TAIL_LEVEL)
    return round(float(np.max(np.where(surprising, seen - due, 0.0))))


def due_in_tails(layout: Layout, p: Array, theta: Array) -> Array:
    """The mass due at or below each of `tail_levels`, of a table p (m,) at parameters (d,)."""
    x_mass = layout.cell_pairs.x_of_pair.total(p[:, None])[:, 0]
    return _due(layout, x_mass, layout.bound.eta(theta[:, None])[..., 0])


def _due(layout: Layout, x_mass: Array, eta: Array) -> Array:
    """The mass that the model itself puts at or below each of `tail_levels`."""
    family, trials = layout.family, layout.cells.trials
    # Of many rows some are enough: evenly spaced in the order of their predictors, which does not
    # depend on the order of rows and columns.
    order = np.lexsort((*eta, trials))
    order = order[:: -(-len(order) // _MOST_ROWS)]
    at, mass = eta[:, order], x_mass[order] / x_mass[order].sum()
    y, weights = family.nodes(at, trials[order], 1.0)
    tail = _tail(family, y, at[:, None], trials[order])
    law = mass * weights * family.pmf(y, at[:, None], trials[order])
    return np.array([law[tail <= level].sum() for level in tail_levels(family)])


def tail_levels(family: AbstractFamily) -> Array:
    """Tail probabilities up to which rows are counted."""
    named = not family.counts and len(family.levels) > 2
    return np.concatenate([_TAILS, _TAILS_OF_NAMES]) if named else _TAILS


def _tail(family: AbstractFamily, y: Array, eta: Array, trials: Array) -> Array:
    """See `tail_probability`."""
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
