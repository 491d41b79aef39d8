"""The paper's experiments: what is run, kept, scored and compared."""

import json
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pytest
from click.testing import CliRunner
from scipy.special import ndtr
from scipy.stats import binom, dirichlet, poisson

from tvdbayes import (
    Bernoulli,
    DataError,
    Distinct,
    Interrupted,
    Model,
    Probit,
    SettingsError,
    posterior_bootstrap,
)
from tvdbayes.cli import main
from tvdbayes.data.cells import compress
from tvdbayes.experiments import data as data_room
from tvdbayes.experiments import experiment_named, reproduce, write_report
from tvdbayes.experiments.contract import (
    AS_PUBLISHED,
    CORRECTED,
    AbstractExperiment,
    Box,
    Report,
    Task,
    boxes_of,
)
from tvdbayes.experiments.figure_1 import FigureOne
from tvdbayes.experiments.poisson import PoissonExperiment
from tvdbayes.experiments.probit import ProbitExperiment, _tvd
from tvdbayes.experiments.published import Reading, compare, published
from tvdbayes.experiments.released import descend, probit_irls, split, tables, weights
from tvdbayes.experiments.runs import run_tasks
from tvdbayes.experiments.scores import (
    calibration_error,
    log_score,
    paper_criteria,
    proper_scores,
)
from tvdbayes.experiments.simulated import Simulated
from tvdbayes.experiments.zero_inflation import ZeroInflation
from tvdbayes.sampling.plan import solve_tables
from tvdbayes.sampling.planners import plan_of

# Fits of few rows or draws warn, which is beside the point here.
pytestmark = pytest.mark.filterwarnings("ignore::tvdbayes.TVDBayesWarning")


def law_of_counts(rate, size=60):
    return poisson.pmf(np.arange(size), np.asarray(rate)[:, None])


# Scores.


def test_the_log_score_is_best_at_the_truth_and_the_papers_likelihood_is_not():
    rng = np.random.default_rng(0)
    y = rng.binomial(1, 0.7, 20_000)
    score = {}
    for p in (0.6, 0.7, 0.8, 0.99):
        law = np.tile([1 - p, p], (y.size, 1))
        log_pmf = np.log(law[np.arange(y.size), y])[:, None]
        paper = paper_criteria(np.full((y.size, 1), p), log_pmf, y, of_logs=False)
        scores = proper_scores(law, y)
        log = log_score(log_pmf).mean()
        score[p] = (log, scores["brier"].mean(), -paper["pred_lik"].mean())
    log, brier, improper = (min(score, key=lambda p: score[p][i]) for i in range(3))
    assert (log, brier, improper) == (0.7, 0.7, 0.99)


def test_scores_of_a_single_row_by_hand():
    law, y = np.array([[0.2, 0.5, 0.3]]), np.array([1])
    scores = proper_scores(law, y)
    assert log_score(np.log([[0.4, 0.6]]))[0] == pytest.approx(-np.log(0.5))
    assert scores["brier"][0] == pytest.approx(0.2**2 + 0.5**2 + 0.3**2)
    assert scores["rps"][0] == pytest.approx(0.2**2 + 0.3**2)
    assert scores["accuracy"][0] == 1


def test_likelihood_of_logs_is_the_geometric_mean_over_draws():
    log_pmf = np.log([[0.1, 0.4]])
    one = np.array([1])
    logs = paper_criteria(np.array([[1.0, 3.0]]), log_pmf, one, of_logs=True)
    plain = paper_criteria(np.array([[1.0, 3.0]]), log_pmf, one, of_logs=False)
    assert logs["pred_lik"][0] == pytest.approx(0.2)
    assert plain["pred_lik"][0] == pytest.approx(0.25)
    assert plain["abs_err"][0] == pytest.approx(1.0)


def test_the_papers_absolute_error_is_the_mean_over_draws_not_the_error_of_their_mean():
    """|mean - y| would be 0 here, and 1 for the second row."""
    mean, y = np.array([[0.0, 2.0], [3.0, 5.0]]), np.array([1, 3])
    found = paper_criteria(mean, np.zeros((2, 2)), y, of_logs=False)
    assert found["abs_err"].tolist() == [1.0, 1.0]


