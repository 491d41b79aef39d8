"""The predictive law of the rows of a table: its probabilities, its sums, its cumulated masses.

A family gives probabilities only, and the predictive law is their mean over the draws, so sums are
taken over outcomes: one by one where there are few, and in long stretches at 12 Gauss nodes through
which a polynomial stands for the law. A stretch is as long as the law allows: the last coefficients
of the polynomial must vanish. The sums end where the rows have at most 1e-10 of their mass left.
"""

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.polynomial.legendre import legder, legint, legvander

from tvdbayes._typing import Array, IntArray
from tvdbayes.data.cells import Cells
from tvdbayes.models.families import AbstractFamily, gauss_sum
from tvdbayes.results.prediction import stretches
from tvdbayes.sampling.execution import single_threaded
from tvdbayes.sampling.posterior import Posterior

_WORK = 1 << 19
_FEWEST = 200
"""All draws are used up to this many x rows times draws, beyond it no more than it allows, but at
least so many, evenly spaced. Their mean is what the law means then."""

_ELEMENTS, _COUNT_ELEMENTS, _MOST_ROWS = 1 << 18, 1 << 12, 64
"""Rows x draws of a block. Rows of counts share their nodes, so that few of them stand together."""

_SINGLE, _NODES = 24, 12
"""Outcomes that are taken one by one, and nodes of a longer stretch."""

_MOST_SHORT, _MOST_PIECES = 250, 4000
"""Pieces that look for a hump, as far as 4e6, and pieces in all; what lies beyond ran away."""

_REST, _RESOLVED = 1e-10, 1e-9
"""Probability that may be missing at the end, and error of a piece beyond which it is halved."""
_LARGEST = 2**53
"""From here on neighbouring counts are the same floating-point number."""


@dataclass(frozen=True, eq=False)
class Block:
    """Some x rows of a table that predict similar outcomes, with their cells.

    The x rows are `rows` (n,), with predictors `eta` (k, n, B) under the draws and `trials` (n, 1).
    Their cells are `cells` (c,), each of which belongs to one of them, `column` (c,), with its
    outcome `y` (c,). The family can make outcomes from `low` to `top`.
    """

    rows: IntArray
    eta: Array
    trials: Array
    cells: IntArray
    column: IntArray
    y: Array
    low: float
    top: float

    def pmf(self, family: AbstractFamily, y: Array) -> Array:
        """Probabilities of outcomes y (S,), or of nodes of long stretches, (S, n, B)."""
        (_, n, n_draws), size = self.eta.shape, len(y)
        trials, known = np.tile(self.trials, (size, 1)), np.empty(n)
        known[self.column] = self.y
        at = np.repeat(y, n)[:, None]
        can = family.possible(np.ceil(at), trials)
        # A formula need not make sense at an impossible outcome; a known one stands in for it.
        at = np.where(can, at, np.tile(known, size)[:, None])
        eta = np.tile(self.eta, (1, size, 1))
        # An error of 1e-14, as slopes may have, counts as often as there are outcomes.
        whole = (y == np.round(y)).all()
        pmf = family.slopes(at, eta, trials)[0] if whole else family.pmf(at, eta, trials)
        return np.where(can, pmf, 0.0).reshape(size, n, n_draws)

    def log_pmf(self, family: AbstractFamily) -> Array:
        """Logarithm of the predictive probability of each cell, (c,), which may be below 1e-300."""
        value = family.log_pmf(self.y[:, None], self.eta[:, self.column], self.trials[self.column])
        peak = value.max(-1)
        shift = np.where(np.isfinite(peak), peak, 0.0)
        with np.errstate(divide="ignore"):
            log_mean: Array = shift + np.log(np.exp(value - shift[:, None]).mean(-1))
        return log_mean


@dataclass(frozen=True, eq=False)
class Piece:
    """Outcomes from `low` to `high` at nodes y (S,): weighted sums over them are sums over all.

    ``pmf`` (S, n, B) are probabilities under each draw, ``mass`` (S, n) their means; the product of
    ``cumulate`` (S, S) with masses gives their sums from `low` up to each node.
    """

    low: float
    high: float
    y: Array
    weights: Array
    cumulate: Array
    pmf: Array
    mass: Array


