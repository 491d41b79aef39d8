"""A fit step by step: data are read and encoded, draws are taken, and both are put together.

How far rounding in an engine moves the answer is an expectation, over a sample of unrounded rows.
Comparing two fits of the sample would tell little: outcomes are random, and a sample of a large
table has far more noise than the table. So the fitted model is taken for the truth. Each sampled
row has all outcomes, with the probabilities that the model gives them at its unrounded covariates;
maximum likelihood at the rounded ones then moves away from the model by rounding alone.
"""

import warnings
from contextlib import suppress
from dataclasses import replace
from typing import TypeVar

import numpy as np

from tvdbayes._errors import (
    BoundaryWarning,
    CoarseWarning,
    ConvergenceWarning,
    DataError,
    Interrupted,
    SeparationWarning,
    SettingsError,
    SmallGroupsWarning,
    TooFewRowsWarning,
    TVDBayesError,
    TVDBayesWarning,
    warn,
)
from tvdbayes._typing import Array
from tvdbayes.data.cells import Cells
from tvdbayes.data.grid import Coarsening
from tvdbayes.data.sources import Data, open_data, open_source
from tvdbayes.fitting.predictions import read_rows
from tvdbayes.fitting.priors import prior_of
from tvdbayes.formula.design import check_table
from tvdbayes.formula.survey import SamplingColumns, Survey, survey
from tvdbayes.large.fit import posterior_of_all, require_options
from tvdbayes.models.predictors import Linear
from tvdbayes.objective.divergences import KLD
from tvdbayes.objective.partitions import Distinct
from tvdbayes.results.base import AbstractFit, Rounded
from tvdbayes.results.prediction import NewRows, likely_pmf, pmf
from tvdbayes.sampling.bootstrap import posterior_bootstrap
from tvdbayes.sampling.execution import Report, progress_bar, single_threaded
from tvdbayes.sampling.options import Options
from tvdbayes.sampling.posterior import Posterior

F = TypeVar("F", bound=AbstractFit)

_OF_SIZE = (
    *(BoundaryWarning, ConvergenceWarning, SeparationWarning),
    *(SmallGroupsWarning, TooFewRowsWarning),
)
"""What is said of a sample that only concerns its size."""

_NEARLY_ALL = 1 - 1e-6
"""Probability of the outcomes that are looked at where rounding is judged."""
_ELEMENTS = 4_000_000
"""Rows x outcomes of a block of them, 32 MB."""


@single_threaded()
def fit_with(formula: str, data: Data, options: Options, kind: type[F]) -> F:
    """The fit that these options ask for, as a record of this kind; see `fit`."""
    found = survey_of(formula, data, options)
    if found.rest is not None:
        return _of_all_rows(found, options, kind)
    try:
        with progress_bar(options.progress, f"{options.n_draws} draws") as report:
            posterior = draw(found, options, report)
    except Interrupted as stop:
        raise Interrupted(str(stop), fit_of(found, stop.partial, options, kind)) from stop
    made = fit_of(found, posterior, options, kind)
    return made if found.coarsening is None else told_of_rounding(made, found.coarsening)


def _of_all_rows(found: Survey, options: Options, kind: type[F]) -> F:
    """The fit of rows that stay with Dask, with that of the sample which was read."""
    assert found.rest is not None
    require_options(options, found.model)
    with warnings.catch_warnings():
        for concern in _OF_SIZE:
            warnings.simplefilter("ignore", concern)
        posterior = draw(found, replace(options, progress=False), None)
    sample = fit_of(found, posterior, options, kind)
    with progress_bar(options.progress, f"{options.n_draws} draws of all rows") as report:
        whole = posterior_of_all(found, posterior, options, report)
    rest, made = found.rest, fit_of(found, whole, options, kind)
    data = replace(
        made.data,
        n_grouped=rest.n_rows,
        n_dropped=rest.n_rows - rest.n_kept,
        n_unexposed=rest.n_unexposed,
    )
    return replace(made, data=data, sample_fit=sample)


def survey_of(formula: str, data: Data, options: Options) -> Survey:
    """The data, read and encoded."""
    return survey(
        formula,
        open_source(data, engine=options.engine, grid=options.grid, max_cells=options.max_cells),
        family=options.family,
        link=options.link,
        success=options.success,
        offset=options.offset,
        exposure=options.exposure,
        trials=options.trials,
        weights=options.weights,
        sampling=SamplingColumns(options.clusters, options.strata, options.sampling_weights),
        predictors=options.predictors,
        network=options.network,
        missing=options.missing,
        zero_exposure=options.zero_exposure,
        collinear=options.collinear,
    )


