"""Units, order, sign and coding of the columns change neither the groups nor the estimates."""

import warnings

import numpy as np
import pytest

import tvdbayes as tb
from tvdbayes import Bernoulli, Binomial, Cells, Cluster, KMeansGroups, Model, Poisson
from tvdbayes.data.cells import compress
from tvdbayes.objective import Layout, partitions
from tvdbayes.objective.partitions._kmeans import learn_centres, nearest
from tvdbayes.objective.partitions._metrics import row_order, tail_metric
from tvdbayes.sampling.plan import draws_of
from tvdbayes.sampling.search import prepare
from tvdbayes.sampling.setup import Setup
from tvdbayes.sampling.weights import Stream, reweight

N = 400
SPREAD = KMeansGroups((Cluster("spread", 2.0, 2), Cluster("spread", 1.0, 2)))


def short(values):
    """Numbers of few binary digits, which survive a shift of 2^36."""
    return np.round(np.asarray(values) * 1024) / 1024


def leverage(rng, z, y):
    bad = rng.random(len(z)) < 0.1
    z[bad, 0], y[bad] = short(rng.normal(4, 0.3, bad.sum())), 0


def answers(rng, eta):
    return (rng.random(eta.size) < 1 / (1 + np.exp(-eta))).astype(float)


def design(name):
    """Covariates without an intercept (the last three are dummies of four levels, where there are
    any), outcomes, family, and what else a table takes.
    """
    rng = np.random.default_rng([7, sum(map(ord, name))])
    more, family = {}, Bernoulli()
    z = short(rng.normal(size=(N, 3)))
    if name == "one column":
        z = z[:, :1]
    elif name == "correlated":
        z = short(rng.normal(size=(N, 3)) + 1.5 * rng.normal(size=(N, 1)))
    elif name == "whole numbers":
        z = rng.integers(0, 8, (N, 3)).astype(float)
    elif name in ("levels", "balanced levels"):
        level = np.arange(N) % 4 if name == "balanced levels" else rng.integers(0, 4, N)
        z = np.column_stack([z[:, :2], level[:, None] == [1, 2, 3]]).astype(float)
    slopes = np.resize([1.0, -0.7, 0.5], z.shape[1])
    eta = 0.3 + (z - z.mean(0)) @ (slopes / z.std(0))
    y = answers(rng, eta)
    if name == "offset":
        family, more["offset"] = Poisson(), short(rng.normal(0, 0.5, N))
        y = rng.poisson(np.exp(0.5 * eta + more["offset"])).astype(float)
    elif name == "trials":
        family, more["trials"] = Binomial(), rng.integers(1, 12, N).astype(float)
        y = rng.binomial(more["trials"].astype(int), 1 / (1 + np.exp(-eta))).astype(float)
    elif name == "weights":
        more["weights"] = rng.choice([0.5, 1.0, 2.0, 3.25], N)
    if name != "whole numbers":
        leverage(rng, z, y)
    if name == "one row far out":
        z[0, 0] = 1e6
    return z, y, family, more


DESIGNS = (
    *("one column", "three columns", "correlated", "whole numbers", "levels", "balanced levels"),
    *("offset", "trials", "weights", "one row far out"),
)


def codings(z):
    """Other ways to write the same covariates: z T + shift, by their names."""
    q = z.shape[1]
    one, unit = np.eye(q), np.zeros(q)
    first = (np.arange(q) == 0).astype(float)
    ways = {
        "shifted by 1,000": (one, unit + 1000),
        "shifted by 16,384": (one, unit + 16384),
        "shifted by 2^36": (one, unit + 2.0**36),
        "a unit of 1e-4": (np.diag(1 + first * (1e-4 - 1)), unit),
        "a unit of 1,000": (np.diag(1 + first * 999), unit),
        "units of 2^36 to 2^-36": (np.diag(2.0 ** np.linspace(36, -36, q)), unit),
        "other order": (one[:, ::-1], unit),
        "other sign": (np.diag(1 - 2 * first), unit),
    }
    if q == 5:
        # The dummy of the second level gives way to one of the first.
        change = one.copy()
        change[2:, 2] = -1
        ways["other reference"] = (change, np.r_[0, 0, 1, 0, 0])
    return ways


