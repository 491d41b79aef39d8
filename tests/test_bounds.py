"""Guarantees: constants by hand, attained where they are sharp, and kept in simulations."""

import re
from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.stats import binom, geom, poisson

import tvdbayes as tb
from tvdbayes import Bernoulli, Cells, Model, Poisson, SettingsError
from tvdbayes.bounds import (
    cells_report,
    deviation,
    failure_probability,
    kernel_failure_probability,
    kernel_tvd,
    misfit_upper,
    parameter_set,
    robustness_radius,
    tvd_radius,
)

DELTA = 0.1
N_RUNS = 400
NEARLY_ALL = 0.99
"""The radii are wider than they need be: their true coverage is above .995 in all of these laws."""


def tvd(p, q):
    return np.abs(p - q).sum(-1) / 2


def cut(pmf, k):
    return np.append(pmf[: k - 1], 1 - pmf[: k - 1].sum())


def zipf(k):
    mass = np.arange(1, k + 1.0) ** -1.5
    return mass / mass.sum()


LAWS = {
    "uniform 5": np.full(5, 0.2),
    "uniform 50": np.full(50, 0.02),
    "uniform 500": np.full(500, 0.002),
    "poisson": cut(poisson(3).pmf(np.arange(40)), 40),
    "geometric": cut(geom(0.05, loc=-1).pmf(np.arange(400)), 400),
    "power law": zipf(5000),
    "two": np.array([0.97, 0.03]),
}

SLOPED = Cells.from_rows([[1, 0.1], [1, 0.7]], [0, 1])
COUNTS = Cells.from_rows(np.ones((300, 1)), np.random.default_rng(3).poisson(3, 300))


# ---- the radius of a table


@pytest.mark.parametrize(
    ("law", "weissman", "mcdiarmid", "counts"),
    [
        ("uniform 5", 0.057, 0.070, 0.134),
        ("uniform 50", 0.137, 0.149, 0.255),
        ("uniform 500", 0.418, 0.392, 0.601),
        ("poisson", 0.124, 0.137, 0.149),
        ("geometric", 0.374, 0.355, 0.281),
    ],
)
def test_the_table_of_radii_is_reproduced(law, weissman, mcdiarmid, counts):
    mass = LAWS[law]
    known = tvd_radius(1000, 0.05, n_cells=len(mass))
    assert known.candidates["Weissman"] == pytest.approx(weissman, abs=6e-4)
    assert known.candidates["McDiarmid"] == pytest.approx(mcdiarmid, abs=6e-4)
    assert known.radius == min(known.candidates.values())
    drawn = np.random.default_rng(0).multinomial(1000, mass, 50)
    own = np.mean([tvd_radius(1000, 0.05, counts=c).radius for c in drawn])
    assert own == pytest.approx(counts, abs=0.0015)


def test_the_walk_of_a_count_is_exact():
    for n in range(1, 9):
        mean = np.mean([abs(sum(steps)) for steps in product((-1, 1), repeat=n)])
        slack = np.sqrt(2 * np.log(20) / n)
        assert tvd_radius(n, 0.05, counts=[n]).radius == pytest.approx(mean / n + slack)


def test_the_smallest_radius_pays_for_the_choice():
    counts = np.full(10, 10)
    both = tvd_radius(100, 0.05, n_cells=10, counts=counts)
    halves = tvd_radius(100, 0.025, n_cells=10), tvd_radius(100, 0.025, counts=counts)
    assert both.radius == min(half.radius for half in halves)
    assert set(both.candidates) == {"Weissman", "McDiarmid", "counts"}


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("n", [60, 1000])
def test_radii_hold(law, n):
    mass = LAWS[law]
    counts = np.random.default_rng(1).multinomial(n, mass, N_RUNS)
    seen = tvd(counts / n, mass)
    for radius in tvd_radius(n, DELTA, n_cells=len(mass)).candidates.values():
        assert np.mean(seen <= radius) >= NEARLY_ALL
    own = [tvd_radius(n, DELTA, counts=c).radius for c in counts]
    assert np.mean(seen <= own) >= NEARLY_ALL
    both = [tvd_radius(n, DELTA, len(mass), c).radius for c in counts]
    assert np.mean(seen <= both) >= NEARLY_ALL


SIZES = st.integers(1, 100_000)
TWO_DELTAS = st.tuples(st.floats(1e-9, 0.99), st.floats(1e-9, 0.99))


@given(SIZES, st.integers(1, 1000), st.integers(2, 5000), st.integers(1, 1000), TWO_DELTAS)
@settings(deadline=None)
def test_a_radius_falls_with_rows_and_grows_with_cells_and_certainty(n, more, k, others, deltas):
    low, high = sorted(deltas)
    radius = tvd_radius(n, low, n_cells=k).radius
    assert tvd_radius(n + more, low, n_cells=k).radius < radius
    assert tvd_radius(n, low, n_cells=k + others).radius > radius
    assert tvd_radius(n, high, n_cells=k).radius <= radius


