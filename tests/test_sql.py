"""Tables grouped by an engine: the cells of the same rows in memory, and no SQL but ours."""

import datetime
import importlib.util
import json
import os
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import tvdbayes as tb
from tables import FORMULA, HOSTILE, make_rows, same_fit
from tvdbayes.data import sources
from tvdbayes.data.duckdb import files_of
from tvdbayes.data.grid import learn_cuts
from tvdbayes.data.sources import open_source

ibis = pytest.importorskip("ibis")
duckdb = pytest.importorskip("duckdb")


@pytest.fixture(scope="module")
def rows() -> pd.DataFrame:
    return make_rows()


@pytest.fixture(scope="module")
def in_memory(rows: pd.DataFrame) -> tb.Fit:
    return tb.fit(FORMULA, rows, n_draws=20)


def as_parquet(rows: pd.DataFrame, folder: Path) -> str:
    for j, part in enumerate(np.array_split(np.arange(len(rows)), 3)):
        rows.iloc[part].to_parquet(folder / f"part{j}.parquet", index=False)
    return str(folder / "*.parquet")


def as_csv(rows: pd.DataFrame, folder: Path) -> str:
    rows.to_csv(folder / "rows.csv", index=False)
    return str(folder)


def as_ibis(rows: pd.DataFrame, folder: Path) -> object:
    rows.to_parquet(folder / "rows.parquet")
    table = ibis.duckdb.connect().read_parquet(str(folder / "rows.parquet"))
    return table.filter(table.age >= 0)


@pytest.mark.slow
@pytest.mark.parametrize("form", [as_parquet, as_csv, as_ibis])
def test_the_engine_gives_the_same_fit(form, rows, in_memory, tmp_path):
    fit = tb.fit(FORMULA, form(rows, tmp_path), n_draws=20)
    same_fit(fit, in_memory)
    assert fit.data.n_grouped == len(rows)
    assert len(fit.rows()) == len(rows.drop_duplicates())


def test_a_frame_and_a_file_by_request(rows, in_memory, tmp_path):
    rows.to_parquet(tmp_path / "rows.parquet")
    same_fit(tb.fit(FORMULA, rows, n_draws=20, engine="duckdb"), in_memory)
    same_fit(tb.fit(FORMULA, tmp_path / "rows.parquet", n_draws=20, engine="duckdb"), in_memory)
    whole = tb.fit(FORMULA, tmp_path / "rows.parquet", n_draws=20)
    assert whole.data.n_grouped is None
    assert len(whole.cell_of_row) == len(rows)


def test_many_rows_in_a_small_file_are_grouped(rows, in_memory, tmp_path, monkeypatch):
    rows.to_parquet(tmp_path / "rows.parquet")
    (tmp_path / "broken.parquet").write_text("no rows at all")
    monkeypatch.setattr(sources, "_MANY", len(rows))
    found = tb.fit(FORMULA, tmp_path / "rows.parquet", n_draws=20)
    same_fit(found, in_memory)
    assert found.data.n_grouped == len(rows)
    with pytest.raises(tb.DataError, match="cannot be read"):
        tb.fit(FORMULA, tmp_path / "broken.parquet")


def test_a_table_by_its_name(rows, in_memory):
    connection = ibis.duckdb.connect()
    connection.con.register("people", rows)
    same_fit(tb.fit(FORMULA, "people", engine=connection, n_draws=20), in_memory)
    with pytest.raises(tb.DataError, match=r"no table 'peple'\. Did you mean 'people'"):
        tb.fit(FORMULA, "peple", engine=connection)


@pytest.mark.slow
def test_weights_add_up(rows, tmp_path):
    rng = np.random.default_rng(1)
    whole = rows.assign(w=rng.integers(0, 4, len(rows)))
    same_fit(
        tb.fit(FORMULA, as_parquet(whole, tmp_path), weights="w", n_draws=8),
        tb.fit(FORMULA, whole, weights="w", n_draws=8),
    )
    parts = rows.assign(w=rng.random(len(rows)))
    (tmp_path / "fractions").mkdir()
    path = as_parquet(parts, tmp_path / "fractions")
    fit = tb.fit(FORMULA, path, weights="w", n_draws=8)
    memory = tb.fit(FORMULA, parts, weights="w", n_draws=8)
    np.testing.assert_allclose(fit.posterior.cells.counts, memory.posterior.cells.counts, 1e-9)
    same_fit(fit, tb.fit(FORMULA, path, weights="w", n_draws=8))


