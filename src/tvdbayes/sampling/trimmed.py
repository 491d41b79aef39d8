"""Draws of the trimmed likelihood: the rows that are kept are those of the fit, and are held.

For a reweighted table p and the share v(x, y) of each cell that is kept,

    theta = argmax sum p v log f(y | x; theta) / sum p v - ridge * V(theta),
    draw  = estimate + S (theta + shift - estimate),

where V is the variance of the linear predictor, S widens for leverage (HC3) and few degrees of
freedom (`trimming.weighted`), and shift centres the draws at the estimate
(`plan.calibrating_shift`).

Rows that are found anew on each reweighted table make intervals wider, by up to a half, that cover
no better (benchmarks/results/default_draws.md). What they would show of another answer is looked
for once, on the pilot (`trimming.rule`).

References
----------
MacKinnon, J. G. and White, H. (1985). Some heteroskedasticity-consistent covariance matrix
estimators with improved finite sample properties. Journal of Econometrics 29, 305-325.
"""

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from tvdbayes._errors import SettingsError
from tvdbayes._typing import Array, BoolArray
from tvdbayes.data.cells import Cells, places
from tvdbayes.data.sampling_units import SamplingUnits
from tvdbayes.objective import Layout, Objective, at_boundary
from tvdbayes.objective.divergences import KLD
from tvdbayes.sampling.plan import (
    PILOT,
    AbstractPlan,
    AbstractPrepared,
    Solved,
    calibrating_shift,
    pilot_of,
    pilot_tables,
    solve_tables,
)
from tvdbayes.sampling.search import Begun
from tvdbayes.sampling.setup import Setup
from tvdbayes.sampling.weights import block_size
from tvdbayes.solvers import Solution, Status, newton
from tvdbayes.trimming import RIDGE, KeptRows, independent_share, trimmed_fit, widening

_STEEP = 10.0
"""Variance of the linear predictor below which no draw is held by the ridge alone."""
_DECREMENT = 1e-10
"""Newton's method takes its last step where it promises less. The likelihood is smooth, so that the
step squares what is left: for a million rows below 1e-13 of the mean log-likelihood."""
_HELD = 0.02
"""Share of its deviation by which the linear predictor moves at most where data hold a draw."""


@dataclass(frozen=True, eq=False)
class Recentred:
    """Draws moved so that their centre is the estimate (d,), and widened about it.

    ``shift`` (d,) brings the centre of raw draws to the estimate, ``stretch`` is `widening`.
    """

    estimate: Array
    shift: Array
    stretch: Array

    @classmethod
    def nothing(cls, estimate: Array) -> "Recentred":
        """Draws as they are."""
        return cls(estimate, np.zeros(len(estimate)), np.eye(len(estimate)))

    def holding(self, held: BoolArray) -> "Recentred":
        """The same for other parameters than these (d,), which are left as they are."""
        free, still = ~held, np.where(held, 0.0, self.shift)
        return replace(
            self, shift=still, stretch=np.where(np.outer(free, free), self.stretch, np.diag(held))
        )

    def __call__(self, theta: Array) -> Array:
        """(d, B) to (d, B)."""
        moved: Array = theta + (self.shift - self.estimate)[:, None]
        return self.estimate[:, None] + self.stretch @ moved


