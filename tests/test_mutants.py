"""The tables of planted bugs: every entry can still be planted, and names tests that exist."""

import importlib.util
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent / "mutants"


def load():
    spec = importlib.util.spec_from_file_location("mutants_run", FOLDER / "run.py")
    module = importlib.util.module_from_spec(spec)
    # Dataclasses look their module up by name.
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


RUN = load()


@pytest.mark.parametrize("topic", sorted(path.stem for path in FOLDER.glob("*.toml")))
def test_every_planted_bug_fits_the_code_and_names_tests(topic):
    faults = {mutant.about: mutant.fault(RUN.ROOT) for mutant in RUN.read([topic])}
    assert not {about: fault for about, fault in faults.items() if fault}


def mutant(**changes):
    given = {
        "topic": "t",
        "about": "a",
        "file": "src/m.py",
        "old": "x + 1",
        "new": "x - 1",
        "tests": ("tests/test_m.py::test_one[a]",),
    }
    return RUN.Mutant(**{**given, **changes})


@pytest.fixture
def project(tmp_path):
    for name in ("src", "tests", "benchmarks", "docs"):
        (tmp_path / name).mkdir()
    (tmp_path / "src/m.py").write_text("def up(x):\n    return x + 1\n")
    (tmp_path / "tests/test_m.py").write_text("def test_one():\n    pass\n")
    for name in ("pyproject.toml", "Makefile"):
        (tmp_path / name).write_text("")
    return tmp_path


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, ""),
        ({"file": "src/none.py"}, "no src/none.py"),
        ({"old": "x + 2"}, "occurs 0 times"),
        ({"old": "x"}, "occurs 2 times"),
        ({"new": "x + 1"}, "changes nothing"),
        ({"tests": ()}, "names no tests"),
        ({"tests": ("tests/test_n.py",)}, "no tests/test_n.py"),
        ({"tests": ("tests/test_m.py::test_on",)}, "no test_on in"),
    ],
)
def test_a_bug_that_cannot_be_planted_says_why(project, changes, words):
    fault = mutant(**changes).fault(project)
    assert words in fault
    assert bool(fault) == bool(words)


@pytest.mark.parametrize(
    ("status", "printed", "result"),
    [
        (1, "FAILED tests/test_m.py::test_one - assert", (True, "killed by tests/test_m.py")),
        (0, "1 passed", (False, "SURVIVED")),
        (None, "", (True, "killed by time")),
        (1, "ERROR tests/test_m.py::test_one", (True, "killed by tests/test_m.py")),
        (2, "ImportError", (False, "CANNOT BE RUN")),
    ],
)
def test_only_a_failed_test_or_time_kills(project, monkeypatch, status, printed, result):
    killed, words = result
    planted = []

    def run_tests(root, *_):
        planted.append((root / "src/m.py").read_text())
        return status, printed

    monkeypatch.setattr(RUN, "run_tests", run_tests)
    outcome = RUN.judge(mutant(), project, project.with_name("copy"))
    assert (outcome.killed, words in outcome.words) == (killed, True)
    assert "x - 1" in planted[0]
    assert "x + 1" in (project / "src/m.py").read_text()
    assert not project.with_name("copy").exists()
