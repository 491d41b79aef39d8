"""Weighted k-means: centres c that minimise sum_i w_i min_g |z_i - c_g|**2.

Centres are seeded by k-means++ and moved by Lloyd's steps. This is not a library's implementation,
because the result must be the same bit for bit for any number of threads, and must not depend on
the units, the order or the coding of the columns. Only distances between rows enter, and a tie of
two centres goes to the one that was drawn first: decided by rounding, it would give other groups in
other units.

References
----------
Arthur, D. and Vassilvitskii, S. (2007). k-means++: the advantages of careful seeding. SODA,
1027-1035.
Lloyd, S. (1982). Least squares quantization in PCM. IEEE Transactions on Information Theory 28,
129-137.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import numpy as np
from numpy.typing import NDArray

from tvdbayes import kernel
from tvdbayes._array import Ones, in_parts
from tvdbayes._typing import Array, IntArray

_CHUNK = 4096
"""Rows that a thread searches at a time."""

_SCORES = 1 << 17
"""Distances that are computed at a time; they stay in the cache."""

_VECTOR = 32
"""Centres are filled up to a multiple of this, so that minima are taken over whole vectors."""

_SINGLE = 2.0**-18
"""Scores in single precision are wrong by less than this share of the squared lengths."""

TIE = 1e-12
"""The same for what counts as a tie in double precision."""


_Search = Callable[["Rows"], tuple[IntArray, Array, float]]
"""Of rows the nearest centre, by how much half the squared distance of the second is larger, and
the share of the squared lengths up to which that may be wrong."""


def nearest(z: Array, centres: Array) -> IntArray:
    """The nearest centre of each row; of several that are equally near the first.

    It is faster the nearer the bulk of the rows is to the origin.
    """
    near = finder(centres)
    starts = range(0, len(z), _CHUNK)
    return np.concatenate(in_parts(lambda start: near(Rows.of(z[start : start + _CHUNK])), starts))


@dataclass(frozen=True, eq=False)
class Rows:
    """Some rows.

    Parameters
    ----------
    z, size : (n, q), (n,)
        The rows and their squared lengths.
    """

    z: Array
    size: Array

    @classmethod
    def of(cls, z: Array) -> Self:
        """Rows z (n, q)."""
        z = np.ascontiguousarray(z)
        return cls(z, np.einsum("ij,ij->i", z, z))

    @cached_property
    def single(self) -> NDArray[np.float32]:
        """The rows in single precision, with ones at the end, (n, q + 1)."""
        single = np.ones((len(self.z), self.z.shape[1] + 1), np.float32)
        single[:, :-1] = self.z
        return single

    def take(self, rows: slice) -> Self:
        """Some of them."""
        return replace(self, z=self.z[rows], size=self.size[rows])


def finder(centres: Array) -> Callable[[Rows], IntArray]:
    """Finds the nearest centre of some rows; where several are about as near, one formula decides,
    so that the compiled kernel and NumPy find the same.
    """
    half = 0.5 * (centres * centres).sum(1)
    lib = kernel.library()
    search = _in_single(centres, half) if lib is None else _by_kernel(lib, centres, half)

    def near(rows: Rows) -> IntArray:
        closest, gap, coarse = search(rows)
        size = rows.size + 2 * half[closest]
        close = np.flatnonzero(gap <= coarse * size)
        if close.size:
            exact = half - rows.z[close] @ centres.T
            tied = exact.min(1) + TIE * size[close]
            closest[close] = (exact <= tied[:, None]).argmax(1)
        return closest

    return near


def _by_kernel(lib: kernel.Library, centres: Array, half: Array) -> _Search:
    """The nearest centre of rows, and by how much the second is farther, by the kernel."""
    filled = np.zeros((centres.shape[1] + 1, lib.padded(len(half))))
    filled[-1] = np.inf
    filled[:, : len(half)] = np.vstack([centres.T, half])
    columns, lengths = filled[:-1], filled[-1]

    def search(rows: Rows) -> tuple[IntArray, Array, float]:
        closest, gap = np.empty(len(rows.z), np.int64), np.empty(len(rows.z))
        lib.call("nearest", *rows.z.shape, lengths.size, rows.z, columns, lengths, closest, gap)
        return closest, gap, 2 * TIE

    return search


def _in_single(centres: Array, half: Array) -> _Search:
    """The same by matrix products in single precision."""
    # Columns that no row is near fill it up: minima of whole vectors are found faster.
    single = np.zeros((centres.shape[1] + 1, -(-len(half) // _VECTOR) * _VECTOR), np.float32)
    single[-1] = np.inf
    single[:, : len(half)] = np.vstack([-centres.T, half])

    n_scores = single.shape[1]
    step = max(_SCORES // n_scores, 64)
    offsets = n_scores * np.arange(step)

    def search(rows: Rows) -> tuple[IntArray, Array, float]:
        closest, gap = np.empty(len(rows.z), np.intp), np.empty(len(rows.z))
        for start in range(0, len(rows.z), step):
            part = slice(start, start + step)
            # Half the squared distance, less what is the same for all centres, as one product.
            scores = rows.single[part] @ single
            flat, first = scores.reshape(-1), offsets[: len(scores)]
            closest[part] = scores.argmin(1)
            place = first + closest[part]
            best = flat[place]
            flat[place] = np.inf
            # NumPy finds where a minimum is faster than what it is.
            gap[part] = flat[first + scores.argmin(1)] - best
        return closest, gap, _SINGLE

    return search


def learn_centres(
    z: Array, weights: Array, n_centres: int, rng: np.random.Generator, n_steps: int = 30
) -> Array:
    """Centres (G, q) by k-means++ and Lloyd's steps."""
    return move_centres(z, weights, _seeded(z, weights, n_centres, rng), n_steps)


