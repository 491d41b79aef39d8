"""Draws for ArviZ: labelled, complete, and open to its functions."""

import sys
import warnings

import numpy as np
import pytest

import tvdbayes as tb
from tvdbayes.posterior import tree
from tvdbayes.posterior.tree import to_tree

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


def opened(arviz, made):
    """What ArviZ's functions take: before 1.0 a tree had to be converted."""
    return arviz.from_datatree(made) if hasattr(arviz, "from_datatree") else made


def test_the_groups_are_labelled(posterior):
    made = to_tree(posterior)
    groups = {"posterior", "sample_stats", "log_likelihood", "observed_data", "constant_data"}
    assert set(made.children) == groups
    beta = made["posterior"]["beta"]
    assert beta.dims == ("chain", "draw", "parameter")
    assert beta.shape == (1, 1000, 2)
    assert beta["parameter"].values.tolist() == ["Intercept", "dose"]
    np.testing.assert_array_equal(beta[0], posterior.draws)
    np.testing.assert_array_equal(made["posterior"]["beta_kld"][0], posterior.kld_draws)
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
    made = to_tree(posterior)["log_likelihood"]["y"]
    expected = np.log(posterior.model.pmf(posterior.cells, posterior.draws.T))
    np.testing.assert_allclose(made[0], expected.T, rtol=1e-10)


def test_rows_repeat_their_cells(posterior):
    cells = posterior.cells
    cell_of_row = np.append(np.repeat(np.arange(cells.n_cells), cells.counts.astype(int)), -1)
    made = to_tree(posterior, cell_of_row=cell_of_row[::-1])
    by_cell = to_tree(posterior)
    log_pmf = made["log_likelihood"]["y"]
    assert log_pmf.dims == ("chain", "draw", "row")
    assert log_pmf["row"].values.tolist() == list(range(1, 301))
    total = (by_cell["log_likelihood"]["y"] * by_cell["constant_data"]["counts"]).sum("cell")
    np.testing.assert_allclose(log_pmf.sum("row"), total, rtol=1e-10)
    np.testing.assert_array_equal(
        made["observed_data"]["y"], cells.y[made["constant_data"]["cell"].values]
    )


@pytest.mark.parametrize("rows", [[0.5], [[0]], [10_000], [-2]])
def test_rows_that_are_no_rows_are_refused(posterior, rows):
    with pytest.raises(tb.DataError, match="cell_of_row"):
        to_tree(posterior, cell_of_row=np.array(rows))


def test_too_large_a_log_likelihood_is_refused_and_can_be_left_out(posterior, monkeypatch):
    monkeypatch.setattr(tree, "_MOST_BYTES", 1000)
    with pytest.raises(tb.MemoryBudgetError, match="log_likelihood=False"):
        to_tree(posterior)
    assert "log_likelihood" not in to_tree(posterior, log_likelihood=False).children


def test_a_missing_library_is_named_with_its_pip_line(posterior, monkeypatch):
    monkeypatch.setitem(sys.modules, "xarray", None)
    with pytest.raises(tb.SettingsError, match=r"pip install 'tvdbayes\[arviz\]'"):
        to_tree(posterior)


def test_arviz_finds_independent_draws(posterior, arviz):
    data = opened(arviz, to_tree(posterior))
    ess = arviz.ess(data)
    # Independent draws count for as many as they are; the estimate itself has an error of some 5%.
    for name in ("beta", "beta_kld"):
        assert ((ess[name] > 800) & (ess[name] < 1200)).all()


def test_arviz_summarises(posterior, arviz):
    table = arviz.summary(opened(arviz, to_tree(posterior)), round_to="none")
    expected = ["beta[Intercept]", "beta[dose]", "beta_kld[Intercept]", "beta_kld[dose]"]
    assert list(table.index) == expected
    np.testing.assert_allclose(
        np.asarray(table["mean"], float)[:2], posterior.draws.mean(0), rtol=1e-6
    )


def test_arviz_takes_the_log_likelihood(posterior, arviz):
    cells = posterior.cells
    rows = np.repeat(np.arange(cells.n_cells), cells.counts.astype(int))
    loo = arviz.loo(opened(arviz, to_tree(posterior, cell_of_row=rows)))
    assert loo.n_data_points == 300


def test_a_tree_survives_a_file(posterior, tmp_path):
    pytest.importorskip("h5netcdf")
    made = to_tree(posterior, attrs={"formula": "y ~ dose"})
    made.to_netcdf(tmp_path / "fit.nc", engine="h5netcdf")
    with xarray.open_datatree(tmp_path / "fit.nc", engine="h5netcdf") as again:
        assert again.attrs["formula"] == "y ~ dose"
        np.testing.assert_array_equal(again["posterior"]["beta"], made["posterior"]["beta"])
