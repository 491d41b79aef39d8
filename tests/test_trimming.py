"""The trimmed likelihood: far rows, rows that are too many, and the fit to the rest."""

import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import scipy.linalg
from benchmarks.families import flooded_class, reversed_ratings
from click.testing import CliRunner
from scipy import stats
from scipy.special import expit

import tvdbayes as tb
from test_units import coded, codings, design, predictors, table
from tvdbayes import (
    Bernoulli,
    Cells,
    Distinct,
    KMeansGroups,
    Model,
    Poisson,
    SettingsError,
    storage,
)
from tvdbayes.cli import main
from tvdbayes.models.families import ALL_FAMILIES
from tvdbayes.objective import Layout, Objective
from tvdbayes.sampling.planners import plan_of
from tvdbayes.sampling.statements import rows_used
from tvdbayes.sampling.weights import Prior
from tvdbayes.trimming import bend, far, far_rows, rule, surplus, trimmed_fit, widening
from tvdbayes.trimming.surplus import kept_share


def cells_of(z, y=None, **more):
    z = np.asarray(z, float)
    z = z[:, None] if z.ndim == 1 else z
    y = np.zeros(len(z)) if y is None else y
    return Cells.from_rows(np.column_stack([np.ones(len(z)), z]), y, **more)


def fitted(cells, law=None, *, n_draws=0, refine="trim", **more):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tb.TVDBayesWarning)
        return tb.posterior_bootstrap(
            Model(law or Bernoulli()), cells, n_draws=n_draws, refine=refine, **more
        )


def logit_rows(n=400, share=0.0, seed=0, slopes=(1.0, -0.8, 0.4)):
    """A logistic model, a share of whose rows stands in a cluster far out and answers 0."""
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(n, len(slopes)))
    y = (rng.random(n) < expit(-0.3 + z @ slopes)).astype(float)
    bad = np.arange(n) < share * n
    z[bad, :2], y[bad] = [3.2, -3.2] + 0.4 * rng.normal(size=(bad.sum(), 2)), 0
    return z, y, bad, np.array([-0.3, *slopes])


def count_rows(n=400, share=0.0, seed=0):
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(n, 2))
    y = rng.poisson(np.exp(1 + z @ [0.4, -0.3])).astype(float)
    bad = np.arange(n) < share * n
    y[bad] += 20
    return z, y, bad, np.array([1.0, 0.4, -0.3])


# Far rows


def test_a_row_far_out_in_one_column_or_only_jointly_is_far():
    rng = np.random.default_rng(1)
    z = rng.normal(size=(300, 2)) @ np.array([[1.0, 0.95], [0.0, np.sqrt(1 - 0.95**2)]])
    z[0], z[1] = [8.0, 7.6], [2.0, -2.0]  # far in each column; usual in each, far together
    cells = cells_of(z)
    far = cells.x[far_rows(cells), 1:]
    for row in z[:2]:
        assert (far == row).all(1).any()
    assert 2 <= len(far) <= 12


def test_levels_have_no_outliers_and_outcomes_are_not_looked_at():
    rng = np.random.default_rng(2)
    rare = (rng.random(500) < 0.01).astype(float)
    assert not far_rows(cells_of(rare)).any()
    z = rng.standard_t(3, 500)
    one, other = (cells_of(z, y) for y in (np.zeros(500), rng.integers(0, 2, 500)))
    assert np.array_equal(far_rows(one), far_rows(other))


def test_no_more_than_a_quarter_of_the_rows_is_far():
    z = np.random.default_rng(3).standard_cauchy((1000, 3))
    cells = cells_of(z)
    assert 0.2 < cells.x_counts[far_rows(cells)].sum() / 1000 <= 0.25


def test_one_covariate_is_enough_where_there_are_many():
    """Of twelve, one is 3.6 deviations out: not far out jointly, which takes 5.1."""
    z = np.random.default_rng(5).normal(size=(2000, 12))
    z[0] = 0.0
    z[0, 3] = 3.6 * 1.4826 * np.median(np.abs(z[:, 3] - np.median(z[:, 3])))
    cells = cells_of(z)
    assert far_rows(cells)[(cells.x[:, 1:] == z[0]).all(1)].all()
    z[0, 3] /= 1.3
    cells = cells_of(z)
    assert not far_rows(cells)[(cells.x[:, 1:] == z[0]).all(1)].any()


def test_the_bulk_is_where_most_rows_are_not_most_distinct_ones():
    rng = np.random.default_rng(4)
    z = np.r_[rng.normal(size=100), rng.normal(40, 1, 20)]
    weights = np.r_[np.ones(100), np.full(20, 30.0)]
    cells = cells_of(z, weights=weights)
    far = far_rows(cells)
    assert far[cells.x[:, 1] < 20].all()
    assert far[cells.x[:, 1] > 20].mean() < 0.2


