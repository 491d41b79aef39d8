"""Work on the partitions of a Dask DataFrame, wherever Dask computes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import pandas as pd

from tvdbayes._errors import DataError, MemoryBudgetError, SettingsError, TVDBayesError

_BRANCHES = 8
"""Results that one task joins."""


def dask_module(name: str) -> Any:
    """The module "dask" or "distributed", or an error that says how to get it."""
    try:
        return import_module(name)
    except ImportError as error:
        raise SettingsError("Rows in Dask need it. Run: pip install 'tvdbayes[dask]'") from error


def partitions(
    data: Any, work: Callable[..., Any], *more: Any, each: Sequence[tuple[Any, ...]] | None = None
) -> list[Any]:
    """For each partition a task for ``work(frame, *own, *more)``; errors name the partition.

    What is its own comes from `each`.
    """
    delayed = dask_module("dask").delayed
    task, shared = delayed(_on_partition, pure=False), delayed(_Work(work, more), pure=False)
    parts = data.to_delayed()
    own = [()] * len(parts) if each is None else each
    return [task(part, number, own[number], shared) for number, part in enumerate(parts)]


@dataclass(frozen=True, eq=False)
class _Work:
    """A function and its last arguments, in which Dask does not look for tasks."""

    work: Callable[..., Any]
    more: tuple[Any, ...]


def _on_partition(part: pd.DataFrame, number: int, own: tuple[Any, ...], shared: _Work) -> Any:
    try:
        return shared.work(part, *own, *shared.more)
    except TVDBayesError as error:
        raise type(error)(f"In partition {number}: {error}") from error


def tree(parts: Sequence[Any], join: Callable[[Sequence[Any]], Any]) -> Any:
    """A task that joins the results of tasks, eight neighbours at a time.

    Its shape depends on the number of parts alone, so that sums are the same wherever they are
    computed.
    """
    task = dask_module("dask").delayed(join, pure=False)
    while len(parts) > 1:
        parts = [task(list(parts[at : at + _BRANCHES])) for at in range(0, len(parts), _BRANCHES)]
    return parts[0]


def compute(task: Any) -> Any:
    """The result of a task, computed where Dask's settings or the client in use say."""
    try:
        return task.compute()
    except TVDBayesError as error:
        # A client keeps the error, and its traceback would keep rows in memory.
        copied = type(error)(str(error))
        error.__traceback__ = None
        raise copied from None
    except Exception as error:
        if type(error).__name__ != "KilledWorker":
            raise
        raise MemoryBudgetError(
            "Workers were lost again and again over the same rows, most likely for want of "
            "memory. Give each worker more memory, or make partitions smaller "
            "(data.repartition)."
        ) from error


def joined_frames(frames: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """The rows of several frames, those without rows aside; categories have the same levels."""
    some = [frame for frame in frames if len(frame)] or list(frames[:1])
    for name in some[0].columns:
        if len({_levels(frame[name]) for frame in some}) > 1:
            raise DataError(
                f"The category {name!r} has other levels in other partitions. Call "
                "data.categorize() first, or make the column text."
            )
    return pd.concat(some)


def _levels(column: pd.Series) -> tuple[object, ...]:
    """The levels of a category, in order."""
    kind = column.dtype
    return tuple(kind.categories) if isinstance(kind, pd.CategoricalDtype) else ()
