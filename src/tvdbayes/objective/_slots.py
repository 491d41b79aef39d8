"""What the kernel knows of a table: atoms, their slots, the nodes and the units of each slot.

An atom is an x row with its mass. Its slots are the outcomes, or bins of them, at which it is
compared; a slot is a weighted sum of the pmf over nodes, and belongs to one unit of each partition.
Slots are sorted by atom, nodes by slot.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tvdbayes._array import HALF_LOG_2PI, gammaln, stirling_error
from tvdbayes._typing import Array, IntArray
from tvdbayes.models.predictors import AbstractBound
from tvdbayes.objective._pairs import Pairs

_RUN = 32
"""Counts in a row of which each takes its probability from the one before."""

MOST_TRIALS = 1000.0
"""Trials up to which the pmf of successes keeps twelve digits without Loader's form."""
MOST_DISPERSED = 2000.0
"""Counts up to which the negative binomial pmf keeps eleven."""


@dataclass(frozen=True, eq=False)
class Slots:
    """The lists of a table, as the kernel reads them.

    Parameters
    ----------
    law : int
    z, offset, trials
        Columns, offset and trials of the atoms, (n_atoms, d) and (n_atoms,); columns of further
        predictors are 0.
    slot0, node0, unit0
        Where the slots of each atom begin, the nodes and the units of each slot; one entry more.
    node : (n_nodes, 3)
        Outcome, weight, and what the neighbour's probability is multiplied with beside the rate,
        0 where the probability is computed afresh.
    start : (n_afresh, 2)
        What it is computed from there: a centre and the level at it, or a constant.
    unit : int32
        The units of all slots.
    outcome, outcome_of_node : array, int32
        The distinct outcomes, and that of each node, where the law has a dispersion.
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
    outcome: Array
    outcome_of_node: IntArray
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
        (number, lists), y = _LAWS[law], pairs.y[:, 0]
        start, factor = lists(pairs, atom_of_pair)
        return cls(
            number,
            columns_of(pairs.bound)[x],
            np.ascontiguousarray(pairs.bound.offset[x]),
            np.ascontiguousarray(pairs.trials[first, 0]),
            np.searchsorted(atom_of_pair[node0[:-1]], atoms),
            node0,
            unit0.astype(np.int64),
            np.stack([y, weight, factor], axis=1),
            start[factor == 0],
            unit.astype(np.int32),
            *_outcomes(law, pairs),
            np.ascontiguousarray(atom_of_cell, np.int64),
            np.ascontiguousarray(slot_of_cell, np.int64),
        )

    @property
    def arrays(self) -> tuple[Array | IntArray, ...]:
        """In the order of the kernel's `Groups`."""
        of_atoms = (self.z, self.offset, self.trials, self.slot0)
        of_slots = (self.node0, self.unit0, self.node, self.start, self.unit)
        of_outcomes = (self.outcome, self.outcome_of_node)
        return *of_atoms, *of_slots, *of_outcomes, self.atom_of_cell, self.slot_of_cell


def columns_of(bound: AbstractBound) -> Array:
    """The columns of the main predictor, and one of 0 for each further one, (n_x, d)."""
    main = bound.designs[0]
    if main.shape[1] == bound.n_params:
        return np.ascontiguousarray(main)
    return np.hstack([main, np.zeros((len(main), bound.n_params - main.shape[1]))])


def further_constant(bound: AbstractBound) -> bool:
    """Whether each predictor but the first is one parameter, the same in all rows."""
    # Standardised intercepts are 1 to rounding.
    return all(z.shape[1] == 1 and bool((abs(z - 1) < 1e-14).all()) for z in bound.designs[1:])


def _outcomes(law: str, pairs: Pairs) -> tuple[Array, IntArray]:
    """The distinct outcomes and that of each pair, for a law that needs them."""
    if law != "negativebinomial":
        return np.zeros(0), np.zeros(0, np.int32)
    outcome, number = pairs.outcomes
    return outcome, number.astype(np.int32)


_Lists = tuple[Array, Array]
"""What the pmf is computed from at each node, and factors of the nodes."""


def _poisson(pairs: Pairs, atom: IntArray) -> _Lists:
    form, factor = pairs.canonical, _factors(pairs.y[:, 0], atom)
    assert form is not None
    return np.column_stack([form.centre, form.level]), factor


def _negbin(pairs: Pairs, atom: IntArray) -> _Lists:
    """Beside what depends on the dispersion it is Poisson's: y eta - log y! about its maximum."""
    y = pairs.y[:, 0]
    count = np.maximum(y, 1.0)
    level = count - HALF_LOG_2PI - 0.5 * np.log(count) - stirling_error(count)
    level = np.where(y > 0, level, 0.0)
    return np.column_stack([np.log(count), level]), _factors(y, atom)


def _factors(y: Array, atom: IntArray) -> Array:
    """1 / y where the outcome before is y - 1, of the same atom, in runs that are not long.

    Where a run begins the pmf may be 0 by underflow. So short a run later it is still as good as 0.
    """
    follows = np.zeros(y.size, bool)
    follows[1:] = (y[1:] == y[:-1] + 1) & (atom[1:] == atom[:-1])
    number = np.arange(y.size)
    within = number - np.maximum.accumulate(np.where(follows, 0, number))
    return np.where(follows & (within % _RUN != 0), 1 / np.maximum(y, 1.0), 0.0)


def _successes(pairs: Pairs, _: IntArray) -> _Lists:
    y, trials = pairs.y, pairs.trials
    ways = gammaln(trials + 1) - gammaln(y + 1) - gammaln(trials - y + 1)
    return np.column_stack([np.zeros_like(y), ways]), np.zeros(len(y))


def _tail(pairs: Pairs, _: IntArray) -> _Lists:
    return np.zeros((len(pairs.y), 2)), np.zeros(len(pairs.y))


_LAWS: dict[str, tuple[int, Callable[[Pairs, IntArray], _Lists]]] = {
    "tail_logit": (0, _tail),
    "tail_probit": (1, _tail),
    "tail_cloglog": (2, _tail),
    "successes_logit": (3, _successes),
    "successes_cloglog": (4, _successes),
    "poisson": (5, _poisson),
    "negativebinomial": (6, _negbin),
}

LAWS = frozenset(_LAWS)
"""The laws that the kernel knows; their numbers are those of its ``TAIL_LOGIT, ...``."""
