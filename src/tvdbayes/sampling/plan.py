"""What every block of draws needs, worked out once on the unweighted table."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from tvdbayes._array import Device
from tvdbayes._typing import Array, BoolArray
from tvdbayes.data.cells import Cells
from tvdbayes.models.predictors import AbstractBound
from tvdbayes.objective import GroupProblem, Layout, Objective, RowProblem
from tvdbayes.objective.divergences import KLD, TVD, AbstractDivergence
from tvdbayes.objective.partitions import Singletons, report_groups
from tvdbayes.sampling.reweighting import reweighted_fit
from tvdbayes.sampling.starts import central_mass, elemental, least_squares, lengths, scan
from tvdbayes.sampling.weights import Prior, Stream, reweight
from tvdbayes.solvers import (
    Solution,
    Status,
    find_modes,
    newton,
    scalar,
    solve_from_pool,
    spread_out,
)
from tvdbayes.trimming import KeptRows

__all__ = [
    "AUTO_RIDGE",
    "AbstractPlan",
    "NewtonPlan",
    "Refine",
    "Solved",
    "calibrating_shift",
    "draws_of",
    "pilot_tables",
    "prepare",
    "solve_block",
    "solve_tables",
]

Refine = Literal["reweight", "trim"] | None
"""What is done to the closest model: one-step reweighting, or the trimmed likelihood."""

AUTO_RIDGE = 1e-4
"""Ridge that keeps coefficients finite when their optimum is at infinity."""

Finish = Callable[[Array], Array]
"""From minimisers (d, B) to draws."""

_PILOT = 64
_STARTS = 3
_MATTERS = 1e-4
_RIVAL = 0.02
_UNBIASED = 300
"""Rows per group from which the bias of small groups, 0.6 / rows, is not worth correcting."""
_POOL = 32
_POOL_OF_GROUPS = 5
_ELEMENTAL = 64
_SAMPLE = 20_000
_FROM_SAMPLE = 2


@dataclass(frozen=True, eq=False)
class Solved:
    """Solutions for some tables, parameters in the user's coordinates, and their distances."""

    robust: Solution
    distance: Array
    twin: Solution
    twin_distance: Array


@dataclass(frozen=True, eq=False)
class AbstractPlan(ABC):
    """How the tables of a fit are solved.

    Parameters
    ----------
    robust, twin : Objective
        The objective asked for, and weighted maximum likelihood.
    shift : (d,)
        Added to every draw, see `calibrating_shift`.
    cells : Cells
        The table that is reweighted.
    prior : Prior or None
        A prior whose atoms must be drawn.
    seed, size : int
        Seed, and draws in a block.
    rescued : bool
        Whether a ridge was added because the optimum would be at infinity without it.
    refine : "reweight", "trim" or None
        What is done to the closest model, see `_refine` and `_trimmed`.
    """

    robust: Objective
    twin: Objective
    shift: Array
    cells: Cells
    prior: Prior | None
    seed: int
    size: int
    rescued: bool
    refine: Refine

    @abstractmethod
    def solve(
        self,
        robust: Objective,
        twin: Objective,
        p: Array,
        first: int = 0,
        wanted: int | None = None,
    ) -> Solved:
        """Solve tables p (m, B) for both objectives; they are draws `first`, `first + 1`, ...

        Only the first `wanted` need be there in the end, where that saves work.
        """

    @property
    def ridge(self) -> float:
        """Penalty on the variance of the linear predictor, beside what the draws minimise."""
        return self.robust.ridge

    @property
    def kept_rows(self) -> KeptRows | None:
        """The rows that are kept, where some may be dropped."""
        return None

    def for_replicates(self) -> "AbstractPlan":
        """The same for data of the model's own making: where they are solved is known."""
        return self.uncentred()

    def uncentred(self) -> "AbstractPlan":
        """The same with minimisers as they are, for tables without random weights."""
        return replace(self, shift=np.zeros_like(self.shift))


@dataclass(frozen=True, eq=False)
class NewtonPlan(AbstractPlan):
    """Newton's method from a pool of candidates.

    Parameters
    ----------
    ordinary : (d,)
        Maximum likelihood on the unweighted table: where the twin starts.
    pool : (d, K)
        Candidates that every draw picks its starts from.
    n_starts : int
        How many of them each draw starts from.
    """

    ordinary: Array
    pool: Array
    n_starts: int

    def solve(
        self,
        robust: Objective,
        twin: Objective,
        p: Array,
        first: int = 0,
        wanted: int | None = None,
    ) -> Solved:
        """Solve tables p (m, B) for both objectives, all of them at once."""
        return _solve(self, robust, twin, p)

    def for_replicates(self) -> "NewtonPlan":
        """See `AbstractPlan`; one start is enough for each table."""
        return replace(self, n_starts=1, shift=np.zeros_like(self.shift))


