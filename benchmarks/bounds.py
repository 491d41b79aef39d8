"""Do the guarantees hold? Simulated coverage of each bound on laws that are known."""

import warnings

import numpy as np
from scipy.stats import binom, geom, poisson

import tvdbayes as tb
from benchmarks._report import Table
from tvdbayes import Bernoulli, Cells, Model, NegativeBinomial, Poisson
from tvdbayes.bounds import (
    deviation,
    failure_probability,
    kernel_tvd,
    misfit_split,
    misfit_upper,
    parameter_set,
    robustness_radius,
    tvd_radius,
)
from tvdbayes.bounds.misfit import fitted_half

DELTA = 0.05


def tvd(p, q):
    return np.abs(p - q).sum(-1) / 2


def cut(pmf, k):
    """A law on 0, ..., k - 1 whose last outcome holds the tail."""
    return np.append(pmf[: k - 1], 1 - pmf[: k - 1].sum())


def zipf(k, power=1.5):
    mass = np.arange(1, k + 1.0) ** -power
    return mass / mass.sum()


LAWS = {
    "uniform, K=5": (np.full(5, 0.2), 1000),
    "uniform, K=50": (np.full(50, 0.02), 1000),
    "uniform, K=500": (np.full(500, 0.002), 1000),
    "Poisson(3), K=40": (cut(poisson(3).pmf(np.arange(40)), 40), 1000),
    "geometric(.05), K=400": (cut(geom(0.05, loc=-1).pmf(np.arange(400)), 400), 1000),
    "power law 1.5, K=10,000": (zipf(10_000), 1000),
    "Poisson(3), K=40, few rows": (cut(poisson(3).pmf(np.arange(40)), 40), 50),
    "two outcomes, one rare": (np.array([0.97, 0.03]), 100),
}


def ckw(counts, n, delta):
    """The data-only radius of Cohen, Kontorovich and Wolfer (2020), for comparison."""
    return np.sqrt(counts).sum() / n + 3 * np.sqrt(np.log(2 / delta) / (2 * n))


def radii(n_runs=2000):
    lines = []
    for name, (law, n) in LAWS.items():
        rng = np.random.default_rng(801)
        counts = rng.multinomial(n, law, n_runs)
        seen = tvd(counts / n, law)
        known = tvd_radius(n, DELTA, n_cells=len(law)).candidates
        own = [tvd_radius(n, DELTA, counts=c).radius for c in counts]
        both = [tvd_radius(n, DELTA, len(law), c) for c in counts]
        chosen = np.array([r.radius for r in both])
        lines.append(
            (
                name,
                n,
                np.quantile(seen, 1 - DELTA),
                known["Weissman"],
                known["McDiarmid"],
                np.mean([ckw(c, n, DELTA) for c in counts]),
                np.mean(own),
                np.mean(chosen),
                *(np.mean(seen <= r) for r in known.values()),
                np.mean(seen <= own),
                np.mean(seen <= chosen),
            )
        )
    Table(
        "bounds_radius",
        "bounds",
        "95 % radii of the observed table around its law (`tvd_radius`), beside the true 95 % "
        "quantile, and how often each holds; the last kind is the smaller of all, each with half "
        f"of delta. {n_runs:,} data sets, Monte-Carlo error of a rate near .95: .005. CKW: Cohen, "
        "Kontorovich and Wolfer (2020).",
        (
            *("law", "n", "true q95", "Weissman", "McDiarmid", "CKW", "counts", "smallest"),
            *("holds: W", "M", "counts", "smallest"),
        ),
        lines,
    ).publish()


def joint(n_x, n_y, kind, rng):
    x = zipf(n_x) if kind == "heavy" else np.full(n_x, 1 / n_x)
    y = np.full((n_x, n_y), 1 / n_y) if kind == "flat" else rng.dirichlet(np.ones(n_y), n_x)
    return x[:, None] * y


DESIGNS = {
    "no covariates, 5 outcomes": (1, 5, "even", 500),
    "4 x 9": (4, 9, "even", 1000),
    "30 x 2": (30, 2, "even", 1000),
    "30 x 30, all alike": (30, 30, "flat", 300),
    "20 x 20, all alike": (20, 20, "flat", 200),
    "30 x 30": (30, 30, "even", 300),
    "12 x 6, heavy-tailed x": (12, 6, "heavy", 2000),
    "100 x 2, heavy-tailed x": (100, 2, "heavy", 5000),
}


