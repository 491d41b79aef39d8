"""The sums over all rows: each is a record that is sent to the chunks."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tvdbayes._typing import Array, IntArray
from tvdbayes.large.cluster.chunks import Batch, Chunk, Rules, batches_of
from tvdbayes.large.cluster.weights import RowWeights
from tvdbayes.objective import Penalty, RowProblem
from tvdbayes.objective.divergences import KLD

Sums = tuple[Array, ...]


@dataclass(frozen=True, eq=False)
class AbstractSum(ABC):
    """Sums over rows, for the draws with these numbers; weights are not normalised."""

    draws: IntArray

    def over(self, chunk: Chunk, rules: Rules) -> Sums:
        """The sums over a chunk, batch by batch in their order."""
        total: Sums | None = None
        for batch, weights in self._batches(chunk, rules):
            found = self._of(batch, weights)
            total = found if total is None else added(total, found)
        assert total is not None
        return total

    def _batches(self, chunk: Chunk, rules: Rules) -> Iterator[tuple[Batch, Array]]:
        weights = RowWeights(rules.seed, chunk.number, self.draws)
        for batch in batches_of(chunk, rules, self.draws.size):
            cells = batch.layout.cells
            counts = None if chunk.counts is None else cells.counts
            yield batch, weights.take(cells.n_x, counts)

    @abstractmethod
    def _of(self, batch: Batch, weights: Array) -> Sums:
        """The sums over a batch whose rows have the weights (n, B)."""


def added(left: Sums, right: Sums) -> Sums:
    """Entry by entry."""
    return tuple(a + b for a, b in zip(left, right, strict=True))


@dataclass(frozen=True, eq=False)
class DataMasses(AbstractSum):
    """Mass of the data in each unit and of the group of each unit, (U, B); of all rows, (B,)."""

    def _of(self, batch: Batch, weights: Array) -> Sums:
        folded = batch.rules.bins is None
        whole = batch.total(weights) if folded else np.zeros((0, weights.shape[1]))
        return batch.data(weights), whole, weights.sum(0)


@dataclass(frozen=True, eq=False)
class ModelMasses(AbstractSum):
    """Mass that the model at theta (d, B) gives to each unit, (U, B)."""

    theta: Array

    def _of(self, batch: Batch, weights: Array) -> Sums:
        pmf = batch.pairs.pmf(self.theta)
        pmf *= batch.mass(weights)
        return (batch.total(pmf),)


@dataclass(frozen=True, eq=False)
class Gradient(AbstractSum):
    """Gradient (d, B) at theta of a sum over units whose slopes in their masses are (U, B)."""

    theta: Array
    slope: Array

    def _of(self, batch: Batch, weights: Array) -> Sums:
        _, first = batch.pairs.slopes(self.theta)
        pull = batch.spread(self.slope)
        pull *= batch.mass(weights)
        first *= pull
        return (batch.pairs.pullback_slope(first),)


@dataclass(frozen=True, eq=False)
class Slopes(AbstractSum):
    """Mass of each unit (U, 1) at theta (d, 1), and its derivatives (U, d); for one draw."""

    theta: Array

    def _of(self, batch: Batch, weights: Array) -> Sums:
        pairs, mass = batch.pairs, batch.mass(weights)
        pmf, first = pairs.slopes(self.theta)
        design = pairs.x_of_pair.spread(pairs.bound.designs[0])
        return batch.total(mass * pmf), batch.total(mass * first[0] * design)


@dataclass(frozen=True, eq=False)
class Likelihood(AbstractSum):
    """Minus the log-likelihood (B,) at theta (d, B), its gradient and second derivative."""

    theta: Array

    def _of(self, batch: Batch, weights: Array) -> Sums:
        view = _by_rows(batch, weights).at(self.theta).expansion
        return view.merit, view.grad, view.hess


@dataclass(frozen=True, eq=False)
class Loss(AbstractSum):
    """Minus the log-likelihood (B,) at theta (d, B), alone."""

    theta: Array

    def _of(self, batch: Batch, weights: Array) -> Sums:
        return (_by_rows(batch, weights).value(self.theta),)


def _by_rows(batch: Batch, weights: Array) -> RowProblem:
    """The problem of these rows without a penalty, which belongs to all rows together."""
    return RowProblem(batch.layout, KLD(), Penalty.none(batch.layout.bound.n_params), weights)
