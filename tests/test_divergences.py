import numpy as np
import pytest
from scipy.stats import poisson

from tvdbayes import (
    KLD,
    TVD,
    DensityPower,
    Hellinger,
    Model,
    Poisson,
    PowerDivergence,
    SettingsError,
)
from tvdbayes.objective import Layout, Objective
from tvdbayes.objective._kinds import AbstractGroupDivergence, AbstractRowDivergence
from tvdbayes.objective.divergences import ALL_DIVERGENCES
from tvdbayes.objective.partitions import Distinct, Singletons

ids = [d.name for d in ALL_DIVERGENCES]
GROUP = [d for d in ALL_DIVERGENCES if isinstance(d, AbstractGroupDivergence)]
ROW = [d for d in ALL_DIVERGENCES if isinstance(d, AbstractRowDivergence)]
group_divergences = pytest.mark.parametrize("divergence", GROUP, ids=[d.name for d in GROUP])
row_divergences = pytest.mark.parametrize("divergence", ROW, ids=[d.name for d in ROW])


def test_every_divergence_is_in_the_law_tests():
    known = {type(d) for d in ALL_DIVERGENCES}
    declared = AbstractGroupDivergence.__subclasses__() + AbstractRowDivergence.__subclasses__()
    # Others compare methods or score held-out rows, and are nobody's choice.
    assert known == {d for d in declared if d.__module__ == "tvdbayes.objective.divergences"}


def masses(rng, n=40):
    data, model = rng.dirichlet(np.ones(n), 2)
    return data, model


@group_divergences
def test_a_table_is_at_distance_zero_from_itself(divergence, rng):
    data, _ = masses(rng)
    assert abs(divergence.term(data, data).sum()) < 1e-15


def test_half_the_power_divergence_is_hellinger(rng):
    data, model = masses(rng)
    half = PowerDivergence(0.5).term(data, model)
    assert np.allclose(half, Hellinger().term(data, model), atol=1e-15)
    with pytest.raises(SettingsError, match="in \\(0, 1\\)"):
        PowerDivergence(1.0)


@group_divergences
def test_distances_lie_between_zero_and_one(divergence, rng):
    for _ in range(50):
        data, model = masses(rng)
        assert 0 <= divergence.term(data, model).sum() <= 1
    assert np.isclose(divergence.term(data, np.zeros_like(data)).sum(), 1)


@group_divergences
def test_derivatives_in_the_model_mass_equal_finite_differences(divergence, rng):
    data, model = (m[:, None] for m in masses(rng))
    tau, h = np.array([0.1]), 1e-7

    def total(unit, step):
        moved = model.copy()
        moved[unit] += step
        return divergence.compare(data, moved).total(tau)[0]

    slope, curvature = divergence.compare(data, model).derivatives(tau, None)
    expected = [(total(u, h) - total(u, -h)) / (2 * h) for u in range(len(data))]
    assert np.allclose(slope[:, 0], expected, atol=1e-6)
    up, down = (divergence.compare(data, model + s * h).derivatives(tau, None)[0] for s in (1, -1))
    assert np.allclose(curvature, (up - down) / (2 * h), rtol=1e-4, atol=1e-4)


@group_divergences
def test_the_total_without_smoothing_is_the_sum_of_the_terms(divergence, rng):
    data, model = (m[:, None] for m in masses(rng))
    total = divergence.compare(data, model).total(np.zeros(1))
    assert np.allclose(total, divergence.term(data, model).sum(0), atol=1e-15)


def test_smoothing_is_off_by_at_most_half_its_width(rng):
    data, model = (m[:, None] for m in masses(rng))
    for tau in (1e-2, 1e-5, 0.0):
        gap = TVD().compare(data, model).total(np.array([tau])) - TVD().term(data, model).sum(0)
        assert -1e-15 <= gap[0] <= tau / 2 + 1e-15


@row_divergences
def test_derivatives_of_the_loss_equal_finite_differences(divergence):
    log_pmf, h = np.linspace(-6, -0.1, 30), 1e-6
    first, second = divergence.derivatives(log_pmf)
    up, down = (divergence.loss(log_pmf + s * h) for s in (1, -1))
    assert np.allclose(first, (up - down) / (2 * h), atol=1e-6)
    up, down = (divergence.derivatives(log_pmf + s * h)[0] for s in (1, -1))
    assert np.allclose(second, (up - down) / (2 * h), atol=1e-6)


