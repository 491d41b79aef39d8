"""Ways to run blocks on this machine, with one BLAS thread and memory that stays."""

import ctypes
import logging
import os
import platform
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from threading import Event, Lock
from typing import Any, TypeVar

import numpy as np
from threadpoolctl import OpenBLASController, ThreadpoolController

from tvdbayes import kernel
from tvdbayes.sampling.execution._parents import beside


@cache
def _libraries() -> list[Any]:
    """The BLAS libraries in use, of NumPy and of SciPy."""
    libraries: list[Any] = ThreadpoolController().select(user_api="blas").lib_controllers
    return libraries


def _of_process(library: Any) -> bool:
    """Whether its number of threads is one for the process; else each thread has its own."""
    return bool(library.internal_api == "openblas" and library.threading_layer != "openmp")


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


def _set_threads(numbers: Iterable[int]) -> None:
    """Set the number of threads of each BLAS library, as the calling thread sees it.

    threadpoolctl lets one thread of a process set that of OpenBLAS, and ignores all others without
    a word, until that thread gives this up or somebody takes it away.
    """
    OpenBLASController.clear_controlling_thread(force=True)
    for library, number in zip(_libraries(), numbers, strict=True):
        library.set_num_threads(number)
    OpenBLASController.clear_controlling_thread(force=True)


@dataclass(eq=False)
class _BlasLimit:
    """One BLAS thread, while anybody needs it.

    Where the number is one for the process, a worker with several threads (Dask's usual one)
    computes several blocks at once, and the first to end must not lift the limit for the others.
    Else every thread sets its own, and gives it back.
    """

    lock: Any = field(default_factory=Lock)
    n_users: int = 0
    before: list[int] = field(default_factory=list)

    def enter(self) -> list[int]:
        """Limit the calling thread; returns what its numbers were."""
        with self.lock:
            seen = [library.num_threads for library in _libraries()]
            if self.n_users == 0:
                self.before = seen
            self.n_users += 1
            _set_threads([1] * len(seen))
            return seen

    def leave(self, seen: list[int]) -> None:
        """Undo `enter`, given what it returned."""
        with self.lock:
            self.n_users -= 1
            shared = self.before if self.n_users == 0 else [1] * len(seen)
            _set_threads(
                of_all if _of_process(library) else own
                for library, of_all, own in zip(_libraries(), shared, seen, strict=True)
            )


_BLAS = _BlasLimit()


@contextmanager
def single_threaded() -> Iterator[None]:
    """One BLAS thread, so that sums are added up in the same order everywhere."""
    _keep_freed_memory()
    seen = _BLAS.enter()
    try:
        yield
    finally:
        _BLAS.leave(seen)


Result = TypeVar("Result")

_LOG = logging.getLogger("tvdbayes")

_WAVE = 4
"""Blocks for each worker in one call of a back end that cannot hand back results one by one."""


def alone(work: Callable[[int], Result], block: int) -> Result:
    """A block with one BLAS thread."""
    with single_threaded():
        return work(block)


class AbstractExecutor(ABC):
    """A way to run independent blocks."""

    @abstractmethod
    def map(self, work: Callable[[int], Result], blocks: range) -> Iterator[Result]:
        """Yield ``work(block)`` for these blocks, in their order, as they become ready."""


@dataclass(frozen=True)
class Serial(AbstractExecutor):
    """One block after the other, in this process."""

    def map(self, work: Callable[[int], Result], blocks: range) -> Iterator[Result]:
        for block in blocks:
            yield alone(work, block)


@dataclass(frozen=True)
class Threads(AbstractExecutor):
    """Several blocks at once in this process, for what the compiled kernel does: it lets other
    threads run meanwhile, and nothing has to be started or sent.
    """

    n_jobs: int

    def map(self, work: Callable[[int], Result], blocks: range) -> Iterator[Result]:
        stop = Event()
        work = kernel.under(work, stop)
        with ThreadPoolExecutor(self.n_jobs, "tvdbayes") as threads:
            running = [threads.submit(alone, work, block) for block in blocks]
            try:
                for task in running:
                    yield task.result()
            finally:
                # After Ctrl-C or an error, nobody waits for the rest.
                stop.set()
                for task in running:
                    task.cancel()


@dataclass(frozen=True)
class Joblib(AbstractExecutor):
    """Several blocks at once on this machine, through joblib: loky unless a context says otherwise.

    If a worker is killed (by the system, for its memory), what is not done yet is done here.
    """

    n_jobs: int

    def map(self, work: Callable[[int], Result], blocks: range) -> Iterator[Result]:
        from joblib.externals.loky.process_executor import TerminatedWorkerError

        n_done, work = 0, kernel.under(work)
        try:
            for result in self._spread(work, blocks):
                yield result
                n_done += 1
        except TerminatedWorkerError as error:
            _LOG.warning("A worker was killed; going on in this process. (%s)", error)
            yield from Serial().map(work, blocks[n_done:])

    def _spread(self, work: Callable[[int], Result], blocks: range) -> Iterator[Result]:
        from joblib import Parallel, delayed
        from joblib.parallel import get_active_backend

        def tasks(some: range) -> Iterator[Any]:
            return (delayed(beside)(os.getpid(), alone, work, block) for block in some)

        # A process without a block would never be told to end with this one.
        n_jobs = max(1, min(self.n_jobs, len(blocks)))
        if get_active_backend()[0].supports_return_generator:
            yield from Parallel(n_jobs, return_as="generator")(tasks(blocks))
            return
        with Parallel(n_jobs) as parallel:
            for at in range(0, len(blocks), _WAVE * n_jobs):
                yield from parallel(tasks(blocks[at : at + _WAVE * n_jobs]))
