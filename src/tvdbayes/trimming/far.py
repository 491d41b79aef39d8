"""Rows that lie far out in the covariates, and where, in words. Outcomes are not looked at.

A row is far out if one of its covariates lies more than 3 deviations from the median of the column,
or if all of them together lie beyond the 99 % point of the chi-squared law in robust Mahalanobis
distance. The deviation is 1.4826 times the median absolute deviation. Location and scatter of the
joint distance are those of the three quarters of the rows that lie closest (concentration steps,
Rousseeuw and Van Driessen, 1999). Columns of two values, such as levels of a category, have no
outliers and are left out.
"""

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import gammaincinv

from tvdbayes._typing import Array, BoolArray, IntArray
from tvdbayes.data.cells import Cells, amount

DEVIATIONS = 3.0
"""A row is far out in a column beyond so many deviations."""
_QUANTILE = 0.99
_BULK, _STEPS = 0.75, 8
_MOST = 1 - _BULK
"""At most this share of the rows is called far: the bulk that distances are taken from is not."""
_SINGULAR = 1e-6
"""Added to the variances of standardised columns, so that dependent columns have a distance."""

_ROWS = 1 << 14
"""Rows that are computed with at a time."""

_SEVERAL = 0.5
"""Rows that lie beyond all others in a column are described by its range if they are more than this
share of the far ones."""
_OUT = 1.0
"""A column is named if the rows lie on average at least so many deviations out in it."""
_NAMED, _FARTHEST = 3, 5.0
"""Columns that a message names; deviations that a row counts for at most, so that a single row does
not decide."""


@dataclass(frozen=True, eq=False)
class FarRule:
    """Which rows are far out: a function of x (n, p), learned on a table.

    Of ``columns`` (k,) the medians and deviations ``middle`` and ``scale`` make them comparable;
    ``centre`` and ``scatter`` are those of the bulk, and ``factor`` makes the median squared
    distance that of normals. Rows are far beyond ``limit`` times the thresholds.
    """

    columns: IntArray
    middle: Array
    scale: Array
    centre: Array
    scatter: Array
    factor: float
    limit: float = 1.0

    def __call__(self, x: Array) -> BoolArray:
        """Whether each row is far out."""
        if not self.columns.size:
            return np.zeros(len(x), bool)
        far: BoolArray = self.beyond(x) > self.limit
        return far

    def beyond(self, x: Array) -> Array:
        """How far out rows are, in multiples of the thresholds."""
        return np.concatenate([self._beyond(x[part]) for part in _parts(max(len(x), 1))])

    def _beyond(self, x: Array) -> Array:
        z = (x[:, self.columns] - self.middle) / self.scale
        single = np.abs(z).max(1) / DEVIATIONS
        distance = self.factor * _squared(z - self.centre, self.scatter)
        joint = np.sqrt(distance / _chi2(_QUANTILE, z.shape[1]))
        far: Array = np.maximum(single, joint)
        return far


def far_rows(cells: Cells) -> BoolArray:
    """Which x rows of a table are far out, (n_x,)."""
    return learn_far(cells)(cells.x)


def learn_far(cells: Cells) -> FarRule:
    """The rule of the rows of a table."""
    weights, columns = cells.x_counts, _measured(cells)
    if not columns:
        none = np.zeros(0)
        return FarRule(np.zeros(0, np.intp), none, none, none, none, 1.0)
    at = np.array(columns)
    middle, scale = np.array([_middle_and_scale(cells.x[:, j], weights) for j in at]).T
    z = (cells.x[:, at] - middle) / scale
    rule = FarRule(at, middle, scale, *_bulk(z, weights))
    far = rule.beyond(cells.x)
    return replace(rule, limit=max(1.0, quantile(far, weights, 1 - _MOST)))


def deviations(cells: Cells) -> dict[int, Array]:
    """How many deviations each x row lies from the median, by column; without those of levels.

    Products of columns (interactions) are left out, too: they change with the reference level and
    the zero of what they are made of.
    """
    found = {}
    for j in _measured(cells):
        middle, scale = _middle_and_scale(cells.x[:, j], cells.x_counts)
        found[j] = (cells.x[:, j] - middle) / scale
    return found


def _measured(cells: Cells) -> list[int]:
    """The columns in which a row can be far out."""
    return [
        j
        for j, (name, column) in enumerate(zip(cells.names, cells.x.T, strict=True))
        if ":" not in name and ((column != column.min()) & (column != column.max())).any()
    ]


