"""What users of other packages write: taken where it has a meaning here, else answered in words."""

import re

import numpy as np
import pandas as pd
import pytest

import tvdbayes as tb
from tvdbayes.cli._commands import plain
from tvdbayes.formula.columns import family_by_name


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(5)
    n = 200
    age, years = rng.integers(1, 6, n), rng.choice([1.0, 2.0, 4.0], n)
    ill = rng.random(n) < 0.2 * age / 1.5
    return pd.DataFrame(
        {
            "age": age,
            "years": years,
            "shift": np.log(years),
            "region": rng.choice(["north", "south"], n),
            "visits": rng.poisson(years * np.exp(0.2 * age)),
            "ill": ill.astype(int),
        }
    )


def draws(formula, data, **options):
    fit = tb.fit(formula, data, n_draws=5, **options)
    return np.column_stack([fit.draws, fit.kld_draws])


def refused(formula, data, **options):
    with pytest.raises(tb.TVDBayesError) as error:
        tb.fit(formula, data, n_draws=0, **options)
    return str(error.value)


# Names of families.


@pytest.mark.parametrize(
    ("name", "here"),
    [
        *[(name, tb.NegativeBinomial()) for name in ("nb", "NegBin", "negative_binomial", "NB2")],
        ("Negative Binomial", tb.NegativeBinomial()),
        *[(name, tb.Bernoulli()) for name in ("logit", "logistic", "binary", "Bernoulli")],
        ("probit", tb.Bernoulli(tb.Probit())),
        ("cloglog", tb.Bernoulli(tb.Cloglog())),
        ("zip", tb.ZeroInflated(tb.Poisson())),
        ("ZINB", tb.ZeroInflated(tb.NegativeBinomial())),
        ("zero_inflated_negative_binomial", tb.ZeroInflated(tb.NegativeBinomial())),
        ("zib", tb.ZeroInflated(tb.Binomial())),
        ("hurdle_nb", tb.Hurdle(tb.NegativeBinomial())),
        ("hurdle_negativebinomial", tb.Hurdle(tb.NegativeBinomial())),
        ("ztp", tb.ZeroTruncated(tb.Poisson())),
        ("zero_truncated_poisson", tb.ZeroTruncated(tb.Poisson())),
        ("beta_binomial", tb.BetaBinomial()),
        ("discrete-weibull", tb.DiscreteWeibull()),
        *[(name, tb.ComPoisson()) for name in ("COM-Poisson", "compoisson", "cmp")],
        *[(name, tb.GeneralizedPoisson()) for name in ("genpoisson", "Generalised Poisson", "gp")],
        ("zero_inflated_genpoisson", tb.ZeroInflated(tb.GeneralizedPoisson())),
    ],
)
def test_families_have_the_names_of_other_packages(name, here):
    assert family_by_name(name, None) == here


@pytest.mark.parametrize(
    ("name", "here"),
    [
        ("multinomial", {"family": "categorical"}),
        ("ologit", {"family": "ordinal"}),
        ("ordered_probit", {"family": "ordinal", "link": "probit"}),
    ],
)
def test_families_whose_levels_are_read_have_other_names_too(data, name, here):
    np.testing.assert_array_equal(
        draws("age ~ 1", data, family=name), draws("age ~ 1", data, **here)
    )


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"family": "poison"}, "Did you mean 'poisson'?"),
        ({"family": "zero_inflated_poison"}, "After 'zero_inflated_' comes one of poisson"),
        ({"family": "truncated_bernoulli"}, "After 'truncated_' comes one of poisson"),
        ({"family": "gaussian"}, "not discrete"),
        ({"family": "Gamma"}, "not discrete"),
        ({"family": "nb1"}, 'Use "negativebinomial"'),
        ({"family": "quasipoisson"}, "allow for more spread"),
        ({"family": "logit", "link": "probit"}, "Leave one of them out"),
    ],
    ids=str,
)
def test_families_that_are_not_here_are_answered(data, options, words):
    assert words in refused("visits ~ age", data, **options)


