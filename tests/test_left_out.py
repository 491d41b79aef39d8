"""Rows held out: one unit of a cell's count, paired with the whole fit."""

import warnings

import numpy as np
import pytest

import tvdbayes as tb
from tvdbayes import Bernoulli, Cells, Model, Poisson, SettingsError
from tvdbayes.bootstrap import plan_of, solve_tables
from tvdbayes.cells import compress
from tvdbayes.refits.comparison import compare_posteriors
from tvdbayes.refits.left_out import cross_validate, fold_counts, leave_one_out, without
from tvdbayes.weights import Stream, reweight


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
def test_one_refit_for_each_cell_is_the_loop_over_rows_bit_for_bit(case):
    fit, made, x, y = fitted(case)
    plan, n_draws = plan_of(fit), 12
    cells = made.cells
    weights = reweight(cells, Stream.draws(4), n_draws).p
    for row in range(0, len(y), 7):
        # The loop: the table of all other rows, and weights found by what the cells are.
        others = np.delete(np.arange(len(y)), row)
        table = Cells.from_rows(x[others], y[others])
        cell = made.cell_of_row[row]
        p = weights.copy()
        left = cells.counts[cell] - 1
        rng = Stream.generator(4, Stream.LEFT_OUT, int(cell))
        p[cell] *= rng.beta(left, 1, n_draws) if left else 0.0
        p /= p.sum(0)
        known = {
            (*cells.x[i], v): j for j, (i, v) in enumerate(zip(cells.x_index, cells.y, strict=True))
        }
        where = [known[(*table.x[i], v)] for i, v in zip(table.x_index, table.y, strict=True)]
        found = [
            solve_tables(plan, np.ascontiguousarray(p[where][:, at : at + plan.size]), table)
            for at in range(0, n_draws, plan.size)
        ]
        removed = np.eye(cells.n_cells, dtype=int)[cell]
        robust, ordinary = without(plan, fit, removed, n_draws)
        assert np.array_equal(robust, np.concatenate([s.robust.theta for s in found], 1).T)
        assert np.array_equal(ordinary, np.concatenate([s.twin.theta for s in found], 1).T)


def test_a_weight_without_one_row_has_the_law_of_one_row_less():
    # Gamma(n) times Beta(n - 1, 1) is Gamma(n - 1): moments of the normalised weights.
    cells = Cells.from_counts(np.ones((3, 1)), [0, 1, 2], [4, 6, 1])
    n = 40_000
    p = reweight(cells, Stream.draws(0), n).p
    p[1] *= Stream.generator(0, Stream.LEFT_OUT, 1).beta(5, 1, n)
    p /= p.sum(0)
    alpha = np.array([4.0, 5.0, 1.0])
    assert np.allclose(p.mean(1), alpha / 10, atol=0.003)
    variance = alpha / 10 * (1 - alpha / 10) / 11
    assert np.allclose(p.var(1), variance, rtol=0.05)


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
    by_hand = 0.0
    for cell in range(cells.n_cells):
        draws, _ = without(plan, fit, np.eye(cells.n_cells, dtype=int)[cell], 30)
        pmf = Poisson().pmf(cells.y[cell], draws.T, np.ones(1)).mean()
        by_hand -= cells.counts[cell] * np.log(pmf)
    assert np.isclose(held.robust.log, by_hand / cells.n_obs, rtol=1e-9)
    assert held.robust.n == cells.n_obs
    assert "Robust" in str(held)


def test_folds_hold_every_row_once():
    counts = np.array([5, 1, 7, 20])
    dealt = fold_counts(counts, 4, seed=3)
    assert np.array_equal(dealt.sum(0), counts)
    assert np.ptp(dealt.sum(1)) <= 1
    assert np.array_equal(dealt, fold_counts(counts, 4, seed=3))


def test_weights_of_two_are_rows_twice_when_held_out():
    law, x, y = grid()
    tables = (
        Cells.from_rows(x, y, weights=np.full(len(y), 2.0)),
        Cells.from_rows(np.r_[x, x], np.r_[y, y]),
    )
    fits = [tb.posterior_bootstrap(Model(law), t, n_draws=8) for t in tables]
    scores = [cross_validate(fit, 5, n_draws=8).robust.log for fit in fits]
    assert scores[0] == scores[1]


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


def test_fractional_weights_priors_and_odd_folds_are_refused():
    cells = Cells.from_counts(np.ones((3, 1)), [0, 1, 2], [10.5, 20.0, 5.0])
    fit = tb.posterior_bootstrap(Model(Poisson()), cells, n_draws=4)
    with pytest.raises(SettingsError, match=r"10\.5"):
        leave_one_out(fit)
    fit = fitted(rates)[0]
    with pytest.raises(SettingsError, match="from 2"):
        cross_validate(fit, 1)
    with pytest.raises(SettingsError, match="cell by cell"):
        cross_validate(fit, np.zeros((2, 3), int))
    base = Cells.from_counts(np.ones((2, 1)), [0, 1], [0.5, 0.5])
    prior = tb.posterior_bootstrap(
        Model(Poisson()), fit.cells, n_draws=4, prior=tb.Prior(2.0, base)
    )
    with pytest.raises(SettingsError, match="prior"):
        leave_one_out(prior)
