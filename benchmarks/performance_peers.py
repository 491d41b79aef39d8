"""Beside peers in the same run, on two threads beside one, and above what a pass must cost."""

import os
import subprocess
import tempfile
import time
from dataclasses import replace
from functools import partial
from unittest.mock import patch

import numpy as np

import tvdbayes as tb
from benchmarks import _designs, comparison, speed
from benchmarks._report import Table
from tvdbayes import kernel
from tvdbayes.objective._compiled import Compiled
from tvdbayes.objective._compiled_groups import CompiledGroups

FLOOR = 3.4
"""Nanoseconds that the exponential and the logarithm of one number take in vectors of four."""
DRAWS = 1000


def processor(work, times=3, enough=20.0):
    """What it found, and seconds of this process: the smallest of some runs, or of one long one."""
    found, seconds = None, []
    while len(seconds) < times and sum(seconds) < enough:
        start = time.process_time()
        found = work()
        seconds.append(time.process_time() - start)
    return found, min(seconds)


# Peers -----------------------------------------------------------------------------------------


def problems(quick):
    """Data of `benchmarks.comparison` of the sizes that are timed elsewhere."""
    n, m, p = (200, 200, 4) if quick else (5_000, 10_000, 11)
    logit = comparison.answers(m, p)
    terms = " + ".join(f"x{j}" for j in range(1, p))
    return {
        f"Poisson, {n:,} x 2": comparison.counts(n),
        f"logit, {m:,} x {p - 1}": replace(logit, formula=f"y ~ {terms}"),
    }


def by_r(problem, options):
    """Processor seconds of glmrob, taken in R."""
    law = {"poisson": "poisson", "bernoulli": "binomial"}[problem.family]
    with tempfile.TemporaryDirectory() as folder:
        problem.wrong.to_csv(f"{folder}/wrong.csv", index=False)
        work = f"robustbase::glmrob({problem.formula}, {law}, d, {options})"
        taken = f'replicate(3, system.time({work})[["user.self"]])'
        text = f'd <- read.csv("wrong.csv"); cat(min({taken}))'
        done = subprocess.run(
            ["Rscript", "-e", text],
            check=True,
            capture_output=True,
            text=True,
            cwd=folder,
            env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
        )
    return float(done.stdout.split()[-1])


def beside_peers(quick):
    """Lines: problem, way, seconds, and what it gives."""
    n_draws, lines = (5 if quick else DRAWS), []
    comparison.start_jax()
    for name, problem in problems(quick).items():
        draws = f"{n_draws:,} draws and their twins"
        for way, options in (("tvdbayes", {}), ("tvdbayes, plain TVD", {"refine": None})):
            settings = {**options, "n_draws": n_draws, "progress": False}
            work = partial(comparison.by_tvdbayes, problem, problem.wrong, settings)
            lines.append((name, way, processor(work)[1], draws))
        work = partial(comparison.by_statsmodels, problem, problem.wrong)
        lines.append((name, "statsmodels GLM", processor(work)[1], "estimate and standard errors"))
        if not quick:
            # Compiling takes seconds; `benchmarks.comparison` tries it on little data.
            work = partial(comparison.by_numpyro, problem, problem.wrong, n_draws)
            seconds = processor(work, 1)[1]
            lines.append((name, "NumPyro NUTS", seconds, f"4 chains of {n_draws:,}, compiled anew"))
        if comparison.robustbase():
            seconds = by_r(problem, 'method = "Mqle"')
            lines.append((name, "glmrob Mqle", seconds, "estimate and standard errors"))
        print(*lines[-5:], sep="\n", flush=True)
    how = {"n_draws": n_draws, "repeats": 1} if quick else {"repeats": 3}
    for name, n_cells, ours, paper, _ in speed.against_reference(**how):
        lines.append((name, "tvdbayes, plain TVD", ours, f"{n_draws:,} draws, {n_cells} cells"))
        lines.append((name, "the paper's procedure", paper, f"{n_draws:,} draws"))
    return lines


