"""Counts without a largest value."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tvdbayes._array import excess_exp, gammaln, stirling_error
from tvdbayes._typing import Array, BoolArray
from tvdbayes.families._base import AbstractFamily, Jet

__all__ = ["Poisson"]

# exp of more than this overflows once squared; no count of a data set comes near.
_LARGE = 300.0
# Below this many, the plain formula is right to 13 digits, and faster.
_SMALL = 50
_HALF_LOG_2PI = 0.9189385332046727


@dataclass(frozen=True)
class Poisson(AbstractFamily):
    """Counts with rate exp(eta).

    Examples
    --------
    >>> import numpy as np, tvdbayes as tb
    >>> tb.Poisson().pmf(np.array([0.0]), np.zeros((1, 1)), np.ones(1)).round(6)
    array([0.367879])
    """

    name: ClassVar[str] = "poisson"
    needs: ClassVar[str] = "whole outcomes of at least 0"
    counts: ClassVar[bool] = True

    def log_jet(self, y: Array, eta: Array, trials: Array) -> Jet:
        rate = self.mean(eta, trials)
        score = y - rate
        return self._log_pmf(y, eta[0], rate), score[None], (score - y)[None, None]

    def slopes(self, y: Array, eta: Array, trials: Array) -> tuple[Array, Array]:
        rate = self.mean(eta, trials)
        pmf = np.exp(self._log_pmf(y, eta[0], rate))
        return pmf, (pmf * (y - rate))[None]

    @staticmethod
    def _log_pmf(y: Array, eta: Array, rate: Array) -> Array:
        if np.max(y, initial=0) < _SMALL:
            return y * eta - rate - gammaln(y + 1)
        # The terms above are of the size of y and cancel; Loader's form has none that do.
        count = np.maximum(y, 1.0)
        peak = -0.5 * np.log(count) - _HALF_LOG_2PI - stirling_error(count)
        off: Array = np.where(y > 0, peak - count * excess_exp(eta - np.log(count)), -rate)
        return off

    def mean(self, eta: Array, trials: Array) -> Array:
        rate: Array = np.exp(np.minimum(eta[0], _LARGE))
        return rate

    def sample(self, rng: np.random.Generator, eta: Array, trials: Array) -> Array:
        return rng.poisson(self.mean(eta, trials)).astype(float)

    def nodes(self, eta: Array, trials: Array, power: float) -> tuple[Array, Array]:
        # pmf ** power is a bump of this width. Where it is wide, a sum over every step-th outcome
        # times the step is the whole sum to all digits (the trapezoid rule on a smooth bump).
        rate = self.mean(eta, trials)
        step = np.maximum(1.0, np.floor(np.sqrt(rate / power) / 4))
        side = 64
        offsets = np.arange(-side, side + 1.0).reshape((-1,) + (1,) * rate.ndim)
        y = np.floor(rate) + step * offsets
        inside = y >= 0
        return np.where(inside, y, 0.0), step * inside

    def saturated(self, y: Array, trials: Array) -> Array:
        return np.log(np.maximum(y, 0.25))[None]

    def possible(self, y: Array, trials: Array) -> BoolArray:
        whole: BoolArray = (y >= 0) & (y == np.round(y))
        return whole

    def degenerate(self, eta: Array, trials: Array) -> BoolArray:
        nothing: BoolArray = self.mean(eta, trials) < 1e-6
        return nothing
