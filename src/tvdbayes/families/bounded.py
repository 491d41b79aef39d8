"""Outcomes with a largest value: one yes/no answer, or a number of successes."""

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from tvdbayes._array import gammaln
from tvdbayes._typing import Array, BoolArray
from tvdbayes.families._base import AbstractFamily, Jet
from tvdbayes.families.links import AbstractLink, Logit

__all__ = ["Bernoulli", "Binomial"]

_DEGENERATE = 1e-6


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

    def log_pmf(self, y: Array, eta: Array, trials: Array) -> Array:
        return self.log_jet(y, eta, trials)[0]

    def score(self, y: Array, eta: Array, trials: Array) -> Array:
        return self.log_jet(y, eta, trials)[1]

    def curvature(self, y: Array, eta: Array, trials: Array) -> Array:
        return self.log_jet(y, eta, trials)[2]

    def log_jet(self, y: Array, eta: Array, trials: Array) -> Jet:
        success, failure = self.link.log_tails(eta[0])
        value, first, second = (
            np.where(y > 0, a, b) for a, b in zip(success, failure, strict=True)
        )
        return value, first[None], second[None, None]

    def jet(self, y: Array, eta: Array, trials: Array) -> Jet:
        value, first, second = self.link.tail(y > 0, eta[0])
        return value, first[None], second[None, None]

    def mean(self, eta: Array, trials: Array) -> Array:
        return self.link.tail(np.array(True), eta[0])[0]

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
        (log_prob, *_), (log_rest, *_) = self.link.log_tails(eta[0])
        certain: BoolArray = np.maximum(log_prob, log_rest) > -_DEGENERATE
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

    def log_pmf(self, y: Array, eta: Array, trials: Array) -> Array:
        return self.log_jet(y, eta, trials)[0]

    def score(self, y: Array, eta: Array, trials: Array) -> Array:
        return self.log_jet(y, eta, trials)[1]

    def curvature(self, y: Array, eta: Array, trials: Array) -> Array:
        return self.log_jet(y, eta, trials)[2]

    def log_jet(self, y: Array, eta: Array, trials: Array) -> Jet:
        failures = trials - y
        log_choose = gammaln(trials + 1) - gammaln(y + 1) - gammaln(failures + 1)
        success, failure = self.link.log_tails(eta[0])
        value, first, second = (y * a + failures * b for a, b in zip(success, failure, strict=True))
        return log_choose + value, first[None], second[None, None]

    def mean(self, eta: Array, trials: Array) -> Array:
        return trials * self.link.tail(np.array(True), eta[0])[0]

    def sample(self, rng: np.random.Generator, eta: Array, trials: Array) -> Array:
        prob = self.link.tail(np.array(True), eta[0])[0]
        return rng.binomial(trials.astype(int), prob).astype(float)

    def nodes(self, eta: Array, trials: Array, power: float) -> tuple[Array, Array]:
        most = int(np.max(trials))
        y = np.arange(most + 1.0).reshape((most + 1,) + (1,) * (eta.ndim - 1))
        inside = y <= trials
        return np.where(inside, y, 0.0), inside.astype(float)

    def saturated(self, y: Array, trials: Array) -> Array:
        return self.link.link((y + 0.5) / (trials + 1))[None]

    def possible(self, y: Array, trials: Array) -> BoolArray:
        whole = (y == np.round(y)) & (trials == np.round(trials))
        inside: BoolArray = whole & (y >= 0) & (trials >= 1) & (y <= trials)
        return inside

    def degenerate(self, eta: Array, trials: Array) -> BoolArray:
        (log_prob, *_), (log_rest, *_) = self.link.log_tails(eta[0])
        certain: BoolArray = trials * np.maximum(log_prob, log_rest) > -_DEGENERATE
        return certain
