"""Rows that are too many for one worker: a logit on a local Dask cluster with little memory."""

import resource
import tempfile
import time
from pathlib import Path

import numpy as np

import tvdbayes as tb
from benchmarks._designs import logit
from benchmarks._report import Table

_ROWS_OF_A_FILE = 1 << 20
MOST = {False: 500_000, True: 500}


def write(folder, n, p):
    """Files of a million rows each, a tenth of them leverage points with the wrong answer."""
    import pyarrow as pa
    from pyarrow import parquet

    for number, start in enumerate(range(0, n, _ROWS_OF_A_FILE)):
        rng = np.random.default_rng([403, number])
        x, y, beta = logit(rng, min(_ROWS_OF_A_FILE, n - start), p, 0.1)
        columns = {f"x{j}": x[:, j] for j in range(1, p)}
        table = pa.table({"y": y.astype(np.int8), **columns})
        parquet.write_table(table, folder / f"{number:03}.parquet")
    return beta


def peak():
    """Peak memory of this process so far, in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def rmse(found, truth):
    return float(np.sqrt(np.mean((found - truth) ** 2)))


def measure(n, n_draws, n_workers, limit, quick, p=10):
    import dask.dataframe as dd
    from distributed import Client, LocalCluster

    formula = "y ~ " + " + ".join(f"x{j}" for j in range(1, p))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        beta = write(folder, n, p)
        workers = LocalCluster(
            n_workers=n_workers,
            threads_per_worker=1,
            memory_limit=limit,
            dashboard_address=":0",
        )
        with workers as cluster, Client(cluster) as client:
            start = time.perf_counter()
            rows = dd.read_parquet(folder).repartition(partition_size="24MB")
            fit = tb.fit(formula, rows, family="bernoulli", n_draws=n_draws, max_cells=MOST[quick])
            seconds = time.perf_counter() - start
            peaks = client.run(peak)
    certified = float((np.r_[fit.status, fit.posterior.kld_status] == 0).mean())
    return (
        n,
        n_draws,
        f"{n_workers} x {limit}",
        seconds,
        max(peaks.values()),
        peak(),
        rmse(fit.estimate, beta),
        rmse(fit.posterior.kld_minimiser, beta),
        certified,
    )


def run(quick=False):
    lines, n_workers = [], 1 if quick else 4
    for n, n_draws in ((1000, 3),) if quick else ((1_000_000, 50), (20_000_000, 50)):
        lines.append(measure(n, n_draws, n_workers, "1.5GB", quick))
        print(lines[-1], flush=True)
    Table(
        "large",
        "large",
        "Logit with ten columns on a local Dask cluster, rows in Parquet files, a tenth of them "
        "leverage points: `fit` from the files (`dask.dataframe.read_parquet`) to the posterior "
        "with its ordinary twin, workers of one thread on two cores. Peak memory of the fattest "
        "worker and of the client; "
        "error of the point estimates; share of draws, robust and ordinary, with a certified "
        "minimum.",
        (
            "rows",
            "draws",
            "workers",
            "seconds",
            "worker MiB",
            "client MiB",
            "RMSE",
            "RMSE of ML",
            "certified",
        ),
        lines,
        "two cores",
    ).publish()
