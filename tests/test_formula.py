import os

import numpy as np
import pandas as pd
import pytest

import tvdbayes as tb


@pytest.fixture
def data(rng):
    n = 400
    frame = pd.DataFrame(
        {
            "visits": rng.poisson(3, n),
            "age": rng.integers(1, 4, n),
            "region": rng.choice(["north", "south", "west"], n),
            "hours": rng.choice([1.0, 2.0], n),
            "sick": rng.integers(0, 2, n),
            "out_of": np.full(n, 9),
            "copies": rng.integers(1, 3, n),
        }
    )
    frame["hits"] = rng.binomial(9, 0.3, n)
    return frame


def test_a_formula_names_its_parameters(data):
    fit = tb.fit("visits ~ age + C(region)", data, n_draws=20)
    assert fit.param_names == ("Intercept", "age", "C(region)[T.south]", "C(region)[T.west]")
    assert fit.draws.shape == (20, 4)
    assert fit.formula in repr(fit)
    assert (fit.posterior.cells.counts[fit.cell_of_row] >= 1).all()


def test_a_dict_and_a_frame_give_the_same_bits(data):
    frame = tb.fit("visits ~ age", data, n_draws=20)
    columns = tb.fit("visits ~ age", data.to_dict("list"), n_draws=20)
    assert frame.draws.tobytes() == columns.draws.tobytes()


def test_the_input_is_left_alone(data):
    before = data.copy(deep=True)
    tb.fit("visits ~ age + C(region)", data, n_draws=5)
    pd.testing.assert_frame_equal(before, data)


def test_exposure_is_the_logarithm_of_an_offset(data):
    data["log_hours"] = np.log(data["hours"])
    a = tb.fit("visits ~ age", data, exposure="hours", n_draws=10)
    b = tb.fit("visits ~ age", data, offset="log_hours", n_draws=10)
    assert np.array_equal(a.draws, b.draws)


def test_weights_are_frequencies(data):
    twice = data.loc[data.index.repeat(data["copies"])]
    a = tb.fit("visits ~ age", data, weights="copies", n_draws=10)
    b = tb.fit("visits ~ age", twice, n_draws=10)
    assert np.array_equal(a.draws, b.draws)


def test_trials_are_a_column_or_a_number(data):
    a = tb.fit("hits ~ age", data, family="binomial", trials="out_of", n_draws=10)
    b = tb.fit("hits ~ age", data, family="binomial", trials=9, n_draws=10)
    assert np.array_equal(a.draws, b.draws)


@pytest.mark.parametrize("link", ["logit", "probit", "cloglog"])
def test_links_by_name(data, link):
    fit = tb.fit("sick ~ age", data, family="bernoulli", link=link, n_draws=10)
    assert fit.posterior.model.family.link.name == link


@pytest.mark.parametrize("divergence", ["tvd", "kld", "hellinger", "density_power"])
def test_divergences_by_name(data, divergence):
    fit = tb.fit("visits ~ 1", data, divergence=divergence, n_draws=10)
    assert fit.posterior.divergence.name == divergence


def test_a_prior_through_the_door(data):
    base = tb.Cells.from_counts([[1.0]], [20], [1], names=("Intercept",))
    plain = tb.fit("visits ~ 1", data, n_draws=50)
    pulled = tb.fit("visits ~ 1", data, alpha=200, base_measure=base, n_draws=50)
    assert pulled.kld_draws.mean() > plain.kld_draws.mean() + 0.5


def test_few_rows_per_x_warn(rng):
    frame = {"y": rng.poisson(3, 60), "x": rng.normal(size=60)}
    with pytest.warns(tb.SmallGroupsWarning, match="median group: 1"):
        tb.fit("y ~ x", frame, n_draws=2, partition="distinct", refine=None)


