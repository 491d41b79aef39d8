"""Rows on a cluster: sums over chunks are the sums in memory, however many workers there are."""

import gc
import os
import signal
import sys
import threading
import time
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
import pytest

import tvdbayes as tb
from tvdbayes.large import fit as large
from tvdbayes.large.cluster.chunks import Chunk, Rules, spread_of
from tvdbayes.large.cluster.problems import SummedRows, UnitMasses
from tvdbayes.large.cluster.rows import AbstractRows, DaskRows, _over, _sum, _tree
from tvdbayes.large.cluster.solve import _accuracy, _groups, _penalty, solve_rows
from tvdbayes.large.cluster.sums import DataMasses, Likelihood, ModelMasses
from tvdbayes.large.cluster.weights import RowWeights
from tvdbayes.large.fit import fit_large
from tvdbayes.large.pieces import open_pieces
from tvdbayes.large.profile import DataProfile
from tvdbayes.large.record import LargeFit
from tvdbayes.large.sample import groups_for
from tvdbayes.large.used import Used
from tvdbayes.objective import Layout, Objective
from tvdbayes.objective.partitions import Bins, learn_bins
from tvdbayes.solvers import Status, newton

dask = pytest.importorskip("dask")
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
        return _tree([_over(chunk, self.rules, wanted) for chunk in self.chunks], _sum)


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
                k, part(cells, slice(at, at + chunk)), of_all[:, at : at + chunk], counted=False
            )
            for k, at in enumerate(starts)
        ]
        trials = np.unique(cells.trials)
        self.rules = Rules(model, spread_of(cells), sum(sizes), len(sizes), bins, trials, seed)
        self.rows = HeldRows(self.rules, self.chunks)
        self.layout = Layout(
            model, cells, groups, self.rules.scale_on, self.law.binary, bins, labels
        )
        draws = np.arange(N_DRAWS)
        made = [RowWeights(seed, c.number, draws).take(len(c.x), None) for c in self.chunks]
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
    table = both.groups(both.reference, both.draws).table
    there = SummedRows(both.rows, table, _penalty(both.rows, 0.0, both.reference))
    ours, theirs = there.at(theta).expansion, here.at(theta).expansion
    for name in ("merit", "grad", "hess"):
        np.testing.assert_allclose(getattr(ours, name), getattr(theirs, name), atol=1e-10)
    np.testing.assert_allclose(there.distance(theta), here.distance(theta), atol=1e-10)


def test_draws_are_those_of_a_solve_in_memory(both):
    alone, (found,) = solve_rows(both.rows, both.beta, both.beta, n_draws=N_DRAWS, ridge=RIDGE)
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
    pieces = np.concatenate([some.take(15_000, None), some.take(25_000, None)])
    np.testing.assert_array_equal(pieces, np.c_[all_draws[:, [9, 3]], np.ones(40_000)])
    assert not np.array_equal(RowWeights(1, 8, np.arange(1)).take(9, None), all_draws[:9, :1])


def test_a_row_that_counts_twice_is_that_row_twice():
    both = Both(counts)
    first = both.chunks[0]
    twice = replace(first, counts=np.full(len(first.x), 2.0))
    alone = np.array([-1])
    for wanted in (
        Likelihood(alone, both.near(1)),
        ModelMasses(alone, both.near(1)),
        DataMasses(alone),
    ):
        sums = wanted.over(first, both.rules), wanted.over(twice, both.rules)
        for once, double in zip(*sums, strict=True):
            np.testing.assert_allclose(2 * once, double, rtol=1e-12)
    gammas = RowWeights(0, 0, np.arange(8)).take(20_000, np.full(20_000, 3.0))
    assert abs(gammas.mean() - 3) < 0.03
    assert abs(gammas.var() - 3) < 0.1


def test_a_chunk_without_weight_adds_nothing():
    both = Both(yes_no)
    first = both.chunks[0]
    none = Chunk.empty(first.number, first.x.shape[1], first.groups.shape[1])
    for total in Likelihood(both.draws, both.near(N_DRAWS)).over(none, both.rules):
        assert not total.any()


def test_groups_are_capped_and_learned_on_a_sample(monkeypatch):
    monkeypatch.setattr("tvdbayes.large.sample._MOST_GROUPS", 150)
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


def same(value):
    return value


def on(client, both):
    return DaskRows(both.rules, client, client.map(same, both.chunks, pure=False))