@given(SIZES, st.integers(1, 1000), st.integers(1, 60), st.integers(2, 60), TWO_DELTAS)
@settings(deadline=None)
def test_a_deviation_falls_with_rows_and_grows_with_cells_and_certainty(n, more, n_x, n_y, deltas):
    low, high = sorted(deltas)
    for printed in (False, True):
        options = {"n_x": n_x, "n_y": n_y, "as_printed": printed}
        radius = deviation(n, low, **options).radius
        assert deviation(n + more, low, **options).radius < radius
        assert deviation(n, high, **options).radius <= radius
        assert deviation(n, low, **options | {"n_y": n_y + 1}).radius > radius
        assert deviation(n, low, **options | {"n_x": n_x + 1}).radius > radius


@given(st.lists(st.integers(1, 50), min_size=1, max_size=40), TWO_DELTAS)
def test_the_radius_of_counts_grows_with_certainty_and_is_below_its_bound(counts, deltas):
    n, (low, high) = sum(counts), sorted(deltas)
    radius = tvd_radius(n, low, counts=counts).radius
    assert tvd_radius(n, high, counts=counts).radius <= radius
    assert radius <= np.sqrt(counts).sum() / n + np.sqrt(2 * np.log(1 / low) / n) + 1e-12


def test_one_cell_is_its_law():
    assert tvd_radius(10, 0.05, n_cells=1).radius == 0
    assert failure_probability(10, 0.1, n_x=1, n_y=1) == 0


def test_a_result_says_what_it_needs_and_when_it_is_empty():
    empty = tvd_radius(10, 0.05, n_cells=1000)
    assert empty.vacuous
    assert "says nothing" in str(empty)
    useful = tvd_radius(10_000, 0.05, n_cells=5)
    assert not useful.vacuous
    assert "says nothing" not in str(useful)
    assert "independently" in str(useful)
    assert "Weissman" in useful.statement


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: tvd_radius(100, 0.05), "n_cells"),
        (lambda: tvd_radius(100, 0, n_cells=3), "delta"),
        (lambda: tvd_radius(0, 0.05, n_cells=3), "n must"),
        (lambda: tvd_radius(2.5, 0.05, n_cells=3), "n must"),
        (lambda: tvd_radius(100, 0.05, counts=[50, 49]), "add up to n = 100"),
        (lambda: tvd_radius(1, 0.05, counts=[0.5, 0.5]), "whole numbers"),
        (lambda: tvd_radius(1, 0.05, counts=["one"]), "counts must hold numbers"),
        (lambda: tvd_radius("many", 0.05, n_cells=3), "n must"),
        (lambda: parameter_set(Model(Poisson()), COUNTS, 0.1, theta=["a"]), "theta must hold"),
        (lambda: tvd_radius(100, 0.05, n_cells=1, counts=[50, 50]), "2 cells were seen"),
        (lambda: deviation(100, 1.5, n_x=1, n_y=2), "delta"),
        (lambda: deviation(100, 0.05, n_x=0, n_y=2), "n_x"),
        (lambda: failure_probability(100, 0, n_x=1, n_y=2), "radius"),
        (lambda: robustness_radius(1.2), "share"),
        (lambda: parameter_set(Model(Poisson()), COUNTS, -0.1), "share"),
        (lambda: parameter_set(Model(Poisson()), COUNTS, 0.1, theta=[1, 2]), "theta"),
        (lambda: parameter_set(Model(Poisson()), COUNTS, 0.1, n_simulations=9), "n_simulations"),
        (
            lambda: parameter_set(
                Model(Poisson()), COUNTS, 0.1, theta=[1], partition=tb.Singletons()
            ),
            "singletons",
        ),
        (lambda: misfit_upper(Model(Poisson()), COUNTS), "theta"),
        (lambda: misfit_upper(Model(Poisson()), COUNTS, theta=[1, 2]), "theta"),
        (lambda: misfit_upper(Model(Poisson()), COUNTS, theta=[1], design="odd"), "design"),
        (lambda: kernel_tvd(Model(Poisson()), [1], COUNTS, 0.1), "one covariate"),
        (lambda: kernel_tvd(Model(Poisson()), [1], COUNTS, 0), "bandwidth"),
        (lambda: kernel_tvd(Model(Bernoulli()), [1, 1], SLOPED, 1e-13), "rounding"),
        (lambda: kernel_tvd(Model(Bernoulli()), [1, 1], SLOPED, 1, smoothness=-1), "smoothness"),
        (lambda: cells_report(Cells.from_counts([[1]], [1], [1.5])), "whole numbers"),
    ],
)
def test_bad_input_is_named(call, says):
    with pytest.raises(SettingsError, match=says):
        call()


