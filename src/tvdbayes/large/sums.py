"""The sums over all rows: what is sent to the chunks.

Each function below is a sum over the rows of a batch, which have the weights (n, B); what follows
the weights is given to all batches.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np

from tvdbayes._typing import Array, IntArray
from tvdbayes.large.chunks import Chunk, Rules, batches_of
from tvdbayes.large.shares import Shares
from tvdbayes.large.weights import RowWeights
from tvdbayes.objective import Batch, Layout, Penalty, RowProblem
from tvdbayes.objective.divergences import KLD
from tvdbayes.trimming import tail_levels, tail_probability
from tvdbayes.trimming.weighted import SumOfRows

Sums = tuple[Array, ...]
Rows = Batch[Layout]


def added(parts: Sequence[Sums]) -> Sums:
    """The sums of several parts, in their order."""
    return reduce(lambda left, right: tuple(map(np.add, left, right)), parts)


@dataclass(frozen=True, eq=False)
class Sum:
    """``work(batch, weights, *given)``, summed over all batches, for the draws with these numbers.

    Weights are not normalised. Rows count with the ``shares`` of them that are kept, all of them
    unless given; ``joined`` makes one result of those of several parts.
    """

    work: Callable[..., Sums]
    draws: IntArray
    given: tuple[Any, ...] = ()
    shares: Shares | None = None
    joined: Callable[[Sequence[Sums]], Sums] = added

    def over(self, chunk: Chunk, rules: Rules) -> Sums:
        """The sums over a chunk, batch by batch in their order."""
        found = (self.work(*batch, *self.given) for batch in self._batches(chunk, rules))
        return reduce(lambda total, part: self.joined([total, part]), found)

    def _batches(self, chunk: Chunk, rules: Rules) -> Iterator[tuple[Rows, Array]]:
        weights = RowWeights(rules.seed, chunk.first, self.draws)
        for batch in batches_of(chunk, rules, self.draws.size):
            cells = batch.rows.cells
            counts = None if chunk.counts is None else cells.counts
            of_rows = weights.take(cells.n_x, counts)
            if self.shares is not None:
                of_rows *= self.shares.of(batch)[:, None]
            yield batch, of_rows


def weight(_: Rows, weights: Array) -> Sums:
    """The weight of all rows, (B,)."""
    return (weights.sum(0),)


def data_masses(batch: Rows, weights: Array) -> Sums:
    """Mass of the data in each unit and of the group of each unit, (U, B); of all rows, (B,)."""
    folded = batch.compared.bins is None
    whole = batch.total(weights) if folded else np.zeros((0, weights.shape[1]))
    return batch.data(weights), whole, weights.sum(0)


def model_masses(batch: Rows, weights: Array, theta: Array) -> Sums:
    """Mass that the model at theta (d, B) gives to each unit, (U, B)."""
    return (batch.total(batch.pairs.pmf(theta) * batch.mass(weights)),)


def gradient(batch: Rows, weights: Array, theta: Array, slope: Array) -> Sums:
    """Gradient (d, B) at theta of a sum over units whose slopes in their masses are (U, B)."""
    _, first = batch.pairs.slopes(theta)
    first *= batch.spread(slope) * batch.mass(weights)
    return (batch.pairs.pullback_slope(first),)


def slopes(batch: Rows, weights: Array, theta: Array) -> Sums:
    """Mass of each unit (U, 1) at theta (d, 1), and its derivatives (U, d); for one draw."""
    pairs, mass = batch.pairs, batch.mass(weights)
    pmf, first = pairs.slopes(theta)
    # Masses of all parameters of a predictor are added up together.
    found = [
        batch.total(mass * of_eta * pairs.x_of_pair.spread(design))
        for of_eta, design in zip(first, pairs.bound.designs, strict=True)
    ]
    return batch.total(mass * pmf), np.concatenate(found, axis=1)


def likelihood(batch: Rows, weights: Array, theta: Array) -> Sums:
    """Minus the log-likelihood (B,) at theta (d, B), its gradient and second derivative."""
    view = _by_rows(batch, weights).at(theta).expansion
    return view.merit, view.grad, view.hess


def loss(batch: Rows, weights: Array, theta: Array) -> Sums:
    """Minus the log-likelihood (B,) at theta (d, B), alone."""
    return (_by_rows(batch, weights).value(theta),)


def of_scores(batch: Rows, weights: Array, of: SumOfRows, theta: Array, *given: Array) -> Sums:
    """A sum over rows of what `trimming` makes of scores, see `widening_by`; for no draw."""
    counts = batch.rows.cells.counts
    kept = np.divide(weights[:, 0], counts, out=np.zeros(len(counts)), where=counts > 0)
    found: Sums = of(batch.rows, kept, theta, *given)
    return found


def tails(batch: Rows, weights: Array, theta: Array) -> Sums:
    """Rows whose tail probability at theta (d,) is at or below each level."""
    tail = tail_probability(batch.rows, theta[:, None])[:, 0]
    levels = tail_levels(batch.rows.family)
    return (np.array([weights[tail <= level, 0].sum() for level in levels]),)


@dataclass(frozen=True)
class Smallest:
    """The smallest tail probabilities at theta (d,), ascending, and the weights of their rows: as
    many as weigh ``wanted``, and one more.
    """

    wanted: float

    def of(self, batch: Rows, weights: Array, theta: Array) -> Sums:
        """Those of a batch."""
        tail = tail_probability(batch.rows, theta[:, None])[:, 0]
        return self._cut(tail, weights[:, 0])

    def joined(self, parts: Sequence[Sums]) -> Sums:
        """The smallest of several parts."""
        return self._cut(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True)))

    def _cut(self, tail: Array, weights: Array) -> Sums:
        order = np.argsort(tail, kind="stable")
        n = int(np.searchsorted(np.cumsum(weights[order]), self.wanted)) + 1
        return tail[order[:n]], weights[order[:n]]


def _by_rows(batch: Rows, weights: Array) -> RowProblem:
    """The problem of these rows without a penalty, which belongs to all rows together."""
    return RowProblem(batch.rows, KLD(), Penalty.none(batch.rows.bound.n_params), weights)