@dataclass(frozen=True, eq=False)
class Law:
    """Predictive laws of n rows on common nodes y (S,), from `low` to `high`.

    ``mass`` and ``cdf`` (S, n) are probabilities of, and up to, each node. The outcomes that were
    asked for and their neighbours are nodes themselves, unless there is no mass where they lie.
    """

    low: float
    high: float
    y: Array
    weights: Array
    mass: Array
    cdf: Array

    def up_to(self, y: Array, column: IntArray) -> Array:
        """Probability of at most y in some of the rows."""
        at = np.searchsorted(self.y, y, side="right") - 1
        cdf = np.where(at >= 0, self.cdf[at, column], 0.0)
        # Beyond the last node hardly anything is left, unless a law ran away.
        complete: Array = np.where((y > self.high) & (cdf > 1 - 1e-6), 1.0, cdf)
        return complete

    def ranked(self, y: Array, column: IntArray) -> Array:
        """Ranked probability score: the sum over k of (P(at most k) - 1{y <= k}) ** 2."""
        below, above = (
            np.concatenate([np.zeros((1, part.shape[1])), np.cumsum(part, axis=0)])
            for part in (self.weights[:, None] * side**2 for side in (self.cdf, 1 - self.cdf))
        )
        at = np.searchsorted(self.y, y)
        inside = below[at, column] + above[-1, column] - above[at, column]
        outside = np.maximum(self.low - y, 0.0) + np.maximum(y - 1 - self.high, 0.0)
        score: Array = inside + outside
        return score