# ---- the deviation, and the paper's proposition


def largest_errors(n, law, models, n_runs):
    """Largest error of the estimated distance over some models, in each data set."""
    x = law.sum(1, keepdims=True)
    true = tvd(law.ravel(), (models * x).reshape(len(models), -1))
    seen = np.random.default_rng(2).multinomial(n, law.ravel(), n_runs) / n
    own = seen.reshape(-1, 1, *law.shape).sum(-1, keepdims=True) * models
    found = tvd(seen[:, None], own.reshape(n_runs, len(models), -1))
    return np.abs(found - true).max(1)


@pytest.mark.parametrize(
    ("n_x", "n_y", "n"),
    [(1, 5, 500), (4, 9, 1000), (30, 2, 1000), (10, 10, 4000), (12, 6, 2000), (30, 30, 30_000)],
)
def test_the_deviation_holds_for_all_models_at_once(n_x, n_y, n):
    rng = np.random.default_rng(5)
    law = zipf(n_x)[:, None] * rng.dirichlet(np.ones(n_y), n_x)
    models = rng.dirichlet(np.ones(n_y), (12, n_x))
    models[0] = law / law.sum(1, keepdims=True)
    found = deviation(n, DELTA, n_x=n_x, n_y=n_y)
    assert not found.vacuous
    assert found.holds
    worst = largest_errors(n, law, models, 200)
    # The truth is 1.00: the bound holds for every law and all models at once.
    assert np.mean(worst <= found.radius) >= 0.99


@pytest.mark.parametrize(
    ("k", "n", "probability", "printed"), [(30, 300, 1.0, 8e-6), (20, 200, 0.06, 5.1e-4)]
)
def test_the_printed_proposition_is_false(k, n, probability, printed):
    law, model = np.full((k, k), 1 / k**2), np.full((1, k, k), 1 / k)
    worst = largest_errors(n, law, model, 1500)
    assert np.mean(worst >= 0.6) == pytest.approx(probability, abs=0.02)
    claimed = failure_probability(n, 0.6, n_x=k, n_y=k, as_printed=True)
    assert claimed == pytest.approx(printed, rel=0.03)
    # More than a hundred times as often as printed; what is true says nothing here.
    assert np.mean(worst >= 0.6) > 80 * claimed
    assert failure_probability(n, 0.6, n_x=k, n_y=k) == 1
    false = deviation(n, 1e-3, n_x=k, n_y=k, as_printed=True)
    assert not false.holds
    assert "NOT TRUE" in str(false)


@pytest.mark.parametrize(("n_x", "n_y"), [(1, 5), (4, 9), (3, 300)])
@pytest.mark.parametrize("as_printed", [False, True])
def test_radius_and_failure_probability_are_inverse(n_x, n_y, as_printed):
    options = {"n_x": n_x, "n_y": n_y, "as_printed": as_printed}
    found = deviation(5000, 1e-3, **options)
    # The radius may use a further inequality, so it is at most the inverse.
    again = failure_probability(5000, found.radius, **options)
    assert again >= 1e-3 * (1 - 1e-9)
    if n_x == 1 or as_printed:
        assert again == pytest.approx(1e-3)


def test_the_deviation_is_the_smallest_of_its_bounds_by_hand():
    n, delta, n_x, n_y = 2000, 0.05, 4, 9

    def weissman(k, d):
        return np.sqrt((np.log(2.0**k - 2) + np.log(1 / d)) / (2 * n))

    def mcdiarmid(k, d):
        return np.sqrt((k - 1) / n) / 2 + np.sqrt(np.log(1 / d) / (2 * n))

    marginal = min(weissman(n_x, delta / 2), mcdiarmid(n_x, delta / 2))
    by_hand = {
        "Weissman, twice": 2 * weissman(36, delta),
        "McDiarmid, twice": 2 * mcdiarmid(36, delta),
        "Weissman, and of x": weissman(36, delta / 2) + marginal,
        "McDiarmid, and of x": mcdiarmid(36, delta / 2) + marginal,
    }
    found = deviation(n, delta, n_x=n_x, n_y=n_y)
    assert found.candidates == pytest.approx(by_hand)
    assert found.radius == min(found.candidates.values())
    alone = deviation(n, delta, n_x=1, n_y=n_y)
    assert alone.radius == pytest.approx(min(weissman(9, delta), mcdiarmid(9, delta)))