def flat(solved):
    return np.concatenate(
        [*(s.robust.theta.ravel() for s in solved), solved[1].likelihood.theta.ravel()]
    )


def solve(rows, both):
    alone, (found,) = solve_rows(rows, both.beta, both.beta, n_draws=2, ridge=RIDGE)
    return flat((alone, found))


@dataclass(frozen=True, eq=False)
class Dying(AbstractRows):
    """Rows of a cluster one of whose workers is killed while the fifth sum is under way."""

    rules: Rules
    rows: DaskRows
    called: list[int]

    def total(self, wanted):
        self.called.append(1)
        if len(self.called) == 5:
            pid = next(iter(self.rows.client.run(os.getpid).values()))
            timer = threading.Timer(0.02, os.kill, (pid, signal.SIGKILL))
            timer.start()
            found = self.rows.total(wanted)
            timer.join()
            return found
        return self.rows.total(wanted)


def test_the_result_is_the_same_to_the_bit_wherever_rows_are(client):
    both = Both(lambda rng: yes_no(rng, 6000), chunk=1000)
    here = solve(both.rows, both)
    np.testing.assert_array_equal(solve(on(client, both), both), here)
    rows = on(client, both)
    np.testing.assert_array_equal(solve(Dying(both.rules, rows, []), both), here)
    client.wait_for_workers(2)


def wide(number, p=60, n=1 << 17):
    """A chunk of 60 MiB that is made where it is needed."""
    rng = np.random.default_rng(number)
    x = np.column_stack([np.ones(n), rng.normal(size=(n, p - 1))])
    y = (rng.random(n) < 1 / (1 + np.exp(-x[:, 1]))).astype(np.uint8)
    return Chunk(number, x, y, None, None, None, rng.integers(0, 20, (n, 1)).astype(np.uint8))


def test_rows_may_need_more_memory_than_a_worker_has(client):
    n_chunks, p = 11, 60
    names = tuple(f"x{j}" for j in range(p))
    scale = np.stack([np.r_[1.0, -np.ones(p - 1)], np.ones(p)])
    each = np.arange(2)
    scale_on = tb.Cells(scale, np.zeros(2), np.ones(2), each, np.zeros(2), np.ones(2), names)
    rules = Rules(tb.Model(tb.Bernoulli()), scale_on, 20, 1, None, np.ones(1), 0)
    limit = min(w["memory_limit"] for w in client.scheduler_info()["workers"].values())
    assert n_chunks * wide(0).x.nbytes > limit
    theta = np.zeros((p, 2))
    theta[1] = 0.5, 1.0
    wanted = ModelMasses(np.array([-1, 0]), theta)
    rows = DaskRows(rules, client, client.map(wide, range(n_chunks), pure=False))
    there = [rows.total(wanted) for _ in range(2)]
    here = HeldRows(rules, Lazily(n_chunks)).total(wanted)
    for found in there:
        np.testing.assert_array_equal(found[0], here[0])


class Lazily(list):
    """Chunks of which one exists at a time."""

    def __init__(self, n):
        super().__init__(range(n))

    def __iter__(self):
        return map(wide, range(len(self)))


def data(n=8000, seed=1):
    rng = np.random.default_rng(seed)
    a, b = rng.normal(size=(2, n))
    kind = rng.choice(["low", "mid", "high"], n)
    kind[-12:] = "rare"
    eta = 0.5 + a - 0.5 * b + 0.3 * (kind == "mid")
    y = (rng.random(n) < 1 / (1 + np.exp(-eta))).astype(int)
    bad = rng.random(n) < 0.1
    a[bad], y[bad] = rng.normal(4, 0.3, bad.sum()), 0
    return pd.DataFrame({"y": y, "a": a, "b": b, "kind": kind, "time": rng.uniform(1, 2, n)})


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    frame, where = data(), tmp_path_factory.mktemp("parts")
    for k, at in enumerate(range(0, len(frame), 3000)):
        frame[at : at + 3000].to_parquet(where / f"{k}.parquet", row_group_size=1100)
    return where


@pytest.fixture(scope="module")
def fitted(client, folder):
    return fit_large(FORMULA, folder, client=client, n_draws=8, chunk_rows=2000)