@dataclass(frozen=True, eq=False)
class PreparedTrim(AbstractPrepared):
    """Starts and correction of the draws of a `TrimmedPlan`.

    Parameters
    ----------
    closest : (d,)
        The closest model, in the digits that its trip through the user's units left.
    robust_draws, likelihood_draws : Recentred
        What makes draws of solutions.
    """

    closest: Array
    robust_draws: Recentred
    likelihood_draws: Recentred

    @property
    def estimate(self) -> Array:
        """The fit to the whole table, (d,)."""
        return self.robust_draws.estimate

    def plan(
        self, setup: Setup, rows: KeptRows | None = None, penalty: float = 0.0
    ) -> "TrimmedPlan":
        if rows is None:
            raise SettingsError("A record of a trimmed likelihood must hold the rows that it kept.")
        robust, likelihood = self.objectives(setup)
        return TrimmedPlan(
            setup=setup,
            robust=robust,
            likelihood=likelihood,
            start=self,
            rows=rows,
            penalty=penalty,
        )

    def uncentred(self) -> "PreparedTrim":
        """The same with solutions for draws."""
        return replace(
            self,
            robust_draws=Recentred.nothing(self.estimate),
            likelihood_draws=Recentred.nothing(self.likelihood_fit),
        )


@dataclass(frozen=True, eq=False, kw_only=True)
class TrimmedPlan(AbstractPlan):
    """Weighted maximum likelihood, from the fit to the whole table.

    Parameters
    ----------
    start : PreparedTrim
    rows : KeptRows
        The rows that are kept of the whole table.
    penalty : float
        The ridge of the weighted likelihood.
    clean : bool
        Whether tables with other cells are known to be clean, so that all of their rows are kept.
    """

    start: PreparedTrim
    rows: KeptRows
    penalty: float
    clean: bool = False

    def solve(self, robust: Objective, likelihood: Objective, p: Array, *_: Any) -> Solved:
        """Solve tables p (m, B)."""
        layout, start = robust.layout, self.start
        kept = p * self._share(layout)[:, None]
        kept /= kept.sum(0)
        of_kept = Objective(layout, KLD(), self.penalty, reference=start.estimate)
        found = _minimum(of_kept, kept, start.estimate)
        if self.penalty <= RIDGE:
            found = _held(of_kept, kept, found)
        likelihood_fit = _minimum(likelihood, p, start.likelihood_fit)
        theta = start.robust_draws(found.theta)
        likelihood_theta = start.likelihood_draws(likelihood_fit.theta)
        return Solved(
            replace(found, theta=layout.bound.to_user(theta)),
            _distance(robust, p, theta),
            replace(likelihood_fit, theta=layout.bound.to_user(likelihood_theta)),
            likelihood.on(p).distance(likelihood_theta),
        )

    def _share(self, layout: Layout) -> Array:
        """The share of each cell that is kept of a table."""
        cells = layout.cells
        if cells is self.robust.layout.cells:
            return self.rows.share
        if self.clean:
            return np.ones(cells.n_cells)
        if self.setup.drawn:
            # Atoms of a prior that are drawn anew are no rows, and keep their mass.
            share, known = np.ones(cells.n_cells), places(cells, self.robust.layout.cells)
            share[known[known >= 0]] = self.rows.share[known >= 0]
            return share
        layout = replace(layout, fold=False)
        start = self.start
        layout = _worth(layout, self.rows.worth)
        least = self._mass_of_prior(cells)
        return trimmed_fit(layout, start.likelihood_fit, start.closest, self.penalty, least)[
            1
        ].share

    def _mass_of_prior(self, cells: Cells) -> Array | float:
        """The share of each cell of another table that is the mass of the prior."""
        whole = self.robust.layout
        if whole.cells is whole.scale_on:
            return 0.0
        at, mass = places(whole.cells, cells), _mass_of_prior(whole) * whole.cells.counts
        return np.where(at >= 0, mass[at], 0.0) / cells.counts

    @property
    def ridge(self) -> float:
        return self.penalty

    @property
    def kept_rows(self) -> KeptRows:
        """See `AbstractPlan`; of the rows in the data, without the mass of a prior."""
        cells, data = self.robust.layout.cells, self.robust.layout.scale_on
        if cells is data:
            return self.rows
        held = places(cells, data)
        prior = np.broadcast_to(_mass_of_prior(self.robust.layout), cells.n_cells)[held]
        share = (self.rows.share[held] - prior) / (1 - prior)
        far = np.zeros(data.n_x, bool)
        far[data.x_index] = self.rows.far[cells.x_index[held]]
        return replace(self.rows, share=np.clip(share, 0.0, 1.0), far=far)

    @property
    def prepared(self) -> PreparedTrim | None:
        """See `AbstractPlan`; None with a prior, whose share of the rows is not on record."""
        return self.start if self.setup.prior is None else None

    @property
    def minimiser(self) -> Array:
        return self.start.estimate

    def for_replicates(self) -> "TrimmedPlan":
        """See `AbstractPlan`; all rows of replicates are good."""
        return replace(self.uncentred(), clean=True)

    def minimisers(self, p: Array, cells: Cells) -> Array:
        """See `AbstractPlan`; without twins, distances and rows to drop where tables are clean."""
        if not self.clean:
            return super().minimisers(p, cells)
        layout, start = self.on(cells)[0].layout, self.start
        fitted = Objective(layout, KLD(), self.penalty, reference=start.estimate)
        theta = start.robust_draws(_newton(fitted, p, start.estimate).theta)
        return layout.bound.to_user(theta)

    def uncentred(self) -> "TrimmedPlan":
        return replace(self, start=self.start.uncentred())


