"""Weighted k-means: compact cells of covariate space.

Our own code rather than a library's: the result must be the same bit for bit whatever the number
of threads, and it must not depend on the units, the order or the coding of the columns. Only
distances between rows enter, and a tie of two centres goes to the one that was drawn first: to
leave it to rounding would give other groups in other units.
"""

import numpy as np

from tvdbayes._array import in_parts
from tvdbayes._typing import Array, IntArray

__all__ = ["learn_centres", "nearest"]

_CHUNK = 4096

_SINGLE = 2.0**-18
"""Scores in single precision are wrong by less than this share of the squared lengths."""

_TIE = 1e-12
"""The same for what counts as a tie in double precision."""


def nearest(z: Array, centres: Array) -> IntArray:
    """The nearest centre of each row; of several that are equally near the first.

    Found in fixed chunks and single precision; double precision decides where that is too coarse.
    It is faster the nearer the bulk of the rows is to the origin.
    """
    half = 0.5 * (centres * centres).sum(1)
    # Half the squared distance, less what is the same for all centres, as one matrix product.
    single = np.vstack([-centres.T, half]).astype(np.float32)

    def part(start: int) -> IntArray:
        rows = z[start : start + _CHUNK]
        numbers = np.arange(len(rows))
        padded = np.ones((len(rows), z.shape[1] + 1), np.float32)
        padded[:, :-1] = rows
        scores = padded @ single
        closest: IntArray = scores.argmin(1)
        best = scores[numbers, closest]
        scores[numbers, closest] = np.inf
        size = (rows * rows).sum(1) + 2 * half[closest]
        close = np.flatnonzero(scores.min(1) - best <= _SINGLE * size)
        if close.size:
            exact = half - rows[close] @ centres.T
            tied = exact.min(1) + _TIE * size[close]
            closest[close] = (exact <= tied[:, None]).argmax(1)
        return closest

    return np.concatenate(in_parts(part, range(0, len(z), _CHUNK)))


def learn_centres(
    z: Array, weights: Array, n_centres: int, rng: np.random.Generator, n_steps: int = 30
) -> Array:
    """Centres (G, q) by k-means++ and Lloyd's steps."""
    centres = _seeded(z, weights, n_centres, rng)
    n_centres = len(centres)
    labels = None
    for _ in range(n_steps):
        new = nearest(z, centres)
        if labels is not None and np.array_equal(new, labels):
            break
        labels = new
        mass = np.bincount(labels, weights, n_centres)
        for j, column in enumerate(z.T):
            total = np.bincount(labels, weights * column, n_centres)
            # A centre that lost all its rows stays where it is.
            centres[:, j] = np.where(mass > 0, total / np.maximum(mass, 1e-300), centres[:, j])
    return centres


def _seeded(z: Array, weights: Array, n_centres: int, rng: np.random.Generator) -> Array:
    """k-means++: each new centre is drawn by its squared distance to those before it."""
    chosen = [int(rng.choice(len(z), p=weights / weights.sum()))]
    gap = np.full(len(z), np.inf)
    for _ in range(n_centres - 1):
        away = z - z[chosen[-1]]
        gap = np.minimum(gap, np.einsum("ij,ij->i", away, away))
        total = np.cumsum(weights * gap)
        if total[-1] <= 0:
            break
        chosen.append(int(np.searchsorted(total, rng.random() * total[-1], side="right")))
    return z[chosen].copy()
