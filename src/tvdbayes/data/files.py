"""CSV and Parquet files, read whole; and what their names and first lines say."""

import csv
import glob
import os
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from io import BytesIO, StringIO, TextIOWrapper
from pathlib import Path
from typing import Any, BinaryIO

import pandas as pd

from tvdbayes._errors import DataError, first_line
from tvdbayes.data.table import require_unique

PARQUET, CSV = (".parquet", ".pq"), (".csv",)
"""Endings of files that are read."""

_SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
"""Characters that separate values in other files, with their names for messages."""

_PARQUET_BEGINS = b"PAR1"

_CHECKED_BYTES = 1 << 16
"""Binary files have zero bytes near their beginning: 64 KiB are enough to find one."""


def read_file(path: str | os.PathLike[str], sep: str = ",") -> pd.DataFrame:
    """The table in a CSV or Parquet file; `sep` stands between the values of a line of CSV."""
    path = Path(path)
    require_known(path)
    if os.path.isdir(path):
        raise DataError(f"{str(path)!r} is a folder. Give the name of a CSV or Parquet file.")
    # Not path.is_file(), which raises for names that are too long.
    if not os.path.isfile(path):
        raise DataError(
            f"There is no file {str(path)!r:.200}. Check the name and the working directory."
        )
    with reading(str(path)):
        if path.suffix.lower() in PARQUET:
            frame = pd.read_parquet(path)
        else:
            # The first line must name columns: pandas would make do with less.
            frame = read_lines(str(path), path, csv_names(path, sep), sep=sep)
    if not len(frame):
        raise DataError(f"{str(path)!r} has {len(frame.columns)} columns but no rows.")
    return frame


def read_stream(stream: BinaryIO, sep: str = ",") -> pd.DataFrame:
    """The table in a stream of bytes, such as what another program writes: CSV, or Parquet."""
    name, content = "standard input", stream.read()
    with reading(name):
        if content.startswith(_PARQUET_BEGINS):
            frame = pd.read_parquet(BytesIO(content))
        else:
            names = _names_in(BytesIO(content), name, sep)
            frame = read_lines(name, BytesIO(content), names, sep=sep)
    if not len(frame):
        raise DataError(f"{name!r} has {len(frame.columns)} columns but no rows.")
    return frame


def is_pattern(path: str | os.PathLike[str]) -> bool:
    """Whether a path stands for several files: a folder, or a pattern such as parts/*.parquet."""
    return os.path.isdir(path) or (glob.has_magic(os.fspath(path)) and not os.path.isfile(path))


def is_csv(file: str) -> bool:
    """Whether a file is CSV, by its ending."""
    return Path(file).suffix.lower() in CSV


def require_known(path: Path) -> None:
    """Raise unless the ending of a file is that of CSV or Parquet."""
    if path.suffix.lower() not in (*CSV, *PARQUET):
        raise DataError(
            f"Files are read as CSV or Parquet, by their ending; got {path.name!r}. "
            "Read it yourself and pass the data frame."
        )


@contextmanager
def reading(path: str) -> Iterator[None]:
    """Raise the errors of parsers as `DataError`: all mean that the file cannot be read."""
    try:
        yield
    except DataError:
        raise
    except ImportError as error:
        raise DataError(
            "Parquet files need pyarrow: pip install pyarrow. Or pass a data frame."
        ) from error
    except UnicodeDecodeError as error:
        raise DataError(
            f"{path!r} is not UTF-8 text (byte {error.object[error.start]:#04x} at "
            f"{error.start:,}). Save it as UTF-8, or read it with its encoding and pass the data "
            "frame."
        ) from error
    except (ValueError, OSError, csv.Error) as error:
        raise DataError(f"{path!r} cannot be read: {first_line(error)}.") from error


def n_rows_of(path: str | os.PathLike[str]) -> int:
    """Rows of a Parquet file, which it says at its end; 0 if it does not say."""
    if Path(path).suffix.lower() not in PARQUET:
        return 0
    try:
        from pyarrow import parquet

        return int(parquet.read_metadata(os.fspath(path)).num_rows)
    except (ImportError, ValueError, OSError):
        # Errors of the file are raised where it is read.
        return 0


def csv_names(path: Path, sep: str) -> Sequence[str]:
    """Read the column names in the first line of a file, or raise where it cannot be a table."""
    with path.open("rb") as file:
        return _names_in(file, str(path), sep)


def _names_in(file: BinaryIO, name: str, sep: str) -> Sequence[str]:
    if b"\0" in file.read(_CHECKED_BYTES):
        raise DataError(
            f"{name!r} is not UTF-8 text: it holds zero bytes, as spreadsheets and other "
            "binary files do. Export it as CSV in UTF-8."
        )
    file.seek(0)
    with TextIOWrapper(file, encoding="utf-8-sig", newline="") as text:
        names = next(filter(None, csv.reader(text, delimiter=sep)), [])
    if not names:
        raise DataError(f"{name!r} is empty. Its first line must name the columns.")
    other = [s for s in _SEPARATORS if s in names[0]]
    if len(names) == 1 and other:
        raise DataError(
            f"{name!r} has one column, {names[0]!r:.60}: its values seem to be separated by "
            f"{_SEPARATORS[other[0]]}. Read it with pandas.read_csv(..., sep={other[0]!r}) and "
            "pass the data frame."
        )
    # Columns without a name are left behind by spreadsheets, and cannot be asked for.
    require_unique(list(filter(None, names)))
    return names


def read_lines(
    file: str, source: Any, columns: Sequence[str], *, sep: str = ",", **options: Any
) -> pd.DataFrame:
    """The lines of a file with these columns, or an error for lines that are longer."""
    with warnings.catch_warnings():
        # Lines longer than the first are cut with a warning otherwise, and shift the columns.
        warnings.simplefilter("error", pd.errors.ParserWarning)
        try:
            found: pd.DataFrame = pd.read_csv(
                source, sep=sep, index_col=False, low_memory=False, **options
            )
        except pd.errors.ParserWarning as error:
            raise DataError(
                f"{file!r} has lines with more values than its first line names columns "
                f"({len(columns)}). Name every column, and quote values that hold {sep!r}."
            ) from error
    return found


def typed_text(column: pd.Series) -> pd.Series:
    """Text as pandas would have read it from CSV: numbers, truth values, or text."""
    if column.dtype.kind in "biuf":
        return column
    found = column.drop_duplicates()
    lines = StringIO(newline="")
    csv.writer(lines, lineterminator="\n", quoting=csv.QUOTE_ALL).writerows([v] for v in found)
    lines.seek(0)
    read = pd.read_csv(lines, header=None, keep_default_na=False, low_memory=False)[0]
    if read.dtype.kind not in "biuf":
        return column
    of_text = pd.Series(read.to_numpy(), index=pd.Index(found.to_numpy()))
    return pd.Series(of_text.loc[column.to_numpy()].to_numpy(), column.index)
