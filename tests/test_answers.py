"""What a fit tells, in the words of the data."""

import numpy as np
import pandas as pd
import pytest

import tvdbayes as tb
from tvdbayes.sampling.summary import intervals


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    n = 500
    frame = pd.DataFrame(
        {"region": rng.choice(["north", "south"], n), "age": rng.integers(2, 5, n)}
    )
    frame["visits"] = rng.poisson(np.exp(0.3 * frame.age - 0.4 * (frame.region == "south")))
    frame.loc[:49, "visits"] += 15
    return frame


@pytest.fixture(scope="module")
def fit(data):
    return tb.fit("visits ~ age + region", data, n_draws=150)


def test_the_summary_has_shortest_intervals_rope_and_monte_carlo_error(fit):
    equal, short = fit.summary(), fit.summary(kind="hdi", rope=(0.25, 0.35))
    assert ((short["high"] - short["low"]) <= (equal["high"] - equal["low"]) + 1e-12).all()
    draws = fit.draws[:, 1]
    assert np.isclose(short["rope"][1], ((draws >= 0.25) & (draws <= 0.35)).mean())
    assert np.isclose(short["mc_error"][1], draws.std(ddof=1) / np.sqrt(150))
    inside = (draws >= short["low"][1]) & (draws <= short["high"][1])
    assert inside.mean() >= 0.9
    assert "rope" not in equal.columns
    with pytest.raises(tb.SettingsError, match="smaller first"):
        fit.summary(rope=(1, 0))
    with pytest.raises(tb.SettingsError, match="'shortest'"):
        fit.summary(kind="shortest")


def test_the_shortest_interval_of_a_skewed_law_is_known():
    # Exponential: the shortest 90 % interval begins at 0 and ends at log 10.
    draws = -np.log((np.arange(20_000) + 0.5) / 20_000)[:, None]
    low, high = intervals(draws, 0.9, "hdi")[:, 0]
    assert low < 1e-3
    assert np.isclose(high, np.log(10), atol=2e-3)


def test_misfit_is_told_overall_and_by_level(fit, data):
    whole = fit.misfit(by="region")
    assert set(whole.by) == {"north", "south"}
    assert whole.low < whole.mean < whole.high
    assert "cannot explain" in str(whole)
    assert "north" in whole._repr_html_()
    same = fit.misfit(by=data["region"].to_numpy())
    assert np.allclose(same.by["north"].draws, whole.by["north"].draws)
    with pytest.raises(tb.DataError, match="'income' is no column"):
        fit.misfit(by="income")
    with pytest.raises(tb.DataError, match="500 rows"):
        fit.misfit(by=["a", "b"])
    with pytest.raises(tb.DataError, match=r"pandas\.cut"):
        fit.misfit(by=np.arange(500))
    with pytest.raises(tb.SettingsError, match="n_replicates"):
        fit.misfit(n_replicates=3)


def test_a_certificate_bounds_the_distance(fit):
    found = fit.misfit(certificate=0.95).certificate
    assert fit.misfit().mean < found.upper < 1
    assert not found.vacuous
    assert "95%" in str(found)
    alone = tb.fit("y ~ 1", {"y": np.random.default_rng(1).poisson(3, 4000)}, n_draws=10)
    # Half of 4,000 rows: the slack alone is sqrt(log(20) / 4000).
    upper = alone.misfit(certificate=0.95, n_replicates=20).certificate.upper
    assert np.sqrt(np.log(20) / 4000) < upper < 0.07


def test_rows_come_in_input_order_with_the_data_beside_them(fit, data):
    rows = fit.rows()
    assert len(rows) == len(data)
    assert (rows["visits"].to_numpy() == data["visits"].to_numpy()).all()
    assert (rows["region"].to_numpy() == data["region"].to_numpy()).all()
    assert rows["flag"][:50].mean() > 0.9
    assert rows["flag"][50:].sum() <= 2
    # So rare a false alarm cannot be told from 200 replicates.
    assert not fit.rows(false_alarm=0.001)["flag"].any()
    assert "share both" in rows.attrs["note"]
    cells = fit.cells()
    assert cells["count"].sum() == len(data)
    assert (cells["signed"] < 0).any()
    with pytest.raises(tb.SettingsError, match="false_alarm"):
        fit.rows(false_alarm=0)


def test_rows_that_were_left_out_keep_their_line():
    data = {
        "y": [0, 1, 2, 1, 0, 3] * 20,
        "w": [1, 1, 0, 1, 1, 1] * 20,
        "score": [1.0, 1.0, 2.0] * 40,
    }
    fit = tb.fit("y ~ score", data, weights="w", n_draws=8)
    rows = fit.rows(n_replicates=20)
    assert np.array_equal(rows["score"].isna(), np.array(data["w"]) == 0)
    assert not rows["flag"][2]
    assert rows["data: score"][5] == 2.0


