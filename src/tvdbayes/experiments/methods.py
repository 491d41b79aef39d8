"""The methods that experiments compare."""

from functools import partial

from tvdbayes._typing import Array
from tvdbayes.data.cells import Cells
from tvdbayes.models.model import Model
from tvdbayes.objective.divergences import DensityPower, Hellinger
from tvdbayes.sampling.bootstrap import posterior_bootstrap
from tvdbayes.sampling.posterior import Posterior


def robust_fits(
    model: Model, cells: Cells, seed: int, n_draws: int, n_few: int | None = None
) -> dict[str, Posterior]:
    """TVD and its rivals on the same table and random weights; the rivals may have few draws."""
    fit = partial(posterior_bootstrap, model, cells, seed=seed)
    few = partial(fit, n_draws=n_draws if n_few is None else n_few)
    return {
        "TVD": fit(n_draws=n_draws, refine=None),
        "TVD reweighted": few(refine="reweight"),
        "Hellinger": few(divergence=Hellinger()),
        "density power": few(divergence=DensityPower()),
    }


def draws_of_all(
    model: Model,
    cells: Cells,
    others: dict[str, Array],
    *,
    seed: int,
    n_draws: int,
    n_few: int | None = None,
) -> dict[str, Array]:
    """Draws (B, d) of `robust_fits` and of maximum likelihood, beside those of other methods."""
    fits = robust_fits(model, cells, seed, n_draws, n_few)
    robust = {method: fit.draws for method, fit in fits.items()}
    return {"TVD": robust["TVD"], "KLD": fits["TVD"].kld_draws} | others | robust
