"""The tables and pictures of the page, as text and drawings that say the same in numbers.

Pictures are narrow, so that their letters can still be read on a phone, and their letters are text
in the reader's own fonts, which know more scripts than the one that room is measured with.
"""

import re
import warnings
from base64 import b64encode
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from io import StringIO
from math import floor, isfinite, log10
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from tvdbayes._typing import Array, BoolArray
from tvdbayes.data.cells import amount
from tvdbayes.report._story import Story
from tvdbayes.results.checks import calibration, rootogram
from tvdbayes.results.effects import Effect
from tvdbayes.results.misfit import Misfit
from tvdbayes.sampling.posterior import Posterior
from tvdbayes.sampling.statements import differing
from tvdbayes.sampling.summary import Summary

_DIGITS = 3
"""Digits of a number in text and tables."""
_MINUS = "\u2212"
_MOST_ROWS = 500
"""Rows that the page lists, the most suspicious first."""
_LEAST_EXPECTED = 1e-3
"""Expected counts below this are written as "< 0.001"."""


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
    return f"{amount(n)} {one if n == 1 else more or one + 's'}"


def listed(names: Sequence[str], most: int = 8) -> str:
    """Names in a sentence, the first of them where they are many.

    Examples
    --------
    >>> listed(["a", "b", "c"]), listed(["a", "b", "c"], 1)
    ('a, b and c', 'a and 2 more')
    """
    shown = [*names[:most], *([f"{len(names) - most} more"] if len(names) > most else [])]
    return " and ".join(part for part in (", ".join(shown[:-1]), shown[-1]) if part)


def expected_rows(value: float) -> str:
    """A number of rows that the model expects; of less than a thousandth no one needs the digits.

    >>> expected_rows(3.87e-207), expected_rows(0.25)
    ('< 0.001', '0.250')
    """
    return "< 0.001" if value < _LEAST_EXPECTED else number(value)


_SCORES: dict[str, Callable[[float], str]] = {
    "score": "{:.2f}".format,
    "probability": "{:.2f}".format,
    "observed": number,
    "expected": expected_rows,
    "surprise": "{:.1f}".format,
    "kept": "{:.2f}".format,
}
"""The columns of the table of suspicious rows, with their formats."""


class Estimate(NamedTuple):
    """A number and its interval, which is empty where there are too few draws for one."""

    mean: str
    interval: str = ""


