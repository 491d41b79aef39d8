"""Run blocks of draws: here, on several processes, or on a cluster.

Every block is computed with one BLAS thread and in the same shapes wherever it runs, so the results
are the same bit for bit. A block whose worker dies is done again, never dropped.
"""

import ctypes
import logging
import os
import platform
import warnings
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from threading import Lock
from typing import Any, TypeVar

import numpy as np
from threadpoolctl import ThreadpoolController

__all__ = [
    "AbstractCluster",
    "AbstractExecutor",
    "Dask",
    "Joblib",
    "OnCluster",
    "Ray",
    "Serial",
    "executor_for",
    "single_threaded",
]

Result = TypeVar("Result")

_LOG = logging.getLogger("tvdbayes")

_PATIENCE = 30.0
"""Seconds without a block after which a cluster is asked whether it has workers at all."""

_WAVE = 4
"""Blocks for each worker in one call of a back end that cannot hand back results one by one."""


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


def _alone(work: Callable[[int], Result], block: int) -> Result:
    with single_threaded():
        return work(block)


def _shipped(work: Callable[[int], Result]) -> Callable[[int], Result]:
    return work


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
    """Several blocks at once on this machine, through joblib: loky unless a context says otherwise.

    If a worker is killed (by the system, for its memory), what is not done yet is done here.
    """

    n_jobs: int

    def map(self, work: Callable[[int], Result], blocks: range) -> Iterator[Result]:
        from joblib.externals.loky.process_executor import TerminatedWorkerError

        n_done = 0
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
            return (delayed(_alone)(work, block) for block in some)

        if get_active_backend()[0].supports_return_generator:
            yield from Parallel(self.n_jobs, return_as="generator")(tasks(blocks))
            return
        with Parallel(self.n_jobs) as parallel:
            for at in range(0, len(blocks), _WAVE * self.n_jobs):
                yield from parallel(tasks(blocks[at : at + _WAVE * self.n_jobs]))


class AbstractCluster(ABC):
    """Workers with memory of their own, perhaps on other machines, that joblib's context names.

    They are spoken to directly: joblib's Dask back end waits for ever for a task that was given up,
    and its Ray back end starts no worker in place of one that died. Both libraries do a task again
    on another worker, a few times, before they give it up.
    """

    @property
    @abstractmethod
    def size(self) -> int:
        """How many blocks it can compute at once; 0 if no worker is left."""

    @property
    @abstractmethod
    def lost(self) -> tuple[type[BaseException], ...]:
        """Errors that say that a worker was lost, not that the work was wrong."""

    @abstractmethod
    def ship(self, work: Callable[[int], Any]) -> Any:
        """Send the work, which may be large, once to each worker; returns what stands for it."""

    @abstractmethod
    def submit(self, shipped: Any, block: int) -> Any:
        """Start a block; returns a task."""

    @abstractmethod
    def finished(self, tasks: Mapping[int, Any]) -> list[int]:
        """Blocks of these that are done or lost; waits for one, at most `_PATIENCE`."""

    @abstractmethod
    def result(self, task: Any) -> Any:
        """What a finished block gave, or what it raised."""

    @abstractmethod
    def cancel(self, tasks: Sequence[Any]) -> None:
        """Forget these tasks."""


@dataclass(frozen=True)
class Dask(AbstractCluster):
    """A Dask cluster.

    Parameters
    ----------
    library : module
        `distributed`.
    client : distributed.Client
        Who speaks to the cluster.
    options : mapping
        What joblib's context wants tasks to be submitted with.
    """

    library: Any
    client: Any
    options: Mapping[str, Any]

    @property
    def size(self) -> int:
        return sum(self.client.ncores().values())

    @property
    def lost(self) -> tuple[type[BaseException], ...]:
        # Tasks are cancelled when somebody restarts the cluster.
        return self.library.KilledWorker, CancelledError

    def ship(self, work: Callable[[int], Any]) -> Any:
        # As a task, not as scattered data: those are lost with their worker, a task is done again.
        # That it is large is known, and no reason for a warning.
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Sending large graph", UserWarning)
            return self.client.submit(_shipped, work, pure=False)

    def submit(self, shipped: Any, block: int) -> Any:
        return self.client.submit(_alone, shipped, block, pure=False, **self.options)

    def finished(self, tasks: Mapping[int, Any]) -> list[int]:
        with suppress(TimeoutError, CancelledError):
            self.library.wait(
                list(tasks.values()), timeout=_PATIENCE, return_when="FIRST_COMPLETED"
            )
        return [block for block, task in tasks.items() if task.done()]

    def result(self, task: Any) -> Any:
        return task.result()

    def cancel(self, tasks: Sequence[Any]) -> None:
        if tasks:
            self.client.cancel(tasks)


