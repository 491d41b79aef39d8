"""Continuous covariates: error of the point estimate, by design, ensemble and group size."""

import warnings

import numpy as np
from joblib import Parallel, delayed

import tvdbayes as tb
from benchmarks._designs import STRESS, logit, poisson, stress
from benchmarks._report import Table
from tvdbayes import Bernoulli, Cells, Cluster, KMeansGroups, Model, Poisson
from tvdbayes.objective.partitions.groups import TWO_SIZES

N_SETS = 20


def rmse(found, truth):
    return float(np.sqrt(np.mean((found - truth) ** 2)))


def fit(x, y, family, n_draws=0, kinds=TWO_SIZES, seed=0):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tb.TVDBayesWarning)
        return tb.posterior_bootstrap(
            Model(family),
            Cells.from_rows(x, y),
            n_draws=n_draws,
            partition=KMeansGroups(kinds),
            seed=seed,
            refine=None,
        )


def over_sets(work, n_sets=N_SETS, quick=False):
    """Run ``work(number)`` for every data set on both cores; for two of them in a quick run."""
    n_sets = 2 if quick else n_sets
    return Parallel(2)(delayed(work)(number) for number in range(n_sets))


def point_estimates(quick=False):
    one = (Cluster(size=2.0, copies=1),)
    cases = [(f"logit n={n:,} p={p}", logit, (n, p), Bernoulli()) for n, p in SIZES]
    cases += [
        (f"Poisson n=5,000, {kind}", poisson, (5000, kind), Poisson())
        for kind in ("shift", "zeros")
    ]
    lines = []
    for name, design, size, family in cases[:1] if quick else cases:
        for share in (0.0, 0.1):

            def work(number, design=design, size=size, share=share, family=family):
                rng = np.random.default_rng([101, number])
                first, *rest = size
                x, y, beta = design(rng, first, *_order(design, rest, share))
                ensemble = fit(x, y, family)
                single = fit(x, y, family, kinds=one)
                return [rmse(b, beta) for b in (ensemble.estimate, single.estimate)] + [
                    rmse(ensemble.kld_minimiser, beta)
                ]

            # The ratio of two medians of 20 is uncertain by a sixth; Poisson fits are cheap enough.
            n_sets = 2 * N_SETS if design is poisson else N_SETS
            found = np.median(over_sets(work, n_sets, quick), axis=0)
            lines.append((name, share, n_sets, *found, found[0] / found[2]))
            print(lines[-1], flush=True)
    Table(
        "continuous",
        "continuous",
        "Median RMSE over coefficients of the point estimate: logit with leverage points, Poisson "
        "with 20 added or with leverage zeros.",
        ("design", "share", "sets", "ensemble", "one partition", "ML", "ensemble / ML"),
        lines,
    ).publish()


SIZES = ((300, 4), (800, 6), (2000, 9), (5000, 11), (20_000, 11))


def _order(design, rest, share):
    """The arguments after n: logit takes (p, share), poisson (share, kind)."""
    return (rest[0], share) if design is logit else (share, rest[0])


def settings(quick=False):
    variants = {
        "default: 5 large (x2) and 5 small (x1)": TWO_SIZES,
        "R = 1": (Cluster(size=2.0, copies=1),),
        "R = 5": (Cluster(size=2.0, copies=5),),
        "R = 10": (Cluster(size=2.0, copies=10),),
        "R = 20": (Cluster(size=2.0, copies=20),),
        "groups half as large": tuple(Cluster(size=k.size / 2, copies=5) for k in TWO_SIZES),
        "groups twice as large": tuple(Cluster(size=k.size * 2, copies=5) for k in TWO_SIZES),
        "scaled by sd, small": (Cluster("spread", 1.0, 10),),
    }
    lines = []
    for n, p in SIZES[: 1 if quick else 3]:
        for share in (0.0, 0.1):
            for name, kinds in list(variants.items())[: 2 if quick else None]:

                def work(number, n=n, p=p, share=share, kinds=kinds):
                    rng = np.random.default_rng([102, number])
                    x, y, beta = logit(rng, n, p, share)
                    found = fit(x, y, Bernoulli(), 10 if quick else 100, kinds, seed=number)
                    mean = found.draws.mean(0)
                    points = (
                        found.estimate,
                        mean,
                        np.median(found.draws, axis=0),
                        2 * found.estimate - mean,
                    )
                    apart = np.abs(found.draws - found.estimate) / found.draws.std(0)
                    return [rmse(b, beta) for b in points] + [float((apart.max(1) > 5).mean())]

                found = np.asarray(over_sets(work, quick=quick))
                lines.append(
                    (n, p, share, name, *np.median(found[:, :4], axis=0), found[:, 4].mean())
                )
                print(lines[-1], flush=True)
    Table(
        "settings",
        "settings",
        "Median RMSE of four point estimates for other ensembles, logit, B = 100, 20 data sets a "
        "line; last, the share of draws more than 5 sd from the estimate (another basin).",
        (
            "n",
            "p",
            "share",
            "ensemble",
            "estimate",
            "mean",
            "median",
            "2 est - mean",
            "other basin",
        ),
        lines,
    ).publish()


def stresses(quick=False):
    lines = []
    for name in STRESS[:2] if quick else STRESS:
        for share in (0.0, 0.08):

            def work(number, name=name, share=share):
                rng = np.random.default_rng([103, number])
                x, y, beta = stress(rng, name, share, 500 if quick else 5000)
                found = fit(x, y, Bernoulli())
                return rmse(found.estimate, beta), rmse(found.kld_minimiser, beta)

            robust, ordinary = np.median(over_sets(work, quick=quick), axis=0)
            lines.append((name, share, robust, ordinary, robust / ordinary))
            print(lines[-1], flush=True)
    Table(
        "stress",
        "stress",
        "Median RMSE of the point estimate on awkward covariates, logit, n = 5,000, p = 8, 20 data "
        "sets a line; contamination: leverage clusters.",
        ("covariates", "share", "ensemble", "ML", "ratio"),
        lines,
    ).publish()
