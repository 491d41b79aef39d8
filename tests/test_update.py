"""Rows that come later: an update is the fit to all rows, bit for bit."""

import io
import json
import zipfile
from dataclasses import replace
from functools import reduce

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tvdbayes as tb
from bits import assert_same
from tvdbayes.fitting import update as _update
from tvdbayes.objective.divergences import ALL_DIVERGENCES
from tvdbayes.storage import _archive

pytestmark = pytest.mark.filterwarnings("ignore::tvdbayes.TVDBayesWarning")

DECLARED = pd.CategoricalDtype(["low", "middle", "high"], ordered=True)
SPLIT = 90


@pytest.fixture(scope="module")
def frame():
    """Rows of two days; on the second, levels and values appear that the first has not."""
    rng, n = np.random.default_rng(4), 150
    late = np.arange(n) >= SPLIT
    grade = np.where(late, rng.choice(["low", "middle", "high"], n), rng.choice(["low", "high"], n))
    return pd.DataFrame(
        {
            "visits": rng.poisson(3, n),
            "wild": np.where(rng.random(n) < 0.1, 60, rng.poisson(30, n)),
            "hits": rng.integers(0, 6, n),
            "total": rng.choice([6, 9], n),
            "level": np.where(late, rng.integers(0, 4, n), rng.integers(0, 3, n)),
            "colour": np.where(late, rng.choice(list("abcd"), n), rng.choice(list("bc"), n)),
            "grade": pd.Categorical(grade, dtype=DECLARED),
            "age": rng.integers(18, 22, n) + late,
            "size": rng.normal(size=n),
            "narrow": rng.integers(100, 120, n).astype(np.int8),
            "single": rng.choice([0.1, 0.7, 2.3], n).astype(np.float32),
            "half": np.where(late, rng.choice([0.5, 1.5], n), rng.integers(0, 2, n)),
            "smokes": rng.random(n) < 0.4,
            "region": np.where(
                late, rng.choice(["east", "south"], n), rng.choice(["west", "south"], n)
            ),
            "hours": rng.choice([1.0, 2.5], n),
            "shift": rng.choice([0.0, 0.3], n),
            "copies": rng.integers(0, 3, n),
            "gaps": np.where(rng.random(n) < 0.1, np.nan, rng.integers(0, 3, n)),
        }
    )


def days(frame):
    old, new = frame.iloc[:SPLIT], frame.iloc[SPLIT:]
    # What is whole on the first day is read as whole numbers.
    return old.assign(half=old["half"].astype(int)), new


def atoms(rng, size):
    return np.column_stack([np.ones(size), rng.integers(18, 22, size)]), rng.poisson(3, size)


BASE = tb.Cells.from_rows([[1.0, 18], [1.0, 30]], [2, 4], names=("Intercept", "age"))

CASES = {
    "numbers": ("visits ~ age", {}),
    "narrow numbers": ("visits ~ I(narrow**2) + log(single)", {}),
    "whole, then not": ("visits ~ half", {}),
    "text": ("visits ~ region + smokes", {}),
    "categories": ("visits ~ grade", {}),
    "transforms": ("visits ~ scale(age) + smokes", {}),
    "splines": ("visits ~ bs(age, df=4)", {"ridge": 0.01}),
    "weights": ("visits ~ age", {"weights": "copies"}),
    "offset": ("visits ~ age", {"offset": "shift", "exposure": "hours"}),
    "trials": ("hits ~ smokes", {"family": "binomial", "trials": "total", "link": "probit"}),
    "a number of trials": ("hits ~ age", {"family": "binomial", "trials": 9}),
    "a slash": ("hits / total ~ age", {"family": "binomial"}),
    "yes or no": ("smokes ~ age", {"family": "bernoulli", "link": "cloglog"}),
    "new classes": ("colour ~ smokes", {"family": "categorical"}),
    "new steps": ("level ~ smokes", {"family": "ordinal"}),
    "a step between": ("grade ~ age", {"family": "ordinal"}),
    "a family": ("level ~ smokes", {"family": tb.Censored(tb.Poisson(), 3)}),
    "further predictors": (
        "visits ~ age",
        {"family": "zero_inflated_poisson", "predictors": {"inflation": "~ smokes"}},
    ),
    "gaps": ("visits ~ gaps", {"missing": "drop"}),
    "collinear": ("visits ~ age + I(2 * age)", {"collinear": "drop"}),
    "continuous": ("visits ~ size", {}),
    "groups": ("visits ~ size", {"partition": tb.KMeansGroups((tb.Cluster(copies=2),))}),
    "singletons": ("visits ~ size", {"partition": "singletons", "ridge": 0.02}),
    "bins": ("wild ~ smokes", {"bins": np.array([0, 20, 30, 40])}),
    "thin counts": ("wild ~ smokes", {}),
    "no bins": ("wild ~ smokes", {"bins": "none"}),
    "reweighted": ("visits ~ age", {"refine": "reweight", "seed": 5}),
    "a prior table": ("visits ~ age", {"alpha": 3.0, "base_measure": BASE}),
    "a prior function": ("visits ~ age", {"alpha": 3, "base_measure": atoms, "n_atoms": 4}),
    **{f"by {d.name}": ("visits ~ age", {"divergence": d}) for d in ALL_DIVERGENCES},
}


