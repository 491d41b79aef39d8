"""Where the draws start: modes of the unweighted table, and what a pilot of draws makes of them.

Total variation has several local minima. The unweighted table is searched from many starts:
maximum likelihood, least squares, and *elemental* fits through a few random cells each, of which
one is clean with high probability, and so is the fit then. Where covariates hardly repeat, maximum
likelihood without far rows and the direction of the ungrouped objective, at several lengths, take
their place. A pilot of random tables is then solved from the modes, and its solutions join the pool
that every draw starts from.

References
----------
Rousseeuw, P. J. and Leroy, A. M. (1987). Robust Regression and Outlier Detection, chapter 5.
"""

from dataclasses import dataclass, replace

import numpy as np

from tvdbayes._typing import Array
from tvdbayes.data.cells import Cells
from tvdbayes.objective import Layout, Objective
from tvdbayes.objective.divergences import KLD, TVD
from tvdbayes.objective.partitions import Singletons
from tvdbayes.sampling.closest import (
    NewtonPlan,
    PreparedSearch,
    designs,
    recorded,
    saturated,
    scan,
    searched_exactly,
)
from tvdbayes.sampling.plan import AUTO_RIDGE, PILOT, Solved, calibrating_shift, pilot_of
from tvdbayes.sampling.setup import Setup
from tvdbayes.sampling.weights import Stream
from tvdbayes.solvers import Solution, find_modes, newton, scalar, solve_from_pool, spread_out

_FAR_OUT = 2.5
"""Deviations from the median beyond which 1.2 % of a normal column lie."""
_STARTS = 3
"""Starts of a draw, where one is not enough; chosen by trial on the designs of ``benchmarks``."""
_MATTERS = 1e-4
"""A lower value by more than this is worth more starts: a row in ten thousand, less than a draw of
weights changes any distance."""
_RIVAL = 0.02
"""Modes so far above the best, and three deviations of chance, may become the best of a draw."""
_UNBIASED = 300
"""Rows per group from which the bias of small groups, 0.6 / rows, is not worth correcting."""
_POOL = 32
"""Solutions of the pilot that join the pool: half of them, as far apart as can be."""
_POOL_OF_GROUPS = 5
"""The same where groups are compared, whose scores cost more; chosen by trial on ``benchmarks``."""
_ELEMENTAL = 64
"""With 30 % of wrong rows one of so many fits through 10 cells is clean with probability 0.84, and
through 4 cells all but surely."""
_SAMPLE = 20_000
"""Cells of the part of a large table on which starts are compared: chance moves its distances by
less than 0.01, which is less than `_RIVAL`."""
_FROM_SAMPLE = 2
"""Best modes of the part that the whole table is searched from: each costs passes over it."""


@dataclass(frozen=True, eq=False)
class Begun:
    """The unweighted table, searched from many starts.

    Parameters
    ----------
    setup : Setup
        With the layout where the table lies.
    likelihood_fit : Solution
    robust : Objective
        The objective with its ridge, and the closest model as its reference.
    modes : Solution
        Minima of it, best first.
    rescued : bool
        See `AbstractPlan`.
    """

    setup: Setup
    likelihood_fit: Solution
    robust: Objective
    modes: Solution
    rescued: bool


def begin(setup: Setup) -> Begun:
    """Search the unweighted table for maximum likelihood and the closest model.

    All passes over the table are made on the device, if any, which the caller must have entered;
    starts are found here.
    """
    layout, divergence = setup.layout, setup.divergence
    p, guess = layout.cells.p[:, None], least_squares(layout)
    # What is searched exactly has one parameter and few cells: it stays here.
    exact = searched_exactly(Objective(layout, divergence))
    there = layout if setup.device is None or exact else layout.to(setup.device)
    likelihood_fit = newton(Objective(there, KLD()).on(p), guess[:, None])
    starts = np.column_stack([likelihood_fit.theta, guess])
    pooled = layout.partition.pools_rows and divergence.on_groups
    where, setup = there, replace(setup, layout=there)
    if setup.refine == "trim" and layout.batches is not None:
        # A trimmed likelihood only begins at the closest model: that of a part will do.
        rng = Stream.generator(setup.seed, Stream.STARTS)
        where = layout = layout.rebind(_sample(layout.cells, rng))
    if pooled:
        starts = np.column_stack([starts, _pooled_starts(layout, likelihood_fit.theta, setup.seed)])
    robust, modes, rescued = _regularised(where, setup, pooled, starts)
    return Begun(setup, likelihood_fit, replace(robust, layout=there), modes, rescued)


