"""The same bits: of two records, of two fits, and of a fit that was stopped and went on.

And what blocks on a cluster do in tests: workers import it from here.
"""

import os
import signal
import time
from dataclasses import fields, is_dataclass

import numpy as np
import pytest

import tvdbayes as tb


def assert_same(one, other, where="record"):
    """The same classes, the same values, the same bits."""
    assert type(one) is type(other), where
    if isinstance(one, np.ndarray):
        assert one.dtype == other.dtype, where
        assert one.shape == other.shape, where
        assert one.tobytes("C") == other.tobytes("C"), where
    elif is_dataclass(one):
        for field in fields(one):
            here = f"{where}.{field.name}"
            if field.name not in ("encoding", "more_encodings"):
                assert_same(getattr(one, field.name), getattr(other, field.name), here)
    elif isinstance(one, dict):
        assert list(one) == list(other), where
        for key in one:
            assert_same(one[key], other[key], f"{where}.{key}")
    elif isinstance(one, tuple):
        assert len(one) == len(other), where
        for j, (a, b) in enumerate(zip(one, other, strict=True)):
            assert_same(a, b, f"{where}.{j}")
    else:
        assert one == other, where


def same_bits(one, other):
    """Whether two fits or records have the same draws."""
    names = ("draws", "distance", "status", "kld_draws", "kld_distance")
    one, other = (getattr(fit, "posterior", fit) for fit in (one, other))
    return all(getattr(one, n).tobytes() == getattr(other, n).tobytes() for n in names)


def assert_resumed_after_ctrl_c(fit, alone, cluster, monkeypatch):
    """What Ctrl-C leaves behind on a kind of cluster goes on to the fit of one process."""
    finished, calls = cluster.finished, []

    def interrupted(self, tasks):
        calls.append(len(tasks))
        if min(tasks) > 0:
            raise KeyboardInterrupt
        return finished(self, tasks)

    with monkeypatch.context() as patch:
        patch.setattr(cluster, "finished", interrupted)
        with pytest.raises(tb.Interrupted) as stopped:
            fit(n_jobs=2)
    assert max(calls) == 2
    partial = stopped.value.partial
    assert 0 < len(partial.draws) < len(alone.draws)
    assert same_bits(fit(resume=partial), alone)


def where(block):
    time.sleep(0.02)
    return block, os.getpid()


def square(block):
    time.sleep(0.02)
    return block * block


def deadly(home, block):
    """Kill every worker that gets block 3."""
    if block == 3 and os.getpid() != home:
        os.kill(os.getpid(), signal.SIGKILL)
    return square(block)


def wrong(block):
    if block == 3:
        raise KeyError("mine")
    return square(block)
