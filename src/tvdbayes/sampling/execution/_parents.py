"""Processes that end with the one that they work for."""

import multiprocessing
import os
import time
from collections.abc import Callable
from functools import cache
from threading import Thread
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
Result = TypeVar("Result")

_SECONDS = 0.5
"""How often a worker looks whether its parent is still there."""


def beside(parent: int, work: Callable[P, Result], *args: P.args, **kwargs: P.kwargs) -> Result:
    """Do work for a process, given by its number: this one, or the parent, to end with it."""
    if parent != os.getpid():
        _end_with_parent()
    return work(*args, **kwargs)


@cache
def _end_with_parent() -> None:
    """End this process as soon as its parent is gone, even if that was killed.

    Workers of loky wait five minutes for work before they end by themselves, and finish first what
    nobody will read. A signal on the death of the parent (Linux) would not do: it comes when the
    thread that has started the worker ends, which may be long before the process does.
    """
    watch = _watch_number if os.name == "posix" else _watch_handle
    Thread(target=watch, args=(os.getppid(),), name="tvdbayes-parent", daemon=True).start()


def _watch_number(parent: int) -> None:
    # An orphan is given another parent.
    while os.getppid() == parent:
        time.sleep(_SECONDS)
    os._exit(1)


def _watch_handle(parent: int) -> None:
    # Windows keeps the number of a parent that has ended, but tells who waits for it.
    process = multiprocessing.parent_process()
    if process is not None and process.pid == parent:
        process.join()
        os._exit(1)
