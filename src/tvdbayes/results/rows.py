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

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy.special import log_ndtr

from tvdbayes._array import gammainc
from tvdbayes._errors import DataError
from tvdbayes._typing import Array, BoolArray, IntArray
from tvdbayes.objective import Layout
from tvdbayes.results.base import AbstractFit
from tvdbayes.sampling.execution import single_threaded
from tvdbayes.sampling.posterior import Posterior
from tvdbayes.trimming import KeptRows, agreement, kept_share, tail_probability, unit_masses

MOSTLY = 0.5
"""Score from which a cell counts as mostly unexplained."""

SCORES = ("score", "probability", "signed", "observed", "expected", "surprise", "kept")
"""Scores of each cell, by name, in the order of tables; the last is of trimmed fits only."""

_LEAST = 1e-300
"""Smaller probabilities are treated as equal to this."""

_ELEMENTS = 1 << 20
_MOST_ELEMENTS = 1 << 26
"""Cells x draws that are scored at a time, and in all: beyond that draws are thinned."""
_FEWEST = 50
"""Draws that are scored at least, however many cells there are."""


@dataclass(frozen=True, eq=False)
class CellScores:
    """What the draws say about each cell, (m,); `Fit.rows` describes the columns.

    Parameters
    ----------
    score, probability : (m,)
    signed : (m,)
        The share of data or model mass, whichever is larger, that the other lacks: above 0 where
        the data have too much, below 0 where they have too little, in [-1, 1].
    observed, expected : (m,)
        Rows with the cell's outcome in its group (the mean over its groups), and how many the
        minimiser expects.
    surprise : (m,)
        Averaged over the cell's groups; 0 where less than half of its mass is too much. Of a
        trimmed fit the largest of this, of the same for an outcome so far out (`tail_probability`),
        and, for rows far out in the covariates that were kept out as a block, for a block that
        disagrees so much; 0 where less than half of its mass is dropped.
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

    def surprise(self, n_obs: float, asked: BoolArray | None = None) -> Array:
        """Minus log10 of the probability of so many rows or more, (m, B); 0 for cells of which
        less than half is too much. It is right for the cells that are ``asked`` (m, B), or all.
        """
        units = self.layout.units
        scale = n_obs * units.n_partitions
        tail = np.ones(self.data.shape)
        # The tail is slow.
        at = (
            np.full(tail.shape, True)
            if asked is None
            else units.data_mass(np.where(asked, 1.0, 0.0)) > 0
        )
        tail[at] = gammainc(scale * self.data[at], scale * self.model[at])
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
    surprise = np.maximum(masses.surprise(n_obs, kept < MOSTLY), -np.log10(tail))
    return np.where(kept < MOSTLY, surprise, 0.0)


def layout_of(posterior: Posterior) -> Layout:
    """The layout of a fit in which every outcome is compared: of two, not just one.

    Its table has as many rows as the data have independent ones.
    """
    cells = replace(posterior.cells, counts=posterior.cells.counts * posterior.worth)
    return Layout(posterior.model, cells, posterior.partition, cells, False, posterior.bins)


def minimiser(layout: Layout, posterior: Posterior) -> Array:
    """The minimiser of a fit, standardised as in a layout, (d, 1)."""
    theta: Array = layout.bound.from_user(posterior.minimiser[:, None])
    return theta


def unexplained(layout: Layout, theta: Array, p: Array) -> Array:
    """Mass of tables p (m, B) that the models at parameters theta (d, B) cannot explain, (B,)."""
    share: Array = (p * masses_of(layout, theta, p).score).sum(0)
    return share


def masses_of(layout: Layout, theta: Array, p: Array) -> Masses:
    """Masses at standardised parameters (d, B), of tables p (m, B)."""
    return Masses(layout, *unit_masses(layout, p, theta))


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
    """Score every cell of a fit under its draws, or at its estimate if it has none."""
    with single_threaded():
        cells = posterior.cells
        # New data have outcomes between those that were seen, and are judged by the same bins.
        bins = posterior.bins and posterior.bins.filled()
        layout = replace(layout_of(posterior), bins=bins)
        p = cells.p[:, None]
        most = max(_FEWEST, _MOST_ELEMENTS // layout.units.n_elements)
        draws = posterior.draws if posterior.n_draws else posterior.estimate[None]
        # Evenly spaced ones, where there are too many.
        draws = draws[:: -(-len(draws) // most)]
        total = np.zeros((3, cells.n_cells))
        for masses in scores_by(layout, draws, p):
            score = masses.score
            total += (score.sum(1), (score >= MOSTLY).sum(1), masses.signed.sum(1))
        score, probability, signed = total / len(draws)
        theta = minimiser(layout, posterior)
        centre = masses_of(layout, theta, p)
        observed, expected = centre.rows(cells.n_obs)
        surprise = centre.surprise(layout.cells.n_obs)[:, 0]
        share, kept = None, posterior.kept_rows
        if kept is not None:
            surprise, share = _surprise_of_trimmed(centre, theta, kept), kept.share
    seen = observed[:, 0], expected[:, 0], surprise
    return CellScores(score, probability, signed, *seen, share, posterior.partition.pools_rows)


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
    """
    return np.lexsort((-score, -surprise))


