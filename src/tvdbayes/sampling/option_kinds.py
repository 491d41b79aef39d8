"""The kinds of options of a fit: what each accepts, and how its text is read.

A check takes the name of an option and a value. It returns the value that is kept, or raises an
error that says what was wrong, what was got and what to do. Text on the command line that cannot
be read goes on to the check as it is, so that Python and the terminal give one message.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from numbers import Real
from typing import Any

from tvdbayes._errors import DataError, FamilyError, SettingsError
from tvdbayes._validate import is_number, level_name, seed_of, whole_number

Check = Callable[[str, Any], Any]


def anything(name: str, value: Any) -> Any:
    """Accept every value: it is checked where it is used."""
    del name
    return value


@dataclass(frozen=True)
class Option:
    """What is known of an option.

    Parameters
    ----------
    about : str
        What it means, in a sentence.
    check : callable
        From its name and a value to the value that is kept.
    metavar : str
        What stands for its text in the help of the command line; lower case is meant literally.
    convert : callable
        From that text to a value.
    repeated : bool
        Whether the command line takes it several times.
    choices : callable
        Names that it takes, where the metavar does not list them.
    no_flag : str
        Why the command line does not have it, if so.
    draws : bool
        Whether draws depend on it.
    """

    about: str
    check: Check = anything
    metavar: str = ""
    convert: Callable[[Any], Any] = str
    repeated: bool = False
    choices: Callable[[], Iterable[str]] = tuple
    no_flag: str = ""
    draws: bool = True

    def read(self, text: Any) -> Any:
        """The value that a text stands for, or the text, for the check to refuse."""
        try:
            return self.convert(text)
        except ValueError:
            return text


def must_be(
    about: str, wanted: str, holds: Callable[[Any], bool], metavar: str, **more: Any
) -> Option:
    """An option for values of which something holds."""

    def check(name: str, value: Any) -> Any:
        if not holds(value):
            raise SettingsError(f"{name} must be {wanted}; got {value!r}.")
        return value

    return Option(about, check, metavar, **more)


def one_of(about: str, *choices: str | None) -> Option:
    """An option for some words, or None where it is among them."""
    shown = ["None" if choice is None else f'"{choice}"' for choice in choices]
    return must_be(
        about,
        f"{', '.join(shown[:-1])} or {shown[-1]}",
        lambda value: isinstance(value, str | None) and value in choices,
        "|".join(choice or "none" for choice in choices),
        convert=lambda text: None if None in choices and text == "none" else text,
    )


def whole(about: str, least: int, most: int | None = None, **more: Any) -> Option:
    """An option for whole numbers in a range."""

    def check(name: str, value: Any) -> Any:
        return whole_number(name, value, least, most)

    return Option(about, check, **{"metavar": "N", "convert": int, **more})


def column(about: str) -> Option:
    """An option for the name of a column, or None; the data say whether there is such a column."""
    return Option(about, _column, "COLUMN")


def _column(name: str, value: Any) -> Any:
    if not isinstance(value, str | None):
        raise DataError(
            f"{name}= takes the name of a column; got {type(value).__name__}. Put the values into "
            "the data and pass their name."
        )
    return value


def named(about: str, option: str, check: Check) -> Option:
    """An option for a name in the table `NAMES`, which is looked up when it is needed."""

    def names() -> Iterable[str]:
        from tvdbayes.sampling.named import NAMES

        return NAMES[option]

    return Option(about, check, "NAME", choices=names)


def link(name: str, value: Any) -> Any:
    """Accept None, or the name of a link."""
    from tvdbayes.sampling.named import NAMES

    if value is not None and not (isinstance(value, str) and value in NAMES[name]):
        known = ", ".join(NAMES[name])
        raise SettingsError(f"There is no {name} {value!r}. Choose from {known}.")
    return value


def thing_by_name(name: str, value: Any) -> Any:
    """What a name in the table `NAMES` stands for, or the thing itself."""
    from tvdbayes.models.model import named
    from tvdbayes.sampling.named import KINDS, NAMES

    return named(value, dict(NAMES[name]), name, KINDS[name])


def family(name: str, value: Any) -> Any:
    """Accept a family or text; which names there are is known where the outcome is read."""
    from tvdbayes.models.families import AbstractFamily

    if not isinstance(value, str | AbstractFamily):
        raise FamilyError(f"{name} must be a name or a family such as Poisson(); got {value!r}.")
    return value


def answer(name: str, value: Any) -> Any:
    """The name of an answer, which may be given as a number or a truth value; or None."""
    if not isinstance(value, str | Real | None):
        raise SettingsError(f"{name} must be one of the answers of the outcome; got {value!r}.")
    return None if value is None else level_name(value)


def seed_or_none(name: str, value: Any) -> int | None:
    """The seed that a number or a generator stands for, or None."""
    return None if value is None else seed_of(name, value)


def number_or_column(name: str, value: Any) -> Any:
    """Accept a number, the name of a column, or None."""
    if not isinstance(value, str | Real | None) or isinstance(value, bool):
        raise DataError(
            f"{name}= takes the name of a column or a number; got {type(value).__name__}."
        )
    return value


def at_least_0(value: Any) -> bool:
    """Whether this is a finite number of at least 0."""
    return is_number(value) and 0 <= float(value) < float("inf")


def bin_starts(name: str, value: Any) -> Any:
    """The first count of each bin, or one of two words."""
    if isinstance(value, str):
        starts: Any = value if value in ("auto", "none") else None
    else:
        try:
            starts = tuple(map(float, value))
        except (TypeError, ValueError):
            starts = None
    if starts is None:
        raise SettingsError(
            f'{name} must be "auto", "none" or the first count of each bin; got {value!r}.'
        )
    return starts


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
    from tvdbayes.models.model import network_of

    return None if value is None else network_of(value)


def grid(name: str, value: Any) -> Any:
    """Accept a grid, the number of its bins, or None."""
    del name
    if value is not None:
        from tvdbayes.data.grid import Grid

        Grid.of(value)
    return value


def base_measure(name: str, value: Any) -> Any:
    """A table of cells, a function, "fit", or None; rows in the columns of the data as a dict."""
    from tvdbayes.data.cells import Cells
    from tvdbayes.data.sources import open_data

    if value is None or callable(value) or isinstance(value, Cells) or _is_fit(value):
        return value
    try:
        native = open_data(value).native
    except DataError as error:
        raise type(error)(f"{name}=: {error}") from error
    columns = native.to_dict(as_series=False)
    return {str(column): tuple(values) for column, values in columns.items()}


def _is_fit(value: Any) -> bool:
    return isinstance(value, str) and value == "fit"


def list_of(convert: Callable[[str], Any]) -> Callable[[str], Any]:
    """From text with commas to a tuple."""
    return lambda text: tuple(map(convert, text.split(",")))


def column_or_whole(text: str) -> str | int:
    """A number where text is digits, else the name of a column."""
    return int(text) if text.isdecimal() else text


def formulas(texts: Iterable[str]) -> dict[str, str] | None:
    """Terms by the name before the tilde, as in ``inflation ~ child``."""
    parts = [text.partition("~") for text in texts]
    return {name.strip(): f"{sign}{terms}" for name, sign, terms in parts} or None
