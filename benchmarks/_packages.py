"""Each package fitted to one data set: coefficients, ends of intervals, seconds."""

import os
import shutil
import subprocess
import tempfile
import time
import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

import tvdbayes as tb
from benchmarks import _peers

SEED = 0
SHORT = 5.0
"""What takes less seconds is run three times more."""
STARTS = 5
"""Random starts of robmixglm, in place of its 50, which take ten times as long."""
Z = 1.6448536269514722
"""A 90 % interval is so many standard errors to either side."""


@dataclass(frozen=True)
class Found:
    """Coefficients (d,) in the order of the formula, and the ends of 90 % intervals, if any."""

    estimate: np.ndarray
    low: np.ndarray | None = None
    high: np.ndarray | None = None
    note: str = ""
    compiling: float = 0.0


def by_tvdbayes(problem, data, options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tb.TooFewRowsWarning)
        fit = tb.fit(problem.formula, data, family=problem.family, **options)
    assert list(fit.param_names) == problem.names
    return Found(fit.estimate, *np.quantile(fit.draws, [0.05, 0.95], axis=0))


def by_statsmodels(problem, data):
    import statsmodels.api as sm
    import statsmodels.formula.api as smf

    law = {"poisson": sm.families.Poisson, "bernoulli": sm.families.Binomial}[problem.family]()
    fit = smf.glm(problem.formula, data, family=law).fit()
    low, high = fit.conf_int(alpha=0.1).loc[problem.names].to_numpy().T
    return Found(fit.params[problem.names].to_numpy(), low, high)


def by_sklearn(problem, data):
    from sklearn.linear_model import LogisticRegression, PoissonRegressor

    x, y = problem.arrays(data)
    model = (
        PoissonRegressor(alpha=0, solver="newton-cholesky")
        if problem.family == "poisson"
        else LogisticRegression(C=np.inf, solver="newton-cholesky")
    ).fit(x[:, 1:], y)
    return Found(np.r_[np.ravel(model.intercept_), np.ravel(model.coef_)])


def by_numpyro(problem, data, length):
    import jax
    import numpyro
    from numpyro.diagnostics import summary
    from numpyro.distributions import Bernoulli, Normal, Poisson
    from numpyro.infer import MCMC, NUTS

    def model(x, y):
        beta = numpyro.sample("beta", Normal(0, 10).expand([x.shape[1]]).to_event(1))
        eta = x @ beta
        law = Poisson(jax.numpy.exp(eta)) if problem.family == "poisson" else Bernoulli(logits=eta)
        numpyro.sample("y", law, obs=y)

    compiling.clear()
    chains = MCMC(
        NUTS(model),
        num_warmup=length,
        num_samples=length,
        num_chains=4,
        chain_method="vectorized",
        progress_bar=False,
    )
    with jax.default_device(jax.devices("cpu")[0]):
        x, y = map(jax.numpy.asarray, problem.arrays(data))
        chains.run(jax.random.PRNGKey(SEED), x, y)
    draws = np.asarray(chains.get_samples()["beta"], float)
    worst = summary(chains.get_samples(group_by_chain=True))["beta"]["r_hat"].max()
    return Found(
        draws.mean(0),
        *np.quantile(draws, [0.05, 0.95], axis=0),
        f"largest R-hat {worst:.3f}",
        sum(compiling),
    )


def by_regmmd(problem, data):
    return Found(_peers.by_regmmd(*problem.arrays(data), problem.family, SEED))


def by_owl(problem, data):
    return Found(_peers.by_owl(*problem.arrays(data), problem.family, problem.share)[0])


compiling: list[float] = []
"""Seconds that JAX spent on tracing and compiling, since this was last emptied."""


def start_jax():
    """Start JAX before the clock does, on one thread, and let it say how long it compiles."""
    os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false")
    import jax

    def listen(event, seconds, **_):
        if event.startswith("/jax/core/compile/"):
            compiling.append(seconds)

    jax.monitoring.register_event_duration_secs_listener(listen)
    jax.numpy.zeros(1).block_until_ready()


def clock(work, short=SHORT):
    """What it found, and seconds: of one run, or where that is short the median of three more."""
    start = time.perf_counter()
    found = work()
    seconds = time.perf_counter() - start
    if seconds >= short:
        return found, seconds
    times = []
    for _ in range(3):
        start = time.perf_counter()
        found = work()
        times.append(time.perf_counter() - start)
    return found, float(np.median(times))


