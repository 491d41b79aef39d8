"""Networks: the maths of a network, the losses that it is trained on, and what training promises.

The laws are checked in double precision against NumPy; training itself is in single precision.
"""

import warnings
from dataclasses import replace

import numpy as np
import pytest

import tvdbayes as tb
from tvdbayes._array import Device
from tvdbayes.models.families import ALL_FAMILIES
from tvdbayes.models.predictors import Layers
from tvdbayes.objective import Layout, Objective
from tvdbayes.objective.divergences import ALL_DIVERGENCES
from tvdbayes.results.prediction import NewRows, pmf
from tvdbayes.sampling.neural._losses import step_loss
from tvdbayes.sampling.neural._steps import group_steps, row_steps
from tvdbayes.sampling.neural.trainer import Masses, bound_network, held_out_share
from tvdbayes.sampling.plan import solve_tables
from tvdbayes.sampling.planners import plan_of
from tvdbayes.solvers import Status

jax = pytest.importorskip("jax")

SMALL = tb.MLP(hidden=(5,), epochs=4, batch_rows=40)


def table(family, n=90, seed=0):
    """Rows of a family under some predictors, with continuous x and a few repeats."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 2)) * [3.0, 0.1] + [10.0, -2.0]
    x[:20] = x[20:40]
    trials = np.full(n, 6.0) if family.needs_trials else np.ones(n)
    eta = rng.normal(size=(len(family.predictors), n)) * 0.3 + 0.2
    y = family.sample(rng, eta, trials)
    return tb.Cells.from_rows(x, y, trials=trials)


def layout_of(family, *, hidden=(5,), partition=None, fold=False, direct=True):
    cells = table(family)
    model = tb.Model(family, tb.MLP(hidden=hidden, direct=direct))
    partition = (partition or tb.Auto()).learn(cells, 3, 0)
    return Layout(model, cells, partition, cells, fold)


ON_DEVICE = [family for family in ALL_FAMILIES if family.on_device]


class TestNetwork:
    @pytest.mark.parametrize("activation", ["relu", "silu", "tanh"])
    @pytest.mark.parametrize("direct", [True, False])
    def test_forward_is_matrix_products(self, activation, direct):
        act = {"relu": lambda v: v * (v > 0), "tanh": np.tanh}
        act["silu"] = lambda v: v / (1 + np.exp(-v))
        layers = Layers((3, 4, 2, 2), direct, 1, activation)
        rng = np.random.default_rng(1)
        theta, x = rng.normal(size=layers.n_params), rng.normal(size=(7, 3))
        parts = np.split(theta, np.cumsum([12, 4, 8, 2, 4, 2, 6 * direct]))
        w1, b1, w2, b2, w3, b3, skip, more = parts
        h = act[activation](x @ w1.reshape(3, 4) + b1)
        h = act[activation](h @ w2.reshape(4, 2) + b2)
        out = h @ w3.reshape(2, 2) + b3 + (x @ skip.reshape(3, 2) if direct else 0)
        expected = np.vstack([out.T, np.full(7, more[0])])
        np.testing.assert_allclose(layers.forward(theta, x), expected, atol=1e-13)

    @pytest.mark.parametrize("activation", ["relu", "silu", "tanh"])
    def test_slope_is_a_difference_quotient(self, activation):
        layers = Layers((3, 6, 1), True, 1, activation)
        rng = np.random.default_rng(2)
        theta, x = rng.normal(size=layers.n_params), rng.normal(size=(9, 3))
        change, h = rng.normal(size=(9, 3)), 1e-6
        ahead, behind = (layers.forward(theta, x + s * h * change) for s in (1, -1))
        found = layers.slope(theta, x, change)
        np.testing.assert_allclose(found, (ahead - behind) / (2 * h), atol=1e-8)

    @pytest.mark.parametrize("direct", [True, False])
    def test_user_coordinates_do_not_depend_on_the_table(self, direct):
        layout = layout_of(tb.Bernoulli(), direct=direct)
        other = table(tb.Bernoulli(), seed=5)
        theta = np.random.default_rng(3).normal(size=(layout.bound.n_params, 4)) * 0.1
        model, cells = layout.model, layout.cells
        mine, its = model.bind(cells, cells), model.bind(cells, other)
        np.testing.assert_allclose(
            mine.eta(mine.from_user(theta)), its.eta(its.from_user(theta)), atol=1e-9
        )
        np.testing.assert_allclose(mine.to_user(mine.from_user(theta)), theta, atol=1e-9)

    def test_a_constant_column_says_nothing(self):
        cells = table(tb.Bernoulli())
        with_ones = tb.Cells.from_counts(
            np.column_stack([np.ones(cells.n_cells), cells.x[cells.x_index]]), cells.y, cells.counts
        )
        model = tb.Model(tb.Bernoulli(), SMALL)
        bound = model.bind(with_ones, with_ones)
        theta = bound.layers.start(np.random.default_rng(0))[:, None]
        np.testing.assert_allclose(bound.from_user(bound.to_user(theta))[5:], theta[5:], atol=1e-12)
        np.testing.assert_allclose(
            bound.eta(bound.from_user(bound.to_user(theta))), bound.eta(theta), atol=1e-12
        )

    @pytest.mark.parametrize(
        "family", [tb.Bernoulli(), tb.NegativeBinomial(), tb.Categorical(("a", "b", "c"))]
    )
    def test_a_line_is_a_network_without_layers(self, family):
        layout = layout_of(family)
        bound = bound_network(layout.model.predictor, layout)
        linear = tb.Model(family, bound.line)
        line = linear.bind(layout.cells, layout.cells)
        rng = np.random.default_rng(4)
        coefficients = line.to_user(rng.normal(size=(line.n_params, 3)))
        found = bound.with_line(np.zeros((bound.n_params, 3)), coefficients)
        np.testing.assert_allclose(
            bound.eta(found), line.eta(line.from_user(coefficients)), atol=1e-9
        )

    def test_as_many_names_as_parameters(self):
        for family in ON_DEVICE:
            layout = layout_of(family, hidden=(3, 2))
            names = layout.model.param_names(layout.cells)
            assert len(names) == len(set(names)) == layout.bound.n_params

    def test_what_needs_coefficients_says_so(self):
        with pytest.raises(tb.SettingsError, match="coefficients of a linear predictor"):
            layout_of(tb.Bernoulli()).bound.direction(np.zeros((1, 1)))

    @pytest.mark.parametrize(
        "wrong",
        [
            {"hidden": (0,)},
            {"hidden": 50},
            {"hidden": (True,)},
            {"activation": "sine"},
            {"epochs": 0},
            {"learning_rate": 0.0},
            {"learning_rate": float("nan")},
            {"weight_decay": -1.0},
            {"hold_out": 1.0},
            {"batch_rows": 2.5},
        ],
    )
    def test_wrong_settings_are_refused(self, wrong):
        with pytest.raises(tb.SettingsError, match=next(iter(wrong)).split("_")[0]):
            tb.MLP(**wrong)


def loss_of_a_pass(layout, divergence, theta, p, number):
    """Sum over the steps of a pass, with its gradient, in double precision."""
    rng = np.random.default_rng(0)
    if divergence.on_groups:
        steps = group_steps(layout.listed(), 30, rng)
    else:
        steps = row_steps(layout.cells, 30, rng)
    atoms = layout.units.atom_of_cell.total(p[:, None])[:, 0]
    bound = bound_network(layout.model.predictor, layout)
    with Device.named("cpu:float64").here():
        loss = step_loss(divergence, layout.family, layout.fold, steps.n_units)
        x, p, atoms = (jax.numpy.asarray(part) for part in (bound.x, p, atoms))

        def total(at, step):
            return loss(bound.layers.forward(at, x[step.x]), step, p, atoms)

        one_pass = jax.tree.map(lambda part: jax.numpy.asarray(part[number]), steps)
        every = jax.jit(jax.vmap(jax.value_and_grad(total), (None, 0)))
        values, slopes = every(jax.numpy.asarray(theta), one_pass)
        return float(values.sum()), np.asarray(slopes.sum(0))


def one_partition(layout, number):
    """The same layout with one partition of its ensemble."""
    whole = layout.grouping
    return replace(layout, grouped=replace(whole, groups=whole.groups[number : number + 1]))


BY_CLASS = list({type(family): family for family in reversed(ON_DEVICE)}.values())
CASES = [(family, d) for family in BY_CLASS for d in (tb.TVD(), tb.KLD())]
CASES += [(law, d) for law in (tb.Bernoulli(), tb.Poisson()) for d in ALL_DIVERGENCES]


class TestLosses:
    """Steps of a pass add up to the objective, and so do their derivatives."""

    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("family", "divergence"), CASES, ids=lambda one: getattr(one, "name", None)
    )
    def test_steps_add_up(self, family, divergence):
        layout = layout_of(family, fold=divergence.folds and family.binary)
        rng = np.random.default_rng(1)
        theta = bound_network(layout.model.predictor, layout).layers.start(rng)
        p = rng.exponential(size=layout.cells.n_cells)
        p /= p.sum()
        value, slope = loss_of_a_pass(layout, divergence, theta, p, 1)
        mine = one_partition(layout, 1)
        problem = Objective(mine, divergence).on(p[:, None])

        def objective(at):
            if divergence.on_groups:
                return smoothed(mine, problem, at)[0]
            return (problem.value(at) - problem.penalty.value(at))[0]

        # Units that hold nothing count with a mass of 1e-9 each.
        np.testing.assert_allclose(value, objective(theta[:, None]), rtol=1e-6, atol=1e-6)
        step = 1e-6 * rng.normal(size=theta.size)
        ahead, behind = (objective((theta + s * step)[:, None]) for s in (1, -1))
        np.testing.assert_allclose(slope @ step, (ahead - behind) / 2, rtol=2e-4, atol=1e-11)

    def test_a_step_holds_whole_groups(self):
        for listed in layout_of(tb.Bernoulli()).listed():
            steps = group_steps([listed], 30, np.random.default_rng(0))
            group_of_x = dict(zip(listed.x, listed.group_of_unit[listed.unit], strict=True))
            assert steps.x.shape[1] > 1
            held = [
                {group_of_x[row] for row in x[pair_x[weight > 0]]}
                for x, pair_x, weight in zip(
                    steps.x[0], steps.pair_x[0], steps.pair_weight[0], strict=True
                )
            ]
            assert sum(map(len, held)) == len(set().union(*held)) == len(set(group_of_x.values()))


def smoothed(layout, problem, theta):
    units = layout.units
    model = units.total(problem.atom_mass * units.pairs.pmf(theta))
    return problem.compare(model).total(np.full(1, 0.02))


class TestHeldOut:
    def test_single_rows_are_in_or_out(self):
        share = held_out_share(np.ones(4000), 0.1, np.random.default_rng(0))
        assert set(np.unique(share)) == {0.0, 1.0}
        assert abs(share.mean() - 0.1) < 0.02

    def test_cells_are_split_as_their_rows_are(self):
        """Of 10 rows each weight is Gamma(1): the held-out share of one row is Beta(1, 9)."""
        rng = np.random.default_rng(0)
        share = np.concatenate([held_out_share(np.full(2000, 10.0), 0.1, rng) for _ in range(5)])
        out = rng.binomial(10, 0.1, 10_000)
        w = rng.gamma(1.0, size=(10_000, 10))
        rows = np.where(np.arange(10) < out[:, None], w, 0).sum(1) / w.sum(1)
        quantiles = np.linspace(0.1, 0.9, 9)
        found, expected = np.quantile(share, quantiles), np.quantile(rows, quantiles)
        np.testing.assert_allclose(found, expected, atol=0.02)


def bent(n=600, seed=0):
    """A yes/no answer that bends in one covariate, as no line can."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 2))
    eta = 3 * np.abs(x[:, 1]) - 2 + 1.5 * x[:, 0]
    return x, (rng.random(n) < 1 / (1 + np.exp(-eta))).astype(float), eta


