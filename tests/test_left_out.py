"""Rows held out: one unit of a cell's count, paired with the whole fit."""

import warnings

import numpy as np
import pytest
from scipy.special import expit
from scipy.stats import beta, ks_2samp, kstest

import tvdbayes as tb
from tvdbayes import Bernoulli, Cells, Model, Poisson, SettingsError
from tvdbayes.data.cells import compress
from tvdbayes.fitting.compare_fits import compare_posteriors
from tvdbayes.results.scores import cross_validate, fold_counts, leave_one_out, without
from tvdbayes.sampling.plan import draws_of
from tvdbayes.sampling.planners import plan_of


def rates():
    rng = np.random.default_rng(1)
    return Poisson(), np.ones((40, 1)), np.r_[rng.poisson(3, 36), [20, 20, 21, 25]].astype(float)


def grid():
    rng = np.random.default_rng(2)
    x = np.column_stack([np.ones(60), rng.integers(0, 2, 60), rng.integers(0, 3, 60)])
    return Bernoulli(), x, (rng.random(60) < 0.4 + 0.2 * x[:, 1]).astype(float)


def pooled():
    rng = np.random.default_rng(3)
    x = np.column_stack([np.ones(120), rng.normal(size=120)])
    return Poisson(), x, rng.poisson(np.exp(0.5 + 0.4 * x[:, 1])).astype(float)


def fitted(case, n_draws=12):
    law, x, y = case()
    made = compress(x, y)
    with warnings.catch_warnings():
        # So few rows are compared in few groups, which a fit says.
        warnings.simplefilter("ignore", tb.TVDBayesWarning)
        fit = tb.posterior_bootstrap(Model(law), made.cells, n_draws=n_draws, seed=4)
    return fit, made, x, y


@pytest.mark.parametrize("case", [rates, grid, pooled])
def test_draws_without_some_rows_have_the_law_of_the_other_rows_reweighted(case):
    """Against Dirichlet(1, ..., 1) over the rows that are left, drawn by another generator."""
    n_draws = 400
    fit, made, x, y = fitted(case, n_draws=n_draws)
    plan = plan_of(fit)
    rng = np.random.default_rng(9)
    # Half of the rows of most cells, one row of some, all rows of others.
    gone = rng.random(len(y)) < 0.4
    removed = np.bincount(made.cell_of_row[gone], minlength=made.cells.n_cells)
    table = compress(x[~gone], y[~gone])
    weights = rng.dirichlet(np.ones((~gone).sum()), n_draws)
    p = np.zeros((table.cells.n_cells, n_draws))
    np.add.at(p, table.cell_of_row, weights.T)
    expected = draws_of(plan, p, table.cells)
    found = without(plan, fit, removed, n_draws)
    for mine, other in zip(found, expected, strict=True):
        for one, two in zip(mine.T, other.T, strict=True):
            assert ks_2samp(one, two).pvalue > 1e-3
            assert np.isclose(np.log(one.std() / two.std()), 0, atol=0.25)


def test_a_share_without_some_rows_has_its_beta_law():
    """Yes/no answers without covariates: both fits are the weighted share, whose law is known."""
    cells = Cells.from_counts(np.ones((2, 1)), [0, 1], [30, 14])
    fit = tb.posterior_bootstrap(Model(Bernoulli()), cells, n_draws=4, seed=2, refine=None)
    for removed in ([18, 0], [0, 10], [18, 10], [1, 1]):
        left = cells.counts - removed
        for draws in without(plan_of(fit), fit, np.array(removed), 2000):
            law = beta(left[1], left[0])
            assert kstest(expit(draws[:, 0]), law.cdf).pvalue > 1e-3


def test_without_no_row_the_draws_are_those_of_the_fit():
    fit, made, _, _ = fitted(grid)
    robust, ordinary = without(plan_of(fit), fit, np.zeros(made.cells.n_cells, int), 12)
    assert np.allclose(robust, fit.draws, atol=1e-6)
    assert np.allclose(ordinary, fit.kld_draws, atol=1e-6)


def test_draws_without_a_row_are_paired_with_those_with_it():
    fit, made, _, _ = fitted(grid, n_draws=100)
    removed = np.eye(made.cells.n_cells, dtype=int)[0]
    _, ordinary = without(plan_of(fit), fit, removed, 100)
    for one, two in zip(ordinary.T, fit.kld_draws.T, strict=True):
        assert np.corrcoef(one, two)[0, 1] > 0.95


def test_leaving_out_a_count_of_many_changes_little_and_an_outlier_nothing():
    fit, _, _, _ = fitted(rates, n_draws=100)
    plan = plan_of(fit)
    far = np.eye(fit.cells.n_cells, dtype=int)[-1]
    robust, ordinary = without(plan, fit, far, 100)
    assert abs(robust.mean() - fit.draws.mean()) < 0.03
    assert ordinary.mean() < fit.kld_draws.mean() - 0.1


def test_the_log_score_left_out_is_that_of_the_draws_left_out():
    fit, made, _, _ = fitted(rates, n_draws=30)
    held = leave_one_out(fit, n_draws=30)
    plan, cells = plan_of(fit), made.cells
    by_hand = np.zeros(2)
    for cell in range(cells.n_cells):
        both = without(plan, fit, np.eye(cells.n_cells, dtype=int)[cell], 30)
        pmf = [Poisson().pmf(cells.y[cell], draws.T, np.ones(1)).mean() for draws in both]
        by_hand -= cells.counts[cell] * np.log(pmf)
    found = [held.robust.log, held.ordinary.log]
    assert np.allclose(found, by_hand / cells.n_obs, rtol=1e-9)
    assert held.robust.n == cells.n_obs
    assert "Robust" in str(held)


