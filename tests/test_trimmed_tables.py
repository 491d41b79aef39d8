"""The tables of a trimmed likelihood: draws that only the ridge holds, and the mass of a prior."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import logit

import tvdbayes as tb
from test_trimming import cells_of, fitted
from tvdbayes import Bernoulli, Cells, Distinct, Model, Poisson, Status
from tvdbayes.objective import Layout, Objective
from tvdbayes.sampling import trimmed as _trimmed
from tvdbayes.sampling.planners import plan_of
from tvdbayes.sampling.weights import Prior
from tvdbayes.solvers import newton
from tvdbayes.trimming import RIDGE

LEVELS = Cells.from_counts([[1, 0], [1, 0], [1, 1], [1, 1]], [0, 1, 0, 1], [1, 1, 1, 1])


@pytest.mark.parametrize("coding", ["zero and one", "hundreds"])
def test_a_draw_is_held_if_the_ridge_moves_its_predictor_by_a_fiftieth(coding):
    """Two levels, half of the rows each, and a share q of ones in the second.

    Half of the variance of the predictor is (b / 2)^2 for a slope b, so that the ridge moves it by
    the share ridge / (q (1 - q)).
    """
    edge = RIDGE / 0.02
    shares = np.array([1.02 * edge, 0.98 * edge, 1e-9, 0.3, 1 - 0.98 * edge, 1 - 1.02 * edge])
    unit = 1.0 if coding == "zero and one" else 100.0
    cells = Cells.from_counts(LEVELS.x[LEVELS.x_index] * [1, unit], LEVELS.y, np.ones(4))
    layout = Layout(Model(Bernoulli()), cells, Distinct(), cells)
    p = np.array([np.full(6, 0.25), np.full(6, 0.25), (1 - shares) / 2, shares / 2])
    objective = Objective(layout, tb.KLD(), RIDGE)
    theta = layout.bound.from_user(np.array([np.zeros(6), logit(shares) / unit]))
    found = newton(objective.on(p), theta)
    found = replace(found, theta=theta, status=np.array([0, 0, 0, 0, 1, 1]))
    held = int(Status.SEPARATED)
    status = _trimmed._held(objective, p, found).status
    np.testing.assert_array_equal(status, [0, held, held, 0, held, 1])


def test_separated_draws_are_told_unless_a_ridge_was_asked_for():
    """A steep effect that the data hold is none."""
    counts = np.array([20, 20, 0, 40])
    cells = Cells.from_counts(LEVELS.x[LEVELS.x_index], LEVELS.y, counts)
    assert (fitted(cells, n_draws=10).status == Status.SEPARATED).all()
    assert (fitted(cells, n_draws=10, ridge=1e-5).status == Status.CONVERGED).all()
    counts = np.array([4e4, 20, 20, 4e4])
    cells = Cells.from_counts(LEVELS.x[LEVELS.x_index], LEVELS.y, counts)
    fit = fitted(cells, n_draws=10)
    assert fit.minimiser[1] > 15
    assert (fit.status == Status.CONVERGED).all()


# The mass of a prior


def exposed_rows():
    """Rows at two exposures, with too many of one outcome at one of them, and some far out."""
    rng = np.random.default_rng(0)
    z, offset = rng.integers(0, 3, 300).astype(float), rng.integers(0, 2, 300) * 0.5
    z[:10], offset[:10], z[10:51], offset[10:50], offset[50] = 30.0 + np.arange(10), 0, 1, 0.5, 0
    y = rng.poisson(np.exp(1 + offset)).astype(float)
    y[0], y[10:51] = 3, 8
    return cells_of(z, y, offset=offset)


def keyed(cells, values):
    """Values of cells by x, offset and outcome."""
    x = np.column_stack([cells.x[:, 1], cells.offset])[cells.x_index]
    return dict(zip(map(tuple, np.column_stack([x, cells.y]).tolist()), values, strict=True))


def test_the_kept_rows_of_a_fit_with_a_prior_are_those_of_the_data():
    """Some atoms are rows of the data, one lies before them, one at another exposure."""
    cells = exposed_rows()
    atoms = cells_of([-1, 1, 1, 1, 30], [3, 8, 8, 3, 3], offset=[0, 0, 0.5, 0.5, 0])
    fit = fitted(cells, Poisson(), prior=Prior(5.0, atoms))
    plan = plan_of(fit)
    table, rows = plan.robust.layout.cells, plan.rows
    assert table.n_cells > cells.n_cells
    assert table.n_obs == 305
    lost = keyed(table, table.counts * (1 - rows.share))
    share, data = fit.kept_rows.share, keyed(cells, cells.counts)
    # Atoms keep their mass: what is lost is lost by rows.
    np.testing.assert_allclose(cells.counts * (1 - share), [lost[key] for key in data], atol=1e-9)
    assert 0 < keyed(cells, share)[1.0, 0.5, 8.0] < 0.1
    assert keyed(cells, share)[1.0, 0.0, 8.0] == 1
    assert keyed(cells, share)[1.0, 0.5, 3.0] == keyed(cells, share)[30.0, 0.0, 3.0] == 1
    far = keyed(table, rows.far[table.x_index])
    assert [far[key] for key in data] == fit.kept_rows.far[cells.x_index].tolist()
    assert fit.kept_rows.far.any()


def test_rows_have_their_share_wherever_atoms_are_drawn_and_these_keep_their_mass():
    cells = exposed_rows()
    cells = cells_of(cells.x[cells.x_index, 1], cells.y, weights=cells.counts)

    def drawn(rng, size):
        return np.column_stack([np.ones(size), rng.normal(size=size)]), rng.poisson(3, size)

    fit = fitted(cells, Poisson(), prior=Prior(10.0, drawn, 20))
    plan, known = plan_of(fit), keyed(cells, fit.kept_rows.share)
    other = cells_of([1, 1, 7], [8, 18, 2])
    share = keyed(other, plan._share(replace(plan.robust.layout, cells=other)))
    assert known[1.0, 0.0, 8.0] < 0.2
    assert share[1.0, 0.0, 8.0] == known[1.0, 0.0, 8.0]
    assert share[1.0, 0.0, 18.0] == share[7.0, 0.0, 2.0] == 1
