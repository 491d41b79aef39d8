"""Certificates: they bound what they say they bound, for the fit that they say they judge."""

import re
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pandas as pd
import pytest
from benchmarks.bounds import distance_of_law
from scipy.stats import binom, poisson

import tvdbayes as tb
from tvdbayes import SettingsError
from tvdbayes.bounds import misfit_split, misfit_upper
from tvdbayes.bounds.misfit import fitted_half
from tvdbayes.objective.partitions import AbstractPartition, Grouping
from tvdbayes.sampling.neural.trainer import Trainer
from tvdbayes.solvers import Solution, Status

DELTA = 0.1


@dataclass(frozen=True)
class Near(AbstractPartition):
    """Two groups: x up to 1, and above."""

    name: ClassVar[str] = "near"
    thin: ClassVar[float] = 0.0
    pools_rows: ClassVar[bool] = True

    def group(self, cells):
        return Grouping(cells.x_index, np.arange(cells.n_x), (cells.x[None, :, 1] > 1).astype(int))


pytestmark = pytest.mark.filterwarnings("ignore::tvdbayes.TVDBayesWarning")


def plain(y):
    return y


def even(y):
    """Counts of which the odd ones are never seen."""
    return 2 * np.round(y / 2)


def heaped(y):
    """Counts rounded to fives."""
    return 5 * np.round(y / 5)


