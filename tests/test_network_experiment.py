"""The paper's networks: what the released script did, wrong labels, scores and reports."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import expit

from tvdbayes import Bernoulli, Model, SettingsError
from tvdbayes._array import Device
from tvdbayes.experiments import data as data_room
from tvdbayes.experiments import network as network_room
from tvdbayes.experiments.contract import AS_PUBLISHED, CORRECTED, Task
from tvdbayes.experiments.data import DataSet
from tvdbayes.experiments.network import DATA, SETTINGS, NetworkExperiment
from tvdbayes.experiments.network.labels import SCENARIOS, Scenario, logistic
from tvdbayes.experiments.network.methods import GeneralisedCrossEntropy, fewer
from tvdbayes.experiments.network.released import (
    _split,
    _start,
    outer_likelihood,
    released,
    scrambled,
)
from tvdbayes.models.predictors import MLP, Layers

# Fits of few rows or draws warn, which is beside the point here.
pytestmark = pytest.mark.filterwarnings("ignore::tvdbayes.TVDBayesWarning")


def some_rows(n=120, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 2))
    return x, rng.binomial(1, expit(2 * x[:, 0] - x[:, 1]))


# What the released script did.


def test_labels_are_indexed_by_the_place_of_rows_among_the_distinct_ones():
    x, y = some_rows()
    data = DataSet(np.concatenate([x, x[:7]]), np.concatenate([y, y[:7]]))
    rows, labels, own = scrambled(data)
    order = np.lexsort(x.T[::-1])
    np.testing.assert_array_equal(rows, x[order])
    np.testing.assert_array_equal(own, y[order])
    place = {tuple(row): number for number, row in enumerate(x[order])}
    expected = [data.y[place[tuple(row)]] for row in data.x[: len(x)]]
    np.testing.assert_array_equal(labels, expected)
    # No better than chance.
    assert abs(np.mean(labels == own) - 0.5) < 0.15


def test_rows_that_come_sorted_keep_their_labels():
    x, y = np.arange(20.0)[:, None], np.arange(20) % 2
    _, labels, own = scrambled(DataSet(x, y))
    np.testing.assert_array_equal(labels, own)


def test_the_published_likelihood_is_over_all_pairs_of_a_probability_and_a_label():
    rng = np.random.default_rng(1)
    prob, y = rng.uniform(size=(4, 9)), rng.integers(0, 2, 9)
    pairs = 1 - np.abs(prob.reshape(-1, 1) - y)
    assert outer_likelihood(prob, y) == pytest.approx(pairs.mean())
    # So it does not see which row gets which probability.
    assert outer_likelihood(prob[:, ::-1], y) == pytest.approx(pairs.mean())


def test_batches_are_those_of_the_legacy_generator_and_the_last_one_is_filled_up():
    x, y = some_rows(70)
    given = _split(x, y, 2, np.random.RandomState(3))
    w = np.random.RandomState(0).dirichlet(np.ones(70))
    np.testing.assert_array_equal(given.weights[0], w)
    first = np.random.RandomState(3).choice(70, 70, replace=True, p=w)
    np.testing.assert_array_equal(given.batches[0, :2].ravel()[:70], first)
    assert given.used[0].sum() == 64
    assert given.used[1].sum() == 6
    assert given.used.shape == given.batches.shape[1:] == (20, 64)


def test_networks_start_uniform_within_the_root_of_the_nodes_before():
    layers = Layers((4, 50, 2), False, 0, "relu")
    (first, _), (second, _) = layers.layers(_start(layers))
    assert np.abs(first).max() == pytest.approx(1 / 2, rel=0.05)
    assert np.abs(second).max() == pytest.approx(1 / np.sqrt(50), rel=0.1)


def slowly(value_and_grad, theta, rate, n_steps=20):
    """Limited-memory BFGS by its definition: an inverse curvature that is a matrix."""
    pairs, grad = [], value_and_grad(theta)[1]
    for number in range(n_steps):
        inverse = np.eye(theta.size)
        if pairs:
            s, g = pairs[-1]
            inverse *= (s @ g) / (g @ g)
        for s, g in pairs:
            turn = np.eye(theta.size) - np.outer(s, g) / (s @ g)
            inverse = turn @ inverse @ turn.T + np.outer(s, s) / (s @ g)
        length = min(1.0, 1 / np.abs(grad).sum()) if number == 0 else 1.0
        move = -rate * length * (inverse @ grad)
        before, grad = grad, value_and_grad(theta + move)[1]
        pairs.append((move, grad - before))
        theta = theta + move
    return theta


def test_the_short_descent_is_bfgs_with_fixed_steps():
    from tvdbayes.experiments.network.steps import lbfgs

    curve = np.array([[2.0, 0.3, 0.0], [0.3, 1.0, 0.2], [0.0, 0.2, 0.5]])
    start = np.array([3.0, -2.0, 1.0])

    def value_and_grad(theta):
        return 0.5 * theta @ curve @ theta + (theta**4).sum() / 4, curve @ theta + theta**3

    with Device.named("cpu:float64").here():
        found = np.asarray(lbfgs(value_and_grad, start + Device.named("cpu").put(np.zeros(3)), 0.1))
    np.testing.assert_allclose(found, slowly(value_and_grad, start, 0.1), rtol=1e-9)
    assert value_and_grad(found)[0] < value_and_grad(start)[0]


def test_the_short_descent_begins_along_the_gradient_and_ends_where_it_is_flat():
    from tvdbayes.experiments.network.steps import lbfgs

    with Device.named("cpu:float64").here():
        at = Device.named("cpu").put(np.array([3.0, -1.0]))
        # A plane has no curvature to remember, so that all steps are along its gradient.
        slope = Device.named("cpu").put(np.array([4.0, 1.0]))
        found = lbfgs(lambda theta: (slope @ theta, slope), at, 0.01)
        np.testing.assert_allclose(found, at - slope * 0.01 * (1 / 5 + 19), rtol=1e-12)
        flat = lbfgs(lambda theta: (0 * theta.sum(), 0 * theta), at, 0.01)
        np.testing.assert_array_equal(flat, at)


def test_the_network_goes_on_from_split_to_split():
    data = DataSet(*some_rows(60))
    two, one = released(data, 2, 2), released(data, 1, 2)
    for key in one:
        # The first split does not know of the second.
        assert two[key][0] == one[key][0]
        assert two[key].size == (1 if key.startswith("data|") and "class" not in key else 2)
    assert 0 <= two["TVD|pred_lik"].min() <= two["TVD|pred_lik"].max() <= 1


# Wrong labels.


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_wrong_labels_are_as_many_as_they_should_be_and_where(scenario):
    x, y = some_rows(200)
    wrong = scenario.labels(x, y, 5) != y
    assert wrong.sum() == round(scenario.share * 200)
    assert np.array_equal(scenario.labels(x, y, 5), scenario.labels(x, y, 5))
    if scenario.structured:
        assert np.all(y[wrong] == 1)
    elif scenario.share:
        assert set(y[wrong]) == {0, 1}
    if scenario.surest:
        prob = logistic(x, y, x)
        assert prob[wrong].min() >= prob[(y == 1) & ~wrong].max()


def test_at_least_half_of_a_class_stays_right():
    x, y = some_rows(200)
    y[np.flatnonzero(y)[20:]] = 0
    for scenario in (Scenario("a", 0.2, structured=True, surest=True), Scenario("b", 0.2, True)):
        assert scenario.labels(x, y, 0).sum() == 10


def test_generalised_cross_entropy_lies_between_the_likelihood_and_its_logarithm():
    log_pmf = np.linspace(-3, -0.1, 7)
    np.testing.assert_allclose(GeneralisedCrossEntropy(1e-7).loss(log_pmf), -log_pmf, rtol=1e-5)
    np.testing.assert_allclose(GeneralisedCrossEntropy(1.0).loss(log_pmf), 1 - np.exp(log_pmf))
    loss, step = GeneralisedCrossEntropy(), 1e-5
    first, second = loss.derivatives(log_pmf)
    up, down = log_pmf + step, log_pmf - step
    np.testing.assert_allclose(first, (loss.loss(up) - loss.loss(down)) / (2 * step), rtol=1e-8)
    slopes = [loss.derivatives(at)[0] for at in (up, down)]
    np.testing.assert_allclose(second, (slopes[0] - slopes[1]) / (2 * step), rtol=1e-8)


# The experiment.


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with small files in place of the paper's."""
    sources = {}
    for number, (name, source) in enumerate(data_room.SOURCES.items()):
        x, y = some_rows(60, number)
        path = tmp_path / source.file
        path.parent.mkdir(exist_ok=True)
        np.savetxt(path, np.column_stack([x, y]))
        checksum = data_room.sha256(path.read_bytes()).hexdigest()
        sources[name] = replace(source, checksum=checksum)
    monkeypatch.setattr(data_room, "SOURCES", sources)
    monkeypatch.setattr(network_room, "SOURCES", sources)
    return tmp_path


