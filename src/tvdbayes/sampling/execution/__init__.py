"""Run blocks of draws: here, on several processes, or on a cluster.

Every block is computed with one BLAS thread and in the same shapes wherever it runs, so the results
are the same bit for bit. A block whose worker dies is done again, never dropped.
"""

import sys

from tvdbayes.sampling.execution._clusters import CLUSTERS, AbstractCluster, Dask, OnCluster, Ray
from tvdbayes.sampling.execution._executors import (
    AbstractExecutor,
    Joblib,
    Serial,
    Threads,
    single_threaded,
)
from tvdbayes.sampling.execution._parents import beside

__all__ = [
    "AbstractCluster",
    "AbstractExecutor",
    "Dask",
    "Joblib",
    "OnCluster",
    "Ray",
    "Serial",
    "Threads",
    "beside",
    "executor_for",
    "single_threaded",
]


def executor_for(n_jobs: int | None, n_affordable: int, threads: bool = False) -> AbstractExecutor:
    """The executor for this many jobs.

    Parameters
    ----------
    n_jobs : int or None
        1 is this process, always. Above that, and -1 for all there are, the back end is that of
        joblib's context. None is what the context says: its own number of jobs, else all of a
        cluster that it names, else 1.
    n_affordable : int
        Blocks that the memory of one machine can hold. Workers of a cluster have their own.
    threads : bool
        Whether the work leaves room for other threads of this process, which then do what
        processes of joblib's own would do.
    """
    # Without joblib there is no context, and importing it takes a tenth of a second.
    if n_jobs == 1 or (n_jobs is None and "joblib" not in sys.modules):
        return Serial()
    from joblib import cpu_count
    from joblib.parallel import get_active_backend

    backend, n_in_context = get_active_backend()
    module = type(backend).__module__
    n_jobs = n_in_context if n_jobs is None else n_jobs
    if module in CLUSTERS:
        cluster = CLUSTERS[module](backend)
        whole = n_jobs is None or n_jobs < 0
        return Serial() if cluster is None else OnCluster(cluster, None if whole else n_jobs)
    if n_jobs is not None and n_jobs < 0:
        n_jobs += 1 + cpu_count()
    n_jobs = min(n_jobs or 1, n_affordable)
    if n_jobs <= 1:
        return Serial()
    own = type(backend).__name__ == "LokyBackend"
    return Threads(n_jobs) if threads and own else Joblib(n_jobs)
