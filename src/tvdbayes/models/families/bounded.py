"""Outcomes with a largest value: one yes/no answer, or a number of successes.

With pi the success probability, a function of the first predictor by the link, and m trials,

    Bernoulli        f(1) = pi,  f(0) = 1 - pi
    binomial         f(y) = C(m, y) pi**y (1 - pi)**(m - y)
    beta-binomial    f(y) = C(m, y) B(y + a, m - y + b) / B(a, b),
                     a = pi / phi,  b = (1 - pi) / phi,  phi = exp(eta_2)

References
----------
Loader, C. (2000). Fast and accurate computation of binomial probabilities.
"""

from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np

from tvdbayes._array import (
    HALF_LOG_2PI,
    digamma_gap,
    excess_exp,
    gammaln,
    known,
    psi,
    stirling_error,
    trigamma_gap,
    xp,
)
from tvdbayes._errors import SettingsError
from tvdbayes._typing import Array, BoolArray
from tvdbayes.models.families._base import AbstractFamily, Jet, from_triangle
from tvdbayes.models.families._by_outcome import by_outcome
from tvdbayes.models.families._negbin import log_negbin
from tvdbayes.models.families._support import CERTAIN, LARGE_DISPERSION, SMALL, bump_nodes
from tvdbayes.models.families.links import AbstractLink, Logit, require_link

_TINY = 1e-100
"""Probabilities are at least this, so that their reciprocals can be squared."""

_MOST_TRIALS = 1_000_000
"""Outcomes of a sum over the whole support: arrays of this size take 8 MiB for each row."""

_FEW_TRIALS = 40
"""Up to this many trials rising factorials are products, which is faster than special functions."""

_LISTED = 500
"""Trials up to which all outcomes are listed in sums; of more, weighted nodes represent the
others."""
"""Up to so many trials, products are multiplied out: much faster than gamma functions."""
_PLAIN = 2000.0
"""Up to trials and sizes of this sum, plain gamma functions lose less than 1e-11."""


@dataclass(frozen=True)
class Bernoulli(AbstractFamily):
    """One yes/no answer, y in {0, 1}.

    Parameters
    ----------
    link : AbstractLink
        `Logit`, `Probit` or `Cloglog`.
    levels : tuple of str
        What the data call the outcomes 0 and 1; empty where they are numbers.

    Examples
    --------
    By name it is "bernoulli", with ``link="logit"`` unless given:

    >>> import numpy as np, tvdbayes as tb
    >>> rng = np.random.default_rng(0)
    >>> dose = rng.integers(0, 3, 300)
    >>> cured = rng.random(300) < np.array([0.1, 0.5, 0.9])[dose]
    >>> data = {"cured": cured, "dose": dose}
    >>> fit = tb.fit("cured ~ dose", data, family="bernoulli", n_draws=20)
    >>> fit.predict({"dose": [0, 2]})["mean"].round(1).tolist()
    [0.1, 0.8]
    """

    link: AbstractLink = field(default_factory=Logit)
    # Names change no probability, so that laws with and without them are equal.
    levels: tuple[str, ...] = field(default=(), compare=False)

    name: ClassVar[str] = "bernoulli"
    suits: ClassVar[str] = "0 or 1, or two names"
    needs: ClassVar[str] = "outcomes that are 0 or 1"
    binary: ClassVar[bool] = True

    def __post_init__(self) -> None:
        require_link(self.link)
        named = all(isinstance(level, str) for level in self.levels)
        if self.levels and not (named and len(set(self.levels)) == len(self.levels) == 2):
            raise SettingsError(
                f'levels must be the names of the outcomes 0 and 1, such as ("no", "yes"); got '
                f"{self.levels!r}."
            )

    def with_answers(self, names: tuple[str, ...]) -> "Bernoulli":
        return replace(self, levels=names)

    @property
    def yes_in_words(self) -> str:
        if not self.levels:
            return ""
        no, yes = self.levels
        return f"The answer {yes!r} counts as 1, {no!r} as 0."

    @property
    def link_name(self) -> str:
        return self.link.name

    @property
    def ratios(self) -> tuple[str, ...]:
        return (self.link.ratio,)

    def log_jet(self, y: Array, eta: Array, trials: Array) -> Jet:
        value, first, second = self.link.log_tail(y > 0, eta[0])
        return value, first[None], second[None, None]

    @property
    def canonical(self) -> bool:
        return self.link.canonical

    @property
    def compiled(self) -> str | None:
        return self.link.compiled

    def compiled_pmf(self, *, folded: bool) -> str | None:
        return self.link.compiled_pmf(folded=folded)

    def cumulant(self, eta: Array, trials: Array) -> Jet:
        return self.link.cumulant(eta[0])

    def pmf(self, y: Array, eta: Array, trials: Array) -> Array:
        return self.link.tail_slope(y > 0, eta[0])[0]

    def slopes(self, y: Array, eta: Array, trials: Array) -> tuple[Array, Array]:
        value, first = self.link.tail_slope(y > 0, eta[0])
        return value, first[None]

    def jet(self, y: Array, eta: Array, trials: Array) -> Jet:
        value, first, second = self.link.tail(y > 0, eta[0])
        return value, first[None], second[None, None]

    def mean(self, eta: Array, trials: Array) -> Array:
        return self.link.tail_slope(xp.array(True), eta[0])[0]

    def sample(self, rng: np.random.Generator, eta: Array, trials: Array) -> Array:
        return (rng.random(eta.shape[1:]) < self.mean(eta, trials)).astype(float)

    def nodes(self, eta: Array, trials: Array, power: float) -> tuple[Array, Array]:
        y = xp.arange(2.0).reshape((2,) + (1,) * (eta.ndim - 1))
        return y, xp.ones_like(y)

    def saturated(self, y: Array, trials: Array) -> Array:
        return self.link.link((y + 0.5) / 2)[None]

    def possible(self, y: Array, trials: Array) -> BoolArray:
        binary: BoolArray = (y == 0) | (y == 1)
        return binary

    def degenerate(self, eta: Array, trials: Array) -> BoolArray:
        prob = self.mean(eta, trials)
        certain: BoolArray = (prob < CERTAIN) | (prob > 1 - CERTAIN)
        return certain