@pytest.mark.parametrize("n", [57, 313, 2000])
def test_printed_bounds_are_rounded_up(n):
    counts = Cells.from_rows(np.ones((n, 1)), np.arange(n) % 7)
    sloped = Cells.from_rows(np.column_stack([np.ones(n), np.arange(n) / n]), np.arange(n) % 2)
    kernel = kernel_tvd(Model(Bernoulli()), [0.1, 0.3], sloped, 0.1)
    table, report = tvd_radius(n, 0.05, n_cells=3), cells_report(counts)
    bounds = (table, table.radius), (report, report.radius), (kernel, kernel.smoothed_upper)
    for found, bound in bounds:
        printed = float(re.findall(r"within (\d\.\d{3})", str(found))[0])
        assert bound <= printed < bound + 0.001
    robust = robustness_radius(1 / n)
    assert f"{robust.closest_model + 0.0005:.3f}" in robust.statement


# ---- robustness


def sharp_change(e):
    """Two covariates: at one the model is all wrong, at the other wrong rows hide what it lacks."""
    root = np.sqrt(e)
    x = np.array([1, root]) / (1 + root)
    f_0, f = np.array([[1.0, 0], [0, 1]]), np.array([[0, 1.0], [root, 1 - root]])
    c = (1 - e) * x[:, None] * f_0 + e * np.array([[0, 0], [1.0, 0]])
    seen = tvd(c.ravel(), (c.sum(1, keepdims=True) * f).ravel())
    return seen - tvd((x[:, None] * f_0).ravel(), (x[:, None] * f).ravel())


@pytest.mark.parametrize("e", [0.01, 0.1, 0.5, 0.9])
def test_the_lower_end_is_attained(e):
    assert sharp_change(e) == pytest.approx(robustness_radius(e).lower, abs=1e-12)


def test_a_tenth_of_wrong_rows_takes_off_up_to_fifteen_per_cent():
    found = robustness_radius(0.1)
    assert found.lower == pytest.approx(-0.15195, abs=5e-6)
    assert found.upper == 0.1
    assert found.radius == -found.lower
    assert found.closest_model == pytest.approx(0.25195, abs=5e-6)
    assert "nothing about the wrong ones" in str(found)


@pytest.mark.parametrize("e", [0.05, 0.3])
def test_the_upper_end_is_attained(e):
    law = np.array([1.0, 0.0])
    wrong = (1 - e) * law + e * np.array([0.0, 1.0])
    assert tvd(wrong, law) == pytest.approx(robustness_radius(e).upper)
    assert robustness_radius(e, contaminated_x=False).radius == e


@given(st.floats(0, 1), st.integers(0, 10_000), st.sampled_from([0.05, 0.3, 1.0]))
@settings(deadline=None)
def test_no_contamination_moves_a_distance_further(e, seed, alpha):
    rng = np.random.default_rng(seed)
    x, q_x = rng.dirichlet(np.full(3, alpha), 2)
    f_0, f, q = rng.dirichlet(np.full(4, alpha), (3, 3))
    assume(np.isfinite([x.sum(), q_x.sum(), f_0.sum(), f.sum(), q.sum()]).all())
    clean = tvd((x[:, None] * f_0).ravel(), (x[:, None] * f).ravel())
    wrong = (1 - e) * x[:, None] * f_0 + e * q_x[:, None] * q
    seen = tvd(wrong.ravel(), (wrong.sum(1, keepdims=True) * f).ravel()) - clean
    known = tvd(wrong.ravel(), (x[:, None] * f).ravel()) - clean
    found = robustness_radius(e)
    assert found.lower - 1e-12 <= seen <= found.upper + 1e-12
    assert abs(known) <= robustness_radius(e, contaminated_x=False).radius + 1e-12
    assert robustness_radius(e, as_printed=True).radius >= found.radius - 1e-12


def test_all_wrong_says_nothing():
    assert robustness_radius(1.0).vacuous
    assert not robustness_radius(0.49).vacuous
    assert robustness_radius(0.5, as_printed=True).vacuous


# ---- the misfit of a fixed model


MISFITS = {
    "poisson": (Poisson(), 1, 100),
    "poisson, 4 levels": (Poisson(), 4, 200),
    "yes/no, 10 levels": (Bernoulli(), 10, 150),
    "yes/no, 40 levels": (Bernoulli(), 40, 60),
    "geometric": (tb.Geometric(), 6, 200),
    "poisson, 20 levels": (Poisson(), 20, 80),
}


