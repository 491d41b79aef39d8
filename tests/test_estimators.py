"""The scikit-learn door, and the predictions behind it."""

# ruff: noqa: N803, N806 (scikit-learn calls the covariates X)

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression, PoissonRegressor
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import (
    check_fit_idempotent,
    check_methods_sample_order_invariance,
    check_methods_subset_invariance,
    check_sample_weight_equivalence_on_dense_data,
    estimator_checks_generator,
    parametrize_with_checks,
)

import tvdbayes as tb
from tvdbayes.estimators.linear import RobustClassifier, RobustCountRegressor
from tvdbayes.results import prediction
from tvdbayes.results.prediction import (
    NewRows,
    mean_draws,
    mean_interval,
    outcome_interval,
    outcome_mean,
    pmf,
)

quiet = pytest.mark.filterwarnings("ignore::tvdbayes.TVDBayesWarning")
"""scikit-learn's checks fit a dozen rows, of which ours rightly warn."""

WHOLE = "feeds fractional y, which is no count; scikit-learn has no tag for integer targets"
FRACTIONAL = dict.fromkeys(
    [
        "check_fit_check_is_fitted",
        "check_fit_idempotent",
        "check_n_features_in",
        "check_n_features_in_after_fitting",
        "check_regressor_data_not_an_array",
        "check_regressors_no_decision_function",
        "check_regressors_train",
    ],
    WHOLE,
)


class RoundingRegressor(RobustCountRegressor):
    """For the checks alone: what they feed becomes counts."""

    def fit(self, X, y=None, sample_weight=None):
        if y is not None and np.asarray(y).dtype.kind == "f":
            y = np.round(np.asarray(y))
        return super().fit(X, y, sample_weight)


# A block of draws is solved whole, so on the checks' tiny tables 16 draws cost as much as 1,024.
# The point fit takes the same way through the door; draws are tried by the checks further below.
@pytest.mark.slow
@quiet
@parametrize_with_checks([RobustClassifier(n_draws=0), RoundingRegressor(n_draws=0)])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@quiet
@parametrize_with_checks(
    [RobustCountRegressor(n_draws=0)], expected_failed_checks=lambda _: FRACTIONAL
)
def test_scikit_learn_checks_of_a_strict_regressor(estimator, check):
    check(estimator)


def test_the_declared_checks_fail_for_their_reason_alone():
    failed = 0
    for estimator, check in estimator_checks_generator(RobustCountRegressor(n_draws=0)):
        if check.func.__name__ in FRACTIONAL:
            with pytest.raises(tb.DataError, match=r"whole numbers.*y\.round\(\)"):
                check(estimator)
            failed += 1
    assert failed == len(FRACTIONAL) + 2  # check_regressors_train comes three times


@pytest.mark.slow
@quiet
@pytest.mark.parametrize(
    "check",
    [
        check_fit_idempotent,
        check_methods_sample_order_invariance,
        check_methods_subset_invariance,
        check_sample_weight_equivalence_on_dense_data,
    ],
)
@pytest.mark.parametrize("kind", [RobustClassifier, RoundingRegressor])
def test_scikit_learn_checks_with_draws(kind, check):
    check(kind.__name__, kind(n_draws=16, partition="distinct"))


@pytest.fixture
def counts(rng):
    """500 counts on a 4 x 4 grid, a tenth of them wrong; the expected counts of the others."""
    X = rng.integers(0, 4, (500, 2)).astype(float)
    mean = np.exp(0.5 + 0.3 * X[:, 0] - 0.2 * X[:, 1])
    y = rng.poisson(mean)
    y[:50] += 20
    return X, y, mean


@pytest.fixture
def labels(rng):
    """900 rows of three classes on a grid."""
    X = rng.integers(-2, 3, (900, 2)).astype(float)
    eta = np.column_stack([np.zeros(900), X[:, 0], X[:, 1]])
    number = (eta + rng.gumbel(size=eta.shape)).argmax(1)
    return X, np.array(["ant", "bee", "cat"])[number]


def two_of(labels):
    X, y = labels
    return X, np.where(y == "cat", "yes", "no")


def same_bits(a, b):
    return all(
        np.asarray(x).tobytes() == np.asarray(y).tobytes()
        for x, y in [
            (a.coef_, b.coef_),
            (a.intercept_, b.intercept_),
            (a.posterior_.draws, b.posterior_.draws),
            (a.posterior_.kld_draws, b.posterior_.kld_draws),
        ]
    )


