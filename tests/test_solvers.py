import itertools
import warnings
from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.optimize import brentq, minimize_scalar
from scipy.special import gammaln

from tvdbayes import (
    KLD,
    TVD,
    Bernoulli,
    Binomial,
    BoundaryWarning,
    Cells,
    Hellinger,
    Model,
    Poisson,
)
from tvdbayes import fit as fit_formula
from tvdbayes.experiments.released import reference_bfgs
from tvdbayes.objective import Layout, Objective
from tvdbayes.objective.divergences import ALL_DIVERGENCES
from tvdbayes.objective.partitions import Distinct
from tvdbayes.sampling.closest import scan
from tvdbayes.sampling.plan import solve_block
from tvdbayes.sampling.search import elemental, prepare
from tvdbayes.sampling.setup import Setup
from tvdbayes.sampling.weights import Stream, reweight
from tvdbayes.solvers import (
    Accuracy,
    Solution,
    Status,
    find_modes,
    newton,
    scalar,
    solve_from_pool,
    spread_out,
)
from tvdbayes.solvers.newton import Newton, solve_positive
from tvdbayes.solvers.starts import _choose


def layout_of(model, cells):
    return Layout(model, cells, Distinct(), cells)


def contaminated_counts(rng, n, share, shift, rate=3.0):
    y = rng.poisson(rate, n)
    y[rng.random(n) < share] += shift
    return Cells.from_rows(np.ones((n, 1)), y)


def exact_minimum(cells, p):
    """Lowest TVD of a Poisson table by brute force: every kink, and every piece between kinks."""
    y = cells.y

    def log_pmf(eta, c):
        return y[c] * eta - np.exp(eta) - gammaln(y[c] + 1)

    def distance(eta):
        return np.maximum(p - np.exp(y * eta - np.exp(eta) - gammaln(y + 1)), 0).sum()

    low, high = -12.0, np.log(y.max() + 1) + 3
    kinks = [low, high]
    for c in range(y.size):
        mode = np.log(y[c]) if y[c] > 0 else low
        target = np.log(p[c])
        for a, b in ((low, mode), (mode, high)):
            if a < b and (log_pmf(a, c) - target) * (log_pmf(b, c) - target) < 0:
                kinks.append(brentq(lambda e, c=c, t=target: log_pmf(e, c) - t, a, b, xtol=1e-14))
    kinks = np.sort(kinks)
    best = min(distance(k) for k in kinks)
    for a, b in itertools.pairwise(kinks):
        if b - a > 1e-12:
            found = minimize_scalar(
                distance, bounds=(a, b), method="bounded", options={"xatol": 1e-12}
            )
            best = min(best, found.fun)
    return best


@pytest.mark.parametrize(
    ("share", "shift"), [(0.0, 0), (0.15, 20), (0.3, 4), (0.45, 8), (0.45, 20)]
)
def test_one_parameter_search_is_exact(share, shift):
    """A sample of the 1,000 problems of benchmarks/accuracy.py."""
    rng = np.random.default_rng(int(100 * share) + shift)
    cells = contaminated_counts(rng, 200, share, shift, rate=rng.uniform(0.5, 6))
    layout = layout_of(Model(Poisson()), cells)
    p = reweight(cells, Stream.draws(7), 12).p
    found = scalar(Objective(layout, TVD()).on(p), scan(layout, np.zeros(1)))
    exact = [exact_minimum(cells, p[:, j]) for j in range(12)]
    # The rule that breaks ties may add up to 1e-11 times a squared distance.
    distance = Objective(layout, TVD()).on(p).distance(found.theta)
    assert (distance <= np.array(exact) + 1e-10).all()
    assert (found.status == Status.CONVERGED).all()


def lowest_on_a_grid(problem, bound, low, high):
    grid = bound.from_user(np.linspace(low, high, 40_001)[None])
    return problem.score(grid).min(0)


