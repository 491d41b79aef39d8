"""Chunks of rows that the workers of a Dask cluster keep, and sums over them.

A sum over chunks is a tree whose shape depends on their number alone, so that the result is the
same bit for bit whatever the number of workers, and when some of them die on the way.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import Any, TypeVar

from tvdbayes._errors import MemoryBudgetError, TVDBayesError
from tvdbayes.large.cluster.chunks import Chunk, Rules
from tvdbayes.large.cluster.sums import AbstractSum, Sums, added
from tvdbayes.large.cluster.workers import dask_module, give_memory_back
from tvdbayes.sampling.execution import single_threaded

Part = TypeVar("Part")

_BRANCHES = 8
"""Parts that one task adds up."""


class AbstractRows(ABC):
    """Rows that sums are taken over."""

    rules: Rules

    @abstractmethod
    def total(self, wanted: AbstractSum) -> Sums:
        """A sum over all rows."""


@dataclass(frozen=True, eq=False)
class DaskRows(AbstractRows):
    """Chunks that the workers of a cluster hold.

    Parameters
    ----------
    rules : Rules
    client : distributed.Client
    chunks : list of Future
        Each a `Chunk`. The cluster knows how each was made: it puts on disk what does not fit, and
        makes again what is lost with a worker.
    """

    rules: Rules
    client: Any
    chunks: Sequence[Any]

    def total(self, wanted: AbstractSum) -> Sums:
        """A sum over all rows."""
        submit = self.client.submit
        # As the result of a task it is sent to each worker once, and made again if that dies; what
        # a client scatters to a worker is lost with it.
        asked = submit(_same, wanted, pure=False)
        parts = self.client.map(_over, self.chunks, rules=self._rules, wanted=asked, pure=False)
        found: Sums = result_of(_tree(parts, lambda some: submit(_sum, some, pure=False)))
        return found

    @cached_property
    def _rules(self) -> Any:
        return self.client.submit(_same, self.rules, pure=False)


def _same(value: Part) -> Part:
    return value


def _over(chunk: Chunk, rules: Rules, wanted: AbstractSum) -> Sums:
    with single_threaded():
        found = wanted.over(chunk, rules)
    give_memory_back()
    return found


def _sum(parts: Sequence[Sums]) -> Sums:
    return reduce(added, parts)


def _tree(parts: Sequence[Part], add: Callable[[Sequence[Part]], Part]) -> Part:
    """All parts added up, eight neighbours at a time."""
    while len(parts) > 1:
        parts = [add(parts[at : at + _BRANCHES]) for at in range(0, len(parts), _BRANCHES)]
    return parts[0]


def joined(client: Any, parts: Sequence[Any], join: Callable[[Sequence[Any]], Any]) -> Any:
    """The results of tasks, neighbours joined in a tree on the workers."""
    if len(parts) == 1:
        return result_of(client.submit(join, parts, pure=False))
    return result_of(_tree(parts, lambda some: client.submit(join, some, pure=False)))


def result_of(future: Any) -> Any:
    """The result of a task; raise `MemoryBudgetError` if its workers died."""
    try:
        return future.result()
    except TVDBayesError as error:
        # The client keeps the error, and its traceback would keep chunks in memory.
        copied = type(error)(str(error))
        error.__traceback__ = None
        raise copied from None
    except dask_module("distributed").KilledWorker as error:
        raise MemoryBudgetError(
            "Workers were lost again and again over the same rows, most likely for want of "
            "memory. Give each worker more memory, or make the chunks smaller (chunk_rows)."
        ) from error
