"""Data of any kind (frames, files, databases) as a source of distinct rows."""

import os
import sys
from importlib.util import find_spec
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd

from tvdbayes._errors import DataError, SettingsError, first_line
from tvdbayes._typing import Library
from tvdbayes._validate import did_you_mean
from tvdbayes.data.dask import DaskSource
from tvdbayes.data.duckdb import (
    SQL_EXTRA,
    category_levels,
    files_of,
    open_files,
    require_ibis,
)
from tvdbayes.data.files import is_csv, is_pattern, n_rows_of, read_file
from tvdbayes.data.frames import FrameSource, open_frame
from tvdbayes.data.grid import Grid
from tvdbayes.data.sql import MAX_CELLS, RegisteredFrame, SqlSource
from tvdbayes.data.table import AbstractSource

Data = Any
"""A data frame (pandas, polars, pyarrow, Dask, ...), a dict of columns, a path, an Ibis table."""

_LARGE = 256 << 20
"""Bytes of a file from which on it is grouped rather than read."""

_MANY = 5_000_000
"""Rows from which on a Parquet file is grouped, however small: few distinct values pack well."""


def open_data(data: Data) -> FrameSource:
    """Data that are read whole, row by row."""
    if is_ibis(data):
        raise DataError(
            "An Ibis table is only grouped, for fits; here rows are needed one by one. Pass "
            "table.to_pandas()."
        )
    if is_dask(data):
        raise DataError(
            "A Dask DataFrame is only grouped, for fits; here rows are needed one by one. Pass "
            "data.compute()."
        )
    return open_frame(read_file(data) if isinstance(data, str | os.PathLike) else data)


def open_source(
    data: Data,
    *,
    engine: Any = None,
    grid: Grid | int | None = None,
    max_cells: int = MAX_CELLS,
    sep: str = ",",
) -> AbstractSource:
    """Whatever a user calls data; see `tvdbayes.fit` for `engine`, `grid` and `max_cells`."""
    if isinstance(data, AbstractSource):
        return data
    rounded = None if grid is None else Grid.of(grid)
    if isinstance(engine, str) and engine not in ("memory", "duckdb"):
        raise SettingsError(
            f'engine must be "memory", "duckdb" or an Ibis connection; got {engine!r}.'
        )
    several = isinstance(data, str | os.PathLike) and is_pattern(data)
    # Connections of Ibis before 12 cannot be compared with text.
    connected = engine is not None and not isinstance(engine, str)
    in_memory = not connected and engine == "memory"
    if in_memory and several:
        raise SettingsError(
            f'engine="memory" reads one file; {os.fspath(data)!r} may be several. Leave engine= '
            "out to have them grouped."
        )
    if in_memory and (rounded is not None or is_ibis(data)):
        raise SettingsError(
            'engine="memory" reads rows one by one: it neither rounds (grid=) nor takes an Ibis '
            "table. Leave engine= out."
        )
    if is_dask(data):
        if engine is not None or rounded is not None:
            raise SettingsError(
                "A Dask DataFrame is grouped by Dask, which does not round: leave engine= and "
                "grid= out, or pass files or an Ibis table."
            )
        return DaskSource(data, max_cells)
    if connected:
        data = _named_table(engine, data)
    elif engine == "duckdb" or rounded is not None:
        return _in_duckdb(data, max_cells, rounded, sep)
    if is_ibis(data):
        return SqlSource(data, max_cells, rounded)
    if isinstance(data, str | os.PathLike):
        large = engine is None and _is_large(data)
        return _in_duckdb(data, max_cells, None, sep) if large else open_frame(read_file(data, sep))
    return open_frame(data)


def is_ibis(data: object) -> bool:
    """Whether data are an Ibis table, found out without importing Ibis."""
    ibis = sys.modules.get("ibis")
    return ibis is not None and isinstance(data, ibis.expr.types.Table)


def is_dask(data: object) -> bool:
    """Whether data are a Dask DataFrame, found out without importing Dask."""
    dask = sys.modules.get("dask.dataframe")
    return dask is not None and isinstance(data, dask.DataFrame)


def _is_large(path: str | os.PathLike[str]) -> bool:
    """Whether files are many or large enough to be grouped by an engine."""
    if is_pattern(path):
        return True
    if not os.path.isfile(path):
        return False
    if os.path.getsize(path) < _LARGE:
        return n_rows_of(path) >= _MANY and find_spec("ibis") is not None
    try:
        require_ibis()
    except SettingsError as error:
        raise SettingsError(
            f"{os.fspath(path)!r} holds {os.path.getsize(path) / 2**30:.1f} GiB. Have it grouped "
            f'by DuckDB ({SQL_EXTRA}), or read it whole with engine="memory".'
        ) from error
    return True


def _named_table(engine: Any, name: Data) -> Any:
    """A table of a connection by its name, which is never read as SQL, nor as a file's."""
    if not isinstance(engine, require_ibis().BaseBackend):
        raise SettingsError(
            f'engine must be "memory", "duckdb" or an Ibis connection; got {engine!r:.60}.'
        )
    if not isinstance(name, str):
        raise SettingsError(
            "With an Ibis connection as engine=, data is the name of a table in it; got "
            f"{type(name).__name__}."
        )
    try:
        known = list(engine.list_tables())
        table = engine.table(name) if name in known else None
    except Exception as error:
        # Each engine has exceptions of its own; all mean that it does not answer.
        text = first_line(error)
        raise DataError(f"The engine does not give the table {name!r}: {text}") from error
    if table is None:
        raise DataError(
            f"The engine has no table {name!r:.200}.{did_you_mean(name, known)} For one in "
            "another schema pass the Ibis table itself."
        )
    return table


def _in_duckdb(data: Data, max_cells: int, grid: Grid | None, sep: str) -> AbstractSource:
    """Files, or a data frame, as a table of DuckDB's."""
    if is_ibis(data):
        return SqlSource(data, max_cells, grid)
    if not isinstance(data, str | os.PathLike):
        require_ibis()
        return RegisteredFrame(open_frame(data), max_cells, grid)
    files = files_of(data)
    if is_csv(files[0]):
        return SqlSource(open_files(files, sep), max_cells, grid, untyped=True)
    table = open_files(files)
    return SqlSource(table, max_cells, grid, levels=category_levels(files))


_FORMULAS = ("=", "+", "-", "@", "\t", "\r")


def harmless(value: object) -> object:
    """Quote text that a spreadsheet would read as a formula; numbers are kept."""
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULAS) else value


def native_frame(frame: pd.DataFrame, library: Library, *, index: str = "") -> Any:
    """A table as a frame of the library that data came in; pandas where that is not installed.

    Other libraries have no index and no notes, and names of columns are text there. An index that
    says something becomes a first column, called `index`.
    """
    if library == "pandas" or find_spec(library) is None:
        return frame
    columns = {str(name): _values(frame[name]) for name in frame}
    if index:
        renamed = {f"data: {name}" if name == index else name: v for name, v in columns.items()}
        columns = {index: frame.index.to_numpy(), **renamed}
    return nw.from_dict(columns, backend=library).to_native()


def _values(column: "pd.Series[Any]") -> Any:
    """Numbers as they are, and text with None in gaps."""
    if isinstance(column.dtype, np.dtype) and column.dtype.kind in "biuf":
        return column.to_numpy()
    return column.astype(object).where(column.notna(), None).tolist()