# Rows that are too many


def test_a_table_that_is_the_model_keeps_every_row():
    y = np.arange(12.0)
    pmf = Poisson().pmf(y, np.full((1, 12), np.log(3.0)), np.ones(12))
    cells = Cells.from_counts(np.ones((12, 1)), y, 1e5 * pmf)
    layout = Layout(Model(Poisson()), cells, Distinct(), cells)
    assert (kept_share(layout, cells.p, np.log([3.0]), cells.n_obs) == 1).all()


def test_a_surplus_in_a_group_keeps_what_the_good_rows_would_have():
    """A fifth of the rows of a Poisson(3) are wrong zeros; a tenth of them lies at 30."""
    y = np.r_[np.arange(12.0), 30.0]
    pmf = Poisson().pmf(y, np.full((1, 13), np.log(3.0)), np.ones(13))
    counts = 1e5 * pmf / pmf.sum()
    counts[0] += 2e4
    counts[-1] += 1e4
    cells = Cells.from_counts(np.ones((13, 1)), y, counts)
    layout = Layout(Model(Poisson()), cells, Distinct(), cells)
    kept = kept_share(layout, cells.p, np.log([3.0]), cells.n_obs)
    assert (kept[1:12] == 1).all()
    assert kept[-1] < 1e-6
    good = 1e5 * pmf[0] / counts[0]
    # The good part is estimated in two rounds, from above.
    assert good <= kept[0] < 1.05 * good


def test_far_counts_are_dropped_row_by_row_where_groups_cannot_tell():
    """Rates differ by 100 within a group: a count of 40 is usual for some of its rows."""
    rng = np.random.default_rng(5)
    z = rng.uniform(-2.3, 2.3, 600)
    y = rng.poisson(np.exp(1.4 + z)).astype(float)
    low = np.flatnonzero(z < -1)[:12]
    y[low] = 25
    cells = cells_of(z, y)
    groups = KMeansGroups().learn(cells, 2, 0)
    layout = Layout(Model(Poisson()), cells, groups, cells)
    theta = layout.bound.from_user(np.array([[1.4], [1.0]]))[:, 0]
    kept = kept_share(layout, cells.p, theta, cells.n_obs)
    wrong = (cells.y == 25) & (cells.x[cells.x_index, 1] < -1)
    assert wrong.sum() == 12
    assert (kept[wrong] < 0.5).all()
    assert cells.counts @ (1 - kept) < 14


def test_the_tails_are_judged_row_by_row_and_lose_no_more_rows_than_are_too_many():
    rng = np.random.default_rng(6)
    z = rng.normal(size=400)
    y = rng.poisson(np.exp(1.0 + 0.5 * z)).astype(float)
    wrong = np.argsort(z)[:7]
    y[wrong] = 14  # usual where z is large
    cells = cells_of(z, y)
    layout = Layout(Model(Poisson()), cells, Distinct(), cells)
    theta = layout.bound.from_user(np.array([[1.0], [0.5]]))[:, 0]
    kept = surplus._of_tails(layout, cells.p[:, None], theta[:, None], cells.n_obs)[:, 0]
    assert (kept[np.isin(cells.x[cells.x_index, 1], z[wrong])] == 0).all()
    dropped = cells.counts @ (1 - kept)
    assert 7 <= dropped < 11


def test_the_tail_of_a_name_is_the_probability_of_names_at_most_as_probable():
    law = tb.Categorical(("a", "b", "c"))
    eta = np.log(np.array([[0.2], [0.1]]) / 0.7)
    y = np.array([0.0, 1.0, 2.0])
    found = surplus._tail(law, y, np.repeat(eta, 3, axis=1), np.ones(3))
    np.testing.assert_allclose(found, [1.0, 0.3, 0.1])


def test_the_tail_of_a_count_is_near_its_probability():
    """Of outcomes as far out on their side, where that is small."""
    for rate in (3.0, 30.0, 300.0):
        y = np.floor(rate + np.sqrt(rate) * np.array([-3.5, 3.0, 4.0, 5.0]))
        y = y[y >= 0]
        found = surplus._tail(Poisson(), y, np.full((1, y.size), np.log(rate)), np.ones(y.size))
        exact = np.where(y > rate, stats.poisson.sf(y - 1, rate), stats.poisson.cdf(y, rate))
        assert (np.abs(np.log(found / exact)) < 1.2).all()


def test_rows_that_are_due_in_the_tails_are_those_of_the_law():
    z = np.random.default_rng(7).normal(size=3000)
    cells = cells_of(z, np.zeros(3000))
    for law in (Poisson(), Bernoulli()):
        layout = Layout(Model(law), cells, Distinct(), cells)
        eta = 1.0 + 0.5 * cells.x[:, 1][None]
        rng = np.random.default_rng(8)
        simulated = np.zeros(3)
        for _ in range(40):
            tail = surplus._tail(law, law.sample(rng, eta, cells.trials), eta, cells.trials)
            simulated += [(tail <= level).mean() / 40 for level in surplus._TAILS[-3:]]
        due = surplus._due(layout, cells.x_counts / 3000, eta)[-3:]
        np.testing.assert_allclose(due, simulated, atol=3e-4)


