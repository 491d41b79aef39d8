import numpy as np
import pytest

import tvdbayes as tb
from tvdbayes import (
    TVD,
    Bernoulli,
    Cells,
    Cluster,
    Distinct,
    KMeansGroups,
    Model,
    Poisson,
    Singletons,
)
from tvdbayes.objective import Layout, Objective
from tvdbayes.objective.partitions import Auto, report_groups, rows_per_group
from tvdbayes.objective.partitions._kmeans import learn_centres, nearest
from tvdbayes.objective.partitions._metrics import tail_metric
from tvdbayes.objective.partitions._two_levels import Search, learn_cells, learn_centres_of_many


def logit_rows(rng, n=600, p=3, share=0.0):
    beta = np.r_[0.5, np.linspace(1, -1, p - 1)]
    x = np.column_stack([np.ones(n), rng.normal(size=(n, p - 1))])
    y = (rng.random(n) < 1 / (1 + np.exp(-x @ beta))).astype(float)
    bad = rng.random(n) < share
    x[bad, 1], y[bad] = rng.normal(4, 0.3, bad.sum()), 0
    return x, y, beta


def objective_at(cells, partition, family, beta, fold=False):
    learned = partition.learn(cells, len(beta), 0)
    layout = Layout(Model(family), cells, learned, cells, fold)
    problem = Objective(layout, TVD()).on(cells.p[:, None])
    return problem.distance(layout.bound.from_user(beta[:, None]))[0]


def test_folding_two_outcomes_changes_nothing(rng):
    x, y, beta = logit_rows(rng)
    cells = Cells.from_rows(x, y)
    folded, plain = (
        objective_at(cells, KMeansGroups(), Bernoulli(), beta, f) for f in (True, False)
    )
    assert abs(folded - plain) < 1e-14


def test_one_row_per_group_is_the_naive_objective(rng):
    x, y, beta = logit_rows(rng, 100)
    cells = Cells.from_rows(x, y)
    layout = Layout(Model(Bernoulli()), cells, Singletons(), cells)
    theta = layout.bound.from_user(beta[:, None])
    naive = 1 - (cells.p @ layout.cell_pairs.pmf(theta))[0]
    assert abs(objective_at(cells, Distinct(), Bernoulli(), beta) - naive) < 1e-12
    assert abs(objective_at(cells, Singletons(), Bernoulli(), beta) - naive) < 1e-12


@pytest.mark.slow
@pytest.mark.parametrize(
    "partition",
    [KMeansGroups(), KMeansGroups((Cluster("spread", 1.0, 2),))],
    ids=["tail", "spread"],
)
def test_the_objective_vanishes_at_the_truth_as_rows_grow(partition, rng):
    distances = []
    for n in (500, 5_000, 50_000):
        x, y, beta = logit_rows(rng, n)
        distances.append(objective_at(Cells.from_rows(x, y), partition, Bernoulli(), beta, True))
    assert distances[0] > 1.5 * distances[1] > 1.5 * distances[2]
    assert distances[2] < 0.03


def test_contamination_moves_the_objective_within_its_bounds(rng):
    """A share e raises it by at most e and lowers it by at most 2e / (1 + sqrt(e))."""
    x, y, beta = logit_rows(rng, 400)
    partition = KMeansGroups().learn(Cells.from_rows(x, y), 3, 0)
    for share in (0.05, 0.2, 0.4):
        for _ in range(10):
            bad = 400 * share / (1 - share)
            other_x = np.column_stack([np.ones(5), rng.normal(size=(5, 2)) * 3])
            rows = np.concatenate([x, other_x])
            outcomes = np.concatenate([y, rng.integers(0, 2, 5)])
            weights = np.concatenate([np.ones(400), np.full(5, bad / 5)])
            theta = beta + rng.normal(size=3)
            clean, dirty = (
                objective_at(cells, partition, Bernoulli(), theta, True)
                for cells in (
                    Cells.from_rows(x, y),
                    Cells.from_rows(rows, outcomes, weights=weights),
                )
            )
            assert -2 * share / (1 + np.sqrt(share)) - 1e-12 <= dirty - clean <= share + 1e-12


def test_partitions_do_not_look_at_y(rng):
    x, y, _ = logit_rows(rng)
    a, b = (KMeansGroups().learn(Cells.from_rows(x, z), 3, 0) for z in (y, 1 - y))
    assert all(np.array_equal(m, n) for m, n in zip(a.centres, b.centres, strict=True))