@pytest.mark.parametrize("name", MISFITS)
def test_the_misfit_bound_holds(name):
    family, n_x, n = MISFITS[name]
    rng = np.random.default_rng(7)
    at = np.linspace(-1, 1, n_x) if n_x > 1 else np.zeros(1)
    y = np.arange(2 if family.binary else 150)
    law, wrong = (family.pmf(y, (0.8 + b * at)[None, :, None], np.ones(1)) for b in (1.0, 0.2))
    by_x = tvd(law / law.sum(1, keepdims=True), wrong)
    model, theta = Model(family), [0.8, 0.2][: 1 + (n_x > 1)]
    free, fixed = [], []
    for _ in range(120):
        x = rng.integers(0, n_x, n)
        columns = np.column_stack([np.ones(n), at[x]])[:, : len(theta)]
        drawn = family.sample(rng, (0.8 + at[x])[None], np.ones(n))
        cells = Cells.from_rows(columns, drawn)
        free.append(by_x.mean() <= misfit_upper(model, cells, DELTA, theta=theta).upper)
        given_x = misfit_upper(model, cells, DELTA, theta=theta, design="fixed")
        fixed.append(by_x[x].mean() <= given_x.upper)
    # The truth is 1.00: what is seen is too large on average, and the slack comes on top.
    assert np.mean(free) >= 0.98
    assert np.mean(fixed) >= 0.98


def test_the_misfit_bound_is_the_plug_in_and_a_slack_by_hand():
    found = misfit_upper(Model(Poisson()), COUNTS, 0.05, theta=[np.log(3)])
    f = poisson.pmf(COUNTS.y, 3)
    assert found.distance == pytest.approx(np.maximum(COUNTS.p - f, 0).sum())
    assert found.slack == pytest.approx(np.sqrt(np.log(20) / 600))
    assert found.upper == found.distance + found.slack
    x = np.column_stack([np.ones(300), np.arange(300) % 3])
    cells = Cells.from_rows(x, np.arange(300) % 2)
    free = misfit_upper(Model(Bernoulli()), cells, 0.05, theta=[0, 0])
    assert free.slack == pytest.approx(np.sqrt(2 * np.log(20) / 300))
    fixed = misfit_upper(Model(Bernoulli()), cells, 0.05, theta=[0, 0], design="fixed")
    assert fixed.slack == pytest.approx(free.slack / 2)
    assert "given covariates" in str(fixed)


def test_parameters_of_the_same_rows_are_refused():
    fit = tb.posterior_bootstrap(Model(Poisson()), COUNTS, n_draws=0)
    again = Cells.from_counts(COUNTS.x[COUNTS.x_index], COUNTS.y, COUNTS.counts)
    for cells in (COUNTS, again):
        with pytest.raises(SettingsError, match="misfit_split"):
            misfit_upper(fit, cells)
    with pytest.raises(SettingsError, match="its own parameters"):
        misfit_upper(fit, COUNTS, theta=[1])
    other = Cells.from_rows(np.ones((200, 1)), np.random.default_rng(8).poisson(3, 200))
    assert misfit_upper(fit, other).upper < 0.3


# ---- the certified set


def contaminated(rng, kind, n=200, share=0.15):
    y = rng.poisson(3, n).astype(float)
    bad = rng.random(n) < share
    y[bad] = {"none": y[bad], "far": 40.0, "+3": y[bad] + 3, "zero": 0.0}[kind]
    return Cells.from_rows(np.ones((n, 1)), y)


@pytest.mark.parametrize("kind", ["none", "far", "+3", "zero"])
def test_the_set_covers_whatever_the_wrong_rows(kind):
    rng = np.random.default_rng(10)
    inside = [
        parameter_set(
            Model(Poisson()), contaminated(rng, kind), 0.15, 0.05, theta=[np.log(3)],
            n_simulations=100, seed=seed,
        ).inside[0]
        for seed in range(40)
    ]  # fmt: skip
    # The truth is 1.00, whatever the wrong rows are.
    assert np.mean(inside) >= 0.975


def test_the_set_covers_with_covariates_and_without_wrong_rows():
    """The truth is 1.00; without what is added for chance it would be one half."""
    rng, inside = np.random.default_rng(20), []
    for seed in range(30):
        x = rng.integers(0, 3, 200)
        cells = Cells.from_rows(
            np.column_stack([np.ones(200), x]), rng.poisson(np.exp(0.2 + 0.4 * x))
        )
        found = parameter_set(Model(Poisson()), cells, 0.0, DELTA, theta=[0.2, 0.4], seed=seed)
        inside.append(found.inside[0])
    assert np.mean(inside) >= 0.98


@pytest.mark.parametrize("share", [0.0, 0.05, 0.3])
@pytest.mark.parametrize("n_x", [1, 3])
def test_the_limit_of_a_model_without_noise_is_known(n_x, share):
    """A model that says 0 with certainty leaves only wrong rows, and the inequality with x."""
    n, delta = 120, 0.05
    x = np.column_stack([np.ones(n), np.arange(n) % n_x])[:, : min(n_x, 2)]
    cells = Cells.from_rows(x, np.arange(n) % 11 == 0)
    theta = [-800.0, 0.0][: x.shape[1]]
    found = parameter_set(Model(Bernoulli()), cells, share, delta, theta=theta)
    spent = delta / 2 if share else delta
    wrong = binom.ppf(1 - delta / 2, n, share)
    chance = np.sqrt((n - wrong) * np.log(1 / spent) / 2) / n if n_x > 1 else 0.0
    assert found.limit[0] == pytest.approx(wrong / n + chance)
    assert found.distance[0] == pytest.approx(11 / n)


