"""Laws of clusters, strata and sampling weights: what is reweighted, and what must not matter."""

import numpy as np
import pandas as pd
import pytest

import tvdbayes as tb
from tvdbayes.data.cells import compress
from tvdbayes.data.sampling_units import Labels, SamplingUnits, relative_weights
from tvdbayes.sampling.weights import RandomWeights, Stream

QUIET = pytest.mark.filterwarnings("ignore::tvdbayes.TVDBayesWarning")
pytestmark = QUIET


def visits(n_clusters=40, size=6, seed=0):
    """Clusters of unequal size whose rows depend on one another, in four regions."""
    rng = np.random.default_rng(seed)
    of = np.repeat(np.arange(n_clusters), rng.integers(2, 2 * size - 1, n_clusters))
    common = rng.gamma(4, 1 / 4, n_clusters)[of]
    x = rng.integers(0, 3, len(of))
    return pd.DataFrame(
        {
            "y": rng.poisson(common * np.exp(0.8 + 0.2 * x)),
            "x": x,
            "patient": [f"p{number:03d}" for number in of],
            "region": [f"r{number % 4}" for number in of],
            "w": rng.choice([0.5, 1.0, 3.0], len(of)),
            "row": np.arange(len(of)),
        }
    )


WAYS = {
    "clusters": {"clusters": "patient"},
    "strata": {"strata": "region"},
    "weights": {"sampling_weights": "w"},
    "all": {"clusters": "patient", "strata": "region", "sampling_weights": "w"},
}
each_way = pytest.mark.parametrize("way", WAYS)


def fitted(data, n_draws=40, **options):
    return tb.fit("y ~ x", data, n_draws=n_draws, **options)


def same(one, other):
    return np.array_equal(one.draws, other.draws) and np.array_equal(one.kld_draws, other.kld_draws)


def test_every_row_its_own_cluster_is_no_clusters():
    data = visits()
    assert same(fitted(data), fitted(data, clusters="row"))
    assert same(fitted(data), fitted(data.assign(w=0.3), sampling_weights="w"))
    assert same(fitted(data), fitted(data.assign(region="one"), strata="region"))


def units_of(cell, n_cells, *, clusters=None, strata=None, weights=None, rows=None):
    rows = np.ones(len(cell)) if rows is None else np.asarray(rows, float)
    return SamplingUnits.of_rows(
        np.asarray(cell),
        n_cells,
        rows,
        clusters=None if clusters is None else Labels.of(pd.Series(clusters)),
        strata=None if strata is None else Labels.of(pd.Series(strata)),
        weights=None if weights is None else relative_weights(rows, np.asarray(weights, float)),
    )


def tables(cells, units, n=4000, seed=0):
    return RandomWeights(cells, units).draw(Stream.draws(seed), n).p


def test_a_cluster_of_two_equal_rows_is_one_row_of_weight_2():
    """The same draws bit for bit, not just the same law."""
    made = compress(np.ones((6, 1)), [0, 0, 1, 1, 2, 2])
    pairs = units_of(made.cell_of_row, 3, clusters=list("aabbcd"))
    single = compress(np.ones((4, 1)), [0, 1, 2, 2], weights=[2, 2, 1, 1])
    heavy = units_of(single.cell_of_row, 3, clusters=list("abcd"), rows=[2, 2, 1, 1])
    assert np.array_equal(tables(made.cells, pairs), tables(single.cells, heavy))
    weighted = units_of([0, 1, 2, 2], 3, weights=[2, 2, 1, 1])
    assert np.allclose(tables(made.cells, pairs), tables(single.cells, weighted), rtol=1e-12)


def test_a_draw_is_a_dirichlet_over_clusters():
    """Moments of p = sum_c w_c S_c / sum w, with equal sizes: those of Dirichlet(1, 1, 1)."""
    made = compress(np.ones((6, 1)), [0, 0, 0, 1, 1, 2])
    units = units_of(made.cell_of_row, 3, clusters=list("aabbcc"))
    p = tables(made.cells, units, 40_000)
    share = np.array([[1, 0, 0], [0.5, 0.5, 0], [0, 0.5, 0.5]])
    expected = share.T @ ((np.eye(3) - 1 / 3) / (3 * 4)) @ share
    assert np.allclose(p.mean(1), made.cells.p, atol=4e-3)
    assert np.allclose(np.cov(p), expected, atol=2e-3)


