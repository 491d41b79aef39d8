"""Columns of a data frame, checked: what goes into a cell table."""

import warnings
from numbers import Real

import numpy as np
import pandas as pd
from formulaic import ModelSpec

from tvdbayes._errors import DataError, FamilyError, FormulaError, SettingsError, listing
from tvdbayes._typing import Array
from tvdbayes.families import AbstractFamily
from tvdbayes.frontends._guard import Reading

__all__ = ["encode", "frame_of", "numbers", "offsets", "require_column", "trials_of"]

_MOST_COLUMNS = 1000


def frame_of(data: pd.DataFrame | dict[str, object]) -> pd.DataFrame:
    if not isinstance(data, pd.DataFrame | dict):
        raise DataError(
            f"The data must be a data frame or a dict of columns; got {type(data).__name__}."
        )
    try:
        frame = data if isinstance(data, pd.DataFrame) else pd.DataFrame(data)
    except (ValueError, TypeError) as error:
        raise DataError(f"The data must be columns of equal length: {error}") from error
    if not len(frame):
        raise DataError(
            "The data hold 0 rows. Check that they were read, and that filters left some."
        )
    repeated = frame.columns[frame.columns.duplicated()].unique()
    if len(repeated):
        raise DataError(
            f"Column names must be unique; {', '.join(map(repr, repeated))} comes more than once. "
            "Rename one of them."
        )
    return frame


def numbers(frame: pd.DataFrame, name: str, what: str) -> Array:
    """A column of numbers without gaps."""
    require_column(frame, name, what)
    column = frame[name]
    kind = getattr(column.dtype, "kind", "O")
    if kind not in "biuf":
        raise DataError(
            f"The column {name!r} must hold numbers; got {column.dtype} "
            f"(first: {column.iloc[0]!r}). Convert it first."
        )
    values = column.to_numpy(dtype=float, na_value=np.nan)
    _require_finite(values, name)
    return values


def require_column(frame: pd.DataFrame, name: str, what: str) -> None:
    """Raise unless this is the name of a column."""
    if not isinstance(name, str):
        raise DataError(
            f"{what}= takes the name of a column; got {type(name).__name__}. Put the values into "
            "the data and pass their name."
        )
    if name not in frame.columns:
        raise DataError(
            f"{what} names {name!r}, which is no column of the data. "
            f"Columns: {', '.join(map(str, frame.columns))}."
        )


def encode(reading: Reading, frame: pd.DataFrame) -> tuple[Array, tuple[str, ...], ModelSpec]:
    """Covariates, their names, and the spec that encodes new data the same way."""
    used = frame.loc[:, list(reading.columns)].copy(deep=False)
    for name in reading.columns:
        column = used[name]
        kind = getattr(column.dtype, "kind", "O")
        if kind in "biuf":
            _require_finite(column.to_numpy(dtype=float, na_value=np.nan), name)
        elif kind in "cmMV":
            raise DataError(
                f"The column {name!r} holds {column.dtype}, which is neither a number nor a "
                "category. Convert it first."
            )
        elif column.isna().any():
            missing = column.isna().to_numpy()
            raise DataError(
                f"The column {name!r} must have no gaps; "
                f"{listing(missing, column.to_numpy(dtype=object), 'row')}. "
                "Drop or repair these rows first."
            )
        else:
            # Text of every pandas flavour is a category; only plain objects are read as such.
            n_levels = column.nunique()
            if n_levels > _MOST_COLUMNS:
                raise FormulaError(
                    f"The column {name!r} has {n_levels:,} levels; at most {_MOST_COLUMNS} can be "
                    "encoded. Is it an identifier?"
                )
            if not isinstance(column.dtype, pd.CategoricalDtype):
                used[name] = column.astype(object)
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore", RuntimeWarning)
            matrix = reading.terms.get_model_matrix(
                used if len(used.columns) else frame.iloc[:, :1],
                context={"sqrt": np.sqrt, "log1p": np.log1p},
                output="numpy",
                na_action="ignore",
            )
        x = np.asarray(matrix, float)
    except Exception as error:
        # formulaic wraps whatever a transform raises; the user needs its words, not its type.
        raise FormulaError(f"The formula cannot be evaluated on these data: {error}") from error
    spec = matrix.model_spec
    names = tuple(map(str, spec.column_names))
    if not names:
        raise FormulaError("The formula has no terms. Write 1 for an intercept alone.")
    if len(names) > _MOST_COLUMNS:
        raise FormulaError(
            f"The formula makes {len(names)} columns; at most {_MOST_COLUMNS} are allowed. "
            "Is a numeric column coded as a category?"
        )
    empty = [str(term) for term, columns in spec.term_indices.items() if not len(columns)]
    if empty:
        raise FormulaError(
            f"The term {empty[0]!r} makes no column (a single level?). Leave it out."
        )
    for name, column in zip(names, x.T, strict=True):
        _require_finite(column, name)
    return x, names, spec


def trials_of(frame: pd.DataFrame, trials: str | int | None, law: AbstractFamily) -> Array:
    if trials is None:
        if law.needs_trials:
            raise FamilyError(
                f"The family {law.name!r} needs trials=, a column or a number; it is never guessed "
                'from the data. For 0/1 outcomes use family="bernoulli".'
            )
        return np.ones(len(frame))
    if not law.needs_trials:
        raise SettingsError(
            f"The family {law.name!r} has no trials; got trials={trials!r}. "
            'Leave it out, or use family="binomial".'
        )
    if isinstance(trials, Real) and not isinstance(trials, bool):
        return np.full(len(frame), float(trials))
    return numbers(frame, trials, "trials")  # type: ignore[arg-type]


def offsets(frame: pd.DataFrame, offset: str | None, exposure: str | None) -> Array | None:
    if exposure is None:
        return None if offset is None else numbers(frame, offset, "offset")
    time = numbers(frame, exposure, "exposure")
    if (time <= 0).any():
        raise DataError(
            f"The exposure {exposure!r} must be above 0; {listing(time <= 0, time, 'row')}. "
            "Drop rows without exposure."
        )
    return np.log(time) if offset is None else np.log(time) + numbers(frame, offset, "offset")


def _require_finite(values: Array, name: str) -> None:
    wrong = ~np.isfinite(values)
    if wrong.any():
        raise DataError(
            f"Every value of {name!r} must be a finite number; {listing(wrong, values, 'row')}. "
            "Drop or repair these rows first."
        )
