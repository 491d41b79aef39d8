"""Algorithm 1 of the paper on rows on workers: the unweighted data first, then blocks of draws.

References
----------
Knoblauch, J. and Vomfell, L. (2020). Robust Bayesian inference for discrete outcomes with the total
variation distance. arXiv:2010.13456.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from tvdbayes._array import tiny
from tvdbayes._typing import Array
from tvdbayes.large.cluster.problems import SummedGroups, SummedRows, UnitMasses
from tvdbayes.large.cluster.rows import AbstractRows
from tvdbayes.large.cluster.sums import Slopes
from tvdbayes.large.cluster.weights import UNWEIGHTED
from tvdbayes.objective import Penalty
from tvdbayes.sampling.plan import Solved
from tvdbayes.solvers import Accuracy, Solution, newton

_MOST_DRAWS = 64
"""Draws that are solved together; each sum over rows serves all of them."""

_UNITS_BY_DRAWS = 1 << 20
"""Units x draws of one sum: 8 MiB, which is what a task may carry without a complaint of Dask."""
_JACOBIAN = 1 << 25
"""Parameters x units x draws: 256 MiB in this process."""

_SHARP = 1e-4
_FINE = 0.02
"""The last smoothing, and the same as a share of what chance does to a group."""

_SURE = 1e-3
"""Newton's decrement at the end, as a share of 1 / n: a thirtieth of the spread of the draws."""


def solve_rows(
    rows: AbstractRows,
    start: Array,
    ordinary: Array,
    *,
    n_draws: int,
    ridge: float,
    progress: Callable[[int, int], None] | None = None,
) -> tuple[Solved, list[Solved]]:
    """Solve the unweighted data, and from there the draws, in blocks.

    The search starts from the robust estimate and maximum likelihood (d,) of a sample, in the
    user's coordinates. The ridge penalises the variance of the linear predictor, and never the
    likelihood fit; `progress` is called with the draws done and the draws in all.
    """
    bound = rows.rules.bound
    starts = bound.from_user(np.column_stack([start, ordinary]))
    table = UnitMasses.make(rows, np.array([UNWEIGHTED]))
    goal = _accuracy(rows, table)
    twin = SummedRows(rows, table, _penalty(rows, 0.0, starts[:, 1]))
    plain = newton(twin, starts[:, 1:])
    twin = replace(twin, penalty=_penalty(rows, 0.0, plain.theta[:, 0]))

    groups = _groups(rows, table, ridge, starts[:, 0], goal)
    both = newton(groups.take(np.zeros(2, np.intp)), starts)
    near = both.theta[:, [int(both.value.argmin())]]
    # Once more from there: derivatives, and the point that ties go to, were those of the sample.
    groups = _groups(rows, table, ridge, near[:, 0], goal)
    found = newton(groups, near, tau=goal.tau)
    groups = _groups(rows, table, ridge, found.theta[:, 0], goal)
    unweighted = _solved(rows, found, groups.penalty, plain, twin.penalty)

    blocks: list[Solved] = []
    size = _together(rows)
    for first in range(0, n_draws, size):
        draws = np.arange(first, min(first + size, n_draws))
        table = UnitMasses.make(rows, draws, groups.table.units)
        same = np.ones(draws.size)
        robust = newton(replace(groups, table=table), found.theta * same, tau=goal.begin)
        likelihood = newton(replace(twin, table=table), plain.theta * same)
        blocks.append(_solved(rows, robust, groups.penalty, likelihood, twin.penalty))
        if progress is not None:
            progress(int(draws[-1]) + 1, n_draws)
    return unweighted, blocks


def _accuracy(rows: AbstractRows, table: UnitMasses) -> Accuracy:
    """How finely to solve: finer than what chance does to the groups and to the draws."""
    rules = rows.rules
    n_obs = 1 / table.share[0]
    chance = float(np.sqrt(rules.n_groups / rules.n_partitions / n_obs))
    tau = min(_SHARP, _FINE * chance)
    return Accuracy(
        tau, min(1e-7, _SURE / n_obs), begin=max(tau, min(0.02, chance)), rounding=1e-14
    )


def _together(rows: AbstractRows) -> int:
    """Draws that are solved at once."""
    n_units = rows.rules.n_units
    most = min(_UNITS_BY_DRAWS // n_units, _JACOBIAN // (n_units * rows.rules.bound.n_params))
    return max(1, min(most, _MOST_DRAWS))


def _penalty(rows: AbstractRows, ridge: float, reference: Array) -> Penalty:
    return Penalty.make(ridge, rows.rules.bound, reference)


def _groups(
    rows: AbstractRows, table: UnitMasses, ridge: float, reference: Array, goal: Accuracy
) -> SummedGroups:
    """The problem of a table of one draw, with derivatives taken at the reference (d,)."""
    mass, slopes = rows.total(Slopes(table.draws, reference[:, None]))
    share = slopes[table.units] / np.maximum(mass[table.units], tiny(mass))
    anchor = np.ascontiguousarray(share.T)[:, :, None]
    return SummedGroups(rows, table, _penalty(rows, ridge, reference), anchor, goal)


def _solved(
    rows: AbstractRows, robust: Solution, pull: Penalty, plain: Solution, its_pull: Penalty
) -> Solved:
    """Both solutions in the user's coordinates; distances without penalties."""
    bound = rows.rules.bound
    return Solved(
        replace(robust, theta=bound.to_user(robust.theta)),
        robust.value - pull.value(robust.theta),
        replace(plain, theta=bound.to_user(plain.theta)),
        plain.value - its_pull.value(plain.theta),
    )
