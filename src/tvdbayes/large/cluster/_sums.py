"""What is added up over all rows: each sum is a record that is sent to the chunks."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tvdbayes._typing import Array, IntArray
from tvdbayes.large.cluster._chunks import Chunk, Piece, Rules, pieces_of
from tvdbayes.large.cluster._weights import RowWeights
from tvdbayes.objective import Penalty, RowProblem
from tvdbayes.objective.divergences import KLD

__all__ = ["AbstractSum", "Given", "Likelihood", "Losses", "Masses", "Pulls", "Slopes", "Sums"]

Sums = tuple[Array, ...]


@dataclass(frozen=True, eq=False)
class AbstractSum(ABC):
    """Sums over rows, for the draws with these numbers; weights are not normalised."""

    draws: IntArray

    def over(self, chunk: Chunk, rules: Rules) -> Sums:
        """The sums over a chunk, piece by piece in their order."""
        total: Sums | None = None
        for piece, weights in self._pieces(chunk, rules):
            found = self._of(piece, weights)
            total = found if total is None else added(total, found)
        assert total is not None
        return total

    def _pieces(self, chunk: Chunk, rules: Rules) -> Iterator[tuple[Piece, Array]]:
        weights = RowWeights(rules.seed, chunk.number, self.draws)
        for piece in pieces_of(chunk, rules, self.draws.size):
            cells = piece.layout.cells
            counts = None if chunk.counts is None else cells.counts
            yield piece, weights.take(cells.n_x, counts)

    @abstractmethod
    def _of(self, piece: Piece, weights: Array) -> Sums:
        """The sums over a piece whose rows have the weights (n, B)."""


def added(left: Sums, right: Sums) -> Sums:
    """Entry by entry."""
    return tuple(a + b for a, b in zip(left, right, strict=True))


@dataclass(frozen=True, eq=False)
class Given(AbstractSum):
    """Mass of the data in each unit and of the group of each unit, (U, B); of all rows, (B,)."""

    def _of(self, piece: Piece, weights: Array) -> Sums:
        folded = piece.rules.bins is None
        whole = piece.total(weights) if folded else np.zeros((0, weights.shape[1]))
        return piece.data(weights), whole, weights.sum(0)


@dataclass(frozen=True, eq=False)
class Masses(AbstractSum):
    """Mass that the model at theta (d, B) gives to each unit, (U, B)."""

    theta: Array

    def _of(self, piece: Piece, weights: Array) -> Sums:
        pmf = piece.pairs.pmf(self.theta)
        pmf *= piece.mass(weights)
        return (piece.total(pmf),)


@dataclass(frozen=True, eq=False)
class Pulls(AbstractSum):
    """Gradient (d, B) at theta of a sum over units whose slopes in their masses are (U, B)."""

    theta: Array
    slope: Array

    def _of(self, piece: Piece, weights: Array) -> Sums:
        _, first = piece.pairs.slopes(self.theta)
        pull = piece.spread(self.slope)
        pull *= piece.mass(weights)
        first *= pull
        return (piece.pairs.pullback_slope(first),)


@dataclass(frozen=True, eq=False)
class Slopes(AbstractSum):
    """Mass of each unit (U, 1) at theta (d, 1), and its derivatives (U, d); for one draw."""

    theta: Array

    def _of(self, piece: Piece, weights: Array) -> Sums:
        pairs, mass = piece.pairs, piece.mass(weights)
        pmf, first = pairs.slopes(self.theta)
        design = pairs.x_of_pair.spread(pairs.bound.designs[0])
        return piece.total(mass * pmf), piece.total(mass * first[0] * design)


@dataclass(frozen=True, eq=False)
class Likelihood(AbstractSum):
    """Minus the log-likelihood (B,) at theta (d, B), its gradient and second derivative."""

    theta: Array

    def _of(self, piece: Piece, weights: Array) -> Sums:
        view = _by_rows(piece, weights).at(self.theta).expansion
        return view.merit, view.grad, view.hess


@dataclass(frozen=True, eq=False)
class Losses(AbstractSum):
    """Minus the log-likelihood (B,) at theta (d, B), alone."""

    theta: Array

    def _of(self, piece: Piece, weights: Array) -> Sums:
        return (_by_rows(piece, weights).value(self.theta),)


def _by_rows(piece: Piece, weights: Array) -> RowProblem:
    """The problem of these rows without a penalty, which belongs to all rows together."""
    return RowProblem(piece.layout, KLD(), Penalty.none(piece.layout.bound.n_params), weights)
