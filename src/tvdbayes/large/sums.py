"""The sums over all rows: each is a record that is sent to the chunks."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

import numpy as np

from tvdbayes._typing import Array, IntArray
from tvdbayes.large.chunks import Batch, Chunk, Rules, batches_of
from tvdbayes.large.shares import Shares
from tvdbayes.large.weights import RowWeights
from tvdbayes.objective import Penalty, RowProblem
from tvdbayes.objective.divergences import KLD
from tvdbayes.trimming import tail_levels, tail_probability
from tvdbayes.trimming.weighted import SumOfRows

Sums = tuple[Array, ...]


@dataclass(frozen=True, eq=False)
class AbstractSum(ABC):
    """Sums over rows, for the draws with these numbers; weights are not normalised.

    Rows count with the `shares` of them that are kept, all of them unless given.
    """

    draws: IntArray
    shares: Shares | None = field(default=None, kw_only=True)

    def over(self, chunk: Chunk, rules: Rules) -> Sums:
        """The sums over a chunk, batch by batch in their order."""
        total: Sums | None = None
        for batch, weights in self._batches(chunk, rules):
            found = self._of(batch, weights)
            total = found if total is None else self.joined([total, found])
        assert total is not None
        return total

    def _batches(self, chunk: Chunk, rules: Rules) -> Iterator[tuple[Batch, Array]]:
        weights = RowWeights(rules.seed, chunk.first, self.draws)
        for batch in batches_of(chunk, rules, self.draws.size):
            cells = batch.layout.cells
            counts = None if chunk.counts is None else cells.counts
            of_rows = weights.take(cells.n_x, counts)
            if self.shares is not None:
                of_rows *= self.shares.of(batch)[:, None]
            yield batch, of_rows

    def joined(self, parts: Sequence[Sums]) -> Sums:
        """The sums of several parts, in their order."""
        return reduce(_added, parts)

    @abstractmethod
    def _of(self, batch: Batch, weights: Array) -> Sums:
        """The sums over a batch whose rows have the weights (n, B)."""


def _added(left: Sums, right: Sums) -> Sums:
    return tuple(a + b for a, b in zip(left, right, strict=True))


@dataclass(frozen=True, eq=False)
class Weights(AbstractSum):
    """The weight of all rows, (B,)."""

    def _of(self, batch: Batch, weights: Array) -> Sums:
        return (weights.sum(0),)


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
        # Masses of all parameters of a predictor are added up together.
        slopes = [
            batch.total(mass * of_eta * pairs.x_of_pair.spread(design))
            for of_eta, design in zip(first, pairs.bound.designs, strict=True)
        ]
        return batch.total(mass * pmf), np.concatenate(slopes, axis=1)


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


@dataclass(frozen=True, eq=False)
class OfScores(AbstractSum):
    """A sum over rows of what `trimming` makes of scores, see `widened`; for no weights.

    ``of(layout, kept, theta, *given)`` is the sum over a layout whose rows are kept with shares.
    """

    theta: Array
    of: SumOfRows
    given: tuple[Any, ...] = ()

    def _of(self, batch: Batch, weights: Array) -> Sums:
        # Their counts are those of the layout.
        kept = np.ones(batch.layout.cells.n_x) if self.shares is None else self.shares.of(batch)
        found: Sums = self.of(batch.layout, kept, self.theta, *self.given)
        return found


@dataclass(frozen=True, eq=False)
class Tails(AbstractSum):
    """Rows whose tail probability at theta (d,) is at or below each level."""

    theta: Array

    def _of(self, batch: Batch, weights: Array) -> Sums:
        tail = tail_probability(batch.layout, self.theta[:, None])[:, 0]
        levels = tail_levels(batch.layout.family)
        return (np.array([weights[tail <= level, 0].sum() for level in levels]),)


@dataclass(frozen=True, eq=False)
class Smallest(AbstractSum):
    """The smallest tail probabilities at theta (d,), ascending, and the weights of their rows: as
    many as weigh `wanted`, and one more.
    """

    theta: Array
    wanted: float

    def _of(self, batch: Batch, weights: Array) -> Sums:
        tail = tail_probability(batch.layout, self.theta[:, None])[:, 0]
        return self._cut(tail, weights[:, 0])

    def joined(self, parts: Sequence[Sums]) -> Sums:
        """The smallest of several parts."""
        tail, weights = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
        return self._cut(tail, weights)

    def _cut(self, tail: Array, weights: Array) -> Sums:
        order = np.argsort(tail, kind="stable")
        n = int(np.searchsorted(np.cumsum(weights[order]), self.wanted)) + 1
        return tail[order[:n]], weights[order[:n]]


def _by_rows(batch: Batch, weights: Array) -> RowProblem:
    """The problem of these rows without a penalty, which belongs to all rows together."""
    return RowProblem(batch.layout, KLD(), Penalty.none(batch.layout.bound.n_params), weights)