def test_a_partition_is_a_function_of_x(rng):
    x, y, _ = logit_rows(rng)
    learned = KMeansGroups().learn(Cells.from_rows(x, y), 3, 0)
    part = Cells.from_rows(x[:50], y[:50])
    whole = Cells.from_rows(x, y)
    at = {tuple(row): j for j, row in enumerate(whole.x)}
    index = [at[tuple(row)] for row in part.x]
    assert np.array_equal(learned.group(part).groups, learned.group(whole).groups[:, index])


def test_the_same_seed_gives_the_same_groups_and_another_other_ones(rng):
    cells = Cells.from_rows(*logit_rows(rng)[:2])
    first, same, other = (KMeansGroups().learn(cells, 3, seed) for seed in (1, 1, 2))
    assert np.array_equal(first.centres[0], same.centres[0])
    assert not np.array_equal(first.centres[0], other.centres[0])


def test_weights_count_as_rows_in_the_groups(rng):
    x, y, _ = logit_rows(rng, 200)
    weights = rng.integers(1, 3, 200)
    a = KMeansGroups().learn(Cells.from_rows(x, y, weights=weights), 3, 0)
    repeated = Cells.from_rows(np.repeat(x, weights, axis=0), np.repeat(y, weights))
    b = KMeansGroups().learn(repeated, 3, 0)
    assert all(np.array_equal(m, n) for m, n in zip(a.centres, b.centres, strict=True))


def test_rows_far_out_get_groups_of_their_own(rng):
    x, y, _ = logit_rows(rng, 2000, share=0.05)
    cells = Cells.from_rows(x, y)
    groups = KMeansGroups().learn(cells, 3, 0).group(cells).groups
    far = cells.x[:, 1] > 3.2
    for labels in groups:
        mixed = np.isin(labels, np.unique(labels[far])) & ~far
        assert mixed.sum() < 0.5 * far.sum()


def test_auto_keeps_repeated_x_and_clusters_the_rest(rng):
    levels = np.column_stack([np.ones(300), rng.integers(0, 3, 300)])
    y = rng.poisson(2, 300)
    assert Auto().learn(Cells.from_rows(levels, y), 2, 0).name == "distinct"
    mixed = levels.copy()
    mixed[:150, 1] = rng.normal(size=150) + 10
    cells = Cells.from_rows(mixed, y)
    learned = Auto().learn(cells, 2, 0)
    assert learned.name == "kmeans"
    common = cells.x_counts >= 12
    for labels in learned.group(cells).groups:
        own = labels[common]
        assert np.unique(own).size == common.sum()
        assert not np.isin(labels[~common], own).any()


def test_the_rule_for_group_sizes():
    assert rows_per_group(100, 5) == 12
    assert rows_per_group(10_000, 2) == 100
    assert rows_per_group(10_000, 50) == 25


def test_the_report_says_what_the_groups_are(rng):
    x, y, _ = logit_rows(rng, 500)
    fit = tb.posterior_bootstrap(Model(Bernoulli()), Cells.from_rows(x, y), n_draws=0)
    assert fit.groups.n_partitions == 10
    assert 12 < fit.groups.median_size < 100
    assert np.isclose(fit.groups.expected_bias, 0.6 / fit.groups.median_size)
    assert "10 partitions" in str(fit.groups)
    assert "by about" in fit.groups.steepness
    assert "too steep without bound" in str(tb.GroupReport("singletons", 1, 500, 1))
    cells = Cells.from_rows(np.ones((30, 1)), rng.poisson(2, 30))
    assert report_groups(cells, "distinct", Distinct().group(cells)).median_size == 30


def test_too_few_rows_for_the_parameters_warn(rng):
    x, y, _ = logit_rows(rng, 120, p=9)
    with pytest.warns(tb.TooFewRowsWarning, match="9 parameters"):
        tb.posterior_bootstrap(Model(Bernoulli()), Cells.from_rows(x, y), n_draws=0, refine=None)


def test_single_rows_warn_by_their_name(rng):
    x, y, _ = logit_rows(rng, 200)
    with pytest.warns(tb.SmallGroupsWarning, match="median group: 1"):
        tb.posterior_bootstrap(
            Model(Bernoulli()),
            Cells.from_rows(x, y),
            n_draws=0,
            partition=Singletons(),
            ridge=0.01,
            refine=None,
        )


