"""Bad input, row by row: what is raised, what it says, and that nothing is changed."""

import sys
from collections import Counter

import numpy as np
import pandas as pd
import pytest

import tvdbayes as tb


def good(n=120):
    rng = np.random.default_rng(51)
    x = rng.integers(0, 3, n)
    return pd.DataFrame(
        {
            "y": rng.poisson(np.exp(0.4 + 0.3 * x)),
            "x": x.astype(float),
            "b": rng.integers(0, 2, n),
            "w": np.ones(n),
            "n": np.full(n, 30),
        }
    )


def put(column, value, row=7):
    def change(frame):
        frame[column] = frame[column].astype(object if isinstance(value, str) else float)
        frame.loc[row, column] = value

    return change


def every(column, value):
    def change(frame):
        frame[column] = value

    return change


def pairs(frame):
    frame["y"] = list(zip(frame["x"], frame["x"], strict=True))


BINOMIAL = {"family": "binomial", "trials": "n"}
ROWS = [
    ("NaN in X", put("x", np.nan), {}, tb.DataError, ["'x'", "1 of 120", "row 7"]),
    ("inf in X", put("x", np.inf), {}, tb.DataError, ["'x'", "inf in row 7"]),
    ("NaN in y", put("y", np.nan), {}, tb.DataError, ["'y'", "row 7"]),
    ("negative count", put("y", -1), {}, tb.FamilyError, ["at least 0", "-1.0 in row 7"]),
    ("fractional count", put("y", 1.5), {}, tb.FamilyError, ["1.5 in row 7", "round"]),
    (
        "y above trials",
        put("y", 31),
        BINOMIAL,
        tb.FamilyError,
        ["31.0"],
    ),
    ("no trials", put("n", 0), BINOMIAL, tb.FamilyError, ["row 7"]),
    (
        "part of a trial",
        put("n", 2.5),
        BINOMIAL,
        tb.FamilyError,
        ["2.5"],
    ),
    ("trials not given", lambda _: None, {"family": "binomial"}, tb.FamilyError, ["never guessed"]),
    ("one class", every("y", 1), {"family": "bernoulli"}, tb.DataError, ["Every outcome is 1"]),
    ("constant column", every("x", 2.0), {}, tb.DataError, ["'x'", "determine", "collinear"]),
    ("strings as y", every("y", "3"), {}, tb.DataError, ["'y'", "numbers", "'3'"]),
    ("one string in y", put("y", "three"), {}, tb.DataError, ["mixes numbers and text"]),
    ("weights all zero", every("w", 0.0), {"weights": "w"}, tb.DataError, ["weight", "zero"]),
    ("negative weight", put("w", -1), {"weights": "w"}, tb.DataError, ["at least 0", "row 7"]),
    ("NaN weight", put("w", np.nan), {"weights": "w"}, tb.DataError, ["'w'", "row 7"]),
    ("no exposure", put("n", 0), {"exposure": "n"}, tb.DataError, ["above 0", "row 7"]),
    ("B negative", lambda _: None, {"n_draws": -1}, tb.SettingsError, ["n_draws", "-1"]),
    ("B not whole", lambda _: None, {"n_draws": 1.5}, tb.SettingsError, ["n_draws", "1.5"]),
    (
        "two-dimensional",
        lambda f: f.__setitem__("y", list(zip(f.x, f.x, strict=True))),
        {},
        tb.TVDBayesError,
        ["y"],
    ),
]


@pytest.mark.parametrize(
    ("change", "options", "error", "words"), [r[1:] for r in ROWS], ids=[r[0] for r in ROWS]
)
def test_bad_input_is_named_and_left_alone(change, options, error, words):
    frame = good()
    change(frame)
    before = frame.copy(deep=True)
    with pytest.raises(error) as caught:
        tb.fit("y ~ x", frame, **{"n_draws": 4, **options})
    assert isinstance(caught.value, ValueError)
    assert all(word in str(caught.value) for word in words), str(caught.value)
    pd.testing.assert_frame_equal(before, frame)


