"""The Python call on the page makes the same fit again, bit for bit, whatever was asked for."""

import inspect
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import tvdbayes as tb
from tvdbayes.fitting.story import story_of
from tvdbayes.models.families import ALL_FAMILIES
from tvdbayes.models.model import Model
from tvdbayes.objective.divergences import ALL_DIVERGENCES
from tvdbayes.report import render
from tvdbayes.report._story import call_of, code_of
from tvdbayes.sampling.bootstrap import posterior_bootstrap
from tvdbayes.sampling.options import OPTIONS

NO_MATTER = {name for name, option in OPTIONS.items() if not option.draws}
"""Options that change how draws are computed, and no draw."""

ANEW = {"device", "engine", "grid", "max_cells"}
"""Options of how rows were read and draws computed, which an update does not take over."""


def table(n=60):
    rng = np.random.default_rng(4)
    z = rng.integers(0, 2, n)
    y = rng.poisson(np.exp(0.8 + 0.3 * z))
    y[:5] += 9
    gaps = z.astype(float)
    gaps[[5, 9]] = np.nan
    g = np.random.default_rng(5).choice(["a", "b", "c"], n)
    return pd.DataFrame(
        {
            "y": y,
            "z": z,
            "x": rng.normal(size=n),
            "g": rng.choice(["a", "b", "c"], n),
            "level": rng.choice(["low", "middle", "high"], n),
            "yes": (rng.random(n) < 0.4).astype(int),
            "answer": np.where(rng.random(n) < 0.4, "yes", "no"),
            "years": rng.choice([1.0, 2.0], n),
            "times": rng.integers(1, 4, n),
            "n": np.full(n, 5),
            "s": rng.binomial(5, 0.3, n),
            "large": rng.poisson(30 + 9 * z),
            "gaps": gaps,
            "twice": 2 * z,
            "patient": np.arange(n) // 2,
            "stratum": g,
            "within": [f"{name}{i % 7}" for i, name in enumerate(g)],
        }
    )


def atoms(rng, size):
    z = rng.integers(0, 3, size)
    return np.column_stack([np.ones(size), z]), rng.poisson(3, size)


BASE = tb.Cells.from_rows([[1, 0], [1, 1], [1, 2]], [1, 2, 9], names=("Intercept", "z"))
OWN = tb.CustomFamily(
    lambda y, q: y * np.log(q) + np.log1p(-q),
    (0, None),
    {"q": "logit"},
    score=lambda y, q: [y / q - 1 / (1 - q)],
    curvature=lambda y, q: [[-y / q**2 - 1 / (1 - q) ** 2]],
)
KINDS = (tb.Cluster("spread", 1.5, 2), tb.Cluster("tail", 3.0, 1))


def connection():
    ibis = pytest.importorskip("ibis")
    made = ibis.duckdb.connect()
    made.con.register("visits", table())
    return made


