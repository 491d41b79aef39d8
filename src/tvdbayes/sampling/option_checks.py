"""Checks of the options of a fit.

A check takes the name of an option and a value. It returns the value that is kept, or raises an
error that says what was wrong, what was got and what to do.
"""

from collections.abc import Callable
from numbers import Real
from typing import Any

from tvdbayes._errors import DataError, FamilyError, SettingsError
from tvdbayes._validate import is_whole

__all__ = [
    "Check",
    "anything",
    "bin_starts",
    "column",
    "family",
    "grid",
    "is_number",
    "layers",
    "must_be",
    "name_in_table",
    "number_or_column",
    "one_of",
    "terms_by_name",
    "thing_by_name",
    "whole",
]

Check = Callable[[str, Any], Any]


def is_number(value: Any) -> bool:
    """Whether this is a finite number of at least 0; True and False are not."""
    real = isinstance(value, Real) and not isinstance(value, bool)
    return real and 0 <= float(value) < float("inf")


def anything(name: str, value: Any) -> Any:
    """Accept every value: it is checked where it is used."""
    del name
    return value


def must_be(wanted: str, holds: Callable[[Any], bool]) -> Check:
    """Accept the values for which something holds."""

    def check(name: str, value: Any) -> Any:
        if not holds(value):
            raise SettingsError(f"{name} must be {wanted}; got {value!r}.")
        return value

    return check


def whole(least: int, most: int | None = None) -> Check:
    """Accept whole numbers in a range."""
    wanted = f"of at least {least}" if most is None else f"from {least} to {most:,}"
    end = float("inf") if most is None else most
    return must_be(f"a whole number {wanted}", lambda v: is_whole(v) and least <= v <= end)


def one_of(*choices: str | None) -> Check:
    """Accept some words, and None where it is among them."""
    shown = ["None" if choice is None else f'"{choice}"' for choice in choices]
    wanted = f"{', '.join(shown[:-1])} or {shown[-1]}"
    return must_be(wanted, lambda v: isinstance(v, str | None) and v in choices)


def family(name: str, value: Any) -> Any:
    """Accept a family or text; which names there are is known where the outcome is read."""
    from tvdbayes.models.families import AbstractFamily

    if not isinstance(value, str | AbstractFamily):
        raise FamilyError(f"{name} must be a name or a family such as Poisson(); got {value!r}.")
    return value


def name_in_table(name: str, value: Any) -> Any:
    """Accept None, or a name of the table `NAMES`."""
    if value is not None:
        from tvdbayes.sampling.named import NAMES

        if not (isinstance(value, str) and value in NAMES[name]):
            known = ", ".join(NAMES[name])
            raise SettingsError(f"There is no {name} {value!r}. Choose from {known}.")
    return value


def thing_by_name(name: str, value: Any) -> Any:
    """What a name in the table `NAMES` stands for, or the thing itself."""
    from tvdbayes.models.named import named
    from tvdbayes.sampling.named import KINDS, NAMES

    return named(value, dict(NAMES[name]), name, KINDS[name])


def column(name: str, value: Any) -> Any:
    """Accept the name of a column, or None; the data say whether there is such a column."""
    if not isinstance(value, str | None):
        raise DataError(
            f"{name}= takes the name of a column; got {type(value).__name__}. Put the values into "
            "the data and pass their name."
        )
    return value


def number_or_column(name: str, value: Any) -> Any:
    """Accept a number, the name of a column, or None."""
    if not isinstance(value, str | Real | None) or isinstance(value, bool):
        raise DataError(
            f"{name}= takes the name of a column or a number; got {type(value).__name__}."
        )
    return value


def bin_starts(name: str, value: Any) -> Any:
    """The first count of each bin, or one of two words."""
    refuse = must_be('"auto", "none" or the first count of each bin', lambda _: False)
    if isinstance(value, str):
        return value if value in ("auto", "none") else refuse(name, value)
    try:
        return tuple(map(float, value))
    except (TypeError, ValueError):
        return refuse(name, value)


def terms_by_name(name: str, value: Any) -> Any:
    """A copy of a dict of text, or None."""
    if value is None:
        return None
    if not (isinstance(value, dict) and all(isinstance(v, str) for v in value.values())):
        raise SettingsError(
            f'{name} must be a dict of text such as {{"inflation": "~ x"}}; got {value!r}.'
        )
    return dict(value)


def layers(name: str, value: Any) -> Any:
    """A network, from itself or from the sizes of its hidden layers; or None."""
    del name
    from tvdbayes.models.named import network_of

    return None if value is None else network_of(value)


def grid(name: str, value: Any) -> Any:
    """Accept a grid, the number of its bins, or None."""
    del name
    if value is not None:
        from tvdbayes.data.sources import Grid

        Grid.of(value)
    return value