@pytest.mark.slow
@pytest.mark.parametrize(("formula", "options"), CASES.values(), ids=CASES)
def test_an_update_is_the_fit_to_all_rows(formula, options, frame):
    old, new = days(frame)
    whole = tb.fit(formula, frame, n_draws=3, **options)
    first = tb.fit(formula, old, n_draws=0, **options)
    both = first.update(new, n_draws=3)
    assert_same(both, whole)
    assert both.estimate.tobytes() == whole.estimate.tobytes()
    assert both.encoding.column_names == whole.encoding.column_names


def test_networks_are_asked_for_again(frame, monkeypatch):
    """Training takes seconds, and is a function of the table and the network: see test_neural."""
    old, new = days(frame)
    fit = tb.fit("visits ~ smokes", old, n_draws=0)
    network = tb.MLP((2,), epochs=3)
    options = replace(fit.options, network=network)
    given = []
    monkeypatch.setattr(_update, "fit_with", lambda *arguments: given.append(arguments[2].network))
    replace(fit, posterior=replace(fit.posterior, options=options)).update(new)
    fit.update(new)
    assert given == [network, None]


def test_days_can_come_one_by_one_and_through_files(frame, tmp_path):
    path = tmp_path / "fit.tvd"
    options = {"bins": [0, 20, 30], "weights": "copies", "collinear": "drop", "n_draws": 3}
    formula = "wild ~ region + I(age - age)"
    whole = tb.fit(formula, frame, **options)
    tb.fit(formula, frame[:70], **options).save(path)
    for start in range(70, 150, 40):
        tb.load(path).update(frame[start : start + 40]).save(path)
    assert_same(tb.load(path), whole)
    frames = (fit.rows(n_replicates=20) for fit in (tb.load(path), whole))
    pd.testing.assert_frame_equal(*frames, check_exact=True)


def test_the_old_fit_is_not_touched(frame, tmp_path):
    old, new = days(frame)
    fit = tb.fit("visits ~ region", old, n_draws=3)
    fit.save(tmp_path / "before")
    fit.update(new)
    with pytest.raises(tb.DataError):
        fit.update(new.assign(visits=np.nan))
    fit.save(tmp_path / "after")
    assert (tmp_path / "before").read_bytes() == (tmp_path / "after").read_bytes()


def test_fractional_weights_are_added_to_rounding(frame):
    data = frame.assign(share=np.random.default_rng(0).random(len(frame)))
    old, new = days(data)
    options = {"weights": "share", "n_draws": 3, "divergence": "kld"}
    whole = tb.fit("visits ~ smokes", data, **options)
    both = tb.fit("visits ~ smokes", old, **options).update(new)
    # A count is a sum of about ten numbers below 1, grouped in another way.
    np.testing.assert_allclose(both.data.counts, whole.data.counts, rtol=1e-14)
    np.testing.assert_allclose(both.draws, whole.draws, rtol=1e-8)


def test_forgotten_rows_are_counted_but_not_listed(frame):
    old, new = days(frame)
    first = tb.fit("visits ~ smokes", old, n_draws=3)
    kept, short = first.update(new), first.update(new, keep_rows=False)
    assert_same(short.posterior, kept.posterior)
    n_distinct = len(first.data.counts)
    assert n_distinct < SPLIT
    assert len(short.cell_of_row) == n_distinct + len(new)
    lines = [fit.rows(n_replicates=20) for fit in (short, kept)]
    lines[0] = lines[0].drop(columns="count")
    last = [rows.tail(len(new)).reset_index(drop=True) for rows in lines]
    pd.testing.assert_frame_equal(*last, check_exact=True)
    assert_same(short.update(old).posterior, kept.update(old).posterior)


