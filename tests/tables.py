"""Tables that several tests share, and what must be the same of two fits to them."""

import numpy as np
import pandas as pd
import pytest

import tvdbayes as tb

FORMULA = "visits ~ age + C(kids) + sex*member + log1p(age)"


FEW_ROWS = pytest.mark.filterwarnings(
    "ignore::tvdbayes.SmallGroupsWarning",
    "ignore::tvdbayes.TooFewRowsWarning",
    "ignore::tvdbayes.BoundaryWarning",
)
"""For tests whose tables are small on purpose."""


def counts_on_a_line(n: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(8)
    x = rng.normal(size=n)
    return {"x": x, "y": rng.poisson(np.exp(1 + 0.3 * x))}


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


def same_bins(rows: pd.DataFrame, name: str, engine: object) -> None:
    """Where the sample is the table itself, another engine learns the same bins.

    PostgreSQL keeps 15 digits of a number that it adds up.
    """
    grid = tb.Grid(15, sample=100_000)
    fits = (
        tb.fit("visits ~ f", name, engine=engine, grid=grid, n_draws=4),
        tb.fit("visits ~ f", rows, engine="duckdb", grid=grid, n_draws=4),
    )
    one, other = (fit.posterior.cells for fit in fits)
    np.testing.assert_array_equal(one.counts, other.counts)
    np.testing.assert_allclose(one.x, other.x, rtol=1e-12)


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


def no_sql_by(connection: object, name: str) -> None:
    """Neither as the name of a table nor of a column; `connection` has a table "people"."""
    before = sorted(connection.list_tables())
    with pytest.raises(tb.DataError, match="no table"):
        tb.fit("visits ~ age", name, engine=connection)
    with pytest.raises((tb.DataError, tb.FormulaError)):
        tb.fit("visits ~ age", "people", engine=connection, weights=name)
    assert sorted(connection.list_tables()) == before
