"""Shared data: small tables with known laws behind them."""

import numpy as np
import pytest

from tvdbayes import Cells


@pytest.fixture
def rng():
    return np.random.default_rng(20260101)


@pytest.fixture
def count_cells(rng):
    """Counts on a 3 x 2 grid of covariates, with an offset and a tenth of gross outliers."""
    n = 400
    x = np.column_stack([np.ones(n), rng.integers(0, 3, n), rng.integers(0, 2, n)])
    offset = 0.1 * x[:, 1]
    y = rng.poisson(np.exp(x @ [0.8, 0.3, -0.4] + offset))
    y[: n // 10] += 15
    return Cells.from_rows(x, y, offset=offset)


@pytest.fixture
def binomial_cells(rng):
    """Successes out of 3, 5 or 8 on four levels, a tenth of them zeroed."""
    n = 400
    trials = rng.choice([3, 5, 8], n)
    x = np.column_stack([np.ones(n), rng.integers(0, 4, n)])
    y = rng.binomial(trials, 1 / (1 + np.exp(-(x @ [-0.5, 0.6]))))
    y[: n // 10] = 0
    return Cells.from_rows(x, y, trials=trials)


@pytest.fixture
def binary_cells(rng):
    """Yes/no answers on five levels."""
    n = 300
    x = np.column_stack([np.ones(n), rng.integers(-2, 3, n)])
    y = rng.random(n) < 1 / (1 + np.exp(-(x @ [0.3, 0.7])))
    return Cells.from_rows(x, y)
