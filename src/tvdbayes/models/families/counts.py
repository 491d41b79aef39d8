"""Counts without a largest value.

With mu = exp(eta_1),

    Poisson              f(y) = mu**y exp(-mu) / y!
    geometric            f(y) = mu**y / (1 + mu)**(y + 1)
    negative binomial    f(y) = C(y + r - 1, y) (mu / (mu + r))**y (r / (mu + r))**r,
                         r = exp(-eta_2), so that the variance is mu + mu**2 / r
    discrete Weibull     P(Y >= y) = exp(-(y / mu)**k),  k = exp(eta_2)

References
----------
Loader, C. (2000). Fast and accurate computation of binomial probabilities.
Nakagawa, T. and Osaki, S. (1975). The discrete Weibull distribution. IEEE Transactions on
Reliability R-24, 300-301.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tvdbayes._array import (
    HALF_LOG_2PI,
    digamma_gap,
    excess_exp,
    gammaln,
    known,
    log1m_exp,
    on_device,
    stirling_error,
    trigamma_gap,
    xp,
)
from tvdbayes._typing import Array, BoolArray
from tvdbayes._validate import LARGEST
from tvdbayes.models.families._base import AbstractFamily, Jet, from_triangle
from tvdbayes.models.families._by_outcome import by_outcome
from tvdbayes.models.families._negbin import log_negbin, log_ratio
from tvdbayes.models.families._support import (
    LARGE_DISPERSION,
    SMALL,
    bump_nodes,
    count_nodes,
    mean_by_sum,
    panels,
    tabulated_power_sum,
)
from tvdbayes.models.families.links import Logit

_LARGE = 300.0
"""Bound on the log mean: exp of more overflows once squared, and no count of a data set comes
near."""

_LARGE_SHAPE = 5.0
"""Bound on the log shape: beyond it the distribution is one count, or 0 and huge counts."""

_PLAIN = 2000.0
_PLAIN_LOG = 300.0
"""Up to counts and sizes of these sums plain logarithms lose less than 1e-11, and 1e-12."""
_LARGE_HAZARD = 150.0
"""Bound on the log hazard: nothing survives exp(150), and its square is finite."""

_NOTHING = 1e-6
"""A mean below this is as good as 0: the distribution is degenerate."""


def _poisson(rng: np.random.Generator, mean: Array) -> Array:
    """Poisson counts; NumPy refuses means that are larger than any count of a data set can be."""
    return np.minimum(rng.poisson(np.minimum(mean, 2 * LARGEST)), LARGEST)


class _Counts(AbstractFamily):
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
        return _exp(eta[0])

    def possible(self, y: Array, trials: Array) -> BoolArray:
        whole: BoolArray = (y >= 0) & (y == xp.round(y))
        return whole

    def degenerate(self, eta: Array, trials: Array) -> BoolArray:
        nothing: BoolArray = self.mean(eta, trials) < _NOTHING
        return nothing

    @property
    def smooth_sums(self) -> bool:
        return len(self.predictors) == 1

    def power_sum(self, eta: Array, power: float, trials: Array) -> Jet:
        if self.smooth_sums and not on_device(eta):
            return tabulated_power_sum(self, eta, power)
        return super().power_sum(eta, power, trials)


@dataclass(frozen=True)
class Poisson(_Counts):
    """Counts with rate exp(eta).

    Examples
    --------
    By name it is "poisson", which is what `fit` takes unless told otherwise:

    >>> import numpy as np, tvdbayes as tb
    >>> y = np.random.default_rng(0).poisson(3, 2000)
    >>> y[:200] += 20  # a tenth of the rows is wrong
    >>> fit = tb.fit("y ~ 1", {"y": y}, family=tb.Poisson(), n_draws=0)
    >>> np.exp(fit.estimate).round(1)  # the rate; the mean of y is 5.0
    array([3.])
    """

    name: ClassVar[str] = "poisson"

    @property
    def canonical(self) -> bool:
        return True

    @property
    def compiled(self) -> str | None:
        return "poisson"

    def compiled_pmf(self, *, folded: bool) -> str | None:
        return self.name

    def cumulant(self, eta: Array, trials: Array) -> Jet:
        rate = self.mean(eta, trials)
        return rate, rate, rate

    def log_jet(self, y: Array, eta: Array, trials: Array) -> Jet:
        rate = self.mean(eta, trials)
        score = y - rate
        return self._log_pmf(y, eta[0], rate), score[None], (score - y)[None, None]

    def slopes(self, y: Array, eta: Array, trials: Array) -> tuple[Array, Array]:
        rate = self.mean(eta, trials)
        pmf = xp.exp(self._log_pmf(y, eta[0], rate))
        return pmf, (pmf * (y - rate))[None]

    @staticmethod
    def _log_pmf(y: Array, eta: Array, rate: Array) -> Array:
        if known(xp.max(y, initial=0) < SMALL, False):
            return y * eta - rate - gammaln(y + 1)
        # The terms above are of the size of y and cancel; Loader's form has none that do.
        count = xp.maximum(y, 1.0)
        peak = -0.5 * xp.log(count) - HALF_LOG_2PI - stirling_error(count)
        off: Array = xp.where(y > 0, peak - count * excess_exp(eta - xp.log(count)), -rate)
        return off

    def sample(self, rng: np.random.Generator, eta: Array, trials: Array) -> Array:
        return _poisson(rng, self.mean(eta, trials))

    def nodes(self, eta: Array, trials: Array, power: float) -> tuple[Array, Array]:
        rate = self.mean(eta, trials)
        return bump_nodes(rate, rate / power)

    def saturated(self, y: Array, trials: Array) -> Array:
        return _log_count(y)[None]


@dataclass(frozen=True)
class Geometric(_Counts):
    """Failures before the first success, with mean exp(eta): the negative binomial of size 1.

    Examples
    --------
    By name it is "geometric":

    >>> import numpy as np, tvdbayes as tb
    >>> failures = np.random.default_rng(0).geometric(0.25, 2000) - 1  # mean 3
    >>> fit = tb.fit("failures ~ 1", {"failures": failures}, family="geometric", n_draws=0)
    >>> np.exp(fit.estimate).round(1)
    array([3.])
    """

    name: ClassVar[str] = "geometric"
    suits: ClassVar[str] = "counts, widely spread"

    def log_jet(self, y: Array, eta: Array, trials: Array) -> Jet:
        # y failures and one success of a coin whose log odds of failing are eta.
        value, first, second = Logit().log_likelihood(y, xp.array(1.0), eta[0])
        return value, first[None], second[None, None]

    def sample(self, rng: np.random.Generator, eta: Array, trials: Array) -> Array:
        drawn: Array = np.minimum(rng.geometric(1 / (1 + self.mean(eta, trials))) - 1.0, LARGEST)
        return drawn

    def nodes(self, eta: Array, trials: Array, power: float) -> tuple[Array, Array]:
        return count_nodes(self.mean(eta, trials), xp.array(1.0))

    def saturated(self, y: Array, trials: Array) -> Array:
        return _log_count(y)[None]


@dataclass(frozen=True)
class NegativeBinomial(_Counts):
    """Counts with mean exp(eta) and variance mean + dispersion * mean ** 2.

    The second predictor is the logarithm of the dispersion; towards minus infinity the law
    becomes Poisson.

    Examples
    --------
    By name it is "negativebinomial":

    >>> import numpy as np, tvdbayes as tb
    >>> y = np.random.default_rng(0).negative_binomial(2, 0.4, 2000)  # mean 3, dispersion 1/2
    >>> fit = tb.fit("y ~ 1", {"y": y}, family="negativebinomial", n_draws=0)
    >>> fit.param_names
    ('Intercept', 'dispersion:Intercept')
    >>> np.exp(fit.estimate).round(1)
    array([3.1, 0.5])
    """

    name: ClassVar[str] = "negativebinomial"
    suits: ClassVar[str] = "counts, spread estimated"

    @property
    def predictors(self) -> tuple[str, ...]:
        return ("", "dispersion")

    @property
    def compiled(self) -> str | None:
        return self.name

    def compiled_pmf(self, *, folded: bool) -> str | None:
        return self.name

    def log_jet(self, y: Array, eta: Array, trials: Array) -> Jet:
        log_mean = xp.minimum(eta[0], _LARGE)
        mean, size = xp.exp(log_mean), self._size(eta)
        total, away = size + mean, y - mean
        kept = size / total
        off = away * kept
        mixed = off * (mean / total)
        if known(xp.max(y, initial=0.0) + xp.max(size) > _PLAIN_LOG, True):
            value = log_negbin(y, size, log_mean)
            # Of size * (log(size + mean) - psi(size + y) + psi(size)), large terms are taken out.
            gap = by_outcome(self._lag, y, size) - size * log_ratio(y, mean, size)
            curvature = by_outcome(self._curvature, y, size)
        else:
            more = xp.log1p(mean / size)
            rising, lag, curvature = by_outcome(self._of_outcome, y, size)
            value = rising + y * (log_mean - xp.log(size) - more) - size * more
            gap = size * more - lag
        first = xp.stack([off, gap + off])
        main = -mean * kept * ((size + y) / total)
        own = curvature - gap - mixed - (kept * (size / (size + y))) * away
        return value, first, from_triangle([main], [-mixed, own])

    def slopes(self, y: Array, eta: Array, trials: Array) -> tuple[Array, Array]:
        size = self._size(eta)
        if known(xp.max(y, initial=0.0) + xp.max(size) > _PLAIN, True):
            return super().slopes(y, eta, trials)
        # The same bound in both terms, which must cancel.
        log_mean = xp.minimum(eta[0], _LARGE)
        mean = xp.exp(log_mean)
        more = xp.log1p(mean / size)
        rising, lag = by_outcome(self._of_slopes, y, size)
        pmf = xp.exp(rising + y * (log_mean - xp.log(size) - more) - size * more)
        off = (y - mean) * (size / (size + mean))
        gap = size * more - lag
        return pmf, xp.stack([pmf * off, pmf * (gap + off)])

    def pmf(self, y: Array, eta: Array, trials: Array) -> Array:
        return self.slopes(y, eta, trials)[0]

    @staticmethod
    def _lag(y: Array, size: Array) -> Array:
        lag: Array = size * (xp.log1p(y / size) - digamma_gap(y, size))
        return lag

    @staticmethod
    def _of_slopes(y: Array, size: Array) -> Array:
        """What the pmf and its slopes have of outcome and size alone, (2, ...)."""
        rising = gammaln(y + size) - gammaln(size) - gammaln(y + 1)
        return xp.stack([rising, size * digamma_gap(y, size)])

    @classmethod
    def _of_outcome(cls, y: Array, size: Array) -> Array:
        """The same, and what the curvature has of them, (3, ...)."""
        return xp.stack([*cls._of_slopes(y, size), cls._curvature(y, size)])

    @staticmethod
    def _curvature(y: Array, size: Array) -> Array:
        curvature: Array = size * size * (trigamma_gap(y, size) + y / (size * (size + y)))
        return curvature

    @staticmethod
    def _size(eta: Array) -> Array:
        size: Array = xp.exp(xp.clip(-eta[1], -LARGE_DISPERSION, LARGE_DISPERSION))
        return size

    def sample(self, rng: np.random.Generator, eta: Array, trials: Array) -> Array:
        size = self._size(eta)
        return _poisson(rng, rng.standard_gamma(size) * self.mean(eta, trials) / size)

    def nodes(self, eta: Array, trials: Array, power: float) -> tuple[Array, Array]:
        return count_nodes(self.mean(eta, trials), 1 / self._size(eta))

    def saturated(self, y: Array, trials: Array) -> Array:
        return xp.stack([_log_count(y), xp.full(xp.shape(y), -0.7)])


@dataclass(frozen=True)
class DiscreteWeibull(_Counts):
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
        ratio = 1 / xp.maximum(xp.expm1(xp.minimum(gap, _LARGE)), 1e-300)
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
        hazard, next_hazard = (xp.exp(xp.clip(p, -_LARGE, _LARGE_HAZARD)) for p in (low, high))
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
        power = xp.clip(shape * away, -_LARGE, _LARGE_HAZARD)
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
        drawn: Array = xp.minimum(xp.floor(_exp(eta[0]) * time), LARGEST)
        return drawn

    def nodes(self, eta: Array, trials: Array, power: float) -> tuple[Array, Array]:
        shape = self._shape(eta)
        scale = xp.maximum(_exp(eta[0]), 1.0)
        return panels(scale * 40 ** (1 / shape), 0.7 / shape, eta.ndim - 1)

    def saturated(self, y: Array, trials: Array) -> Array:
        return xp.stack([xp.log(y + 0.5), xp.zeros(xp.shape(y))])

    def degenerate(self, eta: Array, trials: Array) -> BoolArray:
        nothing: BoolArray = self.pmf(xp.zeros(eta.shape[1:]), eta, trials) > 1 - _NOTHING
        return nothing


def _exp(eta: Array) -> Array:
    value: Array = xp.exp(xp.minimum(eta, _LARGE))
    return value


def _log_count(y: Array) -> Array:
    value: Array = xp.log(xp.maximum(y, 0.25))
    return value
