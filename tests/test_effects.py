"""Effects, contrasts and average predictions: the formula by hand, draw by draw."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from scipy.interpolate import BSpline
from scipy.special import expit
from scipy.stats import norm

import tvdbayes as tb
from tables import FEW_ROWS
from tvdbayes.models.families import ALL_FAMILIES
from tvdbayes.results import effects as arrays
from tvdbayes.results import prediction
from tvdbayes.results.effects import average_outcome, average_slope, row_slopes
from tvdbayes.results.prediction import NewRows

pytestmark = FEW_ROWS


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(12)
    n = 300
    made = pd.DataFrame(
        {
            "x": rng.normal(size=n),
            "z": 0.05 + rng.exponential(size=n),
            "k": rng.integers(0, 3, n),
            "g": rng.choice(["a", "b", "c"], n),
            "b": rng.random(n) < 0.4,
            "hours": rng.uniform(0.5, 2.0, n),
            "copies": rng.integers(0, 4, n),
            "out_of": rng.integers(2, 9, n),
        }
    )
    rate = np.exp(0.5 + 0.3 * made["x"] - 0.2 * (made["g"] == "b"))
    made["visits"] = rng.poisson(rate * made["hours"])
    made["sick"] = (rng.random(n) < expit(0.4 * made["x"] - 0.2 + 0.5 * made["b"])).astype(int)
    made["hits"] = rng.binomial(made["out_of"], expit(0.3 * made["x"]))
    made["mode"] = rng.choice(["bus", "car", "train"], n)
    return made


def quick(formula, data, **options):
    """The ordinary divergence: effects are formulas of the draws, however these were found."""
    return tb.fit(formula, data, **{"divergence": "kld", "n_draws": 6, "ridge": 0.01, **options})


def column(fit, name):
    return fit.draws[:, [fit.param_names.index(name)]]


def rates(fit, frame, **changes):
    """Expected counts (B, n) of a Poisson fit, by hand."""
    x = fit.encode(frame.assign(**changes))
    return np.exp(fit.draws @ x.T)


def shut(value, wanted):
    np.testing.assert_allclose(value, wanted, rtol=1e-6, atol=1e-12)


# Slopes of columns of numbers


def test_poisson_slopes_are_coefficient_times_mean(frame):
    fit = quick("visits ~ x + z + g", frame)
    mu = rates(fit, frame)
    for name in ("x", "z"):
        effect = fit.effects(name)
        assert effect.names == (name,)
        shut(effect.draws, (column(fit, name) * mu).mean(1, keepdims=True))
    assert "slope in z of expected visits, over 300 rows" in fit.effects("z").what


@pytest.mark.parametrize(
    ("formula", "slope"),
    [
        ("visits ~ log(z)", lambda c, d: c("log(z)") / d.z),
        ("visits ~ log(z) + z", lambda c, d: c("log(z)") / d.z + c("z")),
        ("visits ~ sqrt(z) + x", lambda c, d: c("sqrt(z)") / (2 * np.sqrt(d.z))),
        ("visits ~ log1p(z)", lambda c, d: c("log1p(z)") / (1 + d.z)),
        ("visits ~ I(1 / z)", lambda c, d: -c("I(1 / z)") / d.z**2),
        ("visits ~ z + I(z**2)", lambda c, d: c("z") + 2 * c("I(z ** 2)") * d.z),
        ("visits ~ z*x", lambda c, d: c("z") + c("z:x") * d.x),
        ("visits ~ z:x:b + x", lambda c, d: c("z:x:b") * d.x * d.b),
        (
            "visits ~ z*g",
            lambda c, d: c("z") + c("z:g[T.b]") * (d.g == "b") + c("z:g[T.c]") * (d.g == "c"),
        ),
        ("visits ~ exp(z / 9) + x", lambda c, d: c("exp(z / 9)") * np.exp(d.z / 9) / 9),
        ("visits ~ scale(z) + x", lambda c, d: c("scale(z)") / d.z.std(ddof=1)),
        ("visits ~ center(z)*x", lambda c, d: c("center(z)") + c("center(z):x") * d.x),
    ],
)
def test_slopes_go_through_every_transform(frame, formula, slope):
    fit = quick(formula, frame)
    named = {name: column(fit, name) for name in fit.param_names}
    data = frame.assign(g=frame["g"].astype(object))
    truth = slope(named.__getitem__, _Rows(data)) * rates(fit, frame)
    shut(fit.effects("z").draws, truth.mean(1, keepdims=True))


class _Rows:
    """Columns of a frame as arrays."""

    def __init__(self, frame):
        for name in frame:
            setattr(self, name, frame[name].to_numpy())


def test_slopes_of_orthogonal_polynomials(frame):
    fit = quick("visits ~ poly(x, 3)", frame)
    x, basis = frame["x"].to_numpy(), fit.encode(frame)
    derivative = np.column_stack(
        [np.polyval(np.polyder(np.polyfit(x, one, 3)), x) for one in basis.T]
    )
    truth = (fit.draws @ derivative.T) * rates(fit, frame)
    shut(fit.effects("x").draws, truth.mean(1, keepdims=True))


@pytest.mark.parametrize("degree", [2, 3])
def test_slopes_of_splines_hold_at_their_ends_and_knots(frame, degree):
    rough = frame.assign(x=frame["x"].round(1))  # so that some rows lie on knots
    term = f"bs(x, df={degree + 3}, degree={degree})"
    fit = quick(f"visits ~ {term}", rough)
    knots = np.array(fit.encoding.transform_state[term]["knots"])
    basis = BSpline(knots, np.eye(len(knots) - degree - 1), degree)
    x = rough["x"].to_numpy()
    assert set(knots) <= set(x)
    derivative = np.column_stack([np.zeros(len(x)), basis.derivative()(x)[:, 1:]])
    truth = (fit.draws @ derivative.T) * rates(fit, rough)
    shut(fit.effects("x").draws, truth.mean(1, keepdims=True))


def test_slopes_with_offset_and_exposure(frame):
    fit = quick("visits ~ x", frame, exposure="hours", offset="z")
    mu = rates(fit, frame) * (frame["hours"] * np.exp(frame["z"])).to_numpy()
    shut(fit.effects("x").draws, (column(fit, "x") * mu).mean(1, keepdims=True))
    # A column may be an offset too, and then works through both.
    both = quick("visits ~ z", frame, offset="z")
    mu = rates(both, frame) * np.exp(frame["z"].to_numpy())
    shut(both.effects("z").draws, ((column(both, "z") + 1) * mu).mean(1, keepdims=True))
    shut(fit.effects("hours").draws, (mu_by_hour(fit, frame)).mean(1, keepdims=True))


def mu_by_hour(fit, frame):
    return rates(fit, frame) * np.exp(frame["z"].to_numpy())


@pytest.mark.parametrize("link", ["logit", "probit"])
def test_binary_slopes_are_coefficient_times_density(frame, link):
    fit = quick("sick ~ x + g", frame, family="bernoulli", link=link)
    eta = fit.draws @ fit.encode(frame).T
    density = expit(eta) * expit(-eta) if link == "logit" else norm.pdf(eta)
    shut(fit.effects("x").draws, (column(fit, "x") * density).mean(1, keepdims=True))


def test_slopes_of_successes_count_the_trials_of_each_row(frame):
    fit = quick("hits ~ x", frame, family="binomial", trials="out_of")
    prob = expit(fit.draws @ fit.encode(frame).T)
    truth = column(fit, "x") * prob * (1 - prob) * frame["out_of"].to_numpy()
    shut(fit.effects("x").draws, truth.mean(1, keepdims=True))


def test_slopes_go_through_inflation_too(frame):
    fit = quick(
        "visits ~ x + log(z)",
        frame,
        family="zero_inflated_poisson",
        predictors={"inflation": "~ z + x:b"},
    )
    at = {name: column(fit, name) for name in fit.param_names}
    x, z, b = (frame[name].to_numpy(float) for name in "xzb")
    mu = np.exp(at["Intercept"] + at["x"] * x + at["log(z)"] * np.log(z))
    odds = at["inflation:Intercept"] + at["inflation:z"] * z + at["inflation:x:b"] * x * b
    zero = expit(odds)
    slope = (1 - zero) * mu * at["log(z)"] / z - zero * (1 - zero) * mu * at["inflation:z"]
    shut(fit.effects("z").draws, slope.mean(1, keepdims=True))
    slope = (1 - zero) * mu * at["x"] - zero * (1 - zero) * mu * at["inflation:x:b"] * b
    shut(fit.effects("x").draws, slope.mean(1, keepdims=True))
    shut(fit.predictions().draws, ((1 - zero) * mu).mean(1, keepdims=True))


@pytest.mark.parametrize("family", ALL_FAMILIES, ids=repr)
def test_the_slope_of_every_family_is_the_limit_of_its_differences(family):
    rng = np.random.default_rng(4)
    n, trials = 40, np.full(40, 4.0 if family.needs_trials else 1.0)
    x = np.column_stack([np.ones(n), rng.normal(size=n)])
    y = family.sample(rng, np.full((len(family.predictors), n), 0.2), trials)
    cells = tb.Cells.from_rows(x, y, trials=trials)
    model = tb.Model(family)
    d = len(model.param_names(cells))
    posterior = made_posterior(model, cells, 0.3 * rng.normal(size=(3, d)))
    given = trials if family.needs_trials else None
    change = np.column_stack([np.zeros(n), np.cos(x[:, 1]), np.zeros(n)])

    def average(t, outcomes):
        rows = NewRows.of(posterior, x + t * change[:, :2], trials=given)
        return average_outcome(posterior, rows, np.ones(n), outcomes)

    rows = NewRows.of(posterior, x, trials=given)
    pair = (1.0, 2.0) if family.possible(np.array(2.0), trials).all() else (0.0, 1.0)
    for outcomes in (None, pair):
        slope = average_slope(posterior, rows, np.ones(n), change, outcomes)
        h = 1e-3
        near = (average(h, outcomes) - average(-h, outcomes)) / (2 * h)
        far = (average(2 * h, outcomes) - average(-2 * h, outcomes)) / (4 * h)
        np.testing.assert_allclose(slope, (4 * near - far) / 3, rtol=1e-6, atol=1e-9)


def made_posterior(model, cells, draws):
    """A record with these draws, for functions that ask for nothing else."""
    found = tb.posterior_bootstrap(
        tb.Model(tb.Poisson()), tb.Cells.from_rows(cells.x, np.arange(len(cells.y)) % 3), n_draws=0
    )
    return replace(
        found,
        model=model,
        cells=cells,
        draws=draws,
        kld_draws=draws[::-1],
        minimiser=draws[0],
        kld_minimiser=draws[1],
    )


@pytest.mark.parametrize(
    ("function", "derivative"),
    [
        (np.log, lambda x: 1 / x),
        (np.sqrt, lambda x: 0.5 / np.sqrt(x)),
        (np.exp, np.exp),
        (lambda x: x**5, lambda x: 5 * x**4),
        (lambda x: np.sin(30 * x), lambda x: 30 * np.cos(30 * x)),
        (lambda x: 1e6 + x, np.ones_like),
        (lambda x: np.abs(x - 1) ** 3, lambda x: 3 * np.abs(x - 1) * (x - 1)),
    ],
)
def test_derivatives_are_right_to_a_millionth_wherever_x_lies(function, derivative):
    x = np.concatenate([[1e-7, 1e-4, 0.01], np.linspace(0.02, 3, 200), [1.0, 1.0001]])
    found = row_slopes(lambda v, _: function(v)[:, None], x, 1.0, (x.min(), x.max()))
    np.testing.assert_allclose(found[:, 0], derivative(x), rtol=1e-7, atol=1e-7)


def test_no_value_outside_the_range_is_asked_for():
    x, asked = np.linspace(0, 1, 50), []

    def square(values, rows):
        asked.append((values.min(), values.max(), rows.max()))
        return np.column_stack([values**2, rows * values])

    found = row_slopes(square, x, 0.3, (0.0, 1.0))
    np.testing.assert_allclose(found, np.column_stack([2 * x, np.arange(50)]), atol=1e-9)
    assert np.min(asked, axis=0)[0] >= 0
    assert np.max(asked, axis=0)[1] <= 1


def test_a_column_without_a_slope_is_named(frame):
    touching = frame.assign(z=frame["z"].where(frame.index > 2, 0.0))
    fit = quick("visits ~ sqrt(z)", touching)
    with pytest.raises(tb.DataError, match=r"'sqrt\(z\)' has no finite slope in 'z'.* 0"):
        fit.effects("z")
    assert np.isfinite(fit.effects("z", at={"z": 1.0}).draws).all()


def test_a_column_that_never_moves_has_a_slope_all_the_same(frame):
    fit = quick("visits ~ z + x", frame.assign(z=3.0))
    truth = (column(fit, "z") * rates(fit, frame, z=3.0)).mean(1, keepdims=True)
    shut(fit.effects("z").draws, truth)


def test_a_slope_at_a_value(frame):
    fit = quick("visits ~ x + I(x**2) + g", frame)
    c1, c2 = column(fit, "x"), column(fit, "I(x ** 2)")
    truth = (c1 + 2 * c2 * 0.7) * rates(fit, frame, x=0.7, g="b")
    effect = fit.effects("x", at={"x": 0.7, "g": "b"})
    shut(effect.draws, truth.mean(1, keepdims=True))
    assert "at x=0.7, g=b" in effect.what


# Levels, contrasts, averages


def test_levels_are_compared_with_the_first(frame):
    fit = quick("visits ~ x*g + b", frame)
    means = {level: rates(fit, frame, g=level).mean(1) for level in "abc"}
    effect = fit.effects("g")
    assert effect.names == ("g: b - a", "g: c - a")
    truth = np.column_stack([means["b"] - means["a"], means["c"] - means["a"]])
    shut(effect.draws, truth)
    yes, no = (rates(fit, frame, b=value).mean(1) for value in (True, False))
    assert fit.effects("b").names == ("b: True - False",)
    shut(fit.effects("b").draws[:, 0], yes - no)


def test_numbers_that_the_formula_takes_as_categories_have_levels(frame):
    fit = quick("visits ~ C(k) + x", frame)
    effect = fit.effects("k")
    assert effect.names == ("k: 1 - 0", "k: 2 - 0")
    shut(effect.draws[:, 1], (rates(fit, frame, k=2) - rates(fit, frame, k=0)).mean(1))
    assert quick("visits ~ k", frame).effects("k").names == ("k",)


def test_categories_keep_their_order(frame):
    ordered = frame.assign(g=pd.Categorical(frame["g"], ["c", "b", "a"], ordered=True))
    assert quick("visits ~ g", ordered).effects("g").names == ("g: b - c", "g: a - c")


def test_contrasts_are_differences_or_ratios_of_averages(frame):
    fit = quick("visits ~ x*g + log(z)", frame, exposure="hours")
    hours = frame["hours"].to_numpy()

    def mean(**changes):
        return (rates(fit, frame, **changes) * hours).mean(1)

    c, a = mean(g="c", x=0.5), mean(g="a", x=0.5)
    found = fit.contrast("g", "c", "a", at={"x": 0.5})
    assert found.names == ("g: c - a",)
    shut(found.draws[:, 0], c - a)
    found = fit.contrast("g", "c", "a", at={"x": 0.5}, ratio=True)
    assert found.names == ("g: c / a",)
    shut(found.draws[:, 0], c / a)
    found = fit.contrast("z", 2, 0.5)
    assert found.names == ("z: 2 - 0.5",)
    shut(found.draws[:, 0], mean(z=2) - mean(z=0.5))
    doubled = fit.contrast("hours", 2.0, 1.0, ratio=True)
    shut(doubled.draws, np.full((6, 1), 2.0))


def test_predictions_cover_every_combination(frame):
    fit = quick("visits ~ x*g + z", frame)
    found = fit.predictions({"x": [0, 1.5], "g": ["a", "c"]})
    assert found.names == ("x=0, g=a", "x=0, g=c", "x=1.5, g=a", "x=1.5, g=c")
    truth = [rates(fit, frame, x=x, g=g).mean(1) for x in (0, 1.5) for g in "ac"]
    shut(found.draws, np.column_stack(truth))
    shut(fit.predictions().draws[:, 0], rates(fit, frame).mean(1))
    assert fit.predictions({"g": "b"}).names == ("g=b",)


def test_levels_of_the_outcome_have_a_column_each(frame):
    fit = quick("mode ~ x + g", frame, family="categorical")
    eta = np.stack([fit.draws[:, :4] @ fit.encode(frame).T, fit.draws[:, 4:] @ fit.encode(frame).T])
    mass = np.concatenate([np.ones_like(eta[:1]), np.exp(eta)])
    prob = mass / mass.sum(0)
    slopes = np.stack([0 * column(fit, "car:x"), column(fit, "car:x"), column(fit, "train:x")])
    truth = prob * (slopes - (prob * slopes).sum(0))
    effect = fit.effects("x")
    assert effect.names == ("x, P(bus)", "x, P(car)", "x, P(train)")
    shut(effect.draws, truth.mean(2).T)
    shut(effect.draws.sum(1), np.zeros(6))
    shut(fit.effects("x", outcome="car").draws, truth.mean(2).T[:, [1]])
    assert fit.contrast("g", "b", "a").names[0] == "g: b - a, P(bus)"
    shut(fit.predictions({"g": ["a", "b"]}).draws.sum(1), np.full(6, 2.0))


def test_the_probability_of_a_count(frame):
    fit = quick("visits ~ x", frame)
    mu = rates(fit, frame)
    effect = fit.effects("x", outcome=0)
    assert effect.names == ("x, P(0)",)
    shut(effect.draws, (-column(fit, "x") * mu * np.exp(-mu)).mean(1, keepdims=True))
    shut(fit.predictions(outcome=0).draws[:, 0], np.exp(-mu).mean(1))


# Against statsmodels


@pytest.mark.parametrize(
    ("kind", "outcome", "options"),
    [
        (sm.Logit, "sick", {"family": "bernoulli"}),
        (sm.Probit, "sick", {"family": "bernoulli", "link": "probit"}),
        (sm.Poisson, "visits", {}),
    ],
)
def test_the_ordinary_minimiser_has_the_margins_of_statsmodels(frame, kind, outcome, options):
    fit = tb.fit(f"{outcome} ~ x + z", frame, divergence="kld", n_draws=2, **options)
    design = sm.add_constant(frame[["x", "z"]])
    other = kind(frame[outcome], design).fit(disp=0, tol=1e-12)
    margins = other.get_margeff(at="overall").margeff
    found = [fit.effects(name).kld_minimiser[0] for name in ("x", "z")]
    np.testing.assert_allclose(found, margins, rtol=1e-4)


def test_contrasts_agree_with_predictions_of_statsmodels(frame):
    fit = tb.fit("visits ~ x + g", frame, exposure="hours", divergence="kld", n_draws=2)
    dummies = pd.get_dummies(frame["g"], dtype=float)[["b", "c"]]
    design = sm.add_constant(pd.concat([frame[["x"]], dummies], axis=1))
    other = sm.Poisson(frame["visits"], design, exposure=frame["hours"]).fit(disp=0, tol=1e-12)
    b, a = (
        other.predict(design.assign(b=float(g == "b"), c=0.0), exposure=frame["hours"]).mean()
        for g in "ba"
    )
    np.testing.assert_allclose(fit.contrast("g", "b", "a").kld_minimiser, [b - a], rtol=1e-6)
    ratio = fit.contrast("g", "b", "a", ratio=True)
    np.testing.assert_allclose(ratio.kld_minimiser, [b / a], rtol=1e-6)


# The record


def test_weights_are_repeated_rows_to_the_bit(frame):
    weighted = quick("visits ~ x + C(k)*b", frame, exposure="hours", weights="copies")
    repeated = frame.loc[frame.index.repeat(frame["copies"])]
    rows = quick("visits ~ x + C(k)*b", repeated, exposure="hours")
    for ask in (lambda f: f.effects("k"), lambda f: f.effects("x"), lambda f: f.predictions()):
        assert ask(weighted).draws.tobytes() == ask(rows).draws.tobytes()


def test_every_kind_of_data_gives_the_same_bits(frame):
    pl = pytest.importorskip("polars")
    wanted = quick("visits ~ g + x", frame).effects("g").draws
    for data in (frame.to_dict("list"), pl.DataFrame(frame.to_dict("list"))):
        assert quick("visits ~ g + x", data).effects("g").draws.tobytes() == wanted.tobytes()


def test_a_loaded_fit_answers_with_the_same_bits(frame, tmp_path):
    mixed = frame.assign(g=pd.Categorical(frame["g"], ["c", "a", "b"]))
    fit = quick("visits ~ poly(x, 2) + g + C(k)*b", mixed, exposure="hours", weights="copies")
    fit.save(tmp_path / "fit.tvd")
    again = tb.load(tmp_path / "fit.tvd")
    for ask in (
        lambda f: f.effects("x"),
        lambda f: f.effects("g", at={"b": True}),
        lambda f: f.contrast("k", 2, 1),
        lambda f: f.predictions({"x": [0.1, 0.2], "hours": 1.0}),
    ):
        one, other = ask(fit), ask(again)
        assert one.names == other.names
        assert one.draws.tobytes() == other.draws.tobytes()
        assert str(one) == str(other)


def test_stretches_change_nothing_but_rounding(frame, monkeypatch):
    fit = quick("visits ~ x + g", frame)
    whole = [fit.effects("x"), fit.effects("g")]
    monkeypatch.setattr(prediction, "_ELEMENTS", 500)
    for one, other in zip(whole, [fit.effects("x"), fit.effects("g")], strict=True):
        np.testing.assert_allclose(one.draws, other.draws, rtol=1e-12)


def test_an_effect_says_what_it_is(frame):
    fit = tb.fit("visits ~ C(k) + b", frame, n_draws=40)
    effect = fit.effects("k")
    np.testing.assert_array_equal(effect.estimate, effect.draws.mean(0))
    summary = effect.summary(0.8)
    assert summary.names == effect.names
    np.testing.assert_allclose(summary["low"], np.quantile(effect.draws, 0.1, axis=0))
    np.testing.assert_array_equal(summary["kld_mean"], effect.kld_draws.mean(0))
    assert "between levels of k in expected visits, over 300 rows" in str(effect)
    assert "k: 2 - 0" in str(effect)
    ordinary = fit.effects("k", ordinary=True)
    np.testing.assert_array_equal(ordinary.draws, effect.kld_draws)
    np.testing.assert_array_equal(ordinary.minimiser, effect.kld_minimiser)
    point = tb.fit("visits ~ C(k) + b", frame, n_draws=0).effects("k")
    np.testing.assert_array_equal(point.estimate, point.minimiser)
    assert "k: 1 - 0" in str(point)
    with pytest.raises(tb.SettingsError, match="at least 2 draws"):
        point.summary()


def test_effects_have_the_shape_of_the_draws(frame):
    effect = tb.fit("visits ~ C(k)", frame, n_draws=5).effects("k")
    assert isinstance(effect, arrays.Effect)
    assert effect.draws.shape == effect.kld_draws.shape == (5, 2)
    assert effect.minimiser.shape == effect.kld_minimiser.shape == (2,)


@pytest.fixture(scope="module")
def spline(frame):
    return quick("visits ~ bs(x, df=4) + g + C(k)", frame, exposure="hours")


@pytest.mark.parametrize(
    ("ask", "words"),
    [
        (
            lambda f: f.effects("height"),
            r"'height' is not among the columns.*'g', 'k', 'x', 'hours'",
        ),
        (lambda f: f.effects("visits"), "'visits' is the outcome"),
        (lambda f: f.effects(["x"]), r"\['x'\] is not among"),
        (lambda f: f.effects("x", at={"g": "moon"}), "'g' has no level 'moon'.*'a', 'b', 'c'"),
        (lambda f: f.effects("x", at={"height": 1}), "'height' is not among"),
        (lambda f: f.effects("x", at={"g": pd.NA}), "'g' has no level <NA>"),
        (lambda f: f.effects("x", at={"x": np.inf}), "'x' is set to a finite number; got inf"),
        (lambda f: f.effects("x", at={"x": "ten"}), "'x' is set to a finite number; got 'ten'"),
        (lambda f: f.effects("x", at={"x": [1, 2]}), "one value at a time.*predictions"),
        (lambda f: f.effects("x", at="g"), "at must be a dict"),
        (lambda f: f.effects("g", at={"g": "a"}), "'g' is what is compared"),
        (lambda f: f.effects("x", outcome=0.5), "whole numbers; got 0.5"),
        (lambda f: f.contrast("g", "a", "moon"), "no level 'moon'"),
        (lambda f: f.contrast("x", 1, np.nan), "finite number; got nan"),
        (lambda f: f.contrast("x", 1, 2, at={"x": 1}), "Leave it out of at="),
        (lambda f: f.predictions({"x": []}), "at least one value"),
        (lambda f: f.predictions({"hours": [0.0]}), "'hours' must be above 0"),
        (lambda f: f.contrast("k", 1, 7), r"not seen: \{7.0\}"),
        (lambda f: f.effects("x", at={"x": 99.0}), "beyond"),
    ],
)
def test_bad_questions_are_named(spline, ask, words):
    with pytest.raises(tb.TVDBayesError, match=words):
        ask(spline)


def test_a_number_of_trials_has_no_slope(frame):
    fit = quick("hits ~ x", frame, family="binomial", trials="out_of")
    with pytest.raises(tb.DataError, match="'out_of' counts the trials"):
        fit.effects("out_of")
    found = fit.contrast("out_of", 4, 2, ratio=True)
    np.testing.assert_allclose(found.draws, 2.0)
    with pytest.raises(tb.DataError, match="whole numbers"):
        fit.contrast("out_of", 2.5, 2)
