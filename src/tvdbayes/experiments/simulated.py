"""What the two simulations share: data with a test part, fits of every method, and their scores."""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tvdbayes._typing import Array, BoolArray, IntArray
from tvdbayes.data.cells import Cells, Compressed, compress
from tvdbayes.experiments.contract import (
    AS_PUBLISHED,
    AbstractExperiment,
    Measured,
    Report,
    Task,
    named,
)
from tvdbayes.experiments.methods import draws_of_all
from tvdbayes.experiments.released import LARGEST, descents, optimal_draws
from tvdbayes.experiments.scores import (
    calibration_error,
    log_score,
    means,
    paper_criteria,
    proper_scores,
)
from tvdbayes.experiments.simulation_report import simulation_report
from tvdbayes.models.model import Model

_DESCENTS = 50
"""Draws of each data set that the released optimiser is run on, to see what it does."""

_BEYOND = 40
"""Outcomes beyond the largest seen at which a pmf is cut off: the rest is negligible."""

_BAYES_DRAWS = 4000
"""Draws of full Bayes for each thousand of the others, as published."""


@dataclass(frozen=True, eq=False)
class Simulated:
    """Rows to train on and rows to test on; `clean` says which test rows are of the model."""

    x: Array
    y: IntArray
    x_test: Array
    y_test: IntArray
    clean: BoolArray
    trials: float | None = None

    @classmethod
    def split(
        cls,
        x: Array,
        y: IntArray,
        bad: BoolArray,
        parts: tuple[IntArray, IntArray],
        trials: float | None = None,
    ) -> "Simulated":
        """Rows to train on and to test on; those that are bad are not of the model."""
        train, test = parts
        return cls(x[train], y[train], x[test], y[test], ~bad[test], trials)

    @property
    def compressed(self) -> Compressed:
        """The training rows as a table, with the cell of each."""
        trials = None if self.trials is None else np.full(len(self.y), self.trials)
        return compress(self.x, self.y, trials=trials)

    @property
    def cells(self) -> Cells:
        """The training rows as a table."""
        return self.compressed.cells

    @property
    def one_trials(self) -> Array:
        """Trials of a row as families take them."""
        return np.array(1.0 if self.trials is None else self.trials)

    def predictions(self, model: Model, draws: Array) -> tuple[Array, Array]:
        """Means (rows, B) and log-probabilities of 0, 1, ... (rows, K + 1, B) of test rows."""
        largest = int(self.y_test.max() + _BEYOND if self.trials is None else self.trials)
        x, index = np.unique(self.x_test, axis=0, return_inverse=True)
        eta = (x @ draws.T)[None]
        outcomes = np.arange(largest + 1.0)[:, None]
        log_pmf = model.family.log_pmf(outcomes, eta[:, :, None], self.one_trials)
        at = index.ravel()
        return model.family.mean(eta, self.one_trials)[at], log_pmf[at]

    def at_outcomes(self, log_pmf: Array) -> Array:
        """Log-probabilities of the outcomes of the test rows, (rows, B)."""
        return log_pmf[np.arange(self.y_test.size), self.y_test]


def share(which: BoolArray) -> Array:
    """Share of the draws for which a condition holds, as a measurement."""
    return np.array([np.mean(which)])


