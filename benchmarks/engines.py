"""Rows grouped by an engine: a hundred million in Parquet, by one command."""

import json
import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

import numpy as np

import tvdbayes as tb
from benchmarks._report import Table

FORMULA = "visits ~ age + kids + sex + region + member"
_CHUNK = 2_000_000


def make_rows(rng, n):
    """Five discrete covariates and counts, a tenth of them from a broken counter."""
    import pandas as pd

    age, kids = rng.integers(0, 9, n, dtype=np.int8), rng.integers(0, 4, n, dtype=np.int8)
    sex, region = rng.integers(0, 2, n), rng.integers(0, 4, n)
    member = rng.random(n) < 0.3
    mean = np.exp(0.2 + 0.1 * age - 0.3 * kids + 0.2 * sex + 0.1 * member)
    visits = rng.poisson(mean)
    visits[rng.random(n) < 0.1] += 15
    return pd.DataFrame(
        {
            "visits": visits,
            "age": age,
            "kids": kids,
            "sex": np.array(["f", "m"], object)[sex],
            "region": np.array(["east", "north", "south", "west"], object)[region],
            "member": member,
        }
    )


def write_rows(folder, n):
    """Files of two million rows each."""
    for number in range(-(-n // _CHUNK)):
        rng = np.random.default_rng([0, number])
        rows = make_rows(rng, min(_CHUNK, n - number * _CHUNK))
        rows.to_parquet(Path(folder) / f"part{number:03}.parquet", index=False)


@dataclass(frozen=True)
class Run:
    """Seconds, peak MiB and answer of a command."""

    seconds: float
    peak: float
    answer: dict


def by_command(pattern, formula, *options):
    """`tvdbayes fit` in a process of its own."""
    command = [sys.executable, "-m", "tvdbayes", "fit", pattern, formula, "--json", *options]
    started = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    answer = process.stdout.read()
    _, status, used = os.wait4(process.pid, 0)
    if status:
        raise RuntimeError(f"the command failed with status {status}")
    return Run(time.perf_counter() - started, used.ru_maxrss / 1024, json.loads(answer))


def off(answer, column="mean"):
    """The largest error of a coefficient."""
    truth = {"Intercept": 0.2, "age": 0.1, "kids": -0.3, "sex[T.m]": 0.2, "member": 0.1}
    return max(abs(line[column] - truth.get(line["name"], 0.0)) for line in answer["coefficients"])


def same_in_memory(folder, formula, n_draws):
    """Whether a fit by the engine equals that of the same rows in one data frame."""
    import pandas as pd

    engine = tb.fit(formula, f"{folder}/*.parquet", n_draws=n_draws)
    started = time.perf_counter()
    rows = pd.concat([pd.read_parquet(f) for f in sorted(Path(folder).glob("*.parquet"))])
    memory = tb.fit(formula, rows, n_draws=n_draws)
    seconds = time.perf_counter() - started
    same = all(
        np.array_equal(getattr(engine, name), getattr(memory, name))
        for name in ("draws", "kld_draws", "estimate", "distance")
    )
    return seconds, "bit for bit" if same else "NO"


def elsewhere(work, *given):
    """Call in a process of its own: a command starts with the peak of the process it comes from."""
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        return pool.submit(work, *given).result()


def run(quick=False):
    lines, few = [], ("--draws", "5") if quick else ()
    formula = "visits ~ kids" if quick else FORMULA
    for n in (1000,) if quick else (1_000_000, 10_000_000, 100_000_000):
        with tempfile.TemporaryDirectory() as folder:
            elsewhere(write_rows, folder, n)
            size = sum(f.stat().st_size for f in Path(folder).iterdir()) / 2**20
            plain = by_command(f"{folder}/*.parquet", formula, "--jobs", "2", *few)
            refined = by_command(
                f"{folder}/*.parquet", formula, "--jobs", "2", *few, "--refine", "reweight"
            )
            memory, same = "", "not tried"
            if n <= 10_000_000:
                memory, same = elsewhere(same_in_memory, folder, formula, 5 if quick else 100)
            peak = max(plain.peak, refined.peak)
            errors = (off(run.answer) for run in (plain, refined))
            cost = (n, size, plain.answer["n_cells"], plain.seconds, refined.seconds, peak)
            lines.append((*cost, *errors, off(plain.answer, "kld_mean"), same, memory))
    Table(
        "engines",
        "engines",
        "Rows in Parquet files, 5 discrete covariates, a tenth of the counts 15 too high: "
        "`tvdbayes fit 'parts/*.parquet' '" + formula + "' --json`, 1,000 draws with their "
        "ordinary twins, misfit and flagged rows, two processes (`--jobs 2`); the same with "
        "`--refine reweight`; peak of the command's own process; largest error of a coefficient, "
        "plain, reweighted and ordinary. DuckDB groups. In memory: the same rows in one data "
        "frame, 100 draws, reading included.",
        (
            *("rows", "MiB of files", "cells", "seconds", "reweighted", "peak MiB"),
            *("error", "reweighted", "ordinary", "equal in memory", "seconds in memory"),
        ),
        lines,
        made_on="two cores",
    ).publish()
