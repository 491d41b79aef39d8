"""Files grouped by DuckDB, which runs in this process and may read no other files."""

import glob
import os
import shutil
import tempfile
import weakref
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from tvdbayes._errors import DataError, SettingsError, first_line
from tvdbayes.data.files import CSV, PARQUET, csv_names, is_csv, is_pattern, reading, require_known

SQL_EXTRA = "pip install 'tvdbayes[sql]'"

_MEMORY = "1GB"
"""What DuckDB may hold in memory; it writes the rest to a private folder."""

_GAPS = (
    *("", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN"),
    *("<NA>", "N/A", "NA", "NULL", "NaN", "None", "n/a", "nan", "null"),
)
"""Texts in CSV that mean a missing value, as in pandas."""


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


def files_of(path: str | os.PathLike[str]) -> list[str]:
    """The files that a path, a pattern or a folder stands for, by their full names, in order.

    Patterns are resolved here, so that the engine is given files and nothing else: no address of
    another machine, no command. A file counts once, by whatever names it is found. Of a folder,
    what begins with a dot or an underscore is left out, as engines leave it behind while they
    write.
    """
    text = os.fspath(path)
    if "\0" in text or not _is_text(text):
        raise DataError(f"A path must be text without zero bytes; got {text!r}.")
    if os.path.isdir(text):
        try:
            inside = [f for f in Path(text).rglob("*") if f.suffix.lower() in PARQUET + CSV]
        except OSError as error:
            raise DataError(
                f"The folder {text!r} cannot be listed: {first_line(error)}."
            ) from error
        found = [
            f
            for f in inside
            if not any(part.startswith((".", "_")) for part in f.relative_to(text).parts)
        ]
    elif is_pattern(text):
        found = [Path(f) for f in glob.glob(text, recursive=True)]
    else:
        found = [Path(text)]
    once = {os.path.realpath(f): os.path.abspath(f) for f in found if os.path.isfile(f)}
    files = sorted(once.values())
    if not files and os.path.isdir(text):
        raise DataError(
            f"{text!r} is a folder without CSV or Parquet files. Check the name and the working "
            "directory."
        )
    if not files:
        raise DataError(
            f"There is no file {text!r:.200}. Check the name and the working directory. For a "
            "table on another machine pass an Ibis table."
        )
    for file in files:
        require_known(Path(file))
    if not all(map(_is_text, files)):
        raise DataError(f"{text!r} holds files whose names are not valid text. Rename them.")
    if len(set(map(is_csv, files))) > 1:
        raise DataError(f"{text!r} holds both CSV and Parquet files. Give one kind.")
    return files


def _is_text(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def open_files(files: Sequence[str], sep: str = ",") -> Any:
    """An Ibis table of all rows of some files."""
    ibis = require_ibis()
    for file in files:
        require_cases(names_of(file, sep), f"{file!r}")
    # DuckDB takes brackets and stars in a name for a pattern, unless they are escaped.
    names = [glob.escape(file) for file in files]
    backend = _connect(ibis)
    _shut_in(backend.con, {*files, *names, *map(os.path.realpath, files)})
    # Folders such as year=2026 are not read as columns: they would replace those of the files.
    options: dict[str, Any] = {"union_by_name": True, "hive_partitioning": False}
    try:
        if not is_csv(files[0]):
            return backend.read_parquet(names, **options)
        # All values are read as text; their types are found on the distinct rows.
        options |= {"header": True, "delim": sep, "quote": '"', "escape": '"', "comment": ""}
        options |= {"skip": 0, "strict_mode": True, "all_varchar": True, "nullstr": list(_GAPS)}
        table = backend.read_csv(names, **options)
    except Exception as error:
        # DuckDB has many kinds of its own; all mean that the files cannot be read.
        raise DataError(f"{files[0]!r} cannot be read: {first_line(error)}") from error
    named = {name for file in files for name in csv_names(Path(file), sep) if name}
    if not named <= set(table.columns):
        raise DataError(
            f"The first line of {files[0]!r} names {', '.join(sorted(named))}, but what follows "
            f"reads as {', '.join(table.columns)}. Check quotes and the number of values in a line."
        )
    return table


def names_of(file: str, sep: str = ",") -> Sequence[str]:
    """The names of the columns of a file."""
    with reading(file):
        if is_csv(file):
            return csv_names(Path(file), sep)
        from pyarrow.parquet import read_schema

        return list(read_schema(file).names)


def require_cases(names: Sequence[str], where: str) -> None:
    """Raise where two names differ in capitals only, which DuckDB takes for one."""
    seen: dict[str, str] = {}
    for name in names:
        other = seen.setdefault(name.casefold(), name)
        if other != name or names.count(name) > 1:
            raise DataError(
                f"{where} has columns {other!r} and {name!r}, which DuckDB does not tell apart. "
                'Rename one of them, or read the rows one by one (engine="memory").'
            )


def category_levels(files: Sequence[str]) -> dict[str, "pd.CategoricalDtype"]:
    """The columns of Parquet files that are categories, with their levels in order."""
    import pyarrow as pa
    from pyarrow.parquet import ParquetFile

    found: dict[str, pd.CategoricalDtype] = {}
    for number, path in enumerate(files):
        with ParquetFile(path) as file:
            kinds = {f.name: f.type for f in file.schema_arrow if pa.types.is_dictionary(f.type)}
            if number and kinds.keys() != found.keys():
                raise _differ(kinds.keys() ^ found.keys())
            batch = next(file.iter_batches(1, columns=list(kinds)), None) if kinds else None
            for name, kind in kinds.items():
                levels = [] if batch is None else batch.column(name).dictionary.to_pylist()
                dtype = pd.CategoricalDtype(levels, bool(kind.ordered))
                if number and found[name] != dtype:
                    raise _differ([name])
                found[name] = dtype
    return found


def _differ(names: Iterable[str]) -> DataError:
    return DataError(
        f"The levels of {', '.join(map(repr, sorted(names)))} are not the same in all files. "
        "Declare the same categories in each, or save the column as text."
    )


def register(frame: pd.DataFrame) -> Any:
    """A data frame as a table of a new DuckDB."""
    import pyarrow as pa

    backend = _connect(require_ibis())
    _shut_in(backend.con, ())
    # DuckDB gets categories as text; object columns of numbers have been converted.
    text = {str(name): c.astype(object) for name, c in frame.items() if c.dtype.kind not in "biuf"}
    backend.con.register("rows", pa.Table.from_pandas(frame.assign(**text), preserve_index=False))
    return backend.table("rows")


def _connect(ibis: Any) -> Any:
    """A DuckDB in memory that spills to a private folder."""
    # Made here, with a random name and for this user alone: what spills are rows of the data.
    spill = tempfile.mkdtemp(prefix="tvdbayes-")
    try:
        backend = ibis.duckdb.connect(
            memory_limit=_MEMORY,
            temp_directory=spill,
            preserve_insertion_order=False,
            autoinstall_known_extensions=False,
            autoload_known_extensions=False,
        )
    except BaseException:
        shutil.rmtree(spill)
        raise
    # With the connection, or at the end of the program, whatever ends it.
    weakref.finalize(backend, _close, backend.con, spill, os.getpid())
    return backend


def _close(connection: Any, spill: str, owner: int) -> None:
    """End a connection and remove its folder, unless in a process that was forked off."""
    if os.getpid() == owner:
        connection.close()
        shutil.rmtree(spill, ignore_errors=True)


def _shut_in(connection: Any, files: Iterable[str]) -> None:
    """Let a connection read these files, spill to a private folder, and do nothing else."""

    def text(value: str) -> str:
        return "'" + value.replace("'", "''") + "'"

    connection.execute(f"SET allowed_paths = [{', '.join(map(text, sorted(files)))}]")
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")