def deviations(n_runs=1000, n_models=40):
    lines = []
    for name, (n_x, n_y, kind, n) in DESIGNS.items():
        rng = np.random.default_rng(802)
        law = joint(n_x, n_y, kind, rng)
        x = law.sum(1, keepdims=True)
        conditional = law / x
        # The truth, uniform outcomes, and what is between and beside them.
        models = [conditional, np.full_like(conditional, 1 / n_y)]
        models += list(rng.dirichlet(np.ones(n_y), (n_models - 2, n_x)))
        models = np.array(models)
        true = tvd(law.ravel(), (models * x).reshape(n_models, -1))
        worst = np.zeros(n_runs)
        for run in range(n_runs):
            seen = rng.multinomial(n, law.ravel()).reshape(law.shape) / n
            own = models * seen.sum(1, keepdims=True)
            found = tvd(seen.ravel(), own.reshape(n_models, -1))
            worst[run] = np.abs(found - true).max()
        found, printed = (
            deviation(n, DELTA, n_x=n_x, n_y=n_y, as_printed=kind) for kind in (False, True)
        )
        error = 0.6
        lines.append(
            (
                name,
                n,
                np.quantile(worst, 1 - DELTA),
                found.radius,
                found.method,
                np.mean(worst <= found.radius),
                printed.radius,
                np.mean(worst <= printed.radius),
                np.mean(worst >= error),
                failure_probability(n, error, n_x=n_x, n_y=n_y, as_printed=True),
            )
        )
    Table(
        "bounds_deviation",
        "bounds",
        f"The largest error of the estimated distance over {n_models} models at once, its 95 % "
        "quantile, the radius of `deviation`, and how often it holds; then the paper's printed "
        "radius and how often that holds; then the probability of an error of .6 or more beside "
        f"the paper's formula for it. {n_runs:,} data sets, Monte-Carlo error at most .007.",
        (
            *("table", "n", "true q95", "radius", "by", "holds", "printed", "holds"),
            *("P(error >= .6)", "printed"),
        ),
        lines,
    ).publish()


def levels(n_x, slope, family):
    """Covariates on levels from -1 to 1; the model has half the slope, or another intercept."""
    at = np.linspace(-1, 1, n_x) if n_x > 1 else np.zeros(1)
    y = np.arange(2) if family.binary else np.arange(200)

    def law(theta):
        eta = theta[0] + theta[1] * at
        return family.pmf(y, eta[None, :, None], np.ones(1))

    wrong = np.array([0.7 if n_x > 1 else 0.9, slope / 2])
    return at, y, law((0.7, slope)), law(wrong), wrong


MISFITS = {
    "Poisson, no covariates": (1, 0.0, Poisson(), 200),
    "Poisson, 4 levels": (4, 1.0, Poisson(), 400),
    "yes/no, 30 levels": (30, 2.0, Bernoulli(), 300),
    "Poisson, 30 levels": (30, 1.0, Poisson(), 300),
    "yes/no, 5 levels, few rows": (5, 3.0, Bernoulli(), 50),
    "geometric (heavy tail), 10 levels": (10, 1.0, tb.Geometric(), 1000),
}


