"""CONTRIBUTING.md, followed to the letter."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
CHANGE = re.compile(r"`([\w/.]+)`[^`]*?:\n\n```diff\n(.*?)```", flags=re.DOTALL)
TREE = ("src", "tests", "docs", "pyproject.toml", "README.md", "ARCHITECTURE.md", "CHANGELOG.md")

ADDED = {
    "family": (
        "src/tvdbayes/models/families/counts.py",
        "src/tvdbayes/models/families/__init__.py",
        "src/tvdbayes/__init__.pyi",
        "docs/api/families.md",
        "tests/test_exact.py",
    ),
    "divergence": (
        "src/tvdbayes/objective/divergences.py",
        "src/tvdbayes/__init__.pyi",
        "docs/api/divergences.md",
    ),
    "partition": (
        "src/tvdbayes/objective/partitions/split.py",
        "src/tvdbayes/sampling/named.py",
        "src/tvdbayes/__init__.pyi",
        "docs/api/partitions.md",
    ),
    "answer": ("src/tvdbayes/fitting/goodness.py", "docs/api/fitting.md"),
    "option": (
        "src/tvdbayes/sampling/options.py",
        "src/tvdbayes/fitting/fit_formula.py",
        "src/tvdbayes/fitting/run.py",
        "tests/test_options.py",
        "tests/test_call.py",
    ),
}
"""What each of the additions changes, in the order of the page."""


def applied(text, change):
    """A file with the hunks of a change in it; the lines that each begins from occur once."""
    for hunk in change.split("@@\n"):
        lines = hunk.splitlines(keepends=True)
        before = "".join(line[1:] for line in lines if line[0] in " -")
        after = "".join(line[1:] for line in lines if line[0] in " +")
        assert text.count(before) == 1, f"{text.count(before)} times in the file:\n{before}"
        text = text.replace(before, after)
    return text


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    """A copy of the tree with the additions of CONTRIBUTING.md in it."""
    copy = tmp_path_factory.mktemp("tree")
    skip = shutil.ignore_patterns("__pycache__", "_build", "generated", "*.png")
    for name in TREE:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, copy / name, ignore=skip)
        else:
            shutil.copy(ROOT / name, copy / name)
    changes = CHANGE.findall((ROOT / "CONTRIBUTING.md").read_text())
    for name, change in changes:
        before = (copy / name).read_text() if (copy / name).exists() else ""
        (copy / name).write_text(applied(before, change))
    assert [name for name, _ in changes] == [name for names in ADDED.values() for name in names]
    return copy


def run(tree, *command):
    done = subprocess.run(
        [sys.executable, "-m", *command],
        cwd=tree,
        env={**os.environ, "PYTHONPATH": str(tree / "src")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


def passed(tree, asked, *files):
    """How many of the tests that are asked for pass in these files."""
    how = ("-p", "no:xdist", "-p", "no:cacheprovider", "-k", asked)
    said = run(tree, "pytest", "-v", *how, *files)
    return int(re.search(r"(\d+) passed", said).group(1))


def test_each_has_the_style_of_the_house(tree):
    run(tree, "ruff", "check", "src", "tests")
    run(tree, "ruff", "format", "--check", "src", "tests")


def test_a_family_added_as_described_passes_what_is_asked_of_every_family(tree):
    asked = "Pascal or reference or every_family or completion or stays_short or exact"
    files = (f"tests/test_{name}.py" for name in ("house", "families", "objective", "exact", "cli"))
    assert passed(tree, asked, *files, "src/tvdbayes/models/families/counts.py") > 30
    assert "pascal" in run(tree, "tvdbayes", "families")


def test_a_divergence_and_a_partition_pass_their_laws(tree):
    asked = "(lecam or LeCam or split or Split) and (Poisson or reference or divergences or style)"
    files = (f"tests/test_{name}.py" for name in ("objective", "divergences", "solvers"))
    code = ("src/tvdbayes/objective/divergences.py", "src/tvdbayes/objective/partitions/split.py")
    assert passed(tree, asked, *files, *code) > 15


def test_an_answer_and_an_option_pass_what_is_asked_of_all(tree):
    asked = "totals or min_rows or every_option"
    files = ("tests/test_options.py", "tests/test_call.py", "src/tvdbayes/fitting/goodness.py")
    assert passed(tree, asked, *files) > 4
    assert "--min-rows" in run(tree, "tvdbayes", "fit", "--help")