def test_one_parameter_search_is_exact_without_kinks(rng):
    """Distinct offsets, a slope alone, and few large counts leave long smooth pieces."""
    offset, x = rng.normal(size=60), rng.normal(size=150)
    cases = [
        (Poisson(), Cells.from_rows(np.ones((3, 1)), [900, 1000, 1100]), 6, 8),
        (
            Poisson(),
            Cells.from_rows(np.ones((60, 1)), rng.poisson(np.exp(1 + offset)), offset=offset),
            -5,
            4,
        ),
        (
            Bernoulli(),
            Cells.from_rows(x[:, None], rng.random(150) < 1 / (1 + np.exp(-0.5 * x))),
            -20,
            20,
        ),
    ]
    for family, cells, low, high in cases:
        layout = layout_of(Model(family), cells)
        problem = Objective(layout, TVD()).on(cells.p[:, None])
        found = scalar(problem, scan(layout, np.zeros(1)))
        assert found.value[0] <= lowest_on_a_grid(problem, layout.bound, low, high)[0] + 1e-9


@pytest.mark.parametrize("mean", [1e3, 1e6, 1e9])
@pytest.mark.parametrize("family", [Poisson(), Binomial()], ids=lambda f: f.name)
def test_large_counts_are_certified(family, mean, rng):
    level = rng.integers(0, 3, 200).astype(float)
    x = np.column_stack([np.ones(200), level])
    trials = np.full(200, 4 * mean) if family.needs_trials else np.ones(200)
    base = np.log(1 / 3) if family.needs_trials else np.log(mean)
    y = family.sample(rng, (base + 0.1 * level)[None], trials)
    cells = Cells.from_rows(x, y, trials=trials)
    plan, _ = prepare(Setup(cells, layout_of(Model(family), cells), TVD(), size=32))
    solved = solve_block(plan, 0)
    assert (solved.robust.status == Status.CONVERGED).mean() > 0.9
    assert (solved.likelihood.status == Status.CONVERGED).mean() > 0.9
    assert abs(solved.likelihood.theta[1].mean() - 0.1) < 0.02


def test_a_flat_minimum_is_answered_by_its_middle():
    """Far contamination makes the Poisson objective flat on [rate, rate - log(1 - share)]."""
    rate, share, y = 3.0, 0.15, np.arange(40.0)
    mass = (1 - share) * np.exp(y * np.log(rate) - rate - gammaln(y + 1))
    y, mass = np.append(y, 500.0), np.append(mass, share)
    cells = Cells.from_counts(np.ones((y.size, 1)), y, mass)
    layout = layout_of(Model(Poisson()), cells)
    problem = Objective(layout, TVD(), reference=np.array([1.0])).on(cells.p[:, None])
    found = scalar(problem, scan(layout, np.zeros(1)))
    assert np.isclose(found.value[0], share, atol=1e-10)

    def above(eta):
        return problem.distance(np.array([[eta]]))[0] - share - 1e-9

    # On the right the flat stretch ends at the theoretical point; on the left, where only ever
    # rarer counts begin to object, the objective takes longer to rise by 1e-9.
    right = np.log(rate - np.log(1 - share))
    left = brentq(above, np.log(2.5), np.log(rate))
    assert above(np.log(rate)) < 0 < above(right + 1e-6)
    assert np.isclose(found.theta[0, 0], (left + right) / 2, atol=1e-6)


def test_an_uneven_kink_is_no_tie(rng):
    cells = contaminated_counts(rng, 100, 0.2, 10)
    layout = layout_of(Model(Poisson()), cells)
    p = reweight(cells, Stream.draws(7), 50).p
    problem = Objective(layout, TVD()).on(p)
    found = scalar(problem, scan(layout, np.zeros(1)))
    for step in (-1e-5, 1e-5):
        assert (problem.value(found.theta + step) >= found.value - 1e-12).all()


