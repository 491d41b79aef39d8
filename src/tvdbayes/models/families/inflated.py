"""Wrappers around any family of counts: too many zeros, no zeros, zeros by a hurdle.

With g the pmf of the base family and pi = expit(eta) of one more predictor,

    zero-inflated   f(0) = pi + (1 - pi) g(0),   f(y) = (1 - pi) g(y)
    truncated       f(y) = g(y) / (1 - g(0)),    y >= 1
    hurdle          f(0) = pi,                   f(y) = (1 - pi) g(y) / (1 - g(0))

References
----------
Lambert, D. (1992). Zero-inflated Poisson regression, with an application to defects in
manufacturing. Technometrics 34, 1-14.
Mullahy, J. (1986). Specification and testing of some modified count data models. Journal of
Econometrics 33, 341-365.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tvdbayes._array import log1m_exp, on_device, xp
from tvdbayes._errors import FamilyError
from tvdbayes._typing import Array, BoolArray
from tvdbayes.models.families._base import AbstractFamily, Jet, bordered
from tvdbayes.models.families._support import CERTAIN, tabulated_power_sum
from tvdbayes.models.families._wrapper import AbstractWrapper
from tvdbayes.models.families.links import Logit

_RARE = 1e-3
"""Above this share of counts above 0, rejection sampling is quick."""

_MOST_STEPS = 10_000
"""Below it, the cumulated mass is inverted step by step from 1 upwards, at most so far."""

_ALMOST_NONE = 1e-9
"""A base that is so rarely above 0 is then 1."""


class _WithZeros(AbstractWrapper):
    """One more predictor: the log odds of a zero that the family inside does not make."""

    extra: ClassVar[str]
    needs: ClassVar[str] = "outcomes that are 0 or that the family inside can make"

    @property
    def predictors(self) -> tuple[str, ...]:
        return (*self.base.predictors, self.extra)

    @property
    def ratios(self) -> tuple[str, ...]:
        return (*self.base.ratios, Logit.ratio)

    def saturated(self, y: Array, trials: Array) -> Array:
        guess = xp.where(y > 0, -2.0, 0.0)
        return xp.concatenate([self.base.saturated(y, trials), guess[None]])

    def nodes(self, eta: Array, trials: Array, power: float) -> tuple[Array, Array]:
        # The nodes of the base may skip outcomes, so 0 gets a node of its own.
        y, weights = self.base.nodes(eta[:-1], trials, power)
        y, weights = xp.broadcast_arrays(y, weights)
        zero = xp.zeros_like(y[:1])
        return (
            xp.concatenate([zero, xp.maximum(y, 1.0)]),
            xp.concatenate([zero + 1, xp.where(y < 1, 0.0, weights)]),
        )

    def _zero(self, eta: Array) -> Array:
        """Probability of a zero from outside."""
        return Logit().tail_slope(xp.array(True), eta[-1])[0]

    def degenerate(self, eta: Array, trials: Array) -> BoolArray:
        certain: BoolArray = self.pmf(xp.zeros(eta.shape[1:]), eta, trials) > 1 - CERTAIN
        return certain


@dataclass(frozen=True)
class ZeroInflated(_WithZeros):
    """Counts of a base family, but some rows are zero for another reason.

    P(0) = inflation + (1 - inflation) * base(0); the further predictor is the log odds of
    inflation.

    Parameters
    ----------
    base : AbstractFamily
        A count family.

    Examples
    --------
    By name it is "zero_inflated_poisson" and so on. The inflation is constant unless
    ``predictors={"inflation": "~ child"}`` gives it covariates:

    >>> import numpy as np, tvdbayes as tb
    >>> rng = np.random.default_rng(0)
    >>> fish = rng.poisson(3, 2000) * (rng.random(2000) < 0.7)  # 30% did not fish at all
    >>> fit = tb.fit("fish ~ 1", {"fish": fish}, family="zero_inflated_poisson", n_draws=0)
    >>> fit.param_names
    ('Intercept', 'inflation:Intercept')
    >>> rate, odds = np.exp(fit.estimate)
    >>> print(f"{rate:.1f} fish, {odds / (1 + odds):.0%} of the rows inflated")
    3.0 fish, 31% of the rows inflated
    """

    base: AbstractFamily

    name: ClassVar[str] = "zero_inflated"
    suits: ClassVar[str] = "X, and zeros for another reason"
    extra: ClassVar[str] = "inflation"

    def __post_init__(self) -> None:
        self._check_base()

    def log_jet(self, y: Array, eta: Array, trials: Array) -> Jet:
        inside, score, curvature = self.base.log_jet(y, eta[:-1], trials)
        (log_zero, zero_1, zero_2), (log_rest, rest_1, rest_2) = Logit().log_tails(eta[-1])
        both = xp.logaddexp(log_zero, log_rest + inside)
        value = xp.where(y == 0, both, log_rest + inside)
        # How much of this outcome comes from inside: all of it unless it is 0.
        own = xp.exp(log_rest + inside - value)
        other = xp.where(y == 0, xp.exp(log_zero - both), 0.0)
        apart = zero_1 - rest_1
        first = xp.concatenate([own * score, (other * zero_1 + own * rest_1)[None]])
        mixed = own * other
        second = bordered(
            own * curvature + mixed * score[:, None] * score,
            -mixed * apart * score,
            other * zero_2 + own * rest_2 + mixed * apart * apart,
        )
        return value, first, second

    def slopes(self, y: Array, eta: Array, trials: Array) -> tuple[Array, Array]:
        inside, slope = self.base.slopes(y, eta[:-1], trials)
        zero, zero_1 = Logit().tail_slope(xp.array(True), eta[-1])
        here = y == 0
        pmf = zero * here + (1 - zero) * inside
        return pmf, xp.concatenate([(1 - zero) * slope, (zero_1 * (here - inside))[None]])

    def mean(self, eta: Array, trials: Array) -> Array:
        return (1 - self._zero(eta)) * self.base.mean(eta[:-1], trials)

    def sample(self, rng: np.random.Generator, eta: Array, trials: Array) -> Array:
        kept = rng.random(eta.shape[1:]) >= self._zero(eta)
        return kept * self.base.sample(rng, eta[:-1], trials)


@dataclass(frozen=True)
class ZeroTruncated(AbstractWrapper):
    """Counts of a base family among which zeros cannot be seen.

    Parameters
    ----------
    base : AbstractFamily
        A count family.

    Examples
    --------
    By name it is "truncated_poisson" and so on. Nights of hotel guests, of whom none stays 0:

    >>> import numpy as np, tvdbayes as tb
    >>> nights = np.random.default_rng(0).poisson(1.5, 2000)
    >>> data = {"nights": nights[nights > 0]}
    >>> fit = tb.fit("nights ~ 1", data, family="truncated_poisson", n_draws=0)
    >>> np.exp(fit.estimate).round(1)  # the mean of those seen is 1.9
    array([1.5])
    """

    base: AbstractFamily

    name: ClassVar[str] = "truncated"
    suits: ClassVar[str] = "X, without zeros"
    needs: ClassVar[str] = "whole outcomes of at least 1"

    def __post_init__(self) -> None:
        self._check_base()

    def log_jet(self, y: Array, eta: Array, trials: Array) -> Jet:
        value, score, curvature = self.base.log_jet(y, eta, trials)
        log_zero, zero_1, zero_2 = self.base.log_jet(xp.zeros_like(y), eta, trials)
        # A base that makes nothing but zeros leaves odds that can still be squared.
        log_zero = xp.minimum(log_zero, -1e-150)
        log_seen = log1m_exp(log_zero)
        odds = xp.exp(log_zero - log_seen)
        return (
            value - log_seen,
            score + odds * zero_1,
            curvature + odds * zero_2 + odds * (1 + odds) * zero_1[:, None] * zero_1,
        )

    @property
    def smooth_sums(self) -> bool:
        return self.base.smooth_sums

    def power_sum(self, eta: Array, power: float, trials: Array) -> Jet:
        if self.smooth_sums and not on_device(eta):
            return tabulated_power_sum(self, eta, power)
        return super().power_sum(eta, power, trials)

    def mean(self, eta: Array, trials: Array) -> Array:
        return self.base.mean(eta, trials) / self._seen(eta, trials)

    def _seen(self, eta: Array, trials: Array) -> Array:
        """Probability that the base makes no zero."""
        log_zero = self.base.log_pmf(xp.zeros(eta.shape[1:]), eta, trials)
        seen: Array = xp.maximum(-xp.expm1(log_zero), 1e-300)
        return seen

    def sample(self, rng: np.random.Generator, eta: Array, trials: Array) -> Array:
        trials = xp.broadcast_to(trials, eta.shape[1:])
        drawn = xp.zeros(eta.shape[1:])
        seen = self._seen(eta, trials)
        drawn[seen < _ALMOST_NONE] = 1.0
        often = (seen > _RARE) & (drawn == 0)
        while (missing := often & (drawn == 0)).any():
            drawn[missing] = self.base.sample(rng, eta[:, missing], trials[missing])
        rare = drawn == 0
        if rare.any():
            # Nearly all would be zeros: go up from 1 until the cumulated mass is enough.
            left = rng.random(int(rare.sum()))
            y = xp.ones(left.size)
            for _ in range(_MOST_STEPS):
                left -= self.pmf(y, eta[:, rare], trials[rare])
                open_ = left > 1e-15
                if not open_.any():
                    break
                y[open_] += 1
            else:
                raise FamilyError(
                    f"{self!r} cannot be sampled here: nearly all counts would be 0, and the "
                    "others are huge. Look for a coefficient that ran away."
                )
            drawn[rare] = y
        return drawn

    def nodes(self, eta: Array, trials: Array, power: float) -> tuple[Array, Array]:
        y, weights = self.base.nodes(eta, trials, power)
        return xp.where(y < 1, 1.0, y), xp.where(y < 1, 0.0, weights)

    def possible(self, y: Array, trials: Array) -> BoolArray:
        return self.base.possible(y, trials) & (y >= 1)

    def degenerate(self, eta: Array, trials: Array) -> BoolArray:
        certain: BoolArray = self.pmf(xp.ones(eta.shape[1:]), eta, trials) > 1 - CERTAIN
        return certain


@dataclass(frozen=True)
class Hurdle(_WithZeros):
    """Zeros with a probability of their own, positive counts by the truncated base family.

    Parameters
    ----------
    base : AbstractFamily
        A count family.

    Examples
    --------
    By name it is "hurdle_poisson" and so on; the further predictor is the log odds of a zero:

    >>> import numpy as np, tvdbayes as tb
    >>> rng = np.random.default_rng(0)
    >>> y = rng.poisson(3, 2000) * (rng.random(2000) < 0.7)
    >>> fit = tb.fit("y ~ 1", {"y": y}, family="hurdle_poisson", n_draws=0)
    >>> fit.param_names
    ('Intercept', 'zero:Intercept')
    >>> rate, odds = np.exp(fit.estimate)
    >>> print(f"{odds / (1 + odds):.0%} zeros; seen: {np.mean(y == 0):.0%}")
    34% zeros; seen: 34%
    """

    base: AbstractFamily

    name: ClassVar[str] = "hurdle"
    suits: ClassVar[str] = "X, zeros by a law of their own"
    extra: ClassVar[str] = "zero"

    def __post_init__(self) -> None:
        self._check_base()

    def log_jet(self, y: Array, eta: Array, trials: Array) -> Jet:
        inside = ZeroTruncated(self.base).log_jet(xp.maximum(y, 1.0), eta[:-1], trials)
        tail = Logit().log_tail(y == 0, eta[-1])
        positive = y > 0
        value, score, curvature = (xp.where(positive, part, 0.0) for part in inside)
        first = xp.concatenate([score, tail[1][None]])
        return value + tail[0], first, bordered(curvature, 0 * score, tail[2])

    def mean(self, eta: Array, trials: Array) -> Array:
        return (1 - self._zero(eta)) * ZeroTruncated(self.base).mean(eta[:-1], trials)

    def sample(self, rng: np.random.Generator, eta: Array, trials: Array) -> Array:
        kept = rng.random(eta.shape[1:]) >= self._zero(eta)
        return kept * ZeroTruncated(self.base).sample(rng, eta[:-1], trials)
