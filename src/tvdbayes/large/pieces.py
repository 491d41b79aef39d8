"""Data cut into pieces that are read one by one: files, or the partitions of a Dask DataFrame."""

import io
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd

from tvdbayes._errors import DataError, first_line
from tvdbayes.data.duckdb import files_of, names_of
from tvdbayes.data.frames import is_csv, read_lines
from tvdbayes.large.cluster.workers import dask_module, give_memory_back

_BATCH = 1 << 16
"""Rows of Parquet that are read at a time, as a row group may be larger than memory."""

_BYTES_A_ROW = 128
"""What a row of CSV is taken for, to cut files into pieces of about so many rows."""


Work = Callable[..., Any]


@dataclass(frozen=True, eq=False)
class Pieces:
    """Data in pieces, of which each can be read anywhere, again and again.

    Parts are stretches of files, or numbers of partitions. From names of columns and a function of
    a frame, `tasks` makes one function for each piece: it takes the further arguments, and makes
    Dask's recipe (`Delayed`).
    """

    columns: list[str]
    parts: Sequence[Any]
    tasks: Callable[[list[str], Work], list[Work]]

    def start(
        self, client: Any, used: Sequence[str], work: Work, more: Sequence[tuple[Any, ...] | None]
    ) -> list[Any]:
        """Let workers compute ``work(frame, *more)`` of each piece, these columns only.

        Pieces whose further arguments are None are left out.
        """
        tasks = zip(self.tasks(list(used), work), more, strict=True)
        return list(client.compute([task(*rest) for task, rest in tasks if rest is not None]))


@dataclass(frozen=True)
class _Parquet:
    """Rows `first` to `last` (not included) of some row groups, as (file, group, first, last)."""

    rows: tuple[tuple[str, int, int, int], ...]

    def read(self, used: list[str]) -> pd.DataFrame:
        import pyarrow as pa
        from pyarrow.parquet import ParquetFile

        batches, names = [], list(dict.fromkeys(used))
        for path, group, first, last in self.rows:
            with ParquetFile(path) as file:
                at = 0
                # Group by group in small batches: a group may be larger than the worker's memory.
                for batch in file.iter_batches(_BATCH, [group], names, use_threads=False):
                    begin, end = max(first - at, 0), min(last - at, len(batch))
                    batches += [batch.slice(begin, end - begin)] if end > begin else []
                    at += len(batch)
                    if at >= last:
                        break
        if not batches:
            return pd.DataFrame({name: [] for name in names})
        # Files may differ in the width of a number.
        tables = [pa.Table.from_batches([batch]).select(names) for batch in batches]
        table = pa.concat_tables(tables, promote_options="permissive")
        frame: pd.DataFrame = table.to_pandas(use_threads=False)
        return frame


@dataclass(frozen=True)
class _Csv:
    """The lines that begin between two bytes of a file, under the names of its first line."""

    path: str
    first: int
    last: int
    names: tuple[str, ...]

    def read(self, used: list[str]) -> pd.DataFrame:
        with Path(self.path).open("rb") as file:
            # The line that the first byte lies in belongs to the piece before, unless it starts it.
            file.seek(self.first - 1)
            file.readline()
            text = file.read(max(self.last - file.tell(), 0))
            if text and not text.endswith(b"\n"):
                text += file.readline()
        if text.count(b'"') % 2:
            raise DataError(
                f"{self.path!r} has line breaks inside quotes, so that it cannot be cut into "
                "pieces. Save it as Parquet."
            )
        if not text.strip():
            return pd.DataFrame({name: [] for name in used})
        table = io.BytesIO(text)
        names = list(self.names)
        return read_lines(self.path, table, names, header=None, names=names)[list(used)]


def _read_and(part: "_Parquet | _Csv", used: list[str], work: Work, *more: Any) -> Any:
    try:
        frame = part.read(used)
    except DataError:
        raise
    except (ValueError, OSError, KeyError) as error:
        # Parsers have errors of their own; all mean that the file cannot be read.
        raise DataError(f"A part of the data cannot be read: {first_line(error)}") from error
    found = work(frame, *more)
    del frame
    give_memory_back()
    return found


