"""Names of columns: a formula reads the column that is meant, or says why not."""

from functools import cache

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import tvdbayes as tb
from tvdbayes.cli import main
from tvdbayes.formula.guard import read_formula
from tvdbayes.formula.matrix import alias_of, as_written, column_of, quoted, readable


def fit_to(formula, data, n_draws=2, **options):
    """An likelihood fit, which is quick: what is tested here comes before the search."""
    return tb.fit(formula, data, divergence="kld", n_draws=n_draws, **options)


@pytest.fixture(scope="module")
def small():
    rng = np.random.default_rng(0)
    x, z = np.repeat(range(4), 30), np.tile(range(1, 4), 40)
    return pd.DataFrame({"y": rng.poisson(np.exp(0.3 * x)), "x": x, "z": z})


@pytest.fixture
def data(small):
    return small.copy()


def assert_right(formula, frame, design, tmp_path):
    """A fit has this design; new data, a file, an update, effects and a report follow it."""
    fit = fit_to(formula, frame)
    cells = fit.posterior.cells
    np.testing.assert_array_equal(cells.x[cells.x_index[fit.cell_of_row]], design)
    fit.save(tmp_path / "fit.tvd")
    for one in (fit, tb.load(tmp_path / "fit.tvd"), fit.update(frame.iloc[:3])):
        np.testing.assert_array_equal(one.encode(frame), design)
        by_hand = np.exp(one.draws @ design.T).mean(axis=0)
        np.testing.assert_allclose(one.predict(frame)["mean"], by_hand, rtol=1e-9)
    return fit


ODD = [
    "Sepal.Length",
    ".hidden",
    "two words",
    "1",
    "",
    " ",
    "x:b",
    "log",
    "C",
    "np",
    "lag",
    "self",
    "class",
    "True",
    "a`b",
    "``",
    "a'b",
    'a"b',
    "a\\b",
    "a\nb",
    "a[b]",
    "a(b)",
    "{a}",
    "a~b",
    "a/b",
    "a%b",
    "\U0001d431",
    "ﬁ",
    "\u00e9",
    "e\u0301",
    "_named_78_",
    "%(name)s {name}",
    "<b>bold</b>",
    "long" * 100,
]


@pytest.mark.parametrize("name", ODD)
def test_a_name_can_be_read_back_from_its_alias(name):
    alias = alias_of(name)
    assert alias.isidentifier()
    assert alias.isascii() or alias == name
    assert column_of(alias) == name
    assert readable(f"log1p({alias}):g[T.a]") == f"log1p({name}):g[T.a]"


@pytest.fixture(scope="module")
def plain(small):
    return fit_to("y ~ x + log1p(x) + x:z", small)


@pytest.mark.parametrize("name", ODD)
def test_every_name_can_be_used_by_backticks(small, plain, tmp_path, name):
    odd, ticked = small.rename(columns={"x": name}), quoted(name)
    fit = fit_to(f"y ~ {ticked} + log1p({ticked}) + {ticked}:z", odd)
    assert fit.draws.tobytes() == plain.draws.tobytes()
    assert fit.param_names == ("Intercept", name, f"log1p({name})", f"{name}:z")
    fit.save(tmp_path / "fit.tvd")
    for one in (fit, tb.load(tmp_path / "fit.tvd")):
        np.testing.assert_array_equal(one.predict(odd), plain.predict(small))
    np.testing.assert_array_equal(fit.effects(name).draws, plain.effects("x").draws)


def test_odd_names_work_inside_of_calls_and_as_outcome_and_options(small):
    odd = small.rename(columns={"x": "a`b ~ (c", "y": "1/2", "z": "log"})
    a = fit_to("`1/2` ~ I(`a``b ~ (c`**2) + log(log)", odd, weights="log", exposure="log")
    b = fit_to("y ~ I(x**2) + log(z)", small, weights="z", exposure="z")
    assert a.draws.tobytes() == b.draws.tobytes()
    assert a.param_names[1:] == ("I(a`b ~ (c ** 2)", "log(log)")


