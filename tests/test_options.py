"""The record of options: what it says is what `fit`, the command line and the documents have."""

import contextlib
import io
import re
from dataclasses import fields
from inspect import signature
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

import tvdbayes as tb
from tvdbayes.cli import main
from tvdbayes.cli._commands import FLAGS, plain
from tvdbayes.sampling.named import NAMES
from tvdbayes.sampling.options import DEFAULTS, OPTIONS, Options

PAGE = Path(__file__).parent.parent / "docs" / "api" / "command_line.md"
FIT = ("fit", "visits.csv", "visits ~ age", "--draws", "20", "--quiet")


@pytest.fixture(autouse=True)
def data(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(2)
    age = rng.integers(1, 4, 80)
    child = rng.integers(0, 2, 80)
    visits = rng.poisson(np.exp(0.5 + 0.2 * age)) * (rng.random(80) < 0.8)
    frame = pd.DataFrame({"visits": visits, "age": age, "child": child})
    frame.to_csv("visits.csv", index=False)
    frame[:9].to_csv("prior.csv", index=False)
    return frame


def run(*args):
    done = CliRunner().invoke(main, args)
    assert done.exit_code == 0, done.output
    return tb.load("results/fit.tvd")


def said_in_python(name, value):
    with pytest.raises(tb.TVDBayesError) as error:
        tb.fit("visits ~ age", "visits.csv", **{name: value})
    return str(error.value)


def test_the_signature_of_fit_is_the_record():
    given = dict(list(signature(tb.fit).parameters.items())[2:])
    assert list(given) == [field.name for field in fields(Options)] == list(OPTIONS)
    assert {name: one.default for name, one in given.items()} == DEFAULTS


def test_the_docstring_of_fit_describes_every_option():
    named = re.findall(r"^    (\w[\w, ]*?)(?: :|$)", tb.fit.__doc__, flags=re.MULTILINE)
    described = {name for line in named for name in line.split(", ")}
    assert set(OPTIONS) <= described


@pytest.mark.parametrize("command", ["fit", "check"])
@pytest.mark.parametrize("name", OPTIONS)
def test_every_option_is_on_the_command_line_or_says_why_not(name, command):
    option = OPTIONS[name]
    by_name = {param.name: param for param in main.commands[command].params}
    if option.no_flag:
        assert name not in by_name
    elif (command, name) != ("check", "resume"):
        assert by_name[name].opts == [FLAGS[name]]
        assert by_name[name].help == option.about
        assert by_name[name].default == DEFAULTS[name]
        assert option.metavar


def test_the_page_of_the_command_line_describes_every_option():
    cells = re.findall(r"```\{code-cell\} python\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown):
        names = {}
        for cell in cells[:4]:
            exec(re.sub(r"^:tags:.*\n", "", cell), names)
    for name, option in OPTIONS.items():
        assert f"\n{name} (" in shown.getvalue()
        assert option.about in shown.getvalue()
        assert option.no_flag in shown.getvalue()


BAD = {
    "link": ("identity", "identity"),
    "divergence": ("mmd", "mmd"),
    "n_draws": ("many", "many"),
    "seed": ("-1", -1),
    "partition": ("some", "some"),
    "alpha": ("-2", -2.0),
    "ridge": ("some", "some"),
    "bins": ("many", "many"),
    "network": ("two", "two"),
    "refine": ("some", "some"),
    "missing": ("ignore", "ignore"),
    "zero_exposure": ("ignore", "ignore"),
    "collinear": ("ignore", "ignore"),
    "n_jobs": ("0", 0),
    "engine": ("spark", "spark"),
    "grid": ("1", 1),
    "max_cells": ("0", 0),
}
"""Values that make no sense whatever the data are, as text and in Python."""

BY_THE_DATA = {
    "family": ("gauss", "gauss"),
    "success": ("yes", "yes"),
    "offset": ("nothing", "nothing"),
    "exposure": ("nothing", "nothing"),
    "trials": ("nothing", "nothing"),
    "weights": ("nothing", "nothing"),
    "clusters": ("nothing", "nothing"),
    "strata": ("nothing", "nothing"),
    "sampling_weights": ("nothing", "nothing"),
    "predictors": ("zero ~ age", {"zero": "~ age"}),
    "device": ("abacus", "abacus"),
}
"""Values that the data, the family or the machine do not have."""

OF_FILES = {"base_measure", "resume"}


def test_bad_values_of_every_option_are_tried():
    assert BAD.keys() | BY_THE_DATA.keys() | OF_FILES == FLAGS.keys()


@pytest.mark.parametrize("name", [*BAD, *BY_THE_DATA])
def test_a_bad_value_gives_the_message_of_python(name):
    text, value = (BAD | BY_THE_DATA)[name]
    done = CliRunner().invoke(main, [*FIT, FLAGS[name], text])
    assert done.exit_code == (2 if name in BAD else 1)
    message = plain(said_in_python(name, value))
    help_after = " Try 'tvdbayes fit -h' for help." if name in BAD else ""
    assert done.stderr == f"error: {message}{help_after}\n"
    assert not re.match(rf"{name}\b", message)


@pytest.mark.parametrize("name", NAMES)
def test_names_are_those_that_the_checks_take(name):
    for one in NAMES[name]:
        Options(**{name: one})
    assert list(OPTIONS[name].choices()) == list(NAMES[name])


def test_what_is_kept_does_not_change_when_it_is_checked_again():
    options = Options(bins=[0, 3], network=(4,), divergence="kld", predictors={"zero": "~ x"})
    assert vars(options.kept()) == vars(options)
    assert options.changed() == {
        "divergence": "kld",
        "bins": (0.0, 3.0),
        "predictors": {"zero": "~ x"},
        "network": tb.MLP((4,)),
    }


# Options that are text of a kind of their own.


@pytest.mark.parametrize(
    ("more", "given"),
    [
        (["--bins", "0,2,5"], {"bins": (0, 2, 5)}),
        (["--refine", "none", "--divergence", "kld"], {"refine": None, "divergence": "kld"}),
        (
            ["--family", "hurdle_poisson", "--predictors", "zero ~ child"],
            {"family": "hurdle_poisson", "predictors": {"zero": "~ child"}},
        ),
    ],
    ids=["bins", "none", "predictors"],
)
@pytest.mark.filterwarnings("ignore::tvdbayes.TVDBayesWarning")
def test_a_terminal_gives_the_bits_of_python(more, given, data):
    found = run(*FIT, "--out", "results", *more)
    again = tb.fit("visits ~ age", data, n_draws=20, **given)
    np.testing.assert_array_equal(found.draws, again.draws)
    assert found.options.changed().keys() == again.options.changed().keys()


def test_draws_of_a_file_are_resumed(data):
    first = run(*FIT, "--out", "results")
    more = run(
        *FIT[:3], "--draws", "30", "--quiet", "--out", "results", "--resume", "results/fit.tvd"
    )
    np.testing.assert_array_equal(more.draws[:20], first.draws)
    np.testing.assert_array_equal(more.draws, tb.fit("visits ~ age", data, n_draws=30).draws)
    done = CliRunner().invoke(main, [*FIT, "--seed", "1", "--resume", "results/fit.tvd"])
    assert done.exit_code == 1
    assert done.stderr.startswith("error: --resume holds draws of another fit")


def test_the_rows_of_a_prior_come_from_a_file(data):
    found = run(*FIT, "--out", "results", "--alpha", "5", "--base-measure", "prior.csv")
    rows = data[:9]
    base = tb.Cells.from_rows(
        np.column_stack([np.ones(9), rows["age"]]), rows["visits"], names=("Intercept", "age")
    )
    again = tb.fit("visits ~ age", data, n_draws=20, alpha=5, base_measure=base)
    np.testing.assert_array_equal(found.draws, again.draws)
    files = sorted(path.name for path in Path("results").iterdir())
    assert files == ["draws.csv", "fit.tvd", "report.html", "rows.csv"]
    run(*FIT, "--out", "centred", "--alpha", "5")
    shown = tb.load("centred/fit.tvd")
    again = tb.fit("visits ~ age", data, n_draws=20, alpha=5, base_measure="fit")
    np.testing.assert_array_equal(shown.draws, again.draws)
    seen = CliRunner().invoke(main, ["check", *FIT[1:-1], "--alpha=5", "--base-measure=prior.csv"])
    assert seen.exit_code == 0, seen.output
