"""Data cut into pieces that are read one by one: files, or the partitions of a Dask DataFrame."""

import csv
import io
import os
import sys
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import pandas as pd

from tvdbayes._errors import DataError, first_line
from tvdbayes.data.sources import files_of
from tvdbayes.large.cluster import dask_module, give_memory_back

__all__ = ["AbstractPieces", "open_pieces"]

_BATCH = 1 << 16
"""Rows of Parquet that are read at a time, as a row group may be larger than memory."""

_BYTES_A_ROW = 128
"""What a row of CSV is taken for, to cut files into pieces of about so many rows."""


class AbstractPieces(ABC):
    """Data in pieces, of which each can be read anywhere, again and again."""

    columns: list[str]

    @abstractmethod
    def __len__(self) -> int:
        """How many there are."""

    @abstractmethod
    def each(
        self, used: Sequence[str], work: Callable[..., Any], more: Sequence[tuple[Any, ...] | None]
    ) -> list[Any]:
        """Dask's recipes (`Delayed`) for ``work(frame, *more)`` of each piece, these columns only.

        Pieces whose further arguments are None are left out.
        """


@dataclass(frozen=True, eq=False)
class _Partitions(AbstractPieces):
    """The partitions of a Dask DataFrame."""

    columns: list[str]
    data: Any

    def each(
        self, used: Sequence[str], work: Callable[..., Any], more: Sequence[tuple[Any, ...] | None]
    ) -> list[Any]:
        """See `AbstractPieces`."""
        call = dask_module("dask").delayed(work, pure=False)
        frames = self.data[list(used)].to_delayed()
        return [
            call(frame, *rest) for frame, rest in zip(frames, more, strict=True) if rest is not None
        ]

    def __len__(self) -> int:
        return int(self.data.npartitions)


@dataclass(frozen=True, eq=False)
class _Files(AbstractPieces):
    """Pieces of files: of each the columns, and how to read it."""

    columns: list[str]
    parts: "list[_Parquet] | list[_Csv]"

    def each(
        self, used: Sequence[str], work: Callable[..., Any], more: Sequence[tuple[Any, ...] | None]
    ) -> list[Any]:
        """See `AbstractPieces`."""
        # Read and worked on by one task, so that nothing that was read waits in memory.
        call = dask_module("dask").delayed(_read_and, pure=False)
        return [
            call(part, list(used), work, *rest)
            for part, rest in zip(self.parts, more, strict=True)
            if rest is not None
        ]

    def __len__(self) -> int:
        return len(self.parts)


@dataclass(frozen=True)
class _Parquet:
    """Rows `first` to `last` (not included) of some row groups, as (file, group, first, last)."""

    rows: tuple[tuple[str, int, int, int], ...]

    def read(self, used: list[str]) -> pd.DataFrame:
        pa, parquet_file = _pyarrow()

        batches, names = [], list(dict.fromkeys(used))
        for path, group, first, last in self.rows:
            with parquet_file(path) as file:
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
        with warnings.catch_warnings():
            # Lines longer than the first are cut with a warning otherwise, and shift the columns.
            warnings.simplefilter("error", pd.errors.ParserWarning)
            try:
                whole = pd.read_csv(
                    io.BytesIO(text),
                    header=None,
                    names=list(self.names),
                    index_col=False,
                    low_memory=False,
                )
            except pd.errors.ParserWarning as error:
                raise DataError(
                    f"{self.path!r} has lines with more values than its first line names columns "
                    f"({len(self.names)}). Name every column, and quote values that hold commas."
                ) from error
        return whole[list(used)]


def _read_and(
    part: "_Parquet | _Csv", used: list[str], work: Callable[..., Any], *more: Any
) -> Any:
    found = work(_read(part, used), *more)
    give_memory_back()
    return found


def _read(part: "_Parquet | _Csv", used: list[str]) -> pd.DataFrame:
    try:
        return part.read(used)
    except DataError:
        raise
    except (ValueError, OSError, KeyError) as error:
        # Parsers have errors of their own; all mean that the file cannot be read.
        raise DataError(f"A part of the data cannot be read: {first_line(error)}") from error


