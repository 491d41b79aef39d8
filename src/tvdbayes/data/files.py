"""CSV and Parquet files, read whole."""

import csv
import os
from pathlib import Path

import pandas as pd

from tvdbayes._errors import DataError, first_line
from tvdbayes.data.csv import csv_names, read_lines

__all__ = ["CSV", "PARQUET", "n_rows_of", "read_file"]

PARQUET, CSV = (".parquet", ".pq"), (".csv",)
"""Endings of files that are read."""


def read_file(path: str | os.PathLike[str], sep: str = ",") -> pd.DataFrame:
    """The table in a CSV or Parquet file; `sep` stands between the values of a line of CSV."""
    path = Path(path)
    kind = path.suffix.lower()
    if kind not in (*CSV, *PARQUET):
        raise DataError(
            f"Files are read as CSV or Parquet, by their ending; got {path.name!r}. "
            "Read it yourself and pass the data frame."
        )
    if os.path.isdir(path):
        raise DataError(f"{str(path)!r} is a folder. Give the name of a CSV or Parquet file.")
    # Not path.is_file(), which raises for names that are too long.
    if not os.path.isfile(path):
        raise DataError(
            f"There is no file {str(path)!r:.200}. Check the name and the working directory."
        )
    try:
        if kind in CSV:
            # The first line must name columns: pandas would make do with less.
            frame = read_lines(str(path), path, csv_names(path, sep), sep=sep)
        else:
            frame = pd.read_parquet(path)
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
        raise DataError(f"{str(path)!r} cannot be read: {first_line(error)}.") from error
    if not len(frame):
        raise DataError(f"{str(path)!r} has {len(frame.columns)} columns but no rows.")
    return frame


def n_rows_of(path: str | os.PathLike[str]) -> int:
    """Rows of a Parquet file, which it says at its end; 0 if it does not say."""
    if Path(path).suffix.lower() not in PARQUET:
        return 0
    try:
        from pyarrow import parquet

        return int(parquet.read_metadata(os.fspath(path)).num_rows)
    except (ImportError, ValueError, OSError):
        # Whoever reads the file says what is wrong with it.
        return 0
