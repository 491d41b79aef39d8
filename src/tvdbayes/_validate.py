"""Checks of values that users give, each with its message.

A check of an option takes its name and its value, and raises `SettingsError` unless the value lies
in its range. A function named after a fault of the data returns the error for it: the caller finds
the rows that are wrong, and this module words the message.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from difflib import get_close_matches
from numbers import Integral, Real
from typing import Any, TypeGuard

import numpy as np

from tvdbayes._errors import DataError, SettingsError, listing
from tvdbayes._typing import Array

LARGEST = 2.0**53 - 1
"""The largest number of anything that is counted. Double precision cannot hold every whole number
above it, so that a loop that counts in steps of 1 would not end."""

_TINY = 1e-280
"""The smallest ratio of two weights: with smaller ones masses would underflow to 0 in the fit (the
smallest normal number of double precision is 2e-308)."""

_SEEDS = 2**53
"""Seeds that a generator may give."""

_NAMED_COLUMNS = 30
"""Columns that a message lists at most."""

REPAIR = "Drop or repair these rows first."
REPAIR_OR_DROP = f'{REPAIR[:-1]}, or pass missing="drop" to leave out rows with gaps.'


def is_whole(value: object) -> TypeGuard[int]:
    """Whether this is an integer of any type; True and False are not."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def is_number(value: object) -> TypeGuard[float]:
    """Whether this is a real number of any type; True and False are not."""
    return isinstance(value, Real) and not isinstance(value, bool)


def whole_number(
    name: str, value: Any, least: int, most: int | None = None, *, floats: bool = False
) -> int:
    """Return an integer from `least` to `most`, or raise; `floats` allows 100.0 for 100."""
    whole = is_whole(value) or (floats and isinstance(value, float) and value.is_integer())
    if whole and least <= value and (most is None or value <= most):
        return int(value)
    span = f"of at least {least}" if most is None else f"from {least:,} to {most:,}"
    raise SettingsError(f"{name} must be a whole number {span}; got {value!r}.")


def seed_of(name: str, value: object) -> int:
    """A seed that is recorded: the whole number itself, or one that a generator gives.

    A generator of NumPy's, a bit generator or a seed sequence gives
    ``numpy.random.default_rng(value).integers(2**53)``, which JSON can hold to the last digit. So a
    generator moves on by one number, and the record can be run again by the seed alone.
    """
    if isinstance(value, np.random.Generator | np.random.BitGenerator | np.random.SeedSequence):
        return int(np.random.default_rng(value).integers(_SEEDS))
    return whole_number(name, value, 0)


def level_name(level: object) -> str:
    """What a level is called; whole numbers have no decimals, whatever their type."""
    if isinstance(level, float) and level.is_integer():
        return str(int(level))
    return str(level)


def finite_number(
    name: str, value: object, *, above: float = -np.inf, least: float = -np.inf
) -> float:
    """Return a finite number greater than `above` and not below `least`, or raise."""
    if is_number(value) and np.isfinite(value) and value > above and value >= least:
        return float(value)
    span = f"above {above:g}" if above > -np.inf else f"of at least {least:g}"
    raise SettingsError(f"{name} must be a finite number {span}; got {value!r}.")


def probability(name: str, value: object, example: float = 0.05) -> float:
    """Return a number above 0 and below 1, or raise."""
    if is_number(value) and 0 < value < 1:
        return float(value)
    raise SettingsError(f"{name} must lie between 0 and 1; got {value!r}. Try {example}.")


def one_of(name: str, value: object, choices: Sequence[str]) -> None:
    """Raise unless the value is one of these texts."""
    if not (isinstance(value, str) and value in choices):
        *first, last = (f'"{choice}"' for choice in choices)
        raise SettingsError(f"{name} must be {', '.join(first)} or {last}; got {value!r}.")


