"""CSV files: column names in the first line, and the types of columns read as text."""

import csv
import warnings
from collections.abc import Sequence
from io import StringIO, TextIOWrapper
from pathlib import Path
from typing import Any

import pandas as pd

from tvdbayes._errors import DataError
from tvdbayes.data.table import require_unique

__all__ = ["csv_names", "read_lines", "typed_text"]

_SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
"""Characters that separate values in other files, with their names for messages."""

_CHECKED_BYTES = 1 << 16
"""Binary files have zero bytes near their beginning: 64 KiB are enough to find one."""


def csv_names(path: Path, sep: str) -> Sequence[str]:
    """Read the column names in the first line of a file, or raise where it cannot be a table."""
    with path.open("rb") as file:
        if b"\0" in file.read(_CHECKED_BYTES):
            raise DataError(
                f"{str(path)!r} is not UTF-8 text: it holds zero bytes, as spreadsheets and other "
                "binary files do. Export it as CSV in UTF-8."
            )
        file.seek(0)
        text = TextIOWrapper(file, encoding="utf-8-sig", newline="")
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
