"""Networks through the doors: the formula, scikit-learn, and files."""

# ruff: noqa: N803, N806 (scikit-learn calls the covariates X)

import pickle
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import (
    check_fit_idempotent,
    check_sample_weight_equivalence_on_dense_data,
    estimator_checks_generator,
    parametrize_with_checks,
)

import tvdbayes as tb
from tvdbayes.sampling.neural.trainer import Trainer
from tvdbayes.solvers import Solution, Status

mpl.use("Agg")

quiet = pytest.mark.filterwarnings("ignore::tvdbayes.TVDBayesWarning")
"""scikit-learn's checks fit a dozen rows, of which ours rightly warn."""

SMALL = {"hidden": (4,), "epochs": 5, "n_draws": 4}
NETWORK = tb.MLP(hidden=(4,), epochs=5)


class RoundingRegressor(tb.RobustMLPRegressor):
    """For the checks alone: what they feed becomes counts."""

    def fit(self, X, y=None, sample_weight=None):
        if y is not None and np.asarray(y).dtype.kind == "f":
            y = np.round(np.asarray(y))
        return super().fit(X, y, sample_weight)


@contextmanager
def no_training():
    """Networks stay where they begin: JAX takes seconds to compile for each new shape of table."""

    def stay(_, __, ___, start, *____):
        none = np.zeros(start.shape[1])
        status = np.full(none.size, int(Status.TRAINED))
        return Solution(start, none, status, none.astype(int), none, none)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Trainer, "train", stay)
        yield


@pytest.fixture
def untrained():
    with no_training():
        yield


