"""What a review found: each of these was once wrong."""

import warnings

import numpy as np
import pytest

import tvdbayes as tb
from tvdbayes import DataError, MemoryBudgetError, SettingsError

RNG_ROWS = 60


def quietly(formula, data, **options):
    with warnings.catch_warnings():
        # So few rows are compared in small groups, which a fit says.
        warnings.simplefilter("ignore", tb.TVDBayesWarning)
        return tb.fit(formula, data, **{"n_draws": 20, **options})


def counts(seed=0, n=RNG_ROWS):
    rng = np.random.default_rng(seed)
    return {"y": rng.poisson(2, n), "x": rng.integers(0, 2, n), "z": rng.normal(size=n)}


def test_one_rare_covariate_row_among_common_ones_is_a_group():
    x = np.repeat([0, 1, 2], [30, 30, 8])
    y = np.random.default_rng(0).poisson(2, 68)
    fit = quietly("y ~ x", {"x": x, "y": y})
    assert fit.groups.n_groups == 3
    assert np.isfinite(fit.draws).all()


def test_without_any_row_left_out_the_estimate_is_that_of_the_fit():
    # Where rows are pooled draws are shifted, and estimates are not.
    for refine in (None, "reweight"):
        fit = quietly("y ~ z", counts(n=300), refine=refine)
        assert np.abs(fit.posterior.shift).max() > 5e-3
        # The optimum is smooth to 1e-4 where rows are pooled.
        assert np.allclose(fit.drop_worst([0.0]).robust[0], fit.estimate, atol=1e-4)


@pytest.mark.parametrize("divergence", ["tvd", "kld"])
def test_a_point_fit_has_no_misfit_and_says_so(divergence):
    fit = quietly("y ~ x", counts(), n_draws=0, divergence=divergence)
    with pytest.raises(SettingsError, match="at least 2 draws"):
        fit.misfit(by="x", n_replicates=20)
    with pytest.raises(SettingsError, match="at least 2 draws"):
        fit.misfit(n_replicates=20)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(SettingsError, match="at least 2 draws"):
            fit.plot.bands("x")
    with pytest.raises(SettingsError, match="no draws"):
        tb.compare([fit, fit])


def test_a_refined_fit_is_measured_like_the_noise_beside_it():
    data = counts(n=300)
    fit = quietly("y ~ z", data, refine="reweight")
    by = fit.misfit(by=data["x"], n_replicates=20)
    assert np.allclose(fit.misfit(n_replicates=20).draws, by.draws)


@pytest.mark.slow
def test_the_sign_of_a_slope_of_zero_is_not_certain_in_a_model_that_fits_perfectly():
    # Two shares, two parameters: fitted, no noise is left, but the shares themselves are noisy.
    inside = 0
    for seed in range(10):
        y = np.random.default_rng(seed).integers(0, 2, 40)
        fit = quietly("y ~ x", {"x": np.repeat([0, 1], 20), "y": y}, family="bernoulli", seed=seed)
        (found,) = fit.sensitivity("x")
        low, high = found.interval(0.0)
        inside += low <= 0 <= high
    assert inside >= 8


def test_outcomes_are_no_levels_to_ask_by():
    fit = quietly("y ~ x", counts())
    with pytest.raises(DataError, match="is the outcome"):
        fit.misfit(by="y", n_replicates=20)
    with pytest.raises(DataError, match="is the outcome"):
        fit.observed("y")
    with pytest.raises(DataError, match="numbers or text"):
        fit.misfit(by=[{}] * RNG_ROWS, n_replicates=20)


def test_columns_that_are_called_like_scores_keep_their_values():
    rng = np.random.default_rng(0)
    data = {"outcome": rng.poisson(2, 60), "count": rng.integers(5, 7, 60)}
    cells = quietly("outcome ~ count", data).cells(n_replicates=20)
    assert set(cells["data: count"]) == {5.0, 6.0}
    assert cells["count"].sum() == 60
    data = {"score": rng.poisson(2, 60), "observed": rng.integers(0, 2, 60)}
    x, y, _ = quietly("score ~ observed", data).plot._observed("observed")
    assert np.array_equal(x, data["observed"])
    assert np.array_equal(y, data["score"])


def test_a_row_that_alone_moves_a_column_cannot_be_left_out_wherever_the_column_starts():
    y = np.r_[np.random.default_rng(0).poisson(2, 40), 30]
    for start in (0.0, 1.0):
        fit = quietly("y ~ x", {"y": y, "x": np.r_[np.zeros(40), 4.0] + start})
        held = fit.leave_one_out(n_draws=5)
        assert held.undefined.sum() == 1
        assert held.undefined[fit.cell_of_row[-1]]


def test_thousands_of_refits_are_refused():
    data = {"y": np.arange(6000)}
    fit = quietly("y ~ 1", data, n_draws=0, divergence="kld")
    with pytest.raises(MemoryBudgetError, match="cross_validate"):
        fit.leave_one_out()


def test_odd_questions_have_answers_in_words():
    fit = quietly("y ~ x", counts() | {"y": counts()["y"] + 1}, family="truncated_poisson")
    with pytest.raises(DataError, match="no ratio"):
        fit.contrast("x", 0, 1, ratio=True, outcome=0)
    with pytest.raises(SettingsError, match="seed"):
        fit.residuals(seed=-1)
    with pytest.raises(MemoryBudgetError, match="outcomes"):
        fit.sample(n_draws=10**12)
    with pytest.raises(SettingsError, match="got a int"):
        tb.compare([fit, 3])
    with pytest.raises(SettingsError, match="one fit"):
        tb.compare(fit)
