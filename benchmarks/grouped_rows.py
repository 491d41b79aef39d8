"""Rows that belong together: coverage, flags of clusters, surveys, and what clusters cost.

Outcomes of a cluster depend on one another through a Gaussian copula, so that every row has exactly
the law of the model and the truth is known: uniform ranks of normal scores that share a component
with the variance "ICC". Half of the variance of x lies between clusters.
"""

import os
import shutil
import subprocess
import time
import warnings
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd
from joblib import Parallel, delayed
from scipy.special import expit, ndtr
from scipy.stats import poisson
from scipy.stats import t as student

import tvdbayes as tb
from benchmarks._report import Table

SIZE = 10
SEED = 5100
N_SETS, N_DRAWS = 300, 200
ROWS_SETS = 50
"""The default without `clusters=` is far off, so that fewer data sets will do."""
CLUSTERS, ICCS = (30, 60, 200), (0.05, 0.2)
FAMILIES = {"logit": "bernoulli", "Poisson": "poisson"}
TRUTH = {"logit": (0.0, 1.0), "Poisson": (1.0, 0.3)}
BROKEN = 0.05
_INSIDE = (0.05, 0.95)
_NORMAL = 1.645


def _workers(quick):
    """Processes, two unless the environment says how many; one where few data are tried."""
    return Parallel(1 if quick else int(os.environ.get("BENCHMARK_JOBS", "2")))


def make(model, n_clusters, icc, number, *, discrete=False, broken=0.0):
    """One data set; of broken clusters, labels are those of the opposite effect, counts 8 more."""
    rng = np.random.default_rng([SEED, number])
    of, n = np.repeat(np.arange(n_clusters), SIZE), n_clusters * SIZE
    x = np.sqrt(0.5) * (rng.normal(size=n_clusters)[of] + rng.normal(size=n))
    if discrete:
        x = np.clip(np.round(x), -2, 2)
    common, own = rng.normal(size=n_clusters)[of], rng.normal(size=n)
    rank = ndtr(np.sqrt(icc) * common + np.sqrt(1 - icc) * own)
    first, slope = TRUTH[model]
    bad = of < round(broken * n_clusters)
    if model == "logit":
        y = (rank > 1 - expit(first + slope * x)).astype(int)
        y = np.where(bad, (x < 0).astype(int), y)
    else:
        y = poisson.ppf(rank, np.exp(first + slope * x)).astype(int) + 8 * bad
    return {"y": y, "x": x, "cluster": of}, bad[::SIZE]


def survey(number, n_population=20_000, n=600):
    """A sample in which rows with y = 1 are three times as likely, in strata by x and y, and the
    logit of the whole population, which it is about.
    """
    import statsmodels.api as sm

    rng = np.random.default_rng([SEED, 1, number])
    x = rng.normal(size=n_population)
    y = (rng.random(n_population) < expit(-0.5 + x)).astype(int)
    stratum = np.digitize(x, [-0.5, 0.5])
    chosen, weight = [], []
    for part in range(3):
        for label, share in ((0, 0.25), (1, 0.75)):
            rows = np.flatnonzero((stratum == part) & (y == label))
            size = round(n / 3 * share)
            chosen.append(rng.choice(rows, size, replace=False))
            weight.append(np.full(size, len(rows) / size))
    rows = np.concatenate(chosen)
    cell = 2 * stratum[rows] + y[rows]
    data = {"y": y[rows], "x": x[rows], "stratum": cell, "w": np.concatenate(weight)}
    census = sm.GLM(y, sm.add_constant(x), family=sm.families.Binomial()).fit()
    return data, census.params


def _holds(draws, truth):
    low, high = np.quantile(draws, _INSIDE, axis=0)
    return float(((low <= truth) & (truth <= high)).mean())


def _quietly(formula, data, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tb.TVDBayesWarning)
        return tb.fit(formula, data, **options)


