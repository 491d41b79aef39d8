"""Another family is named where much is unexplained and it is not a few rows."""

import warnings

import numpy as np
import pytest

import tvdbayes as tb
from tvdbayes.families import ALL_FAMILIES, neighbours
from tvdbayes.frontends._laws import family_by_name
from tvdbayes.posterior.rows import layout_of, masses_of
from tvdbayes.refits import better_family, replicate
from tvdbayes.refits.replicates import chance_without_refits

ALL_NEIGHBOURS = {one.options: one for law in ALL_FAMILIES for one in neighbours(law)}


def fitted(y, law=None, x=None, n_draws=0, **more):
    x = np.ones((len(y), 1)) if x is None else x
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tb.TVDBayesWarning)
        return tb.posterior_bootstrap(
            tb.Model(law or tb.Poisson()), tb.Cells.from_rows(x, y, **more), n_draws=n_draws
        )


@pytest.mark.parametrize("one", ALL_NEIGHBOURS.values(), ids=lambda one: one.options)
def test_a_neighbour_is_asked_for_as_it_says(one):
    given = dict(part.split("=") for part in one.options.replace('"', "").split(", "))
    assert family_by_name(given["family"], given.get("link")) == one.family


def test_a_family_is_no_neighbour_of_itself_and_most_have_none():
    for law in ALL_FAMILIES:
        assert law not in [one.family for one in neighbours(law)]
    assert not neighbours(tb.Ordinal(("low", "high")))


def test_overdispersed_counts_are_told_of_a_negative_binomial():
    y = np.random.default_rng(0).negative_binomial(1, 0.1, 300)
    fit = tb.fit("y ~ 1", {"y": y}, n_draws=20)
    (found,) = (f for f in fit.check(misfit=False).findings if f.about == "family")
    assert found.level == "note"
    assert found.text.startswith("A negative binomial leaves ")
    assert 'try family="negativebinomial".' in found.text
    better = better_family(fit.posterior)
    assert better.share < 2 * better.chance < better.own_share


def test_overdispersed_proportions_are_told_of_a_beta_binomial():
    rng = np.random.default_rng(1)
    y = rng.binomial(12, rng.beta(0.7, 0.7, 300))
    posterior = fitted(y, tb.Binomial(), trials=np.full(300, 12.0))
    assert better_family(posterior).neighbour.family == tb.BetaBinomial()


def test_clean_counts_and_a_few_rows_far_out_are_told_of_none():
    y = np.random.default_rng(2).poisson(3, 400)
    assert better_family(fitted(y)) is None
    y[:40] += 20
    assert better_family(fitted(y)) is None


def test_further_predictors_of_the_neighbour_have_an_intercept():
    rng = np.random.default_rng(3)
    x = np.column_stack([np.ones(300), rng.integers(0, 2, 300)])
    y = rng.negative_binomial(1, 1 / (1 + np.exp(1.5 + 0.5 * x[:, 1])))
    assert better_family(fitted(y, x=x)).neighbour.family == tb.NegativeBinomial()


def test_chance_without_refits_is_that_of_the_replicates():
    y = np.random.default_rng(4).poisson(3, 200)
    posterior = fitted(y)
    found = chance_without_refits(posterior, 20)
    np.testing.assert_allclose(found, replicate(posterior, 20).unfitted)
    layout, p = layout_of(posterior), posterior.cells.p[:, None]
    theta = layout.bound.from_user(posterior.minimiser[:, None])
    assert masses_of(layout, theta, p).score.shape == (posterior.cells.n_cells, 1)