class AbstractSimulation(AbstractExperiment):
    """Data sets of which a share of the rows is wrong, fitted as if there were none.

    The released code has parameters of its own, which `to_released` makes of those of the model and
    `to_model` turns back.
    """

    model: ClassVar[Model]
    in_paper: ClassVar[str]
    axis: ClassVar[str]
    settings: ClassVar[tuple[str, ...]]
    of_code: ClassVar[str] = ""
    """Ending of settings of a second design, that of the released code, if it has another."""

    def tasks(self, mode: str, quick: bool) -> list[Task]:
        """100 data sets for each setting; quick: 10, with fewer draws."""
        n_sets, n_draws = (10, 200) if quick else (100, 1000)
        settings = self.settings
        if self.of_code and mode != AS_PUBLISHED:
            settings = (*settings, *(f"{setting}{self.of_code}" for setting in settings))
        return [Task(mode, setting, i, n_draws) for setting in settings for i in range(n_sets)]

    def measure(self, task: Task) -> Measured:
        data, rng = self.data(task)
        if task.mode == AS_PUBLISHED:
            return self._as_published(task, data, rng)
        bayes = self.to_model(self.bayes(data, task.n_draws, task.number, rng))
        every = draws_of_all(
            self.model, data.cells, {"Bayes": bayes}, seed=task.number, n_draws=task.n_draws
        )
        found: Measured = {}
        for method, draws in every.items():
            found |= named(method, self._scores(data, draws))
        return found

    def report(self, mode: str, tasks: Sequence[Task], measured: Sequence[Measured]) -> Report:
        return simulation_report(
            self.in_paper, mode, tasks, measured, axis=self.axis, suffix=self.of_code
        )

    @abstractmethod
    def data(self, task: Task) -> tuple[Simulated, np.random.Generator]:
        """The data set of a task, and the generator of what else is random in it."""

    @abstractmethod
    def bayes(self, data: Simulated, n_draws: int, seed: int, rng: np.random.Generator) -> Array:
        """Draws of full Bayes (B, d), in the parameters of the released code."""

    @abstractmethod
    def tvd(self, cells: Cells, p: Array) -> Callable[[Array], float]:
        """The TVD of a table with masses p (m,), as the released code minimised it."""

    @abstractmethod
    def deviation(self, own: Array) -> Array:
        """How far draws (B, d) of the released code's parameters are from the truth, (B,)."""

    @abstractmethod
    def released_scores(self, data: Simulated, own: Array) -> Measured:
        """The criteria as the released code computed them, without what it left out."""

    @abstractmethod
    def peculiar(self, data: Simulated, released: Array) -> Measured:
        """What else is to be known of the released data, and of the draws of its optimiser."""

    def to_released(self, theta: Array) -> Array:
        """Parameters as the released code has them."""
        return theta

    def to_model(self, own: Array) -> Array:
        """Parameters of the model."""
        return own

    def _as_published(self, task: Task, data: Simulated, rng: np.random.Generator) -> Measured:
        """On the weights of the released code: TVD, KLD, TVD by its own optimiser, and Bayes."""
        made = data.compressed
        tvd, kld, p = optimal_draws(self.model, made, task.n_draws)
        released = descents(self.tvd, made.cells, p, self.to_released(kld[:_DESCENTS]))
        draws = {
            "TVD": self.to_released(tvd),
            "KLD": self.to_released(kld),
            "TVD released": released,
        }
        n_bayes = max(_BAYES_DRAWS * task.n_draws // 1000, 100)
        bayes = self.bayes(data, n_bayes, task.number, rng)
        found: Measured = {}
        for method, own in {**draws, "Bayes, same scores": bayes}.items():
            found |= named(method, self.released_scores(data, own))
        found |= named("Bayes", self._released_bayes_scores(data, bayes, rng))
        for method in ("TVD released", "TVD"):
            # Results so far off were left out of the figure.
            found[f"{method}|dropped"] = share(self.deviation(draws[method]) > LARGEST)
        return found | self.peculiar(data, released)

    def _released_bayes_scores(
        self, data: Simulated, own: Array, rng: np.random.Generator
    ) -> Measured:
        """The criteria as the released code computed them for full Bayes.

        Errors are those of outcomes drawn from the posterior predictive, not of its mean, and both
        errors and log-probabilities are averaged over all test rows and a few of the draws, so that
        there are as many means as rows: a point of the box is not a test row, as it is elsewhere.
        """
        draws = self.to_model(own)
        _, log_pmf = data.predictions(self.model, draws)
        eta = (data.x_test @ draws.T)[None]
        outcomes = self.model.family.sample(rng, eta, data.one_trials)

        def slices(values: Array) -> Array:
            return np.asarray(values.T.reshape(data.y_test.size, -1).mean(1), float)

        return {
            "abs_diff": np.array([self.deviation(own).mean()]),
            "abs_err": slices(np.abs(outcomes - data.y_test[:, None])),
            "pred_lik": np.exp(slices(data.at_outcomes(log_pmf))),
        }

    def _scores(self, data: Simulated, draws: Array) -> Measured:
        """The paper's criteria as it defines them, and means of proper scores over test rows."""
        y, clean = data.y_test, data.clean
        mean, log_pmf = data.predictions(self.model, draws)
        law, at = np.exp(log_pmf).mean(-1), data.at_outcomes(log_pmf)
        scores = {"log": log_score(at), **proper_scores(law, y)}
        return {
            "abs_diff": np.array([self.deviation(self.to_released(draws)).mean()]),
            **paper_criteria(mean, at, y, of_logs=False),
            **means(scores),
            **means({f"{name}, clean rows": values[clean] for name, values in scores.items()}),
            "calibration": np.array([calibration_error(law, y)]),
            "calibration, clean rows": np.array([calibration_error(law[clean], y[clean])]),
        }
