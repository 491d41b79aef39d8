"""Scores on new data, and fits side by side."""

from collections.abc import Mapping, Sequence

from tvdbayes._errors import DataError, SettingsError
from tvdbayes.data.sources import Data, open_data
from tvdbayes.fitting.predictions import new_cells, posterior_of
from tvdbayes.fitting.progress import progress_bar
from tvdbayes.fitting.record import Fit
from tvdbayes.results import Comparison, compare_posteriors
from tvdbayes.results.scores import Scores, score

__all__ = ["compare", "score_of"]


def score_of(fit: Fit, new: Data | None, ordinary: bool) -> Scores:
    """See `Fit.score`."""
    posterior = posterior_of(fit, ordinary)
    if new is None:
        return score(posterior)
    return score(posterior, new_cells(fit, open_data(new)))


def compare(
    fits: Mapping[str, Fit] | Sequence[Fit], *, n_folds: int = 10, n_draws: int = 200
) -> Comparison:
    """Compare fits of the same rows: other families, divergences or formulas.

    Every fit is scored on rows that it has not seen (the same folds for all), beside the share of
    the data that it cannot explain. Fits with the same covariates and seed are compared on the same
    random weights.

    Parameters
    ----------
    fits : dict of Fit, or list of Fit
        By name; in a list they are named by family, divergence and formula.
    n_folds, n_draws : int
        Folds of the cross-validation, and draws of each refit.

    Returns
    -------
    Comparison
        Held-out rows may be wrong too: a fit that follows wrong rows scores well on them.

    Examples
    --------
    >>> import numpy as np, tvdbayes as tb
    >>> y = np.random.default_rng(0).negative_binomial(2, 0.4, 300)
    >>> fits = {f: tb.fit("y ~ 1", {"y": y}, family=f, n_draws=40, divergence="kld")
    ...         for f in ("poisson", "negativebinomial")}
    >>> tb.compare(fits, n_folds=3, n_draws=20).names
    ('negativebinomial', 'poisson')
    """
    if isinstance(fits, Fit):
        raise SettingsError("compare takes a dict or a list of fits; got one fit.")
    for one in fits.values() if isinstance(fits, Mapping) else fits:
        if not isinstance(one, Fit):
            raise SettingsError(f"compare takes fits; got a {type(one).__name__}.")
    named = dict(fits) if isinstance(fits, Mapping) else _named(fits)
    if any(one.data.weights or one.data.weighted for one in named.values()):
        raise DataError(
            "Fits with a weights column, or whose equal rows were put together, cannot be compared "
            "yet: which rows a weight stands for is not kept. Repeat the rows instead."
        )
    with progress_bar(None, f"{len(named)} fits") as report:
        return compare_posteriors(
            {name: (one.posterior, one.cell_of_row) for name, one in named.items()},
            n_folds=n_folds,
            n_draws=n_draws,
            progress=report,
        )


def _named(fits: Sequence[Fit]) -> dict[str, Fit]:
    """Names that tell fits apart."""
    found: dict[str, Fit] = {}
    for one in fits:
        posterior = one.posterior
        name = f"{posterior.model.family.name}, {posterior.method}: {one.formula}"
        while name in found:
            name += "'"
        found[name] = one
    return found
