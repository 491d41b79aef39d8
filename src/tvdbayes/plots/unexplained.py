"""What the model cannot explain: the share of the data beside that of chance, and single rows."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patheffects import withStroke
from numpy.typing import ArrayLike

from tvdbayes._errors import DataError
from tvdbayes._typing import Array, IntArray
from tvdbayes.plots._style import (
    CHANCE,
    FLAGGED,
    INK,
    PLAIN,
    ROBUST,
    SMALL,
    axes_for,
    dots,
    finished,
    intervals,
    label_lines,
    numbers,
    percent,
    points,
)
from tvdbayes.results.misfit import Misfit

_BARS = 20
"""Bars of the histogram of draws."""

_THINNEST = 0.002
"""Width of the bars together, where all draws are the same."""
_LABELS = 10
_TRIED = 100
"""Flagged rows that are named at most, and that are tried for it."""
_LONGEST = 20
"""Characters of a label that are shown."""
_SIDES = ((0, 1), (1, 0), (-1, 0), (0, -1))
_GAP = 5.0
"""Where a name may stand, and how far off its point."""


def plot_misfit(misfit: Misfit, ax: Axes | None = None) -> Axes:
    """Draw the posterior of the unexplained share, its noise floor, and its lower bound.

    Where a trimmed fit says how many rows are wrong, that estimate is drawn with its interval.

    With levels (`misfit.by`): mean and interval of all rows and of each level, over a grey bar that
    reaches as far as chance does in 19 of 20 cases.

    Parameters
    ----------
    misfit : Misfit
    ax : matplotlib.axes.Axes, optional

    Examples
    --------
    >>> import tvdbayes as tb
    >>> from tvdbayes.plots import plot_misfit
    >>> fit = tb.fit("visits ~ age", tb.example_data(wrong=0.1), n_draws=50)
    >>> plot_misfit(fit.misfit()).get_title(loc="right")
    'At least 4.5% of the rows do not come from the fitted model.'
    """
    if misfit.by:
        return _by_level(misfit, ax)
    ax = axes_for(ax)
    _histogram(ax, misfit.floor_draws, CHANCE, "by chance alone", "//")
    _histogram(ax, misfit.draws, ROBUST.colour, "of these data", "")
    ax.axvline(misfit.lower, color=INK, linestyle="--", label=f"at least: {misfit.lower:.1%}")
    if misfit.wrong_is_clear and misfit.wrong_draws is not None:
        wrong = misfit.wrong_draws
        tail = (1 - misfit.interval) / 2
        low, high = np.quantile(wrong, [tail, 1 - tail])
        ax.hlines(0.5, low, high, colors=FLAGGED, linewidth=1.6)
        label = f"wrong rows: about {wrong.mean():.1%}"
        ax.plot([wrong.mean()], [0.5], "D", color=FLAGGED, markersize=5, label=label)
    ax.set(yticks=[], ylim=(0, 1.05))
    return _finished(ax, misfit, "relative frequency")


def _histogram(ax: Axes, draws: Array, colour: str, label: str, hatch: str) -> None:
    """Bars of which the highest is 1, so that a narrow distribution does not flatten a wide one."""
    low, high = draws.min(), draws.max()
    middle, half = (low + high) / 2, max(high - low, _THINNEST) / 2
    counts, edges = np.histogram(draws, _BARS, (middle - half, middle + half))
    ax.stairs(
        counts / counts.max(),
        edges,
        fill=True,
        facecolor=(colour, 0.3),
        edgecolor=colour,
        linewidth=1.2,
        hatch=hatch,
        label=label,
    )


def _by_level(misfit: Misfit, ax: Axes | None) -> Axes:
    parts = {"all rows": misfit, **misfit.by}
    ax = axes_for(ax, height=1.6 + 0.34 * len(parts))
    at = np.arange(len(parts), dtype=float)

    def each(field: str) -> Array:
        return np.array([getattr(part, field) for part in parts.values()])

    ax.barh(at, each("floor_high"), 0.6, color=CHANCE, alpha=0.5, label="by chance up to")
    intervals(ax, at, each("low"), each("high"), ROBUST)
    dots(ax, each("mean"), at, ROBUST, "of these data")
    lower = each("lower")
    ax.plot(lower, at, "|", color=INK, markersize=11, markeredgewidth=1.6, label="at least")
    label_lines(ax, tuple(parts))
    return _finished(ax, misfit, "")


def _finished(ax: Axes, misfit: Misfit, ylabel: str) -> Axes:
    ax.set_xlim(left=0)
    percent(ax)
    title = "No more is unexplained than chance alone would leave."
    if misfit.lower > 0:
        title = f"At least {misfit.lower:.1%} of the rows do not come from the fitted model."
    return finished(ax, "share of the data the model cannot explain", ylabel, title)


def plot_rows(
    number: ArrayLike,
    score: ArrayLike,
    flag: ArrayLike,
    *,
    probability: ArrayLike | None = None,
    order: ArrayLike | None = None,
    ax: Axes | None = None,
    labels: Sequence[str] | None = None,
) -> Axes:
    """Draw the score of each row over its number; flagged rows stand out and the worst are named.

    Parameters
    ----------
    number : (n,)
        Row numbers.
    score : (n,)
        Share of each row's mass that the model cannot explain, in [0, 1].
    flag : (n,)
        Whether a row stands out by more than chance.
    probability : (n,), optional
        Share of draws in which most of the row is unexplained: larger markers have more.
    order : (k,), optional
        Positions of rows from most to least suspicious: those that are flagged are named in this
        order. All flagged rows by their score unless given.
    ax : matplotlib.axes.Axes, optional
    labels : sequence of str, length n, optional
        What rows are called; their numbers unless given. At most ten are shown, as there is room.

    Examples
    --------
    >>> from tvdbayes.plots import plot_rows
    >>> ax = plot_rows([0, 1, 2], [0.1, 0.0, 1.0], [False, False, True])
    >>> [text.get_text() for text in ax.texts]
    ['2']
    """
    at = numbers("number", number)
    n = len(at)
    height = numbers("score", score, n)
    flagged = numbers("flag", flag, n) > 0
    sure = np.full(n, 0.3) if probability is None else numbers("probability", probability, n)
    if labels is not None and len(labels) != n:
        raise DataError(f"labels must name each of the {n} rows; got {len(labels)}.")

    ax = axes_for(ax)
    for which, colour, marker, label in (
        (~flagged, CHANCE, "o", "others"),
        (flagged, FLAGGED, "D", "flagged"),
    ):
        size = 4 + 28 * np.clip(sure[which], 0, 1) if which.any() else 12.0
        shown = f"{label} ({which.sum()} rows)"
        looks = {"color": colour, "marker": marker, "linewidths": 0}
        points(ax, at[which], height[which], size, shown, **looks)
    ax.set_ylim(-0.05, 1.15)
    ax.set_yticks([0, 0.25, 0.5, 0.75, 1])
    ax.margins(x=0.04)
    finished(ax, "row", "unexplained share of the row")
    if order is None:
        # Of equal rows any are named, so that names are not crowded at one end.
        any_order = np.random.default_rng(0).random(n)
        positions: IntArray = np.lexsort((any_order, -sure, -height))
    else:
        positions = numbers("order", order).astype(np.intp)
    worst = positions[flagged[positions]]
    called = [f"{at[i]:.15g}" if labels is None else labels[i] for i in worst[:_TRIED]]
    short = [name if len(name) <= _LONGEST else f"{name[: _LONGEST - 1]}…" for name in called]
    _name(ax, at, height, worst, short)
    return ax


def _name(ax: Axes, at: Array, height: Array, flagged: IntArray, called: Sequence[str]) -> None:
    """Name some of the flagged rows, of which `called` are the first, beside their points.

    A name must lie inside the axes and hide neither another name nor a flagged point.
    """
    points = 72 / ax.figure.dpi
    room = np.array([ax.bbox.width, ax.bbox.height]) * points
    low, high = np.transpose([ax.get_xlim(), ax.get_ylim()])
    places = (np.stack([at, height], axis=-1)[flagged] - low) / (high - low) * room
    taken: list[tuple[Array, Array]] = []
    for row, place, name in zip(flagged, places, called, strict=False):
        size = np.array([0.64 * len(name) + 1, 1.2]) * SMALL
        for side in _SIDES:
            centre = place + side * (size / 2 + _GAP)
            ends = centre - size / 2, centre + size / 2
            outside = (ends[0] < 0).any() or (ends[1] > room).any()
            hides = ((places > ends[0]) & (places < ends[1])).all(1).any()
            meets = any((ends[0] < b).all() and (ends[1] > a).all() for a, b in taken)
            if not (outside or hides or meets):
                taken.append(ends)
                ax.annotate(
                    name,
                    (at[row], height[row]),
                    centre - place,
                    textcoords="offset points",
                    ha="center",
                    va="center",
                    fontsize=SMALL,
                    color=INK,
                    path_effects=[withStroke(linewidth=2, foreground="white")],
                    **PLAIN,
                )
                break
        if len(taken) == _LABELS:
            return
