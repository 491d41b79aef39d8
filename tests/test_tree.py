"""Draws for ArviZ: labelled, complete, and open to its functions."""

import sys
import warnings
from dataclasses import replace

import numpy as np
import pytest
import scipy

import tvdbayes as tb
from tvdbayes.results import tree
from tvdbayes.results.tree import for_arviz, to_tree

xarray = pytest.importorskip("xarray")


@pytest.fixture(scope="module")
def posterior():
    rng = np.random.default_rng(5)
    x = np.column_stack([np.ones(300), rng.integers(0, 3, 300)])
    y = rng.binomial(5, 1 / (1 + np.exp(0.5 - 0.4 * x[:, 1])))
    cells = tb.Cells.from_rows(x, y, trials=np.full(300, 5), names=("Intercept", "dose"))
    return tb.posterior_bootstrap(tb.Model(tb.Binomial()), cells, n_draws=1000)


@pytest.fixture(scope="module")
def arviz():
    """ArviZ, which on Python 3.11 is 0.23 and announces its successor when it is imported."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        return pytest.importorskip("arviz")


def test_the_groups_are_labelled(posterior):
    made = to_tree(posterior, by_row=False)
    groups = {"posterior", "likelihood_fit", "sample_stats", "observed_data", "constant_data"}
    assert set(made.children) == groups
    beta = made["posterior"]["beta"]
    assert beta.dims == ("chain", "draw", "parameter")
    assert beta.shape == (1, 1000, 2)
    assert beta["parameter"].values.tolist() == ["Intercept", "dose"]
    np.testing.assert_array_equal(beta[0], posterior.draws)
    np.testing.assert_array_equal(made["likelihood_fit"]["beta"][0], posterior.kld_draws)
    for name in ("status", "n_iter", "decrement", "distance", "kld_distance"):
        np.testing.assert_array_equal(
            made["sample_stats"][name].sel(chain=0), getattr(posterior, name)
        )
    constant = made["constant_data"]
    assert constant["x"].dims == ("cell", "column")
    assert constant["counts"].sum() == 300
    assert (constant["trials"] == 5).all()
    assert made.attrs["seed"] == posterior.seed
    assert made.attrs["divergence"] == "TVD()"
    assert made.attrs["inference_library_version"] == tb.__version__


@pytest.mark.parametrize("chunk", [1, 1000, 1 << 20])
def test_the_log_likelihood_is_that_of_the_model(posterior, chunk, monkeypatch):
    monkeypatch.setattr(tree, "_CHUNK", chunk)
    made = to_tree(posterior)
    expected = np.log(posterior.model.pmf(posterior.cells, posterior.draws.T))
    cell = made["constant_data"]["cell"].values
    np.testing.assert_allclose(made["log_likelihood"]["y"][0], expected[cell].T, rtol=1e-10)


def test_new_outcomes_have_the_mean_of_the_model_in_each_row(posterior):
    made = to_tree(posterior)
    new, doses = made["posterior_predictive"]["y"], made["constant_data"]["x"][:, 1].values
    assert new.dims == ("chain", "draw", "row")
    # Integers, by which ArviZ chooses pictures of discrete data.
    assert new.dtype == made["observed_data"]["y"].dtype == np.int64
    assert new.min() >= 0
    assert new.max() <= 5
    for dose in np.unique(doses):
        values = new.values[0][:, doses == dose]
        beta = posterior.draws
        expected = 5 / (1 + np.exp(-beta[:, 0] - beta[:, 1] * dose))
        # Five standard errors of the mean over draws and rows of outcomes given the draws.
        error = 5 * np.sqrt(1.25 / values.size)
        assert abs(values.mean() - expected.mean()) < error


def test_the_tree_of_the_likelihood_fit_is_that_of_its_draws():
    fit = tb.fit("y ~ x", counts_with_gaps(), n_draws=20)
    robust, ordinary = to_arviz_1(fit), to_arviz_1(fit, ordinary=True)
    likelihood = ordinary["posterior"]["beta"]
    xarray.testing.assert_identical(
        likelihood.drop_attrs(), robust["likelihood_fit"]["beta"].drop_attrs()
    )
    rate = np.exp(fit.kld_draws @ np.stack([np.ones(150), counts_with_gaps()["x"]]))
    np.testing.assert_allclose(
        ordinary["log_likelihood"]["y"][0],
        scipy.stats.poisson.logpmf(counts_with_gaps()["y"], rate),
        rtol=1e-9,
    )


def to_arviz_1(fit, **options):
    """The tree as it is for ArviZ 1.x, whatever is installed."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tvdbayes.fitting.goodness.for_arviz", lambda made: made)
        return fit.to_arviz(**options)


def test_outcomes_that_cannot_be_sampled_can_be_left_out():
    fit = tb.fit("y ~ x", {"y": [0, 1, 2, 3] * 10, "x": [0, 1] * 20}, n_draws=5)
    wild = np.array(fit.posterior.draws)
    wild[0] = 40.0
    posterior = replace(fit.posterior, draws=wild)
    with pytest.raises(tb.DataError, match="posterior_predictive=False"):
        to_tree(posterior)
    assert "log_likelihood" in to_tree(posterior, posterior_predictive=False).children


