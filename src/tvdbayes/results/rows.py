"""Which cells, and so which rows, hold more mass than the model can explain.

The score of a cell is the share of its mass that is too much, ``max(data - model, 0) / data``,
where data and model are the masses of the cell's outcome in its group. Where rows of different x
share a group, the score is a mean over the groups that the cell is in: it names a group and an
outcome, not a proven row.

A trimmed likelihood says itself which rows it does not use: for too many of an outcome in a group,
for too many in the tails, or as a block far out in the covariates that contradicts the others. The
surprise of a cell that is mostly dropped is then the largest of these three. Dropping alone is no
proof: good rows that are extreme are dropped from about half of all clean data sets.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import log_ndtr

from tvdbayes._array import poisson_tail, tiny
from tvdbayes._typing import Array, BoolArray, IntArray
from tvdbayes.objective import Layout
from tvdbayes.sampling.execution import single_threaded
from tvdbayes.sampling.posterior import Posterior
from tvdbayes.trimming import KeptRows, agreement, kept_share, tail_probability

__all__ = [
    "MOSTLY",
    "SCORES",
    "CellScores",
    "Masses",
    "cell_scores",
    "layout_of",
    "masses_of",
    "most_suspicious",
    "scores_by",
    "surprise_of_dropped",
]

MOSTLY = 0.5
"""Score from which a cell counts as mostly unexplained."""

SCORES = ("score", "probability", "signed", "observed", "expected", "surprise", "kept")
"""What is known of each cell, by name, in the order of tables; the last of trimmed fits alone."""

_LEAST = 1e-300
"""Probabilities below this are not told apart."""

_ELEMENTS = 1 << 20
_MOST_ELEMENTS = 1 << 26
"""Cells x draws that are scored at a time, and in all: beyond that draws are thinned."""
_FEWEST = 50


@dataclass(frozen=True, eq=False)
class CellScores:
    """What the draws say about each cell, (m,).

    Parameters
    ----------
    score : (m,)
        Posterior mean of the share of the cell's mass that the model cannot explain, in [0, 1].
    probability : (m,)
        Share of draws in which that is at least a half.
    signed : (m,)
        The share of data or model mass, whichever is larger, that the other lacks: above 0 where
        the data have too much, below 0 where they have too little, in [-1, 1].
    observed, expected : (m,)
        Rows with the cell's outcome in its group (the mean over its groups), and how many the
        minimiser expects.
    surprise : (m,)
        Minus log10 of the probability of so many rows or more under the minimiser, averaged over
        the cell's groups; 0 where less than half of its mass is too much. Of a trimmed fit the
        largest of this, of the same for an outcome so far out (`tail_probability`), and, for rows
        far out in the covariates that were kept out as a block, for a block that disagrees so much;
        0 where less than half of its mass is dropped.
    kept : (m,) or None
        The share of the cell that a trimmed fit uses; None for other fits.
    pooled : bool
        Whether groups hold rows of different x.
    """

    score: Array
    probability: Array
    signed: Array
    observed: Array
    expected: Array
    surprise: Array
    kept: Array | None
    pooled: bool

    @property
    def columns(self) -> dict[str, Array]:
        """Those of `SCORES` that are known, by name."""
        found = {name: getattr(self, name) for name in SCORES}
        return {name: values for name, values in found.items() if values is not None}

    def stands_out(self, threshold: float) -> BoolArray:
        """Cells that are mostly unexplained, and more surprisingly so than by chance."""
        return self.surprise > threshold


@dataclass(frozen=True, eq=False)
class Masses:
    """Masses of data and model, (U, B), in the units (a group and an outcome) of a layout."""

    layout: Layout
    data: Array
    model: Array

    @property
    def score(self) -> Array:
        """Share of each cell's mass that is too much, (m, B)."""
        return self.layout.units.of_cells(np.maximum(1 - self.model / self.data, 0.0))

    @property
    def signed(self) -> Array:
        """Relative excess (above 0) or deficit (below 0) of each cell, (m, B)."""
        gap = (self.data - self.model) / np.maximum(self.data, self.model)
        return self.layout.units.of_cells(gap)

    def rows(self, n_obs: float) -> tuple[Array, Array]:
        """Observed and expected rows of each cell's units, (m, B), of a table of so many rows."""
        units = self.layout.units
        scale = n_obs * units.n_partitions
        return scale * units.of_cells(self.data), scale * units.of_cells(self.model)

    def surprise(self, n_obs: float) -> Array:
        """Minus log10 of the probability of so many rows or more, (m, B); 0 for cells of which
        less than half is too much.
        """
        units = self.layout.units
        scale = n_obs * units.n_partitions
        tail = poisson_tail(scale * self.data, scale * self.model)
        # A mean of logarithms: one odd group does not outvote all others.
        surprise = np.expm1(units.of_cells(np.log1p(-np.log10(np.maximum(tail, _LEAST)))))
        return np.where(self.score >= MOSTLY, surprise, 0.0)


