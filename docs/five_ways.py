"""Go the five ways by which people come, each from start to end in an environment of its own.

``make five-ways`` after ``make docs``: from R and Stata, from scikit-learn, from bambi and ArviZ,
from the paper, and from a terminal only. Each environment gets a wheel of this copy of the project
with what the pages of the way say to install. Cells of pages must print what the built pages show,
and what commands and calls print must hold what the pages say of them. ``python docs/five_ways.py
"the paper"`` goes one way.
"""

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from try_pages import DOCS, END, RUNNER, _plain, cells_of

ROOT = DOCS.parent
CALM = {"MPLBACKEND": "agg", "OPENBLAS_NUM_THREADS": "1", "TVDBAYES_PROGRESS": "0"}


@dataclass(frozen=True)
class Step:
    """Something that a newcomer does: a command, and what must be seen.

    `says` are pairs of a page and words in it that promise what is seen; `seen` must match what is
    printed, line breaks aside.
    """

    command: str
    seen: Sequence[str]
    says: Sequence[tuple[str, str]] = ()


@dataclass(frozen=True)
class Way:
    """What to install; pages, each with a word of the cells that are run; and steps."""

    install: str
    pages: Sequence[tuple[str, str]] = ()
    steps: Sequence[Step] = ()


MADE = """
import numpy as np, pandas as pd
rng = np.random.default_rng(1)
region = rng.integers(0, 3, 600)
visits = rng.poisson(np.exp(0.7 + 0.3 * region))
visits[:60] += 15
pd.DataFrame({"visits": visits, "region": region}).to_csv("visits.csv", index=False)
"""
"""The data of the first page, in a file."""

ARVIZ = """
import arviz as az, numpy as np, tvdbayes as tb
data = tb.example_data(wrong=0.1)
poisson = tb.fit("visits ~ age + region", data, n_draws=300)
wider = tb.fit("visits ~ age + region", data, family="negativebinomial", n_draws=300)
trees = {"poisson": poisson.to_arviz(), "negative binomial": wider.to_arviz()}
print("groups", *[g for g in ("posterior", "posterior_predictive", "log_likelihood",
      "observed_data") if hasattr(trees["poisson"], g)])
table = az.summary(trees["poisson"], round_to=6)
print("means agree", np.allclose(sorted(table["mean"].astype(float)),
      sorted(poisson.draws.mean(0)), atol=1e-5))
az.plot_forest(trees["poisson"])
print("loo", type(az.loo(trees["poisson"])).__name__)
print("compared", *sorted(az.compare(trees).index))
print("likelihood fit", hasattr(poisson.to_arviz(ordinary=True), "posterior"))
"""

SKLEARN = """
import pickle, numpy as np, tvdbayes as tb
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
rng = np.random.default_rng(0)
x = rng.normal(size=(300, 2))
y = rng.poisson(np.exp(1 + 0.4 * x[:, 0]))
y[:30] += 20
model = clone(tb.RobustCountRegressor(n_draws=50)).fit(x, y)
again = pickle.loads(pickle.dumps(model))
print("same coefficients", bool((again.coef_ == model.coef_).all()))
search = GridSearchCV(tb.RobustCountRegressor(n_draws=0), {"ridge": ["auto", 0.01]}, cv=3).fit(x, y)
print("best", search.best_params_)
print("rate %.0f" % model.predict([[0.0, 0.0]])[0])
"""

PAPER = """
import numpy as np, tvdbayes as tb
y = np.random.default_rng(0).poisson(3, 400)
y[:40] += 20
fit = tb.fit("y ~ 1", {"y": y}, refine=None)
print(fit.summary())
print("rate %.1f against %.1f" % tuple(np.exp([fit.draws.mean(), fit.kld_draws.mean()])))
"""