@pytest.mark.parametrize("kind", ["two outcomes", "counts"])
def test_a_calibrated_law_has_no_calibration_error_and_a_surer_one_has(kind):
    rng = np.random.default_rng(1)
    n = 40_000
    if kind == "counts":
        rate = rng.uniform(1, 6, n)
        y = np.minimum(rng.poisson(rate), 59)
        good, bad = law_of_counts(rate), law_of_counts(0.7 * rate)
    else:
        p = rng.uniform(0.05, 0.95, n)
        y = rng.binomial(1, p)
        sure = ndtr(8 * (p - 0.5))
        good, bad = np.column_stack([1 - p, p]), np.column_stack([1 - sure, sure])
    assert calibration_error(good, y) < 0.01
    assert calibration_error(bad, y) > 0.05


# Boxes and readings.


def test_errors_are_taken_over_data_sets_not_rows():
    rng = np.random.default_rng(2)
    common = rng.normal(size=(400, 1))
    box = Box("a", "TVD", "abs_err", np.repeat(common, 50, axis=1))
    assert box.error(of_mean=True) == pytest.approx(1 / np.sqrt(400), rel=0.15)
    # The median of n normals has an error of 1.2533 / sqrt(n).
    assert box.error() == pytest.approx(1.2533 / np.sqrt(400), rel=0.3)


def test_boxes_hold_all_data_sets_of_a_setting():
    tasks = [Task(CORRECTED, setting, i, 1) for setting in "ab" for i in range(3)]
    found = [{"TVD|abs_diff": np.array([float(i)])} for i in range(6)]
    boxes = boxes_of(tasks, found)
    assert [(box.setting, box.values.ravel().tolist()) for box in boxes] == [
        ("a", [0, 1, 2]),
        ("b", [3, 4, 5]),
    ]


def test_published_medians_are_those_of_the_figures():
    assert published("epsilon")["20", "TVD", "abs_diff"] == Reading(0.165, 0.0165)
    assert published("zero_inflation")["0.3", "KLD", "pred_lik"] == Reading(0.0429, 0.0038)
    assert published("probit")["heart", "TVD", "pred_lik"] == Reading(0.8148, 0.0)
    assert len(published("epsilon")) == 36
    assert len(published("probit")) == 20


def test_a_median_agrees_within_three_combined_errors_and_a_pixel():
    values = np.random.default_rng(3).normal(size=(100, 1))
    box = Box("0", "TVD", "abs_diff", values)
    reach = 3 * np.sqrt(2) * box.error() + 0.01
    for off, agrees in ((0.99 * reach, True), (1.01 * reach, False)):
        readings = {("0", "TVD", "abs_diff"): Reading(box.median + off, 0.01)}
        (line,) = compare([box], readings)
        assert line["agrees"] is agrees
        assert line["allowed"] == pytest.approx(reach)
    (line,) = compare([box], readings, tolerance=10)
    assert line["agrees"] is True


# Runs that are kept.


@dataclass(frozen=True)
class Counting(AbstractExperiment):
    """Writes down every task that it runs."""

    log: str
    stop_at: int = -1
    name: ClassVar[str] = "counting"

    def tasks(self, mode, quick):
        return [Task(mode, "a", i, 10) for i in range(3 if quick else 6)]

    def measure(self, task):
        if task.number == self.stop_at:
            raise KeyboardInterrupt
        with open(self.log, "a") as file:
            file.write(f"{task.number}\n")
        return {"TVD|abs_diff": np.array([float(task.number)])}

    def report(self, mode, tasks, measured):
        return Report([{"sum": float(sum(m["TVD|abs_diff"][0] for m in measured))}], {}, "text")


