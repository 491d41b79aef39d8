"""What is said of clean and of extreme data: nothing that is not so."""

import warnings

import numpy as np
import pytest

import tvdbayes as tb
from tvdbayes.results.misfit import Misfit
from tvdbayes.sampling.statements import differing

OPTIONS = {"n_draws": 60}


@pytest.fixture(scope="module")
def clean():
    rng = np.random.default_rng(0)
    x = rng.normal(size=150)
    return tb.fit("y ~ x", {"x": x, "y": rng.poisson(np.exp(0.5 + 0.4 * x))}, **OPTIONS)


@pytest.fixture(scope="module")
def mixed():
    """Three fifths of the rows are wrong, so that no fit explains half of them."""
    y = np.random.default_rng(1).poisson(3, 500)
    y[:300] += 15
    return tb.fit("y ~ 1", {"y": y}, **OPTIONS)


def test_fits_to_the_same_rows_have_no_difference(clean):
    assert (clean.posterior.kept_rows.share == 1).all()
    table = clean.summary()
    for column in ("diff", "diff_low", "diff_high"):
        assert (table[column] == 0).all()
    assert "e-0" not in str(table)


def test_small_differences_that_matter_are_kept():
    rng = np.random.default_rng(2)
    y = rng.poisson(3, 2000)
    y[0] = 16
    table = tb.fit("y ~ 1", {"y": y}, **OPTIONS).summary()
    assert 0 < abs(table["diff"][0]) < 0.01
    assert table["diff"][0] == pytest.approx(table["mean"][0] - table["kld_mean"][0])


def test_draws_that_are_all_the_same_do_not_differ():
    same = np.full((50, 1), 1.0986)
    assert not differing(same + 7e-12, same).any()
    assert differing(same + 0.1, same).all()


def test_the_default_does_not_warn_of_groups_that_it_does_not_fit(clean):
    for fit, said in ((clean, False), (tb.fit("y ~ x", clean.data.frame(), refine=None), True)):
        (found,) = (f.text for f in fit.check(misfit=False).findings if f.about == "groups")
        assert ("too steep" in found) == said
    assert "1 group, median 500 rows" in str(tb.fit("y ~ 1", {"y": [1, 2] * 250}, n_draws=0).groups)


def test_all_rows_in_use_because_dropping_did_not_help_is_no_good_sign(mixed):
    assert mixed.posterior.kept_rows.route == "ordinary"
    levels = {f.about: f.level for f in mixed.check().findings}
    assert levels["rows used"] == "note"


def test_the_coefficient_below_the_table_is_that_in_it():
    rng = np.random.default_rng(3)
    x = rng.normal(size=300).clip(-2.5, 2.5)
    y = rng.poisson(np.exp(0.5 + 0.4 * x))
    x[:30], y[:30] = 6, 0
    table = tb.fit("y ~ x", {"x": x, "y": y}, n_draws=200).summary()
    at = list(table.names).index("x")
    for column in ("mean", "kld_mean"):
        assert f" {table[column][at]:.3g} [" in table.note


@pytest.mark.parametrize("formula", ["y ~ 1", "y ~ x"])
def test_counts_that_are_all_zero_have_a_misfit(formula):
    x = np.random.default_rng(4).normal(size=80)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tb.TVDBayesWarning)
        fit = tb.fit(formula, {"x": x, "y": np.zeros(80)}, n_draws=20)
        assert fit.misfit().lower == 0
        assert not fit.rows()["flag"].any()


def misfit(share, chance, wrong):
    ends = np.linspace(*wrong, 100)
    return Misfit(np.full(9, share), np.full(9, chance), wrong_draws=ends)


def test_sentences_of_a_misfit_do_not_contradict_each_other():
    cases = {
        (0.2, 0.1, (0.05, 0.15)): "\nAbout 10.0% of the rows are wrong (",
        (0.1, 0.1, (0.05, 0.15)): "\nEven so, about 10.0% of the rows are wrong (",
        (0.1, 0.1, (0.0, 0.0)): "\nPerhaps no row is wrong; at most 0.0% of them are (",
        (0.1, 0.1, (0.0001, 0.003)): "\nPerhaps no row is wrong; at most 0.3% of them are (",
        (
            0.2,
            0.1,
            (0.0, 0.004),
        ): "\nPerhaps the form of the model is wrong and no row is; at most 0.4%",
    }
    for given, said in cases.items():
        assert said in str(misfit(*given))


def test_nothing_can_be_said_where_chance_alone_leaves_everything():
    assert misfit(1.0, 0.9999, (0, 0)).lower == 0
    assert misfit(1.0, 0.9, (0, 0)).lower == pytest.approx(1)
