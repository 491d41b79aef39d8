"""Robust fits by glmrob of R's robustbase, the usual ones to compare with."""

import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from tvdbayes._errors import SettingsError
from tvdbayes._typing import Array

Rows = tuple[Array, Array, Array]
"""Covariates (n, d), of which the first is the intercept, outcomes and trials (n,)."""

_VERSION = 'cat(as.character(packageVersion("robustbase")))'

# Without an answer a method would look better than it is, so maximum likelihood stands in for it:
# what one falls back on. The covariance of covariates is found from random subsets, hence the seed.
_SCRIPT = """
suppressMessages(library(robustbase))
given <- commandArgs(TRUE)
law <- given[3]
answer <- function(part) {
  set.seed(1)
  x <- as.matrix(part[, -(1:3), drop = FALSE])
  y <- if (law == "binomial") cbind(part$y, part$trials - part$y) else part$y
  fit <- tryCatch(
    if (given[6] == "Mqle") {
      glmrob(y ~ x, family = law, method = "Mqle", weights.on.x = given[4],
             control = glmrobMqle.control(tcc = as.numeric(given[5])))
    } else glmrob(y ~ x, family = law, method = given[6]),
    error = function(e) NULL
  )
  usable <- !is.null(fit) && all(is.finite(c(coef(fit), sqrt(diag(fit$cov)))))
  failed <- !usable || !isTRUE(fit$converged)
  if (!usable) fit <- glm(y ~ x, family = law)
  c(failed, coef(fit), sqrt(diag(vcov(fit))))
}
rows <- read.csv(given[1])
answers <- suppressWarnings(do.call(rbind, lapply(split(rows, rows$set), answer)))
write.table(format(answers, digits = 17), given[2], sep = ",",
            quote = FALSE, row.names = FALSE, col.names = FALSE)
"""


@dataclass(frozen=True, eq=False)
class QuasiFit:
    """Coefficients (d,) with standard errors.

    The search failed if it did not converge, and the last step is given, or if it stopped with an
    error, and maximum likelihood is given.
    """

    estimate: Array
    error: Array
    failed: bool


@cache
def robustbase_version() -> str:
    """The version of robustbase that Rscript finds; empty if there is none."""
    program = shutil.which("Rscript")
    if program is None:
        return ""
    asked = subprocess.run(
        [program, "--vanilla", "-e", _VERSION], capture_output=True, text=True, check=False
    )
    return asked.stdout.strip() if asked.returncode == 0 else ""


def glmrob(
    sets: Sequence[Rows],
    law: str,
    *,
    weigh_x: bool = False,
    tuning: float = 1.345,
    method: str = "Mqle",
) -> list[QuasiFit]:
    """Fit each data set, all in one call of R.

    Parameters
    ----------
    sets : sequence of (x, y, trials)
    law : "poisson" or "binomial"
    weigh_x : bool
        Whether rows that are far out in x (by the minimum covariance determinant) count less;
        needs covariates that hardly repeat.
    tuning : float
        Huber's constant; R's own unless given.
    method : str
        "Mqle"; or without these options "MT" (Poisson) or "WBY" (binomial).
    """
    if not robustbase_version():
        raise SettingsError(
            "glmrob needs Rscript with the package robustbase, and at least one of them is "
            'missing. Install R, and in it install.packages("robustbase").'
        )
    table = np.concatenate(
        [
            np.column_stack([np.full(len(y), number), y, trials, x[:, 1:]])
            for number, (x, y, trials) in enumerate(sets)
        ]
    )
    names = ",".join(["set", "y", "trials", *(f"x{j}" for j in range(1, sets[0][0].shape[1]))])
    with TemporaryDirectory() as folder:
        script, given, found = (Path(folder) / name for name in ("fit.R", "rows", "answers"))
        script.write_text(_SCRIPT)
        np.savetxt(given, table, fmt="%.17g", delimiter=",", header=names, comments="")
        options = [law, "covMcd" if weigh_x else "none", str(tuning), method]
        words = ["Rscript", "--vanilla", *map(str, (script, given, found))]
        run = subprocess.run(
            [*words, *options],
            capture_output=True,
            text=True,
            check=False,
            cwd=folder,  # the method MT writes a file of splines where it runs
        )
        if run.returncode:
            raise SettingsError(f"R stopped: {run.stderr.strip()[-500:]}")
        answers = np.loadtxt(found, delimiter=",", ndmin=2)
    d = (answers.shape[1] - 1) // 2
    return [QuasiFit(row[1 : d + 1], row[d + 1 :], bool(row[0])) for row in answers]