def test_tasks_are_data_sets_as_published_and_splits_corrected(folder):
    experiment = NetworkExperiment(folder)
    whole = experiment.tasks(AS_PUBLISHED, False)
    assert [(task.setting, task.number) for task in whole] == [(name, 49) for name in DATA]
    corrected = experiment.tasks(CORRECTED, False)
    assert len(corrected) == 4 * (50 + 5 * 10)
    assert {task.n_draws for task in corrected if task.setting in DATA} == {1000}
    quick = experiment.tasks(CORRECTED, True)
    assert {SETTINGS[task.setting][0] for task in quick} == {"pima", "banknote"}
    assert len(quick) == 2 * len(SCENARIOS) * 2


def test_without_jax_it_says_what_to_install(folder, monkeypatch):
    def missing(name):
        raise network_room.PackageNotFoundError(name)

    monkeypatch.setattr(network_room, "version", missing)
    with pytest.raises(SettingsError, match=r"needs JAX.*tvdbayes\[jax\]"):
        NetworkExperiment(folder).tasks(CORRECTED, True)


def test_a_corrected_split_scores_every_method(folder, monkeypatch):
    # One network for all, and a single draw, which has the shapes of the point fit: training is
    # compiled once for each divergence.
    small = Model(Bernoulli(), MLP(hidden=(4,), direct=False))
    for name in ("_NETWORK", "_RANDOM_START", "_NAIVE"):
        monkeypatch.setattr(f"tvdbayes.experiments.network.methods.{name}", small)
    experiment = NetworkExperiment(folder, device="cpu:float32")
    found = experiment.measure(Task(CORRECTED, "rice, surest 10 %", 1, 1))
    methods = dict.fromkeys(key.partition("|")[0] for key in found)
    assert set(methods) == {
        *("data", "TVD", "KLD", "TVD unrefined", "naive TVD", "continuation"),
        *("density power", "deep ensemble", "linear TVD", "linear KLD"),
    }
    for method in list(methods)[1:]:
        prob, y = found[f"{method}|prob"], found["data|y"]
        assert prob.shape == y.shape == (6,)
        assert found[f"{method}|brier"][0] == pytest.approx(np.mean((prob - y) ** 2))
        own = np.where(y == 1, prob, 1 - prob)
        assert found[f"{method}|log"][0] == pytest.approx(-np.log(own).mean(), rel=1e-6)
        assert found[f"{method}|pred_lik"][0] == pytest.approx(own.mean())
    assert not np.array_equal(found["TVD|prob"], found["TVD unrefined|prob"])


