"""Estimators take what `fit` takes: offset and exposure by row, and its options."""

# ruff: noqa: N803, N806 (scikit-learn calls the covariates X)

from contextlib import contextmanager

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn import config_context
from sklearn.base import clone
from sklearn.model_selection import cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import tvdbayes as tb

quiet = pytest.mark.filterwarnings("ignore::tvdbayes.TVDBayesWarning")


@pytest.fixture(scope="module")
def counts():
    rng = np.random.default_rng(6)
    x, hours = rng.integers(0, 3, 300).astype(float), rng.integers(1, 5, 300).astype(float)
    y = rng.poisson(hours * np.exp(0.3 + 0.4 * x))
    y[:15] += 30
    return pd.DataFrame({"y": y, "x": x, "hours": hours, "log": np.log(hours), "w": hours})


@pytest.fixture(scope="module")
def answers():
    rng = np.random.default_rng(7)
    x, shift = rng.integers(-1, 2, 400).astype(float), rng.choice([-1.0, 0.0, 1.5], 400)
    y = (rng.random(400) < 1 / (1 + np.exp(-x - shift))).astype(int)
    return pd.DataFrame({"y": y, "x": x, "shift": shift})


def regressor(**options):
    return tb.RobustCountRegressor(n_draws=20, **options)


def test_an_exposure_is_that_of_fit(counts):
    model = regressor(ridge="auto").fit(counts[["x"]], counts.y, exposure=counts.hours)
    whole = tb.fit("y ~ x", counts, exposure="hours", n_draws=20)
    np.testing.assert_allclose(model.posterior_.draws, whole.draws, rtol=1e-12)
    said = model.predict(counts[["x"]], exposure=counts.hours)
    np.testing.assert_allclose(said, whole.predict(counts)["mean"], rtol=1e-9)


def test_an_offset_is_the_logarithm_of_an_exposure(counts):
    by_offset = regressor().fit(counts[["x"]], counts.y, offset=counts.log)
    by_both = regressor().fit(
        counts[["x"]], counts.y, offset=counts.log - np.log(2), exposure=np.full(300, 2)
    )
    by_exposure = regressor().fit(counts[["x"]], counts.y, exposure=counts.hours)
    for model in (by_offset, by_both):
        np.testing.assert_allclose(model.coef_, by_exposure.coef_, rtol=1e-9)
        np.testing.assert_allclose(model.intercept_, by_exposure.intercept_, rtol=1e-9)


def test_expected_counts_are_proportional_to_the_exposure(counts):
    model = regressor().fit(counts[["x"]].to_numpy(), counts.y, exposure=counts.hours)
    X = [[0.0], [2.0]]
    once, thrice = (model.predict(X, exposure=np.full(2, t)) for t in (1.0, 3.0))
    np.testing.assert_allclose(thrice, 3 * once, rtol=1e-12)
    ends = [model.predict_interval(X, exposure=np.full(2, t)) for t in (1.0, 3.0)]
    np.testing.assert_allclose(ends[1], 3 * ends[0], rtol=1e-12)


def test_a_weight_is_a_row_so_often_with_its_exposure(counts):
    twice = counts.loc[np.repeat(counts.index, counts.w.astype(int))]
    model = regressor().fit(counts[["x"]], counts.y, counts.w, exposure=counts.hours)
    other = regressor().fit(twice[["x"]], twice.y, exposure=twice.hours)
    assert model.posterior_.draws.tobytes() == other.posterior_.draws.tobytes()


def test_an_offset_of_a_classifier_is_that_of_fit(answers):
    model = tb.RobustClassifier(n_draws=20, ridge="auto")
    model.fit(answers[["x"]], answers.y, offset=answers["shift"])
    whole = tb.fit("y ~ x", answers, family="bernoulli", offset="shift", n_draws=20)
    np.testing.assert_allclose(model.posterior_.draws, whole.draws, rtol=1e-12)
    said = model.predict_proba(answers[["x"]], offset=answers["shift"])
    np.testing.assert_allclose(said[:, 1], whole.predict(answers)["mean"], rtol=1e-9)
    share = np.mean(model.predict(answers[["x"]], offset=answers["shift"]) == answers.y)
    assert model.score(answers[["x"]], answers.y, offset=answers["shift"]) == share