def test_offset_trials_and_levels(tmp_path):
    rng = np.random.default_rng(2)
    n = 3000
    data = pd.DataFrame(
        {
            "won": rng.binomial(5, 0.4, n),
            "games": np.full(n, 5),
            "grade": rng.choice(["low", "mid", "top"], n),
            "x": rng.integers(0, 4, n),
            "time": rng.choice([0.5, 1.0, 2.0], n),
            "count": rng.poisson(2, n),
        }
    )
    path = as_parquet(data, tmp_path)
    for formula, options in (
        ("won / games ~ x", {"family": "binomial"}),
        ("grade ~ x", {"family": "categorical"}),
        ("count ~ x", {"exposure": "time"}),
        ("count ~ poly(x, 2) + bs(x, df=4)", {"collinear": "drop"}),
    ):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", tb.TVDBayesWarning)
            one = tb.fit(formula, path, n_draws=8, **options)
            other = tb.fit(formula, data, n_draws=8, **options)
        same_fit(one, other)


def test_gaps_and_infinities(rows, tmp_path):
    odd = rows.assign(age=rows.age.astype(float))
    odd.loc[[3, 5], "age"] = np.nan
    odd.loc[5, "sex"] = None
    path = as_parquet(odd, tmp_path)
    with pytest.raises(tb.DataError, match=r"'age' must have no gaps; 2 of 4,000 rows"):
        tb.fit(FORMULA, path)
    with pytest.warns(tb.MissingRowsWarning, match="2 of 4000 rows"):
        fit = tb.fit(FORMULA, path, missing="drop", n_draws=8)
    same_fit(fit, tb.fit(FORMULA, rows.drop([3, 5]), n_draws=8))
    odd = rows.assign(age=rows.age.astype(float))
    odd.loc[7, "age"] = np.inf
    with pytest.raises(tb.DataError, match=r"'age' must be a finite number; 1 of 4,000"):
        tb.fit(FORMULA, as_parquet(odd, tmp_path))
    with pytest.raises(tb.DataError, match="no rows"):
        tb.fit(FORMULA, as_parquet(rows.iloc[:0], tmp_path))
    with pytest.raises(tb.DataError, match="No row is left"):
        tb.fit(FORMULA, as_parquet(rows.assign(w=0), tmp_path), weights="w")
    with pytest.raises(tb.DataError, match="at least 0; 4,000 of 4,000"):
        tb.fit(FORMULA, as_parquet(rows.assign(w=-1), tmp_path), weights="w")
    with pytest.raises(tb.DataError, match="'w' must hold numbers"):
        tb.fit(FORMULA, as_parquet(rows.assign(w="a"), tmp_path), weights="w")


def test_wrong_outcomes_name_distinct_rows(rows, tmp_path):
    with pytest.raises(tb.FamilyError, match="in distinct row 0"):
        tb.fit(FORMULA, as_parquet(rows.assign(visits=rows.visits - 1), tmp_path))
    with pytest.raises(tb.DataError, match="holds date"):
        tb.fit(FORMULA, as_parquet(rows.assign(age=datetime.date(2026, 1, 1)), tmp_path))


def test_too_many_cells_are_counted_first(rows, tmp_path):
    wide = rows.assign(age=np.random.default_rng(0).random(len(rows)))
    path = as_parquet(wide, tmp_path)
    with pytest.raises(tb.DataError, match=r"4,000 distinct rows; at most 100 .*age \(4,000\)"):
        tb.fit("visits ~ bs(age, df=4)", path, max_cells=100)
    with pytest.raises(tb.SettingsError, match="max_cells must be"):
        tb.fit("visits ~ age", path, max_cells=0)


# --- rounding -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def continuous(tmp_path_factory) -> tuple[str, pd.DataFrame]:
    rng = np.random.default_rng(3)
    n = 60_000
    a, b = rng.standard_normal((2, n))
    b += 0.6 * a
    p = 1 / (1 + np.exp(-(0.3 + a - 0.5 * b)))
    data = pd.DataFrame({"y": (rng.random(n) < p).astype(int), "a": a, "b": b, "g": n * ["u"]})
    data["g"] = rng.choice(["u", "v"], n)
    folder = tmp_path_factory.mktemp("continuous")
    return as_parquet(data, folder), data


