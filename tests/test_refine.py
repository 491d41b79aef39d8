"""One-step reweighting: what it keeps, and that it is maximum likelihood where nothing is wrong."""

import warnings
from dataclasses import replace

import numpy as np
import pytest

import tvdbayes as tb
from tvdbayes import (
    KLD,
    Bernoulli,
    Cells,
    DensityPower,
    Distinct,
    Hellinger,
    KMeansGroups,
    Model,
    Poisson,
    SettingsError,
    storage,
)
from tvdbayes.models.families import ALL_FAMILIES
from tvdbayes.objective import Layout, Objective
from tvdbayes.sampling import planners
from tvdbayes.sampling.plan import solve_tables
from tvdbayes.sampling.planners import plan_of
from tvdbayes.sampling.reweighting import explained, reweighted_fit
from tvdbayes.sampling.weights import Stream, reweight

N = 1e6


def law_table(rate=3.0, share=0.0, at=30.0, top=60):
    """The law of a Poisson outcome as a table, with a share of mass put somewhere."""
    y = np.arange(top)
    pmf = Poisson().pmf(y, np.full((1, top), np.log(rate)), np.ones(top))
    pmf = (1 - share) * pmf / pmf.sum()
    pmf[int(at)] += share
    # Outcomes that a million rows would not show are not there.
    return Cells.from_counts(np.ones((top, 1)), y, np.where(N * pmf > 0.5, N * pmf, 0.0))


def layout_for(cells, law=None):
    return Layout(Model(law or Poisson()), cells, Distinct(), cells)


def refit(cells, theta, n_obs=N):
    layout = layout_for(cells)
    twin = Objective(layout, KLD())
    start = layout.bound.from_user(np.atleast_2d(theta))
    found = reweighted_fit(layout, twin, cells.p[:, None], start, n_obs)
    return layout.bound.to_user(found)[0, 0]


def test_nothing_is_taken_away_where_the_model_is_right():
    cells = law_table()
    kept = explained(layout_for(cells), cells.p[:, None], np.log([[3.0]]), N)
    assert (kept == 1).all()
    assert np.isclose(refit(cells, np.log(3.0)), np.log(3.0), atol=1e-5)


@pytest.mark.parametrize("share", [0.05, 0.15, 0.3])
def test_far_mass_is_taken_away_to_the_last_row(share):
    # The closest model is not unique here: any rate up to 3 - log(1 - share) is as close.
    cells = law_table(share=share)
    for start in (3.0, 3.0 - np.log1p(-share)):
        assert np.isclose(refit(cells, np.log(start)), np.log(3.0), atol=2e-3)


def test_wrong_zeros_are_cut_to_what_the_good_rows_would_have():
    share, zero = 0.15, np.exp(-3.0)
    cells = law_table(share=share, at=0.0)
    kept = explained(layout_for(cells), cells.p[:, None], np.log([[3.0]]), N)[0, 0]
    right = (1 - share) * zero / ((1 - share) * zero + share)
    assert abs(kept - right) < 0.02
    ordinary = np.log((1 - share) * 3.0)
    assert abs(refit(cells, np.log(3.1)) - np.log(3)) < 0.02 * abs(ordinary - np.log(3)) + 2e-3


def test_a_group_of_wrong_rows_alone_keeps_next_to_nothing():
    # At x = 1 the model expects successes nearly always; all rows there are failures.
    x = np.array([[1.0, 0.0], [1.0, 0.0], [1.0, 1.0]])
    cells = Cells.from_counts(x, [0, 1, 0], [500, 500, 100])
    layout = layout_for(cells, Bernoulli())
    theta = layout.bound.from_user(np.array([[0.0], [3.0]]))
    kept = explained(layout, cells.p[:, None], theta, cells.n_obs)[:, 0]
    assert kept[0] == kept[1] == 1
    # Failures are expected with probability 0.047; cutting to that would leave them their pull.
    assert kept[2] < 0.047**2


ONE_OF_EACH = {type(law): law for law in ALL_FAMILIES}.values()


@pytest.mark.slow
@pytest.mark.parametrize("law", ONE_OF_EACH, ids=lambda law: law.name)
@pytest.mark.parametrize("groups", [Distinct(), KMeansGroups()], ids=lambda g: g.name)
def test_every_family_can_be_refined_in_both_kinds_of_groups(law, groups):
    rng = np.random.default_rng(5)
    n = 400
    x = np.column_stack([np.ones(n), rng.integers(0, 3, n)])
    if groups.pools_rows:
        x[:, 1] = rng.normal(size=n)
    trials = np.full(n, 6.0) if law.needs_trials else np.ones(n)
    k = len(law.predictors)
    eta = np.array([x @ [0.2, 0.3] if j < law.n_main else np.full(n, -0.5) for j in range(k)])
    y = law.sample(rng, eta, trials)
    cells = Cells.from_rows(x, y, trials=trials)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tb.TVDBayesWarning)
        fit = tb.posterior_bootstrap(
            Model(law), cells, n_draws=4, partition=groups, refine="reweight", seed=1
        )
    assert fit.refine == "reweight"
    assert np.isfinite(fit.draws).all()
    assert np.isfinite(fit.minimiser).all()