def _cover(model, n_clusters, icc, discrete, broken, number):
    """The share of both coefficients that each interval holds."""
    import statsmodels.api as sm

    data, _ = make(model, n_clusters, icc, number, discrete=discrete, broken=broken)
    options = {"family": FAMILIES[model], "n_draws": N_DRAWS, "seed": number}
    fit, truth = _quietly("y ~ x", data, clusters="cluster", **options), np.array(TRUTH[model])
    alone = number < ROWS_SETS
    rows = _holds(_quietly("y ~ x", data, **options).draws, truth) if alone else np.nan
    design = sm.add_constant(data["x"])
    law = {"logit": sm.families.Binomial, "Poisson": sm.families.Poisson}[model]()
    groups = {"groups": data["cluster"]}
    robust = sm.GLM(data["y"], design, family=law).fit(cov_type="cluster", cov_kwds=groups)
    working = sm.cov_struct.Exchangeable()
    gee = sm.GEE(data["y"], design, data["cluster"], family=law, cov_struct=working).fit()
    inside = [
        float((np.abs(found.params - truth) <= _NORMAL * found.bse).mean())
        for found in (robust, gee)
    ]
    return np.array([_holds(fit.draws, truth), _holds(fit.kld_draws, truth), *inside, rows])


def coverage(quick=False):
    """Do 90 % intervals hold the truth in 90 % of data sets? A table for each model and x."""
    for discrete in (True, False):
        for model in FAMILIES:
            _coverage(model, discrete, quick)


def _coverage(model, discrete, quick):
    n_sets = 2 if quick else N_SETS
    workers, lines = _workers(quick), []
    for n_clusters in CLUSTERS[: 1 if quick else None]:
        for icc in ICCS[-1:] if quick else ICCS:
            for broken in (0.0, BROKEN):
                asked = (model, n_clusters, icc, discrete, broken)
                each = np.array(workers(delayed(_cover)(*asked, k) for k in range(n_sets)))
                error = each.std(0)[:2] / np.sqrt(n_sets)
                kind = "5 % of clusters" if broken else "none"
                lines.append((n_clusters, icc, kind, *np.nanmean(each, axis=0), *error))
                print(model, discrete, lines[-1], flush=True)
    kind = "five values of x" if discrete else "continuous x"
    Table(
        f"grouped_rows_{model.lower()}_{'discrete' if discrete else 'continuous'}",
        "grouped_rows",
        f"How often 90 % intervals hold the truth, both coefficients together: {model}, {kind}, "
        f"clusters of {SIZE} rows, {n_sets} data sets a line (seed {SEED}), {N_DRAWS} draws. The "
        "default and the likelihood fit with `clusters=`; beside them statsmodels: GLM with "
        "cluster-robust errors, and GEE with an exchangeable working correlation; the default "
        f"without `clusters=` (by row, {ROWS_SETS} data sets). Broken: labels of the opposite "
        "effect, counts 8 too high. Errors are Monte-Carlo errors of the default and of the "
        "likelihood fit.",
        (
            *("clusters", "ICC", "broken", "default", "likelihood", "robust errors", "GEE"),
            *("by row", "error", "error, likelihood"),
        ),
        lines,
    ).publish()


_SVYGLM = """
suppressMessages(library(survey))
given <- commandArgs(TRUE)
answer <- function(part) {
  design <- svydesign(ids = ~1, strata = ~stratum, weights = ~w, data = part)
  fit <- svyglm(y ~ x, design = design, family = quasibinomial())
  c(coef(fit), sqrt(diag(vcov(fit))), fit$df.residual)
}
rows <- read.csv(given[1])
write.table(do.call(rbind, lapply(split(rows, rows$set), answer)), given[2], sep = ",",
            row.names = FALSE, col.names = FALSE)
"""


def _svyglm(sets):
    """Coefficients, errors and degrees of freedom of R's survey for each data set; None without."""
    if shutil.which("Rscript") is None:
        return None
    asked = ["Rscript", "--vanilla", "-e", "library(survey)"]
    if subprocess.run(asked, capture_output=True, check=False).returncode:
        return None
    rows = pd.concat([pd.DataFrame(data).assign(set=k) for k, data in enumerate(sets)])
    with TemporaryDirectory() as folder:
        script, given, found = (Path(folder) / name for name in ("fit.R", "rows", "answers"))
        script.write_text(_SVYGLM)
        rows.to_csv(given, index=False)
        subprocess.run(["Rscript", "--vanilla", *map(str, (script, given, found))], check=True)
        return np.loadtxt(found, delimiter=",", ndmin=2)


