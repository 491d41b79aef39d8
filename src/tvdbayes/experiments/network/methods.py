"""The methods that are compared on networks, each as posterior draws."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar

import numpy as np

from tvdbayes._array import xp
from tvdbayes._typing import Array, IntArray
from tvdbayes.data.cells import Cells
from tvdbayes.models.families import Bernoulli
from tvdbayes.models.model import Model
from tvdbayes.models.predictors import MLP
from tvdbayes.objective._kinds import AbstractRowDivergence
from tvdbayes.objective.divergences import KLD, DensityPower
from tvdbayes.objective.partitions import Singletons
from tvdbayes.results.prediction import NewRows, mean_draws
from tvdbayes.sampling.bootstrap import posterior_bootstrap
from tvdbayes.sampling.plan import solve_tables
from tvdbayes.sampling.planners import plan_of
from tvdbayes.sampling.posterior import Posterior

_NETWORK = Model(Bernoulli(), MLP())
_RANDOM_START = Model(Bernoulli(), MLP(direct=False))
_NAIVE = Model(Bernoulli(), MLP(direct=False, hold_out=0.0, weight_decay=0.0))
_LINE = Model(Bernoulli())


@dataclass(frozen=True)
class GeneralisedCrossEntropy(AbstractRowDivergence):
    """``(1 - pmf ** q) / q``: KLD for q towards 0, and the mean of 1 - pmf, a TVD by rows, at 1.

    Zhang and Sabuncu (2018), who recommend q = .7.
    """

    q: float = 0.7

    name: ClassVar[str] = "generalised_cross_entropy"

    def loss(self, log_pmf: Array) -> Array:
        """Loss of a cell."""
        return (1 - xp.exp(self.q * log_pmf)) / self.q

    def derivatives(self, log_pmf: Array) -> tuple[Array, Array]:
        """First and second derivative of `loss`."""
        first = -xp.exp(self.q * log_pmf)
        return first, self.q * first


def fewer(n_draws: int) -> int:
    """Draws of the comparators, which are many."""
    return min(n_draws, max(n_draws // 10, 10))


def predictions(
    x: Array, y: IntArray, at: Array, *, n_draws: int, seed: int, device: str | None
) -> Iterator[tuple[str, Array]]:
    """Each method, and its probabilities of label 1 in rows `at` under each of its draws, (B, m).

    TVD and KLD have all draws, the others fewer.
    """
    for method, posterior in _networks(x, y, n_draws, seed, device):
        yield method, mean_draws(posterior, NewRows.of(posterior, at))
    cells, few = Cells.from_rows(_with_intercept(x), y), fewer(n_draws)
    line = posterior_bootstrap(_LINE, cells, n_draws=few, seed=seed, refine="reweight")
    for method, posterior in (("linear TVD", line), ("linear KLD", line.twin)):
        yield method, mean_draws(posterior, NewRows.of(posterior, _with_intercept(at)))


def _networks(
    x: Array, y: IntArray, n_draws: int, seed: int, device: str | None
) -> Iterator[tuple[str, Posterior]]:
    cells, few = Cells.from_rows(x, y), fewer(n_draws)
    fit = partial(posterior_bootstrap, cells=cells, seed=seed, device=device, refine=None)
    tvd = fit(_NETWORK, n_draws=n_draws, refine="reweight")
    yield "TVD", tvd
    yield "KLD", tvd.twin
    yield "TVD unrefined", fit(_NETWORK, n_draws=few)
    yield "naive TVD", fit(_NAIVE, n_draws=few, partition=Singletons())
    yield "continuation", fit(_RANDOM_START, n_draws=few, divergence=GeneralisedCrossEntropy())
    yield "density power", fit(_NETWORK, n_draws=few, divergence=DensityPower())
    yield "deep ensemble", _ensemble(cells, few, seed, device)


def _ensemble(cells: Cells, n_networks: int, seed: int, device: str | None) -> Posterior:
    """Networks that differ by their random start and their held-out rows, not by weights."""
    fit = posterior_bootstrap(_RANDOM_START, cells, divergence=KLD(), n_draws=0, seed=seed)
    plan = plan_of(fit, device)
    same = np.repeat(cells.p[:, None], n_networks, axis=1)
    return replace(fit, draws=solve_tables(plan, same).robust.theta.T)


def _with_intercept(x: Array) -> Array:
    return np.column_stack([np.ones(len(x)), x])
