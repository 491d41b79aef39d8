"""What finds the minimum of every draw: starts, rivals, scans, multipliers, ridge and shift."""

import numpy as np
from scipy.stats import poisson

import tvdbayes as tb
from tvdbayes import KLD, TVD, Bernoulli, Cells, Linear, Model, Poisson
from tvdbayes.objective import Layout, Objective
from tvdbayes.objective.partitions import Distinct, KMeansGroups
from tvdbayes.sampling.plan import calibrating_shift, solve_tables
from tvdbayes.sampling.search import _pooled_starts, prepare
from tvdbayes.sampling.setup import Setup
from tvdbayes.sampling.weights import Stream, reweight
from tvdbayes.solvers import newton

BETA = np.array([0.0, 1.5, -1.0])


def yes_no(x, beta, rng):
    return (rng.random(len(x)) < 1 / (1 + np.exp(-x @ beta))).astype(float)


def correlated_leverage(seed, n=400, share=0.1):
    """Wrong rows that no column shows to be far out: they lie across two columns that agree."""
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(n, 2)) @ np.linalg.cholesky([[1, 0.9], [0.9, 1]]).T
    bad = rng.random(n) < share
    z[bad] = rng.normal([2, -2], 0.2, (bad.sum(), 2))
    x = np.column_stack([np.ones(n), z])
    return x, np.where(bad, 0.0, yes_no(x, BETA, rng))


def far_leverage(seed, n=400, share=0.15):
    """Wrong rows far out in one column."""
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(n, 2))
    bad = rng.random(n) < share
    z[bad, 0] = rng.normal(8, 0.3, bad.sum())
    x = np.column_stack([np.ones(n), z])
    return x, np.where(bad, 0.0, yes_no(x, BETA, rng))


def prepared(x, y, pilot=False, seed=0):
    cells = Cells.from_rows(x, y)
    partition = KMeansGroups().learn(cells, x.shape[1], 0)
    layout = Layout(Model(Bernoulli()), cells, partition, cells, True)
    return prepare(Setup(cells, layout, TVD(), seed=seed, size=64), pilot=pilot)


def test_the_minimum_is_as_low_as_the_one_beside_the_truth():
    """Starts must lead to the basin of the truth, which a fit does not know."""
    worse = []
    for seed in range(8):
        plan, solved = prepared(*far_leverage(seed))
        problem = plan.robust.on(plan.robust.layout.cells.p[:, None])
        at_truth = newton(problem, plan.robust.layout.bound.from_user(BETA[:, None]))
        worse.append(solved.robust.value[0] - at_truth.value[0])
    assert np.mean(np.array(worse) > 2e-3) <= 1 / 8


def starts_of(family, x, y):
    """Starts of the search in groups, and maximum likelihood, in standardised coordinates."""
    cells = Cells.from_rows(x, y)
    layout = Layout(Model(family), cells, KMeansGroups(), cells)
    ordinary = newton(Objective(layout, KLD()).on(cells.p[:, None]), np.zeros((x.shape[1], 1)))
    return layout, _pooled_starts(layout, ordinary.theta, 0), ordinary.theta


def test_a_start_has_the_direction_of_the_naive_objective_at_several_lengths():
    """Across correlated columns wrong rows look like any others, one column at a time; maximum
    likelihood is turned by them much farther.
    """
    for seed in range(3):
        layout, starts, ordinary = starts_of(Bernoulli(), *correlated_leverage(seed, n=800))
        truth = layout.bound.from_user(BETA[:, None])[1:, 0]

        def cosine(slopes, truth=truth):
            return truth @ slopes / np.linalg.norm(truth) / np.linalg.norm(slopes, axis=0)

        nearer = cosine(starts[1:]) > cosine(ordinary[1:]) + 0.3
        # The length of slopes is how far they spread the linear predictor of the rows.
        spread = layout.bound.eta(starts[:, nearer])[0].std(0)
        assert all(np.isclose(spread, size).any() for size in (1, 2, 6))


def test_a_start_is_maximum_likelihood_without_rows_that_are_far_out():
    rng = np.random.default_rng(5)
    x = np.column_stack([np.ones(600), rng.normal(size=600)])
    beta = np.array([1.0, 0.4])
    y = rng.poisson(np.exp(x @ beta))
    x[:90, 1], y[:90] = rng.normal(7, 0.3, 90), 0
    layout, starts, ordinary = starts_of(Poisson(), x, y)
    off = np.abs(layout.bound.to_user(starts) - beta[:, None]).max(0)
    assert np.abs(layout.bound.to_user(ordinary)[:, 0] - beta).max() > 0.3
    assert off.min() < 0.1


