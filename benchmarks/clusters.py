"""The same fit in one process, on several, on Dask and on Ray: seconds, and whether bits differ."""

import os
import time
from contextlib import contextmanager
from importlib.util import find_spec

import joblib
import numpy as np

import tvdbayes as tb
from benchmarks._designs import logit
from benchmarks._report import Table

N_WORKERS = 2
REPEATS = 3


@contextmanager
def one_process():
    yield 1


@contextmanager
def loky():
    yield N_WORKERS


@contextmanager
def dask():
    from dask.distributed import Client, LocalCluster

    cluster = LocalCluster(n_workers=N_WORKERS, threads_per_worker=1, dashboard_address=":0")
    with cluster, Client(cluster), joblib.parallel_config("dask"):
        yield N_WORKERS


@contextmanager
def ray():
    import ray as library
    from ray.util.joblib import register_ray

    register_ray()
    library.init(num_cpus=N_WORKERS, include_dashboard=False, log_to_driver=False)
    with joblib.parallel_config("ray"):
        yield N_WORKERS
    library.shutdown()


def bits(fit):
    return b"".join(
        getattr(fit, name).tobytes() for name in ("draws", "distance", "kld_draws", "kld_distance")
    )


def timed(cells, n_draws, n_jobs):
    started = time.perf_counter()
    fit = tb.posterior_bootstrap(
        tb.Model(tb.Bernoulli()), cells, n_draws=n_draws, n_jobs=n_jobs, refine=None
    )
    return fit, time.perf_counter() - started


def run(quick=False):
    n, n_draws = (300, 8) if quick else (10_000, 1000)
    x, y, _ = logit(np.random.default_rng(501), n, 5, 0.05)
    cells = tb.Cells.from_rows(x, y)
    places = {"one process": one_process, "loky, 2": loky}
    places |= {"Dask, 2": dask} if find_spec("distributed") else {}
    places |= {"Ray, 2": ray} if find_spec("ray") else {}
    lines, alone = [], None
    for name, place in places.items():
        with place() as n_jobs:
            # The first fit starts processes and imports what they need.
            timed(cells, n_draws // 10 + 1, n_jobs)
            fits = [timed(cells, n_draws, n_jobs) for _ in range(REPEATS)]
        seconds = min(each for _, each in fits)
        alone = alone or (bits(fits[0][0]), seconds)
        equal = "yes" if all(bits(fit) == alone[0] for fit, _ in fits) else "no"
        lines.append((name, seconds, alone[1] / seconds, equal))
        print(lines[-1], flush=True)
    Table(
        "clusters",
        "clusters",
        f"One fit of {n_draws:,} draws (logit, n = {n:,}, p = 5, a twentieth leverage points) in "
        f"one process and on two workers, on a machine with {os.cpu_count()} cores: more speedup "
        "than that is impossible here, and what is done before the draws (groups, starts, pilot) "
        "is not spread. Seconds for the whole fit, best of 3, workers started before; speedup; and "
        "whether all draws and distances are those of one process bit for bit.",
        ("where", "seconds", "speedup", "same bits"),
        lines,
        f"{os.cpu_count()} cores",
    ).publish()
