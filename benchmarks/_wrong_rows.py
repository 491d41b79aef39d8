"""Logistic and Poisson regressions with wrong rows of many kinds.

Covariates are correlated (0.5 to the power of their distance); from six on the second is
heavy-tailed and the last is a dummy. The linear predictor has a deviation of 1.4 (logit) or 0.5
(log rates).
"""

from dataclasses import dataclass

import numpy as np

from tvdbayes import Bernoulli, Poisson

SLOPES = (0.9, -0.7, 0.5, 0.3, -0.4, 0.6, 0.0, 0.2, -0.2, 0.1, 0.0, 0.3)

COMMON = {
    "none": 0.0,
    "leverage cluster 5 %": 0.05,
    "leverage cluster 10 %": 0.1,
    "leverage cluster 15 %": 0.15,
    "cluster inside 10 %": 0.1,
    "scattered leverage 10 %": 0.1,
    "oblique cluster 10 %": 0.1,
    "two clusters 10 %": 0.1,
    "x times 10, 2 %": 0.02,
    "x times 100, 2 %": 0.02,
    "bent effect": 0.0,
}
KINDS = {
    "logit": {**COMMON, "random flips 10 %": 0.1, "surest flipped 10 %": 0.1},
    "Poisson": {**COMMON, "far counts 10 %": 0.1, "excess zeros 10 %": 0.1, "+3, 15 %": 0.15},
}
"""Kinds of wrong rows, with their share."""


@dataclass(frozen=True)
class Data:
    """Rows with an intercept, outcomes, the truth, and which rows are wrong."""

    x: np.ndarray
    y: np.ndarray
    truth: np.ndarray
    bad: np.ndarray

    @property
    def law(self):
        return Bernoulli() if set(np.unique(self.y)) <= {0, 1} else Poisson()


def make(model, n, p, kind, number, seed=0, probability=None):
    """Data set `number` of a setting.

    With a probability every row is wrong with it, independently, in place of a fixed share.
    """
    binary = model == "logit"
    rng = np.random.default_rng([seed, number, n, p, binary, *kind.encode()])
    places = np.arange(p)
    root = np.linalg.cholesky(0.5 ** np.abs(places[:, None] - places))
    z = rng.normal(size=(n, p)) @ root.T
    if p >= 6:
        z[:, 1] *= 0.8 * np.sqrt(5 / rng.chisquare(5, n))
        z[:, -1] = z[:, -1] > 0
    slopes = np.array(SLOPES[:p])
    slopes *= (1.4 if binary else 0.5) / np.std(z @ slopes)
    start = (-0.4 if binary else 1.2) - np.mean(z @ slopes)

    def outcomes(eta):
        if binary:
            return (rng.random(n) < 1 / (1 + np.exp(-eta))).astype(float)
        return rng.poisson(np.exp(np.minimum(eta, 8.0))).astype(float)

    eta = start + z @ slopes
    if kind == "bent effect":
        # The first effect is 0.3 of its size beyond one deviation.
        eta = eta - 0.7 * slopes[0] * np.maximum(z[:, 0] - 1, 0)
    y = outcomes(eta)
    bad = np.zeros(n, bool)
    bad[rng.permutation(n)[: round(KINDS[model][kind] * n)]] = True
    if probability is not None:
        bad = rng.random(n) < probability
    if kind == "surest flipped 10 %":
        bad[:] = False
        bad[np.argsort(-eta)[: round(0.1 * n)]] = True
    _spoil(rng, kind, binary, z, y, bad, np.sign(slopes))
    return Data(np.column_stack([np.ones(n), z]), y, np.r_[start, slopes], bad)


def _spoil(rng, kind, binary, z, y, bad, signs):
    """Make the bad rows wrong, in place."""
    rows, p = np.flatnonzero(bad), z.shape[1]
    columns = np.arange(p - 1 if p >= 6 else p)
    two = columns[:2]

    def cluster(rows, columns, centre, spread=0.4):
        z[np.ix_(rows, columns)] = centre + spread * rng.normal(size=(len(rows), len(columns)))

    high = 1.0 if binary else 12.0
    if kind.startswith("leverage cluster"):
        cluster(rows, two, 3.2 * signs[:2])
        y[rows] = 0
    elif kind.startswith("cluster inside"):
        cluster(rows, two, signs[:2] * [1.6, 1.2], 0.3)
        y[rows] = 0
    elif kind.startswith("oblique cluster"):
        cluster(rows, columns, 2.2 * np.where(signs[columns] < 0, -1.0, 1.0))
        y[rows] = 0
    elif kind.startswith("two clusters"):
        cluster(rows[::2], two, 3.2 * signs[:2])
        cluster(rows[1::2], two, -3.2 * signs[:2])
        y[rows[::2]], y[rows[1::2]] = 0, high
    elif kind.startswith("scattered leverage"):
        away = rng.normal(size=(rows.size, columns.size))
        away *= 4.5 * np.sqrt(columns.size / 3) / np.linalg.norm(away, axis=1, keepdims=True)
        slope = signs[columns] * np.abs(np.array(SLOPES)[columns])
        z[np.ix_(rows, columns)] = away
        y[rows] = np.where(away @ slope < 0, high, 0)
    elif kind.startswith("x times"):
        z[rows, 0] *= 100 if "100" in kind else 10
    elif kind.startswith("random flips"):
        y[rows] = 1 - y[rows]
    elif kind.startswith("far counts"):
        y[rows] += rng.integers(12, 20, rows.size)
    elif kind.startswith("+3"):
        y[rows] += 3
    elif kind.startswith(("excess zeros", "surest flipped")):
        y[rows] = 0