def test_half_of_the_rows_wrong_leave_no_end():
    """Rates of 3 and of 40 are both possible, far from each other: no interval around one holds."""
    rng = np.random.default_rng(21)
    y = np.r_[rng.poisson(3, 150), rng.poisson(40, 150)]
    cells = Cells.from_rows(np.ones((300, 1)), y)
    found = parameter_set(Model(Poisson()), cells, 0.55, n_simulations=100)
    possible = parameter_set(Model(Poisson()), cells, 0.55, theta=np.log([[3], [40]]))
    assert possible.inside.all()
    assert (found.low <= possible.values.min()).all()
    assert (found.high >= possible.values.max()).all()
    assert found.vacuous


def test_the_set_is_nearly_exact_without_wrong_rows():
    rng = np.random.default_rng(11)
    inside = [
        parameter_set(
            Model(Poisson()), contaminated(rng, "none", 100, 0), 0.0, 0.2, theta=[np.log(3)],
            n_simulations=99, seed=seed,
        ).inside[0]
        for seed in range(150)
    ]  # fmt: skip
    assert 0.7 <= np.mean(inside) <= 0.9


@pytest.mark.parametrize("family", [Poisson(), Bernoulli()], ids=lambda f: f.name)
def test_the_set_covers_with_covariates_that_are_wrong_too(family):
    rng, inside = np.random.default_rng(12), []
    for seed in range(15):
        x = np.column_stack([np.ones(300), rng.integers(0, 3, 300)])
        y = family.sample(rng, (x @ [0.2, 0.4])[None], np.ones(300)).astype(float)
        bad = rng.random(300) < 0.1
        x[bad, 1], y[bad] = 2, 0
        found = parameter_set(
            Model(family), Cells.from_rows(x, y), 0.1, theta=[[0.2, 0.4], [9.0, -9.0]], seed=seed
        )
        inside.append(found.inside)
    assert np.mean(inside, axis=0).tolist() == [1, 0]


def test_the_grid_finds_the_ends_of_the_set():
    cells = contaminated(np.random.default_rng(13), "far")
    found = parameter_set(Model(Poisson()), cells, 0.15, n_simulations=100)
    low, high = found.low[0], found.high[0]
    assert low < np.log(3) < high
    assert 1 < np.exp(high) - np.exp(low) < 3.5
    assert not found.vacuous
    ends = parameter_set(
        Model(Poisson()), cells, 0.15, n_simulations=100, theta=[[low], [high], [np.log(3)]]
    )
    assert ends.inside.tolist() == [False, False, True]
    assert low < found.set.min() <= found.set.max() < high
    assert "between" in str(found)


def test_groups_are_compared_as_in_a_fit():
    rng = np.random.default_rng(19)
    x = np.column_stack([np.ones(300), rng.normal(size=300)])
    cells = Cells.from_rows(x, rng.random(300) < 1 / (1 + np.exp(-x[:, 1])))
    fit = tb.posterior_bootstrap(Model(Bernoulli()), cells, n_draws=0, seed=2)
    found = parameter_set(
        Model(Bernoulli()), cells, 0.02, theta=fit.minimiser, partition=tb.Auto(), seed=2
    )
    assert found.distance[0] == pytest.approx(fit.minimiser_distance, abs=1e-9)
    assert found.inside.all()


def test_two_parameters_are_searched_on_a_grid():
    rng = np.random.default_rng(14)
    x = np.column_stack([np.ones(400), rng.integers(0, 2, 400)])
    y = rng.random(400) < 1 / (1 + np.exp(-x @ [-1, 2]))
    seen = []
    cells = Cells.from_rows(x, y, names=("Intercept", "dose"))
    found = parameter_set(
        Model(Bernoulli()), cells, 0.0, progress=lambda done, total: seen.append((done, total))
    )
    assert found.values.shape == (441, 2)
    assert seen[-1] == (441, 441)
    assert (found.low < [-1, 2]).all()
    assert (found.high > [-1, 2]).all()
    assert found.low[1] > 0
    assert "dose lies between" in str(found)


def test_too_many_wrong_rows_leave_everything_possible_and_a_wrong_model_nothing():
    cells = contaminated(np.random.default_rng(15), "none", 50, 0)
    assert parameter_set(Model(Poisson()), cells, 0.95, theta=[5.0]).vacuous
    two = Cells.from_counts(np.ones((2, 1)), [0, 30], [500, 500])
    nothing = parameter_set(Model(Poisson()), two, 0.05, n_simulations=100)
    assert not nothing.inside.any()
    assert "No parameters" in str(nothing)
    three = Cells.from_rows(np.random.default_rng(0).normal(size=(9, 3)), np.arange(9))
    with pytest.raises(SettingsError, match="this model has 3"):
        parameter_set(Model(Poisson()), three, 0.1)


