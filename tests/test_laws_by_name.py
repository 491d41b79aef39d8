"""Families by name at the door: levels from the data, further predictors, mistakes named."""

import numpy as np
import pandas as pd
import pytest

import tvdbayes as tb

pytestmark = pytest.mark.filterwarnings("ignore::tvdbayes.TVDBayesWarning")


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(11)
    n = 300
    x = rng.integers(0, 3, n)
    score = x + rng.logistic(size=n)
    return pd.DataFrame(
        {
            "x": x,
            "z": rng.normal(size=n),
            "count": rng.poisson(np.exp(0.5 + 0.3 * x)),
            "seen": rng.poisson(1.0, n) + 1,
            "answer": (score > 1).astype(float),
            "wins": rng.binomial(6, 0.3, n),
            "mode": np.array(["walk", "bus", "car"])[np.clip(score, 0, 2.9).astype(int)],
            "rating": np.clip(score, 0, 3.9).astype(int) + 1,
        }
    )


@pytest.mark.parametrize(
    ("family", "outcome", "extra"),
    [
        ("negativebinomial", "count", ["dispersion:Intercept"]),
        ("geometric", "count", []),
        ("discreteweibull", "count", ["shape:Intercept"]),
        ("zero_inflated_poisson", "count", ["inflation:Intercept"]),
        ("hurdle_negativebinomial", "count", ["dispersion:Intercept", "zero:Intercept"]),
        ("truncated_poisson", "seen", []),
        ("betabinomial", "wins", ["dispersion:Intercept"]),
        ("zero_inflated_binomial", "wins", ["inflation:Intercept"]),
        ("ordinal", "rating", ["gap 2:Intercept", "gap 3:Intercept"]),
    ],
)
def test_every_name_is_a_family(family, outcome, extra, frame):
    trials = 6 if outcome == "wins" else None
    fit = tb.fit(f"{outcome} ~ x", frame, family=family, n_draws=8, trials=trials)
    assert list(fit.param_names) == ["Intercept", "x", *extra]
    assert np.isfinite(fit.draws).all()


def test_categories_are_named_by_their_levels(frame):
    fit = tb.fit("mode ~ x", frame, family="categorical", n_draws=8)
    assert fit.param_names == ("car:Intercept", "car:x", "walk:Intercept", "walk:x")
    ordered = frame.assign(mode=pd.Categorical(frame["mode"], ["walk", "car", "bus"]))
    again = tb.fit("mode ~ x", ordered, family="categorical", n_draws=0)
    assert again.param_names == ("car:Intercept", "car:x", "bus:Intercept", "bus:x")


def test_ratings_may_be_numbers_ordered_categories_or_named_levels(frame):
    words = np.array(["poor", "fair", "good", "best"])
    text = frame.assign(rating=words[frame["rating"] - 1])
    dtype = pd.CategoricalDtype(list(words), ordered=True)
    plain, ordered, named = (
        tb.fit("rating ~ x", data, family=family, n_draws=0).estimate
        for data, family in (
            (frame, "ordinal"),
            (text.astype({"rating": dtype}), "ordinal"),
            (text, tb.Ordinal(tuple(words))),
        )
    )
    assert np.array_equal(plain, ordered)
    assert np.array_equal(plain, named)


