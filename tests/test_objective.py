"""One chain rule for everything: families x divergences x partitions against finite differences."""

import numpy as np
import pytest

from tvdbayes import TVD, Cells, Model, Poisson
from tvdbayes.models.families import ALL_FAMILIES
from tvdbayes.models.predictors import MLP, AbstractPredictor, Linear, dependent_columns
from tvdbayes.objective import Layout, Objective
from tvdbayes.objective.divergences import ALL_DIVERGENCES
from tvdbayes.objective.partitions import (
    AbstractPartition,
    Cluster,
    Distinct,
    KMeansGroups,
    LearnedGroups,
)
from tvdbayes.sampling import named
from tvdbayes.solvers import newton

BY_NAME = named.PARTITIONS | {"kmeans": KMeansGroups((Cluster("tail", 1.0, 2),))}
PARTITIONS = list(BY_NAME.values())
PREDICTORS = [Linear()]


def in_the_package(base):
    """Classes of this kind; other tests may declare some of their own."""
    return {kind for kind in base.__subclasses__() if kind.__module__.startswith("tvdbayes")}


def test_every_partition_and_predictor_is_in_the_law_tests():
    # What a rule has learned is tested through the rule.
    assert {type(p) for p in PARTITIONS} == in_the_package(AbstractPartition) - {LearnedGroups}
    # The derivatives of a network are JAX's: tests/test_neural.py.
    assert {type(p) for p in PREDICTORS} == in_the_package(AbstractPredictor) - {MLP}


def cells_for(family, rng, n=120):
    x = np.column_stack([np.ones(n), rng.integers(0, 3, n), rng.choice([-1.5, 0.5, 4.0], n)])
    trials = rng.integers(2, 6, n) if family.needs_trials else np.ones(n)
    eta = np.full((len(family.predictors), n), 0.1)
    eta[: family.n_main] = x @ [0.2, 0.3, -0.2]
    y = family.sample(rng, eta, trials)
    return Cells.from_rows(x, y, trials=trials, offset=0.1 * x[:, 1])


@pytest.mark.parametrize("predictor", PREDICTORS)
@pytest.mark.parametrize("partition", PARTITIONS, ids=lambda p: p.name)
@pytest.mark.parametrize("divergence", ALL_DIVERGENCES, ids=lambda d: d.name)
@pytest.mark.parametrize("family", ALL_FAMILIES, ids=repr)
def test_gradient_and_curvature_equal_finite_differences(
    family, divergence, partition, predictor, rng
):
    cells = cells_for(family, rng)
    layout = Layout(Model(family, predictor), cells, partition, cells)
    p = rng.dirichlet(cells.counts, 2).T
    theta = rng.normal(size=(layout.bound.n_params, 2)) * 0.4
    problem = Objective(layout, divergence, ridge=0.01).on(p)
    tau, h = np.full(2, 0.3), 1e-5
    view = problem.at(theta).expand(tau, None)
    assert np.allclose(view.merit, problem.at(theta).merit(tau), atol=1e-14)
    for j in range(len(theta)):
        step = np.zeros((len(theta), 1))
        step[j] = h
        up, down = (problem.at(theta + s * step).expand(tau, None) for s in (1, -1))
        assert np.allclose(view.grad[j], (up.merit - down.merit) / (2 * h), atol=2e-9)
        assert np.allclose(view.hess[j], (up.grad - down.grad) / (2 * h), atol=2e-8)


@pytest.mark.parametrize("divergence", ALL_DIVERGENCES, ids=lambda d: d.name)
def test_scores_of_a_pool_are_the_values_of_its_members(divergence, count_cells, rng):
    cells = count_cells
    layout = Layout(Model(ALL_FAMILIES[0]), cells, Distinct(), cells)
    problem = Objective(layout, divergence, ridge=0.01).on(rng.dirichlet(cells.counts, 4).T)
    pool = rng.normal(size=(3, 5)) * 0.3
    expected = [problem.value(np.repeat(pool[:, [k]], 4, axis=1)) for k in range(5)]
    assert np.allclose(problem.score(pool), expected, atol=1e-13)


@pytest.mark.parametrize("divergence", ALL_DIVERGENCES, ids=lambda d: d.name)
def test_the_value_without_smoothing_is_distance_plus_penalty(divergence, count_cells, rng):
    cells = count_cells
    layout = Layout(Model(ALL_FAMILIES[0]), cells, Distinct(), cells)
    problem = Objective(layout, divergence).on(rng.dirichlet(cells.counts, 3).T)
    theta = rng.normal(size=(3, 3)) * 0.3
    assert np.allclose(problem.at(theta).merit(np.zeros(3)), problem.value(theta), atol=1e-13)


def test_a_draw_without_mass_in_some_cells_is_finite(count_cells):
    cells = count_cells
    p = np.zeros((cells.n_cells, 1))
    p[:3] = 1 / 3
    for divergence in ALL_DIVERGENCES:
        layout = Layout(Model(ALL_FAMILIES[0]), cells, Distinct(), cells)
        problem = Objective(layout, divergence).on(p)
        view = problem.at(np.zeros((3, 1))).expand(np.array([1e-9]), None)
        assert np.isfinite(view.merit).all()
        assert np.isfinite(view.grad).all()
        assert np.isfinite(view.hess).all()
        assert np.isfinite(problem.distance(np.zeros((3, 1)))).all()