def test_other_draws_may_be_asked_for_and_resumed(frame):
    old, new = days(frame)
    fit = tb.fit("visits ~ smokes", old, n_draws=4)
    more = fit.update(new, n_draws=6)
    assert more.draws.shape == (6, 2)
    assert fit.update(new).draws.tobytes() == more.draws[:4].tobytes()
    assert (
        fit.update(new, n_draws=6, resume=fit.update(new)).draws.tobytes() == more.draws.tobytes()
    )


@pytest.mark.parametrize("dtype", ["int8", "uint64", "float32"])
def test_narrow_numbers_are_calculated_with_as_wide_ones(dtype, frame):
    """The squares of numbers above 11 do not fit into an int8."""
    wide = tb.fit("visits ~ I(narrow**2)", frame, n_draws=0).posterior.cells
    narrow = frame.assign(narrow=frame["narrow"].astype(dtype))
    assert_same(tb.fit("visits ~ I(narrow**2)", narrow, n_draws=0).posterior.cells, wide)
    assert wide.x.min() == 1
    assert wide.x.max() == 119**2


# Levels


def declaring(values, *levels):
    return values.cat.set_categories(levels)


def test_an_order_that_is_not_clear_is_an_error(frame):
    old, new = days(frame)
    fit = tb.fit("grade ~ smokes", old, n_draws=0, family="ordinal")
    for grade in (
        new["grade"].astype(object),
        declaring(new["grade"], "low", "middle"),
        declaring(new["grade"], "high", "middle", "low"),
    ):
        part = new.assign(grade=grade).dropna()
        with pytest.raises(tb.DataError, match="'grade' is not clear: the fit has low < high"):
            fit.update(part)


def test_text_stands_for_a_category_of_the_fit(frame):
    old, new = days(frame)
    fit = tb.fit("visits ~ grade", old, n_draws=0)
    known = new[new["grade"] != "middle"]
    for grade in (known["grade"].astype(object), declaring(known["grade"], "low", "high")):
        again = fit.update(known.assign(grade=grade))
        assert_same(again, fit.update(known))
    unordered = tb.fit("visits ~ k", {"visits": [1, 2, 3, 4] * 9, "k": pd.Categorical([7, 3] * 18)})
    assert unordered.update({"visits": [1, 2], "k": [5, 7]}).data.columns["k"].levels == (3, 7, 5)


def test_levels_without_an_order_come_behind(frame):
    old, new = (
        {
            "visits": frame["visits"][:9],
            "k": pd.Categorical(list(part) * 3, categories=list(levels)),
        }
        for part, levels in (("cac", "cab"), ("dac", "dabc"))
    )
    fit = tb.fit("visits ~ k", old, n_draws=0, ridge=0.01).update(new)
    assert fit.data.columns["k"].levels == ("c", "a", "d")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"smokes": 1}, "'smokes' holds truth values in the fit and numbers in the new rows"),
        ({"age": "old"}, "'age' holds numbers in the fit and text in the new rows"),
        ({"region": 3}, "'region' holds text in the fit and numbers in the new rows"),
        ({"region": pd.Categorical([3] * 60)}, "'region' .* cannot be put in order"),
        ({"age": np.nan}, r"'age' must be a finite number; 38 of 60 .*in row 0"),
        ({"visits": [*range(59), -1]}, r"first: -1.0 in row 149\).* new rows is row 90"),
        ({"visits": "many"}, "'visits' holds numbers"),
        ({"copies": 0}, "No row is left"),
        ({"copies": -1}, "Weights count rows"),
    ],
)
def test_bad_rows_are_named(change, words, frame):
    old, new = days(frame)
    fit = tb.fit(
        "visits ~ age + smokes + region",
        old.assign(region=old["colour"]),
        n_draws=0,
        weights="copies",
    )
    with pytest.raises(tb.TVDBayesError, match=words):
        fit.update(new.assign(**change))


def test_missing_columns_and_empty_days_are_named(frame):
    old, new = days(frame)
    fit = tb.fit("visits ~ age", old, n_draws=0, weights="copies")
    for name in ("visits", "age", "copies"):
        with pytest.raises(tb.DataError, match=f"no column '{name}'"):
            fit.update(new.drop(columns=name))
    with pytest.raises(tb.DataError, match="0 rows"):
        fit.update(new[:0])
    with pytest.raises(tb.DataError, match="must be one of 0, 1, 2"):
        tb.fit("level ~ age", old, n_draws=0, family=tb.Ordinal(("0", "1", "2"))).update(new)


