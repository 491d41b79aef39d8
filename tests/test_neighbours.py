"""Another family is named where much is unexplained and it is not a few rows."""

import warnings
from dataclasses import replace

import numpy as np
import pytest

import tvdbayes as tb
from tvdbayes.formula.columns import family_by_name
from tvdbayes.models.families import ALL_FAMILIES, ALL_LINKS
from tvdbayes.objective import Layout
from tvdbayes.results.better_family import better_family, fewer_dropped, neighbours
from tvdbayes.results.replicates import chance_without_refits, replicate
from tvdbayes.results.rows import masses_of
from tvdbayes.sampling.weights import Prior

ALL_NEIGHBOURS = {one.options: one for law in ALL_FAMILIES for one in neighbours(law)}


def fitted(y, law=None, x=None, n_draws=0, fit=None, **more):
    x = np.ones((len(y), 1)) if x is None else x
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tb.TVDBayesWarning)
        return tb.posterior_bootstrap(
            tb.Model(law or tb.Poisson()),
            tb.Cells.from_rows(x, y, **more),
            n_draws=n_draws,
            **(fit or {}),
        )


@pytest.mark.parametrize("one", ALL_NEIGHBOURS.values(), ids=lambda one: one.options)
def test_a_neighbour_is_asked_for_as_it_says(one):
    given = dict(part.split("=") for part in one.options.replace('"', "").split(", "))
    assert family_by_name(given["family"], given.get("link")) == one.family


def test_a_family_is_no_neighbour_of_itself_and_most_have_none():
    for law in ALL_FAMILIES:
        assert law not in [one.family for one in neighbours(law)]
    assert not neighbours(tb.Ordinal(("low", "high")))


def test_laws_of_counts_are_listed_from_the_simplest_on():
    for law in (tb.Poisson(), tb.Geometric()):
        found = [one.family for one in neighbours(law)]
        assert tb.NegativeBinomial() in found
        assert tb.ZeroInflated(tb.Poisson()) in found
        sizes = [len(family.predictors) for family in found]
        assert sizes == sorted(sizes)


@pytest.mark.parametrize("link", ALL_LINKS, ids=lambda link: link.name)
def test_neighbours_of_yes_and_no_have_another_link_and_of_trials_the_same(link):
    (found,) = neighbours(tb.Binomial(link))
    assert found.family == tb.BetaBinomial(link)
    others = [one.family.link for one in neighbours(tb.Bernoulli(link))]
    assert {link, *others} == set(ALL_LINKS)
    assert len(others) == len(ALL_LINKS) - 1


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


def test_a_few_zeros_that_were_dropped_are_no_reason_for_another_family():
    rng = np.random.default_rng(0)
    y = rng.poisson(4, 6000) * (rng.random(6000) >= 0.09)
    posterior = fitted(y)
    assert 0.07 < posterior.cells.p @ (1 - posterior.kept_rows.share) < 0.1
    assert better_family(posterior) is None
    assert better_family(replace(posterior, kept_rows=None)) is not None


def with_slope(n=300, seed=0):
    rng = np.random.default_rng(seed)
    x = np.column_stack([np.ones(n), rng.normal(size=n)])
    return rng, x, np.exp(x @ [1.2, 0.5])


def test_dispersed_counts_are_told_how_many_rows_a_negative_binomial_drops():
    rng, x, rate = with_slope()
    posterior = fitted(rng.negative_binomial(2, 2 / (2 + rate)), x=x)
    found = fewer_dropped(posterior)
    dropped = posterior.cells.p @ (1 - posterior.kept_rows.share)
    assert found.neighbour.family == tb.NegativeBinomial()
    assert found.own_dropped == pytest.approx(dropped)
    assert dropped > 0.05
    assert found.dropped < 0.01
    assert str(found) == (
        f"A negative binomial drops {found.dropped:.0%} of the rows where Poisson drops "
        f'{dropped:.0%}: try family="negativebinomial".'
    )


def test_check_says_so():
    rng, x, rate = with_slope()
    data = {"y": rng.negative_binomial(3, 3 / (3 + rate)), "x": x[:, 1]}
    fit = tb.fit("y ~ x", data, n_draws=20)
    assert better_family(fit.posterior) is None
    (found,) = (f for f in fit.check(misfit=False).findings if f.about == "family")
    assert found.text == str(fewer_dropped(fit.posterior))


@pytest.mark.parametrize("seed", range(3))
def test_rows_that_are_wrong_are_dropped_by_both_families(seed):
    rng, x, rate = with_slope(seed=seed)
    y = rng.poisson(rate)
    y[:30] += rng.integers(12, 20, 30)
    posterior = fitted(y, x=x)
    assert posterior.cells.p @ (1 - posterior.kept_rows.share) > 0.08
    assert fewer_dropped(posterior) is None


