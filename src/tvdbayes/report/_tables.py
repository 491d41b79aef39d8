"""The tables of the page, as text, and numbers and lists as a reader wants them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import floor, isfinite, log10
from typing import Any, NamedTuple

import pandas as pd

from tvdbayes._typing import Array, BoolArray
from tvdbayes.report._story import Story
from tvdbayes.results.effects import Effect
from tvdbayes.sampling.statements import differing
from tvdbayes.sampling.summary import Summary

_DIGITS = 3
_MINUS = "\u2212"
_MOST_ROWS = 500


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


_SCORES: dict[str, Callable[[float], str]] = {
    "score": "{:.2f}".format,
    "probability": "{:.2f}".format,
    "observed": number,
    "expected": number,
    "surprise": "{:.1f}".format,
    "kept": "{:.2f}".format,
}
"""What is shown of each row's scores, and how."""


class Estimate(NamedTuple):
    """A number and its interval, which is empty where there are too few draws for one."""

    mean: str
    interval: str = ""


@dataclass(frozen=True)
class Line:
    """One quantity by both fits.

    ``differs`` says that the fits differ by more than chance (`rules.differing`), ``robust_sign``
    and ``ordinary_sign`` on which side of 0 (1, -1) an interval lies, or 0 if it holds 0.
    """

    name: str
    robust: Estimate
    ordinary: Estimate
    difference: Estimate
    direction: str = ""
    differs: bool = False
    robust_sign: int = 0
    ordinary_sign: int = 0

    @property
    def intercept(self) -> bool:
        """Whether it is an intercept, of which no one draws conclusions."""
        return self.name.rsplit(":", 1)[-1] == "Intercept"


class Cell(NamedTuple):
    """Text of a table, and the number that it is sorted by where the text is not that number."""

    text: str
    value: str = ""


@dataclass(frozen=True)
class RowTable:
    """Distinct rows of the data, the most suspicious first; ``shown`` says how many of how many."""

    headings: tuple[str, ...]
    numeric: tuple[bool, ...]
    lines: tuple[tuple[Cell, ...], ...]
    shown: str
    note: str


def coefficient_lines(story: Story) -> tuple[Line, ...]:
    """The coefficients by both fits."""
    posterior = story.fit.posterior
    return _lines(
        posterior.param_names,
        story.summary,
        posterior.estimate,
        posterior.kld_minimiser,
        story.differs,
    )


def effect_lines(effect: Effect) -> tuple[Line, ...]:
    """Averages by both fits."""
    table = effect.summary() if len(effect.draws) > 1 else None
    differs = differing(effect.draws, effect.kld_draws)
    return _lines(effect.names, table, effect.minimiser, effect.kld_minimiser, differs)


def _lines(
    names: tuple[str, ...],
    table: Summary | None,
    robust: Array,
    ordinary: Array,
    apart: BoolArray,
) -> tuple[Line, ...]:
    """Both fits and their difference; without a table the bare numbers."""
    if table is None:
        return tuple(
            Line(name, Estimate(number(a)), Estimate(number(b)), Estimate(number(a - b)))
            for name, a, b in zip(names, robust, ordinary, strict=True)
        )

    def part(j: int, mean: str, ends: str) -> tuple[Estimate, int]:
        low, high = table[f"{ends}low"][j], table[f"{ends}high"][j]
        return Estimate(number(table[mean][j]), span(low, high)), int(low > 0) - int(high < 0)

    made = []
    for j, name in enumerate(names):
        (one, sign), (other, other_sign), (gap, _) = (
            part(j, *keys) for keys in (("mean", ""), ("kld_mean", "kld_"), ("diff", "diff_"))
        )
        direction = f"{table['direction'][j]:.1%}"
        made.append(Line(name, one, other, gap, direction, bool(apart[j]), sign, other_sign))
    return tuple(made)


def row_table(story: Story) -> RowTable:
    """Distinct rows in the order of `Fit.suspicious_rows`."""
    frame, own = story.suspicious, story.columns
    kept = frame.iloc[:_MOST_ROWS]
    scored = [name for name in _SCORES if name in frame]
    texts = [
        [Cell(str(i)) for i in kept.index],
        [Cell("flagged", "1") if flag else Cell("", "0") for flag in kept["flag"]],
        [Cell(number(n) if n % 1 else f"{n:,.0f}", f"{n:.12g}") for n in kept["count"]],
        *(_column(kept[name]) for name in own),
        *([Cell(_SCORES[name](v), f"{v:.6g}") for v in kept[name]] for name in scored),
    ]
    is_number = [frame[name].dtype.kind in "iuf" for name in own]
    shown = (
        f"All {count(story.n_known, 'row')} of the fit are listed."
        if len(kept) == len(frame)
        else f"Of {len(frame):,} different rows the {len(kept):,} most suspicious are listed."
    )
    return RowTable(
        ("row", "flag", "count", *own, *scored),
        (True, True, True, *is_number, *(True for _ in scored)),
        tuple(zip(*texts, strict=True)),
        f"{shown} {story.equal_rows}",
        str(frame.attrs["note"]),
    )


def _column(values: "pd.Series[Any]") -> list[Cell]:
    if values.dtype.kind == "f":
        return [Cell(f"{v:.6g}", repr(float(v))) for v in values]
    return [Cell(str(v)) for v in values]
