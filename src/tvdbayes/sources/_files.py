"""Files that hold a table: CSV and Parquet, read whole."""

import csv
import os
import warnings
from pathlib import Path

import pandas as pd

from tvdbayes._errors import DataError
from tvdbayes.sources._table import require_unique

__all__ = ["read_file"]

_SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
_LOOKED_AT = 1 << 16


def read_file(path: str | os.PathLike[str], sep: str = ",") -> pd.DataFrame:
    """The table in a CSV or Parquet file; `sep` stands between the values of a line of CSV."""
    path = Path(path)
    kind = path.suffix.lower()
    if kind not in (".csv", ".parquet", ".pq"):
        raise DataError(
            f"Files are read as CSV or Parquet, by their ending; got {path.name!r}. "
            "Read it yourself and pass the data frame."
        )
    if path.is_dir():
        raise DataError(f"{str(path)!r} is a folder. Give the name of a CSV or Parquet file.")
    if not path.is_file():
        raise DataError(
            f"There is no file {str(path)!r}. Check the name and the working directory."
        )
    try:
        frame = _read_csv(path, sep) if kind == ".csv" else pd.read_parquet(path)
    except DataError:
        raise
    except ImportError as error:
        raise DataError(
            "Parquet files need pyarrow: pip install pyarrow. Or pass a data frame."
        ) from error
    except UnicodeDecodeError as error:
        raise DataError(
            f"{str(path)!r} is not UTF-8 text (byte {error.object[error.start]:#04x} at "
            f"{error.start:,}). Save it as UTF-8, or read it with its encoding and pass the data "
            "frame."
        ) from error
    except (ValueError, OSError, csv.Error) as error:
        # Parsers raise their own kinds of ValueError; all mean that the file cannot be read.
        raise DataError(f"{str(path)!r} cannot be read: {_first_line(error)}.") from error
    if not len(frame):
        raise DataError(f"{str(path)!r} has {len(frame.columns)} columns but no rows.")
    return frame


def _read_csv(path: Path, sep: str) -> pd.DataFrame:
    """The table, once its first line is known to name columns: pandas would make do with less."""
    with path.open("rb") as file:
        if b"\0" in file.read(_LOOKED_AT):
            raise DataError(
                f"{str(path)!r} is not UTF-8 text: it holds zero bytes, as spreadsheets and other "
                "binary files do. Export it as CSV in UTF-8."
            )
    with path.open(encoding="utf-8-sig", newline="") as text:
        names = next(filter(None, csv.reader(text, delimiter=sep)), [])
    if not names:
        raise DataError(f"{str(path)!r} is empty. Its first line must name the columns.")
    other = [s for s in _SEPARATORS if s in names[0]]
    if len(names) == 1 and other:
        raise DataError(
            f"{str(path)!r} has one column, {names[0]!r:.60}: its values seem to be separated by "
            f"{_SEPARATORS[other[0]]}. Read it with pandas.read_csv(..., sep={other[0]!r}) and "
            "pass the data frame."
        )
    # Columns without a name are left behind by spreadsheets, and cannot be asked for.
    require_unique(list(filter(None, names)))
    with warnings.catch_warnings():
        # Lines longer than the first are cut with a warning otherwise, and shift the columns.
        warnings.simplefilter("error", pd.errors.ParserWarning)
        try:
            return pd.read_csv(path, sep=sep, index_col=False, low_memory=False)
        except pd.errors.ParserWarning as error:
            raise DataError(
                f"{str(path)!r} has lines with more values than its first line names columns "
                f"({len(names)}). Name every column, and quote values that hold {sep!r}."
            ) from error


def _first_line(error: Exception) -> str:
    """What a parser or the system says, without its own prefix and full stop."""
    text = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return (
        str(text)
        .strip()
        .splitlines()[0]
        .removeprefix("Error tokenizing data. C error: ")
        .rstrip(".")
    )