def trimmed_plan(begun: Begun, pilot: bool) -> tuple[TrimmedPlan, Solved]:
    """The plan of a trimmed likelihood, from where the search of the unweighted table has ended.

    Its penalty is the ridge that was asked for, at least `RIDGE`. Without a `pilot` no draw may
    follow.
    """
    ridge, ordinary = begun.setup.ridge, begun.likelihood_fit.theta[:, 0]
    penalty = RIDGE if ridge == "auto" else max(ridge, RIDGE)
    layout = begun.robust.layout.at_home()
    if layout.batches is None:
        layout = replace(layout, fold=False)
    bound, reference = layout.bound, begun.modes.theta[:, :1]
    # The digits that a trip through the user's units leaves, as in a record.
    closest = bound.from_user(bound.to_user(reference))[:, 0]
    starts = (ordinary, closest, penalty, _mass_of_prior(layout))
    units, worth = begun.setup.units, 1.0
    if units is not None:
        # A first fit says how strongly the rows of a unit depend on one another.
        estimate, rows = trimmed_fit(layout, *starts)
        worth = independent_share(layout, estimate, rows.share, units)
    # In a table of many rows chance moves masses too little to change the answer.
    asked = pilot and layout.batches is None
    tables = partial(pilot_tables, begun.setup) if asked else None
    estimate, rows = trimmed_fit(_worth(layout, worth), *starts, reweighted=tables)
    rows = replace(rows, worth=worth)
    start = PreparedTrim(
        reference[:, 0],
        ordinary,
        begun.robust.ridge,
        closest,
        Recentred.nothing(estimate),
        Recentred.nothing(ordinary),
    )
    trimmed = start.plan(begun.setup, rows, penalty)
    solved = solve_tables(trimmed, layout.cells.p[:, None])
    if not pilot:
        return trimmed, solved
    parts = pilot_of(trimmed) if _biased(layout, units) else []

    def draws(side: str, centre: Array, kept: Array) -> Recentred:
        raw = [bound.from_user(getattr(part, side).theta) for part in parts]
        theta = np.concatenate([*raw, centre[:, None]], axis=1)
        shift = calibrating_shift(theta[:, :-1], centre, bound) if parts else np.zeros(len(centre))
        moved = Recentred(centre, shift, widening(layout, kept, centre, units))
        return moved.holding(_unbounded(layout, theta))

    start = replace(
        start,
        robust_draws=draws("robust", estimate, rows.share),
        likelihood_draws=draws("likelihood", ordinary, np.ones(len(rows.share))),
    )
    return replace(trimmed, start=start), solved