@pytest.mark.slow
def test_rounding_hardly_moves_the_answer_and_says_by_how_much(continuous):
    path, data = continuous
    fit = tb.fit("y ~ a + b + g", path, family="bernoulli", grid=30, n_draws=30)
    exact = tb.fit("y ~ a + b + g", data, family="bernoulli", n_draws=0)
    sd = fit.draws.std(0)
    assert (np.abs(fit.posterior.kld_minimiser - exact.posterior.kld_minimiser) < 0.5 * sd).all()
    assert set(fit.rounded.lost) == {"a", "b"}
    assert all(0 < share < 0.01 for share in fit.rounded.lost.values())
    assert fit.rounded.moved.shape == fit.estimate.shape
    assert "30 bins" in str(fit.rounded)
    # Means of all rows are kept.
    cells = fit.posterior.cells
    np.testing.assert_allclose(cells.p @ cells.x[cells.x_index][:, 1:3], data[["a", "b"]].mean())


@pytest.mark.slow
def test_rounding_is_the_same_every_time(continuous):
    path, data = continuous
    one = tb.fit("y ~ a + b", path, family="bernoulli", grid=25, n_draws=4)
    same_fit(one, tb.fit("y ~ a + b", path, family="bernoulli", grid=25, n_draws=4))
    shuffled = data.sample(frac=1, random_state=1)
    same_fit(one, tb.fit("y ~ a + b", shuffled, family="bernoulli", grid=25, n_draws=4))


def test_coarse_rounding_warns(continuous):
    path, _ = continuous
    with pytest.warns(tb.CoarseWarning, match="posterior deviations"):
        tb.fit("y ~ a + b", path, family="bernoulli", grid=3, n_draws=20)


def test_grids_that_make_no_sense(continuous):
    path, data = continuous
    for grid, words in (
        (1, "from 2 to"),
        (True, "number of bins"),
        ("many", "number of bins"),
    ):
        with pytest.raises(tb.SettingsError, match=words):
            tb.fit("y ~ a", path, family="bernoulli", grid=grid)
    with pytest.raises(tb.SettingsError, match="in a tuple"):
        tb.Grid(columns="a")
    with pytest.raises(tb.DataError, match="not a covariate"):
        tb.fit("y ~ a", path, family="bernoulli", grid=tb.Grid(columns=("y",)))
    with pytest.raises(tb.DataError, match="Only numbers"):
        tb.fit("y ~ a + g", path, family="bernoulli", grid=tb.Grid(columns=("g",)))
    with pytest.raises(tb.SettingsError, match="neither rounds"):
        tb.fit("y ~ a", data, family="bernoulli", grid=5, engine="memory")


@pytest.mark.parametrize("method", ["kmeans", "quantile"])
def test_cuts_are_increasing_and_leave_no_bin_empty(method):
    rng = np.random.default_rng(0)
    for values in (
        rng.standard_normal(5000),
        rng.standard_cauchy(5000),
        np.repeat([0.0, 1.0, 5.0], 100),
        np.r_[np.zeros(900), rng.random(100)],
        np.zeros(50),
    ):
        cuts = learn_cuts(values, tb.Grid(10, method))
        assert (np.diff(cuts) > 0).all()
        assert (np.bincount(np.searchsorted(cuts, values), minlength=len(cuts) + 1) > 0).all()
        assert len(cuts) < 10


# --- what an untrusted name can do ----------------------------------------------------------


def database() -> object:
    connection = ibis.duckdb.connect()
    connection.con.register("people_view", make_rows(300))
    connection.con.execute("CREATE TABLE people AS SELECT * FROM people_view")
    connection.con.execute("CREATE TABLE secrets AS SELECT 'top' AS secret")
    return connection


def tables(connection: object) -> list[str]:
    return sorted(t for t in connection.list_tables() if t in ("people", "secrets"))