def test_of_clean_rows_no_other_family_is_fitted():
    rng, x, rate = with_slope()
    assert fewer_dropped(fitted(rng.poisson(rate), x=x)) is None
    assert fewer_dropped(fitted(rng.poisson(rate), x=x, fit={"refine": None})) is None


def test_further_predictors_of_the_neighbour_have_an_intercept():
    rng = np.random.default_rng(3)
    x = np.column_stack([np.ones(300), rng.integers(0, 2, 300)])
    y = rng.negative_binomial(1, 1 / (1 + np.exp(1.5 + 0.5 * x[:, 1])))
    assert better_family(fitted(y, x=x)).neighbour.family == tb.NegativeBinomial()


def test_the_simpler_of_two_families_that_explain_as_much_is_named():
    """Zeros that are too many were dropped; a dispersion explains hardly more."""
    rng = np.random.default_rng(2)
    y = rng.poisson(4, 300) * (rng.random(300) >= 0.18)
    posterior = fitted(y)
    kept = posterior.kept_rows
    assert kept.route == "central"
    assert 0.1 < posterior.cells.p @ (1 - kept.share) < 0.2
    better = better_family(posterior)
    assert better.neighbour.family == tb.ZeroInflated(tb.Poisson())
    assert better.own_share == pytest.approx(unexplained(posterior, posterior))
    wider = fitted(y, tb.ZeroInflated(tb.NegativeBinomial()), fit={"divergence": tb.KLD()})
    assert unexplained(wider, posterior) < better.share


def unexplained(fit, like):
    """The share that a fit leaves unexplained in the groups and bins of another."""
    cells = like.cells
    layout = Layout(fit.model, cells, like.partition, cells, False, like.bins)
    p = cells.p[:, None]
    theta = layout.bound.from_user(fit.minimiser[:, None])
    return (p * masses_of(layout, theta, p).score).sum()


@pytest.mark.parametrize("groups", [tb.Distinct(), tb.KMeansGroups()], ids=lambda g: g.name)
def test_what_is_said_of_both_families_is_of_the_same_rows_groups_and_columns(groups):
    rng = np.random.default_rng(5)
    x = np.column_stack([np.ones(300), rng.integers(0, 9, 300) / 4])
    offset = 0.7 * rng.integers(0, 2, 300)
    rate = np.exp(0.5 + x[:, 1] + offset)
    y = rng.negative_binomial(1, 1 / (1 + rate))
    posterior = fitted(y, x=x, offset=offset, fit={"partition": groups})
    better = better_family(posterior)
    assert better.neighbour.family == tb.NegativeBinomial()
    assert better.own_share == pytest.approx(unexplained(posterior, posterior))
    other = fitted(
        y, tb.NegativeBinomial(), x=x, offset=offset, fit={"divergence": tb.KLD(), "refine": None}
    )
    assert better.share == pytest.approx(unexplained(other, posterior), abs=1e-4)
    assert better.own_chance == pytest.approx(chance_without_refits(posterior, 20).mean())


def test_chance_is_taken_off_before_two_families_are_compared():
    """In small groups much is left by chance: here a quarter."""
    rng = np.random.default_rng(0)
    rng.negative_binomial(12, 12 / 17, 1500)
    level = rng.integers(0, 25, 300)
    rate = np.exp(rng.normal(1.5, 0.5, 25))[level]
    y = rng.negative_binomial(1.5, 1.5 / (1.5 + rate))
    better = better_family(fitted(y, x=np.column_stack([np.ones(300), level / 25])))
    assert better.share > 0.5 * better.own_share
    assert better.share - better.chance < 0.5 * (better.own_share - better.own_chance)
    # What a model of clean data leaves by chance is no reason to look.
    assert better_family(fitted(rng.poisson(rate), x=np.eye(25)[level])) is None


def test_where_little_more_than_chance_is_unexplained_no_family_is_named():
    """Chance leaves up to 4 %, Poisson 9 %, a negative binomial 4 %."""
    y = np.random.default_rng(1).negative_binomial(15, 15 / 20, 1500)
    posterior = fitted(y, fit={"refine": None})
    assert posterior.minimiser_distance > 0.08
    assert better_family(posterior) is None


def test_a_fit_with_a_prior_is_told_of_none():
    y = np.random.default_rng(0).negative_binomial(1, 0.1, 300)
    atoms = tb.Cells.from_rows(np.ones((1, 1)), [3])
    assert better_family(fitted(y, fit={"prior": Prior(5.0, atoms)})) is None


@pytest.mark.parametrize(("rate", "n"), [(3, 200), (400, 60)])
def test_chance_without_refits_is_that_of_the_replicates(rate, n):
    """At the minimiser, with bins or without."""
    y = np.random.default_rng(4).poisson(rate, n)
    posterior = fitted(y, n_draws=10, fit={"refine": None, "partition": tb.Distinct()})
    assert (posterior.bins is None) == (rate == 3)
    found = chance_without_refits(posterior, 20)
    np.testing.assert_allclose(found, replicate(posterior, 20).unfitted)