def test_pooled_rows_say_what_they_name():
    rng = np.random.default_rng(2)
    x = rng.normal(size=300)
    fit = tb.fit("y ~ x", {"x": x, "y": rng.poisson(np.exp(0.5 * x))}, n_draws=8)
    assert "not a proven row" in fit.rows(n_replicates=20).attrs["note"]


def test_the_check_says_what_is_good_and_what_is_not(fit):
    text = str(fit.check())
    assert "certified minima" in text
    assert "differ in" in text
    assert fit.check().problems == ()
    with pytest.warns(tb.SmallGroupsWarning):
        small = tb.fit(
            "y ~ x",
            {"y": [0, 1, 1, 2, 3, 5], "x": [0, 1, 2, 3, 4, 5]},
            n_draws=4,
            partition="distinct",
            refine=None,
        )
    problems = small.check(misfit=False).problems
    assert any("too few" in p.text for p in problems)
    assert "<table" in fit.check(misfit=False)._repr_html_()


def test_a_flat_distance_is_called_a_tie():
    y = np.r_[np.random.default_rng(5).poisson(3, 2000), np.full(500, 60)]
    loose = tb.fit("y ~ 1", {"y": y}, n_draws=60, refine=None)
    assert "nearly constant for Intercept from" in str(loose.check(misfit=False))


def test_scores_of_new_data_are_those_of_the_table_when_they_are_the_same(fit, data):
    seen, new = fit.score(), fit.score(data)
    assert np.isclose(seen.log, new.log)
    assert np.isclose(seen.rps, new.rps)
    assert fit.score(data, ordinary=True).log < new.log
    with pytest.raises(tb.DataError, match="visits"):
        fit.score(data.drop(columns="visits"))


def test_new_rows_of_some_levels_only_can_be_scored():
    rng = np.random.default_rng(4)
    frame = pd.DataFrame({"x": rng.integers(0, 2, 300)})
    frame["way"] = np.where(rng.random(300) < 0.3 + 0.3 * frame.x, "bus", "car")
    fit = tb.fit("way ~ x", frame, family="categorical", n_draws=20)
    buses = frame[frame.way == "bus"]
    by_hand = -np.log(fit.predict(buses, "pmf")["bus"]).mean()
    assert np.isclose(fit.score(buses).log, by_hand)


def test_held_out_scores_and_sensitivity_are_there(fit):
    held = fit.cross_validate(3, n_draws=20)
    assert held.robust.n == 500
    paths = fit.sensitivity()
    assert [p.name for p in paths] == ["age", "region[T.south]"]
    assert paths[0].sign_holds_to > 0.05
    dropped = fit.drop_worst((0.0, 0.1))
    assert np.abs(dropped.ordinary[1] - fit.estimate).max() < 0.15


def test_observed_means_are_compared_by_level(fit, data):
    by = fit.observed("region", ordinary=True)
    assert by.labels == ("north", "south")
    assert np.allclose(by.observed, data.groupby("region")["visits"].mean())
    with pytest.raises(tb.SettingsError, match="column of the formula"):
        fit.observed(by=np.arange(500) % 7)


def test_fits_are_compared_by_name(fit, data):
    other = tb.fit("visits ~ age", data, n_draws=150)
    found = tb.compare([fit, other], n_folds=3, n_draws=20)
    assert any("visits ~ age + region" in name for name in found.names)
    assert np.isnan(found["closest"]).all()
    with pytest.raises(tb.SettingsError, match="compare takes fits"):
        tb.compare({"a": fit, "b": 3})


def test_every_picture_is_drawn_from_a_fit(fit):
    plot = fit.plot
    for axes in (
        plot.coefficients(),
        plot.misfit(),
        plot.misfit(by="region"),
        plot.rootogram(),
        plot.calibration(),
        plot.rows(),
        plot.bands("age"),
        plot.bands("region"),
        plot.pit(),
        plot.residuals(),
        plot.sensitivity(["age"])[0],
    ):
        axes.figure.canvas.draw()
        assert axes.get_xlabel() or axes.get_ylabel()
    with pytest.raises(tb.SettingsError, match="'income'"):
        plot.bands("income")


def test_pictures_of_far_contamination_share_their_bars():
    y = np.r_[np.random.default_rng(5).poisson(3, 450), np.full(50, 120)]
    tb.fit("y ~ 1", {"y": y}, n_draws=20).plot.rootogram().figure.canvas.draw()


def test_a_saved_fit_answers_the_same(fit, tmp_path):
    fit.save(tmp_path / "fit.tvd")
    again = tb.load(tmp_path / "fit.tvd")
    assert np.array_equal(again.chance.distance, fit.chance.distance)
    assert again.rows().equals(fit.rows())


def test_a_refined_fit_answers_too(data):
    fit = tb.fit("visits ~ age + region", data, n_draws=60, refine="reweight")
    assert fit.rows()["flag"][:50].mean() > 0.9
    assert fit.misfit().mean > 0.1
    assert fit.check().problems == ()