def coded(z, way):
    change, shift = way
    if np.array_equal(change, np.diag(np.diag(change))):
        # Products and sums of zeros must not cost digits.
        return z * np.diag(change) + shift
    return z @ change + shift


def table(z, y, more):
    made = compress(np.column_stack([np.ones(len(z)), z]), y, **more)
    return made.cells, made.cells.x_index[made.cell_of_row]


def groups(z, y, more, partition=None):
    cells, x_of_row = table(z, y, more)
    learned = (partition or KMeansGroups()).learn(cells, z.shape[1] + 1, 0)
    return learned.group(cells).groups[:, x_of_row]


def assert_same_groups(one, other):
    """The same rows together, in every partition of the ensemble; numbers may differ."""
    assert len(one) == len(other)
    for a, b in zip(one, other, strict=True):
        pairs = np.unique(np.stack([a, b]), axis=1).shape[1]
        assert pairs == np.unique(a).size == np.unique(b).size


def fitted(z, y, family, more, n_draws=0):
    cells, _ = table(z, y, more)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tb.TVDBayesWarning)
        return tb.posterior_bootstrap(
            Model(family), cells, partition=KMeansGroups(), n_draws=n_draws, seed=3
        )


def predictors(z, theta, way=None):
    """x theta at every row, less that at the first (K, n), where shifts cost no digits; and the
    latter.
    """
    here = z if way is None else coded(z, way)
    theta = np.atleast_2d(theta)
    return (here - here[0]) @ theta[:, 1:].T, theta[:, 0] + theta[:, 1:] @ here[0]


@pytest.mark.parametrize("name", DESIGNS)
def test_groups_are_the_same_in_any_units_and_coding(name):
    z, y, _, more = design(name)
    wanted = groups(z, y, more)
    for way in codings(z).values():
        assert_same_groups(wanted, groups(coded(z, way), y, more))


@pytest.mark.parametrize("name", ["correlated", "whole numbers", "levels"])
def test_the_spread_metric_is_free_of_units_order_and_sign(name):
    z, y, _, more = design(name)
    wanted = groups(z, y, more, SPREAD)
    for label, way in codings(z).items():
        if label != "other reference":
            assert_same_groups(wanted, groups(coded(z, way), y, more, SPREAD))


@pytest.mark.parametrize("name", ["correlated", "weights"])
def test_groups_do_not_depend_on_the_order_of_the_rows(name):
    z, y, _, more = design(name)
    order = np.random.default_rng(1).permutation(N)
    mixed = {key: values[order] for key, values in more.items()}
    wanted = groups(z, y, more)
    assert_same_groups(wanted[:, order], groups(z[order], y[order], mixed))


def test_groups_of_a_sample_are_the_same_in_any_units_and_coding(monkeypatch):
    """Large tables are learned from a sample of their rows."""
    monkeypatch.setattr("tvdbayes.objective.partitions.groups._SAMPLE", 150)
    z, y, _, more = design("levels")
    wanted = groups(z, y, more, KMeansGroups((Cluster(size=2.0, copies=4),)))
    for way in codings(z).values():
        found = groups(coded(z, way), y, more, KMeansGroups((Cluster(size=2.0, copies=4),)))
        assert_same_groups(wanted, found)


@pytest.mark.parametrize("name", ["correlated", "whole numbers", "levels"])
def test_groups_in_two_levels_are_the_same_in_any_units_and_coding(name, monkeypatch):
    """Large tables are searched in two levels."""
    monkeypatch.setattr("tvdbayes.objective.partitions.groups._SAMPLE", 150)
    monkeypatch.setattr("tvdbayes.objective.partitions.groups._MANY_GROUPS", 1)
    z, y, _, more = design(name)
    wanted = groups(z, y, more)
    for way in codings(z).values():
        assert_same_groups(wanted, groups(coded(z, way), y, more))


@pytest.mark.parametrize("name", ["one column", "correlated", "levels", "offset", "trials"])
def test_estimates_are_the_same_in_any_units_and_coding(name):
    z, y, family, more = design(name)
    fit = fitted(z, y, family, more)
    for way in codings(z).values():
        other = fitted(coded(z, way), y, family, more)
        for a, b in ((fit.minimiser, other.minimiser), (fit.kld_minimiser, other.kld_minimiser)):
            (slopes, start), (slopes_there, start_there) = predictors(z, a), predictors(z, b, way)
            np.testing.assert_allclose(slopes_there, slopes, atol=1e-7)
            # An intercept far from the data has few digits left after the point.
            np.testing.assert_allclose(start_there, start, atol=1e-7 + 1e-14 * way[1].max())