def _biased(layout: Layout, units: SamplingUnits | None) -> bool:
    """Whether the centre of draws may be off by more than the noise of a pilot.

    It is off by about d / sqrt(n) deviations of a draw, and the mean of 64 draws by an eighth of
    one. Tables of few rows have a pilot in any case, and so have further predictors, which may have
    draws at the boundary.
    """
    n_obs = layout.cells.n_obs if units is None else units.n_units - units.n_strata
    known = n_obs > PILOT * layout.bound.n_params**2 and layout.bound.n_predictors == 1
    return layout.batches is None or not known


def _unbounded(layout: Layout, theta: Array) -> BoolArray:
    """Parameters (d,) of further predictors that some of theta (d, B) have at the boundary.

    Where they end is arbitrary there, so that means and deviations of them say nothing.
    """
    held = np.zeros(len(theta), bool)
    edges = np.atleast_1d(at_boundary(layout, theta).any(1))
    for part, edge in zip(layout.bound.slices[layout.family.n_main :], edges, strict=False):
        held[part] = edge
    return held


def _minimum(objective: Objective, p: Array, start: Array) -> Solution:
    """The minimum for each table p (m, B), with a status for draws whose optimum is at infinity."""
    found = _newton(objective, p, start)
    away = objective.runs_away(objective.on(p), found.theta)
    return replace(found, status=objective.ended(found, away))


def _newton(objective: Objective, p: Array, start: Array) -> Solution:
    """The minimum for each table p (m, B)."""
    problem = objective.on(p)
    goal = problem.accuracy
    goal = replace(goal, decrement=max(goal.decrement, _DECREMENT))
    start = np.repeat(start[:, None], p.shape[1], axis=1)
    return newton(problem, start, accuracy=goal, values=False)


def _held(objective: Objective, p: Array, found: Solution) -> Solution:
    """The same, with a status for draws that only the least ridge keeps where they are.

    They are those whose linear predictor a Newton step without the ridge would change by more than
    `_HELD` of its deviation. Elsewhere the step is about 1e-5 of it.
    """
    bound, ridge = objective.layout.bound, objective.ridge
    pull = bound.ridge_gradient(found.theta)
    spread = (found.theta * pull).sum(0)
    index = np.flatnonzero(spread > _STEEP)
    if not index.size:
        return found
    free = replace(objective, ridge=0.0).on(p[:, index])
    hess = free.at(found.theta[:, index]).expand(np.zeros(index.size), None).hess
    gradient = 2 * ridge * pull[:, index].T[:, :, None]
    step = np.linalg.pinv(hess.transpose(2, 0, 1), hermitian=True) @ gradient
    step = step[:, :, 0].T
    moved = (step * bound.ridge_gradient(step)).sum(0)
    held = index[moved > _HELD**2 * spread[index]]
    status = found.status.copy()
    status[held] = int(Status.SEPARATED)
    return replace(found, status=status)


def _distance(robust: Objective, p: Array, theta: Array) -> Array:
    """The distances (B,) of tables p (m, B), so many draws at a time as groups leave room for."""
    if robust.layout.batches is not None:
        return robust.on(p).distance(theta)
    size = block_size(robust.layout.units.n_elements)
    parts = [slice(at, at + size) for at in range(0, p.shape[1], size)]
    found = [robust.on(p[:, part]).distance(theta[:, part]) for part in parts]
    return np.concatenate(found)


def _worth(layout: Layout, worth: float) -> Layout:
    """The layout with so many independent rows for each row."""
    if worth == 1:
        return layout
    cells = replace(layout.cells, counts=layout.cells.counts * worth)
    return replace(layout, cells=cells, grouped=layout.grouping)


def _mass_of_prior(layout: Layout) -> Array | float:
    """The share of each cell of the table that is not in the data."""
    cells, data = layout.cells, layout.scale_on
    if cells is data:
        return 0.0
    rows = np.zeros(cells.n_cells)
    rows[places(cells, data)] = data.counts
    return 1 - rows / cells.counts
