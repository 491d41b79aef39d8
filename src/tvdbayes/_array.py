"""The only place that knows which array library is in use.

The core asks for special functions and segment sums here, never from SciPy itself.
"""

import numpy as np
from scipy.special import gammaln, log_ndtr, ndtr

from tvdbayes._typing import Array, IntArray

__all__ = ["Segments", "gammaln", "log_ndtr", "ndtr"]


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
