"""The only place that knows which array library is in use.

The core asks for special functions and segment sums here, never from SciPy itself.
"""

import numpy as np
from scipy import sparse
from scipy.linalg import eigh_tridiagonal
from scipy.special import erfcx, gammainc, gammaln, log_ndtr, ndtr, psi, zeta

from tvdbayes._typing import Array, IntArray

__all__ = [
    "Segments",
    "digamma_gap",
    "erfcx",
    "excess_exp",
    "gammaln",
    "gauss_sum",
    "log1m_exp",
    "log_ndtr",
    "ndtr",
    "poisson_tail",
    "psi",
    "stirling_error",
    "trigamma_gap",
]

_HALF_LOG_2PI = 0.9189385332046727


class Segments:
    """Sorted pieces of an axis: ``spread`` copies a value to its piece, ``total`` adds each up.

    ``index`` names the piece of every entry along the first axis and must not decrease.
    """

    def __init__(self, index: IntArray, n: int) -> None:
        self.index = index
        self.n = n
        self._identity = index.size == n and bool((index == np.arange(n)).all())
        ends = np.searchsorted(index, np.arange(n + 1))
        # A product with a sparse matrix of ones: several times faster than add.reduceat.
        shape = (n, index.size)
        self._sum = sparse.csr_array((np.ones(index.size), np.arange(index.size), ends), shape)

    def spread(self, values: Array) -> Array:
        """(n, B) to (len(index), B)."""
        return values if self._identity else values.take(self.index, axis=0)

    def total(self, values: Array) -> Array:
        """(len(index), B) to (n, B)."""
        if self._identity:
            return values
        return np.asarray(self._sum @ values)


def excess_exp(t: Array) -> Array:
    """exp(t) - 1 - t, the deviance of a count whose rate is off by a factor exp(t)."""
    # Beyond 300 it only has to be huge, and small enough to be multiplied by a count.
    excess: Array = np.expm1(np.minimum(t, 300.0)) - t
    return excess


def stirling_error(n: Array) -> Array:
    """Log n! minus Stirling's formula, for n above 0, to full precision."""
    small = np.minimum(n, 16.0)
    exact = gammaln(small + 1) - (small + 0.5) * np.log(small) + small - _HALF_LOG_2PI
    large = np.maximum(n, 16.0)
    square = 1 / (large * large)
    tail = (1 / 12 - square * (1 / 360 - square * (1 / 1260 - square / 1680))) / large
    error: Array = np.where(n < 16, exact, tail)
    return error


def log1m_exp(log_prob: Array) -> Array:
    """log(1 - exp(l)) for l below 0, without loss of digits at either end."""
    near, far = np.maximum(log_prob, -0.7), np.minimum(log_prob, -0.7)
    value: Array = np.where(log_prob > -0.7, np.log(-np.expm1(near)), np.log1p(-np.exp(far)))
    return value


def poisson_tail(count: Array, rate: Array) -> Array:
    """Probability of at least so many events at this rate; counts above 0 need not be whole."""
    tail: Array = gammainc(count, rate)
    return tail


def digamma_gap(y: Array, r: Array) -> Array:
    """psi(y + r) - psi(r), which for large r is a small difference of large numbers."""
    gap: Array = np.log1p(y / r) - (_log_minus_psi(y + r) - _log_minus_psi(r))
    return gap


def trigamma_gap(y: Array, r: Array) -> Array:
    """psi'(y + r) - psi'(r), in the same way."""
    gap: Array = _trigamma_excess(y + r) - _trigamma_excess(r) - y / (r * (y + r))
    return gap


def _log_minus_psi(x: Array) -> Array:
    """log(x) - psi(x); from 10 on by its asymptotic series, which has nothing to cancel."""
    small, t = np.minimum(x, 10.0), 1 / np.maximum(x, 10.0)
    s = t * t
    series = t / 2 + s * (1 / 12 - s * (1 / 120 - s * (1 / 252 - s * (1 / 240 - s / 132))))
    value: Array = np.where(x < 10, np.log(small) - psi(small), series)
    return value


def _trigamma_excess(x: Array) -> Array:
    """psi'(x) - 1 / x."""
    small, t = np.minimum(x, 10.0), 1 / np.maximum(x, 10.0)
    s = t * t
    series = s / 2 + t * s * (1 / 6 - s * (1 / 30 - s * (1 / 42 - s * (1 / 30 - s * (5 / 66)))))
    value: Array = np.where(x < 10, zeta(2.0, small) - 1 / small, series)
    return value


def gauss_sum(low: float, high: float, n_nodes: int = 12) -> tuple[Array, Array]:
    """Nodes and weights of the sum over low, low + 1, ..., high.

    At most `n_nodes` of them: all outcomes of a short stretch; of a longer one the nodes that make
    the sum exact for polynomials of degree below twice their number (Gauss, for Gram polynomials).
    """
    n = high - low + 1
    if n <= n_nodes:
        return np.arange(low, high + 1), np.ones(int(n))
    k = np.arange(1.0, n_nodes)
    off = k / 2 * np.sqrt((n * n - k * k) / (4 * k * k - 1))
    nodes, vectors = eigh_tridiagonal(np.zeros(n_nodes), off)
    return np.asarray((low + high) / 2 + nodes, float), np.asarray(n * vectors[0] ** 2, float)
