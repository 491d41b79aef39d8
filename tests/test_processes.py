"""Processes, folders and files that a run leaves, however it ends."""

import gc
import os
import select
import signal
import stat
import subprocess
import sys
import tempfile
import threading
from contextlib import suppress
from dataclasses import dataclass
from time import sleep
from typing import ClassVar

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

import tvdbayes as tb
from tvdbayes.cli import main
from tvdbayes.data import duckdb as _duckdb
from tvdbayes.experiments import runs
from tvdbayes.experiments.contract import CORRECTED, AbstractExperiment, Task
from tvdbayes.sampling.execution import Joblib

# Workers end with their parent.

PARENT = """
import os, pathlib, time
from tvdbayes.sampling.execution import Joblib
def work(block):
    pathlib.Path(FOLDER, str(os.getpid())).touch()
    time.sleep(3600)
list(Joblib(2).map(work, range(8)))
"""


def test_workers_end_when_their_parent_is_killed(tmp_path):
    code = f"FOLDER = {str(tmp_path)!r}\n{PARENT}"
    parent = subprocess.Popen([sys.executable, "-c", code])
    while len(os.listdir(tmp_path)) < 2:
        assert parent.poll() is None
        sleep(0.05)
    workers = [int(name) for name in os.listdir(tmp_path)]
    handles = [os.pidfd_open(worker) for worker in workers]
    try:
        parent.kill()
        parent.wait()
        for handle in handles:
            # It can be read when the process has ended; until then, this waits.
            select.select([handle], [], [])
    finally:
        for handle in handles:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(handle, signal.SIGKILL)
            os.close(handle)


LAW = np.array([0.25, 0.75])


def watchers(block):
    del block
    return os.getpid(), [thread.name for thread in threading.enumerate()].count("tvdbayes-parent")


def test_a_worker_watches_once_and_this_process_never():
    found = list(Joblib(2).map(watchers, range(6)))
    assert {n for _, n in found} == {1}
    assert os.getpid() not in {pid for pid, _ in found}
    assert watchers(0)[1] == 0


@dataclass(frozen=True)
class Watched(AbstractExperiment):
    """Measures how many threads watch the parent."""

    name: ClassVar[str] = "watched"
    modes: ClassVar[tuple[str, ...]] = (CORRECTED,)

    def tasks(self, mode, quick):
        raise NotImplementedError

    def measure(self, task):
        return {"n": np.array(float(watchers(0)[1])), "law": LAW}

    def report(self, mode, tasks, measured):
        raise NotImplementedError


def test_workers_of_experiments_watch_too(tmp_path):
    tasks = [Task(CORRECTED, "a", seed, 10) for seed in range(2)]
    found = runs.run_tasks(Watched(), tasks, kept=tmp_path, n_jobs=2)
    assert [part["n"] for part in found] == [1, 1]


# Kept parts are sealed.


@pytest.fixture
def part(tmp_path):
    runs.run_tasks(Watched(), [Task(CORRECTED, "a", 1, 10)], kept=tmp_path)
    (path,) = tmp_path.iterdir()
    return path


def test_no_flipped_bit_of_a_kept_part_goes_unseen(part):
    whole = part.read_bytes()
    assert runs._load(part)["law"].tobytes() == LAW.tobytes()
    for at in range(len(whole)):
        flipped = bytearray(whole)
        flipped[at] ^= 1 << at % 8
        part.write_bytes(flipped)
        assert runs._load(part) is None, at


def test_a_kept_part_under_the_name_of_another_is_not_taken_for_it(part):
    other = part.with_name("0" * 32 + part.suffix)
    other.write_bytes(part.read_bytes())
    assert runs._load(part) is not None
    assert runs._load(other) is None


def test_a_part_that_cannot_be_written_is_an_error_of_ours_and_leaves_nothing(
    tmp_path, monkeypatch
):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(tb.StorageError, match="No space left"):
        runs.run_tasks(Watched(), [Task(CORRECTED, "a", 1, 10)], kept=tmp_path)
    assert not os.listdir(tmp_path)


# DuckDB spills into a private folder.


@pytest.fixture
def spilled(tmp_path, monkeypatch):
    """The folder for temporary files, empty at first."""
    pytest.importorskip("ibis")
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def test_duckdb_spills_where_nobody_else_can_look(spilled):
    tables = [_duckdb.register(pd.DataFrame({"x": [1, 2]})) for _ in range(2)]
    folders = list(spilled.iterdir())
    assert len(folders) == 2
    for folder in folders:
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert str(os.getpid()) not in folder.name
    used = [t.get_backend().con.sql("SELECT current_setting('temp_directory')") for t in tables]
    assert {line.fetchone()[0] for line in used} == set(map(str, folders))
    del tables, used
    gc.collect()
    assert not list(spilled.iterdir())


@pytest.mark.parametrize("formula", ["y ~ x", "y ~ nowhere"])
def test_nothing_is_left_of_a_fit_in_duckdb_whether_it_ends_well_or_not(spilled, formula):
    data = {"y": [0, 1, 2, 3] * 10, "x": [0, 1] * 20}
    with suppress(tb.TVDBayesError):
        tb.fit(formula, data, engine="duckdb", n_draws=0)
    gc.collect()
    assert not list(spilled.iterdir())


def test_nothing_is_left_of_duckdb_at_the_end_of_a_program(spilled):
    code = (
        "import pandas as pd, os, tempfile; from tvdbayes.data import duckdb as _duckdb\n"
        "kept = _duckdb.register(pd.DataFrame({'x': [1]}))\n"
        "if os.fork() == 0:\n    raise SystemExit\n"
        "os.wait()\n"
        "print(len(os.listdir(tempfile.gettempdir())))\n"
        "raise RuntimeError"
    )
    done = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", code],
        capture_output=True,
        text=True,
        env={**os.environ, "TMPDIR": str(spilled)},
        check=False,
    )
    # There while it was needed, also after a fork had ended; gone now.
    assert (done.stdout.strip(), done.stderr.splitlines().count("RuntimeError")) == ("1", 1)
    assert not list(spilled.iterdir())


# Closed streams.


def test_closed_standard_error_swallows_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    pd.DataFrame({"y": [0, 1, 2, 3] * 10, "x": [0, 1] * 20}).to_csv("a.csv", index=False)
    asked = ["fit", "a.csv", "y ~ x", "--draws", "4"]
    done = subprocess.run(
        ["bash", "-c", '"$@" 2>&-', "", sys.executable, "-m", "tvdbayes", *asked],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0
    assert done.stdout == CliRunner().invoke(main, asked).stdout


def test_a_fit_runs_where_standard_error_is_closed(monkeypatch):
    monkeypatch.setattr(sys, "stderr", None)
    data = {"y": [0, 1, 2, 3] * 10}
    assert len(tb.fit("y ~ 1", data, n_draws=4, progress=True).draws) == 4
    assert len(tb.fit("y ~ 1", data, n_draws=4).draws) == 4


def test_a_fit_in_one_process_does_not_import_joblib():
    """Which takes a tenth of a second."""
    script = """
import sys, tvdbayes as tb
tb.fit("y ~ 1", {"y": [0, 1, 2, 3] * 20}, n_draws=5)
print("joblib" in sys.modules)
"""
    done = subprocess.run(
        [sys.executable, "-c", script], check=True, capture_output=True, text=True
    )
    assert done.stdout.split() == ["False"]
