"""Another fit that the rule of the trimmed likelihood would choose for some reweighted tables."""

import warnings
from dataclasses import replace

import numpy as np
import pytest

import tvdbayes as tb
from tvdbayes.sampling.plan import PILOT, pilot_tables
from tvdbayes.sampling.planners import plan_of


def counts(share, extra, *, n=100, seed=1):
    """Poisson(3), of which a share is so much higher."""
    y = np.random.default_rng(seed).poisson(3, n).astype(float)
    y[: int(share * n)] += extra
    return y


def fitted(y, n_draws=200, **how):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tb.TVDBayesWarning)
        return tb.fit("y ~ 1", {"y": y}, n_draws=n_draws, bins="none", **how)


DOUBTFUL = counts(0.3, 6)
"""Nearly a third of the rows may be wrong, or all right and the model too narrow."""


def beside_far_rows():
    """The same beside four rows far out in x, which are wrong."""
    x = np.r_[np.random.default_rng(1).integers(0, 3, 100), np.full(4, 9)]
    return {"y": np.r_[DOUBTFUL, np.full(4, 30.0)], "x": x}


@pytest.mark.parametrize(
    ("formula", "data"), [("y ~ 1", {"y": DOUBTFUL}), ("y ~ x", beside_far_rows())]
)
def test_how_often_it_wins_follows_from_the_masses_of_the_central_rows(formula, data):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tb.TVDBayesWarning)
        fit = tb.fit(formula, data, n_draws=2, bins="none", partition="distinct")
    posterior = fit.posterior
    kept, cells = posterior.kept_rows, posterior.cells
    at = cells.x_index
    assert kept.route == "central"
    np.testing.assert_allclose(kept.second, posterior.kld_minimiser, rtol=1e-3)
    p = np.concatenate(list(pilot_tables(plan_of(posterior).setup)), axis=1)
    mass = np.where(kept.far[at], 0.0, p.T).T
    mass /= mass.sum(0)
    of_x = np.array([np.bincount(at, column, cells.n_x) for column in mass.T]).T

    def unexplained(theta):
        law = tb.Poisson().pmf(cells.y, (cells.x @ theta)[None, at], np.ones(1))
        return np.maximum(mass - of_x[at] * law[:, None], 0).sum(0)

    dropped = 1 - kept.share @ p
    gain = unexplained(kept.second) - unexplained(posterior.minimiser)
    ordinary = (dropped > 0.16) & (gain < 0.2 * (dropped - 0.05))
    assert kept.second_wins == ordinary.mean()
    assert 0.05 < kept.second_wins < 0.5


def test_check_names_both_answers_and_how_often_the_other_wins():
    fit = fitted(DOUBTFUL)
    (line,) = (f for f in fit.check(misfit=False).findings if f.about == "second answer")
    kept = fit.posterior.kept_rows
    assert line.level == "note"
    assert f"In {kept.second_wins:.0%} of {PILOT} reweighted data sets" in line.text
    assert f"of Intercept is {kept.second[0]:.3g} there, and {fit.draws.mean():.3g} [" in line.text


def test_it_stays_with_a_stored_fit(tmp_path):
    fit = fitted(DOUBTFUL)
    fit.save(tmp_path / "fit.tvdb")
    again = tb.load(tmp_path / "fit.tvdb")
    assert str(again.check(misfit=False)) == str(fit.check(misfit=False))


@pytest.mark.parametrize("wins", [0.0, 0.04])
def test_what_hardly_any_table_would_choose_is_not_told(wins):
    fit = fitted(DOUBTFUL)
    rare = replace(fit.posterior.kept_rows, second_wins=wins)
    rare = replace(fit, posterior=replace(fit.posterior, kept_rows=rare))
    assert not any(f.about == "second answer" for f in rare.check(misfit=False).findings)


@pytest.mark.parametrize("y", [counts(0.0, 0), counts(0.1, 20)], ids=["clean", "far"])
def test_clear_data_have_one_answer(y):
    fit = fitted(y)
    assert fit.posterior.kept_rows.second_wins == 0
    assert not any(f.about == "second answer" for f in fit.check(misfit=False).findings)


def test_the_fit_that_a_bend_leads_to_is_no_second_answer():
    """The far rows take part after all, so that the fit shown is nearly the likelihood fit."""
    rng = np.random.default_rng(10)
    x = rng.standard_t(3, 300)
    y = rng.poisson(np.exp(1.5 + 0.8 * np.minimum(x, 1.0)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tb.TVDBayesWarning)
        posterior = tb.fit("y ~ x", {"y": y, "x": x}, n_draws=2).posterior
    kept = posterior.kept_rows
    assert kept.bend == 1
    np.testing.assert_allclose(posterior.minimiser, posterior.kld_minimiser, rtol=1e-5)
    assert abs(kept.second[1] - posterior.minimiser[1]) > 0.1


def test_draws_do_not_depend_on_it():
    """It looks at random tables, but takes no random numbers from the draws."""
    assert np.array_equal(fitted(DOUBTFUL, 1).draws[0], fitted(DOUBTFUL).draws[0])


def test_it_does_not_depend_on_units():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=60), counts(0.3, 6, n=60)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tb.TVDBayesWarning)
        fits = [tb.fit("y ~ z", {"y": y, "z": z}, n_draws=5) for z in (x, 1e6 + 1e3 * x)]
    own, other = (fit.posterior.kept_rows for fit in fits)
    assert own.second_wins == other.second_wins > 0
    start, slope = other.second
    np.testing.assert_allclose([start + 1e6 * slope, 1e3 * slope], own.second, rtol=1e-6)