def test_tvd_equals_the_dense_half_l1_distance(count_cells, rng):
    """Sum over every x and every outcome up to 200, unseen ones included."""
    cells = count_cells
    p = np.column_stack([cells.p, rng.dirichlet(cells.counts, 3).T])
    theta = rng.normal(size=(3, p.shape[1])) * 0.3
    layout = Layout(Model(Poisson()), cells, Distinct(), cells)
    distance = Objective(layout, TVD()).on(p).distance(theta)
    y = np.arange(200.0)[:, None]
    eta = layout.bound.eta(theta)[0]
    for j in range(p.shape[1]):
        x_mass = np.bincount(cells.x_index, p[:, j])
        dense = x_mass * Poisson().pmf(y, eta[None, :, j], np.ones(1))
        table = np.zeros_like(dense)
        table[cells.y.astype(int), cells.x_index] = p[:, j]
        assert abs(distance[j] - np.abs(table - dense).sum() / 2) < 1e-14


def test_singletons_are_the_linear_score(binary_cells):
    cells, model = binary_cells, Model(Poisson())
    layout = Layout(model, cells, Singletons(), cells)
    theta = np.array([[0.2], [0.1]])
    score = cells.p @ layout.cell_pairs.pmf(theta)
    distance = Objective(layout, TVD()).on(cells.p[:, None]).distance(theta)
    assert np.allclose(distance, 1 - score, atol=1e-15)


@pytest.mark.parametrize("divergence", ALL_DIVERGENCES, ids=ids)
def test_a_model_equal_to_the_table_is_at_distance_zero(divergence):
    """The saturated Bernoulli model reproduces its table, so every divergence vanishes there."""
    from tvdbayes import Bernoulli, Cells

    cells = Cells.from_counts(
        [[1, 0], [1, 0], [1, 1], [1, 1]], [0, 1, 0, 1], [30, 10, 20, 40], names=("a", "b")
    )
    theta = np.array([[np.log(1 / 3)], [np.log(2) - np.log(1 / 3)]])
    layout = Layout(Model(Bernoulli()), cells, Distinct(), cells)
    problem = Objective(layout, divergence).on(cells.p[:, None])
    assert abs(problem.distance(layout.bound.from_user(theta))[0]) < 1e-14


def test_density_power_tends_to_kld():
    log_pmf = np.array([-3.0, -1.0])
    limit = DensityPower(1e-7).derivatives(log_pmf)[0]
    assert np.allclose(limit, KLD().derivatives(log_pmf)[0], atol=1e-5)


@pytest.mark.parametrize("tuning", [0, -1, 1.5, np.nan])
def test_density_power_refuses_other_tunings(tuning):
    with pytest.raises(SettingsError, match="tuning"):
        DensityPower(tuning)


@pytest.mark.parametrize("tuning", [0.3, 1.0])
def test_density_power_is_its_definition(tuning, count_cells):
    """The mean over x of sum f^(1+t) - (1 + 1/t) g f^t + (1/t) g^(1+t), f model and g data."""
    cells = count_cells
    layout = Layout(Model(Poisson()), cells, Distinct(), cells)
    theta = np.array([0.9, 0.2, -0.3])
    problem = Objective(layout, DensityPower(tuning)).on(cells.p[:, None])
    found = problem.distance(layout.bound.from_user(theta[:, None]))[0]
    rate, total = np.exp(cells.x @ theta + cells.offset), 0.0
    for i, n in enumerate(cells.x_counts):
        mine = cells.x_index == i
        g = np.bincount(cells.y[mine].astype(int), cells.counts[mine] / n, 80)
        f = poisson.pmf(np.arange(80), rate[i])
        own = f ** (1 + tuning) - (1 + 1 / tuning) * g * f**tuning + g ** (1 + tuning) / tuning
        total += n / cells.n_obs * own.sum()
    assert found == pytest.approx(total, rel=1e-9)
