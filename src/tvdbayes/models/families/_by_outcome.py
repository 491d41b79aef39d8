"""What a law has of an outcome and its dispersion alone, worked out once for each outcome.

This is where special functions are, which are slow, and the usual case is a dispersion without
covariates: the same in all rows.
"""

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import numpy as np

from tvdbayes._array import known, on_device, xp
from tvdbayes._typing import Array

_Tables = dict[Hashable, Array]

_KNOWN: ContextVar[tuple[Array, _Tables] | None] = ContextVar("known outcomes", default=None)
"""All outcomes of the pairs that are evaluated, a chunk at a time, and what is known of them."""


_FIRST = np.zeros(1, np.intp)


@contextmanager
def once_per_outcome(outcomes: Array) -> Iterator[None]:
    """Let `by_outcome` keep its tables while pairs with these sorted outcomes are evaluated."""
    token = _KNOWN.set((outcomes, {}))
    try:
        yield
    finally:
        _KNOWN.reset(token)


def by_outcome(law: Callable[[Array, Array], Array], y: Array, size: Array) -> Array:
    """``law(y, size)`` (..., Q, B), once for each distinct y where all rows have the same size.

    Axes along which neither y nor the size changes have length 1 in what is returned. The law must
    be one function wherever it is asked for: its tables are found again by it.
    """
    size = _narrowed(size)
    if not (y.ndim == 2 and y.shape[1] == 1 and size.ndim == 2 and len(y) > 1 == len(size)):
        return law(y, size)
    kept = None if on_device(y, size) else _KNOWN.get()
    if kept is not None:
        outcomes, tables = kept
        index = np.minimum(np.searchsorted(outcomes, y[:, 0]), len(outcomes) - 1)
        if np.array_equal(outcomes[index], y[:, 0]):
            key = law, size[0].tobytes()
            if key not in tables:
                tables[key] = law(outcomes[:, None], size)
            return tables[key].take(index, axis=-2)
    outcomes, index = xp.unique(y[:, 0], return_inverse=True)
    return law(outcomes[:, None], size).take(index, axis=-2)


def _narrowed(size: Array) -> Array:
    """The size (..., rows, draws) with one entry along each of its last two axes where it is
    known to be the same.
    """
    for axis in range(-min(2, size.ndim), 0):
        first = size.take(_FIRST, axis=axis) if size.shape[axis] > 1 else size
        if known((size == first).all(), False):
            size = first
    return size
