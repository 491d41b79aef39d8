"""One BLAS thread while the package computes, in every thread, whatever anybody has set before."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

import tvdbayes as tb
from bits import same_bits
from tvdbayes.models.predictors import linear
from tvdbayes.sampling.execution import Threads, single_threaded


def threads(_=None):
    return {lib["num_threads"] for lib in threadpool_info() if lib["user_api"] == "blas"}


def limited(_):
    with single_threaded():
        return threads()


@pytest.fixture(autouse=True)
def two_threads():
    """Two BLAS threads, set and held by this thread; the environment of the tests may say one."""
    with threadpool_limits(2, "blas"):
        yield
        assert threads() == {2}


def test_the_limit_holds_in_every_thread_and_is_lifted_afterwards():
    assert limited(0) == {1}
    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(limited, range(8))) == [{1}] * 8
    assert list(Threads(2).map(threads, range(8))) == [{1}] * 8


def test_the_first_thread_to_end_does_not_lift_the_limit_of_others():
    with ThreadPoolExecutor(1) as pool:
        first, second = single_threaded(), single_threaded()
        pool.submit(first.__enter__).result()
        second.__enter__()
        pool.submit(first.__exit__, None, None, None).result()
        assert threads() == {1}
        second.__exit__(None, None, None)


def test_blocks_inside_a_limit_leave_it_as_it_is():
    with single_threaded():
        assert limited(0) == {1}
        assert threads() == {1}


@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize("family", ["bernoulli", "poisson"])
def test_blas_threads_do_not_change_a_bit_of_a_fit(family, n_jobs):
    rng = np.random.default_rng(0)
    frame = {name: rng.normal(size=3000) for name in "abcdefgh"}
    frame["y"] = (rng.random(3000) < 1 / (1 + np.exp(-frame["a"]))).astype(float)

    def fit(**how):
        return tb.fit("y ~ a + b + c + d + e + f + g + h", frame, family=family, **how)

    with threadpool_limits(1, "blas"):
        alone = fit(n_draws=40, n_jobs=1)
    assert same_bits(fit(n_draws=40, n_jobs=n_jobs), alone)


def test_a_fit_computes_with_one_thread_from_its_first_product(monkeypatch):
    seen = []

    def looking(function):
        def looked(*args, **kwargs):
            seen.append((function.__name__, threads()))
            return function(*args, **kwargs)

        return looked

    monkeypatch.setattr(linear, "qr", looking(linear.qr))
    for name in ("eigh", "lstsq"):
        monkeypatch.setattr(np.linalg, name, looking(getattr(np.linalg, name)))
    tb.fit("y ~ x", {"y": np.arange(50) % 4, "x": np.arange(50.0)}, n_draws=5)
    assert {name for name, _ in seen} == {"qr", "eigh", "lstsq"}
    assert all(number == {1} for _, number in seen)
