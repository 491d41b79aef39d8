"""Widening and chance by clusters: formulas by hand, and what they estimate."""

import numpy as np
import pandas as pd
import pytest
from scipy.special import ndtr
from scipy.stats import poisson

import tvdbayes as tb
from tvdbayes.data.cells import compress
from tvdbayes.data.sampling_units import Labels, SamplingUnits, relative_weights
from tvdbayes.objective import Layout
from tvdbayes.objective.partitions import Distinct
from tvdbayes.results.clusters import ClusterRule
from tvdbayes.results.unit_replicates import RowsOfUnits, UnitMaker
from tvdbayes.trimming import correlation, independent_share, outcome_scores
from tvdbayes.trimming.unit_scores import UnitScores
from tvdbayes.trimming.weighted import RowScores

pytestmark = pytest.mark.filterwarnings("ignore::tvdbayes.TVDBayesWarning")


def problem(*, n_clusters=12, size=5, seed=0, icc=0.3, strata=1, weighted=True):
    """Poisson rows with an intercept and a slope, and their units."""
    rng = np.random.default_rng(seed)
    of = np.repeat(np.arange(n_clusters), size)
    x = np.c_[np.ones(len(of)), rng.normal(size=len(of)).round(1)]
    z = np.sqrt(icc) * rng.normal(size=n_clusters)[of] + np.sqrt(1 - icc) * rng.normal(size=len(of))
    y = poisson.ppf(ndtr(z), np.exp(0.7 + 0.3 * x[:, 1]))
    ones = np.ones(len(of))
    weights = relative_weights(ones, rng.choice([1.0, 3.0], len(of))) if weighted else ones
    made = compress(x, y, weights=weights)
    units = SamplingUnits.of_rows(
        made.cell_of_row,
        made.cells.n_cells,
        ones,
        clusters=Labels.of(pd.Series(of)),
        strata=Labels.of(pd.Series(of % strata)) if strata > 1 else None,
        weights=weights,
    )
    cells = made.cells
    layout = Layout(tb.Model(tb.Poisson()), cells, Distinct(), cells)
    return layout, units, (x, y, weights, of)


def unit_scores(layout, units, theta):
    _, score, curvature = layout.cell_pairs.log_jet(theta[:, None])
    information = -curvature[..., 0]
    bound, counts = layout.bound, layout.cells.counts
    lower = [[layout.cell_pairs.x_of_pair.total((counts * information[0, 0])[:, None])]]
    inverse = np.linalg.inv(bound.pullback_curvature(lower)[:, :, 0])
    given = (score[..., 0], information, inverse)
    return UnitScores(layout, units, *given), RowScores(layout, *given)


def by_hand(layout, data, theta):
    """Score, information and squared-weight information of each cluster, from its rows."""
    x, y, weights, of = data
    z = layout.bound.designs[0]
    cells = layout.cells
    at = [int(np.flatnonzero((cells.x == row).all(1))[0]) for row in x]
    z = z[at]
    mean = np.exp(z @ theta)
    found = []
    for cluster in range(of.max() + 1):
        rows = of == cluster
        zc, w, m = z[rows], weights[rows], mean[rows]
        found.append(
            (
                (w * (y[rows] - m)) @ zc,
                (zc.T * (w * m)) @ zc,
                (zc.T * (w**2 * m)) @ zc,
            )
        )
    return [np.array(part) for part in zip(*found, strict=True)]


@pytest.mark.parametrize("strata", [1, 3])
def test_cr3_is_the_jackknife_by_cluster(strata):
    layout, units, data = problem(strata=strata)
    theta = np.array([0.6, 0.2])
    scores, _ = unit_scores(layout, units, theta)
    s, info, _ = by_hand(layout, data, theta)
    stratum = np.arange(len(s)) % strata
    inverse = np.linalg.inv(info.sum(0))
    assert np.allclose(inverse, scores.inverse)
    each = zip(info, s, strict=True)
    alone = np.array([np.linalg.solve(np.eye(2) - i @ inverse, v) for i, v in each])
    plain = wide = 0
    for h in range(strata):
        own, jack = s[stratum == h], alone[stratum == h]
        n = len(own)
        plain = plain + n / (n + 1) * (own - own.mean(0)).T @ (own - own.mean(0))
        if strata > 1:
            jack = jack - jack.mean(0)
        wide = wide + (n / (n - 1) if strata > 1 else 1) * jack.T @ jack
    found = scores.covariances()
    assert np.allclose(found[0], plain)
    assert np.allclose(found[1], wide)