def test_draws_are_the_same_in_any_units():
    """Shifts and positive scales leave the order of the table, so draws get the same weights."""
    z, y, family, more = design("correlated")
    fit = fitted(z, y, family, more, n_draws=6)
    for label in ("shifted by 16,384", "a unit of 1e-4", "a unit of 1,000"):
        way = codings(z)[label]
        other = fitted(coded(z, way), y, family, more, n_draws=6)
        for a, b in ((fit.draws, other.draws), (fit.kld_draws, other.kld_draws)):
            (slopes, start), (slopes_there, start_there) = predictors(z, a), predictors(z, b, way)
            np.testing.assert_allclose(slopes_there, slopes, atol=1e-7)
            np.testing.assert_allclose(start_there, start, atol=1e-7)


@pytest.mark.parametrize("label", ["other order", "other sign", "other reference"])
def test_equal_weights_of_the_rows_give_equal_draws_in_any_coding(label):
    """Another order of the table gives other random numbers to the rows, but nothing else."""
    z, y, _, _ = design("levels")
    solved, weights = [], None
    for there in (z, coded(z, codings(z)[label])):
        made = compress(np.column_stack([np.ones(N), there]), y)
        cells, row_of_cell = made.cells, np.argsort(made.cell_of_row)
        if weights is None:
            weights = np.empty((N, 6))
            weights[row_of_cell] = reweight(cells, Stream.draws(5), 6).p
        learned = KMeansGroups().learn(cells, 6, 0)
        layout = Layout(Model(Bernoulli()), cells, learned, cells, True)
        plan, _ = prepare(Setup(cells, layout, tb.TVD(), size=8), pilot=False)
        robust, ordinary = draws_of(plan, weights[row_of_cell])
        x = np.column_stack([np.ones(N), there])
        solved.append((robust @ x.T, ordinary @ x.T))
    np.testing.assert_allclose(solved[0][0], solved[1][0], atol=2e-3)
    np.testing.assert_allclose(solved[0][1], solved[1][1], atol=1e-6)


def test_swapping_the_two_outcomes_of_a_logit_turns_the_signs():
    z, y, family, more = design("three columns")
    fit, swapped = (fitted(z, outcome, family, more, n_draws=4) for outcome in (y, 1 - y))
    assert_same_groups(groups(z, y, more), groups(z, 1 - y, more))
    for name in ("minimiser", "kld_minimiser", "draws", "kld_draws"):
        np.testing.assert_allclose(getattr(fit, name), -getattr(swapped, name), atol=1e-7)


def test_the_reference_level_of_a_formula_does_not_matter():
    rng = np.random.default_rng(4)
    x, level = rng.normal(size=300), rng.integers(0, 3, 300)
    y = answers(rng, x + np.array([-0.5, 0.0, 1.0])[level])
    found = []
    for names in (("a", "b", "c"), ("c", "a", "b"), ("b", "c", "a")):
        # The first name in the alphabet is the reference.
        data = {"y": y, "x": x, "g": np.array(names)[level]}
        fit = tb.fit("y ~ x * g", data, family="bernoulli", n_draws=0)
        cells = fit.posterior.cells
        rows = np.argsort(cells.x[:, cells.names.index("x")])
        found.append((cells.x @ fit.estimate)[rows])
    np.testing.assert_allclose(found[1], found[0], atol=1e-6)
    np.testing.assert_allclose(found[2], found[0], atol=1e-6)


@pytest.mark.parametrize("shift", [0.0, 1000.0, 16384.0, 2.0**30])
def test_leverage_is_resisted_wherever_zero_lies(shift):
    """True slope 1, and a tenth of the rows wrong: far from zero it came out as -0.3."""
    rng = np.random.default_rng(0)
    z = short(rng.normal(size=(800, 1)))
    y = answers(rng, z[:, 0])
    leverage(rng, z, y)
    fit = fitted(z + shift, y, Bernoulli(), {})
    assert abs(fit.minimiser[1] - 1) < 0.25
    assert fit.kld_minimiser[1] < 0.3


