"""Networks of one hidden layer on four data sets: figure 4 of the paper, its lower row.

The paper shows five; its "diabetic" is "pima" with exchanged labels.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import ClassVar

import numpy as np

from tvdbayes._errors import SettingsError
from tvdbayes._typing import Array, IntArray
from tvdbayes.experiments.contract import (
    AS_PUBLISHED,
    AbstractExperiment,
    Measured,
    Report,
    Task,
    named,
)
from tvdbayes.experiments.data import SOURCES, load
from tvdbayes.experiments.network.labels import SCENARIOS, Scenario
from tvdbayes.experiments.network.methods import fewer, predictions
from tvdbayes.experiments.network.released import released
from tvdbayes.experiments.network.report import network_report, published_report
from tvdbayes.experiments.released import split_nine_tenths
from tvdbayes.experiments.scores import answer_scores, log_score, means

__all__ = ["NetworkExperiment"]

DATA = ("pima", "banknote", "ilpd", "rice")
_QUICK_DATA = ("pima", "banknote")
_SPLITS, _FEW_SPLITS = 50, 10
_RELEASED_DRAWS = 100
_LEAST = 1e-12
"""Probabilities are scored as if they were at least this."""


SETTINGS = {
    f"{name}, {scenario.name}" if scenario.share else name: (name, scenario)
    for name in DATA
    for scenario in SCENARIOS
}
"""Data set and wrong labels, by the name that tasks call them."""


@dataclass(frozen=True)
class NetworkExperiment(AbstractExperiment):
    """Networks with 50 hidden nodes, trained on 90 % of the rows and tested on the rest.

    The folder holds the paper's data; the device trains networks in the corrected mode.
    """

    folder: Path | None = None
    device: str | None = None
    name: ClassVar[str] = "network"

    def tasks(self, mode: str, quick: bool) -> list[Task]:
        """As published: a data set with all its splits, as one network goes through them.

        Corrected: one split; 50 with 1,000 draws of the clean data, 10 with 100 draws of data with
        wrong labels. Quick: two data sets, few splits and draws.
        """
        names = _QUICK_DATA if quick else DATA
        for name in names:
            # What cannot be read or run is found out before anything is run.
            load(name, self.folder)
        known = {name: f"{SOURCES[name].checksum} jax {_jax_version()}" for name in names}
        if mode == AS_PUBLISHED:
            last = (5 if quick else _SPLITS) - 1
            return [Task(mode, name, last, _RELEASED_DRAWS, known[name]) for name in names]
        return [
            Task(mode, setting, number, n_draws, known[name])
            for setting, (name, scenario) in SETTINGS.items()
            if name in names
            for n_splits, n_draws in [_amount(scenario, quick)]
            for number in range(n_splits)
        ]

    def measure(self, task: Task) -> Measured:
        """Every method on one split; as published, on this split and all before it."""
        name, scenario = SETTINGS[task.setting]
        data = load(name, self.folder)
        if task.mode == AS_PUBLISHED:
            return released(data, task.number + 1, task.n_draws)
        train, test = split_nine_tenths(np.random.RandomState(task.number), len(data.y))
        y = data.y[test]
        found: Measured = {"data|y": y.astype(float)}
        for method, prob in predictions(
            data.x[train],
            scenario.labels(data.x[train], data.y[train], task.number),
            data.x[test],
            n_draws=task.n_draws,
            seed=task.number,
            device=self.device,
        ):
            found |= named(method, _scores(prob, y, fewer(task.n_draws)))
        return found

    def report(self, mode: str, tasks: Sequence[Task], measured: Sequence[Measured]) -> Report:
        if mode == AS_PUBLISHED:
            return published_report(tasks, measured)
        return network_report(SETTINGS, tasks, measured)


def _amount(scenario: Scenario, quick: bool) -> tuple[int, int]:
    """Splits and draws."""
    if quick:
        return 2, 20
    return (_FEW_SPLITS, 100) if scenario.share else (_SPLITS, 1000)


def _scores(prob: Array, y: IntArray, n_few: int) -> Measured:
    """Scores of probabilities of label 1 under each draw, (B, n), as means over the test rows.

    More draws alone make a mean of networks better, so there is a score of the first few, which
    all methods have.
    """
    own = np.maximum(np.where(y == 1, prob, 1 - prob), _LEAST)
    log_pmf = np.log(own).T
    all_draws = answer_scores(log_pmf, prob.T, y)
    few = {"log": all_draws["log"], "log, few draws": log_score(log_pmf[:, :n_few])}
    return {**means(few | all_draws | {"pred_lik": own.mean(0)}), "prob": prob.mean(0)}


def _jax_version() -> str:
    try:
        version("optax")
        return version("jax")
    except PackageNotFoundError as error:
        raise SettingsError(
            "The experiment 'network' needs JAX. Run: pip install 'tvdbayes[jax]'"
        ) from error