# The estimate


def test_where_nothing_is_dropped_it_is_maximum_likelihood():
    for make, law in ((logit_rows, Bernoulli()), (count_rows, Poisson())):
        z, y, _, _ = make(seed=4)
        fit = fitted(cells_of(z, y), law)
        assert (fit.kept_rows.share == 1).all()
        assert fit.kept_rows.far_agree
        np.testing.assert_allclose(fit.minimiser, fit.kld_minimiser, atol=2e-5)


def test_a_leverage_cluster_that_turns_the_closest_model_is_dropped():
    z, y, bad, truth = logit_rows(400, 0.15, seed=7)
    cells = cells_of(z, y)
    fit = fitted(cells)
    oracle = fitted(cells_of(z[~bad], y[~bad]))
    assert np.abs(fit.kld_minimiser - truth).max() > 0.5
    assert np.abs(fit.minimiser - oracle.kld_minimiser).max() < 0.1
    dropped = cells.p @ (1 - fit.kept_rows.share)
    assert abs(dropped - 0.15) < 0.02
    assert fit.kept_rows.route == "central"


def test_far_counts_are_dropped_and_the_rest_is_fitted_at_full_efficiency():
    z, y, bad, _ = count_rows(400, 0.1)
    fit = fitted(cells_of(z, y), Poisson())
    oracle = fitted(cells_of(z[~bad], y[~bad]), Poisson())
    assert np.abs(fit.minimiser - oracle.kld_minimiser).max() < 0.03


def test_far_rows_that_agree_are_let_in():
    """Honest rows far out carry most of what is known of the slope."""
    rng = np.random.default_rng(8)
    z = np.r_[rng.normal(size=360), rng.normal(6, 0.5, 40)]
    y = rng.poisson(np.exp(0.5 + 0.3 * z)).astype(float)
    cells = cells_of(z, y)
    fit = fitted(cells, Poisson())
    assert fit.kept_rows.far.sum() >= 40
    assert fit.kept_rows.far_agree
    assert cells.p @ fit.kept_rows.share > 0.99
    np.testing.assert_allclose(fit.minimiser, fit.kld_minimiser, atol=0.02)


@pytest.mark.parametrize("law", [Bernoulli(), Poisson()], ids=lambda law: law.name)
def test_far_rows_agree_unless_their_likelihood_is_far_too_low(law):
    """Sums of log-probabilities beside their mean and deviation, found by simulation."""
    rng = np.random.default_rng(9)
    z = np.r_[rng.normal(size=300), rng.normal(5, 0.5, 60)]
    eta = (0.2 + 0.4 * z)[None]
    for factor, wanted in ((1.0, True), (0.25, False)):
        y = law.sample(rng, eta, np.ones(360))
        y[300:] = np.where(rng.random(60) < factor, y[300:], 0)
        cells = cells_of(z, y)
        layout = Layout(Model(law), cells, Distinct(), cells)
        theta = layout.bound.from_user(np.array([[0.2], [0.4]]))[:, 0]
        far = cells.x[:, 1] > 3.2
        kept = np.ones(cells.n_cells)
        assert rule._agree(layout, theta, kept, far) == wanted
        # What was dropped before has no say.
        assert rule._agree(layout, theta, np.where(far[cells.x_index], 0.0, 1.0), far)
        clipped = (0.02, 0.98) if law.binary else (1e-300, 1.0)

        def value(y, clipped=clipped):
            return np.log(np.clip(law.pmf(y, eta[:, 300:], np.ones(60)), *clipped)).sum()

        chance = [value(law.sample(rng, eta[:, 300:], np.ones(60))) for _ in range(400)]
        assert (value(y[300:]) > np.mean(chance) - 6 * np.std(chance)) == wanted


def test_a_few_sure_rows_cannot_decide_for_the_far_ones():
    """Three of twenty rows answer 0 where the model is sure of 1."""
    z = np.r_[np.random.default_rng(1).normal(size=100), np.linspace(9, 11, 20)]
    y = np.r_[np.ones(100), np.ones(17), np.zeros(3)]
    cells = cells_of(z, y)
    layout = Layout(Model(Bernoulli()), cells, Distinct(), cells)
    theta = layout.bound.from_user(np.array([[0.0], [1.0]]))[:, 0]
    assert rule._agree(layout, theta, np.ones(cells.n_cells), cells.x[:, 1] > 8)


