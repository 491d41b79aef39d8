"""The paper's data sets: where to get them, their checksums, and their known errors.

They are not part of this package. A folder with the files as the authors used them is found by
``--data``, else by ``TVDBAYES_DATA``; every file is checked before it is believed.
"""

import json
import os
from dataclasses import dataclass
from hashlib import sha256
from importlib.resources import files
from io import BytesIO
from pathlib import Path

import numpy as np

from tvdbayes._errors import DataError
from tvdbayes._typing import Array, BoolArray, IntArray
from tvdbayes.experiments.contract import AS_PUBLISHED

_CAST = -1e18
"""Below this a value is a gap that became the smallest integer."""


@dataclass(frozen=True)
class Source:
    """A data set: its file below the folder, the SHA-256 of that, and where it can be had.

    Values are separated by spaces, the last one is the label, 0 or 1.
    """

    file: str
    checksum: str
    where: str


_TABLE = files("tvdbayes.experiments").joinpath("data_sets.json").read_text()
SOURCES = {name: Source(**source) for name, source in json.loads(_TABLE).items()}


@dataclass(frozen=True, eq=False)
class DataSet:
    """Covariates (n, p) and labels (n,)."""

    x: Array
    y: IntArray


def find_folder(given: Path | None) -> Path:
    """The folder that was given, or the one of the environment."""
    named = str(given) if given is not None else os.environ.get("TVDBAYES_DATA", "")
    if not named:
        raise DataError(
            "This experiment needs the paper's data sets, which are not part of this package. Put "
            "the files of the paper's repository in a folder and name it by --data or "
            "TVDBAYES_DATA."
        )
    return Path(named)


def load(name: str, folder: Path | None, mode: str = AS_PUBLISHED) -> DataSet:
    """A data set as the authors used it, or with an intercept, scaled, and without broken rows.

    The folder is the one of the environment if none is given.

    Raises
    ------
    DataError
        If the file is not there, or is not the one that the authors used.
    """
    source = SOURCES[name]
    path = find_folder(folder) / source.file
    try:
        content = path.read_bytes()
    except OSError as error:
        raise DataError(
            f"The data set {name!r} is not in {str(path)!r}. It is {source.where}; put the files "
            "of the paper's repository in a folder and name it by --data or TVDBAYES_DATA."
        ) from error
    found = sha256(content).hexdigest()
    if found != source.checksum:
        raise DataError(
            f"{str(path)!r} is not the file that the paper used: its SHA-256 is {found}, not "
            f"{source.checksum}. Take the file of the paper's repository."
        )
    values = np.loadtxt(BytesIO(content))
    data = DataSet(values[:, :-1], values[:, -1].astype(int))
    return data if mode == AS_PUBLISHED else _corrected(data)


def _corrected(data: DataSet) -> DataSet:
    sound = sound_rows(data.x)
    x = data.x[sound]
    scaled = (x - x.mean(0)) / x.std(0)
    return DataSet(np.column_stack([np.ones(len(x)), scaled]), data.y[sound])


def sound_rows(x: Array) -> BoolArray:
    """Which rows hold no gap that became a number, (n,)."""
    sound: BoolArray = np.all(x > _CAST, axis=1)
    return sound