def test_without_draws_there_are_no_new_outcomes():
    fit = tb.fit("y ~ x", counts_with_gaps(), n_draws=0)
    assert "posterior_predictive" not in to_tree(fit.posterior).children


def test_rows_repeat_their_cells(posterior):
    cells = posterior.cells
    cell_of_row = np.append(np.repeat(np.arange(cells.n_cells), cells.counts.astype(int)), -1)
    made = to_tree(posterior, cell_of_row=cell_of_row[::-1])
    log_pmf = made["log_likelihood"]["y"]
    assert log_pmf.dims == ("chain", "draw", "row")
    assert log_pmf["row"].values.tolist() == list(range(1, 301))
    np.testing.assert_array_equal(made["constant_data"]["cell"], cell_of_row[-2::-1])
    np.testing.assert_array_equal(made["observed_data"]["y"], cells.y[cell_of_row[-2::-1]])


def counts_with_gaps(n=150):
    rng = np.random.default_rng(2)
    x = rng.integers(0, 3, n)
    return {"y": rng.poisson(np.exp(0.3 + 0.4 * x)), "x": x, "w": rng.integers(0, 3, n)}


def by_hand(arviz, fit, y, x):
    """ArviZ's leave-one-out of a log-likelihood that SciPy has computed row by row."""
    rate = np.exp(fit.draws @ np.stack([np.ones(len(x)), x]))
    log_pmf = scipy.stats.poisson.logpmf(y, rate)
    groups = {"posterior": {"beta": fit.draws[None]}, "log_likelihood": {"y": log_pmf[None]}}
    if hasattr(arviz, "from_datatree"):
        return log_pmf, arviz.loo(arviz.from_dict(**groups))
    return log_pmf, arviz.loo(arviz.from_dict(groups))


@pytest.mark.parametrize("weights", [None, "w"])
def test_leave_one_out_counts_rows(arviz, weights):
    data = counts_with_gaps()
    fit = tb.fit("y ~ x", data, weights=weights, n_draws=200)
    n_of = data["w"] if weights else np.ones(150, int)
    y, x = np.repeat(data["y"], n_of), np.repeat(data["x"], n_of)
    found = arviz.loo(fit.to_arviz())
    log_pmf, expected = by_hand(arviz, fit, y, x)
    assert found.n_data_points == len(y) > 5 * fit.posterior.cells.n_cells
    elpd = found.elpd_loo if hasattr(found, "elpd_loo") else found.elpd
    same = expected.elpd_loo if hasattr(expected, "elpd_loo") else expected.elpd
    assert np.isclose(elpd, same, rtol=1e-9)
    # Without smoothing the same estimate is a harmonic mean; few draws have large weights here.
    plain = -scipy.special.logsumexp(-log_pmf, axis=0).sum() + len(y) * np.log(200)
    assert np.isclose(elpd, plain, rtol=2e-3)


def test_the_usual_tree_has_no_log_likelihood_of_cells():
    fit = tb.fit("y ~ x", counts_with_gaps(), n_draws=5)
    assert set(fit.to_arviz()["log_likelihood"]["y"].dims) == {"chain", "draw", "row"}
    by_cell = to_tree(fit.posterior, by_row=False)
    assert "log_likelihood" not in by_cell.children


def test_rows_that_an_engine_has_grouped_count_as_often_as_they_are():
    pytest.importorskip("ibis")
    data = counts_with_gaps()
    fit = tb.fit("y ~ x", {"y": data["y"], "x": data["x"]}, engine="duckdb", n_draws=5)
    made = fit.to_arviz()
    assert made["log_likelihood"]["y"].sizes["row"] == 150
    assert sorted(made["observed_data"]["y"].values) == sorted(data["y"])


def test_fractions_of_rows_have_no_log_likelihood():
    data = {**counts_with_gaps(), "w": np.full(150, 0.5)}
    fit = tb.fit("y ~ x", data, weights="w", n_draws=5)
    made = to_tree(fit.posterior, cell_of_row=fit.cell_of_row)
    assert "log_likelihood" not in made.children
    assert made["observed_data"]["y"].dims == ("cell",)
    with pytest.raises(tb.DataError, match="whole numbers"):
        fit.to_arviz(by_row=True)


@pytest.mark.parametrize("rows", [[0.5], [[0]], [10_000], [-2]])
def test_rows_that_are_no_rows_are_refused(posterior, rows):
    with pytest.raises(tb.DataError, match="cell_of_row"):
        to_tree(posterior, cell_of_row=np.array(rows))