def test_a_typing_error_in_x_costs_nothing():
    z, y, _, _ = logit_rows(400, seed=3)
    clean = fitted(cells_of(z, y)).minimiser
    z[::50, 0] *= 100
    fit = fitted(cells_of(z, y))
    assert np.abs(fit.minimiser - clean).max() < 0.1 < np.abs(fit.kld_minimiser - clean).max()


def test_the_search_does_not_end_at_a_fit_that_is_sure_of_every_row():
    """Nearly separated data of which the surest tenth has the wrong label."""
    steepest = []
    for seed in range(5):
        rng = np.random.default_rng(seed)
        factor = np.where(rng.random(300) < 0.35, rng.normal(2, 1, 300), rng.normal(-1, 0.4, 300))
        items = np.round(2 * factor[:, None] + 3 + rng.normal(size=(300, 9)) * 1.5).clip(1, 10)
        x = np.column_stack([np.ones(300), items])
        y = ((factor > 0.5) ^ (rng.random(300) < 0.02)).astype(float)
        clean = tb.posterior_bootstrap(Model(Bernoulli()), Cells.from_rows(x, y), n_draws=0)
        y[np.argsort(-(x @ clean.kld_minimiser))[:30]] = 0
        fit = tb.posterior_bootstrap(Model(Bernoulli()), Cells.from_rows(x, y), n_draws=0)
        steepest.append(np.abs(x @ fit.minimiser).max())
    assert np.median(steepest) < 40, steepest


def test_a_bent_effect_that_would_cost_many_rows_is_fitted_by_all():
    rng = np.random.default_rng(10)
    z = rng.normal(size=(600, 2))
    inner = np.where(np.abs(z[:, 0]) < 0.7, 4 * z[:, 0], -0.2 * z[:, 0])
    y = (rng.random(600) < expit(inner + z[:, 1])).astype(float)
    fit = fitted(cells_of(z, y))
    kept = fit.kept_rows
    assert kept.route == "ordinary" or fit.cells.p @ kept.share > 0.84


SLOWLY = [pytest.param(name, marks=pytest.mark.slow) for name in ("offset", "trials", "levels")]


@pytest.mark.parametrize("name", ["one column", "correlated", *SLOWLY])
def test_estimate_and_kept_rows_are_the_same_in_any_units_and_coding(name):
    z, y, law, more = design(name)
    cells, _ = table(z, y, more)
    fit = fitted(cells, law, partition=KMeansGroups(), seed=3)
    for way in codings(z).values():
        cells, _ = table(coded(z, way), y, more)
        other = fitted(cells, law, partition=KMeansGroups(), seed=3)
        (slopes, start), (slopes_there, start_there) = (
            predictors(z, fit.minimiser),
            predictors(z, other.minimiser, way),
        )
        np.testing.assert_allclose(slopes_there, slopes, atol=1e-5)
        np.testing.assert_allclose(start_there, start, atol=1e-5 + 1e-14 * way[1].max())
        np.testing.assert_allclose(
            np.sort(other.kept_rows.share), np.sort(fit.kept_rows.share), atol=1e-5
        )


def test_zeros_and_ones_can_change_their_names():
    z, y, _, _ = logit_rows(300, 0.1, seed=4)
    one, other = fitted(cells_of(z, y)), fitted(cells_of(z, 1 - y))
    np.testing.assert_allclose(other.minimiser, -one.minimiser, atol=1e-6)


def test_the_order_of_the_rows_and_the_seed_do_not_matter_and_weights_are_rows():
    z, y, _, _ = count_rows(200, 0.1)
    order = np.random.default_rng(0).permutation(200)
    fit = fitted(cells_of(z, y), Poisson())
    np.testing.assert_array_equal(
        fitted(cells_of(z[order], y[order]), Poisson()).minimiser, fit.minimiser
    )
    twice = fitted(cells_of(np.repeat(z, 2, axis=0), np.repeat(y, 2)), Poisson())
    weighted = fitted(cells_of(z, y, weights=np.full(200, 2.0)), Poisson())
    np.testing.assert_array_equal(twice.minimiser, weighted.minimiser)


ONE_OF_EACH = {type(law): law for law in ALL_FAMILIES}.values()


@pytest.mark.parametrize("law", ONE_OF_EACH, ids=lambda law: law.name)
@pytest.mark.parametrize("groups", [Distinct(), KMeansGroups()], ids=lambda g: g.name)
def test_every_family_has_it_in_both_kinds_of_groups(law, groups):
    rng = np.random.default_rng(7)
    n = 300
    z = rng.normal(size=n) if groups.pools_rows else rng.integers(0, 3, n).astype(float)
    trials = np.full(n, 6.0) if law.needs_trials else np.ones(n)
    eta = np.array(
        [0.2 + 0.3 * z if j < law.n_main else np.full(n, -0.5) for j in range(len(law.predictors))]
    )
    cells = cells_of(z, law.sample(rng, eta, trials), trials=trials)
    fit = fitted(cells, law, n_draws=8, partition=groups)
    assert np.isfinite(fit.draws).all()
    assert cells.p @ fit.kept_rows.share > 0.98
    spread = fit.kld_draws.std(0)
    assert (np.abs(fit.minimiser - fit.kld_minimiser) < spread).all()


