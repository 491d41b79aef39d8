"""What the model cannot explain: shares, floors, and the rows that stand out."""

import warnings
from dataclasses import replace

import numpy as np
import pytest

import tvdbayes as tb
from tvdbayes import Bernoulli, Cells, Model, Poisson, SettingsError
from tvdbayes.data.cells import compress
from tvdbayes.models.families import ALL_FAMILIES
from tvdbayes.results.misfit import Misfit, misfit, share_of_data
from tvdbayes.results.replicates import replicate
from tvdbayes.results.rows import cell_scores, layout_of, masses_of
from tvdbayes.sampling.plan import solve_tables
from tvdbayes.sampling.planners import plan_for_replicates


def rate_fit(n=400, bad=0, shift=10, data=0, **options):
    y = np.random.default_rng(data).poisson(3, n)
    y[:bad] += shift
    made = compress(np.ones((n, 1)), y)
    return tb.posterior_bootstrap(Model(Poisson()), made.cells, n_draws=100, **options), made


def logit_fit(n=800, bad=0, **options):
    rng = np.random.default_rng(9)
    x = np.column_stack([np.ones(n), rng.normal(size=(n, 2))])
    y = (rng.random(n) < 1 / (1 + np.exp(-x @ [0.5, 1.0, -1.0]))).astype(float)
    x[:bad, 1], y[:bad] = rng.normal(4, 0.3, bad), 0
    made = compress(x, y)
    return tb.posterior_bootstrap(Model(Bernoulli()), made.cells, n_draws=40, **options), made


def test_the_score_is_the_excess_by_hand():
    fit, _ = rate_fit(bad=60)
    cells, rate = fit.cells, np.exp(fit.draws[:, 0])
    f = Poisson().pmf(cells.y[:, None], np.log(rate)[None], np.ones(1))[:, :]
    p = cells.p[:, None]
    by_hand = np.maximum(p - f, 0) / p
    scores = cell_scores(fit)
    assert np.allclose(scores.score, by_hand.mean(1))
    assert np.allclose(scores.probability, (by_hand >= 0.5).mean(1))
    assert np.allclose(scores.signed, ((p - f) / np.maximum(p, f)).mean(1))
    assert np.allclose(scores.observed, cells.counts)
    assert np.allclose(
        scores.expected,
        400 * Poisson().pmf(cells.y, np.full((1, cells.n_cells), fit.minimiser[0]), np.ones(1)),
    )
    assert (scores.signed < 0).any()
    assert not scores.pooled


@pytest.mark.parametrize("make", [rate_fit, logit_fit])
@pytest.mark.parametrize("refine", ["auto", None])
def test_scores_times_masses_add_up_to_the_distance(make, refine):
    fit, _ = make(bad=50, refine=refine)
    layout = layout_of(fit)
    theta = layout.bound.from_user(fit.minimiser[:, None])
    p = fit.cells.p[:, None]
    total = (p * masses_of(layout, theta, p).score).sum()
    assert np.isclose(total, fit.minimiser_distance, atol=1e-9)
    assert np.allclose(share_of_data(fit)[0], fit.distance, atol=1e-9)


# One of each class: variants of a class differ in what this does not touch.
ONE_OF_EACH = {type(law): law for law in ALL_FAMILIES}.values()


@pytest.mark.slow
@pytest.mark.parametrize("law", ONE_OF_EACH, ids=lambda law: law.name)
def test_every_family_has_scores_and_replicates(law):
    rng = np.random.default_rng(11)
    n = 150
    x = np.column_stack([np.ones(n), rng.integers(0, 2, n)])
    trials = np.full(n, 6.0) if law.needs_trials else np.ones(n)
    k = len(law.predictors)
    eta = np.array([x @ [0.2, 0.3] if j < law.n_main else np.full(n, -0.5) for j in range(k)])
    cells = Cells.from_rows(x, law.sample(rng, eta, trials), trials=trials)
    with warnings.catch_warnings():
        # So few rows may drive inflation or dispersion to its end.
        warnings.simplefilter("ignore", tb.TVDBayesWarning)
        fit = tb.posterior_bootstrap(Model(law), cells, n_draws=4, partition=tb.Distinct())
    scores, chance = cell_scores(fit), replicate(fit, 4)
    assert ((scores.score >= 0) & (scores.score <= 1)).all()
    assert ((chance.distance >= 0) & (chance.distance <= 1)).all()
    assert np.isfinite(chance.surprise).all()


@pytest.mark.slow
def test_the_noise_floor_is_that_of_clean_data():
    # Clean data sets of their own against replicates of one of them: the same law.
    fit, _ = rate_fit(data=1)
    chance = replicate(fit, 200)
    many = []
    for seed in range(60):
        other, _ = rate_fit(data=100 + seed, seed=seed)
        many.append(other.distance[:5].mean())
    assert abs(np.mean(many) - chance.distance.mean()) < 0.006
    assert chance.even.mean() < chance.distance.mean()


def test_clean_data_do_not_look_contaminated_and_contaminated_data_do():
    clean, _ = rate_fit(data=2)
    share = misfit(clean.distance, replicate(clean).distance)
    assert share.lower == 0
    assert "no more than that" in str(share)
    dirty, _ = rate_fit(bad=60, data=2)
    share = misfit(dirty.distance, replicate(dirty).distance)
    assert share.low <= 0.15 <= share.high
    assert 0 < share.lower < 0.15
    assert f"at least {share.lower:.1%}" in str(share)


