"""Weighted k-means: compact cells of covariate space.

Our own thirty lines rather than a library's: the result must be the same bit for bit whatever the
number of threads.
"""

import numpy as np

from tvdbayes._array import in_parts
from tvdbayes._typing import Array, IntArray

__all__ = ["learn_centres", "nearest"]

_CHUNK = 4096


def nearest(z: Array, centres: Array) -> IntArray:
    """The nearest centre of each row, in fixed chunks and single precision."""
    offsets = (0.5 * (centres * centres).sum(1)).astype(np.float32)
    centres_t = centres.T.astype(np.float32)

    def part(start: int) -> IntArray:
        rows = z[start : start + _CHUNK].astype(np.float32)
        closest: IntArray = (offsets - rows @ centres_t).argmin(1)
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