def test_degrees_of_freedom_of_clusters_are_those_of_bell_and_mccaffrey():
    layout, units, data = problem()
    theta, along = np.array([0.6, 0.2]), np.array([0.3, 1.0])
    scores, _ = unit_scores(layout, units, theta)
    _, info, squared = by_hand(layout, data, theta)
    inverse, n = scores.inverse, len(info)
    b = [np.linalg.inv(np.eye(2) - i @ inverse).T @ along for i in info]
    whole = squared.sum(0)
    cov = np.zeros((n, n))
    for c in range(n):
        for e in range(n):
            inner = info[c] @ inverse @ whole @ inverse @ info[e]
            inner = inner - info[c] @ inverse @ squared[e] - squared[c] @ inverse @ info[e]
            cov[c, e] = b[c] @ (inner + (squared[c] if c == e else 0)) @ b[e]
    assert scores.freedoms(along[:, None])[0] == pytest.approx(
        min(np.trace(cov) ** 2 / (cov**2).sum(), n - 1)
    )


def test_clusters_of_one_row_are_widened_as_rows_are():
    layout, _, (_, y, _, _) = problem(n_clusters=60, size=1, weighted=False)
    cells, n = layout.cells, layout.cells.n_cells
    # Such units are None to everybody else.
    ones = np.ones(n)
    number = np.arange(n)
    single = SamplingUnits(number, number, ones, ones, cells.counts, 0 * number, n, True)
    theta = np.array([0.6, 0.2])
    by_unit, by_row = unit_scores(layout, single, theta)
    plain, wide = by_row.covariances()
    found = by_unit.covariances()
    total = cells.counts @ (by_row.score[0][:, None] * layout.bound.designs[0][cells.x_index])
    centred = plain - np.outer(total, total) / len(y)
    assert np.allclose(found[0], centred * len(y) / (len(y) + 1))
    assert np.allclose(found[1], wide)
    along = np.array([0.3, 1.0])
    assert by_unit.freedoms(along[:, None])[0] == pytest.approx(
        min(by_row.freedom(along), len(y) - 1)
    )


def test_the_number_of_independent_rows_follows_kish():
    """Weights alone: (sum w)^2 / sum w^2; equal outcomes in clusters: one row for each."""
    weights = relative_weights(np.ones(6), np.array([1.0, 1, 1, 1, 3, 3]))
    made = compress(np.ones((6, 1)), [0, 1, 2, 0, 1, 2], weights=weights)
    layout = Layout(tb.Model(tb.Poisson()), made.cells, Distinct(), made.cells)
    units = SamplingUnits.of_rows(made.cell_of_row, 3, np.ones(6), weights=weights)
    kept = np.ones(3)
    share = independent_share(layout, np.zeros(1), kept, units)
    assert share == pytest.approx(100 / (4 + 18) / 6)
    assert units.kish == pytest.approx(1 / share)
    made = compress(np.ones((400, 1)), np.repeat(np.random.default_rng(0).poisson(1, 100), 4))
    layout = Layout(tb.Model(tb.Poisson()), made.cells, Distinct(), made.cells)
    clusters = Labels.of(pd.Series(np.repeat(np.arange(100), 4)))
    size = made.cells.n_cells
    units = SamplingUnits.of_rows(made.cell_of_row, size, np.ones(400), clusters=clusters)
    theta = np.log([made.cells.y @ made.cells.p])
    assert independent_share(layout, theta, np.ones(size), units) == pytest.approx(0.25, rel=0.1)


