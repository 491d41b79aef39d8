"""Links of a probability: the success probability as a function of the linear predictor.

logit      pi = 1 / (1 + exp(-eta))
probit     pi = Phi(eta)
cloglog    pi = 1 - exp(-exp(eta))
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import ndtri

from tvdbayes._array import HALF_LOG_2PI, erfcx, known, log1m_exp, log_ndtr, ndtr, xp
from tvdbayes._errors import SettingsError
from tvdbayes._typing import Array, BoolArray

_LARGE = 700.0
"""Bound on predictors: exp overflows beyond 709, and every family is degenerate long before."""

_LARGE_HAZARD = 150.0
"""Bound on the log hazard: exp(150) leaves no chance of failure, and its square is finite."""

_ROOT_2 = 1.4142135623730951
_ROOT_2_OVER_PI = 0.7978845608028654

_NODES, _WEIGHTS = (np.polynomial.legendre.leggauss(16)[i] / 2 + (0.5, 0.0)[i] for i in (0, 1))
"""Gauss-Legendre nodes and weights on [0, 1]."""

Tail = tuple[Array, Array, Array]
"""A function of eta with its first and second derivative."""


def require_link(link: object) -> None:
    """Raise unless this is a link, and say how links are made."""
    if not isinstance(link, AbstractLink):
        raise SettingsError(
            f"link must be Logit(), Probit() or Cloglog(); got {link!r}. Names such as "
            '"probit" go with a family given by name.'
        )


class AbstractLink(ABC):
    """Success probability as a function of eta, in forms that lose no digits in either tail."""

    name: ClassVar[str]
    ratio: ClassVar[str] = ""
    """What exp of a coefficient is called; empty where it is no ratio."""
    canonical: ClassVar[bool] = False
    """Whether the log odds are eta itself."""
    compiled: ClassVar[str | None] = None
    """See `AbstractFamily.compiled`, of outcomes with a largest value."""

    def compiled_pmf(self, *, folded: bool) -> str | None:
        """See `AbstractFamily`."""
        return None

    def cumulant(self, eta: Array) -> Tail:
        """Minus the logarithm of the probability of failure, with derivatives."""
        (_, (value, first, second)) = self.log_tails(eta)
        return -value, -first, -second

    @abstractmethod
    def log_tails(self, eta: Array) -> tuple[Tail, Tail]:
        """Logarithms of the probabilities of success and failure, with derivatives."""

    @abstractmethod
    def tail(self, success: BoolArray, eta: Array) -> Tail:
        """Probability of success where `success`, of failure elsewhere, with derivatives."""

    def tail_slope(self, success: BoolArray, eta: Array) -> tuple[Array, Array]:
        """Like `tail`, with the first derivative only."""
        value, first, _ = self.tail(success, eta)
        return value, first

    @abstractmethod
    def link(self, prob: Array) -> Array:
        """The predictor of a probability strictly between 0 and 1."""

    @abstractmethod
    def log_density(self, eta: Array) -> tuple[Array, Array]:
        """Logarithm of the derivative of the probability, and its own derivative."""

    @abstractmethod
    def log_between(self, eta: Array, gap: Array) -> Array:
        """Logarithm of the probability's increase from eta to eta + gap."""

    def log_tail(self, success: BoolArray, eta: Array) -> Tail:
        """Logarithm of `tail`, with derivatives."""
        value, first, second = (
            xp.where(success, a, b) for a, b in zip(*self.log_tails(eta), strict=True)
        )
        return value, first, second

    def log_likelihood(self, successes: Array, failures: Array, eta: Array) -> Tail:
        """Logarithm of the probability of so many successes and failures in a given order."""
        success, failure = self.log_tails(eta)
        value, first, second = (
            successes * a + failures * b for a, b in zip(success, failure, strict=True)
        )
        return value, first, second


