"""Predictions in the user's own columns: the formula by hand, whatever the data are made of."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from scipy.special import expit

import tvdbayes as tb
from tables import FEW_ROWS
from tvdbayes.results import prediction
from tvdbayes.results.prediction import NewRows, mean_draws

pytestmark = FEW_ROWS


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(31)
    n = 240
    made = pd.DataFrame(
        {
            "age": rng.integers(18, 24, n),
            "region": rng.choice(["north", "south", "west"], n),
            "smokes": rng.random(n) < 0.3,
            "hours": rng.choice([1.0, 2.5], n),
            "base": rng.choice([0.0, 0.2], n),
            "copies": rng.integers(0, 3, n),
            "out_of": rng.integers(3, 7, n),
        }
    )
    made["visits"] = rng.poisson(2.0 * made["hours"])
    made["hits"] = rng.binomial(made["out_of"], 0.4)
    made["sick"] = rng.integers(0, 2, n)
    made["mode"] = rng.choice(["bus", "car", "train"], n)
    made["grade"] = pd.Categorical(rng.choice(["low", "mid", "top"], n), ordered=True)
    return made


@pytest.fixture(scope="module")
def new(frame):
    """New rows, their columns in another order, with names of their own."""
    some = frame.iloc[[5, 9, 9, 40, 77]][::-1]
    return some[sorted(some.columns, reverse=True)].set_axis(list("edcba"))


def quick(formula, data, **options):
    return tb.fit(formula, data, **{"divergence": "kld", "n_draws": 30, **options})


# The expected outcome


def test_means_are_those_of_the_draws(frame, new):
    fit = quick("visits ~ age + region*smokes", frame, exposure="hours", offset="base")
    x = fit.encode(new)
    rates = np.exp(fit.draws @ x.T + np.log(new["hours"].to_numpy()) + new["base"].to_numpy())
    found = fit.predict(new)
    assert list(found.columns) == ["mean", "low", "high"]
    assert list(found.index) == list("edcba")
    np.testing.assert_allclose(found["mean"], rates.mean(0))
    np.testing.assert_allclose(found["low"], np.quantile(rates, 0.05, axis=0))
    np.testing.assert_allclose(fit.predict(new, interval=0.5)["high"], np.quantile(rates, 0.75, 0))
    rows = NewRows.of(fit.posterior, x, offset=np.log(new["hours"]) + new["base"])
    np.testing.assert_allclose(mean_draws(fit.posterior, rows), rates)
    twin = np.exp(fit.kld_draws @ x.T + np.log(new["hours"].to_numpy()) + new["base"].to_numpy())
    np.testing.assert_allclose(fit.predict(new, ordinary=True)["mean"], twin.mean(0))


@pytest.mark.parametrize("trials", ["out_of", 7])
def test_trials_are_a_column_or_the_same_number(frame, new, trials):
    fit = quick("hits ~ age", frame, family="binomial", trials=trials)
    times = new["out_of"].to_numpy() if trials == "out_of" else 7
    truth = expit(fit.draws @ fit.encode(new).T) * times
    np.testing.assert_allclose(fit.predict(new)["mean"], truth.mean(0))
    assert fit.data.trials == trials


def test_trials_of_a_fraction_are_found_again(frame, new):
    pair = quick("hits / out_of ~ age", frame, family="binomial")
    named = quick("hits ~ age", frame, family="binomial", trials="out_of")
    pd.testing.assert_frame_equal(pair.predict(new), named.predict(new))
    with pytest.raises(tb.DataError, match="trials='out_of', which is no column"):
        pair.predict(new.drop(columns="out_of"))


def test_every_kind_of_data_gives_the_same_bits(frame, new, tmp_path):
    pl = pytest.importorskip("polars")
    fit = quick("visits ~ age + region + smokes", frame, exposure="hours")
    wanted = fit.predict(new).to_numpy()
    new.to_csv(tmp_path / "new.csv", index=False)
    others = (
        new.to_dict("list"),
        pl.DataFrame(new.drop(columns="grade").to_dict("list")),
        tmp_path / "new.csv",
        new.assign(region=new["region"].astype("category"), more=1),
    )
    for data in others:
        found = fit.predict(data)
        assert found.to_numpy().tobytes() == wanted.tobytes()
    assert list(fit.predict(new.to_dict("list")).index) == [0, 1, 2, 3, 4]


def test_the_rows_of_the_fit_come_in_their_order_and_gaps_stay_gaps(frame):
    holes = frame.assign(age=frame["age"].astype(float).where(frame.index != 3))
    with pytest.warns(tb.MissingRowsWarning):
        fit = quick("visits ~ age + region", holes, weights="copies", missing="drop")
    left_out = (frame["copies"] == 0) | (frame.index == 3)
    found = fit.predict()
    assert len(found) == len(frame)
    assert found["mean"].isna().equals(left_out)
    np.testing.assert_allclose(found[~left_out], fit.predict(frame[~left_out]), rtol=1e-12)
    assert np.isnan(fit.sample()).all(axis=0).tolist() == left_out.tolist()
    assert fit.predict(kind="pmf").isna().all(axis=1).equals(left_out)


def test_further_predictors_and_columns_left_out_are_encoded(frame, new):
    doubled = frame.assign(twice=2 * frame["age"])
    with pytest.warns(tb.CollinearWarning):
        fit = quick(
            "visits ~ twice + age",
            doubled,
            family="zero_inflated_poisson",
            predictors={"inflation": "~ region + scale(base)"},
            collinear="drop",
            ridge=0.01,
        )
    assert fit.left_out == ("age",)
    at = dict(zip(fit.param_names, fit.draws.T[:, :, None], strict=True))
    mu = np.exp(at["Intercept"] + at["twice"] * 2 * new["age"].to_numpy())
    scaled = (new["base"] - frame["base"].mean()) / frame["base"].std()
    odds = (
        at["inflation:Intercept"]
        + at["inflation:region[T.south]"] * (new["region"] == "south").to_numpy()
        + at["inflation:region[T.west]"] * (new["region"] == "west").to_numpy()
        + at["inflation:scale(base)"] * scaled.to_numpy()
    )
    truth = (mu * expit(-odds)).mean(0)
    found = fit.predict(new.assign(twice=2 * new["age"]))
    np.testing.assert_allclose(found["mean"], truth)


def test_a_formula_without_covariates_predicts_every_row_alike(frame):
    fit = quick("visits ~ 1", frame)
    found = fit.predict({"anything": [1, 2, 3]})
    np.testing.assert_allclose(found["mean"], [np.exp(fit.draws).mean()] * 3)


# Probabilities and classes


def test_counts_are_listed_until_they_hold_nearly_all_of_the_mass(frame, new):
    fit = quick("visits ~ age + smokes", frame, exposure="hours")
    found = fit.predict(new, "pmf")
    assert list(found.columns) == list(range(len(found.columns)))
    assert (found.sum(axis=1) >= 0.99).all()
    assert (found.iloc[:, :-1].sum(axis=1) < 0.99).any()
    rates = np.exp(fit.draws @ fit.encode(new).T) * new["hours"].to_numpy()
    np.testing.assert_allclose(found[2], stats.poisson.pmf(2, rates).mean(0))
    named = fit.predict(new, "pmf", outcomes=[50, 2])
    assert list(named.columns) == [50, 2]
    np.testing.assert_allclose(named[50], stats.poisson.pmf(50, rates).mean(0))
    best = fit.predict(new, "class")
    assert best["class"].tolist() == found.idxmax(axis=1).tolist()
    np.testing.assert_allclose(best["probability"], found.max(axis=1))


def test_impossible_outcomes_have_no_mass(frame, new):
    fit = quick("hits ~ age", frame, family="binomial", trials="out_of")
    found = fit.predict(new, "pmf", outcomes=range(9))
    np.testing.assert_allclose(found.sum(axis=1), 1)
    beyond = np.arange(9) > new["out_of"].to_numpy()[:, None]
    assert (found.to_numpy()[beyond] == 0).all()
    seen = frame[frame["visits"] > 0]
    truncated = quick("visits ~ age", seen, family="truncated_poisson").predict(new, "pmf")
    assert truncated.columns[0] == 1
    assert ((truncated.sum(axis=1) >= 0.99) & (truncated.sum(axis=1) <= 1)).all()


def test_levels_go_by_their_names(frame, new):
    fit = quick("mode ~ age", frame, family="categorical")
    found = fit.predict(new, "pmf")
    assert list(found.columns) == ["bus", "car", "train"]
    np.testing.assert_allclose(found.sum(axis=1), 1)
    best = fit.predict(new, "class")
    assert best["class"].tolist() == found.idxmax(axis=1).tolist()
    np.testing.assert_allclose(best["probability"], found.max(axis=1))
    np.testing.assert_allclose(fit.predict(new, "pmf", outcomes=["train"])["train"], found["train"])
    codes = fit.sample(new)
    assert set(np.unique(codes)) <= {0, 1, 2}


@pytest.mark.parametrize(
    ("formula", "options"),
    [
        ("mode ~ age", {"family": "categorical"}),
        ("grade ~ age", {"family": "ordinal"}),
    ],
)
@pytest.mark.parametrize("kind", ["mean", "outcome"])
def test_names_have_no_mean_and_the_message_says_what_to_ask_for(frame, formula, options, kind):
    fit = quick(formula, frame, n_draws=2, **options)
    with pytest.raises(tb.SettingsError, match=r'kind="pmf".*kind="class"'):
        fit.predict(kind=kind)


def test_yes_and_no_are_one_and_zero(frame, new):
    fit = quick("sick ~ age + region", frame, family="bernoulli")
    prob = expit(fit.draws @ fit.encode(new).T).mean(0)
    found = fit.predict(new, "pmf")
    assert list(found.columns) == [0, 1]
    np.testing.assert_allclose(found[1], prob)
    np.testing.assert_allclose(fit.predict(new)["mean"], prob)
    best = fit.predict(new, "class")
    assert best["class"].tolist() == (prob > 0.5).astype(int).tolist()


def test_too_many_counts_are_asked_for_by_name(frame):
    large = frame.assign(visits=frame["visits"] * 1000 + 5000)
    fit = quick("visits ~ age", large, n_draws=4)
    with pytest.raises(tb.SettingsError, match=r"outcomes=\["):
        fit.predict(kind="pmf")
    assert fit.predict(kind="pmf", outcomes=[5000]).shape == (len(frame), 1)


# New outcomes


@pytest.mark.parametrize("family", ["poisson", "negativebinomial", "zero_inflated_poisson"])
@pytest.mark.parametrize("interval", [0.5, 0.9])
def test_intervals_of_outcomes_hold_at_least_their_share(frame, family, interval):
    fit = quick("visits ~ age", frame, family=family, ridge=0.01)
    ends = fit.predict(kind="outcome", interval=interval)
    assert list(ends.columns) == ["low", "median", "high"]
    mass = fit.predict(kind="pmf", outcomes=range(60)).to_numpy()
    below = np.cumsum(mass, axis=1)
    rows = np.arange(len(ends))
    low, median, high = (ends[name].to_numpy(int) for name in ends)
    held = below[rows, high] - np.where(low > 0, below[rows, low - 1], 0.0)
    # 4,020 outcomes are sampled, so that shares of tails are off by half a percent.
    assert (held >= interval - 0.015).all()
    assert (below[rows, median] >= 0.485).all()


def test_samples_follow_the_law_and_equal_rows_differ(frame):
    fit = quick("visits ~ smokes", frame, n_draws=400, exposure="hours")
    some = frame.iloc[[0, 0, 1, 2]]
    drawn = fit.sample(some, seed=5)
    assert drawn.shape == (400, 4)
    rates = np.exp(fit.draws @ fit.encode(some).T) * some["hours"].to_numpy()
    error = np.sqrt(rates.mean(0) / 400)
    assert (np.abs(drawn.mean(0) - rates.mean(0)) < 4 * error).all()
    assert not np.array_equal(drawn[:, 0], drawn[:, 1])
    assert np.array_equal(drawn, fit.sample(some, seed=5))
    assert not np.array_equal(drawn, fit.sample(some, seed=6))
    assert fit.sample(some, n_draws=7).shape == (7, 4)
    assert fit.sample(some, n_draws=900).shape == (900, 4)
    ordinary = fit.sample(some, seed=5, ordinary=True)
    assert ordinary.shape == (400, 4)


def test_tables_that_would_not_fit_are_refused(frame, monkeypatch):
    fit = quick("visits ~ smokes", frame)
    monkeypatch.setattr(prediction, "_MOST_BYTES", 10_000)
    with pytest.raises(tb.MemoryBudgetError, match=r"30 outcomes for each of 240 rows"):
        fit.sample()
    with pytest.raises(tb.MemoryBudgetError, match=r"99 outcomes for each of 240 rows"):
        fit.predict(kind="pmf", outcomes=range(99))


# Questions that cannot be answered


@pytest.mark.parametrize(
    ("change", "options", "words"),
    [
        (lambda d: d.drop(columns="hours"), {}, "exposure='hours', which is no column of the new"),
        (lambda d: d.drop(columns="base"), {}, "offset='base', which is no column of the new"),
        (lambda d: d.drop(columns="age"), {}, "no column 'age'"),
        (lambda d: d.assign(region="moon"), {}, r"not seen: \{'moon'\}.*north, south, west"),
        (lambda d: d.assign(hours=[1, 1, 0, 1, 1]), {}, "'hours' must be above 0.*row 2"),
        (lambda d: d.assign(age=[1, 1, 1, np.nan, 1]), {}, "'age'.*nan in row 3"),
        (lambda d: d.assign(age=[1, 1, 1, 1, 0]), {}, r"'log\(age\)'.*inf in row 4"),
        (lambda d: d.iloc[:0], {}, "0 sample"),
        (lambda d: d, {"kind": "median"}, "kind must be one of mean, pmf, outcome, class"),
        (lambda d: d, {"interval": 1.5}, "interval"),
        (lambda d: d, {"outcomes": [1]}, 'goes with kind="pmf"'),
        (lambda d: d, {"kind": "pmf", "outcomes": [0.5]}, "whole numbers; got 0.5"),
        (lambda d: d, {"kind": "pmf", "outcomes": []}, "takes a list"),
        (lambda d: d, {"kind": "pmf", "outcomes": 3}, "takes a list"),
        (lambda d: d, {"kind": "pmf", "outcomes": (y for y in [1])}, "takes a list"),
        (
            lambda d: d.assign(age=list("abcde")),
            {},
            r"'age' must hold numbers, as .log\(age\). calculates with it; 5 of 5",
        ),
        (lambda d: d.assign(region=5), {}, r"not seen: \{5"),
        (lambda d: d, {"kind": "outcome", "seed": -1}, "seed"),
    ],
)
def test_bad_questions_are_named_and_change_nothing(asked, new, change, options, words):
    given = change(new)
    before = given.copy(deep=True)
    with pytest.raises(tb.TVDBayesError, match=words):
        asked.predict(given, **options)
    pd.testing.assert_frame_equal(given, before)


@pytest.fixture(scope="module")
def asked(frame):
    formula = "visits ~ log(age) + region"
    return quick(formula, frame, exposure="hours", offset="base", n_draws=4)


def test_bad_samples_and_levels_are_named(asked, frame):
    with pytest.raises(tb.SettingsError, match="n_draws must be a whole number"):
        asked.sample(n_draws=0)
    with pytest.raises(tb.SettingsError, match="at least 2 draws"):
        quick("visits ~ age", frame, n_draws=0).predict()
    levels = quick("mode ~ age", frame, family="categorical", n_draws=2)
    with pytest.raises(tb.SettingsError, match=r"no outcome 'plane'\. The levels are bus, car"):
        levels.predict(kind="pmf", outcomes=["plane"])


# Files


def test_a_loaded_fit_predicts_the_same_bits(frame, new, tmp_path):
    fit = quick("hits ~ age + region + smokes", frame, family="binomial", trials="out_of")
    fit.save(tmp_path / "fit.tvd")
    again = tb.load(tmp_path / "fit.tvd")
    for kind in ("mean", "pmf", "outcome", "class"):
        pd.testing.assert_frame_equal(fit.predict(new, kind), again.predict(new, kind))
        pd.testing.assert_frame_equal(fit.predict(kind=kind), again.predict(kind=kind))
    assert fit.sample(new).tobytes() == again.sample(new).tobytes()


def test_numbers_are_levels_where_the_fit_saw_a_category(frame):
    coded = frame.assign(
        region=pd.Categorical(frame["region"].map({"north": 1, "south": 2}), [1, 2])
    )
    coded = coded[coded["region"].notna()]
    fit = quick("visits ~ region", coded)
    found = fit.predict({"region": [1, 2]})["mean"]
    wanted = fit.predict({"region": pd.Categorical([1, 2])})["mean"]
    assert found.tolist() == wanted.tolist()
    with pytest.raises(tb.DataError, match=r"not seen: \{3"):
        fit.predict({"region": [3]})


def test_data_that_were_refused_leave_no_trace(frame, new):
    fit = quick("visits ~ scale(age) + region + smokes", frame, n_draws=4)
    before = fit.predict(new)
    for wrong in ({"smokes": "yes"}, {"region": 3}, {"age": list("abcde")}):
        with pytest.raises(tb.DataError):
            fit.predict(new.assign(**wrong))
        pd.testing.assert_frame_equal(fit.predict(new), before)
