"""The prior of a fit, from a base measure in the columns of the data."""

from dataclasses import replace
from typing import Any

from tvdbayes.data.sources import open_data
from tvdbayes.fitting.predictions import new_cells
from tvdbayes.formula.survey import Survey
from tvdbayes.models.model import Model
from tvdbayes.results.base import AbstractFit
from tvdbayes.results.base_measure import fitted_base, likelihood_fit
from tvdbayes.sampling.options import Options
from tvdbayes.sampling.weights import Prior


def prior_of(found: Survey, options: Options) -> Prior | None:
    """The Dirichlet-process prior, with its base measure encoded as the data are."""
    base: Any = options.base_measure
    if base is None or options.prior is not None:
        return options.prior
    posterior = likelihood_fit(Model(found.model.family, found.linear), found.cells)
    if isinstance(base, str):
        return Prior(options.alpha, fitted_base(posterior, options.seed))
    # Rows of a base measure need no weights.
    weights = found.data.weights if found.data.weights in base else None
    fit = AbstractFit(
        posterior,
        found.formula,
        found.design.encoding,
        found.cell_of_row,
        replace(found.data, weights=weights, sampling_weights=None),
        found.design.more_encodings,
        found.left_out,
    )
    return Prior(options.alpha, new_cells(fit, open_data(dict(base))))
