"""Data from anywhere: the same bits from every library, gaps, weights, order and state."""

import numpy as np
import pandas as pd
import pytest

import tvdbayes as tb

pytestmark = pytest.mark.filterwarnings(
    "ignore::tvdbayes.SmallGroupsWarning", "ignore::tvdbayes.TooFewRowsWarning"
)


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(21)
    n = 200
    return pd.DataFrame(
        {
            "visits": rng.poisson(3, n),
            "age": rng.integers(18, 24, n),
            "region": rng.choice(["north", "south", "west"], n),
            "smokes": rng.random(n) < 0.3,
            "hours": rng.choice([1.0, 2.5], n),
            "copies": rng.integers(0, 3, n),
        }
    )


FORMULA = "visits ~ scale(age) + region + smokes"


def draws(data, formula=FORMULA, **options):
    return tb.fit(formula, data, n_draws=8, **options).draws


def test_every_kind_of_data_gives_the_same_bits(frame, tmp_path):
    pl, pa = pytest.importorskip("polars"), pytest.importorskip("pyarrow")
    csv, parquet = tmp_path / "data.csv", tmp_path / "data.parquet"
    frame.to_csv(csv, index=False)
    frame.to_parquet(parquet)
    text = frame.assign(region=frame["region"].astype("string"))
    objects = frame.astype(object)
    wanted = draws(frame, exposure="hours")
    for data in (
        frame.to_dict("list"),
        {name: column.to_numpy() for name, column in frame.items()},
        pl.DataFrame(frame.to_dict("list")),
        pa.table(frame.to_dict("list")),
        csv,
        str(parquet),
        text,
        objects,
        frame.set_index(np.arange(len(frame))[::-1]),
    ):
        assert draws(data, exposure="hours").tobytes() == wanted.tobytes()


@pytest.mark.slow
@pytest.mark.parametrize(
    "term",
    ["scale(age)", "center(age)", "poly(age, 2)", "bs(age, df=4)", "cr(age, df=4) - 1", "age"],
)
def test_neither_order_nor_the_way_weights_are_written_matters(term, frame):
    formula = f"visits ~ smokes + {term}"
    order = np.random.default_rng(1).permutation(len(frame))
    weighted = draws(frame, formula, weights="copies")
    assert draws(frame.iloc[order], formula, weights="copies").tobytes() == weighted.tobytes()
    repeated = frame.loc[frame.index.repeat(frame["copies"])]
    assert draws(repeated, formula).tobytes() == weighted.tobytes()


def test_polynomials_are_orthogonal_and_remembered(frame):
    fit = tb.fit("visits ~ poly(age, 2)", frame, n_draws=0)
    cells = fit.posterior.cells
    z = cells.x[cells.x_index][:, 1:]
    gram = (z * cells.counts[:, None]).T @ z
    assert np.allclose(gram, np.eye(2), atol=1e-12)
    assert fit.encoding.transform_state


def test_levels_of_rows_without_weight_do_not_count(frame):
    rare = frame.assign(
        region=np.where(frame.index == 0, "moon", frame["region"]),
        copies=np.where(frame.index == 0, 0, 1),
    )
    fit = tb.fit("visits ~ region", rare, weights="copies", n_draws=0)
    assert fit.param_names == ("Intercept", "region[T.south]", "region[T.west]")
    assert fit.cell_of_row[0] == -1


def test_gaps_are_an_error_or_dropped_with_a_count(frame):
    holes = frame.assign(
        age=frame["age"].astype(float).where(frame.index != 5),
        region=frame["region"].where(frame.index != 7),
        hours=frame["hours"].where(frame.index != 9),
    )
    with pytest.raises(tb.DataError, match=r"'age'.*1 of 200 is not \(first: nan in row 5\)"):
        tb.fit(FORMULA, holes, n_draws=0)
    with pytest.raises(tb.DataError, match=r"'region' must have no gaps.*row 7"):
        tb.fit("visits ~ region", holes, n_draws=0)
    with pytest.warns(tb.MissingRowsWarning, match="2 of 200 rows"):
        fit = tb.fit(FORMULA, holes, n_draws=8, missing="drop")
    assert fit.posterior.cells.n_obs == 198
    assert (fit.cell_of_row[[5, 7]] == -1).all()
    assert fit.draws.tobytes() == draws(frame.drop([5, 7])).tobytes()
    with pytest.raises(tb.SettingsError, match="missing must be"):
        tb.fit(FORMULA, holes, missing="ignore")


