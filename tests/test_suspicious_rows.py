"""The most suspicious rows are the same, in the same order, wherever they are named."""

import json
import re

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

import tvdbayes as tb
from tvdbayes.cli import main
from tvdbayes.fitting.story import story_of
from tvdbayes.report._tables import row_table

DRAWS = 20


def readme():
    """The example of the README: a tenth of the rows is wrong."""
    rng = np.random.default_rng(1)
    region = rng.integers(0, 3, 600)
    visits = rng.poisson(np.exp(0.7 + 0.3 * region))
    visits[:60] += 15
    return pd.DataFrame({"visits": visits, "region": region})


def repeated(n=300):
    """Few different rows, among them twelve equal ones that are wrong, and a lone one."""
    rng = np.random.default_rng(1)
    region = rng.choice(["north", "south"], n)
    visits = rng.poisson(2, n)
    visits[100:112], region[100:112] = 25, "south"
    visits[50], region[50] = 40, "north"
    # Names that the table of scores has, too.
    named = {"count": rng.integers(0, 2, n), "score": rng.integers(0, 2, n)}
    return pd.DataFrame({"visits": visits, "region": region, **named})


TABLES = {
    "readme": ("visits ~ region", readme()),
    "repeated": ("visits ~ region", repeated()),
    "clash": ("visits ~ region + count + score", repeated()),
}


@pytest.fixture(scope="module", params=TABLES)
def case(request, tmp_path_factory):
    formula, frame = TABLES[request.param]
    path = tmp_path_factory.mktemp("rows") / "visits.csv"
    frame.to_csv(path, index=False)
    return path, formula, frame, tb.fit(formula, frame, n_draws=DRAWS)


def shown_by(*arguments):
    result = CliRunner().invoke(main, [*map(str, arguments), "--draws", str(DRAWS)])
    assert result.exit_code == 0, result.output
    return result.stdout


def test_terminal_json_report_and_library_name_the_same_rows_first(case):
    path, formula, _, fit = case
    worst = fit.suspicious_rows()
    first = worst.index[:10].tolist()
    shown = shown_by("fit", path, formula)
    table = shown[shown.index("Most suspicious rows") :].split("\n\n")[0]
    listed = [int(n) for n in re.findall(r"^(?:\*| ) +(\d+) ", table, flags=re.MULTILINE)]
    assert listed == first[: len(listed)]
    assert len(listed) == min(10, (worst["surprise"] > 0).sum())
    found = json.loads(shown_by("fit", path, formula, "--json"))["flagged_rows"]
    assert [entry["row"] for entry in found] == worst.query("flag").index.tolist()
    page = row_table(story_of(fit))
    row = page.headings.index("row")
    assert [int(line[row].text) for line in page.lines[:10]] == first


def test_the_most_surprising_come_first_and_then_the_highest_scores(case):
    worst = case[3].suspicious_rows()
    keys = list(zip(-worst["surprise"], -worst["score"], worst.index, strict=True))
    assert keys == sorted(keys)
    assert worst["flag"].is_monotonic_decreasing


def test_every_row_is_in_one_line_with_those_that_are_equal(case):
    _, _, frame, fit = case
    worst, rows = fit.suspicious_rows(), fit.rows()
    used = list(fit.data.columns)
    together = frame.groupby(used, sort=False).size()
    assert worst["count"].sum() == len(frame)
    assert len(worst) == len(together)
    assert sorted(worst["count"]) == sorted(together)
    equal = frame.groupby(used)["visits"].transform("size").to_numpy()
    np.testing.assert_array_equal(worst["count"], equal[worst.index])
    np.testing.assert_array_equal(worst["surprise"], rows["surprise"][worst.index])
    # A line is named by the first of its rows.
    assert set(worst.index) == set(frame[used].drop_duplicates().index)


def test_equal_rows_do_not_fill_the_list(tmp_path):
    fit = tb.fit("visits ~ region", repeated(), n_draws=DRAWS)
    worst = fit.suspicious_rows()
    assert worst["visits"].tolist()[:2] == [25, 40]
    assert worst["count"].tolist()[:2] == [12, 1]
    assert worst.index.tolist()[:2] == [100, 50]
    repeated().to_csv(tmp_path / "visits.csv", index=False)
    found = json.loads(shown_by("fit", tmp_path / "visits.csv", "visits ~ region", "--json"))
    assert found["flagged_rows"][0]["rows"] == list(range(100, 112))
    assert found["flagged_rows"][0]["count"] == 12


def test_the_page_finds_columns_by_name():
    frame = repeated()
    fit = tb.fit("visits ~ region + count + score", frame, n_draws=DRAWS)
    story = story_of(fit)
    table = row_table(story)
    worst = fit.suspicious_rows()
    assert len(set(table.headings)) == len(table.headings)
    for heading in ("visits", "region", "data: count", "data: score", "count"):
        column = table.headings.index(heading)
        texts = [line[column].text for line in table.lines]
        assert texts == [str(value) for value in worst[heading]]
    assert story.n_known == len(frame)
    assert story.n_flagged == int(fit.rows()["flag"].sum())


def test_rows_without_a_score_are_not_listed():
    frame = repeated()
    frame["w"] = 1
    frame.loc[100:105, "w"] = 0
    fit = tb.fit("visits ~ region", frame, weights="w", n_draws=DRAWS)
    worst = fit.suspicious_rows()
    line = worst[worst["visits"] == 25]
    assert line.index.tolist() == [106]
    assert line["count"].tolist() == [6]
    assert worst["count"].sum() == len(frame) - 6


def test_the_picture_names_the_same_rows():
    fit = tb.fit("visits ~ region", repeated(), n_draws=DRAWS)
    flagged = fit.suspicious_rows().query("flag")
    names = [int(text.get_text()) for text in fit.plot.rows().texts]
    assert names == [row for row in flagged.index if row in names]
    assert names[0] == flagged.index[0]


def test_the_same_rows_are_dropped_first():
    frame = repeated()
    fit = tb.fit("visits ~ region", frame, n_draws=DRAWS)
    left = frame.drop(range(100, 112))
    found = fit.drop_worst([12 / 300])
    alone = tb.fit("visits ~ region", left, n_draws=0)
    assert np.allclose(found.ordinary[0], alone.posterior.kld_minimiser, atol=1e-6)
    assert not np.allclose(fit.posterior.kld_minimiser, alone.posterior.kld_minimiser, atol=0.1)


def test_rows_that_an_engine_has_grouped_are_counted():
    pytest.importorskip("ibis")
    frame = repeated()
    fit = tb.fit("visits ~ region", frame, engine="duckdb", n_draws=DRAWS)
    worst, other = fit.suspicious_rows(), tb.fit("visits ~ region", frame, n_draws=DRAWS)
    alike = other.suspicious_rows()
    assert worst["count"].tolist()[:2] == alike["count"].tolist()[:2] == [12, 1]
    assert worst["count"].sum() == len(frame)
    story = story_of(fit)
    assert story.n_flagged == int(other.rows()["flag"].sum())
    assert story.n_known == len(frame)
