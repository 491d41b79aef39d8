"""Random weights of rows, computed again whenever they are needed and never stored.

A weight depends on the seed, the draw, the number of the row and for how many rows it stands
(``weights=``) alone, so that it is the same however rows are cut into chunks. So each row takes the
same number of random numbers, whatever becomes of them.

References
----------
Marsaglia, G. and Tsang, W. W. (2000). A simple method for generating gamma variables. ACM
Transactions on Mathematical Software 26, 363-372.
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import gammaincinv

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
_FOR_GAMMA = 5
"""Random numbers that each weight of a row that stands for several takes."""


class RowWeights:
    """The weights of one chunk, for some draws, handed out from its first row on.

    They are standard exponentials (the Bayesian bootstrap), in single precision: the logarithm of
    seven digits costs half of what numpy's exponentials do. Rows that stand for several have
    Gamma(count), from a second stream of random numbers.
    """

    def __init__(self, seed: int, first: int, draws: IntArray) -> None:
        self._seed, self._draws, self._row = seed, draws, first
        blocks = [int(block) for block in np.unique(draws[draws >= 0] // _BLOCK)]
        self._columns = [(block, _Columns.of(draws, block)) for block in blocks]
        self._generators: list[tuple[np.random.Generator, np.random.Generator]] = []

    def take(self, n: int, counts: Array | None) -> Array:
        """Weights (n, B) of the next n rows, which count so often: in all calls, or in none."""
        weights = np.empty((n, self._draws.size))
        plain = self._draws == UNWEIGHTED
        if plain.any():
            weights[:, plain] = 1.0 if counts is None else counts[:, None]
        at = 0
        while at < n and self._columns:
            inside = self._row % _PIECE
            if not self._generators or not inside:
                self._begin(inside, counts is not None)
            # Few rows at a time: what is made for them is still in the cache when it is copied.
            end = min(n, at + _AT_ONCE, at + _PIECE - inside)
            rows = weights[at:end]
            for (ones, more), (_, columns) in zip(self._generators, self._columns, strict=True):
                made = _exponentials(ones, len(rows))
                if counts is not None:
                    count = counts[at:end, None]
                    made = np.where(count == 1, made, _gammas(more, count))
                rows[:, columns.into] = made[:, columns.of_block]
            self._row += end - at
            at = end
        return weights

    def _begin(self, inside: int, counted: bool) -> None:
        """Generators at the present row, so many rows inside its piece."""
        piece = self._row // _PIECE

        def generator(block: int, stream: int) -> np.random.Generator:
            key = (Stream.ROWS, block, piece, stream)
            return np.random.Generator(
                np.random.SFC64(np.random.SeedSequence(self._seed, spawn_key=key))
            )

        self._generators = [(generator(b, 0), generator(b, 1)) for b, _ in self._columns]
        for ones, more in self._generators:
            ones.random((inside, _BLOCK), np.float32)
            if counted:
                more.random((inside, _FOR_GAMMA, _BLOCK), np.float32)


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
    """Gamma(count) for counts (n, 1), by the method of Marsaglia and Tsang.

    What that rejects (5 % at most) is drawn anew by the inverse of the distribution function, at a
    random number of its own. Below 1 it is Gamma(count + 1) U^(1 / count).
    """
    uniform = np.moveaxis(rng.random((len(counts), _FOR_GAMMA, _BLOCK), np.float32), 1, 0)
    normal = np.sqrt(-2 * np.log1p(-uniform[0])) * np.cos(np.float32(2 * np.pi) * uniform[1])
    square = normal * normal
    shape = counts + (counts < 1)
    root = 1 + normal / np.sqrt(9 * shape - 3)
    made: Array = (shape - 1 / 3) * (root * root * root)
    # Their quick test, which nearly all pass, and the exact one.
    doubt = np.nonzero(uniform[2] <= 0.0331 * square * square)
    d, cube = shape[doubt[0], 0] - 1 / 3, root[doubt] ** 3
    bound = square[doubt] / 2 + d * (1 - cube + np.log(np.maximum(cube, np.finfo(float).tiny)))
    rejected = tuple(at[np.log1p(-uniform[2][doubt]) >= bound] for at in doubt)
    made[rejected] = gammaincinv(shape[rejected[0], 0], uniform[3][rejected].astype(float))
    if (counts < 1).any():
        made *= np.where(counts < 1, (1.0 - uniform[4]) ** (1 / counts), 1.0)
    return made