# Terms of formulas.


@pytest.mark.parametrize(
    ("formula", "here", "option"),
    [
        ("visits ~ age + offset(log(years))", "visits ~ age", {"exposure": "years"}),
        ("visits ~ offset(np.log(years)) + age", "visits ~ age", {"exposure": "years"}),
        ("visits ~ age + offset( shift ) + region", "visits ~ age + region", {"offset": "shift"}),
        ("visits ~ offset(log(`years`))", "visits ~ 1", {"exposure": "years"}),
        (
            "visits ~ age + offset(shift) + offset(numpy.log(years))",
            "visits ~ age",
            {"exposure": "years", "offset": "shift"},
        ),
    ],
)
def test_an_offset_in_a_formula_is_the_option(data, formula, here, option):
    np.testing.assert_array_equal(draws(formula, data), draws(here, data, **option))


def test_an_offset_in_a_formula_is_asked_of_new_rows_and_kept_in_files(data, tmp_path):
    fit = tb.fit("visits ~ age + offset(log(years))", data, n_draws=5)
    new = {"age": [2, 2], "years": [1, 3]}
    one, three = fit.predict(new)["mean"]
    assert three == pytest.approx(3 * one)
    with pytest.raises(tb.DataError, match="exposure='years'"):
        fit.predict({"age": [2]})
    fit.save(tmp_path / "fit.tvd")
    both = tb.load(tmp_path / "fit.tvd").update(data[:9])
    again = draws("visits ~ age", pd.concat([data, data[:9]]), exposure="years")
    np.testing.assert_array_equal(both.draws, again[:, : both.draws.shape[1]])


def test_functions_of_numpy_are_those_of_formulas(data):
    fit = tb.fit("visits ~ np.log(age) + numpy.sqrt(years)", data, n_draws=5)
    assert fit.param_names == ("Intercept", "log(age)", "sqrt(years)")
    np.testing.assert_array_equal(fit.draws, draws("visits ~ log(age) + sqrt(years)", data)[:, :3])


@pytest.mark.parametrize(
    ("formula", "words"),
    [
        ("visits ~ age + (1|region)", 'give clusters="region"; for a coefficient of each group'),
        ("visits ~ (1 + age || region)", "C(region)"),
        ("visits ~ age | region", "inflation"),
        ("visits ~ s(age)", "bs(x, df=5)"),
        ("visits ~ te(age, years)", "Penalised smooths are not fitted"),
        ("visits ~ mo(age)", "Monotone effects are not fitted"),
        ("visits ~ ns(age, df=3)", "cr(x, df=4)"),
        ("visits ~ factor(region)", "C(x)"),
        ("visits ~ np.power(age, 2)", "Compute the column beforehand"),
        ("visits ~ stats.zscore(age)", "'stats.zscore'"),
        ("visits ~ standardise(age)", "Did you mean 'standardize'?"),
        ("visits ~ age + offset(years - 1)", "Compute the column beforehand"),
        ("visits ~ age - offset(shift)", "behind a + of its own"),
        ("visits ~ age * offset(shift)", "behind a + of its own"),
        ("visits ~ offset(shift) : age", "behind a + of its own"),
        ("visits ~ offset(shift) + offset(age)", "two offsets of one kind"),
        ("visits ~ age + offset(log(yeers))", "Did you mean 'years'?"),
        ("visits ~ age + offset(log(years)", "bracket"),
    ],
)
def test_terms_that_are_not_here_are_answered(data, formula, words):
    assert words in refused(formula, data)


@pytest.mark.parametrize("options", [{"exposure": "years"}, {"exposure": "age"}])
def test_an_offset_is_given_once(data, options):
    said = refused("visits ~ age + offset(log(years))", data, **options)
    assert "Give one of them" in said


def test_further_predictors_have_no_offset(data):
    further = {"inflation": "~ offset(shift)"}
    said = refused("visits ~ age", data, family="zip", predictors=further)
    assert "which only the main formula may have" in said


