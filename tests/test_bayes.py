"""The ordinary posterior: against exact answers, a grid, and NUTS with other laws."""

import sys

import numpy as np
import pytest
from scipy import stats

from tvdbayes import (
    Bernoulli,
    Binomial,
    Cells,
    Cloglog,
    Model,
    NegativeBinomial,
    Poisson,
    Probit,
    SettingsError,
    ZeroInflated,
)
from tvdbayes.experiments import bayes
from tvdbayes.experiments.bayes import full_bayes, nuts, poisson_rate

N_DRAWS = 4000
# Standard errors that an estimate may be off: one test in ten thousand would fail by chance, and
# seeds are fixed.
FAR = 4.0


def assert_moments(draws, mean, sd):
    """Means and deviations (d,) within what as many independent draws would miss."""
    n = len(draws)
    assert (np.abs(draws.mean(0) - mean) < FAR * sd / np.sqrt(n)).all()
    assert (np.abs(np.log(draws.std(0) / sd)) < FAR / np.sqrt(2 * n)).all()


def grid_moments(log_density, *axes):
    """Mean and deviation of each coordinate of a density on a grid."""
    at = np.stack(np.meshgrid(*axes, indexing="ij")).reshape(len(axes), -1)
    log_mass = log_density(at)
    mass = np.exp(log_mass - log_mass.max())
    mass /= mass.sum()
    mean = at @ mass
    return mean, np.sqrt((at - mean[:, None]) ** 2 @ mass), at, mass


def test_the_posterior_of_a_rate_is_the_conjugate_one(rng):
    draws = poisson_rate(37.0, 12.0, N_DRAWS, rng)
    assert stats.kstest(draws, stats.gamma(41, scale=1 / 13).cdf).pvalue > 1e-3


@pytest.mark.parametrize(
    ("family", "law"),
    [
        (Poisson(), lambda y, eta: stats.poisson.logpmf(y, np.exp(eta))),
        (Bernoulli(), lambda y, eta: stats.bernoulli.logpmf(y, 1 / (1 + np.exp(-eta)))),
        (Bernoulli(Probit()), lambda y, eta: stats.bernoulli.logpmf(y, stats.norm.cdf(eta))),
    ],
)
@pytest.mark.parametrize("n_obs", [4, 60])
def test_one_coefficient_is_drawn_as_on_a_grid(family, law, n_obs, rng):
    x = rng.uniform(0.2, 2.0, n_obs)
    y = family.sample(rng, 0.7 * x[None], np.ones(n_obs))
    mean, sd, *_ = grid_moments(
        lambda at: law(y[:, None], x[:, None] * at).sum(0) - at[0] ** 2 / 8,
        np.linspace(-6, 8, 20_001),
    )
    found = full_bayes(Model(family), Cells.from_rows(x[:, None], y), N_DRAWS, seed=1)
    assert found.method == "importance"
    assert_moments(found.draws, mean, sd)


def test_a_column_in_the_hundreds_is_drawn_as_on_a_grid(rng):
    x = rng.normal(300, 100, 80)
    y = rng.random(80) < 1 / (1 + np.exp(-(x - 300) / 80))
    sign = np.where(y, 1.0, -1.0)

    def log_density(at):
        level, slope = at
        eta = level + slope * (x[:, None] - 300)
        return -(np.log1p(np.exp(-sign[:, None] * eta)).sum(0)) - (
            (level - 300 * slope) ** 2 + slope**2
        ) / (2 * 2.0**2)

    _, _, (level, slope), mass = grid_moments(
        log_density, np.linspace(-3, 3, 301), np.linspace(-0.02, 0.06, 301)
    )
    exact = np.stack([level - 300 * slope, slope])
    mean = exact @ mass
    sd = np.sqrt((exact - mean[:, None]) ** 2 @ mass)
    cells = Cells.from_rows(np.column_stack([np.ones(80), x]), y)
    found = full_bayes(Model(Bernoulli()), cells, N_DRAWS, seed=2)
    assert found.efficiency > 0.5
    assert_moments(found.draws, mean, sd)


def logistic_rows(rng):
    x = np.column_stack([np.ones(150), rng.normal(size=150), rng.integers(0, 3, 150)])
    return x, x @ [0.3, 0.8, -0.5]


def yes_no(rng):
    x, eta = logistic_rows(rng)
    return Model(Bernoulli()), Cells.from_rows(x, rng.random(150) < 1 / (1 + np.exp(-eta)))


def successes(rng):
    x, eta = logistic_rows(rng)
    trials, offset = rng.integers(1, 6, 150), rng.normal(size=150) / 3
    y = rng.binomial(trials, 1 / (1 + np.exp(-eta - offset)))
    return Model(Binomial()), Cells.from_rows(x, y, trials=trials, offset=offset)


@pytest.mark.parametrize("make", [yes_no, successes])
def test_the_draws_agree_with_nuts(make, rng):
    from numpyro.diagnostics import effective_sample_size

    model, cells = make(rng)
    ours, theirs = full_bayes(model, cells, N_DRAWS, 3).draws, nuts(model, cells, N_DRAWS, 3)
    assert theirs.shape == (N_DRAWS, 3)
    size = effective_sample_size(theirs.reshape(4, -1, 3))
    error = np.sqrt(ours.var(0) / N_DRAWS + theirs.var(0) / size)
    assert (np.abs(ours.mean(0) - theirs.mean(0)) < FAR * error).all()
    assert (np.abs(np.log(ours.std(0) / theirs.std(0))) < 0.1).all()