def test_every_draw_finds_the_rates_that_its_weights_favour():
    """Two rates share the rows almost evenly at each of two x: random weights decide.

    The rates at the two x are free, so the lowest distance is that of two searches of a grid.
    """
    rng = np.random.default_rng(0)
    x = np.repeat([[1.0, 0.0], [1.0, 1.0]], 100, axis=0)
    high = np.tile(np.arange(100) % 20 < 9, 2)
    cells = Cells.from_rows(x, rng.poisson(np.where(high, 20, 2)))
    fit = tb.posterior_bootstrap(
        Model(Poisson()), cells, n_draws=100, partition=Distinct(), refine=None
    )
    p = reweight(cells, Stream.draws(fit.seed), 100).p
    rate = np.exp(np.arange(-1, 4, 5e-3))
    lowest = np.zeros(100)
    for level in (0, 1):
        mine = cells.x[cells.x_index, 1] == level
        pmf = poisson.pmf(cells.y[mine, None], rate)
        lowest += [np.maximum(own[:, None] - own.sum() * pmf, 0).sum(0).min() for own in p[mine].T]
    assert len(np.unique(np.round(fit.draws @ [[1, 1], [0, 1]]), axis=0)) > 2
    assert np.mean(fit.distance < lowest + 1e-3) > 0.98


def test_atoms_that_a_prior_draws_are_searched_as_exactly_as_the_data():
    """Every draw's distance is the lowest on a fine grid of the table that it was drawn."""
    cells = Cells.from_rows(np.ones((30, 1)), np.random.default_rng(0).poisson(3, 30))

    def base(rng, size):
        # Each time somewhere else, so that what one draw needs no other tells.
        return np.ones((size, 1)), rng.poisson(np.exp(rng.uniform(2, 9)), size).astype(float)

    prior = tb.Prior(300.0, base)
    layout = Layout(Model(Poisson()), cells, Distinct(), cells)
    plan, _ = prepare(Setup(cells, layout, TVD(), prior=prior, size=10))
    drawn = reweight(cells, Stream.draws(0), 10, tb.Prior(300.0, base, n_atoms=12))
    solved = solve_tables(plan, drawn.p, drawn.cells)
    pmf = poisson.pmf(drawn.cells.y[:, None], np.exp(np.arange(-2, 11, 2e-3)))
    for p, distance in zip(drawn.p.T, solved.distance, strict=True):
        assert distance <= np.maximum(p[:, None] - pmf, 0).sum(0).min() + 1e-9


def test_a_heavy_ridge_leaves_the_intercept_alone():
    rng = np.random.default_rng(1)
    x = np.column_stack([np.ones(300), rng.integers(0, 3, 300)])
    cells = Cells.from_rows(x, rng.poisson(np.exp(x @ [1.0, 0.4])))
    fit = tb.posterior_bootstrap(
        Model(Poisson()), cells, n_draws=10, divergence=KLD(), ridge=1e4, partition=Distinct()
    )
    p = reweight(cells, Stream.draws(fit.seed), 10).p
    assert np.allclose(fit.draws[:, 1], 0, atol=1e-3)
    # What is left is the rate of all rows: the weighted mean.
    assert np.allclose(np.exp(fit.draws @ [1, x[:, 1].mean()]), cells.y @ p, rtol=1e-3)


def test_a_ridge_is_a_penalty_on_the_variance_of_the_linear_predictor():
    """The stationary point of mean loss + ridge * variance, by its own equations."""
    rng = np.random.default_rng(2)
    level = rng.choice(3, 400, p=[0.6, 0.3, 0.1])
    # Columns that go together, in very different units.
    x = np.column_stack([np.ones(400), 50 * level, (level > 0) + rng.integers(0, 2, 400)])
    y = rng.poisson(np.exp(x @ [1.0, 0.008, -0.2]))
    ridge = 0.3
    fit = tb.posterior_bootstrap(
        Model(Poisson()), Cells.from_rows(x, y), n_draws=0, divergence=KLD(), ridge=ridge
    )
    eta = x @ fit.minimiser
    gap = y - np.exp(eta)
    z = (x[:, 1:] - x[:, 1:].mean(0)) / x[:, 1:].std(0)
    assert abs(gap.mean()) < 1e-5
    np.testing.assert_allclose(gap @ z / 400, 2 * ridge * (eta @ z / 400), atol=1e-5)