def test_a_large_fit_is_near_the_truth_and_says_what_it_is(fitted):
    assert isinstance(fitted, LargeFit)
    assert fitted.n_rows == 8000
    assert fitted.param_names == ("Intercept", "a", "b")
    truth = np.array([0.6, 1.0, -0.5])
    assert abs(fitted.estimate - truth).max() < 0.1
    assert abs(fitted.kld_estimate - truth).max() > 0.4
    assert fitted.draws.shape == fitted.kld_draws.shape == (8, 3)
    assert (fitted.status == Status.CONVERGED).all()
    assert (fitted.kld_status == Status.CONVERGED).all()
    assert ((fitted.distance > 0) & (fitted.distance < 0.3)).all()
    assert "8,000 rows" in repr(fitted)
    assert len(fitted.summary()["mean"]) == 3
    new = fitted.predict({"a": [0.0, 2.0], "b": [0.0, 0.0]})
    assert new["mean"].between(0, 1).all()
    assert fitted.effects("a").draws.shape[0] == 8


def test_a_large_fit_is_the_fit_in_memory_where_the_sample_is_everything(fitted):
    here = fitted.sample
    # The same rows in groups of the same kind; other random weights.
    np.testing.assert_allclose(fitted.estimate, here.posterior.minimiser, atol=2e-3)
    np.testing.assert_allclose(fitted.kld_estimate, here.posterior.kld_minimiser, atol=1e-6)


def test_files_and_dask_frames_give_the_same(client, fitted, tmp_path):
    frame = data()
    frame.to_csv(tmp_path / "all.csv", index=False)
    dd = pytest.importorskip("dask.dataframe")
    for source in (tmp_path / "all.csv", dd.from_pandas(frame, npartitions=3)):
        other = fit_large(FORMULA, source, client=client, n_draws=0, chunk_rows=2000)
        assert other.n_rows == fitted.n_rows
        np.testing.assert_allclose(other.estimate, fitted.estimate, atol=1e-6)
        np.testing.assert_allclose(other.kld_estimate, fitted.kld_estimate, atol=1e-6)


def test_a_level_of_a_dozen_rows_in_eight_thousand_is_known(client, folder, monkeypatch):
    monkeypatch.setattr("tvdbayes.large.sample._SAMPLE_ROWS", 2000)
    found = fit_large(
        "y ~ a + bs(b, df=4) + kind", folder, client=client, n_draws=0, exposure="time"
    )
    assert "kind[T.rare]" in found.param_names
    assert found.sample.posterior.cells.n_obs < 2200