def test_comparators_have_a_tenth_of_the_draws_but_ten_at_least():
    assert [fewer(n) for n in (1000, 100, 20, 4)] == [100, 10, 10, 4]


def invented(gaps):
    """Tasks and scores of TVD that lie by so much above those of KLD."""
    rng, tasks, measured = np.random.default_rng(0), [], []
    for setting, gap in gaps.items():
        for number in range(6):
            y = rng.integers(0, 2, 30)
            log = 0.5 + rng.normal(0, 0.05)
            prob = np.clip(y * 0.4 + 0.3 + rng.normal(0, 0.1, 30), 0.01, 0.99)
            found = {"data|y": y.astype(float)}
            for method, value in (("KLD", log), ("TVD", log + gap + rng.normal(0, 0.001))):
                found[f"{method}|log"] = found[f"{method}|log, few draws"] = np.array([value])
                found[f"{method}|prob"] = prob
            tasks.append(Task(CORRECTED, setting, number, 10))
            measured.append(found)
    return tasks, measured


def test_the_verdict_follows_from_the_numbers():
    gaps = {"pima": 0.002, "pima, surest 10 %": -0.05, "pima, random 10 %": 0.05, "rice": 0.05}
    report = NetworkExperiment().report(CORRECTED, *invented(gaps))
    assert "- pima: within 2%" in report.text
    assert "- rice: not within 2%" in report.text
    assert "- pima, surest 10 % (structured): TVD is better" in report.text
    assert "- pima, random 10 % (random): TVD is worse" in report.text
    assert "- pima, structured, 1 settings: TVD is better in 1." in report.text
    (line,) = [
        line for line in report.table if (line["setting"], line["method"]) == ("rice", "TVD - KLD")
    ]
    assert line["mean"] == pytest.approx(0.05, abs=0.002)
    assert line["error_of_mean"] < 0.001
    assert sum(line["criterion"] == "calibration" for line in report.table) == 8
    assert len(report.figures["figure"].axes) == 2


def test_the_report_as_published_compares_with_every_median(folder):
    experiment = NetworkExperiment(folder)
    tasks = [replace(task, number=1) for task in experiment.tasks(AS_PUBLISHED, False)]
    # What is compared does not matter here, so one measurement serves all.
    found = experiment.measure(replace(tasks[0], n_draws=2))
    report = experiment.report(AS_PUBLISHED, tasks, [found] * 4)
    assert sum("published" in line for line in report.table) == 16
    assert "of 8 published medians" in report.text
    assert "diabetic is pima with exchanged labels" in report.text
    assert "Logistic regression is right on" in report.text
    assert "figure" in report.figures
