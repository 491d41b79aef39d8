"""Pictures for the page: drawings inside it, each with a text that says the same in numbers.

They are narrow, so that their letters can still be read on a phone, and their letters are text in
the reader's own fonts, which know more scripts than the one that room is measured with.
"""

import re
import warnings
from base64 import b64encode
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from io import StringIO
from typing import Any

import numpy as np

from tvdbayes._typing import Array
from tvdbayes.report._words import count, listed, number, span
from tvdbayes.results.checks import Calibration, Rootogram
from tvdbayes.results.misfit import Misfit
from tvdbayes.sampling.summary import Summary

__all__ = [
    "Picture",
    "draw_calibration",
    "draw_coefficients",
    "draw_misfit",
    "draw_rootogram",
]

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


def draw_coefficients(
    names: Sequence[str], draws: Array, kld_draws: Array, table: Summary
) -> Picture:
    """Both fits, one above the other; intercepts are left out where there is anything else."""
    from tvdbayes.plots import plot_coefficients

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
    return _picture(
        f"Coefficients with 90% intervals, robust against ordinary: {listed(told, _TOLD)}.",
        caption,
        1.2 + 0.38 * len(kept),
        lambda ax: plot_coefficients(kept, draws[:, shown], kld_draws[:, shown], ax=ax),
    )


def draw_misfit(misfit: Misfit) -> Picture:
    """The unexplained share and what chance would leave."""
    from tvdbayes.plots import plot_misfit

    beyond = "beyond" if misfit.lower > 0 else "not beyond"
    return _picture(
        f"Two histograms. The unexplained share of these data is about {misfit.mean:.1%} "
        f"({misfit.low:.1%} to {misfit.high:.1%}), {beyond} what chance alone would leave, about "
        f"{misfit.floor:.1%} and up to {misfit.floor_high:.1%}. A dashed line marks the share of "
        f"rows that at least do not come from the fitted model, {misfit.lower:.1%}.",
        "The unexplained share of these data beside what chance alone would leave: the share that "
        "data of the model's own making leave unexplained.",
        3.0,
        lambda ax: plot_misfit(misfit, ax),
    )


def draw_rootogram(robust: Rootogram, ordinary: Rootogram, outcome: str) -> Picture:
    """How often each outcome was seen, hanging from how often both fits expect it."""
    from tvdbayes.plots import plot_rootogram

    outside = (robust.observed < robust.low) | (robust.observed > robust.high)
    off = np.abs(np.sqrt(robust.observed) - np.sqrt(robust.expected))
    told = [
        f"{outcome} {robust.labels[i]}, {number(robust.observed[i])} seen, "
        f"{number(robust.expected[i])} expected by the robust and "
        f"{number(ordinary.expected[i])} by the ordinary fit"
        for i in np.argsort(-off, kind="stable")[:4]
    ]
    # Names of levels become labels, so they too must be fit to be drawn.
    robust, ordinary = (_with_labels(r) for r in (robust, ordinary))
    return _picture(
        f"Hanging rootogram of {outcome} in {count(len(off), 'bar')}, of which {outside.sum()} end "
        f"outside of the band where they should. Furthest off: {'; '.join(told)}.",
        "Bars of what was seen hang from what is expected. A bar that ends below the band was seen "
        "too often, one that ends above it too rarely.",
        3.2,
        lambda ax: plot_rootogram(robust, ordinary, outcome=_drawable(outcome), ax=ax),
    )


def draw_calibration(
    robust: Calibration, ordinary: Calibration, outcome: str, *, dropped: bool
) -> Picture:
    """What was seen against what was predicted, in bins of rows; whether some were dropped."""
    from tvdbayes.plots import plot_calibration

    pairs = zip(robust.predicted, robust.observed, strict=True)
    told = [f"{number(predicted)} and {number(observed)}" for predicted, observed in pairs]
    return _picture(
        f"Observed against predicted {outcome} in {count(len(told), 'bin')} of rows; on the "
        "diagonal both are the same. By the robust fit, predicted and observed: "
        f"{'; '.join(told)}.",
        "Rows in bins of similar prediction: points on the diagonal are as predicted."
        + (
            " The robust fit is beside the rows that it used, the ordinary one beside all."
            * dropped
        ),
        3.9,
        lambda ax: plot_calibration(robust, ordinary, ax, outcome=_drawable(outcome)),
    )


def _picture(alt: str, caption: str, height: float, draw: Callable[[Any], object]) -> Picture:
    from matplotlib import style
    from matplotlib.figure import Figure

    svg = StringIO()
    # A picture looks the same whatever style the user has set, and has the same bytes each time.
    looks = {"svg.fonttype": "none", "svg.hashsalt": "tvdbayes"}
    with style.context(["default", looks]), warnings.catch_warnings():
        # The reader's fonts are asked for letters that the measuring font does not have.
        warnings.filterwarnings("ignore", r"Glyph \d+", UserWarning)
        figure = Figure(figsize=(_WIDTH, height), layout="constrained")
        draw(figure.add_subplot())
        figure.savefig(svg, format="svg", transparent=True, metadata={"Date": None})
    source = "data:image/svg+xml;base64," + b64encode(svg.getvalue().encode()).decode()
    return Picture(source, round(96 * _WIDTH), round(96 * height), alt, caption)


def _with_labels(rootogram: Rootogram) -> Rootogram:
    return replace(rootogram, labels=tuple(map(_drawable, rootogram.labels)))


def _drawable(text: str) -> str:
    return _FORBIDDEN.sub("\ufffd", text)