def test_too_large_a_log_likelihood_is_made_on_request_only(posterior, monkeypatch):
    monkeypatch.setattr(tree, "_USUAL_BYTES", 1000)
    assert "log_likelihood" not in to_tree(posterior).children
    assert "log_likelihood" in to_tree(posterior, by_row=True).children
    monkeypatch.setattr(tree, "_MOST_BYTES", 1000)
    with pytest.raises(tb.MemoryBudgetError, match="log_likelihood=False"):
        to_tree(posterior, by_row=True)
    with pytest.raises(tb.MemoryBudgetError, match="posterior_predictive=False"):
        to_tree(posterior, by_row=True, log_likelihood=False)
    made = to_tree(posterior, by_row=True, log_likelihood=False, posterior_predictive=False)
    assert made["observed_data"]["y"].sizes["row"] == 300


def test_a_missing_library_is_named_with_its_pip_line(posterior, monkeypatch):
    monkeypatch.setitem(sys.modules, "xarray", None)
    with pytest.raises(tb.SettingsError, match=r"pip install 'tvdbayes\[arviz\]'"):
        to_tree(posterior)


def test_arviz_finds_independent_draws(posterior, arviz):
    data = to_tree(posterior)
    # Independent draws count for as many as they are; the estimate itself has an error of some 5%.
    for group in ("posterior", "likelihood_fit"):
        ess = arviz.ess(data[group].to_dataset())["beta"]
        assert ((ess > 800) & (ess < 1200)).all()


@pytest.mark.parametrize(
    ("group", "side"), [("posterior", "draws"), ("likelihood_fit", "kld_draws")]
)
def test_arviz_summarises(posterior, arviz, group, side):
    table = arviz.summary(for_arviz(to_tree(posterior)), group=group, round_to="none")
    assert list(table.index) == ["beta[Intercept]", "beta[dose]"]
    np.testing.assert_allclose(
        np.asarray(table["mean"], float), getattr(posterior, side).mean(0), rtol=1e-6
    )


def test_arviz_summarises_a_fit_as_it_comes(arviz):
    fit = tb.fit("y ~ x", counts_with_gaps(), n_draws=50)
    table = arviz.summary(fit.to_arviz(), round_to="none")
    assert "beta[x]" in table.index
    np.testing.assert_allclose(float(table["mean"]["beta[x]"]), fit.draws[:, 1].mean(), rtol=1e-6)


@pytest.fixture(scope="module")
def both():
    """The trees of the robust and the likelihood fit."""
    fit = tb.fit("y ~ x", counts_with_gaps(), n_draws=200)
    return {"robust": fit.to_arviz(), "likelihood": fit.to_arviz(ordinary=True)}


# ArviZ 0.23 calls Matplotlib 3.11 and pandas 3.1 by names that these announce to change.
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_arviz_compares_the_two_sides(both, arviz):
    table = arviz.compare(both)
    assert set(table.index) == {"robust", "likelihood"}
    alone = {name: arviz.loo(tree) for name, tree in both.items()}
    column = "elpd_loo" if "elpd_loo" in table else "elpd"
    for name, found in alone.items():
        elpd = found.elpd_loo if hasattr(found, "elpd_loo") else found.elpd
        # Tables of ArviZ 1.x are rounded to what their standard errors let be seen.
        assert np.isclose(float(table[column][name]), elpd, rtol=0.05)


def draws_pictures(arviz):
    """ArviZ 0.23 draws by itself; 1.x by `arviz_plots`, which it can be installed without."""
    if not hasattr(arviz, "plot_forest"):
        pytest.skip("this ArviZ has no pictures: pip install arviz-plots[matplotlib]")
    plt = pytest.importorskip("matplotlib.pyplot")
    plt.switch_backend("agg")
    return plt


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_arviz_draws_coefficients_by_name(both, arviz):
    plt = draws_pictures(arviz)
    if hasattr(arviz, "from_datatree"):
        axes = arviz.plot_forest(list(both.values()), model_names=list(both))
        figure = axes[0].figure
    else:
        forest = arviz.plot_forest(both)
        forest.add_legend("model")
        figure = forest.viz["figure"].item()
    figure.canvas.draw()
    words = " ".join(text.get_text() for text in figure.findobj(plt.Text))
    assert "Intercept" in words
    assert "robust" in words
    plt.close(figure)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_arviz_draws_new_outcomes_beside_those_seen(both, arviz):
    plt = draws_pictures(arviz)
    tree = both["robust"]
    if hasattr(arviz, "plot_ppc"):
        figure = arviz.plot_ppc(tree, random_seed=1).figure
    else:
        figure = arviz.plot_ppc_rootogram(tree).viz["figure"].item()
    figure.canvas.draw()
    assert figure.axes
    plt.close(figure)


def test_a_tree_survives_a_file(posterior, tmp_path):
    pytest.importorskip("h5netcdf")
    made = to_tree(posterior, attrs={"formula": "y ~ dose"})
    made.to_netcdf(tmp_path / "fit.nc", engine="h5netcdf")
    with xarray.open_datatree(tmp_path / "fit.nc", engine="h5netcdf") as again:
        assert again.attrs["formula"] == "y ~ dose"
        np.testing.assert_array_equal(again["posterior"]["beta"], made["posterior"]["beta"])