@dataclass(frozen=True)
class Logit(AbstractLink):
    """prob = 1 / (1 + exp(-eta)): a coefficient is a log odds ratio.

    Examples
    --------
    By name it is ``link="logit"``. The odds of a yes are 1 to 3 in group a, 3 to 1 in group b:

    >>> import numpy as np, tvdbayes as tb
    >>> data = {"yes": [0, 0, 0, 1] * 10 + [1, 1, 1, 0] * 10, "group": ["a"] * 40 + ["b"] * 40}
    >>> fit = tb.fit("yes ~ group", data, family=tb.Bernoulli(tb.Logit()), n_draws=0)
    >>> print(f"odds ratio {np.exp(fit.estimate[1]):.1f}")
    odds ratio 9.0
    """

    name: ClassVar[str] = "logit"
    ratio: ClassVar[str] = "odds ratio"
    canonical: ClassVar[bool] = True
    compiled: ClassVar[str | None] = "logit"

    def compiled_pmf(self, *, folded: bool) -> str | None:
        return "tail_logit" if folded else "successes_logit"

    def cumulant(self, eta: Array) -> Tail:
        # As in `log_tails`, without what belongs to successes alone; arrays are used again.
        small = -xp.abs(eta)
        small = xp.exp(small, out=small)
        value = xp.log1p(small)
        value += xp.maximum(eta, 0)
        larger = small + 1
        larger = xp.divide(1, larger, out=larger)
        smaller = small
        smaller *= larger
        mean = xp.where(eta > 0, larger, smaller)
        larger *= smaller
        return value, mean, larger

    def log_tails(self, eta: Array) -> tuple[Tail, Tail]:
        small = xp.exp(-xp.abs(eta))
        larger = 1 / (1 + small)
        smaller = small * larger
        positive = eta > 0
        prob, rest = xp.where(positive, larger, smaller), xp.where(positive, smaller, larger)
        second = -larger * smaller
        soft = xp.log1p(small)
        log_prob, log_rest = xp.minimum(eta, 0) - soft, -xp.maximum(eta, 0) - soft
        return (log_prob, rest, second), (log_rest, -prob, second)

    def log_tail(self, success: BoolArray, eta: Array) -> Tail:
        # Symmetric: one tail serves both outcomes.
        sign = xp.where(success, 1.0, -1.0)
        z = sign * eta
        small = xp.exp(-xp.abs(z))
        larger = 1 / (1 + small)
        smaller = small * larger
        first = xp.where(z > 0, smaller, larger)
        first *= sign
        return xp.minimum(z, 0) - xp.log1p(small), first, -larger * smaller

    def log_likelihood(self, successes: Array, failures: Array, eta: Array) -> Tail:
        # The canonical link: the same as for any link, with half of the terms cancelled.
        total = successes + failures
        small = xp.exp(-xp.abs(eta))
        larger = 1 / (1 + small)
        smaller = small * larger
        prob = xp.where(eta > 0, larger, smaller)
        # Only the outcome that eta speaks against costs more than the logarithm.
        against = xp.where(eta < 0, successes, -failures) * eta
        return (
            against - total * xp.log1p(small),
            successes - total * prob,
            -total * (larger * smaller),
        )

    def tail(self, success: BoolArray, eta: Array) -> Tail:
        sign = xp.where(success, 1.0, -1.0)
        odds = xp.exp(xp.minimum(-sign * eta, _LARGE))
        prob = 1 / (1 + odds)
        # odds * prob is 1 - prob without cancellation.
        rest = odds * prob
        first = prob * rest
        return prob, sign * first, first * (rest - prob)

    def tail_slope(self, success: BoolArray, eta: Array) -> tuple[Array, Array]:
        sign = -xp.where(success, 1.0, -1.0)
        odds = eta * sign
        odds = xp.minimum(odds, _LARGE, out=odds)
        odds = xp.exp(odds, out=odds)
        prob = odds + 1
        prob = xp.divide(1, prob, out=prob)
        odds *= prob
        odds *= prob
        if known((sign > 0).any(), True):
            odds *= -sign
        return prob, odds

    def log_density(self, eta: Array) -> tuple[Array, Array]:
        (log_prob, rest, _), (log_rest, minus_prob, _) = self.log_tails(eta)
        return log_prob + log_rest, rest + minus_prob

    def log_between(self, eta: Array, gap: Array) -> Array:
        low, high = self.log_tails(eta)[1][0], self.log_tails(eta + gap)[0][0]
        between: Array = low + high + log1m_exp(-gap)
        return between

    def link(self, prob: Array) -> Array:
        return xp.log(prob) - xp.log1p(-prob)


