"""The beta-binomial: successes in known trials whose probability varies from row to row.

With pi the mean probability, a function of the first predictor by the link, and m trials,

    f(y) = C(m, y) B(y + a, m - y + b) / B(a, b),   a = pi / phi,  b = (1 - pi) / phi,
    phi = exp(eta_2).
"""

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from tvdbayes._array import digamma_gap, gammaln, known, psi, trigamma_gap, xp
from tvdbayes._typing import Array, BoolArray
from tvdbayes.models.families._base import Jet, from_triangle
from tvdbayes.models.families._by_outcome import by_outcome
from tvdbayes.models.families._linked import AbstractSuccesses, all_outcomes, own_share
from tvdbayes.models.families._negbin import log_negbin
from tvdbayes.models.families._support import LARGE_DISPERSION
from tvdbayes.models.families.bounded import Binomial
from tvdbayes.models.families.links import AbstractLink, Logit

_TINY = 1e-100
"""Probabilities are at least this, so that their reciprocals can be squared."""

_FEW_TRIALS = 40
"""Up to this many trials rising factorials are products, which is faster than special functions."""
_PLAIN = 2000.0
"""Up to trials and sizes of this sum, plain gamma functions lose less than 1e-11."""


@dataclass(frozen=True)
class BetaBinomial(AbstractSuccesses):
    """Successes in known trials whose probability varies from row to row.

    The probability has a beta distribution with its mean given by the first predictor, through the
    link; the second is the logarithm of its dispersion, 1 / (a + b). Towards minus infinity the law
    becomes binomial.

    Parameters
    ----------
    link : AbstractLink
        `Logit`, `Probit` or `Cloglog`.

    Examples
    --------
    By name it is "betabinomial":

    >>> import numpy as np, tvdbayes as tb
    >>> rng = np.random.default_rng(0)
    >>> y = rng.binomial(10, rng.beta(2, 2, 2000))  # a + b = 4
    >>> fit = tb.fit("y ~ 1", {"y": y}, family="betabinomial", trials=10, n_draws=0)
    >>> fit.param_names
    ('Intercept', 'dispersion:Intercept')
    >>> np.exp(-fit.estimate[1:]).round()
    array([4.])
    """

    link: AbstractLink = field(default_factory=Logit)

    name: ClassVar[str] = "betabinomial"
    suits: ClassVar[str] = "the same, spread estimated"

    @property
    def single_precision(self) -> bool:
        return False

    @property
    def predictors(self) -> tuple[str, ...]:
        return ("", "dispersion")

    def log_jet(self, y: Array, eta: Array, trials: Array) -> Jet:
        (prob, slope, curvature), (rest, _, _) = (
            self.link.tail(xp.array(success), eta[0]) for success in (True, False)
        )
        prob, rest = xp.maximum(prob, _TINY), xp.maximum(rest, _TINY)
        size, failures = self._size(eta), trials - y
        a, b = prob * size, rest * size
        if known(xp.max(trials) <= _FEW_TRIALS, False):
            most = int(xp.max(trials))
            (log_a, in_a, aa), (log_b, in_b, bb) = (
                _rising(n, r, most) for n, r in ((y, a), (failures, b))
            )
            log_whole, whole, whole_2 = by_outcome(_rising_whole, trials + 0 * y, size)
            value = gammaln(trials + 1) - gammaln(y + 1) - gammaln(failures + 1)
            value = value + log_a + log_b - log_whole
        else:
            # Two negative binomial counts, given their sum: each factor keeps its digits.
            value = (
                log_negbin(y, a, xp.log(trials * prob))
                + log_negbin(failures, b, xp.log(trials * rest))
                - log_negbin(trials, size, xp.log(trials))
            )
            whole, whole_2 = digamma_gap(trials, size), trigamma_gap(trials, size)
            in_a, in_b = digamma_gap(y, a), digamma_gap(failures, b)
            aa, bb = trigamma_gap(y, a), trigamma_gap(failures, b)
        in_a, in_b, aa, bb = in_a - whole, in_b - whole, aa - whole_2, bb - whole_2
        step = slope * size
        first = xp.stack([step * (in_a - in_b), -(a * in_a + b * in_b)])
        both = curvature * size * (in_a - in_b) + step * step * (aa + 2 * whole_2 + bb)
        mixed = step * (b * (whole_2 + bb) - a * (aa + whole_2)) - first[0]
        own = a * a * aa - 2 * a * b * whole_2 + b * b * bb - first[1]
        return value, first, from_triangle([both], [mixed, own])

    def slopes(self, y: Array, eta: Array, trials: Array) -> tuple[Array, Array]:
        size = self._size(eta)
        if known(xp.max(trials) + xp.max(size) > _PLAIN, True):
            return super().slopes(y, eta, trials)
        prob, slope = self.link.tail_slope(xp.array(True), eta[0])
        prob = xp.clip(prob, _TINY, 1 - 1e-16)
        failures, a = trials - y, prob * size
        b = size - a
        log_pmf = gammaln(y + a) - gammaln(a) + (gammaln(failures + b) - gammaln(b))
        log_pmf += by_outcome(_falling, trials + 0 * y, size)
        log_pmf += gammaln(trials + 1) - gammaln(y + 1) - gammaln(failures + 1)
        whole = by_outcome(digamma_gap, trials + 0 * y, size)
        in_a, in_b = psi(y + a) - psi(a) - whole, psi(failures + b) - psi(b) - whole
        pmf = xp.exp(log_pmf)
        return pmf, xp.stack([pmf * slope * size * (in_a - in_b), -pmf * (a * in_a + b * in_b)])

    @staticmethod
    def _size(eta: Array) -> Array:
        size: Array = xp.exp(xp.clip(-eta[1], -LARGE_DISPERSION, LARGE_DISPERSION))
        return size

    def sample(self, rng: np.random.Generator, eta: Array, trials: Array) -> Array:
        size = self._size(eta)
        prob = self.link.tail_slope(xp.array(True), eta[0])[0]
        a, b = (xp.maximum(part * size, _TINY) for part in (prob, 1 - prob))
        return rng.binomial(trials.astype(int), rng.beta(a, b)).astype(float)

    def nodes(self, eta: Array, trials: Array, power: float) -> tuple[Array, Array]:
        return all_outcomes(trials, eta.ndim - 1)

    def saturated(self, y: Array, trials: Array) -> Array:
        main = own_share(self.link, y, trials)
        return xp.stack([main, xp.full_like(main, -2.0)])

    def degenerate(self, eta: Array, trials: Array) -> BoolArray:
        return Binomial(self.link).degenerate(eta, trials)


def _rising(n: Array, r: Array, most: int) -> tuple[Array, Array, Array]:
    """Log of r (r + 1) ... (r + n - 1) with two derivatives in r, factor by factor."""
    shape = xp.broadcast_shapes(xp.shape(n), xp.shape(r))
    log, first, second = xp.zeros(shape), xp.zeros(shape), xp.zeros(shape)
    for j in range(most):
        there = n > j
        share = there / (r + j)
        log += xp.where(there, xp.log(r + j), 0.0)
        first += share
        second -= share * share
    return log, first, second


def _rising_whole(n: Array, r: Array) -> Array:
    """The same for all factors of the largest n, (3, ...)."""
    whole: Array = xp.stack(_rising(n, r, int(xp.max(n))))
    return whole


def _falling(n: Array, r: Array) -> Array:
    """Minus the logarithm of r (r + 1) ... (r + n - 1)."""
    log: Array = gammaln(r) - gammaln(n + r)
    return log
