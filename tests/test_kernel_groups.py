"""Total variation in groups by the compiled kernel says what NumPy says, in all laws and groups."""

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
from benchmarks._problems import contaminated_counts, inflated_successes

import tvdbayes as tb
from tvdbayes import (
    TVD,
    Bernoulli,
    Binomial,
    Cells,
    Cloglog,
    Cluster,
    Distinct,
    Hellinger,
    KMeansGroups,
    Model,
    Poisson,
    Probit,
    Status,
    kernel,
)
from tvdbayes.kernel import _library
from tvdbayes.objective import Layout, Objective
from tvdbayes.objective.partitions import learn_bins
from tvdbayes.solvers import Newton, newton

LEVELS = sorted(_library._open(_library._path())[0])
pytestmark = [
    pytest.mark.skipif(not LEVELS, reason="there is no compiled kernel"),
    pytest.mark.skipif(
        os.environ.get("TVDBAYES_KERNEL") == "numpy", reason="the kernel is switched off"
    ),
]

SMALL, LARGE = (Cluster(size=1.0, copies=3),), (Cluster(size=20.0, copies=2),)
DRAWS = 37
LEVEL = {"large": 6.0, "huge": 13.0}
"""Logarithms of rates."""


def table(name, rng, n=420, d=3):
    """The family and the cells of a law, a tenth of them wrong."""
    x = np.column_stack([np.ones(n), rng.normal(size=(n, d - 1))])
    if "distinct" in name:
        x = np.column_stack([np.ones(n), rng.integers(0, 3, (n, d - 1))])
    eta, more = x @ rng.normal(0, 0.4, d), {}
    if "offset" in name:
        more["offset"] = rng.normal(size=n).round(1)
    link = Cloglog() if "cloglog" in name else Probit() if "probit" in name else tb.Logit()
    if "binomial" in name:
        more["trials"] = rng.choice([4, 9, 40], n)
        y = rng.binomial(more["trials"], 1 / (1 + np.exp(-eta)))
        y[: n // 10] = 0
        return Binomial(link), Cells.from_rows(x, y, **more)
    if "yes" in name:
        return Bernoulli(link), Cells.from_rows(x, rng.random(n) < 1 / (1 + np.exp(-eta)), **more)
    level = LEVEL.get(name.split()[-1], 1.0)
    spread = rng.gamma(2, 0.5, n) if "dispersed" in name else 1.0
    y = rng.poisson(np.exp(level + 0.5 * eta) * spread)
    y[: n // 10] += 20
    family = tb.NegativeBinomial() if "dispersed" in name else Poisson()
    return family, Cells.from_rows(x, y, **more)


LAWS = [
    *("yes", "yes cloglog", "yes probit", "yes distinct", "yes cloglog distinct", "yes offset"),
    *("binomial distinct", "binomial", "binomial cloglog distinct", "binomial offset"),
    *("counts", "counts distinct", "counts offset", "counts large", "counts distinct large"),
    *("dispersed", "dispersed distinct", "dispersed offset", "dispersed large"),
]


def stated(name, rng, *, kinds=SMALL, binned=True, known=True, ridge=1e-3, n_draws=DRAWS):
    """The objective of a law, and random tables with zeros among their masses.

    Where a reference is known, steps in large groups use no second derivatives.
    """
    family, cells = table(name, rng)
    partition = Distinct() if "distinct" in name else KMeansGroups(kinds)
    layout = Layout(Model(family), cells, partition, cells, fold=family.binary)
    if binned and family.counts and "distinct" not in name:
        layout = replace(layout, bins=learn_bins(cells, layout.grouping, 60.0))
    reference = 0.1 * rng.normal(size=layout.bound.n_params)
    reference[0] += np.log(max(cells.y.mean(), 1.0)) if family.counts else 0.0
    objective = Objective(layout, TVD(), ridge, reference if known else None)
    p = rng.standard_gamma(cells.counts[:, None], (cells.n_cells, n_draws))
    p[rng.random(p.shape) < 0.1] = 0.0
    return objective, p / p.sum(0)


def places(objective, rng, size, n_draws):
    """Parameters (d, B) about the reference, whose predictors reach about so far from it."""
    bound, reference = objective.layout.bound, objective.reference
    theta = rng.normal(size=(bound.n_params, n_draws))
    theta *= size / np.abs(bound.eta(theta)).max((0, 1))
    return theta if reference is None else reference[:, None] + theta


def sizes(problem, theta):
    """How large the terms are of which gradient and curvature are sums, (B,)."""
    units, point = problem.layout.units, problem.at(theta)
    mass, first, second = point.jet
    reach = np.abs(units.pairs.bound.designs[0]).max()
    repeats = units.n_partitions
    slopes = repeats * reach * (mass * np.abs(first).max(0)).sum(0)
    most = 0.0 if second is None else np.abs(second).max((0, 1))
    curved = reach**2 * repeats * (mass * most).sum(0)
    return slopes, curved


@pytest.mark.parametrize("known", [True, False], ids=["known", "unknown"])
@pytest.mark.parametrize("kinds", [SMALL, LARGE], ids=["small groups", "large groups"])
@pytest.mark.parametrize("name", LAWS)
def test_one_pass_is_that_of_numpy(name, kinds, known, rng):
    objective, p = stated(name, rng, kinds=kinds, known=known)
    whole = objective.on(p)
    n = whole.compiled.width
    problem = whole.take(np.arange(n))
    for size in (0.0, 0.1, 1.0, 8.0, 720.0):
        # What the rounding of a predictor changes grows with it, and with the counts.
        digits = 1e-12 * max(1.0, size / 50) * (100 if name.split()[-1] in LEVEL else 1)
        theta = places(objective, rng, size, n)
        step = 0.01 * rng.normal(size=theta.shape)
        tau, dual = rng.choice([1e-2, 0.1, 0.3], n), None
        point = problem.at(theta)
        slopes, curved = sizes(problem, theta)
        for _ in range(2):
            view = point.expand(tau, dual)
            expected = (point.model_mass, view.merit, view.grad, view.hess, view.dual_after(step))
            found = problem.compiled.expand(theta, tau, dual, step)
            largest = [np.abs(part).max(tuple(range(part.ndim - 1))) for part in expected]
            # The curvature of a kink is a difference of near numbers, of which a probability that
            # is right to thirteen digits leaves the fewer the narrower the smoothing is.
            kinks, steep = point.compared, (view.jacobian**2).max(0)
            width = kinks._distance(tau)
            lost = 4e-3 + 0.1 * point.model_mass / kinks.scale / width
            lost = (lost * kinks.kink / width / kinks.scale * steep).sum(0)
            curvature = largest[3] + curved + lost
            scale = (largest[0] + 1e-3, largest[1], largest[2] + slopes, curvature)
            for ours, true, unit in zip(found, expected, scale, strict=False):
                assert (np.abs(ours - true) <= digits * (unit + 1e-300)).all()
            np.testing.assert_allclose(found[4], expected[4], rtol=0, atol=1e-10)
            dual = np.ascontiguousarray(expected[4])
        exact = problem._exact(point.model_mass)
        np.testing.assert_allclose(problem.distance(theta), exact, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("binned", [True, False], ids=["binned", "not binned"])
@pytest.mark.parametrize("name", ["counts", "counts large", "binomial", "dispersed"])
def test_bins_or_not(name, binned, rng):
    objective, p = stated(name, rng, binned=binned)
    theta = places(objective, rng, 0.5, DRAWS)
    ours = objective.on(p).distance(theta)
    with kernel.using("numpy"):
        np.testing.assert_allclose(objective.on(p).distance(theta), ours, rtol=1e-12)


@pytest.mark.parametrize("rate", [0.01, 30.0, 699.0, 745.0, 900.0, 1300.0])
def test_counts_of_any_rate_keep_their_mass(rate):
    """The probability of a row's first outcome may be 0 by underflow where a later one is not."""
    y = np.arange(int(rate + 12 * np.sqrt(rate)) + 40)
    cells = Cells.from_rows(np.repeat([[1.0, 0.0], [1.0, 1.0]], y.size, axis=0), np.tile(y, 2))
    objective = Objective(Layout(Model(Poisson()), cells, Distinct(), cells), TVD())
    theta = objective.layout.bound.from_user(np.log(np.full((1, 3), rate)) * [[1.0], [0.0]])
    problem = objective.on(np.repeat(cells.p[:, None], 3, axis=1))
    zero = np.zeros_like(theta)
    mass = problem.compiled.expand(theta, np.ones(3), None, zero)[0]
    expected = 0.5 * problem.layout.units.pairs.pmf(theta)
    np.testing.assert_allclose(mass, expected, rtol=1e-10, atol=1e-14)
    assert mass.sum(0) == pytest.approx(1.0, abs=1e-10)


@pytest.mark.parametrize("name", LAWS)
def test_candidates_are_scored_as_by_numpy(name, rng):
    objective, p = stated(name, rng)
    pool = places(objective, rng, 2.0, 5)
    ours = objective.on(p).score(pool)
    with kernel.using("numpy"):
        np.testing.assert_allclose(objective.on(p).score(pool), ours, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("name", LAWS)
def test_the_search_is_that_of_numpy(name, rng):
    """Few rows have several minima: then as many draws agree as agree with NumPy started elsewhere
    by a rounding error."""
    objective, p = stated(name, rng)
    start = np.repeat(objective.reference[:, None], DRAWS, axis=1)
    ours = newton(objective.on(p), start)
    with kernel.using("numpy"):
        problem = objective.on(p)
        plain, moved = newton(problem, start), newton(problem, start * (1 + 1e-14))
        value = problem.value(ours.theta)
    near, same = (np.abs(other.value - plain.value) <= 1e-8 for other in (ours, moved))
    assert near.mean() >= same.mean() - 0.15
    assert ours.value.mean() <= plain.value.mean() + 1e-3
    assert (ours.status[near] == plain.status[near]).mean() > 0.9
    np.testing.assert_allclose(ours.value, value, rtol=1e-12, atol=1e-13)
    assert (ours.n_iter >= 1).all()
    assert (ours.n_iter <= 150).all()


def everything(objective, p, start):
    """What the kernel says of tables: of their search, and where it ended."""
    found = newton(objective.on(p), start)
    parts = (found.theta, found.value, found.decrement, found.residual, found.n_iter, found.status)
    return [np.atleast_2d(part) for part in parts]


@pytest.mark.parametrize("name", ["yes", "counts distinct", "binomial distinct", "dispersed"])
def test_a_draw_is_the_same_alone_and_in_any_instruction_set(name, rng, monkeypatch):
    objective, p = stated(name, rng)
    start = places(objective, rng, 0.3, DRAWS)
    known = {}
    for level in LEVELS:
        monkeypatch.setenv("TVDBAYES_KERNEL", level)
        known[level] = everything(objective, p, start)
    for level in LEVELS:
        for ours, plain in zip(known[level], known["plain"], strict=True):
            np.testing.assert_array_equal(ours, plain)
    monkeypatch.delenv("TVDBAYES_KERNEL")
    for part in (slice(5, 6), slice(3, 20), slice(0, 32)):
        alone = everything(objective, p[:, part], start[:, part])
        for ours, whole in zip(alone, known["plain"], strict=True):
            np.testing.assert_array_equal(ours, whole[:, part])
    with ThreadPoolExecutor(4) as threads:
        halves = list(
            threads.map(
                lambda part: everything(objective, p[:, part], start[:, part]),
                [slice(0, 9), slice(9, 25), slice(25, DRAWS)],
            )
        )
    for number, whole in enumerate(known["plain"]):
        joined = np.concatenate([half[number] for half in halves], axis=-1)
        np.testing.assert_array_equal(joined, whole)


def test_a_curvature_that_is_not_positive_is_taken_by_its_size(rng):
    """Far from the minimum the curvature has both signs; the search ends all the same."""
    objective, p = stated("counts distinct", rng, ridge=0.0)
    for size in (3.0, 30.0):
        start = places(objective, rng, size, DRAWS)
        ours = newton(objective.on(p), start)
        assert np.isfinite(ours.theta).all()
        with kernel.using("numpy"):
            plain = newton(objective.on(p), start)
        assert (np.abs(ours.value - plain.value) < 1e-8).mean() > 0.8
        assert np.isin(ours.status, [Status.CONVERGED, Status.STALLED]).mean() > 0.8


def test_what_the_kernel_does_not_know_is_left_to_numpy(rng):
    family, cells = table("counts distinct", rng)
    _, answers = table("yes distinct", rng)
    x = np.column_stack([np.ones(6), np.arange(6)])
    many = Cells.from_rows(x, np.arange(6), trials=np.full(6, 5000))
    left = [
        (tb.NegativeBinomial(), table("dispersed distinct huge", rng)[1], TVD()),
        (tb.DiscreteWeibull(), cells, TVD()),
        (tb.ZeroInflated(Poisson()), cells, TVD()),
        (Binomial(), many, TVD()),
        (family, table("counts distinct huge", rng)[1], TVD()),
        (Bernoulli(Probit()), answers, TVD()),
        (family, cells, Hellinger()),
    ]
    for law, rows, divergence in left:
        layout = Layout(Model(law), rows, Distinct(), rows)
        assert Objective(layout, divergence).on(rows.p[:, None]).compiled is None
    varying = Model(tb.NegativeBinomial(), tb.Linear(((0, 1), (-1, 1))))
    layout = Layout(varying, cells, Distinct(), cells)
    assert Objective(layout, TVD()).on(cells.p[:, None]).compiled is None
    problem = Objective(Layout(Model(family), cells, Distinct(), cells), TVD()).on(cells.p[:, None])
    assert problem.compiled is not None
    with kernel.using("numpy"):
        assert replace(problem).compiled is None


def fits(rng):
    """Whole fits: groups and distinct x; counts, answers and successes."""
    x = rng.normal(size=500)
    counts = rng.poisson(np.exp(1 + 0.5 * x))
    counts[:50] += 20
    covered = {"x": x, "y": counts, "yes": rng.random(500) < 1 / (1 + np.exp(-2 * x))}
    rows, successes, trials = inflated_successes(rng)
    paper = {"y": successes, "a": rows[:, 0], "b": rows[:, 1]}
    yield "y ~ x", covered, {}
    yield "yes ~ x", covered, {"family": "bernoulli"}
    yield "y ~ a + b - 1", paper, {"family": "binomial", "trials": trials}
    yield "y ~ 1", {"y": contaminated_counts(rng)}, {}


def test_whole_fits_reach_the_same_optimum(rng):
    for formula, data, more in fits(rng):
        by = {}
        for choice in ("numpy", "c"):
            with kernel.using(choice):
                by[choice] = tb.fit(formula, data, n_draws=40, refine=None, **more)
        np.testing.assert_allclose(by["c"].distance, by["numpy"].distance, rtol=0, atol=1e-8)
        np.testing.assert_allclose(by["c"].estimate, by["numpy"].estimate, rtol=0, atol=1e-5)


@pytest.mark.parametrize("scale", [1.0, 1e200, 1e290])
@pytest.mark.parametrize("name", ["yes distinct", "counts distinct", "dispersed"])
def test_steps_on_large_masses_are_those_of_numpy(name, scale, rng):
    """The squares of a large curvature overflow, and in the end it does so itself: then the step
    is along the gradient."""
    objective, p = stated(name, rng, ridge=0.0, n_draws=8)
    start, moved = places(objective, rng, 3.0, 8), 0.0
    for n_steps in (2, 3):
        rules = Newton(max_iter=n_steps)
        with np.errstate(over="ignore", invalid="ignore"):
            ours = newton(objective.on(scale * p), start, rules=rules)
        with kernel.using("numpy"), np.errstate(over="ignore", invalid="ignore"):
            plain = newton(objective.on(scale * p), start, rules=rules)
        np.testing.assert_allclose(ours.theta, plain.theta, rtol=1e-9, atol=1e-9)
        moved = max(moved, np.abs(ours.theta - start).max())
        assert (np.isfinite(ours.decrement) == np.isfinite(plain.decrement)).all()
    assert np.isfinite(ours.decrement).all() == (scale < 1e290)
    assert moved > 1 or name == "counts distinct"