def not_finite(name: str, found: str, advice: str = REPAIR) -> DataError:
    """The error for values that are NaN or infinite; `found` says how many, and which is first."""
    return DataError(f"Every value of {name!r} must be a finite number; {found}. {advice}")


def has_gaps(name: str, found: str, advice: str = REPAIR) -> DataError:
    """The error for missing values in a column."""
    return DataError(f"The column {name!r} must have no gaps; {found}. {advice}")


def not_numbers(name: str, found: str, where: str = "") -> DataError:
    """The error for text in a column of numbers; `found` says what it holds, and what to do."""
    return DataError(f"The column {name!r} must hold numbers{where}; {found}")


def no_column(name: object, columns: Collection[object], named_by: str = "") -> str:
    """What is wrong with the name of a column that the data do not have.

    `named_by` says who named it, such as ", which the formula names"; the stage that found it
    raises its own error.
    """
    listed = ", ".join(map(str, list(columns)[:_NAMED_COLUMNS]))
    more = ", ..." if len(columns) > _NAMED_COLUMNS else ""
    return (
        f"The data have no column {name!r}{named_by}.{did_you_mean(name, columns)} "
        f"Columns: {listed}{more}."
    )


def did_you_mean(name: object, known: Iterable[object]) -> str:
    """A question that names what was probably meant, with a blank before it; or nothing."""
    by_lower = {str(one).lower(): one for one in known}
    near = get_close_matches(str(name).lower(), by_lower, 1)
    return f" Did you mean {by_lower[near[0]]!r}?" if near else ""


def not_values(name: str, kind: object) -> DataError:
    """The error for a column of a type such as dates."""
    return DataError(
        f"The column {name!r} holds {kind}, which is neither a number nor a category. "
        "Convert it first."
    )


def rows_left_out(n: int, n_rows: int) -> str:
    """The warning that rows with missing values were left out, as asked."""
    return f"{n} of {n_rows} rows have a gap in a column that is used and were left out."


def bad_exposure(name: str, found: str) -> DataError:
    """The error for exposures of 0 or below."""
    return DataError(
        f"The exposure {name!r} must be above 0; {found}. Repair these rows, or fit "
        'with zero_exposure="drop", which leaves out those where it is 0.'
    )


def rows_without_exposure(n: int, n_rows: int, columns: Mapping[str, float]) -> str:
    """The warning that rows without exposure were left out, as asked; by the value that says so."""
    says = " or ".join(f"{name!r} is {value:g}" for name, value in columns.items())
    return f"{n} of {n_rows} rows have no exposure ({says}) and were left out."


def no_rows_left() -> DataError:
    """The error for data of which no row can be used."""
    return DataError(
        "No row is left: all have weights of zero, gaps or no exposure. Give some rows a positive "
        "weight and values in every column that is used."
    )


def negative_weights(found: str) -> DataError:
    """The error for weights below 0."""
    return DataError(f"Weights count rows and must be at least 0; {found}.")


def bad_trials(found: str) -> str:
    """What is wrong with numbers of trials; the stage that found it raises its own error."""
    return f"Trials must be whole numbers of at least 1, below 2**53; {found}. Check the trials."


def check_weights(counts: Array) -> None:
    """Raise unless finite weights can be taken for numbers of rows."""
    if (counts < 0).any():
        raise negative_weights(listing(counts < 0, counts, "row"))
    # The largest is looked at first: the sum of several may overflow.
    largest = counts.max(initial=0.0)
    if largest > LARGEST or counts.sum() > LARGEST:
        raise DataError(
            "Weights count rows and must add up to less than 2**53, above which one row more makes "
            f"no difference; the largest is {largest:g}. Divide them all by the same number."
        )
    smallest = counts.min(initial=largest, where=counts > 0)
    if smallest < _TINY * largest:
        raise DataError(
            f"Weights range from {smallest:g} to {largest:g}, too far apart to calculate with. "
            "Give rows that hardly count a weight of 0."
        )
