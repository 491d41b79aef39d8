"""What all plots share: the styles of both fits, text, axes, legends and labels that fit.

The robust and the likelihood fit differ in colour (the palette of Okabe and Ito, safe for
colour-blind readers), in marker and in line, so that a black-and-white print still shows which is
which.
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from textwrap import wrap
from typing import Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator
from numpy.typing import ArrayLike

from tvdbayes._errors import DataError, listing
from tvdbayes._typing import Array

CHANCE = "0.6"
"""Grey: what sampling noise alone would give, and rows without a flag."""

FLAGGED = "#AA3377"
"""Purple, which is neither fit, and safe beside both."""
INK = "0.15"

SMALL, TEXT = 8, 9
"""Font sizes in points; the first is the smallest in use."""

PLAIN: dict[str, Any] = {"parse_math": False, "usetex": False}
"""For every text that may come from data: a column may be called ``$x_1$``."""

_ABOVE: dict[str, Any] = {"loc": "lower right", "bbox_to_anchor": (1, 1), "borderaxespad": 0.2}
_OUTSIDE: dict[str, Any] = {"loc": "outside upper right"}
_LEGEND: dict[str, Any] = {
    "frameon": False,
    "fontsize": SMALL,
    "borderpad": 0.2,
    "columnspacing": 1.0,
    "handlelength": 1.6,
    "handletextpad": 0.5,
}

_CHARACTER, _DIGIT = 0.56, 0.64
"""Widths of a character and of a digit, in its size; a little more than most have."""
_LINE = 15.0
"""Height of a line of text with its spacing, in points."""
_MARGIN = 30.0
"""What the last name of the x axis, and the layout, may take at the right, in points."""
_MANY = 5000
"""Points from which they are stored as an image in files of vectors."""
_MOST_LINES, _UPRIGHT = 3, 24
"""Lines of the name of a bar, and characters of one that stands upright."""


@dataclass(frozen=True)
class Style:
    """How one of the two fits is drawn, and what it is called."""

    label: str
    colour: str
    marker: str
    fill: str
    line: str

    @property
    def looks(self) -> dict[str, Any]:
        """Its colours and marker, as matplotlib calls them."""
        return {
            "color": self.colour,
            "marker": self.marker,
            "markerfacecolor": self.fill,
        }


ROBUST = Style("robust", "#0072B2", "o", "#0072B2", "-")
ORDINARY = Style("likelihood", "#D55E00", "s", "white", "--")


def new_figure(width: float, height: float) -> Figure:
    """A figure of this size in inches that is in no window and no global list.

    In a notebook it is one of pyplot's, which shows it below the cell.
    """
    if "ipykernel" in sys.modules:
        from matplotlib import pyplot

        return pyplot.figure(figsize=(width, height), layout="constrained")
    return Figure(figsize=(width, height), layout="constrained")


def axes_for(ax: Axes | None, width: float = 6.0, height: float = 3.8) -> Axes:
    """The axes that were given, or those of a new figure, without the frame's top and right."""
    found = new_figure(width, height).add_subplot() if ax is None else ax
    found.spines[["top", "right"]].set_visible(False)
    found.tick_params(labelsize=SMALL)
    return found


def wrapped(text: str, width: int) -> str:
    """Text in lines of at most so many characters; words longer than that are broken."""
    return "\n".join(wrap(text, width)) or text


def label_axes(ax: Axes, xlabel: str, ylabel: str) -> None:
    """Name both axes, in lines that fit them.

    Below the axes what is too long for them reaches to the left, under the names that are there.
    """
    width, height = _room(ax)
    fits = len(xlabel) <= _fitting(width, TEXT)
    ax.set_xlabel(_broad(ax, xlabel), fontsize=TEXT, loc="center" if fits else "right", **PLAIN)
    ax.set_ylabel(wrapped(ylabel, _fitting(height, TEXT)), fontsize=TEXT, **PLAIN)


def label_lines(ax: Axes, names: Sequence[str]) -> None:
    """Name horizontal lines at 0, 1, ..., the first on top."""
    width, height = _room(ax)
    # Names take half of the width, or more where so many lines of text would not fit; a title, a
    # legend and the name of the x axis take four.
    lines = max(1, int((height - 4 * _LINE) / len(names) / (1.25 * SMALL)))
    half, most = _fitting(0.5 * width, SMALL), _fitting(0.75 * width, SMALL)
    size = next(s for s in range(half, most + 1) if s == most or _lines(names, s) <= lines)
    labels = [wrapped(name, size) for name in names]
    ax.set_yticks(range(len(names)), labels, fontsize=SMALL, **PLAIN)
    ax.set_ylim(len(names) - 0.4, -0.6)
    ax.tick_params(axis="y", length=0)


def label_bars(ax: Axes, names: Sequence[str]) -> None:
    """Name bars at 0, 1, ...: where there is no room, some of the numbers, or words upright."""
    last, unit = len(names) - 1, _room(ax)[0] / (len(names) + 0.4)
    shown, labels, rotation = list(range(last + 1)), list(names), 0
    widths = [(len(name) + 2) * SMALL * _DIGIT for name in names]
    if max(widths) > unit and all(name.removeprefix("-")[:1].isdigit() for name in names):
        widest = max(widths[:-1], default=0.0)
        steps = (size * 10**power for power in range(9) for size in (1, 2, 5))
        step = next(step for step in steps if step * unit >= widest)
        room = (widest + widths[-1]) / 2
        shown = [*(i for i in range(0, last, step) if (last - i) * unit >= room), last]
        labels = [names[i] for i in shown]
    elif max(widths) > unit:
        size = max(1, int(unit / (SMALL * _DIGIT)) - 2)
        whole = size >= max(len(word) for name in names for word in name.split() or [name])
        rotation = 0 if whole and _lines(names, size) <= _MOST_LINES else 90
        labels = [wrapped(name, size if rotation == 0 else _UPRIGHT) for name in names]
    ax.set_xticks(shown, labels, fontsize=SMALL, rotation=rotation, **PLAIN)
    ax.set_xlim(-0.7, last + 0.7)