def surprise_of_dropped(masses: Masses, theta: Array, n_obs: float, kept: Array) -> Array:
    """The larger of `Masses.surprise` and that of outcomes so far out at theta (d, B), (m, B).

    0 where less than half of a cell is dropped; ``kept`` (m, B) is the share that is not.
    """
    if not (kept < MOSTLY).any():
        return np.zeros(kept.shape)
    tail = np.maximum(tail_probability(masses.layout, theta), _LEAST)
    return np.where(kept < MOSTLY, np.maximum(masses.surprise(n_obs), -np.log10(tail)), 0.0)


def layout_of(posterior: Posterior) -> Layout:
    """The layout of a fit in which every outcome is compared: of two, not just one."""
    cells = posterior.cells
    return Layout(posterior.model, cells, posterior.partition, cells, False, posterior.bins)


def masses_of(layout: Layout, theta: Array, p: Array) -> Masses:
    """Masses at standardised parameters (d, B), of tables p (m, B)."""
    units = layout.units
    data = np.maximum(units.data_mass(p), tiny(p))
    model = units.total(units.atom_mass(p) * units.pairs.pmf(theta))
    return Masses(layout, data, model)


def scores_by(layout: Layout, draws: Array, p: Array) -> Iterator[Masses]:
    """Masses at the draws (B, d), a few draws at a time; p is (m, B), or (m, 1) for all."""
    theta = layout.bound.from_user(draws.T)
    size = max(1, _ELEMENTS // layout.units.n_elements)
    for at in range(0, len(draws), size):
        part = slice(at, at + size)
        own = p if p.shape[1] == 1 else p[:, part]
        here = theta[:, part]
        yield masses_of(layout, here, np.broadcast_to(own, (len(own), here.shape[1])))


def cell_scores(posterior: Posterior) -> CellScores:
    """Score every cell of a fit under its draws, or at its estimate if it has none.

    Examples
    --------
    >>> import numpy as np, tvdbayes as tb
    >>> from tvdbayes.results.rows import cell_scores
    >>> y = np.r_[np.random.default_rng(0).poisson(3, 500), np.full(50, 30)]
    >>> cells = tb.Cells.from_rows(np.ones((550, 1)), y)
    >>> fit = tb.posterior_bootstrap(tb.Model(tb.Poisson()), cells, n_draws=50)
    >>> cell_scores(fit).score[-1].round(3)
    np.float64(1.0)
    """
    with single_threaded():
        cells = posterior.cells
        # New data have outcomes between those that were seen, and are judged by the same bins.
        bins = posterior.bins and posterior.bins.filled()
        layout = replace(layout_of(posterior), bins=bins)
        p = cells.p[:, None]
        most = max(_FEWEST, _MOST_ELEMENTS // layout.units.n_elements)
        draws = _thinned(posterior.draws if posterior.n_draws else posterior.estimate[None], most)
        total = np.zeros((3, cells.n_cells))
        for masses in scores_by(layout, draws, p):
            score = masses.score
            total += (score.sum(1), (score >= MOSTLY).sum(1), masses.signed.sum(1))
        score, probability, signed = total / len(draws)
        theta = layout.bound.from_user(posterior.minimiser[:, None])
        centre = masses_of(layout, theta, p)
        observed, expected = centre.rows(cells.n_obs)
        kept = posterior.kept_rows
        surprise = (
            centre.surprise(cells.n_obs)[:, 0]
            if kept is None
            else _surprise_of_trimmed(centre, theta, kept)
        )
    return CellScores(
        score,
        probability,
        signed,
        observed[:, 0],
        expected[:, 0],
        surprise,
        None if kept is None else kept.share,
        posterior.partition.pools_rows,
    )


def _surprise_of_trimmed(centre: Masses, theta: Array, rows: KeptRows) -> Array:
    """Surprise (m,) of the cells of a trimmed fit, with parameters theta (d, 1)."""
    layout, cells = centre.layout, centre.layout.cells
    surprise = surprise_of_dropped(centre, theta, cells.n_obs, rows.share[:, None])[:, 0]
    if rows.far_agree:
        return surprise
    kept = kept_share(layout, cells.p, theta[:, 0], cells.n_obs)
    block = -log_ndtr(agreement(layout, theta[:, 0], kept, rows.far)) / np.log(10)
    dropped = rows.far[cells.x_index] & (rows.share < MOSTLY)
    return np.where(dropped, np.maximum(surprise, block), surprise)


def most_suspicious(surprise: Array, score: Array) -> IntArray:
    """The order from most to least suspicious: by surprise, then by score; ties stay as they are.

    Surprise is also what flags rows, so that flagged ones come first at any threshold.

    Examples
    --------
    >>> import numpy as np
    >>> from tvdbayes.results.rows import most_suspicious
    >>> most_suspicious(np.array([0.0, 9.0, 0.0, 9.0]), np.array([0.3, 0.9, 0.4, 1.0]))
    array([3, 1, 2, 0])
    """
    return np.lexsort((-score, -surprise))


def _thinned(draws: Array, most: int) -> Array:
    """Evenly spaced draws, at most so many."""
    return draws[:: -(-len(draws) // most)]
