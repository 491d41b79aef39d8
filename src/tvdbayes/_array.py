"""The only place that knows which array library is in use.

The core asks for special functions and segment sums here, never from SciPy itself.
"""

import numpy as np
from scipy.special import erfcx, gammaln, log_ndtr, ndtr

from tvdbayes._typing import Array, IntArray

__all__ = ["Segments", "erfcx", "excess_exp", "gammaln", "log_ndtr", "ndtr", "stirling_error"]


_HALF_LOG_2PI = 0.9189385332046727


class Segments:
    """Sorted pieces of an axis: ``spread`` copies a value to its piece, ``total`` adds each up.

    ``index`` names the piece of every entry along the first axis and must not decrease.
    """

    def __init__(self, index: IntArray, n: int) -> None:
        self.index = index
        self.n = n
        self._identity = index.size == n and bool((index == np.arange(n)).all())
        self._starts = np.searchsorted(index, np.arange(n))

    def spread(self, values: Array) -> Array:
        """(n, B) to (len(index), B)."""
        return values if self._identity else values.take(self.index, axis=0)

    def total(self, values: Array) -> Array:
        """(len(index), B) to (n, B)."""
        return values if self._identity else np.add.reduceat(values, self._starts, axis=0)


def excess_exp(t: Array) -> Array:
    """exp(t) - 1 - t, the deviance of a count whose rate is off by a factor exp(t)."""
    # Beyond 300 it only has to be huge, and small enough to be multiplied by a count.
    excess: Array = np.expm1(np.minimum(t, 300.0)) - t
    return excess


def stirling_error(n: Array) -> Array:
    """Log n! minus Stirling's formula, for n of at least 1, to full precision."""
    small = np.minimum(n, 16.0)
    exact = gammaln(small + 1) - (small + 0.5) * np.log(small) + small - _HALF_LOG_2PI
    square = 1 / (n * n)
    tail = (1 / 12 - square * (1 / 360 - square * (1 / 1260 - square / 1680))) / n
    error: Array = np.where(n < 16, exact, tail)
    return error