def test_it_is_maximum_likelihood_on_clean_data_without_surprises():
    y = np.random.default_rng(2).poisson(3, 500)
    cells = Cells.from_rows(np.ones((500, 1)), y)
    fit = tb.posterior_bootstrap(Model(Poisson()), cells, n_draws=200, refine="reweight")
    plain = tb.posterior_bootstrap(Model(Poisson()), cells, n_draws=200, refine=None)
    assert np.isclose(fit.estimate[0], fit.kld_minimiser[0], atol=1e-9)
    assert np.array_equal(fit.distance, plain.distance)
    assert np.array_equal(fit.status, plain.status)
    assert fit.draws.std() < plain.draws.std()
    assert abs(fit.draws.mean() - fit.estimate[0]) < 0.5 * fit.draws.std()


def test_leverage_points_lose_their_pull_and_the_rest_keeps_its_weight():
    rng = np.random.default_rng(3)
    n, beta = 1500, np.array([0.5, 1.0, -1.0])
    x = np.column_stack([np.ones(n), rng.normal(size=(n, 2))])
    y = (rng.random(n) < 1 / (1 + np.exp(-x @ beta))).astype(float)
    clean = tb.posterior_bootstrap(Model(Bernoulli()), Cells.from_rows(x[150:], y[150:]), n_draws=0)
    x[:150, 1], y[:150] = rng.normal(4, 0.3, 150), 0
    cells = Cells.from_rows(x, y)
    fit = tb.posterior_bootstrap(Model(Bernoulli()), cells, n_draws=32, refine="reweight")
    # As good as if the wrong rows had been known.
    assert np.abs(fit.estimate - clean.kld_minimiser).max() < 0.1
    assert np.abs(fit.kld_minimiser - clean.kld_minimiser).max() > 0.5


def test_weights_of_two_are_rows_twice_also_when_refined():
    rng = np.random.default_rng(4)
    y = np.r_[rng.poisson(3, 80), np.full(10, 25)]
    once = Cells.from_rows(np.ones((90, 1)), y, weights=np.full(90, 2.0))
    twice = Cells.from_rows(np.ones((180, 1)), np.r_[y, y])
    fits = [
        tb.posterior_bootstrap(Model(Poisson()), c, n_draws=16, refine="reweight")
        for c in (once, twice)
    ]
    assert np.array_equal(fits[0].draws, fits[1].draws)


def test_more_draws_begin_with_the_same_draws():
    y = np.r_[np.random.default_rng(6).poisson(3, 80), np.full(10, 25)]
    cells = Cells.from_rows(np.ones((90, 1)), y)
    few, many = (
        tb.posterior_bootstrap(Model(Poisson()), cells, n_draws=n, refine="reweight")
        for n in (5, 40)
    )
    assert np.array_equal(few.draws, many.draws[:5])


def test_other_divergences_on_groups_can_be_refined_and_rows_cannot():
    cells = Cells.from_rows(np.ones((90, 1)), np.r_[np.random.default_rng(7).poisson(3, 90)])
    fit = tb.posterior_bootstrap(
        Model(Poisson()), cells, n_draws=4, divergence=Hellinger(), refine="reweight"
    )
    assert fit.refine == "reweight"
    with pytest.raises(SettingsError, match="density_power"):
        tb.posterior_bootstrap(
            Model(Poisson()), cells, divergence=DensityPower(), refine="reweight"
        )
    with pytest.raises(SettingsError, match="'huber'"):
        tb.posterior_bootstrap(Model(Poisson()), cells, refine="huber")


@pytest.mark.parametrize("refine", [None, "reweight", "trim"])
@pytest.mark.parametrize("columns", [0, 1, 2])
def test_the_plan_of_a_record_gives_its_draws_again(refine, columns, tmp_path, monkeypatch):
    """It is made without solving, also of a record from a file."""
    rng = np.random.default_rng(8)
    x = np.column_stack([np.ones(90), *rng.normal(size=(columns, 90))])
    cells = Cells.from_rows(x, np.r_[rng.poisson(3, 80), np.full(10, 25)])
    fit = tb.posterior_bootstrap(Model(Poisson()), cells, n_draws=8, refine=refine, seed=3)
    storage.save(fit, tmp_path / "fit.tvd")
    monkeypatch.setattr(planners, "prepare", None)
    for record in (fit, storage.load(tmp_path / "fit.tvd")):
        plan = plan_of(record)
        p = reweight(cells, Stream.draws(3), plan.size).p
        assert np.array_equal(solve_tables(plan, p).robust.theta.T[:8], fit.draws)


@pytest.mark.parametrize("n_draws", [0, 8])
def test_a_record_that_comes_out_differently_has_no_plan(n_draws):
    y = np.r_[np.random.default_rng(8).poisson(3, 80), np.full(10, 25)]
    cells = Cells.from_rows(np.ones((90, 1)), y)
    fit = tb.posterior_bootstrap(Model(Poisson()), cells, n_draws=n_draws, refine="reweight")
    assert plan_of(fit).size > 0
    with pytest.raises(SettingsError, match="cannot be run again"):
        plan_of(replace(fit, minimiser_distance=fit.minimiser_distance + 0.1))
