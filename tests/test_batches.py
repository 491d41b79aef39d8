"""Tables of many rows: masses as sums over batches of rows are those of the whole table."""

import numpy as np
import pytest

import tvdbayes as tb
from tvdbayes.objective import Layout, Objective
from tvdbayes.objective.partitions import Bins, KMeansGroups
from tvdbayes.sampling.weights import Stream, reweight


@pytest.fixture
def few_at_once(monkeypatch):
    """Every table above a hundred rows is summed in batches, of 64 rows."""
    for module in ("_layout", "_row"):
        monkeypatch.setattr(f"tvdbayes.objective.{module}.MANY_ROWS", 100)
    monkeypatch.setattr("tvdbayes.objective._batches._FEWEST", 64)
    monkeypatch.setattr("tvdbayes.objective._batches._MOST", 64)
    monkeypatch.setattr("tvdbayes.objective._row._ELEMENTS", 200)
    monkeypatch.setattr("tvdbayes.sampling.search._SAMPLE", 400)


def design(name, n=600):
    rng = np.random.default_rng([4, len(name)])
    x = np.column_stack([np.ones(n), rng.normal(size=(n, 2))])
    beta, more = np.array([0.3, 0.5, -0.4]), {}
    if name == "repeated x":
        x = x[rng.integers(0, n // 2, n)]
    eta = x @ beta
    if name in ("yes/no", "repeated x"):
        return tb.Bernoulli(), x, (rng.random(n) < 1 / (1 + np.exp(-eta))).astype(float), more
    if name == "successes":
        more["trials"] = rng.choice([2.0, 4.0], n)
        return tb.Binomial(), x, rng.binomial(more["trials"].astype(int), 0.4).astype(float), more
    y = rng.poisson(np.exp(eta)).astype(float)
    y[:60] += 20
    more["offset"] = 0.1 * rng.normal(size=n)
    if name == "weights":
        more["weights"] = rng.integers(1, 4, n)
    return tb.Poisson(), x, y, more


NAMES = ("yes/no", "repeated x", "successes", "counts", "weights", "bins")


@pytest.mark.usefixtures("few_at_once")
@pytest.mark.parametrize(
    ("name", "fold"),
    [*((name, False) for name in NAMES), ("yes/no", True), ("repeated x", True)],
)
def test_masses_and_distances_are_those_of_the_whole_table(name, fold):
    family, x, y, more = design(name)
    cells = tb.Cells.from_rows(x, y, **more)
    bins = Bins.starting_at([0, 1, 3, 6], y.max()) if name == "bins" else None
    groups = KMeansGroups().learn(cells, 3, 0)
    model = tb.Model(family)
    layout, every = (Layout(model, cells, groups, cells, f, bins) for f in (fold, False))
    batches, units = layout.batches, every.units
    assert batches is not None
    p = reweight(cells, Stream.draws(0), 3).p
    theta = layout.bound.from_user(np.array([[0.2, 0.4, 0.3]] * 3))
    found, expected = batches.masses(p, theta), units.masses(p, theta)
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(batches.of_cells(ours), units.of_cells(theirs), atol=1e-14)
    there = Objective(layout, tb.TVD()).on(p)
    whole = np.maximum(expected[0] - expected[1], 0.0).sum(0)
    np.testing.assert_allclose(there.distance(theta), whole, atol=1e-13)


@pytest.mark.parametrize("name", NAMES[:-1])
def test_the_default_is_that_of_a_table_of_few_rows(name, monkeypatch, request):
    family, x, y, more = design(name)
    y = np.where(np.arange(len(y)) < 40, 0.0, y)
    cells, model = tb.Cells.from_rows(x, y, **more), tb.Model(family)
    here = tb.posterior_bootstrap(model, cells, n_draws=20)
    request.getfixturevalue("few_at_once")
    monkeypatch.setattr("tvdbayes.sampling.search._SAMPLE", cells.n_cells)
    found = tb.posterior_bootstrap(model, cells, n_draws=20)
    np.testing.assert_allclose(found.minimiser, here.minimiser, atol=1e-7)
    np.testing.assert_allclose(found.kld_minimiser, here.kld_minimiser, atol=1e-9)
    np.testing.assert_allclose(found.kept_rows.share, here.kept_rows.share, atol=1e-5)
    np.testing.assert_allclose(found.draws.std(0), here.draws.std(0), rtol=1e-5)
    # Draws are the same but for the noise of the pilot, which is left out: a shift of all of them.
    shift = (here.draws - found.draws).mean(0)
    np.testing.assert_allclose(here.draws - found.draws, np.tile(shift, (20, 1)), atol=1e-6)
    assert (abs(shift) < 0.5 * here.draws.std(0)).all()


@pytest.mark.usefixtures("few_at_once")
def test_draws_of_many_rows_are_centred_at_the_estimate():
    family, x, y, _ = design("counts", 2000)
    found = tb.posterior_bootstrap(tb.Model(family), tb.Cells.from_rows(x, y), n_draws=400)
    away = (found.draws.mean(0) - found.minimiser) / found.draws.std(0)
    # Four standard errors of a mean of 400 draws, and d / sqrt(n).
    assert (abs(away) < 4 / 20 + 3 / np.sqrt(2000)).all()


@pytest.mark.usefixtures("few_at_once")
@pytest.mark.parametrize(("columns", "moved"), [(2, False), (3, True)])
def test_draws_are_moved_where_rows_are_few_for_the_parameters(columns, moved):
    """500 rows are more than 64 for each squared parameter where there are two, not for three."""
    family, x, y, _ = design("counts")
    cells = tb.Cells.from_rows(x[:500, :columns], y[:500])
    found = tb.posterior_bootstrap(tb.Model(family), cells, n_draws=2)
    assert (found.prepared.robust_draws.shift != 0).any() == moved
