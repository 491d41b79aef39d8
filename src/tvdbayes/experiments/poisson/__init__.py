"""Counts of which 15 % are shifted by k: figure 2 of the paper, and its appendix."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import gammaln

from tvdbayes._typing import Array
from tvdbayes.data.cells import Cells
from tvdbayes.experiments.bayes import poisson_rate
from tvdbayes.experiments.contract import AS_PUBLISHED, Measured, Task
from tvdbayes.experiments.released import LARGEST, split
from tvdbayes.experiments.simulated import AbstractSimulation, Simulated, share
from tvdbayes.models.families import Poisson
from tvdbayes.models.model import Model

__all__ = ["PoissonExperiment"]

RATE, SHARE = 3.0, 0.15
_N, _N_TRAIN = 500, 400
"""The design of the paper."""


@dataclass(frozen=True)
class PoissonExperiment(AbstractSimulation):
    """Poisson counts with a share shifted by k. The released code has the rate as its parameter."""

    name: ClassVar[str] = "poisson"
    model: ClassVar[Model] = Model(Poisson())
    in_paper: ClassVar[str] = "epsilon"
    axis: ClassVar[str] = "k"
    settings: ClassVar[tuple[str, ...]] = ("0", "4", "8", "12", "16", "20")

    def data(self, task: Task) -> tuple[Simulated, np.random.Generator]:
        shift = int(task.setting)
        if task.mode == AS_PUBLISHED:
            # The first 75 of 500 rows are shifted, then rows split.
            state = np.random.RandomState(task.number)
            y = state.poisson(np.full(_N, RATE))
            bad = np.arange(_N) < int(np.floor(_N * SHARE))
            parts, rng = split(state, _N, _N_TRAIN), np.random.default_rng([task.number, shift])
        else:
            # As in the text: every row is shifted with probability .15.
            rng = np.random.default_rng([20, shift, task.number])
            bad = rng.random(_N) < SHARE
            y = rng.poisson(RATE, _N)
            parts = np.arange(_N_TRAIN), np.arange(_N_TRAIN, _N)
        made = Simulated.split(np.ones((_N, 1)), y + shift * bad, bad & (shift > 0), parts)
        return made, rng

    def bayes(self, data: Simulated, n_draws: int, seed: int, rng: np.random.Generator) -> Array:
        return poisson_rate(float(data.y.sum()), _N_TRAIN, n_draws, rng)[:, None]

    def tvd(self, cells: Cells, p: Array) -> Callable[[Array], float]:
        """The TVD as a function of the rate itself, which the released code let become negative."""
        log_factorial = gammaln(cells.y + 1)

        def tvd(rate: Array) -> float:
            if rate[0] < 0:
                return float("nan")
            pmf = np.exp(cells.y * np.log(rate[0]) - rate[0] - log_factorial)
            return float(0.5 * (np.abs(p - pmf).sum() + 1 - pmf.sum()))

        return tvd

    def deviation(self, own: Array) -> Array:
        away: Array = np.abs(own[:, 0] - RATE)
        return away

    def released_scores(self, data: Simulated, own: Array) -> Measured:
        """The criteria with what the released code left out of them: values beyond 100, and nan.

        A negative rate has no likelihood; its errors stay in as long as they are not beyond 100.
        """
        rate, y, off = own[:, 0], data.y_test[:, None], self.deviation(own)
        with np.errstate(invalid="ignore"):
            log_pmf = y * np.log(rate) - rate - gammaln(y + 1)
        apart = np.abs(y - rate)
        return {
            "abs_diff": np.array([off[off <= LARGEST].mean()]),
            "abs_err": np.nanmean(np.where(apart <= LARGEST, apart, np.nan), axis=1),
            "pred_lik": np.exp(np.nanmean(log_pmf, axis=1)),
        }

    def peculiar(self, data: Simulated, released: Array) -> Measured:
        negative = (released[:, 0] < 0) & (self.deviation(released) <= LARGEST)
        return {"TVD released|negative but kept": share(negative)}

    def to_released(self, theta: Array) -> Array:
        return np.exp(theta)

    def to_model(self, own: Array) -> Array:
        return np.log(own)
