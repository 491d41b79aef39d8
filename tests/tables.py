"""Rows, and what must be the same of two fits to them, for the tests of engines."""

import numpy as np
import pandas as pd

import tvdbayes as tb

FORMULA = "visits ~ age + C(kids) + sex*member + log1p(age)"


def make_rows(n: int = 4000, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    age, kids = rng.integers(0, 6, n), rng.integers(0, 3, n)
    sex, member = rng.choice(["f", "m"], n), rng.random(n) < 0.3
    visits = rng.poisson(np.exp(0.2 + 0.1 * age - 0.2 * (sex == "m")))
    visits[rng.random(n) < 0.1] += 12
    return pd.DataFrame({"visits": visits, "age": age, "kids": kids, "sex": sex, "member": member})


def same_fit(one: tb.Fit, other: tb.Fit) -> None:
    for name in ("draws", "kld_draws", "estimate", "distance"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    a, b = one.posterior.cells, other.posterior.cells
    for name in ("x", "y", "counts", "offset", "trials", "x_index"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name))
    assert one.param_names == other.param_names


HOSTILE = [
    'x"; DROP TABLE people; --',
    "x'; COPY people TO 'stolen.csv'; --",
    'x" FROM people UNION SELECT * FROM secrets --',
    "read_csv('/etc/passwd')",
    "(SELECT secret FROM secrets)",
    'x\\"; SELECT 1; --',
    "*",
    "x);ATTACH 'evil.db';--",
]
