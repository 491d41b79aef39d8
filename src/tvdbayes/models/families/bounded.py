"""Outcomes with a largest value: one yes/no answer, or a number of successes.

With pi the success probability, a function of the first predictor by the link, and m trials,

    Bernoulli        f(1) = pi,  f(0) = 1 - pi
    binomial         f(y) = C(m, y) pi**y (1 - pi)**(m - y)

References
----------
Loader, C. (2000). Fast and accurate computation of binomial probabilities.
"""

from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np

from tvdbayes._array import HALF_LOG_2PI, excess_exp, gammaln, known, stirling_error, xp
from tvdbayes._errors import SettingsError
from tvdbayes._typing import Array, BoolArray
from tvdbayes.models.families._base import Jet
from tvdbayes.models.families._linked import (
    AbstractLinked,
    AbstractSuccesses,
    all_outcomes,
    own_share,
)
from tvdbayes.models.families._support import CERTAIN, SMALL, bump_nodes
from tvdbayes.models.families.links import AbstractLink, Logit

_LISTED = 500
"""Trials up to which all outcomes are listed in sums; of more, weighted nodes represent the
others."""


@dataclass(frozen=True)
class Bernoulli(AbstractLinked):
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
        super().__post_init__()
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

    def log_jet(self, y: Array, eta: Array, trials: Array) -> Jet:
        value, first, second = self.link.log_tail(y > 0, eta[0])
        return value, first[None], second[None, None]

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
class Binomial(AbstractSuccesses):
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

    def sample(self, rng: np.random.Generator, eta: Array, trials: Array) -> Array:
        prob = self.link.tail_slope(xp.array(True), eta[0])[0]
        return rng.binomial(trials.astype(int), prob).astype(float)

    def nodes(self, eta: Array, trials: Array, power: float) -> tuple[Array, Array]:
        if known(xp.max(trials) <= _LISTED, True):
            return all_outcomes(trials, eta.ndim - 1)
        mean = self.mean(eta, trials)
        y, weights = bump_nodes(mean, mean * (1 - mean / trials) / power)
        inside = y <= trials
        return xp.where(inside, y, 0.0), weights * inside

    def saturated(self, y: Array, trials: Array) -> Array:
        return own_share(self.link, y, trials)[None]

    def degenerate(self, eta: Array, trials: Array) -> BoolArray:
        (log_prob, *_), (log_rest, *_) = self.link.log_tails(eta[0])
        certain: BoolArray = trials * xp.maximum(log_prob, log_rest) > -CERTAIN
        return certain