# Draws


def test_the_stretch_takes_the_plain_sandwich_to_a_t_law_of_jackknifed_rows():
    """Along each common axis of HC0 and HC3, by matrices of all rows."""
    z, y, _, _ = logit_rows(60, seed=11)
    cells = cells_of(z, y)
    layout = Layout(Model(Bernoulli()), cells, Distinct(), cells)
    kept = np.random.default_rng(0).choice([0.3, 1.0], cells.n_cells)
    theta = layout.bound.from_user(np.array([[-0.3, 1.0, -0.8, 0.4]]).T)[:, 0]
    x = layout.bound.designs[0][cells.x_index]
    mean = expit(x @ theta)
    information = kept * mean * (1 - mean)
    inverse = np.linalg.inv((x.T * information) @ x)
    leverage = information * np.einsum("ij,jk,ik->i", x, inverse, x)

    def sandwich(residual):
        return inverse @ ((x.T * (kept * residual) ** 2) @ x) @ inverse

    plain, wide = sandwich(cells.y - mean), sandwich((cells.y - mean) / (1 - leverage))
    size, axes = scipy.linalg.eigh(wide, plain)
    stretch = widening(layout, kept, theta)
    # The covariance of all residual scores under the model.
    covariance = np.diag(information) - (information[:, None] * x) @ inverse @ (x.T * information)
    for share, axis in zip(size, axes.T, strict=True):
        b = (x @ inverse @ axis) / (1 - leverage)
        terms = b[:, None] * covariance * b
        freedom = np.trace(terms) ** 2 / (terms**2).sum()
        np.testing.assert_allclose(
            stretch.T @ axis, np.sqrt(share * freedom / (freedom - 2)) * axis, rtol=1e-7
        )
        assert share > 1
        assert 3 < freedom < 60


def test_the_degrees_of_freedom_of_a_mean_are_its_rows_less_one():
    """A rate without covariates; leverages are 1 / n."""
    y = np.random.default_rng(3).poisson(4.0, 20).astype(float)
    cells = Cells.from_rows(np.ones((20, 1)), y)
    layout = Layout(Model(Poisson()), cells, Distinct(), cells)
    theta = layout.bound.from_user(np.log([[y.mean()]]))[:, 0]
    ((found,),) = widening(layout, np.ones(cells.n_cells), theta)
    assert np.isclose(found, 20 / 19 * np.sqrt(19 / 17))


@pytest.mark.parametrize(
    "law", [tb.NegativeBinomial(), tb.Categorical(("a", "b", "c"))], ids=lambda law: law.name
)
def test_several_predictors_are_widened_as_if_each_row_had_been_left_out(law):
    """The jackknife of single rows, one Newton step each."""
    rng = np.random.default_rng(6)
    z = rng.normal(size=40)
    k = len(law.predictors)
    eta = np.array([0.3 + 0.5 * z if j < law.n_main else np.full(40, -0.5) for j in range(k)])
    cells = cells_of(z, law.sample(rng, eta, np.ones(40)))
    fit = fitted(cells, law)
    layout = Layout(Model(law), cells, Distinct(), cells)
    theta = layout.bound.from_user(fit.kld_minimiser[:, None])[:, 0]
    objective = Objective(layout, tb.KLD())
    total = objective.on(cells.p[:, None]).at(theta[:, None]).expansion
    plain, wide = np.zeros((2, theta.size, theta.size))
    for row in range(cells.n_cells):
        own = objective.on(np.eye(cells.n_cells)[:, [row]]).at(theta[:, None]).expansion
        hess, grad = cells.n_obs * total.hess[..., 0], own.grad[:, 0]
        steps = np.linalg.solve(hess, grad), np.linalg.solve(hess - own.hess[..., 0], grad)
        plain += cells.counts[row] * np.outer(steps[0], steps[0])
        wide += cells.counts[row] * np.outer(steps[1], steps[1])
    stretch = widening(layout, np.ones(cells.n_cells), theta)
    size, axes = scipy.linalg.eigh(wide, plain)
    found = np.array([axis @ stretch @ plain @ stretch.T @ axis for axis in axes.T])
    # Beside HC3 there is the factor of the t law, at most 3 in the variance.
    assert (found > size - 1e-6).all()
    assert (found <= 3 * size).all()


