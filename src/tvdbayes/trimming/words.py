"""Rows that are far out, in words: by the columns that they are far out in."""

import numpy as np

from tvdbayes._typing import Array, BoolArray
from tvdbayes.data.cells import Cells
from tvdbayes.trimming.far import deviations

_SEVERAL = 0.5
"""Rows that lie beyond all others in a column are described by its range if they are more than this
share of the far ones."""
_OUT = 1.0
"""A column is named if the rows lie on average at least so many deviations out in it."""
_NAMED, _MOST = 3, 5.0


def where(cells: Cells, far: BoolArray) -> str:
    """How many rows are far out, and where: "2 rows with income of 9.5 or more"."""
    weights = np.where(far, cells.x_counts, 0.0)
    n, best = weights.sum(), farthest_column(cells, far)
    # Weights need not be whole, and sums of them are rounded.
    count = f"{n:,.12g}"
    rows = f"{count} row{'s' if count != '1' else ''}"
    sides = _beyond(cells.x[:, best], far)
    held = float(sum(weights @ side for side in sides.values()))
    if held > _SEVERAL * n:
        of = f"with {cells.names[best]} of {' or '.join(sides)}"
        every = sum(side.sum() for side in sides.values()) == far.sum()
        return f"{rows} {of}" if every else f"{rows} far out, {held:,.12g} of them {of},"
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
    return float(weights @ np.minimum(np.abs(z), _MOST) / weights.sum())


def _beyond(values: Array, far: BoolArray) -> dict[str, BoolArray]:
    """The far rows above all others, and those below all others, by their range in words."""
    above, below = values > values[~far].max(), values < values[~far].min()
    found = {}
    if above.any():
        found[f"{values[above].min():.4g} or more"] = above
    if below.any():
        found[f"{values[below].max():.4g} or less"] = below
    return found