@pytest.mark.parametrize("refine", ["auto", None])
def test_leverage_outliers_do_not_drive_the_fit(rng, refine):
    x, y, beta = logit_rows(rng, 2000, share=0.1)
    cells = Cells.from_rows(x, y)
    fit = tb.posterior_bootstrap(Model(Bernoulli()), cells, n_draws=60, refine=refine)
    robust, ordinary = (
        np.sqrt(np.mean((b - beta) ** 2)) for b in (fit.estimate, fit.kld_minimiser)
    )
    assert robust < 0.2
    assert ordinary > 0.5
    assert (fit.status == 0).mean() > 0.95
    assert np.array_equal(fit.estimate, fit.minimiser)


def test_clean_continuous_data_are_recovered(rng):
    x, y, beta = logit_rows(rng, 3000)
    fit = tb.posterior_bootstrap(Model(Bernoulli()), Cells.from_rows(x, y), n_draws=0)
    assert np.abs(fit.estimate - beta).max() < 0.25
    rate = np.array([1.0, 0.5, -0.3])
    counts = rng.poisson(np.exp(x @ rate))
    fit = tb.posterior_bootstrap(Model(Poisson()), Cells.from_rows(x, counts), n_draws=0)
    assert np.abs(fit.estimate - rate).max() < 0.06


def test_pooled_draws_are_the_same_bits_on_any_workers(rng):
    cells = Cells.from_rows(*logit_rows(rng, 400)[:2])
    alone, spread = (
        tb.posterior_bootstrap(Model(Bernoulli()), cells, n_draws=1100, n_jobs=jobs)
        for jobs in (1, 2)
    )
    assert alone.draws.tobytes() == spread.draws.tobytes()


def test_kmeans_finds_separate_clusters(rng):
    z = np.concatenate([rng.normal(c, 0.1, (50, 2)) for c in (0, 5, 10)])
    centres = learn_centres(z, np.ones(150), 3, rng)
    assert sorted(np.round(centres[:, 0])) == [0, 5, 10]
    assert np.array_equal(np.bincount(nearest(z, centres)), [50, 50, 50])


def test_more_centres_than_points_are_not_invented(rng):
    assert len(learn_centres(np.zeros((5, 2)), np.ones(5), 4, rng)) == 1


def within(z, labels):
    """Variance within groups."""
    count = np.maximum(np.bincount(labels), 1)
    means = np.stack([np.bincount(labels, column) / count for column in z.T], axis=1)
    return ((z - means[labels]) ** 2).sum() / len(z)


def test_centres_of_many_rows_are_nearly_as_good_as_those_of_all_steps(rng):
    z = rng.normal(size=(8000, 4))
    slow = learn_centres(z, np.ones(8000), 100, rng)
    quick = learn_centres_of_many(z, np.ones(8000), 100, rng)
    assert quick.shape == slow.shape
    assert within(z, nearest(z, quick)) < 1.03 * within(z, nearest(z, slow))


def test_centres_of_many_rows_find_clusters_far_out(rng):
    z = rng.normal(size=(6000, 3))
    far = 50.0 * np.eye(3).repeat(20, axis=0)
    z[:60] = far + rng.normal(size=(60, 3))
    centres = learn_centres_of_many(z, np.ones(6000), 40, rng)
    labels = nearest(z, centres)
    for cluster in labels[:60].reshape(3, 20):
        assert not np.isin(labels[60:], cluster).any()


def test_a_weight_counts_as_so_many_rows_in_the_last_steps(rng):
    z, heavy = rng.normal(size=(80, 2)), rng.integers(1, 4, 80).astype(float)
    one = learn_centres_of_many(z, heavy, 1, rng)
    np.testing.assert_allclose(one[0], np.average(z, axis=0, weights=heavy))


def test_no_centres_are_invented_for_many_equal_rows(rng):
    assert len(learn_centres_of_many(np.full((50, 2), 1 / 3), np.ones(50), 4, rng)) == 1


def test_a_search_in_two_levels_finds_nearly_always_the_nearest_centre(rng):
    z = rng.standard_t(4, size=(20_000, 4))
    centres = learn_centres_of_many(z, np.ones(len(z)), 600, rng)
    search = Search.among(*learn_cells(z, np.ones(len(z)), rng), [centres, centres[:50]])
    found = search.labels(z)
    for labels, exact in zip(found, (nearest(z, centres), nearest(z, centres[:50])), strict=True):
        assert (labels == exact).mean() > 0.9
        assert within(z, labels) < 1.03 * within(z, exact)
    some = rng.permutation(len(z))[:700]
    assert np.array_equal(search.labels(z[some])[0], found[0][some])