@pytest.mark.parametrize("family", ["poisson", "bernoulli", "categorical"])
def test_the_correlation_of_outcomes_is_found_and_made_again(family):
    rng = np.random.default_rng(5)
    of = np.repeat(np.arange(300), 6)
    z = np.sqrt(0.4) * rng.normal(size=300)[of] + np.sqrt(0.6) * rng.normal(size=len(of))
    y = {
        "poisson": poisson.ppf(ndtr(z), 2.0),
        "bernoulli": (z > 0.3).astype(int),
        "categorical": np.array(["a", "b", "c"])[np.digitize(z, [-0.5, 0.5])],
    }[family]
    fit = tb.fit("y ~ 1", {"y": y, "g": of}, family=family, clusters="g", n_draws=2)
    maker = UnitMaker(fit.posterior, fit.posterior.units)
    layout, theta = maker.layout, maker.layout.bound.from_user(fit.posterior.minimiser[:, None])
    seen = correlation(fit.posterior.units, *outcome_scores(layout, theta[:, 0]), maker.kept)
    assert 0.1 < seen < 0.45
    assert maker.latent == pytest.approx(0.4, abs=0.12)
    made = maker.make(range(20))
    again = []
    for cell in made.cell:
        here = layout.rebind(made.table)
        units = maker.rows.units(cell, made.table.n_cells)
        scores = outcome_scores(here, theta[:, 0])
        again.append(correlation(units, *scores, np.ones(made.table.n_cells)))
    assert np.mean(again) == pytest.approx(seen, rel=0.2)


def test_replicates_keep_the_sizes_and_covariates_of_clusters():
    layout, units, (x, _, weights, of) = problem(strata=3)
    rows = RowsOfUnits.of(units, layout.cells)
    size = np.bincount(rows.unit)
    assert sorted(size) == sorted(np.bincount(of))
    assert np.isclose(rows.mass.sum(), weights.sum())
    seen = np.bincount(rows.x_row, rows.mass, layout.cells.n_x)
    assert np.allclose(seen, layout.cells.x_counts)
    # The rows of each cluster, as a multiset.
    clusters = {tuple(sorted(layout.cells.x[rows.x_row[rows.unit == u], 1])) for u in range(12)}
    assert clusters == {tuple(sorted(x[of == c, 1])) for c in range(12)}


def test_marginal_laws_of_replicates_are_those_of_the_model():
    """Whatever the correlation within clusters."""
    of = np.repeat(np.arange(150), 8)
    rng = np.random.default_rng(1)
    y = poisson.ppf(ndtr(np.sqrt(0.5) * (rng.normal(size=150)[of] + rng.normal(size=1200))), 1.5)
    fit = tb.fit("y ~ 1", {"y": y, "g": of}, clusters="g", n_draws=2)
    maker = UnitMaker(fit.posterior, fit.posterior.units)
    outcomes = np.concatenate([maker.outcomes(number) for number in range(60)])
    mean = np.exp(fit.posterior.minimiser[0])
    # The error of a mean of 60 data sets of 150 clusters with a correlation of about a half.
    assert outcomes.mean() == pytest.approx(mean, abs=4 * np.sqrt(mean * 0.6 / (60 * 150)))
    share = np.bincount(outcomes.astype(int))[:3] / outcomes.size
    assert np.allclose(share, poisson.pmf(range(3), mean), atol=0.012)


def test_the_surprise_of_a_cluster_by_hand():
    made = compress(np.ones((4, 1)), [0, 0, 1, 1])
    layout = Layout(tb.Model(tb.Bernoulli()), made.cells, Distinct(), made.cells)
    unit, cell = np.array([0, 0, 1, 1]), np.array([1, 1, 0, 1])
    rule = ClusterRule(0.25, 0.0)
    z = rule.surprise(layout, np.zeros(1), unit, cell, np.ones(4))
    # Of a fair coin: twice heads, 2 / sqrt(2 + 2 / 4), and heads and tails.
    assert z == pytest.approx([2 / np.sqrt(2.5), 0.0], abs=1e-6)


@pytest.mark.slow
def test_broken_clusters_are_found_and_others_are_not():
    """Of 60 data sets with 3 broken clusters of 60; clean data are flagged in about 1 of 20."""
    found, false = [], []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        of = np.repeat(np.arange(60), 10)
        x = rng.normal(size=600)
        z = np.sqrt(0.2) * rng.normal(size=60)[of] + np.sqrt(0.8) * rng.normal(size=600)
        y = poisson.ppf(ndtr(z), np.exp(1 + 0.3 * x))
        data = {"y": y, "x": x, "g": of}
        clean = tb.fit("y ~ x", data, clusters="g", n_draws=2)
        false.append(clean.clusters()["flag"].any())
        broken = tb.fit("y ~ x", {**data, "y": y + 8 * (of < 3)}, clusters="g", n_draws=2)
        found.append(broken.clusters()["flag"].to_numpy()[:3].mean())
    assert np.mean(found) > 0.9
    assert np.mean(false) <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 60)