WAYS = {
    "R and Stata": Way("[demo]", [("r_stata_spss.md", "")]),
    "scikit-learn": Way(
        "[demo]",
        [
            ("coming_from.md", "clinic = "),
            ("coming_from.md", "new = "),
            ("coming_from.md", "sklearn"),
            ("coming_from.md", "RobustCountRegressor"),
        ],
        [
            Step(
                f"python -c '{SKLEARN}'",
                ["same coefficients True", "best", "rate 3"],
                [
                    ("coming_from.md", "| `GridSearchCV` | works"),
                    ("coming_from.md", "| pickle, joblib | the same |"),
                ],
            )
        ],
    ),
    "bambi and ArviZ": Way(
        "[arviz]",
        steps=[
            Step(
                f"python -c '{ARVIZ}'",
                [
                    "groups posterior posterior_predictive log_likelihood observed_data",
                    "means agree True",
                    "loo ELPDData",
                    "compared negative binomial poisson",
                    "likelihood fit True",
                ],
                [
                    ("coming_from.md", "`fit.to_arviz()` for everything in ArviZ"),
                    ("coming_from.md", "both work on `fit.to_arviz()` too"),
                    ("coming_from.md", "`fit.to_arviz(ordinary=True)` is the likelihood fit"),
                ],
            )
        ],
    ),
    "the paper": Way(
        "[demo]",
        steps=[
            Step(
                f"python -c '{PAPER}'",
                [r"Poisson \(log link\) by tvd:", r"rate 3\.\d against [45]\.\d"],
                [("../README.md", "Their posterior, corrected, is `refine=None`")],
            ),
            Step(
                "tvdbayes reproduce --list",
                ["figure-1", "poisson", "zero-inflation", "probit", "contamination-atlas"],
                [("reproduction.md", "tvdbayes reproduce contamination-atlas")],
            ),
            Step(
                "tvdbayes reproduce figure-1 --out paper && ls -R paper",
                [r"figure\.png"],
                [("reproduction.md", "tvdbayes reproduce figure-1")],
            ),
        ],
    ),
    "a terminal": Way(
        "[demo]",
        steps=[
            Step(
                f"python -c '{MADE}' && tvdbayes check visits.csv 'visits ~ region'",
                [r"600 rows"],
                [("../README.md", "tvdbayes check visits.csv")],
            ),
            Step(
                "tvdbayes fit visits.csv 'visits ~ region' --out results && ls results",
                [
                    r"Intercept +0\.64. +\[0\.5\d+, 0\.7\d+\]",
                    "64 of 600 rows were dropped",
                    "cannot explain 16.8% of the data",
                    r"report\.html",
                ],
                [
                    ("../README.md", "and results/report.html"),
                    ("../README.md", "64 of 600 rows were dropped"),
                    ("../README.md", "cannot explain 16.8% of the data"),
                ],
            ),
            Step(
                "cat visits.csv | tvdbayes fit - 'visits ~ region' --ratios",
                [r"region +1\.3\d"],
                [("../CHANGELOG.md", "tvdbayes fit -")],
            ),
            Step("tvdbayes families --json", [r'"poisson"'], [("api/command_line.md", "families")]),
            Step(
                "tvdbayes demo --out demo && ls demo",
                ["months with an error are flagged", r"report\.html"],
                [("../README.md", "make demo")],
            ),
        ],
    ),
}


def go(way: Way, wheel: Path, folder: Path) -> list[str]:
    """What differs from what the pages say, on one way."""
    environment = folder / "env"
    _uv("venv", "--quiet", "--python", sys.executable, environment)
    python = environment / "bin" / "python"
    _uv("pip", "install", "--quiet", "--python", python, f"{wheel}{way.install}")
    look = {"PATH": f"{environment / 'bin'}:/usr/bin:/bin", "HOME": str(folder), **CALM}
    wrong = [
        f"{name} does not say {words!r}"
        for step in way.steps
        for name, words in step.says
        if words not in " ".join((DOCS / name).read_text().split())
    ]
    for page in dict.fromkeys(page for page, _ in way.pages):
        words = [word for one, word in way.pages if one == page]
        wrong += _cells(DOCS / page, words, python, folder, look)
    for step in way.steps:
        wrong += _step(step, folder, look)
    return wrong


def _cells(page: Path, words: list[str], python: Path, folder: Path, look: dict) -> list[str]:
    """Run the cells of a page that hold one of some words, and compare with the built page."""
    both = zip(*cells_of(page), strict=True)
    code, shown = zip(*((c, s) for c, s in both if any(word in c for word in words)), strict=True)
    (folder / "cells.json").write_text(json.dumps(code))
    run = _run([python, "-c", RUNNER, "cells.json", END], folder, look)
    wrong = [f"{page.name}: {run.stderr}"] if run.returncode else []
    for number, (says, sees) in enumerate(
        zip(shown, run.stdout.split(END + "\n"), strict=False), 1
    ):
        if _plain(says) != _plain(sees):
            wrong.append(
                f"{page.name}, cell {number}: the page shows\n{says}\nand one sees\n{sees}"
            )
    return wrong


def _step(step: Step, folder: Path, look: dict) -> list[str]:
    run = _run(["bash", "-c", step.command], folder, look)
    seen = " ".join(run.stdout.split())
    wrong = [f"no {want!r} in\n{run.stdout}" for want in step.seen if not re.search(want, seen)]
    failed = [f"ended with {run.returncode}:\n{run.stderr}"] if run.returncode else []
    return [f"{step.command}: {one}" for one in failed or wrong]


def _run(command: list, folder: Path, look: dict) -> subprocess.CompletedProcess:
    return subprocess.run(
        command, cwd=folder, env=look, capture_output=True, text=True, check=False
    )


def _uv(*words: object) -> None:
    """uv, which installs in a third of the time that pip takes."""
    subprocess.run([Path(sys.executable).parent / "uv", *map(str, words)], check=True)


def main(names: list[str]) -> int:
    """Go the ways, say how they went, and return how many failed."""
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        _uv("build", "--quiet", "--wheel", "--python", sys.executable, "--out-dir", folder, ROOT)
        (wheel,) = Path(folder).glob("*.whl")
        for name in names or WAYS:
            room = Path(folder) / name.replace(" ", "-")
            room.mkdir()
            wrong = go(WAYS[name], wheel, room)
            print(f"{name}: {'differs' if wrong else 'as the pages say'}", *wrong, sep="\n")
            failed += bool(wrong)
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