def law_of(rates, recorded):
    """Possible outcomes, and the law (rates, outcomes) of Poisson counts as they are recorded."""
    low, high = poisson.ppf([1e-9, 1 - 1e-9], [[rates.min()], [rates.max()]])[[0, 1], [0, 1]]
    y = np.arange(max(0, low // 10 * 10 - 10), high + 10)
    law = np.zeros((len(rates), len(y)))
    place = (recorded(y) - y[0]).clip(0, len(y) - 1).astype(int)
    np.add.at(law.T, place, poisson.pmf(y, rates[:, None]).T)
    return y, law


def rows_of(x, offset=0.0):
    """A table whose x rows are an intercept and these increasing numbers, if there are several."""
    columns = np.column_stack([np.ones(len(x)), x])[:, : 1 + (len(x) > 1)]
    return tb.Cells.from_rows(columns, np.zeros(len(x)), offset=np.full(len(x), offset))


MANY = np.linspace(-1, 1, 301)
UNSEEN = {
    "even counts": (3000, even, [0.0]),
    "rounded to fives": (30_000, heaped, [0.0]),
    "even counts, two levels": (3000, even, [0.0, 1.0]),
    "rounded to fives, two levels": (3000, heaped, [0.0, 1.0]),
    "even counts, continuous x": (100, even, MANY),
    "rounded to fives, continuous x": (100, heaped, MANY),
}
LEAST = {even: 0.5, heaped: 0.8}


@pytest.mark.parametrize("name", UNSEEN)
def test_a_certificate_sees_what_bins_cannot(name):
    rate, recorded, x = UNSEEN[name]
    x = np.array(x)
    y, law = law_of(rate * np.exp(0.1 * x), recorded)
    rng, holds = np.random.default_rng(1), []
    for seed in range(4):
        at = rng.choice(x, 300)
        seen = recorded(rng.poisson(rate * np.exp(0.1 * at)))
        formula = "y ~ x" if len(x) > 1 else "y ~ 1"
        fit = tb.fit(formula, {"y": seen, "x": at}, n_draws=0, seed=seed)
        half, _ = fitted_half(fit.posterior)
        assert half.bins is not None
        assert half.partition.pools_rows == (x is MANY or len(x) > 2)
        truth = distance_of_law(half, rows_of(x), law, y)
        assert truth > LEAST[recorded] - 0.02
        holds.append(misfit_split(fit.posterior, DELTA).upper >= truth)
    # The bound holds in every data set: what is seen is too large on average.
    assert all(holds)


# ---- the half is fitted as all rows were

RNG = np.random.default_rng(2)
N = 300
DATA = {
    "x": RNG.integers(0, 3, N).astype(float),
    "z": RNG.normal(size=N).round(3),
    "w": RNG.integers(1, 4, N),
    "years": RNG.integers(1, 4, N),
    "o": RNG.integers(0, 2, N) / 4,
    "of": RNG.integers(6, 9, N),
}
DATA["y"] = RNG.poisson(np.exp(1 + 0.3 * DATA["x"]))
DATA["y"][::15] += 12
DATA["many"] = DATA["y"] * 20 + RNG.integers(0, 20, N)
DATA["done"] = RNG.binomial(DATA["of"], 0.4)
DATA["level"] = RNG.integers(0, 3, N)


def drawn(rng, size):
    x = np.column_stack([np.ones(size), rng.integers(0, 3, size)])
    return x, rng.poisson(30, size)


BASE = tb.Cells.from_counts(
    [[1.0, 0.0], [1.0, 2.0]], [30, 40], [0.5, 0.5], names=("Intercept", "x")
)
CLUSTERS = (tb.Cluster(size=4.0, copies=2), tb.Cluster("spread", size=1.0, copies=1))
OPTIONS = {
    "nothing": ("y ~ x", {}),
    "hellinger": ("y ~ x", {"divergence": "hellinger"}),
    "power": ("y ~ x", {"divergence": tb.PowerDivergence(0.3)}),
    "kld": ("y ~ x", {"divergence": "kld"}),
    "density power": ("y ~ x", {"divergence": tb.DensityPower(0.3)}),
    "a prior": ("y ~ x", {"alpha": 20_000, "base_measure": BASE}),
    "a prior that is drawn": (
        "y ~ x",
        {"alpha": 500, "base_measure": drawn, "n_atoms": 50},
    ),
    "a ridge": ("y ~ x", {"ridge": 0.5}),
    "no ridge on groups": ("y ~ x + z", {"ridge": 0.0, "partition": "kmeans"}),
    "no bins": ("many ~ x", {"bins": "none"}),
    "bins": ("many ~ x", {"bins": [0, 40, 90, 200]}),
    "automatic bins": ("many ~ x", {}),
    "distinct": ("y ~ z", {"partition": "distinct"}),
    "singletons": ("y ~ z", {"partition": "singletons"}),
    "kmeans": ("y ~ x + z", {"partition": "kmeans"}),
    "other clusters": ("y ~ z", {"partition": tb.KMeansGroups(CLUSTERS)}),
    "other automatic clusters": ("y ~ z", {"partition": tb.Auto(CLUSTERS)}),
    "automatic groups": ("y ~ z", {}),
    "refined": ("y ~ x", {"refine": "reweight"}),
    "refined groups": ("y ~ z", {"refine": "reweight"}),
    "weights": ("y ~ x", {"weights": "w"}),
    "exposure": ("y ~ x", {"exposure": "years"}),
    "offset": ("y ~ x", {"offset": "o"}),
    "trials": ("done ~ x", {"family": "binomial", "trials": "of"}),
    "a family": ("y ~ x", {"family": "negativebinomial"}),
    "a family with options": ("y ~ x", {"family": tb.ZeroInflated(tb.Poisson())}),
    "predictors": (
        "y ~ x",
        {"family": "zero_inflated_poisson", "predictors": {"inflation": "1 + x"}},
    ),
    "levels": ("level ~ x", {"family": "categorical"}),
    "a link": ("done ~ x", {"family": "binomial", "trials": "of", "link": "probit"}),
    "seed": ("y ~ z", {"seed": 5}),
    "a network": ("y ~ z", {"network": (3,)}),
    "a network that is not refined": ("y ~ z", {"network": (2, 2), "refine": None}),
}


def frame_of(cells, formula):
    """Rows that make up a table, with its counts as weights."""
    rows = cells.x_index
    columns = {name: cells.x[rows, j] for j, name in enumerate(cells.names)}
    outcome = formula.split(" ~ ")[0]
    more = {"years": np.round(np.exp(cells.offset[rows])), "o": cells.offset[rows]}
    whole = {outcome: cells.y.astype(int), "w": cells.counts, "of": cells.trials[rows].astype(int)}
    return {**columns, **more, **whole}


def assert_same_fit(one, other):
    assert np.array_equal(one.minimiser, other.minimiser)
    assert np.array_equal(one.kld_minimiser, other.kld_minimiser)
    for name in ("ridge", "refine", "groups", "divergence", "minimiser_distance"):
        assert getattr(one, name) == getattr(other, name)
    assert (one.bins is None) == (other.bins is None)
    if one.bins is not None:
        assert np.array_equal(one.bins.lows, other.bins.lows)
    assert one.options.partition == other.options.partition
    assert one.model.predictor == other.model.predictor


def stay(_, __, ___, start, *____):
    """Networks stay where they begin: JAX takes seconds to compile for each new table."""
    none = np.zeros(start.shape[1])
    status = np.full(none.size, int(Status.TRAINED))
    return Solution(start, none, status, none.astype(int), none, none)


@pytest.mark.parametrize("name", OPTIONS)
def test_the_half_is_what_a_fit_of_these_rows_gives(name, monkeypatch):
    monkeypatch.setattr(Trainer, "train", stay)
    formula, options = OPTIONS[name]
    posterior = tb.fit(formula, DATA, n_draws=0, **options).posterior
    half, second = fitted_half(posterior)
    assert half.cells.n_obs + second.n_obs == posterior.cells.n_obs
    direct = tb.fit(
        formula, frame_of(half.cells, formula), n_draws=0, **{**options, "weights": "w"}
    )
    assert_same_fit(half, direct.posterior)


@pytest.mark.parametrize(
    ("name", "plainly"),
    [
        ("a prior", "nothing"),
        ("a prior that is drawn", "nothing"),
        ("a ridge", "nothing"),
        ("bins", "automatic bins"),
        ("no bins", "automatic bins"),
        ("other clusters", "automatic groups"),
        ("distinct", "automatic groups"),
        ("no ridge on groups", "kmeans"),
        ("refined", "nothing"),
    ],
)
def test_every_option_moves_the_model_that_is_judged(name, plainly):
    with_option, without = (
        # Groups and bins say which model is closest, and hardly move one that trims few rows.
        fitted_half(
            tb.fit(OPTIONS[k][0], DATA, n_draws=0, **{"refine": None, **OPTIONS[k][1]}).posterior
        )[0]
        for k in (name, plainly)
    )
    assert not np.array_equal(with_option.minimiser, without.minimiser)


@pytest.mark.parametrize("formula", ["y ~ 1", "many ~ x", "y ~ z"])
def test_the_other_half_judges(formula):
    posterior = tb.fit(formula, DATA, n_draws=0).posterior
    half, second = fitted_half(posterior)
    found, direct = misfit_split(posterior), misfit_upper(half, second)
    assert (found.distance, found.slack) == (direct.distance, direct.slack)
    assert "the fitted model is within" in direct.statement


def test_a_prior_worth_many_rows_is_judged_with_the_fit():
    far = tb.fit("y ~ x", DATA, n_draws=0, alpha=20_000, base_measure=BASE).posterior
    assert misfit_split(far).distance > 0.9


def test_the_half_of_the_ordinary_twin_is_fitted_by_maximum_likelihood():
    posterior = tb.fit("many ~ z", DATA, n_draws=0, refine="reweight").posterior
    half, _ = fitted_half(posterior.twin)
    frame = frame_of(half.cells, "many ~ z")
    direct = tb.fit("many ~ z", frame, weights="w", divergence="kld", n_draws=0)
    assert np.allclose(half.minimiser, direct.posterior.kld_minimiser)
    assert not misfit_split(posterior.twin).statement.count("groups")


@pytest.mark.parametrize("name", ["bins", "other clusters", "a prior", "no ridge on groups"])
def test_a_file_keeps_how_the_half_is_fitted(name, tmp_path):
    formula, options = OPTIONS[name]
    fit = tb.fit(formula, DATA, n_draws=0, **options)
    fit.save(tmp_path / "fit.tvd")
    again = tb.load(tmp_path / "fit.tvd")
    assert_same_fit(fitted_half(again.posterior)[0], fitted_half(fit.posterior)[0])


def test_a_half_that_loses_a_level_is_refused():
    rare = {"y": DATA["y"][:40], "g": ["a"] * 39 + ["b"]}
    fits = [tb.fit("y ~ g", rare, n_draws=0, seed=seed).posterior for seed in range(8)]
    refused = []
    for fit in fits:
        try:
            misfit_split(fit)
        except SettingsError as error:
            refused.append("rare levels" in str(error))
    assert all(refused)
    assert 0 < len(refused) < len(fits)


# ---- weights are rows


def test_weights_are_rows_and_rows_of_one_cell_go_to_both_halves():
    weighted = tb.fit("y ~ x", DATA, weights="w", n_draws=0).posterior
    repeated = {name: np.repeat(DATA[name], DATA["w"]) for name in ("y", "x")}
    by_row = tb.fit("y ~ x", repeated, n_draws=0).posterior
    assert misfit_split(weighted) == misfit_split(by_row)
    heavy = tb.fit("y ~ 1", {"y": [1, 2], "w": [100, 100]}, weights="w", n_draws=0).posterior
    half, second = fitted_half(heavy)
    assert half.cells.n_cells == second.n_cells == 2
    assert half.cells.n_obs == second.n_obs == 100
    assert misfit_split(heavy).slack == pytest.approx(np.sqrt(np.log(20) / 200))


def test_weights_that_are_no_rows_are_refused():
    data = {**DATA, "w": DATA["w"] / 3}
    posterior = tb.fit("y ~ x", data, weights="w", n_draws=0).posterior
    with pytest.raises(SettingsError, match="whole numbers of rows"):
        misfit_split(posterior)


# ---- what is bounded, and what is said


def printed(text):
    return float(re.search(r"within (\d\.\d{3})", text)[1])


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("formula", ["y ~ 1", "y ~ x", "y ~ z"])
def test_the_printed_bound_is_not_below_the_bound(formula, seed):
    found = misfit_split(tb.fit(formula, DATA, n_draws=0, seed=seed).posterior)
    assert found.upper <= printed(found.statement) < found.upper + 0.001


def test_the_statement_names_the_quantity():
    alone, distinct, groups = (
        str(misfit_split(tb.fit(f"y ~ {x}", DATA, n_draws=0).posterior)) for x in ("1", "x", "z")
    )
    assert "over single outcomes;" in alone
    assert "all rows have the same covariates" in alone
    assert "over covariates and single outcomes;" in distinct
    assert "same covariates" not in distinct
    assert "over groups of covariates and single outcomes, the model averaged over" in groups
    assert "mean over 10 ways of grouping" in groups
    assert "Inside groups it may be farther away" in groups
    assert "groups were chosen without these rows" in groups
    for text in (alone, distinct, groups):
        assert "the model fitted to one half of the rows is within" in text
        assert "bins" not in text


def test_the_certificate_of_a_misfit_is_the_bound_of_the_split():
    fit = tb.fit("y ~ 1", DATA, n_draws=5)
    certificate = fit.misfit(certificate=0.999, n_replicates=20).certificate
    bound = misfit_split(fit.posterior, 0.001)
    assert certificate.upper == pytest.approx(bound.upper)
    assert "With probability 99.9% " in str(certificate)
    assert certificate.statement == bound.statement
    for wrong in (0, 1, 95, "0.95"):
        with pytest.raises(SettingsError, match="certificate must lie between 0 and 1"):
            fit.misfit(certificate=wrong, n_replicates=20)


def test_a_certificate_of_rounded_covariates_says_so():
    data = pd.DataFrame({"y": DATA["y"], "z": DATA["z"]})
    fit = tb.fit("y ~ z", data, engine="duckdb", grid=8, n_draws=3)
    assert "engine has rounded" in str(fit.misfit(certificate=0.9, n_replicates=20).certificate)


def test_the_certified_distance_is_that_of_the_table_by_hand():
    """Three rows at one x, one at another."""
    x = np.column_stack([np.ones(4), [0, 0, 0, 1]])
    cells = tb.Cells.from_rows(x, [1, 1, 4, 2])
    found = misfit_upper(tb.Model(tb.Poisson()), cells, theta=[0.5, 0.5])
    f = poisson.pmf([1, 4, 2], np.exp([0.5, 0.5, 1.0]))
    expected = np.maximum([2 / 4 - 3 / 4 * f[0], 1 / 4 - 3 / 4 * f[1], 1 / 4 - 1 / 4 * f[2]], 0)
    assert found.distance == pytest.approx(expected.sum())


def test_groups_are_judged_by_the_mass_of_each_outcome_in_each_group():
    """By hand: two groups, the model averaged over the x of each."""
    x = np.array([0.0, 0.1, 5.0, 5.1])
    cells = tb.Cells.from_rows(np.column_stack([np.ones(4), x]), [3, 4, 9, 3])
    f = poisson.pmf(np.arange(200), np.exp(1 + 0.2 * x)[:, None])
    data = np.zeros((2, 200))
    np.add.at(data, ([0, 0, 1, 1], [3, 4, 9, 3]), 0.25)
    expected = np.maximum(data - np.stack([f[:2].sum(0), f[2:].sum(0)]) / 4, 0).sum()
    found = misfit_upper(tb.Model(tb.Poisson()), cells, theta=[1, 0.2], partition=Near())
    assert found.distance == pytest.approx(expected)


def test_outcomes_of_neighbours_with_fewer_trials_have_no_mass():
    x = np.column_stack([np.ones(3), [0.0, 0.1, 5.0]])
    cells = tb.Cells.from_rows(x, [1, 6, 2], trials=[2, 6, 4])
    found = misfit_upper(tb.Model(tb.Binomial()), cells, theta=[0, 0], partition=Near())
    f = binom.pmf(np.arange(7), [[2], [6], [4]], 0.5)
    ones, sixes = (1 - f[0, 1] - f[1, 1]) / 3, (1 - f[1, 6]) / 3
    assert found.distance == pytest.approx(ones + sixes + (1 - f[2, 2]) / 3)


def test_many_pairs_are_summed_piece_by_piece(monkeypatch):
    posterior = tb.fit("y ~ z", DATA, n_draws=0).posterior
    whole = misfit_split(posterior).distance
    monkeypatch.setattr("tvdbayes.bounds._distance._ELEMENTS", 7)
    assert misfit_split(posterior).distance == pytest.approx(whole)


def test_groups_learned_on_the_judging_rows_are_refused_for_random_covariates():
    model = tb.Model(tb.Poisson())
    x = np.column_stack([np.ones(N), DATA["z"]])
    cells = tb.Cells.from_rows(x[:150], DATA["y"][:150])
    others = tb.Cells.from_rows(x[150:], DATA["y"][150:])
    with pytest.raises(SettingsError, match="learned on other rows"):
        misfit_upper(model, cells, theta=[1, 0], partition=tb.Auto())
    fixed = misfit_upper(model, cells, theta=[1, 0], partition=tb.Auto(), design="fixed")
    assert "without the outcomes of these rows" in str(fixed)
    elsewhere = tb.Auto().learn(others, 2, 0)
    free = misfit_upper(model, cells, theta=[1, 0], partition=elsewhere)
    assert free.slack == pytest.approx(2 * fixed.slack)
    repeated = tb.Cells.from_rows(np.column_stack([np.ones(N), DATA["x"]]), DATA["y"])
    distinct = misfit_upper(model, repeated, theta=[1, 0], partition=tb.Auto())
    assert distinct == misfit_upper(model, repeated, theta=[1, 0])


def test_covariates_that_vary_in_the_fitted_half_alone_count_as_varying():
    x = np.r_[np.ones(39), 2.0]
    data = {"y": np.arange(40) % 5, "x": x}
    slacks = set()
    for seed in range(8):
        fit = tb.fit("y ~ 0 + x", data, n_draws=0, seed=seed).posterior
        _, second = fitted_half(fit)
        slacks.add((second.n_x, round(misfit_split(fit).slack, 12)))
    slack = round(float(np.sqrt(2 * np.log(20) / 20)), 12)
    assert slacks == {(1, slack), (2, slack)}


# ---- coverage with options

SIMULATED = {
    "prior": {"alpha": 200, "base_measure": BASE},
    "ridge": {"ridge": 0.3},
    "bins": {"bins": [0, 10, 20, 40]},
    "refined": {"refine": "reweight"},
    "kmeans": {"partition": "kmeans"},
    "singletons": {"partition": "singletons"},
    "hellinger": {"divergence": "hellinger"},
    "weights": {"weights": "w"},
    "negative binomial": {"family": "negativebinomial"},
}


@pytest.mark.parametrize("name", SIMULATED)
def test_the_bound_holds_with_every_option(name):
    x, rng = np.arange(4.0), np.random.default_rng(3)
    y, law = law_of(np.exp(2.5 + 0.3 * x), even)
    for seed in range(3):
        at = rng.choice(x, 200)
        data = {"y": even(rng.poisson(np.exp(2.5 + 0.3 * at))).astype(int), "x": at}
        data["w"] = np.ones(200)
        posterior = tb.fit("y ~ x", data, n_draws=0, seed=seed, **SIMULATED[name]).posterior
        half, _ = fitted_half(posterior)
        judged = half if half.partition.pools_rows else replace(half, partition=tb.Distinct())
        truth = distance_of_law(judged, rows_of(x), law, y)
        assert truth > 0.3
        assert misfit_split(posterior, DELTA).upper >= truth