@dataclass(frozen=True)
class Binomial(AbstractFamily):
    """Number of successes in a known number of trials, which is always given, never guessed.

    Parameters
    ----------
    link : AbstractLink
        `Logit`, `Probit` or `Cloglog`.

    Examples
    --------
    By name it is "binomial"; the number of trials is a column, or ``trials=20``:

    >>> import numpy as np, tvdbayes as tb
    >>> won = np.random.default_rng(0).binomial(20, 0.3, 2000)
    >>> won[:200] = 20  # a tenth of the rows is wrong
    >>> data = {"won": won, "played": np.full(2000, 20)}
    >>> fit = tb.fit("won / played ~ 1", data, family="binomial", n_draws=0)
    >>> (1 / (1 + np.exp(-fit.estimate))).round(1)  # the share; won / played is 0.4
    array([0.3])
    """

    link: AbstractLink = field(default_factory=Logit)

    name: ClassVar[str] = "binomial"
    suits: ClassVar[str] = "successes of known trials"
    needs: ClassVar[str] = "whole outcomes between 0 and their trials (at least 1)"
    counts: ClassVar[bool] = True

    def __post_init__(self) -> None:
        require_link(self.link)

    @property
    def link_name(self) -> str:
        return self.link.name

    @property
    def ratios(self) -> tuple[str, ...]:
        return (self.link.ratio,)

    @property
    def needs_trials(self) -> bool:
        return True

    @property
    def canonical(self) -> bool:
        return self.link.canonical

    @property
    def compiled(self) -> str | None:
        return self.link.compiled

    def compiled_pmf(self, *, folded: bool) -> str | None:
        return self.link.compiled_pmf(folded=folded)

    def cumulant(self, eta: Array, trials: Array) -> Jet:
        value, first, second = self.link.cumulant(eta[0])
        return trials * value, trials * first, trials * second

    def log_jet(self, y: Array, eta: Array, trials: Array) -> Jet:
        failures = trials - y
        value, first, second = self.link.log_likelihood(y, failures, eta[0])
        if known(xp.max(trials, initial=0) < SMALL, False):
            value = value + (gammaln(trials + 1) - gammaln(y + 1) - gammaln(failures + 1))
        else:
            value = self._log_pmf(y, failures, eta[0])
        return value, first[None], second[None, None]

    def _log_pmf(self, y: Array, failures: Array, eta: Array) -> Array:
        """The log pmf for many trials, where the plain sum would cancel (Loader's form).

        With a and b the logarithms of probability over observed share, of success and failure, it
        is the peak minus ``y * (exp(a) - 1 - a) + failures * (exp(b) - 1 - b)``: the terms that
        are added to make it so sum to zero.
        """
        trials, some, rest = y + failures, xp.maximum(y, 1.0), xp.maximum(failures, 1.0)
        (log_prob, *_), (log_rest, *_) = self.link.log_tails(eta)
        peak = (
            0.5 * xp.log(trials / (some * rest))
            - HALF_LOG_2PI
            + (stirling_error(trials) - stirling_error(some) - stirling_error(rest))
        )
        inner = (
            peak
            - some * excess_exp(log_prob - xp.log(some / trials))
            - rest * excess_exp(log_rest - xp.log(rest / trials))
        )
        edge = xp.where(y == 0, trials * log_rest, trials * log_prob)
        value: Array = xp.where((y > 0) & (failures > 0), inner, edge)
        return value

    def mean(self, eta: Array, trials: Array) -> Array:
        return trials * self.link.tail_slope(xp.array(True), eta[0])[0]

    def sample(self, rng: np.random.Generator, eta: Array, trials: Array) -> Array:
        prob = self.link.tail_slope(xp.array(True), eta[0])[0]
        return rng.binomial(trials.astype(int), prob).astype(float)

    def nodes(self, eta: Array, trials: Array, power: float) -> tuple[Array, Array]:
        if known(xp.max(trials) <= _LISTED, True):
            return _all_outcomes(trials, eta.ndim - 1)
        mean = self.mean(eta, trials)
        y, weights = bump_nodes(mean, mean * (1 - mean / trials) / power)
        inside = y <= trials
        return xp.where(inside, y, 0.0), weights * inside

    def saturated(self, y: Array, trials: Array) -> Array:
        return _own_share(self.link, y, trials)[None]

    def possible(self, y: Array, trials: Array) -> BoolArray:
        return _within(y, trials)

    def degenerate(self, eta: Array, trials: Array) -> BoolArray:
        (log_prob, *_), (log_rest, *_) = self.link.log_tails(eta[0])
        certain: BoolArray = trials * xp.maximum(log_prob, log_rest) > -CERTAIN
        return certain


