"""The data sets that several benchmarks share."""

import numpy as np

from tvdbayes import Binomial, Cells, Model, Poisson


def contaminated_counts(rng, n=400, share=0.15, shift=10, rate=3.0):
    """Counts of which a share is shifted; no covariates."""
    y = rng.poisson(rate, n)
    y[: int(n * share)] += shift
    return y


def poisson_table(rng, **options):
    y = contaminated_counts(rng, **options)
    return Model(Poisson()), Cells.from_rows(np.ones((y.size, 1)), y)


def inflated_successes(rng, n=800, share=0.1, trials=8):
    """Two covariates of four levels, no intercept, a share of zeros: the paper's released code."""
    x = rng.integers(0, 4, (n, 2)).astype(float)
    y = rng.binomial(trials, 1 / (1 + np.exp(-(x @ [0.8, 0.25]))))
    y[: int(n * share)] = 0
    return x, y, trials


def binomial_table(rng, **options):
    x, y, trials = inflated_successes(rng, **options)
    return Model(Binomial()), Cells.from_rows(x, y, trials=np.full(y.size, trials))


def three_parameter_table(rng, n=400, share=0.4, shift=20):
    """Poisson with two covariates of three levels, far contamination."""
    x = np.column_stack([np.ones(n), rng.integers(0, 3, n), rng.integers(0, 3, n)])
    y = rng.poisson(np.exp(x @ [1, 0.3, -0.2]))
    y[: int(n * share)] += shift
    return Model(Poisson()), Cells.from_rows(x, y)
