"""Outcomes with a largest value: one yes/no answer, or a number of successes."""

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from tvdbayes._array import excess_exp, gammaln, stirling_error
from tvdbayes._typing import Array, BoolArray
from tvdbayes.families._base import AbstractFamily, Jet
from tvdbayes.families.links import AbstractLink, Logit

__all__ = ["Bernoulli", "Binomial"]

_DEGENERATE = 1e-6
# Below this many trials, the plain formula is right to 13 digits, and faster.
_SMALL = 50
_HALF_LOG_2PI = 0.9189385332046727


@dataclass(frozen=True)
class Bernoulli(AbstractFamily):
    """One yes/no answer, y in {0, 1}.

    Examples
    --------
    >>> import numpy as np, tvdbayes as tb
    >>> tb.Bernoulli().pmf(np.array([0.0, 1.0]), np.zeros((1, 2)), np.ones(2))
    array([0.5, 0.5])
    """

    link: AbstractLink = field(default_factory=Logit)

    name: ClassVar[str] = "bernoulli"
    needs: ClassVar[str] = "outcomes that are 0 or 1"
    binary: ClassVar[bool] = True

    def log_jet(self, y: Array, eta: Array, trials: Array) -> Jet:
        value, first, second = self.link.log_tail(y > 0, eta[0])
        return value, first[None], second[None, None]

    def pmf(self, y: Array, eta: Array, trials: Array) -> Array:
        return self.link.tail_slope(y > 0, eta[0])[0]

    def slopes(self, y: Array, eta: Array, trials: Array) -> tuple[Array, Array]:
        value, first = self.link.tail_slope(y > 0, eta[0])
        return value, first[None]

    def jet(self, y: Array, eta: Array, trials: Array) -> Jet:
        value, first, second = self.link.tail(y > 0, eta[0])
        return value, first[None], second[None, None]

    def mean(self, eta: Array, trials: Array) -> Array:
        return self.link.tail_slope(np.array(True), eta[0])[0]

    def sample(self, rng: np.random.Generator, eta: Array, trials: Array) -> Array:
        return (rng.random(eta.shape[1:]) < self.mean(eta, trials)).astype(float)

    def nodes(self, eta: Array, trials: Array, power: float) -> tuple[Array, Array]:
        y = np.arange(2.0).reshape((2,) + (1,) * (eta.ndim - 1))
        return y, np.ones_like(y)

    def saturated(self, y: Array, trials: Array) -> Array:
        return self.link.link((y + 0.5) / 2)[None]

    def possible(self, y: Array, trials: Array) -> BoolArray:
        binary: BoolArray = (y == 0) | (y == 1)
        return binary

    def degenerate(self, eta: Array, trials: Array) -> BoolArray:
        prob = self.mean(eta, trials)
        certain: BoolArray = (prob < _DEGENERATE) | (prob > 1 - _DEGENERATE)
        return certain


@dataclass(frozen=True)
class Binomial(AbstractFamily):
    """Number of successes in a known number of trials, which is always given, never guessed.

    Examples
    --------
    >>> import numpy as np, tvdbayes as tb
    >>> tb.Binomial().pmf(np.array([1.0]), np.zeros((1, 1)), np.array([2.0])).round(12)
    array([0.5])
    """

    link: AbstractLink = field(default_factory=Logit)

    name: ClassVar[str] = "binomial"
    needs: ClassVar[str] = "whole outcomes between 0 and their trials (at least 1)"
    needs_trials: ClassVar[bool] = True
    counts: ClassVar[bool] = True

    def log_jet(self, y: Array, eta: Array, trials: Array) -> Jet:
        failures = trials - y
        value, first, second = self.link.log_likelihood(y, failures, eta[0])
        if np.max(trials, initial=0) < _SMALL:
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
        trials, some, rest = y + failures, np.maximum(y, 1.0), np.maximum(failures, 1.0)
        (log_prob, *_), (log_rest, *_) = self.link.log_tails(eta)
        peak = (
            0.5 * np.log(trials / (some * rest))
            - _HALF_LOG_2PI
            + (stirling_error(trials) - stirling_error(some) - stirling_error(rest))
        )
        inner = (
            peak
            - some * excess_exp(log_prob - np.log(some / trials))
            - rest * excess_exp(log_rest - np.log(rest / trials))
        )
        edge = np.where(y == 0, trials * log_rest, trials * log_prob)
        value: Array = np.where((y > 0) & (failures > 0), inner, edge)
        return value

    def mean(self, eta: Array, trials: Array) -> Array:
        return trials * self.link.tail_slope(np.array(True), eta[0])[0]

    def sample(self, rng: np.random.Generator, eta: Array, trials: Array) -> Array:
        prob = self.link.tail_slope(np.array(True), eta[0])[0]
        return rng.binomial(trials.astype(int), prob).astype(float)

    def nodes(self, eta: Array, trials: Array, power: float) -> tuple[Array, Array]:
        most = int(np.max(trials))
        y = np.arange(most + 1.0).reshape((most + 1,) + (1,) * (eta.ndim - 1))
        inside = y <= trials
        return np.where(inside, y, 0.0), inside.astype(float)

    def saturated(self, y: Array, trials: Array) -> Array:
        edge = 0.25 / (trials + 0.5)
        return self.link.link(np.clip(y / trials, edge, 1 - edge))[None]

    def possible(self, y: Array, trials: Array) -> BoolArray:
        whole = (y == np.round(y)) & (trials == np.round(trials))
        inside: BoolArray = whole & (y >= 0) & (trials >= 1) & (y <= trials)
        return inside

    def degenerate(self, eta: Array, trials: Array) -> BoolArray:
        (log_prob, *_), (log_rest, *_) = self.link.log_tails(eta[0])
        certain: BoolArray = trials * np.maximum(log_prob, log_rest) > -_DEGENERATE
        return certain
