"""What a type checker sees of the package in a file of a user."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
README = (ROOT / "docs" / "first.py").read_text()
"""The example of the README."""


def by_mypy(file):
    # In the tree, so that what `make types` has learned of other packages is not learned again.
    return [sys.executable, "-m", "mypy", "--config-file", "pyproject.toml", str(file)]


def by_pyright(file):
    return [sys.executable, "-m", "pyright", "--pythonpath", sys.executable, str(file)]


CHECKERS = {
    by_mypy: ('Revealed type is "tvdbayes.fitting.record.Fit"', 'has no attribute "fitt"'),
    by_pyright: ('Type of "fit" is "Fit"', '"fitt" is not a known attribute'),
}


def checked(checker, folder, code):
    """The exit status of a checker, and what it says."""
    file = folder / "user.py"
    file.write_text(code)
    found = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(
        checker(file), cwd=ROOT, env=found, capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize("checker", CHECKERS)
def test_type_checkers_find_no_error_in_the_readme_and_know_what_fit_returns(checker, tmp_path):
    status, said = checked(checker, tmp_path, README + "reveal_type(fit)\n")
    assert status == 0, said
    assert CHECKERS[checker][0] in said


@pytest.mark.parametrize("checker", CHECKERS)
def test_type_checkers_refuse_a_name_that_is_not_public(checker, tmp_path):
    status, said = checked(checker, tmp_path, "import tvdbayes as tb\n\ntb.fitt('y ~ x', {})\n")
    assert status == 1
    assert CHECKERS[checker][1] in said