def cases(counts, labels):
    return {
        "counts": (RobustCountRegressor(n_draws=20), *counts[:2]),
        "two": (RobustClassifier(n_draws=20), *two_of(labels)),
        "three": (RobustClassifier(n_draws=20), *labels),
    }


CASES = pytest.mark.parametrize("case", ["counts", "two", "three"])


@pytest.fixture
def task(case, counts, labels):
    return cases(counts, labels)[case]


@CASES
def test_a_weight_is_the_row_that_many_times(task, rng):
    model, X, y = task
    weights = rng.integers(0, 3, len(y))
    weighted = clone(model).fit(X, y, sample_weight=weights)
    repeated = clone(model).fit(X.repeat(weights, axis=0), y.repeat(weights))
    assert same_bits(weighted, repeated)
    assert np.array_equal(weighted.predict(X), repeated.predict(X))


def test_a_row_of_weight_zero_brings_neither_class_nor_column(labels):
    X, y = two_of(labels)
    more_X = np.vstack([np.column_stack([X, 0 * X[:, 0]]), [1.0, 1.0, 1.0]])
    weights = np.append(np.ones(len(y)), 0.0)
    with pytest.warns(tb.TVDBayesWarning, match="1 of 3 columns are constant .*'x2'"):
        model = RobustClassifier(n_draws=20).fit(more_X, np.append(y, "zebra"), weights)
    plain = RobustClassifier(n_draws=20).fit(X, y)
    assert list(model.classes_) == ["no", "yes"]
    assert model.posterior_.draws.tobytes() == plain.posterior_.draws.tobytes()
    assert model.coef_[0, 2] == 0
    assert np.array_equal(model.predict_proba(more_X[:-1]), plain.predict_proba(X))


@CASES
def test_the_order_of_rows_and_the_number_of_jobs_change_no_bit(task, rng):
    model, X, y = task
    order = rng.permutation(len(y))
    plain = clone(model).fit(X, y)
    assert same_bits(plain, clone(model).set_params(n_jobs=2).fit(X[order], y[order]))


@CASES
def test_a_pickled_model_predicts_the_same(task):
    model, X, y = task
    model.fit(X, y)
    again = pickle.loads(pickle.dumps(model))
    assert np.array_equal(again.predict(X), model.predict(X))
    assert same_bits(again, model)


@CASES
def test_the_input_is_left_alone(task):
    model, X, y = task
    before = X.copy(), y.copy()
    model.fit(X, y).predict(X)
    assert np.array_equal(before[0], X)
    assert np.array_equal(before[1], y)


def test_a_clone_has_the_settings_and_no_fit(counts):
    X, y, _ = counts
    model = RobustCountRegressor(tb.Geometric(), divergence=tb.Hellinger(), n_draws=0)
    copy = clone(model.fit(X, y))
    assert copy.get_params() == model.get_params()
    assert not hasattr(copy, "coef_")


def test_it_works_in_a_pipeline_with_data_frames(counts):
    X, y, _ = counts
    frame = pd.DataFrame(X, columns=["age", "hours"])
    chain = make_pipeline(StandardScaler(), RobustCountRegressor(n_draws=20))
    chain.set_output(transform="pandas").fit(frame, y)
    model = chain[-1]
    assert list(model.feature_names_in_) == ["age", "hours"]
    assert model.posterior_.param_names == ("Intercept", "age", "hours")
    plain = RobustCountRegressor(n_draws=20).fit(X, y)
    # Slopes are penalised in standardised coordinates, so units do not matter.
    assert np.allclose(chain.predict(frame), plain.predict(X), rtol=1e-5)
    assert np.allclose(model.coef_ / X.std(0), plain.coef_, rtol=1e-4)


def test_a_grid_search_runs_over_the_ridge(counts):
    X, y, _ = counts
    model = RobustCountRegressor(n_draws=0)
    search = GridSearchCV(model, {"ridge": [1e-4, 10.0]}, cv=3).fit(X[50:], y[50:])
    assert search.best_params_ == {"ridge": 1e-4}
    assert 0.1 < search.best_score_ < 1


def test_another_order_of_named_columns_is_refused(counts):
    X, y, _ = counts
    frame = pd.DataFrame(X, columns=["age", "hours"])
    model = RobustCountRegressor(n_draws=5).fit(frame, y)
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame[["hours", "age"]])


@pytest.mark.parametrize("random_state", [None, np.random.RandomState(5)])
def test_a_generator_gives_a_seed_that_is_kept(counts, random_state):
    X, y, _ = counts
    model = RobustCountRegressor(n_draws=5, random_state=random_state).fit(X, y)
    again = RobustCountRegressor(n_draws=5, random_state=model.posterior_.seed).fit(X, y)
    assert same_bits(model, again)


