"""The paper's data sets: where they can be had, how to know them, and what is wrong with them.

They are not part of this package. A folder with the files as the authors used them is found by
``--data``, else by ``TVDBAYES_DATA``; every file is checked before it is believed.
"""

import os
from dataclasses import dataclass
from hashlib import sha256
from io import BytesIO
from pathlib import Path

import numpy as np

from tvdbayes._errors import DataError
from tvdbayes._typing import Array, BoolArray, IntArray
from tvdbayes.experiments.contract import AS_PUBLISHED

__all__ = ["SOURCES", "DataSet", "Source", "find_folder", "load", "sound_rows"]

_CAST = -1e18
"""Below this a value is a gap that became the smallest integer."""


@dataclass(frozen=True)
class Source:
    """A data set: its file, what it must contain, and where it comes from.

    Parameters
    ----------
    file : str
        Below the folder; values are separated by spaces, the last one is the label, 0 or 1.
    checksum : str
        SHA-256 of the file as the authors used it.
    where : str
        Where it can be had.
    """

    file: str
    checksum: str
    where: str


SOURCES = {
    "mammographic_mass": Source(
        "probit/mammographic_mass.txt",
        "ab7bc37fa5269e70c938317b3f231fe3b8c21f625afa079df27da56ab488f120",
        "UCI, Mammographic Mass",
    ),
    "fourclass": Source(
        "probit/fourclass.txt",
        "194281086d4c596132fc4010a1fbb24f5c3064d8a7299ca4eeadca5b8806daa0",
        "LIBSVM, fourclass",
    ),
    "heart": Source(
        "probit/heart.txt",
        "3971146a0c23e42be8596f3d58b88ded32794eeb6e8cf734e03f332ec76f0c0d",
        "UCI, Statlog (Heart); OpenML, heart-statlog",
    ),
    "haberman": Source(
        "probit/haberman.txt",
        "76d597acfd233aa8cd082e2cb3fcfe858ce8aa208944b894510197ff4bd6ba92",
        "UCI, Haberman's Survival; OpenML, haberman",
    ),
    "breast-cancer-wisconsin": Source(
        "probit/breast-cancer-wisconsin.txt",
        "7fc5e13c38be8bc24cbd24e793883c2b05b4c45378776ba24e88cad0e4090deb",
        "UCI, Breast Cancer Wisconsin (Original); OpenML, breast-w",
    ),
    "pima": Source(
        "nn/pima.txt",
        "5b47cf4c2218f7ffc348f0471213b4fc559df237aa89236f7a5b42d5665ebdd2",
        "OpenML, diabetes",
    ),
    "diabetic": Source(
        "nn/diabetic.txt",
        "fada03c9752d2da45c72eb5e1483e5b5c11d4b96217fdb880585ca894c97e25e",
        "the file of pima with its labels exchanged",
    ),
    "banknote": Source(
        "nn/banknote_authentication.txt",
        "3c57f6dc75423fd018a2cd49ed9e3bddf433b20e9a73866ad7d01691e1005a72",
        "UCI, Banknote Authentication; OpenML, banknote-authentication",
    ),
    "ilpd": Source(
        "nn/ilpd.txt",
        "8301558bc36fac1ca5f299e7f33b672b0d9434a4317696b27a3478617166c289",
        "UCI, ILPD (Indian Liver Patient Dataset); OpenML, ilpd",
    ),
    "rice": Source(
        "nn/rice.txt",
        "3fd6449b90473e290dc0351f061d8a71bc666277eb8435478dc1a910af70bee0",
        "UCI, Rice (Cammeo and Osmancik)",
    ),
}


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
