"""Pictures for the page: drawings inside it, each with a text that says the same in numbers.

They are narrow, so that their letters can still be read on a phone, and their letters are text in
the reader's own fonts, which know more scripts than the one that room is measured with.
"""

import re
import warnings
from base64 import b64encode
from dataclasses import dataclass, replace
from importlib import import_module
from io import StringIO
from typing import Any

import numpy as np

from tvdbayes.report._tables import count, listed, number, span
from tvdbayes.results.checks import calibration, rootogram
from tvdbayes.results.misfit import Misfit
from tvdbayes.sampling.posterior import Posterior
from tvdbayes.sampling.summary import Summary

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
    alt = f"Coefficients with 90% intervals, robust against ordinary: {listed(told, _TOLD)}."
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
        f"{number(ordinary.expected[i])} by the ordinary fit"
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
    """What was seen against what was predicted, in bins of rows; None where there is one bin."""
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
    caption = "Rows in bins of similar prediction: points on the diagonal are as predicted."
    if ordinary.counts.sum() - robust.counts.sum() > 0.5:
        caption += " The robust fit is beside the rows that it used, the ordinary one beside all."
    settings = {"outcome": _drawable(what)}
    return _picture(
        "calibration", robust, ordinary, alt=alt, caption=caption, height=3.9, **settings
    )


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
