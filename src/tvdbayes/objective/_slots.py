"""What the kernel knows of a table: atoms, their slots, the nodes and the units of each slot.

An atom is an x row with its mass. Its slots are the outcomes, or bins of them, at which it is
compared; a slot is a weighted sum of the pmf over nodes, and belongs to one unit of each partition.
Slots are sorted by atom, nodes by slot.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tvdbayes._array import gammaln
from tvdbayes._typing import Array, IntArray
from tvdbayes.objective._pairs import Pairs

_RUN = 32
"""Counts in a row of which each takes its probability from the one before."""

MOST_TRIALS = 1000.0
"""Trials up to which the pmf of successes keeps twelve digits without Loader's form."""


@dataclass(frozen=True, eq=False)
class Slots:
    """The lists of a table, as the kernel reads them.

    Parameters
    ----------
    law : int
    z, offset, trials
        Columns, offset and trials of the atoms, (n_atoms, d) and (n_atoms,).
    slot0, node0, unit0
        Where the slots of each atom begin, the nodes and the units of each slot; one entry more.
    node : (n_nodes, 3)
        Outcome, weight, and what the neighbour's probability is multiplied with beside the rate,
        0 where the probability is computed afresh.
    start : (n_afresh, 2)
        What it is computed from there: a centre and the level at it, or a constant.
    unit : int32
        The units of all slots.
    atom_of_cell, slot_of_cell
        -1 for a cell in no slot.
    """

    law: int
    z: Array
    offset: Array
    trials: Array
    slot0: IntArray
    node0: IntArray
    unit0: IntArray
    node: Array
    start: Array
    unit: IntArray
    atom_of_cell: IntArray
    slot_of_cell: IntArray

    @classmethod
    def of(
        cls,
        law: str,
        pairs: Pairs,
        *,
        slot_of_pair: IntArray,
        atom_of_pair: IntArray,
        weight: Array,
        units: tuple[IntArray, IntArray],
        atom_of_cell: IntArray,
        slot_of_cell: IntArray,
    ) -> "Slots":
        """The lists from those of the pairs; `units` are where they begin, and the units."""
        unit0, unit = units
        node0 = np.searchsorted(slot_of_pair, np.arange(unit0.size))
        atoms = np.arange(atom_of_pair[-1] + 2)
        first = np.searchsorted(atom_of_pair, atoms[:-1])
        x = pairs.x_of_pair.index[first]
        number, start, factor = _LISTS[law](pairs, atom_of_pair)
        return cls(
            number,
            np.ascontiguousarray(pairs.bound.designs[0][x]),
            np.ascontiguousarray(pairs.bound.offset[x]),
            np.ascontiguousarray(pairs.trials[first, 0]),
            np.searchsorted(atom_of_pair[node0[:-1]], atoms),
            node0,
            unit0.astype(np.int64),
            np.stack([pairs.y[:, 0], weight, factor], axis=1),
            start[factor == 0],
            unit.astype(np.int32),
            np.ascontiguousarray(atom_of_cell, np.int64),
            np.ascontiguousarray(slot_of_cell, np.int64),
        )

    @property
    def arrays(self) -> tuple[Array | IntArray, ...]:
        """In the order of the kernel's `Groups`."""
        of_atoms = (self.z, self.offset, self.trials, self.slot0)
        of_slots = (self.node0, self.unit0, self.node, self.start, self.unit)
        return *of_atoms, *of_slots, self.atom_of_cell, self.slot_of_cell


_Lists = tuple[int, Array, Array]
"""The number of a law, what the pmf is computed from at each node, and factors of the nodes."""


def _poisson(pairs: Pairs, atom: IntArray) -> _Lists:
    form, factor = pairs.canonical, _factors(pairs.y[:, 0], atom)
    assert form is not None
    return 5, np.column_stack([form.centre, form.level]), factor


def _factors(y: Array, atom: IntArray) -> Array:
    """1 / y where the outcome before is y - 1, of the same atom, in runs that are not long.

    Where a run begins the pmf may be 0 by underflow. So short a run later it is still as good as 0.
    """
    follows = np.zeros(y.size, bool)
    follows[1:] = (y[1:] == y[:-1] + 1) & (atom[1:] == atom[:-1])
    number = np.arange(y.size)
    within = number - np.maximum.accumulate(np.where(follows, 0, number))
    return np.where(follows & (within % _RUN != 0), 1 / np.maximum(y, 1.0), 0.0)


def _successes(number: int) -> Callable[[Pairs, IntArray], _Lists]:
    def lists(pairs: Pairs, _: IntArray) -> _Lists:
        y, trials = pairs.y, pairs.trials
        ways = gammaln(trials + 1) - gammaln(y + 1) - gammaln(trials - y + 1)
        return number, np.column_stack([np.zeros_like(y), ways]), np.zeros(len(y))

    return lists


def _tail(number: int) -> Callable[[Pairs, IntArray], _Lists]:
    def lists(pairs: Pairs, _: IntArray) -> _Lists:
        return number, np.zeros((len(pairs.y), 2)), np.zeros(len(pairs.y))

    return lists


_LISTS: dict[str, Callable[[Pairs, IntArray], _Lists]] = {
    "tail_logit": _tail(0),
    "tail_probit": _tail(1),
    "tail_cloglog": _tail(2),
    "successes_logit": _successes(3),
    "successes_cloglog": _successes(4),
    "poisson": _poisson,
}

LAWS = frozenset(_LISTS)
"""The laws that the kernel knows; their numbers are those of its ``TAIL_LOGIT, ...``."""
