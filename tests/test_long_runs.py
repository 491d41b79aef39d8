"""Work that is stopped, goes on, or loses a worker: nothing done is lost, no bit changes."""

import io
import logging
import os
import sys
import time
from functools import partial as with_
from pathlib import Path

import numpy as np
import pytest

import tvdbayes as tb
from tvdbayes.sampling import execution as _progress
from tvdbayes.sampling.execution import Joblib


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(31)
    x = rng.normal(size=3000)
    return {"x": x, "y": rng.poisson(np.exp(1 + 0.3 * x))}


def stop_after(n, monkeypatch):
    """Ctrl-C once this many blocks are done."""
    from tvdbayes.sampling import bootstrap

    real, calls = bootstrap.solve_block, []

    def solve(plan, block, **how):
        calls.append(block)
        if len(calls) > n:
            raise KeyboardInterrupt
        return real(plan, block, **how)

    monkeypatch.setattr(bootstrap, "solve_block", solve)
    return calls


@pytest.mark.slow
def test_ctrl_c_keeps_the_finished_draws_and_resume_gives_the_same_bits(frame, monkeypatch):
    whole = tb.fit("y ~ x", frame, n_draws=600)
    with monkeypatch.context() as patch:
        stop_after(2, patch)
        with pytest.raises(tb.Interrupted, match="resume=partial") as stopped:
            tb.fit("y ~ x", frame, n_draws=600)
    partial = stopped.value.partial
    n_done = len(partial.draws)
    assert 0 < n_done < 600
    assert partial.draws.tobytes() == whole.draws[:n_done].tobytes()
    with monkeypatch.context() as patch:
        calls = stop_after(10**6, patch)
        again = tb.fit("y ~ x", frame, n_draws=600, resume=partial)
    assert min(calls) == 2
    for name in ("draws", "distance", "status", "kld_draws"):
        assert getattr(again, name).tobytes() == getattr(whole, name).tobytes()
    more = tb.fit("y ~ x", frame, n_draws=700, resume=whole)
    assert more.draws[:600].tobytes() == whole.draws.tobytes()
    assert more.draws.tobytes() == tb.fit("y ~ x", frame, n_draws=700).draws.tobytes()


def test_draws_of_another_fit_are_refused(frame):
    other = tb.fit("y ~ x", frame, n_draws=10, seed=1)
    for resume, words in ((other, "another fit"), (other.draws, "what fit returned")):
        with pytest.raises(tb.SettingsError, match=words):
            tb.fit("y ~ x", frame, n_draws=20, resume=resume)


def die_once(folder, block):
    """Kill the worker that gets block 3, the first time."""
    mark = Path(folder) / "died"
    if block == 3 and not mark.exists():
        mark.touch()
        os._exit(1)
    return block * block


def test_a_killed_worker_costs_its_block_only(tmp_path, caplog):
    with caplog.at_level(logging.WARNING, "tvdbayes"):
        done = list(Joblib(2).map(with_(die_once, str(tmp_path)), range(1, 8)))
    assert done == [b * b for b in range(1, 8)]
    assert "A worker was killed" in caplog.text


def test_work_is_logged_quietly(frame, caplog):
    with caplog.at_level(logging.INFO, "tvdbayes"):
        tb.fit("y ~ x", frame, n_draws=5)
    assert "3000 rows" in caplog.text


def shown_at_last(text):
    """The text, as soon as there is one."""
    for _ in range(1000):
        if found := text():
            return found
        time.sleep(0.01)
    return ""


def in_a_notebook(monkeypatch, patience):
    monkeypatch.delenv("TVDBAYES_PROGRESS", raising=False)
    monkeypatch.setitem(sys.modules, "ipykernel", object())
    monkeypatch.setattr(_progress, "_PATIENCE", patience)
    monkeypatch.setattr(_progress, "monotonic", iter(range(1_000_000)).__next__)


def test_a_notebook_shows_that_something_slow_is_under_way_and_cleans_up(monkeypatch, capsys):
    in_a_notebook(monkeypatch, 0.02)
    seen = ""

    def shown():
        nonlocal seen
        seen += capsys.readouterr().err
        return seen

    with _progress.progress_bar(None, "7 draws") as report:
        # Before the first draw there is something to see, and it moves.
        assert shown_at_last(lambda: "2 s" in shown())
        assert seen.startswith("\r7 draws: 1 s\r7 draws: 2 s")
        report(1, 2)
    lines = shown().split("\r")
    assert "7 draws: 50%" in lines
    assert lines[-2].strip() == lines[-1] == ""
    assert len(lines[-2]) >= len("7 draws: 50%")


def test_a_notebook_shows_nothing_of_what_is_quick(monkeypatch, capsys):
    in_a_notebook(monkeypatch, 60)
    with _progress.progress_bar(None, "7 draws") as report:
        report(1, 2)
    assert capsys.readouterr().err == ""


def test_a_terminal_shows_a_bar_before_the_first_draw(monkeypatch):
    pytest.importorskip("rich")
    seen = io.StringIO()
    monkeypatch.setattr(sys, "stderr", seen)
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setattr(_progress, "_PATIENCE", 0.05)
    with _progress._bar("7 draws", at_once=False):
        assert "7 draws" in shown_at_last(lambda: seen.getvalue() if "7" in seen.getvalue() else "")


def test_nobody_watches_a_batch_of_notebooks(monkeypatch):
    monkeypatch.setitem(sys.modules, "ipykernel", object())
    monkeypatch.setenv("TVDBAYES_PROGRESS", "0")
    with _progress.progress_bar(None, "7 draws") as report:
        assert report is None