@pytest.mark.slow
def test_the_stretch_does_not_depend_on_the_coding():
    z, y, law, more = design("levels")
    for label in ("other reference", "other sign", "a unit of 1,000"):
        found = []
        for way in (None, codings(z)[label]):
            cells, _ = table(z if way is None else coded(z, way), y, more)
            plan = plan_of(fitted(cells, law, n_draws=2, partition=KMeansGroups(), seed=3))
            found.append(np.sort(np.linalg.eigvals(plan.start.robust_draws.stretch).real))
        np.testing.assert_allclose(found[1], found[0], rtol=1e-6)


def test_draws_centre_on_the_estimate_and_are_wider_than_the_plain_bootstrap():
    z, y, _, _ = logit_rows(80, seed=12)
    fit = fitted(cells_of(z, y), n_draws=2000)
    away = (fit.draws.mean(0) - fit.minimiser) / fit.draws.std(0)
    assert np.abs(away).max() < 0.35
    plain = fitted(cells_of(z, y), n_draws=2000, refine=None)
    assert (fit.kld_draws.std(0) > 1.02 * plain.kld_draws.std(0)).all()
    assert np.corrcoef(fit.kld_draws[:, 1], plain.kld_draws[:, 1])[0, 1] > 0.999


def test_a_draw_depends_on_the_seed_and_its_number_alone():
    z, y, _, _ = count_rows(200, 0.1)
    cells = cells_of(z, y)
    many, few = (fitted(cells, Poisson(), n_draws=n, seed=5) for n in (40, 7))
    np.testing.assert_array_equal(many.draws[:7], few.draws)
    np.testing.assert_array_equal(many.kld_draws[:7], few.kld_draws)
    np.testing.assert_array_equal(
        fitted(cells, Poisson(), n_draws=40, seed=5, resume=few).draws, many.draws
    )


@pytest.mark.parametrize("base", ["table", "function"])
def test_atoms_of_a_prior_keep_their_mass(base):
    z, y, _, _ = count_rows(200, 0.1)
    cells = cells_of(z, y)
    atoms = cells_of(np.zeros((1, 2)), np.array([3.0]))

    def drawn(rng, size):
        return np.column_stack([np.ones(size), rng.normal(size=(size, 2))]), rng.poisson(3, size)

    prior = Prior(50.0, atoms if base == "table" else drawn, 20)
    fit = fitted(cells, Poisson(), n_draws=30, prior=prior)
    without = fitted(cells, Poisson(), n_draws=30)
    assert np.isfinite(fit.draws).all()
    # The atoms tell of a rate that does not depend on x.
    assert abs(fit.draws[:, 1].mean()) < abs(without.draws[:, 1].mean())


def test_a_prior_against_the_data_is_not_dropped():
    """Twenty rows with 25 events would be; as the mass of a prior they stay, and pull."""
    z, y, _, _ = count_rows(200)
    atoms = cells_of(np.zeros((1, 2)), np.array([25.0]))
    fit = fitted(cells_of(z, y), Poisson(), prior=Prior(20.0, atoms))
    rows = fitted(cells_of(np.r_[z, np.zeros((20, 2))], np.r_[y, np.full(20, 25.0)]), Poisson())
    assert fit.minimiser[0] > rows.minimiser[0] + 0.3
    assert rows.kept_rows.share.min() == 0
    np.testing.assert_allclose(fit.kept_rows.share.max(), 1)


def test_it_is_saved_and_run_again(tmp_path):
    z, y, _, _ = logit_rows(200, 0.1)
    fit = fitted(cells_of(z, y), n_draws=20)
    storage.save(fit, tmp_path / "fit.tvd")
    back = storage.load(tmp_path / "fit.tvd")
    np.testing.assert_array_equal(back.kept_rows.share, fit.kept_rows.share)
    assert back.kept_rows.route == fit.kept_rows.route
    np.testing.assert_array_equal(
        plan_of(back).start.robust_draws.stretch, plan_of(fit).start.robust_draws.stretch
    )


def test_answers_can_be_asked_of_it():
    z, y, _, _ = count_rows(300, 0.1)
    data = {"y": y, "a": z[:, 0], "b": z[:, 1]}
    fit = tb.fit("y ~ a + b", data, refine="trim", n_draws=60)
    assert fit.misfit(n_replicates=40).lower > 0.01
    # Far counts are flagged, and nothing else.
    assert set(fit.rows(n_replicates=40).query("flag").index) <= set(range(30))
    assert fit.rows(n_replicates=40)["flag"].sum() > 5
    held = fit.cross_validate(5, n_draws=20)
    assert held.robust.brier < held.ordinary.brier
    found = fit.drop_worst((0.0, 0.1))
    np.testing.assert_allclose(found.robust[0], fit.posterior.minimiser, atol=1e-6)


def test_rows_left_out_are_judged_anew():
    """A table without the wrong rows is one without wrong rows."""
    z, y, bad, _ = logit_rows(300, 0.12, seed=5)
    cells = cells_of(z, y)
    fit = fitted(cells, n_draws=4)
    plan = plan_of(fit).uncentred()
    clean = cells_of(z[~bad], y[~bad])
    layout = plan.robust.layout.rebind(clean)
    found = plan.solve(
        replace(plan.robust, layout=layout),
        replace(plan.likelihood, layout=layout),
        clean.p[:, None],
    )
    np.testing.assert_allclose(found.robust.theta, found.likelihood.theta, atol=0.02)


