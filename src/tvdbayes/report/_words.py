"""Numbers and lists as a reader wants them."""

from collections.abc import Sequence
from math import floor, isfinite, log10

__all__ = ["count", "listed", "number", "span"]

_DIGITS = 3
_MINUS = "\u2212"


def number(value: float) -> str:
    """Three digits that matter, whole thousands as they are, and a true minus.

    Examples
    --------
    >>> number(0.035319), number(12345.6), number(0.0), number(2.5e-7)
    ('0.0353', '12,346', '0', '2.5e−7')
    """
    value = float(value)
    if not isfinite(value):
        return str(value).replace("nan", "unknown").replace("inf", "∞")
    size = floor(log10(abs(value))) if value else 0
    if value and not -4 <= size < 9:
        digits, power = f"{value:.{_DIGITS - 1}e}".split("e")
        text = f"{digits.rstrip('0').rstrip('.')}e{int(power)}"
    else:
        text = f"{value:,.{max(0, _DIGITS - 1 - size)}f}"
        # A whole number, such as how often an outcome was seen, has no decimals.
        text = f"{value:,.0f}" if value == int(value) else text
    return text.replace("-", _MINUS)


def span(low: float, high: float) -> str:
    """Both ends of an interval."""
    return f"{number(low)} to {number(high)}"


def count(n: float, one: str, more: str | None = None) -> str:
    """A number of things: ``count(1, "row")``, ``count(1200, "row")``.

    Examples
    --------
    >>> count(1, "row"), count(1200, "row")
    ('1 row', '1,200 rows')
    """
    return f"{n:,.12g} {one if n == 1 else more or one + 's'}"


def listed(names: Sequence[str], most: int = 8) -> str:
    """Names in a sentence, the first of them where they are many.

    Examples
    --------
    >>> listed(["a", "b", "c"]), listed(["a", "b", "c"], 1)
    ('a, b and c', 'a and 2 more')
    """
    shown = [*names[:most], *([f"{len(names) - most} more"] if len(names) > most else [])]
    return " and ".join(part for part in (", ".join(shown[:-1]), shown[-1]) if part)
