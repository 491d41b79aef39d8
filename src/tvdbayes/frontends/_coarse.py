"""How far rounding in an engine moves the answer, measured on a sample of unrounded rows."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd

from tvdbayes._errors import CoarseWarning, TVDBayesError, TVDBayesWarning
from tvdbayes._typing import Array
from tvdbayes.bootstrap import posterior_bootstrap
from tvdbayes.cells import Cells
from tvdbayes.divergences import KLD
from tvdbayes.model import Model
from tvdbayes.partitions import Distinct
from tvdbayes.posterior import Posterior
from tvdbayes.sources import Coarsening

__all__ = ["Rounded", "measure", "warn_of_rounding"]

_MUCH = 0.5
"""Posterior deviations from which on rounding is worth a warning."""

Encode = Callable[[pd.DataFrame], tuple[Model, Cells]]
"""Rows to what is fitted to them."""


@dataclass(frozen=True, eq=False)
class Rounded:
    """What rounding continuous columns in an engine (``grid=``) has done to a fit.

    Parameters
    ----------
    n_bins : int
        Bins of each column.
    method : str
        How they were made.
    lost : dict
        Share of the variance of each rounded column that lies within bins, over all rows.
    moved : (d,) or None
        By how much rounding moves each parameter, by maximum likelihood on a sample with and
        without it; None where the sample does not allow such fits.
    deviations : (d,) or None
        The same in posterior deviations.
    n_sample : int
        Rows of that sample.
    param_names : tuple of str
    """

    n_bins: int
    method: str
    lost: dict[str, float]
    moved: Array | None
    deviations: Array | None
    n_sample: int
    param_names: tuple[str, ...]

    @property
    def worst(self) -> tuple[str, float] | None:
        """The parameter that moves most, and by how many posterior deviations."""
        if self.deviations is None:
            return None
        most = int(np.abs(self.deviations).argmax())
        return self.param_names[most], float(np.abs(self.deviations[most]))

    @property
    def matters(self) -> bool:
        """Whether that is much beside the uncertainty of the draws, or not known."""
        return self.worst is None or self.worst[1] > _MUCH

    def __str__(self) -> str:
        lost = ", ".join(f"{name} {share:.2%}" for name, share in self.lost.items())
        text = (
            f"Rounded to means in {self.n_bins} bins ({self.method}); variance lost: {lost}. "
            "Coefficients move by "
        )
        if self.worst is None:
            return text + "an amount that the sample does not tell."
        name, most = self.worst
        return text + (
            f"at most {most:.2g} posterior deviations ({name}), by maximum likelihood on "
            f"{self.n_sample:,} rows with and without rounding."
        )


def measure(coarsening: Coarsening, posterior: Posterior, encode: Encode) -> Rounded:
    """Fit a sample with and without rounding, as its rows are encoded."""
    names, moved, deviations = posterior.param_names, None, None
    try:
        with warnings.catch_warnings():
            # A sample may lack what the whole has; the fit itself has been warned of already.
            warnings.simplefilter("ignore", TVDBayesWarning)
            before, after = (
                _likeliest(*encode(rows)) for rows in (coarsening.sample, coarsening.rounded)
            )
    except TVDBayesError:
        # A rare level that the sample lacks, say: the share of variance is then all that is known.
        before, after = ((), np.zeros(0)), ((), np.zeros(0))
    if before[0] == after[0] == names:
        moved = after[1] - before[1]
        if posterior.n_draws > 1:
            deviations = moved / np.maximum(posterior.draws.std(0), 1e-300)
    grid = coarsening.grid
    n_sample = len(coarsening.sample)
    return Rounded(grid.n_bins, grid.method, coarsening.lost, moved, deviations, n_sample, names)


def _likeliest(model: Model, cells: Cells) -> tuple[tuple[str, ...], Array]:
    found = posterior_bootstrap(
        model, cells, divergence=KLD(), partition=Distinct(), n_draws=0, bins="none"
    )
    return found.param_names, found.kld_minimiser


def warn_of_rounding(rounded: Rounded) -> None:
    """Warn where the error of rounding is large beside the uncertainty of the draws."""
    if rounded.matters:
        warnings.warn(
            f"{rounded} Ask for more bins (grid={2 * rounded.n_bins}), or keep the draws as they "
            "are if that error does not matter.",
            CoarseWarning,
            stacklevel=3,
        )
