"""One BLAS thread, and memory that stays: what every block is computed with."""

import ctypes
import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from threading import Lock
from typing import Any

import numpy as np
from threadpoolctl import ThreadpoolController


@cache
def _threads() -> ThreadpoolController:
    return ThreadpoolController()


def _keep_freed_memory() -> None:
    """Let the allocator keep what temporaries free, instead of returning it to the system.

    glibc unmaps large blocks as they are freed, so that every temporary array pays for fresh pages;
    freeing one block just below 32 MiB, never touched, raises that threshold for good. Measured:
    half of the time of a block of draws. Elsewhere it does nothing.
    """
    np.empty((1 << 25) - (1 << 16), np.uint8)
    if "MALLOC_TRIM_THRESHOLD_" in os.environ:
        _unfix_thresholds()


@cache
def _unfix_thresholds() -> None:
    """Set what glibc would have come to by itself, had its thresholds not been fixed at its start.

    Dask starts workers so, to see memory returned at once. Measured: 3.7 times the time of a block.
    """
    if platform.libc_ver()[0] == "glibc":
        trim, mmap, libc = -1, -3, ctypes.CDLL(None)
        libc.mallopt(mmap, 1 << 25)
        libc.mallopt(trim, 1 << 26)


@dataclass(eq=False)
class _BlasLimit:
    """One BLAS thread for the whole process, while anybody needs it.

    The limit belongs to the process. A worker with several threads (Dask's usual one) computes
    several blocks at once, and the first to end must not lift the limit for the others.
    """

    lock: Any = field(default_factory=Lock)
    n_users: int = 0
    limit: Any = None

    def enter(self) -> None:
        with self.lock:
            if self.n_users == 0:
                self.limit = _threads().limit(limits=1, user_api="blas")
            self.n_users += 1

    def leave(self) -> None:
        with self.lock:
            self.n_users -= 1
            if self.n_users == 0:
                self.limit.restore_original_limits()


_BLAS = _BlasLimit()


@contextmanager
def single_threaded() -> Iterator[None]:
    """One BLAS thread, so that sums are added up in the same order everywhere."""
    _keep_freed_memory()
    _BLAS.enter()
    try:
        yield
    finally:
        _BLAS.leave()
