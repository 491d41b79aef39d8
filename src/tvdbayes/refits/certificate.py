"""A bound on the misfit that needs no asymptotics: fit on one half, judge on the other."""

from dataclasses import replace

import numpy as np

from tvdbayes._errors import SettingsError
from tvdbayes.bootstrap import posterior_bootstrap
from tvdbayes.cells import Cells
from tvdbayes.execution import single_threaded
from tvdbayes.partitions import Auto
from tvdbayes.posterior import Posterior
from tvdbayes.posterior.misfit import Certificate
from tvdbayes.posterior.rows import layout_of, masses_of
from tvdbayes.refits.left_out import fold_counts, part_of, whole_counts

__all__ = ["certify", "fitted_half"]


def certify(posterior: Posterior, confidence: float = 0.95) -> Certificate:
    """Bound the distance between the law of the data and the model fitted to half of them.

    The plug-in distance on the other half is a supremum of means, so it is too large on average,
    and it changes by at most 2/n (1/n without covariates) when one row does: McDiarmid's inequality
    gives the rest.
    """
    if not 0 < confidence < 1:
        raise SettingsError(f"confidence must lie between 0 and 1; got {confidence}. Try 0.95.")
    half, second = fitted_half(posterior)
    with single_threaded():
        layout = layout_of(replace(half, cells=second))
        p = second.p[:, None]
        theta = layout.bound.from_user(half.minimiser[:, None])
        distance = float((p * masses_of(layout, theta, p).score).sum())
    alone = posterior.cells.n_x == 1
    slack = np.sqrt(np.log(1 / (1 - confidence)) * (0.5 if alone else 2.0) / second.n_obs)
    upper = min(1.0, distance + float(slack))
    units = "groups and outcomes as compared" if posterior.partition.pools_rows else "outcomes"
    return Certificate(
        upper,
        confidence,
        f"With {confidence:.0%} confidence the model fitted to one half of the rows is within "
        f"{upper:.3f} (total variation, {units}) of the law behind the data.",
        "rows drawn independently; nothing else, at any number of rows.",
    )


def fitted_half(posterior: Posterior) -> tuple[Posterior, Cells]:
    """The point fit of a random half of the rows, as the record was fitted, and the other half."""
    cells = posterior.cells
    dealt = fold_counts(whole_counts(cells), 2, posterior.seed)
    first, second = (part_of(cells, np.flatnonzero(n), n[n > 0].astype(float)) for n in dealt)
    half = posterior_bootstrap(
        posterior.model,
        first,
        divergence=posterior.divergence,
        # Groups, too, must come from the first half alone.
        partition=Auto() if posterior.partition.pools_rows else posterior.partition,
        n_draws=0,
        seed=posterior.seed,
        ridge=posterior.ridge,
    )
    return half, second
