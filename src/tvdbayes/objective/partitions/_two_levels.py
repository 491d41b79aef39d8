"""K-means for many rows: centres from part of them, and a search in two levels.

Comparing n rows with G centres takes n G distances for each of an ensemble of partitions. Here the
rows are put into cells once, and each is compared only with the centres near its cell. Centres are
seeded several at a time: a batch is drawn by the squared distance to those before it, a third as
many as there are (as in k-means||). Most of Lloyd's steps see a part of the rows, the last ones
all of them.

References
----------
Bahmani, B., Moseley, B., Vattani, A., Kumar, R. and Vassilvitskii, S. (2012). Scalable k-means++.
Proceedings of the VLDB Endowment 5, 622-633.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Self

import numpy as np

from tvdbayes._array import in_parts
from tvdbayes._typing import Array, IntArray
from tvdbayes.objective.partitions._kmeans import (
    Rows,
    finder,
    move_centres,
    nearest,
    squared_distances,
)

_BATCH = 1 / 3
"""Centres drawn at a time, as a share of those that there are."""

_PART = 16
"""Rows for each centre that the first of Lloyd's steps see."""

_LEAST = 4096
"""Rows that they see at least, where there are so many."""

_STEPS, _LAST_STEPS = 8, 2
"""Lloyd's steps on a part of the rows, and on all: further ones gain less than 1 % of the variance
within groups."""

_CELLS = 256
"""Cells of the first level."""

_REACH = 5.0
"""Centres of the second level are those that are at most ``_REACH / q**0.8`` of a cell's radius
farther from its middle than the nearest, in q dimensions, and within `_REACHES`. Directions are the
more nearly at right angles the more dimensions there are. Found by trial: 1 % of the variance
within groups is lost."""

_REACHES = 0.6, 3.0

_SPARSE = 0.3
"""Rows of a cell that holds less than this share of a typical one's are compared with all centres:
it is wide, and groups far out matter most."""

_BLOCK = 1 << 19
"""Rows that are searched at a time: many, so that each cell holds thousands of them."""


def learn_centres_of_many(
    z: Array, weights: Array, n_centres: int, rng: np.random.Generator
) -> Array:
    """Centres (G, q), as `learn_centres`, where there are many rows for each."""
    n_part = min(len(z), max(_LEAST, _PART * n_centres))
    part = np.sort(rng.choice(len(z), n_part, replace=False))
    centres = _seeded(z[part], weights[part], n_centres, rng)
    centres = move_centres(z[part], weights[part], centres, _STEPS)
    return move_centres(z, weights, centres, _LAST_STEPS)


def _seeded(z: Array, weights: Array, n_centres: int, rng: np.random.Generator) -> Array:
    """Rows drawn in batches, each by the squared distance to those of the batches before."""
    size = np.einsum("ij,ij->i", z, z)
    chosen = new = [int(rng.choice(len(z), p=weights / weights.sum()))]
    gap = np.full(len(z), np.inf)
    while len(chosen) < n_centres:
        gap = np.minimum(gap, squared_distances(z, size, new).min(0))
        total = np.cumsum(weights * gap)
        if total[-1] <= 0:
            break
        batch = min(max(1, int(_BATCH * len(chosen))), n_centres - len(chosen))
        drawn = np.searchsorted(total, rng.random(batch) * total[-1], side="right")
        new = list(dict.fromkeys(drawn.tolist()))
        chosen = chosen + new
    return z[chosen]


def learn_cells(z: Array, weights: Array, rng: np.random.Generator) -> tuple[Array, Array]:
    """Middles (C, q) of cells, and how far beyond the nearest centre a cell's rows look, (C,)."""
    n_cells = min(_CELLS, max(1, len(z) // _PART))
    middles = learn_centres_of_many(z, weights, n_cells, rng)
    cell = nearest(z, middles)
    away = z - middles[cell]
    count = np.bincount(cell, minlength=len(middles))
    square = np.bincount(cell, np.einsum("ij,ij->i", away, away), len(middles))
    share = np.clip(_REACH / z.shape[1] ** 0.8, *_REACHES)
    reach = share * np.sqrt(square / np.maximum(count, 1))
    return middles, np.where(count < _SPARSE * len(z) / len(middles), np.inf, reach)


@dataclass(frozen=True, eq=False)
class Search:
    """The nearest centre of each row, for several partitions, among those near the row's cell.

    Parameters
    ----------
    middles : (C, q)
        Of the cells.
    near : list of lists
        For each partition and cell the numbers of the centres, and what finds the nearest of them.
    """

    middles: Array
    near: list[list[tuple[IntArray, Callable[[Rows], IntArray]]]]

    @classmethod
    def among(cls, middles: Array, reach: Array, centres: Sequence[Array]) -> Self:
        """Of cells with this reach, and partitions with these centres."""
        return cls(middles, [_near(middles, reach, one) for one in centres])

    def labels(self, z: Array) -> list[IntArray]:
        """The centre of each row in each partition."""
        starts = range(0, len(z), _BLOCK)
        blocks = in_parts(lambda start: self._labels(z[start : start + _BLOCK]), starts)
        return [np.concatenate(one) for one in zip(*blocks, strict=True)]

    def _labels(self, z: Array) -> list[IntArray]:
        cell = nearest(z, self.middles)
        order = np.argsort(cell.astype(np.uint16), kind="stable")
        ends = np.searchsorted(cell[order], np.arange(len(self.middles) + 1))
        rows = Rows.of(z[order])
        parts = [
            (number, slice(first, last), rows.take(slice(first, last)))
            for number, (first, last) in enumerate(pairwise(ends.tolist()))
            if first < last
        ]
        found = []
        for near in self.near:
            sorted_labels = np.empty(len(z), np.intp)
            for number, place, part in parts:
                centres, closest = near[number]
                sorted_labels[place] = centres[closest(part)]
            labels = np.empty(len(z), np.intp)
            labels[order] = sorted_labels
            found.append(labels)
        return found


def _near(
    middles: Array, reach: Array, centres: Array
) -> list[tuple[IntArray, Callable[[Rows], IntArray]]]:
    """The centres within reach of each cell."""
    size = (middles * middles).sum(1)[:, None] + (centres * centres).sum(1)
    away = np.sqrt(np.maximum(size - 2 * (middles @ centres.T), 0.0))
    within = away <= away.min(1)[:, None] + reach[:, None]
    numbers = [np.flatnonzero(one) for one in within]
    return [(one, finder(centres[one])) for one in numbers]
