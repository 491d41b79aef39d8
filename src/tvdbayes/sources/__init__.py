"""Anything that holds rows, to a table of distinct rows: frames, files, databases."""

import os
from typing import Any

from tvdbayes.sources._files import read_file
from tvdbayes.sources._frames import FrameSource, open_frame
from tvdbayes.sources._table import AbstractSource, Missing, Table, did_you_mean

__all__ = [
    "AbstractSource",
    "Data",
    "FrameSource",
    "Missing",
    "Table",
    "did_you_mean",
    "open_data",
    "read_file",
]

Data = Any
"""A data frame (pandas, polars, pyarrow, ...), a dict of columns, or a path to CSV or Parquet."""


def open_data(data: Data) -> FrameSource:
    """Data that are read whole."""
    return open_frame(read_file(data) if isinstance(data, str | os.PathLike) else data)
