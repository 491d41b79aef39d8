"""Counts without a largest value.

With mu = exp(eta_1),

    Poisson              f(y) = mu**y exp(-mu) / y!
    geometric            f(y) = mu**y / (1 + mu)**(y + 1)
    negative binomial    f(y) = C(y + r - 1, y) (mu / (mu + r))**y (r / (mu + r))**r,
                         r = exp(-eta_2), so that the variance is mu + mu**2 / r

References
----------
Loader, C. (2000). Fast and accurate computation of binomial probabilities.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tvdbayes._array import (
    digamma_gap,
    gammaln,
    known,
    trigamma_gap,
    xp,
)
from tvdbayes._typing import Array
from tvdbayes._validate import LARGEST
from tvdbayes.models.families._base import Jet, from_triangle
from tvdbayes.models.families._by_outcome import by_outcome
from tvdbayes.models.families._counts import (
    LARGE_LOG_MEAN,
    AbstractCounts,
    log_count,
    poisson_draws,
    poisson_log_pmf,
)
from tvdbayes.models.families._negbin import log_negbin, log_ratio
from tvdbayes.models.families._support import (
    LARGE_DISPERSION,
    bump_nodes,
    count_nodes,
)
from tvdbayes.models.families.links import Logit

_PLAIN = 2000.0
_PLAIN_LOG = 300.0
"""Up to counts and sizes of these sums plain logarithms lose less than 1e-11, and 1e-12."""


@dataclass(frozen=True)
class Poisson(AbstractCounts):
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
        return poisson_log_pmf(y, eta[0], rate), score[None], (score - y)[None, None]

    def slopes(self, y: Array, eta: Array, trials: Array) -> tuple[Array, Array]:
        rate = self.mean(eta, trials)
        pmf = xp.exp(poisson_log_pmf(y, eta[0], rate))
        return pmf, (pmf * (y - rate))[None]

    def sample(self, rng: np.random.Generator, eta: Array, trials: Array) -> Array:
        return poisson_draws(rng, self.mean(eta, trials))

    def nodes(self, eta: Array, trials: Array, power: float) -> tuple[Array, Array]:
        rate = self.mean(eta, trials)
        return bump_nodes(rate, rate / power)

    def saturated(self, y: Array, trials: Array) -> Array:
        return log_count(y)[None]


@dataclass(frozen=True)
class Geometric(AbstractCounts):
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
        return log_count(y)[None]


@dataclass(frozen=True)
class NegativeBinomial(AbstractCounts):
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
        log_mean = xp.minimum(eta[0], LARGE_LOG_MEAN)
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
        log_mean = xp.minimum(eta[0], LARGE_LOG_MEAN)
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
        return poisson_draws(rng, rng.standard_gamma(size) * self.mean(eta, trials) / size)

    def nodes(self, eta: Array, trials: Array, power: float) -> tuple[Array, Array]:
        return count_nodes(self.mean(eta, trials), 1 / self._size(eta))

    def saturated(self, y: Array, trials: Array) -> Array:
        return xp.stack([log_count(y), xp.full(xp.shape(y), -0.7)])
