"""What every block of draws needs, and how blocks are solved by it."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from tvdbayes._typing import Array
from tvdbayes.data.cells import Cells
from tvdbayes.models.predictors import AbstractBound
from tvdbayes.objective import Objective
from tvdbayes.objective.divergences import KLD
from tvdbayes.sampling.setup import Setup
from tvdbayes.sampling.weights import Stream
from tvdbayes.solvers import Solution
from tvdbayes.trimming import KeptRows

AUTO_RIDGE = 1e-4
"""Ridge that keeps coefficients finite when their optimum is at infinity."""

PILOT = 64
"""Pilot draws: enough to see a second mode that holds 5 % of the draws with probability 0.96, and
for a centre that is known to an eighth of a posterior deviation."""


@dataclass(frozen=True, eq=False)
class Solved:
    """Solutions for some tables, parameters in the user's coordinates, and their distances."""

    robust: Solution
    distance: Array
    likelihood: Solution
    likelihood_distance: Array


@dataclass(frozen=True, eq=False)
class AbstractPrepared(ABC):
    """What a record keeps of a plan, so that it can be made again without solving.

    All parameters are standardised.

    Parameters
    ----------
    reference, likelihood_fit : (d,)
        The closest model, and maximum likelihood.
    ridge : float
        The penalty beside the divergence.
    """

    reference: Array
    likelihood_fit: Array
    ridge: float

    @abstractmethod
    def plan(
        self, setup: Setup, rows: KeptRows | None = None, penalty: float = 0.0
    ) -> "AbstractPlan":
        """The plan, given the rows and the ridge that are on record for a trimmed likelihood."""

    def objectives(self, setup: Setup) -> tuple[Objective, Objective]:
        """The objective asked for, and the likelihood, which ties bring near these solutions."""
        return (
            Objective(setup.layout, setup.divergence, self.ridge, reference=self.reference),
            Objective(setup.layout, KLD(), reference=self.likelihood_fit),
        )


@dataclass(frozen=True, eq=False, kw_only=True)
class AbstractPlan(ABC):
    """How the tables of a fit are solved.

    Parameters
    ----------
    setup : Setup
        What was asked for.
    robust, likelihood : Objective
        The objective asked for, and weighted maximum likelihood.
    rescued : bool
        Whether a ridge was added because the optimum would be at infinity without it.
    """

    setup: Setup
    robust: Objective
    likelihood: Objective
    rescued: bool = False

    @abstractmethod
    def solve(
        self,
        robust: Objective,
        likelihood: Objective,
        p: Array,
        first: int = 0,
        wanted: int | None = None,
        /,
    ) -> Solved:
        """Solve tables p (m, B) for both objectives; they are draws `first`, `first + 1`, ...

        Only the first `wanted` need be there in the end, where that saves work.
        """

    @property
    @abstractmethod
    def prepared(self) -> AbstractPrepared | None:
        """What a plan like this can be made of without solving; None if that cannot be kept."""

    @property
    @abstractmethod
    def minimiser(self) -> Array | None:
        """The parameters (d,) whose distance is on record, if that is known without solving."""

    @property
    def size(self) -> int:
        """Draws in a block."""
        return self.setup.size

    @property
    def shift(self) -> Array:
        """What is added to every draw, (d,), see `calibrating_shift`."""
        return np.zeros(self.robust.layout.bound.n_params)

    @property
    def ridge(self) -> float:
        """Penalty on the variance of the linear predictor, beside what the draws minimise."""
        return self.robust.ridge

    @property
    def kept_rows(self) -> KeptRows | None:
        """The rows that are kept, where some may be dropped."""
        return None

    def on(self, cells: Cells) -> tuple[Objective, Objective]:
        """Both objectives on the table of the plan, or on another one."""
        if cells is self.robust.layout.cells:
            return self.robust, self.likelihood
        self.robust.layout.model.check(cells)
        robust = self.robust.rebind(cells)
        return robust, replace(self.likelihood, layout=robust.layout)

    def for_replicates(self) -> "AbstractPlan":
        """The same for data of the model's own making: where they are solved is known."""
        return self.uncentred()

    def minimisers(self, p: Array, cells: Cells) -> Array:
        """Parameters (d, B), in the user's coordinates, that fit tables p (m, B) of other cells."""
        return solve_tables(self, p, cells).robust.theta

    def uncentred(self) -> "AbstractPlan":
        """The same with minimisers as they are, for tables without random weights."""
        return self


def calibrating_shift(pilot: Array, estimate: Array, bound: AbstractBound) -> Array:
    """What brings the centre of the draws (d, B) to the estimate (d,) for the unweighted data.

    It is the estimate less the mean of the draws near their centre. Random weights make the groups
    effectively half as large, and small groups push coefficients
    outwards: draws are off by about twice the bias of the estimate. Moving them back brings the
    coverage of their intervals nearer to nominal (benchmarks/results/coverage_continuous.md).
    Draws in another basin do not count for the centre. How far a draw lies is measured by its
    predictors, not by each coefficient, which would depend on the coding of the columns.
    """
    away = pilot - estimate[:, None]
    free = np.where(bound.penalised[:, None], 0.0, away)
    far = np.sqrt(np.maximum((away * (bound.ridge_gradient(away) + free)).sum(0), 0.0))
    middle = np.median(far)
    spread = 1.4826 * np.median(np.abs(far - middle))
    near = far <= middle + 5 * max(spread, 1e-12)
    centre: Array = pilot[:, near].mean(1)
    return estimate - centre


def pilot_tables(setup: Setup) -> Iterator[Array]:
    """The random tables (m, B) of the pilot, in blocks."""
    for first in range(0, PILOT, setup.size):
        rngs = Stream.draws(setup.seed, Stream.PILOT, first)
        yield setup.pilot_weights.draw(rngs, min(setup.size, PILOT - first)).p


def pilot_of(plan: AbstractPlan) -> list[Solved]:
    """The solutions of the random tables of the pilot, in blocks."""
    return [solve_tables(plan, p) for p in pilot_tables(plan.setup)]


def solve_block(plan: AbstractPlan, block: int, n_draws: int | None = None) -> Solved:
    """Draw the tables of a block and solve them; of all blocks `n_draws` draws are wanted."""
    setup, first = plan.setup, block * plan.size
    rngs = Stream.draws(setup.seed, first=first)
    drawn = setup.weights.draw(rngs, plan.size)
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
    cells = plan.robust.layout.cells if cells is None else cells
    return plan.solve(*plan.on(cells), p, first, wanted)


def draws_of(plan: AbstractPlan, p: Array, cells: Cells | None = None) -> tuple[Array, Array]:
    """Draws (B, d), robust and by likelihood, of any number of tables p (m, B), block by block."""
    parts = [
        solve_tables(plan, p[:, at : at + plan.size], cells, at)
        for at in range(0, p.shape[1], plan.size)
    ]
    robust, likelihood_fit = (
        np.concatenate([getattr(part, side).theta for part in parts], axis=1).T
        for side in ("robust", "likelihood")
    )
    return robust, likelihood_fit