@pytest.mark.parametrize("divergence", ALL_DIVERGENCES, ids=lambda d: d.name)
@pytest.mark.parametrize("family", [Poisson(), Binomial()], ids=lambda f: f.name)
def test_a_constructed_optimum_is_found(divergence, family):
    """A table that the model reproduces exactly is minimised at its own parameters."""
    theta = np.array([0.4, -0.3, 0.2])
    levels = np.array([[1, a, b] for a in range(3) for b in range(2)], float)
    x, y = np.repeat(levels, 61, axis=0), np.tile(np.arange(61.0), 6)
    trials = np.full(y.size, 60.0) if family.needs_trials else np.ones(y.size)
    mass = family.pmf(y, (x @ theta)[None], trials)
    keep = mass > 1e-14
    cells = Cells.from_counts(x[keep], y[keep], mass[keep], trials=trials[keep])
    layout = layout_of(Model(family), cells)
    plan, solved = prepare(Setup(layout.cells, layout, divergence, size=16))
    assert np.allclose(solved.robust.theta[:, 0], theta, atol=1e-5)
    assert solved.robust.status[0] == Status.CONVERGED
    assert abs(solved.distance[0]) < 1e-9
    assert plan.robust.ridge == 0


def test_newton_certifies_what_it_says(count_cells, rng):
    layout = layout_of(Model(Poisson()), count_cells)
    problem = Objective(layout, TVD()).on(reweight(count_cells, Stream.draws(7), 40).p)
    found = newton(problem, np.repeat(np.array([[1.0], [0.2], [-0.2]]), 40, axis=1))
    assert (found.status == Status.CONVERGED).all()
    assert (found.decrement < 1e-12).all()
    nearby = rng.normal(size=(200, 3, 1)) * 1e-4
    for step in nearby:
        assert (problem.value(found.theta + step) >= found.value - 1e-9).all()


def test_draws_do_not_influence_each_other(count_cells):
    layout = layout_of(Model(Poisson()), count_cells)
    problem = Objective(layout, Hellinger()).on(reweight(count_cells, Stream.draws(7), 20).p)
    start = np.repeat(np.array([[1.0], [0.2], [-0.2]]), 20, axis=1)
    together = newton(problem, start)
    alone = newton(problem.take(np.array([7])), start[:, :1])
    assert np.allclose(together.theta[:, 7], alone.theta[:, 0], atol=1e-9)


def test_most_draws_reach_the_best_of_many_starts(rng):
    """The issue's three-parameter case, on fewer draws; benchmarks/accuracy.py has the full one."""
    n = 400
    x = np.column_stack([np.ones(n), rng.integers(0, 3, n), rng.integers(0, 3, n)])
    y = rng.poisson(np.exp(x @ [1, 0.3, -0.2]))
    y[rng.random(n) < 0.4] += 20
    cells = Cells.from_rows(x, y)
    layout = layout_of(Model(Poisson()), cells)
    plan, _ = prepare(Setup(layout.cells, layout, TVD(), size=64))
    problem = plan.robust.on(reweight(cells, Stream.draws(7), 64).p)
    found = solve_from_pool(problem, plan.start.pool, plan.start.n_starts)
    starts = elemental(layout, np.zeros(3), rng, 60)
    index = np.repeat(np.arange(64), 60)
    best = newton(problem.take(index), np.tile(starts, 64)).value.reshape(64, 60).min(1)
    assert (found.value <= np.minimum(best, found.value) + 1e-4).mean() >= 0.96


def test_the_reference_is_never_better_by_much(rng):
    cells = contaminated_counts(rng, 200, 0.15, 10)
    layout = layout_of(Model(Poisson()), cells)
    plan, _ = prepare(Setup(layout.cells, layout, TVD(), size=16))
    solved = solve_block(plan, 0)
    p = reweight(cells, Stream.draws(0), 16).p
    slow = reference_bfgs(plan.robust.on(p), solved.likelihood.theta)
    assert (solved.distance <= slow.value + 1e-7).all()


def test_modified_cholesky_leaves_positive_matrices_alone(rng):
    for d in (1, 2, 5):
        roots = rng.normal(size=(d, d, 30))
        hess = np.einsum("ikb,jkb->ijb", roots, roots) + 0.1 * np.eye(d)[..., None]
        grad = rng.normal(size=(d, 30))
        exact = np.linalg.solve(hess.transpose(2, 0, 1), grad.T[..., None])[..., 0].T
        assert np.allclose(solve_positive(hess, grad), exact, rtol=1e-6, atol=1e-8)