def test_counts_and_successes(client, tmp_path):
    rng = np.random.default_rng(4)
    n = 6000
    a, trials = rng.normal(size=n), rng.choice([4, 6], n)
    count = rng.poisson(np.exp(1 + 0.5 * a))
    count[: n // 10] += 20
    hits = rng.binomial(trials, 1 / (1 + np.exp(-0.3 - a)))
    hits[: n // 10] = 0
    pd.DataFrame({"a": a, "count": count, "hits": hits, "trials": trials}).to_parquet(
        tmp_path / "all.parquet"
    )
    how = {"client": client, "n_draws": 0, "chunk_rows": 2500}
    found = fit_large("count ~ a", tmp_path, family="poisson", **how)
    np.testing.assert_allclose(found.estimate, [1.0, 0.5], atol=0.05)
    found = fit_large("hits / trials ~ a", tmp_path, family="binomial", **how)
    np.testing.assert_allclose(found.estimate, [0.3, 1.0], atol=0.15)


def spoiled(change):
    frame = data(2000)
    change(frame)
    return frame


def set_to(column, row, value):
    def change(frame):
        frame[column] = frame[column].astype(object if isinstance(value, str) else float)
        frame.loc[row, column] = value

    return change


BAD = {
    "a gap": (set_to("a", [5, 1500], np.nan), {}, tb.DataError, r"'a'.*2 of 2,000.*row 5"),
    "no number": (set_to("b", 1999, np.inf), {}, tb.DataError, r"'b'.*finite.*1 of 2,000.*1999"),
    "an outcome": (set_to("y", 700, 2), {}, tb.FamilyError, r"0 or 1; 1 of 2,000.*700"),
    "no exposure": (
        set_to("time", 3, 0.0),
        {"exposure": "time"},
        tb.DataError,
        r"'time' must be above 0; 1 of 2,000",
    ),
    "text for a number": (
        lambda frame: frame.insert(0, "w", "x"),
        {"weights": "w"},
        tb.DataError,
        "'w' must hold numbers",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_rows_are_an_error_that_counts_them(client, tmp_path, name):
    change, options, kind, words = BAD[name]
    spoiled(change).to_parquet(tmp_path / "all.parquet")
    with pytest.raises(kind, match=words):
        fit_large(FORMULA, tmp_path, client=client, chunk_rows=800, **options)


def test_too_many_levels_are_refused(client, tmp_path):
    frame = data(3000)
    frame["person"] = np.arange(3000).astype(str)
    frame.to_parquet(tmp_path / "all.parquet")
    with pytest.raises(tb.FormulaError, match="more than 1000 levels"):
        fit_large("y ~ a + person", tmp_path, client=client)
    with pytest.raises(tb.FormulaError, match="more than 1000 levels"):
        fit_large("y ~ C(a)", tmp_path, client=client)


def test_what_a_transform_makes_of_a_row_is_checked(client, tmp_path, monkeypatch):
    monkeypatch.setattr("tvdbayes.large.sample._SAMPLE_ROWS", 500)
    frame = data(3000)
    frame["time"] = frame["time"].where(frame.index != 2500, 1.5)
    frame["part"] = 1.0 - (frame.index == 2500)
    frame.to_parquet(tmp_path / "all.parquet")
    with pytest.raises(tb.DataError, match=r"log\(part\)"):
        fit_large("y ~ a + log(part)", tmp_path, client=client, chunk_rows=800)


def test_wrong_requests_are_refused_before_any_work(tmp_path, folder):
    with pytest.raises(tb.DataError, match="without CSV"):
        fit_large(FORMULA, tmp_path)
    with pytest.raises(tb.FormulaError, match="no column"):
        fit_large("y ~ absent", folder)
    with pytest.raises(tb.FormulaError):
        fit_large("y ~ __import__('os').getcwd()", folder)
    with pytest.raises(tb.DataError, match="no column"):
        fit_large(FORMULA, folder, offset="absent")
    for family in ("ordinal", "negativebinomial", tb.Categorical(("a", "b"))):
        with pytest.raises(tb.FamilyError, match="several predictors"):
            fit_large(FORMULA, folder, family=family)
    with pytest.raises(tb.FamilyError, match="trials"):
        fit_large(FORMULA, folder, family="binomial")
    for option in ({"n_draws": -1}, {"seed": 0.5}, {"chunk_rows": 0}, {"n_draws": True}):
        with pytest.raises(tb.SettingsError, match=next(iter(option))):
            fit_large(FORMULA, folder, **option)
    with pytest.raises(tb.DataError, match="Dask DataFrame"):
        fit_large(FORMULA, data(100))
    with pytest.raises(tb.SettingsError, match=r"distributed\.Client"):
        fit_large(FORMULA, folder, client="here")


def test_a_missing_extra_is_named(monkeypatch, folder):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(tb.SettingsError, match=r"pip install 'tvdbayes\[dask\]'"):
        fit_large(FORMULA, folder)


def test_lines_of_csv_are_read_once_wherever_they_are_cut(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"y": rng.integers(0, 2, 400), "a": rng.normal(size=400).round(3)})
    frame.to_csv(tmp_path / "all.csv", index=False)
    for rows in (1, 2, 7):
        pieces = open_pieces(tmp_path / "all.csv", rows)
        read = pd.concat([part.read(["a", "y"]) for part in pieces.parts], ignore_index=True)
        pd.testing.assert_frame_equal(read[["y", "a"]].astype(float), frame.astype(float))
    (tmp_path / "quoted.csv").write_text('y,a\n0,"two\nlines"\n' * 3)
    pieces = open_pieces(tmp_path / "quoted.csv", 1)
    assert len(pieces.parts) == 1
    (tmp_path / "none.csv").write_text("y,a\n")
    with pytest.raises(tb.DataError, match="0 rows"):
        open_pieces(tmp_path / "none.csv", 1)


def test_rows_of_parquet_are_cut_across_groups_and_files(folder):
    frame = data()
    for rows in (250, 1100, 50_000):
        parts = open_pieces(folder, rows).parts
        read = [part.read(["b", "kind"]) for part in parts]
        assert {len(piece) for piece in read[:-1]} <= {rows}
        whole = pd.concat(read, ignore_index=True)
        assert whole["b"].equals(frame["b"])
        assert whole["kind"].tolist() == frame["kind"].tolist()


def test_profiles_of_pieces_add_up_to_the_profile_of_all():
    frame = data(3000)
    frame.loc[[10, 2900], "a"] = np.nan
    used = Used(
        outcome="y",
        terms=("a", "b", "kind"),
        levels=frozenset(),
        calculated=frozenset(),
        uncoded=frozenset({"a", "b", "kind"}),
        offset=None,
        exposure="time",
        trials=None,
        weights=None,
    )
    law = tb.Bernoulli()
    whole = DataProfile.at(frame, used, law)
    pieces = DataProfile.join(
        [DataProfile.at(frame[at : at + 700], used, law) for at in range(0, 3000, 700)]
    )
    assert pieces.n_rows == whole.n_rows
    for name, column in whole.columns.items():
        other = pieces.columns[name]
        gaps, others = column.faults["gaps"], other.faults["gaps"]
        assert (column.kind, gaps.n) == (other.kind, others.n)
        assert not gaps.n or gaps.row == others.row == 10
        assert column.ends == other.ends
        assert {k: set(v) for k, v in column.levels.items()} == {
            k: set(v) for k, v in other.levels.items()
        }


# What a review found


def test_rows_without_weight_tell_nothing_of_the_data(client, tmp_path, monkeypatch):
    """Their levels and smallest outcomes are in no sample, and must not be needed."""
    monkeypatch.setattr("tvdbayes.large.sample._SAMPLE_ROWS", 300)
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.normal(size=4000), "c": rng.poisson(30, 4000), "w": 1})
    frame["g"] = rng.choice(["u", "v"], 4000)
    frame.loc[0, ["c", "w"]] = 0
    frame.loc[2500:2520, "g"], frame.loc[2500:2520, "w"] = "r", 0
    far = rng.choice(np.arange(10, 2000), 20, replace=False)
    frame.loc[far, "c"] = rng.integers(1, 9, 20)
    frame.to_parquet(tmp_path / "rows.parquet")
    how = {"family": "poisson", "weights": "w", "n_draws": 2}
    found = fit_large("c ~ x + g", tmp_path, client=client, chunk_rows=2000, **how)
    here = tb.fit("c ~ x + g", frame, **how)
    np.testing.assert_allclose(found.kld_estimate, here.posterior.kld_minimiser, atol=1e-5)
    np.testing.assert_allclose(found.estimate, here.posterior.minimiser, atol=0.02)


def test_lines_that_are_too_long_are_refused(client, tmp_path):
    lines = [f"{j % 2},{j},ok" for j in range(2000)]
    lines[:500] = [f"{j % 2},{j},5,ok" for j in range(500)]
    (tmp_path / "c.csv").write_text("\n".join(["y,x,note", *lines]) + "\n")
    with pytest.raises(tb.DataError, match="more values than its first line"):
        fit_large("y ~ x", tmp_path / "c.csv", client=client, n_draws=0)


@pytest.mark.parametrize("stage", ["draw_sample", "_chunks"])
def test_data_that_change_are_noticed_and_nothing_stays(client, tmp_path, monkeypatch, stage):
    path = tmp_path / "c.csv"
    data(1000).to_csv(path, index=False)
    real = getattr(large, stage)

    def after_a_change(*given):
        data(990).to_csv(path, index=False)
        return real(*given)

    monkeypatch.setattr(large, stage, after_a_change)
    with pytest.raises(tb.DataError, match="changed while they were read"):
        fit_large("y ~ a", path, client=client, n_draws=0)
    gc.collect()
    # What is forgotten goes soon, but not at once; a test that never ends is stopped by pytest.
    while client.futures:
        time.sleep(0.1)


def test_odd_columns_and_clients_are_errors_of_ours(client, tmp_path):
    import dask.dataframe as dd

    frame = data(200)
    numbered = dd.from_pandas(frame.rename(columns={"a": 0}), npartitions=1)
    with pytest.raises(tb.DataError, match="must be text; got 0"):
        fit_large("y ~ b", numbered, client=client)
    frame.assign(a=[[1, 2]] * 200).to_parquet(tmp_path / "lists.parquet")
    with pytest.raises(tb.DataError):
        fit_large("y ~ a", tmp_path / "lists.parquet", client=client)
    with pytest.raises(tb.DataError, match="In the sample of 200 rows"):
        fit_large("y ~ a + I(2 * a)", dd.from_pandas(frame, npartitions=1), client=client)
