"""Does the interval of the share of wrong rows cover the probability with which rows are wrong?"""

import warnings

import numpy as np
from joblib import Parallel, delayed

import tvdbayes as tb
from benchmarks._report import Table
from benchmarks._wrong_rows import make
from tvdbayes.data.cells import compress
from tvdbayes.results.misfit import dropped_rows, wrong_share
from tvdbayes.results.replicates import replicate

N_ROWS, N_COVARIATES = 400, 3
N_SETS, N_REPLICATES = 400, 20
SEED = 3001
CASES = (
    ("Poisson", "far counts 10 %", "Poisson, far counts"),
    ("logit", "leverage cluster 10 %", "logit, leverage"),
    ("Poisson", "leverage cluster 10 %", "Poisson, leverage"),
)
PROBABILITIES = (0.0, 0.02, 0.05, 0.1, 0.15)


def judge(model, kind, probability, number, n_rows=N_ROWS, seed=SEED):
    """Of one data set: the estimate, both ends, and whether a share can be given at all."""
    rows = make(model, n_rows, N_COVARIATES, kind, number, seed, probability)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tb.TVDBayesWarning)
        cells = compress(rows.x, rows.y).cells
        fit = tb.posterior_bootstrap(tb.Model(rows.law), cells, n_draws=0, seed=number)
    if fit.kept_rows.route == "ordinary":
        return np.full(5, np.nan)
    chance = replicate(fit, N_REPLICATES).dropped
    found = wrong_share(dropped_rows(fit), cells.n_obs, chance)
    low, high = np.quantile(found, [0.05, 0.95])
    return np.array([found.mean(), low, high, low <= probability <= high, rows.bad.mean()])


def run(quick=False):
    n_sets, n_rows = (1, 60) if quick else (N_SETS, N_ROWS)
    lines = []
    workers = Parallel(1 if quick else 2)
    for model, kind, name in CASES[: 1 if quick else None]:
        for probability in PROBABILITIES:
            found = np.array(
                workers(
                    delayed(judge)(model, kind, probability, number, n_rows)
                    for number in range(n_sets)
                )
            )
            given = found[~np.isnan(found[:, 0])]
            mean, low, high, covers, wrong = given.mean(0) if len(given) else np.full(5, np.nan)
            error = np.sqrt(covers * (1 - covers) / max(len(given), 1))
            lines.append((name, probability, len(given), wrong, mean, low, high, covers, error))
            print(lines[-1], flush=True)
    Table(
        "wrong_share",
        "wrong_share",
        "The share of wrong rows by `misfit()`, where every row is wrong independently with the "
        f"same probability: {N_ROWS} rows, {N_COVARIATES} covariates, {n_sets} data sets a line "
        f"(seed {SEED}), {N_REPLICATES} replicates each. Beside the probability: data sets in "
        "which a share can be given, the share that was wrong in them, the mean of the estimates "
        "and of the ends of the 90 % intervals, how often these hold the probability, and the "
        "Monte-Carlo error of that.",
        ("data", "probability", "sets", "wrong", "estimate", "low", "high", "covers", "error"),
        lines,
        made_on="two cores",
    ).publish()