def test_a_flat_direction_gets_its_newton_step_beside_a_steep_one():
    """As towards no overdispersion: the curvature there falls with the slope, to nothing."""
    hess = np.array([[2e7, 1e-3], [1e-3, 3e-8]])[:, :, None]
    grad = np.array([[5.0], [2e-8]])
    exact = np.linalg.solve(hess[..., 0], grad[:, 0])
    np.testing.assert_allclose(solve_positive(hess, grad)[:, 0], exact, rtol=1e-9)


@pytest.mark.parametrize("seed", [0, 1])
def test_nearly_all_draws_at_the_edge_of_no_overdispersion_end(seed):
    rng = np.random.default_rng(seed)
    x = rng.integers(0, 4, 2000)
    data = {"y": rng.poisson(np.exp(0.8 + 0.3 * x)), "x": x}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BoundaryWarning)
        fit = fit_formula("y ~ x", data, family="negativebinomial", refine=None, n_draws=100)
    assert np.isin(fit.status, [Status.CONVERGED, Status.BOUNDARY]).mean() > 0.97
    assert (fit.status == Status.BOUNDARY).any()


def test_modified_cholesky_always_descends(rng):
    hess = rng.normal(size=(4, 4, 200))
    hess += hess.transpose(1, 0, 2)
    grad = rng.normal(size=(4, 200))
    step = solve_positive(hess, grad)
    assert ((step * grad).sum(0) > 0).all()
    assert np.isfinite(solve_positive(np.zeros((2, 2, 1)), np.ones((2, 1)))).all()


def test_statuses_carry_a_sentence():
    assert all(status.sentence.endswith(".") for status in Status)


def solutions(values):
    """One draw for each value, whose parameter is its number."""
    n = len(values)
    return Solution(
        np.arange(n, dtype=float)[None],
        np.array(values, float),
        np.zeros(n, int),
        np.ones(n, int),
        np.zeros(n),
        np.zeros(n),
    )


def test_of_several_solutions_of_a_draw_the_lowest_is_kept_and_all_work_counted():
    first = solutions([5.0, 1.0, 3.0])
    again = first.improved_by(solutions([2.0, 4.0, 1.5, 7.0]), np.array([0, 0, 0, 1]))
    assert again.value.tolist() == [1.5, 1.0, 3.0]
    assert again.theta[0].tolist() == [2.0, 1.0, 2.0]
    assert again.n_iter.tolist() == [4, 2, 1]


def test_a_search_says_how_it_ended(count_cells):
    layout = layout_of(Model(Poisson()), count_cells)
    problem = Objective(layout, TVD()).on(reweight(count_cells, Stream.draws(7), 5).p)
    start = np.repeat(np.array([[3.0], [0.0], [0.0]]), 5, axis=1)
    assert (newton(problem, start, rules=Newton(max_iter=2)).status == Status.OUT_OF_STEPS).all()
    found = newton(problem, start)
    assert (found.status == Status.CONVERGED).all()
    # No step lowers a merit that is rounded to this much, and the decrement asked for is 0.
    never = Accuracy(tau=1e-9, decrement=-1.0)
    assert (newton(problem, found.theta, accuracy=never).status != Status.CONVERGED).all()


@pytest.mark.parametrize("divergence", [KLD(), TVD(), Hellinger()], ids=lambda d: d.name)
@pytest.mark.parametrize("start", [-4.0, -2.0, 3.0])
def test_no_step_takes_a_search_uphill(divergence, start):
    """A full Newton step overshoots from far away, and must be shortened."""
    rng = np.random.default_rng(0)
    x = np.column_stack([np.ones(200), rng.integers(0, 3, 200)])
    cells = Cells.from_rows(x, rng.poisson(np.exp(x @ [0.8, 0.3])))
    problem = Objective(layout_of(Model(Poisson()), cells), divergence).on(cells.p[:, None])
    at = np.array([[start], [0.0]])
    values = [newton(problem, at, rules=Newton(max_iter=n)).value[0] for n in range(1, 9)]
    assert (np.diff(values) <= 1e-12).all()