def test_wrong_counts_do_not_drive_the_fit(counts):
    X, y, mean = counts
    robust = RobustCountRegressor(n_draws=100).fit(X, y)
    ordinary = PoissonRegressor(alpha=0).fit(X, y)
    off, ordinary_off = (np.abs(m.predict(X) / mean - 1).mean() for m in (robust, ordinary))
    assert off < 0.1
    assert ordinary_off > 0.8


def test_wrong_labels_do_not_drive_the_fit(rng):
    # A tenth of the rows lies far out, and all of these have the wrong label.
    n = 800
    X = rng.normal(size=(n, 2))
    X[:80] = [6, 0] + 0.3 * X[:80]
    y = rng.random(n) < 1 / (1 + np.exp(-(0.3 + 2 * X[:, 0] - X[:, 1])))
    y[:80] = False
    robust = RobustClassifier(n_draws=50).fit(X, y)
    ordinary = LogisticRegression(C=np.inf).fit(X, y)
    new = rng.normal(size=(2000, 2))
    truth = 1 / (1 + np.exp(-(0.3 + 2 * new[:, 0] - new[:, 1])))
    off, ordinary_off = (
        np.abs(model.predict_proba(new)[:, 1] - truth).mean() for model in (robust, ordinary)
    )
    assert off < 0.07
    assert ordinary_off > 0.2
    assert (robust.predict(new) == (truth > 0.5)).mean() > 0.93
    assert (ordinary.predict(new) == (truth > 0.5)).mean() < 0.75


def test_three_classes_are_treated_alike(labels):
    X, y = labels
    model = RobustClassifier(n_draws=50).fit(X, y)
    assert list(model.classes_) == ["ant", "bee", "cat"]
    assert model.coef_.shape == (3, 2)
    assert np.allclose(model.coef_.sum(0), 0)
    assert np.allclose(model.intercept_.sum(), 0)
    assert np.allclose(model.coef_[1:] - model.coef_[0], np.eye(2), atol=0.25)
    probabilities = model.predict_proba(X)
    assert np.allclose(probabilities.sum(1), 1)
    assert set(model.predict(X)) == {"ant", "bee", "cat"}
    assert model.score(X, y) > LogisticRegression().fit(X, y).score(X, y) - 0.03


@pytest.mark.parametrize("link", ["probit", "cloglog", tb.Probit()])
def test_two_classes_take_a_link(labels, link):
    X, y = two_of(labels)
    model = RobustClassifier(link, n_draws=10).fit(X, y)
    ordinary = LogisticRegression().fit(X, y)
    assert model.coef_.shape == (1, 2)
    assert np.abs(model.predict_proba(X) - ordinary.predict_proba(X)).max() < 0.15


@pytest.mark.parametrize("family", ["negativebinomial", "zero_inflated_poisson"])
def test_further_parameters_are_no_coefficients(counts, rng, family):
    X, _, mean = counts
    spread = rng.gamma(1, size=500) if family == "negativebinomial" else 2 * rng.integers(0, 2, 500)
    model = RobustCountRegressor(family, n_draws=10).fit(X, rng.poisson(2 * mean * spread))
    assert model.coef_.shape == (2,)
    assert model.posterior_.draws.shape == (10, 4)
    assert np.allclose([model.intercept_, *model.coef_], model.posterior_.estimate[:3])


@pytest.mark.slow
def test_intervals_cover():
    grid = np.array([[a, b] for a in range(3) for b in range(2)], float)
    truth = np.exp(0.8 + 0.3 * grid[:, 0] - 0.4 * grid[:, 1])
    hits, outcomes = [], []
    for seed in range(16):
        rng = np.random.default_rng(seed)
        row = rng.integers(0, len(grid), 400)
        y = rng.poisson(truth[row])
        y[:20] += 30
        model = RobustCountRegressor(n_draws=100).fit(grid[row], y)
        low, high = model.predict_interval(grid).T
        hits.append((low <= truth) & (truth <= high))
        low, high = model.predict_interval(grid, 0.8, kind="outcome").T
        new = rng.poisson(truth, (200, len(grid)))
        outcomes.append((low <= new) & (new <= high))
    # 16 data sets of about three independent means each: 0.9 with a standard error of 0.04.
    assert 0.78 <= np.mean(hits) <= 1
    # Whole numbers cannot hold 0.8 exactly; the smallest means hold most.
    assert 0.8 <= np.mean(outcomes) <= 0.95


