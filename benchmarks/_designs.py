"""Continuous covariates: simulated designs with contamination, and the paper's data sets."""

import os

import numpy as np

from tvdbayes.experiments import CORRECTED
from tvdbayes.experiments.data import DataSet, load


def logit(rng, n, p, share):
    """Standard normal x; a share of rows sits at x1 near 4 with the wrong answer."""
    beta = np.r_[0.5, np.linspace(1, -1, p - 1)]
    x = np.column_stack([np.ones(n), rng.normal(size=(n, p - 1))])
    y = answers(rng, x @ beta)
    bad = rng.random(n) < share
    x[bad, 1] = rng.normal(4, 0.3, bad.sum())
    y[bad] = 0
    return x, y, beta


def poisson(rng, n, share, kind, p=3):
    """Rates around e; a share of rows has 20 added, or sits at x1 near 3 with no counts."""
    beta = np.r_[1.0, 0.5, -0.3, np.zeros(p - 3)]
    x = np.column_stack([np.ones(n), rng.normal(size=(n, p - 1))])
    y = rng.poisson(np.exp(x @ beta)).astype(float)
    bad = rng.random(n) < share
    if kind == "shift":
        y[bad] += 20
    else:
        x[bad, 1] = rng.normal(3, 0.2, bad.sum())
        y[bad] = 0
    return x, y, beta


def answers(rng, eta):
    return (rng.random(eta.size) < 1 / (1 + np.exp(-eta))).astype(float)


def stress(rng, name, share, n=5000, p=8):
    """Logit designs with awkward covariates; beta = .5 and then 1, -1, .5, -.5, ..."""
    beta = np.r_[0.5, np.resize([1, -1, 0.5, -0.5], p - 1)]
    z = rng.normal(size=(n, p - 1))
    common = rng.normal(size=(n, 1))
    if name.startswith("correlated"):
        z = np.sqrt(0.4) * z + np.sqrt(0.6) * common
    elif name == "t3":
        z = rng.standard_t(3, size=z.shape) / np.sqrt(3)
    elif name == "half dummies":
        z[:, p // 2 :] = z[:, p // 2 :] > 0
    elif name == "five irrelevant":
        beta[3:] = 0
    elif name == "counts among x":
        z[:, 2:5] = rng.poisson(2, (n, 3)) / np.sqrt(2)
    x = np.column_stack([np.ones(n), z])
    y = answers(rng, x @ beta)
    bad = np.flatnonzero(rng.random(n) < share)
    if name == "correlated, oblique":
        spot = 4 * np.r_[1, -1, np.zeros(p - 3)] / np.sqrt(2)
        x[bad, 1:] = spot + 0.3 * rng.normal(size=(bad.size, p - 1))
        y[bad] = 0
    elif name == "two clusters":
        half = bad.size // 2
        x[bad[:half], 1] = rng.normal(4, 0.3, half)
        y[bad[:half]] = 0
        x[bad[half:], 2] = rng.normal(4, 0.3, bad.size - half)
        y[bad[half:]] = 1
    else:
        x[bad, 1] = rng.normal(4, 0.3, bad.size)
        y[bad] = 0
    return x, y, beta


STRESS = (
    "correlated",
    "correlated, oblique",
    "t3",
    "half dummies",
    "five irrelevant",
    "counts among x",
    "two clusters",
)

REAL = {
    "rice": "rice",
    "mammographic": "mammographic_mass",
    "banknote": "banknote",
    "breast": "breast-cancer-wisconsin",
    "pima": "pima",
    "ilpd": "ilpd",
    "heart": "heart",
    "haberman": "haberman",
    "fourclass": "fourclass",
}
"""The paper's data sets, by short names; the folder is that of TVDBAYES_DATA."""


def paper_data(name, mode, quick):
    """A data set of the paper; in a quick run without its folder, simulated rows in its place."""
    if quick and not os.environ.get("TVDBAYES_DATA"):
        print(f"TVDBAYES_DATA names no folder: simulated rows stand for {name}.", flush=True)
        x, y, _ = logit(np.random.default_rng(0), 200, 5, 0.0)
        return DataSet(x, y.astype(int))
    return load(name, None, mode)


def real(name, quick=False):
    """Features, scaled, with an intercept, and 0/1 labels; rows with a broken entry removed."""
    data = paper_data(REAL[name], CORRECTED, quick)
    return data.x, data.y.astype(float)
