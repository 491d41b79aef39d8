"""Processes that end with the one that they work for."""

import multiprocessing
import os
import time
from collections.abc import Callable
from functools import cache
from threading import Thread
from typing import ParamSpec, TypeVar

__all__ = ["beside"]

P = ParamSpec("P")
Result = TypeVar("Result")

_SECONDS = 0.5
"""How often a worker looks whether its parent is still there."""


def beside(parent: int, work: Callable[P, Result], *args: P.args, **kwargs: P.kwargs) -> Result:
    """Do work for another process, or this one, by its number; and end with it."""
    if parent != os.getpid():
        _end_with(parent)
    return work(*args, **kwargs)


@cache
def _end_with(parent: int) -> None:
    """End this process as soon as its parent is gone, even if that was killed.

    Workers of loky wait five minutes for work before they end by themselves, and finish first what
    nobody will read. A signal on the death of the parent (Linux) would not do: it comes when the
    thread that has started the worker ends, which may be long before the process does.
    """
    Thread(target=_watch, args=(parent,), name="tvdbayes-parent", daemon=True).start()


def _watch(parent: int) -> None:
    known = multiprocessing.parent_process()
    if known is not None:
        # Windows, and workers that multiprocessing has started: the system tells.
        known.join()
    else:
        while os.getppid() == parent:
            time.sleep(_SECONDS)
    os._exit(1)
