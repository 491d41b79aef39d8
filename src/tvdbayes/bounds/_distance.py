"""Total variation between a table and a fixed model, over groups of rows and single outcomes.

For groups g of covariate rows, with data mass p and conditional model pmf f,

    D = sum_{g, y} max(p(g, y) - sum_{i in g} p(x_i) f(y | x_i; theta), 0),

which is 1 minus the sum of the smaller masses: eq. (4) of the paper where each x is a group. The
objective of a fit may join outcomes in bins; here they are compared one by one.
"""

from collections.abc import Iterator

import numpy as np

from tvdbayes._typing import Array, IntArray
from tvdbayes.data.cells import Cells
from tvdbayes.models.model import Model

_ELEMENTS = 1 << 20
"""Pairs of a covariate row and an outcome whose probabilities are computed at a time: 8 MiB for
each array, which stays in the cache of most processors."""


def distance_seen(
    model: Model, theta: Array, cells: Cells, groups: IntArray, known: Cells
) -> float:
    """The distance of a table from a model at theta (d,), a mean over partitions (R, n_x).

    Columns are standardised on the rows in `known`.
    """
    family = model.family
    bound = model.bind(cells, known)
    eta = bound.eta(bound.from_user(theta[:, None]))[..., 0]
    x_mass = cells.x_counts / cells.n_obs
    own = cells.y[np.searchsorted(cells.x_index, np.arange(cells.n_x))]
    found = []
    for labels in groups:
        data, unit_y, pairs = _units(cells, labels)
        for first, x, unit in pairs:
            y, trials = unit_y[unit], cells.trials[x]
            # An outcome of a neighbour may be impossible here: more successes than trials.
            possible = family.possible(y, trials)
            pmf = family.pmf(np.where(possible, y, own[x]), eta[:, x], trials)
            mass = np.bincount(unit - first, x_mass[x] * np.where(possible, pmf, 0.0))
            data[first : first + len(mass)] -= mass
        found.append(np.maximum(data, 0).sum())
    return float(np.mean(found))


def _units(
    cells: Cells, labels: IntArray
) -> tuple[Array, Array, Iterator[tuple[int, IntArray, IntArray]]]:
    """Units (a group and an outcome seen in it) of one partition: the mass of the data in each and
    its outcome, and the x rows that belong to it, a stretch of units at a time.

    A stretch is its first unit, and the x row and unit of each of its pairs.
    """
    outcomes, code = np.unique(cells.y, return_inverse=True)
    key, of_cell = np.unique(labels[cells.x_index] * len(outcomes) + code, return_inverse=True)
    group, y = np.divmod(key, len(outcomes))
    by_group = np.argsort(labels, kind="stable")
    starts = np.searchsorted(labels[by_group], np.arange(labels.max() + 2))
    n_x = (starts[1:] - starts[:-1])[group]

    def pairs() -> Iterator[tuple[int, IntArray, IntArray]]:
        ends = np.cumsum(n_x)
        first = 0
        while first < len(key):
            begun = ends[first] - n_x[first]
            after = max(first + 1, int(np.searchsorted(ends, begun + _ELEMENTS, side="right")))
            unit = np.repeat(np.arange(first, after), n_x[first:after])
            within = np.arange(unit.size) - (ends - n_x)[unit] + begun
            yield first, by_group[starts[group[unit]] + within], unit
            first = after

    mass: Array = np.bincount(of_cell, cells.p).astype(float)
    return mass, outcomes[y], pairs()
