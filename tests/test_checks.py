"""Checks of a fit: sums that must agree, laws of a right model, departures of a wrong one."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

import tvdbayes as tb
from tvdbayes import KLD, Cells, Model
from tvdbayes.data.cells import compress
from tvdbayes.results.checks import (
    calibration,
    observed_by_group,
    pit,
    pit_histogram,
    quantile_residuals,
    rootogram,
)

LEVELS = ("low", "middle", "high")


def fit_of(family, cells, n_draws=0):
    return tb.posterior_bootstrap(Model(family), cells, divergence=KLD(), n_draws=n_draws)


def ones(y, **options):
    return Cells.from_rows(np.ones((len(y), 1)), y, **options)


@pytest.fixture(scope="module")
def rows():
    """Counts that are what the model says, on continuous x."""
    rng = np.random.default_rng(5)
    x = np.column_stack([np.ones(1500), rng.normal(size=1500)])
    return x, rng.poisson(np.exp(1 + 0.5 * x[:, 1]))


@pytest.fixture(scope="module")
def right(rows):
    return fit_of(tb.Poisson(), Cells.from_rows(*rows), 40)


@pytest.fixture(scope="module")
def wrong(rows):
    """The same means, but outcomes vary three times as much."""
    x, _ = rows
    mean = np.exp(1 + 0.5 * x[:, 1])
    y = np.random.default_rng(6).negative_binomial(mean / 2, 1 / 3)
    return fit_of(tb.Poisson(), Cells.from_rows(x, y), 40)


def test_a_rootogram_counts_every_row_once(right):
    shown = rootogram(right)
    assert shown.observed.sum() == 1500
    assert abs(shown.expected.sum() - 1500) < 1e-6
    inside = (shown.observed >= shown.low) & (shown.observed <= shown.high)
    assert inside.mean() > 0.8
    assert (shown.low <= shown.expected).all()
    assert (shown.high >= np.floor(shown.expected)).all()
    assert shown.labels[0] == "0"
    assert shown.labels[-1].endswith("or more")
    assert np.isinf(shown.ends[-1])


def test_expected_counts_of_one_law_are_its_probabilities():
    cells = ones(np.repeat([0, 1, 3], [40, 30, 10]))
    fit = fit_of(tb.Poisson(), cells)
    shown = rootogram(fit)
    single = shown.outcomes == shown.ends
    p = stats.poisson.pmf(shown.outcomes[single], 60 / 80)
    assert np.allclose(shown.expected[single], 80 * p, atol=1e-6)
    # The gap at 2 is there, and intervals are binomial quantiles.
    assert shown.labels[:4] == ("0", "1", "2", "3")
    assert shown.observed[2] == 0
    assert np.array_equal(shown.low[single], stats.binom.ppf(0.05, 80, p))
    assert np.array_equal(shown.high[single], stats.binom.ppf(0.95, 80, p))


def test_a_rootogram_shows_what_the_model_lacks(wrong):
    shown = rootogram(wrong)
    assert shown.observed[0] > shown.high[0]
    assert ((shown.observed < shown.low) | (shown.observed > shown.high)).mean() > 0.3


def test_wide_counts_are_joined_and_outliers_gathered(rng):
    y = np.r_[rng.poisson(1e5, 300), [10**7] * 20, 3]
    shown = rootogram(fit_of(tb.Poisson(), ones(y[:300])))
    assert 20 < len(shown.labels) <= 60
    assert shown.observed.sum() == 300
    assert abs(shown.expected.sum() - 300) < 1e-6
    assert (shown.ends - shown.outcomes + 1)[2] in (50, 100)
    fit = replace(fit_of(tb.Poisson(), ones(y)), minimiser=np.array([np.log(1e5)]))
    shown = rootogram(fit)
    assert len(shown.labels) <= 60
    assert shown.observed[[0, -1]].tolist() == [1, 20]
    assert shown.outcomes[-1] < 110_000
    assert abs(shown.expected.sum() - 321) < 1e-6
    short = rootogram(fit, most=12)
    assert len(short.labels) <= 12
    assert short.labels[0].startswith("0 to ")


def test_spikes_and_bounds_have_bars_of_their_own(rng):
    y = np.where(rng.random(400) < 0.4, 0, rng.poisson(300, 400))
    inflated = rootogram(fit_of(tb.ZeroInflated(tb.Poisson()), ones(y)))
    assert inflated.labels[:2] == ("0", "1 to 9")
    assert abs(inflated.expected[0] - (y == 0).sum()) < 1e-3
    censored = rootogram(fit_of(tb.Censored(tb.Poisson(), 4), ones(np.minimum(y // 100, 4))))
    assert censored.labels == ("0", "1", "2", "3", "4")
    assert abs(censored.expected.sum() - 400) < 1e-9
    trials = np.full(400, 200)
    wide = rootogram(fit_of(tb.Binomial(), ones(rng.binomial(200, 0.9, 400), trials=trials)))
    assert wide.ends[-1] == 200
    assert abs(wide.expected.sum() - 400) < 1e-6


def test_levels_are_the_bars_of_their_families():
    cells = ones(np.repeat([0, 1, 2], [10, 20, 30]))
    for family in (tb.Ordinal(LEVELS), tb.Categorical(LEVELS)):
        shown = rootogram(fit_of(family, cells))
        assert shown.labels == LEVELS
        assert np.allclose(shown.expected, [10, 20, 30], atol=1e-4)
    assert rootogram(fit_of(tb.Bernoulli(), ones([0, 1, 1]))).labels == ("0", "1")


def test_draws_widen_the_interval_of_a_rootogram():
    cells = ones(np.repeat([0, 1, 2, 3], 50))
    fit = fit_of(tb.Poisson(), cells)
    narrow = rootogram(fit)
    wide = rootogram(replace(fit, draws=np.log([[0.75], [1.5], [3.0]])))
    assert wide.high[0] - wide.low[0] > 2 * (narrow.high[0] - narrow.low[0])


def test_pit_bounds_are_the_cdf_on_both_sides_of_the_outcome():
    y = np.array([0, 1, 4, 40])
    draws = np.log([[1.0], [2.0]])
    found = pit(replace(fit_of(tb.Poisson(), ones(y)), draws=draws))
    for bound, at in ((found.low, y - 1), (found.high, y)):
        exact = stats.poisson.cdf(at, np.exp(draws)).mean(0)
        assert np.allclose(bound, exact, atol=1e-9)
    large = fit_of(tb.Poisson(), ones(np.array([99_500, 100_000, 100_400])))
    exact = stats.poisson.cdf([99_500, 100_000, 100_400], np.exp(large.estimate[0]))
    assert np.allclose(pit(large).high, exact, atol=1e-8)


def test_pit_is_uniform_for_the_right_model_and_not_for_a_wrong_one(right, wrong):
    for fit, fits in ((right, True), (wrong, False)):
        found, shown = pit(fit), pit_histogram(fit)
        at = found.low + np.random.default_rng(0).random(len(found.low)) * (found.high - found.low)
        level = stats.kstest(at, "uniform").pvalue
        outside = ((shown.density < shown.low) | (shown.density > shown.high)).sum()
        assert abs(shown.density.mean() - 1) < 1e-12
        assert (level > 0.05) == fits
        assert (outside <= 2) == fits
    # More spread than the model expects is a U.
    assert min(shown.density[[0, -1]]) > max(shown.density[4:6])


def test_the_histogram_equals_the_formula_of_czado_gneiting_and_held(right):
    found, p = pit(right), right.cells.p
    edges = np.linspace(0, 1, 5)
    share = np.clip((edges[:, None] - found.low) / (found.high - found.low), 0, 1) @ p
    shown = pit_histogram(right, n_bins=4)
    assert np.allclose(shown.density, 4 * np.diff(share), atol=1e-12)
    assert shown.low * 1500 / 4 == stats.binom.ppf(0.05, 1500, 0.25)
    assert np.array_equal(shown.edges, edges)


def test_outcomes_beyond_all_mass_are_counted_at_the_end():
    fit = replace(fit_of(tb.Poisson(), ones([0, 1, 10**6])), minimiser=np.zeros(1))
    shown = pit_histogram(fit, n_bins=2)
    assert abs(shown.density.mean() - 1) < 1e-12
    assert shown.density[1] > shown.density[0]


def test_quantile_residuals_are_standard_normal_for_the_right_model(rows, right, wrong):
    cell = compress(*rows).cell_of_row
    residuals = quantile_residuals(right, cell)
    assert stats.kstest(residuals, "norm").pvalue > 0.05
    assert abs(residuals.std() - 1) < 0.05
    assert np.array_equal(residuals, quantile_residuals(right, cell))
    assert not np.array_equal(residuals, quantile_residuals(right, cell, seed=1))
    spread = quantile_residuals(wrong, np.arange(wrong.cells.n_cells))
    assert spread.std() > 1.3


def test_residuals_stay_finite_and_rows_without_weight_get_none():
    fit = replace(fit_of(tb.Poisson(), ones([0, 1, 10**6])), minimiser=np.full(1, 7.0))
    residuals = quantile_residuals(fit, [2, 0, -1, 2])
    assert np.isnan(residuals).tolist() == [False, False, True, False]
    assert abs(residuals[0] - 8.2) < 0.1
    assert abs(residuals[1] + 8.2) < 0.1


def test_weights_are_rows_repeated(rng):
    x, y = np.column_stack([np.ones(80), rng.integers(0, 4, 80)]), rng.poisson(3, 80)
    twice = fit_of(tb.Poisson(), Cells.from_rows(np.r_[x, x], np.r_[y, y]))
    weighed = fit_of(tb.Poisson(), Cells.from_rows(x, y, weights=np.full(80, 2.0)))
    group = (twice.cells.y > 2).astype(int)
    for check in (
        rootogram,
        pit,
        pit_histogram,
        calibration,
        lambda fit: observed_by_group(fit, group, ("few", "many")),
    ):
        one, other = (vars(check(fit)) for fit in (twice, weighed))
        assert all(np.array_equal(one[name], other[name]) for name in one)
    once = fit_of(tb.Poisson(), Cells.from_rows(x, y))
    assert np.allclose(pit(once).high, pit(twice).high, atol=1e-6)
    assert np.allclose(2 * rootogram(once).observed, rootogram(twice).observed)


def test_calibration_of_probabilities_is_wilsons(rng):
    n = 4000
    x = np.column_stack([np.ones(n), rng.normal(size=n)])
    y = rng.random(n) < 1 / (1 + np.exp(-x[:, 1]))
    fit = fit_of(tb.Bernoulli(), Cells.from_rows(x, y))
    found = calibration(fit)
    assert np.allclose(found.counts, 400)
    assert (np.diff(found.predicted) > 0).all()
    assert abs(found.predicted @ found.counts / n - y.mean()) < 1e-6
    assert ((found.low < found.predicted) & (found.predicted < found.high)).sum() >= 8
    for k, n_bin, low, high in zip(
        found.observed * 400, found.counts, found.low, found.high, strict=True
    ):
        wilson = stats.binomtest(round(k), int(n_bin)).proportion_ci(0.9, "wilson")
        assert np.allclose([low, high], wilson, atol=1e-12)
    steep = calibration(replace(fit, minimiser=3 * fit.minimiser))
    assert ((steep.low < steep.predicted) & (steep.predicted < steep.high)).sum() <= 4


def test_calibration_keeps_equal_predictions_together():
    x = [[1.0, 0.0], [1.0, 0.0], [1.0, 1.0], [1.0, 1.0]]
    cells = Cells.from_counts(x, [0, 1, 0, 1], [70, 10, 10, 10])
    found = calibration(fit_of(tb.Bernoulli(), cells), n_bins=4)
    assert found.counts.tolist() == [80, 20]
    assert found.observed.tolist() == [10 / 80, 10 / 20]


def test_calibration_is_of_the_rows_that_were_used(rng):
    x = np.repeat([0, 1], 100)
    y = rng.poisson(np.exp(1 + x))
    wrong = np.arange(200) % 20 == 0
    fit = tb.fit("y ~ x", {"x": x, "y": np.where(wrong, y + 100, y)}, n_draws=0)
    robust, ordinary = fit.calibration(2), fit.calibration(2, ordinary=True)
    assert robust.counts.tolist() == [95, 95]
    assert np.allclose(robust.observed, [y[~wrong & (x == k)].mean() for k in (0, 1)])
    assert np.allclose(robust.observed, robust.predicted, rtol=1e-3)
    assert ordinary.counts.tolist() == [100, 100]


def test_calibration_of_levels_counts_and_trials(rng, right):
    levels = ones(np.repeat([0, 1, 2], [10, 20, 30]))
    for family in (tb.Ordinal(LEVELS), tb.Categorical(LEVELS)):
        fit = fit_of(family, levels)
        assert abs(calibration(fit).observed[0] - 0.5) < 1e-12
        assert abs(calibration(fit, level="middle").predicted[0] - 1 / 3) < 1e-5
    counts = calibration(right)
    assert ((counts.low < counts.predicted) & (counts.predicted < counts.high)).sum() >= 8
    assert abs(counts.observed @ counts.counts - right.cells.counts @ right.cells.y) < 1e-6
    one = calibration(right, n_bins=1)
    y, mean = right.cells.y, counts.predicted @ counts.counts / 1500
    assert abs(one.predicted[0] - mean) < 1e-10
    assert one.high[0] - one.low[0] < 2 * 1.645 * y.std() / np.sqrt(1500)
    trials = rng.choice([5, 50], 1000)
    x = np.column_stack([np.ones(1000), rng.normal(size=1000)])
    y = rng.binomial(trials, 1 / (1 + np.exp(-x[:, 1])))
    shares = calibration(fit_of(tb.Binomial(), Cells.from_rows(x, y, trials=trials)))
    assert shares.predicted.max() < 1
    assert ((shares.low < shares.predicted) & (shares.predicted < shares.high)).sum() >= 8
    alone = calibration(fit_of(tb.Poisson(), Cells.from_rows([[1.0], [2.0]], [1, 6])), n_bins=2)
    assert np.isnan(alone.low).all()


def test_intervals_of_calibrated_counts_cover(rng):
    """Thirty data sets of ten bins: a nominal 90% holds 90%, within three standard errors."""
    inside = 0
    for _ in range(30):
        x = np.column_stack([np.ones(1000), rng.normal(size=1000)])
        mean = np.exp(1 + 0.4 * x[:, 1])
        y = rng.negative_binomial(2, 2 / (2 + mean))
        truth = np.array([1, 0.4])
        fit = fit_of(tb.Poisson(), Cells.from_rows(x, y))
        found = calibration(replace(fit, minimiser=truth))
        inside += ((found.low < found.predicted) & (found.predicted < found.high)).sum()
    assert abs(inside / 300 - 0.9) < 3 * np.sqrt(0.09 / 300)


def test_groups_are_judged_by_the_spread_of_the_model(rng):
    """At the true parameters the standardised differences are standard normal."""
    z = []
    cells = Cells.from_rows(np.ones((10, 1)), np.arange(10))
    fit = fit_of(tb.NegativeBinomial(), cells)
    for _ in range(60):
        x = np.column_stack([np.ones(500), rng.integers(0, 5, 500) / 4])
        y = rng.negative_binomial(2, 2 / (2 + np.exp(1 + x[:, 1])))
        cells = Cells.from_rows(x, y)
        fit = replace(fit, cells=cells, minimiser=np.array([1.0, 1.0, -np.log(2)]))
        z.append(observed_by_group(fit, cells.x_index, tuple("abcde")).z)
    assert abs(np.mean(z)) < 3 / np.sqrt(300)
    assert abs(np.std(z) - 1) < 3 / np.sqrt(600)


def test_group_means_and_their_variance_are_those_of_the_law():
    x, y = [[1.0]] * 6, [0, 1, 2, 3, 4, 8]
    draws = np.log([[2.0], [4.0]])
    fit = replace(fit_of(tb.Poisson(), Cells.from_rows(x, y)), draws=draws)
    found = observed_by_group(fit, [0, 0, 0, 1, 1, -1], ("a", "b"))
    assert found.n.tolist() == [3, 2]
    assert found.observed.tolist() == [1, 3.5]
    assert np.allclose(found.expected, 3)
    sd = np.sqrt(3 / found.n + 1)
    assert np.allclose(found.z, (found.observed - 3) / sd, rtol=1e-8)
    assert np.allclose(found.high - found.low, 2 * stats.norm.ppf(0.95) * sd)


def test_groups_of_shares():
    trials = np.array([4.0, 6.0])
    cells = Cells.from_rows(np.ones((2, 1)), [1, 6], trials=trials)
    found = observed_by_group(fit_of(tb.Binomial(), cells), [0, 0], ("all",))
    assert abs(found.observed[0] - 0.7) < 1e-12
    assert abs(found.expected[0] - 0.7) < 1e-6
    assert abs((found.high - found.low)[0] - 2 * 1.6449 * np.sqrt(0.21 / 10)) < 1e-4
    for family in (tb.Categorical(LEVELS), tb.Ordinal(LEVELS)):
        fit = fit_of(family, ones(np.repeat([0, 1, 2], [10, 20, 30])))
        by = observed_by_group(fit, [0, 0, 0], ("all",), level="low")
        assert abs(by.observed[0] - 1 / 6) < 1e-12
        assert abs(by.z[0]) < 1e-3


def test_a_group_that_differs_is_found(rng):
    x = np.column_stack([np.ones(1000), rng.normal(size=1000)])
    group = rng.integers(0, 4, 1000)
    y = rng.poisson(np.exp(1 + 0.5 * x[:, 1] + 0.4 * (group == 2)))
    made = compress(x, y)
    of_cell = np.empty(made.cells.n_cells, int)
    of_cell[made.cell_of_row] = group
    found = observed_by_group(fit_of(tb.Poisson(), made.cells, 20), of_cell, tuple("abcd"))
    assert found.z.argmax() == 2
    assert found.z[2] > 4
    assert found.observed[2] > found.high[2]


def test_the_ordinary_twin_is_checked_like_the_fit(rng):
    y = np.r_[rng.poisson(3, 270), np.full(30, 40)]
    fit = tb.posterior_bootstrap(Model(tb.Poisson()), ones(y), n_draws=50)
    z = [
        observed_by_group(f, np.zeros(f.cells.n_cells, int), ("all",)).z[0] for f in (fit, fit.twin)
    ]
    assert z[0] > 10
    assert abs(z[1]) < 1


def test_wrong_requests_are_named(right):
    unordered = fit_of(tb.Categorical(LEVELS), ones([0, 1, 1, 2]))
    for check in (pit, pit_histogram, lambda fit: quantile_residuals(fit, [0])):
        with pytest.raises(tb.SettingsError, match=r"needs an order.*\['low', 'middle', 'high'\]"):
            check(unordered)
    assert pit(fit_of(tb.Categorical(("a", "b")), ones([0, 1, 1]))).high[1] == 1
    for call, words in (
        (lambda: rootogram(right, interval=1.0), "interval must lie"),
        (lambda: rootogram(right, most=3), "at least 10; got 3"),
        (lambda: pit_histogram(right, n_bins=0), "n_bins must be"),
        (lambda: calibration(right, n_bins=2.5), "n_bins must be"),
        (lambda: calibration(right, level="low"), "it has no levels"),
        (lambda: calibration(unordered, level="top"), r"one of \['low'"),
    ):
        with pytest.raises(tb.SettingsError, match=words):
            call()
    for call, words in (
        (lambda: quantile_residuals(right, [0.5]), "cell_of_row must hold"),
        (lambda: quantile_residuals(right, [10**6]), "from -1 to 1499"),
        (lambda: observed_by_group(right, [0], ("a",)), "for each of the 1500 cells"),
        (lambda: observed_by_group(right, np.zeros(1500, int), ("a", "b")), "'b' has no rows"),
    ):
        with pytest.raises(tb.DataError, match=words):
            call()
