"""Names of columns: as users write them in formulas, and as formulaic is given them.

formulaic tells factors and terms apart by their text, and runs that text as Python. So a column
called ``x:b``, ``log1p(x)``, ``1``, ``Sepal.Length`` or ``log`` would be taken for something else.
It is given an alias that is a plain identifier, from which the name can be read back.
"""

import ast
import builtins
import keyword
import re
import unicodedata
from collections.abc import Callable, Collection

from formulaic.transforms import TRANSFORMS

_QUOTED = r"`(?P<quoted>(?:[^`]|``)*)`"
_TEXT = r"""(?P<text>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")"""
# R's names may have dots. What is neither ASCII nor blank may be part of a name, so that letters
# that only look like others, and accents that are characters of their own, are never cut off.
_WORD = r"(?P<word>(?:\.?[^\W\d]|[^\x00-\x7f\s])(?:[\w.]|[^\x00-\x7f\s])*)"
_TOKEN = re.compile(rf"{_QUOTED}|{_TEXT}|(?P<number>[0-9][\w.]*)|{_WORD}", re.DOTALL)
_ALIAS = re.compile(r"\b_named_((?:[0-9a-f]{2})*)_\b")
_CONSTANTS = frozenset({"True", "False", "None"})
_TAKEN = frozenset({*keyword.kwlist, *dir(builtins), *TRANSFORMS, "sqrt", "log1p"})
"""Names that formulaic or Python would not take for a column."""


def alias_of(name: str) -> str:
    """What formulaic is given for a column: plain names as they are, all others in code."""
    plain = name.isidentifier() and unicodedata.normalize("NFKC", name) == name
    if plain and name not in _TAKEN and not _ALIAS.search(name):
        return name
    return f"_named_{name.encode('utf-8', 'surrogatepass').hex()}_"


def column_of(alias: str) -> str:
    """The column that has this alias."""
    coded = _ALIAS.fullmatch(alias)
    return alias if coded is None else _decoded(coded)


def _decoded(coded: "re.Match[str]") -> str:
    return bytes.fromhex(coded[1]).decode("utf-8", "surrogatepass")


def readable(text: str) -> str:
    """Text of formulaic's, with the names of columns in place of their aliases."""
    return _ALIAS.sub(_name_or_text, text)


def _name_or_text(coded: "re.Match[str]") -> str:
    """The name behind an alias. A level of the data that only looks like one stays as it is."""
    try:
        name = _decoded(coded)
    except ValueError:
        return coded[0]
    return name if alias_of(name) == coded[0] else coded[0]


def as_written(expression: str) -> str:
    """An expression of formulaic's as a formula may have it: names that are not plain in quotes."""
    return _ALIAS.sub(lambda coded: quoted(_decoded(coded)), expression)


def quoted(name: str) -> str:
    """A name in backticks, as a formula can have any name; a backtick in it is doubled."""
    return f"`{name.replace('`', '``')}`"


def mask(text: str) -> str:
    """The same text with everything in quotes replaced by "q", character by character."""
    return _TOKEN.sub(
        lambda token: (
            "q" * len(token[0])
            if token["quoted"] is not None or token["text"] is not None
            else token[0]
        ),
        text,
    )


def rewrite(
    text: str,
    columns: Collection[str],
    functions: Collection[str],
    require: Callable[[str], None],
) -> str:
    """Terms in which every column has its alias; `require` raises for a name that is none."""

    def replaced(token: "re.Match[str]") -> str:
        if token["quoted"] is not None:
            name = token["quoted"].replace("``", "`")
            require(name)
            return alias_of(name)
        if token["text"] is not None:
            return _escaped(token["text"])
        word = token["word"]
        if word is None or word in _CONSTANTS:
            return token[0]
        after = token.string[token.end() :].lstrip()
        called, option = after.startswith("("), re.match(r"=(?!=)", after)
        # Unknown functions are refused with all other calls.
        if called or option or (word in functions and word not in columns):
            return token[0]
        require(word)
        return alias_of(word)

    return _TOKEN.sub(replaced, text)


def _escaped(text: str) -> str:
    """Text in quotes, in which brackets and the like are escaped: formulaic would count them."""
    try:
        value = ast.literal_eval(text)
    except (SyntaxError, ValueError):
        return text
    safe = (c if c.isascii() and (c.isalnum() or c == " ") else f"\\U{ord(c):08x}" for c in value)
    return f'"{"".join(safe)}"'
