"""The same fit from Spark: run by `make test-spark`, since it is heavy to install."""

from collections.abc import Iterator

import numpy as np
import pandas as pd
import pytest

import tvdbayes as tb
from tables import FORMULA, HOSTILE, make_rows, no_sql_by, same_bins, same_fit

ibis = pytest.importorskip("ibis")
pyspark = pytest.importorskip("pyspark")

# Spark's own libraries leave sockets open, and call pandas by old names.
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(scope="module")
def connection(tmp_path_factory) -> Iterator[object]:
    from pyspark.sql import SparkSession

    folder = tmp_path_factory.mktemp("spark")
    session = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.sql.shuffle.partitions", "4")
        .config("spark.sql.warehouse.dir", str(folder))
        .getOrCreate()
    )
    yield ibis.pyspark.connect(session)
    session.stop()


def put(connection: object, name: str, rows: pd.DataFrame, folder: object) -> None:
    path = str(folder / f"{name}.parquet")
    rows.to_parquet(path)
    connection._session.read.parquet(path).createOrReplaceTempView(name)


def test_the_same_cells_as_in_memory(connection, tmp_path):
    rows = make_rows()
    put(connection, "people", rows, tmp_path)
    fit = tb.fit(FORMULA, "people", engine=connection, n_draws=20)
    same_fit(fit, tb.fit(FORMULA, rows, n_draws=20))
    assert fit.data.n_grouped == len(rows)


def test_weights_gaps_and_rounding(connection, tmp_path):
    rng = np.random.default_rng(0)
    rows = make_rows(20_000).assign(w=rng.integers(0, 3, 20_000), f=rng.random(20_000))
    put(connection, "weighted", rows, tmp_path)
    same_fit(
        tb.fit(FORMULA, "weighted", engine=connection, weights="w", n_draws=4),
        tb.fit(FORMULA, rows, weights="w", n_draws=4),
    )
    same_bins(rows, "weighted", connection)
    small = tb.Grid(15, sample=2000)
    one, other = (
        tb.fit("visits ~ f", "weighted", engine=connection, weights="f", grid=small, n_draws=4)
        for _ in range(2)
    )
    same_fit(one, other)
    odd = rows.assign(age=rows.age.astype(float).where(rows.age > 0))
    put(connection, "gaps", odd, tmp_path)
    with pytest.raises(tb.DataError, match="'age' must have no gaps"):
        tb.fit(FORMULA, "gaps", engine=connection)


@pytest.mark.parametrize("name", HOSTILE)
def test_names_cannot_run_sql(connection, name, tmp_path):
    put(connection, "people", make_rows(300), tmp_path)
    no_sql_by(connection, name)