BAD = [
    ("visits ~ height", {}, tb.FormulaError, ["'height'", "Columns: visits, age"]),
    ("height ~ age", {}, tb.FormulaError, ["outcome", "'height'"]),
    ("visits", {}, tb.FormulaError, ["outcome ~ terms"]),
    ("visits ~ ", {}, tb.FormulaError, ["outcome ~ terms"]),
    ("visits ~ age ~ hours", {}, tb.FormulaError, ["outcome ~ terms"]),
    ("visits ~ age + (", {}, tb.FormulaError, ["cannot be read"]),
    ("visits ~ " + "age + " * 500 + "age", {}, tb.FormulaError, ["characters"]),
    ("visits ~ (age + hours + sick)**20", {}, tb.FormulaError, ["terms"]),
    ("visits ~ (age + hours)**(20)", {}, tb.FormulaError, ["terms"]),
    ("visits ~ ((age + hours)**4)^5", {}, tb.FormulaError, ["terms"]),
    ("visits ~ (age + hours)**20 + I(sick**0.5)", {}, tb.FormulaError, ["terms"]),
    ("visits ~ age*hours*sick*hits*out_of*copies*age*hours*sick", {}, tb.FormulaError, ["terms"]),
    ("visits ~ I(age * 9**(99999999))", {}, tb.FormulaError, ["power"]),
    ("visits ~ I([age] * 100000000)", {}, tb.FormulaError, ["not a number"]),
    ("visits ~ poly(age, 100000)", {}, tb.FormulaError, ["too large"]),
    ("visits ~ visits", {}, tb.FormulaError, ["outcome 'visits'"]),
    ("visits ~ age % hours", {}, tb.FormulaError, ["joined by"]),
    ("visits ~ log(sick - 5)", {}, tb.DataError, ["log(sick - 5)", "row 0"]),
    ("visits ~ age", {"weights": [1, 2]}, tb.DataError, ["name of a column", "list"]),
    ("visits ~ age", {"trials": 3}, tb.SettingsError, ["no trials"]),
    ("visits ~ age", {"family": None}, tb.FamilyError, ["None"]),
    ("visits ~ age", {"divergence": 5}, tb.SettingsError, ["divergence", "5"]),
    ("visits ~ age", {"partition": None}, tb.SettingsError, ["partition", "None"]),
    ("visits ~ age", {"family": tb.Poisson(), "link": "log"}, tb.SettingsError, ["link"]),
    ("hits ~ age", {"family": "binomial", "trials": 2.5}, tb.FamilyError, ["Trials", "2.5"]),
    ("visits ~ age", {"n_draws": True}, tb.SettingsError, ["n_draws", "True"]),
    ("visits ~ age + I(age)", {}, tb.DataError, ["determine"]),
    ("visits ~ age", {"family": "gamma"}, tb.FamilyError, ["'gamma'", "not discrete"]),
    ("visits ~ age", {"link": "probit"}, tb.FamilyError, ["'probit'", "log"]),
    ("hits ~ age", {"family": "binomial"}, tb.FamilyError, ["trials="]),
    ("hits ~ age", {"family": "binomial", "trials": 2}, tb.FamilyError, ["trials", "row"]),
    ("hits ~ age", {"family": "binomial", "trials": "lots"}, tb.DataError, ["'lots'"]),
    ("visits ~ age", {"family": "bernoulli"}, tb.FamilyError, ["0 or 1", "row"]),
    ("sick ~ age", {"family": "bernoulli", "link": "log"}, tb.SettingsError, ["'log'", "probit"]),
    ("visits ~ age", {"divergence": "mmd"}, tb.SettingsError, ["'mmd'", "hellinger"]),
    ("visits ~ age", {"partition": "trees"}, tb.SettingsError, ["'trees'", "distinct"]),
    ("visits ~ age", {"offset": "nowhere"}, tb.DataError, ["'nowhere'"]),
    ("visits ~ age", {"weights": "region"}, tb.DataError, ["'region'", "numbers"]),
    ("visits ~ age", {"alpha": -1.0}, tb.SettingsError, ["alpha", "-1.0"]),
    ("region ~ age", {}, tb.DataError, ["'region'", "numbers"]),
    (5, {}, tb.FormulaError, ["text", "5"]),
]


@pytest.mark.parametrize(
    ("formula", "options", "error", "words"), BAD, ids=[str(b[:2]) for b in BAD]
)
def test_bad_requests_are_named_and_change_nothing(data, formula, options, error, words):
    before = data.copy(deep=True)
    with pytest.raises(error) as caught:
        tb.fit(formula, data, **options)
    assert isinstance(caught.value, tb.TVDBayesError)
    assert all(word in str(caught.value) for word in words), str(caught.value)
    pd.testing.assert_frame_equal(before, data)