def test_standardised_coordinates_come_back_to_the_users(rng):
    x = np.column_stack([np.full(30, 2.0), rng.normal(1e6, 3, 30), rng.integers(0, 2, 30)])
    cells = Cells.from_rows(x, rng.poisson(2, 30))
    bound = Linear().bind(cells, cells, 1, 0)
    theta = np.array([[0.5], [1e-3], [-1.0]])
    inside = bound.from_user(theta)
    assert np.allclose(bound.to_user(inside), theta, rtol=1e-9)
    assert np.allclose(bound.eta(inside)[0, :, 0], cells.x @ theta[:, 0], rtol=1e-9)
    assert bound.penalised.tolist() == [False, True, True]


def test_further_predictors_have_their_own_columns_and_names():
    cells = Cells.from_rows([[1.0, 0.0], [1.0, 1.0]], [0, 1], names=("Intercept", "x"))
    linear = Linear(columns=((0, 1), (0,)))
    names = linear.param_names(cells.names, ("", "inflation"), 1)
    assert names == ("Intercept", "x", "inflation:Intercept")
    bound = linear.bind(cells, cells, 1, 1)
    assert bound.eta(np.ones((3, 4))).shape == (2, 2, 4)


def test_curvature_of_two_predictors_is_the_dense_one(rng):
    x = np.column_stack([np.ones(12), rng.normal(size=12)])
    cells = Cells.from_rows(x, rng.poisson(1, 12))
    bound = Linear(columns=((0, 1), (0,))).bind(cells, cells, 1, 1)
    weights = rng.normal(size=(2, 2, cells.n_x, 3))
    weights[0, 1] = weights[1, 0]
    hess = bound.pullback_curvature([[weights[0, 0]], [weights[1, 0], weights[1, 1]]])
    z = [bound.designs[0], bound.designs[1]]
    for j in range(3):
        blocks = [[z[a].T @ (weights[a, b, :, j, None] * z[b]) for b in range(2)] for a in range(2)]
        assert np.allclose(hess[..., j], np.block(blocks))


def test_dependent_columns_are_found(rng):
    x = rng.normal(size=(20, 3))
    assert dependent_columns(x) == []
    assert len(dependent_columns(np.column_stack([x, x[:, 0] + x[:, 1]]))) == 1
    assert len(dependent_columns(rng.normal(size=(3, 5)))) == 2
    assert dependent_columns(np.column_stack([x, np.zeros(20)])) == [3]


@pytest.mark.parametrize(
    "partition", [BY_NAME["distinct"], BY_NAME["kmeans"]], ids=lambda p: p.name
)
@pytest.mark.parametrize("divergence", ALL_DIVERGENCES[:1] + ALL_DIVERGENCES[3:4], ids=repr)
def test_the_penalty_is_measured_from_the_reference_and_slopes_of_zero(
    divergence, partition, count_cells, rng
):
    """Its ridge is the variance of the linear predictor over the rows, which slopes of 0 make 0."""
    layout = Layout(Model(Poisson()), count_cells, partition, count_cells)
    reference, theta = rng.normal(size=3), rng.normal(size=(3, 4))
    pinned = np.array([False, True, False])
    bare = Objective(layout, divergence).on(count_cells.p[:, None])
    held = Objective(layout, divergence, 0.5, reference, pinned).on(
        np.repeat(count_cells.p[:, None], 4, axis=1)
    )
    off = theta - reference[:, None]
    eta = (count_cells.x @ layout.bound.to_user(theta))[count_cells.x_index]
    variance = np.diag(np.cov(eta.T, aweights=count_cells.counts, ddof=0))
    expected = 0.5 * variance + 1e5 * off[1] ** 2 + 1e-11 * (off[::2] ** 2).sum(0)
    # Where a divergence is measured from is a constant of the table.
    base = bare.value(np.zeros((3, 1))) - bare.distance(np.zeros((3, 1)))
    distance = np.array([bare.distance(column[:, None])[0] for column in theta.T]) + base
    assert np.allclose(held.value(theta), distance + expected, rtol=1e-12)
    assert np.allclose(held.score(theta)[:, 0], held.value(theta), rtol=1e-12)
    penalty = held.penalty
    step = 1e-3 * rng.normal(size=(3, 4))
    slope = (penalty.value(theta + step) - penalty.value(theta - step)) / 2
    assert np.allclose((penalty.grad(theta) * step).sum(0), slope, rtol=1e-9)


def test_a_tie_goes_to_the_parameters_nearest_the_reference():
    """A level without any mass says nothing of its rate, which then stays where it was."""
    x = np.repeat([[1.0, 0.0], [1.0, 1.0]], 3, axis=0)
    cells = Cells.from_counts(x, [1, 2, 3, 1, 2, 3], np.ones(6))
    layout = Layout(Model(Poisson()), cells, Distinct(), cells)
    p = np.array([0.3, 0.4, 0.3, 0.0, 0.0, 0.0])[:, None]
    for slope in (-0.5, 0.8):
        reference = layout.bound.from_user(np.array([[0.5], [slope]]))
        objective = Objective(layout, TVD(), reference=reference[:, 0])
        found = newton(objective.on(p), reference)
        intercept, moved = layout.bound.to_user(found.theta)[:, 0]
        # Of all pairs with this rate at the first level: the nearest in standardised coordinates.
        other = layout.bound.from_user(np.array([[intercept], [moved + 0.3]]))
        assert np.sum((found.theta - reference) ** 2) < np.sum((other - reference) ** 2)
        assert np.sign(moved) == np.sign(slope)
