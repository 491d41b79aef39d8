"""Rows that stay with Dask: sums over chunks are the sums in memory, however many there are."""

import os
import pickle
import signal
import threading
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pandas as pd
import pytest
from scipy.stats import gamma, kstest

import tvdbayes as tb
from bits import same_bits
from test_weights_and_answers import ANSWERS
from tvdbayes.data.sample import sampled
from tvdbayes.data.table import Wanted
from tvdbayes.large.chunks import Chunk, Rules, spread_of
from tvdbayes.large.problems import RowMasses, SummedRows, UnitMasses
from tvdbayes.large.rows import AbstractRows, DaskRows, _Held, _over
from tvdbayes.large.rules import groups_for
from tvdbayes.large.shares import Cut
from tvdbayes.large.solve import _accuracy, _groups, solve_closest
from tvdbayes.large.sums import Smallest, Sum, data_masses, likelihood, model_masses
from tvdbayes.large.weights import RowWeights
from tvdbayes.objective import Compared, Layout, Objective, Penalty
from tvdbayes.objective.partitions import Bins, learn_bins
from tvdbayes.sampling.execution._clusters import _shipped
from tvdbayes.sampling.plan import draws_of
from tvdbayes.sampling.planners import plan_of
from tvdbayes.solvers import Status, newton

dask = pytest.importorskip("dask")
dd = pytest.importorskip("dask.dataframe")
distributed = pytest.importorskip("distributed")

N_DRAWS = 5
RIDGE = 1e-4
FORMULA = "y ~ a + b"


@dataclass(frozen=True, eq=False)
class HeldRows(AbstractRows):
    """Chunks in the memory of this process."""

    rules: Rules
    chunks: object

    def total(self, wanted):
        parts = [_over(chunk, _Held(self.rules), _Held(wanted)) for chunk in self.chunks]
        while len(parts) > 1:
            parts = [wanted.joined(parts[at : at + 8]) for at in range(0, len(parts), 8)]
        return parts[0]


def yes_no(rng, n=12_000):
    x = np.column_stack([np.ones(n), rng.normal(size=(n, 3))])
    beta = np.array([0.5, 1.0, 0.3, -0.6])
    y = (rng.random(n) < 1 / (1 + np.exp(-(x @ beta)))).astype(float)
    bad = rng.random(n) < 0.1
    x[bad, 1] = rng.normal(4, 0.3, bad.sum())
    y[bad] = 0
    return tb.Bernoulli(), tb.Cells.from_rows(x, y), beta


