"""Random weights of rows, computed again whenever they are needed and never stored.

A weight depends on the seed, the draw and the number of the row alone, so that it is the same
however rows are cut into chunks. Rows that stand for several (``weights=``) have random numbers
that depend on the first row of their chunk, too.
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


_PIECE = 1 << 14
"""Rows whose weights come from one generator, for each block of draws."""


class RowWeights:
    """The weights of one chunk, for some draws, handed out from its first row on.

    They are standard exponentials (the Bayesian bootstrap), in single precision: the logarithm of
    seven digits costs half of what numpy's exponentials do. Rows that count several times have
    Gamma(count).
    """

    def __init__(self, seed: int, first: int, draws: IntArray) -> None:
        self._seed, self._draws, self._first, self._row = seed, draws, first, first
        blocks = [int(block) for block in np.unique(draws[draws >= 0] // _BLOCK)]
        self._columns = [(block, _Columns.of(draws, block)) for block in blocks]
        self._generators: list[np.random.Generator] = []

    def take(self, n: int, counts: Array | None) -> Array:
        """Weights (n, B) of the next n rows, which count so often."""
        weights = np.empty((n, self._draws.size))
        plain = self._draws == UNWEIGHTED
        if plain.any():
            weights[:, plain] = 1.0 if counts is None else counts[:, None]
        at = 0
        while at < n and self._columns:
            inside = self._row % _PIECE
            if counts is not None or not self._generators or not inside:
                self._begin(inside, counts is not None)
            # Few rows at a time: what is made for them is still in the cache when it is copied.
            end = min(n, at + _AT_ONCE, at + _PIECE - inside)
            rows = weights[at:end]
            for rng, (_, columns) in zip(self._generators, self._columns, strict=True):
                made = (
                    _exponentials(rng, len(rows))
                    if counts is None
                    else _gammas(rng, counts[at:end])
                )
                rows[:, columns.into] = made[:, columns.of_block]
            self._row += end - at
            at = end
        return weights

    def _begin(self, inside: int, counted: bool) -> None:
        """Generators at the present row, so many rows inside its piece."""
        if counted and self._generators:
            return
        key = (self._first, 1) if counted else (self._row // _PIECE, 0)
        self._generators = [
            np.random.Generator(
                np.random.SFC64(
                    np.random.SeedSequence(self._seed, spawn_key=(Stream.ROWS, block, *key))
                )
            )
            for block, _ in self._columns
        ]
        if inside and not counted:
            for rng in self._generators:
                rng.random((inside, _BLOCK), np.float32)


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