# ---- the kernel surrogate


def test_the_printed_failure_probability_of_the_kernel_is_its_formula():
    counts, e = np.array([40_000, 90_000, 70_000]), 0.3
    density = [3 * np.exp(-n * e**2 / 450) + np.exp(-2 * n * e**2 / 225) for n in (*counts, 2e5)]
    printed = min(density[:3]) + density[3] + (2**3 - 2) * np.exp(-2e5 * e**2 / 18)
    assert np.isclose(kernel_failure_probability(counts, e), printed, rtol=1e-12)
    assert kernel_failure_probability(counts, 0.01) == 1
    # Many outcomes: sets of them are counted by their logarithm.
    assert kernel_failure_probability(np.full(2000, 50), 0.1) == 1


@pytest.mark.parametrize("counts", [[5.5, 3], [4], [0, 7]])
def test_the_printed_failure_probability_needs_rows_of_each_outcome(counts):
    with pytest.raises(SettingsError, match="number of rows, at least 1"):
        kernel_failure_probability(counts, 0.1)


def by_quadrature(cells, theta, h):
    """The surrogate for yes/no answers, from its definition."""
    at, yes = cells.x[cells.x_index, 1], cells.y == 1

    def gap(x):
        near = (np.abs(at - x) <= h) * cells.counts
        f = 1 / (1 + np.exp(-theta[0] - theta[1] * x))
        return abs(near[yes].sum() - near.sum() * f) / (2 * h * cells.n_obs)

    ends = np.unique(np.concatenate([at - h, at + h]))
    return sum(quad(gap, a, b, limit=200)[0] for a, b in pairwise(ends))


@pytest.mark.parametrize("h", [0.01, 0.3, 2.0])
def test_the_kernel_surrogate_is_its_definition(h):
    rng = np.random.default_rng(16)
    x, theta = rng.random(25).round(2), (-1.0, 3.0)
    cells = Cells.from_rows(np.column_stack([np.ones(25), x]), rng.random(25) < 0.5)
    found = kernel_tvd(Model(Bernoulli()), theta, cells, h)
    assert found.distance == pytest.approx(by_quadrature(cells, theta, h), abs=1e-8)


def test_the_kernel_surrogate_of_counts_is_a_sum_over_all_outcomes():
    cells = Cells.from_rows([[1, 0.0], [1, 0.3], [1, 0.5]], [0, 2, 2])
    h, at = 0.2, cells.x[:, 1]

    def gap(x):
        near = np.abs(at - x) <= h
        f = poisson.pmf(np.arange(60), np.exp(0.5 + x))
        seen = np.bincount(cells.y.astype(int)[near], minlength=60)
        return np.abs(seen - near.sum() * f).sum() / 2 / (2 * h * 3)

    ends = np.unique(np.r_[at - h, at + h])
    whole = sum(quad(gap, a, b)[0] for a, b in pairwise(ends))
    found = kernel_tvd(Model(Poisson()), [0.5, 1.0], cells, h)
    assert found.distance == pytest.approx(whole, abs=1e-8)


def test_the_kernel_surrogate_tends_to_the_linear_score():
    """The table of the surrogate at the truth, as the bandwidth goes to zero."""
    printed = {0.2: 0.028, 0.05: 0.039, 0.02: 0.061, 0.005: 0.119, 0.001: 0.244, 1e-4: 0.383}
    printed |= {1e-5: 0.407, 1e-6: 0.409}
    found, limits = [], []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        x = rng.random(1000)
        y = rng.random(1000) < 1 / (1 + np.exp(1 - 3 * x))
        cells = Cells.from_rows(np.column_stack([np.ones(1000), x]), y)
        records = [kernel_tvd(Model(Bernoulli()), (-1, 3), cells, h) for h in printed]
        found.append([k.distance for k in records])
        limits.append(records[0].limit)
        score = np.where(y, 1, 0) * 1 / (1 + np.exp(1 - 3 * x))
        score += np.where(y, 0, 1) / (1 + np.exp(3 * x - 1))
        assert records[0].limit == pytest.approx(1 - score.mean())
        assert records[-1].distance == pytest.approx(records[-1].limit, abs=5e-3)
    assert np.mean(found, 0) == pytest.approx(list(printed.values()), abs=0.012)
    assert np.mean(limits) == pytest.approx(0.410, abs=0.006)