def test_what_is_known_is_not_run_again_and_a_stopped_run_goes_on(tmp_path):
    log = tmp_path / "log"
    stopped = Counting(str(log), stop_at=4)
    seen = []
    with pytest.raises(Interrupted, match="4 of 6") as stop:
        reproduce(stopped, CORRECTED, kept=tmp_path / "kept")
    assert "goes on from there" in stop.value.kept
    again = Counting(str(log))
    report = reproduce(
        again, CORRECTED, kept=tmp_path / "kept", progress=lambda *done: seen.append(done)
    )
    assert log.read_text().split() == list("012345")
    assert seen[0] == (4, 6)
    assert seen[-1] == (6, 6)
    assert report.table == [{"sum": 15.0}]


def test_other_settings_and_other_data_are_other_parts(tmp_path):
    log = tmp_path / "log"
    experiment, task = Counting(str(log)), Task(CORRECTED, "a", 0, 10)
    others = (
        replace(task, n_draws=11),
        replace(task, mode=AS_PUBLISHED),
        replace(task, content="another file"),
    )
    for one in (task, *others):
        run_tasks(experiment, [one], kept=tmp_path)
    assert len(log.read_text().split()) == 4
    run_tasks(experiment, [task, *others], kept=tmp_path)
    assert len(log.read_text().split()) == 4


@pytest.mark.parametrize("damage", [b"", b"garbage", b"PK\x03\x04 and no more"])
def test_a_damaged_part_is_run_again(tmp_path, damage):
    log = tmp_path / "log"
    experiment, task = Counting(str(log)), Task(CORRECTED, "a", 2, 10)
    run_tasks(experiment, [task], kept=tmp_path / "kept")
    (part,) = (tmp_path / "kept").iterdir()
    part.write_bytes(damage)
    (found,) = run_tasks(experiment, [task], kept=tmp_path / "kept")
    assert found["TVD|abs_diff"] == [2.0]
    assert log.read_text().split() == ["2", "2"]
    assert len(list((tmp_path / "kept").iterdir())) == 1


def test_two_processes_find_the_same_as_one(tmp_path):
    tasks = PoissonExperiment().tasks(CORRECTED, True)[:2]
    tasks = [replace(task, n_draws=20) for task in tasks]
    alone = run_tasks(PoissonExperiment(), tasks, kept=tmp_path / "a")
    both = run_tasks(PoissonExperiment(), tasks, kept=tmp_path / "b", n_jobs=2)
    for one, two in zip(alone, both, strict=True):
        assert one.keys() == two.keys()
        assert all(np.array_equal(one[key], two[key]) for key in one)


def test_a_mode_that_an_experiment_lacks_is_refused(tmp_path):
    with pytest.raises(SettingsError, match="no mode 'imagined'"):
        reproduce(FigureOne(), "imagined", kept=tmp_path)


# What the released code did.


def test_weights_are_those_of_the_released_code():
    known = dirichlet.rvs(np.ones(50), size=1, random_state=7).ravel()
    np.testing.assert_array_equal(weights(50, 8)[7], known)


def test_tables_add_up_the_weights_of_rows():
    y = np.array([2, 0, 2, 1, 0])
    made = compress(np.ones((5, 1)), y)
    w = weights(5, 3)
    p = tables(made, w)
    for j in range(3):
        expected = [w[j][y == value].sum() for value in (0, 1, 2)]
        np.testing.assert_allclose(p[:, j], expected, rtol=1e-14)


def test_splits_share_no_row_and_lose_none():
    train, test = split(np.random.RandomState(0), 100, 90)
    assert sorted([*train, *test]) == list(range(100))


def test_the_released_probit_is_maximum_likelihood_where_x_is_sound():
    sm = pytest.importorskip("statsmodels.api")
    rng = np.random.default_rng(5)
    x = np.column_stack([np.ones(300), rng.normal(size=(300, 2)), rng.integers(20, 80, 300)])
    y = rng.binomial(1, ndtr(x @ [0.2, 0.6, -0.4, 0.005]))
    w = weights(300, 1)[0]
    family = sm.families.Binomial(sm.families.links.Probit())
    known = sm.GLM(y, x, family=family, freq_weights=w).fit().params
    np.testing.assert_allclose(probit_irls(x, y, w), known, rtol=1e-9, atol=1e-12)


