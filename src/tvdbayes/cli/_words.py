"""Messages of the library in the words of the command line."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

from tvdbayes._errors import hearing
from tvdbayes.sampling.options import OPTIONS

FLAGS = {
    name: f"--{name.removeprefix('n_').replace('_', '-')}"
    for name, option in OPTIONS.items()
    if not option.no_flag
}
"""Options of a fit on the command line."""

_NAME = "|".join(FLAGS)
_ARGUMENT = re.compile(
    rf"\b({_NAME})=(?!tb\.)(?:(['\"])(.*?)\2|([\w.]+))?|^({_NAME})(?= must| holds|\[)"
)
_SEPARATED = re.compile(
    r"Read it with pandas\.read_csv\(\.\.\., sep=(.*)\) and pass the data frame"
)


def plain(message: object) -> str:
    """One line that speaks of options rather than arguments."""
    text = _ARGUMENT.sub(_as_option, " ".join(str(message).split()))
    return printable(_SEPARATED.sub(r"Pass --sep \1", text))


def _as_option(found: re.Match[str]) -> str:
    value = found[3] or found[4]
    flag = FLAGS[found[1] or found[5]]
    return f"{flag} {value}" if value else flag


def printable(text: object) -> str:
    """Text from the data without what would move the cursor, colour the terminal or hide itself."""
    escaped = (c if c.isprintable() else c.encode("unicode_escape").decode() for c in str(text))
    return "".join(escaped)


@contextmanager
def noted() -> Iterator[list[str]]:
    """Collect what the library warns of; the list is complete when the block ends."""
    notes: list[str] = []
    with hearing() as heard:
        yield notes
    notes += dict.fromkeys(map(plain, heard))