def check_rows(posterior: Posterior, cell_of_row: ArrayLike) -> IntArray:
    """The cell of each row, -1 for rows of weight zero, checked."""
    m, rows = posterior.cells.n_cells, np.asarray(cell_of_row)
    if rows.ndim != 1 or rows.dtype.kind not in "iu" or not ((rows >= -1) & (rows < m)).all():
        raise DataError(
            f"cell_of_row must hold one number from -1 to {m - 1} for each row; got "
            f"{rows.dtype} of shape {rows.shape}. Pass fit.cell_of_row."
        )
    return rows


def suspicious_of(fit: AbstractFit, rows: pd.DataFrame) -> pd.DataFrame:
    """The lines of `Fit.rows`, equal rows put together, the most suspicious first."""
    known = np.flatnonzero(rows["score"].notna())
    _, first, n_rows = np.unique(fit.data.row[known], return_index=True, return_counts=True)
    order = np.argsort(first)
    lines = rows.iloc[known[first[order]]]
    # Where equal rows were put together before, each line has its count already.
    if fit.data.n_grouped is None:
        lines = apart(lines, ["count"])
        lines.insert(list(lines.columns).index(SCORES[0]), "count", n_rows[order])
    worst = most_suspicious(lines["surprise"].to_numpy(), lines["score"].to_numpy())
    return noted(lines.iloc[worst], fit)


def apart(frame: pd.DataFrame, taken: Iterable[object]) -> pd.DataFrame:
    """The table under other names where some are taken."""
    names = set(frame.columns) | set(taken)
    new = {}
    for name in set(taken).intersection(frame.columns):
        free = f"data: {name}"
        while free in names:
            free = f"data: {free}"
        new[name] = free
    return frame.rename(columns=new)


def noted(frame: pd.DataFrame, fit: AbstractFit) -> pd.DataFrame:
    """The table with a sentence on how to read it."""
    note = "Scores are of an outcome at an x: all rows that share both have the same."
    if fit.posterior.partition.pools_rows:
        note = (
            "Scores are means over the groups of nearby x that a row is in: they name a group and "
            "an outcome, not a proven row."
        )
    if fit.posterior.kept_rows is not None:
        note += (
            " Kept is the share of a row that the fit uses. Rows that it does not use are flagged "
            "where so many, or an outcome so far out, surprise more than chance would."
        )
    if fit.data.clusters is not None:
        note += (
            " Clusters are not told apart here: where a broken one has flagged rows, rows of "
            "others with the same x and outcome are flagged with them."
        )
    frame.attrs["note"] = note
    return frame
