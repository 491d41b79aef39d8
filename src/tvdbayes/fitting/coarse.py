"""How far rounding in an engine moves the answer: an expectation, over a sample of unrounded rows.

Comparing two fits of the sample would tell little: outcomes are random, and a sample of a large
table has far more noise than the table. So the fitted model is taken for the truth. Each sampled
row has all outcomes, with the probabilities that the model gives them at its unrounded covariates;
maximum likelihood at the rounded ones then moves away from the model by rounding alone.
"""

import warnings
from dataclasses import replace

import numpy as np

from tvdbayes._errors import CoarseWarning, DataError, TVDBayesError, TVDBayesWarning, warn
from tvdbayes._typing import Array
from tvdbayes.data.cells import Cells
from tvdbayes.data.sources import Coarsening, open_data
from tvdbayes.fitting.predictions import further_columns, new_rows
from tvdbayes.fitting.record import Fit
from tvdbayes.fitting.rounded import Rounded
from tvdbayes.formula.design import columns_of
from tvdbayes.objective.divergences import KLD
from tvdbayes.objective.partitions import Distinct
from tvdbayes.results.prediction import NewRows, likely_pmf, pmf
from tvdbayes.sampling.bootstrap import posterior_bootstrap

__all__ = ["told_of_rounding"]

_NEARLY_ALL = 1 - 1e-6
_ELEMENTS = 4_000_000


def told_of_rounding(fit: Fit, coarsening: Coarsening) -> Fit:
    """The fit, with what rounding does to it; a warning where that is much."""
    rounded = _measured(fit, coarsening)
    if rounded.matters:
        warn(
            f"{rounded} Ask for more bins (grid={2 * rounded.n_bins}), or keep the draws as they "
            "are if that error does not matter.",
            CoarseWarning,
        )
    return replace(fit, rounded=rounded)


def _measured(fit: Fit, coarsening: Coarsening) -> Rounded:
    posterior, grid, moved, deviations = fit.posterior, coarsening.grid, None, None
    n_sample, names = len(coarsening.sample), posterior.param_names
    try:
        with warnings.catch_warnings():
            # The fit itself has been warned of already.
            warnings.simplefilter("ignore", TVDBayesWarning)
            moved, n_sample = _moved(fit, coarsening)
    except TVDBayesError:
        # Counts without end, say: the share of variance is all that is known then.
        moved = None
    if moved is not None and posterior.n_draws > 1:
        deviations = moved / np.maximum(posterior.draws.std(0), 1e-300)
    return Rounded(grid.n_bins, grid.method, coarsening.lost, moved, deviations, n_sample, names)


def _moved(fit: Fit, coarsening: Coarsening) -> tuple[Array, int]:
    """What rounding adds to each parameter, (d,), and the rows that it is found from."""
    truth, coarsening = fit.posterior.minimiser, _encodable(fit, coarsening)
    weights = fit.data.weights
    n_outcomes = len(_outcomes(fit, _rows(fit, coarsening.sample))[0])
    step = -(-len(coarsening.sample) * n_outcomes // _ELEMENTS)
    sample, rounded = coarsening.sample[::step], coarsening.rounded[::step]
    y, mass = _outcomes(fit, _rows(fit, sample))
    if weights is not None:
        mass = mass * sample[weights].to_numpy(float)[:, None]
    rows = _rows(fit, rounded)
    at = np.repeat(rows.number, y.size)
    possible = mass.ravel() > 0
    at, table = at[possible], rows.table
    cells = Cells.from_rows(
        table.x[at],
        np.tile(y, len(sample))[possible],
        weights=mass.ravel()[possible],
        offset=table.offset[at],
        trials=table.trials[at],
        names=table.names,
    )
    found = posterior_bootstrap(
        fit.posterior.model,
        cells,
        divergence=KLD(),
        partition=Distinct(),
        n_draws=0,
        bins="none",
        refine=None,
    )
    return found.kld_minimiser - truth, len(sample)


def _encodable(fit: Fit, coarsening: Coarsening) -> Coarsening:
    """The same; where a spline ends at the outermost means, rows end there too."""
    try:
        _rows(fit, coarsening.sample)
    except DataError:
        sample, rounded = coarsening.sample, coarsening.rounded
        ends = {c: sample[c].clip(rounded[c].min(), rounded[c].max()) for c in coarsening.lost}
        return replace(coarsening, sample=sample.assign(**ends))
    return coarsening


def _rows(fit: Fit, frame: object) -> NewRows:
    source = open_data(frame)
    used = [*columns_of(fit.encodings), *further_columns(fit, source.columns)]
    return new_rows(fit, source.table(used, None, "error"))


def _outcomes(fit: Fit, rows: NewRows) -> tuple[Array, Array]:
    """The outcomes (K,) that rows may have, and their probabilities under the estimate, (n, K)."""
    family = fit.posterior.model.family
    point = replace(fit.posterior, draws=fit.posterior.minimiser[None])
    if family.levels or family.binary:
        y = np.arange(float(len(family.levels) or 2))
        return y, pmf(point, rows, y)
    return likely_pmf(point, rows, _NEARLY_ALL)
