"""What a draw costs with continuous covariates, against scipy's BFGS on the same objective."""

import time
from dataclasses import replace

import numpy as np
from scipy.optimize import minimize

import tvdbayes as tb
from benchmarks._before import printed_by
from benchmarks._designs import logit, poisson
from benchmarks._report import Table
from tvdbayes import TVD, Bernoulli, Cells, Model, Poisson
from tvdbayes.objective import Layout
from tvdbayes.objective.partitions import Auto
from tvdbayes.sampling.execution import single_threaded
from tvdbayes.sampling.search import prepare
from tvdbayes.sampling.setup import Setup
from tvdbayes.sampling.weights import Stream, block_size, reweight
from tvdbayes.solvers import solve_from_pool


def by_bfgs(problem, draw, start):
    """One draw by BFGS with analytic gradients, smoothing .1, .01, .001, .0001 in turn."""
    units, bound = problem.layout.units, problem.layout.bound
    pairs, z = units.pairs, bound.designs[0]
    gather, spread, slots = units.to_units, units.to_units.T, units.slot_of_pair
    mass = problem.atom_mass[:, draw]
    data = problem.data_mass[:, draw]
    whole = data if problem.whole is None else problem.whole[:, draw]
    linear, kink = (0.5, 0.5) if problem.whole is None else (0.0, 1.0)
    penalty = problem.penalty
    y, x_of = pairs.y[:, 0], pairs.x_of_pair.index
    constant = pairs.family.log_pmf(y, np.zeros((1, y.size)), np.ones(1)) + 1.0
    counts = problem.whole is None

    def objective(theta, tau):
        eta = z @ theta
        if counts:
            rate = np.exp(np.minimum(eta, 30))
            pmf = np.exp(y * eta[x_of] - rate[x_of] + constant)
            slope = pmf * (y - rate[x_of])
        else:
            pmf = 1 / (1 + np.exp(-eta))
            slope = pmf * (1 - pmf)
        excess = (data - spread @ slots.total(mass * pmf)) / whole
        distance = np.sqrt(excess * excess + tau * tau)
        pull = -(mass * slope) * slots.spread(gather @ (linear + kink * excess / distance))
        if counts:
            pull = np.bincount(x_of, pull, z.shape[0])
        value = (whole * (linear * excess + kink * distance)).sum()
        at = theta[:, None]
        return value + penalty.value(at)[0], z.T @ pull + penalty.grad(at)[:, 0]

    theta = start
    for tau in (0.1, 0.01, 0.001, 0.0001):
        theta = minimize(objective, theta, args=(tau,), jac=True, method="BFGS").x
    return theta


def compare(name, x, y, family, n_bfgs=6, n_blocks=4, n_draws=1000):
    cells = Cells.from_rows(x, y)
    d = x.shape[1]
    with single_threaded():
        groups = Auto().learn(cells, d, 0)
        layout = Layout(Model(family), cells, groups, cells, family.binary)
        if family.counts:
            bins = tb.posterior_bootstrap(Model(family), cells, n_draws=0, refine=None).bins
            layout = replace(layout, bins=bins)
        size = block_size(layout.units.n_elements + d * d)
        plan, _ = prepare(Setup(cells, layout, TVD(), size=size))
        problem = plan.robust.on(reweight(cells, Stream.draws(0), size).p)
        found = solve_from_pool(problem, plan.start.pool, plan.start.n_starts)
        start = time.perf_counter()
        for _ in range(n_blocks):
            problem = plan.robust.on(_p(cells, size))
            found = solve_from_pool(problem, plan.start.pool, plan.start.n_starts)
        ours = (time.perf_counter() - start) / (n_blocks * size)
        start = time.perf_counter()
        slow = [by_bfgs(problem, j, plan.start.pool[:, 0].copy()) for j in range(n_bfgs)]
        bfgs = (time.perf_counter() - start) / n_bfgs
    index = np.arange(n_bfgs)
    gap = found.value[:n_bfgs] - problem.take(index).value(np.column_stack(slow))
    fit_start = time.perf_counter()
    tb.posterior_bootstrap(Model(family), cells, n_draws=n_draws, refine=None)
    whole = time.perf_counter() - fit_start
    return name, 1e3 * ours, 1e3 * bfgs, bfgs / ours, gap.max(), whole