# Options by other names.


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("famly", "Did you mean 'family'?"),
        ("draws", "Did you mean 'n_draws'?"),
        ("random_state", "Did you mean 'seed'?"),
        ("freq_weights", "Did you mean 'weights'?"),
        ("chains", "there are no chains"),
        ("prior", "Coefficients have no priors"),
        ("nonsense", "It has: family, link"),
    ],
)
def test_an_option_that_does_not_exist_is_answered(data, name, words):
    said = refused("visits ~ age", data, **{name: 1})
    assert said.startswith(f"fit has no option {name!r}.")
    assert words in said


def test_a_second_formula_is_answered_in_the_terms_of_a_terminal(data):
    said = plain(refused("visits ~ age | region", data))
    assert '--predictors "inflation ~ x"' in said
    assert not re.search(r"[={}]", said)


# Yes/no answers.


@pytest.fixture(scope="module")
def answers(data):
    said = np.where(data["ill"] == 1, "yes", "no")
    ordered = pd.Categorical(said, ["yes", "no", "unknown"])
    return data.assign(said=said, ordered=ordered, code=data["ill"] + 1, truth=data["ill"] == 1)


@pytest.mark.parametrize(
    ("outcome", "options", "levels"),
    [
        ("said", {}, ("no", "yes")),
        ("said", {"success": "yes"}, ("no", "yes")),
        ("ordered", {"success": "yes"}, ("no", "yes")),
        ("code", {"success": 2}, ("1", "2")),
        ("truth", {}, ()),
        ("truth", {"success": True}, ("False", "True")),
        ("ill", {"success": "1"}, ("0", "1")),
    ],
)
def test_answers_may_be_names(answers, outcome, options, levels):
    fit = tb.fit(f"{outcome} ~ age", answers, family="bernoulli", n_draws=5, **options)
    assert fit.posterior.model.family.levels == levels
    same = tb.fit("ill ~ age", answers, family="bernoulli", n_draws=5)
    np.testing.assert_array_equal(fit.draws, same.draws)
    np.testing.assert_array_equal(fit.kld_draws, same.kld_draws)


@pytest.mark.parametrize(("outcome", "options"), [("said", {"success": "no"}), ("ordered", {})])
def test_the_other_answer_may_count(answers, outcome, options):
    fit = tb.fit(f"{outcome} ~ age", answers, family="logit", n_draws=5, **options)
    same = draws("no ~ age", answers.assign(no=1 - answers["ill"]), family="bernoulli")
    np.testing.assert_array_equal(np.column_stack([fit.draws, fit.kld_draws]), same)
    said = "The answer 'no' counts as 1, 'yes' as 0."
    assert said in str(fit.summary())
    assert said in fit.summary()._repr_html_().replace("&#x27;", "'")


@pytest.mark.parametrize("outcome", ["ill", "truth", "said"])
def test_a_yes_or_no_is_one_trial(answers, outcome):
    fit = tb.fit(f"{outcome} ~ age", answers, family="binomial", n_draws=5)
    assert fit.posterior.model.family == tb.Bernoulli()
    same = draws("ill ~ age", answers, family="bernoulli")
    np.testing.assert_array_equal(np.column_stack([fit.draws, fit.kld_draws]), same)


def test_answers_are_named_wherever_outcomes_are(answers, tmp_path):
    fit = tb.fit("said ~ age", answers, family="bernoulli", n_draws=20)
    same = tb.fit("ill ~ age", answers, family="bernoulli", n_draws=20)
    new = {"age": [1, 5]}
    np.testing.assert_array_equal(fit.predict(new)["mean"], same.predict(new)["mean"])
    assert list(fit.predict(new, "pmf")) == ["no", "yes"]
    assert list(fit.predict(new, "class")["class"]) == ["no", "yes"]
    assert set(fit.cells()["outcome"]) == {"no", "yes"}
    np.testing.assert_array_equal(fit.effects("age").draws, same.effects("age").draws)
    assert str(fit.score()) == str(same.score())
    fit.report(tmp_path / "fit.html")
    page = (tmp_path / "fit.html").read_text()
    assert "probability of said = yes" in page
    fit.save(tmp_path / "fit.tvd")
    loaded = tb.load(tmp_path / "fit.tvd")
    assert loaded.posterior.model.family.levels == ("no", "yes")
    both = loaded.update(answers[:9])
    again = draws("ill ~ age", pd.concat([answers, answers[:9]]), family="logit", **{"seed": 0})
    assert both.draws.shape == (20, 2)
    np.testing.assert_array_equal(both.draws[:5], again[:, :2])