def test_modes_come_best_first_and_differ():
    """Two rates at each of two x: the lowest minimum is that of the larger parts."""
    x = np.repeat([[1.0, 0.0], [1.0, 1.0]], 10, axis=0)
    y = np.tile([2, 2, 2, 2, 2, 2, 30, 30, 30, 30], 2)
    layout = layout_of(Model(Poisson()), Cells.from_rows(x, y))
    problem = Objective(layout, Hellinger()).on(layout.cells.p[:, None])
    rates = np.log([[2.0, 2.0, 30.0, 30.0], [2.0, 30.0, 2.0, 30.0]])
    starts = layout.bound.from_user(np.array([rates[0], rates[1] - rates[0]]))
    found = find_modes(problem, starts)
    assert found.value.size == 4
    assert (np.diff(found.value) >= 0).all()
    assert found.value[0] == problem.score(found.theta)[:, 0].min()


def test_candidates_are_spread_out_and_a_second_start_is_elsewhere():
    theta = np.array([[0.0, 0.1, 0.2, 10.0, 5.0]])
    assert spread_out(theta, 3)[0].tolist() == [0.0, 10.0, 5.0]
    first, second = _choose(np.array([[1.0], [2.0], [3.0], [5.0], [4.0]]), theta, 2)
    assert (first[0], second[0]) == (0, 4)


def test_the_reference_says_where_it_failed(rng):
    """The published optimiser gives up on kinks; that is counted, not hidden."""
    cells = contaminated_counts(rng, 200, 0.15, 10)
    problem = Objective(layout_of(Model(Poisson()), cells), TVD()).on(
        reweight(cells, Stream.draws(0), 12).p
    )
    found = reference_bfgs(problem, np.full((1, 12), 3.0))
    assert (found.status == Status.STALLED).any()
    assert np.isin(found.status, [Status.CONVERGED, Status.STALLED]).all()


def test_one_parameter_with_an_offset_is_searched_exactly():
    """The kinks lie elsewhere at every exposure; a fine grid finds nothing lower."""
    rng = np.random.default_rng(8)
    offset = rng.choice([-0.7, 0.0, 1.1], 200)
    y = rng.poisson(np.exp(1.2 + offset))
    y[:30] += 9
    cells = Cells.from_rows(np.ones((200, 1)), y, offset=offset)
    layout = layout_of(Model(Poisson()), cells)
    problem = Objective(layout, TVD()).on(reweight(cells, Stream.draws(0), 10).p)
    found = scalar(problem, scan(layout, np.zeros(1)))
    grid = np.arange(-1, 4, 2e-4)
    lowest = problem.score(layout.bound.from_user(grid[None])).min(0)
    assert (found.value <= lowest + 1e-12).all()
    # The minimum is a kink or smooth: never just a point of the scan.
    assert (found.value < lowest).all()


@dataclass
class Bowl:
    """The square of theta (1, B), with a gradient that may be a lie: a problem and its point."""

    theta: np.ndarray
    sign: float = 1.0
    kinked = False
    compiled = None
    accuracy = Accuracy(tau=0.0, decrement=1e-12)

    def at(self, theta):
        return Bowl(theta, self.sign)

    def take(self, index):
        return Bowl(self.theta[:, index], self.sign)

    def batch_size(self, n):
        return n

    def value(self, theta):
        return (theta**2).sum(0)

    def expand(self, tau, _dual):
        view = SimpleNamespace(merit=self.merit(tau), grad=2 * self.sign * self.theta)
        view.hess = np.full((1, 1, self.theta.shape[1]), 2.0)
        return view

    def merit(self, _tau):
        return self.value(self.theta)


def test_a_search_that_cannot_go_down_has_stalled():
    start = np.array([[1.0, -3.0]])
    honest, lying = newton(Bowl(start), start), newton(Bowl(start, -1.0), start)
    assert np.allclose(honest.theta, 0)
    assert (honest.status == Status.CONVERGED).all()
    assert np.array_equal(lying.theta, start)
    assert (lying.status == Status.STALLED).all()


def test_the_last_step_is_taken_though_not_evaluated():
    start = np.array([[0.1, -0.2]])
    found = newton(Bowl(start), start, accuracy=Accuracy(tau=0.0, decrement=1.0))
    assert np.allclose(found.theta, 0)
    assert found.n_iter.tolist() == [1, 1]