@pytest.mark.parametrize("name", HOSTILE)
def test_a_table_name_cannot_run_sql(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    connection = database()
    with pytest.raises(tb.DataError, match="no table"):
        tb.fit("visits ~ age", name, engine=connection)
    assert tables(connection) == ["people", "secrets"]
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("name", HOSTILE)
def test_a_column_name_cannot_run_sql(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    connection = database()
    # As a name that is no column: refused. In formulas, names are read by the guard.
    with pytest.raises((tb.DataError, tb.FormulaError)):
        tb.fit("visits ~ age", "people", engine=connection, weights=name)
    with pytest.raises(tb.FormulaError):
        tb.fit(f"visits ~ {name}", "people", engine=connection)
    # As the name of a column that is there: quoted, and fitted like any other.
    if "`" not in name:
        data = make_rows(300).rename(columns={"age": name})
        connection.con.register("odd", data)
        fit = tb.fit(f"visits ~ `{name}`", "odd", engine=connection, n_draws=4)
        plain = tb.fit("visits ~ age", make_rows(300), n_draws=4)
        np.testing.assert_array_equal(fit.draws, plain.draws)
        data = make_rows(300).rename(columns={"visits": name})
        connection.con.register("outcome", data)
        fit = tb.fit(f"`{name}` ~ age", "outcome", engine=connection, n_draws=4)
        np.testing.assert_array_equal(fit.draws, plain.draws)
    assert tables(connection) == ["people", "secrets"]
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    "path",
    [
        "x.parquet'); COPY (SELECT 1) TO 'stolen.csv'; --.parquet",
        "https://example.org/x.parquet",
        "s3://bucket/x.parquet",
        "/etc/passwd",
        "x\0.parquet",
        "postgres://user@host/db",
        "*.parquet",
        "",
    ],
)
def test_a_path_cannot_run_sql_nor_leave_this_machine(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(tb.DataError):
        tb.fit("visits ~ age", path, engine="duckdb")
    assert os.listdir(tmp_path) == []


def test_files_with_odd_names_are_read_as_they_are(rows, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    others = make_rows(4000, seed=9)
    for name in ("a[1]'; DROP TABLE x; --*?.parquet", "a[1].parquet", 'q"uote.parquet'):
        rows.to_parquet(name)
        others.to_parquet("a1.parquet")
        fit = tb.fit("visits ~ age", name, engine="duckdb", n_draws=2)
        assert fit.posterior.cells.n_obs == len(rows)
        np.testing.assert_array_equal(fit.draws, tb.fit("visits ~ age", rows, n_draws=2).draws)


def test_the_connection_to_files_reads_nothing_else(rows, tmp_path):
    rows.to_parquet(tmp_path / "rows.parquet")
    secret = tmp_path / "secret.csv"
    secret.write_text("a\n1\n")
    source = open_source(tmp_path / "rows.parquet", engine="duckdb")
    connection = source.expression.get_backend().con
    for command in (
        f"SELECT * FROM read_csv('{secret}')",
        f"COPY (SELECT 1) TO '{tmp_path}/stolen.csv'",
        f"ATTACH '{tmp_path}/evil.db'",
        "INSTALL httpfs",
        "SET enable_external_access = true",
        "SET allowed_paths = ['/etc/passwd']",
    ):
        with pytest.raises(duckdb.Error):
            connection.execute(command)
    assert sorted(os.listdir(tmp_path)) == ["rows.parquet", "secret.csv"]


def test_files_of_folders_and_patterns(rows, tmp_path):
    with pytest.raises(tb.DataError, match="is a folder without"):
        files_of(tmp_path)
    (tmp_path / "year=2026").mkdir()
    rows.to_parquet(tmp_path / "year=2026" / "a.parquet")
    (tmp_path / "notes.txt").write_text("hello")
    assert [Path(f).name for f in files_of(tmp_path)] == ["a.parquet"]
    with pytest.raises(tb.DataError, match="by their ending"):
        files_of(tmp_path / "*.txt")
    rows.to_csv(tmp_path / "b.csv")
    with pytest.raises(tb.DataError, match="both CSV and Parquet"):
        files_of(tmp_path)
    (tmp_path / "broken.parquet").write_text("this is not Parquet")
    with pytest.raises(tb.DataError, match="cannot be read"):
        tb.fit("visits ~ age", tmp_path / "broken.parquet", engine="duckdb")


def test_text_in_csv_is_read_as_pandas_does(tmp_path):
    (tmp_path / "t.csv").write_text(
        "y,flag,word,day,gap\n1,True,yes,2026-01-01,NA\n0,False,no,2026-01-02,3\n"
    )
    source = open_source(tmp_path / "t.csv", engine="duckdb")
    table = source.table(["y", "flag", "word", "day"], None, "error")
    assert table.frame.flag.tolist() == [False, True]
    assert table.frame.word.tolist() == ["no", "yes"]
    assert table.frame.day.tolist() == ["2026-01-02", "2026-01-01"]
    with pytest.raises(tb.DataError, match="'gap' must have no gaps; 1 of 2"):
        source.table(["gap"], None, "error")


def test_a_missing_extra_is_named(rows, tmp_path, monkeypatch):
    import builtins

    real = builtins.__import__

    def without(name, *args, **kwargs):
        if name == "ibis":
            raise ImportError(name)
        return real(name, *args, **kwargs)

    path = as_parquet(rows, tmp_path)
    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(tb.SettingsError, match=r"pip install 'tvdbayes\[sql\]'"):
        tb.fit("visits ~ age", path)


def test_prediction_needs_rows(rows, in_memory, tmp_path):
    with pytest.raises(tb.DataError, match="to_pandas"):
        in_memory.predict(as_ibis(rows, tmp_path))


def test_engines_that_are_none(rows):
    with pytest.raises(tb.SettingsError, match="an Ibis connection; got 'oracle'"):
        tb.fit("visits ~ age", rows, engine="oracle")
    with pytest.raises(tb.SettingsError, match="an Ibis connection; got 3"):
        tb.fit("visits ~ age", "people", engine=3)
    with pytest.raises(tb.SettingsError, match="name of a table"):
        tb.fit("visits ~ age", rows, engine=ibis.duckdb.connect())


def test_ibis_is_not_imported_unless_asked_for():
    assert importlib.util.find_spec("ibis") is not None
    import subprocess
    import sys

    code = "import sys, tvdbayes as tb; tb.fit('y ~ 1', {'y': [1, 2, 3, 1]}, n_draws=2); "
    code += "assert 'ibis' not in sys.modules and 'duckdb' not in sys.modules"
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True)


# --- what a review found --------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "x,y\n#b,3\n0,1\n1,2\n#b,3\n0,1\n",
        "x,y\n007,1\n+1,2\n1e1,3\n 2,2\n",
        "x,y\n'1',1\n'2',2\n'1',3\n",
        "x,y\n0x11,1\n3,2\n",
        'x,y\n"a,b",1\n"c ""d""",2\n"line\nbreak",3\n',
        "x,y\nNAN,1\nb,2\n",
        "x,y\ntrue,1\nFALSE,2\n",
        "x,y\nyes,1\nno,2\n",
    ],
)
def test_csv_is_read_as_in_memory(text, tmp_path):
    (tmp_path / "t.csv").write_text(text)
    engine = open_source(tmp_path / "t.csv", engine="duckdb").table(["x", "y"], None, "error")
    memory = open_source(tmp_path / "t.csv").table(["x", "y"], None, "error")
    pd.testing.assert_frame_equal(engine.frame, memory.frame)
    np.testing.assert_array_equal(engine.counts, memory.counts)


