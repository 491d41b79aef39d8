"""The pieces of a table that training takes one step on: x rows with what is compared at them.

A step of a group divergence holds whole groups of one partition, since a part of a group would be
a smaller group; a step of a row divergence holds any rows. All steps have the same shapes, filled
up with entries of weight 0, so that they are compiled once.
"""

from itertools import pairwise
from typing import NamedTuple

import numpy as np

from tvdbayes._typing import Array, IntArray
from tvdbayes.data.cells import Cells
from tvdbayes.objective import Listed

_SHUFFLES = 12
"""Ways of cutting rows into steps, used one after the other."""


class Steps(NamedTuple):
    """Steps by passes over the table: every array is (passes, steps, entries).

    Parameters
    ----------
    x : x rows of the step
    pair_x : position of each pair's row among them
    pair_y, pair_trials, pair_weight : the pair's outcome, trials and weight
    pair_mass : the number of its atom (group divergence) or cell (row divergence)
    pair_unit : its unit within the step
    cell, cell_weight, cell_unit : the data: number of a cell, 1 or 0, and unit
    """

    x: IntArray
    pair_x: IntArray
    pair_y: Array
    pair_trials: Array
    pair_weight: Array
    pair_mass: IntArray
    pair_unit: IntArray
    cell: IntArray
    cell_weight: Array
    cell_unit: IntArray

    @property
    def n_units(self) -> int:
        """Units of a step, at most."""
        return rounded(int(max(self.pair_unit.max(), self.cell_unit.max())) + 1)


def row_steps(cells: Cells, rows: int, rng: np.random.Generator) -> Steps:
    """Random x rows, each with all its cells."""
    n_steps = max(1, round(cells.n_x / rows))
    one = np.ones(cells.n_cells)
    passes = []
    for _ in range(_SHUFFLES if n_steps > 1 else 1):
        step_of_x = rng.permutation(np.arange(cells.n_x) % n_steps)
        cell = np.arange(cells.n_cells)
        listed = Listed(
            *(cells.x_index, cells.y, cells.trials[cells.x_index], one, cell, cell, cell, cell)
        )
        passes.append(_cut(listed, step_of_x[cells.x_index], step_of_x[cells.x_index], n_steps))
    return _padded(passes)


def group_steps(partitions: list[Listed], rows: int, rng: np.random.Generator) -> Steps:
    """Random groups of each partition, whole."""
    n_rows = max(np.unique(listed.atom).size for listed in partitions)
    n_groups = min(int(listed.group_of_unit.max()) + 1 for listed in partitions)
    n_steps = min(max(1, round(n_rows / rows)), n_groups)
    passes = []
    for listed in partitions:
        group = listed.group_of_unit[listed.unit]
        size = np.bincount(group, minlength=int(listed.group_of_unit.max()) + 1)
        step = _balanced(size, n_steps, rng)
        step_of_unit = step[listed.group_of_unit]
        in_step = np.where(listed.unit_of_cell >= 0, step_of_unit[listed.unit_of_cell], -1)
        passes.append(_cut(listed, step_of_unit[listed.unit], in_step, n_steps))
    return _padded(passes)


def _balanced(size: IntArray, n_steps: int, rng: np.random.Generator) -> IntArray:
    """A step for each group, so that all have about as many pairs: the fullest group first."""
    order = rng.permutation(size.size)
    order = order[np.argsort(-size[order], kind="stable")]
    step, filled = np.empty(size.size, int), np.zeros(n_steps)
    for group in order:
        step[group] = filled.argmin()
        filled[step[group]] += size[group]
    return step


def _cut(
    listed: Listed, step_of_pair: IntArray, step_of_cell: IntArray, n_steps: int
) -> list[Steps]:
    """The entries of each step, with rows and units numbered within it."""
    pairs, cells = _by_step(step_of_pair, n_steps), _by_step(step_of_cell, n_steps)
    found = []
    for mine, data in zip(pairs, cells, strict=True):
        x, pair_x = np.unique(listed.x[mine], return_inverse=True)
        both = np.concatenate([listed.unit[mine], listed.unit_of_cell[data]])
        unit = np.unique(both, return_inverse=True)[1]
        found.append(
            Steps(
                x,
                pair_x,
                listed.y[mine],
                listed.trials[mine],
                listed.weight[mine],
                listed.atom[mine],
                unit[: mine.size],
                data,
                np.ones(data.size),
                unit[mine.size :],
            )
        )
    return found


def rounded(n: int) -> int:
    """A size that tables of about the same size share, so that what was compiled serves again."""
    step = max(8, 1 << max(n.bit_length() - 4, 0))
    return -(-n // step) * step


def _by_step(step: IntArray, n_steps: int) -> list[IntArray]:
    order = np.argsort(step, kind="stable")
    ends = np.searchsorted(step[order], np.arange(n_steps + 1))
    return [order[a:b] for a, b in pairwise(ends)]


def _padded(passes: list[list[Steps]]) -> Steps:
    """All steps with the same number of entries."""
    shape = (len(passes), len(passes[0]))
    arrays = []
    for name, parts in zip(
        Steps._fields, zip(*(step for one in passes for step in one), strict=True), strict=True
    ):
        first = next(part for part in parts if len(part))
        # What fills up is an outcome that exists, and weighs nothing.
        fill = first[0] if name in ("pair_y", "pair_trials") else 0
        whole = np.full((len(parts), rounded(max(map(len, parts)))), fill, first.dtype)
        for row, part in zip(whole, parts, strict=True):
            row[: len(part)] = part
        arrays.append(whole.reshape(*shape, -1))
    return Steps._make(arrays)
