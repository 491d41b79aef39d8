"""The closest model to each table p: argmin_theta D(p, f_theta), by Newton's method from a pool.

Each draw starts from the candidates of the pool with the lowest distances, and keeps the best end.
In one parameter the search is exact (`solvers.scalar`).
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tvdbayes._typing import Array, BoolArray
from tvdbayes.objective import GroupProblem, Layout, Objective, RowProblem
from tvdbayes.sampling.plan import AbstractPlan, AbstractPrepared, Solved
from tvdbayes.sampling.reweighting import reweighted_fit
from tvdbayes.sampling.setup import Setup
from tvdbayes.solvers import Solution, newton, scalar, solve_from_pool
from tvdbayes.trimming import KeptRows

AnyProblem = GroupProblem | RowProblem


def searched_exactly(objective: Objective) -> bool:
    """Whether one parameter and known kinks allow an exact search."""
    return (
        objective.layout.bound.n_params == 1
        and objective.divergence.kinked
        and objective.layout.units.exact
    )


def recorded(
    objective: Objective,
    problem: AnyProblem,
    found: Solution,
    last: Array | None = None,
    away: BoolArray | None = None,
) -> tuple[Solution, Array]:
    """A solution in the user's coordinates, and its distance.

    ``last`` (d, B) are the parameters after what is done to them, of which the distance is not;
    ``away`` says which draws have their optimum at infinity, where that is known.
    """
    away = objective.runs_away(problem, found.theta) if away is None else away
    theta = objective.layout.bound.to_user(found.theta if last is None else last)
    status = objective.ended(found, away)
    return replace(found, theta=theta, status=status), problem.distance(found.theta)


def scan(layout: Layout, extra: Array, n_grid: int = 64) -> Array:
    """Sorted candidates (K,) for one parameter: the modes of the cells, between and beyond."""
    design, eta = designs(layout)[0][:, 0], saturated(layout)[0]
    modes = np.unique(eta[design != 0] / design[design != 0])
    low, high = modes[0], modes[-1]
    beyond = np.array([1.0, 2.0, 4.0, 8.0, 16.0, 32.0])
    grid = np.linspace(low - 1, high + 1, n_grid)
    between = (modes[1:] + modes[:-1]) / 2
    return np.unique(np.concatenate([modes, between, grid, low - beyond, high + beyond, extra]))


def designs(layout: Layout) -> list[Array]:
    """The columns of each predictor in every cell."""
    return [z[layout.cells.x_index] for z in layout.bound.designs]


def saturated(layout: Layout) -> Array:
    """The predictors (k, m) that would make each cell's outcome the likeliest, offset removed."""
    eta = layout.family.saturated(layout.cell_pairs.y, layout.cell_pairs.trials)[..., 0].copy()
    eta[0] -= layout.bound.offset[layout.cells.x_index]
    return eta


@dataclass(frozen=True, eq=False)
class PreparedSearch(AbstractPrepared):
    """Starts of the draws of a `NewtonPlan`, or of the linear fits that networks begin at.

    Parameters
    ----------
    pool : (d, K)
        Candidates that every draw picks its starts from.
    n_starts : int
        How many of them each draw starts from.
    shift : (d,)
        Added to every draw.
    """

    pool: Array
    n_starts: int
    shift: Array

    def plan(
        self, setup: Setup, rows: KeptRows | None = None, penalty: float = 0.0
    ) -> "NewtonPlan":
        robust, likelihood = self.objectives(setup)
        return NewtonPlan(setup=setup, robust=robust, likelihood=likelihood, start=self)


@dataclass(frozen=True, eq=False, kw_only=True)
class NewtonPlan(AbstractPlan):
    """Newton's method from a pool of candidates."""

    start: PreparedSearch

    def solve(self, robust: Objective, likelihood: Objective, p: Array, *_: Any) -> Solved:
        """Solve tables p (m, B) for both objectives, all of them at once."""
        p = robust.layout.put(p)
        problem = likelihood.on(p)
        start = np.repeat(self.start.likelihood_fit[:, None], p.shape[1], axis=1)
        ordinary = recorded(likelihood, problem, newton(problem, start))
        if robust.divergence == likelihood.divergence and robust.ridge == 0:
            return Solved(*ordinary, *ordinary)
        problem = robust.on(p)
        found, away = self._closest(robust, problem)
        last = self.finished(robust, likelihood, p, found.theta)
        return Solved(*recorded(robust, problem, found, last, away), *ordinary)

    def _closest(self, robust: Objective, problem: AnyProblem) -> tuple[Solution, BoolArray]:
        """The closest model for each table of a problem, and whether that is at infinity."""
        if searched_exactly(robust):
            candidates = self.start.pool[0]
            if robust.layout.cells is not self.robust.layout.cells:
                candidates = scan(robust.layout, candidates)
            found = scalar(problem, candidates)  # type: ignore[arg-type]
        else:
            found = solve_from_pool(problem, self.start.pool, self.start.n_starts)
        away = robust.runs_away(problem, found.theta)
        if away.any():
            # A rare level may look as if it ran away; from where the data are it may not.
            draws = np.flatnonzero(away)
            start = np.repeat(self.start.pool[:, :1], draws.size, axis=1)
            found = found.improved_by(newton(problem.take(draws), start), draws)
            away = robust.runs_away(problem, found.theta)
        return found, away

    def finished(self, robust: Objective, likelihood: Objective, p: Array, theta: Array) -> Array:
        """Draws from minimisers theta (d, B) of tables p: one-step reweighting, and the shift."""
        if self.setup.refine is not None:
            # Every outcome is compared here: of two, each may hold too much.
            layout, n_obs = replace(robust.layout, fold=False), self.setup.reweighted.n_obs
            theta = reweighted_fit(layout, likelihood, p, theta, n_obs)
        return theta + self.shift[:, None]

    @property
    def prepared(self) -> PreparedSearch:
        return self.start

    @property
    def minimiser(self) -> Array:
        """See `AbstractPlan`; the closest model, also where it is reweighted afterwards."""
        return self.start.reference

    @property
    def shift(self) -> Array:
        return self.start.shift

    def shifted(self, shift: Array) -> "NewtonPlan":
        """The same with this added to every draw."""
        return replace(self, start=replace(self.start, shift=shift))

    def uncentred(self) -> "NewtonPlan":
        return self.shifted(np.zeros_like(self.shift))

    def for_replicates(self) -> "NewtonPlan":
        """See `AbstractPlan`; one start is enough for each table."""
        return replace(self, start=replace(self.uncentred().start, n_starts=1))