@dataclass(frozen=True)
class Probit(AbstractLink):
    """prob = standard normal cdf of eta: a coefficient is a shift in standard deviations.

    Examples
    --------
    By name it is ``link="probit"``:

    >>> import numpy as np, tvdbayes as tb
    >>> data = {"yes": [0, 0, 0, 1] * 10 + [1, 1, 1, 0] * 10, "group": ["a"] * 40 + ["b"] * 40}
    >>> fit = tb.fit("yes ~ group", data, family=tb.Bernoulli(tb.Probit()), n_draws=0)
    >>> print(f"a shift of {fit.estimate[1]:.2f} deviations")
    a shift of 1.35 deviations
    """

    name: ClassVar[str] = "probit"
    compiled: ClassVar[str | None] = "probit"

    def compiled_pmf(self, *, folded: bool) -> str | None:
        return "tail_probit" if folded else None

    def log_tails(self, eta: Array) -> tuple[Tail, Tail]:
        yes, no = xp.array(True), xp.array(False)
        return self.log_tail(yes, eta), self.log_tail(no, eta)

    def log_tail(self, success: BoolArray, eta: Array) -> Tail:
        sign = xp.where(success, 1.0, -1.0)
        z = sign * eta
        far = -xp.minimum(z, -1.0)
        ratio = xp.where(
            z < -1,
            _ROOT_2_OVER_PI / erfcx(far / _ROOT_2),
            xp.exp(-z * z / 2 - HALF_LOG_2PI) / xp.maximum(ndtr(z), 0.1),
        )
        # z + ratio cancels far out; its expansion in 1 / z does not.
        tail = (1 - (2 - 10 / (far * far)) / (far * far)) / far
        return log_ndtr(z), sign * ratio, -ratio * xp.where(z < -50, tail, z + ratio)

    def tail(self, success: BoolArray, eta: Array) -> Tail:
        sign = xp.where(success, 1.0, -1.0)
        z = sign * eta
        density = xp.exp(-z * z / 2 - HALF_LOG_2PI)
        return ndtr(z), sign * density, -z * density

    def log_density(self, eta: Array) -> tuple[Array, Array]:
        return -eta * eta / 2 - HALF_LOG_2PI, -eta

    def log_between(self, eta: Array, gap: Array) -> Array:
        # In the lower tail by symmetry, where the difference of tails keeps its digits.
        end = eta + gap
        flip = eta > 0
        low, high = xp.where(flip, -end, eta), xp.where(flip, -eta, end)
        log_high = log_ndtr(high)
        wide = log_high + log1m_exp(xp.minimum(log_ndtr(low) - log_high, -1e-300))
        # A narrow gap: the density at Gauss nodes, relative to the largest of them.
        at = low + gap * _NODES.reshape((-1,) + (1,) * xp.ndim(gap))
        log_density = -at * at / 2 - HALF_LOG_2PI
        peak = log_density.max(0)
        mass = xp.tensordot(_WEIGHTS, xp.exp(log_density - peak), 1)
        near = gap < xp.minimum(0.5, 3 / (1 + xp.abs(eta)))
        between: Array = xp.where(near, xp.log(gap) + peak + xp.log(mass), wide)
        return between

    def link(self, prob: Array) -> Array:
        values: Array = ndtri(prob)
        return values


@dataclass(frozen=True)
class Cloglog(AbstractLink):
    """prob = 1 - exp(-exp(eta)): a coefficient is a log hazard ratio.

    Examples
    --------
    By name it is ``link="cloglog"``. Not symmetric: yes and no cannot be exchanged.

    >>> import numpy as np, tvdbayes as tb
    >>> data = {"died": [0, 0, 0, 1] * 10 + [1, 1, 1, 0] * 10, "group": ["a"] * 40 + ["b"] * 40}
    >>> fit = tb.fit("died ~ group", data, family=tb.Bernoulli(tb.Cloglog()), n_draws=0)
    >>> print(f"hazard ratio {np.exp(fit.estimate[1]):.1f}")
    hazard ratio 4.8
    """

    name: ClassVar[str] = "cloglog"
    ratio: ClassVar[str] = "hazard ratio"
    compiled: ClassVar[str | None] = "cloglog"

    def compiled_pmf(self, *, folded: bool) -> str | None:
        return "tail_cloglog" if folded else "successes_cloglog"

    def log_tails(self, eta: Array) -> tuple[Tail, Tail]:
        hazard = xp.exp(xp.minimum(eta, _LARGE_HAZARD))
        with xp.errstate(over="ignore", divide="ignore"):
            # For hazards that underflow the ratio hazard / expm1(hazard) is 1.
            slope = xp.where(hazard > 1e-300, hazard / xp.maximum(xp.expm1(hazard), 1e-300), 1.0)
            log_prob = xp.where(hazard > 1e-300, xp.log(-xp.expm1(-hazard)), eta)
        return (log_prob, slope, slope * (1 - hazard - slope)), (-hazard, -hazard, -hazard)

    def tail(self, success: BoolArray, eta: Array) -> Tail:
        hazard = xp.exp(xp.minimum(eta, _LARGE_HAZARD))
        rest = xp.exp(-hazard)
        first = hazard * rest
        second = first * (1 - hazard)
        sign = xp.where(success, 1.0, -1.0)
        return xp.where(success, -xp.expm1(-hazard), rest), sign * first, sign * second

    def log_density(self, eta: Array) -> tuple[Array, Array]:
        hazard = xp.exp(xp.minimum(eta, _LARGE_HAZARD))
        return eta - hazard, 1 - hazard

    def log_between(self, eta: Array, gap: Array) -> Array:
        hazard = xp.exp(xp.minimum(eta, _LARGE_HAZARD))
        more = hazard * xp.expm1(xp.minimum(gap, _LARGE_HAZARD))
        between: Array = -hazard + log1m_exp(-xp.maximum(more, 1e-300))
        return between

    def link(self, prob: Array) -> Array:
        return xp.log(-xp.log1p(-prob))
