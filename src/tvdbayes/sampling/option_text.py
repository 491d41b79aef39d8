"""Options of a fit as text on the command line: from text to a value.

Text that cannot be read goes on to the check as it is, so that Python and the terminal give one
message.
"""

from collections.abc import Callable, Iterable
from typing import Any

__all__ = ["column_or_whole", "formulas", "number", "numbers", "whole", "wholes"]


def _reader(convert: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A reader that gives back text that cannot be converted."""

    def read(text: Any) -> Any:
        try:
            return convert(text)
        except ValueError:
            return text

    return read


whole = _reader(int)
number = _reader(float)
wholes = _reader(lambda text: tuple(map(int, text.split(","))))
numbers = _reader(lambda text: tuple(map(float, text.split(","))))


def column_or_whole(text: str) -> str | int:
    """A number where text is digits, else the name of a column."""
    return int(text) if text.isdecimal() else text


def formulas(texts: Iterable[str]) -> dict[str, str] | None:
    """Terms by the name before the tilde, as in ``inflation ~ child``."""
    parts = [text.partition("~") for text in texts]
    return {name.strip(): f"{sign}{terms}" for name, sign, terms in parts} or None