def open_pieces(data: Any, chunk_rows: int) -> Pieces:
    """A Dask DataFrame, or files by a path, a pattern or a folder, cut into pieces of rows."""
    frames = sys.modules.get("dask.dataframe")
    if frames is not None and isinstance(data, frames.DataFrame):
        return _partitions(data)
    if not isinstance(data, str | os.PathLike):
        raise DataError(
            "fit_large takes a Dask DataFrame, or a path, a pattern or a folder of Parquet or CSV "
            f"files; got {type(data).__name__}. Data that fit into memory go to tvdbayes.fit."
        )
    files = files_of(data)
    csv = is_csv(files[0])
    names = {path: list(names_of(path)) for path in files}
    columns = names[files[0]]
    for path, own in names.items():
        _require_same(path, own, columns)
    parts: Sequence[_Csv | _Parquet] = (
        _csv_parts(names, chunk_rows) if csv else _parquet_parts(files, chunk_rows)
    )
    if not parts:
        hints = (
            "Check that something was written to them.",
            "Their first line must name the columns.",
        )
        raise DataError(f"The files hold 0 rows. {hints[csv]}")

    def tasks(used: list[str], work: Work) -> list[Work]:
        # Read and worked on by one task, so that nothing that was read waits in memory.
        call = dask_module("dask").delayed(_read_and, pure=False)
        return [partial(call, part, used, work) for part in parts]

    return Pieces(columns, parts, tasks)


def _partitions(data: Any) -> Pieces:
    """The partitions of a Dask DataFrame."""
    odd = [name for name in data.columns if not isinstance(name, str)]
    if odd:
        raise DataError(f"Names of columns must be text; got {odd[0]!r}. Rename it.")

    def tasks(used: list[str], work: Work) -> list[Work]:
        call = dask_module("dask").delayed(work, pure=False)
        return [partial(call, frame) for frame in data[used].to_delayed()]

    return Pieces(list(data.columns), range(data.npartitions), tasks)


def _parquet_parts(files: list[str], chunk_rows: int) -> "list[_Parquet]":
    """Runs of so many rows over all row groups of all files; the last one is shorter."""
    from pyarrow.parquet import ParquetFile

    runs: dict[int, list[tuple[str, int, int, int]]] = {}
    before = 0
    for path in files:
        with ParquetFile(path) as file:
            sizes = [file.metadata.row_group(g).num_rows for g in range(file.num_row_groups)]
        for group, size in enumerate(sizes):
            at = 0
            while at < size:
                number, taken = divmod(before + at, chunk_rows)
                end = min(at + chunk_rows - taken, size)
                runs.setdefault(number, []).append((path, group, at, end))
                at = end
            before += size
    return [_Parquet(tuple(rows)) for rows in runs.values()]


def _csv_parts(names: dict[str, list[str]], chunk_rows: int) -> "list[_Csv]":
    """Stretches of bytes; every line belongs to the one that it begins in."""
    parts: list[_Csv] = []
    size = chunk_rows * _BYTES_A_ROW
    for path, own in names.items():
        with Path(path).open("rb") as file:
            # Blank lines may come before the names.
            while file.readline() in (b"\n", b"\r\n"):
                pass
            begin, end = file.tell(), file.seek(0, os.SEEK_END)
        starts = range(begin, end, size)
        parts += [_Csv(path, at, min(at + size, end), tuple(own)) for at in starts]
    return parts


def _require_same(path: str, names: list[str], columns: list[str]) -> None:
    if sorted(names) != sorted(columns):
        other = sorted(set(names) ^ set(columns))
        raise DataError(
            f"{path!r} has other columns than the first file: {', '.join(map(repr, other[:5]))}. "
            "Give files of one table."
        )
    if len(set(names)) < len(names):
        raise DataError(f"Two columns of {path!r} have one name. Rename one of them.")
