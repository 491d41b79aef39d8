"""Dask DataFrames as data of `fit`: grouped, they give the fit to the same rows in memory."""

import os
import signal
import threading

import numpy as np
import pandas as pd
import pytest

import tvdbayes as tb
from tvdbayes.data.dask import DaskSource
from tvdbayes.data.parts import compute, partitions, tree
from tvdbayes.data.table import Wanted

dd = pytest.importorskip("dask.dataframe")
distributed = pytest.importorskip("distributed")

FORMULA = "visits ~ age + C(region)"


def rows(n=3000, seed=0):
    rng = np.random.default_rng(seed)
    age, region = rng.integers(2, 6, n), rng.choice(["north", "south", "west"], n)
    visits = rng.poisson(np.exp(0.3 * age - 0.5 * (region == "south")))
    visits[rng.random(n) < 0.05] += 20
    years = rng.choice([0.5, 1.0, 2.0], n)
    return pd.DataFrame({"visits": visits, "age": age, "region": region, "years": years})


def same_fit(found, here):
    for name in ("draws", "kld_draws", "estimate", "distance", "status"):
        np.testing.assert_array_equal(getattr(found, name), getattr(here, name))
    assert found.n_rows == here.n_rows
    assert found.n_left_out == here.n_left_out


@pytest.mark.parametrize("n_parts", [1, 3, 12])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"family": "negativebinomial", "exposure": "years"},
        {"divergence": "hellinger"},
        {"refine": None, "weights": "years"},
        {"family": "categorical", "formula": "region ~ age"},
    ],
    ids=str,
)
def test_a_dask_frame_gives_the_fit_in_memory_bit_for_bit(options, n_parts):
    how = {"formula": FORMULA, "n_draws": 6, **options}
    data = rows()
    here = tb.fit(data=data, **how)
    found = tb.fit(data=dd.from_pandas(data, npartitions=n_parts, sort=False), **how)
    same_fit(found, here)


def test_every_answer_is_there():
    data = rows(800)
    found = tb.fit(FORMULA, dd.from_pandas(data, npartitions=3), n_draws=20)
    here = tb.fit(FORMULA, data, n_draws=20)
    assert str(found.summary()) == str(here.summary())
    assert str(found.misfit()) == str(here.misfit())
    assert found.rows()["count"].sum() == 800
    assert found.score().log == here.score().log
    assert str(found.check()) == str(here.check())


def test_gaps_and_rows_without_weight_are_left_out_as_in_memory():
    data = rows(900)
    data["w"] = 1.0
    data.loc[:9, "w"] = 0.0
    data.loc[5:20, "age"] = np.nan
    data.loc[898:, "w"] = np.nan
    how = {"n_draws": 4, "missing": "drop", "weights": "w"}
    with pytest.warns(tb.MissingRowsWarning, match="18 of 900"):
        here = tb.fit(FORMULA, data, **how)
    with pytest.warns(tb.MissingRowsWarning, match="18 of 900"):
        found = tb.fit(FORMULA, dd.from_pandas(data, npartitions=4), **how)
    same_fit(found, here)


def test_partitions_without_rows_or_weight_do_no_harm():
    data = rows(400)
    data["w"] = 1.0
    data.loc[:99, "w"] = 0.0
    parts = dd.concat(
        [dd.from_pandas(data[:100], 1), dd.from_pandas(data[:0], 1), dd.from_pandas(data[100:], 2)]
    )
    found = tb.fit(FORMULA, parts, n_draws=3, weights="w")
    same_fit(found, tb.fit(FORMULA, data, n_draws=3, weights="w"))


def test_categories_keep_their_levels():
    data = rows(500)
    data["region"] = pd.Categorical(data["region"], ["west", "south", "north"])
    found = tb.fit("visits ~ age + region", dd.from_pandas(data, npartitions=3), n_draws=3)
    assert found.param_names == ("Intercept", "age", "region[T.south]", "region[T.north]")
    same_fit(found, tb.fit("visits ~ age + region", data, n_draws=3))


def test_categories_that_differ_are_refused():
    data = rows(400).assign(region=lambda d: d["region"].astype("category"))
    other = data.assign(region=data["region"].cat.reorder_categories(["west", "south", "north"]))
    parts = dd.from_map(lambda part: part, [data, other], meta=data)
    with pytest.raises(tb.DataError, match=r"'region' has other levels.*categorize"):
        tb.fit("visits ~ age + region", parts, n_draws=0)


BAD = {
    "a gap": ({"region": None}, "'region' must have no gaps"),
    "no finite number": ({"years": np.inf}, "'years' must be a finite number"),
    "a gap among numbers": ({"age": np.nan}, "'age' must be a finite number"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_rows_are_named_with_their_partition(name):
    change, words = BAD[name]
    data = rows(400).astype({"age": float})
    for column, value in change.items():
        data.loc[250, column] = value
    parts = dd.from_map(lambda k: data[k * 100 : k * 100 + 100], range(4), meta=data)
    with pytest.raises(tb.DataError, match=f"In partition 2: .*{words}.*row 50"):
        tb.fit(FORMULA, parts, n_draws=0, exposure="years")


def test_requests_that_cannot_be_met_are_refused():
    data = dd.from_pandas(rows(200), npartitions=2)
    for option in ({"engine": "duckdb"}, {"grid": 20}):
        with pytest.raises(tb.SettingsError, match="Dask"):
            tb.fit(FORMULA, data, **option)
    with pytest.raises(tb.FormulaError, match="no column"):
        tb.fit("visits ~ absent", data)
    with pytest.raises(tb.DataError, match="0 rows"):
        tb.fit(FORMULA, dd.from_pandas(rows(10)[:0], npartitions=1))
    with pytest.raises(tb.DataError, match="must be text; got 0"):
        tb.fit(FORMULA, data.rename(columns={"years": 0}))
    with pytest.raises(tb.DataError, match=r"data\.compute"):
        tb.fit(FORMULA, data, n_draws=0).predict(data)


def test_too_many_distinct_rows_are_noticed_before_all_partitions_are_read(monkeypatch):
    seen = []

    def part(number):
        seen.append(number)
        return rows(100, number).assign(age=np.arange(100.0) + 1000 * number)

    data = dd.from_map(part, range(40), meta=rows(1).astype({"age": float}))
    seen.clear()
    monkeypatch.setattr("tvdbayes.data.dask.sampled", lambda *_: seen.append("sampled"))
    DaskSource(data, 250).group(Wanted(["age"], ["age"], None, "error", ()))
    assert seen[-1] == "sampled"
    assert len(seen) < 20


@pytest.mark.slow
def test_a_killed_worker_costs_its_partitions_only():
    data = rows(4000)
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as own,
        distributed.Client(own) as client,
    ):
        pid = next(iter(client.run(os.getpid).values()))
        timer = threading.Timer(0.05, os.kill, (pid, signal.SIGKILL))
        timer.start()
        found = tb.fit(FORMULA, dd.from_pandas(data, npartitions=40, sort=False), n_draws=3)
        timer.join()
    same_fit(found, tb.fit(FORMULA, data, n_draws=3))


def test_sums_are_joined_in_a_tree_of_the_partitions_alone():
    data = dd.from_pandas(rows(1000), npartitions=20)
    joined = tree(partitions(data, len), tuple)
    assert compute(joined) == ((50,) * 8, (50,) * 8, (50,) * 4)
