"""Ways to run blocks on this machine."""

import logging
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from threading import Event
from typing import Any, TypeVar

from tvdbayes import kernel
from tvdbayes.sampling.execution._parents import beside
from tvdbayes.sampling.execution._threads import single_threaded

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