def misfits(n_splits, n_runs=500):
    lines = []
    for name, (n_x, slope, family, n) in MISFITS.items():
        rng = np.random.default_rng(803)
        at, y, law, wrong, theta = levels(n_x, slope, family)
        law /= law.sum(1, keepdims=True)
        by_x = tvd(law, wrong)
        holds, seen, upper = [], [], []
        for _ in range(n_runs):
            x = rng.integers(0, n_x, n)
            u = rng.random(n)
            outcome = (u[:, None] > np.cumsum(law, 1)[x]).sum(1)
            columns = np.column_stack([np.ones(n), at[x]])[:, : 1 + (n_x > 1)]
            cells = Cells.from_rows(columns, y[outcome])
            given = by_x[x].mean()
            model, d = Model(family), columns.shape[1]
            free = misfit_upper(model, cells, DELTA, theta=theta[:d])
            fixed = misfit_upper(model, cells, DELTA, theta=theta[:d], design="fixed")
            holds.append((by_x.mean() <= free.upper, given <= fixed.upper))
            seen.append(free.distance)
            upper.append((free.upper, fixed.upper))
        lines.append((name, n, by_x.mean(), np.mean(seen), *np.mean(upper, 0), *np.mean(holds, 0)))
    lines.append(split(n_splits))
    Table(
        "bounds_misfit",
        "bounds",
        "The distance between the law and a wrong model (half the true slope, or a rate 22 % too "
        "high), what is seen of it (too large on average), the 95 % bounds of `misfit_upper` for "
        "random and for fixed x, and "
        f"how often they hold. {n_runs} data sets. The last line splits the rows: continuous x, "
        f"groups, the fit of one half judged by the other; {n_splits} data sets, the truth from "
        "200,000 fresh rows.",
        ("data", "n", "true", "seen", "bound", "fixed x", "holds", "fixed x"),
        lines,
    ).publish()