def prepare(setup: Setup, *, pilot: bool = True) -> tuple[NewtonPlan, Solved]:
    """Solve the unweighted table from many starts, and collect the starts of the draws.

    Without a `pilot` no draw may follow.
    """
    return collected(begin(setup), pilot=pilot)


def collected(begun: Begun, *, pilot: bool) -> tuple[NewtonPlan, Solved]:
    """The same, once the unweighted table has been searched."""
    refined = begun.setup.refine is not None
    robust, modes, setup = begun.robust, begun.modes, begun.setup
    p, reference = setup.layout.cells.p[:, None], modes.theta[:, 0]
    likelihood_fit = begun.likelihood_fit
    pool, n_starts, shift = modes.theta, 1, np.zeros(len(reference))
    if pilot or searched_exactly(robust):
        pool, n_starts, shift = _pool(robust, _rivals(modes, setup.reweighted.n_obs), setup)
    still = np.zeros(len(reference))
    start = PreparedSearch(
        *(reference, likelihood_fit.theta[:, 0], robust.ridge),
        *(pool, n_starts, still if refined else shift),
    )
    plan = replace(start.plan(setup), rescued=begun.rescued)
    robust, likelihood = plan.robust, plan.likelihood
    problem, best = robust.on(p), modes.take(np.array([0]))
    last = plan.finished(robust, likelihood, p, best.theta) if refined else None
    found = Solved(
        *recorded(robust, problem, best, last),
        *recorded(likelihood, likelihood.on(p), likelihood_fit),
    )
    return (_centred(plan, found) if pilot and refined else plan), found


def _regularised(
    layout: Layout, setup: Setup, pooled: bool, starts: Array
) -> tuple[Objective, Solution, bool]:
    """The objective with its ridge and reference, its modes, and whether it was rescued.

    It is by a ridge that nobody asked for, where the optimum would be at infinity without one.
    """
    ridge = setup.ridge
    if ridge == "auto":
        ridge = AUTO_RIDGE if pooled else 0.0
    robust = Objective(layout, setup.divergence, ridge)
    modes = _modes(robust, starts, setup.seed)
    problem = robust.on(robust.layout.cells.p[:, None])
    away = bool(robust.runs_away(problem, modes.theta[:, :1])[0])
    rescued = away and setup.ridge == "auto" and not pooled and robust.divergence != KLD()
    if rescued:
        robust = replace(robust, ridge=AUTO_RIDGE)
        modes = _modes(robust, starts, setup.seed)
    return replace(robust, reference=modes.theta[:, 0]), modes, rescued


def _pooled_starts(layout: Layout, likelihood_fit: Array, seed: int) -> Array:
    """Starts for covariates that hardly repeat, (d, K).

    Maximum likelihood without rows that are far out, and the direction that the naive objective
    (every row its own group) finds; it sees the right boundary, but its length means nothing.
    """
    central_p = central_mass(layout)[:, None]
    central = newton(Objective(layout, KLD()).on(central_p), likelihood_fit).theta
    alone = replace(layout, partition=Singletons())
    if layout.cells.n_cells > _SAMPLE:
        rng = Stream.generator(seed, Stream.STARTS, 1)
        alone = alone.rebind(_sample(layout.cells, rng))
    naive = Objective(alone, TVD(), AUTO_RIDGE).on(alone.cells.p[:, None])
    found = newton(naive, likelihood_fit).theta[:, 0]
    return np.column_stack([central, lengths(layout, found)])


def _modes(robust: Objective, starts: Array, seed: int) -> Solution:
    """Minima of the unweighted table, best first."""
    # Starts are found here, wherever the table is.
    layout, problem = robust.layout.at_home(), robust.on(robust.layout.cells.p[:, None])
    if searched_exactly(robust):
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


