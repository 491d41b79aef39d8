"""Binomial counts of which a share is set to zero: figure 3 of the paper, and its appendix.

The text describes one covariate with four levels and an intercept, eta = .8 + .25 x. The released
code drew two covariates with four levels and had no intercept, eta = .8 x1 + .25 x2.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import binom, expit

from tvdbayes._typing import Array
from tvdbayes.data.cells import Cells
from tvdbayes.experiments.bayes import full_bayes
from tvdbayes.experiments.contract import (
    AS_PUBLISHED,
    AbstractExperiment,
    Measured,
    Report,
    Task,
    named,
)
from tvdbayes.experiments.released import LARGEST, split
from tvdbayes.experiments.scores import paper_criteria
from tvdbayes.experiments.simulated import (
    Simulated,
    corrected,
    dropped,
    released_bayes_scores,
    released_draws,
)
from tvdbayes.experiments.simulation_report import simulation_report
from tvdbayes.models.families import Binomial
from tvdbayes.models.model import Model

__all__ = ["ZeroInflation"]

TRUTH, TRIALS = np.array([0.8, 0.25]), 8
_N, _N_TRAIN, _LEVELS = 1000, 800, 4
_SHARES = ("0", "0.1", "0.2", "0.3")
_OF_CODE = " (design of the code)"
_BAYES_DRAWS = 4000
_MODEL = Model(Binomial())


@dataclass(frozen=True)
class ZeroInflation(AbstractExperiment):
    """Binomial regression with a share of the counts set to zero, fitted as if there were none."""

    name: ClassVar[str] = "zero-inflation"

    def tasks(self, mode: str, quick: bool) -> list[Task]:
        """100 data sets for each share; quick: 10, with fewer draws."""
        n_sets, n_draws = (10, 200) if quick else (100, 1000)
        settings: tuple[str, ...] = _SHARES
        if mode != AS_PUBLISHED:
            settings = (*_SHARES, *(f"{share}{_OF_CODE}" for share in _SHARES))
        return [Task(mode, setting, i, n_draws) for setting in settings for i in range(n_sets)]

    def measure(self, task: Task) -> Measured:
        share = float(task.setting.removesuffix(_OF_CODE))
        if task.mode == AS_PUBLISHED:
            return _as_published(share, task.number, task.n_draws)
        of_code = task.setting.endswith(_OF_CODE)
        return _corrected(share, of_code, task.number, task.n_draws)

    def report(self, mode: str, tasks: Sequence[Task], measured: Sequence[Measured]) -> Report:
        axis = "share of zeros"
        return simulation_report(
            "zero_inflation", mode, tasks, measured, axis=axis, suffix=_OF_CODE
        )


def _as_published(share: float, number: int, n_draws: int) -> Measured:
    """The data set of the released code, which took the largest count seen for the trials."""
    state = np.random.RandomState(number)
    x = state.choice(_LEVELS, 2 * _N).reshape(_N, 2)
    y = state.binomial(TRIALS, expit(x @ TRUTH), _N)
    n_bad = int(np.floor(_N * share))
    y = y * np.r_[state.binomial(1, 0, n_bad), np.ones(_N - n_bad, int)]
    bad = np.arange(_N) < n_bad
    data = Simulated.split(x.astype(float), y, bad, split(state, _N, _N_TRAIN), float(TRIALS))
    draws = released_draws(_MODEL, data, n_draws, _tvd, lambda theta: theta)
    n_bayes = max(_BAYES_DRAWS * n_draws // 1000, 100)
    bayes = full_bayes(_MODEL, data.cells, n_bayes, number).draws
    found: Measured = {}
    for method, theta in {**draws, "Bayes, same scores": bayes}.items():
        found |= named(method, _released_scores(data, theta))
    rng = np.random.default_rng(number)
    found |= released_bayes_scores(_MODEL, data, bayes, _deviation(bayes), rng)
    for method in ("TVD released", "TVD"):
        found[f"{method}|dropped"] = dropped(_deviation(draws[method]))
    largest = (data.y.max(), data.y_test.max())
    found["data|largest count is not 8"] = np.array([float(largest != (TRIALS, TRIALS))])
    return found


def _released_scores(data: Simulated, draws: Array) -> Measured:
    """The criteria as the released code computed them; draws far off the truth were left out."""
    deviation = _deviation(draws)
    kept = deviation <= LARGEST
    mean, log_pmf = data.predictions(_MODEL, draws[kept])
    return {
        "abs_diff": np.array([deviation[kept].mean()]),
        **paper_criteria(mean, data.at_outcomes(log_pmf), data.y_test, of_logs=True),
    }


def _deviation(draws: Array) -> Array:
    """How far the slope is from the truth, (B,)."""
    away: Array = np.abs(draws[:, 1] - TRUTH[1])
    return away


def _corrected(share: float, of_code: bool, number: int, n_draws: int) -> Measured:
    """Eight trials throughout; every row is set to zero with the same probability."""
    rng = np.random.default_rng([30, of_code, round(100 * share), number])
    levels = rng.integers(_LEVELS, size=(_N, 2)).astype(float)
    x = levels if of_code else np.column_stack([np.ones(_N), levels[:, 1]])
    bad = rng.random(_N) < share
    y = np.where(bad, 0, rng.binomial(TRIALS, expit(x @ TRUTH)))
    parts = np.arange(_N_TRAIN), np.arange(_N_TRAIN, _N)
    data = Simulated.split(x, y, bad, parts, float(TRIALS))
    bayes = full_bayes(_MODEL, data.cells, n_draws, number).draws
    return corrected(_MODEL, data, bayes, n_draws, number, deviation=_deviation)


def _tvd(cells: Cells, p: Array) -> Callable[[Array], float]:
    """The TVD as a function of the coefficients: what the data have more than the model."""
    p_x = np.bincount(cells.x_index, p, cells.n_x)
    ways = binom(TRIALS, cells.y)

    def tvd(theta: Array) -> float:
        prob = expit(cells.x @ theta)[cells.x_index]
        pmf = ways * prob**cells.y * (1 - prob) ** (TRIALS - cells.y)
        return float(np.maximum(p - p_x[cells.x_index] * pmf, 0).sum())

    return tvd