def split(n_runs, n=600):
    """A bound for groups learned on the first half holds for fresh rows in these groups."""
    rng = np.random.default_rng(804)
    upper, holds, true, seen = [], [], [], []

    def rows(size):
        x = np.column_stack([np.ones(size), rng.normal(size=(size, 2))])
        y = rng.random(size) < 1 / (1 + np.exp(-(x @ [0.5, 1, -1])))
        bad = rng.random(size) < 0.1
        x[bad, 1] = rng.normal(4, 0.3, bad.sum())
        return x, np.where(bad, 0, y)

    fresh = Cells.from_rows(*rows(200_000))
    for number in range(n_runs):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", tb.TVDBayesWarning)
            cells = Cells.from_rows(*rows(n // 2))
            fit = tb.posterior_bootstrap(
                Model(Bernoulli()), cells, n_draws=0, seed=number, refine=None
            )
        judged = misfit_upper(fit, Cells.from_rows(*rows(n // 2)), DELTA)
        # Of many rows in few groups hardly any of the plug-in distance is noise.
        truth = misfit_upper(fit, fresh, DELTA).distance
        true.append(truth)
        seen.append(judged.distance)
        upper.append(judged.upper)
        holds.append(truth <= judged.upper)
    name = "yes/no, continuous x, 10 % leverage"
    return (name, n, np.mean(true), np.mean(seen), np.mean(upper), "", np.mean(holds), "")


def rounded(to):
    return lambda y: to * np.round(y / to)


MANY = np.linspace(-1, 1, 301)
PRIOR = Cells.from_counts(
    [[1.0, 0.0], [1.0, 1.0]], [2900, 3400], [0.5, 0.5], names=("Intercept", "x")
)
CERTIFIED = {
    "even counts, rate 3,000": (3000, 2, [0.0], {}),
    "fives, rate 30,000": (30_000, 5, [0.0], {}),
    "all counts, rate 3": (3, 1, [0.0], {}),
    "even counts, two levels": (3000, 2, [0.0, 1.0], {}),
    "fives, two levels, bins given": (3000, 5, [0.0, 1.0], {"bins": range(0, 6000, 100)}),
    "even counts, two levels, a prior": (
        *(3000, 2, [0.0, 1.0]),
        {"alpha": 500, "base_measure": PRIOR},
    ),
    "even counts, two levels, a ridge": (3000, 2, [0.0, 1.0], {"ridge": 0.3}),
    "even counts, two levels, refined": (3000, 2, [0.0, 1.0], {"refine": "reweight"}),
    "even counts, two levels, weights": (3000, 2, [0.0, 1.0], {"weights": "w"}),
    "all counts, continuous x": (3, 1, MANY, {}),
    "even counts, continuous x": (100, 2, MANY, {}),
    "fives, continuous x, refined": (100, 5, MANY, {"refine": "reweight"}),
    "fives, continuous x, Hellinger": (100, 5, MANY, {"divergence": "hellinger"}),
}
"""Rate, what counts are rounded to, possible x (all as likely), and options of the fit."""


def certified(rng, rate, to, x, options, n=500, seed=0):
    """One data set: the true distance of the fitted half from the law, and its certificate."""
    x = np.asarray(x)
    rates = rate * np.exp(0.1 * x)
    at = rng.integers(0, len(x), n)
    y = rounded(to)(rng.poisson(rates[at])).astype(int)
    data = {"y": y, "x": x[at]}
    if "weights" in options:
        # Each different row once, with the number of its rows as its weight.
        table, times = np.unique(np.stack([y, x[at]]), axis=1, return_counts=True)
        data = {"y": table[0].astype(int), "x": table[1], "w": times}
    formula = "y ~ x" if len(x) > 1 else "y ~ 1"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tb.TVDBayesWarning)
        fit = tb.fit(formula, data, n_draws=0, seed=seed, **options).posterior
        half, _ = fitted_half(fit)
        found = misfit_split(fit, DELTA)
    return true_distance(half, x, rates, to), found


def true_distance(half, x, rates, to):
    """Between the law and a fitted model, over the groups of the fit and single outcomes."""
    reach = 9 * np.sqrt(rates.max()) + 20
    y = np.arange(max(0, (rates.min() - reach) // 10 * 10), rates.max() + reach)
    law = np.zeros((len(x), len(y)))
    place = (rounded(to)(y) - y[0]).clip(0, len(y) - 1).astype(int)
    np.add.at(law.T, place, poisson.pmf(y, rates[:, None]).T)
    table = Cells.from_rows(
        np.column_stack([np.ones(len(x)), x])[:, : 1 + (len(x) > 1)], np.zeros(len(x))
    )
    return distance_of_law(half, table, law, y)


def distance_of_law(half, table, law, y):
    """The distance between a law (n_x, outcomes) and a fitted model, over the groups of the fit.

    The x rows of the table are all as likely.
    """
    bound = half.model.bind(table, half.cells)
    eta = bound.eta(bound.from_user(half.minimiser[:, None]))
    gap = (law - half.model.family.pmf(y, eta, table.trials[:, None])) / table.n_x
    found = []
    for labels in half.partition.group(table).groups:
        total = np.zeros((labels.max() + 1, len(y)))
        np.add.at(total, labels, gap)
        # Mass of the model beyond the outcomes that are listed is where the law has none.
        found.append(np.maximum(total, 0).sum())
    return np.mean(found)


def certificates(n_runs=60):
    lines = []
    for name, setting in CERTIFIED.items():
        rng = np.random.default_rng(811)
        runs = [certified(rng, *setting, seed=seed) for seed in range(n_runs)]
        true = np.array([truth for truth, _ in runs])
        upper = np.array([found.upper for _, found in runs])
        seen = np.mean([found.distance for _, found in runs])
        lines.append((name, true.mean(), seen, upper.mean(), np.mean(true <= upper)))
    Table(
        "bounds_certificate",
        "bounds",
        "Certificates of fits, 95 %: one half of 500 rows is fitted with the options of the fit, "
        "and the other half judges it (`misfit_split`, `fit.misfit(certificate=)`). Poisson "
        "counts, recorded rounded to even numbers or to fives: laws that bins of neighbouring "
        "counts cannot tell from a Poisson law. The true distance of the fitted half from the law "
        "(exact, over single outcomes and, with continuous x, groups), what is seen of it, the "
        f"bound, and how often the bound holds. {n_runs} data sets each.",
        ("data", "true", "seen", "bound", "holds"),
        lines,
    ).publish()


TRIPLES = {
    "flat, 4 x 3": (4, 3, 1.0),
    "flat, 2 x 2": (2, 2, 1.0),
    "spiky, 4 x 3": (4, 3, 0.1),
    "spiky, 2 x 2": (2, 2, 0.1),
    "spiky, 10 x 5": (10, 5, 0.1),
    "very spiky, 3 x 2": (3, 2, 0.02),
}


def moves(share, n_x, n_y, alpha, rng, n_runs):
    """Changes of the distance when a random law is contaminated by another."""
    x, q_x = rng.dirichlet(np.full(n_x, alpha), (2, n_runs))
    f_0, f, q = rng.dirichlet(np.full(n_y, alpha), (3, n_runs, n_x))
    flat = lambda marginal, law: (marginal[..., None] * law).reshape(n_runs, -1)  # noqa: E731
    clean = tvd(flat(x, f_0), flat(x, f))
    wrong = (1 - share) * flat(x, f_0) + share * flat(q_x, q)
    seen_x = (1 - share) * x + share * q_x
    return tvd(wrong, flat(seen_x, f)) - clean, tvd(wrong, flat(x, f)) - clean


def sharp(share):
    """The law, model and contamination at which the lower end is attained."""
    root = np.sqrt(share)
    x = np.array([1, root]) / (1 + root)
    f_0, f = np.array([[1.0, 0], [0, 1]]), np.array([[0, 1.0], [root, 1 - root]])
    q = np.array([[0, 0], [1.0, 0]])
    wrong = (1 - share) * x[:, None] * f_0 + share * q
    seen = tvd(wrong.ravel(), (wrong.sum(1)[:, None] * f).ravel())
    return seen - tvd((x[:, None] * f_0).ravel(), (x[:, None] * f).ravel())


def robustness(n_runs=50_000):
    lines = []
    for share in (0.05, 0.1, 0.3):
        free, given = (robustness_radius(share, kind) for kind in (True, False))
        for name, shape in TRIPLES.items():
            rng = np.random.default_rng(805)
            seen, known = moves(share, *shape, rng, n_runs)
            # The last bits of sums of masses are rounding.
            holds = (seen >= free.lower - 1e-12) & (seen <= free.upper + 1e-12)
            holds_x = np.abs(known) <= given.radius + 1e-12
            lines.append(
                (
                    *(name, share, seen.min(), seen.max(), free.lower, free.upper),
                    *(np.abs(known).max(), given.radius, holds.mean(), holds_x.mean()),
                )
            )
        lines.append(("the worst case", share, sharp(share), "", free.lower, "", "", "", "", ""))
    Table(
        "bounds_robustness",
        "bounds",
        "How far a share of wrong rows moves the distance between law and model: smallest and "
        "largest change over random laws, models and contaminations, beside the bounds of "
        "`robustness_radius`; then the same where x is untouched; and how often both hold (they "
        f"always must). {n_runs:,} triples a line.",
        (
            *("laws", "share", "lowest", "highest", "bound", "bound", "x untouched", "bound"),
            *("holds", "x untouched"),
        ),
        lines,
    ).publish()


def contaminated(y, rng, kind, share):
    bad = rng.random(len(y)) < share
    y = y.astype(float)
    y[bad] = {"none": y[bad], "far": 40.0, "+3": y[bad] + 3, "zero": 0.0, "flip": 1 - y[bad]}[kind]
    return y, bad


def rates(kind, family, theta, n=200, share=0.15):
    def make(rng):
        eta = np.repeat(np.asarray(theta)[:, None], n, axis=1)
        y, _ = contaminated(family.sample(rng, eta, np.ones(n)), rng, kind, share)
        return Model(family), Cells.from_rows(np.ones((n, 1)), y), np.asarray(theta, float)

    return make


def regression(kind, family, n=500, share=0.1):
    def make(rng):
        x = np.column_stack([np.ones(n), rng.integers(0, 4, n)])
        theta = np.array([0.3, 0.4])
        y, bad = contaminated(family.sample(rng, (x @ theta)[None], np.ones(n)), rng, kind, share)
        x[bad, 1] = 3
        return Model(family), Cells.from_rows(x, y), theta

    return make


SETS = {
    "Poisson(3), n=200, none": (rates("none", Poisson(), [np.log(3)]), 0.15, 600),
    "Poisson(3), n=200, far": (rates("far", Poisson(), [np.log(3)]), 0.15, 600),
    "Poisson(3), n=200, +3": (rates("+3", Poisson(), [np.log(3)]), 0.15, 600),
    "Poisson(3), n=200, zero": (rates("zero", Poisson(), [np.log(3)]), 0.15, 600),
    "Poisson(3), n=200, none, share 0": (rates("none", Poisson(), [np.log(3)]), 0.0, 600),
    "negative binomial (heavy tail), far": (
        rates("far", NegativeBinomial(), [1.0, 0.0]),
        0.15,
        200,
    ),
    "Poisson, 4 levels, +3 at the last": (regression("+3", Poisson()), 0.1, 200),
    "yes/no, 4 levels, flipped at the last": (regression("flip", Bernoulli()), 0.1, 200),
}


def parameter_sets(at_most, n_widths):
    lines = []
    for name, (make, share, wanted) in SETS.items():
        inside, n_runs = [], min(wanted, at_most)
        for number in range(n_runs):
            model, cells, theta = make(np.random.default_rng([806, number]))
            found = parameter_set(model, cells, share, DELTA, theta=theta, seed=number)
            inside.append(found.inside[0])
        widths = []
        for number in range(n_widths if "Poisson(3)" in name else 0):
            model, cells, _ = make(np.random.default_rng([806, number]))
            found = parameter_set(model, cells, share, DELTA)
            widths.append(np.exp(found.high[0]) - np.exp(found.low[0]))
        rate = np.mean(inside)
        width = np.mean(widths) if widths else ""
        lines.append((name, share, n_runs, rate, np.sqrt(rate * (1 - rate) / n_runs), width))
        print(lines[-1], flush=True)
    Table(
        "bounds_parameter_set",
        "bounds",
        "How often the certified set (`parameter_set`, 95 %) holds the true parameters, with the "
        "Monte-Carlo error, and its mean width on the scale of the rate in five data sets.",
        ("data", "share assumed", "sets", "covers", "error", "width"),
        lines,
    ).publish()


KERNELS = {
    "truth, h=.2": ((-1, 3), 0.2, 500),
    "truth, h=.05": ((-1, 3), 0.05, 500),
    "truth, h=.01": ((-1, 3), 0.01, 500),
    "half the slope, h=.1": ((0, 1.5), 0.1, 500),
    "half the slope, h=.01": ((0, 1.5), 0.01, 2000),
    "slope 0, h=.05": ((0.5, 0), 0.05, 200),
}


def smoothed_truth(theta, h, size=200_001):
    """The distance between smoothed law and smoothed model, and between law and model."""
    logistic = lambda eta: 1 / (1 + np.exp(-eta))  # noqa: E731
    x = np.linspace(-h, 1 + h, size)
    grow = lambda eta: np.logaddexp(0, eta) / 3  # noqa: E731
    low, high = np.maximum(x - h, 0), np.minimum(x + h, 1)
    yes = (grow(-1 + 3 * high) - grow(-1 + 3 * low)) / (2 * h)
    mass = (high - low) / (2 * h)
    step = x[1] - x[0]
    f = logistic(theta[0] + theta[1] * x)
    inside = np.linspace(0, 1, size)
    apart = np.abs(logistic(-1 + 3 * inside) - logistic(theta[0] + theta[1] * inside)).mean()
    return np.abs(yes - mass * f).sum() * step, apart


def uniform_logit(rng, n):
    x = rng.random(n)
    y = rng.random(n) < 1 / (1 + np.exp(1 - 3 * x))
    return Cells.from_rows(np.column_stack([np.ones(n), x]), y)


def kernels(tables, n_runs=200):
    lines = []
    # x is uniform and both p(x, y) rise or fall: each varies by its jumps at the ends and between.
    ends = 1 / (1 + np.exp([1.0, -2.0]))
    smoothness = 2 * ends.max() + 2 * (1 - ends.min())
    for name, (theta, h, n) in KERNELS.items():
        rng = np.random.default_rng(807)
        smooth, true = smoothed_truth(theta, h)
        found = [
            kernel_tvd(
                Model(Bernoulli()), theta, uniform_logit(rng, n), h, delta=DELTA,
                smoothness=smoothness,
            )
            for _ in range(n_runs)
        ]  # fmt: skip
        lines.append(
            (
                name,
                n,
                smooth,
                np.mean([k.distance for k in found]),
                np.mean([smooth <= k.smoothed_upper for k in found]),
                true,
                np.mean([k.upper for k in found]),
                np.mean([true <= k.upper for k in found]),
            )
        )
    Table(
        "bounds_kernel",
        "bounds",
        "The kernel surrogate of the paper's Proposition 3 (`kernel_tvd`), logit(-1 + 3 x), x "
        "uniform: distance between smoothed law and model, its mean estimate, how often the 95 % "
        "bound on it holds; then the distance between law and model themselves, the mean bound on "
        f"that with the smoothness constant known ({smoothness:.2f}), and how often it holds. "
        f"{n_runs} data sets.",
        ("model", "n", "smoothed", "seen", "holds", "true", "bound", "holds"),
        lines,
    ).publish()
    bandwidths = (0.2, 0.05, 0.02, 0.005, 0.001, 1e-4, 1e-5, 1e-6)
    lines = []
    for n, n_sets in tables:
        rng = np.random.default_rng(808)
        made = [uniform_logit(rng, n) for _ in range(n_sets)]
        found = [[kernel_tvd(Model(Bernoulli()), (-1, 3), c, h) for h in bandwidths] for c in made]
        means = np.mean([[k.distance for k in line] for line in found], 0)
        lines.append((n, n_sets, *means, np.mean([line[0].limit for line in found])))
    Table(
        "bounds_bandwidth",
        "bounds",
        "The kernel surrogate at the truth, where the distance is 0, as the bandwidth goes to 0: "
        "it tends to one minus the mean of f(y | x), not to 0. Logit(-1 + 3 x), x uniform, means "
        "over data sets.",
        ("n", "sets", *(f"h={h:g}" for h in bandwidths), "limit"),
        lines,
    ).publish()


RATES = np.linspace(1.5, 6, 1801)
"""Rates of the Poisson model; steps of .0025."""


def convergence(sizes, n_runs=50):
    y = np.arange(60)
    models = poisson.pmf(y, RATES[:, None])
    clean = poisson.pmf(y, 3)
    far = 0.85 * clean
    far[40] += 0.15
    bin_far = 0.85 * clean + 0.15 * binom.pmf(y, 5, 0.5)
    true_far = tvd(clean, models)
    lines = []
    for n in sizes:
        rng = np.random.default_rng([809, n])
        line = [n, 1 / np.sqrt(n)]
        for law in (clean, far, bin_far):
            limit = tvd(law, models)
            seen = np.array(
                [tvd(c / n, models) for c in rng.multinomial(n, law / law.sum(), n_runs)]
            )
            near = seen <= seen.min(1, keepdims=True) + 1 / np.sqrt(n) / 10
            width = [RATES[k].max() - RATES[k].min() for k in near]
            at = RATES[seen.argmin(1)]
            best = RATES[limit <= limit.min() + 1e-12]
            off = np.maximum(best.min() - at, 0) + np.maximum(at - best.max(), 0)
            error = np.abs(seen - limit).max(1).mean()
            line += [error, off.mean(), at.std(), np.mean(width)]
            if law is far:
                line.append(np.abs(seen - true_far).max())
        lines.append(tuple(line))
    Table(
        "bounds_convergence",
        "bounds",
        "Corollaries 1 and 2 and the consistency of the minimiser, Poisson model, true rate 3. "
        "For clean data, for 15 % at 40 (far) and for 15 % binomial(5, .5) (overlapping): the "
        "largest error of the distance over all rates (tends to 0: Corollary 1, for all parameters "
        "at once), the distance of the minimiser from the set of minimisers of the law (tends to "
        "0), the standard deviation of the minimiser, and the width of the set within .1/sqrt(n) "
        "of the minimum. For far contamination also the largest change of the distance, over rates "
        "and data sets, against clean data (tends to at most .15: Corollary 2). Under far "
        "contamination every rate from 3 to 3.16 is a minimiser of the law, so neither minimiser "
        f"nor set shrink to a point: the width stays above -log(.85) = {-np.log(0.85):.4f}. Means "
        f"over {n_runs} data sets.",
        (
            *("n", "1/sqrt(n)", "clean: error", "minimiser", "sd", "set"),
            *("far: error", "minimiser", "sd", "set", "change"),
            *("overlap: error", "minimiser", "sd", "set"),
        ),
        lines,
    ).publish()


def run(quick=False):
    few = {"n_runs": 2} if quick else {}
    radii(**few)
    deviations(**few)
    misfits(2 if quick else 60, **few)
    certificates(**few)
    robustness(**few)
    kernels(((100, 1),) if quick else ((1000, 20), (10_000, 3)), **few)
    convergence((100, 400) if quick else (100, 400, 1600, 6400, 25_600, 102_400), **few)
    parameter_sets(*(2, 1) if quick else (600, 5))
