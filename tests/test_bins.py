"""Outcome bins: exact sums, the definition of the binned objective, and what bins are for."""

import numpy as np
import pytest

import tvdbayes as tb
from tvdbayes import TVD, Binomial, Bins, Cells, Cluster, Distinct, KMeansGroups, Model, Poisson
from tvdbayes.models.families import ALL_FAMILIES
from tvdbayes.objective import Layout, Objective
from tvdbayes.objective.partitions import Grouping, learn_bins, learn_bins_of_tables


def poisson_pmf(y, rate):
    return Poisson().pmf(np.asarray(y, float), np.log(np.full((1, len(y)), rate)), np.ones(1))


@pytest.mark.parametrize(("low", "high", "rate"), [(3, 9, 5), (90, 115, 100), (9_000, 9_400, 9e3)])
def test_nodes_sum_a_pmf_over_a_bin(low, high, rate):
    _, y, weights = Bins(np.array([low]), np.array([high])).nodes(np.zeros(0))
    whole = poisson_pmf(np.arange(low, high + 1), rate).sum()
    assert len(y) <= 60
    assert abs(weights @ poisson_pmf(y, rate) / whole - 1) < 1e-8
    assert abs(weights.sum() - (high - low + 1)) < 1e-9


@pytest.mark.parametrize("family", [f for f in ALL_FAMILIES if f.counts], ids=repr)
def test_nodes_sum_every_law_of_counts(family, rng):
    """Wide bins, laws that are steep at 0 or at their trials, and rows with fewer trials."""
    eta = rng.uniform(-1, 1, (len(family.predictors), 6))
    eta[0] += 1
    eta[family.n_main :] += 1.5
    trials = np.array([7.0, 40.0, 90.0, 200.0, 200.0, 1.0])
    for low, high in ((0, 19), (0, 200), (30, 3000)):
        bins = Bins(np.array([low]), np.array([high]), 400).isolating(family.spikes)
        _, y, weights = bins.nodes(np.unique(trials))
        dense = np.arange(low, high + 1.0)
        by_nodes = weights @ masses(family, y, eta, trials)
        exact = masses(family, dense, eta, trials).sum(0)
        assert np.allclose(by_nodes, exact, atol=1e-8), (low, high)


def masses(family, y, eta, trials):
    """Probabilities (n, 6) of outcomes (n,), fractions between two of them included."""
    possible = family.possible(np.ceil(y)[:, None], trials)
    pmf = family.pmf(np.where(possible, y[:, None], 1.0), eta[:, None], trials)
    return np.where(possible, pmf, 0.0)


def test_bins_do_not_reach_across_gaps_to_outliers(rng):
    y = np.r_[rng.poisson(400.0, 51), rng.integers(10**6, 2 * 10**6, 9)]
    cells = Cells.from_rows(np.ones((60, 1)), y)
    bins = learn_bins(cells, Distinct().group(cells), 60)
    assert not ((bins.lows < 1000) & (bins.highs > 10**5)).any()
    # Outcomes so large that a step of 1 is lost come to an end too.
    same = Cells.from_rows(np.ones((40, 1)), np.r_[np.full(20, 2.0**53), np.arange(20)])
    found = learn_bins(same, Distinct().group(same), 40)
    assert found is None or found.highs[-1] == 2.0**53