CASES = {
    "family": [
        ("y ~ 1", {"family": tb.Poisson()}),
        ("y ~ 1", {"family": "zero_inflated_poisson"}),
        ("y ~ 1", {"family": tb.Censored(tb.Poisson(), 40)}),
        ("s ~ 1", {"family": tb.BetaBinomial(tb.Probit()), "trials": "n"}),
        ("g ~ 1", {"family": "categorical"}),
        ("level ~ 1", {"family": tb.Ordinal(("low", "middle", "high"), tb.Cloglog())}),
        ("y ~ 1", {"family": OWN}),
    ],
    "link": [("yes ~ 1", {"family": "bernoulli", "link": "probit"})],
    "success": [("answer ~ z", {"family": "bernoulli", "success": "no"})],
    "divergence": [
        ("y ~ 1", {"divergence": "kld"}),
        ("y ~ 1", {"divergence": tb.PowerDivergence(0.3)}),
        ("y ~ 1", {"divergence": tb.DensityPower(0.2)}),
    ],
    "n_draws": [("y ~ 1", {"n_draws": 7})],
    "seed": [("y ~ 1", {"seed": 11})],
    "offset": [("y ~ 1", {"offset": "x"})],
    "exposure": [("y ~ 1", {"exposure": "years"})],
    "trials": [
        ("s ~ 1", {"family": "binomial", "trials": "n"}),
        ("s ~ 1", {"family": "binomial", "trials": 7}),
    ],
    "weights": [("y ~ 1", {"weights": "times"})],
    "clusters": [("y ~ z", {"clusters": "patient"})],
    "strata": [
        ("y ~ z", {"strata": "stratum"}),
        ("y ~ z", {"strata": "stratum", "clusters": "within"}),
    ],
    "sampling_weights": [("y ~ z", {"sampling_weights": "years"})],
    "partition": [
        ("y ~ x", {"partition": "distinct"}),
        ("y ~ x", {"partition": "singletons"}),
        ("y ~ x", {"partition": tb.Auto(KINDS)}),
    ],
    "alpha": [("y ~ z", {"alpha": 20.5, "base_measure": BASE})],
    "base_measure": [("y ~ z", {"alpha": 30, "base_measure": atoms})],
    "n_atoms": [("y ~ z", {"alpha": 30, "base_measure": atoms, "n_atoms": 9})],
    "ridge": [
        ("y ~ x", {"ridge": 0.05}),
    ],
    "bins": [("large ~ 1", {"bins": "none"}), ("large ~ 1", {"bins": [0, 25, 30, 40]})],
    "predictors": [
        ("y ~ 1", {"family": "hurdle_poisson", "predictors": {"zero": "~ C(z)"}}),
    ],
    "network": [
        ("y ~ z", {"network": tb.MLP((2, 3), activation="tanh", epochs=2, hold_out=0.0)}),
    ],
    "refine": [
        ("y ~ 1", {"refine": "reweight"}),
        ("y ~ z", {"refine": "trim"}),
        ("y ~ z", {"refine": None, "network": tb.MLP()}),
    ],
    "missing": [("y ~ gaps", {"missing": "drop"})],
    "zero_exposure": [("y ~ 1", {"exposure": "z", "zero_exposure": "drop"})],
    "collinear": [("y ~ z + twice", {"collinear": "drop"})],
    "device": [("y ~ 1", {"device": "cpu:float32"})],
    "engine": [
        ("y ~ z", {"engine": "duckdb"}),
        ("y ~ z", {"engine": "memory"}),
        ("y ~ z", {"engine": connection}),
    ],
    "grid": [
        ("y ~ x", {"grid": tb.Grid(5, "quantile", ("x",), 1000)}),
    ],
    "max_cells": [("y ~ z", {"engine": "duckdb", "max_cells": 500})],
}
"""For every option of `fit` that draws depend on: formulas and options that set it."""

LIST = [(option, formula, given) for option in CASES for formula, given in CASES[option]]
NAMES = [f"{option}-{number}" for number, (option, _, _) in enumerate(LIST)]


def made(formula, given):
    """The data, the options, and the fit."""
    given = dict(given)
    if given.keys() & {"engine", "grid"} and given.get("engine") != "memory":
        pytest.importorskip("ibis")
    data = table()
    if given.get("engine") is connection:
        given["engine"], data = connection(), "visits"
    return data, given, made_of(formula, data, given)


def made_of(formula, data, given):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tb.TVDBayesWarning)
        return tb.fit(formula, data, **{"n_draws": 3, **given})


@pytest.fixture
def seen(monkeypatch):
    """What reaches the bootstrap of a network or on a device, which take long: a line is fitted."""
    reached = []

    def stand_in(model, cells, *, device, **options):
        reached.append((model.predictor, device))
        return replace(posterior_bootstrap(Model(model.family), cells, **options), model=model)

    monkeypatch.setattr("tvdbayes.fitting.run.posterior_bootstrap", stand_in)
    return reached


def run(text, **names):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tb.TVDBayesWarning)
        exec(text, names)
    return names["fit"]


def test_every_option_of_fit_is_tried_here():
    options = list(inspect.signature(tb.fit).parameters)[2:]
    assert set(CASES) | NO_MATTER == set(options)
    assert not set(CASES) & NO_MATTER


@pytest.mark.slow
@pytest.mark.parametrize(("option", "formula", "given"), LIST, ids=NAMES)
def test_the_printed_call_gives_the_same_bits(option, formula, given, request):
    seen = request.getfixturevalue("seen") if given.keys() & {"network", "device"} else [None] * 2
    data, given, fit = made(formula, given)
    call = call_of(fit)
    assert f"    {option}=" in call.text
    again = run(call.text, data=data, **{name: given[name] for name in call.left_open})
    np.testing.assert_array_equal(again.draws, fit.draws)
    np.testing.assert_array_equal(again.kld_draws, fit.kld_draws)
    np.testing.assert_array_equal(again.posterior.minimiser, fit.posterior.minimiser)
    assert seen[0] == seen[1]
    # The fit that was made again was asked for the same.
    assert call_of(again) == call