# Threads and the floor -------------------------------------------------------------------------


def large_cases(quick):
    """Names, tables, models and options of fits that take longest."""
    n, m = (300, 300) if quick else (5_000, 10_000)
    rng = partial(np.random.default_rng, 0)
    counts, answers = (
        _designs.poisson(rng(), n, 0.1, "shift", p=4),
        _designs.logit(rng(), m, 11, 0.1),
    )
    of_counts = tb.Cells.from_rows(*counts[:2]), tb.Model(tb.Poisson())
    of_answers = tb.Cells.from_rows(*answers[:2]), tb.Model(tb.Bernoulli())
    return [
        (f"logit {m:,} x 10, default", *of_answers, {}),
        (f"logit {m:,} x 10, plain TVD", *of_answers, {"refine": None}),
        (f"Poisson {n:,} x 3, plain TVD", *of_counts, {"refine": None}),
    ]


def two_threads(quick):
    """Seconds by the clock on the wall, on one thread and on two; it needs a quiet machine."""
    lines = []
    for name, cells, model, options in large_cases(quick):
        times = []
        for n_jobs in (1, 2):

            def work(n_draws, n_jobs=n_jobs, cells=cells, model=model, options=options):
                fit = tb.posterior_bootstrap
                fit(model, cells, n_draws=n_draws, n_jobs=n_jobs, **options)

            work(1)
            taken = []
            for _ in range(3):
                start = time.perf_counter()
                work(5 if quick else 4 * DRAWS)
                taken.append(time.perf_counter() - start)
            times.append(min(taken))
        lines.append((name, *times, times[0] / times[1]))
    return lines


def above_the_floor(quick):
    """Nanoseconds of the kernel's searches for each row or node, draw and evaluation."""
    if kernel.library() is None:
        return []
    lanes = kernel.library().lanes
    searches = (
        ("rows", Compiled, lambda search: len(search.design)),
        ("nodes", CompiledGroups, lambda search: max(len(search.slots.node), len(search.slots.z))),
    )
    lines = []
    for name, cells, model, options in large_cases(quick):
        for what, kind, size in searches:
            found = []

            def timed(self, *args, found=found, size=size, minimise=kind.minimise):
                start = time.process_time()
                ends = minimise(self, *args)
                if ends.n_iter.size >= lanes:
                    passed = size(self) * float(ends.n_iter.sum())
                    found.append((time.process_time() - start, passed))
                return ends

            with patch.object(kind, "minimise", timed):
                tb.posterior_bootstrap(model, cells, n_draws=8 if quick else DRAWS // 5, **options)
            if found:
                seconds, passed = np.sum(found, axis=0)
                lines.append((name, what, 1e9 * seconds / passed, 1e9 * seconds / passed / FLOOR))
    return lines


def of_peers(quick=False):
    Table(
        "performance_peers",
        "performance_peers",
        "Processor seconds of whole fits in one run; the smallest of three where they are short.",
        ("problem", "way", "seconds", "what it gives"),
        beside_peers(quick),
    ).publish()


def of_threads(quick=False):
    Table(
        "performance_threads",
        "performance_peers",
        "Seconds by the clock on the wall of whole fits, the smallest of three.",
        ("case", "one thread", "two threads", "ratio"),
        two_threads(quick),
        made_on="two cores",
    ).publish()


def of_floor(quick=False):
    Table(
        "performance_floor",
        "performance_peers",
        "Processor nanoseconds of the compiled searches, with what NumPy does for them, for each "
        "row or node, draw and evaluation, beside those of an exponential and a logarithm, "
        f"{FLOOR}. {DRAWS // 5} draws.",
        ("case", "of", "nanoseconds", "times the floor"),
        above_the_floor(quick),
    ).publish()


def run(quick=False):
    for made in (of_peers, of_threads, of_floor):
        made(quick)