@pytest.mark.parametrize(
    "text",
    [
        "y,x\n" + "1,2\n" * 60 + "y,x,z\n" + "1,2,3\n" * 60,
        "y,x\n1,2\n#comment\n2,3\n",
        "a title\ny,x\n1,2\n",
        'y,x\n1,2\n5,"3\n1,2\n',
        "y,x,x\n1,2,3\n",
        "y;x\n1;2\n",
        "",
    ],
)
def test_csv_that_is_broken_is_refused(text, tmp_path):
    (tmp_path / "t.csv").write_text(text)
    with pytest.raises((tb.DataError, tb.FormulaError)):
        tb.fit("y ~ x", tmp_path / "t.csv", engine="duckdb")


def test_folders_named_like_columns_change_nothing(rows, tmp_path):
    for value in ("7", "8"):
        (tmp_path / f"age={value}").mkdir()
        rows.to_parquet(tmp_path / f"age={value}" / "a.parquet")
    fit = tb.fit("visits ~ age", tmp_path, n_draws=2)
    same_fit(fit, tb.fit("visits ~ age", pd.concat([rows, rows]), n_draws=2))


def test_names_that_differ_in_capitals_are_refused(rows, tmp_path):
    odd = rows.assign(X=rows.age, x=rows.kids, X_1=0)
    odd.to_parquet(tmp_path / "odd.parquet")
    odd.to_csv(tmp_path / "odd.csv", index=False)
    for name in ("odd.parquet", "odd.csv"):
        with pytest.raises(tb.DataError, match="does not tell apart"):
            tb.fit("visits ~ X", tmp_path / name, engine="duckdb")
    with pytest.raises(tb.DataError, match="does not tell apart"):
        tb.fit("visits ~ X + x", odd, engine="duckdb")
    same_fit(
        tb.fit("visits ~ X", odd, engine="duckdb", n_draws=2), tb.fit("visits ~ X", odd, n_draws=2)
    )


def test_a_file_counts_once(rows, tmp_path):
    (tmp_path / "a").mkdir()
    rows.to_parquet(tmp_path / "a" / "rows.parquet")
    (tmp_path / "a" / "again.parquet").symlink_to(tmp_path / "a" / "rows.parquet")
    (tmp_path / "a" / "_temporary").mkdir()
    rows.to_parquet(tmp_path / "a" / "_temporary" / "half.parquet")
    rows.to_parquet(tmp_path / "a" / ".hidden.parquet")
    assert tb.fit("visits ~ 1", tmp_path / "a", n_draws=0).n_rows == len(rows)
    pattern = f"{tmp_path}/**/**/rows.parquet"
    assert tb.fit("visits ~ 1", pattern, n_draws=0).n_rows == len(rows)
    (tmp_path / "blob").write_bytes((tmp_path / "a" / "rows.parquet").read_bytes())
    (tmp_path / "link.parquet").symlink_to(tmp_path / "blob")
    fit = tb.fit("visits ~ 1", tmp_path / "link.parquet", engine="duckdb", n_draws=0)
    assert fit.n_rows == len(rows)