@pytest.mark.parametrize("starts", [None, [0, 5, 12, 20, 21, 30, 44]], ids=["outcomes", "bins"])
def test_grouped_objective_equals_its_definition(rng, starts):
    """D = 1 - sum over groups and bins seen of min(data mass, model mass), averaged over R."""
    n, beta = 300, np.array([3.0 if starts else 0.7, 0.4])
    x = np.column_stack([np.ones(n), rng.normal(size=n)])
    y = rng.poisson(np.exp(x @ beta)).astype(float)
    cells = Cells.from_rows(x, y)
    partition = KMeansGroups((Cluster("tail", 1.0, 2),)).learn(cells, 2, 0)
    bins = Bins.starting_at(starts, y.max()) if starts else Bins(np.unique(y), np.unique(y))
    layout = Layout(Model(Poisson()), cells, partition, cells, False, bins if starts else None)
    p = rng.dirichlet(cells.counts)
    found = Objective(layout, TVD()).on(p[:, None]).distance(layout.bound.from_user(beta[:, None]))
    rate, distances = np.exp(cells.x[cells.x_index] @ beta), []
    for labels in partition.group(cells).groups:
        of_cell, common = labels[cells.x_index], 0.0
        for group in np.unique(of_cell):
            rows = np.flatnonzero(of_cell == group)
            for low, high in zip(bins.lows, bins.highs, strict=True):
                seen = p[rows][(cells.y[rows] >= low) & (cells.y[rows] <= high)].sum()
                outcomes = np.arange(low, high + 1)
                model = sum(p[i] * poisson_pmf(outcomes, rate[i]).sum() for i in rows)
                common += min(seen, model)
        distances.append(1 - common)
    assert abs(found[0] - np.mean(distances)) < 1e-12


def test_wrong_bins_are_refused_and_others_extended():
    bins = Bins.starting_at([2, 4], 6)
    assert bins.covering(np.array([0.0, 3.0, 9.0])).lows.tolist() == [0, 2, 4, 9]
    for wrong in ([], [3], [3, 2], [0.5, 1], [[1]], ["a", "b"], [0, np.inf], [[1], [2, 3]]):
        with pytest.raises(tb.SettingsError, match="first outcomes"):
            Bins.starting_at(wrong, 6)
    for outside in ([-5, 2], [0, 10]):
        with pytest.raises(tb.SettingsError, match="between 0 and the largest outcome, 6"):
            Bins.starting_at(outside, 6)
    cells = Cells.from_rows(np.ones((5, 1)), np.arange(5))
    with pytest.raises(tb.SettingsError, match="bins must be"):
        tb.posterior_bootstrap(Model(Poisson()), cells, bins="some")


def test_bins_do_not_depend_on_row_order_or_on_how_weights_are_written(rng):
    x = np.column_stack([np.ones(500), rng.normal(size=500)])
    y = rng.poisson(np.exp(2 + x[:, 1]))
    twice = np.concatenate([np.arange(500), np.arange(500)])

    def bins_of(cells):
        learned = KMeansGroups().learn(cells, 2, 0)
        return learn_bins(cells, learned.group(cells), 60)

    a = bins_of(Cells.from_rows(x[twice], y[twice]))
    b = bins_of(Cells.from_rows(x[::-1], y[::-1], weights=np.full(500, 2.0)))
    assert np.array_equal(a.lows, b.lows)
    assert np.array_equal(a.highs, b.highs)


def test_small_counts_at_repeated_x_stay_single(count_cells, binomial_cells):
    for cells, family in ((count_cells, Poisson()), (binomial_cells, Binomial())):
        fit = tb.posterior_bootstrap(Model(family), cells, n_draws=0, partition=Distinct())
        assert fit.bins is None


def test_large_counts_at_one_x_are_binned_and_estimated(rng):
    """Every count is nearly its own cell: without bins the rate is far off, with them it is not."""
    y = rng.poisson(400.0, 200)
    y[:20] += 3000
    cells = Cells.from_rows(np.ones((200, 1)), y)
    single, binned = (
        tb.posterior_bootstrap(Model(Poisson()), cells, n_draws=0, bins=bins, refine=None)
        for bins in ("none", "auto")
    )
    assert single.bins is None
    assert binned.bins is not None
    assert abs(np.exp(binned.estimate[0]) - 400) < 5
    assert abs(np.exp(binned.kld_minimiser[0]) - 400) > 200