def test_the_score_is_that_of_scikit_learn(counts):
    X, y, _ = counts
    weights = np.arange(len(y)) % 3
    theirs = PoissonRegressor(alpha=0).fit(X, y)
    ours = RobustCountRegressor(divergence="kld", n_draws=0, ridge=0).fit(X, y)
    assert np.isclose(ours.score(X, y, weights), theirs.score(X, y, weights), rtol=1e-4)
    assert ours.score(X, np.full(len(y), 3)) == 0


def test_without_draws_there_is_a_point_fit_and_no_interval(counts):
    X, y, _ = counts
    model = RobustCountRegressor(n_draws=0).fit(X, y)
    assert np.allclose(model.predict(X), np.exp(model.intercept_ + X @ model.coef_))
    with pytest.raises(tb.SettingsError, match="at least 2 draws; got 0"):
        model.predict_interval(X)


def test_collinear_columns_are_fitted_with_a_warning(counts):
    X, y, _ = counts
    frame = pd.DataFrame(X, columns=["a", "b"]).assign(twice=2 * X[:, 0], seven=7.0, none=0.0)
    with pytest.warns(tb.TVDBayesWarning, match="3 of 5 columns .*'seven', 'none'"):
        model = RobustCountRegressor(n_draws=20).fit(frame, y)
    plain = RobustCountRegressor(n_draws=20).fit(X, y)
    assert np.allclose(model.predict(frame), plain.predict(X), rtol=0.02)
    assert model.coef_[4] == 0


@quiet
def test_more_columns_than_rows_are_fitted(rng):
    X = rng.normal(size=(15, 30))
    model = RobustCountRegressor(n_draws=0).fit(X, rng.integers(0, 3, 15))
    assert np.isfinite(model.predict(X)).all()


@quiet
def test_all_zero_counts_are_fitted(rng):
    X = rng.integers(0, 2, (100, 1))
    model = RobustCountRegressor(n_draws=5).fit(X, np.zeros(100))
    assert (model.predict(X) < 0.01).all()
    assert model.score(X, np.zeros(100)) == 0


def frame_with(value):
    frame = pd.DataFrame({"age": [1.0, 2, 3, 4] * 5, "size": np.arange(20.0)}, dtype=object)
    frame.loc[7, "size"] = value
    return frame


Y = [0, 1, 2, 3] * 5
BAD = [
    ({"X": frame_with(np.nan)}, ["NaN", "'size'", "row 7"]),
    ({"X": frame_with(np.inf)}, ["inf", "'size'", "row 7"]),
    ({"X": frame_with("3")}, ["'size'", "3 in row 7", "OneHotEncoder"]),
    ({"y": [*Y[:-1], np.nan]}, ["y", "NaN", "row 19"]),
    ({"y": [*Y[:-1], -1]}, ["at least 0", "-1", "row 19"]),
    ({"y": [*Y[:-1], 0.5]}, ["whole numbers", "0.5", "row 19", "y.round()"]),
    ({"y": list(map(str, Y))}, ["y must hold numbers", "'0'"]),
    ({"y": np.array(list(map(str, Y)), object)}, ["y must hold numbers", "'0'"]),
    ({"y": Y[:-1]}, ["[20, 19]"]),
    ({"y": np.ones((20, 2))}, ["(20, 2)"]),
    ({"sample_weight": np.zeros(20)}, ["zero", "weight"]),
    ({"sample_weight": [1] * 19 + [-1]}, ["sample_weight", "-1", "row 19"]),
    ({"sample_weight": np.full(20, 0.05)}, ["sample_weight", "adds up to 1"]),
    ({"family": "binomial"}, ["'binomial'", "trials"]),
    ({"family": "bernoulli"}, ["'bernoulli'", "RobustClassifier"]),
    ({"family": "gamma"}, ["'gamma'", "not discrete"]),
    ({"divergence": "mmd"}, ["'mmd'", "hellinger"]),
    ({"partition": "trees"}, ["'trees'", "distinct"]),
    ({"n_draws": -1}, ["n_draws", "-1"]),
    ({"ridge": -1.0}, ["ridge", "-1.0"]),
    ({"bins": "some"}, ["bins", "'some'"]),
    ({"random_state": -1}, ["random_state", "-1"]),
    ({"random_state": "x"}, ["'x'", "seed"]),
]


