"""Three ways to draw from the posterior of the default, on few rows: do their intervals cover?"""

import warnings
from dataclasses import replace

import numpy as np
from joblib import Parallel, delayed

import tvdbayes as tb
from benchmarks._report import Table
from benchmarks._wrong_rows import make
from benchmarks.default import SEED
from tvdbayes import Cells, Model
from tvdbayes.sampling.execution import single_threaded
from tvdbayes.sampling.plan import calibrating_shift, pilot_tables
from tvdbayes.sampling.planners import plan_of
from tvdbayes.trimming import kept_share, trimmed_fit, weighted_fits

SETTINGS = (
    ("logit", 60, 3, "none"),
    ("logit", 60, 3, "leverage cluster 10 %"),
    ("Poisson", 60, 3, "none"),
    ("Poisson", 60, 3, "far counts 10 %"),
)
N_SETS, N_DRAWS, RANK = 300, 59, 3
"""The third smallest and third largest of 59 draws hold .9 of what the draws are from."""
WAYS = ("held", "recomputed", "whole rule")
WORTH = 0.5
"""Exponential weights make numbers of rows vary as if there were half as many (Kish, 1965)."""


def solutions(plan, p, way):
    """Parameters (d, B) of tables p (m, B), the rows to keep found in one of the ways."""
    layout, start = replace(plan.robust.layout, fold=False), plan.start
    n = WORTH * layout.cells.n_obs
    if way == "whole rule":
        found = []
        for mass in p.T:
            cells = replace(layout.cells, counts=n * mass / mass.sum())
            table = replace(layout, cells=cells, grouped=layout.grouping)
            found.append(trimmed_fit(table, start.likelihood_fit, start.closest, plan.penalty)[0])
        return np.array(found).T
    share = np.repeat(plan.rows.share[:, None], p.shape[1], axis=1)
    begin = np.repeat(start.estimate[:, None], p.shape[1], axis=1)
    theta = weighted_fits(layout, p * share, begin, plan.penalty)
    if way == "held":
        return theta
    own = [kept_share(layout, mass, at, n) for mass, at in zip(p.T, theta.T, strict=True)]
    return weighted_fits(layout, p * np.array(own).T, theta, plan.penalty)


def covered(setting, number):
    """Of each way: the share of coefficients in their intervals, and how wide these are."""
    data = make(*setting, number, SEED + 3)
    with warnings.catch_warnings(), single_threaded():
        warnings.simplefilter("ignore", tb.TVDBayesWarning)
        cells = Cells.from_rows(data.x, data.y)
        plan = plan_of(tb.posterior_bootstrap(Model(data.law), cells, n_draws=2, seed=number))
        bound, draws = plan.robust.layout.bound, plan.start.robust_draws
        p = np.concatenate(list(pilot_tables(plan.setup)), axis=1)[:, :N_DRAWS]
        lines = []
        for way in WAYS:
            theta = solutions(plan, p, way)
            shift = calibrating_shift(theta, plan.start.estimate, bound)
            found = bound.to_user(replace(draws, shift=shift)(theta))
            low, high = np.sort(found, axis=1)[:, [RANK - 1, -RANK]].T
            inside = (low <= data.truth) & (data.truth <= high)
            lines.append((inside.mean(), np.exp(np.log(high - low).mean())))
    return lines


def run(quick=False):
    lines, n_sets = [], 2 if quick else N_SETS
    for setting in SETTINGS[: 1 if quick else None]:
        found = np.array(Parallel(2)(delayed(covered)(setting, k) for k in range(n_sets)))
        share, width = found[..., 0], np.exp(np.log(found[..., 1]).mean(0))
        model, n, p, kind = setting
        error = share[:, 0].std() / np.sqrt(n_sets)
        lines.append(
            (f"{model} {n} x {p}", kind, n_sets, *share.mean(0), error, *width[1:] / width[0])
        )
        print(*lines[-1], flush=True)
    Table(
        "default_draws",
        "default_draws",
        "Share of coefficients whose nominal 90 % interval holds the truth, where the rows that "
        "are kept are those of the fit (held: the default), are found on the reweighted table "
        f"from the held fit (recomputed), or by the whole rule on it. {N_DRAWS} draws on the same "
        "random tables, widened alike; in tests of chance a reweighted row counts for half a row. "
        "Behind: the Monte-Carlo error of the first, and widths of the intervals divided by those "
        f"of the first. Seed {SEED + 3}.",
        (
            *("setting", "wrong rows", "sets", *WAYS, "MC error"),
            *(f"width, {way} / held" for way in WAYS[1:]),
        ),
        lines,
        made_on="two cores",
    ).publish()
