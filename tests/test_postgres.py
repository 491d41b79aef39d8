"""The same fit from a PostgreSQL server, started for these tests."""

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import tvdbayes as tb
from tables import FORMULA, HOSTILE, make_rows, no_sql_by, same_bins, same_fit

ibis = pytest.importorskip("ibis")
psycopg = pytest.importorskip("psycopg")


def _binary(name: str) -> str | None:
    versions = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"))
    return shutil.which(name) or (str(versions[-1]) if versions else None)


@pytest.fixture(scope="module")
def server() -> Iterator[object]:
    """A connection to a server of its own, which listens on a socket in a folder of its own."""
    initdb, postgres = _binary("initdb"), _binary("pg_ctl")
    if initdb is None or postgres is None:
        pytest.skip("PostgreSQL is not installed (Debian: postgresql)")
    # A server refuses to run as root.
    user = None
    if os.getuid() == 0:
        try:
            user = pwd.getpwnam("postgres").pw_name
        except KeyError:
            pytest.skip("PostgreSQL does not run as root, and there is no user postgres")
    folder = Path(tempfile.mkdtemp(prefix="tvd-pg-"))
    try:
        if user is not None:
            shutil.chown(folder, user)

        def run(*command: str) -> None:
            subprocess.run(command, user=user, cwd=folder, check=True, stdout=subprocess.DEVNULL)

        options = ["-A", "trust", "-U", "tester", "--locale=C.UTF-8", "--no-sync"]
        run(initdb, "-D", str(folder / "data"), *options)
        control = [postgres, "-D", str(folder / "data"), "-w"]
        # No network: a socket alone.
        quiet = ["-l", str(folder / "log"), "-o", f"-c listen_addresses='' -k {folder} -F"]
        run(*control, *quiet, "start")
        try:
            connection = ibis.postgres.connect(host=str(folder), user="tester", database="postgres")
            yield connection
            connection.disconnect()
        finally:
            run(*control, "-m", "immediate", "stop")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def put(connection: object, name: str, rows: pd.DataFrame) -> None:
    """Write a table by the driver itself."""
    kinds = {"i": "bigint", "f": "double precision", "b": "boolean"}
    columns = ", ".join(
        f'"{c}" {kinds.get(rows[c].dtype.kind, "text")}'.replace("%", "%%") for c in rows
    )
    cursor = connection.con.cursor()
    cursor.execute(f'CREATE TABLE "{name}" ({columns})')
    with cursor.copy(f'COPY "{name}" FROM STDIN') as copy:
        for row in rows.itertuples(index=False):
            copy.write_row([v.item() if isinstance(v, np.generic) else v for v in row])
    connection.con.commit()


def test_the_same_cells_as_in_memory(server):
    rows = make_rows()
    put(server, "people", rows)
    fit = tb.fit(FORMULA, "people", engine=server, n_draws=20)
    same_fit(fit, tb.fit(FORMULA, rows, n_draws=20))
    assert fit.data.n_grouped == len(rows)
    table = server.table("people")
    some = tb.fit(FORMULA, table.filter(table.age > 0), n_draws=4)
    same_fit(some, tb.fit(FORMULA, rows[rows.age > 0], n_draws=4))


def test_weights_gaps_and_rounding(server):
    rng = np.random.default_rng(0)
    rows = make_rows(20_000).assign(w=rng.integers(0, 3, 20_000), f=rng.random(20_000))
    put(server, "weighted", rows)
    same_fit(
        tb.fit(FORMULA, "weighted", engine=server, weights="w", n_draws=4),
        tb.fit(FORMULA, rows, weights="w", n_draws=4),
    )
    one, other = (
        tb.fit("visits ~ f", "weighted", engine=server, weights="f", grid=15, n_draws=4)
        for _ in range(2)
    )
    same_fit(one, other)
    same_bins(rows, "weighted", server)
    put(server, "gaps", rows.assign(age=rows.age.astype(float).where(rows.age > 0)))
    with pytest.raises(tb.DataError, match="'age' must have no gaps"):
        tb.fit(FORMULA, "gaps", engine=server)


@pytest.mark.parametrize("name", HOSTILE)
def test_names_cannot_run_sql(server, name):
    if "people" not in server.list_tables():
        put(server, "people", make_rows())
    no_sql_by(server, name)