@dataclass(frozen=True)
class Ray(AbstractCluster):
    """A Ray cluster.

    Parameters
    ----------
    library : module
        `ray`.
    options : mapping
        What joblib's context wants tasks to be submitted with.
    """

    library: Any
    options: Mapping[str, Any]

    @property
    def size(self) -> int:
        return int(self.library.cluster_resources().get("CPU", 0))

    @property
    def lost(self) -> tuple[type[BaseException], ...]:
        of = self.library.exceptions
        return of.WorkerCrashedError, of.NodeDiedError, of.OutOfMemoryError, of.ObjectLostError

    def ship(self, work: Callable[[int], Any]) -> Any:
        return self.library.put(work)

    def submit(self, shipped: Any, block: int) -> Any:
        return self.library.remote(_alone).options(**self.options).remote(shipped, block)

    def finished(self, tasks: Mapping[int, Any]) -> list[int]:
        running = list(tasks.values())
        self.library.wait(running, num_returns=1, timeout=_PATIENCE)
        ready, _ = self.library.wait(running, num_returns=len(running), timeout=0)
        return [block for block, task in tasks.items() if task in ready]

    def result(self, task: Any) -> Any:
        try:
            return self.library.get(task)
        except self.library.exceptions.RayTaskError as error:
            raise error.cause from error

    def cancel(self, tasks: Sequence[Any]) -> None:
        for task in tasks:
            self.library.cancel(task)


@dataclass(frozen=True)
class OnCluster(AbstractExecutor):
    """At most `n_jobs` blocks at once on a cluster; None is all of it, as it grows and shrinks.

    A block that the cluster gives up is done here, and so is all the rest if no worker is left.
    """

    cluster: AbstractCluster
    n_jobs: int | None

    def map(self, work: Callable[[int], Result], blocks: range) -> Iterator[Result]:
        cluster, shipped = self.cluster, None
        todo, running, done = deque(blocks), dict[int, Any](), dict[int, Result]()
        try:
            for block in blocks:
                while block not in done and (todo or running):
                    shipped = cluster.ship(work) if shipped is None else shipped
                    while todo and len(running) < self._most():
                        running[todo[0]] = cluster.submit(shipped, todo[0])
                        todo.popleft()
                    finished = cluster.finished(running)
                    for each in finished:
                        try:
                            done[each] = cluster.result(running.pop(each))
                        except cluster.lost as error:
                            _LOG.warning("A worker was lost; doing its block here. (%s)", error)
                            done[each] = _alone(work, each)
                            shipped = None
                    if (shipped is None or not finished) and cluster.size == 0:
                        _LOG.warning("The cluster has no workers left; going on in this process.")
                        cluster.cancel(list(running.values()))
                        todo.clear()
                        running.clear()
                yield done.pop(block) if block in done else _alone(work, block)
        finally:
            # After Ctrl-C or an error, nobody waits for the rest.
            cluster.cancel(list(running.values()))

    def _most(self) -> int:
        """Blocks to have submitted: for all of a cluster twice its size, so that none waits."""
        return max(1, 2 * self.cluster.size if self.n_jobs is None else self.n_jobs)


def _dask(backend: Any) -> AbstractCluster | None:
    distributed = import_module("distributed")
    try:
        distributed.get_worker()
    except ValueError:
        # This waits until there are workers, or says that there are none.
        backend.effective_n_jobs(-1)
        return Dask(distributed, backend.client, backend.submit_kwargs)
    # A task that waits for other tasks would hold a worker that they need.
    return None


def _ray(backend: Any) -> AbstractCluster:
    ray = import_module("ray")
    if not ray.is_initialized():
        ray.init()
    return Ray(ray, backend.ray_remote_args or {})


# By the module of joblib's back end, so that neither library is imported unless it is in use.
_CLUSTERS: Mapping[str, Callable[[Any], AbstractCluster | None]] = {
    "joblib._dask": _dask,
    "ray.util.joblib.ray_backend": _ray,
}


def executor_for(n_jobs: int | None, n_affordable: int) -> AbstractExecutor:
    """The executor for this many jobs.

    Parameters
    ----------
    n_jobs : int or None
        1 is this process, always. Above that, and -1 for all there are, the back end is that of
        joblib's context. None is what the context says: its own number of jobs, else all of a
        cluster that it names, else 1.
    n_affordable : int
        Blocks that the memory of one machine can hold. Workers of a cluster have their own.
    """
    if n_jobs == 1:
        return Serial()
    from joblib import cpu_count
    from joblib.parallel import get_active_backend

    backend, n_in_context = get_active_backend()
    module = type(backend).__module__
    n_jobs = n_in_context if n_jobs is None else n_jobs
    if module in _CLUSTERS:
        cluster = _CLUSTERS[module](backend)
        whole = n_jobs is None or n_jobs < 0
        return Serial() if cluster is None else OnCluster(cluster, None if whole else n_jobs)
    if n_jobs is not None and n_jobs < 0:
        n_jobs += 1 + cpu_count()
    n_jobs = min(n_jobs or 1, n_affordable)
    return Serial() if n_jobs <= 1 else Joblib(n_jobs)