def test_the_lower_bound_undoes_the_mixture():
    # Far contamination s of rows with noise q leaves s + (1 - s) q at most.
    share = Misfit(np.full(10, 0.2 + 0.8 * 0.1), np.full(10, 0.1))
    assert np.isclose(share.lower, 0.2)


def test_flags_name_the_wrong_rows():
    fit, made = rate_fit(bad=60, shift=10, data=3)
    threshold = replicate(fit).threshold(0.05)
    flag = (cell_scores(fit).surprise > threshold)[made.cell_of_row]
    bad = np.arange(400) < 60
    assert (flag & bad).sum() / flag.sum() > 0.9
    assert (flag & bad).sum() / 60 > 0.9


def test_leverage_rows_are_flagged_in_groups():
    fit, made = logit_fit(bad=60)
    scores = cell_scores(fit)
    assert scores.pooled
    flag = (scores.surprise > replicate(fit, 60).threshold(0.05))[made.cell_of_row]
    bad = np.arange(800) < 60
    assert (flag & bad).sum() >= 50
    assert (flag & ~bad).sum() <= 6


def test_a_threshold_is_exceeded_as_often_as_stated():
    fit, _ = rate_fit(data=4, refine=None)
    chance = replicate(fit, 199)
    assert np.isclose((chance.surprise > chance.threshold(0.1)).mean(), 0.1, atol=0.011)
    assert replicate(fit, 20).threshold(0.001) == np.inf
    # Of a trimmed fit most replicates have no row that is dropped, and so no surprise.
    trimmed = replicate(rate_fit(data=4, refine="trim")[0], 199)
    assert (trimmed.surprise > trimmed.threshold(0.1)).mean() <= 0.1


def test_replicates_do_not_depend_on_how_many_there_are():
    fit, _ = rate_fit(bad=20, n=200)
    few, many = replicate(fit, 20), replicate(fit, 40)
    assert np.allclose(few.distance, many.distance[:20], atol=1e-12)


def test_many_rows_at_one_x_cost_no_more():
    y = np.arange(12)
    pmf = Poisson().pmf(y, np.full((1, 12), np.log(3.0)), np.ones(12))
    cells = Cells.from_counts(np.ones((12, 1)), y, np.round(1e9 * pmf))
    fit = tb.posterior_bootstrap(Model(Poisson()), cells, n_draws=4)
    chance = replicate(fit, 20)
    assert chance.distance.max() < 1e-3


def test_fractional_weights_are_simulated_too():
    cells = Cells.from_counts(np.ones((4, 1)), [0, 1, 2, 3], [10.5, 20.25, 15.0, 3.5])
    fit = tb.posterior_bootstrap(Model(Poisson()), cells, n_draws=4)
    assert (replicate(fit, 20).distance > 0).all()


def test_levels_share_the_whole():
    rng = np.random.default_rng(12)
    x = np.column_stack([np.ones(600), rng.integers(0, 2, 600)])
    y = rng.poisson(3, 600)
    y[(np.arange(600) < 120) & (x[:, 1] == 1)] += 20
    cells = Cells.from_rows(x, y)
    fit = tb.posterior_bootstrap(Model(Poisson()), cells, n_draws=50)
    by_x = np.array([cells.x[:, 1] == 0, cells.x[:, 1] == 1], float)
    shares = share_of_data(fit, by_x[:, cells.x_index])
    mass = np.array([cells.p[cells.x[cells.x_index, 1] == v].sum() for v in (0, 1)])
    assert np.allclose((shares[1:].mean(1) * mass).sum(), shares[0].mean(), atol=0.01)
    chance = replicate(fit, 50, levels=by_x)
    assert chance.by_level.shape == (2, 50)
    low, high = (misfit(shares[1 + v], chance.by_level[v]) for v in (0, 1))
    assert low.lower == 0
    assert high.lower > 0.05


def test_an_ordinary_fit_has_an_unexplained_share_too():
    fit, _ = rate_fit(bad=60, shift=20, divergence=tb.KLD())
    robust, _ = rate_fit(bad=60, shift=20)
    assert share_of_data(fit)[0].mean() > share_of_data(robust)[0].mean() + 0.1


def test_bad_settings_are_named():
    with pytest.raises(SettingsError, match=r"got 1\.5"):
        misfit(np.zeros(5), np.zeros(5), 1.5)
    with pytest.raises(SettingsError, match="at least 2 draws"):
        misfit(np.zeros(1), np.zeros(5))


def test_the_distances_of_a_trimmed_fit_are_what_its_draws_cannot_explain():
    posterior = tb.fit("visits ~ age", tb.example_data(wrong=0.1), n_draws=30).posterior
    (shares,) = share_of_data(posterior)
    np.testing.assert_allclose(posterior.distance, shares, rtol=1e-12)


def test_clean_tables_are_fitted_by_minimisers_as_by_the_plan():
    posterior = tb.fit("visits ~ age", tb.example_data(wrong=0.1), n_draws=30).posterior
    plan = plan_for_replicates(posterior)
    cells = replace(posterior.cells, counts=posterior.cells.counts + 1)
    p = np.random.default_rng(0).dirichlet(cells.counts, 8).T
    np.testing.assert_allclose(
        plan.minimisers(p, cells), solve_tables(plan, p, cells).robust.theta, rtol=1e-12
    )
