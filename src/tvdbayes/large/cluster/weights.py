"""Random weights of rows, computed again whenever they are needed and never stored.

A weight depends only on the seed, the block of eight draws, the number of the chunk, and the place
of the row in it, so a chunk that is lost and read again gets the same weights.
"""

from dataclasses import dataclass

import numpy as np

from tvdbayes._typing import Array, IntArray
from tvdbayes.sampling.weights import Stream

UNWEIGHTED = -1
"""The number of the draw that leaves every row as it is."""

_BLOCK = 8
"""Draws that share a generator."""
_AT_ONCE = 2048
"""Rows whose weights are made at a time, so that they are still in the cache when copied."""


class RowWeights:
    """The weights of one chunk, for some draws, handed out from the first row on.

    They are standard exponentials (the Bayesian bootstrap), in single precision: the logarithm of
    seven digits costs half of what numpy's exponentials do. Rows that count several times have
    Gamma(count).
    """

    def __init__(self, seed: int, chunk: int, draws: IntArray) -> None:
        self._draws = draws
        self._generators = [
            (
                np.random.Generator(
                    np.random.SFC64(
                        np.random.SeedSequence(seed, spawn_key=(Stream.ROWS, int(block), chunk))
                    )
                ),
                _Columns.of(draws, int(block)),
            )
            for block in np.unique(draws[draws >= 0] // _BLOCK)
        ]

    def take(self, n: int, counts: Array | None) -> Array:
        """Weights (n, B) of the next n rows, which count so often."""
        weights = np.empty((n, self._draws.size))
        plain = self._draws == UNWEIGHTED
        if plain.any():
            weights[:, plain] = 1.0 if counts is None else counts[:, None]
        # Few rows at a time: what is made for them is still in the cache when it is copied.
        for start in range(0, n, _AT_ONCE):
            rows = weights[start : start + _AT_ONCE]
            for rng, columns in self._generators:
                if counts is None:
                    made = _exponentials(rng, len(rows))
                else:
                    made = _gammas(rng, counts[start : start + _AT_ONCE])
                rows[:, columns.into] = made[:, columns.of_block]
        return weights


@dataclass(frozen=True, eq=False)
class _Columns:
    """Where the draws of a block go, and which of its eight they are; slices where they can be."""

    into: slice | IntArray
    of_block: slice | IntArray

    @classmethod
    def of(cls, draws: IntArray, block: int) -> "_Columns":
        into = np.flatnonzero(draws // _BLOCK == block)
        of_block = draws[into] % _BLOCK
        first, last = into[0], into[-1] + 1
        if np.array_equal(into, np.arange(first, last)) and (np.diff(of_block) == 1).all():
            return cls(slice(first, last), slice(of_block[0], of_block[-1] + 1))
        return cls(into, of_block)


def _exponentials(rng: np.random.Generator, n: int) -> Array:
    uniform = rng.random((n, _BLOCK), np.float32)
    # 1 - u is never 0, so that no weight is infinite.
    np.subtract(1.0, uniform, out=uniform)
    np.log(uniform, out=uniform)
    negative: Array = np.negative(uniform, out=uniform)
    return negative


def _gammas(rng: np.random.Generator, counts: Array) -> Array:
    return rng.standard_gamma(counts[:, None], (counts.size, _BLOCK))