def test_without_a_smoothness_constant_the_kernel_certifies_nothing():
    rng = np.random.default_rng(17)
    x = rng.random(500)
    cells = Cells.from_rows(np.column_stack([np.ones(500), x]), rng.random(500) < x)
    found = kernel_tvd(Model(Bernoulli()), (-2, 4), cells, 0.05)
    assert found.vacuous
    assert found.smoothed_upper == pytest.approx(found.distance + np.sqrt(2 * np.log(20) / 500))
    assert found.smoothed_upper < 1
    known = kernel_tvd(Model(Bernoulli()), (-2, 4), cells, 0.05, smoothness=3)
    assert known.upper == pytest.approx(known.smoothed_upper + 0.05 * 3 / 2)
    assert not known.vacuous


# ---- the report on a table


def test_the_report_counts_rows_that_share_covariates():
    x = np.column_stack([np.ones(31), np.r_[np.zeros(20), np.ones(10), 2]])
    report = cells_report(Cells.from_rows(x, np.arange(31) % 2))
    assert (report.n_obs, report.n_x, report.n_y, report.n_cells) == (31, 3, 2, 5)
    assert report.rows_per_x[0.5] == 20
    assert report.rows_per_x[0.05] == 10
    assert report.alone == pytest.approx(1 / 31)
    assert report.expected_bias == pytest.approx(0.6 / 20)
    assert not report.needs_groups
    counts = np.bincount(np.unique(np.column_stack([x[:, 1], np.arange(31) % 2]), axis=0,
                                   return_inverse=True)[1].ravel())  # fmt: skip
    assert report.radius == tvd_radius(31, 0.05, counts=counts).radius


def test_the_report_says_when_groups_are_needed():
    x = np.column_stack([np.ones(50), np.arange(50)])
    report = cells_report(Cells.from_rows(x, np.arange(50) % 2))
    assert report.needs_groups
    assert report.alone == 1
    assert report.vacuous
    assert "must be compared in groups" in str(report)


# ---- convergence


RATES = np.linspace(2, 5, 31)
OUTCOMES = np.arange(60)
CLEAN = poisson.pmf(OUTCOMES, 3)
FAR = 0.85 * CLEAN + 0.15 * (OUTCOMES == 40)
WIDE = cut(geom(0.25, loc=-1).pmf(OUTCOMES), 60)


def tables(law, n, n_runs):
    """Tables of n rows each, and the share of each outcome in them."""
    for counts in np.random.default_rng([18, n]).multinomial(n, law / law.sum(), n_runs):
        seen = np.flatnonzero(counts)
        yield Cells.from_counts(np.ones((len(seen), 1)), seen, counts[seen]), counts / n


@pytest.mark.parametrize("law", [CLEAN, FAR], ids=["clean", "far"])
def test_the_distance_converges_for_all_parameters_at_once(law):
    """Corollary 1: the largest error is below the bound, and falls like one over root n."""
    model, true = Model(Poisson()), tvd(law, poisson.pmf(OUTCOMES, RATES[:, None]))
    largest = {}
    for n in (400, 40_000):
        bound = deviation(n, 0.01, n_x=1, n_y=60).radius
        errors = []
        for cells, _ in tables(law, n, 12):
            seen = [misfit_upper(model, cells, theta=[np.log(rate)]).distance for rate in RATES]
            errors.append(np.abs(seen - true).max())
        assert max(errors) <= bound
        largest[n] = np.mean(errors)
    # A hundred times the rows, a tenth of the error.
    assert largest[40_000] == pytest.approx(largest[400] / 10, rel=0.3)


@pytest.mark.parametrize("law", [CLEAN, FAR, WIDE], ids=["clean", "far", "another law"])
def test_the_minimiser_comes_as_close_as_any_model(law):
    """Proposition 4: no farther than the closest model and twice the distance of the table."""
    rates = np.linspace(1, 8, 3501)
    closest = tvd(law, poisson.pmf(OUTCOMES, rates[:, None])).min()
    for n in (100, 400, 40_000):
        for cells, seen in tables(law, n, 12):
            fit = tb.posterior_bootstrap(Model(Poisson()), cells, n_draws=0, refine=None)
            reached = tvd(law, poisson.pmf(OUTCOMES, np.exp(fit.minimiser[0])))
            assert reached <= closest + 2 * tvd(seen, law) + 1e-9


def test_the_minimiser_converges_to_the_set_of_closest_models_only():
    found = {
        name: np.exp(
            [
                tb.posterior_bootstrap(Model(Poisson()), cells, n_draws=0, refine=None).minimiser[0]
                for cells, _ in tables(law, 40_000, 15)
            ]
        )
        for name, law in (("clean", CLEAN), ("far", FAR))
    }
    assert np.abs(found["clean"] - 3).max() < 0.06
    # Every rate from 3 to 3 - log(.85) is as close to the law with 15 % far away.
    assert found["far"].min() > 3 - 0.06
    assert found["far"].max() < 3 - np.log(0.85) + 0.06
    assert np.ptp(found["far"]) > 0.08