def test_impossible_outcomes_of_neighbours_get_no_mass(rng):
    """Rows of 60 and 100 trials share groups: more successes than trials are impossible."""
    n = 300
    trials = rng.choice([60.0, 100.0], n)
    x = np.column_stack([np.ones(n), rng.normal(size=n)])
    y = rng.binomial(trials.astype(int), 1 / (1 + np.exp(-(2 + x[:, 1])))).astype(float)
    cells = Cells.from_rows(x, y, trials=trials)
    coarse = KMeansGroups((Cluster("spread", 20.0, 1),)).learn(cells, 2, 0)
    layout = Layout(Model(Binomial()), cells, coarse, cells, False, Bins.starting_at([0, 50], 100))
    problem = Objective(layout, TVD()).on(cells.p[:, None])
    model_mass = problem.at(np.array([[2.0], [1.0]])).model_mass
    assert model_mass.sum() <= 1 + 1e-12


def test_bins_by_hand():
    bins = Bins(np.array([0.0, 2.0, 8.0]), np.array([1.0, 5.0, 9.0]))
    assert bins.number(np.array([0, 1, 2, 5, 8, 9])).tolist() == [0, 0, 1, 1, 2, 2]
    # Without gaps: new outcomes belong to the bin before them.
    filled = bins.filled()
    assert filled.lows.tolist() == [0, 2, 8]
    assert filled.highs.tolist() == [1, 7, 9]
    alone = bins.isolating([3.0])
    assert alone.lows.tolist() == [0, 2, 3, 4, 8]
    assert alone.highs.tolist() == [1, 2, 3, 5, 9]
    assert bins.isolating([2.0]).lows.tolist() == [0, 2, 3, 8]
    # An outcome in none of them gets one of its own.
    assert bins.covering(np.array([1.0, 6.0])).lows.tolist() == [0, 2, 6, 8]


@pytest.mark.filterwarnings("ignore:.*inflation:tvdbayes._errors.BoundaryWarning")
@pytest.mark.parametrize("bins", ["auto", [0, 10, 30, 100]])
@pytest.mark.parametrize(
    ("law", "outcome"),
    [(tb.ZeroInflated(tb.Geometric()), 0.0), (tb.Censored(tb.Geometric(), 120), 120.0)],
    ids=["inflated", "censored"],
)
def test_outcomes_with_a_law_of_their_own_have_a_bin_of_their_own(law, outcome, bins, rng):
    y = np.minimum(rng.geometric(0.01, 300) - 1, 120)
    cells = Cells.from_rows(np.ones((300, 1)), y)
    fit = tb.posterior_bootstrap(Model(law), cells, n_draws=0, bins=bins)
    assert (fit.bins.highs > fit.bins.lows).any()
    at = int(fit.bins.number(np.array([outcome]))[0])
    assert (fit.bins.lows[at], fit.bins.highs[at]) == (outcome, outcome)


def test_tables_that_stand_one_after_the_other_learn_their_bins_as_each_alone():
    rng = np.random.default_rng(6)
    x = np.repeat(np.arange(4.0), 60)[:, None]
    tables = [Cells.from_rows(x, rng.poisson(mean + 40 * x[:, 0])) for mean in (5, 80, 300)]
    groups = np.arange(4) // 2
    joined = Cells.by_row(
        np.concatenate([c.x[c.x_index] + 10 * i for i, c in enumerate(tables)]),
        np.concatenate([c.y for c in tables]),
        names=tables[0].names,
        counts=np.concatenate([c.counts for c in tables]),
    )
    of_rows = np.concatenate([groups[c.x_index] + 2 * i for i, c in enumerate(tables)])
    rows = np.arange(joined.n_x)
    ends = np.cumsum([0, *(c.n_cells for c in tables)])
    found = learn_bins_of_tables(joined, Grouping(rows, rows, of_rows[None]), 60.0, ends)
    for cells, bins in zip(tables, found, strict=True):
        alone = learn_bins(cells, Grouping(cells.x_index, np.arange(4), groups[None]), 60.0)
        np.testing.assert_array_equal(bins.lows, alone.lows)
        np.testing.assert_array_equal(bins.highs, alone.highs)
    together = Bins.joined(found, joined.y, ends)
    _, place = together.placing(joined.y)
    assert (together.lows[place] <= joined.y).all()
    assert (joined.y <= together.highs[place]).all()