# The pieces


def test_a_tie_goes_to_the_centre_that_was_drawn_first():
    centres = np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]])
    turn = np.linalg.qr(np.random.default_rng(0).normal(size=(2, 2)))[0]
    rows = np.array([[0.0, 0.0], [-3.0, -3.0], [0.0, -0.25], [-2.0, 2.0]])
    for scale in (1.0, 1e-6, 1e6):
        found = nearest(scale * rows @ turn, scale * centres @ turn)
        assert found.tolist() == [0, 1, 3, 1]


def test_the_nearest_centre_is_found_beside_rows_far_out(rng):
    z = rng.normal(size=(500, 2))
    z[0] = 1e6
    centres = np.concatenate([z[:1], rng.normal(size=(20, 2))])
    gaps = ((z[:, None] - centres) ** 2).sum(2)
    assert np.array_equal(nearest(z, centres), gaps.argmin(1))


def test_near_centres_are_told_apart_in_double_precision(rng):
    """The squares of these have more digits than single precision holds."""
    centres = np.array([[1000.0], [1000.01]])
    z = 1000.005 + rng.choice([-1, 1], (300, 1)) * rng.uniform(0.001, 0.01, (300, 1))
    assert np.array_equal(nearest(z, centres), np.abs(z - centres.T).argmin(1))


def test_one_row_far_out_leaves_the_bulk_in_groups():
    z, y, _, more = design("one row far out")
    for labels in groups(z, y, more):
        sizes = np.bincount(labels)
        assert sizes.max() < 0.4 * N
        assert sizes[labels[0]] == 1


def test_the_tail_metric_has_the_same_distances_after_any_affine_map(rng):
    z = rng.normal(size=(300, 4)) @ rng.normal(size=(4, 4))
    z[:30, 0] += 8
    weights = rng.choice([0.5, 1.0, 2.0], 300)
    other = z @ rng.normal(size=(4, 4)) + 100
    first, second = (a @ tail_metric(a, weights) for a in (z, other))
    gaps = [np.linalg.norm(a[:60, None] - a[None, :60], axis=2) for a in (first, second)]
    np.testing.assert_allclose(gaps[1], gaps[0], rtol=1e-9)
    assert np.array_equal(row_order(z, weights), row_order(other, weights))


def test_the_tail_metric_is_that_of_its_definition(rng):
    """C^-1 F C^-1: where the bulk is tight and the tails are heavy a unit counts for more."""
    z = rng.normal(size=(2000, 2))
    z[:160, 0] += 6
    metric = tail_metric(z, np.ones(2000))
    size = np.sqrt(np.diag(metric @ metric.T))
    # Both bulks have nearly the same spread, so the lengths are as the deviations of all rows.
    assert abs(size[0] / size[1] / (z[:, 0].std() / z[:, 1].std()) - 1) < 0.15


def test_a_column_that_others_determine_changes_no_distance(rng):
    z = rng.normal(size=(200, 3))
    more = np.column_stack([z, z[:, 0] - 2 * z[:, 1]])
    first, second = (a @ tail_metric(a, np.ones(200)) for a in (z, more))
    gaps = [np.linalg.norm(a[:40, None] - a[None, :40], axis=2) for a in (first, second)]
    np.testing.assert_allclose(gaps[1], gaps[0], rtol=1e-6)


def test_rows_that_cannot_be_told_apart_keep_their_order():
    z = np.array([[a, b] for a in (-1.0, 1.0) for b in (-1.0, 1.0)])
    assert row_order(z, np.ones(4)).tolist() == [0, 1, 2, 3]


# What is clustered


def test_correlated_leverage_needs_the_tail_metric():
    """Scaled by standard deviations, the wrong rows share groups with right ones."""
    rng = np.random.default_rng(12)
    n, beta = 1500, np.r_[0.5, 1, -1, 0.5, -0.5, 1, -1]
    z = np.sqrt(0.4) * rng.normal(size=(n, 6)) + np.sqrt(0.6) * rng.normal(size=(n, 1))
    y = answers(rng, beta[0] + z @ beta[1:])
    bad = rng.random(n) < 0.08
    z[bad, 0], y[bad] = rng.normal(4, 0.3, bad.sum()), 0
    cells, x_of_row = table(z, y, {})
    labels = KMeansGroups().learn(cells, 7, 0).group(cells).groups[:, x_of_row]
    beside = [np.mean(~bad[np.isin(one, np.unique(one[bad]))]) for one in labels]
    assert np.mean(beside) < 0.25
    found = tb.posterior_bootstrap(Model(Bernoulli()), cells, n_draws=0, partition=KMeansGroups())
    assert np.sqrt(np.mean((found.minimiser - beta) ** 2)) < 0.2