def test_no_rows_and_one_row():
    with pytest.raises(tb.DataError, match=r"0 sample\(s\)"):
        tb.fit("y ~ x", good().iloc[:0])
    with pytest.raises(tb.DataError, match="1 sample"):
        tb.fit("y ~ 1", good().iloc[:1])


def test_more_columns_than_rows_need_a_ridge():
    rng = np.random.default_rng(52)
    frame = pd.DataFrame(rng.normal(size=(8, 10)), columns=list("abcdefghij"))
    frame["y"] = rng.integers(0, 2, 8)
    formula = "y ~ " + " + ".join("abcdefghij")
    with pytest.raises(tb.DataError, match="more columns than distinct rows"):
        tb.fit(formula, frame, family="bernoulli")
    with pytest.warns(tb.TVDBayesWarning):
        fit = tb.fit(formula, frame, family="bernoulli", ridge=0.01, n_draws=4)
    assert np.isfinite(fit.draws).all()


def test_columns_that_others_determine_may_be_dropped():
    frame = good()
    frame["twice"] = 2 * frame["x"]
    with pytest.raises(tb.DataError, match="determine"):
        tb.fit("y ~ x + twice", frame)
    with pytest.warns(tb.CollinearWarning, match="left out"):
        fit = tb.fit("y ~ x + twice", frame, collinear="drop", n_draws=4)
    assert len(fit.param_names) == 2
    assert len(fit.left_out) == 1
    with pytest.raises(tb.SettingsError, match="collinear must be"):
        tb.fit("y ~ x", frame, collinear="maybe")


def test_counts_that_are_all_zero_warn_and_return():
    frame = good().assign(y=0)
    with pytest.warns(tb.SeparationWarning):
        fit = tb.fit("y ~ 1", frame, n_draws=4)
    assert np.exp(fit.estimate[0]) < 1e-3
    assert np.isfinite(fit.draws).all()


def test_separation_warns_with_a_share():
    frame = good().assign(y=lambda f: (f["x"] > 0).astype(int))
    with pytest.warns(tb.SeparationWarning):
        fit = tb.fit("y ~ x", frame, family="bernoulli", n_draws=4)
    assert np.isfinite(fit.draws).all()


def test_counts_of_a_billion_and_booleans_are_fine():
    rng = np.random.default_rng(53)
    frame = good().assign(y=rng.poisson(1e9, 120), x=rng.random(120) < 0.5)
    fit = tb.fit("y ~ x", frame, n_draws=4)
    assert abs(fit.estimate[0] / np.log(1e9) - 1) < 1e-4


def test_no_draws_give_the_point_and_no_interval():
    fit = tb.fit("y ~ x", good(), n_draws=0)
    assert fit.draws.shape == (0, 2)
    with pytest.raises(tb.SettingsError, match="at least 2 draws"):
        fit.summary()


def calls_of(work):
    """How many calls a piece of work makes: what it costs, on any machine."""
    calls = Counter()
    before = sys.getprofile()
    sys.setprofile(lambda _, event, __: calls.update([event]))
    try:
        work()
    finally:
        sys.setprofile(before)
    return calls["call"] + calls["c_call"]


def test_formulas_cannot_be_made_to_run_for_hours():
    tb.fit("y ~ (x + b)**5", good(), n_draws=0)
    data = good()

    def refuse(power):
        with pytest.raises(tb.FormulaError):
            tb.fit(f"y ~ (x + b + n + w)**{power}", data)

    refuse(15)
    calls = [calls_of(lambda p=power: refuse(p)) for power in (15, 20, 50, 10**6)]
    # Refusing costs the same whatever is asked, and far less than multiplying out would.
    assert max(calls) <= 1.1 * min(calls)
    assert max(calls) < 100_000


def test_a_warning_points_at_the_line_that_asked_for_the_fit():
    data = {"y": [0, 1, 2, None] * 30}
    with pytest.warns(tb.MissingRowsWarning) as said:
        tb.fit("y ~ 1", data, missing="drop", n_draws=0)
    assert [warning.filename for warning in said] == [__file__]
