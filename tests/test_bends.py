"""Whether an effect bends: the test of hinges among the central rows, and the columns it tries."""

import numpy as np
import pytest
from scipy import stats

from tvdbayes import Cells, Distinct, Model, Poisson
from tvdbayes.objective import Layout
from tvdbayes.trimming import bend
from tvdbayes.trimming.weighted import weighted_fit

NAMES = ("one", "income", "age")


def rows(n=200, n_far=20, seed=0):
    """Two columns in which some rows lie far out, and a slope that falls off in the first."""
    z = np.random.default_rng(seed).normal(size=(n, 2)).clip(-2, 2)
    y = np.random.default_rng(seed + 1).poisson(np.exp(1 + 0.7 * np.minimum(z[:, 0], 0.4)))
    return np.r_[z, np.full((n_far, 2), 5.0)], np.r_[y, np.zeros(n_far)]


def layout_of(z, y, weights=None, names=NAMES):
    x = np.column_stack([np.ones(len(z)), z])
    cells = Cells.from_rows(x, y, weights=weights, names=names)
    return Layout(Model(Poisson()), cells, Distinct(), cells)


def found(z, y, weights=None, names=NAMES, agree=True):
    """The name of the column that bends; all rows beyond 3 are far."""
    layout = layout_of(z, y, weights, names)
    cells = layout.cells
    far = (np.abs(cells.x[:, 1:]) > 3).any(1)
    mass = cells.p * ~far[cells.x_index]
    start = layout.bound.from_user(np.array([[1.0], [0.0], [0.0]]))[:, 0]
    theta = weighted_fit(layout, mass, start, 0.0)
    answer = bend.bending_column(layout, theta, mass, far, agree=lambda *_: agree, ridge=0.0)
    return None if answer is None else cells.names[answer[0]]


def log_likelihood(x, y):
    """The largest of a Poisson regression, by Newton's method."""
    theta = np.zeros(x.shape[1])
    for _ in range(30):
        rate = np.exp(x @ theta)
        theta += np.linalg.solve((x.T * rate) @ x, x.T @ (y - rate))
    return stats.poisson.logpmf(y, np.exp(x @ theta)).sum()


@pytest.mark.parametrize("n_tried", [1, 2])
def test_a_column_bends_beyond_the_level_of_the_likelihood_ratio_of_the_central_rows(n_tried):
    z, y = rows()
    z[200:, 1] = 5.0 if n_tried == 2 else 0.0
    x, central = z[:200, 0], y[:200]
    plain = np.column_stack([np.ones(200), z[:200]])
    knots = np.quantile(x, (0.15, 0.85), method="averaged_inverted_cdf")
    hinges = [np.maximum(x - k, 0.0) for k in knots]
    gain = log_likelihood(np.column_stack([plain, *hinges]), central) - log_likelihood(
        plain, central
    )
    # The likelihood of rows with a weight is so many times that of rows alone.
    enough = stats.chi2.isf(0.01 / n_tried, 2) / (2 * gain)
    assert found(z, y, np.full(len(y), 1.01 * enough)) == "income"
    assert found(z, y, np.full(len(y), 0.99 * enough)) is None


def test_far_rows_that_disagree_with_a_bend_are_not_explained_by_it():
    z, y = rows()
    weights = np.full(len(y), 5.0)
    assert found(z, y, weights) == "income"
    assert found(z, y, weights, agree=False) is None


def test_the_column_that_bends_most_is_the_same_in_any_order():
    z, y = rows()
    z[:100, 1] = z[:100, 0]  # what bends in one bends less in the other
    weights = np.full(len(y), 20.0)
    assert found(z[:, 1:], y, weights, NAMES[::2]) == "age"
    assert found(z, y, weights) == "income"
    assert found(z[:, ::-1], y, weights, ("one", "age", "income")) == "income"


def test_only_columns_that_a_quarter_of_the_far_rows_are_far_out_in_are_tried():
    """Rows with a weight are so many."""
    z, y = rows(n_far=7)
    z[200:] = [[5.0, 0.0]] * 6 + [[0.0, 5.0]]
    weights = np.full(207, 5.0)
    assert found(z, y, weights) == "income"
    weights[206] = 5 * 18
    assert found(z, y, weights) == "income"
    weights[206] = 5 * 19
    assert found(z, y, weights) is None


@pytest.mark.parametrize("sign", [1, -1])
def test_the_knots_are_quantiles_of_the_central_rows_on_either_side(sign):
    values = np.r_[0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 9.0, 10.0]
    counts = np.array([3, 3, 10, 5, 15, 4, 30, 30])
    layout = layout_of(sign * values[:, None], np.zeros(8), counts, NAMES[:2])
    bent = bend._bent(layout, 1, np.abs(layout.cells.x[:, 1]) > 6).cells
    central = np.repeat(values, counts)[: counts[:6].sum()]
    low, high = np.quantile(central, (0.15, 0.85), method="averaged_inverted_cdf")
    assert (low, high) == (1.5, 4.0)
    knots = sorted((sign * low, sign * high))
    assert bent.names[2:] == tuple(f"income bent at {k:g}" for k in knots)
    for hinge, knot in zip(bent.x[:, 2:].T, knots, strict=True):
        np.testing.assert_array_equal(hinge, np.maximum(bent.x[:, 1] - knot, 0))
