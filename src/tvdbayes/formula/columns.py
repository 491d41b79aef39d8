"""Columns of a table, checked and encoded: covariates, trials and offsets of its distinct rows."""

import re
import warnings
from collections import Counter
from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd
from formulaic import Formula, ModelSpec
from formulaic.errors import DataMismatchWarning

from tvdbayes._errors import DataError, FamilyError, FormulaError, SettingsError
from tvdbayes._typing import Array
from tvdbayes._validate import is_number, not_numbers
from tvdbayes.data.slips import mostly_numbers, no_numbers
from tvdbayes.data.table import Table
from tvdbayes.formula.guard import Reading, calculated_with, not_by_category
from tvdbayes.formula.names import alias_of, as_written, readable
from tvdbayes.formula.transforms import formula_context
from tvdbayes.models.families import AbstractFamily

_MOST_COLUMNS = 1000
"""Levels and covariates that are encoded at most: a column with more is likely an identifier, and
the covariance of so many parameters is already slow."""


def require_name(name: object, what: str) -> None:
    """Raise unless an option that takes the name of a column got text, or nothing."""
    if not (name is None or isinstance(name, str)):
        raise DataError(
            f"{what}= takes the name of a column; got {type(name).__name__}. Put the values into "
            "the data and pass their name."
        )


def require_trials(trials: object) -> None:
    """Raise unless ``trials=`` is the name of a column or a number."""
    if not (isinstance(trials, str) or is_number(trials)):
        raise DataError(
            f"trials= takes the name of a column or a number; got {type(trials).__name__}."
        )


def numbers(table: Table, name: str) -> Array:
    """A column of numbers, one for each distinct row."""
    require_numbers(table, name)
    return table.frame[name].to_numpy(dtype=float)


def _holds_numbers(column: pd.Series) -> bool:
    return getattr(column.dtype, "kind", "O") in "biuf"


def require_numbers(table: Table, name: str, where: str = "") -> None:
    """Raise unless a column holds numbers, and name the first cell that does not."""
    column = table.frame[name]
    if _holds_numbers(column):
        return
    wrong = no_numbers(column)
    found = (
        f"{table.listing(wrong, column)}. Repair these cells, or convert the column first."
        if wrong.any()
        else f"got numbers written as text (first: {column.iloc[0]!r}). Convert it first."
    )
    raise not_numbers(name, found, where)


def refuse_slips(table: Table, name: str, on_purpose: str) -> None:
    """Raise where a column is text because of a few cells.

    `on_purpose` tells users how to make it a category if it is one.
    """
    column = table.frame[name]
    if _holds_numbers(column) or isinstance(column.dtype, pd.CategoricalDtype):
        return
    if mostly_numbers(column.unique()):
        raise DataError(
            f"Values of {name!r} are numbers in the main; "
            f"{table.listing(no_numbers(column), column)}. Repair these cells, or empty them and "
            f'pass missing="drop" to leave their rows out. {on_purpose}'
        )


def model_matrix(
    terms: Formula | ModelSpec, frame: pd.DataFrame, weights: Array | None = None
) -> tuple[Any, str | None]:
    """The model matrix of some rows, and their values that are not known levels, as text."""
    columns = {alias_of(str(name)): frame[name] for name in frame}
    columns = columns or {"": pd.Series(np.ones(len(frame)))}
    with warnings.catch_warnings(record=True) as said, np.errstate(all="ignore"):
        warnings.simplefilter("always")
        matrix = terms.get_model_matrix(
            pd.DataFrame(columns, copy=False),
            context=formula_context(weights),
            output="numpy",
            na_action="ignore",
        )
    unknown = [str(w.message) for w in said if issubclass(w.category, DataMismatchWarning)]
    if not unknown:
        return matrix, None
    # NumPy prints the types of its numbers, which users need not know.
    values = re.findall(r"\{.*\}", re.sub(r"np\.\w+\(([^()]*)\)", r"\1", unknown[0]), re.DOTALL)
    return matrix, ", ".join(values)


def encode(reading: Reading, table: Table) -> tuple[Array, tuple[str, ...], ModelSpec]:
    """Covariates of the distinct rows, their names, and the spec that encodes new data alike."""
    used = table.frame.loc[:, list(reading.columns)]
    for name, where in calculated_with(reading.terms).items():
        require_numbers(table, name, f", as {where!r} calculates with it")
    for name in sorted(not_by_category(reading.terms)):
        refuse_slips(table, name, f"If they are categories, write C({as_written(alias_of(name))}).")
    for name in reading.columns:
        if _holds_numbers(used[name]):
            continue
        n_levels = used[name].nunique()
        if n_levels > _MOST_COLUMNS:
            raise FormulaError(
                f"The column {name!r} has {n_levels:,} levels; at most {_MOST_COLUMNS} can be "
                "encoded. Is it an identifier?"
            )
    try:
        matrix, unknown = model_matrix(reading.terms, used, table.counts)
        x = np.asarray(matrix, float)
    except Exception as error:
        # formulaic wraps whatever a transform raises; the user needs its words, not its type.
        said = readable(str(error))
        raise FormulaError(f"The formula cannot be evaluated on these data: {said}") from error
    if unknown is not None:
        raise DataError(
            f"The data have values that are not among levels=: {unknown}. Name all levels, or drop "
            "these rows first."
        )
    spec = matrix.model_spec
    names = tuple(readable(str(name)) for name in spec.column_names)
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
            f"The term {as_written(empty[0])!r} makes no column (a single level?). Leave it out."
        )
    _require_levels_told_apart(spec)
    table.require_finite(names, x)
    return x, names, spec


def _require_levels_told_apart(spec: ModelSpec) -> None:
    """Raise where two levels of a category print alike, since columns are named by them."""
    for expression, (_, state) in spec.encoder_state.items():
        levels = list(state.get("categories", ()))
        texts = Counter(map(str, levels))
        if len(texts) < len(levels):
            alike = [level for level in levels if texts[str(level)] > 1]
            raise DataError(
                f"{readable(expression)!r} has levels that print alike: "
                f"{', '.join(map(repr, alike[:2]))}. Make them equal, or rename one of them."
            )


def require_told_apart(specs: Iterable[ModelSpec]) -> None:
    """Raise where terms of one or several formulas make different columns of one name."""
    term_of: dict[str, str] = {}
    for spec in specs:
        made: set[str] = set()
        for entry in spec.structure:
            term = as_written(str(entry.term))
            for name in map(readable, map(str, entry.columns)):
                if name in made or term_of.setdefault(name, term) != term:
                    both = [_in_words(term_of[name]), _in_words(term)]
                    raise FormulaError(
                        f"Two columns of the model would be called {name!r}: one made of "
                        f"{both[0]}, one of {both[1]}. Rename a column of the data."
                    )
                made.add(name)


def _in_words(term: str) -> str:
    return "the intercept" if term == "1" else f"the term {term}"


def trials_of(table: Table, trials: str | float | None, family: AbstractFamily) -> Array:
    """Trials of the distinct rows, 1 for families that have none."""
    if trials is None:
        if family.needs_trials:
            raise FamilyError(
                f"The family {family.name!r} needs trials=, a column or a number; it is never "
                'guessed from the data. For 0/1 outcomes use family="bernoulli".'
            )
        return np.ones(len(table.frame))
    if not family.needs_trials:
        raise SettingsError(
            f"The family {family.name!r} has no trials; got trials={trials!r}. "
            'Leave it out, or use family="binomial".'
        )
    if is_number(trials):
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
