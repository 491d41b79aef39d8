"""The benchmarks: one convention, and what a table says of itself. `make bench-quick` runs them."""

import inspect
import re
import subprocess
from pathlib import Path

import pytest
from benchmarks import _report, accuracy, speed
from benchmarks.__main__ import ALL, ONLY_BY_NAME, main

ROOT = Path(__file__).parent.parent


@pytest.mark.parametrize("name", ALL)
def test_every_benchmark_has_a_quick_mode_and_is_not_quick_by_default(name):
    assert inspect.signature(ALL[name]).parameters["quick"].default is False


def test_every_module_of_benchmarks_is_entered():
    modules = {p.stem for p in (ROOT / "benchmarks").glob("[a-z]*.py")}
    assert modules == {run.__module__.removeprefix("benchmarks.") for run in ALL.values()}
    assert set(ONLY_BY_NAME) < set(ALL)


def table():
    return _report.Table("trial", "trial", "Nothing.", ("a", "b"), [(1.0, 1000)])


def test_a_table_says_at_which_commit_and_when_it_was_made(monkeypatch):
    monkeypatch.setattr(_report, "commit", lambda: "1a2b3c4-dirty")
    assert re.search(
        r"by `python -m benchmarks trial`, at commit 1a2b3c4-dirty on \d{4}-\d\d-\d\d, tvdbayes ",
        table().page(),
    )


def git(folder, *command):
    return subprocess.run(
        ["git", "-c", "user.name=a", "-c", "user.email=a@b.c", *command],
        cwd=folder,
        check=True,
        capture_output=True,
        text=True,
    ).stdout.strip()


def test_changed_code_is_marked_and_changed_tables_are_not(tmp_path, monkeypatch):
    results = tmp_path / "benchmarks" / "results"
    results.mkdir(parents=True)
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "code.py").write_text("1\n")
    (results / "trial.md").write_text("old\n")
    monkeypatch.setattr(_report, "RESULTS", results)
    asked = _report.commit.__wrapped__
    assert asked() == "unknown"
    git(tmp_path, "init", "--quiet")
    git(tmp_path, "add", "--all")
    git(tmp_path, "commit", "--quiet", "--message", "first")
    at = git(tmp_path, "rev-parse", "--short", "HEAD")
    (results / "trial.md").write_text("new\n")
    assert asked() == at
    (tmp_path / "src" / "code.py").write_text("2\n")
    assert asked() == f"{at}-dirty"


def test_a_quick_run_prints_its_table_and_keeps_nothing(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(_report, "RESULTS", tmp_path)
    monkeypatch.setattr(_report, "commit", lambda: "1a2b3c4")
    monkeypatch.setitem(ALL, "trial", lambda quick: table().publish() if quick else None)
    main(["--quick", "trial"])
    assert "| 1 | 1,000 |" in capsys.readouterr().out
    assert list(tmp_path.iterdir()) == []
    table().publish()
    assert (tmp_path / "trial.md").read_text() == capsys.readouterr().out.removesuffix("\n")


def test_the_search_over_one_parameter_finds_the_exact_minimum():
    ((_, problems, excess, within),) = accuracy.one_parameter(n_tables=4, n_weights=2)
    assert problems == 8
    assert excess < 1e-10
    assert within == 1


def test_ratios_are_to_the_first_line(monkeypatch):
    seconds = iter([2.0, 3.0])
    monkeypatch.setattr(speed, "clock", lambda *_: next(seconds))
    assert [line[2:] for line in speed.with_rows_behind()] == [(2, 2, 1), (3, 2, 1.5)]


def test_an_unknown_benchmark_is_named(capsys):
    with pytest.raises(SystemExit):
        main(["nonsense"])
    assert "there is no benchmark 'nonsense'" in capsys.readouterr().err