@dataclass(frozen=True)
class BetaBinomial(AbstractFamily):
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
    needs: ClassVar[str] = "whole outcomes between 0 and their trials (at least 1)"
    counts: ClassVar[bool] = True

    def __post_init__(self) -> None:
        require_link(self.link)

    @property
    def link_name(self) -> str:
        return self.link.name

    @property
    def ratios(self) -> tuple[str, ...]:
        return (self.link.ratio, "dispersion ratio")

    @property
    def single_precision(self) -> bool:
        return False

    @property
    def predictors(self) -> tuple[str, ...]:
        return ("", "dispersion")

    @property
    def needs_trials(self) -> bool:
        return True

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

    def mean(self, eta: Array, trials: Array) -> Array:
        return trials * self.link.tail_slope(xp.array(True), eta[0])[0]

    def sample(self, rng: np.random.Generator, eta: Array, trials: Array) -> Array:
        size = self._size(eta)
        prob = self.link.tail_slope(xp.array(True), eta[0])[0]
        a, b = (xp.maximum(part * size, _TINY) for part in (prob, 1 - prob))
        return rng.binomial(trials.astype(int), rng.beta(a, b)).astype(float)

    def nodes(self, eta: Array, trials: Array, power: float) -> tuple[Array, Array]:
        return _all_outcomes(trials, eta.ndim - 1)

    def saturated(self, y: Array, trials: Array) -> Array:
        main = _own_share(self.link, y, trials)
        return xp.stack([main, xp.full_like(main, -2.0)])

    def possible(self, y: Array, trials: Array) -> BoolArray:
        return _within(y, trials)

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


def _all_outcomes(trials: Array, ndim: int) -> tuple[Array, Array]:
    most = int(xp.max(trials))
    if most > _MOST_TRIALS:
        raise SettingsError(
            f"A sum over all outcomes is needed, and {most:,} trials are too many (at most "
            f'{_MOST_TRIALS:,}). Use divergence="tvd" with refine=None.'
        )
    y = xp.arange(most + 1.0).reshape((most + 1,) + (1,) * ndim)
    inside = y <= trials
    return xp.where(inside, y, 0.0), inside.astype(float)


def _own_share(link: AbstractLink, y: Array, trials: Array) -> Array:
    """The predictor that makes the observed share of successes the likeliest, kept finite."""
    edge = 0.25 / (trials + 0.5)
    return link.link(xp.clip(y / trials, edge, 1 - edge))


def _within(y: Array, trials: Array) -> BoolArray:
    whole = (y == xp.round(y)) & (trials == xp.round(trials))
    inside: BoolArray = whole & (y >= 0) & (trials >= 1) & (y <= trials)
    return inside