def quiet(model, cells, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tb.TVDBayesWarning)
        return tb.posterior_bootstrap(model, cells, **options)


def two_draws(x, y, **options):
    """A small network of yes and no, all of whose draws are finite."""
    fit = quiet(tb.Model(tb.Bernoulli(), SMALL), tb.Cells.from_rows(x, y), n_draws=2, **options)
    assert np.isfinite(fit.draws).all()
    return fit


def log_score(posterior, x, eta):
    """Expected log score of the posterior mean under the truth."""
    p = np.clip(pmf(posterior, NewRows.of(posterior, x), [1.0])[:, 0], 1e-9, 1 - 1e-9)
    truth = 1 / (1 + np.exp(-eta))
    return -np.mean(truth * np.log(p) + (1 - truth) * np.log(1 - p))


@pytest.mark.slow
class TestTraining:
    def test_a_network_bends_where_a_line_cannot(self):
        x, y, eta = bent()
        cells = tb.Cells.from_rows(np.column_stack([np.ones(len(x)), x]), y)
        x1 = np.column_stack([np.ones(len(x)), x])
        line = quiet(tb.Model(tb.Bernoulli()), cells, n_draws=8)
        net = quiet(tb.Model(tb.Bernoulli(), tb.MLP((20,))), cells, n_draws=8)
        assert log_score(net, x1, eta) < log_score(line, x1, eta) - 0.05
        assert set(net.status) <= {Status.TRAINED, Status.OUT_OF_STEPS}
        assert 0 < net.distance.mean() < line.distance.mean()

    def test_a_bend_that_no_line_begins_at(self):
        """Likely at both ends and not between: the best line is nearly useless."""
        rng = np.random.default_rng(0)
        x = rng.normal(size=(800, 1)) * 1.5
        y = (rng.random(800) < np.where(np.abs(x[:, 0]) > 1, 0.9, 0.1)).astype(float)
        fit = quiet(tb.Model(tb.Bernoulli(), tb.MLP()), tb.Cells.from_rows(x, y), n_draws=8)
        low, middle, high = pmf(fit, NewRows.of(fit, np.array([[-3.0], [0.0], [3.0]])), [1.0])[:, 0]
        assert min(low, high) > 0.75
        assert middle < 0.4

    def test_wrong_rows_move_the_ordinary_network_only(self):
        """The rows that are surest to be 1 are recorded as 0; a network can learn that."""
        rng = np.random.default_rng(1)
        x = rng.normal(size=(1500, 3))
        eta = 2.5 * x[:, 0] - x[:, 1]
        y = (rng.random(1500) < 1 / (1 + np.exp(-eta))).astype(float)
        surest = np.argsort(-np.where(y == 1, eta, -np.inf))[:150]
        y[surest] = 0
        fit = quiet(tb.Model(tb.Bernoulli(), tb.MLP((20,))), tb.Cells.from_rows(x, y), n_draws=8)
        assert fit.refine == "reweight"
        assert log_score(fit, x, eta) < log_score(fit.twin, x, eta) - 0.05

    def test_a_draw_depends_on_its_number_alone(self):
        x, y, _ = bent(120)
        cells = tb.Cells.from_rows(x, y)
        model = tb.Model(tb.Bernoulli(), SMALL)
        few, many = (quiet(model, cells, n_draws=n, seed=3) for n in (3, 40))
        for name in ("draws", "kld_draws", "distance", "status"):
            np.testing.assert_array_equal(getattr(few, name), getattr(many, name)[:3])
        assert np.unique(many.draws[:, 0]).size == 40
        other = quiet(model, cells, n_draws=3, seed=4)
        assert not np.array_equal(few.draws, other.draws)

    def test_processes_change_nothing(self):
        x, y, _ = bent(80)
        cells = tb.Cells.from_rows(x, y)
        model = tb.Model(tb.Bernoulli(), SMALL)
        one, two = (quiet(model, cells, n_draws=40, n_jobs=n) for n in (1, 2))
        np.testing.assert_array_equal(one.draws, two.draws)

    def test_where_all_is_explained_reweighting_is_the_ordinary_network(self):
        x, y, _ = bent(150)
        cells = tb.Cells.from_rows(x, y)
        model = tb.Model(tb.Bernoulli(), SMALL)
        fit = quiet(model, cells, n_draws=2)
        plan = plan_of(fit)
        all_explained = replace(plan, setup=replace(plan.setup, refine="reweight"))
        p = np.repeat(cells.p[:, None], 2, axis=1)
        from tvdbayes.sampling import networks as _networks

        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(_networks, "explained", lambda _, p, *__: np.ones_like(p))
            solved = solve_tables(all_explained, p)
        # The line of the last phase is found from another start, to the accuracy of Newton.
        np.testing.assert_allclose(solved.robust.theta, solved.likelihood.theta, atol=2e-3)

    @pytest.mark.parametrize(
        ("family", "rate"),
        [(tb.Poisson(), 1.0), (tb.NegativeBinomial(), 1.0), (tb.Categorical(("a", "b", "c")), 2.0)],
        ids=["poisson", "negativebinomial", "categorical"],
    )
    def test_other_heads(self, family, rate):
        rng = np.random.default_rng(0)
        x = rng.normal(size=(200, 2))
        eta = np.zeros((len(family.predictors), 200))
        eta[0] = rate * (np.abs(x[:, 0]) * 1.5 - 0.5)
        y = family.sample(rng, eta, np.ones(200))
        cells = tb.Cells.from_rows(x, y)
        fit = quiet(tb.Model(family, tb.MLP((10,))), cells, n_draws=2)
        assert np.isfinite(fit.draws).all()
        assert 0 < fit.distance.mean() < 0.5
        line = quiet(
            tb.Model(family, tb.Linear()),
            tb.Cells.from_rows(np.column_stack([np.ones(200), x]), y),
            divergence=tb.KLD(),
            n_draws=4,
        )
        # Both distances are Kullback-Leibler divergences from the same table.
        assert fit.kld_distance.mean() < line.kld_distance.mean()

    @pytest.mark.parametrize("divergence", ALL_DIVERGENCES, ids=lambda d: d.name)
    def test_every_divergence_trains(self, divergence):
        x, y, _ = bent(120)
        fit = two_draws(x, y, divergence=divergence)
        assert np.isfinite(fit.distance).all()

    @pytest.mark.parametrize("partition", [tb.Distinct(), tb.Singletons(), tb.KMeansGroups()])
    def test_every_partition_trains(self, partition):
        rng = np.random.default_rng(0)
        x = rng.integers(0, 5, (200, 2)).astype(float)
        y = rng.binomial(1, 0.4, 200).astype(float)
        fit = two_draws(x, y, partition=partition)
        np.testing.assert_array_equal(fit.estimate, fit.minimiser)

    def test_a_prior_adds_its_atoms(self):
        x, y, _ = bent(60)

        def base(rng, size):
            return rng.normal(size=(size, 2)), rng.integers(0, 2, size)

        two_draws(x, y, prior=tb.Prior(5.0, base, 10))

    def test_the_papers_network_starts_without_a_line(self):
        x, y, _ = bent(120)
        paper = replace(SMALL, direct=False, hold_out=0.0, weight_decay=0.0)
        fit = quiet(
            tb.Model(tb.Bernoulli(), paper),
            tb.Cells.from_rows(x, y),
            n_draws=2,
            partition=tb.Singletons(),
            refine=None,
        )
        assert np.isfinite(fit.draws).all()
        assert set(fit.status) == {Status.TRAINED}

    def test_a_rate_that_is_too_high_is_said(self):
        x, y, _ = bent(60)
        wild = replace(SMALL, learning_rate=1e30)
        with pytest.warns() as said:
            fit = tb.posterior_bootstrap(
                tb.Model(tb.Bernoulli(), wild), tb.Cells.from_rows(x, y), n_draws=2
            )
        assert any("were still improving, or broke" in str(one.message) for one in said)
        assert (fit.status == Status.STALLED).any()
        assert np.isfinite(fit.draws).all()

    def test_without_draws_a_broken_network_is_said_too(self):
        x, y, _ = bent(60)
        wild = replace(SMALL, learning_rate=1e30)
        with pytest.warns() as said:
            tb.posterior_bootstrap(
                tb.Model(tb.Bernoulli(), wild), tb.Cells.from_rows(x, y), n_draws=0
            )
        assert any("The network was still improving, or broke" in str(one.message) for one in said)

    @pytest.mark.parametrize("far", [-50.0, -1000.0, 1e6])
    def test_one_row_far_out_does_not_break_training(self, far):
        """In single precision odds of exp(89) are infinite."""
        x, y, _ = bent(200)
        x[0, 0] = far
        fit = quiet(
            tb.Model(tb.Bernoulli(), SMALL), tb.Cells.from_rows(x, y), n_draws=3, refine=None
        )
        assert not (fit.status == Status.STALLED).any()

    def test_a_phase_that_broke_is_not_forgotten(self):
        x, y, _ = bent(100)
        wild = replace(SMALL, second_rate=1e32)
        fit = quiet(tb.Model(tb.Bernoulli(), wild), tb.Cells.from_rows(x, y), n_draws=3)
        assert fit.refine == "reweight"
        assert (fit.status == Status.STALLED).any()
        assert (fit.kld_status != Status.STALLED).all()

    def test_training_that_makes_it_worse_leaves_the_line(self):
        rng = np.random.default_rng(0)
        x = rng.normal(size=(150, 1))
        cells = tb.Cells.from_rows(x, rng.poisson(np.exp(0.5 + 0.5 * x[:, 0])))
        calm, wild = (
            quiet(tb.Model(tb.Poisson(), replace(SMALL, learning_rate=rate)), cells, n_draws=4)
            for rate in (0.01, 30.0)
        )
        assert (wild.kld_distance < calm.kld_distance + 0.3).all()

    @pytest.mark.parametrize(
        "family",
        [tb.DiscreteWeibull(), tb.ZeroInflated(tb.DiscreteWeibull())],
        ids=lambda f: f.name,
    )
    def test_laws_that_need_double_precision_get_it(self, family):
        rng = np.random.default_rng(0)
        x = rng.normal(size=(120, 1))
        cells = tb.Cells.from_rows(x, rng.poisson(np.exp(0.5 + 0.5 * x[:, 0])))
        fit = quiet(tb.Model(family, SMALL), cells, n_draws=2)
        assert not (fit.status == Status.STALLED).any()

    def test_light_rows_are_held_out_from_everywhere(self):
        x, y, _ = bent(400)
        cells = tb.Cells.from_counts(x, y, np.full(400, 0.1))
        trainer = plan_of(quiet(tb.Model(tb.Bernoulli(), SMALL), cells, n_draws=0)).trainer
        held = held_out_share(cells.counts, 0.1, np.random.default_rng(0))
        _, mass = trainer._held_out((cells.p * held)[:, None])
        assert (mass > 0).sum() == (held > 0).sum()

    def test_a_handful_of_rows_trains(self):
        """Most draws hold out nothing, or one of six rows."""
        x, y = np.arange(6.0)[:, None], np.array([0.0, 0, 1, 0, 1, 1])
        fit = quiet(tb.Model(tb.Bernoulli(), SMALL), tb.Cells.from_rows(x, y), n_draws=8)
        assert np.isfinite(fit.draws).all()
        low, high = pmf(fit, NewRows.of(fit, np.array([[0.0], [5.0]])), [1.0])[:, 0]
        assert low < 0.5 < high

    def test_nothing_is_held_out_if_nothing_would_be_left(self):
        p = np.full((3, 2), 1 / 3)
        held = np.array([[1.0, 0], [1, 0], [1, 1]])
        masses = Masses.split(p, held)
        np.testing.assert_array_equal(masses.train[:, 0], p[:, 0])
        np.testing.assert_array_equal(masses.held_out[:, 1], [0, 0, 1 / 3])

    def test_what_jax_cannot_compute_is_refused(self):
        law = tb.Censored(tb.Poisson(), 3)
        cells = tb.Cells.from_rows(np.arange(8.0)[:, None], np.ones(8))
        with pytest.raises(tb.SettingsError, match="networks are trained by JAX"):
            tb.posterior_bootstrap(tb.Model(law, SMALL), cells, n_draws=2)

    def test_sums_over_all_counts_are_refused(self):
        cells = tb.Cells.from_rows(np.arange(8.0)[:, None], np.arange(8) % 3)
        with pytest.raises(tb.SettingsError, match="sums over all counts"):
            tb.posterior_bootstrap(
                tb.Model(tb.NegativeBinomial(), SMALL), cells, divergence=tb.DensityPower()
            )

    def test_without_jax_it_says_what_to_install(self, monkeypatch):
        import sys

        monkeypatch.setitem(sys.modules, "optax", None)
        with pytest.raises(tb.SettingsError, match=r"pip install 'tvdbayes\[jax\]'"):
            tb.posterior_bootstrap(
                tb.Model(tb.Bernoulli(), SMALL),
                tb.Cells.from_rows(np.arange(8.0)[:, None], np.arange(8) % 2),
                n_draws=2,
            )
