"""What the two simulations share: data with a test part, fits of every method, and their scores."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tvdbayes._typing import Array, BoolArray, IntArray
from tvdbayes.data.cells import Cells, compress
from tvdbayes.experiments.contract import Measured, named
from tvdbayes.experiments.methods import robust_fits
from tvdbayes.experiments.released import LARGEST, TVDOf, descents, optimal_draws
from tvdbayes.experiments.scores import (
    calibration_error,
    log_score,
    means,
    paper_criteria,
    proper_scores,
)
from tvdbayes.models.model import Model

__all__ = ["Simulated", "corrected", "dropped", "released_bayes_scores", "released_draws"]

_DESCENTS = 50
"""Draws of each data set that the released optimiser is run on, to see what it does."""

_BEYOND = 40
"""Outcomes beyond the largest seen that a law is followed to: nothing is left there."""


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
    def cells(self) -> Cells:
        """The training rows as a table."""
        return Cells.from_rows(self.x, self.y, trials=self.row_trials)

    @property
    def row_trials(self) -> Array | None:
        """Trials of the training rows, where outcomes are counted out of some."""
        return None if self.trials is None else np.full(len(self.y), self.trials)

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


def released_draws(
    model: Model,
    data: Simulated,
    n_draws: int,
    tvd_of: TVDOf,
    own: Callable[[Array], Array],
) -> dict[str, Array]:
    """Draws (B, d) on the weights of the released code: TVD, KLD, and TVD by its own optimiser.

    They are in the parameters of the released code, which `own` makes of ours.
    """
    made = compress(data.x, data.y, trials=data.row_trials)
    tvd, kld, p = optimal_draws(model, made, n_draws)
    released = descents(tvd_of, made.cells, p, own(kld[:_DESCENTS]))
    return {"TVD": own(tvd), "KLD": own(kld), "TVD released": released}


def dropped(off: Array) -> Array:
    """Share of the draws that the released code left out, as they were so far off the truth."""
    return np.array([np.mean(off > LARGEST)])


def released_bayes_scores(
    model: Model, data: Simulated, draws: Array, deviation: Array, rng: np.random.Generator
) -> Measured:
    """The criteria as the released code computed them for full Bayes.

    Errors are those of outcomes drawn from the posterior predictive, not of its mean, and both
    errors and log-probabilities are averaged over all test rows and a few of the draws, so that
    there are as many means as rows: a point of the box is not a test row, as it is elsewhere.
    """
    _, log_pmf = data.predictions(model, draws)
    eta = (data.x_test @ draws.T)[None]
    outcomes = model.family.sample(rng, eta, data.one_trials)

    def slices(values: Array) -> Array:
        return np.asarray(values.T.reshape(data.y_test.size, -1).mean(1), float)

    scores = {
        "abs_diff": np.array([deviation.mean()]),
        "abs_err": slices(np.abs(outcomes - data.y_test[:, None])),
        "pred_lik": np.exp(slices(data.at_outcomes(log_pmf))),
    }
    return named("Bayes", scores)


def corrected(
    model: Model,
    data: Simulated,
    bayes: Array,
    n_draws: int,
    seed: int,
    *,
    deviation: Callable[[Array], Array],
) -> Measured:
    """Every method on the same table and the same random weights, beside draws of full Bayes.

    Criteria are those of the paper as it defines them, and means of proper scores over test rows.
    `deviation` is how far draws (B, d) are from the truth, (B,).
    """
    fits = robust_fits(model, data.cells, seed, n_draws)
    robust = {method: fit.draws for method, fit in fits.items()}
    every = {"TVD": robust["TVD"], "KLD": fits["TVD"].kld_draws, "Bayes": bayes} | robust
    found: Measured = {}
    for method, draws in every.items():
        found |= named(method, _corrected_scores(model, data, draws, deviation(draws)))
    return found


def _corrected_scores(model: Model, data: Simulated, draws: Array, deviation: Array) -> Measured:
    y, clean = data.y_test, data.clean
    mean, log_pmf = data.predictions(model, draws)
    law, at = np.exp(log_pmf).mean(-1), data.at_outcomes(log_pmf)
    scores = {"log": log_score(at), **proper_scores(law, y)}
    return {
        "abs_diff": np.array([deviation.mean()]),
        **paper_criteria(mean, at, y, of_logs=False),
        **means(scores),
        **means({f"{name}, clean rows": values[clean] for name, values in scores.items()}),
        "calibration": np.array([calibration_error(law, y)]),
        "calibration, clean rows": np.array([calibration_error(law[clean], y[clean])]),
    }
