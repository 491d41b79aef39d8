"""Small random frames and formulas: only our own exceptions may escape.

A thousand in every run of the tests; ``TVDBAYES_FUZZ=10000 pytest tests/test_fuzz.py`` for more.
"""

import os
import warnings

import numpy as np
import pandas as pd
import pytest

import tvdbayes as tb

PIECES = 10
PER_PIECE = int(os.environ.get("TVDBAYES_FUZZ", "1000")) // PIECES


def nullable(rng, n):
    return pd.array([None if rng.random() < 0.3 else 1 for _ in range(n)], "Int64")


COLUMNS = {
    "int": lambda rng, n: rng.integers(-2, 5, n),
    "count": lambda rng, n: rng.poisson(2, n),
    "big": lambda rng, n: rng.integers(0, 2**60, n),
    "binary": lambda rng, n: rng.integers(0, 2, n),
    "float": lambda rng, n: rng.normal(size=n) * 10.0 ** rng.integers(-8, 12),
    "gaps": lambda rng, n: np.where(rng.random(n) < 0.3, np.nan, rng.normal(size=n)),
    "inf": lambda rng, n: np.where(rng.random(n) < 0.2, np.inf, 1.0),
    "bool": lambda rng, n: rng.random(n) < 0.5,
    "text": lambda rng, n: rng.choice(["a", "b", "", "é", "=1+1"], n),
    "mixed": lambda rng, n: np.array([rng.choice([1, "a", None]) for _ in range(n)], object),
    "objects": lambda rng, n: np.array([1.5, 2, *rng.normal(size=n)], object)[:n],
    "category": lambda rng, n: pd.Categorical(rng.choice(["u", "v"], n)),
    "date": lambda rng, n: pd.to_datetime(rng.integers(0, 10**9, n)),
    "complex": lambda rng, n: rng.normal(size=n) + 1j,
    "constant": lambda rng, n: np.full(n, rng.integers(0, 3)),
    "nullable": nullable,
}
TERMS = [
    *("1", "0", "a", "b", "a + b", "a * b", "C(a)", "log(a)", "scale(a)", "poly(a, 2)"),
    *("bs(a, df=4)", "a - 1", "I(a**2)", "a:b", "nobody", "a +", "C(b, Sum)", "cr(a, df=3)"),
    "center(b)",
]
FAMILIES = [
    *("poisson", "bernoulli", "binomial", "negativebinomial", "categorical", "ordinal"),
    *("zero_inflated_poisson", "hurdle_geometric", "truncated_poisson", "betabinomial", "gamma"),
]


def attempt(rng):
    n = int(rng.integers(0, 6))
    frame = pd.DataFrame(
        {name: COLUMNS[str(rng.choice(list(COLUMNS)))](rng, n) for name in ("y", "a", "b", "w")}
    )
    options = {}
    if rng.random() < 0.2:
        options["weights"] = "w"
    if rng.random() < 0.15:
        options[str(rng.choice(["offset", "exposure"]))] = str(rng.choice(["b", "w", "none"]))
    if rng.random() < 0.3:
        options["trials"] = [3, "b", 2.5, "w"][int(rng.integers(4))]
    if rng.random() < 0.3:
        options["missing"] = "drop"
    if rng.random() < 0.3:
        options["ridge"] = float(rng.choice([0.0, 0.01]))
    formula = f"y ~ {rng.choice(TERMS)}"
    before = frame.copy(deep=True)
    try:
        tb.fit(
            formula,
            frame,
            family=str(rng.choice(FAMILIES)),
            divergence=str(rng.choice(["tvd", "tvd", "kld", "hellinger"])),
            n_draws=int(rng.choice([0, 2])),
            **options,
        )
        ended = "fitted"
    except tb.TVDBayesError as error:
        ended = type(error).__name__
    pd.testing.assert_frame_equal(before, frame)
    return ended


@pytest.mark.parametrize("piece", range(PIECES))
def test_only_our_exceptions_escape(piece):
    rng = np.random.default_rng([41, piece])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", tb.TVDBayesWarning)
        ended = [attempt(rng) for _ in range(PER_PIECE)]
    # The fuzz reaches both sides: fits, and refusals of several kinds.
    assert "fitted" in ended
    assert len(set(ended)) >= 4
