"""How many independent rows a row is worth, where rows belong together or weigh unequally.

Tests of whether rows are too many count independent rows. With weights w, and outcomes of which
those of one unit (a cluster) have the correlation r, the number of rows in a group varies as if it
were smaller by the design effect (Kish, 1965)

    (sum_i w_i^2 + r sum_{i != j in one unit and group} w_i w_j) / sum_i w_i,

the mean of w being 1. The correlation is estimated by moments, from all pairs of rows of one unit,

    r = sum_{i != j} w_i w_j s_i s_j / sum_{i != j} w_i w_j sd(s_i) sd(s_j),

with standardised outcomes s, clipped so that a few wild ones do not decide, or indicators of each
outcome where outcomes are names.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from tvdbayes._typing import Array
from tvdbayes.data.sampling_units import SamplingUnits
from tvdbayes.models.families import AbstractFamily
from tvdbayes.objective import Layout

_CLIP = 2.0
"""Standardised outcomes are clipped to this size."""
_ROWS = 1 << 14
"""x rows whose laws are summed at a time."""
_MOST = 0.99
_FAR = 3.0
"""A normal law has 0.3 % of its mass beyond so many deviations."""


def independent_share(layout: Layout, theta: Array, kept: Array, units: SamplingUnits) -> float:
    """How many independent rows a row is worth, at most 1, at parameters theta (d,).

    Only the shares ``kept`` (m,) of the cells say how strongly rows depend on one another.
    """
    single = units.rows * (units.mass / units.rows) ** 2
    pairs = 0.0
    if units.clustered:
        group = layout.grouping.groups[0][layout.grouping.atom_of_cell][units.cell]
        keys = units.unit * (int(group.max()) + 1) + group
        keys, at = np.unique(keys, return_inverse=True)
        unit = np.empty(len(keys), np.intp)
        unit[at.ravel()] = units.unit
        own = np.bincount(at.ravel(), units.mass) ** 2 - np.bincount(at.ravel(), single)
        pairs = float(units.counts[unit] @ own)
    r = correlation(units, *outcome_scores(layout, theta), kept) if pairs > 0 else 0.0
    effect = (units.counts[units.unit] @ single + r * pairs) / layout.cells.n_obs
    return min(1.0, 1 / float(effect))


def correlation(units: SamplingUnits, score: Array, variance: Array, kept: Array) -> float:
    """The correlation of the scores (K, m) of rows of one unit, at least 0.

    ``variance`` (m,) is that of the K scores of a row together, under the model. Units whose sum
    lies more than `_FAR` deviations out, given a first estimate, have no say in the second: broken
    ones would make all others look alike, and hide among them.
    """
    weight = units.mass / units.rows * kept[units.cell]
    total, own = weight * units.rows, units.rows * weight**2
    sums, pairs = np.zeros((2, len(units.counts)))
    for values in score:
        each = values[units.cell]
        square = units.total(total * each) ** 2
        sums += square
        pairs += square - units.total(own * each**2)
    spread = np.sqrt(variance)[units.cell]
    alone = units.total(own * spread**2)
    most = units.total(total * spread) ** 2 - alone

    def estimate(counts: Array) -> float:
        whole = float(counts @ most)
        return float(np.clip(counts @ pairs / whole, 0.0, _MOST)) if whole > 0 else 0.0

    first = estimate(units.counts)
    near = sums <= _FAR**2 * np.maximum(alone + first * most, 1e-12)
    return estimate(units.counts * near)


def outcome_scores(layout: Layout, theta: Array) -> tuple[Array, Array]:
    """Scores (K, m) of the outcomes of cells at parameters theta (d,), and the variance (m,) of
    these K together.
    """
    return _scored(layout, theta, _sizes)


def rarity_scores(layout: Layout, theta: Array) -> tuple[Array, Array]:
    """The same for how improbable outcomes are, (1, m)."""
    return _scored(layout, theta, _rarities)


_Score = Callable[[Array, Array, Any], Array]
"""From outcomes, their log-probabilities and their x rows to scores, with a first axis for K."""
_Kind = Callable[[AbstractFamily, Array, Array, Array], _Score]
"""From a family, and outcomes, log-probabilities and laws (S, n) of nodes, to a score."""


def _scored(layout: Layout, theta: Array, kind: _Kind) -> tuple[Array, Array]:
    cells, family = layout.cells, layout.family
    eta = layout.bound.eta(theta[:, None])[..., 0]
    of_pairs = layout.cell_pairs.log_pmf(theta[:, None])[:, 0]
    found, variance = [], np.empty(cells.n_x)
    for at in range(0, cells.n_x, _ROWS):
        part = slice(at, min(at + _ROWS, cells.n_x))
        first, last = np.searchsorted(cells.x_index, [part.start, part.stop])
        x = cells.x_index[first:last] - at
        y, weights = family.nodes(eta[:, part], cells.trials[part], 1.0)
        log_pmf = family.log_pmf(y, eta[:, None, part], cells.trials[part])
        law = weights * np.exp(log_pmf)
        law = law / law.sum(0)
        score = kind(family, y, log_pmf, law)
        nodes = score(y, log_pmf, slice(None))
        centre = (law * nodes).sum(1)
        variance[part] = (law * (nodes - centre[:, None]) ** 2).sum((0, 1))
        found.append(score(cells.y[first:last], of_pairs[first:last], x) - centre[:, x])
    return np.concatenate(found, axis=1), variance[cells.x_index]


def _sizes(family: AbstractFamily, y: Array, _: Array, law: Array) -> _Score:
    """Standardised outcomes, or indicators where outcomes are more than two names."""
    n_levels = len(family.levels)
    if n_levels > 2:
        return lambda y, _, __: np.stack([(y == k).astype(float) for k in range(n_levels)])
    mean, deviation = _moments(y, law)
    return lambda y, _, x: np.clip((y - mean[x]) / deviation[x], -_CLIP, _CLIP)[None]


def _rarities(_: AbstractFamily, __: Array, log_pmf: Array, law: Array) -> _Score:
    """Standardised logarithms of the probability, the rarest highest."""
    mean, deviation = _moments(log_pmf, law)
    return lambda _, own, x: np.clip((mean[x] - own) / deviation[x], -_CLIP, _CLIP)[None]


def _moments(values: Array, law: Array) -> tuple[Array, Array]:
    """Mean and deviation (n,) of values (S, n) under laws (S, n)."""
    values = np.where(law > 0, values, 0.0)
    mean = (law * values).sum(0)
    return mean, np.sqrt(np.maximum((law * (values - mean) ** 2).sum(0), 1e-12))