@dataclass(frozen=True)
class Line:
    """One quantity by both fits.

    ``differs`` says that the fits differ by more than chance (`differing`), ``robust_sign``
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


def ratio_lines(table: Summary, differs: BoolArray) -> tuple[Line, ...]:
    """Ratios by both fits, and the robust one divided by the other."""

    def part(j: int, estimate: str, ends: str) -> Estimate:
        low, high = table[f"{ends}low"][j], table[f"{ends}high"][j]
        return Estimate(number(table[estimate][j]), span(low, high))

    lines = zip(table.names, table.of_parameter, strict=True)
    return tuple(
        Line(
            name,
            part(j, "ratio", ""),
            part(j, "kld_ratio", "kld_"),
            part(j, "quotient", "quotient_"),
            differs=bool(differs[i]),
        )
        for j, (name, i) in enumerate(lines)
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


_MOST_COEFFICIENTS = 30
_WIDTH = 4.4
_TOLD = 8
"""Coefficients or bins that the text of a picture tells of."""

_FORBIDDEN = re.compile("[\x00-\x1f\x7f\ud800-\udfff\ufffe\uffff\u202a-\u202e\u2066-\u2069]")
"""What no drawing may hold, and what turns text around; names may."""


@dataclass(frozen=True)
class Picture:
    """A drawing as an address that holds it, and its size in pixels.

    ``alt`` tells what can be seen, ``caption`` how to read it.
    """

    source: str
    width: int
    height: int
    alt: str
    caption: str


def draw_coefficients(posterior: Posterior, table: Summary) -> Picture:
    """Both fits, one above the other; intercepts are left out where there is anything else."""
    names = posterior.param_names
    slopes = [j for j, name in enumerate(names) if name.rsplit(":", 1)[-1] != "Intercept"]
    shown = (slopes or list(range(len(names))))[:_MOST_COEFFICIENTS]
    kept = tuple(_drawable(names[j]) for j in shown)

    def each(j: int, fit: str) -> str:
        mean, low, high = (table[fit + column][j] for column in ("mean", "low", "high"))
        return f"{number(mean)} ({span(low, high)})"

    caption = "Mean and 90% interval of each coefficient, by both fits."
    if len(slopes) > len(shown):
        caption += f" The first {len(shown)} of {len(slopes)}; the table has all."
    told = [f"{names[j]} {each(j, '')} against {each(j, 'kld_')}" for j in shown]
    alt = f"Coefficients with 90% intervals, robust against likelihood fit: {listed(told, _TOLD)}."
    draws = posterior.draws[:, shown], posterior.kld_draws[:, shown]
    return _picture(
        "coefficients", kept, *draws, alt=alt, caption=caption, height=1.2 + 0.38 * len(kept)
    )


def draw_misfit(misfit: Misfit) -> Picture:
    """The unexplained share and what chance would leave."""
    beyond = "beyond" if misfit.lower > 0 else "not beyond"
    alt = (
        f"Two histograms. The unexplained share of these data is about {misfit.mean:.1%} "
        f"({misfit.low:.1%} to {misfit.high:.1%}), {beyond} what chance alone would leave, about "
        f"{misfit.floor:.1%} and up to {misfit.floor_high:.1%}. A dashed line marks the share of "
        f"rows that at least do not come from the fitted model, {misfit.lower:.1%}."
    )
    caption = (
        "The unexplained share of these data beside what chance alone would leave: the share that "
        "data of the model's own making leave unexplained."
    )
    if misfit.wrong_is_clear:
        caption += " The part beyond chance is careful; the share of wrong rows is an estimate."
    return _picture("misfit", misfit, alt=alt, caption=caption, height=3.0)


def draw_rootogram(posterior: Posterior, outcome: str) -> Picture:
    """How often each outcome was seen, hanging from how often both fits expect it."""
    robust = rootogram(posterior)
    ordinary = rootogram(posterior.twin, like=robust)
    outside = (robust.observed < robust.low) | (robust.observed > robust.high)
    off = np.abs(np.sqrt(robust.observed) - np.sqrt(robust.expected))
    told = [
        f"{outcome} {robust.labels[i]}, {number(robust.observed[i])} seen, "
        f"{number(robust.expected[i])} expected by the robust and "
        f"{number(ordinary.expected[i])} by the likelihood fit"
        for i in np.argsort(-off, kind="stable")[:4]
    ]
    alt = (
        f"Hanging rootogram of {outcome} in {count(len(off), 'bar')}, of which {outside.sum()} end "
        f"outside of the band where they should. Furthest off: {'; '.join(told)}."
    )
    caption = (
        "Bars of what was seen hang from what is expected. A bar that ends below the band was seen "
        "too often, one that ends above it too rarely."
    )
    # Names of levels become labels, so they too must be fit to be drawn.
    labels = tuple(map(_drawable, robust.labels))
    both = (replace(side, labels=labels) for side in (robust, ordinary))
    settings = {"outcome": _drawable(outcome)}
    return _picture("rootogram", *both, alt=alt, caption=caption, height=3.2, **settings)


def draw_calibration(posterior: Posterior, outcome: str) -> Picture | None:
    """Observed against predicted, in bins of rows; None where there is one bin."""
    robust, ordinary = calibration(posterior), calibration(posterior.twin)
    if len(robust.counts) < 2:
        return None
    family = posterior.model.family
    what = f"share of {outcome}" if family.needs_trials else f"mean {outcome}"
    if not family.counts:
        level = f" {family.levels[-1]}" if family.levels else " 1"
        what = f"probability of {outcome} ={level}"
    pairs = zip(robust.predicted, robust.observed, strict=True)
    told = [f"{number(predicted)} and {number(observed)}" for predicted, observed in pairs]
    alt = (
        f"Observed against predicted {what} in {count(len(told), 'bin')} of rows; on the diagonal "
        f"both are the same. By the robust fit, predicted and observed: {'; '.join(told)}."
    )
    caption = (
        "Rows in bins of similar prediction: points on the diagonal are as predicted. Robust: "
        f"{_lower(str(robust))} Likelihood: {_lower(str(ordinary))}"
    )
    if ordinary.counts.sum() - robust.counts.sum() > 0.5:
        caption += " The robust fit is beside the rows that it used, the likelihood fit beside all."
    settings = {"outcome": _drawable(what)}
    return _picture(
        "calibration", robust, ordinary, alt=alt, caption=caption, height=3.9, **settings
    )


def _lower(sentence: str) -> str:
    return sentence[:1].lower() + sentence[1:]


def _picture(
    kind: str, *shown: Any, alt: str, caption: str, height: float, **settings: Any
) -> Picture:
    from matplotlib import style
    from matplotlib.figure import Figure

    draw = getattr(import_module("tvdbayes.plots"), f"plot_{kind}")
    svg = StringIO()
    # A picture looks the same whatever style the user has set, and has the same bytes each time.
    looks = {"svg.fonttype": "none", "svg.hashsalt": "tvdbayes"}
    with style.context(["default", looks]), warnings.catch_warnings():
        # The reader's fonts are asked for letters that the measuring font does not have.
        warnings.filterwarnings("ignore", r"Glyph \d+", UserWarning)
        figure = Figure(figsize=(_WIDTH, height), layout="constrained")
        draw(*shown, ax=figure.add_subplot(), **settings)
        figure.savefig(svg, format="svg", transparent=True, metadata={"Date": None})
    source = "data:image/svg+xml;base64," + b64encode(svg.getvalue().encode()).decode()
    return Picture(source, round(96 * _WIDTH), round(96 * height), alt, caption)


def _drawable(text: str) -> str:
    return _FORBIDDEN.sub("\ufffd", text)