def test_rows_in_messages_are_those_of_the_input(frame):
    wrong = frame.assign(
        visits=np.where(frame.index == 150, -1, frame["visits"]),
        copies=np.where(frame.index < 100, 0, 1),
    )
    with pytest.raises(tb.FamilyError, match=r"1 of 100 is not \(first: -1.0 in row 150\)"):
        tb.fit("visits ~ age", wrong, weights="copies")


def test_successes_over_total(frame):
    hits = frame.assign(hits=np.minimum(frame["visits"], 9), total=9)
    pair = draws(hits, "hits / total ~ age", family="binomial")
    assert pair.tobytes() == draws(hits, "hits ~ age", family="binomial", trials=9).tobytes()
    with pytest.raises(tb.SettingsError, match="Give one of them"):
        tb.fit("hits / total ~ age", hits, family="binomial", trials=9)
    with pytest.raises(tb.FormulaError, match="no column 'sum', which"):
        tb.fit("hits / sum ~ age", hits, family="binomial")


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ([1, 2, 3], "must be a data frame, a dict"),
        ({"visits": [1, 2], "age": [1]}, "equal length"),
        ({}, "0 rows"),
        ("nowhere.csv", "no file"),
        ("data.xlsx", "CSV or Parquet"),
        ({"visits": [1, "two"], "age": [1, 2]}, "mixes numbers and text"),
        ({"visits": [1, 2], "age": pd.to_datetime(["2020-01-01"] * 2)}, "neither a number"),
        ({"visits": [1, 2], "age": [1j, 2]}, "neither a number"),
        ({"visits": [None, None], "age": [1, 2]}, "no gaps"),
    ],
)
def test_data_that_cannot_be_used_say_why(data, words):
    with pytest.raises(tb.TVDBayesError, match=words):
        tb.fit("visits ~ age", data)


def test_a_broken_file_is_named(tmp_path):
    path = tmp_path / "broken.parquet"
    path.write_bytes(b"not parquet")
    with pytest.raises(tb.DataError, match="cannot be read"):
        tb.fit("visits ~ age", path)


def test_notebooks_show_tables_with_everything_escaped(frame):
    evil = "<script>alert(1)</script>"
    data = frame.rename(columns={"age": evil})
    fit = tb.fit(f"visits ~ `{evil}`", data, n_draws=8)
    for shown in (fit._repr_html_(), fit.posterior._repr_html_(), fit.summary()._repr_html_()):
        assert "<table>" in shown
        assert "<script" not in shown
        assert "&lt;script&gt;" in shown
    assert "<table>" not in tb.fit("visits ~ 1", frame, n_draws=0)._repr_html_()


def test_new_data_are_encoded_as_in_the_fit(frame):
    fit = tb.fit("visits ~ scale(age) + region + bs(age, df=4)", frame, n_draws=0, ridge=0.01)
    cells = fit.posterior.cells
    assert np.allclose(fit.encode(frame), cells.x[cells.x_index][fit.cell_of_row], atol=1e-12)
    # One row alone is encoded by what was remembered, not by its own mean.
    assert np.allclose(fit.encode(frame.iloc[[3]]), fit.encode(frame)[[3]], atol=1e-12)
    moon = frame.iloc[:2].assign(region=["north", "moon"])
    with pytest.raises(tb.DataError, match=r"not seen: \{'moon'\}.*north, south, west"):
        fit.encode(moon)
    with pytest.raises(tb.DataError, match="no column 'region'"):
        fit.encode(frame[["age"]])
    with pytest.raises(tb.DataError, match="beyond"):
        fit.encode(frame.assign(age=99))
    assert tb.fit("visits ~ 1", frame, n_draws=0).encode(frame).tolist() == [[1.0]] * len(frame)
