"""Run blocks of draws: here, or on several processes.

Every block is computed with one BLAS thread and in the same shapes wherever it runs, so the results
are the same bit for bit.
"""

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import TypeVar

import numpy as np
from threadpoolctl import ThreadpoolController

__all__ = ["AbstractExecutor", "Joblib", "Serial", "executor_for", "single_threaded"]

Result = TypeVar("Result")

_LOG = logging.getLogger("tvdbayes")


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


@contextmanager
def single_threaded() -> Iterator[None]:
    """One BLAS thread, so that sums are added up in the same order everywhere."""
    _keep_freed_memory()
    with _threads().limit(limits=1, user_api="blas"):
        yield


def _alone(work: Callable[[int], Result], block: int) -> Result:
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
            yield _alone(work, block)


@dataclass(frozen=True)
class Joblib(AbstractExecutor):
    """Several blocks at once through joblib, whose back ends include loky, Dask and Ray.

    If a worker is killed (by the system, for its memory), what is not done yet is done here.
    """

    n_jobs: int

    def map(self, work: Callable[[int], Result], blocks: range) -> Iterator[Result]:
        from joblib import Parallel, delayed
        from joblib.externals.loky.process_executor import TerminatedWorkerError

        tasks = (delayed(_alone)(work, block) for block in blocks)
        n_done = 0
        try:
            for result in Parallel(self.n_jobs, return_as="generator")(tasks):
                yield result
                n_done += 1
        except TerminatedWorkerError as error:
            _LOG.warning("A worker was killed; going on in this process. (%s)", error)
            yield from Serial().map(work, blocks[n_done:])


def executor_for(n_jobs: int) -> AbstractExecutor:
    """The executor for this many jobs."""
    return Serial() if n_jobs == 1 else Joblib(n_jobs)
