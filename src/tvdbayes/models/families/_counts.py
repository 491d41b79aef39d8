"""What all laws of counts without a largest value share: support, link, and the Poisson pmf.

References
----------
Loader, C. (2000). Fast and accurate computation of binomial probabilities.
"""

from typing import ClassVar

import numpy as np

from tvdbayes._array import (
    HALF_LOG_2PI,
    excess_exp,
    gammaln,
    known,
    on_device,
    stirling_error,
    xp,
)
from tvdbayes._typing import Array, BoolArray
from tvdbayes._validate import LARGEST
from tvdbayes.models.families._base import AbstractFamily, Jet
from tvdbayes.models.families._support import SMALL, tabulated_power_sum

LARGE_LOG_MEAN = 300.0
"""Bound on the log mean: exp of more overflows once squared, and no count of a data set comes
near."""

NOTHING = 1e-6
"""A mean below this is as good as 0: the distribution is degenerate."""


class AbstractCounts(AbstractFamily):
    """Whole outcomes from 0 on; the mean is exp of the first predictor unless said otherwise."""

    needs: ClassVar[str] = "whole outcomes of at least 0"
    suits: ClassVar[str] = "counts 0, 1, 2, ..."
    counts: ClassVar[bool] = True

    @property
    def link_name(self) -> str:
        return "log"

    @property
    def ratios(self) -> tuple[str, ...]:
        return ("rate ratio", *(f"{name} ratio" for name in self.predictors[1:]))

    def mean(self, eta: Array, trials: Array) -> Array:
        return exp_mean(eta[0])

    def possible(self, y: Array, trials: Array) -> BoolArray:
        whole: BoolArray = (y >= 0) & (y == xp.round(y))
        return whole

    def degenerate(self, eta: Array, trials: Array) -> BoolArray:
        nothing: BoolArray = self.mean(eta, trials) < NOTHING
        return nothing

    @property
    def smooth_sums(self) -> bool:
        return len(self.predictors) == 1

    def power_sum(self, eta: Array, power: float, trials: Array) -> Jet:
        if self.smooth_sums and not on_device(eta):
            return tabulated_power_sum(self, eta, power)
        return super().power_sum(eta, power, trials)


def exp_mean(eta: Array) -> Array:
    """The mean of a log mean, kept finite."""
    value: Array = xp.exp(xp.minimum(eta, LARGE_LOG_MEAN))
    return value


def log_count(y: Array) -> Array:
    """The log mean under which y is nearly the likeliest count, finite for 0 too."""
    value: Array = xp.log(xp.maximum(y, 0.25))
    return value


def poisson_draws(rng: np.random.Generator, mean: Array) -> Array:
    """Poisson counts; NumPy refuses means that are larger than any count of a data set can be."""
    return np.minimum(rng.poisson(np.minimum(mean, 2 * LARGEST)), LARGEST)


def poisson_log_pmf(y: Array, eta: Array, rate: Array, log_ratio: Array | None = None) -> Array:
    """Logarithm of the Poisson pmf of a rate and its logarithm, for any count.

    `log_ratio` is log(rate / y) for y above 0, where that is known to more digits.
    """
    if known(xp.max(y, initial=0) < SMALL, False):
        return y * eta - rate - gammaln(y + 1)
    # The terms above are of the size of y and cancel; Loader's form has none that do.
    count = xp.maximum(y, 1.0)
    peak = -0.5 * xp.log(count) - HALF_LOG_2PI - stirling_error(count)
    apart = eta - xp.log(count) if log_ratio is None else log_ratio
    off: Array = xp.where(y > 0, peak - count * excess_exp(apart), -rate)
    return off
