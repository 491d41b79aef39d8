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
from tvdbayes._typing import Array, IntArray
from tvdbayes.large.problems import RowMasses, SummedGroups, SummedRows, UnitMasses
from tvdbayes.large.rows import AbstractRows
from tvdbayes.large.shares import Shares
from tvdbayes.large.sums import Sum, slopes
from tvdbayes.large.trim import TrimmedRows
from tvdbayes.large.weights import UNWEIGHTED
from tvdbayes.objective import Penalty
from tvdbayes.sampling.plan import Solved
from tvdbayes.sampling.trimmed import Recentred
from tvdbayes.solvers import Accuracy, Solution, newton

Progress = Callable[[int, int], None] | None

_ALONE = np.array([UNWEIGHTED])
_DISTANCES = Accuracy(tau=0.0, decrement=0.0)

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


def solve_closest(
    rows: AbstractRows,
    start: Array,
    ordinary: Array,
    *,
    n_draws: int,
    ridge: float,
    progress: Progress = None,
) -> tuple[Solved, list[Solved]]:
    """The closest model to the unweighted data, and from there to those of the draws, in blocks.

    The search starts from the robust estimate and maximum likelihood (d,) of a sample, in the
    user's coordinates. The ridge penalises the variance of the linear predictor, and never the
    likelihood fit; `progress` is called with the draws done and the draws in all.
    """
    bound = rows.rules.bound
    starts = bound.from_user(np.column_stack([start, ordinary]))
    table = UnitMasses.make(rows, _ALONE)
    goal = _accuracy(rows, table)
    twin = _likelihood(rows, _ALONE, starts[:, 1])
    plain = newton(twin, starts[:, 1:])
    twin = _likelihood(rows, _ALONE, plain.theta[:, 0])

    groups = _groups(rows, table, ridge, starts[:, 0], goal)
    both = newton(groups.take(np.zeros(2, np.intp)), starts)
    near = both.theta[:, [int(both.value.argmin())]]
    # Once more from there: derivatives, and the point that ties go to, were those of the sample.
    groups = _groups(rows, table, ridge, near[:, 0], goal)
    found = newton(groups, near, tau=goal.tau)
    groups = _groups(rows, table, ridge, found.theta[:, 0], goal)

    def solved(robust: Solution, likelihood: Solution) -> Solved:
        """Both solutions in the user's coordinates; distances without penalties."""
        return Solved(
            replace(robust, theta=bound.to_user(robust.theta)),
            robust.value - groups.penalty.value(robust.theta),
            replace(likelihood, theta=bound.to_user(likelihood.theta)),
            likelihood.value - twin.penalty.value(likelihood.theta),
        )

    def block(draws: IntArray) -> Solved:
        units, same = UnitMasses.make(rows, draws, groups.table.units), np.ones(draws.size)
        robust = newton(replace(groups, table=units), found.theta * same, tau=goal.begin)
        weighted = replace(twin, table=RowMasses.make(rows, draws))
        return solved(robust, newton(weighted, plain.theta * same))

    return solved(found, plain), _blocks(block, n_draws, _together(rows), progress)


def solve_trimmed(
    trimmed: TrimmedRows,
    start: Array,
    ordinary: Array,
    *,
    n_draws: int,
    progress: Progress = None,
) -> tuple[Solved, list[Solved], Shares | None]:
    """The trimmed likelihood of the unweighted data and of the draws, with the shares of the rows.

    ``start`` and ``ordinary`` (d,), the fit of a sample without far rows and its maximum
    likelihood, are in the user's coordinates. Draws are widened about the estimate.
    """
    rows = trimmed.rows
    bound = rows.rules.bound
    begin, plain = bound.from_user(np.column_stack([start, ordinary])).T
    twin = replace(trimmed, penalty=0.0)
    plain = twin.fit(None, plain, 0.0)
    estimate, shares = trimmed.estimate(begin)
    still = np.zeros(len(plain))
    moved = Recentred(estimate, still, trimmed.stretch(shares, estimate))
    plain_moved = Recentred(plain, still, twin.stretch(None, plain))
    units = UnitMasses.make(rows, _ALONE).units

    def block(draws: IntArray) -> Solved:
        robust, likelihood = trimmed.draws(draws, shares, estimate), twin.draws(draws, None, plain)
        theta, likelihood_theta = moved(robust.theta), plain_moved(likelihood.theta)
        masses = UnitMasses.make(rows, draws, units)
        # No step is taken: the distance needs no derivatives.
        distance = SummedGroups(rows, masses, Penalty.none(bound.n_params), np.zeros(0), _DISTANCES)
        return Solved(
            replace(robust, theta=bound.to_user(theta)),
            distance.distance(theta),
            replace(likelihood, theta=bound.to_user(likelihood_theta)),
            _likelihood(rows, draws, plain).distance(likelihood_theta),
        )

    return block(_ALONE), _blocks(block, n_draws, _together(rows), progress), shares


def _blocks(
    solve: Callable[[IntArray], Solved], n_draws: int, size: int, progress: Progress
) -> list[Solved]:
    """The draws, so many at a time."""
    blocks: list[Solved] = []
    for first in range(0, n_draws, size):
        draws = np.arange(first, min(first + size, n_draws))
        blocks.append(solve(draws))
        if progress is not None:
            progress(int(draws[-1]) + 1, n_draws)
    return blocks


def _likelihood(rows: AbstractRows, draws: IntArray, reference: Array) -> SummedRows:
    penalty = Penalty.make(0.0, rows.rules.bound, reference)
    return SummedRows(rows, RowMasses.make(rows, draws), penalty)


def _accuracy(rows: AbstractRows, table: UnitMasses) -> Accuracy:
    """How finely to solve: finer than what chance does to the groups and to the draws."""
    rules = rows.rules
    n_obs = 1 / table.share[0]
    chance = float(np.sqrt(rules.compared.n_groups / rules.compared.n_partitions / n_obs))
    tau = min(_SHARP, _FINE * chance)
    return Accuracy(
        tau, min(1e-7, _SURE / n_obs), begin=max(tau, min(0.02, chance)), rounding=1e-14
    )


def _together(rows: AbstractRows) -> int:
    """Draws that are solved at once."""
    n_units = rows.rules.compared.n_units
    most = min(_UNITS_BY_DRAWS // n_units, _JACOBIAN // (n_units * rows.rules.bound.n_params))
    return max(1, min(most, _MOST_DRAWS))


def _groups(
    rows: AbstractRows, table: UnitMasses, ridge: float, reference: Array, goal: Accuracy
) -> SummedGroups:
    """The problem of a table of one draw, with derivatives taken at the reference (d,)."""
    mass, change = rows.total(Sum(slopes, table.draws, (reference[:, None],)))
    share = change[table.units] / np.maximum(mass[table.units], tiny(mass))
    anchor = np.ascontiguousarray(share.T)[:, :, None]
    return SummedGroups(rows, table, Penalty.make(ridge, rows.rules.bound, reference), anchor, goal)
