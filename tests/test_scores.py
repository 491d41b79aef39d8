"""Scores: hand-computed sums, likelihoods of statsmodels, sums over large counts, propriety."""

from dataclasses import replace

import numpy as np
import pytest
import statsmodels.api as sm
from scipy import stats

import tvdbayes as tb
from tvdbayes import KLD, Cells, Model
from tvdbayes.models.families import ALL_FAMILIES
from tvdbayes.results.laws import Block, blocks, law_of, support
from tvdbayes.results.scores import score


def fit_of(family, cells, draws=None):
    """A point fit; with ``draws`` (B, d) these stand for its posterior."""
    fit = tb.posterior_bootstrap(Model(family), cells, divergence=KLD(), n_draws=0)
    return fit if draws is None else replace(fit, draws=np.asarray(draws, float))


def ones(y, **options):
    return Cells.from_rows(np.ones((len(y), 1)), y, **options)


def block_of(family, eta, trials, y):
    """One cell in each of n rows, at predictors (k, n, B)."""
    index = np.arange(len(y))
    cells = Cells.from_rows(index[:, None], y, trials=trials)
    return Block(index, eta, trials[:, None], index, index, y, *support(family, cells))


def brute_force(family, block, last):
    """Probabilities of all outcomes up to `last`, (S, n), and those outcomes."""
    outcomes = np.arange(block.low, min(block.top, last) + 1)
    parts = np.array_split(outcomes, -(-len(outcomes) // 2000))
    return outcomes, np.concatenate([block.pmf(family, part).mean(-1) for part in parts])


def test_scores_of_one_poisson_law_are_the_sums_done_by_hand():
    y, rate = np.array([0, 1, 1, 4]), 1.5
    scores = score(fit_of(tb.Poisson(), ones(y), [[np.log(rate)]]))
    k = np.arange(60)
    p, cdf = stats.poisson.pmf(k, rate), stats.poisson.cdf(k, rate)
    assert abs(scores.log + np.log(p[y]).mean()) < 1e-13
    assert abs(scores.brier - ((p**2).sum() - 2 * p[y] + 1).mean()) < 1e-13
    rps = [((cdf - (one <= k)) ** 2).sum() for one in y]
    assert abs(scores.rps - np.mean(rps)) < 1e-13
    assert abs(scores.predictive_likelihood - p[y].mean()) < 1e-14
    assert abs(scores.absolute_error - (1.5 + 0.5 + 0.5 + 2.5) / 4) < 1e-14
    # The likeliest outcome is 1.
    assert scores.accuracy == 0.5
    assert scores.n == 4
    assert scores.counts.tolist() == [1, 2, 1]
    assert np.allclose(scores.by_cell["rps"], [rps[0], rps[1], rps[3]], atol=1e-13)


def test_scores_of_a_bernoulli_law_and_brier_as_half_a_quadratic_score():
    cells = ones([0, 0, 0, 1])
    scores = score(fit_of(tb.Bernoulli(), cells, [[np.log(0.25 / 0.75)]]))
    assert abs(scores.log + (3 * np.log(0.75) + np.log(0.25)) / 4) < 1e-14
    assert abs(scores.brier - (3 * 0.25**2 + 0.75**2) / 4) < 1e-14
    assert abs(scores.rps - scores.brier) < 1e-14
    assert abs(scores.predictive_likelihood - (3 * 0.75 + 0.25) / 4) < 1e-14
    assert scores.accuracy == 0.75
    for two in (tb.Categorical(("no", "yes")), tb.Ordinal(("no", "yes"))):
        quadratic = score(fit_of(two, cells, [[np.log(0.25 / 0.75)]]))
        assert abs(quadratic.brier - 2 * scores.brier) < 1e-14
        assert abs(quadratic.rps - scores.rps) < 1e-14
        assert abs(quadratic.absolute_error - (3 * 0.25 + 0.75) / 4) < 1e-14


def test_the_predictive_law_is_the_mean_over_the_draws():
    y, rates = np.array([0, 2, 3, 9]), np.array([1.0, 2.0, 6.0])
    scores = score(fit_of(tb.Poisson(), ones(y), np.log(rates)[:, None]))
    k = np.arange(80)
    p = stats.poisson.pmf(k, rates[:, None]).mean(0)
    assert abs(scores.log + np.log(p[y]).mean()) < 1e-13
    off = p.cumsum() - (y[:, None] <= k)
    assert np.allclose(scores.by_cell["rps"], (off**2).sum(1), atol=1e-13)
    assert abs(scores.brier - ((p**2).sum() - 2 * p[y] + 1).mean()) < 1e-13


@pytest.mark.parametrize("name", ["poisson", "logit", "mnlogit"])
def test_ordinary_log_scores_are_likelihoods_of_statsmodels(name, rng):
    n = 200
    x = np.column_stack([np.ones(n), rng.normal(size=n)])
    if name == "poisson":
        y, family = rng.poisson(np.exp(1 + 0.5 * x[:, 1])), tb.Poisson()
        reference = sm.Poisson(y, x).fit(disp=0, tol=1e-12)
    elif name == "logit":
        y, family = (rng.random(n) < 1 / (1 + np.exp(-x[:, 1]))).astype(int), tb.Bernoulli()
        reference = sm.Logit(y, x).fit(disp=0, tol=1e-12)
    else:
        y, family = rng.integers(0, 3, n), tb.Categorical(("a", "b", "c"))
        reference = sm.MNLogit(y, x).fit(disp=0, tol=1e-12)
    scores = score(fit_of(family, Cells.from_rows(x, y)))
    assert abs(scores.log + reference.llf / n) < 1e-9
    assert np.isnan(scores.rps) == (name == "mnlogit")


@pytest.mark.parametrize("family", ALL_FAMILIES, ids=repr)
@pytest.mark.parametrize("shift", [0.5, 5.0])
def test_laws_sum_like_brute_force(family, shift, rng):
    """Rows of small and large counts on common nodes, with few and many trials."""
    eta = rng.uniform(-0.5, 0.5, (len(family.predictors), 4, 5))
    eta[0] += shift if family.counts else 0.0
    eta[0] -= 3 if family.needs_trials else 0.0
    trials = np.array([7.0, 40.0, 90.0, 3000.0]) if family.needs_trials else np.ones(4)
    y = np.array([1.0, 3.0, 4.0, 2.0]) if family.counts else np.array([0.0, 1.0, 1.0, 0.0])
    block, column = block_of(family, eta, trials, y), np.arange(4)
    law = law_of(family, block, y)
    outcomes, mass = brute_force(family, block, law.high)
    cdf = mass.cumsum(0)
    at = (y - block.low).astype(int)
    assert (law.weights @ law.mass > 1 - 2e-10).all()
    assert np.allclose(law.up_to(y, column), cdf[at, column], atol=1e-9)
    assert np.allclose(law.up_to(y - 1, column), (cdf - mass)[at, column], atol=1e-9)
    assert np.allclose(law.weights @ law.mass**2, (mass**2).sum(0), rtol=1e-8)
    ranked = ((cdf - (outcomes[:, None] >= y)) ** 2).sum(0)
    assert np.allclose(law.ranked(y, column), ranked, rtol=1e-8, atol=1e-9)


def test_levels_of_any_number_are_taken_one_by_one():
    names = tuple(f"level {j}" for j in range(40))
    eta = np.concatenate([np.full((1, 1, 1), 2.0), np.full((38, 1, 1), -1.0)])
    block = block_of(tb.Ordinal(names), eta, np.ones(1), np.array([7.0]))
    law = law_of(tb.Ordinal(names), block, block.y)
    assert law.y.tolist() == list(range(40))
    assert abs(law.mass.sum() - 1) < 1e-12


LARGE = {
    "Poisson 1e4": (tb.Poisson(), 1e4, stats.poisson),
    "Poisson 1e5": (tb.Poisson(), 1e5, stats.poisson),
    "NB 1e4": (tb.NegativeBinomial(), 1e4, lambda m: stats.nbinom(2, 2 / (2 + m))),
}


@pytest.mark.parametrize("name", LARGE)
def test_ranked_scores_of_large_counts_agree_with_sums_over_all_of_them(name, rng):
    family, mean, law = LARGE[name]
    means = mean * np.exp(0.02 * rng.normal(size=5))
    draws = np.log(means)[:, None]
    if len(family.predictors) == 2:
        draws = np.column_stack([draws, np.full(5, -np.log(2.0))])
    y = np.round(mean * np.array([0.1, 0.99, 1.0, 1.03, 4.0]))
    scores = score(fit_of(family, ones(y), draws))
    k = np.arange(20 * mean if "NB" in name else 4.5 * mean)
    cdf = np.mean([law(m).cdf(k) for m in means], 0)
    exact = [((cdf - (one <= k)) ** 2).sum() for one in y]
    assert np.allclose(scores.by_cell["rps"], exact, rtol=1e-7)
    squares = (np.mean([law(m).pmf(k) for m in means], 0) ** 2).sum()
    p = np.mean([law(m).pmf(y) for m in means], 0)
    assert np.allclose(scores.by_cell["brier"], squares - 2 * p + 1, atol=1e-10)


def test_a_hump_far_above_a_spike_is_found():
    family = tb.ZeroInflated(tb.Poisson())
    eta = np.array([np.log(2e5), np.log(9.0)])[:, None, None]
    block = block_of(family, eta, np.ones(1), np.array([200_000.0]))
    law = law_of(family, block, block.y)
    assert abs((law.weights @ law.mass)[0] - 1) < 1e-9
    share = 0.9 + 0.1 * stats.poisson.cdf(200_000, 2e5)
    assert abs(law.up_to(block.y, np.zeros(1, int))[0] - share) < 1e-8


def test_predictions_that_ran_away_come_to_an_end():
    scores = score(fit_of(tb.Poisson(), ones([0, 1, 3]), [[0.3]] * 9 + [[60.0]]))
    k = np.arange(40)
    cdf = 0.9 * stats.poisson.cdf(k, np.exp(0.3))
    assert abs(scores.log + np.log(0.9 * stats.poisson.pmf([0, 1, 3], np.exp(0.3))).mean()) < 1e-9
    assert scores.rps > ((cdf - 1) ** 2).sum()


def test_log_scores_stay_finite_where_probabilities_underflow():
    scores = score(fit_of(tb.Poisson(), ones([0, 5000]), [[0.0], [0.1]]))
    log_p = np.logaddexp(*stats.poisson.logpmf(5000, np.exp([0.0, 0.1]))) - np.log(2)
    assert abs(scores.by_cell["log"][1] / -log_p - 1) < 1e-12
    # Nearly all of the law lies 5,000 below the outcome.
    assert abs(scores.by_cell["rps"][1] - 5000) < 2


def test_many_draws_on_many_rows_are_thinned_to_evenly_spaced_ones(monkeypatch, rng):
    monkeypatch.setattr("tvdbayes.results.laws._WORK", 1)
    cells = ones(rng.poisson(3, 50))
    draws = np.repeat(np.log([2.0, 4.0]), 300)[:, None]
    fit = fit_of(tb.Poisson(), cells, draws)
    assert {block.eta.shape[-1] for block in blocks(fit, cells)} == {200}
    thin = score(fit).by_cell["rps"]
    two = score(fit_of(tb.Poisson(), cells, np.log([[2.0], [4.0]]))).by_cell["rps"]
    assert np.allclose(thin, two, rtol=1e-12)


def test_absolute_errors_are_means_over_draws_not_errors_of_the_mean(rng):
    x, y = rng.integers(0, 3, (40, 1)) + 1.0, rng.binomial(5, 0.6, 40)
    draws = rng.normal(0.2, 0.5, (30, 1))
    cells = Cells.from_rows(x, y, trials=np.full(40, 5))
    expected = 5 / (1 + np.exp(-draws @ x.T))
    found = score(fit_of(tb.Binomial(), cells, draws)).absolute_error
    assert np.isclose(found, np.abs(expected - y).mean(), rtol=1e-12)
    assert found > np.abs(expected.mean(0) - y).mean() + 0.01


def test_levels_without_an_order_have_no_absolute_error():
    cells = ones([0, 1, 2, 2])
    three = score(fit_of(tb.Categorical(("a", "b", "c")), cells, [[0.1, 0.2]]))
    assert np.isnan(three.absolute_error)
    assert "absolute error                  nan  outcomes have no order" in str(three)
    ordinal = score(fit_of(tb.Ordinal(("a", "b", "c")), cells, [[0.0, np.log(2.0)]]))
    assert np.isfinite(ordinal.absolute_error)


def test_a_weight_of_two_is_the_row_twice(rng):
    x, y = rng.integers(0, 3, (60, 1)) + 1.0, rng.poisson(4, 60)
    twice = score(fit_of(tb.Poisson(), Cells.from_rows(np.r_[x, x], np.r_[y, y]), [[0.5], [0.6]]))
    weighed = score(
        fit_of(tb.Poisson(), Cells.from_rows(x, y, weights=np.full(60, 2)), [[0.5], [0.6]])
    )
    for name in ("log", "brier", "rps", "predictive_likelihood", "absolute_error", "accuracy", "n"):
        assert getattr(twice, name) == getattr(weighed, name)


def test_the_truth_has_the_best_proper_scores_but_not_the_best_predictive_likelihood(rng):
    """The logit of science: three times the true slopes look better to the improper score."""
    n, beta = 20_000, np.array([0.5, 1.0, -1.0])
    x = np.column_stack([np.ones(n), rng.normal(size=(n, 2)).round(1)])
    cells = Cells.from_rows(x, rng.random(n) < 1 / (1 + np.exp(-x @ beta)))
    fit = fit_of(tb.Bernoulli(), cells)
    found = {s: score(replace(fit, minimiser=s * beta)) for s in (0.5, 0.8, 1.0, 1.3, 3.0, 100.0)}
    for name in ("log", "brier", "rps"):
        assert min(found, key=lambda s: getattr(found[s], name)) == 1.0
    assert found[100.0].predictive_likelihood > found[1.0].predictive_likelihood + 0.05
    assert found[100.0].log > 5
    # Compared in pairs, the difference of two fits is known much better than either score.
    gap = found[1.3].by_cell["log"] - found[1.0].by_cell["log"]
    error = np.sqrt(cells.p @ (gap - cells.p @ gap) ** 2 / n)
    assert cells.p @ gap > 3 * error
    assert error < 0.3 * np.sqrt(cells.p @ (found[1.0].by_cell["log"] - found[1.0].log) ** 2 / n)


def test_counts_are_scored_best_by_their_own_law(rng):
    cells = ones(rng.negative_binomial(2, 2 / 7, 20_000))
    fit = fit_of(tb.NegativeBinomial(), cells)
    truth = np.array([np.log(5.0), np.log(0.5)])
    for step in ([0.15, 0.0], [-0.15, 0.0], [0.0, 0.5], [0.0, -0.5]):
        right, wrong = (score(replace(fit, minimiser=at)) for at in (truth, truth + step))
        assert right.log < wrong.log
        assert right.brier < wrong.brier
        assert right.rps < wrong.rps


def test_new_rows_are_scored_in_the_coordinates_of_the_fit(rng):
    x = np.column_stack([np.ones(300), rng.normal(size=300)])
    y = rng.poisson(np.exp(1 + 0.4 * x[:, 1]))
    fit = fit_of(tb.Poisson(), Cells.from_rows(x[:200], y[:200]))
    new = score(fit, Cells.from_rows(x[200:], y[200:]))
    rate = np.exp(x[200:] @ fit.estimate)
    assert abs(new.log + stats.poisson.logpmf(y[200:], rate).mean()) < 1e-12
    assert new.n == 100


def test_both_analyses_of_a_fit_can_be_scored(rng):
    y = rng.poisson(3, 300)
    y[:30] = 40
    fit = tb.posterior_bootstrap(Model(tb.Poisson()), ones(y), n_draws=50)
    clean = ones(rng.poisson(3, 300))
    assert score(fit, clean).log < score(fit.twin, clean).log - 0.3


def test_other_columns_and_impossible_outcomes_are_refused():
    fit = fit_of(tb.Poisson(), ones([0, 1, 3], names=("one",)))
    with pytest.raises(tb.DataError, match=r"columns of the fit, \['one'\].*got \['x0'\]"):
        score(fit, ones([0, 1]))
    with pytest.raises(tb.FamilyError, match="whole outcomes of at least 0"):
        score(fit, ones([0.5, 1], names=("one",)))


def test_the_printed_table_says_which_way_is_better():
    text = str(score(fit_of(tb.Poisson(), ones([0, 1, 1, 2]))))
    assert text.count("lower is better") == 3
    assert "improper: can reward overconfidence" in text
    assert "means over 4 rows" in text
    levels = score(fit_of(tb.Categorical(("a", "b", "c")), ones([0, 1, 1, 2])))
    assert "outcomes have no order" in repr(levels)
