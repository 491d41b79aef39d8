"""No input may end in an error or a warning that is not ours, and nothing half written is left."""

import datetime
import os
import subprocess
import sys
import warnings
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pytest

import tvdbayes as tb
from tvdbayes.models.families import COUNT_FAMILIES

N = 60
ROWS = np.arange(N)
Y = np.random.default_rng(3).poisson(3, N)
X = ROWS % 3
YES = (ROWS % 2).astype(float)


def fit(formula="y ~ x", n_draws=4, options=None, **columns):
    """A fit in which every warning that is not ours is an error."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", tb.TVDBayesWarning)
        return tb.fit(formula, {"y": Y, "x": X, **columns}, n_draws=n_draws, **(options or {}))


def one(value, others=1.0):
    return np.where(ROWS == 3, value, others)


def first(value, others=1):
    return np.array([value, *[others] * (N - 1)], dtype=object)


def weigh(weights):
    return lambda: fit(w=weights, options={"weights": "w"})


def shift(offset):
    return lambda: fit(w=offset, options={"offset": "w"})


def tries(trials):
    return lambda: fit("b ~ x", b=YES, options={"family": "binomial", "trials": trials})


REFUSED = {
    "weights of 1e18": (weigh(np.full(N, 1e18)), r"less than 2\*\*53.*1e\+18"),
    "one weight of 1e18": (weigh(one(1e18)), r"less than 2\*\*53"),
    "weights that overflow": (weigh(np.full(N, 1e308)), r"less than 2\*\*53"),
    "weights that add up to too much": (
        lambda: fit(x=ROWS, w=np.full(N, 2.0**52), options={"weights": "w"}),
        r"less than 2\*\*53",
    ),
    "weights far apart": (weigh(one(1e-300)), "range from 1e-300 to 1,"),
    "a subnormal weight": (weigh(one(5e-324)), "too far apart"),
    "weights of nothing": (weigh(np.full(N, 1e-18)), "total weight of 6e-17"),
    "a weight beyond all numbers": (weigh(first(10**400)), "'w' must be a finite number.*row 0"),
    "trials of 1e300": (tries(1e300), r"below 2\*\*53.*1e\+300"),
    "trials of 10**400": (tries(10**400), r"below 2\*\*53"),
    "trials of 2**53": (tries(2**53), r"below 2\*\*53"),
    "an offset of 1e300": (shift(one(1e300, 0)), "'offset' ranges from 0 to 1e.300"),
    "offsets of -1e308": (shift(np.full(N, -1e308)), "'offset' ranges"),
    "offsets that overflow": (shift(np.where(ROWS % 2, 1.7e308, -1.7e308)), "'offset' ranges"),
    "a subnormal offset": (shift(ROWS % 3 * 5e-324), "'offset' ranges"),
    "covariates of 1e300": (lambda: fit(x=X * 1e300), "'x' ranges from 0 to 2e.300"),
    "covariates that overflow": (
        lambda: fit(x=np.where(ROWS % 2, 1.7e308, -1.7e308)),
        "'x' ranges from -1.7e.308",
    ),
    "a whole number of 400 digits": (lambda: fit(x=first(10**400)), "inf in row 0"),
    "a negative one": (lambda: fit(x=first(-(10**400))), "-inf in row 0"),
    "an outcome of 400 digits": (lambda: fit(y=first(10**400)), "'y' must be a finite number"),
    "a decimal of 400 digits": (lambda: fit(x=first(Decimal("1e400"))), "inf in row 0"),
    "a signalling NaN": (lambda: fit(x=first(Decimal("sNaN"))), "'x' holds a signalling NaN"),
    "a long double": (lambda: fit(x=one(1) * np.longdouble("1e4000")), "must be a finite number"),
    "the smallest integer": (lambda: fit(y=first(-(2**63))), "at least 0"),
    "an outcome of 2**53": (lambda: fit(y=one(2.0**53, Y)), r"below 2\*\*53"),
    "the largest integer": (lambda: fit(y=first(2**63 - 1)), r"below 2\*\*53"),
    "complex numbers": (lambda: fit(x=X + 1j), "complex"),
    "dates": (lambda: fit(x=pd.date_range("2020", periods=N)), "neither a number nor"),
    "durations": (lambda: fit(x=[datetime.timedelta(1)] * N), "neither a number nor"),
    "lists": (lambda: fit(x=[[1]] * N), "'x'"),
    "a masked value": (lambda: fit(x=np.ma.array(X, mask=ROWS == 2)), "'x' must be a finite"),
    "two columns in one": (lambda: fit(x=np.ones((N, 2))), "columns of equal length"),
}


@pytest.mark.parametrize("refused", REFUSED)
def test_what_cannot_be_used_is_refused_in_words(refused):
    ask, words = REFUSED[refused]
    with pytest.raises(tb.TVDBayesError, match=words):
        ask()


TAKEN = {
    "weights up to 2**53": weigh(one(2.0**53 - N)),
    "weights of 1e-200": weigh(one(1e-200)),
    "trials of 2**53 - 1": tries(2**53 - 1),
    "an outcome of 2**53 - 1": lambda: fit(y=one(2.0**53 - 1, Y)),
    "an outcome of 2**53 - 1, in bins": lambda: fit(x=ROWS, y=one(2.0**53 - 1, 100 * Y)),
    "an exposure of 1e-300": lambda: fit(w=one(1e-300), options={"exposure": "w"}),
    "an exposure of 1e300": lambda: fit(w=one(1e300), options={"exposure": "w"}),
    "a subnormal exposure": lambda: fit(w=one(5e-324), options={"exposure": "w"}),
    "an offset of 1e100": shift(one(1e100, 0)),
    "an offset of -1e100": shift(one(-1e100, 0)),
    "a covariate of 1e100": lambda: fit(x=one(1e100, X)),
    "subnormal covariates": lambda: fit(x=one(5e-324, X)),
    "truth values": lambda: fit(x=X > 1),
    "decimals": lambda: fit(x=np.array([Decimal(int(v)) for v in X], object)),
}


@pytest.mark.parametrize("taken", TAKEN)
def test_what_can_be_used_is_used_without_a_foreign_warning(taken):
    assert np.isfinite(TAKEN[taken]().draws).all()


@pytest.mark.parametrize("family", COUNT_FAMILIES, ids=lambda family: family.name)
def test_counts_of_a_rate_beyond_all_numbers_are_as_large_as_counts_can_be(family):
    eta = np.zeros((len(family.predictors), 50))
    eta[0] = 1000.0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        drawn = family.sample(np.random.default_rng(0), eta, np.ones(50))
        assert (family.pmf(Y[:50].astype(float), eta, np.ones(50)) <= 1e-9).all()
    assert (drawn == 2.0**53 - 1).all()


def test_replicates_of_a_rate_beyond_all_numbers_are_fitted():
    made = fit(o=one(1000.0, 0), options={"family": "geometric", "offset": "o"})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert 0 <= made.misfit(n_replicates=20).mean <= 1


def test_the_sign_of_a_zero_does_not_matter():
    plain, signed = fit(x=YES * 0.0 + X), fit(x=np.where(X == 0, -0.0, X))
    assert plain.draws.tobytes() == signed.draws.tobytes()


@pytest.mark.parametrize("large", [1, 2**100])
def test_integers_of_128_bits_are_numbers(large):
    x = [large if i % 3 else 0 for i in range(N)]
    frame = pl.DataFrame({"y": Y, "x": pl.Series(x, dtype=pl.Int128)})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", tb.TVDBayesWarning)
        wide = tb.fit("y ~ x", frame, n_draws=4)
        narrow = tb.fit("y ~ x", {"y": Y, "x": np.array(x, float)}, n_draws=4)
    assert wide.draws.tobytes() == narrow.draws.tobytes()


def test_narrow_128_bit_integers_have_the_levels_of_64_bit_ones():
    frames = [pl.DataFrame({"y": Y, "x": pl.Series(X, dtype=d)}) for d in (pl.Int128, pl.Int64)]
    names = [tb.fit("y ~ C(x)", frame, n_draws=0).param_names for frame in frames]
    assert names[0] == names[1]


# Files.

NO_FILES = [None, "a\0b", "", 3, True, 1.5, b"fit.tvd", [], "x" * 5000, "\ud800"]


@pytest.mark.parametrize("path", NO_FILES, ids=lambda path: repr(path)[:20])
def test_what_is_no_name_of_a_file_is_refused_by_load_and_save(path):
    with pytest.raises(tb.StorageError):
        tb.load(path)
    with pytest.raises(tb.StorageError):
        fit(n_draws=2).save(path)


def test_a_number_is_not_taken_for_an_open_file(tmp_path):
    with open(tmp_path / "mine", "wb+") as mine:
        with pytest.raises(tb.StorageError, match="name of a file"):
            tb.load(mine.fileno())
        mine.write(b"still open")


def test_a_device_is_not_replaced_by_a_file(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(tb.StorageError, match="is a device"):
        fit(n_draws=2).save(tmp_path / "pipe")
    assert (tmp_path / "pipe").is_fifo()


FULL_DISK = """
import resource, sys
import tvdbayes as tb
record = tb.load(sys.argv[1])
for room in map(int, sys.argv[3:]):
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, resource.RLIM_INFINITY))
    try:
        record.save(sys.argv[2])
    except tb.StorageError as error:
        print(error)
"""


def test_a_full_disk_is_an_error_in_words_and_leaves_what_was_there(tmp_path):
    made, target = tmp_path / "made.tvd", tmp_path / "mine" / "old.tvd"
    fit(n_draws=20).save(made)
    target.parent.mkdir()
    target.write_bytes(b"old")
    size = made.stat().st_size
    rooms = [0, 1, *np.linspace(2, size - 1, 20).astype(int)]
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", FULL_DISK, made, target, *map(str, rooms)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("old.tvd' could not be written: File too large.") == len(rooms)
    assert target.read_bytes() == b"old"
    assert os.listdir(target.parent) == ["old.tvd"]
