"""Chunks of rows, and sums over them.

A sum over chunks is a tree whose shape depends on their number alone, so that the result is the
same bit for bit whatever the number of workers, and when some of them die on the way.
"""

import ctypes
import sys
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import numpy as np

from tvdbayes._typing import Array
from tvdbayes.data.parts import compute, dask_module, tree
from tvdbayes.data.sample import AllRows
from tvdbayes.large.chunks import Chunk, Rules, realigned
from tvdbayes.large.encode import Encoder
from tvdbayes.large.sums import Sum, Sums
from tvdbayes.sampling.execution import single_threaded


class AbstractRows(ABC):
    """Rows that sums are taken over."""

    rules: Rules

    @abstractmethod
    def total(self, wanted: Sum) -> Sums:
        """A sum over all rows."""


@dataclass(frozen=True, eq=False)
class DaskRows(AbstractRows):
    """Chunks that are kept where Dask computes.

    Parameters
    ----------
    rules : Rules
    chunks : list of Delayed
        Each a `Chunk`. A cluster knows how each was made: it puts on disk what does not fit, and
        makes again what is lost with a worker.
    shared : Delayed
        The rules, sent to each worker once.
    """

    rules: Rules
    chunks: Sequence[Any]
    shared: Any

    @classmethod
    def of(cls, rest: AllRows, encoder: Encoder, rules: Rules) -> "DaskRows":
        """Encode all rows, and keep them."""
        dask = dask_module("dask")
        chunks = dask.persist(*rest.tasks(_encoded, encoder))
        return cls(rules, chunks, dask.delayed(_Held(rules), pure=False))

    def total(self, wanted: Sum) -> Sums:
        """A sum over all rows."""
        delayed = dask_module("dask").delayed
        # Copied here, too, so that arrays are in one piece wherever the sum is taken.
        asked = delayed(_Held(deepcopy(wanted)), pure=False)
        over = delayed(_over, pure=False)
        parts = [over(chunk, self.shared, asked) for chunk in self.chunks]
        found: Sums = compute(tree(parts, wanted.joined))
        return tuple(np.require(part, requirements=["C", "A"]) for part in found)


@dataclass(frozen=True, eq=False)
class _Held:
    """Something in which Dask does not look for tasks."""

    value: Any

    __setstate__ = realigned


def _encoded(frame: Any, first: int, encoder: Encoder) -> Chunk:
    with single_threaded():
        return encoder.chunk(frame, first)


def _over(chunk: Chunk, rules: _Held, wanted: _Held) -> Sums:
    with single_threaded():
        found: tuple[Array, ...] = wanted.value.over(chunk, rules.value)
    give_memory_back()
    return found


def give_memory_back() -> None:
    """Return to the system what was used and freed, which allocators would keep.

    Rows stay while temporary arrays come and go between them, so that the holes never reach the
    end of the heap. Measured: with twenty chunks, half a gigabyte of a worker, which Dask then
    made up for by putting rows on disk.
    """
    if "pyarrow" in sys.modules:
        sys.modules["pyarrow"].default_memory_pool().release_unused()
    with suppress(AttributeError, OSError, TypeError):
        # Only glibc has this function; other systems do nothing.
        ctypes.CDLL(None).malloc_trim(0)