def draw(found: Survey, options: Options, progress: Report | None) -> Posterior:
    """Draws from the posterior of encoded data."""
    resume: object = options.resume
    if not isinstance(resume, AbstractFit | None):
        raise SettingsError(
            f"resume takes what fit returned or Interrupted.partial; got {type(resume).__name__}."
        )
    # Only coefficients must be told apart.
    linear = found.linear if options.network is None else Linear()
    check_table(found.cells, found.model.family, linear, options.ridge)
    return posterior_bootstrap(
        found.model,
        found.cells,
        **{**options.of_draws, "prior": prior_of(found, options)},
        units=found.units,
        resume=None if resume is None else resume.posterior,
        progress=progress,
    )


def fit_of(found: Survey, posterior: Posterior, options: Options, kind: type[F]) -> F:
    """The draws, with what is known of the data, and the options that were given."""
    return kind(
        replace(posterior, options=options.kept(n_draws=posterior.n_draws)),
        found.formula,
        found.design.encoding,
        found.cell_of_row,
        found.data,
        found.design.more_encodings,
        found.left_out,
    )


def told_of_rounding(fit: F, coarsening: Coarsening) -> F:
    """The fit, with what rounding does to it; a warning where that is much."""
    rounded = _measured(fit, coarsening)
    if rounded.matters:
        warn(
            f"{rounded} Ask for more bins (grid={2 * rounded.n_bins}), or keep the draws as they "
            "are if that error does not matter.",
            CoarseWarning,
        )
    return replace(fit, rounded=rounded)


def _measured(fit: AbstractFit, coarsening: Coarsening) -> Rounded:
    posterior, grid, moved, deviations = fit.posterior, coarsening.grid, None, None
    n_sample, names = len(coarsening.sample), posterior.param_names
    # The fit itself has been warned of already. Where counts have no end, say, the share of
    # variance is all that is known.
    with warnings.catch_warnings(), suppress(TVDBayesError):
        warnings.simplefilter("ignore", TVDBayesWarning)
        moved, n_sample = _moved(fit, coarsening)
    if moved is not None and posterior.n_draws > 1:
        deviations = moved / np.maximum(posterior.draws.std(0), 1e-300)
    return Rounded(grid.n_bins, grid.method, coarsening.lost, moved, deviations, n_sample, names)


def _moved(fit: AbstractFit, coarsening: Coarsening) -> tuple[Array, int]:
    """What rounding adds to each parameter, (d,), and the rows that it is found from."""
    coarsening = _encodable(fit, coarsening)
    n_outcomes = len(_outcomes(fit, read_rows(fit, open_data(coarsening.sample)))[0])
    step = -(-len(coarsening.sample) * n_outcomes // _ELEMENTS)
    sample, rounded = coarsening.sample[::step], coarsening.rounded[::step]
    y, mass = _outcomes(fit, read_rows(fit, open_data(sample)))
    if fit.data.weights is not None:
        mass = mass * sample[fit.data.weights].to_numpy(float)[:, None]
    if fit.data.sampling_weights is not None:
        mass = mass * sample[fit.data.sampling_weights].to_numpy(float)[:, None]
    rows = read_rows(fit, open_data(rounded))
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
    return found.kld_minimiser - fit.posterior.minimiser, len(sample)


def _encodable(fit: AbstractFit, coarsening: Coarsening) -> Coarsening:
    """The same; where a spline ends at the outermost means, rows end there too."""
    try:
        read_rows(fit, open_data(coarsening.sample))
    except DataError:
        sample, rounded = coarsening.sample, coarsening.rounded
        ends = {c: sample[c].clip(rounded[c].min(), rounded[c].max()) for c in coarsening.lost}
        return replace(coarsening, sample=sample.assign(**ends))
    return coarsening


def _outcomes(fit: AbstractFit, rows: NewRows) -> tuple[Array, Array]:
    """The outcomes (K,) that rows may have, and their probabilities under the estimate, (n, K)."""
    family = fit.posterior.model.family
    point = replace(fit.posterior, draws=fit.posterior.minimiser[None])
    if family.levels or family.binary:
        y = np.arange(float(len(family.levels) or 2))
        return y, pmf(point, rows, y)
    return likely_pmf(point, rows, _NEARLY_ALL)
