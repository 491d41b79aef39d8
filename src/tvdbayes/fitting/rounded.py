"""What rounding in an engine has done to a fit."""

from dataclasses import dataclass

import numpy as np

from tvdbayes._typing import Array

__all__ = ["Rounded"]

_MUCH = 0.5
"""Posterior deviations from which on rounding is worth a warning."""


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
        By how much rounding moves maximum likelihood if the model is true, in expectation over a
        sample of unrounded rows; None where that cannot be found.
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
        return self.moved is None or (self.worst is not None and self.worst[1] > _MUCH)

    def __str__(self) -> str:
        lost = ", ".join(f"{name} {share:.2%}" for name, share in self.lost.items())
        text = (
            f"Rounded to means in {self.n_bins} bins ({self.method}); variance lost: {lost}. "
            "Coefficients move by "
        )
        if self.moved is None:
            return text + "an amount that the sample does not tell."
        if self.worst is not None:
            name, most = self.worst
            much = f"{most:.2g} posterior deviations ({name})"
        else:
            largest = int(np.abs(self.moved).argmax())
            much = f"{abs(self.moved[largest]):.2g} ({self.param_names[largest]})"
        return text + (f"at most {much}, expected from {self.n_sample:,} unrounded rows.")
