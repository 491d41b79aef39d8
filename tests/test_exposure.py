"""Rows without exposure: an error that names them, or left out and counted, wherever rows are."""

import json
import warnings

import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

import tvdbayes as tb
from tvdbayes.cli import main

N, LACKING = 240, [3, 17, 100]


@pytest.fixture
def rows():
    rng = np.random.default_rng(4)
    hours = rng.integers(1, 4, N).astype(float)
    age = rng.integers(0, 3, N)
    visits = rng.poisson(hours * np.exp(0.2 + 0.3 * age))
    hours[LACKING] = 0.0
    with np.errstate(divide="ignore"):
        return pd.DataFrame({"visits": visits, "age": age, "hours": hours, "log": np.log(hours)})


def fit(data, column="exposure", **options):
    name = {"exposure": "hours", "offset": "log"}[column]
    given = {"n_draws": 6, "zero_exposure": "drop", column: name, **options}
    return tb.fit("visits ~ age", data, **given)


def messages(said):
    return [str(one.message) for one in said if one.category is tb.MissingRowsWarning]


def as_dask(rows):
    return dd.from_pandas(rows, npartitions=3)


def as_csv(rows, folder):
    rows.to_csv(folder / "rows.csv", index=False)
    return str(folder / "rows.csv")


PLACES = {
    "memory": lambda rows, _: (rows, {}),
    "dask": lambda rows, _: (as_dask(rows), {}),
    "duckdb": lambda rows, _: (rows, {"engine": "duckdb"}),
    "lines": lambda rows, folder: (as_csv(rows, folder), {"engine": "duckdb"}),
}


@pytest.mark.parametrize("column", ["exposure", "offset"])
@pytest.mark.parametrize("place", PLACES)
def test_rows_without_exposure_are_left_out_and_counted(rows, tmp_path, place, column):
    if place in ("duckdb", "lines"):
        pytest.importorskip("ibis")
    data, how = PLACES[place](rows, tmp_path)
    says = "'hours' is 0" if column == "exposure" else "'log' is -inf"
    with pytest.warns(tb.MissingRowsWarning) as said:
        found = fit(data, column, **how)
    assert messages(said) == [f"3 of 240 rows have no exposure ({says}) and were left out."]
    assert (found.n_rows, found.n_left_out, found.data.n_unexposed) == (N, 3, 3)
    without = fit(rows.drop(LACKING), column)
    assert without.data.n_unexposed == 0
    assert found.draws.tobytes() == without.draws.tobytes()


def test_rows_that_stay_with_dask_are_left_out_too(rows):
    with pytest.warns(tb.MissingRowsWarning, match="3 of 240"):
        found = fit(as_dask(rows), max_cells=5)
    assert found.sample_fit is not None
    assert (found.n_rows, found.n_left_out, found.data.n_unexposed) == (N, 3, 3)
    without = fit(as_dask(rows.drop(LACKING)), max_cells=5)
    np.testing.assert_allclose(found.estimate, without.estimate, rtol=1e-9)


def test_rows_with_a_gap_are_counted_once(rows):
    rows.loc[[2, 3], "age"] = np.nan
    with pytest.warns(tb.MissingRowsWarning) as said:
        found = fit(rows, missing="drop")
    assert [text.split(" rows")[0] for text in messages(said)] == ["3 of 240", "1 of 240"]
    assert (found.n_left_out, found.data.n_unexposed) == (4, 3)
    assert "4 more were left out for gaps or a weight of zero, 3 for no exposure" in str(
        found.methods()
    )


@pytest.mark.parametrize("value", [0.0, -2.0])
@pytest.mark.parametrize("grid", [None, 2])
def test_unless_asked_an_exposure_of_0_or_below_is_an_error(rows, value, grid):
    """Rounding by an engine must not hide it in the mean of a bin."""
    rows.loc[LACKING, "hours"] = value
    how = {} if grid is None else {"engine": "duckdb", "grid": tb.Grid(2, columns=("hours",))}
    for zero_exposure in ("error", "drop")[: 1 if value == 0 else 2]:
        with pytest.raises(tb.DataError, match=r"'hours' must be above 0; 3 of .*zero_exposure="):
            fit(rows, zero_exposure=zero_exposure, **how)


def test_an_update_leaves_them_out_as_the_fit_did(rows):
    with pytest.warns(tb.MissingRowsWarning, match="2 of 50"):
        old = fit(rows[:50])
    with pytest.warns(tb.MissingRowsWarning, match="1 of 190"):
        grown = old.update(rows[50:])
    with pytest.warns(tb.MissingRowsWarning):
        whole = fit(rows)
    assert (grown.n_left_out, grown.data.n_unexposed) == (3, 3)
    assert grown.draws.tobytes() == whole.draws.tobytes()


def test_the_count_is_saved(rows, tmp_path):
    with pytest.warns(tb.MissingRowsWarning):
        fit(rows).save(tmp_path / "fit.tvd")
    read = tb.load(tmp_path / "fit.tvd")
    assert read.data.n_unexposed == 3
    assert read.options.changed()["zero_exposure"] == "drop"


def test_a_terminal_says_and_counts_them(rows, tmp_path):
    as_csv(rows, tmp_path)
    asked = ["fit", str(tmp_path / "rows.csv"), "visits ~ age", "--exposure", "hours"]
    asked += ["--draws", "20", "--out", str(tmp_path / "out"), "--json"]
    refused = CliRunner().invoke(main, asked)
    assert refused.exit_code == 1
    assert "--zero-exposure drop" in refused.stderr
    done = CliRunner().invoke(main, [*asked, "--zero-exposure", "drop"])
    facts = json.loads(done.stdout)
    assert any("3 of 240 rows have no exposure" in text for text in facts["warnings"])
    assert (facts["n_left_out"], facts["n_unexposed"]) == (3, 3)


def test_rows_of_weight_zero_need_no_exposure(rows):
    rows["w"] = (rows.hours > 0).astype(float)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = fit(rows, zero_exposure="error", weights="w")
    assert (found.n_left_out, found.data.n_unexposed) == (3, 0)
