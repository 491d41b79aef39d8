"""The generalised Poisson law: counts that vary more than Poisson counts.

With mu = exp(eta_1) and alpha = exp(eta_2) (its first form, called GP-1),

    f(y) = mu (mu + alpha y)**(y - 1) exp(-(mu + alpha y) / (1 + alpha)) / ((1 + alpha)**y y!),

of mean mu and variance mu (1 + alpha)**2. It is ``mu / (mu + alpha y)`` times a Poisson pmf of rate
``m = (mu + alpha y) / (1 + alpha)``, which is how it is computed: large terms never cancel. For
negative alpha the support would have to be cut, and what remains does not sum to 1, so alpha is
above 0: counts that vary less than Poisson counts need another law.

References
----------
Consul, P. C. and Jain, G. C. (1973). A generalization of the Poisson distribution. Technometrics
15, 791-799.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tvdbayes._array import xp
from tvdbayes._typing import Array
from tvdbayes._validate import LARGEST
from tvdbayes.models.families._base import Jet, from_triangle
from tvdbayes.models.families._counts import (
    LARGE_LOG_MEAN,
    AbstractCounts,
    log_count,
    poisson_draws,
    poisson_log_pmf,
)
from tvdbayes.models.families._support import LARGE_DISPERSION, panels

_LARGEST_SPREAD = 5.0
"""Bound on log alpha: the variance is then 22,000 times the mean."""

_LARGEST_RATIO = 600.0
"""Bound on the logarithm of a ratio whose exp is still finite."""


@dataclass(frozen=True)
class GeneralizedPoisson(AbstractCounts):
    """Counts with mean exp(eta) and variance mean * (1 + dispersion) ** 2.

    The second predictor is the logarithm of the dispersion, which is above 0; towards minus
    infinity the law becomes Poisson. Counts that vary less than Poisson counts are those of
    `ComPoisson`, or of `DiscreteWeibull`.

    Examples
    --------
    By name it is "generalizedpoisson" or "genpoisson":

    >>> import numpy as np, tvdbayes as tb
    >>> law, rng = tb.GeneralizedPoisson(), np.random.default_rng(0)
    >>> y = law.sample(rng, np.log([[3.0], [1.0]]) * np.ones(4000), None)  # mean 3, variance 12
    >>> fit = tb.fit("y ~ 1", {"y": y}, family="genpoisson", n_draws=0)
    >>> fit.param_names
    ('Intercept', 'dispersion:Intercept')
    >>> np.exp(fit.estimate).round(1)
    array([3., 1.])
    """

    name: ClassVar[str] = "generalizedpoisson"
    suits: ClassVar[str] = "counts, spread estimated"

    @property
    def single_precision(self) -> bool:
        return False

    @property
    def predictors(self) -> tuple[str, ...]:
        return ("", "dispersion")

    def log_jet(self, y: Array, eta: Array, trials: Array) -> Jet:
        log_mean, alpha = xp.clip(eta[0], -LARGE_LOG_MEAN, LARGE_LOG_MEAN), self._alpha(eta)
        kept = 1 / (1 + alpha)
        lost = alpha * kept
        ratio = alpha * y * xp.exp(xp.minimum(-log_mean, _LARGEST_RATIO))
        # Of a count's own rate m the share `old` comes from mu, the share `new` from the count.
        more = xp.log1p(ratio)
        old = 1 / (1 + ratio)
        new = ratio * old
        log_rate = log_mean + more - xp.log1p(alpha)
        rate, mean = xp.exp(log_rate), xp.exp(log_mean)
        off = (y - mean) * kept
        # Near the count, log(rate / y) has more digits than log(rate).
        share = off / xp.maximum(y, 1.0)
        near = xp.abs(share) < 0.5
        close = xp.log1p(-xp.where(near, share, 0.0))
        apart = xp.where(near, close, log_rate - xp.log(xp.maximum(y, 1.0)))
        value = poisson_log_pmf(y, log_rate, rate, apart) - more
        # lost * off / rate, also where the rate is nearly 0.
        pull = xp.where(y > 0, lost * off / xp.maximum(rate, 1e-300), -lost)
        first = xp.stack([new + off * old, off * pull - new])
        both = old * new
        main = -both - rate * old * old + off * both
        mixed = both - old * pull * (y + rate)
        own = kept * off * pull - pull * pull * (y + rate) - both
        return value, first, from_triangle([main], [mixed, own])

    @staticmethod
    def _alpha(eta: Array) -> Array:
        alpha: Array = xp.exp(xp.clip(eta[1], -LARGE_DISPERSION, _LARGEST_SPREAD))
        return alpha

    def sample(self, rng: np.random.Generator, eta: Array, trials: Array) -> Array:
        # The size of a family tree: Poisson many founders, and for each member Poisson children.
        alpha = np.broadcast_to(self._alpha(eta), eta.shape[1:]).ravel()
        born = poisson_draws(rng, self.mean(eta, trials).ravel() / (1 + alpha)).astype(float)
        total, open_ = born.copy(), np.flatnonzero(born)
        while open_.size:
            share = (alpha / (1 + alpha))[open_]
            born[open_] = poisson_draws(rng, share * born[open_])
            total[open_] += born[open_]
            open_ = open_[(born[open_] > 0) & (total[open_] < LARGEST)]
        drawn: Array = np.minimum(total, LARGEST).reshape(eta.shape[1:])
        return drawn

    def nodes(self, eta: Array, trials: Array, power: float) -> tuple[Array, Array]:
        mean, alpha = self.mean(eta, trials), self._alpha(eta)
        spread = np.sqrt(mean) * (1 + alpha)
        # Far out the pmf falls by exp(-fall) from one count to the next, and a factor y**(-3/2).
        fall = np.log1p(1 / alpha) - 1 / (1 + alpha)
        reach = mean + 45 * (1 + spread + 1 / fall)
        return panels(reach, spread / np.maximum(mean, 1e-300), mean.ndim)

    def saturated(self, y: Array, trials: Array) -> Array:
        return xp.stack([log_count(y), xp.full(xp.shape(y), -0.7)])
