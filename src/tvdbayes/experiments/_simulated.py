"""What the two simulations share: data with a test part, fits of every method, and their scores."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tvdbayes._errors import TVDBayesWarning
from tvdbayes._typing import Array, BoolArray, IntArray
from tvdbayes.data.cells import Cells, compress
from tvdbayes.experiments._base import Measured
from tvdbayes.experiments._released import LARGEST, descend, tables, weights
from tvdbayes.experiments._scores import (
    calibration_error,
    log_score,
    paper_criteria,
    proper_scores,
)
from tvdbayes.models.model import Model
from tvdbayes.objective.divergences import DensityPower, Hellinger
from tvdbayes.sampling.bootstrap import draws_of, plan_of, posterior_bootstrap

__all__ = [
    "Simulated",
    "all_methods",
    "corrected_scores",
    "released_bayes_scores",
    "released_draws",
    "released_scores",
]

_DESCENTS = 50
"""Draws of each data set that the released optimiser is run on, to see what it does."""


@dataclass(frozen=True, eq=False)
class Simulated:
    """Rows to train on and rows to test on; `clean` says which test rows are of the model."""

    x: Array
    y: IntArray
    x_test: Array
    y_test: IntArray
    clean: BoolArray
    trials: float | None = None

    @property
    def cells(self) -> Cells:
        """The training rows as a table."""
        return Cells.from_rows(self.x, self.y, trials=self.trials_of(len(self.y)))

    def trials_of(self, n_rows: int) -> Array | None:
        """Trials of so many rows, where outcomes are counted out of some."""
        return None if self.trials is None else np.full(n_rows, self.trials)

    def predictions(self, model: Model, draws: Array) -> tuple[Array, Array]:
        """Means (rows, B) and log-probabilities of 0, 1, ... (rows, K + 1, B) of test rows."""
        largest = int(self.y_test.max() + _BEYOND if self.trials is None else self.trials)
        x, index = np.unique(self.x_test, axis=0, return_inverse=True)
        eta = (x @ draws.T)[None]
        trials = np.array(1.0 if self.trials is None else self.trials)
        outcomes = np.arange(largest + 1.0)[:, None]
        log_pmf = model.family.log_pmf(outcomes, eta[:, :, None], trials)
        at = index.ravel()
        return model.family.mean(eta, trials)[at], log_pmf[at]


_BEYOND = 40
"""Outcomes beyond the largest seen that a law is followed to: nothing is left there."""


def released_draws(
    model: Model,
    data: Simulated,
    n_draws: int,
    *,
    objective: Callable[[Cells, Array], Callable[[Array], float]],
    own: Callable[[Array], Array],
) -> dict[str, Array]:
    """Draws (B, d) on the weights of the released code: TVD, KLD, and TVD by its own optimiser.

    Parameters
    ----------
    objective : callable
        From a table and its masses (m,) to the TVD as a function of the released parameters.
    own : callable
        To the released parameters; draws of its own optimiser stay in them.
    """
    made = compress(data.x, data.y, trials=data.trials_of(len(data.y)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TVDBayesWarning)
        plan = plan_of(posterior_bootstrap(model, made.cells, n_draws=0, refine=None))
    p = tables(made, weights(len(data.y), n_draws))
    tvd, kld = draws_of(plan, p)
    few = min(_DESCENTS, n_draws)
    descents = [descend(objective(made.cells, p[:, j]), own(kld[j])) for j in range(few)]
    return {"TVD": tvd, "KLD": kld, "TVD released": np.array(descents)}


def released_scores(model: Model, data: Simulated, draws: Array, deviation: Array) -> Measured:
    """The criteria as the released code computed them; draws far off the truth were left out."""
    kept = deviation <= LARGEST
    mean, log_pmf = data.predictions(model, draws[kept])
    at = log_pmf[np.arange(data.y_test.size), data.y_test]
    return {
        "abs_diff": np.array([deviation[kept].mean()]),
        **paper_criteria(mean, at, data.y_test, of_logs=True),
    }


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
    trials = np.array(1.0 if data.trials is None else data.trials)
    outcomes = model.family.sample(rng, eta, trials)
    at = log_pmf[np.arange(data.y_test.size), data.y_test]

    def slices(values: Array) -> Array:
        return np.asarray(values.T.reshape(data.y_test.size, -1).mean(1), float)

    return {
        "abs_diff": np.array([deviation.mean()]),
        "abs_err": slices(np.abs(outcomes - data.y_test[:, None])),
        "pred_lik": np.exp(slices(at)),
    }


def all_methods(
    model: Model, data: Simulated, bayes: Array, n_draws: int, seed: int
) -> dict[str, Array]:
    """Draws (B, d) of every method on the same table and the same random weights."""
    cells = data.cells
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TVDBayesWarning)
        tvd = posterior_bootstrap(model, cells, n_draws=n_draws, seed=seed, refine=None)
        refined = posterior_bootstrap(model, cells, n_draws=n_draws, seed=seed, refine="reweight")
        others = {
            name: posterior_bootstrap(
                model, cells, divergence=divergence, n_draws=n_draws, seed=seed
            ).draws
            for name, divergence in (("Hellinger", Hellinger()), ("density power", DensityPower()))
        }
    return {
        "TVD": tvd.draws,
        "KLD": tvd.kld_draws,
        "Bayes": bayes,
        "TVD reweighted": refined.draws,
        **others,
    }


def corrected_scores(model: Model, data: Simulated, draws: Array, deviation: Array) -> Measured:
    """The paper's criteria as it defines them, and means of proper scores over test rows."""
    mean, log_pmf = data.predictions(model, draws)
    law = np.exp(log_pmf).mean(-1)
    at = log_pmf[np.arange(data.y_test.size), data.y_test]
    scores = {"log": log_score(at), **proper_scores(law, data.y_test)}
    means = {name: np.array([values.mean()]) for name, values in scores.items()}
    clean = {
        f"{name}, clean rows": np.array([values[data.clean].mean()])
        for name, values in scores.items()
    }
    return {
        "abs_diff": np.array([deviation.mean()]),
        **paper_criteria(mean, at, data.y_test, of_logs=False),
        **means,
        **clean,
        "calibration": np.array([calibration_error(law, data.y_test)]),
        "calibration, clean rows": np.array(
            [calibration_error(law[data.clean], data.y_test[data.clean])]
        ),
    }