def test_strata_vary_within_themselves_and_keep_their_number_of_units():
    """Equal units: each stratum keeps its share of the mass in every draw."""
    made = compress(np.ones((8, 1)), range(8))
    units = units_of(made.cell_of_row, 8, strata=list("aaaaabbb"))
    p = tables(made.cells, units, 500)
    assert np.allclose(p[:5].sum(0), 5 / 8)
    variance = (1 / 5) * (4 / 5) / 6 * (5 / 8) ** 2
    assert np.isclose(p[:5].var(1).mean(), variance, rtol=0.15)


def test_units_of_one_kind_share_a_gamma_weight():
    """Many equal clusters are kept once, so that their number costs nothing."""
    made = compress(np.ones((400, 1)), [0, 1] * 200)
    units = units_of(made.cell_of_row, 2, clusters=np.repeat(np.arange(200), 2))
    assert units.counts.tolist() == [200]
    assert np.allclose(tables(made.cells, units, 5), 0.5)


@each_way
def test_doubling_every_sampling_weight_changes_nothing(way):
    data, options = visits(), {**WAYS[way], "sampling_weights": "w"}
    assert same(fitted(data, **options), fitted(data.assign(w=2 * data["w"]), **options))


@each_way
def test_neither_the_order_of_rows_nor_workers_nor_resuming_matter(way):
    data, options = visits(), WAYS[way]
    whole = fitted(data, **options)
    shuffled = data.sample(frac=1, random_state=1)
    assert same(whole, fitted(shuffled, **options))
    assert same(whole, fitted(data, n_jobs=2, **options))
    assert same(whole, fitted(data, resume=fitted(data, 10, **options), **options))
    renamed = data.assign(patient=data["patient"].str.upper())
    assert same(whole, fitted(renamed, **options))


@each_way
def test_a_saved_fit_and_an_updated_one_are_the_same(way, tmp_path):
    data, options = visits(), WAYS[way]
    whole = fitted(data, **options)
    whole.save(tmp_path / "fit.tvd")
    loaded = tb.load(tmp_path / "fit.tvd")
    assert same(whole, loaded)
    assert loaded.data.sampling == whole.data.sampling
    assert np.array_equal(loaded.chance.distance, whole.chance.distance)
    grown = fitted(data[:150], **options).update(data[150:])
    assert same(whole, grown)


@each_way
def test_an_engine_groups_by_cluster_and_cell(way):
    pytest.importorskip("ibis")
    data, options = visits(), WAYS[way]
    assert same(fitted(data, **options), fitted(data, engine="duckdb", **options))


def test_the_table_is_that_of_the_population():
    """A row of sampling weight 3 is in the table as often as three rows of weight 1."""
    data = pd.DataFrame({"y": [0, 1, 2, 1, 0, 4], "x": [0, 0, 0, 1, 1, 1], "w": [3, 1, 1, 2, 1, 1]})
    thrice = data.loc[data.index.repeat(data["w"])].drop(columns="w")
    one, other = fitted(data, 0, sampling_weights="w"), fitted(thrice, 0)
    assert np.allclose(one.posterior.cells.p, other.posterior.cells.p)
    assert one.posterior.cells.n_obs == pytest.approx(6)
    assert np.allclose(one.posterior.kld_minimiser, other.posterior.kld_minimiser, atol=1e-6)
    ask = {"variable": "x", "ordinary": True}
    assert np.allclose(one.effects(**ask).estimate, other.effects(**ask).estimate, atol=1e-6)


def test_draws_spread_as_cluster_robust_errors_say():
    """The likelihood fit beside statsmodels, which has no correction for leverage."""
    sm = pytest.importorskip("statsmodels.api")
    data = visits(150, seed=2)
    fit = fitted(data, 1000, clusters="patient")
    model = sm.GLM(data["y"], sm.add_constant(data[["x"]]), family=sm.families.Poisson())
    code = pd.factorize(data["patient"])[0]
    robust = model.fit(cov_type="cluster", cov_kwds={"groups": code}).bse
    naive = model.fit().bse
    assert (robust / naive).iloc[0] > 1.5
    assert np.allclose(fit.kld_draws.std(0), robust, rtol=0.12)


