"""How often do statements about a fit come up on clean data, where each is a false alarm?"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from joblib import Parallel, delayed

import tvdbayes as tb
from benchmarks._report import Table
from tvdbayes.bounds.misfit import fitted_half
from tvdbayes.fitting.story import RULES
from tvdbayes.results.rows import MOSTLY
from tvdbayes.sampling.statements import FALSE_ALARM

N_SETS = 300
N_DRAWS = 200
CONFIDENCE = 0.95

FLAG, LOWER, CERTIFICATE = "rows(): any flag", "misfit(): lower > 0", "certificate below the truth"
DROPPED, FAR = "rows(): any row dropped", "rows(): far rows kept out as a block"
WRONG = "misfit(): wrong_low > 0"
STATED = {
    **{f"check(): {rule.about}": rule.false_alarm for rule in RULES},
    FLAG: FALSE_ALARM,
    FAR: 0.001,
    DROPPED: None,
    WRONG: FALSE_ALARM,
    LOWER: FALSE_ALARM,
    CERTIFICATE: 1 - CONFIDENCE,
}
"""The stated rate of every statement; None for a fact about the fit, which is no alarm."""


@dataclass(frozen=True)
class Design:
    """Clean data: how many rows, how they are made and fitted, and the true parameters."""

    n: int
    formula: str
    family: str
    truth: tuple[float, ...]
    make: Callable
    trials: int | None = None


def _chances(eta):
    return 1 / (1 + np.exp(-eta))


def _no_x(rng, n, theta):
    return {"y": rng.poisson(np.exp(theta[0]), n)}


def _discrete(rng, n, theta):
    x, z = rng.integers(0, 4, n), rng.integers(0, 2, n)
    return {"x": x, "z": z, "y": rng.poisson(np.exp(theta[0] + theta[1] * x + theta[2] * z))}


def _continuous(rng, n, theta):
    x, z = rng.normal(size=(2, n))
    return {"x": x, "z": z, "y": rng.poisson(np.exp(theta[0] + theta[1] * x + theta[2] * z))}


def _logit(rng, n, theta):
    x, z, u = rng.normal(size=(3, n))
    prob = _chances(theta[0] + theta[1] * x + theta[2] * z + theta[3] * u)
    return {"x": x, "z": z, "u": u, "y": rng.binomial(1, prob)}


def _binomial(rng, n, theta):
    x = rng.integers(0, 4, n)
    return {"x": x, "y": rng.binomial(10, _chances(theta[0] + theta[1] * x))}


def _negative_binomial(rng, n, theta):
    x = rng.integers(0, 3, n)
    size = np.exp(-theta[2])
    return {
        "x": x,
        "y": rng.negative_binomial(size, size / (size + np.exp(theta[0] + theta[1] * x))),
    }


DESIGNS = {
    "Poisson, no x": Design(400, "y ~ 1", "poisson", (np.log(3),), _no_x),
    "Poisson, discrete x": Design(500, "y ~ x + z", "poisson", (0.5, 0.3, -0.4), _discrete),
    "Poisson, continuous x (bins)": Design(
        400, "y ~ x + z", "poisson", (1.5, 0.5, -0.3), _continuous
    ),
    "logit, continuous x": Design(800, "y ~ x + z + u", "bernoulli", (0.5, 1.0, -0.5, 0.0), _logit),
    "binomial": Design(500, "y ~ x", "binomial", (-0.5, 0.4), _binomial, trials=10),
    "negative binomial": Design(
        600, "y ~ x", "negativebinomial", (1.0, 0.3, np.log(0.5)), _negative_binomial
    ),
}


def judge(design, number, n_rows):
    """Which statements come up on one data set, in the order of `STATED`."""
    data = design.make(np.random.default_rng([2001, number]), n_rows, design.truth)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tb.TVDBayesWarning)
        fit = tb.fit(
            design.formula,
            data,
            family=design.family,
            trials=design.trials,
            n_draws=N_DRAWS,
            seed=number,
            progress=False,
        )
        said = {f"check(): {f.about}" for f in fit.check().findings if f.level != "good"}
        found = fit.misfit(certificate=CONFIDENCE)
        rows = fit.rows()
        if rows["flag"].any():
            said.add(FLAG)
        if not fit.posterior.kept_rows.far_agree:
            said.add(FAR)
        if (rows["kept"] < MOSTLY).any():
            said.add(DROPPED)
        if found.wrong_low:
            said.add(WRONG)
        if found.lower > 0:
            said.add(LOWER)
        half, _ = fitted_half(fit.posterior)
        if found.certificate.upper < distance(fit.posterior, half.minimiser, design.truth):
            said.add(CERTIFICATE)
    return [name in said for name in STATED]


def distance(posterior, theta, truth):
    """Total variation between the models at two parameters, averaged over the rows of the data.

    Groups of rows can only be closer, so a certificate of groups holds if it is above this.
    """
    cells, family = posterior.cells, posterior.model.family
    bound = posterior.model.bind(cells, cells)
    eta = bound.eta(bound.from_user(np.column_stack([theta, truth])))
    outcomes = np.arange(0, max(2 * cells.y.max(), 20) + 1)[:, None]
    masses = [
        np.where(
            family.possible(outcomes, cells.trials),
            family.pmf(outcomes, eta[:, None, :, j], cells.trials),
            0.0,
        )
        for j in range(2)
    ]
    apart = np.abs(masses[0] - masses[1]).sum(0) / 2
    return float(apart @ cells.x_counts / cells.n_obs)


def run(quick: bool = False):
    n_sets = 1 if quick else N_SETS
    shares = []
    for name, design in DESIGNS.items():
        n_rows = 100 if quick else design.n
        jobs = (delayed(judge)(design, number, n_rows) for number in range(n_sets))
        shares.append(np.mean(Parallel(1 if quick else 2)(jobs), axis=0))
        print(name, shares[-1].round(3), flush=True)
    table = Table(
        "statements",
        "statements",
        f"Share of clean data sets ({n_sets} of each design, {N_DRAWS} draws each) on which a "
        "statement is made: a line of `check()` with the level note or problem, a flag of "
        "`rows()`, far rows that are kept out as a block (which flags them), rows that are mostly "
        "dropped, a share of wrong rows whose 90 % interval begins above 0, a lower bound of "
        "`misfit()` above 0, and a certificate (confidence "
        f"{CONFIDENCE:.0%}) below the true distance of the model that it is about. Beside them the "
        "largest share that is stated, and the Monte-Carlo error of such a share; a fact is always "
        "true when it is stated, and no alarm. Rows: "
        + ", ".join(f"{name} {design.n}" for name, design in DESIGNS.items())
        + ".",
        ("statement", "stated", "error", *DESIGNS),
        [
            (
                name,
                "fact" if stated is None else stated,
                "" if stated is None else np.sqrt(stated * (1 - stated) / n_sets),
                *of_designs,
            )
            for (name, stated), of_designs in zip(
                STATED.items(), np.transpose(shares).tolist(), strict=True
            )
        ],
        made_on="two cores",
    )
    if quick:
        print(table.text())
    else:
        table.publish()