R = """
suppressPackageStartupMessages(library(robustbase))
lines <- NULL
flags <- list()
# robmixglm opens a debugger where a search fails, which ends a script.
unlockBinding("browser", baseenv())
assign("browser", function(...) stop("a search failed"), baseenv())
clock <- function(work, seed) {{
  set.seed(seed)
  start <- proc.time()[["elapsed"]]
  found <- tryCatch(suppressWarnings(work()), error = conditionMessage)
  list(found = found, seconds = proc.time()[["elapsed"]] - start)
}}
attempt <- function(row, data, work) {{
  runs <- list(clock(work, 1))
  if (runs[[1]]$seconds < {short}) runs <- c(runs, lapply(2:4, function(seed) clock(work, seed)))
  stopped <- sapply(runs, function(run) is.character(run$found))
  seconds <- sapply(runs, function(run) run$seconds)
  # Rows of little weight, or more likely an outlier than not.
  first <- runs[[1]]$found
  if (data == "wrong" && !stopped[1]) {{
    found <- if (is.null(first[["prop"]])) first[["w.r"]] < 0.5 else first[["prop"]][, 2] > 0.5
    if (length(found) == nrow(d)) flags[[row]] <<- found
  }}
  said <- if (stopped[1]) runs[[1]]$found else ""
  # robmixglm lists its share of outliers below the coefficients.
  table <- if (stopped[1]) cbind(NA, NA) else coef(summary(first))[names(coef(first)), 1:2]
  off <- function(run) max(abs(coef(run$found)[rownames(table)] - table[, 1]) / table[, 2])
  apart <- sapply(runs[!stopped], off)
  lines <<- rbind(lines, data.frame(
    row = row, data = data, estimate = table[, 1], error = table[, 2], said = said,
    seconds = median(if (length(seconds) > 1) seconds[-1] else seconds),
    stopped = sum(stopped), apart = if (stopped[1]) NA else max(apart)))
}}
for (name in c("clean", "wrong")) {{
  d <- read.csv(file.path("{folder}", paste0(name, ".csv")), stringsAsFactors = TRUE)
{calls}
}}
write.csv(lines, file.path("{folder}", "found.csv"), row.names = FALSE)
flags <- data.frame(flags, check.names = FALSE)
write.csv(flags, file.path("{folder}", "flags.csv"), row.names = FALSE)
"""


def by_r(problem):
    """Rows of the table, as in `solve`, timed inside R, and what there is to say about them."""
    law = {"poisson": "poisson", "bernoulli": "binomial"}[problem.family]
    rows = {
        row: f"glmrob({problem.formula}, {law}, d, {options})"
        for row, options in problem.glmrob.items()
    }
    if _peers.of_r("robmixglm"):
        outcome, _, terms = problem.formula.partition(" ~ ")
        left = outcome if law == "poisson" else f"cbind({outcome}, 1 - {outcome})"
        formula = f"{left} ~ {terms}"
        rows["robmixglm"] = (
            f'robmixglm::robmixglm({formula}, family = "{law}", data = d, '
            f"notrials = {STARTS}, cores = 1)"
        )
    calls = "\n".join(f'  attempt("{row}", name, function() {call})' for row, call in rows.items())
    with tempfile.TemporaryDirectory() as folder:
        problem.clean.to_csv(f"{folder}/clean.csv", index=False)
        problem.wrong.to_csv(f"{folder}/wrong.csv", index=False)
        Path(folder, "run.R").write_text(R.format(folder=folder, short=SHORT, calls=calls))
        one = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
        subprocess.run(
            ["Rscript", f"{folder}/run.R"],
            check=True,
            capture_output=True,
            env={**os.environ, **one},
            # The method MT leaves a file where it runs.
            cwd=folder,
        )
        table = pd.read_csv(f"{folder}/found.csv")
        flags = pd.read_csv(f"{folder}/flags.csv")
    results, notes = {}, []
    for row in rows:
        mine = table[table["row"] == row]
        both = [mine[mine["data"] == name] for name in ("clean", "wrong")]
        stopped = [part["stopped"].iloc[0] for part in both]
        apart = np.nan_to_num([part["apart"].iloc[0] for part in both])
        first, second = problem.labels
        failed = {
            label: str(part["said"].iloc[0]).rstrip(".")
            for label, part in zip(problem.labels, both, strict=True)
            if part["estimate"].isna().any()
        }
        if failed:
            notes += [
                f"{row} ends in an error ({label}): {said}." for label, said in failed.items()
            ]
        elif max(stopped) > 0 or apart.max() > 0.1:
            notes.append(
                f"{row} starts at random: of four seeds, {stopped[0]} ({first}) and {stopped[1]} "
                f"({second}) end in an error, and estimates lie up to {apart[0]:.1f} and "
                f"{apart[1]:.1f} standard errors apart."
            )
        if not failed:
            results[row] = (*map(_found, both), both[1]["seconds"].iloc[0])
    names = (f"{row}, weight under a half" if row.startswith("glm") else row for row in flags)
    seconds = table[table["data"] == "wrong"].groupby("row")["seconds"].first()
    found = {
        name: (flags[row].to_numpy(bool), seconds[row])
        for name, row in zip(names, flags, strict=True)
    }
    return results, notes, found


def _found(part):
    """Coefficients of R, with intervals where there are standard errors."""
    middle, half = part["estimate"].to_numpy(), Z * part["error"].to_numpy()
    return Found(middle, middle - half, middle + half) if np.isfinite(half).all() else Found(middle)


def robustbase():
    """Versions of R and robustbase, or None where one of them is missing."""
    if shutil.which("Rscript") is None:
        return None
    said = subprocess.run(
        [
            "Rscript",
            "-e",
            'cat(as.character(getRversion()), as.character(packageVersion("robustbase")))',
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    return said.stdout.split() if said.returncode == 0 else None