@pytest.mark.parametrize(
    ("column", "value", "words"),
    [
        ("visits", np.nan, ["'visits'", "nan in row 7"]),
        ("visits", -2, ["at least 0", "-2.0 in row 7"]),
        ("visits", 2.5, ["whole", "2.5 in row 7"]),
        ("age", np.inf, ["'age'", "inf in row 7"]),
        ("age", np.nan, ["'age'", "nan in row 7", "1 of 400"]),
        ("region", None, ["'region'", "row 7"]),
        ("hours", 0.0, ["'hours'", "above 0", "0.0 in row 7"]),
    ],
)
def test_bad_values_name_their_row(data, column, value, words):
    if isinstance(value, float):
        data[column] = data[column].astype(float)
    data.loc[7, column] = value
    with pytest.raises(tb.TVDBayesError) as caught:
        tb.fit("visits ~ age + C(region)", data, exposure="hours")
    assert all(word in str(caught.value) for word in words), str(caught.value)


@pytest.mark.parametrize(
    "data", [{}, {"y": []}, {"y": [1, 2], "x": [1]}, [1, 2], None, "nowhere.csv"]
)
def test_data_that_are_no_table_are_refused(data):
    with pytest.raises(tb.TVDBayesError):
        tb.fit("y ~ 1", data)


ATTACKS = [
    "visits ~ I(open('/etc/hostname').read())",
    "visits ~ {__import__('os').getpid() * age}",
    "visits ~ I(().__class__)",
    "visits ~ I(age.real)",
    "visits ~ np.random.seed(age)",
    "visits ~ I([a for a in age])",
    "visits ~ I((lambda: age)())",
    "visits ~ I(age[0])",
    "visits ~ secret",
    "visits ~ I(age + secret)",
    "visits ~ hashed(age)",
    "visits ~ I(age * 1e300)",
]


@pytest.mark.parametrize("formula", ATTACKS)
def test_formulas_run_no_code_and_see_no_variables(data, formula):
    secret = os.getpid()  # a local variable that formulaic would find by itself
    with pytest.raises(tb.FormulaError):
        tb.fit(formula, data, n_draws=2)
    assert secret == os.getpid()


def test_honest_functions_work(data):
    formula = (
        "visits ~ log(hours) + scale(age) + sqrt(sick) + I(age**2) + I(hits**2) + I(out_of*age)"
    )
    fit = tb.fit(formula.replace(" + I(out_of*age)", ""), data, n_draws=3)
    assert len(fit.param_names) == 6
    fit = tb.fit("visits ~ (age + sick)**2 + C(region):sick", data, n_draws=3, ridge=0.01)
    assert "age:sick" in fit.param_names


def test_missing_values_are_named_under_every_transform(data):
    data["age"] = data["age"].astype(float)
    data.loc[7, "age"] = np.nan
    for term in ("scale(age)", "poly(age, 2)", "center(age)", "bs(age, df=4)", "I(age**2)"):
        with pytest.raises(tb.DataError, match=r"'age'.*nan in row 7"):
            tb.fit(f"visits ~ {term}", data)


def test_text_of_every_kind_is_a_category(data):
    plain = tb.fit("visits ~ region", data, n_draws=3)
    for dtype in ("string", "category"):
        other = tb.fit(
            "visits ~ region", data.assign(region=data["region"].astype(dtype)), n_draws=3
        )
        assert np.array_equal(plain.draws, other.draws)


def test_identifiers_are_no_covariates(data):
    many = pd.concat([data] * 4, ignore_index=True)
    many["id"] = [f"row {i}" for i in range(len(many))]
    with pytest.raises(tb.FormulaError, match="'id' has 1,600 levels"):
        tb.fit("visits ~ id", many)


def test_repeated_column_names_are_refused(data):
    twice = pd.concat([data, data[["age"]]], axis=1)
    with pytest.raises(tb.DataError, match="'age' comes more than once"):
        tb.fit("visits ~ age", twice)


def test_one_row_or_one_class_is_not_enough(data):
    with pytest.raises(tb.DataError, match="1 sample"):
        tb.fit("visits ~ 1", data.iloc[:1])
    with pytest.raises(tb.DataError, match="Every outcome is 1"):
        tb.fit("sick ~ age", data[data["sick"] == 1], family="bernoulli")


def test_wild_values_warn(data):
    data["age"] = data["age"].astype(float)
    data.loc[3, "age"] = 1e12
    with pytest.warns(tb.WildValueWarning, match="'age' ranges"):
        tb.fit("visits ~ age", data, n_draws=2)
    data["age"] = 1.0 * (data.index % 3)
    data.loc[3, "visits"] = 10**9
    with pytest.warns(tb.WildValueWarning, match="largest outcome"):
        tb.fit("visits ~ age", data, n_draws=2)