def test_it_needs_groups_and_a_line():
    z, y, _, _ = logit_rows(60)
    with pytest.raises(SettingsError, match="compares row by row"):
        fitted(cells_of(z, y), divergence=tb.DensityPower())
    with pytest.raises(SettingsError, match=r'"auto", "trim", "reweight" or None; got'):
        fitted(cells_of(z, y), refine="trimmed")
    with pytest.raises(SettingsError, match="for linear predictors"):
        tb.posterior_bootstrap(
            Model(Bernoulli(), tb.MLP((4,))), cells_of(z, y), n_draws=0, refine="trim"
        )


def test_the_estimate_is_that_of_the_rule():
    z, y, _, _ = logit_rows(300, 0.1)
    fit = fitted(cells_of(z, y))
    plan = plan_of(fit)
    layout = replace(plan.robust.layout, fold=False)
    theta, kept = trimmed_fit(layout, plan.start.likelihood_fit, plan.start.closest)
    np.testing.assert_allclose(layout.bound.to_user(theta[:, None])[:, 0], fit.minimiser, atol=1e-4)
    np.testing.assert_array_equal(kept.share, fit.kept_rows.share)


# What is said of it


def test_the_fit_says_which_rows_it_used():
    z, y, _, _ = count_rows(400, 0.1)
    cells = cells_of(z, y)
    fit = fitted(cells, Poisson())
    assert fit.kept_rows.of_all(cells).startswith("41 of 400 rows were dropped: more of these")
    assert "agree with the others" in fit.kept_rows.of_far(cells)
    kept = replace(fit.kept_rows, far_agree=False, route="closest")
    assert "contradict the fit to the others" in kept.of_far(cells)
    assert "began at the closest model" in kept.of_all(cells)
    all_rows = replace(kept, share=np.ones(cells.n_cells))
    whole = replace(all_rows, route="ordinary")
    assert whole.of_all(cells).startswith("All 400")
    assert not whole.of_far(cells)
    assert all_rows.of_all(cells).startswith("All 400 rows are us")


def test_far_rows_are_told_by_the_column_and_range_that_they_are_in():
    rng = np.random.default_rng(0)
    z = rng.normal(size=(200, 2)).clip(-2, 2)
    z[:6, 1] = 7.5
    names = ("one", "age", "income")

    def said(z):
        cells = cells_of(z, names=names)
        return far.where(cells, far_rows(cells))

    assert said(z) == "6 rows with income of 7.5 or more"
    z[:3, 1] *= -1
    z[6:8, 0] = -9
    assert said(z) == "8 rows far out, 6 of them with income of 7.5 or more or -7.5 or less,"
    z = rng.normal(size=(300, 2)) @ np.array([[1.0, 0.95], [0.0, np.sqrt(1 - 0.95**2)]])
    z[:9] = np.array([2.0, -2.0]) + rng.normal(0, 0.05, (9, 2))
    assert said(z.clip(-2.5, 2.5)).endswith(" together")


def bent_rows(bad=False, seed=0, n=400):
    """Rates that fall beyond 1 of x, with rows far out; or a line, with rows far out that are 0."""
    rng = np.random.default_rng(seed)
    x, z = rng.normal(size=(2, n))
    x[:20] = 4 + 0.4 * rng.normal(size=20)
    y = rng.poisson(np.exp(1 + 0.5 * (x if bad else np.where(x > 1, 2 - x, x)) - 0.3 * z))
    if bad:
        y[:20] = 0
    return np.column_stack([x, z]), y.astype(float)


def test_a_bend_that_begins_among_the_others_lets_far_rows_in_and_bad_rows_stay_out():
    z, y = bent_rows()
    cells = cells_of(z, y, names=("one", "income", "age"))
    fit = fitted(cells, Poisson())
    assert fit.kept_rows.bend == 1
    far = fit.kept_rows.far[cells.x_index]
    assert fit.kept_rows.share[far].mean() > 0.9
    assert fit.kept_rows.without_far[1] > 2 * fit.minimiser[1]
    assert "the effect of income seems to bend" in fit.kept_rows.of_far(cells)
    cells = cells_of(*bent_rows(bad=True))
    fit = fitted(cells, Poisson())
    assert fit.kept_rows.bend is None
    assert fit.kept_rows.far_kept_out(cells)
    assert abs(fit.minimiser[1] - 0.5) < 0.1 < abs(fit.kld_minimiser[1] - 0.5)