def test_multipliers_after_a_step_are_those_of_the_masses_that_it_leads_to():
    rng = np.random.default_rng(3)
    data, model = rng.dirichlet(np.ones(6), 2).T, rng.dirichlet(np.ones(6), 2).T
    change, tau = 1e-5 * rng.normal(size=data.shape), np.full(2, 0.2)
    for compare in (
        TVD().compare,
        lambda data, model: TVD().compare_halves(data, model, 2 * data),
    ):
        here, there = compare(data, model), compare(data, model + change)
        slope, curvature = here.derivatives(tau, None)
        after = here.dual_after(tau, curvature, change)
        # The slope is affine in the multiplier: one difference tells how.
        factor = (here.dual_after(tau, curvature, 0 * change) - after) / change
        moved = (there.derivatives(tau, None)[0] - slope) / change
        assert np.allclose(moved, factor * here.kink, rtol=1e-3)
        # A multiplier is a slope of |r|, however long the step.
        assert np.abs(here.dual_after(tau, curvature, 1e5 * change)).max() <= 1


def test_multipliers_of_the_kinks_save_steps():
    """Carrying them along must take fewer steps than starting each step without."""
    from dataclasses import dataclass

    rng = np.random.default_rng(4)
    x = np.column_stack([np.ones(400), rng.integers(0, 3, 400), rng.integers(0, 2, 400)])
    y = rng.poisson(np.exp(x @ [0.8, 0.3, -0.4]))
    y[:40] += 15
    cells = Cells.from_rows(x, y)
    problem = Objective(Layout(Model(Poisson()), cells, Distinct(), cells), TVD()).on(
        reweight(cells, Stream.draws(7), 60).p
    )

    @dataclass
    class Forgetful:
        """The same problem without multipliers, which the kernel does not know."""

        of: object
        compiled = None

        def __getattr__(self, name):
            return getattr(self.of, name)

        def take(self, index):
            return Forgetful(self.of.take(index))

        def at(self, theta):
            return Forgetful(self.of.at(theta))

        def expand(self, tau, _dual):
            return self.of.expand(tau, None)

    start = np.repeat(np.array([[1.0], [0.2], [-0.2]]), 60, axis=1)
    carried, forgotten = (newton(p, start) for p in (problem, Forgetful(problem)))
    assert (carried.status == 0).all()
    assert carried.n_iter.mean() < 0.9 * forgotten.n_iter.mean()


def test_the_pilot_draws_are_centred_on_the_minimiser():
    moved, off = [], []
    for seed in (0, 1, 3):
        plan, solved = prepared(*correlated_leverage(seed, n=250, share=0.0), pilot=True)
        p = reweight(plan.setup.cells, Stream.draws(plan.setup.seed, Stream.PILOT), 64).p
        draws = solve_tables(plan, p).robust.theta
        moved.append(plan.robust.layout.bound.to_user(plan.shift[:, None])[:, 0] / draws.std(1))
        off.append((draws.mean(1) - solved.robust.theta[:, 0]) / draws.std(1))
    assert np.abs(moved).max() > 0.15
    assert np.abs(off).max() < 0.1


def test_the_shift_brings_the_centre_to_the_estimate_and_ignores_another_basin():
    rng = np.random.default_rng(6)
    near, estimate = rng.normal(size=(2, 60)), np.array([3.0, -1.0])
    x = np.column_stack([np.ones(50), rng.normal(size=50)])
    bound = bound_to(x)
    assert np.allclose(near.mean(1) + calibrating_shift(near, estimate, bound), estimate)
    # Far in one coordinate is far.
    far = np.array([[50.0, 0.1, -40.0], [0.2, 70.0, 0.0]])
    whole = np.column_stack([far, near])
    assert np.allclose(
        calibrating_shift(whole, estimate, bound), calibrating_shift(near, estimate, bound)
    )


def bound_to(x):
    cells = Cells.from_rows(x, np.zeros(len(x)))
    return Linear().bind(cells, cells, 1, 0)


def test_the_shift_does_not_depend_on_the_coding_of_a_category():
    """Which draws are far is a matter of what they predict, whichever level is the base."""
    rng = np.random.default_rng(0)
    level = np.repeat([0, 1, 2], [2, 100, 100])
    # Predictors at each level: of the first, which few rows have, little is known. As the base
    # it moves all coefficients.
    draws = np.array([[4.0], [0.1], [0.1]]) * rng.normal(size=(3, 60))
    draws[1:, :4] += 9
    found = []
    for base in range(3):
        others = [k for k in range(3) if k != base]
        at_level = np.column_stack([np.ones(3), np.eye(3)[:, others]])
        bound = bound_to(at_level[level])
        coded = bound.from_user(np.linalg.solve(at_level, draws))
        shift = calibrating_shift(coded, np.zeros(3), bound)
        found.append(at_level @ bound.to_user(shift[:, None])[:, 0])
    np.testing.assert_allclose(found, np.tile(-draws[:, 4:].mean(1), (3, 1)), atol=1e-9)
