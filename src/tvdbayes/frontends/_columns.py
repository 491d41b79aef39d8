"""Columns of a table, checked: what goes into cells."""

import warnings
from numbers import Real

import numpy as np
import pandas as pd
from formulaic import ModelSpec

from tvdbayes._errors import DataError, FamilyError, FormulaError, SettingsError
from tvdbayes._typing import Array
from tvdbayes.families import AbstractFamily
from tvdbayes.frontends._guard import Reading
from tvdbayes.frontends._transforms import formula_context
from tvdbayes.sources import Table

__all__ = ["encode", "numbers", "offsets", "require_name", "trials_of"]

_MOST_COLUMNS = 1000


def require_name(name: object, what: str) -> None:
    """Raise unless an option that takes a column's name got text."""
    if not isinstance(name, str):
        raise DataError(
            f"{what}= takes the name of a column; got {type(name).__name__}. Put the values into "
            "the data and pass their name."
        )


def numbers(table: Table, name: str) -> Array:
    """A column of numbers, one for each distinct row."""
    column = table.frame[name]
    if getattr(column.dtype, "kind", "O") not in "biuf":
        raise DataError(
            f"The column {name!r} must hold numbers; got text or categories "
            f"(first: {column.iloc[0]!r}). Convert it first."
        )
    return column.to_numpy(dtype=float)


def encode(reading: Reading, table: Table) -> tuple[Array, tuple[str, ...], ModelSpec]:
    """Covariates of the distinct rows, their names, and the spec that encodes new data alike."""
    used = table.frame.loc[:, list(reading.columns)]
    for name in reading.columns:
        column = used[name]
        if getattr(column.dtype, "kind", "O") in "biuf":
            continue
        n_levels = column.nunique()
        if n_levels > _MOST_COLUMNS:
            raise FormulaError(
                f"The column {name!r} has {n_levels:,} levels; at most {_MOST_COLUMNS} can be "
                "encoded. Is it an identifier?"
            )
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore", RuntimeWarning)
            matrix = reading.terms.get_model_matrix(
                used if len(used.columns) else pd.DataFrame({"": np.ones(len(table.frame))}),
                context=formula_context(table.counts),
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
        wrong = ~np.isfinite(column)
        if wrong.any():
            raise DataError(
                f"Every value of {name!r} must be a finite number; "
                f"{table.listing(wrong, column)}. Drop or repair these rows first."
            )
    return x, names, spec


def trials_of(table: Table, trials: str | float | None, law: AbstractFamily) -> Array:
    """Trials of the distinct rows, 1 for families that have none."""
    if trials is None:
        if law.needs_trials:
            raise FamilyError(
                f"The family {law.name!r} needs trials=, a column or a number; it is never guessed "
                'from the data. For 0/1 outcomes use family="bernoulli".'
            )
        return np.ones(len(table.frame))
    if not law.needs_trials:
        raise SettingsError(
            f"The family {law.name!r} has no trials; got trials={trials!r}. "
            'Leave it out, or use family="binomial".'
        )
    if isinstance(trials, Real) and not isinstance(trials, bool):
        try:
            return np.full(len(table.frame), float(trials))
        except OverflowError as error:
            raise FamilyError("Trials must be below 2**53. Check trials=.") from error
    return numbers(table, str(trials))


def offsets(table: Table, offset: str | None, exposure: str | None) -> Array | None:
    """What is added to the linear predictor, for the distinct rows."""
    if exposure is None:
        return None if offset is None else numbers(table, offset)
    time = numbers(table, exposure)
    if (time <= 0).any():
        raise DataError(
            f"The exposure {exposure!r} must be above 0; {table.listing(time <= 0, time)}. "
            "Drop rows without exposure."
        )
    return np.log(time) if offset is None else np.log(time) + numbers(table, offset)