def test_one_absurd_value_makes_the_released_probit_forget_the_other_columns():
    rng = np.random.default_rng(6)
    x = rng.normal(50, 10, size=(300, 2))
    y = rng.binomial(1, ndtr((x[:, 0] - 50) / 10))
    w = np.full(300, 1 / 300)
    sound = probit_irls(x, y, w)[0]
    x[0, 1] = -9.2e18
    assert abs(probit_irls(x, y, w)[0]) < 0.1 * sound


def test_the_optimum_is_at_least_as_good_as_the_released_optimiser_finds():
    state = np.random.RandomState(0)
    x = state.normal(size=(150, 2))
    y = state.binomial(1, ndtr(x @ [1.0, -1.0]))
    made = compress(x, y)
    p = tables(made, weights(150, 1))[:, 0]
    tvd = _tvd(made.cells, p)
    start = probit_irls(x, y, weights(150, 1)[0])
    model = Model(Bernoulli(Probit()))
    fit = posterior_bootstrap(
        model, made.cells, partition=Distinct(), n_draws=0, ridge=0.0, refine=None
    )
    ours = solve_tables(plan_of(fit), p[:, None]).robust.theta[:, 0]
    assert tvd(ours) <= tvd(descend(tvd, start)) + 1e-9
    assert tvd(ours) < tvd(start)


def test_negative_rates_count_in_errors_but_have_no_likelihood():
    rows = np.ones((2, 1)), np.array([2, 4])
    data = Simulated(*rows, *rows, np.ones(2, bool))
    found = PoissonExperiment().released_scores(data, np.array([[3.0], [-5.0], [-400.0]]))
    assert found["abs_diff"][0] == pytest.approx((0 + 8) / 2)
    np.testing.assert_allclose(found["abs_err"], [(1 + 7) / 2, (1 + 9) / 2])
    np.testing.assert_allclose(found["pred_lik"], poisson.pmf([2, 4], 3.0))


# The experiments.


def run(experiment, setting, mode, number=0, n_draws=40):
    return experiment.measure(Task(mode, setting, number, n_draws))


def test_poisson_as_published_is_near_the_published_medians():
    runs = [run(PoissonExperiment(), "12", AS_PUBLISHED, i) for i in range(6)]
    medians = {key: np.median([m[key] for m in runs]) for key in runs[0]}
    readings = published("epsilon")
    for method, allowed in (("TVD", 0.05), ("KLD", 0.2)):
        known = readings["12", method, "abs_diff"].median
        assert abs(medians[f"{method}|abs_diff"] - known) < allowed
    assert medians["TVD|dropped"] == 0
    # Full Bayes is maximum likelihood if it is scored alike, and is not if it is scored otherwise.
    kld, bayes = medians["KLD|pred_lik"], medians["Bayes, same scores|pred_lik"]
    assert bayes == pytest.approx(kld, rel=0.05)
    assert medians["Bayes|pred_lik"] < 0.7 * kld


def test_poisson_corrected_has_the_robust_methods_at_the_truth():
    found = run(PoissonExperiment(), "20", CORRECTED, n_draws=100)
    for method in ("TVD", "TVD reweighted", "Hellinger", "density power"):
        assert found[f"{method}|abs_diff"][0] < 0.5
        assert found[f"{method}|log, clean rows"][0] < found["KLD|log, clean rows"][0]
    for method in ("KLD", "Bayes"):
        assert found[f"{method}|abs_diff"][0] > 1.5
        # On wrong rows the likelihood fit is the less surprised one: no score is best for all.
        assert found[f"{method}|log"][0] < found["TVD|log"][0]


def test_log_scores_of_counts_are_those_of_the_predictive_law():
    found = run(PoissonExperiment(), "0", CORRECTED, n_draws=60)
    assert 1.5 < found["KLD|log"][0] < 2.5
    assert found["KLD|log"][0] == found["KLD|log, clean rows"][0]