def _pool(robust: Objective, modes: Array, setup: Setup) -> tuple[Array, int, Array]:
    """Candidates for every draw, how many of them each should start from, and the shift of draws.

    The candidates are the modes and what a pilot of draws makes of them (one parameter: a scan).
    If starting the pilot elsewhere gains nothing that matters, draws need one start only.
    """
    still = np.zeros(len(modes))
    if searched_exactly(robust):
        return scan(robust.layout, modes[0])[None], 1, still
    size, pools = setup.size, robust.layout.partition.pools_rows
    biased = pools and robust.divergence.on_groups and setup.report.median_size < _UNBIASED
    n_draws = PILOT if biased else min(size, PILOT)
    pilot = setup.pilot_weights.draw(Stream.draws(setup.seed, Stream.PILOT), n_draws).p
    blocks = [robust.on(pilot[:, at : at + size]) for at in range(0, n_draws, size)]
    n_modes = min(_STARTS, modes.shape[1])
    first = [solve_from_pool(problem, modes, n_modes) for problem in blocks]
    solved = Solution.join(first)
    # Scoring a candidate costs a pass over the pairs: few are worth it where these are many, and
    # none where one start is enough.
    most = _POOL_OF_GROUPS if pools else _POOL
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
    return modes if pools else pool, 1, shift


def _centred(plan: NewtonPlan, found: Solved) -> NewtonPlan:
    """The plan of refined draws, with the shift that brings their centre to the estimate."""
    bound = plan.robust.layout.bound
    pilot = np.concatenate([part.robust.theta for part in pilot_of(plan)], axis=1)
    estimate = bound.from_user(found.robust.theta)[:, 0]
    return plan.shifted(calibrating_shift(bound.from_user(pilot), estimate, bound))


def least_squares(layout: Layout) -> Array:
    """Weighted least squares on the predictors that each cell alone would ask for, (d,)."""
    root = np.sqrt(layout.cells.p)[:, None]
    return np.concatenate(
        [
            np.linalg.lstsq(root * z, root[:, 0] * eta, rcond=None)[0]
            for z, eta in zip(designs(layout), saturated(layout), strict=True)
        ]
    )


def elemental(layout: Layout, guess: Array, rng: np.random.Generator, n: int) -> Array:
    """Fits of the first predictor through random cells, (d, n); other predictors as in `guess`."""
    design, eta = designs(layout)[0], saturated(layout)[0]
    first = layout.bound.slices[0]
    d = design.shape[1]
    # The d cells with the largest keys are a draw without replacement, weighted by mass.
    keys = np.log(layout.cells.p) + rng.gumbel(size=(n, eta.size))
    chosen = np.argpartition(-keys, min(d, eta.size) - 1, axis=1)[:, :d]
    starts = np.repeat(guess[:, None], n, axis=1)
    starts[first] = (np.linalg.pinv(design[chosen]) @ eta[chosen][..., None])[..., 0].T
    return starts


def central_mass(layout: Layout) -> Array:
    """Cell masses (m,) without the rows that are far out in some covariate; blind to y."""
    cells = layout.cells
    kept = np.ones(cells.n_x, bool)
    for column in cells.x.T:
        away = np.abs(column - np.median(column))
        scale = 1.4826 * np.median(away)
        if scale > 0:
            kept &= away <= _FAR_OUT * scale
    p: Array = cells.p * np.where(kept[cells.x_index], 1.0, 1e-6)
    p /= p.sum()
    return p


def lengths(layout: Layout, theta: Array, sizes: tuple[float, ...] = (1.0, 2.0, 6.0)) -> Array:
    """Parameters (d,) and copies whose slopes are rescaled to these spreads of eta, (d, K)."""
    slopes = layout.bound.penalised
    norm = np.sqrt(max(float(theta @ layout.bound.ridge_gradient(theta[:, None])[:, 0]), 0.0))
    scales = [1.0] + [size / max(norm, 1e-12) for size in sizes]
    return np.column_stack([np.where(slopes, scale * theta, theta) for scale in scales])
