"""Files grouped by DuckDB, which runs in this process and sees nothing but these files."""

import glob
import os
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tvdbayes._errors import DataError, SettingsError

__all__ = ["SQL_EXTRA", "files_of", "is_pattern", "open_files", "require_ibis"]

SQL_EXTRA = "pip install 'tvdbayes[sql]'"

_PARQUET, _CSV = (".parquet", ".pq"), (".csv",)
_MEMORY = "1GB"
_GAPS = (
    *("", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN"),
    *("<NA>", "N/A", "NA", "NULL", "NaN", "None", "n/a", "nan", "null"),
)
"""What stands for a gap in CSV: as pandas reads it."""


def require_ibis() -> Any:
    """The module ibis, or an error that says how to get it."""
    try:
        import ibis
    except ImportError as error:
        raise SettingsError(
            f"Grouping data in an engine needs Ibis. Run: {SQL_EXTRA}. Or read the data into a "
            'data frame and pass that (engine="memory" for a single file).'
        ) from error
    return ibis


def is_pattern(path: str | os.PathLike[str]) -> bool:
    """Whether a path stands for several files: a folder, or a pattern such as parts/*.parquet."""
    return Path(path).is_dir() or (glob.has_magic(os.fspath(path)) and not Path(path).is_file())


def files_of(path: str | os.PathLike[str]) -> list[str]:
    """The files that a path, a pattern or a folder stands for, by their full names, in order.

    Patterns are resolved here, so that the engine is given files and nothing else: no address of
    another machine, no command.
    """
    text = os.fspath(path)
    if "\0" in text:
        raise DataError(f"A path cannot hold a zero byte; got {text!r}.")
    if Path(text).is_dir():
        found = [f for f in Path(text).rglob("*") if f.suffix.lower() in _PARQUET + _CSV]
    elif is_pattern(text):
        found = [Path(f) for f in glob.glob(text, recursive=True)]
    else:
        found = [Path(text)]
    files = sorted(str(file.resolve()) for file in found if file.is_file())
    if not files:
        raise DataError(
            f"There is no file {text!r}. Check the name and the working directory. For a table on "
            "another machine pass an Ibis table."
        )
    odd = [f for f in files if Path(f).suffix.lower() not in _PARQUET + _CSV]
    if odd:
        raise DataError(
            f"Files are read as CSV or Parquet, by their ending; got {Path(odd[0]).name!r}. "
            "Read it yourself and pass the data frame."
        )
    if len({Path(f).suffix.lower() in _CSV for f in files}) > 1:
        raise DataError(f"{text!r} holds both CSV and Parquet files. Give one kind.")
    return files


def open_files(path: str | os.PathLike[str], sep: str = ",") -> Any:
    """An Ibis table of all rows of some files."""
    ibis = require_ibis()
    files = files_of(path)
    # DuckDB takes brackets and stars in a name for a pattern, unless they are escaped.
    names = [glob.escape(file) for file in files]
    backend = ibis.duckdb.connect(
        memory_limit=_MEMORY,
        preserve_insertion_order=False,
        autoinstall_known_extensions=False,
        autoload_known_extensions=False,
    )
    _shut_in(backend.con, {*files, *names})
    try:
        if Path(files[0]).suffix.lower() in _PARQUET:
            return backend.read_parquet(names, union_by_name=True)
        return backend.read_csv(
            names,
            union_by_name=True,
            header=True,
            delim=sep,
            nullstr=list(_GAPS),
            # Truth values are found later: DuckDB takes yes and no for such, too.
            auto_type_candidates=["BIGINT", "DOUBLE", "VARCHAR"],
            sample_size=-1,
        )
    except Exception as error:
        # DuckDB has many kinds of its own; all mean that the files cannot be read.
        text = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise DataError(f"{os.fspath(path)!r} cannot be read: {text}") from error


def _shut_in(connection: Any, files: Iterable[str]) -> None:
    """Let a connection read these files, spill to a folder of its own, and do nothing else."""

    def text(value: str) -> str:
        return "'" + value.replace("'", "''") + "'"

    spill = Path(tempfile.gettempdir()) / f"tvdbayes-{os.getpid()}"
    connection.execute(f"SET temp_directory = {text(str(spill))}")
    connection.execute(f"SET allowed_paths = [{', '.join(map(text, sorted(files)))}]")
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")
