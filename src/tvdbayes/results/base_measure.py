"""The likelihood fit as the base measure of a prior: what its model would see at the same x.

The base measure of a Dirichlet-process prior says which rows are expected beside those that were
seen. Here it is

    H(x, y) = p(x) f(y | x; theta),    theta by maximum likelihood,

so that a prior that counts for many rows brings draws near the likelihood fit, and their spread to
0 (Lyddon, Walker and Holmes, 2018, centre their prior at a model in the same way).

References
----------
Lyddon, S., Walker, S. and Holmes, C. (2018). Nonparametric learning from Bayesian models with
randomized objective functions. Advances in Neural Information Processing Systems 31.
"""

import warnings
from dataclasses import replace

import numpy as np

from tvdbayes._errors import SettingsError, TVDBayesWarning
from tvdbayes._typing import Array, IntArray
from tvdbayes.data.cells import Cells
from tvdbayes.models.model import Model
from tvdbayes.objective.divergences import KLD
from tvdbayes.objective.partitions import Distinct
from tvdbayes.results.prediction import NewRows, likely_pmf, pmf
from tvdbayes.sampling.bootstrap import posterior_bootstrap
from tvdbayes.sampling.posterior import Posterior
from tvdbayes.sampling.weights import Stream

_MOST_CELLS = 20_000
"""A larger table of all x with all outcomes is replaced by a sample of rows."""
_SAMPLE = 5_000
"""Rows of that sample: shares of them are right to .007."""
_NEARLY_ALL = 1 - 1e-6


def likelihood_fit(model: Model, cells: Cells) -> Posterior:
    """Maximum likelihood without draws, and without a word about it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TVDBayesWarning)
        return posterior_bootstrap(
            model,
            cells,
            divergence=KLD(),
            partition=Distinct(),
            n_draws=0,
            bins="none",
            refine=None,
        )


def tabulated(posterior: Posterior) -> Posterior:
    """The same with a table for a prior whose atoms are drawn.

    It is the sample of atoms that stands for the prior where the unweighted data are fitted.
    """
    prior = posterior.prior
    if prior is None or not prior.drawn:
        return posterior
    base = prior.rows(posterior.cells, Stream.generator(posterior.seed, Stream.PRIOR))
    return replace(posterior, prior=replace(prior, base_measure=base))


def fitted_base(posterior: Posterior, seed: int) -> Cells:
    """The rows that the model at its minimiser expects at the x of its data, in all 1.

    A table of all outcomes at every x, exactly; or `_SAMPLE` random rows, from the seed, where that
    would be too large.
    """
    table = _all_outcomes(posterior)
    return _sample(posterior, seed) if table is None else table


def _all_outcomes(posterior: Posterior) -> Cells | None:
    cells, family = posterior.cells, posterior.model.family
    rows = NewRows(cells, np.arange(cells.n_x))
    point = replace(posterior, draws=posterior.minimiser[None])
    if cells.n_x > _MOST_CELLS:
        return None
    if family.levels or family.binary:
        y = np.arange(float(len(family.levels) or 2))
        law = pmf(point, rows, y)
    else:
        try:
            y, law = likely_pmf(point, rows, _NEARLY_ALL)
        except SettingsError:
            return None
    if law.size > _MOST_CELLS:
        return None
    mass = ((cells.x_counts / cells.n_obs)[:, None] * law).ravel()
    seen = mass > 0
    at = np.repeat(np.arange(cells.n_x), len(y))[seen]
    return _table(cells, at, np.tile(y, cells.n_x)[seen], mass[seen])


def _sample(posterior: Posterior, seed: int) -> Cells:
    cells, model = posterior.cells, posterior.model
    rng = Stream.generator(seed, Stream.PRIOR)
    at = rng.choice(cells.n_x, _SAMPLE, p=cells.x_counts / cells.x_counts.sum())
    bound = model.bind(cells, cells)
    eta = bound.eta(bound.from_user(posterior.minimiser[:, None]))[..., 0][:, at]
    y = np.asarray(model.family.sample(rng, eta, cells.trials[at]), float)
    return _table(cells, at, y, np.full(_SAMPLE, 1 / _SAMPLE))


def _table(cells: Cells, at: IntArray, y: Array, mass: Array) -> Cells:
    """Outcomes at these x rows of a table, with these masses."""
    return Cells.from_rows(
        cells.x[at],
        y,
        weights=mass,
        offset=cells.offset[at],
        trials=cells.trials[at],
        names=cells.names,
    )