def test_a_weight_counts_as_so_many_rows_for_the_number_of_groups(rng):
    """Three copies of every row make groups of three times as many distinct rows, as copies do."""
    z = rng.normal(size=(600, 2))
    y = np.zeros(600)
    rule = partitions.rows_per_group

    def number(weight):
        cells, _ = table(z, y, {"weights": np.full(600, weight)})
        learned = KMeansGroups((Cluster(size=1.0, copies=1),)).learn(cells, 3, 0)
        return len(learned.centres[0])

    for weight in (0.5, 1.0, 3.0, 10.0):
        assert number(weight) == max(2, round(600 * weight / rule(600 * weight, 3)))


@pytest.mark.parametrize("name", ["offset", "trials"])
def test_rows_that_differ_in_offset_or_trials_alone_are_clustered_by_them(name, rng):
    """At one and the same x, groups are stretches of the offset, or of the trials."""
    values = {"offset": rng.normal(size=300), "trials": rng.permutation(np.arange(1.0, 301))}[name]
    labels = groups(np.zeros((300, 1)), np.zeros(300), {name: values})
    for one in labels:
        changes = np.count_nonzero(np.diff(one[np.argsort(values)]))
        assert np.unique(one).size > 2
        assert changes == np.unique(one).size - 1


def test_a_common_row_is_alone_with_its_offset(rng):
    """Rows of the same x, but another offset, are not those of the common one."""
    offset = np.r_[np.zeros(20), np.ones(15), rng.normal(3, 1, 40)]
    cells = Cells.from_rows(np.ones((75, 1)), np.zeros(75), offset=offset)
    grouping = KMeansGroups().learn(cells, 1, 0).group(cells)
    for labels in grouping.groups:
        alone = [labels[cells.offset == value] for value in (0.0, 1.0)]
        assert alone[0] != alone[1]
        assert not np.isin(labels[~np.isin(cells.offset, [0.0, 1.0])], np.concatenate(alone)).any()


def test_kmeans_counts_weights_as_copies(rng):
    z = rng.normal(size=(80, 2))
    heavy = rng.integers(1, 4, 80).astype(float)
    one = learn_centres(z, heavy, 1, np.random.default_rng(0))
    np.testing.assert_allclose(one[0], np.average(z, axis=0, weights=heavy))


def test_the_ridge_penalises_the_variance_of_the_linear_predictor(rng):
    z = rng.normal(size=(200, 3)) @ rng.normal(size=(3, 3))
    weights = rng.choice([1.0, 2.0], 200)
    cells = Cells.from_rows(np.column_stack([np.ones(200), z]), np.zeros(200), weights=weights)
    bound = Model(Bernoulli()).bind(cells, cells)
    theta = rng.normal(size=(4, 1))
    standard = bound.from_user(theta)
    eta = (cells.x @ theta)[:, 0]
    mass = cells.x_counts
    variance = np.average((eta - np.average(eta, weights=mass)) ** 2, weights=mass)
    np.testing.assert_allclose((standard * bound.ridge_gradient(standard)).sum(), variance)


def test_a_ridge_decides_between_columns_that_determine_each_other(rng):
    """Of all coefficients with the same predictor it takes those with the smallest squares."""
    z = rng.normal(size=(200, 1))
    cells = Cells.from_rows(np.column_stack([np.ones(200), z, 2 * z]), np.zeros(200))
    bound = Model(Bernoulli()).bind(cells, cells)
    along, across = np.array([[0.0], [1.0], [1.0]]), np.array([[0.0], [1.0], [-1.0]])
    np.testing.assert_allclose((along * bound.ridge_gradient(along)).sum(), 4.0)
    np.testing.assert_allclose((across * bound.ridge_gradient(across)).sum(), 2.0)