@pytest.mark.parametrize(
    ("outcome", "options", "words"),
    [
        ("said", {"success": "Yes"}, "Did you mean 'yes'?"),
        ("code", {}, "success=2"),
        ("years", {"success": 1}, "has 3: "),
        ("region3", {}, 'family="categorical"'),
        ("one", {}, "has 1: 'yes'"),
        ("slip", {}, "success="),
        ("visits", {"family": "poisson", "success": "yes"}, "no answers"),
        ("said", {"success": ["yes"]}, "one of the answers"),
        ("said", {"family": tb.Bernoulli(levels=("no", "maybe"))}, "'no', 'maybe'"),
    ],
)
def test_answers_that_make_no_sense_are_named(answers, outcome, options, words):
    more = answers.assign(
        region3=np.resize(["a", "b", "c"], len(answers)),
        one="yes",
        slip=np.where(np.arange(len(answers)) == 7, "l", "0"),
    )
    said = refused(f"{outcome} ~ age", more, **{"family": "bernoulli", **options})
    assert words.replace("'no', 'maybe'", "no, maybe") in said


def test_names_of_answers_are_two():
    for levels in (("yes",), ("yes", "yes"), (0, 1), ("a", "b", "c")):
        with pytest.raises(tb.SettingsError, match="levels must be"):
            tb.Bernoulli(levels=levels)


# Seeds.


@pytest.mark.parametrize("name", ["seed", "rng"])
def test_a_generator_gives_a_seed_that_makes_the_fit_again(data, name):
    fit = tb.fit("visits ~ age", data, n_draws=5, **{name: np.random.default_rng(3)})
    seed = fit.posterior.seed
    assert seed == fit.options.seed == np.random.default_rng(3).integers(2**53)
    assert fit.options.changed() == {"n_draws": 5, "seed": seed}
    again = tb.fit("visits ~ age", data, n_draws=5, seed=seed)
    np.testing.assert_array_equal(fit.draws, again.draws)


def test_a_generator_moves_on(data):
    rng = np.random.default_rng(3)
    first, second = (tb.fit("visits ~ age", data, n_draws=5, rng=rng) for _ in range(2))
    assert first.posterior.seed != second.posterior.seed


def test_seeds_of_all_kinds(data):
    sequence = np.random.SeedSequence(9)
    given = (7, np.int64(7), sequence, np.random.PCG64(9))
    seeds = [tb.fit("visits ~ 1", data, n_draws=0, rng=one).posterior.seed for one in given]
    assert seeds == [7, 7, *2 * [np.random.default_rng(9).integers(2**53)]]
    assert "two names of one thing" in refused("visits ~ 1", data, seed=1, rng=2)
    assert refused("visits ~ 1", data, rng="3").startswith("rng must be a whole number")
    assert refused("visits ~ 1", data, seed=np.random.RandomState(1)).startswith("seed must be")


def test_answers_take_generators(data):
    fit = tb.fit("visits ~ age", data, n_draws=5)
    seed = int(np.random.default_rng(3).integers(2**53))
    for ask in (
        lambda seed: fit.sample({"age": [1, 2]}, seed=seed),
        lambda seed: fit.predict({"age": [1, 2]}, "outcome", seed=seed).to_numpy(),
        lambda seed: fit.residuals(seed=seed),
    ):
        np.testing.assert_array_equal(ask(np.random.default_rng(3)), ask(seed))