def test_reports_and_updates_of_odd_names(small, tmp_path):
    odd = small.rename(columns={"x": "<script>", "y": "Sepal.Length"})
    design = np.column_stack([np.ones(len(small)), small["x"]])
    fit = assert_right("Sepal.Length ~ `<script>`", odd, design, tmp_path)
    fit.report(tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text()
    assert "&lt;script&gt;" in text
    assert "_named_" not in text


printable = st.text(st.characters(codec="utf-8"), max_size=12)


@cache
def named(outcome, first, second):
    """A fit to data whose columns have these names, and predictions."""
    rng = np.random.default_rng(1)
    x1, x2, y = rng.integers(0, 3, 90), rng.integers(0, 3, 90), rng.poisson(2, 90)
    a, b = quoted(first), quoted(second)
    fit = fit_to(
        f"{quoted(outcome)} ~ {a} + center({b}) + C({a}):{b}",
        {second: x2, outcome: y, first: x1},
        ridge=0.1,
    )
    return fit, fit.predict({second: [5, 1, 0], first: [0, 1, 2]}).to_numpy()


@settings(max_examples=12, deadline=None, derandomize=True)
@given(first=printable, second=printable, outcome=printable)
def test_names_decide_nothing(first, second, outcome):
    assume(len({first, second, outcome, "Intercept"}) == 4)
    (plain, of_plain), (other, of_other) = named("y", "x1", "x2"), named(outcome, first, second)
    assert other.draws.tobytes() == plain.draws.tobytes()
    assert other.posterior.cells.x.tobytes() == plain.posterior.cells.x.tobytes()
    assert of_other.tobytes() == of_plain.tobytes()


def test_dots_need_no_quotes(data, tmp_path):
    plain = fit_to("y ~ x + log1p(z) + C(x):z", data, weights="z", ridge=0.1)
    dotted = data.rename(columns={"y": "N.visits", "x": "Sepal.Length", "z": "Petal.Width.1"})
    formula = "N.visits ~ Sepal.Length + log1p(Petal.Width.1) + C(Sepal.Length):Petal.Width.1"
    fit = fit_to(formula, dotted, weights="Petal.Width.1", ridge=0.1)
    assert fit.draws.tobytes() == plain.draws.tobytes()
    assert fit.param_names[2] == "log1p(Petal.Width.1)"
    fit.save(tmp_path / "fit.tvd")
    for one in (fit, tb.load(tmp_path / "fit.tvd")):
        np.testing.assert_array_equal(one.predict(dotted), plain.predict(data))
    np.testing.assert_array_equal(fit.effects("Sepal.Length").draws, plain.effects("x").draws)
    np.testing.assert_array_equal(fit.sample(dotted[:5]), plain.sample(data[:5]))
    more = fit.update(dotted[:40])
    assert more.draws.tobytes() == plain.update(data[:40]).draws.tobytes()


def test_dots_in_further_predictors(data):
    data["y"] = np.where(np.arange(len(data)) % 4, data["y"], 0)
    options = {"family": "zero_inflated_poisson", "ridge": 0.01}
    plain = fit_to("y ~ z", data, predictors={"inflation": "~ x"}, **options)
    dotted = data.rename(columns={"x": "is.zero", "z": "a.b"})
    fit = fit_to("y ~ a.b", dotted, predictors={"inflation": "~ is.zero"}, **options)
    assert fit.draws.tobytes() == plain.draws.tobytes()
    assert fit.param_names[-1] == "inflation:is.zero"


def test_the_command_line_reads_dots(tmp_path):
    rng = np.random.default_rng(0)
    x = rng.integers(0, 3, 120)
    frame = pd.DataFrame({"Sepal.Length": rng.poisson(1 + x), "Petal.Width": x})
    frame.to_csv(tmp_path / "iris.csv", index=False)
    for command, more in (("check", []), ("fit", ["--draws", "8"])):
        words = [command, str(tmp_path / "iris.csv"), "Sepal.Length ~ log1p(Petal.Width)", *more]
        done = CliRunner().invoke(main, words)
        assert done.exit_code == 0, done.output
        assert "log1p(Petal.Width)" in done.output


COLLISIONS = [
    ("y ~ Intercept", {"Intercept": "x"}, ["'Intercept'", "the intercept", "the term Intercept"]),
    ("y ~ x*b + `x:b`", {"b": "z", "x:b": "y2"}, ["'x:b'", "the term x:b", "the term `x:b`"]),
    ("y ~ 0 + g + `g[b]`", {"g[b]": "x"}, ["'g[b]'", "the term g", "the term `g[b]`"]),
    ("y ~ g + `g[T.b]`", {"g[T.b]": "x"}, ["'g[T.b]'", "the term `g[T.b]`"]),
    ("y ~ log1p(x) + `log1p(x)`", {"log1p(x)": "z"}, ["'log1p(x)'", "`log1p(x)`"]),
    ("y ~ `a`:`b:c` + `a:b`:`c`", {"a": "x", "b:c": "z", "a:b": "z", "c": "x"}, ["'a:b:c'"]),
]


@pytest.mark.parametrize(("formula", "names", "words"), COLLISIONS)
def test_two_columns_of_one_name_are_refused_and_both_named(data, formula, names, words):
    rng = np.random.default_rng(2)
    data["g"], data["y2"] = rng.choice(["a", "b"], len(data)), rng.integers(0, 3, len(data))
    frame = data.assign(**{name: data[source] for name, source in names.items()})
    with pytest.raises(tb.FormulaError) as caught:
        fit_to(formula, frame)
    assert all(word in str(caught.value) for word in words), str(caught.value)


def test_without_the_other_the_same_names_are_used(data, tmp_path):
    frame = data.rename(columns={"x": "Intercept", "z": "log1p(x)"})
    design = frame[["Intercept", "log1p(x)"]].to_numpy(float)
    assert_right("y ~ 0 + Intercept + `log1p(x)`", frame, design, tmp_path)


def test_a_collision_across_predictors_is_refused(data):
    data["y"] = np.where(data["x"] == 0, 0, data["y"])
    frames = {"x:z": data.assign(**{"x:z": data["y"] % 2})}
    frames["inflation:x"] = data.rename(columns={"z": "inflation"})
    for (name, frame), terms in zip(frames.items(), ("~ `x:z`", "~ x"), strict=True):
        more = {"family": "zero_inflated_poisson", "predictors": {"inflation": terms}}
        with pytest.raises(tb.FormulaError, match=f"'{name}'"):
            fit_to(f"y ~ {name}", frame, **more)


def test_levels_that_print_alike_are_refused(data):
    levels = pd.Categorical.from_codes(data["x"] % 3, categories=["a", 1, "1"])
    for term in ("g", "C(g)", "x:g"):
        with pytest.raises(tb.DataError, match=r"print alike: 1, '1'"):
            fit_to(f"y ~ {term}", data.assign(g=levels))


def test_values_outside_of_levels_are_named(data):
    with pytest.raises(tb.DataError, match=r"levels=: \{2, 3\}"):
        fit_to("y ~ C(x, levels=[0, 1])", data)
    whole = fit_to("y ~ C(x, levels=[3, 2, 1, 0])", data)
    assert whole.param_names[1:] == tuple(f"C(x, levels=[3, 2, 1, 0])[T.{k}]" for k in (2, 1, 0))
    with pytest.raises(tb.DataError, match=r"\{7\}"):
        whole.predict({"x": [7]})


def test_levels_may_hold_brackets_and_quotes(data, tmp_path):
    levels = np.array(["(0, 1]", "it's `so`", 'say "no"', "a\\b"])
    frame = data.assign(g=levels[data["x"]])
    listed = "[" + ", ".join(map(repr, levels.tolist())) + "]"
    design = np.column_stack([frame["g"] == level for level in levels]).astype(float)
    design[:, 0] = 1
    assert_right(f"y ~ C(g, levels={listed})", frame, design, tmp_path)


def test_letters_that_look_alike_are_other_columns(data):
    with pytest.raises(tb.FormulaError, match="no column '\U0001d431', which"):
        fit_to("y ~ log1p(\U0001d431)", data)
    both = data.assign(**{"\U0001d431": data["z"]})
    bold = fit_to("y ~ log1p(\U0001d431)", both)
    assert bold.draws.tobytes() == fit_to("y ~ log1p(z)", data).draws.tobytes()


@pytest.mark.parametrize(
    ("term", "word"),
    [
        ("log1p(x, where=[False])", "'where'"),
        ("log1p(x, [1.0])", "no options without a name"),
        ("log(x, out=[1.0])", "'out'"),
        ("center(x, _state=[1])", "'_state'"),
        ("scale(x, _context=1)", "'_context'"),
        ("poly(x, 2, True, 3)", "2 options without a name"),
        ("C(x, Sum, [0, 1])", "1 options without a name"),
        ("C(**x)", "None"),
        ("cr(x, df=4, cyclic=True)", "'cyclic'"),
    ],
)
def test_only_listed_options_of_functions_are_read(data, term, word):
    with pytest.raises(tb.FormulaError) as caught:
        fit_to(f"y ~ {term}", data)
    assert word in str(caught.value)


def test_levels_and_knots_may_be_large_numbers(data):
    data["year"] = 1990 + 10 * data["x"]
    by_year = fit_to("y ~ C(year, levels=[2020, 2010, 2000, 1990])", data, n_draws=0)
    assert len(by_year.param_names) == 4
    knots = fit_to("y ~ bs(year, knots=[2005], degree=1)", data, n_draws=0)
    assert len(knots.param_names) == 3


@pytest.mark.parametrize(
    "terms",
    [
        "-" * 1900 + "x",
        "I(" + "-" * 1900 + "x)",
        "I(" + "+".join(["x"] * 900) + ")",
        "+".join(["x"] * 990),
        "(" * 900 + "x" + ")" * 900,
        "I(" + "(" * 900 + "x" + ")" * 900 + ")",
        "log1p(" * 190 + "x" + ")" * 190,
    ],
)
def test_formulas_that_are_nested_too_deeply_are_refused(data, terms):
    with pytest.raises(tb.FormulaError) as caught:
        fit_to(f"y ~ {terms}", data, n_draws=0)
    assert "recursion" not in str(caught.value)


@pytest.mark.parametrize(
    "term", ["I(g*1000000000)", "I(C(g)*1000000000)", "I(1000000000*g)", "I(g + g)", "log1p(g)"]
)
def test_formulas_do_not_calculate_with_text(data, term):
    data["g"] = np.array(["aa", "bb", "cc", "dd"])[data["x"]]
    with pytest.raises(tb.DataError, match="'g' must hold numbers"):
        fit_to(f"y ~ {term}", data)


def test_new_data_do_not_calculate_with_text_either(data):
    fit = fit_to("y ~ I(x*1000000000) + z", data)
    with pytest.raises(tb.DataError, match="'x' must hold numbers"):
        fit.predict({"x": ["a"] * 3, "z": [1, 2, 3]})
    with pytest.raises(tb.DataError, match=r"'z' must hold numbers; 1 of 3 is not .*3O in row 1"):
        fit.predict({"x": [1, 2, 3], "z": ["1", "3O", "2"]})


def test_backticks_of_all_kinds_survive_a_file():
    assert as_written(f"log1p({alias_of('a`b')})") == "log1p(`a``b`)"
    assert quoted("") == "``"


def test_many_terms_are_read_in_their_order():
    names = [f"x.{j}" for j in range(150)]
    reading = read_formula("y ~ " + " + ".join(names), ["y", *names])
    assert reading.columns == tuple(names)


@pytest.mark.parametrize("level", ["_named_ff_", "_named_78_", "_named_zz_"])
def test_a_level_that_looks_like_an_alias_is_a_level(level):
    fit = tb.fit("y ~ g", {"y": [1, 2, 3, 0] * 10, "g": ["A", level] * 20}, n_draws=0)
    assert fit.param_names == ("Intercept", f"g[T.{level}]")