@pytest.mark.parametrize(("given", "words"), BAD, ids=[str(words) for _, words in BAD])
def test_bad_input_is_named(given, words):
    data = {"X": np.arange(40.0).reshape(20, 2) % 7, "y": Y, "sample_weight": None}
    settings = {name: value for name, value in given.items() if name not in data}
    model = RobustCountRegressor(**{"n_draws": 5, **settings})
    with pytest.raises(ValueError, match=r".") as caught:
        model.fit(**{name: given.get(name, value) for name, value in data.items()})
    for word in words:
        assert word in str(caught.value)


def test_one_class_is_refused_by_name():
    with pytest.raises(tb.DataError, match=r"1 class: .*'yes'"):
        RobustClassifier().fit(np.eye(3), ["yes"] * 3)


def test_more_than_two_classes_have_one_link(labels):
    with pytest.raises(tb.FamilyError, match=r"3 classes .*logit.*'probit'"):
        RobustClassifier("probit").fit(*labels)


def test_an_unknown_link_or_kind_is_refused(labels, counts):
    with pytest.raises(tb.SettingsError, match=r"'log'.*cloglog"):
        RobustClassifier("log").fit(*labels)
    X, y, _ = counts
    model = RobustCountRegressor(n_draws=5).fit(X, y)
    with pytest.raises(tb.SettingsError, match=r"kind .*'pmf'"):
        model.predict_interval(X, kind="pmf")
    with pytest.raises(tb.SettingsError, match=r"interval .*90"):
        model.predict_interval(X, 90)
    with pytest.raises(tb.DataError, match=r"at least 0; 500 of 500 are not \(first: -1"):
        model.score(X, np.full(len(y), -1))


@pytest.fixture
def posterior(binomial_cells):
    return tb.posterior_bootstrap(tb.Model(tb.Binomial()), binomial_cells, n_draws=30)


@pytest.fixture
def new(rng):
    x = np.column_stack([np.ones(50), rng.integers(0, 4, 50)])
    return {"x": x, "trials": rng.integers(1, 9, 50), "offset": rng.choice([0.0, 0.5], 50)}


def test_predictions_are_the_formula_row_by_row(posterior, new):
    rows = NewRows.of(posterior, **new)
    prob = 1 / (1 + np.exp(-(posterior.draws @ new["x"].T + new["offset"])))
    assert np.allclose(mean_draws(posterior, rows), prob * new["trials"])
    assert np.allclose(outcome_mean(posterior, rows), (prob * new["trials"]).mean(0))
    assert np.allclose(pmf(posterior, rows, 0)[:, 0], ((1 - prob) ** new["trials"]).mean(0))
    ends = np.quantile(prob * new["trials"], [0.25, 0.75], axis=0).T
    assert np.allclose(mean_interval(posterior, rows, 0.5), ends)


def test_stretches_change_nothing(posterior, new, monkeypatch):
    rows = NewRows.of(posterior, **new)
    whole = [f(posterior, rows) for f in (mean_draws, outcome_mean, outcome_interval)]
    monkeypatch.setattr(prediction, "_ELEMENTS", 100)
    parts = [f(posterior, rows) for f in (mean_draws, outcome_mean, outcome_interval)]
    for a, b in zip(whole, parts, strict=True):
        assert np.allclose(a, b, rtol=1e-12)


def test_an_interval_of_outcomes_depends_on_its_row_alone(posterior, new):
    whole = outcome_interval(posterior, NewRows.of(posterior, **new))
    some = {name: values[::-3] for name, values in new.items()}
    assert np.array_equal(outcome_interval(posterior, NewRows.of(posterior, **some)), whole[::-3])
    assert (whole == np.round(whole)).all()
    assert (whole[:, 1] <= new["trials"]).all()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"x": [[1.0]]}, "2 column"),
        ({"x": [[1.0, np.nan]] * 50}, "finite"),
        ({"trials": None}, "needs trials"),
        ({"trials": [0.5] * 50}, "whole numbers .*0.5 in row 0"),
        ({"offset": [0.5]}, r"\(50,\)"),
    ],
)
def test_new_rows_are_checked(posterior, new, change, words):
    with pytest.raises(tb.TVDBayesError, match=words):
        NewRows.of(posterior, **{**new, **change})


def test_rows_far_outside_have_no_outcomes(counts):
    X, y, _ = counts
    model = RobustCountRegressor(n_draws=20).fit(X, y)
    with pytest.raises(tb.DataError, match="far outside the data"):
        model.predict_interval([[1e4, 0.0]], kind="outcome")
    assert np.isfinite(model.predict([[1e4, 0.0]])).all()
