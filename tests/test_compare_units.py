"""Fits of weighted rows, of clusters and from databases are compared as their rows are."""

import numpy as np
import pandas as pd
import pytest

import tvdbayes as tb

pytestmark = pytest.mark.filterwarnings("ignore::tvdbayes.TVDBayesWarning")


def rows(n=120, seed=0):
    rng = np.random.default_rng(seed)
    x, z = rng.integers(0, 3, (2, n))
    return pd.DataFrame(
        {
            "y": rng.poisson(np.exp(0.5 + 0.3 * x)),
            "x": x,
            "z": z,
            "g": rng.permutation(np.arange(n) // 4),
            "w": rng.choice([1.0, 2.5], n),
            "one": 1,
        }
    )


def both(data, formulas=("y ~ x", "y ~ z"), **options):
    return {f: tb.fit(f, data, n_draws=20, **options) for f in formulas}


def compared(fits, **options):
    return tb.compare(fits, **{"n_folds": 4, "n_draws": 10, **options})


def same(one, other):
    assert one.names == other.names
    for name, values in one.columns.items():
        np.testing.assert_allclose(other[name], values, rtol=1e-9, err_msg=name)


def test_weights_of_one_and_clusters_of_one_row_change_nothing():
    data = rows().assign(row=np.arange(120))
    plain = compared(both(data))
    same(plain, compared(both(data, weights="one")))
    same(plain, compared(both(data, clusters="row")))


def test_the_same_fit_twice_is_a_tie():
    for options in ({"weights": "w2"}, {"clusters": "g"}, {"sampling_weights": "w"}):
        data = rows().assign(w2=lambda d: d["w"].round())
        fit = tb.fit("y ~ x", data, n_draws=20, **options)
        found = compared({"a": fit, "b": fit})
        assert found["log_diff"].tolist() == [0.0, 0.0]
        assert found["log_error"].tolist() == [0.0, 0.0]


@pytest.mark.parametrize("options", [{"clusters": "g"}, {"clusters": "g", "sampling_weights": "w"}])
def test_clusters_are_held_out_whole_and_errors_are_by_cluster(options):
    """With a cluster for each fold, from the scores of `cross_validate` of each cluster by hand."""
    data = rows(60)
    fits = both(data, **options)
    found = compared(fits, n_folds=15)
    w = data["w"].to_numpy() if "sampling_weights" in options else np.ones(60)
    by_hand = {}
    for name in fits:
        scores = np.zeros(60)
        for cluster in range(15):
            inside = (data["g"] == cluster).to_numpy()
            left = tb.fit(name, data[~inside], n_draws=400, **options)
            law = left.predict(data[inside], kind="pmf", outcomes=range(40)).to_numpy()
            scores[inside] = -np.log(law[np.arange(inside.sum()), data["y"][inside]])
        by_hand[name] = scores
    log = {name: float(w @ s / w.sum()) for name, s in by_hand.items()}
    for name, value in zip(found.names, found["log"], strict=True):
        assert value == pytest.approx(log[name], rel=0.03)
    gap = by_hand[found.names[1]] - by_hand[found.names[0]]
    away = np.bincount(data["g"], w * (gap - w @ gap / w.sum()))
    error = np.sqrt((away**2).sum()) / w.sum()
    assert found["log_error"][1] == pytest.approx(error, rel=0.15)


def test_a_fit_from_a_database_is_that_of_its_rows(tmp_path):
    """Held-out rows are others, so that scores agree within the noise of folds."""
    pytest.importorskip("duckdb")
    pytest.importorskip("ibis")
    data = rows(400)[["y", "x"]]
    data.to_csv(tmp_path / "rows.csv", index=False)
    families = ("poisson", "geometric")

    def fits(where, **options):
        return {f: tb.fit("y ~ x", where, family=f, n_draws=20, **options) for f in families}

    plain = compared(fits(data))
    grouped = compared(fits(str(tmp_path / "rows.csv"), engine="duckdb"))
    assert grouped.names == plain.names
    np.testing.assert_allclose(grouped["log"], plain["log"], rtol=0.02)
    np.testing.assert_allclose(grouped["log_error"], plain["log_error"], rtol=0.1)


def test_a_weight_of_two_is_the_row_twice():
    data = rows(150)
    twice = data.assign(times=2)
    formulas = ("y ~ x", "y ~ 1")
    weighted = compared(both(twice, formulas, weights="times"))
    repeated = compared(both(pd.concat([data, data]), formulas))
    np.testing.assert_allclose(weighted["log"], repeated["log"], rtol=0.02)
    np.testing.assert_allclose(weighted["log_error"], repeated["log_error"], rtol=0.2)


def test_fits_of_other_clusters_cannot_be_compared():
    data = rows()
    one = tb.fit("y ~ x", data, clusters="g", n_draws=20)
    with pytest.raises(tb.DataError, match="different rows"):
        compared({"a": one, "b": tb.fit("y ~ x", data, n_draws=20)})
    with pytest.raises(tb.DataError, match="different rows"):
        compared({"a": one, "b": tb.fit("y ~ x", data, clusters="x", n_draws=20, ridge=0.1)})