@pytest.mark.parametrize(
    "family",
    [
        Poisson(),
        NegativeBinomial(),
        *(kind(link) for kind in (Bernoulli, Binomial) for link in (Probit(), Cloglog())),
    ],
)
def test_nuts_sees_the_same_density(family, rng):
    import jax

    x, _ = logistic_rows(rng)
    trials = np.full(150, 4.0 if family.needs_trials else 1.0)
    y = family.sample(rng, np.zeros((len(family.predictors), 150)), trials)
    cells = Cells.from_rows(x, y, trials=trials, offset=x[:, 1] / 5)
    target = bayes._target(Model(family), cells, 1, 2.0)
    theta = rng.normal(size=len(target.precision)) / 2
    with jax.enable_x64(True):
        theirs = float(bayes._potential(target)(theta))
    # NumPyro keeps probabilities off 0 and 1 and sums gamma functions that cancel.
    assert theirs == pytest.approx(target.loss(theta)[0], rel=1e-6)


def test_derivatives_are_those_of_the_density(rng):
    model, cells = successes(rng)
    target = bayes._target(model, cells, 1, 0.7)
    theta, h = rng.normal(size=3) / 2, 1e-5
    assert -target.log_density(theta[:, None])[0] == pytest.approx(target.loss(theta)[0])
    for j, step in enumerate(h * np.eye(3)):
        (up, up_grad), (down, down_grad) = target.loss(theta + step), target.loss(theta - step)
        assert (up - down) / (2 * h) == pytest.approx(target.loss(theta)[1][j], rel=1e-6)
        bend = (up_grad - down_grad) / (2 * h)
        assert bend == pytest.approx(target.curvature(theta)[j], rel=1e-6, abs=1e-6)


def test_the_same_seed_gives_the_same_draws(rng):
    model, cells = successes(rng)
    first, same, other = (full_bayes(model, cells, 300, seed).draws for seed in (5, 5, 6))
    np.testing.assert_array_equal(first, same)
    assert (first != other).all()


def test_draws_are_as_good_as_independent_ones(rng):
    x = np.column_stack([np.ones(40), rng.normal(size=(40, 7))])
    cells = Cells.from_rows(x, rng.random(40) < 0.4)
    runs = [full_bayes(Model(Bernoulli()), cells, 200, seed).draws for seed in range(150)]
    spread = np.var([draws.mean(0) for draws in runs], axis=0)
    expected = np.mean([draws.var(0) for draws in runs], axis=0) / 200
    assert np.mean(spread / expected) < 1.2


def test_a_narrow_prior_is_what_remains_of_the_posterior(rng):
    model, cells = yes_no(rng)
    found = full_bayes(model, cells, N_DRAWS, 7, scale=1e-3)
    # The data move the mean by their gradient, of at most 300, times the squared scale.
    assert (np.abs(found.draws.mean(0)) < 3e-4 + FAR * 1e-3 / np.sqrt(N_DRAWS)).all()
    assert_moments(found.draws - found.draws.mean(0), np.zeros(3), np.full(3, 1e-3))


def test_a_narrower_prior_draws_slopes_to_zero(rng):
    model, cells = yes_no(rng)
    slopes = [
        np.linalg.norm(full_bayes(model, cells, N_DRAWS, 8, scale=scale).draws.mean(0))
        for scale in (0.05, 0.2, 1.0, 5.0)
    ]
    assert (np.diff(slopes) > 0).all()


def test_a_row_of_weight_two_counts_twice(rng):
    x, y = rng.normal(size=(30, 2)), rng.poisson(2.0, 30)
    twice = Cells.from_rows(np.tile(x, (2, 1)), np.tile(y, 2))
    once = Cells.from_rows(x, y, weights=np.full(30, 2.0))
    first, second = (full_bayes(Model(Poisson()), cells, 50, 0).draws for cells in (once, twice))
    np.testing.assert_array_equal(first, second)


def poor_case(rng):
    """Fewer rows than a wide prior needs: a cone, which no t law resembles."""
    x = np.column_stack([np.ones(20), rng.normal(size=(20, 13))])
    return Cells.from_rows(x, x[:, 1] > 0)


def test_a_poor_proposal_is_said_and_nuts_takes_over(rng, monkeypatch):
    monkeypatch.setattr(bayes, "nuts", lambda *_, **settings: np.full((1, 1), settings["scale"]))
    found = full_bayes(Model(Bernoulli()), poor_case(rng), 1000, 0, scale=50.0)
    assert found.method == "nuts"
    assert 0 < found.efficiency < 0.05
    assert found.draws == 50.0


def test_without_numpyro_the_way_to_it_is_said(rng, monkeypatch):
    monkeypatch.setitem(sys.modules, "numpyro.infer", None)
    with pytest.raises(SettingsError, match=r"pip install 'tvdbayes\[paper\]'"):
        nuts(*yes_no(rng), 100, 0)


def test_a_family_that_nuts_does_not_know_is_named(count_cells):
    with pytest.raises(SettingsError, match=r"poisson, .*; got zero_inflated"):
        nuts(Model(ZeroInflated(Poisson())), count_cells, 100, 0)


@pytest.mark.parametrize(
    ("n_draws", "scale", "wrong"), [(0, 2.0, "n_draws"), (2.5, 2.0, "n_draws"), (9, 0.0, "scale")]
)
def test_settings_out_of_range_are_named(n_draws, scale, wrong, rng):
    with pytest.raises(SettingsError, match=wrong):
        full_bayes(*yes_no(rng), n_draws, 0, scale=scale)