def move_centres(z: Array, weights: Array, centres: Array, n_steps: int) -> Array:
    """Centres (G, q) after so many of Lloyd's steps, or fewer if the groups settle before."""
    n_centres, numbers, weighted = len(centres), np.arange(len(z)), weights[:, None] * z
    labels = None
    parts = [Rows.of(z[start : start + _CHUNK]) for start in range(0, len(z), _CHUNK)]
    for _ in range(n_steps):
        new = _labels(parts, centres)
        if labels is not None and np.array_equal(new, labels):
            break
        labels = new
        mass = np.bincount(labels, weights, n_centres)[:, None]
        total = Ones.at(labels, numbers, (n_centres, len(z))) @ weighted
        # A centre that lost all its rows stays where it is.
        centres = np.where(mass > 0, total / np.maximum(mass, 1e-300), centres)
    return centres


def _labels(parts: list[Rows], centres: Array) -> IntArray:
    """The nearest centre of each row of all parts."""
    near = finder(centres)
    return np.concatenate(in_parts(lambda number: near(parts[number]), range(len(parts))))


def _seeded(z: Array, weights: Array, n_centres: int, rng: np.random.Generator) -> Array:
    """k-means++: each new centre is drawn by its squared distance to those before it."""
    chosen = [int(rng.choice(len(z), p=weights / weights.sum()))]
    gap, size = np.full(len(z), np.inf), np.einsum("ij,ij->i", z, z)
    for _ in range(n_centres - 1):
        gap = np.minimum(gap, squared_distances(z, size, chosen[-1:])[0])
        total = np.cumsum(weights * gap)
        if total[-1] <= 0:
            break
        chosen.append(int(np.searchsorted(total, rng.random() * total[-1], side="right")))
    return z[chosen]


def squared_distances(z: Array, size: Array, chosen: list[int]) -> Array:
    """From the chosen rows to all, of these squared lengths; 0 where only rounding is left."""
    sizes = size + size[chosen][:, None]
    away: Array = sizes - 2 * (z[chosen] @ z.T)
    away[away <= TIE * sizes] = 0.0
    return away