def test_zero_inflation_as_published_uses_two_covariates_and_no_intercept():
    found = run(ZeroInflation(), "0.2", AS_PUBLISHED)
    assert found["KLD|abs_diff"][0] > 2 * found["TVD|abs_diff"][0]
    assert found["TVD released|abs_diff"][0] == pytest.approx(found["TVD|abs_diff"][0], abs=0.02)
    assert found["data|largest count is not 8"][0] == 0
    bayes = found["Bayes, same scores|abs_err"]
    np.testing.assert_allclose(np.median(bayes), np.median(found["KLD|abs_err"]), rtol=0.05)


@pytest.mark.parametrize("design", ["", " (design of the code)"])
def test_zero_inflation_corrected_knows_both_designs(design):
    found = run(ZeroInflation(), f"0.2{design}", CORRECTED)
    assert found["KLD|abs_diff"][0] > found["TVD reweighted|abs_diff"][0]
    assert found["TVD|rps, clean rows"][0] < found["KLD|rps, clean rows"][0]


def test_the_same_task_gives_the_same_numbers():
    task = Task(AS_PUBLISHED, "0.1", 3, 30)
    one, two = ZeroInflation().measure(task), ZeroInflation().measure(task)
    assert all(np.array_equal(one[key], two[key]) for key in one)


def test_binomial_predictions_are_those_of_scipy():
    x = np.array([[1.0, 2.0], [1.0, 0.0], [1.0, 2.0]])
    y = np.array([3, 0, 8])
    data = Simulated(x, y, x, y, np.ones(3, bool), 8.0)
    draws = np.array([[0.3, 0.2], [0.1, 0.4]])
    mean, log_pmf = data.predictions(ZeroInflation.model, draws)
    prob = 1 / (1 + np.exp(-x @ draws.T))
    np.testing.assert_allclose(mean, 8 * prob)
    for row in range(3):
        expected = binom.logpmf(np.arange(9)[:, None], 8, prob[row])
        np.testing.assert_allclose(log_pmf[row], expected, rtol=1e-9)


@pytest.mark.parametrize("mode", [AS_PUBLISHED, CORRECTED])
def test_reports_have_a_table_words_and_pictures(mode, tmp_path):
    experiment = PoissonExperiment()
    tasks = [Task(mode, k, i, 10) for k in ("0", "20") for i in range(3)]
    found = [experiment.measure(task) for task in tasks[::3]]
    report = experiment.report(mode, tasks, [found[0]] * 3 + [found[1]] * 3)
    files = write_report(report, tmp_path, {"experiment": "poisson"})
    assert {"table.csv", "results.json", "agreement.txt", "figure.png"} <= set(files)
    stored = json.loads((tmp_path / "results.json").read_text())
    assert len(stored["results"]) == len(report.table)
    if mode == AS_PUBLISHED:
        assert "of 12 published medians" in report.text
        assert "leaves out of its figure" in report.text


# The data.


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with small files in place of the paper's, one of them with a broken row."""
    rng = np.random.default_rng(8)
    sources = {}
    for number, (name, source) in enumerate(data_room.SOURCES.items()):
        x = rng.integers(1, 30, size=(80, 2))
        y = rng.binomial(1, ndtr((x[:, 0] - 15) / 6))
        lines = [f"{a} {b} {c}" for (a, b), c in zip(x, y, strict=True)]
        if number == 0:
            lines[3] = "5 -9223372036854775808 1"
        path = tmp_path / source.file
        path.parent.mkdir(exist_ok=True)
        path.write_text("\n".join(lines) + "\n")
        checksum = data_room.sha256(path.read_bytes()).hexdigest()
        sources[name] = replace(source, checksum=checksum)
    monkeypatch.setattr(data_room, "SOURCES", sources)
    monkeypatch.setattr("tvdbayes.experiments.probit.SOURCES", sources)
    return tmp_path


def test_data_are_read_as_they_are_or_corrected(folder):
    raw = data_room.load("mammographic_mass", folder)
    assert raw.x.shape == (80, 2)
    fixed = data_room.load("mammographic_mass", folder, CORRECTED)
    assert fixed.x.shape == (79, 3)
    np.testing.assert_array_equal(fixed.x[:, 0], 1)
    np.testing.assert_allclose(fixed.x[:, 1:].mean(0), 0, atol=1e-12)
    np.testing.assert_allclose(fixed.x[:, 1:].std(0), 1)