def test_metadata_routing_hands_exposures_on(counts):
    X, y, hours = counts[["x"]], counts.y, counts.hours.to_numpy()
    with config_context(enable_metadata_routing=True):
        model = regressor().set_fit_request(exposure=True).set_predict_request(exposure=True)
        model = model.set_score_request(exposure=True)
        pipe = make_pipeline(StandardScaler(), clone(model)).fit(X, y, exposure=hours)
        alone = regressor().fit(StandardScaler().fit_transform(X), y, exposure=hours)
        assert pipe[-1].posterior_.draws.tobytes() == alone.posterior_.draws.tobytes()
        np.testing.assert_array_equal(
            pipe.predict(X, exposure=hours),
            alone.predict(StandardScaler().fit_transform(X), exposure=hours),
        )
        scores = cross_validate(pipe, X, y, params={"exposure": hours}, cv=3)["test_score"]
    assert scores.shape == (3,)
    assert np.isfinite(scores).all()


def test_rows_to_predict_need_the_exposure_of_the_fit(counts):
    model = regressor().fit(counts[["x"]].to_numpy(), counts.y, exposure=counts.hours)
    for ask in (model.predict, model.predict_interval, lambda X: model.score(X, [1])):
        with pytest.raises(tb.DataError, match=r"fitted with exposure=.*np\.ones\(len\(X\)\)"):
            ask([[1.0]])


BAD = {
    "zero": ([1.0, 0.0, 2.0], r"exposure must be above 0; 1 of 3 .*row 1"),
    "gap": ([1.0, 1.0, np.nan], r"exposure must hold finite numbers; 1 of 3 .*row 2"),
    "text": (["1", "2", "3"], r"exposure must hold numbers; got <U1"),
    "short": ([1.0, 2.0], r"inconsistent numbers of samples"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_exposures_are_named(case):
    exposure, message = BAD[case]
    with pytest.raises(ValueError, match=message):
        regressor().fit([[0.0], [1.0], [2.0]], [1, 2, 3], exposure=exposure)


def test_three_classes_have_no_place_for_an_offset(answers):
    y = np.arange(len(answers)) % 3
    with pytest.raises(tb.SettingsError, match="a predictor for each level"):
        tb.RobustClassifier().fit(answers[["x"]], y, offset=answers["shift"])


SAME = [
    {"refine": None},
    {"refine": "reweight"},
    {"ridge": "auto"},
    {"bins": [0, 2, 5, 30]},
    {"bins": "none"},
    {"family": "negativebinomial"},
    {"divergence": "hellinger"},
]


@quiet
@pytest.mark.parametrize("options", SAME, ids=str)
def test_options_are_those_of_fit(counts, options):
    model = regressor(**options).fit(counts[["x"]], counts.y)
    whole = tb.fit("y ~ x", counts, n_draws=20, **{"ridge": 1e-4, **options})
    np.testing.assert_allclose(model.posterior_.draws, whole.draws, rtol=1e-10)


@quiet
def test_a_device_computes_the_draws(counts):
    pytest.importorskip("jax")
    found, plain = (
        regressor(device=device, refine=None).fit(counts[["x"]], counts.y)
        for device in ("cpu", None)
    )
    np.testing.assert_allclose(found.posterior_.draws, plain.posterior_.draws, atol=1e-5)


@pytest.mark.parametrize("kind", [tb.RobustCountRegressor, tb.RobustClassifier])
@pytest.mark.parametrize("option", [{"device": 3}, {"device": "abacus"}, {"ridge": "some"}])
def test_bad_options_are_named(kind, option):
    with pytest.raises(tb.TVDBayesError, match=str(next(iter(option.values())))):
        kind(**option).fit([[0.0], [1.0], [2.0]], [0, 1, 1])


def test_a_bar_is_shown_where_it_is_wanted(counts, monkeypatch):
    shown = []

    @contextmanager
    def bar(wanted, label):
        yield (lambda *done: shown.append((label, *done))) if wanted else None

    monkeypatch.setattr("tvdbayes.estimators.base.progress_bar", bar)
    regressor().fit(counts[["x"]], counts.y)
    assert shown == []
    regressor(progress=True).fit(counts[["x"]], counts.y)
    assert shown[-1] == ("20 draws", 20, 20)


@pytest.mark.parametrize("kind", [tb.RobustCountRegressor, tb.RobustClassifier])
def test_sparse_covariates_are_refused_in_words(kind):
    X = sparse.csr_array(np.eye(4))
    with pytest.raises(TypeError, match=r"(?i)sparse.*dense.*toarray\(\)"):
        kind().fit(X, [0, 1, 0, 1])