def percent(ax: Axes) -> None:
    """Write the numbers of the x axis as percentages, as many as there is room for."""
    ax.xaxis.set_major_locator(MaxNLocator(max(2, int(_room(ax)[0] / 36)), steps=[1, 2, 5, 10]))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda share, _: f"{100 * share:.4g}%"))


def legend_above(
    ax: Axes, handles: Sequence[Artist] | None = None, *, whole_figure: bool = False
) -> None:
    """Put the legend above the axes, where it hides no data, in as many columns as there is room.

    Without handles it lists what has a label. It ends where the axes end: what does not fit above
    them then reaches over the names on the left, where nothing is, and not out of the figure.
    """
    shown = list(handles) if handles is not None else ax.get_legend_handles_labels()[0]
    owner, place = (ax.figure, _OUTSIDE) if whole_figure else (ax, _ABOVE)
    room = (ax.figure.bbox.width if whole_figure else _cell(ax)[0]) - _MARGIN * ax.figure.dpi / 72
    for columns in range(len(shown), 0, -1):
        legend = owner.legend(handles=shown, ncols=columns, **place, **_LEGEND)
        if columns == 1 or legend.get_window_extent().width <= room:
            return
        legend.remove()


def title_above(ax: Axes, title: str) -> None:
    """Set a title, over the legend if there is one."""
    legend = ax.get_legend()
    points = 72 / ax.figure.dpi
    pad = 4.0 if legend is None else legend.get_window_extent().height * points + 6
    ax.set_title(_broad(ax, title), fontsize=TEXT, loc="right", pad=pad, **PLAIN)


def finished(ax: Axes, xlabel: str, ylabel: str, title: str = "") -> Axes:
    """Add a legend, axis labels and a title, in this order: each is placed by those before."""
    legend_above(ax)
    label_axes(ax, xlabel, ylabel)
    if title:
        title_above(ax, title)
    return ax


def intervals(
    ax: Axes, at: Array, low: Array, high: Array, style: Style, *, upright: bool = False
) -> None:
    """Draw an interval at each place, lying or standing."""
    draw = ax.vlines if upright else ax.hlines
    draw(at, low, high, colors=style.colour, linewidth=1.6)


def dots(ax: Axes, x: Array, y: Array, style: Style, label: str | None = None) -> None:
    """Draw a point in each place, and name them for the legend, by the fit unless given."""
    label = style.label if label is None else label
    ax.plot(x, y, linestyle="none", markersize=5, label=label, **style.looks)


def points(
    ax: Axes, x: Array, y: Array, size: float | Array, label: str | None, **looks: Any
) -> None:
    """Draw many points."""
    ax.scatter(x, y, size, label=label, rasterized=len(x) > _MANY, **looks)


def numbers(name: str, values: ArrayLike, length: int | None = None) -> Array:
    """Finite numbers (n,), or an error that names those that are not."""
    found = np.asarray(values)
    if found.ndim != 1 or found.dtype.kind not in "biuf" or not found.size:
        raise DataError(
            f"{name} must be a list of numbers; got {found.dtype} of shape {found.shape}."
        )
    if length is not None and len(found) != length:
        raise DataError(f"{name} must have {length} numbers, like the others; got {len(found)}.")
    found = found.astype(float)
    if not (finite := np.isfinite(found)).all():
        raise DataError(f"{name} must be finite; {listing(~finite, found, 'place')}. Leave it out.")
    return found


def _cell(ax: Axes) -> tuple[float, float]:
    """Width and height, in pixels, of the part of the figure that the layout gives to the axes."""
    figure, spec = ax.figure, ax.get_subplotspec()
    if spec is None or figure.get_layout_engine() is None:
        return ax.bbox.width, ax.bbox.height
    grid = spec.get_gridspec()
    return (
        figure.bbox.width * len(spec.colspan) / grid.ncols,
        figure.bbox.height * len(spec.rowspan) / grid.nrows,
    )


def _room(ax: Axes) -> tuple[float, float]:
    """Width and height of the axes, in points, once labels and titles have their place.

    The names of the axes themselves come last, and take about a line.
    """
    width, height = _cell(ax)
    around = ax.get_tightbbox(for_layout_only=True)
    if around is not None and ax.figure.get_layout_engine() is not None:
        width -= around.width - ax.bbox.width
        height -= around.height - ax.bbox.height
    points = 72 / ax.figure.dpi
    return max(1.0, width * points - _LINE), max(1.0, height * points - _LINE)


def _broad(ax: Axes, text: str) -> str:
    """Text in lines that are as long as all that belongs to the axes is wide."""
    return wrapped(text, _fitting(_cell(ax)[0] * 72 / ax.figure.dpi - _MARGIN, TEXT))


def _fitting(points: float, size: float) -> int:
    """How many characters fit."""
    return max(12, int(points / (size * _CHARACTER)))


def _lines(names: Sequence[str], size: int) -> int:
    """Lines of the longest name, in lines of this size."""
    return max(wrapped(name, size).count("\n") + 1 for name in names)