def test_a_file_that_is_missing_or_another_is_named(folder):
    (folder / "probit/heart.txt").write_text("1 2 0\n")
    with pytest.raises(DataError, match=r"heart\.txt.*is not the file that the paper used"):
        data_room.load("heart", folder)
    (folder / "probit/heart.txt").unlink()
    with pytest.raises(DataError, match=r"'heart' is not in .*TVDBAYES_DATA"):
        data_room.load("heart", folder)


def test_the_folder_is_given_or_of_the_environment(monkeypatch, tmp_path):
    monkeypatch.setenv("TVDBAYES_DATA", "")
    with pytest.raises(DataError, match="--data or TVDBAYES_DATA"):
        data_room.find_folder(None)
    monkeypatch.setenv("TVDBAYES_DATA", str(tmp_path))
    assert data_room.find_folder(None) == tmp_path
    assert data_room.find_folder(tmp_path / "other") == tmp_path / "other"


def test_probit_as_published_sees_the_broken_row_and_corrected_does_not(folder):
    experiment = ProbitExperiment(folder)
    task = experiment.tasks(AS_PUBLISHED, True)[0]
    found = experiment.measure(replace(task, n_draws=10))
    assert set(found) >= {"TVD|pred_lik", "KLD|accuracy", "TVD released|pred_lik"}
    assert "KLD without broken rows|pred_lik" in found
    fixed = experiment.measure(replace(task, mode=CORRECTED, n_draws=20))
    assert np.isfinite(fixed["KLD|log"][0])
    assert 0 <= fixed["TVD|prob"].min() <= fixed["TVD|prob"].max() <= 1


@pytest.mark.parametrize("mode", [AS_PUBLISHED, CORRECTED])
def test_the_probit_report_compares_all_data_sets(folder, mode):
    experiment = ProbitExperiment(folder)
    tasks = [t for t in experiment.tasks(mode, True) if t.number < 2]
    # What is compared does not matter here, so one measurement serves all.
    found = experiment.measure(replace(tasks[-1], n_draws=4))
    report = experiment.report(mode, tasks, [found] * len(tasks))
    if mode == AS_PUBLISHED:
        assert sum("published" in line for line in report.table) == 20
        assert "of 10 published medians" in report.text
    else:
        assert any(line["criterion"] == "calibration" for line in report.table)
    assert "figure" in report.figures


# The command.


def call(*args):
    return CliRunner().invoke(main, list(args))


def test_the_command_writes_both_modes_and_says_where(tmp_path):
    done = call("reproduce", "figure-1", "--out", str(tmp_path), "--jobs", "1")
    assert done.exit_code == 0, done.output
    for mode in (AS_PUBLISHED, CORRECTED):
        names = {path.name for path in (tmp_path / "figure-1" / mode).iterdir()}
        assert names == {"agreement.txt", "figure.png", "results.json", "table.csv"}
    assert "Mean of the" in done.output


def test_an_experiment_that_is_not_there_is_refused():
    assert call("reproduce", "nonsense").exit_code == 2
    with pytest.raises(SettingsError, match="no experiment 'nonsense'"):
        experiment_named("nonsense")


def test_a_device_is_for_networks_only_and_others_say_so_in_one_line(tmp_path):
    done = call("reproduce", "figure-1", "--device", "gpu", "--out", str(tmp_path))
    assert done.exit_code == 1
    assert "'figure-1' trains no networks" in done.stderr
    assert done.stderr.count("\n") == 1
    assert experiment_named("network", device="gpu").device == "gpu"


@pytest.mark.parametrize("name", ["probit", "network"])
def test_data_that_are_not_there_leave_nothing_behind(tmp_path, name):
    out = tmp_path / "out"
    done = call("reproduce", name, "--data", str(tmp_path / "none"), "--out", str(out))
    assert done.exit_code == 1
    assert "--data or TVDBAYES_DATA" in done.stderr
    assert not out.exists()