def open_pieces(data: Any, chunk_rows: int) -> AbstractPieces:
    """A Dask DataFrame, or files by a path, a pattern or a folder, cut into pieces of rows."""
    frames = sys.modules.get("dask.dataframe")
    if frames is not None and isinstance(data, frames.DataFrame):
        odd = [name for name in data.columns if not isinstance(name, str)]
        if odd:
            raise DataError(f"Names of columns must be text; got {odd[0]!r}. Rename it.")
        return _Partitions(list(data.columns), data)
    if not isinstance(data, str | os.PathLike):
        raise DataError(
            "fit_large takes a Dask DataFrame, or a path, a pattern or a folder of Parquet or CSV "
            f"files; got {type(data).__name__}. Data that fit into memory go to tvdbayes.fit."
        )
    files = files_of(data)
    if Path(files[0]).suffix.lower() == ".csv":
        return _csv_pieces(files, chunk_rows)
    return _parquet_pieces(files, chunk_rows)


def _pyarrow() -> tuple[Any, Any]:
    try:
        return import_module("pyarrow"), import_module("pyarrow.parquet").ParquetFile
    except ImportError as error:
        raise DataError("Parquet files need pyarrow. Run: pip install pyarrow") from error


def _parquet_pieces(files: list[str], chunk_rows: int) -> _Files:
    """Runs of so many rows over all row groups of all files; the last one is shorter."""
    _, parquet_file = _pyarrow()
    columns: list[str] | None = None
    parts: list[_Parquet] = []
    rows: list[tuple[str, int, int, int]] = []
    room = chunk_rows
    for path in files:
        try:
            with parquet_file(path) as file:
                names = list(file.schema_arrow.names)
                sizes = [file.metadata.row_group(g).num_rows for g in range(file.num_row_groups)]
        except (ValueError, OSError) as error:
            raise DataError(f"{path!r} cannot be read: {error}.") from error
        columns = names if columns is None else columns
        _require_same(path, names, columns)
        for group, size in enumerate(sizes):
            at = 0
            while at < size:
                taken = min(room, size - at)
                rows.append((path, group, at, at + taken))
                at, room = at + taken, room - taken
                if not room:
                    parts.append(_Parquet(tuple(rows)))
                    rows, room = [], chunk_rows
    parts += [_Parquet(tuple(rows))] if rows else []
    if not parts:
        raise DataError("The files hold 0 rows. Check that something was written to them.")
    return _Files(columns or [], parts)


def _csv_pieces(files: list[str], chunk_rows: int) -> _Files:
    """Stretches of bytes; every line belongs to the one that it begins in."""
    columns: list[str] | None = None
    parts: list[_Csv] = []
    size = chunk_rows * _BYTES_A_ROW
    for path in files:
        with Path(path).open("rb") as file:
            first_line = file.readline()
            begin, end = file.tell(), file.seek(0, os.SEEK_END)
        try:
            names = next(csv.reader([first_line.decode("utf-8-sig")]), [])
        except UnicodeDecodeError as error:
            raise DataError(f"{path!r} is not UTF-8 text. Save it as UTF-8.") from error
        columns = names if columns is None else columns
        _require_same(path, names, columns)
        starts = range(begin, end, size)
        parts += [_Csv(path, at, min(at + size, end), tuple(names)) for at in starts]
    if not parts:
        raise DataError("The files hold 0 rows. Their first line must name the columns.")
    return _Files(columns or [], parts)


def _require_same(path: str, names: list[str], columns: list[str]) -> None:
    if sorted(names) != sorted(columns):
        other = sorted(set(names) ^ set(columns))
        raise DataError(
            f"{path!r} has other columns than the first file: {', '.join(map(repr, other[:5]))}. "
            "Give files of one table."
        )
    if len(set(names)) < len(names):
        raise DataError(f"Two columns of {path!r} have one name. Rename one of them.")