def prepare(
    layout: Layout,
    divergence: AbstractDivergence,
    *,
    ridge: float | Literal["auto"],
    cells: Cells,
    prior: Prior | None,
    seed: int,
    size: int,
    pilot: bool = True,
    refine: Refine = None,
    device: Device | None = None,
) -> tuple[NewtonPlan, Solved]:
    """Solve the unweighted table from many starts, and collect the starts of the draws.

    Without a `pilot` no draw may follow. With a `device` all passes over the table are made there,
    which the caller must have entered; starts are found here.
    """
    p = layout.cells.p[:, None]
    guess = least_squares(layout)
    # What is searched exactly has one parameter and few cells: it stays here.
    exact = layout.bound.n_params == 1 and divergence.kinked and layout.units.exact
    there = layout if device is None or exact else layout.to(device)
    ordinary = newton(Objective(there, KLD()).on(p), guess[:, None])
    twin = Objective(there, KLD(), reference=ordinary.theta[:, 0])

    starts = np.column_stack([ordinary.theta, guess])
    pooled = layout.partition.pools_rows and divergence.on_groups
    if pooled:
        starts = np.column_stack([starts, _pooled_starts(layout, ordinary.theta, seed)])
    weak = AUTO_RIDGE if pooled else 0.0
    robust = Objective(there, divergence, weak if ridge == "auto" else ridge)
    modes = _modes(robust, starts, seed)
    away = bool(robust.runs_away(robust.on(p), modes.theta[:, :1])[0])
    rescued = away and ridge == "auto" and not pooled and divergence != KLD()
    if rescued:
        robust = replace(robust, ridge=AUTO_RIDGE)
        modes = _modes(robust, starts, seed)
    robust = replace(robust, reference=modes.theta[:, 0])
    pool, n_starts, shift = modes.theta, 1, np.zeros(len(modes.theta))
    if pilot or _searched_exactly(robust):
        pool, n_starts, shift = _pool(robust, _rivals(modes, cells.n_obs), seed, size)
    plan = NewtonPlan(
        robust=robust,
        twin=twin,
        shift=shift,
        cells=cells,
        prior=prior,
        seed=seed,
        size=size,
        rescued=rescued,
        refine=refine,
        ordinary=ordinary.theta[:, 0],
        pool=pool,
        n_starts=n_starts,
    )
    best = _found(robust, robust.on(p), modes.take(np.array([0])))
    if refine is None:
        return plan, _solved(best, _found(twin, twin.on(p), ordinary))
    plan = replace(plan, shift=np.zeros(len(modes.theta)))
    found = _solved(best, _found(twin, twin.on(p), ordinary), _finish(plan, robust, twin, p))
    return (_centred(plan, found) if pilot else plan), found


def _pooled_starts(layout: Layout, ordinary: Array, seed: int) -> Array:
    """Starts for covariates that hardly repeat, (d, K).

    Maximum likelihood without rows that are far out, and the direction that the naive objective
    (every row its own group) finds; it sees the right boundary, but its length means nothing.
    """
    central_p = central_mass(layout)[:, None]
    central = newton(Objective(layout, KLD()).on(central_p), ordinary).theta
    alone = replace(layout, partition=Singletons())
    if layout.cells.n_cells > _SAMPLE:
        rng = Stream.generator(seed, Stream.STARTS, 1)
        alone = alone.rebind(_sample(layout.cells, rng))
    naive = Objective(alone, TVD(), AUTO_RIDGE).on(alone.cells.p[:, None])
    found = newton(naive, ordinary).theta[:, 0]
    return np.column_stack([central, lengths(layout, found)])


def _modes(robust: Objective, starts: Array, seed: int) -> Solution:
    """Minima of the unweighted table, best first."""
    # Starts are found here, wherever the table is.
    layout, problem = robust.layout.at_home(), robust.on(robust.layout.cells.p[:, None])
    if _searched_exactly(robust):
        return scalar(problem, scan(layout, starts[0]))  # type: ignore[arg-type]
    rng = Stream.generator(seed, Stream.STARTS)
    if layout.cells.n_cells > _SAMPLE:
        # Many starts are compared on a sample; the table itself sees only the best of them.
        some = replace(robust, layout=layout).rebind(_sample(layout.cells, rng))
        starts = find_modes(some.on(some.layout.cells.p[:, None]), starts).theta
        return find_modes(problem, starts[:, :_FROM_SAMPLE])
    if not layout.partition.pools_rows:
        random = elemental(layout, starts[:, 1], rng, _ELEMENTAL)
        starts = np.column_stack([starts, random])
    return find_modes(problem, starts)