def _survey_cover(number):
    import statsmodels.api as sm

    data, truth = survey(number)
    options = {"family": "bernoulli", "n_draws": N_DRAWS, "seed": number}
    weighted = _quietly("y ~ x", data, strata="stratum", sampling_weights="w", **options)
    alone = _quietly("y ~ x", data, sampling_weights="w", **options)
    ignored = _quietly("y ~ x", data, **options)
    design = sm.add_constant(data["x"])
    glm = sm.GLM(data["y"], design, family=sm.families.Binomial(), var_weights=data["w"])
    found = glm.fit(cov_type="HC0")
    inside = float((np.abs(found.params - truth) <= _NORMAL * found.bse).mean())
    sides = (weighted.draws, weighted.kld_draws, alone.draws, ignored.draws)
    return np.array([*(_holds(draws, truth) for draws in sides), inside])


def surveys(quick=False):
    """The same for outcome-dependent samples from strata."""
    n_sets = 2 if quick else N_SETS
    found = np.array(_workers(quick)(delayed(_survey_cover)(k) for k in range(n_sets)))
    names = ["default", "likelihood", "default, weights alone", "default, neither"]
    names.append("statsmodels, weighted GLM")
    made = [survey(k) for k in range(n_sets)]
    in_r = _svyglm([data for data, _ in made])
    if in_r is not None:
        reach = student.ppf(_INSIDE[1], in_r[:, 4:])
        away = np.abs(in_r[:, :2] - np.array([truth for _, truth in made]))
        inside = (away <= reach * in_r[:, 2:4]).mean(1, keepdims=True)
        found, names = np.hstack([found, inside]), [*names, "R, survey::svyglm with strata"]
    shares, errors = found.mean(0), found.std(0) / np.sqrt(n_sets)
    lines = [(n, float(s), float(e)) for n, s, e in zip(names, shares, errors, strict=True)]
    Table(
        "grouped_rows_surveys",
        "grouped_rows_surveys",
        "How often 90 % intervals hold the logit of the whole population (20,000 rows), both "
        "coefficients together, where rows with y = 1 are three times as likely to be sampled, "
        f"within strata: 600 rows, {n_sets} data sets (seed {SEED}), {N_DRAWS} draws. With "
        "`strata=` and `sampling_weights=`, with the weights alone, with neither; statsmodels' "
        "weighted GLM with sandwich errors, which knows of no strata; and R's survey.",
        ("intervals", "hold the truth", "error"),
        lines,
    ).publish()


def _flags(model, icc, broken, number):
    """Whether any good cluster and any good row is flagged, and the share of bad clusters found."""
    data, bad = make(model, 60, icc, number, discrete=True, broken=broken)
    options = {"family": FAMILIES[model], "n_draws": 50, "seed": number}
    fit = _quietly("y ~ x", data, clusters="cluster", **options)
    flag = fit.clusters()["flag"].to_numpy()
    row = fit.rows()["flag"].to_numpy() & ~bad[data["cluster"]]
    return np.array([flag[~bad].any(), row.any(), flag[bad].mean() if bad.any() else np.nan])


def flags(quick=False):
    """How often clean clusters are flagged, and how many broken ones are found."""
    n_sets = 2 if quick else N_SETS
    workers, lines = _workers(quick), []
    for model in FAMILIES:
        for icc in ICCS:
            for broken in (0.0, BROKEN):
                each = workers(delayed(_flags)(model, icc, broken, k) for k in range(n_sets))
                found = np.array(each)
                good, rows, bad = found.mean(0)
                kind = "5 % of clusters" if broken else "none"
                error = np.sqrt(good * (1 - good) / n_sets)
                lines.append((model, icc, kind, good, error, rows, bad))
                print(lines[-1], flush=True)
    Table(
        "grouped_rows_flags",
        "grouped_rows_flags",
        f"Flags of `clusters()` and `rows()`: 60 clusters of {SIZE} rows, discrete x, {n_sets} "
        f"data sets a line (seed {SEED}). Data sets in which any good cluster is flagged (stated: "
        "5 % on clean data) with the Monte-Carlo error, and any row of a good cluster; and the "
        "share of broken clusters that is found.",
        ("model", "ICC", "broken", "false alarm", "error", "of rows", "found"),
        lines,
    ).publish()