# Files


def test_a_prior_that_was_a_function_is_asked_for(frame, tmp_path):
    old, new = days(frame)
    tb.fit("visits ~ age", old, n_draws=0, alpha=3, base_measure=atoms).save(tmp_path / "fit.tvd")
    with pytest.raises(tb.SettingsError, match="prior of this fit was a function"):
        tb.load(tmp_path / "fit.tvd").update(new)


def test_a_custom_family_is_put_back(frame, tmp_path):
    old, new = days(frame)
    law = tb.CustomFamily(
        log_pmf=lambda y, q: y * np.log(q) + np.log1p(-q),
        score=lambda y, q: [y / q - 1 / (1 - q)],
        curvature=lambda y, q: [[-y / q**2 - 1 / (1 - q) ** 2]],
        support=(0, None),
        parameters={"q": "logit"},
        name="halves",
    )
    tb.fit("visits ~ age", old, n_draws=0, family=law).save(tmp_path / "fit.tvd")
    both = tb.load(tmp_path / "fit.tvd", family=law).update(new, n_draws=3)
    assert_same(both, tb.fit("visits ~ age", frame, n_draws=3, family=law))


@pytest.mark.parametrize(
    "change",
    [
        {"family": 3},
        {"family": {"class": "TVD", "fields": {}}},
        {"ridge": "some"},
        {"bins": "many"},
        {"bins": {"tuple": ["a"]}},
        {"partition": "some"},
        {"n_draws": -1},
        {"seed": "one"},
        {"offset": 3},
        {"predictors": {"dict": [["inflation", 3]]}},
        {"missing": "ignore"},
        {"more": 1},
    ],
    ids=str,
)
def test_options_that_make_no_sense_are_refused(change, frame, tmp_path):
    path = tmp_path / "fit.tvd"
    tb.fit("visits ~ age", frame, n_draws=0).save(path)
    rewrite(path, lambda fit: fit["posterior"]["fields"]["options"]["fields"].update(change))
    with pytest.raises(tb.StorageError):
        tb.load(path)


@pytest.mark.parametrize(
    ("lost", "words"),
    [
        (lambda fit: fit.pop("data"), "its Fit lacks, or should not have, data"),
        (
            lambda fit: fit["posterior"]["fields"].pop("options"),
            "its Posterior lacks, or should not have, options",
        ),
    ],
    ids=["data", "options"],
)
def test_a_file_that_lacks_a_part_of_the_fit_is_refused(lost, words, frame, tmp_path):
    path = tmp_path / "fit.tvd"
    tb.fit("visits ~ age", frame, n_draws=0).save(path)
    rewrite(path, lost)
    with pytest.raises(tb.StorageError, match=words):
        tb.load(path)


def test_a_strangers_formula_is_read_by_the_guard(frame, tmp_path):
    path = tmp_path / "fit.tvd"
    tb.fit("visits ~ age", frame, n_draws=0).save(path)
    rewrite(path, lambda fit: fit.update(formula="visits ~ age + {__import__('os').getcwd()}"))
    with pytest.raises(tb.FormulaError):
        tb.load(path).update(frame)


def rewrite(path, change):
    """The same file with another header, sealed as if it were ours."""
    with zipfile.ZipFile(path) as archive:
        header = json.loads(archive.read("header.json"))
        names = [name for name in archive.namelist() if name != "header.json"]
        parts = {name: np.load(io.BytesIO(archive.read(name))) for name in names}
    change(header["record"]["fields"])
    _archive.write_archive(path, header, parts)


# Chunks of arrays


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_any_chunks_in_any_order_make_the_same_table(data):
    row = st.tuples(st.sampled_from([-0.0, 0.0, 0.1, 2.0]), *[st.integers(0, 2)] * 4)
    rows = np.array(data.draw(st.lists(row, min_size=1, max_size=30)), float)
    chunk = np.array(data.draw(st.lists(st.integers(0, 4), min_size=len(rows), max_size=len(rows))))
    rows[rows[:, 4] == 0, 4] = 1

    def table(part):
        x, offset, trials, y, weights = part.T
        return tb.Cells.from_rows(
            np.column_stack([np.ones(len(x)), x]), y, weights=weights, offset=offset, trials=trials
        )

    chunks = [table(rows[chunk == k]) for k in data.draw(st.permutations(np.unique(chunk)))]
    whole = table(rows)
    assert_same(reduce(tb.Cells.merge, chunks).merge(), whole)
    assert_same(chunks[0].merge(*chunks[1:]), whole)