def _middle_and_scale(column: Array, weights: Array) -> tuple[float, float]:
    middle = quantile(column, weights, 0.5)
    away = column - middle
    scale = 1.4826 * quantile(np.abs(away), weights, 0.5)
    if scale == 0:
        # More than half of the rows share a value.
        scale = float(np.sqrt(weights @ away**2 / weights.sum()))
    return middle, scale


def _bulk(z: Array, weights: Array) -> tuple[Array, Array, float]:
    """Centre and scatter of the bulk of rows z (n, k), and what their squared distances are
    multiplied with, so that the median is that of normals.
    """
    distance, k = np.abs(z).max(1) / DEVIATIONS, z.shape[1]
    for _ in range(_STEPS):
        bulk = np.where(distance <= quantile(distance, weights, _BULK), weights, 0.0)
        bulk = bulk / bulk.sum()
        centre, scatter = bulk @ z, _SINGULAR * np.eye(k)
        for part in _parts(len(z)):
            centred = z[part] - centre
            scatter += (centred.T * bulk[part]) @ centred
        distance = np.concatenate([_squared(z[part] - centre, scatter) for part in _parts(len(z))])
    middle = quantile(distance, weights, 0.5)
    return centre, scatter, _chi2(0.5, k) / middle if middle > 0 else 1.0


def _parts(n: int) -> list[slice]:
    """Stretches of n rows, whose products stay in the cache."""
    return [slice(start, start + _ROWS) for start in range(0, n, _ROWS)]


def _squared(centred: Array, scatter: Array) -> Array:
    """Squared distances (n,) of centred rows (n, k)."""
    inverse = np.linalg.inv(scatter)
    squared: Array = np.einsum("ij,ij->i", centred @ inverse, centred)
    return squared


def _chi2(share: float, k: int) -> float:
    """Quantile of the chi-squared law with k degrees of freedom."""
    # scipy.stats would take a second to import.
    return float(2 * gammaincinv(k / 2, share))


def quantile(values: Array, weights: Array, share: float) -> float:
    """The smallest value with at least this share of the weight at or below it."""
    if (weights == 1).all():
        at = max(int(np.ceil(share * len(values) * (1 - 1e-12))) - 1, 0)
        return float(np.partition(values, at)[at])
    order = np.argsort(values)
    below = np.cumsum(weights[order])
    # Rounding of the sum must not decide between neighbours.
    at = np.searchsorted(below, share * below[-1] * (1 - 1e-12))
    return float(values[order[min(at, len(order) - 1)]])


def where(cells: Cells, far: BoolArray) -> str:
    """How many rows are far out, and where: "2 rows with income of 9.5 or more"."""
    weights = np.where(far, cells.x_counts, 0.0)
    n, best = weights.sum(), farthest_column(cells, far)
    # Weights need not be whole, and sums of them are rounded.
    count = amount(n)
    rows = f"{count} row{'s' if count != '1' else ''}"
    sides = _beyond(cells.x[:, best], far)
    held = float(sum(weights @ side for side in sides.values()))
    if held > _SEVERAL * n:
        of = f"with {cells.names[best]} of {' or '.join(sides)}"
        every = sum(side.sum() for side in sides.values()) == far.sum()
        return f"{rows} {of}" if every else f"{rows} far out, {amount(held)} of them {of},"
    out = {j: _outness(z, weights) for j, z in deviations(cells).items()}
    others = sorted((j for j in out if out[j] >= _OUT and j != best), key=lambda j: -out[j])
    *names, last = (cells.names[j] for j in (best, *others[: _NAMED - 1]))
    together = f"{', '.join(names)} and {last} together" if names else last
    return f"{rows} far out in {together}"


def farthest_column(cells: Cells, far: BoolArray) -> int:
    """The column of x in which most of the far rows lie beyond all others; of equal ones that in
    which they are farther out on average.
    """
    weights = np.where(far, cells.x_counts, 0.0)

    def order(j: int) -> tuple[float, float]:
        held = float(sum(weights @ side for side in _beyond(cells.x[:, j], far).values()))
        return held, _outness(z[j], weights)

    z = deviations(cells)
    return max(z, key=order)


def _outness(z: Array, weights: Array) -> float:
    # A few rows very far out must not name the column of all.
    return float(weights @ np.minimum(np.abs(z), _FARTHEST) / weights.sum())


def _beyond(values: Array, far: BoolArray) -> dict[str, BoolArray]:
    """The far rows above all others, and those below all others, by their range in words."""
    above, below = values > values[~far].max(), values < values[~far].min()
    found = {}
    if above.any():
        found[f"{values[above].min():.4g} or more"] = above
    if below.any():
        found[f"{values[below].max():.4g} or less"] = below
    return found
