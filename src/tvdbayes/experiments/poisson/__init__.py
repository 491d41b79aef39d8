"""Counts of which 15 % are shifted by k: figure 2 of the paper, and its appendix."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import gammaln

from tvdbayes._typing import Array, IntArray
from tvdbayes.data.cells import Cells
from tvdbayes.experiments.bayes import poisson_rate
from tvdbayes.experiments.contract import (
    AS_PUBLISHED,
    AbstractExperiment,
    Measured,
    Report,
    Task,
    named,
)
from tvdbayes.experiments.released import LARGEST, split
from tvdbayes.experiments.simulated import (
    Simulated,
    corrected,
    dropped,
    released_bayes_scores,
    released_draws,
)
from tvdbayes.experiments.simulation_report import simulation_report
from tvdbayes.models.families import Poisson
from tvdbayes.models.model import Model

__all__ = ["PoissonExperiment"]

RATE, SHARE = 3.0, 0.15
_N, _N_TRAIN = 500, 400
_SHIFTS = (0, 4, 8, 12, 16, 20)
_BAYES_DRAWS = 4000
_MODEL = Model(Poisson())


@dataclass(frozen=True)
class PoissonExperiment(AbstractExperiment):
    """Poisson counts with a share shifted by k, fitted as if there were none."""

    name: ClassVar[str] = "poisson"

    def tasks(self, mode: str, quick: bool) -> list[Task]:
        """100 data sets for each k; quick: 10, with fewer draws."""
        n_sets, n_draws = (10, 200) if quick else (100, 1000)
        return [Task(mode, str(k), i, n_draws) for k in _SHIFTS for i in range(n_sets)]

    def measure(self, task: Task) -> Measured:
        run = _as_published if task.mode == AS_PUBLISHED else _corrected
        return run(int(task.setting), task.number, task.n_draws)

    def report(self, mode: str, tasks: Sequence[Task], measured: Sequence[Measured]) -> Report:
        return simulation_report("epsilon", mode, tasks, measured, axis="k")


def _as_published(shift: int, number: int, n_draws: int) -> Measured:
    """The data set of the released code: the first 75 of 500 rows are shifted, then rows split."""
    state = np.random.RandomState(number)
    y = state.poisson(np.full(_N, RATE))
    bad = np.arange(_N) < int(np.floor(_N * SHARE))
    y[bad] += shift
    data = Simulated.split(np.ones((_N, 1)), y, bad, split(state, _N, _N_TRAIN))
    rates = released_draws(_MODEL, data, n_draws, _tvd_of_rate, np.exp)
    rng = np.random.default_rng([number, shift])
    n_bayes = max(_BAYES_DRAWS * n_draws // 1000, 100)
    bayes = poisson_rate(float(data.y.sum()), _N_TRAIN, n_bayes, rng)[:, None]
    found: Measured = {}
    for method, rate in {**rates, "Bayes, same scores": bayes}.items():
        found |= named(method, _released_scores(rate[:, 0], data.y_test))
    deviation = np.abs(bayes[:, 0] - RATE)
    found |= released_bayes_scores(_MODEL, data, np.log(bayes), deviation, rng)
    off = np.abs(rates["TVD released"][:, 0] - RATE)
    found["TVD released|dropped"] = dropped(off)
    negative = (rates["TVD released"][:, 0] < 0) & (off <= LARGEST)
    found["TVD released|negative but kept"] = np.array([np.mean(negative)])
    found["TVD|dropped"] = dropped(np.abs(rates["TVD"][:, 0] - RATE))
    return found


def _released_scores(rate: Array, y: IntArray) -> Measured:
    """The criteria with what the released code left out of them: values beyond 100, and nan.

    A negative rate has no likelihood; its errors stay in as long as they are not beyond 100.
    """
    with np.errstate(invalid="ignore"):
        log_pmf = y[:, None] * np.log(rate) - rate - gammaln(y[:, None] + 1)
    apart = np.abs(y[:, None] - rate)
    off = np.abs(rate - RATE)
    return {
        "abs_diff": np.array([off[off <= LARGEST].mean()]),
        "abs_err": np.nanmean(np.where(apart <= LARGEST, apart, np.nan), axis=1),
        "pred_lik": np.exp(np.nanmean(log_pmf, axis=1)),
    }


def _corrected(shift: int, number: int, n_draws: int) -> Measured:
    """The text's data: every row is shifted with probability .15."""
    rng = np.random.default_rng([20, shift, number])
    bad = rng.random(_N) < SHARE
    y = rng.poisson(RATE, _N) + shift * bad
    parts = np.arange(_N_TRAIN), np.arange(_N_TRAIN, _N)
    data = Simulated.split(np.ones((_N, 1)), y, bad & (shift > 0), parts)
    bayes = np.log(poisson_rate(float(data.y.sum()), _N_TRAIN, n_draws, rng))[:, None]

    def deviation(draws: Array) -> Array:
        return np.abs(np.exp(draws[:, 0]) - RATE)

    return corrected(_MODEL, data, bayes, n_draws, number, deviation=deviation)


def _tvd_of_rate(cells: Cells, p: Array) -> Callable[[Array], float]:
    """The TVD as a function of the rate itself, which the released code let become negative."""
    log_factorial = gammaln(cells.y + 1)

    def tvd(rate: Array) -> float:
        if rate[0] < 0:
            return float("nan")
        pmf = np.exp(cells.y * np.log(rate[0]) - rate[0] - log_factorial)
        return float(0.5 * (np.abs(p - pmf).sum() + 1 - pmf.sum()))

    return tvd