@pytest.mark.slow
@pytest.mark.parametrize(("option", "formula", "given"), LIST, ids=NAMES)
def test_options_survive_a_file_and_an_update(option, formula, given, request, tmp_path):
    if given.keys() & {"network", "device"}:
        request.getfixturevalue("seen")
    _, given, fit = made(formula, given)
    if "network" in given:
        # A line was fitted, so that a line is saved; the network is among the options.
        line = Model(fit.posterior.model.family)
        fit = replace(fit, posterior=replace(fit.posterior, model=line))
    fit.save(tmp_path / "fit.tvd")
    own = fit.posterior.model.family if given.get("family") is OWN else None
    loaded = tb.load(tmp_path / "fit.tvd", family=own)
    assert loaded.options.changed().keys() == fit.options.changed().keys()
    assert option in loaded.options.changed()
    data = table()
    if fit.rounded is not None or callable(given.get("base_measure")):
        with pytest.raises((tb.DataError, tb.SettingsError)):
            loaded.update(data[:9])
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tb.TVDBayesWarning)
        both = loaded.update(data)
    wanted = {name: value for name, value in given.items() if name not in ANEW}
    again = made_of(formula, pd.concat([data, data]), wanted)
    assert call_of(both) == call_of(again)
    np.testing.assert_array_equal(both.draws, again.draws)
    np.testing.assert_array_equal(both.kld_draws, again.kld_draws)


@pytest.mark.parametrize("given", [{"n_jobs": 1}, {"progress": False}, {"resume": True}], ids=str)
def test_options_that_are_not_printed_change_no_draw(given):
    data = table()
    fit = tb.fit("y ~ z", data, n_draws=3)
    if "resume" in given:
        given = {"resume": tb.fit("y ~ z", data, n_draws=2)}
    other = tb.fit("y ~ z", data, n_draws=3, **given)
    assert call_of(other) == call_of(fit)
    np.testing.assert_array_equal(other.draws, fit.draws)


@pytest.mark.parametrize(
    "value",
    [
        *(None, True, 3, 0.1, float("inf"), "it's", np.float64(0.1), np.int64(6), (), (2,)),
        *({"zero": "~ C(g)"}, tb.MLP((2, 3)), tb.KMeansGroups(KINDS), tb.Grid(6)),
        *ALL_DIVERGENCES,
        *ALL_FAMILIES,
    ],
    ids=repr,
)
def test_values_are_written_as_python_that_makes_them(value):
    assert eval(code_of(value), {"tb": tb}) == value


def test_only_what_differs_from_the_defaults_is_printed():
    fit = tb.fit("y ~ z", table(), n_draws=3, seed=0, partition="auto", divergence=tb.TVD())
    assert fit.options.changed() == {"n_draws": 3}
    assert repr(fit.options) == "Options(n_draws=3)"
    assert call_of(fit).text.endswith("fit = tb.fit(\n    'y ~ z',\n    data,\n    n_draws=3,\n)")


@pytest.mark.parametrize(
    "given",
    [
        {"alpha": 5.0, "base_measure": atoms},
        {"alpha": 5.0, "base_measure": BASE},
        {"family": OWN},
        {"family": tb.ZeroInflated(OWN)},
        {"engine": connection},
    ],
    ids=["function", "table", "own", "wrapped", "connection"],
)
def test_what_text_cannot_hold_is_left_open_and_said_to_be(given):
    data, given, fit = made("y ~ z", given)
    call = call_of(fit)
    (name,) = call.left_open
    assert f"    {name}={name}," in call.text
    assert name in call.note
    with pytest.raises(NameError, match=name):
        run(call.text, data=data)


def test_the_page_says_what_the_call_leaves_open():
    fit = tb.fit("y ~ 1", table(), family=OWN, n_draws=2)
    assert call_of(fit).note in " ".join(render(story_of(fit)).split())


@pytest.mark.parametrize(
    ("formula", "given"),
    [
        ("y ~ x", {"partition": tb.KMeansGroups(KINDS), "ridge": 0.05, "seed": 3}),
        ("large ~ 1", {"bins": [0, 25, 30, 40], "divergence": tb.PowerDivergence(0.3)}),
        ("y ~ x", {"grid": tb.Grid(5, "quantile", ("x",), 1000), "max_cells": 4000}),
        ("y ~ z", {"engine": connection, "weights": "times"}),
        ("y ~ z", {"alpha": 5.0, "base_measure": atoms, "n_atoms": 7}),
    ],
)
def test_a_file_keeps_the_call(formula, given, tmp_path):
    _, _, fit = made(formula, given)
    fit.save(tmp_path / "fit.tvd")
    assert call_of(tb.load(tmp_path / "fit.tvd")) == call_of(fit)


def test_rows_that_were_added_are_part_of_the_data_of_the_call():
    data = table()
    fit = tb.fit("y ~ z", data[:40], n_draws=3, ridge=0.05, engine="memory")
    both = fit.update(data[40:])
    call = call_of(both)
    assert "engine" not in call.text
    np.testing.assert_array_equal(run(call.text, data=data).draws, both.draws)
