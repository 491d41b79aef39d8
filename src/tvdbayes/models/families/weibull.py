"""The discrete Weibull: counts as whole times, tails heavier or lighter than Poisson.

With scale mu = exp(eta_1) and shape k = exp(eta_2),

    P(Y >= y) = exp(-(y / mu)**k),   f(y) = P(Y >= y) - P(Y >= y + 1).

References
----------
Nakagawa, T. and Osaki, S. (1975). The discrete Weibull distribution. IEEE Transactions on
Reliability R-24, 300-301.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tvdbayes._array import log1m_exp, xp
from tvdbayes._typing import Array, BoolArray
from tvdbayes._validate import LARGEST
from tvdbayes.models.families._base import Jet, from_triangle
from tvdbayes.models.families._counts import LARGE_LOG_MEAN, NOTHING, AbstractCounts, exp_mean
from tvdbayes.models.families._support import mean_by_sum, panels

_LARGE_SHAPE = 5.0
"""Bound on the log shape: beyond it the distribution is one count, or 0 and huge counts."""
_LARGE_HAZARD = 150.0
"""Bound on the log hazard: nothing survives exp(150), and its square is finite."""


@dataclass(frozen=True)
class DiscreteWeibull(AbstractCounts):
    """Counts with P(Y >= y) = exp(-(y / scale) ** shape): tails heavier or lighter than Poisson.

    The first predictor is log(scale), the second log(shape); shape 1 is geometric.

    Examples
    --------
    By name it is "discreteweibull":

    >>> import numpy as np, tvdbayes as tb
    >>> weeks = np.floor(4 * np.random.default_rng(0).weibull(2, 2000))  # scale 4, shape 2
    >>> fit = tb.fit("weeks ~ 1", {"weeks": weeks}, family="discreteweibull", n_draws=0)
    >>> fit.param_names
    ('Intercept', 'shape:Intercept')
    >>> np.exp(fit.estimate).round(1)
    array([4., 2.])
    """

    name: ClassVar[str] = "discreteweibull"
    suits: ClassVar[str] = "counts, spread estimated"

    @property
    def single_precision(self) -> bool:
        return False

    @property
    def predictors(self) -> tuple[str, ...]:
        return ("", "shape")

    @property
    def ratios(self) -> tuple[str, ...]:
        return ("scale ratio", "shape ratio")

    def log_jet(self, y: Array, eta: Array, trials: Array) -> Jet:
        low, low_1, low_2 = self._hazard(y, eta)
        high, high_1, high_2 = self._hazard(y + 1, eta)
        # log(exp(-low) - exp(-high)) = -low + log(1 - exp(low - high)).
        growth = xp.expm1(self._shape(eta) * xp.log1p(1 / xp.maximum(y, 1.0)))
        gap = xp.maximum(xp.where(y > 0, low * xp.minimum(growth, 1e200), high), 1e-300)
        value = -low + log1m_exp(-gap)
        ratio = 1 / xp.maximum(xp.expm1(xp.minimum(gap, LARGE_LOG_MEAN)), 1e-300)
        step, curvature = high_1 - low_1, high_2 - low_2
        first = -low_1 + ratio * step
        second = -low_2 + ratio * curvature - ratio * (1 + ratio) * step[:, None] * step
        return value, first, second

    @staticmethod
    def _shape(eta: Array) -> Array:
        shape: Array = xp.exp(xp.clip(eta[1], -_LARGE_SHAPE, _LARGE_SHAPE))
        return shape

    def slopes(self, y: Array, eta: Array, trials: Array) -> tuple[Array, Array]:
        shape = self._shape(eta)
        low, high = (shape * (xp.log(xp.maximum(part, 1e-300)) - eta[0]) for part in (y, y + 1))
        hazard, next_hazard = (
            xp.exp(xp.clip(p, -LARGE_LOG_MEAN, _LARGE_HAZARD)) for p in (low, high)
        )
        hazard = xp.where(y > 0, hazard, 0.0)
        left, next_left = xp.exp(-hazard), xp.exp(-next_hazard)
        pmf = left * -xp.expm1(hazard - next_hazard)
        flow, next_flow = hazard * left, next_hazard * next_left
        first = xp.stack([shape * (flow - next_flow), next_flow * high - flow * low])
        return pmf, first

    def _hazard(self, y: Array, eta: Array) -> Jet:
        """(y / scale) ** shape with derivatives in both predictors."""
        shape = self._shape(eta)
        away = xp.log(xp.maximum(y, 1e-300)) - eta[0]
        power = xp.clip(shape * away, -LARGE_LOG_MEAN, _LARGE_HAZARD)
        hazard = xp.where(y > 0, xp.exp(power), 0.0)
        # d log(hazard) = (-shape, shape * away).
        slope = xp.stack([-shape + 0 * power, xp.where(y > 0, power, 0.0)])
        first = hazard * slope
        mixed, own = first[1] * slope[0] + first[0], first[1] * slope[1] + first[1]
        return hazard, first, from_triangle([first[0] * slope[0]], [mixed, own])

    def mean(self, eta: Array, trials: Array) -> Array:
        return mean_by_sum(self, eta, trials)

    def sample(self, rng: np.random.Generator, eta: Array, trials: Array) -> Array:
        time = rng.standard_exponential(eta.shape[1:]) ** (1 / self._shape(eta))
        drawn: Array = xp.minimum(xp.floor(exp_mean(eta[0]) * time), LARGEST)
        return drawn

    def nodes(self, eta: Array, trials: Array, power: float) -> tuple[Array, Array]:
        shape = self._shape(eta)
        scale = xp.maximum(exp_mean(eta[0]), 1.0)
        return panels(scale * 40 ** (1 / shape), 0.7 / shape, eta.ndim - 1)

    def saturated(self, y: Array, trials: Array) -> Array:
        return xp.stack([xp.log(y + 0.5), xp.zeros(xp.shape(y))])

    def degenerate(self, eta: Array, trials: Array) -> BoolArray:
        nothing: BoolArray = self.pmf(xp.zeros(eta.shape[1:]), eta, trials) > 1 - NOTHING
        return nothing