def test_further_predictors_take_covariates(frame):
    fit = tb.fit(
        "count ~ x",
        frame,
        family="zero_inflated_poisson",
        predictors={"inflation": "~ z + x"},
        n_draws=8,
    )
    assert fit.param_names[2:] == ("inflation:Intercept", "inflation:z", "inflation:x")
    assert list(fit.more_encodings) == ["inflation"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"family": "gamma"}, "There is no family 'gamma'"),
        ({"family": "zero_inflated_bernoulli"}, "not a plain family of counts"),
        ({"family": "zero_inflated_nothing"}, "not a plain family of counts"),
        ({"family": "negativebinomial", "link": "logit"}, 'has the link "log"'),
        ({"family": "truncated_poisson"}, "at least 1"),
        ({"family": tb.Censored(tb.Poisson(), 2)}, "upper limit"),
        ({"predictors": {"inflation": "~ z"}}, "no further predictor 'inflation'"),
        (
            {"family": "zero_inflated_poisson", "predictors": {"inflation": 3}},
            "must be a dict of text",
        ),
        (
            {"family": "zero_inflated_poisson", "predictors": {"inflation": "~ nobody"}},
            "nobody",
        ),
        (
            {"family": "zero_inflated_poisson", "predictors": {"inflation": "~ open('x')"}},
            "open",
        ),
        ({"bins": "many"}, "bins must be"),
        ({"bins": [0, 2], "divergence": "kld"}, "Leave it out"),
        ({"predictors": ["inflation"]}, "must be a dict"),
        ({"family": "zero_inflated_poisson", "predictors": {"inflation": " "}}, "such as"),
        ({"family": "truncated_truncated_poisson"}, "not a plain family"),
        ({"bins": [3, 1]}, "increase"),
    ],
)
def test_mistakes_are_named(options, words, frame):
    with pytest.raises(tb.TVDBayesError, match=words):
        tb.fit("count ~ x", frame, n_draws=0, **options)


@pytest.mark.parametrize(
    ("column", "family", "words"),
    [
        ("mode", "ordinal", "alphabetical"),
        ("mode", "poisson", "must hold numbers"),
        ("z", "categorical", "between 2 and 100 levels"),
        ("mode", tb.Categorical(("walk", "car")), "must be one of walk, car"),
    ],
)
def test_wrong_outcomes_are_named(column, family, words, frame):
    with pytest.raises(tb.TVDBayesError, match=words):
        tb.fit(f"{column} ~ x", frame, family=family, n_draws=0)
    gaps = frame.assign(mode=frame["mode"].where(frame["x"] > 0))
    with pytest.raises(tb.DataError, match="no gaps"):
        tb.fit("mode ~ x", gaps, family="categorical", n_draws=0)


def test_wrappers_refuse_what_has_no_zeros_of_its_own_and_links_are_links():
    for made in (
        lambda: tb.ZeroTruncated(tb.ZeroTruncated(tb.Poisson())),
        lambda: tb.Hurdle(tb.ZeroInflated(tb.Poisson())),
        lambda: tb.ZeroInflated(tb.Bernoulli()),
        lambda: tb.Censored(tb.Poisson(), True),
        lambda: tb.BetaBinomial("probit"),
        lambda: tb.Ordinal(("a", "b"), "probit"),
        lambda: tb.PowerDivergence("a"),
        lambda: tb.DensityPower(None),
    ):
        with pytest.raises(tb.SettingsError):
            made()
    assert tb.Censored(tb.ZeroInflated(tb.Poisson()), 5).predictors == ("", "inflation")


def test_what_the_data_do_not_show_is_said(frame):
    with pytest.warns(tb.BoundaryWarning, match="inflation:Intercept"):
        tb.fit("seen ~ x", frame, family="zero_inflated_poisson", n_draws=0)
    with pytest.raises(tb.DataError, match="No row of 'mode' is 'tram'"):
        tb.fit("mode ~ x", frame, family=tb.Categorical(("walk", "car", "bus", "tram")))
    with pytest.raises(tb.SettingsError, match="predictor for each level"):
        tb.fit("mode ~ x", frame, family="categorical", exposure="seen")
    huge = frame.assign(count=2.0**54)
    with pytest.raises(tb.FamilyError, match=r"Outcomes must be below 2\*\*53"):
        tb.fit("count ~ x", huge)


def test_sums_over_the_support_see_single_zeros():
    """Density power of a zero-inflated law at rates where the base sums by strides."""
    for family in (tb.ZeroInflated(tb.Poisson()), tb.Hurdle(tb.Poisson())):
        eta = np.array([np.log([3.0, 70.0, 101.0, 400.0, 5000.0]), np.full(5, 0.4)])
        assert np.allclose(family.power_sum(eta, 1.0, np.ones(1))[0], 1, atol=1e-10)
    law = tb.Censored(tb.Binomial(), 50)
    eta, trials = np.full((1, 2), 1.0), np.array([10.0, 100.0])
    assert np.allclose(law.power_sum(eta, 1.0, trials)[0], 1)
    assert np.allclose(law.mean(eta, trials), [10 / (1 + np.exp(-1)), 50], rtol=1e-3)