def blocks(posterior: Posterior, table: Cells, rows: IntArray | None = None) -> Iterator[Block]:
    """All x rows of a table, or some of them, in blocks of similar predictions."""
    family, point = posterior.model.family, posterior.estimate[None]
    draws = posterior.draws if posterior.n_draws else point
    rows = np.arange(table.n_x) if rows is None else rows
    most = max(_FEWEST, _WORK // len(rows))
    if len(draws) > most:
        draws = draws[np.linspace(0, len(draws) - 1, most).round().astype(np.intp)]
    k, n_outcomes = len(family.predictors), max(len(family.levels), 2)
    if family.counts:
        size = min(_MOST_ROWS, max(1, _COUNT_ELEMENTS // len(draws)))
    else:
        size = max(1, _ELEMENTS // (k * (k + 1) * n_outcomes * len(draws)))
    low, top = support(family, table)
    with single_threaded():
        typical = np.concatenate([eta[0, :, 0] for _, eta in stretches(posterior, table, point)])
        rows = rows[np.lexsort((typical[rows], table.trials[rows]))]
        rank = np.full(table.n_x, len(rows))
        rank[rows] = np.arange(len(rows))
        order = np.argsort(rank[table.x_index], kind="stable")
        column = rank[table.x_index][order]
        for part, eta in stretches(posterior, table, draws, rows):
            for start in range(0, eta.shape[1], size):
                first, here = part.start + start, eta[:, start : start + size]
                mine = rows[first : first + here.shape[1]]
                begin, end = np.searchsorted(column, [first, first + len(mine)])
                cells, trials = order[begin:end], table.trials[mine, None]
                own = column[begin:end] - first, table.y[cells]
                yield Block(mine, here, trials, cells, *own, low, top)


def law_of(family: AbstractFamily, block: Block, kept: Array) -> Law:
    """The predictive laws of a block, with the outcomes `kept` among their nodes."""
    found, cdf, below = [], [], np.zeros(len(block.rows))
    for piece in pieces(family, block, kept):
        found.append(piece)
        cdf.append(below + piece.cumulate @ piece.mass)
        below = below + piece.weights @ piece.mass
    parts = zip(*((piece.y, piece.weights, piece.mass) for piece in found), strict=True)
    y, weights, mass = (np.concatenate(part) for part in parts)
    cumulated = np.clip(np.concatenate(cdf), 0.0, 1.0)
    return Law(found[0].low, found[-1].high, y, weights, mass, cumulated)


def pieces(family: AbstractFamily, block: Block, kept: Array) -> Iterator[Piece]:
    """The support of a block, piece by piece; long pieces stay clear of the outcomes `kept`."""

    def piece(low: float, size: int, rule: _Rule) -> Piece:
        y = low + rule.offsets
        pmf = block.pmf(family, y)
        return Piece(low, low + size - 1, y, rule.weights, rule.cumulate, pmf, pmf.mean(-1))

    low, top = block.low, block.top
    if not family.counts:
        n_levels = int(top - low) + 1
        yield piece(low, n_levels, _one_by_one(n_levels))
        return
    low = _first_likely(family, block)
    # Beyond its trials a row has no outcomes, and spikes are no part of a smooth law: pieces get
    # shorter towards such edges, so that none of them hides what lies there.
    own = block.trials.ravel() if family.needs_trials else np.zeros(0)
    edges = np.unique([*own, *(s - step for s in family.spikes for step in (0, 1)), top])
    stops = np.append(np.unique(kept), np.inf)
    seen = rest = np.zeros(len(block.rows))
    length, n_pieces = float(_SINGLE), 0
    while low <= top and n_pieces < _MOST_PIECES and (seen < 1 - _REST).any():
        stop = stops[np.searchsorted(stops, low - 1)]
        room = min(length, (edges[np.searchsorted(edges, low)] - low + 1) / 2, stop - 1 - low)
        if n_pieces < _MOST_SHORT and (2 * (1 - seen) > rest).any():
            # The hump of a law may lie ahead: no Poisson law fits between nodes so close.
            room = min(room, 16 * np.sqrt(max(low, 1.0)))
        if room <= _SINGLE:
            size = _SINGLE if length <= _SINGLE else int(min(_SINGLE, stop + 2 - low))
            new, length = piece(low, size, _one_by_one(size)), max(length, 2.0 * _SINGLE)
        else:
            rule = _at_nodes(int(room))
            new = piece(low, int(room), rule)
            off = float(np.abs(rule.excess @ new.mass).max())
            if off > _RESOLVED:
                length = room / 2
                continue
            length = 2 * room if off < 1e-4 * _RESOLVED and room == length else length
        yield new
        low, more, n_pieces = new.high + 1, new.weights @ new.mass, n_pieces + 1
        seen = seen + more
        # The mass after the first outcomes; a zero may have a probability of its own.
        rest = rest if rest.any() else 1 - seen
        if seen.min() > 1 - 1e-6 and more.max() < 1e-15:
            # Probabilities that do not quite add up to 1, by rounding or by a user's formula.
            return


def support(family: AbstractFamily, table: Cells) -> tuple[float, float]:
    """The smallest and the largest outcome of all rows of a table; 2**53 stands for no largest."""
    if not family.counts:
        return 0.0, max(len(family.levels), 2) - 1.0
    cell = int(np.argmax(table.trials[table.x_index]))
    y, trials = int(table.y[cell]), table.trials[table.x_index[cell]]

    def possible(outcome: int) -> bool:
        return bool(family.possible(np.array(float(outcome)), trials))

    # Possible outcomes have no gaps.
    below, above = range(-_LARGEST, y + 1), range(y + 1, _LARGEST + 1)
    low = below[bisect_left(below, True, key=possible)]
    return float(low), float(y + bisect_left(above, True, key=lambda k: not possible(k)))


def _first_likely(family: AbstractFamily, block: Block) -> float:
    """Where the laws of a block of large counts begin to have mass."""
    if family.spikes or block.y.min() < block.low + 1000:
        return block.low
    ends = [int(block.eta[0].argmin()), int(block.eta[0].argmax())]
    row, draw = np.unravel_index(ends, block.eta.shape[1:])
    least = float(family.mean(block.eta[:, row, draw][..., None], block.trials[row]).min())
    # Up to the smallest mean all laws rise.
    outcomes = range(int(block.low), int(np.clip(least, block.low, _LARGEST)))
    begun = bisect_left(
        outcomes, True, key=lambda k: bool(block.pmf(family, np.array([float(k)])).max() > 1e-30)
    )
    return block.low + begun


@dataclass(frozen=True, eq=False)
class _Rule:
    """How outcomes 0, 1, ..., size - 1 are summed.

    ``excess`` times masses bounds what a polynomial through the nodes leaves out of their sum;
    ``cumulate`` times masses are the sums up to each node.
    """

    offsets: Array
    weights: Array
    excess: Array
    cumulate: Array


@lru_cache(maxsize=64)
def _one_by_one(size: int) -> _Rule:
    return _Rule(np.arange(float(size)), np.ones(size), np.zeros((1, size)), np.tri(size))


@lru_cache(maxsize=4096)
def _at_nodes(size: int) -> _Rule:
    offsets, weights = gauss_sum(0.0, size - 1.0, _NODES)
    half, each = size / 2, np.eye(_NODES)
    place = (offsets + 0.5) / half - 1
    to_series = np.asarray(np.linalg.inv(legvander(place, _NODES - 1)), float)

    def sums(at: Array) -> Array:
        """Sums of Legendre polynomials over outcomes up to a place: Euler and Maclaurin."""
        return (
            legvander(at, _NODES) @ legint(each) * half
            - legvander(at, _NODES - 2) @ legder(each) / (24 * half)
            + legvander(at, _NODES - 4) @ legder(each, 3) * (7 / 5760 / half**3)
            - legvander(at, _NODES - 6) @ legder(each, 5) * (31 / 967680 / half**5)
        )

    cumulate = (sums(place + 0.5 / half) - sums(np.array([-1.0]))) @ to_series
    return _Rule(offsets, weights, size * to_series[-2:], cumulate)