def counts(rng, n=9000):
    x = np.column_stack([np.ones(n), rng.normal(size=(n, 2))])
    beta = np.array([1.0, 0.5, -0.3])
    offset = 0.1 * rng.normal(size=n)
    y = rng.poisson(np.exp(x @ beta + offset)).astype(float)
    y[: n // 10] += 20
    return tb.Poisson(), tb.Cells.from_rows(x, y, offset=offset), beta


def successes(rng, n=9000):
    x = np.column_stack([np.ones(n), rng.normal(size=(n, 2))])
    beta, trials = np.array([0.2, 0.8, -0.5]), rng.choice([3, 5, 8], n)
    y = rng.binomial(trials, 1 / (1 + np.exp(-(x @ beta)))).astype(float)
    y[: n // 10] = 0
    return tb.Binomial(), tb.Cells.from_rows(x, y, trials=trials), beta


def probit(rng, n=8000):
    _, cells, beta = yes_no(rng, n)
    return tb.Bernoulli(tb.Probit()), cells, beta / 1.7


DESIGNS = (yes_no, counts, successes, probit)


class Both:
    """The same data as chunks and as one table, with the same weights, groups and coordinates."""

    def __init__(self, design, seed=0, chunk=2500):
        self.law, cells, self.beta = design(np.random.default_rng([5, seed]))
        assert cells.n_x == cells.n_cells
        model = tb.Model(self.law)
        groups = groups_for(cells, cells.n_obs, cells.x.shape[1], seed)
        labels = groups.group(cells)
        bins = None
        if not self.law.binary:
            seen = np.unique(cells.y)
            bins = (learn_bins(cells, labels, 100.0) or Bins(seen, seen)).filled()
        sizes = [len(c) + len(groups.common) for c in groups.centres]
        of_all = labels.groups + np.cumsum([0, *sizes[:-1]])[:, None]
        starts = range(0, cells.n_x, chunk)
        self.chunks = [
            Chunk.of(
                at, part(cells, slice(at, at + chunk)), of_all[:, at : at + chunk], counted=False
            )
            for at in starts
        ]
        trials = np.unique(cells.trials)
        compared = Compared(sum(sizes), len(sizes), bins, trials)
        self.rules = Rules(model, spread_of(cells), compared, seed)
        self.rows = HeldRows(self.rules, self.chunks)
        self.layout = Layout(
            model, cells, groups, self.rules.scale_on, self.law.binary, bins, labels
        )
        draws = np.arange(N_DRAWS)
        made = [RowWeights(seed, c.first, draws).take(len(c.x), None) for c in self.chunks]
        weights = np.concatenate(made)
        self.p = weights / weights.sum(0)
        self.draws = draws
        self.reference = self.rules.bound.from_user(self.beta[:, None])[:, 0]

    def groups(self, reference, draws):
        alone = UnitMasses.make(self.rows, np.array([-1]))
        goal = _accuracy(self.rows, alone)
        problem = _groups(self.rows, alone, RIDGE, reference, goal)
        return replace(problem, table=UnitMasses.make(self.rows, draws, alone.units))

    def near(self, n):
        away = np.random.default_rng(6).normal(size=(self.reference.size, n))
        return self.reference[:, None] + 0.1 * away


def part(cells, rows):
    y = cells.y[rows]
    return tb.Cells(
        cells.x[rows],
        cells.offset[rows],
        cells.trials[rows],
        np.arange(len(y)),
        y,
        np.ones(len(y)),
        cells.names,
    )


@pytest.fixture(scope="module", params=DESIGNS, ids=lambda design: design.__name__)
def both(request):
    return Both(request.param)


def test_distances_and_gradients_are_those_in_memory(both):
    theta, tau = both.near(N_DRAWS), np.full(N_DRAWS, 1e-3)
    there = both.groups(both.reference, both.draws)
    here = Objective(both.layout, tb.TVD(), RIDGE, reference=both.reference).on(both.p)
    np.testing.assert_allclose(there.distance(theta), here.distance(theta), atol=1e-12)
    ours, theirs = there.at(theta), here.at(theta)
    np.testing.assert_allclose(ours.merit(tau), theirs.merit(tau), atol=1e-12)
    np.testing.assert_allclose(
        np.sort(ours.mass, axis=0), np.sort(theirs.model_mass, axis=0), atol=1e-12
    )
    grad = ours.expand(tau, None).grad
    np.testing.assert_allclose(grad, theirs.expand(tau, None).grad, atol=1e-10)


def test_the_likelihood_is_that_in_memory(both):
    theta = both.near(N_DRAWS)
    here = Objective(both.layout, tb.KLD(), reference=both.reference).on(both.p)
    masses = RowMasses.make(both.rows, both.draws)
    penalty = Penalty.make(0.0, both.rules.bound, both.reference)
    there = SummedRows(both.rows, masses, penalty)
    ours, theirs = there.at(theta).expansion, here.at(theta).expansion
    for name in ("merit", "grad", "hess"):
        np.testing.assert_allclose(getattr(ours, name), getattr(theirs, name), atol=1e-10)
    np.testing.assert_allclose(there.distance(theta), here.distance(theta), atol=1e-10)


def test_draws_are_those_of_a_solve_in_memory(both):
    alone, (found,) = solve_closest(both.rows, both.beta, both.beta, n_draws=N_DRAWS, ridge=RIDGE)
    bound = both.rules.bound
    same = np.ones(N_DRAWS)
    goal = _accuracy(both.rows, UnitMasses.make(both.rows, np.array([-1])))
    reference = bound.from_user(alone.robust.theta)
    objective = Objective(both.layout, tb.TVD(), RIDGE, reference=reference[:, 0])
    here = newton(objective.on(both.p), reference * same, tau=goal.begin, accuracy=goal)
    assert (found.robust.status == Status.CONVERGED).all()
    np.testing.assert_allclose(found.robust.theta, bound.to_user(here.theta), atol=1e-6)
    plain = bound.from_user(alone.likelihood.theta)
    twin = Objective(both.layout, tb.KLD(), reference=plain[:, 0]).on(both.p)
    ordinary = newton(twin, plain * same)
    np.testing.assert_allclose(found.likelihood.theta, bound.to_user(ordinary.theta), atol=1e-6)


def test_weights_are_exponential_and_depend_on_draw_and_row_alone():
    all_draws = RowWeights(1, 7, np.arange(20)).take(40_000, None)
    assert abs(all_draws.mean() - 1) < 0.005
    assert abs(all_draws.var() - 1) < 0.02
    assert abs(np.corrcoef(all_draws.T) - np.eye(20)).max() < 0.03
    some = RowWeights(1, 7, np.array([9, 3, -1]))
    pieces = np.concatenate([some.take(15_001, None), some.take(24_999, None)])
    np.testing.assert_array_equal(pieces, np.c_[all_draws[:, [9, 3]], np.ones(40_000)])
    for first in (8, 5000, 16_384 + 7, 20_000):
        later = RowWeights(1, first, np.arange(20)).take(9000, None)
        np.testing.assert_array_equal(later, all_draws[first - 7 : first - 7 + 9000])
    assert not np.array_equal(RowWeights(2, 7, np.arange(1)).take(9, None), all_draws[:9, :1])


def test_coordinates_and_the_ridge_are_those_of_the_table():
    """The ridge penalises the variance of the linear predictor, so columns must correlate."""
    rng = np.random.default_rng(0)
    x = np.column_stack([np.ones(500), rng.normal(size=(500, 4)) @ rng.normal(size=(4, 4))])
    cells = tb.Cells.from_rows(x, rng.integers(0, 2, 500), weights=rng.integers(1, 4, 500))
    model = tb.Model(tb.Bernoulli())
    few, all_rows = model.bind(cells, spread_of(cells)), model.bind(cells, cells)
    theta = rng.normal(size=(5, 3))
    np.testing.assert_allclose(few.eta(theta), all_rows.eta(theta), rtol=1e-10)
    ours, theirs = few.ridge_gradient(theta), all_rows.ridge_gradient(theta)
    np.testing.assert_allclose(ours, theirs, atol=1e-10)


def test_a_row_that_counts_twice_is_that_row_twice():
    both = Both(counts)
    first = both.chunks[0]
    twice = replace(first, counts=np.full(len(first.x), 2.0))
    alone = np.array([-1])
    for wanted in (
        Sum(likelihood, alone, (both.near(1),)),
        Sum(model_masses, alone, (both.near(1),)),
        Sum(data_masses, alone),
    ):
        sums = wanted.over(first, both.rules), wanted.over(twice, both.rules)
        for once, double in zip(*sums, strict=True):
            np.testing.assert_allclose(2 * once, double, rtol=1e-12)


@pytest.mark.parametrize("count", [0.05, 0.5, 1.0, 1.5, 3.0, 40.0, 1e7])
def test_weights_of_rows_that_stand_for_several_are_gamma(count):
    made = RowWeights(0, 0, np.arange(8)).take(20_000, np.full(20_000, count))
    assert kstest(made.ravel(), gamma(count).cdf).pvalue > 1e-3
    assert abs(np.corrcoef(made.T) - np.eye(8)).max() < 0.03


def test_weights_of_counted_rows_depend_on_draw_row_and_count_alone():
    counts = np.random.default_rng(0).choice([0.5, 1.0, 2.0, 7.0], 40_000)
    every = RowWeights(1, 7, np.arange(20)).take(40_000, counts)
    some = RowWeights(1, 7, np.array([9, 3, -1]))
    pieces = [some.take(15_001, counts[:15_001]), some.take(24_999, counts[15_001:])]
    np.testing.assert_array_equal(np.concatenate(pieces), np.c_[every[:, [9, 3]], counts])
    for first in (8, 5000, 16_384 + 7, 20_000):
        rows = slice(first - 7, first - 7 + 9000)
        later = RowWeights(1, first, np.arange(20)).take(9000, counts[rows])
        np.testing.assert_array_equal(later, every[rows])
    plain = RowWeights(1, 7, np.arange(20)).take(40_000, None)
    np.testing.assert_array_equal(every[counts == 1], plain[counts == 1])


def test_records_that_arrive_at_odd_addresses_are_moved():
    """Else NumPy adds up their rows in another order."""
    both = Both(counts)
    sent = []
    held = _Held(both.chunks[0])
    data = pickle.dumps(held, protocol=5, buffer_callback=lambda part: sent.append(part.raw()))
    odd = [memoryview(bytearray(b"0" + bytes(part)))[1:] for part in sent]
    assert len(odd) > 2
    chunk = pickle.loads(data, buffers=odd).value
    assert chunk.x.flags.aligned
    assert chunk.x.tobytes() == both.chunks[0].x.tobytes()
    work = _shipped(partial(np.add, np.frombuffer(bytearray(17), float, 2, 1)))
    assert work.args[0].flags.aligned


def test_groups_are_capped_and_learned_on_a_sample(monkeypatch):
    monkeypatch.setattr("tvdbayes.large.rules._MOST_GROUPS", 150)
    _, cells, _ = yes_no(np.random.default_rng(0), 3000)
    many = groups_for(cells, 1e9, 4, 0)
    assert sorted(set(map(len, many.centres))) == [75, 150]
    few = groups_for(cells, cells.n_obs, 4, 0)
    same = tb.KMeansGroups().learn(cells, 4, 0)
    assert [len(c) for c in few.centres] == [len(c) for c in same.centres]


@pytest.fixture(scope="module")
def client():
    # A worker that pauses for want of memory may never go on; one that is ended is replaced.
    with (
        dask.config.set({"distributed.worker.memory.pause": False}),
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=":0", memory_limit="600MB"
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


def on_dask(both):
    hold = dask.delayed(same, pure=False)
    chunks = dask.persist(*(hold(_Held(chunk)) for chunk in both.chunks))
    return DaskRows(both.rules, chunks, dask.delayed(_Held(both.rules), pure=False))


def same(held):
    return held.value


def solve(rows, both):
    alone, (found,) = solve_closest(rows, both.beta, both.beta, n_draws=2, ridge=RIDGE)
    parts = (alone.robust.theta, found.robust.theta, found.likelihood.theta)
    return np.concatenate([part.ravel() for part in parts])


@dataclass(frozen=True, eq=False)
class Dying(AbstractRows):
    """Rows of a cluster one of whose workers is killed while the fifth sum is under way."""

    rules: Rules
    rows: DaskRows
    client: object
    called: list[int]

    def total(self, wanted):
        self.called.append(1)
        if len(self.called) != 5:
            return self.rows.total(wanted)
        pid = next(iter(self.client.run(os.getpid).values()))
        timer = threading.Timer(0.02, os.kill, (pid, signal.SIGKILL))
        timer.start()
        found = self.rows.total(wanted)
        timer.join()
        return found


def test_the_result_is_the_same_wherever_rows_are_and_after_a_worker_has_died(client):
    both = Both(lambda rng: yes_no(rng, 6000), chunk=1000)
    here = solve(both.rows, both)
    assert np.array_equal(solve(on_dask(both), both), here)
    dying = Dying(both.rules, on_dask(both), client, [])
    assert np.array_equal(solve(dying, both), here)


def data(n=6000, seed=1):
    rng = np.random.default_rng(seed)
    a, b = rng.normal(size=(2, n))
    kind = rng.choice(["low", "mid", "high"], n)
    kind[-12:] = "rare"
    eta = 0.5 + a - 0.5 * b + 0.3 * (kind == "mid")
    y = (rng.random(n) < 1 / (1 + np.exp(-eta))).astype(int)
    bad = rng.random(n) < 0.1
    a[bad], y[bad] = rng.normal(4, 0.3, bad.sum()), 0
    frame = pd.DataFrame({"y": y, "a": a, "b": b, "kind": kind, "time": rng.uniform(1, 2, n)})
    frame["hits"] = rng.binomial(5, 1 / (1 + np.exp(-0.3 - b)))
    frame["count"] = rng.poisson(np.exp(1 + 0.5 * b))
    frame.loc[: n // 20, "count"] += 20
    frame["w"] = rng.integers(0, 3, n)
    return frame


def parts_of(frame, n=3):
    return dd.from_pandas(frame, npartitions=n, sort=False)


def of_all(formula, frame, n_parts=3, scheduler="threads", **how):
    with dask.config.set(scheduler=scheduler):
        return tb.fit(formula, parts_of(frame, n_parts), max_cells=500, **how)


FITS = {
    "yes/no": ("y ~ a + b + kind", {"family": "bernoulli"}),
    "probit": ("y ~ a + b", {"family": "bernoulli", "link": "probit"}),
    "counts": ("count ~ b", {"family": "poisson", "exposure": "time"}),
    "weighted": ("y ~ a + b", {"family": "bernoulli", "weights": "w"}),
    "successes": ("hits / 5 ~ b", {"family": "binomial"}),
    "names": ("kind ~ b", {"family": "categorical"}),
}


@pytest.mark.parametrize("name", FITS)
def test_where_the_sample_is_everything_the_estimate_is_that_in_memory(name):
    formula, how = FITS[name]
    if name == "successes":
        formula, how = "hits ~ b", {**how, "trials": 5}
    frame = data(3000)
    here = tb.fit(formula, frame, n_draws=0, **how)
    found = of_all(formula, frame, n_draws=2, **how)
    assert found.sample_fit is not None
    np.testing.assert_allclose(found.posterior.minimiser, here.posterior.minimiser, atol=1e-9)
    np.testing.assert_allclose(
        found.posterior.kld_minimiser, here.posterior.kld_minimiser, atol=1e-9
    )
    kept, same_rows = found.posterior.kept_rows, here.posterior.kept_rows
    # Counts that no row has belong to the one below them: masses of 1e-7 for these few.
    atol = 1e-5 if name == "counts" else 1e-9
    np.testing.assert_allclose(kept.share, same_rows.share, atol=atol)


@pytest.mark.parametrize("n", [3000, pytest.param(100_000, marks=pytest.mark.slow)])
def test_the_draws_are_those_in_memory_under_the_same_weights(n):
    """From estimate and rows kept to draws, by the plan that makes them in memory."""
    frame = data(n)
    found = of_all("y ~ a + b", frame, family="bernoulli", n_draws=6)
    here = tb.fit("y ~ a + b", frame, family="bernoulli", n_draws=2).posterior
    plan = plan_of(here)
    still = np.zeros(3)
    start = replace(
        plan.start,
        robust_draws=replace(plan.start.robust_draws, shift=still),
        likelihood_draws=replace(plan.start.likelihood_draws, shift=still),
    )
    plan = replace(plan, start=start)
    x = np.column_stack([np.ones(len(frame)), frame["a"], frame["b"]])
    cell = {tuple(row): number for number, row in enumerate(here.cells.x)}
    order = [cell[tuple(row)] for row in x]
    p = np.empty((len(frame), 6))
    p[order] = RowWeights(0, 0, np.arange(6)).take(len(frame), None)
    robust, likelihood = draws_of(plan, p / p.sum(0))
    np.testing.assert_allclose(found.draws, robust, atol=1e-8)
    np.testing.assert_allclose(found.kld_draws, likelihood, atol=1e-8)


@pytest.mark.parametrize("weights", [None, "w"])
@pytest.mark.parametrize("refine", ["auto", None])
def test_draws_do_not_depend_on_the_number_of_partitions(refine, weights):
    how = {"family": "bernoulli", "n_draws": 4, "refine": refine, "weights": weights}
    one, other = (of_all("y ~ a + b", data(4000), n, **how) for n in (2, 7))
    np.testing.assert_allclose(one.draws, other.draws, atol=1e-8)
    np.testing.assert_allclose(one.kld_draws, other.kld_draws, atol=1e-8)
    np.testing.assert_allclose(one.distance, other.distance, atol=1e-8)


def test_a_cluster_gives_the_same_as_threads(client):
    how = {"family": "bernoulli", "n_draws": 3}
    there = of_all("y ~ a + b", data(2000), scheduler=client, **how)
    here = of_all("y ~ a + b", data(2000), **how)
    assert same_bits(there, here)


@pytest.fixture(scope="module")
def fitted():
    return of_all("y ~ a + b", data(), family="bernoulli", n_draws=8)


def test_the_fit_says_what_it_is_and_what_it_cannot_say(fitted, tmp_path):
    assert fitted.n_rows == 6000
    assert abs(fitted.estimate - np.array([0.6, 1.0, -0.5])).max() < 0.15
    assert "6,000 rows" in repr(fitted)
    assert "Of 6,000 rows that were read" in str(fitted.summary())
    assert fitted.predict({"a": [0.0, 2.0], "b": [0.0, 0.0]})["mean"].between(0, 1).all()
    assert fitted.effects("a").draws.shape[0] == 8
    assert len(fitted.sample_fit.rows()) == 6000
    fitted.save(tmp_path / "fit.tvd")
    again = tb.load(tmp_path / "fit.tvd")
    np.testing.assert_array_equal(again.draws, fitted.draws)
    np.testing.assert_array_equal(again.sample_fit.draws, fitted.sample_fit.draws)


OF_ALL_ROWS = {
    *("bins", "contrast", "design", "distance", "draws", "effects", "encode", "estimate"),
    *("groups", "kld_draws", "left_out", "methods", "n_left_out", "n_rows", "options"),
    *("param_names", "plot", "predict", "predictions", "rounded", "sample", "seed", "status"),
    *("summary",),
}
"""Answers that rows which stay with Dask have; the others look at every row."""


@pytest.mark.parametrize("answer", ANSWERS)
def test_an_answer_works_or_points_to_the_sample(answer, fitted_to_counts):
    if answer in OF_ALL_ROWS:
        ANSWERS[answer](fitted_to_counts)
        return
    with pytest.raises(
        tb.TVDBayesError, match=r"stayed with Dask|stay with Dask|knows of no clusters"
    ):
        ANSWERS[answer](fitted_to_counts)


@pytest.fixture(scope="module")
def fitted_to_counts():
    rng = np.random.default_rng(3)
    x = np.concatenate([[0.0, 1.0, 2.0], rng.normal(1, 1, 900)])
    frame = pd.DataFrame({"y": rng.poisson(np.exp(0.5 + 0.3 * x)), "x": x})
    return of_all("y ~ x", frame, n_draws=4)


def test_plain_total_variation_is_near_that_in_memory():
    frame, how = data(4000), {"family": "bernoulli", "refine": None, "n_draws": 2}
    found, here = of_all("y ~ a + b", frame, **how), tb.fit("y ~ a + b", frame, **how)
    np.testing.assert_allclose(found.posterior.minimiser, here.posterior.minimiser, atol=1e-4)


def test_a_sample_knows_the_levels_and_the_ends_of_the_data(monkeypatch):
    monkeypatch.setattr("tvdbayes.data.sample.SAMPLE_ROWS", 500)
    frame = data(5000)
    wanted = Wanted(["y", "a", "kind"], ["y", "a", "kind"], None, "error", ())
    table = sampled(parts_of(frame, 6)[wanted.every], wanted)
    assert 500 <= len(table.rows) < 600
    assert (table.frame["kind"] == "rare").sum() == 12
    assert table.frame["a"].min() == frame["a"].min()
    assert table.frame["a"].max() == frame["a"].max()
    assert table.rest.n_kept == table.rest.n_rows == 5000
    other = sampled(parts_of(frame, 2)[wanted.every], wanted)
    pd.testing.assert_frame_equal(other.frame, table.frame)


def test_a_small_sample_leads_to_the_fit_of_all_rows(monkeypatch):
    frame, how = data(6000), {"family": "bernoulli", "n_draws": 2}
    here = tb.fit("y ~ a + b + kind", frame, **how)
    monkeypatch.setattr("tvdbayes.data.sample.SAMPLE_ROWS", 2000)
    found = of_all("y ~ a + b + kind", frame, **how)
    assert len(found.cell_of_row) < 2200
    sd = np.array([0.05, 0.04, 0.04, 0.08, 0.08, 0.6])
    assert (abs(found.estimate - here.estimate) < sd).all()
    np.testing.assert_allclose(
        found.posterior.kld_minimiser, here.posterior.kld_minimiser, atol=1e-8
    )


def test_the_most_surprising_rows_are_cut_exactly():
    rng = np.random.default_rng(0)
    tail, weights = rng.random(200).round(2) + 0.01, rng.integers(1, 3, 200).astype(float)
    wanted = Smallest(37)
    parts = [wanted._cut(tail[at : at + 30], weights[at : at + 30]) for at in range(0, 200, 30)]
    cut = Cut.after(np.zeros(1), *wanted.joined(parts), 37)
    lost = weights @ np.where(tail < cut.value - 1e-9, 1.0, 0.0)
    lost += weights @ np.where(abs(tail - cut.value) < 1e-9, 1 - cut.kept, 0.0)
    # Equal rows at the value are counted as far as they were needed.
    assert lost >= 37
    assert 0 <= cut.kept <= 1


def test_options_that_need_rows_here_are_refused():
    frame = data(1500)
    for option in (
        {"divergence": "hellinger"},
        {"refine": "reweight"},
        {"partition": "singletons"},
        {"family": "negativebinomial", "refine": None},
    ):
        with pytest.raises(tb.SettingsError, match="stay with Dask"):
            of_all("count ~ b", frame, **option)


def test_levels_that_only_unread_rows_have_are_named(monkeypatch):
    monkeypatch.setattr("tvdbayes.data.sample.SAMPLE_ROWS", 60)
    monkeypatch.setattr("tvdbayes.data.sample._MOST_LEVELS", 1)
    frame = data(3000)
    with pytest.raises(tb.DataError, match=r"In partition 2: .*not seen.*rare"):
        of_all("y ~ a + kind", frame, family="bernoulli", n_draws=0)