def test_groups_of_many_rows_are_a_function_of_x_and_weights(rng, monkeypatch):
    monkeypatch.setattr("tvdbayes.objective.partitions.groups._SAMPLE", 400)
    monkeypatch.setattr("tvdbayes.objective.partitions.groups._MANY_GROUPS", 1)
    x, y, _ = logit_rows(rng, 1000)
    whole, part = Cells.from_rows(x, y), Cells.from_rows(x[:50], y[:50])
    learned = KMeansGroups().learn(whole, 3, 0)
    assert len(learned.middles) == len(learned.reach) == len(learned.centres)
    at = {tuple(row): j for j, row in enumerate(whole.x)}
    index = [at[tuple(row)] for row in part.x]
    assert np.array_equal(learned.group(part).groups, learned.group(whole).groups[:, index])


def test_the_tail_metric_does_not_depend_on_units(rng):
    z = rng.normal(size=(500, 3)) @ rng.normal(size=(3, 3))
    scale = np.array([1.0, 100.0, 0.01])
    a, b = z @ tail_metric(z, np.ones(500)), (z * scale) @ tail_metric(z * scale, np.ones(500))
    gaps = [np.linalg.norm(m[:, None] - m[None], axis=2) for m in (a[:50], b[:50])]
    assert np.corrcoef(gaps[0].ravel(), gaps[1].ravel())[0, 1] > 0.98


@pytest.mark.parametrize("arguments", [("city", 1.0, 1), ("tail", 0.0, 1), ("tail", 1.0, 0)])
def test_bad_clusters_are_refused(arguments):
    with pytest.raises(tb.SettingsError):
        Cluster(*arguments)


def test_draws_are_centred_on_the_estimate(rng):
    x, y, _ = logit_rows(rng, 500, share=0.07)
    fit = tb.posterior_bootstrap(
        Model(Bernoulli()), Cells.from_rows(x, y), n_draws=400, refine=None
    )
    off = np.abs(np.median(fit.draws, axis=0) - fit.estimate) / fit.draws.std(0)
    # The centre of 64 pilot draws is known to an eighth of a standard deviation.
    assert off.max() < 0.5
    assert fit.shift.any()
    layout = Layout(Model(Bernoulli()), fit.cells, fit.partition, fit.cells, True)
    problem = Objective(layout, TVD(), ridge=fit.ridge).on(fit.cells.p[:, None])
    at = [
        layout.bound.from_user(t[:, None]) for t in (fit.minimiser, fit.draws.mean(0) - fit.shift)
    ]
    assert problem.value(at[0]) <= problem.value(at[1]) + 1e-9


def test_repeated_x_need_no_shift(count_cells):
    fit = tb.posterior_bootstrap(Model(Poisson()), count_cells, n_draws=5)
    assert not fit.shift.any()


def test_pooled_minima_are_those_of_the_kinked_objective(rng):
    """Followed on with exact derivatives to a far finer smoothing, little is gained."""
    from dataclasses import replace

    from tvdbayes.sampling.search import prepare
    from tvdbayes.sampling.setup import Setup
    from tvdbayes.sampling.weights import Stream, reweight
    from tvdbayes.solvers import Accuracy, newton, solve_from_pool

    x, y, _ = logit_rows(rng, 1000, p=4, share=0.1)
    cells = Cells.from_rows(x, y)
    layout = Layout(Model(Bernoulli()), cells, KMeansGroups().learn(cells, 4, 0), cells, True)
    plan, _ = prepare(Setup(cells, layout, TVD(), size=32))
    problem = plan.robust.on(reweight(cells, Stream.draws(7), 24).p)
    found = solve_from_pool(problem, plan.start.pool, plan.start.n_starts)
    exact = newton(
        replace(problem, parts=replace(problem.parts, reference=None)),
        found.theta,
        tau=1e-4,
        accuracy=Accuracy(1e-8, 1e-12),
    )
    assert (found.status == 0).all()
    assert np.median(found.value - exact.value) < 1e-6
    assert (found.value - exact.value).max() < 5e-6
