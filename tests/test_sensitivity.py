"""How wrong the data would have to be."""

import numpy as np
import pytest

import tvdbayes as tb
from tvdbayes import Cells, Model, Poisson, SettingsError
from tvdbayes.results.sensitivity import Sensitivity, drop_worst, sensitivity


def two_rates(n=400, bad=40):
    rng = np.random.default_rng(1)
    x = np.column_stack([np.ones(n), rng.integers(0, 2, n)])
    y = rng.poisson(np.exp(x @ [1.0, 0.5]))
    y[:bad] += 20
    cells = Cells.from_rows(x, y, names=("Intercept", "a"))
    return tb.posterior_bootstrap(Model(Poisson()), cells, n_draws=50)


def test_a_coefficient_held_at_zero_is_the_model_without_it():
    fit = two_rates()
    (found,) = sensitivity(fit, noise=0.0)
    # The same groups, but one rate for both: searched exactly on a fine grid.
    cells = fit.cells
    rates = np.linspace(1.5, 8, 4000)
    pmf = Poisson().pmf(cells.y[:, None], np.log(rates)[None, None], np.ones(1))
    mass = (cells.x_counts / cells.n_obs)[cells.x_index, None] * pmf
    least = np.maximum(cells.p[:, None] - mass, 0).sum(0).min()
    assert np.isclose(found.sign_holds_to, least, atol=2e-4)
    assert np.isclose(found.needed, fit.minimiser_distance, atol=2e-3)


def test_more_wrong_rows_allow_more_values():
    (found,) = sensitivity(two_rates(), noise=0.05)
    low, high = zip(*(found.interval(s) for s in (0.08, 0.1, 0.12, 0.15)), strict=True)
    assert (np.diff(low) <= 0).all()
    assert (np.diff(high) >= 0).all()
    assert low[0] < found.estimate < high[0]
    assert f"is positive if fewer than {found.sign_holds_to:.1%} of the rows" in str(found)
    assert str(found).endswith(f"at least {found.needed:.1%} of them must be.")


def test_noise_makes_every_value_easier_to_hold():
    fit = two_rates()
    (without,), (with_noise,) = sensitivity(fit, 0.0), sensitivity(fit, 0.08)
    assert np.allclose(with_noise.share, np.clip((without.share - 0.08) / 0.92, 0, 1))


def test_intervals_end_between_the_values_that_were_tried():
    found = Sensitivity("a", 1.0, np.array([0.0, 1.0, 2.0]), np.array([0.3, 0.1, 0.2]), 0.1)
    assert found.sign_holds_to == 0.3
    assert np.allclose(found.interval(0.15), (0.75, 1.5))
    assert found.interval(0.05) == (1.0, 1.0)
    assert found.interval(0.25)[1] == np.inf
    doubt = Sensitivity("a", 1.0, np.array([0.0, 1.0]), np.array([0.1, 0.1]), 0.1)
    assert "not certain" in str(doubt)


def test_without_the_worst_rows_the_ordinary_fit_comes_to_the_robust_one():
    fit = two_rates()
    found = drop_worst(fit, (0.0, 0.05, 0.1))
    assert np.allclose(found.robust[0], fit.minimiser, atol=1e-6)
    assert np.allclose(found.ordinary[0], fit.kld_minimiser, atol=1e-8)
    gap = np.abs(found.ordinary - fit.minimiser).max(1)
    assert gap[0] > 0.5
    assert gap[2] < 0.15
    assert np.abs(found.robust - fit.minimiser).max() < 0.15
    assert "ordinary" in str(found)


def test_what_drop_worst_shows_is_told_apart_from_the_summary():
    fit = two_rates()
    found, table = drop_worst(fit, (0.0, 0.1)), fit.summary()
    np.testing.assert_array_equal(found.robust_mean, table["mean"])
    np.testing.assert_array_equal(found.ordinary_mean, table["kld_mean"])
    head, *lines, note = str(found).split("\n", 5)
    assert head.split()[:4] == ["parameter", "summary()", "0.0%", "10.0%"]
    for line, mean, estimate in zip(
        lines,
        np.stack([table["mean"], table["kld_mean"]], 1).ravel(),
        np.stack([fit.minimiser, fit.kld_minimiser], 1).ravel(),
        strict=True,
    ):
        # The two differ in what is printed, so that a reader must be told why.
        assert line.split()[2:4] == [f"{mean:.4g}", f"{estimate:.4g}"]
    assert "summary() is the mean of the draws" in " ".join(note.split())
    assert "without random weights" in " ".join(note.split())


def test_without_draws_there_is_no_mean_to_show():
    cells = two_rates().cells
    fit = tb.posterior_bootstrap(Model(Poisson()), cells, n_draws=0)
    found = drop_worst(fit, [0.0])
    assert found.robust_mean is None
    assert "summary()" not in str(found)
    assert "without random weights" in str(found)


def test_rows_left_out_are_the_worst_ones():
    fit = two_rates()
    found = drop_worst(fit, [0.1])
    clean = fit.cells.y < 18
    rows = fit.cells.x_index[clean]
    kept = Cells.from_counts(fit.cells.x[rows], fit.cells.y[clean], fit.cells.counts[clean])
    alone = tb.posterior_bootstrap(Model(Poisson()), kept, n_draws=0)
    assert np.allclose(found.ordinary[0], alone.kld_minimiser, atol=0.02)


def test_bad_questions_are_named():
    fit = two_rates()
    with pytest.raises(SettingsError, match="'Intercept' is no coefficient"):
        sensitivity(fit, 0.0, ["Intercept"])
    with pytest.raises(SettingsError, match="'b'"):
        sensitivity(fit, 0.0, ["b"])
    with pytest.raises(SettingsError, match="tvd"):
        sensitivity(fit.twin, 0.0)
    with pytest.raises(SettingsError, match="below 1"):
        drop_worst(fit, [1.0])
    with pytest.raises(SettingsError, match="from 0"):
        drop_worst(fit, [])
