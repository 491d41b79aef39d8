"""Ways to run blocks on other machines: Dask and Ray, as joblib's context names them."""

import logging
import warnings
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass
from importlib import import_module
from typing import Any, TypeVar

from tvdbayes import kernel
from tvdbayes.sampling.execution._executors import AbstractExecutor, alone

Result = TypeVar("Result")

_LOG = logging.getLogger("tvdbayes")

_PATIENCE = 30.0
"""Seconds without a block after which a cluster is asked whether it has workers at all."""


def _shipped(work: Callable[[int], Result]) -> Callable[[int], Result]:
    # What arrives by Dask may lie at odd addresses, where NumPy adds up in another order.
    return deepcopy(work)


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
        # Tasks are cancelled when somebody restarts the cluster; a result that does not come is
        # lost with the last worker.
        return self.library.KilledWorker, CancelledError, TimeoutError

    def ship(self, work: Callable[[int], Any]) -> Any:
        # As a task, not as scattered data: those are lost with their worker, a task is done again.
        # That it is large is known, and no reason for a warning.
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Sending large graph", UserWarning)
            return self.client.submit(_shipped, work, pure=False)

    def submit(self, shipped: Any, block: int) -> Any:
        return self.client.submit(alone, shipped, block, pure=False, **self.options)

    def finished(self, tasks: Mapping[int, Any]) -> list[int]:
        with suppress(TimeoutError, CancelledError):
            self.library.wait(
                list(tasks.values()), timeout=_PATIENCE, return_when="FIRST_COMPLETED"
            )
        return [block for block, task in tasks.items() if task.done()]

    def result(self, task: Any) -> Any:
        return task.result(timeout=_PATIENCE)

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
        return self.library.remote(alone).options(**self.options).remote(shipped, block)

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
        cluster, shipped, work = self.cluster, None, kernel.under(work)
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
                            done[each] = alone(work, each)
                            shipped = None
                    if (shipped is None or not finished) and cluster.size == 0:
                        _LOG.warning("The cluster has no workers left; going on in this process.")
                        cluster.cancel(list(running.values()))
                        todo.clear()
                        running.clear()
                yield done.pop(block) if block in done else alone(work, block)
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
CLUSTERS: Mapping[str, Callable[[Any], AbstractCluster | None]] = {
    "joblib._dask": _dask,
    "ray.util.joblib.ray_backend": _ray,
}
