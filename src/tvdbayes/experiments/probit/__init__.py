"""Probit models of five data sets, 50 random splits each: figure 4 of the paper, its upper row."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
from scipy.special import log_ndtr, ndtr

from tvdbayes._typing import Array, IntArray
from tvdbayes.data.cells import Cells, compress
from tvdbayes.experiments.bayes import full_bayes
from tvdbayes.experiments.contract import (
    AS_PUBLISHED,
    AbstractExperiment,
    Measured,
    Report,
    Task,
    named,
)
from tvdbayes.experiments.data import SOURCES, load, sound_rows
from tvdbayes.experiments.methods import draws_of_all
from tvdbayes.experiments.probit.report import probit_report
from tvdbayes.experiments.released import (
    descents,
    optimal_draws,
    probit_irls,
    split_nine_tenths,
    weights,
)
from tvdbayes.experiments.scores import answer_scores, means
from tvdbayes.models.families import Bernoulli, Probit
from tvdbayes.models.model import Model
from tvdbayes.objective.partitions import Distinct
from tvdbayes.sampling.bootstrap import posterior_bootstrap

__all__ = ["ProbitExperiment"]

DATA = ("mammographic_mass", "fourclass", "heart", "haberman", "breast-cancer-wisconsin")
_RELEASED_DRAWS = 100
_DESCENTS = 20
"""Draws of each split that the released optimiser is run on, from its own start."""
_MODEL = Model(Bernoulli(Probit()))


@dataclass(frozen=True)
class ProbitExperiment(AbstractExperiment):
    """Probit models, trained on 90 % of the rows and tested on the rest."""

    folder: Path | None = None
    name: ClassVar[str] = "probit"

    def tasks(self, mode: str, quick: bool) -> list[Task]:
        """50 splits of each data set; quick: 5, with fewer draws.

        The text has 1,000 draws, the released script 100.
        """
        n_splits, n_draws = (5, 100) if quick else (50, 1000)
        if mode == AS_PUBLISHED:
            n_draws = _RELEASED_DRAWS
        for name in DATA:
            # What cannot be read is found out before anything is run.
            load(name, self.folder, mode)
        return [
            Task(mode, name, i, n_draws, SOURCES[name].checksum)
            for name in DATA
            for i in range(n_splits)
        ]

    def measure(self, task: Task) -> Measured:
        data = load(task.setting, self.folder, task.mode)
        train, test = split_nine_tenths(np.random.RandomState(task.number), len(data.y))
        run = _as_published if task.mode == AS_PUBLISHED else _corrected
        draws = run(data.x[train], data.y[train], task.n_draws, task.number)
        found: Measured = {"data|y": data.y[test].astype(float)}
        for method, theta in draws.items():
            found |= named(method, _scores(data.x[test], data.y[test], theta, task.mode))
        sound = sound_rows(data.x)
        if not sound.all():
            # What the broken rows do: the same without them, in training and in the test.
            train, test = train[sound[train]], test[sound[test]]
            again = run(data.x[train], data.y[train], task.n_draws, task.number)
            for method in ("TVD", "KLD"):
                scores = _scores(data.x[test], data.y[test], again[method], task.mode)
                found |= named(f"{method} without broken rows", scores)
        return found

    def report(self, mode: str, tasks: Sequence[Task], measured: Sequence[Measured]) -> Report:
        return probit_report(mode, tasks, measured)


def _as_published(x: Array, y: IntArray, n_draws: int, seed: int) -> dict[str, Array]:
    """No intercept, x as it comes, the weights of the released code.

    Maximum likelihood is what its library made of it, and TVD is minimised to the end here and, on
    a few draws, by its own optimiser from its own start.
    """
    del seed
    kld = np.array([probit_irls(x, y, row) for row in weights(len(y), n_draws)])
    made = compress(x, y)
    tvd, likelihood, p = optimal_draws(_MODEL, made, n_draws, partition=Distinct(), ridge=0.0)
    released = descents(_tvd, made.cells, p, kld[:_DESCENTS])
    return {"TVD": tvd, "KLD": kld, "TVD released": released, "maximum likelihood": likelihood}


def _corrected(x: Array, y: IntArray, n_draws: int, seed: int) -> dict[str, Array]:
    """With an intercept and scaled x; TVD on groups of rows, and on single rows as in the paper.

    The comparators have a fifth of the draws: they are many, and their means need no more.
    """
    cells, few = Cells.from_rows(x, y), max(n_draws // 5, 2)
    naive = posterior_bootstrap(
        _MODEL, cells, n_draws=few, seed=seed, partition=Distinct(), ridge=0.0, refine=None
    )
    others = {"Bayes": full_bayes(_MODEL, cells, n_draws, seed).draws, "naive TVD": naive.draws}
    return draws_of_all(_MODEL, cells, others, seed=seed, n_draws=n_draws, n_few=few)


def _scores(x: Array, y: IntArray, theta: Array, mode: str) -> Measured:
    """Scores of the test rows."""
    eta = x @ theta.T
    prob = ndtr(eta)
    own = np.where(y[:, None] == 1, prob, 1 - prob)
    if mode == AS_PUBLISHED:
        # Means over draws and rows of one split; the released code calls a draw right where it
        # gives the label more than a half.
        right = ((prob > 0.5) == (y[:, None] == 1)).mean()
        return {"pred_lik": np.array([own.mean()]), "accuracy": np.array([right])}
    log_pmf = np.where(y[:, None] == 1, log_ndtr(eta), log_ndtr(-eta))
    scores = means(answer_scores(log_pmf, prob, y))
    return {"pred_lik": np.array([own.mean()]), **scores, "prob": prob.mean(1)}


def _tvd(cells: Cells, p: Array) -> Callable[[Array], float]:
    """The TVD as a function of the coefficients, every distinct x a group."""
    p_x = np.bincount(cells.x_index, p, cells.n_x)
    p_one = np.bincount(cells.x_index, p * (cells.y == 1), cells.n_x)

    def tvd(theta: Array) -> float:
        return float(np.abs(p_one - p_x * ndtr(cells.x @ theta)).sum())

    return tvd