def rows(seed=3, n=240):
    """Counts on a grid of covariates that repeat, and classes."""
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.integers(0, 3, n), rng.integers(0, 2, n)]).astype(float)
    y = rng.poisson(np.exp(0.5 + 0.4 * X[:, 0] * X[:, 1]))
    y[: n // 20] += 12
    label = np.array(["ant", "bee", "cat"])[(X.sum(1) + rng.integers(0, 2, n)).astype(int) % 3]
    return X, y, label


@pytest.fixture(scope="module")
def data():
    X, y, label = rows()
    return {
        **{"a": X[:, 0], "b": X[:, 1], "y": y, "label": label},
        **{"yes": (label == "cat").astype(int), "twice": 2 * X[:, 0], "none": 0 * y},
        **{"of": np.full(len(y), 5), "hours": 1.0 + X[:, 1], "seven": np.full(len(y), 7.0)},
        **{"region": np.where(X[:, 1] > 0, "north", "south"), "some": np.minimum(y, 5)},
    }


@pytest.fixture(scope="module")
def trained(data):
    return tb.fit("y ~ a + b", data, network=NETWORK, n_draws=4, ridge=1e-4)


@pytest.fixture(scope="module")
def drawn(data):
    with no_training():
        return tb.fit("y ~ a + region", data, network=NETWORK, n_draws=4)


def same_bits(one, other):
    return all(
        getattr(one, name).tobytes() == getattr(other, name).tobytes()
        for name in ("draws", "kld_draws", "minimiser", "distance", "status")
    )


# scikit-learn


# All of these pass with training, too; that takes minutes, so it is left to the checks below.
@quiet
@pytest.mark.usefixtures("untrained")
@parametrize_with_checks(
    [kind(**SMALL, partition="distinct") for kind in (tb.RobustMLPClassifier, RoundingRegressor)]
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


# Rounding aside, these feed fractional y, which is no count: scikit-learn has no tag for that.
FRACTIONAL = (
    *("check_fit_check_is_fitted", "check_fit_idempotent", "check_n_features_in"),
    *("check_n_features_in_after_fitting", "check_regressor_data_not_an_array"),
    *("check_regressors_no_decision_function", "check_regressors_train"),
)


@quiet
@pytest.mark.usefixtures("untrained")
def test_a_strict_regressor_fails_checks_with_fractional_counts_alone():
    failed = []
    for estimator, check in estimator_checks_generator(tb.RobustMLPRegressor(**SMALL)):
        if check.func.__name__ in FRACTIONAL:
            with pytest.raises(tb.DataError, match=r"whole numbers.*y\.round\(\)"):
                check(estimator)
            failed.append(check.func.__name__)
    assert set(failed) == set(FRACTIONAL)


@quiet
@pytest.mark.parametrize(
    "check", [check_fit_idempotent, check_sample_weight_equivalence_on_dense_data]
)
@pytest.mark.parametrize("kind", [tb.RobustMLPClassifier, RoundingRegressor])
def test_scikit_learn_checks_with_training(kind, check):
    check(kind.__name__, kind(**{**SMALL, "n_draws": 1}, partition="distinct"))


def test_the_doors_agree_bit_for_bit(trained):
    X, y, _ = rows()
    model = tb.RobustMLPRegressor(**SMALL).fit(X, y)
    assert model.posterior_.refine == trained.posterior.refine == "reweight"
    assert same_bits(model.posterior_, trained.posterior)
    frame = pd.DataFrame(X, columns=["a", "b"])
    assert np.array_equal(model.predict(X), trained.predict(frame)["mean"])


def test_a_weight_is_the_row_that_many_times():
    X, y, _ = rows()
    plain = tb.RobustMLPRegressor(**SMALL).fit(X, y)
    table, count = np.unique(np.column_stack([X, y])[::-1], axis=0, return_counts=True)
    weighted = tb.RobustMLPRegressor(**SMALL).fit(table[:, :2], table[:, 2], count)
    assert same_bits(plain.posterior_, weighted.posterior_)


def test_a_pickled_model_predicts_the_same():
    X, y, _ = rows()
    model = tb.RobustMLPRegressor(**SMALL).fit(X, y)
    again = pickle.loads(pickle.dumps(model))
    assert np.array_equal(again.predict(X), model.predict(X))
    assert same_bits(again.posterior_, model.posterior_)
    low, high = model.predict_interval(X).T
    assert ((low <= high) & (high < y.max())).all()
    assert model.score(X, y) == again.score(X, y) < 1


@quiet
@pytest.mark.usefixtures("untrained")
def test_two_or_three_classes():
    X, _, label = rows()
    for classes in (label, np.where(label == "cat", "yes", "no")):
        model = tb.RobustMLPClassifier(**SMALL).fit(X, classes)
        assert list(model.classes_) == sorted(set(classes))
        probabilities = model.predict_proba(X)
        assert probabilities.shape == (len(X), len(model.classes_))
        assert np.allclose(probabilities.sum(1), 1)
        assert set(model.predict(X)) <= set(classes)
        assert not hasattr(model, "coef_")


def test_networks_say_more_than_a_line_and_wrong_rows_do_not_drive_them():
    rng = np.random.default_rng(2)
    X = rng.integers(0, 5, (800, 1)).astype(float)
    mean = np.where(X[:, 0] < 3, 1.0, 8.0)
    y = rng.poisson(mean)
    y[:60] += 40
    network = tb.RobustMLPRegressor(hidden=(16,), n_draws=0, epochs=300)
    line, ordinary = tb.RobustCountRegressor(n_draws=0), clone(network).set_params(divergence="kld")
    off, line_off, ordinary_off = (
        np.abs(np.log(model.fit(X, y).predict(X) / mean)).mean()
        for model in (network, line, ordinary)
    )
    assert off < 0.75 * line_off
    assert off < 0.5 * ordinary_off


@pytest.mark.usefixtures("untrained")
@pytest.mark.parametrize("hidden", [4, [4], (4,), np.array([4]), (np.int64(4),), [np.int32(4)]])
def test_hidden_layers_may_be_written_in_many_ways(hidden):
    X, y, _ = rows()
    model = tb.RobustMLPRegressor(hidden, n_draws=0).fit(X, y)
    network = model.posterior_.model.predictor
    assert network.hidden == (4,)
    assert type(network.hidden[0]) is int
    assert network == tb.MLP(hidden=(4,))


@quiet
@pytest.mark.usefixtures("untrained")
def test_the_settings_reach_the_network():
    X, y, _ = rows()
    given = {
        **{"hidden": (3, 2), "activation": "tanh", "epochs": 7, "learning_rate": 0.02},
        **{"batch_rows": 32, "weight_decay": 0.0, "hold_out": 0.2},
    }
    model = tb.RobustMLPRegressor(family="negativebinomial", n_draws=0, **given).fit(X, y)
    assert model.posterior_.model == tb.Model(tb.NegativeBinomial(), tb.MLP(**given))


@pytest.mark.parametrize("kind", [tb.RobustMLPClassifier, tb.RobustMLPRegressor])
def test_training_is_by_default_as_that_of_networks(kind):
    defaults, settings = kind().get_params(), tb.MLP()
    names = ("hidden", "activation", "epochs", "learning_rate", "batch_rows", "weight_decay")
    for name in (*names, "hold_out"):
        assert defaults[name] == getattr(settings, name)
    assert clone(kind(hidden=[3], refine=None)).get_params() == kind([3], refine=None).get_params()


@pytest.mark.usefixtures("untrained")
@pytest.mark.parametrize(
    ("divergence", "refine"), [("tvd", "reweight"), ("hellinger", "reweight"), ("kld", None)]
)
def test_only_what_compares_groups_is_reweighted(divergence, refine, data):
    X, y, _ = rows()
    model = tb.RobustMLPRegressor(divergence=divergence, n_draws=0, hidden=(4,)).fit(X, y)
    assert model.posterior_.refine == refine
    fit = tb.fit("y ~ a", data, network=(4,), divergence=divergence, n_draws=0)
    assert fit.posterior.refine == refine


@quiet
@pytest.mark.usefixtures("untrained")
@pytest.mark.parametrize(
    "more", [[0.0], [7.0], [0.0, 7.0]], ids=["nothing", "constant", "nothing, and constant"]
)
def test_columns_that_say_nothing_do_no_harm(more):
    X, y, _ = rows()
    model = tb.RobustMLPRegressor(n_draws=0)
    wide = np.column_stack([X, np.tile(more, (len(X), 1))])
    assert np.isfinite(model.fit(wide, y).predict(wide)).all()
    assert np.isfinite(model.fit(wide[:, 2:], y).predict(wide[:, 2:])).all()
    # A network that has not seen a column change must not follow it.
    moved = wide[:3].copy()
    moved[:, 2:] += 5
    assert np.allclose(model.fit(wide, y).predict(moved), model.predict(wide[:3]), rtol=1e-9)


@quiet
@pytest.mark.usefixtures("untrained")
def test_it_works_in_a_pipeline_and_a_grid_search():
    X, y, label = rows()
    frame = pd.DataFrame(X, columns=["age", "hours"])
    chain = make_pipeline(StandardScaler(), tb.RobustMLPRegressor(**SMALL))
    chain.set_output(transform="pandas").fit(frame, y)
    assert list(chain[-1].feature_names_in_) == ["age", "hours"]
    assert "hidden1.1:age" in chain[-1].posterior_.param_names
    model = tb.RobustMLPClassifier(n_draws=0)
    search = GridSearchCV(model, {"hidden": [(2,), (4, 3)]}, cv=2).fit(X, label)
    assert search.best_params_["hidden"] in [(2,), (4, 3)]


BAD = [
    ({"hidden": (0,)}, ["hidden layers", "(0,)"]),
    ({"hidden": "50"}, ["hidden layers", "'50'"]),
    ({"hidden": True}, ["hidden layers", "True"]),
    ({"hidden": None}, ["hidden layers", "None"]),
    ({"hidden": (4.5,)}, ["hidden layers", "4.5"]),
    ({"activation": "sin"}, ["activation", "'sin'", "relu"]),
    ({"epochs": 0}, ["epochs", "0"]),
    ({"batch_rows": 1.5}, ["batch_rows", "1.5"]),
    ({"learning_rate": 0.0}, ["learning_rate", "0.0"]),
    ({"weight_decay": -1.0}, ["weight_decay", "-1.0"]),
    ({"hold_out": 1.0}, ["hold_out", "1.0"]),
    ({"refine": "twice"}, ["refine", "'twice'"]),
    ({"device": 3}, ["device", "3"]),
    ({"n_draws": -1}, ["n_draws", "-1"]),
    ({"divergence": "mmd"}, ["'mmd'", "hellinger"]),
    ({"family": "binomial"}, ["RobustMLPRegressor", "'binomial'", "trials"]),
    ({"family": "bernoulli"}, ["'bernoulli'", "RobustMLPClassifier"]),
]


@pytest.mark.parametrize(("given", "words"), BAD, ids=[str(words) for _, words in BAD])
def test_a_bad_setting_is_named(given, words):
    X, y, _ = rows()
    with pytest.raises(tb.TVDBayesError, match=r".") as caught:
        tb.RobustMLPRegressor(**{"n_draws": 0, **given}).fit(X, y)
    for word in words:
        assert word in str(caught.value)


def test_without_jax_an_estimator_can_be_made_but_not_fitted():
    code = """if True:
        import sys
        sys.modules.update(jax=None, optax=None)
        import numpy as np, tvdbayes as tb
        X, y = np.arange(40.0).reshape(20, 2) % 3, np.arange(20) % 2
        tb.RobustClassifier(n_draws=0, partition="distinct", divergence="kld").fit(X, y)
        network = tb.MLP(hidden=(4,))
        for ask in (
            lambda: tb.RobustMLPClassifier().fit(X, y),
            lambda: tb.RobustMLPRegressor().fit(X, y),
            lambda: tb.fit("y ~ x", {"x": X[:, 0], "y": y}, network=network),
        ):
            try:
                ask()
            except tb.SettingsError as error:
                print(error)
    """
    run = [sys.executable, "-W", "ignore", "-c", code]
    shown = subprocess.run(run, capture_output=True, text=True, check=True).stdout
    assert shown.count("pip install 'tvdbayes[jax]'") == 3


# The formula


@pytest.mark.usefixtures("untrained")
@pytest.mark.parametrize("network", [(4,), [4], 4, tb.MLP(hidden=(4,))], ids=repr)
def test_a_network_is_given_by_its_layers_or_whole(data, network):
    fit = tb.fit("y ~ a + b", data, network=network, n_draws=0)
    assert fit.posterior.model.predictor == tb.MLP(hidden=(4,))


@pytest.mark.usefixtures("untrained")
@pytest.mark.parametrize(
    ("formula", "given"),
    [
        ("y ~ 1", {}),
        ("y ~ 0 + a", {}),
        ("y ~ poly(a, 2) * region", {}),
        ("y ~ a + twice + seven", {}),
        ("y ~ a + twice", {"divergence": "kld"}),
        ("y ~ a", {"exposure": "hours"}),
        ("y ~ a", {"offset": "hours"}),
        ("y ~ a", {"weights": "of"}),
        ("y ~ a", {"family": "negativebinomial"}),
        ("y ~ a", {"family": "hurdle_poisson"}),
        ("yes ~ a", {"family": "bernoulli", "link": "probit"}),
        ("some / of ~ a", {"family": "binomial"}),
        ("label ~ a", {"family": "categorical"}),
        ("some ~ a", {"family": "ordinal"}),
    ],
)
def test_formulas_options_and_families_are_those_of_a_line(data, formula, given):
    fit = tb.fit(formula, data, network=NETWORK, n_draws=2, **given)
    assert fit.posterior.model.predictor == NETWORK
    assert np.isfinite(fit.draws).all()
    chances = fit.predict(kind="pmf").to_numpy()
    assert ((chances >= 0) & (chances <= 1)).all()


@pytest.mark.usefixtures("untrained")
def test_dependent_columns_can_still_be_dropped(data):
    with pytest.warns(tb.CollinearWarning, match="'twice'"):
        fit = tb.fit("y ~ a + twice", data, network=NETWORK, n_draws=2, collinear="drop")
    assert fit.left_out == ("twice",)
    assert fit.posterior.cells.names == ("Intercept", "a")


@pytest.mark.parametrize(
    ("formula", "given", "words"),
    [
        ("y ~ a + none", {}, "'none' is 0 in every row"),
        ("y ~ a", {"network": "50"}, "hidden layers .*'50'"),
        ("y ~ a", {"network": (0,)}, r"hidden layers .*\(0,\)"),
        ("y ~ a", {"network": True}, "hidden layers .*True"),
        ("y ~ a", {"refine": "twice"}, "refine .*'twice'"),
        (
            "y ~ a",
            {"family": "negativebinomial", "predictors": {"dispersion": "~ b"}},
            "constant; got covariates for 'dispersion'",
        ),
    ],
)
def test_what_a_network_cannot_do_is_refused(data, formula, given, words):
    with pytest.raises(tb.TVDBayesError, match=words):
        tb.fit(formula, data, n_draws=2, **{"network": NETWORK, **given})


def test_a_fit_says_that_it_is_a_network(trained):
    shown = repr(trained)
    for words in ("y ~ a + b", "Poisson network (4,) fit by tvd", "4 draws", "240 rows"):
        assert words in shown
    assert "mean tvd 0." in shown
    assert "100.0% trained networks" in shown
    page = trained._repr_html_()
    assert "trained" in page
    assert "hidden1" not in page


@pytest.mark.usefixtures("untrained")
def test_one_network_alone_can_be_shown(data):
    fit = tb.fit("y ~ a", data, network=NETWORK, n_draws=0)
    assert f", tvd {fit.posterior.minimiser_distance:.3g}" in repr(fit)
    assert "<table" not in fit._repr_html_()
    assert np.array_equal(fit.estimate, fit.posterior.minimiser)


def test_networks_that_were_not_trained_to_the_end_are_counted(drawn):
    status = np.array([Status.TRAINED, Status.OUT_OF_STEPS, Status.STALLED, Status.TRAINED])
    posterior = replace(drawn.posterior, status=status)
    assert "50.0% trained networks" in repr(posterior)
    assert "out of steps" in posterior._repr_html_()
    check = replace(drawn, posterior=posterior).check(misfit=False)
    assert "2 of 4 draws were still improving, or broke" in str(check)
    assert "All 4 draws were trained to the end" in str(check)


def test_the_estimate_is_a_network_and_not_a_mean_of_weights(drawn):
    plain = replace(drawn.posterior, refine=None)
    assert not plain.partition.pools_rows
    assert np.array_equal(plain.estimate, plain.minimiser)


ANSWERS = {
    "predict": lambda fit: fit.predict(),
    "predict_new": lambda fit: fit.predict({"a": [0.0, 9.0], "region": ["north", "south"]}),
    "predict_pmf": lambda fit: fit.predict(kind="pmf", ordinary=True),
    "predict_outcome": lambda fit: fit.predict(kind="outcome"),
    "predict_class": lambda fit: fit.predict(kind="class"),
    "sample": lambda fit: fit.sample(),
    "effects_of_numbers": lambda fit: fit.effects("a").draws,
    "effects_of_levels": lambda fit: fit.effects("region", ordinary=True).draws,
    "contrast": lambda fit: fit.contrast("a", 0, 1, ratio=True).draws,
    "predictions": lambda fit: fit.predictions({"a": [0, 1]}).draws,
    "score": lambda fit: fit.score().log,
    "score_new": lambda fit: fit.score({"y": [2], "a": [1.0], "region": ["north"]}).rps,
    "rootogram": lambda fit: fit.rootogram().expected,
    "calibration": lambda fit: fit.calibration(ordinary=True).predicted,
    "pit": lambda fit: fit.pit().density,
    "residuals": lambda fit: fit.residuals(),
    "observed": lambda fit: fit.observed("region").expected,
    "encode": lambda fit: fit.encode({"a": [0.0], "region": ["north"]}),
    "misfit": lambda fit: fit.misfit(n_replicates=20).draws,
    "misfit_by": lambda fit: fit.misfit(by="region", n_replicates=20).draws,
    "certificate": lambda fit: fit.misfit(n_replicates=20, certificate=0.9).certificate.upper,
    "rows": lambda fit: fit.rows(n_replicates=20)["score"],
    "cells": lambda fit: fit.cells(n_replicates=20)["expected"],
    "leave_one_out": lambda fit: fit.leave_one_out(n_draws=2).robust.log,
    "cross_validate": lambda fit: fit.cross_validate(2, n_draws=2).robust.log,
    "compare": lambda fit: tb.compare({"one": fit, "two": fit}, n_folds=2, n_draws=2)["log"],
    "arviz": lambda fit: fit.to_arviz()["log_likelihood"]["y"],
}


@quiet
@pytest.mark.usefixtures("untrained")
@pytest.mark.parametrize("answer", ANSWERS)
def test_a_network_answers(drawn, answer):
    found = np.asarray(ANSWERS[answer](drawn), float)
    assert found.size
    assert np.isfinite(found).all()


@quiet
@pytest.mark.usefixtures("untrained")
def test_a_network_is_checked_without_its_weights(drawn):
    shown = str(drawn.check(misfit=False))
    assert "All 4 draws were trained to the end" in shown
    assert "hidden" not in shown
    assert "certified" not in shown


@quiet
@pytest.mark.usefixtures("untrained")
@pytest.mark.parametrize(
    "picture",
    ["misfit", "rootogram", "calibration", "rows", "pit", "residuals", "bands"],
)
def test_a_network_is_drawn(drawn, picture, monkeypatch):
    import matplotlib.pyplot as plt

    from tvdbayes.fitting import misfit as _misfit

    monkeypatch.setattr(_misfit, "N_REPLICATES", 20)
    assert getattr(drawn.plot, picture)(*["a"] * (picture == "bands"))
    plt.close("all")


REFUSALS = {
    "summary": lambda fit: fit.summary(),
    "posterior": lambda fit: fit.posterior.summary(),
    "sensitivity": lambda fit: fit.sensitivity(),
    "drop_worst": lambda fit: fit.drop_worst(),
    "report": lambda fit: fit.report("never.html"),
    "coefficients": lambda fit: fit.plot.coefficients(),
    "plot_sensitivity": lambda fit: fit.plot.sensitivity(),
}


@pytest.mark.parametrize("question", REFUSALS)
def test_what_needs_coefficients_says_what_to_ask_instead(drawn, question):
    with pytest.raises(tb.SettingsError, match=r"A network has no coefficients .*; ask for .*"):
        REFUSALS[question](drawn)


@pytest.mark.usefixtures("untrained")
def test_draws_that_exist_are_not_trained_again(data, drawn):
    ask = partial(tb.fit, "y ~ a + region", data, network=NETWORK)
    more = ask(n_draws=6, resume=drawn)
    assert same_bits(more.posterior, ask(n_draws=6).posterior)
    assert np.array_equal(more.draws[:4], drawn.draws)


# Files


def test_a_trained_network_comes_back_from_its_file(data, trained, tmp_path):
    trained.save(tmp_path / "fit.tvd")
    again = tb.load(tmp_path / "fit.tvd")
    assert again.posterior.model == trained.posterior.model
    assert same_bits(again.posterior, trained.posterior)
    assert again.predict(data).equals(trained.predict(data))
    assert repr(again) == repr(trained)
