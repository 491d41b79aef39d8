"""Files that a command writes: all of them whole, or none."""

import csv
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

import numpy as np
import pandas as pd

from tvdbayes._errors import SettingsError, StorageError
from tvdbayes.fitting import Fit
from tvdbayes.results.rows import SCORES
from tvdbayes.results.tree import to_tree

DrawsFormat = Literal["csv", "parquet", "netcdf"]

_WRITERS: dict[DrawsFormat, tuple[str, tuple[str, ...], str]] = {
    "csv": (".csv", (), ""),
    "parquet": (".parquet", ("pyarrow",), "pip install pyarrow"),
    "netcdf": (".nc", ("xarray", "h5netcdf", "h5py"), "pip install 'tvdbayes[arviz]'"),
}
"""The ending of the file, the libraries that it needs, and how they are installed."""
_RUN_BY_SPREADSHEETS = ("=", "+", "-", "@", "\t", "\r")


@contextmanager
def whole_folder(target: Path) -> Iterator[Path]:
    """A folder to write into; its files move to the target when the block ends well.

    The target is made if it is not there, and is gone again if the block fails.
    """
    made = [folder for folder in (target, *target.parents) if not folder.exists()]
    try:
        target.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError) as error:
        raise StorageError(
            f"{str(target)!r} cannot be a folder: a file is in the way. Choose another."
        ) from error
    try:
        with TemporaryDirectory(prefix=".tvdbayes-", dir=target) as name:
            staged = Path(name)
            yield staged
            files = sorted(staged.iterdir())
            for file in files:
                if (target / file.name).is_dir():
                    raise StorageError(
                        f"{str(target / file.name)!r} is a folder where a file should be written. "
                        "Move it away, or choose another place."
                    )
            for file in files:
                os.replace(file, target / file.name)
    except BaseException:
        for folder in made:
            # Someone else may have put something there: then it stays.
            with suppress(OSError):
                folder.rmdir()
        raise


def require_writer(form: DrawsFormat) -> None:
    """Raise before any work is done if the draws could not be written in the end."""
    _, needed, command = _WRITERS[form]
    lacking = [name for name in needed if find_spec(name) is None]
    if lacking:
        raise SettingsError(f"Draws as {form} need {' and '.join(lacking)}. Run: {command}")


def write_draws(fit: Fit, folder: Path, form: DrawsFormat) -> str:
    """Write the draws, and return the name of their file."""
    path = folder / f"draws{_WRITERS[form][0]}"
    if form == "csv":
        write_csv(draws_table(fit), path)
    elif form == "parquet":
        draws_table(fit).to_parquet(path, index=False)
    else:
        tree = to_tree(fit.posterior, by_row=False, attrs={"formula": fit.formula})
        tree.to_netcdf(path, engine="h5netcdf")
    return path.name


def draws_table(fit: Fit) -> pd.DataFrame:
    """One line for each draw: robust and ordinary coefficients, distance and status.

    No covariate can clash with a name here: coefficients are prefixed.
    """
    both = {"robust": fit.draws, "ordinary": fit.kld_draws}
    coefficients = {
        f"{side}:{name}": column
        for side, draws in both.items()
        for name, column in zip(fit.param_names, draws.T, strict=True)
    }
    number = np.arange(len(fit.draws))
    return pd.DataFrame(
        {"draw": number, **coefficients, "distance": fit.distance, "status": fit.status}
    )


def rows_table(frame: pd.DataFrame | None, scores: pd.DataFrame) -> pd.DataFrame:
    """All columns of the data, used or not, with the scores of `Fit.rows`; rows count from 0.

    Where an engine has grouped the rows there is no such frame: lines are distinct rows then.
    """
    if frame is None:
        return scores
    scored = [name for name in (*SCORES, "flag") if name in scores]
    own = ("row", *SCORES, "flag")
    named = frame.rename(columns={name: f"data: {name}" for name in frame if name in own})
    number = pd.Series(np.arange(len(frame)), name="row")
    return pd.concat([number, named.reset_index(drop=True), scores[scored]], axis=1)


def write_csv(frame: pd.DataFrame, path: Path) -> None:
    """Write a table in which no text can be run as a formula by a spreadsheet.

    All text stands in quotes: a carriage return in it would begin a new line otherwise.
    """
    columns = {
        name: column if column.dtype.kind in "biuf" else column.astype(object).map(_harmless)
        for name, column in frame.items()
    }
    pd.DataFrame(columns).rename(columns=_harmless).to_csv(
        path, index=False, lineterminator="\n", quoting=csv.QUOTE_NONNUMERIC
    )


def _harmless(value: object) -> object:
    """Text that a spreadsheet would take for a formula, quoted; numbers stay numbers."""
    risky = isinstance(value, str) and value.startswith(_RUN_BY_SPREADSHEETS)
    return f"'{value}" if risky else value
