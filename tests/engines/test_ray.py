"""Draws on a Ray cluster of four processes: a worker dies, no draw is lost, no bit changes."""

import logging
import os
import signal
from functools import partial as with_
from pathlib import Path

import joblib
import pytest

import tvdbayes as tb
from bits import assert_resumed_after_ctrl_c, deadly, same_bits, where, wrong
from tables import counts_on_a_line
from tvdbayes.sampling.execution import Ray, executor_for

ray = pytest.importorskip("ray")
# Ray leaves sockets and files to its own processes when it ends.
pytestmark = pytest.mark.filterwarnings("default", "ignore::ResourceWarning")


@pytest.fixture(scope="module", autouse=True)
def cluster():
    from ray.util.joblib import register_ray

    register_ray()
    folders = os.pathsep.join(map(str, Path(__file__).parents[:2]))
    here = {"env_vars": {"PYTHONPATH": folders}}
    ray.init(
        num_cpus=4,
        include_dashboard=False,
        logging_level="ERROR",
        log_to_driver=False,
        runtime_env=here,
    )
    with joblib.parallel_config("ray"):
        yield
    ray.shutdown()


@pytest.fixture(scope="module")
def frame():
    return counts_on_a_line(1500)


@pytest.fixture(scope="module")
def alone(frame):
    """The fit in one process."""
    return tb.fit("y ~ x", frame, n_draws=200, refine=None, n_jobs=1)


def at_work():
    """Processes that compute a block now; Ray names them by what they do."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            name = (folder / "cmdline").read_bytes()
        except OSError:
            continue
        if name.startswith(b"ray::alone"):
            yield int(folder.name)


def kill_a_worker(patch):
    """SIGKILL to a worker as soon as one is seen at a block; returns the list of those killed."""
    finished, killed = Ray.finished, []

    def then_finished(self, tasks):
        running = list(tasks.values())
        while not killed and self.library.wait(running, num_returns=len(running), timeout=0)[1]:
            killed.extend(list(at_work())[:1])
            for pid in killed:
                os.kill(pid, signal.SIGKILL)
        return finished(self, tasks)

    patch.setattr(Ray, "finished", then_finished)
    return killed


@pytest.mark.parametrize("n_jobs", [None, -1, 4])
def test_a_fit_on_four_workers_is_the_serial_fit(n_jobs, frame, alone):
    there = tb.fit("y ~ x", frame, n_draws=200, refine=None, n_jobs=n_jobs)
    assert same_bits(there, alone)


def test_a_killed_worker_costs_no_draw_and_no_bit(frame, alone, monkeypatch):
    killed = kill_a_worker(monkeypatch)
    there = tb.fit("y ~ x", frame, n_draws=200, refine=None, n_jobs=4)
    assert len(killed) == 1
    assert len(there.draws) == 200
    assert same_bits(there, alone)


def test_blocks_are_done_by_the_workers_in_order():
    blocks, pids = zip(*executor_for(None, 1).map(where, range(3, 43)), strict=True)
    assert blocks == tuple(range(3, 43))
    assert os.getpid() not in pids
    assert len(set(pids)) > 1


def test_a_block_that_kills_its_workers_is_done_here_with_a_warning(caplog):
    with caplog.at_level(logging.WARNING, "tvdbayes"):
        done = list(executor_for(-1, 1).map(with_(deadly, os.getpid()), range(8)))
    assert done == [b * b for b in range(8)]
    assert "A worker was lost" in caplog.text


def test_what_the_work_raises_comes_through_as_it_is():
    with pytest.raises(KeyError, match="mine") as raised:
        list(executor_for(-1, 1).map(wrong, range(8)))
    assert raised.type is KeyError


def test_ctrl_c_keeps_the_finished_draws(frame, alone, monkeypatch):
    fit = with_(tb.fit, "y ~ x", frame, n_draws=200, refine=None)
    assert_resumed_after_ctrl_c(fit, alone, Ray, monkeypatch)