def test_declared_categories_keep_their_order(rows, tmp_path):
    order = pd.CategoricalDtype(["mid", "low", "high"], ordered=True)
    grade = np.array(["low", "mid", "high"])[rows.kids]
    data = rows.assign(grade=pd.Series(grade).astype(order))
    path = as_parquet(data, tmp_path)
    for formula, options in (
        ("visits ~ grade", {}),
        ("grade ~ age", {"family": "ordinal"}),
        ("grade ~ age", {"family": "categorical"}),
    ):
        memory = tb.fit(formula, data, n_draws=2, **options)
        same_fit(tb.fit(formula, path, n_draws=2, **options), memory)
        same_fit(tb.fit(formula, data, n_draws=2, engine="duckdb", **options), memory)
    other = pd.CategoricalDtype(["low", "mid", "high"], ordered=True)
    data.assign(grade=data.grade.astype(other)).to_parquet(tmp_path / "part9.parquet")
    with pytest.raises(tb.DataError, match="not the same in all files"):
        tb.fit("visits ~ grade", path)


def test_odd_columns_and_default_back_ends_do_not_matter(rows):
    import decimal

    odd = rows.assign(
        mixed=[1, "a"] * (len(rows) // 2),
        spell=pd.interval_range(0, len(rows)),
        price=[decimal.Decimal("1.5"), decimal.Decimal(2)] * (len(rows) // 2),
    )
    formula = "visits ~ age + price"
    same_fit(tb.fit(formula, odd, engine="duckdb", n_draws=2), tb.fit(formula, odd, n_draws=2))
    mine = ibis.duckdb.connect()
    ibis.set_backend(mine)
    try:
        tb.fit("visits ~ age", rows, engine="duckdb", n_draws=2)
        assert mine.list_tables() == []
    finally:
        ibis.options.default_backend = None


@pytest.mark.parametrize("name", ["secret.csv", "*.csv", "duckdb_tables", "sqlite_master"])
def test_a_table_name_reads_no_file(name, rows, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows.to_csv("secret.csv", index=False)
    with pytest.raises(tb.DataError, match="no table"):
        tb.fit("visits ~ age", name, engine=database())


def test_a_closed_connection_is_an_error_of_ours():
    connection = database()
    connection.disconnect()
    with pytest.raises(tb.DataError, match="does not give the table"):
        tb.fit("visits ~ age", "people", engine=connection)


def test_rows_without_weight_are_not_looked_at(rows, tmp_path):
    odd = rows.assign(w=1.0, age=rows.age.astype(float), keep=True)
    odd.loc[[0, 1, 2], "w"] = 0
    odd.loc[0, "age"], odd.loc[1, "age"] = np.nan, np.inf
    odd.loc[2, "keep"] = False
    same_fit(
        tb.fit("visits ~ age", as_parquet(odd, tmp_path), weights="w", n_draws=2),
        tb.fit("visits ~ age", odd, weights="w", n_draws=2),
    )
    fine = odd.iloc[2:]
    for engine in (None, "duckdb"):
        fit = tb.fit("visits ~ age", fine, weights="keep", n_draws=0, engine=engine)
        assert (fit.n_rows, fit.n_left_out) == (len(fine), 1)


@pytest.mark.filterwarnings("ignore::tvdbayes.TVDBayesWarning")
@pytest.mark.parametrize("size", [0.002, 1.0, 1e12])
def test_tiny_and_large_weights_add_up(size, rows):
    """What an engine rounds is small beside the weights, however small these are."""
    data = rows.assign(w=size * np.random.default_rng(0).random(len(rows)))
    one = tb.fit("visits ~ age", data, weights="w", n_draws=0, engine="duckdb").posterior.cells
    other = tb.fit("visits ~ age", data, weights="w", n_draws=0).posterior.cells
    np.testing.assert_allclose(one.counts, other.counts, rtol=0, atol=3e-10 * size)
    assert one.n_obs == pytest.approx(data.w.sum(), rel=1e-9)


@pytest.mark.parametrize("engine", [None, "duckdb"])
@pytest.mark.parametrize("size", [1e13, 1e30, 1e308])
def test_weights_that_add_up_to_too_much_are_refused(size, engine, rows):
    """Whether one row has too much, or all of them together."""
    data = rows.assign(w=size)
    with pytest.raises(tb.DataError, match=r"must add up to less than 2\*\*53"):
        tb.fit("visits ~ age", data, weights="w", n_draws=0, engine=engine)


def test_dropped_rows_are_told(rows, tmp_path):
    odd = rows.assign(age=rows.age.astype(float).where(rows.age > 0))
    n_gaps = int(odd.age.isna().sum())
    with pytest.warns(tb.MissingRowsWarning):
        fit = tb.fit("visits ~ age", as_parquet(odd, tmp_path), missing="drop", n_draws=2)
    assert (fit.n_rows, fit.n_left_out) == (4000, n_gaps)
    more = odd.iloc[:600]
    with pytest.warns(tb.MissingRowsWarning):
        grown = fit.update(more)
    assert grown.n_rows == 4600
    assert grown.n_left_out == n_gaps + int(more.age.isna().sum())


def test_a_grid_with_enough_bins_loses_nothing():
    rng = np.random.default_rng(0)
    values = rng.standard_normal(150)
    data = pd.DataFrame({"x": rng.choice(values, 3000)})
    data["y"] = rng.poisson(np.exp(0.3 * data.x))
    fit = tb.fit("y ~ x", data, grid=200, n_draws=10)
    exact = tb.fit("y ~ x", data, n_draws=10)
    # A mean of equal values is that value but for the last digits.
    np.testing.assert_allclose(fit.posterior.cells.x, exact.posterior.cells.x, rtol=1e-12)
    np.testing.assert_allclose(fit.rounded.moved, 0, atol=1e-5)


def test_the_sample_of_a_grid_is_blind_to_the_outcome():
    rng = np.random.default_rng(0)
    data = pd.DataFrame({"x": rng.standard_normal(200_000), "y": rng.poisson(2, 200_000)})
    table = open_source(data, grid=10).table(["y", "x"], None, "error", ["y"])
    sample = table.coarsening.sample
    assert 48_000 < len(sample) < 52_000
    share = sample.y.value_counts(normalize=True) / data.y.value_counts(normalize=True)
    assert ((share > 0.8) & (share < 1.25))[data.y.value_counts() > 2000].all()


def expected_shift(x: np.ndarray, rounded: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """Where logit regression of expected outcomes goes when x (n, p) is rounded, by Newton."""
    mean, b = 1 / (1 + np.exp(-x @ truth)), truth.copy()
    for _ in range(50):
        m = 1 / (1 + np.exp(-rounded @ b))
        hess = (rounded * (m * (1 - m))[:, None]).T @ rounded
        b = b + np.linalg.solve(hess, rounded.T @ (mean - m))
    return b - truth


@pytest.mark.slow
@pytest.mark.parametrize("formula", ["y ~ a + b", "y ~ poly(a, 2) + b", "y ~ bs(a, df=4)"])
def test_the_error_of_a_grid_is_what_rounding_does_to_expected_outcomes(formula, continuous):
    _, data = continuous
    fits = []
    for sample in (4000, 100_000):
        grid = tb.Grid(8, sample=sample)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", tb.CoarseWarning)
            fit = tb.fit(formula, data, family="bernoulli", grid=grid, refine=None, n_draws=20)
            fits.append(fit)
    part, whole = (fit.rounded for fit in fits)
    # From a part of the rows the same is found, but for little.
    near = np.abs(part.deviations - whole.deviations)
    assert (near < 0.3 + 0.2 * np.abs(whole.deviations)).all()
    if formula == "y ~ a + b":
        source = open_source(data, grid=tb.Grid(8, sample=100_000))
        coarse = source.table(["y", "a", "b"], None, "error", ["y"]).coarsening
        x, rounded = (
            np.column_stack([np.ones(len(f)), f[["a", "b"]]])
            for f in (coarse.sample, coarse.rounded)
        )
        truth = fits[1].posterior.minimiser
        np.testing.assert_allclose(whole.moved, expected_shift(x, rounded, truth), atol=1e-5)


def test_rounded_positive_numbers_stay_positive():
    rng = np.random.default_rng(0)
    n = 5000
    small = rng.random(n) < 0.4
    x = np.where(small, 10 ** rng.uniform(-14, -9, n), rng.uniform(1, 1e9, n))
    data = pd.DataFrame({"x": x, "y": rng.poisson(2, n)})
    table = open_source(data, grid=tb.Grid(20, "quantile")).table(["y", "x"], None, "error", ["y"])
    assert (table.frame.x > 0).all()
    low = table.frame.x[table.frame.x < 1]
    assert low.max() <= 1e-9


def test_a_grid_that_is_too_fine_names_columns_not_bins(continuous):
    path, _ = continuous
    with pytest.raises(tb.DataError, match=r"Most values: [ab] \(50\).*fewer bins than 50"):
        tb.fit("y ~ a + b", path, family="bernoulli", grid=50, max_cells=100)
    odd = pd.DataFrame({"TVD_bin_0": np.random.default_rng(0).random(3000), "y": 1})
    fit = tb.fit("y ~ TVD_bin_0", odd, grid=5, n_draws=0)
    assert "at most" in str(fit.rounded)


def test_paths_that_no_system_allows_are_errors_of_ours():
    for path in ("a" * 300 + ".csv", "a" * 300 + ".parquet"):
        for engine in (None, "duckdb"):
            with pytest.raises(tb.DataError, match="There is no file"):
                tb.fit("y ~ x", path, engine=engine)
    with pytest.raises(tb.SettingsError, match="reads one file"):
        tb.fit("y ~ x", "parts/*.parquet", engine="memory")


# --- the command line -----------------------------------------------------------------------


def command(*words: str) -> str:
    from click.testing import CliRunner

    from tvdbayes.cli import main

    result = CliRunner().invoke(main, list(words), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def test_the_command_line_fits_a_pattern(rows, tmp_path):
    path = as_parquet(rows, tmp_path)
    said = command("fit", path, "visits ~ age", "--draws", "30", "--out", str(tmp_path / "out"))
    assert "4,000 rows" in said
    # A line stands for several rows here, and is no line of a file.
    told = " ".join(said.split())
    assert "Equal rows are in one line, and count says how many they are." in told
    assert "below the header" not in told
    lines = pd.read_csv(tmp_path / "out" / "rows.csv")
    assert lines["count"].sum() == 4000
    page = (tmp_path / "out" / "report.html").read_text()
    assert f"4,000, equal ones put together: {len(lines)} lines" in page
    again = tb.load(tmp_path / "out" / "fit.tvd")
    assert again.n_rows == 4000
    more = again.update(as_ibis(rows, tmp_path / "out"))
    assert more.n_rows == 8000
    np.testing.assert_array_equal(more.posterior.cells.counts, 2 * again.posterior.cells.counts)


@pytest.mark.slow
def test_the_command_line_rounds_and_says_so(continuous, tmp_path):
    path, _ = continuous
    words = (path, "y ~ a + b", "--family", "bernoulli", "--grid", "20", "--draws", "20")
    answer = json.loads(command("fit", *words, "--json"))
    assert answer["n_rows"] == 60_000
    assert "20 bins" in answer["rounding"]
    command("fit", *words, "--out", str(tmp_path / "out"))
    fit = tb.load(tmp_path / "out" / "fit.tvd")
    assert str(fit.rounded) == answer["rounding"]
    assert "rounding" in str(fit.check(misfit=False))
    with pytest.raises(tb.DataError, match="Fit all rows again"):
        fit.update(make_rows(10))


def test_check_plans_before_a_fit(rows, continuous, tmp_path):
    path = as_parquet(rows, tmp_path)
    said = command("check", path, "visits ~ age + sex", "--draws", "30")
    assert "4,000 rows, 5 columns" in said
    assert "distinct rows" in said
    facts = json.loads(command("check", path, "visits ~ age + sex", "--draws", "30", "--json"))
    assert facts["n_rows"] == 4000
    assert facts["n_distinct_rows"] == len(rows[["visits", "age", "sex"]].drop_duplicates())
    wide, _ = continuous
    assert "20 bins" in command(
        "check", wide, "y ~ a", "--family", "bernoulli", "--grid", "20", "--draws", "10"
    )


@pytest.mark.parametrize("missing", ["error", "drop"])
def test_a_weight_that_is_no_number_is_named_and_is_no_gap(tmp_path, missing):
    lines = [f"{j % 4},{j % 3},{'3O' if j == 7 else 1 + j % 2}" for j in range(60)]
    (tmp_path / "t.csv").write_text("\n".join(["y,b,w", *lines]))
    with pytest.raises(tb.DataError, match=r"'w' must hold numbers.*'3O'"):
        tb.fit("y ~ b", tmp_path / "t.csv", weights="w", engine="duckdb", missing=missing)