def test_draws_of_a_stratified_survey_spread_as_linearisation_says():
    """Means in a stratified sample: the variance of Cochran (1977), without finite populations."""
    rng = np.random.default_rng(1)
    stratum = np.repeat(np.arange(5), 80)
    y = rng.poisson(np.exp(0.3 + 0.6 * stratum))
    weight = np.array([1.0, 2.0, 5.0, 2.0, 1.0])[stratum]
    data = {"y": y, "h": stratum, "w": weight}
    fit = tb.fit(
        "y ~ 1", data, strata="h", sampling_weights="w", divergence="kld", n_draws=2000, seed=3
    )
    share = np.array([(weight * (stratum == h)).sum() for h in range(5)]) / weight.sum()
    variance = sum(share[h] ** 2 * y[stratum == h].var(ddof=1) / 80 for h in range(5))
    mean = np.average(y, weights=weight)
    assert np.isclose(fit.kld_draws.std(), np.sqrt(variance) / mean, rtol=0.06)


@pytest.mark.parametrize("n_cells", [3, 40])
def test_masses_are_sums_over_units(n_cells):
    """By a full matrix where there are few cells, by a sparse one where there are many."""
    rng = np.random.default_rng(0)
    cell, of = rng.integers(0, n_cells, 200), np.repeat(np.arange(50), 4)
    units = units_of(cell, n_cells, clusters=of, weights=rng.choice([1.0, 2.0], 200))
    assert (units._full is None) == (n_cells == 40)
    weight = rng.exponential(size=(5, len(units.counts)))
    mass = np.zeros((5, n_cells))
    for unit, at, amount in zip(units.unit, units.cell, units.mass, strict=True):
        mass[:, at] += weight[:, unit] * amount
    expected = mass / mass.sum(1, keepdims=True)
    assert np.allclose(units.masses(weight, units.units_of_stratum), expected)


def test_labels_that_make_no_sense_are_refused_in_words():
    data = visits()
    with pytest.raises(tb.DataError, match="rows in several strata"):
        fitted(data, clusters="patient", strata="x")
    with pytest.raises(tb.SettingsError, match="have a single cluster"):
        fitted(data, clusters="region", strata="region")
    with pytest.raises(tb.DataError, match="must be above 0"):
        fitted(data.assign(w=data["w"] - 0.5), sampling_weights="w")
    with pytest.raises(tb.SettingsError, match="are too few for 2 parameters"):
        fitted(data.assign(region=data["row"] % 2), clusters="region")
    base = tb.Cells.from_rows([[1, 0]], [1], names=("Intercept", "x"))
    with pytest.raises(tb.SettingsError, match="cannot be used"):
        fitted(data, clusters="patient", alpha=3, base_measure=base)


@pytest.mark.filterwarnings("always")
def test_few_clusters_are_warned_of():
    data = visits(12)
    with pytest.warns(tb.TooFewRowsWarning, match="12 clusters are few"):
        fit = fitted(data, clusters="patient")
    assert "12 clusters of 'patient'" in str(fit.summary())
    about = {finding.about: finding.level for finding in fit.check(misfit=False).findings}
    assert "sampling" in about


def test_estimators_take_clusters_as_metadata():
    from sklearn import config_context
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    data = visits()
    given = {"clusters": data["patient"], "strata": data["region"], "sampling_weights": data["w"]}
    model = tb.RobustCountRegressor(n_draws=30)
    alone = model.fit(data[["x"]], data["y"], **given)
    whole = tb.fit("y ~ x", data, n_draws=30, ridge=1e-4, bins="auto", **WAYS["all"])
    assert np.allclose(alone.posterior_.draws, whole.draws, rtol=1e-9)
    with config_context(enable_metadata_routing=True):
        routed = tb.RobustCountRegressor(n_draws=30).set_fit_request(clusters=True)
        pipe = make_pipeline(StandardScaler(), routed).fit(
            data[["x"]], data["y"], clusters=data["patient"]
        )
    assert pipe[-1].posterior_.units.n_units == 40