def test_folds_hold_every_row_once():
    counts = np.array([5, 1, 7, 20])
    dealt = fold_counts(counts, 4, seed=3)
    assert np.array_equal(dealt.sum(0), counts)
    assert np.ptp(dealt.sum(1)) <= 1
    assert np.array_equal(dealt, fold_counts(counts, 4, seed=3))
    assert not np.array_equal(dealt, fold_counts(counts, 4, seed=4))


def test_weights_of_two_are_rows_twice_when_held_out():
    law, x, y = grid()
    tables = (
        Cells.from_rows(x, y, weights=np.full(len(y), 2.0)),
        Cells.from_rows(np.r_[x, x], np.r_[y, y]),
    )
    fits = [tb.posterior_bootstrap(Model(law), t, n_draws=8) for t in tables]
    scores = [cross_validate(fit, 5, n_draws=8).robust.log for fit in fits]
    assert scores[0] == scores[1]


@pytest.mark.parametrize("n_folds", [2, 3, 7])
def test_fold_sizes_differ_by_one_row_at_most(n_folds):
    sizes = fold_counts(np.array([5, 1, 0, 40, 12]), n_folds, seed=1).sum(1)
    assert sizes.sum() == 58
    assert np.ptp(sizes) <= 1


def test_every_row_is_as_likely_to_be_in_any_fold():
    counts = np.array([30, 10, 20])
    dealt = np.array([fold_counts(counts, 3, seed) for seed in range(2000)])
    # The rows of a cell in a fold follow a hypergeometric law: 20 of 60 rows, `counts` of one kind.
    variance = 20 * counts / 60 * (1 - counts / 60) * (60 - 20) / (60 - 1)
    error = np.sqrt(variance / 2000)
    assert (np.abs(dealt.mean(0) - counts / 3) < 4 * error).all()
    np.testing.assert_allclose(dealt.var(0), np.tile(variance, (3, 1)), rtol=0.15)


@pytest.mark.parametrize("scale", [10**8, 10**14])
def test_rows_by_the_billion_are_dealt_without_listing_them(scale):
    counts = scale * np.array([1, 2, 3])
    dealt = fold_counts(counts, 2, seed=0)
    np.testing.assert_array_equal(dealt.sum(0), counts)
    np.testing.assert_allclose(dealt[0], counts / 2, rtol=1e-3)


def test_as_many_folds_as_rows_are_nearly_leave_one_out():
    fit, _, _, _ = fitted(rates, n_draws=60)
    alone = leave_one_out(fit, n_draws=60).ordinary.log
    folds = cross_validate(fit, 40, n_draws=60).ordinary.log
    assert np.isclose(alone, folds, rtol=1e-12)


def test_a_row_whose_column_would_vanish_is_named_not_guessed():
    x = np.array([[1.0, 0.0]] * 12 + [[1.0, 1.0]])
    cells = Cells.from_rows(x, np.r_[np.arange(12) % 3, 1])
    fit = tb.posterior_bootstrap(
        Model(Poisson()), cells, n_draws=4, partition=tb.Distinct(), ridge=1e-3
    )
    held = leave_one_out(fit, n_draws=4)
    assert held.undefined.sum() == 1
    assert held.robust.n == 12
    assert "could not be left out" in str(held)


def test_fits_are_compared_on_the_same_folds_and_weights():
    rng = np.random.default_rng(5)
    n = 300
    x = np.column_stack([np.ones(n), rng.integers(0, 2, n)])
    y = tb.NegativeBinomial().sample(
        rng, np.array([x @ [1.0, 0.5], np.full(n, np.log(0.8))]), np.ones(n)
    )
    made = compress(x, y)
    fits = {
        name: (
            tb.posterior_bootstrap(Model(law), made.cells, n_draws=60, divergence=div),
            made.cell_of_row,
        )
        for name, law, div in (
            ("poisson", Poisson(), tb.KLD()),
            ("negative binomial", tb.NegativeBinomial(), tb.KLD()),
        )
    }
    found = compare_posteriors(fits, n_folds=5, n_draws=40)
    assert found.names[0] == "negative binomial"
    assert found["log_diff"][0] == 0
    assert found["log_error"][0] == 0
    assert found["closest"][0] > 0.5
    assert found["log_diff"][1] > 2 * found["log_error"][1]
    assert found["unexplained"][0] < found["unexplained"][1]
    assert np.isclose(found["closest"].sum(), 1)
    assert "negative binomial" in str(found)
    assert "negative binomial" in found._repr_html_()


def test_fits_of_other_rows_cannot_be_compared():
    one, two = fitted(rates), fitted(grid)
    with pytest.raises(tb.DataError, match="different rows"):
        compare_posteriors({"a": (one[0], one[1].cell_of_row), "b": (two[0], two[1].cell_of_row)})
    with pytest.raises(SettingsError, match="at least two"):
        compare_posteriors({"a": (one[0], one[1].cell_of_row)})


def test_fractional_weights_and_odd_folds_are_refused():
    cells = Cells.from_counts(np.ones((3, 1)), [0, 1, 2], [10.5, 20.0, 5.0])
    fit = tb.posterior_bootstrap(Model(Poisson()), cells, n_draws=4)
    with pytest.raises(SettingsError, match=r"10\.5"):
        leave_one_out(fit)
    fit = fitted(rates)[0]
    with pytest.raises(SettingsError, match="from 2"):
        cross_validate(fit, 1)
    with pytest.raises(SettingsError, match="cell by cell"):
        cross_validate(fit, np.zeros((2, 3), int))
