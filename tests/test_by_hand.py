"""Answers of a record whose draws are written down, against the same answers computed by hand."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
from scipy.special import expit
from scipy.stats import binom, norm, poisson

import tvdbayes as tb
from tvdbayes import Bernoulli, Cells, Cluster, Distinct, KMeansGroups, Model, Poisson
from tvdbayes.objective.partitions import report_groups
from tvdbayes.results.checks import (
    calibration,
    observed_by_group,
    pit,
    quantile_residuals,
    rootogram,
)
from tvdbayes.results.misfit import misfit, share_of_data
from tvdbayes.results.prediction import (
    NewRows,
    likely_pmf,
    mean_draws,
    mean_interval,
    outcome_interval,
    outcome_mean,
    pmf,
    sample_outcomes,
)
from tvdbayes.results.replicates import Replicates, _simulate, replicate
from tvdbayes.results.rows import cell_scores, layout_of
from tvdbayes.results.scores import score
from tvdbayes.results.sensitivity import Sensitivity
from tvdbayes.sampling.statements import warn_of
from tvdbayes.sampling.summary import intervals, summarise
from tvdbayes.sampling.weights import Stream, reweight

X = np.array([[1.0, 0.0], [1.0, 0.0], [1.0, 0.0], [1.0, 1.0], [1.0, 1.0]])
Y = np.array([0.0, 2.0, 9.0, 1.0, 3.0])
COUNTS = np.array([6.0, 10.0, 4.0, 12.0, 8.0])
DRAWS = np.random.default_rng(0).normal([0.5, 0.3], [0.2, 0.4], (40, 2))
KLD_DRAWS = np.random.default_rng(1).normal([0.9, -0.2], [0.3, 0.1], (40, 2))


def record(family, y=Y, **changes):
    """A fit of forty rows, with these draws."""
    cells = Cells.from_counts(X, y, COUNTS)
    fit = tb.posterior_bootstrap(
        Model(family), cells, n_draws=4, partition=Distinct(), ridge=0.01, bins="none", refine=None
    )
    fixed = {"draws": DRAWS, "kld_draws": KLD_DRAWS, "shift": np.zeros(2)}
    return replace(fit, **{**fixed, **changes})


@pytest.fixture(scope="module")
def counts():
    return record(Poisson())


@pytest.fixture(scope="module")
def answers():
    return record(Bernoulli(), np.array([0.0, 1.0, 1.0, 0.0, 1.0]))


def rates(draws):
    """Expected counts of the five cells under each draw, (B, 5)."""
    return np.exp(draws @ X.T)


# Intervals.


@pytest.mark.parametrize("level", [0.5, 0.8])
def test_the_summary_is_that_of_the_columns(level):
    table = summarise(("a", "b"), DRAWS, KLD_DRAWS, level, rope=(0.2, 0.6))
    gap = DRAWS - KLD_DRAWS
    for name, values in (("", DRAWS), ("kld_", KLD_DRAWS), ("diff_", gap)):
        low, high = np.quantile(values, [0.5 - level / 2, 0.5 + level / 2], axis=0)
        assert np.allclose(table[f"{name}low"], low)
        assert np.allclose(table[f"{name}high"], high)
    assert np.allclose(table["mean"], DRAWS.mean(0))
    assert np.allclose(table["kld_mean"], KLD_DRAWS.mean(0))
    assert np.allclose(table["diff"], gap.mean(0))
    assert np.allclose(table["sd"], DRAWS.std(0, ddof=1))
    assert np.allclose(table["mc_error"], DRAWS.std(0, ddof=1) / np.sqrt(40))
    assert np.allclose(table["rope"], ((DRAWS >= 0.2) & (DRAWS <= 0.6)).mean(0))


def test_the_direction_is_the_share_on_the_commoner_side():
    draws = np.array([[-1.0, 1.0], [-2.0, 1.0], [-3.0, 1.0], [0.5, -1.0]])
    table = summarise(("a", "b"), draws, draws, 0.5)
    assert table["direction"].tolist() == [0.75, 0.75]


def test_the_shortest_interval_holds_just_enough_draws():
    draws = np.array([0.0, 5.0, 6.0, 6.5, 7.0, 20.0, 30.0, 40.0, 41.0, 60.0])[:, None]
    low, high = intervals(draws, 0.4, "hdi")[:, 0]
    assert (low, high) == (5.0, 7.0)


def test_the_misfit_is_that_of_its_draws():
    draws, floor = np.linspace(0.1, 0.3, 21), np.linspace(0.0, 0.1, 41)
    found = misfit(draws, floor, 0.5)
    assert (found.low, found.high) == pytest.approx((0.15, 0.25))
    assert found.mean == pytest.approx(0.2)
    assert found.floor == pytest.approx(0.05)
    assert 0.095 <= found.floor_high < 0.1
    # A share s of wrong rows leaves s + (1 - s) * noise.
    share, noise = found.lower, found.floor_high
    assert share + (1 - share) * noise == pytest.approx(0.2)


def test_a_threshold_is_a_rank_of_the_clean_data_sets():
    """Of 99 clean data sets and the one at hand, a tenth may exceed it: the 90th of 99."""
    chance = Replicates(
        *([np.zeros(99)] * 4),
        surprise=np.random.default_rng(0).permutation(99) + 0.0,
        dropped=np.zeros(99),
        of_clusters=np.zeros(99),
    )
    assert chance.threshold(0.1) == 89.0
    assert chance.threshold(0.005) == np.inf


def test_replicates_have_as_many_rows_at_every_x_and_the_law_of_the_minimiser():
    cells = Cells.from_counts(X, Y, 50 * COUNTS + np.array([0, 0, 0, 700, 300]))
    fit = tb.posterior_bootstrap(Model(Poisson()), cells, n_draws=0, partition=Distinct())
    table, counts = _simulate(fit, layout_of(fit).bound.eta, range(4))
    at_x = [np.bincount(table.x_index, n, cells.n_x) for n in counts.T]
    assert np.array_equal(at_x, [cells.x_counts] * 4)
    rate = np.exp(cells.x @ fit.minimiser)
    mean = np.bincount(table.x_index, counts.sum(1) * table.y) / (4 * cells.x_counts)
    assert np.allclose(mean, rate, atol=4 * np.sqrt(rate / 4 / cells.x_counts))


def test_a_fitted_model_leaves_less_than_the_one_that_made_the_data(rng):
    cells = Cells.from_rows(np.ones((80, 1)), rng.poisson(3, 80))
    fit = tb.posterior_bootstrap(Model(Poisson()), cells, n_draws=0, refine=None)
    chance = replicate(fit, 20)
    assert (chance.even <= chance.unfitted + 1e-9).all()
    assert chance.even.mean() < 0.95 * chance.unfitted.mean()
    # Random weights make the rows effectively half as many.
    assert chance.distance.mean() > 1.2 * chance.even.mean()


def test_an_interval_of_sensitivity_ends_where_the_share_is_crossed():
    values, share = np.array([-1.0, 0.0, 1.0, 2.0, 3.0]), np.array([0.4, 0.2, 0.1, 0.3, 0.5])
    found = Sensitivity("x", 1.0, values, share, 0.1)
    assert found.interval(0.25) == pytest.approx((-0.25, 1.75))
    assert found.interval(0.05) == (1.0, 1.0)
    assert found.interval(0.45) == (-np.inf, pytest.approx(2.75))
    assert found.sign_holds_to == 0.2


# Rows.


def test_scores_of_cells_are_excess_masses(counts):
    found = cell_scores(counts)
    at_x = np.array([20.0, 20.0, 20.0, 20.0, 20.0])
    share = poisson.pmf(Y, rates(DRAWS)) * at_x / COUNTS
    assert np.allclose(found.score, np.maximum(1 - share, 0).mean(0))
    assert np.allclose(found.probability, (1 - share >= 0.5).mean(0))
    assert np.allclose(found.signed, ((1 - share) / np.maximum(1, share)).mean(0))
    expected = poisson.pmf(Y, rates(counts.minimiser[None])[0]) * at_x
    assert np.allclose(found.observed, COUNTS)
    assert np.allclose(found.expected, expected)
    # At least so many rows.
    surprise = -np.log10(poisson.sf(COUNTS - 1, expected))
    assert np.allclose(found.surprise, np.where(expected <= COUNTS / 2, surprise, 0))
    assert found.surprise[2] > 2
    assert (found.surprise > found.surprise[2] - 0.1).tolist() == [False, False, True, False, False]


def test_rows_of_a_group_are_a_mean_over_the_ensemble():
    rng = np.random.default_rng(3)
    x = np.column_stack([np.ones(150), rng.normal(size=150)])
    cells = Cells.from_rows(x, rng.integers(0, 2, 150))
    partition = KMeansGroups((Cluster("tail", 1.0, 3),))
    fit = tb.posterior_bootstrap(Model(Bernoulli()), cells, partition=partition, n_draws=0)
    grouping = fit.partition.group(cells)
    groups = grouping.groups[:, grouping.atom_of_cell]
    yes = expit(cells.x[cells.x_index] @ fit.minimiser)
    law = np.where(cells.y == 1, yes, 1 - yes)
    observed, expected = np.zeros((2, 3, cells.n_cells))
    for r, group in enumerate(groups):
        for i in range(cells.n_cells):
            mine = group == group[i]
            observed[r, i] = (cells.counts * mine)[cells.y == cells.y[i]].sum()
            own = np.where(cells.y == cells.y[i], law, 1 - law)
            expected[r, i] = (cells.counts * own)[mine].sum()
    score = np.maximum(1 - expected / observed, 0)
    found = cell_scores(fit)
    assert len(groups) == 3
    assert np.allclose(found.observed, observed.mean(0))
    assert np.allclose(found.expected, expected.mean(0))
    assert np.allclose(found.score, score.mean(0))


def test_the_unexplained_share_is_that_of_the_reweighted_data_before_the_shift(counts):
    shift = np.array([0.3, -0.2])
    shifted = replace(counts, draws=DRAWS + shift, shift=shift)
    level = np.array([[1.0, 1, 1, 0, 0], [0, 0, 0, 1, 1]])
    found = share_of_data(shifted, level)
    p = reweight(counts.cells, Stream.draws(counts.seed), 40).p.T
    at_x = (p @ level.T)[:, [0, 0, 0, 1, 1]]
    excess = np.maximum(p - at_x * poisson.pmf(Y, rates(DRAWS)), 0)
    assert np.allclose(found[0], excess.sum(1))
    assert np.allclose(found[1:], (excess @ level.T / (p @ level.T)).T)


# Predictions.

NEW = np.array([[1.0, 2.0], [1.0, -1.0], [1.0, 2.0], [1.0, 0.0]])


@pytest.mark.parametrize("level", [0.5, 0.8])
def test_predictions_are_those_of_the_draws(counts, level):
    offset = np.array([0.1, -0.3, 0.1, 0.0])
    rows = NewRows.of(counts, NEW, offset=offset)
    mean = np.exp(DRAWS @ NEW.T + offset)
    assert np.allclose(mean_draws(counts, rows), mean)
    assert np.allclose(outcome_mean(counts, rows), mean.mean(0))
    ends = np.quantile(mean, [0.5 - level / 2, 0.5 + level / 2], axis=0).T
    assert np.allclose(mean_interval(counts, rows, level), ends)
    y = np.arange(4)
    assert np.allclose(pmf(counts, rows, y), poisson.pmf(y, mean[..., None]).mean(0))


def test_outcome_intervals_are_quantiles_of_the_mixture(counts):
    rows = NewRows.of(counts, NEW)
    cdf = poisson.cdf(np.arange(60)[:, None, None], np.exp(DRAWS @ NEW.T)).mean(1)
    for level in (0.5, 0.9):
        found = outcome_interval(counts, rows, level)
        assert (found == np.round(found)).all()
        for share, end in zip((0.5 - level / 2, 0.5 + level / 2), found.T, strict=True):
            # The end itself holds the share, its neighbour below does not, but for sampling.
            at = end.astype(int)
            assert (cdf[at, range(4)] > share - 0.03).all()
            assert (np.where(at > 0, cdf[at - 1, range(4)], 0) < share + 0.03).all()


def test_counts_are_listed_until_every_row_has_its_share(counts):
    """One outcome fewer would not be enough for the row of the highest rate."""
    y, found = likely_pmf(counts, NewRows.of(counts, NEW), 0.95)
    rate = np.exp(DRAWS @ NEW.T)
    assert y.tolist() == list(range(len(y)))
    assert np.allclose(found, poisson.pmf(y, rate[..., None]).mean(0))
    assert found.sum(1).min() >= 0.95
    assert found[:, :-1].sum(1).min() < 0.95


def test_samples_depend_on_the_seed_and_go_through_the_draws_in_turn(counts):
    rows = NewRows.of(counts, NEW)
    one, two = (sample_outcomes(counts, rows, seed=seed) for seed in (1, 2))
    assert not np.array_equal(one, two)
    assert np.array_equal(one, sample_outcomes(counts, rows, seed=1))
    steep = replace(counts, draws=np.array([[-9.0, 0.0], [6.0, 0.0]]))
    drawn = sample_outcomes(steep, rows, 5)
    assert (drawn > 100).all(1).tolist() == [False, True, False, True, False]


# Scores.


def test_scores_are_means_over_rows_of_the_predictive_law(counts, answers):
    found, p = score(counts), COUNTS / 40
    outcome = np.arange(200)
    law = poisson.pmf(outcome, rates(DRAWS)[..., None]).mean(0)
    own = law[range(5), Y.astype(int)]
    assert found.log == pytest.approx(-p @ np.log(own), rel=1e-6)
    assert found.brier == pytest.approx(p @ ((law**2).sum(1) - 2 * own + 1), rel=1e-6)
    step = (law.cumsum(1) - (Y[:, None] <= outcome)) ** 2
    assert found.rps == pytest.approx(p @ step.sum(1), rel=1e-6)
    assert found.predictive_likelihood == pytest.approx(p @ own, rel=1e-6)
    apart = np.abs(rates(DRAWS) - Y).mean(0)
    assert found.absolute_error == pytest.approx(p @ apart, rel=1e-12)
    assert found.accuracy == pytest.approx(p @ (law.argmax(1) == Y))
    cells = answers.cells
    x, y, p = cells.x[cells.x_index], cells.y, cells.p
    for found, draws in ((score(answers), DRAWS), (score(answers.twin), KLD_DRAWS)):
        yes = expit(draws @ x.T).mean(0)
        assert found.brier == pytest.approx(p @ (yes - y) ** 2)
        assert found.rps == pytest.approx(p @ (yes - y) ** 2)
        assert found.log == pytest.approx(-p @ np.log(np.where(y == 1, yes, 1 - yes)))
        assert found.accuracy == pytest.approx(p @ ((yes > 0.5) == y))


def test_scores_of_a_long_tail_count_all_of_it():
    """One draw of 120 has its mass far off: the rows it expects there count as any others."""
    wide = record(Poisson(), draws=np.array([[0.0, 0.0]] * 119 + [[5.0, 0.0]]))
    outcome = np.arange(400)
    law = poisson.pmf(outcome, rates(wide.draws)[..., None]).mean(0)
    step = (law.cumsum(1) - (Y[:, None] <= outcome)) ** 2
    assert score(wide).rps == pytest.approx((COUNTS / 40) @ step.sum(1), rel=1e-6)


# Checks.


def test_ranks_and_residuals_lie_in_the_step_of_the_law(counts):
    found = pit(counts)
    assert np.allclose(found.low, poisson.cdf(Y - 1, rates(DRAWS)).mean(0))
    assert np.allclose(found.high, poisson.cdf(Y, rates(DRAWS)).mean(0))
    rows = np.repeat(np.arange(5), 400)
    at = norm.cdf(quantile_residuals(counts, rows)).reshape(5, 400)
    inside = (at - found.low[:, None]) / (found.high - found.low)[:, None]
    assert np.allclose(inside.mean(1), 0.5, atol=0.07)
    assert (inside.min(1) < 0.05).all()


@pytest.mark.parametrize("level", [0.5, 0.95])
def test_calibration_of_answers_has_wilsons_interval(answers, level):
    found = calibration(answers, 2, interval=level)
    z, n = norm.ppf(0.5 + level / 2), np.array([20.0, 20.0])
    seen = np.array([14.0, 8.0]) / 20
    order = np.argsort(expit(DRAWS @ X[[0, 3]].T).mean(0))
    assert np.allclose(found.counts, n)
    assert np.allclose(found.observed, seen[order])
    # The ends are where the score test is at its limit.
    for end in (found.low, found.high):
        assert np.allclose(np.abs(found.observed - end), z * np.sqrt(end * (1 - end) / n))


@pytest.mark.parametrize("level", [0.5, 0.95])
def test_groups_are_judged_by_both_kinds_of_spread(counts, level):
    found = observed_by_group(counts, np.array([0, 0, 0, 1, 1]), ("a", "b"), interval=level)
    rate = rates(DRAWS)[:, [0, 3]]
    assert np.allclose(found.n, 20)
    assert np.allclose(found.observed, [(Y[:3] @ COUNTS[:3]) / 20, (Y[3:] @ COUNTS[3:]) / 20])
    assert np.allclose(found.expected, rate.mean(0))
    # Twenty rows around their means, and the means over the draws.
    sd = np.sqrt(rate.mean(0) / 20 + rate.var(0))
    assert np.allclose(found.z, (found.observed - found.expected) / sd, rtol=1e-6)
    z = norm.ppf(0.5 + level / 2)
    assert np.allclose(found.low, found.expected - z * sd)
    assert np.allclose(found.high, found.expected + z * sd)


def test_a_rootogram_has_the_quantiles_of_its_counts(counts):
    point = replace(counts, draws=DRAWS[:1])
    law = poisson.pmf(np.arange(60), rates(DRAWS[:1])[0][[0, 3], None])
    for level in (0.5, 0.9):
        found = rootogram(point, level)
        single = found.outcomes == found.ends
        expected = 20 * law.sum(0)[found.outcomes[single].astype(int)]
        assert np.allclose(found.expected[single], expected)
        assert found.expected.sum() == pytest.approx(40)
        for share, ends in ((0.5 - level / 2, found.low), (0.5 + level / 2, found.high)):
            assert np.array_equal(ends[single], binom.ppf(share, 40, expected / 40))


# What a fit records.


def test_uncertified_draws_are_counted_in_a_warning(counts):
    def told(n_stalled, **which):
        status = np.where(np.arange(200) < n_stalled, int(tb.Status.STALLED), 0)
        clean = {"status": np.zeros(200, int), "kld_status": np.zeros(200, int)}
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            warn_of(replace(counts, **{**clean, **dict.fromkeys(which, status)}), False, 0)
        return [str(w.message) for w in caught if w.category is tb.ConvergenceWarning]

    assert told(2, status=True) == []
    (words,) = told(3, status=True)
    assert words.startswith("3 of 200 draws ended without a certified minimum")
    (words,) = told(150, kld_status=True)
    assert words.startswith("150 of 200 likelihood (KLD) draws")


def test_draws_of_every_block_are_those_of_their_number():
    """Answers without covariates: both fits are the share of their weights."""
    cells = Cells.from_counts(np.ones((2, 1)), [0, 1], [30, 14])
    fit = tb.posterior_bootstrap(Model(Bernoulli()), cells, n_draws=1100, seed=5, refine=None)
    share = reweight(cells, Stream.draws(5), 1100).p[1]
    assert np.allclose(expit(fit.kld_draws[:, 0]), share, atol=1e-6)
    assert np.allclose(expit(fit.draws[:, 0]), share, atol=1e-6)
    assert len(np.unique(fit.draws)) == 1100


def test_the_minimisers_and_their_distance_are_those_of_the_table(rng):
    y = np.append(rng.poisson(3, 90), [25] * 10)
    cells = Cells.from_rows(np.ones((100, 1)), y)
    fit = tb.posterior_bootstrap(Model(Poisson()), cells, n_draws=5)
    law = poisson.pmf(cells.y, np.exp(fit.minimiser[0]))
    assert fit.minimiser_distance == pytest.approx(np.maximum(cells.p - law, 0).sum())
    assert np.exp(fit.kld_minimiser[0]) == pytest.approx(y.mean())
    assert 2 < np.exp(fit.minimiser[0]) < 4
    p = reweight(cells, Stream.draws(fit.seed), 5).p
    for j in range(5):
        law = poisson.pmf(cells.y, np.exp(fit.draws[j, 0]))
        assert fit.distance[j] == pytest.approx(np.maximum(p[:, j] - law, 0).sum())


def test_the_twin_is_the_ordinary_analysis_as_a_record(counts):
    """Whatever a record says of its draws, its twin says of theirs."""
    full = replace(
        counts,
        distance=np.full(40, 0.1),
        kld_distance=np.full(40, 0.7),
        status=np.zeros(40, int),
        kld_status=np.full(40, 3),
        shift=np.ones(2),
    )
    twin = full.twin
    assert twin.divergence == tb.KLD()
    for name in ("draws", "distance", "status", "minimiser"):
        assert np.array_equal(getattr(twin, name), getattr(full, f"kld_{name}"))
    assert not twin.shift.any()
    assert (twin.ridge, twin.bins, twin.refine) == (0.0, None, None)


def test_calibration_has_bins_of_equal_weight_not_of_equal_numbers_of_x():
    x = np.column_stack([np.ones(8), np.repeat(np.arange(4.0), 2)])
    cells = Cells.from_counts(x, [0, 1] * 4, [1, 1, 1, 1, 1, 1, 60, 34])
    fit = tb.posterior_bootstrap(Model(Bernoulli()), cells, n_draws=0, ridge=0.1)
    found = calibration(replace(fit, draws=np.array([[-1.0, 0.3]])), 2)
    assert found.counts.tolist() == [6, 94]
    assert found.observed.tolist() == [0.5, 34 / 94]


def test_the_group_of_the_median_row_is_reported():
    """Five groups, four of them of one row: half of the rows are in the large one."""
    cells = Cells.from_counts(np.arange(1.0, 6.0)[:, None], [1] * 5, [1, 1, 1, 1, 100])
    found = report_groups(cells, "distinct", Distinct().group(cells))
    assert (found.n_groups, found.median_size) == (5, 100)


def test_separation_is_seen_whichever_way_the_coefficients_run():
    for x_sign in (1.0, -1.0):
        for flip in (0, 1):
            x = np.array([[1, 0], [1, 0], [1, x_sign]])
            cells = Cells.from_counts(x, np.abs(np.array([0, 1, 1]) - flip), [20, 20, 40])
            with pytest.warns(tb.SeparationWarning):
                fit = tb.posterior_bootstrap(Model(Bernoulli()), cells, n_draws=6, ridge=0.0)
            assert (fit.status == tb.Status.SEPARATED).all()
            assert (fit.kld_status == tb.Status.SEPARATED).all()
            assert np.sign(fit.draws[0, 1]) == x_sign * (1 - 2 * flip)
