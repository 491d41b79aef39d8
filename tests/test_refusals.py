"""What users of other packages ask for and do not get: one line that says what to use instead.

Python has most of these in test_accepts; here are the same questions in a terminal, whose answers
must be in the terms of a terminal, and the commands that ask for help.
"""

import json
import re

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

import tvdbayes as tb
from tvdbayes.cli import main


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(3)
    n = 90
    age = rng.integers(1, 5, n)
    frame = pd.DataFrame(
        {
            "visits": rng.poisson(np.exp(0.2 * age)),
            "age": age,
            "school": rng.integers(0, 9, n),
            "hours": rng.choice([0.0, 1.0, 2.0], n),
            "answer": rng.choice(["yes", "no"], n),
            "three": rng.choice(["a", "b", "c"], n),
        }
    )
    frame.to_csv("x.csv", index=False)
    return frame


def asked(*args, **more):
    return CliRunner().invoke(main, list(args), **more)


REFUSED = {
    "random effect": (["visits ~ (1|school)"], ["give --clusters school", "write C(school)"]),
    "random slope": (["visits ~ (age||school)"], ["give --clusters school"]),
    "second formula": (["visits ~ age | school"], ['--predictors "inflation ~ x"']),
    "smooth": (["visits ~ s(age)"], ["Penalised smooths are not fitted", "bs(x, df=5)"]),
    "tensor": (["visits ~ te(age, school)"], ["Penalised smooths are not fitted"]),
    "monotone": (["visits ~ mo(age)"], ["Monotone effects are not fitted", "Use C(x)"]),
    "continuous": (["visits ~ age", "--family", "gaussian"], ["not discrete"]),
    "slip": (["visits ~ age", "--family", "poison"], ["Did you mean 'poisson'?"]),
    "quasi": (["visits ~ age", "--family", "quasipoisson"], ['use "poisson" or "binomial"']),
    "NB1": (["visits ~ age", "--family", "nb1"], ['Use "negativebinomial"']),
    "column": (["visits ~ agee"], ["Did you mean 'age'?"]),
    "success": (
        ["answer ~ age", "--family", "bernoulli", "--success", "maybe"],
        ["--success is 'no' or 'yes'"],
    ),
    "three answers": (["three ~ age", "--family", "bernoulli"], ["'three' has 3: 'a'"]),
    "no answers": (["visits ~ age", "--success", "yes"], ["has no answers"]),
    "exposure": (["visits ~ age", "--exposure", "hours"], ["fit with --zero-exposure drop"]),
    "offset": (["visits ~ age + offset(log(hours))"], ["fit with --zero-exposure drop"]),
    "offset term": (["visits ~ age + offset(hours - 1)"], ["Compute the column beforehand"]),
    "trials": (["visits ~ age", "--family", "binomial"], ["needs --trials"]),
}


@pytest.mark.parametrize("command", ["fit", "check"])
@pytest.mark.parametrize("case", REFUSED)
def test_a_terminal_answers_with_what_to_use(command, case):
    args, words = REFUSED[case]
    done = asked(command, "x.csv", *args)
    assert done.exit_code == 1, done.output
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1
    for word in words:
        assert word in done.stderr
    # Advice for Python has arguments with quotes, and names of the package.
    assert not re.search(r'\b\w+=["\'\[{]|\btb\.|\btvdbayes\.', done.stderr)


def test_an_option_that_does_not_exist_is_answered_with_the_near_one():
    done = asked("fit", "x.csv", "visits ~ age", "--exposre", "hours")
    assert done.exit_code == 2
    assert "--exposure" in done.stderr


@pytest.mark.parametrize("group", ["bound", "plan"])
def test_a_group_of_commands_alone_shows_its_help(group):
    done, helped = asked(group), asked(group, "--help")
    assert done.exit_code == helped.exit_code == 0
    assert done.output == helped.output
    assert "Usage" in done.output


def test_families_are_listed_for_machines():
    done = asked("families", "--json")
    names = {family["name"] for family in json.loads(done.stdout)["families"]}
    assert {"poisson", "compoisson", "generalizedpoisson"} <= names


def test_experiments_are_listed():
    done = asked("reproduce", "--list")
    assert done.exit_code == 0
    assert "poisson" in done.output


@pytest.mark.parametrize("family", ["genpoisson", "com-poisson"])
def test_rows_from_another_program_are_fitted_by_any_law(folder, family):
    rows = folder.to_csv(index=False).encode()
    args = ["fit", "-", "visits ~ 1", "--family", family, "--draws", "5", "--json"]
    done = asked(*args, "--divergence", "kld", "--quiet", input=rows)
    assert done.exit_code == 0, done.output
    facts = json.loads(done.stdout)
    assert facts["n_rows"] == 90


def test_a_seed_is_given_by_one_name(folder):
    with pytest.raises(tb.SettingsError, match="two names of one thing"):
        tb.fit("visits ~ age", folder, seed=1, rng=np.random.default_rng(2))


def test_keywords_of_other_packages_are_answered(folder):
    with pytest.raises(tb.SettingsError, match="Did you mean 'zero_exposure'"):
        tb.fit("visits ~ age", folder, zero_exposures="drop")