def test_a_bend_is_the_same_in_other_units_and_order_and_beside_a_dispersion():
    z, y = bent_rows()
    law = tb.NegativeBinomial()
    fit = fitted(cells_of(z, y), law)
    assert fit.kept_rows.bend == 1
    turned = fitted(cells_of(np.column_stack([z[:, 1], 100 - 7 * z[:, 0]]), y), law)
    assert turned.kept_rows.bend == 2
    np.testing.assert_allclose(-7 * turned.minimiser[2], fit.minimiser[1], atol=1e-4)


def errors(design, number):
    """Of the default and of maximum likelihood, on a data set of a benchmark."""
    law, x, y, truth = design(np.random.default_rng([999, number]), True)
    fit = fitted(Cells.from_rows(x, y), law)
    robust, ordinary = (
        np.sqrt(np.mean((theta - truth) ** 2)) for theta in (fit.minimiser, fit.kld_minimiser)
    )
    return fit.kept_rows, robust, ordinary


def test_where_one_end_of_x_is_wrong_no_bend_is_looked_for():
    kept, robust, ordinary = errors(flooded_class, 2)
    assert kept.bend is None
    assert robust < ordinary / 2


def test_ratings_of_small_probability_are_dropped_where_there_are_too_many():
    _, robust, ordinary = errors(reversed_ratings, 1)
    assert robust < ordinary / 2


def test_a_bend_has_its_hinges_in_the_main_predictor_alone():
    z, y = bent_rows()
    cells = cells_of(z, y)
    model = Model(tb.NegativeBinomial(), tb.Linear(((0, 1, 2), (-1, 2))))
    layout = Layout(model, cells, Distinct(), cells)
    bent = bend._bent(layout, 1, far_rows(cells))
    assert bent.bound.blocks == ((0, 1, 2, 3, 4), (-1, 2))
    theta = np.array([0.3, 0.2, -0.1, 0.4, 0.1])
    there = bend._start(layout, bent, theta)
    np.testing.assert_allclose(
        bent.bound.eta(there[:, None]), layout.bound.eta(theta[:, None]), atol=1e-12
    )


@pytest.mark.parametrize(("n_far", "judged"), [(1, False), (30, True)])
def test_few_far_rows_cannot_be_judged_and_many_can(n_far, judged):
    rng = np.random.default_rng(3)
    x = np.r_[rng.normal(size=300).clip(-2, 2), np.linspace(3.5, 4, n_far)]
    y = (rng.random(len(x)) < expit(0.8 * x)).astype(float)
    cells = cells_of(x, y)
    kept = fitted(cells).kept_rows
    assert kept.far_agree
    assert kept.far_judged == judged
    assert ("too few to be judged" in kept.of_far(cells)) != judged


def test_both_answers_are_said_where_they_differ():
    def found(z, y):
        data = {"y": y, "income": z[:, 0], "age": z[:, 1]}
        fit = tb.fit("y ~ income + age", data, n_draws=60)
        return fit, rows_used(fit.posterior)

    fit, used = found(*bent_rows(bad=True))
    assert used.doubtful
    assert "with income of" in used.far
    for said in ("The coefficient of income is 0.499 [", 'divergence="kld"', "bs(income)"):
        assert said in used.far
    assert used.far in str(fit.summary())
    (finding,) = (f for f in fit.check(misfit=False).findings if f.about == "far rows")
    assert (finding.level, finding.text) == ("note", used.far)
    fit, used = found(*bent_rows())
    assert used.doubtful
    assert "with them, which is shown" in used.far
    assert "need not be right" in used.caveat
    fit, used = found(*count_rows(400, seed=4)[:2])
    assert not used.doubtful


def test_check_terminal_and_report_say_so_and_nothing_warns_of_few_groups(tmp_path):
    z, y, _, _ = logit_rows(60, 0.1, seed=2)
    frame = pd.DataFrame({"y": y, "a": z[:, 0], "b": z[:, 1], "c": z[:, 2]})
    fit = tb.fit("y ~ a + b + c", frame, family="bernoulli", refine="trim", n_draws=200)
    used = rows_used(fit.posterior)
    said = str(used)
    (finding,) = (f for f in fit.check(misfit=False).findings if f.about == "rows used")
    assert finding.text == used.kept
    assert finding.level == "note"
    assert all(f.level == "good" for f in fit.check(misfit=False).findings if f.about == "groups")
    assert fit.posterior.method == "tvd, trimmed"
    frame.to_csv(tmp_path / "rows.csv", index=False)
    arguments = ["fit", str(tmp_path / "rows.csv"), "y ~ a + b + c", "--family", "bernoulli"]
    shown = CliRunner().invoke(main, [*arguments, "--refine", "trim", "--draws", "200"]).stdout
    assert "tvd, trimmed" in shown
    assert said[:40] in " ".join(shown.split())
    fit.report(tmp_path / "page.html")
    assert said[:40] in (tmp_path / "page.html").read_text()
