"""Binomial counts of which a share is set to zero: figure 3 of the paper, and its appendix.

The text describes one covariate with four levels and an intercept, eta = .8 + .25 x. The released
code drew two covariates with four levels and had no intercept, eta = .8 x1 + .25 x2.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import binom, expit

from tvdbayes._typing import Array
from tvdbayes.data.cells import Cells
from tvdbayes.experiments.bayes import full_bayes
from tvdbayes.experiments.contract import AS_PUBLISHED, Measured, Task
from tvdbayes.experiments.released import LARGEST, split
from tvdbayes.experiments.scores import paper_criteria
from tvdbayes.experiments.simulated import AbstractSimulation, Simulated
from tvdbayes.models.families import Binomial
from tvdbayes.models.model import Model

__all__ = ["ZeroInflation"]

TRUTH, TRIALS = np.array([0.8, 0.25]), 8
_N, _N_TRAIN, _LEVELS = 1000, 800, 4
"""The design of the paper."""


@dataclass(frozen=True)
class ZeroInflation(AbstractSimulation):
    """Binomial regression with a share of the counts set to zero."""

    name: ClassVar[str] = "zero-inflation"
    model: ClassVar[Model] = Model(Binomial())
    in_paper: ClassVar[str] = "zero_inflation"
    axis: ClassVar[str] = "share of zeros"
    settings: ClassVar[tuple[str, ...]] = ("0", "0.1", "0.2", "0.3")
    of_code: ClassVar[str] = " (design of the code)"

    def data(self, task: Task) -> tuple[Simulated, np.random.Generator]:
        """Eight trials throughout."""
        share = float(task.setting.removesuffix(self.of_code))
        if task.mode == AS_PUBLISHED:
            state, rng = np.random.RandomState(task.number), np.random.default_rng(task.number)
            x = state.choice(_LEVELS, 2 * _N).reshape(_N, 2).astype(float)
            y = state.binomial(TRIALS, expit(x @ TRUTH), _N)
            n_bad = int(np.floor(_N * share))
            y = y * np.r_[state.binomial(1, 0, n_bad), np.ones(_N - n_bad, int)]
            bad, parts = np.arange(_N) < n_bad, split(state, _N, _N_TRAIN)
        else:
            # As in the text: every row is set to zero with the same probability.
            of_code = task.setting.endswith(self.of_code)
            rng = np.random.default_rng([30, of_code, round(100 * share), task.number])
            levels = rng.integers(_LEVELS, size=(_N, 2)).astype(float)
            x = levels if of_code else np.column_stack([np.ones(_N), levels[:, 1]])
            bad = rng.random(_N) < share
            y = np.where(bad, 0, rng.binomial(TRIALS, expit(x @ TRUTH)))
            parts = np.arange(_N_TRAIN), np.arange(_N_TRAIN, _N)
        return Simulated.split(x, y, bad, parts, float(TRIALS)), rng

    def bayes(self, data: Simulated, n_draws: int, seed: int, rng: np.random.Generator) -> Array:
        return full_bayes(self.model, data.cells, n_draws, seed).draws

    def tvd(self, cells: Cells, p: Array) -> Callable[[Array], float]:
        """The TVD as a function of the coefficients: what the data have more than the model."""
        p_x = np.bincount(cells.x_index, p, cells.n_x)
        ways = binom(TRIALS, cells.y)

        def tvd(theta: Array) -> float:
            prob = expit(cells.x @ theta)[cells.x_index]
            pmf = ways * prob**cells.y * (1 - prob) ** (TRIALS - cells.y)
            return float(np.maximum(p - p_x[cells.x_index] * pmf, 0).sum())

        return tvd

    def deviation(self, own: Array) -> Array:
        """Of the slope."""
        away: Array = np.abs(own[:, 1] - TRUTH[1])
        return away

    def released_scores(self, data: Simulated, own: Array) -> Measured:
        deviation = self.deviation(own)
        kept = deviation <= LARGEST
        mean, log_pmf = data.predictions(self.model, own[kept])
        return {
            "abs_diff": np.array([deviation[kept].mean()]),
            **paper_criteria(mean, data.at_outcomes(log_pmf), data.y_test, of_logs=True),
        }

    def peculiar(self, data: Simulated, released: Array) -> Measured:
        """Whether the largest count seen, which the released code took for the trials, is not 8."""
        largest = (data.y.max(), data.y_test.max())
        return {"data|largest count is not 8": np.array([float(largest != (TRIALS, TRIALS))])}
