"""One wrong cell makes text of a column of numbers: it is named, and no category is made of it."""

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

import tvdbayes as tb
from tvdbayes.cli import main
from tvdbayes.data.table import mostly_numbers, no_numbers


def fit_to(formula, data, **options):
    return tb.fit(formula, data, divergence="kld", n_draws=0, **options)


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    x = np.tile(range(6), 20)
    return pd.DataFrame({"y": rng.poisson(1 + x), "x": x, "n": x + 20, "w": x + 1})


def spoilt(data, column, cell="3O", row=17):
    text = data[column].astype(str).astype(object)
    text[row] = cell
    return data.assign(**{column: text})


@pytest.mark.parametrize("cell", ["3O", "?", "n.a.", "1,5", "inf", "-", "", "1 2", "٣x"])
def test_a_wrong_cell_is_named(data, cell):
    with pytest.raises(tb.DataError) as caught:
        fit_to("y ~ x", spoilt(data, "x", cell))
    for word in ("'x'", f"1 of 120 is not (first: {cell} in row 17)", 'missing="drop"', "C(x)"):
        assert word in str(caught.value)


@pytest.mark.parametrize(
    ("values", "slipped"),
    [
        (["0", "1", "O"], True),
        (["1", "O"], True),
        (["1", "2", "3+"], True),
        (["1", "2", "3"], False),
        (["a", "b", "1"], False),
        (["north", "south"], False),
        (["1e3", "-2.5", " 7 ", "nan"], True),
        ([1, 2.5, "x"], True),
    ],
)
def test_mostly_numbers_means_at_least_half_of_the_different_values(values, slipped):
    assert mostly_numbers(values) == slipped


def test_what_is_no_number():
    values = ["1", "1e5", " 2", "-.5", "3O", "inf", "nan", "", "0x1", None, 4, 2.5]
    wrong = [False, False, False, False, True, True, True, True]
    assert no_numbers(values)[:8].tolist() == wrong
    assert no_numbers(values)[9:].tolist() == [True, False, False]


def test_where_it_is_dropped_the_fit_is_that_of_the_other_rows(data):
    gap = spoilt(data, "x")
    gap.loc[17, "x"] = None
    gap["x"] = gap["x"].astype(float)
    with pytest.warns(tb.MissingRowsWarning):
        fit = fit_to("y ~ x", gap, missing="drop")
    assert fit.estimate.tobytes() == fit_to("y ~ x", data.drop(index=17)).estimate.tobytes()


def test_categories_on_purpose_are_possible(data):
    of_text = data.assign(x=np.array(["0", "1", "2", "3", "4", "5+"])[data["x"]])
    with pytest.raises(tb.DataError, match=r"5\+ in row 5"):
        fit_to("y ~ x", of_text)
    asked = fit_to("y ~ C(x)", of_text)
    assert asked.param_names[-1] == "C(x)[T.5+]"
    np.testing.assert_allclose(asked.estimate, fit_to("y ~ C(x)", data).estimate)
    declared = of_text.assign(x=of_text["x"].astype("category"))
    assert fit_to("y ~ x", declared).estimate.tobytes() == asked.estimate.tobytes()
    # By C in one term and without it in another is no purpose.
    with pytest.raises(tb.DataError, match=r"5\+ in row 5"):
        fit_to("y ~ C(x) + x:n", of_text)


def test_text_that_is_all_numbers_or_none_stays_a_category(data):
    assert len(fit_to("y ~ x", data.assign(x=data["x"].astype(str))).param_names) == 6
    letters = data.assign(x=np.array(list("abcdef"))[data["x"]])
    assert len(fit_to("y ~ x", letters).param_names) == 6


@pytest.mark.parametrize(
    ("column", "options"),
    [
        ("y", {}),
        ("n", {"offset": "n"}),
        ("n", {"exposure": "n"}),
        ("w", {"weights": "w"}),
        ("n", {"family": "binomial", "trials": "n"}),
        ("y", {"family": "categorical"}),
        ("y", {"family": "ordinal"}),
    ],
)
def test_a_wrong_cell_is_named_wherever_numbers_are_needed(data, column, options):
    with pytest.raises(tb.DataError) as caught:
        fit_to("y ~ x", spoilt(data, column), **options)
    for word in (repr(column), "1 of 120 is not (first: 3O in row 17)"):
        assert word in str(caught.value)


def test_levels_of_an_outcome_may_be_named_on_purpose(data):
    levels = ("0", "1", "2+")
    of_text = data.assign(y=np.array(levels)[np.minimum(data["y"], 2)])
    with pytest.raises(tb.DataError, match=r"tb\.Categorical\(\("):
        fit_to("y ~ x", of_text, family="categorical")
    fit = fit_to("y ~ x", of_text, family=tb.Categorical(levels))
    assert fit.posterior.model.family.levels == levels


def test_cells_of_mixed_type_name_their_row(data):
    mixed = data["x"].astype(object)
    mixed[17] = "3O"
    with pytest.raises(tb.DataError, match="'3O' in row 17"):
        fit_to("y ~ x", data.assign(x=mixed))


def test_new_rows_are_read_by_the_same_rule(data):
    fit = tb.fit("y ~ x", data, divergence="kld", n_draws=2)
    for ask in (fit.predict, fit.sample, fit.update, fit.encode):
        with pytest.raises(tb.DataError, match="3O in row 17"):
            ask(spoilt(data, "x"))


def test_the_command_line_names_the_cell(data, tmp_path):
    path = tmp_path / "data.csv"
    spoilt(data, "x").to_csv(path, index=False)
    for command in ("check", "fit"):
        done = CliRunner().invoke(main, [command, str(path), "y ~ x"])
        assert done.exit_code != 0
        assert "3O in row 17" in " ".join(done.output.split())


def test_an_engine_names_the_value(data, tmp_path):
    pytest.importorskip("ibis")
    path = tmp_path / "data.csv"
    spoilt(data, "x").to_csv(path, index=False)
    with pytest.raises(tb.DataError, match=r"'x' are numbers in the main.*3O"):
        fit_to("y ~ x", str(path), engine="duckdb")


def test_partitions_of_dask_name_the_cell(data):
    dd = pytest.importorskip("dask.dataframe")
    pieces = dd.from_pandas(spoilt(data, "x"), npartitions=3)
    with pytest.raises(tb.DataError, match=r"1 of .* is not \(first: 3O in distinct row"):
        tb.fit("y ~ x", pieces, family="poisson", n_draws=1)


def test_categories_on_purpose_of_any_name_in_dask(data):
    dd = pytest.importorskip("dask.dataframe")
    levels = np.array(["0", "1", "2+"])
    whole = pd.concat([data[data["x"] < 3]] * 5, ignore_index=True)
    odd = pd.DataFrame({"N.y": whole["y"], "x:b (1)": levels[whole["x"]]})
    pieces = dd.from_pandas(odd, npartitions=2)
    options = {"family": "poisson", "n_draws": 0}
    with pytest.raises(tb.DataError, match=r"2\+ in distinct row \d+\).*C\(`x:b \(1\)`\)"):
        tb.fit("N.y ~ `x:b (1)`", pieces, **options)
    fit = tb.fit("N.y ~ C(`x:b (1)`)", pieces, **options)
    assert fit.param_names[-1] == "C(x:b (1))[T.2+]"
    rows = fit.encode({"x:b (1)": ["1", "2+", "0"]})
    assert rows.tolist() == [[1, 1, 0], [1, 0, 1], [1, 0, 0]]