def _power(size, slope, icc, n_clusters, n):
    """How often tests with known parameters find a cluster whose labels are x < 0, of any number of
    clusters of which 5 % of data sets have a false alarm: the likelihood ratio of exactly that, the
    sum of residuals against x, and how improbable the labels are.
    """
    rng = np.random.default_rng([SEED, 3, size])

    def draw(bad):
        x = np.sqrt(0.5) * (rng.normal(size=(n, 1)) + rng.normal(size=(n, size)))
        x = np.clip(np.round(x), -2, 2)
        common, own = rng.normal(size=(n, 1)), rng.normal(size=(n, size))
        p = expit(slope * x)
        y = ndtr(np.sqrt(icc) * common + np.sqrt(1 - icc) * own) > 1 - p
        y = x < 0 if bad else y
        away = -np.where(y, np.log(p), np.log1p(-p)).sum(1)
        ratio = np.where((y == (x < 0)).all(1), away, -1e9)
        return ratio, -((y - p) * np.sign(x)).sum(1), away

    level = 1 - (1 - 0.05) ** (1 / n_clusters)
    return [
        float((bad > np.quantile(good, 1 - level, method="higher")).mean())
        for good, bad in zip(draw(False), draw(True), strict=True)
    ]


def best(quick=False):
    """What any test of reversed logit clusters can reach."""
    n = 1000 if quick else 40_000
    sizes, slopes = ((10,), (1.0,)) if quick else ((5, 10, 20, 30), (1.0, 2.0))
    lines = [
        (size, slope, icc, *_power(size, slope, icc, 60, n))
        for size in sizes
        for slope in slopes
        for icc in ICCS
    ]
    Table(
        "grouped_rows_best",
        "grouped_rows_best",
        "The share of reversed logit clusters (labels x < 0, five values of x) that tests find "
        "which know all parameters, among 60 clusters, with a false alarm in 5 % of clean data "
        "sets. The likelihood ratio knows the exact kind of error; the other two do not: the sum "
        f"of residuals against x, and how improbable labels are. From {n:,} clusters each (seed "
        f"{SEED}); limits are passed by {n * 0.00085:.0f} of the clean ones, so that errors are "
        "about .02.",
        ("rows", "slope", "ICC", "likelihood ratio", "residuals", "improbability"),
        lines,
    ).publish()


def _exponentials(n_clusters, n_draws):
    """Seconds that one random number for each cluster and draw takes, and nothing else."""
    rng, began = np.random.default_rng(0), time.process_time()
    for _ in range(n_draws):
        rng.standard_exponential(n_clusters)
    return time.process_time() - began


def cost(quick=False):
    """Draws of clusters beside draws of rows, in one process, interleaved."""
    n_clusters, n_draws, times = (100, 20, 1) if quick else (10_000, 1000, 7)
    lines = []
    for discrete in (True, False):
        data, _ = make("logit", n_clusters, 0.1, 0, discrete=discrete)
        data["x"] = data["x"] if discrete else np.round(data["x"], 2)
        spent = {None: [], "cluster": []}
        for _ in range(times):
            for clusters, seconds in spent.items():
                began = time.process_time()
                _quietly("y ~ x", data, family="bernoulli", n_draws=n_draws, clusters=clusters)
                seconds.append(time.process_time() - began)
        rows, grouped = (min(seconds) for seconds in spent.values())
        drawn = min(_exponentials(n_clusters, n_draws) for _ in range(times))
        kind = "5 values of x" if discrete else "x to two digits"
        lines.append((kind, rows, grouped, grouped / rows, drawn, (rows + drawn) / rows))
        print(lines[-1], flush=True)
    Table(
        "grouped_rows_cost",
        "grouped_rows_cost",
        f"Seconds of processor time of `fit` with {n_draws:,} draws for {n_clusters:,} clusters of "
        f"{SIZE} rows, without and with `clusters=`, the least of {times} times each, interleaved; "
        "and of one random number for each cluster and draw alone, which without clusters are one "
        "for each distinct row. What is least possible is the sum with the time without clusters.",
        ("data", "rows", "clusters", "ratio", "random numbers", "least ratio"),
        lines,
    ).publish()