def _p(cells, size):
    return reweight(cells, Stream.draws(0), size).p


def run(quick=False):
    rng = np.random.default_rng(401)
    how = {"n_bfgs": 1, "n_blocks": 1, "n_draws": 10} if quick else {}
    n, n_counts = (400, 300) if quick else (10_000, 5000)
    x, y, _ = logit(rng, n, 10, 0.1)
    lines = [compare(f"logit n={n:,} p=10", x, y, Bernoulli(), **how)]
    x, y, _ = poisson(rng, n_counts, 0.1, "shift")
    how = {"n_bfgs": 4, "n_blocks": 2} | how
    lines.append(compare(f"Poisson n={n_counts:,} p=3", x, y, Poisson(), **how))
    Table(
        "cost",
        "cost",
        "Milliseconds a draw for the TVD solve (weights drawn included), against scipy's BFGS with "
        "analytic gradients from the same start on the same objective; how far ours ends above it "
        "at most; and seconds for a whole fit of 1,000 draws with its ordinary twin.",
        ("problem", "ours ms", "BFGS ms", "ratio", "excess", "fit of 1,000, s"),
        lines,
    ).publish()


BEFORE = "e951b57"
"""The last commit before draws were computed by a compiled kernel."""

_MILLION = """
import resource, time
import numpy as np
import tvdbayes as tb
from benchmarks._before import printed_by
from benchmarks._designs import logit, poisson
counts, n, p, n_draws = {counts}, {n}, {p}, {n_draws}
rng = np.random.default_rng(402)
x, y, beta = poisson(rng, n, 0.1, "shift", p + 1) if counts else logit(rng, n, p, 0.1)
model = tb.Model(tb.Poisson() if counts else tb.Bernoulli())
few = tb.Cells.from_rows(x[:500], y[:500])
tb.posterior_bootstrap(model, few, n_draws=4)
cells = tb.Cells.from_rows(x, y)
del x, y
start = time.process_time()
fit = tb.posterior_bootstrap(model, cells, n_draws=n_draws, refine={refine!r}, n_jobs=1)
print(time.process_time() - start)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
print(np.sqrt(np.mean((fit.estimate - beta) ** 2)), (fit.status == 0).mean())
"""


def million(quick=False):
    n, n_draws = (2000, 5) if quick else (1_000_000, 100)
    lines = []
    for name, counts, p, refine, commit in (
        ("logit", False, 10, "auto", None),
        ("logit", False, 10, None, BEFORE),
        ("logit", False, 10, "auto", BEFORE),
        ("Poisson", True, 5, "auto", None),
    ):
        given = {"counts": counts, "n": n, "p": p, "n_draws": n_draws, "refine": refine}
        found = printed_by(_MILLION.format(**given), None if quick else commit)
        if found is not None:
            method = "default" if refine else "plain TVD"
            lines.append((f"{name} n={n:,} p={p}", method, commit or "this one", *found))
            print(lines[-1], flush=True)
    Table(
        "million",
        "million",
        "A million rows with continuous covariates in memory, a tenth wrong (logit: leverage "
        "points; counts: 20 too high), 100 draws with their ordinary twins in one process: seconds "
        "of processor time of `posterior_bootstrap`, peak memory of the process with the rows, "
        f"error of the point estimate, share of certified minima. {BEFORE} is the last commit "
        "before draws were computed by a compiled kernel.",
        ("problem", "method", "commit", "seconds", "peak MiB", "RMSE", "certified"),
        lines,
    ).publish()
