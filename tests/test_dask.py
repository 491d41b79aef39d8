"""Draws on a Dask cluster of four processes: workers die, no draw is lost, no bit changes."""

import logging
import os
import signal
from functools import partial as with_

import joblib
import pytest

import tvdbayes as tb
from bits import assert_resumed_after_ctrl_c, deadly, same_bits, square, where, wrong
from tables import counts_on_a_line
from tvdbayes.sampling.execution import (
    Dask,
    Joblib,
    OnCluster,
    Serial,
    executor_for,
)

dask = pytest.importorskip("dask")
distributed = pytest.importorskip("distributed")


@pytest.fixture(scope="module")
def cluster():
    settings = {
        # A block is given up with the second worker that it kills.
        "distributed.scheduler.allowed-failures": 1,
        "logging.distributed": "critical",
    }
    with (
        dask.config.set(settings),
        distributed.LocalCluster(n_workers=4, threads_per_worker=1, dashboard_address=":0") as made,
    ):
        yield made


@pytest.fixture
def client(cluster):
    with distributed.Client(cluster) as made, joblib.parallel_config("dask"):
        yield made


@pytest.fixture(scope="module")
def frame():
    return counts_on_a_line(700)


@pytest.fixture(scope="module")
def alone(frame):
    """The fit in one process."""
    return tb.fit("y ~ x", frame, n_draws=224, refine=None, n_jobs=1)


def kill_a_worker(patch, client):
    """SIGKILL to a worker as soon as blocks are under way; returns the list of those killed."""
    finished, pids, killed = Dask.finished, client.run(os.getpid), []

    def then_finished(self, tasks):
        if not killed:
            busy = [worker for worker, its in client.processing().items() if its]
            killed.extend(busy[:1] or list(pids)[:1])
            os.kill(pids[killed[0]], signal.SIGKILL)
        return finished(self, tasks)

    patch.setattr(Dask, "finished", then_finished)
    return killed


@pytest.mark.usefixtures("client")
@pytest.mark.parametrize("n_jobs", [None, 4])
def test_a_fit_on_four_workers_is_the_serial_fit(n_jobs, frame, alone):
    there = tb.fit("y ~ x", frame, n_draws=224, refine=None, n_jobs=n_jobs)
    assert same_bits(there, alone)


def test_a_killed_worker_costs_no_draw_and_no_bit(client, frame, alone, monkeypatch):
    killed = kill_a_worker(monkeypatch, client)
    there = tb.fit("y ~ x", frame, n_draws=224, refine=None, n_jobs=4)
    assert len(killed) == 1
    assert len(there.draws) == 224
    assert same_bits(there, alone)


def test_blocks_are_done_by_the_workers_in_order(client):
    blocks, pids = zip(*executor_for(None, 1).map(where, range(3, 23)), strict=True)
    assert blocks == tuple(range(3, 23))
    assert set(pids) <= set(client.run(os.getpid).values())
    assert len(set(pids)) > 1


@pytest.mark.usefixtures("client")
def test_a_block_that_kills_its_workers_is_done_here_with_a_warning(caplog):
    with caplog.at_level(logging.WARNING, "tvdbayes"):
        done = list(executor_for(-1, 1).map(with_(deadly, os.getpid()), range(8)))
    assert done == [b * b for b in range(8)]
    assert "A worker was lost" in caplog.text


def test_a_cluster_that_loses_all_workers_does_not_hang(caplog, monkeypatch):
    monkeypatch.setattr("tvdbayes.sampling.execution._clusters._PATIENCE", 0.2)
    with (
        dask.config.set({"logging.distributed": "critical"}),
        distributed.LocalCluster(n_workers=1, processes=False, dashboard_address=":0") as cluster,
        distributed.Client(cluster) as client,
        joblib.parallel_config("dask", client=client),
    ):
        results = executor_for(-1, 1).map(square, range(30))
        done = [next(results)]
        cluster.scale(0)
        with caplog.at_level(logging.WARNING, "tvdbayes"):
            done += results
    assert done == [b * b for b in range(30)]
    assert "no workers left" in caplog.text


@pytest.mark.usefixtures("client")
def test_what_the_work_raises_comes_through_as_it_is():
    with pytest.raises(KeyError, match="mine") as raised:
        list(executor_for(-1, 1).map(wrong, range(8)))
    assert raised.type is KeyError


@pytest.mark.usefixtures("client")
def test_ctrl_c_keeps_the_finished_draws(frame, alone, monkeypatch):
    fit = with_(tb.fit, "y ~ x", frame, n_draws=224, refine=None)
    assert_resumed_after_ctrl_c(fit, alone, Dask, monkeypatch)


@pytest.mark.usefixtures("client")
def test_a_number_of_jobs_means_what_it_says():
    assert executor_for(1, 9) == Serial()
    assert executor_for(2, 1).n_jobs == 2
    assert isinstance(executor_for(None, 1), OnCluster)
    with joblib.parallel_config("loky"):
        assert executor_for(None, 9) == Serial()
        assert executor_for(3, 9) == Joblib(3)
        assert executor_for(3, 2) == Joblib(2)
    with joblib.parallel_config("loky", n_jobs=2):
        assert executor_for(None, 9) == Joblib(2)


def executor_inside():
    with joblib.parallel_config("dask"):
        return executor_for(-1, 9)


def test_a_task_of_the_cluster_takes_no_more_of_it(client):
    assert client.submit(executor_inside).result() == Serial()


def test_a_back_end_without_generators_gives_results_in_waves(monkeypatch):
    from joblib._parallel_backends import LokyBackend

    monkeypatch.setattr(LokyBackend, "supports_return_generator", False)
    assert list(Joblib(2).map(square, range(5, 25))) == [b * b for b in range(5, 25)]