def _sample(cells: Cells, rng: np.random.Generator) -> Cells:
    """A random part of a large table, with its coordinates and groups left as they are."""
    chosen = np.sort(rng.choice(cells.n_cells, _SAMPLE, replace=False))
    rows = cells.x_index[chosen]
    return Cells.from_counts(
        cells.x[rows],
        cells.y[chosen],
        cells.counts[chosen],
        offset=cells.offset[rows],
        trials=cells.trials[rows],
        names=cells.names,
    )


def _rivals(modes: Solution, n_obs: float) -> Array:
    """The modes (d, K) that random weights might make the best, best first."""
    near = modes.value <= modes.value.min() + _RIVAL + 3 / np.sqrt(n_obs)
    return modes.theta[:, near]


def _pool(robust: Objective, modes: Array, seed: int, size: int) -> tuple[Array, int, Array]:
    """Candidates for every draw, how many of them each should start from, and the shift of draws.

    The candidates are the modes and what a pilot of draws makes of them (one parameter: a scan).
    If starting the pilot elsewhere gains nothing that matters, draws need one start only.
    """
    still = np.zeros(len(modes))
    if _searched_exactly(robust):
        return scan(robust.layout, modes[0])[None], 1, still
    cells, partition = robust.layout.cells, robust.layout.partition
    biased = (
        partition.pools_rows
        and robust.divergence.on_groups
        and report_groups(cells, partition.name, robust.layout.grouping).median_size < _UNBIASED
    )
    n_draws = _PILOT if biased else min(size, _PILOT)
    pilot = reweight(cells, Stream.draws(seed, Stream.PILOT), n_draws).p
    blocks = [robust.on(pilot[:, at : at + size]) for at in range(0, n_draws, size)]
    n_modes = min(_STARTS, modes.shape[1])
    first = [solve_from_pool(problem, modes, n_modes) for problem in blocks]
    solved = Solution.join(first)
    # Scoring a candidate costs a pass over the pairs: few are worth it where these are many, and
    # none where one start is enough.
    most = _POOL_OF_GROUPS if partition.pools_rows else _POOL
    pool = np.column_stack([modes, spread_out(solved.theta, most)])
    again = Solution.join(
        [
            solve_from_pool(problem, pool, _STARTS, known)
            for problem, known in zip(blocks, first, strict=True)
        ]
    )
    matters = (solved.value - again.value).max() > _MATTERS
    shift = calibrating_shift(again.theta, modes[:, 0], robust.layout.bound) if biased else still
    if matters:
        return pool, _STARTS, shift
    return modes if partition.pools_rows else pool, 1, shift


def calibrating_shift(pilot: Array, estimate: Array, bound: AbstractBound) -> Array:
    """What brings the centre of the draws (d, B) to the estimate (d,) for the unweighted data.

    Random weights make the groups effectively half as large, and small groups push coefficients
    outwards: draws are off by about twice the bias of the estimate. Moving them back brings the
    coverage of their intervals nearer to nominal (benchmarks/results/coverage_continuous.md).
    Draws in another basin do not count for the centre. How far a draw lies is measured by its
    predictors, not by each coefficient, which would depend on the coding of the columns.
    """
    away = pilot - estimate[:, None]
    free = np.where(bound.penalised[:, None], 0.0, away)
    far = np.sqrt(np.maximum((away * (bound.ridge_pull(away) + free)).sum(0), 0.0))
    middle = np.median(far)
    spread = 1.4826 * np.median(np.abs(far - middle))
    near = far <= middle + 5 * max(spread, 1e-12)
    centre: Array = pilot[:, near].mean(1)
    return estimate - centre


def pilot_tables(plan: AbstractPlan) -> list[Array]:
    """The random tables of the pilot, in blocks (m, B)."""
    cells, size = plan.robust.layout.cells, plan.size
    p = reweight(cells, Stream.draws(plan.seed, Stream.PILOT), _PILOT).p
    return [p[:, at : at + size] for at in range(0, _PILOT, size)]


def _centred(plan: NewtonPlan, found: Solved) -> NewtonPlan:
    """The plan of refined draws, with the shift that brings their centre to the estimate."""
    bound = plan.robust.layout.bound
    parts = [solve_tables(plan, p) for p in pilot_tables(plan)]
    pilot = np.concatenate([part.robust.theta for part in parts], axis=1)
    estimate = bound.from_user(found.robust.theta)[:, 0]
    return replace(plan, shift=calibrating_shift(bound.from_user(pilot), estimate, bound))


def _searched_exactly(objective: Objective) -> bool:
    """Whether one parameter and known kinks allow an exact search."""
    return (
        objective.layout.bound.n_params == 1
        and objective.divergence.kinked
        and objective.layout.units.exact
    )


