"""A graphics card: the same draws as NumPy's, a million and ten million rows, and its bandwidth."""

import time
import warnings

import numpy as np

import tvdbayes as tb
from benchmarks._designs import logit
from benchmarks._report import Table
from tvdbayes._array import Device
from tvdbayes.sampling.planners import plan_of
from tvdbayes.sampling.weights import Stream, reweight

MODEL = tb.Model(tb.Bernoulli())
_COPIES = 20


def table_of(n, p=10, share=0.05):
    x, y, _ = logit(np.random.default_rng(n), n, p, share)
    return tb.Cells.from_rows(x, y)


def fit(cells, n_draws, **how):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tb.TVDBayesWarning)
        started = time.perf_counter()
        found = tb.posterior_bootstrap(MODEL, cells, n_draws=n_draws, refine=None, **how)
    return found, time.perf_counter() - started


def equality(n=100_000, n_draws=256, places=("gpu", "gpu:float32")):
    cells = table_of(n)
    here, _ = fit(cells, n_draws)
    lines = []
    for device in places:
        there, _ = fit(cells, n_draws, device=device)
        off = np.abs(there.draws - here.draws).max(1)
        lines.append(
            (
                device,
                n_draws,
                f"{np.abs(there.distance - here.distance).max():.1e}",
                f"{np.quantile(off, 0.99):.1e}",
                f"{off.max():.1e}",
                f"{np.median(off / here.draws.std(0).mean()):.1e}",
            )
        )
        print(lines[-1], flush=True)
    Table(
        "gpu_equality",
        "gpu",
        f"The draws of a graphics card beside NumPy's: logit, n = {n:,}, p = 10, partition, on the "
        "same random weights. Largest difference of the objective, 99 % quantile and largest of "
        "the coefficients, and their typical difference as a share of the posterior's spread.",
        ("device", "draws", "objective", "theta, 99 %", "theta, all", "of the spread"),
        lines,
        "one GPU",
    ).publish()


def speed(n=1_000_000, n_draws=1000, place="gpu"):
    lines, cells = [], table_of(n)
    for run in ("first", "again"):
        found, seconds = fit(cells, n_draws, device=place)
        certified = (found.status == 0).mean()
        lines.append((n, n_draws, run, seconds, found.n_iter.mean(), certified))
        print(lines[-1], flush=True)
    Table(
        "gpu_speed",
        "gpu",
        "Logit with ten covariates on an NVIDIA H200 (double precision), a twentieth of the rows "
        "leverage points, from a table of cells to the posterior. The first run compiles.",
        ("rows", "draws", "run", "seconds", "steps", "certified"),
        lines,
        "one GPU",
    ).publish()


def large(quick=False):
    """Ten million rows: what is done once, and what each draw costs."""
    n, n_draws, place = (200, 64, "cpu") if quick else (10_000_000, 64, "gpu")
    cells = table_of(n)
    reached = []

    def progress(done, _):
        reached.append((done, time.perf_counter()))
        print(reached[-1], flush=True)

    started = time.perf_counter()
    found, seconds = fit(cells, n_draws, device=place, progress=progress)
    (first, begun), (last, ended) = reached[0], reached[-1]
    each = (ended - begun) / max(last - first, 1)
    Table(
        "gpu_large",
        "gpu_large",
        "The same with ten million rows and fewer draws: seconds in all, before the first block of "
        "draws is done (groups, starts, pilot, compiling), and for each draw after it.",
        ("rows", "draws", "seconds", "first block done after", "seconds a draw", "certified"),
        [(n, n_draws, seconds, begun - started, each, (found.status == 0).mean())],
        "one GPU",
    ).publish()


def bandwidth(copied_numbers, n=1_000_000, n_draws=256, place="gpu"):
    """One evaluation with derivatives, against what a plain copy moves."""
    device = Device(place)
    cells = table_of(n)
    found, _ = fit(cells, 0)
    plan = plan_of(found)
    p = reweight(cells, Stream.draws(0), n_draws).p
    with device.here():
        copied = copy_rate(copied_numbers)
        problem = plan.robust.to(device).on(p)
        theta = np.repeat(plan.start.pool[:, :1], n_draws, axis=1)
        width = np.full(n_draws, 1e-3)

        def evaluate():
            view = problem.at(theta).expand(width, None)
            return view.grad, view.hess

        seconds = timed(evaluate)
    d, partitions = theta.shape[0], 10
    # Arrays of rows x draws: predictor written, read; pmf and slope written; masses read with the
    # pmf, product written; read by every partition; copies written; three products; read once more.
    passes = 2 + 3 + 3 + partitions + 1 + 3 + 3 + 1
    moved = passes * 8 * n * n_draws
    flops = (4 * d + 30 + 2 * partitions) * n * n_draws
    line = (n, n_draws, 1e3 * seconds, moved / seconds / 1e12, copied / 1e12)
    Table(
        "gpu_bandwidth",
        "gpu",
        "One evaluation with gradient and curvature, logit, p = 10, ten partitions, double "
        "precision, on an NVIDIA H200: bytes that its arrays of rows x draws need, over its time, "
        "beside what a plain copy moves. Arithmetic is far from its limit: "
        f"{flops / seconds / 1e12:.2f} Tflop/s of about 34 in double precision.",
        ("rows", "draws", "milliseconds", "TB/s", "TB/s of a copy"),
        [line],
        "one GPU",
    ).publish()


def copy_rate(size):
    """Bytes a second that are read and written where nothing is computed."""
    import jax

    values, copy = jax.numpy.ones(size), jax.jit(lambda a: a + 1)
    return 2 * 8 * size / timed(lambda: copy(values).block_until_ready())


def timed(work):
    work()
    started = time.perf_counter()
    for _ in range(_COPIES):
        work()
    return (time.perf_counter() - started) / _COPIES


def run(quick=False):
    few = {"n": 200, "n_draws": 64} if quick else {}
    here = {"place": "cpu"} if quick else {}
    # Compiling is most of a quick run: one precision, and as many draws as the pilot has.
    equality(**few, **({"places": ("cpu",)} if quick else {}))
    bandwidth(1 << 10 if quick else 1 << 29, **few, **here)
    speed(**few, **here)