def solve_block(plan: AbstractPlan, block: int, n_draws: int | None = None) -> Solved:
    """Draw the tables of a block and solve them; of all blocks `n_draws` draws are wanted."""
    rngs = Stream.draws(plan.seed, first=block * plan.size)
    drawn = reweight(plan.cells, rngs, plan.size, plan.prior)
    first = block * plan.size
    wanted = None if n_draws is None else n_draws - first
    return solve_tables(plan, drawn.p, drawn.cells, first, wanted)


def solve_tables(
    plan: AbstractPlan,
    p: Array,
    cells: Cells | None = None,
    first: int = 0,
    wanted: int | None = None,
) -> Solved:
    """Solve tables p (m, B) of the plan's own cells, or of others; masses may be 0.

    They are draws `first`, `first + 1`, ...: what is random beside the weights depends on that.
    """
    layout = plan.robust.layout
    if cells is None or cells is layout.cells:
        return plan.solve(plan.robust, plan.twin, p, first, wanted)
    layout.model.check(cells)
    robust = plan.robust.rebind(cells)
    return plan.solve(robust, replace(plan.twin, layout=robust.layout), p, first, wanted)


def draws_of(plan: AbstractPlan, p: Array, cells: Cells | None = None) -> tuple[Array, Array]:
    """Draws (B, d), robust and ordinary, of any number of tables p (m, B), block by block."""
    parts = [
        solve_tables(plan, p[:, at : at + plan.size], cells, at)
        for at in range(0, p.shape[1], plan.size)
    ]
    robust, ordinary = (
        np.concatenate([getattr(part, side).theta for part in parts], axis=1).T
        for side in ("robust", "twin")
    )
    return robust, ordinary


def _solve(plan: NewtonPlan, robust: Objective, twin: Objective, p: Array) -> Solved:
    """Solve reweighted tables p (m, B) for both objectives."""
    p = robust.layout.put(p)
    ordinary_problem = twin.on(p)
    start = np.repeat(plan.ordinary[:, None], p.shape[1], axis=1)
    ordinary = _found(twin, ordinary_problem, newton(ordinary_problem, start))
    if robust.divergence == twin.divergence and robust.ridge == 0:
        return Solved(*ordinary.record(), *ordinary.record())
    problem = robust.on(p)
    if _searched_exactly(robust):
        candidates = plan.pool[0]
        if robust.layout.cells is not plan.robust.layout.cells:
            candidates = scan(robust.layout, candidates)
        found = scalar(problem, candidates)  # type: ignore[arg-type]
    else:
        found = solve_from_pool(problem, plan.pool, plan.n_starts)
    away = robust.runs_away(problem, found.theta)
    if away.any():
        # A rare level may look as if it ran away; from where the data are it may not.
        draws = np.flatnonzero(away)
        start = np.repeat(plan.pool[:, :1], draws.size, axis=1)
        found = found.improved_by(newton(problem.take(draws), start), draws)
        away = robust.runs_away(problem, found.theta)
    return _solved(_Found(robust, problem, found, away), ordinary, _finish(plan, robust, twin, p))


@dataclass(frozen=True, eq=False)
class _Found:
    """A solution with the problem it belongs to, and which draws have it at infinity."""

    objective: Objective
    problem: GroupProblem | RowProblem
    solution: Solution
    away: BoolArray

    def record(self, finish: Finish | None = None) -> tuple[Solution, Array]:
        """The solution, finished, in the user's coordinates, and its distance before that."""
        solution = self.solution
        status = np.where(self.away, int(Status.SEPARATED), solution.status)
        last = solution.theta if finish is None else finish(solution.theta)
        theta = self.objective.layout.bound.to_user(last)
        distance = self.problem.distance(solution.theta)
        return replace(solution, theta=theta, status=status), distance


def _found(objective: Objective, problem: GroupProblem | RowProblem, solution: Solution) -> _Found:
    return _Found(objective, problem, solution, objective.runs_away(problem, solution.theta))


def _solved(found: _Found, ordinary: _Found, finish: Finish | None = None) -> Solved:
    return Solved(*found.record(finish), *ordinary.record())


def _finish(plan: NewtonPlan, robust: Objective, twin: Objective, p: Array) -> Finish:
    """What is done to minimisers (d, B) of the tables p: one-step reweighting, and the shift."""
    shift = plan.shift[:, None]
    if plan.refine is None:
        return lambda theta: theta + shift
    # Every outcome is compared here: of two, each may hold too much.
    layout = replace(robust.layout, fold=False)
    return lambda theta: reweighted_fit(layout, twin, p, theta, plan.cells.n_obs) + shift
