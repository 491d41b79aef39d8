"""The unexplained share of the data, beside the share that sampling noise alone would leave."""

import numpy as np
from matplotlib.axes import Axes

from tvdbayes._typing import Array
from tvdbayes.plots._style import (
    CHANCE,
    INK,
    ROBUST,
    axes_for,
    dots,
    finished,
    intervals,
    label_lines,
    percent,
)
from tvdbayes.results.misfit import Misfit

__all__ = ["plot_misfit"]

_BARS = 20
"""Bars of the histogram of draws."""

_THINNEST = 0.002
"""Width of the bars together, where all draws are the same."""


def plot_misfit(misfit: Misfit, ax: Axes | None = None) -> Axes:
    """Draw the posterior of the unexplained share, its noise floor, and its lower bound.

    With levels (`misfit.by`): mean and interval of all rows and of each level, over a grey bar that
    reaches as far as chance does in 19 of 20 cases.

    Parameters
    ----------
    misfit : Misfit
    ax : matplotlib.axes.Axes, optional

    Examples
    --------
    >>> import numpy as np
    >>> from tvdbayes.plots import plot_misfit
    >>> from tvdbayes.results.misfit import Misfit
    >>> rng = np.random.default_rng(0)
    >>> ax = plot_misfit(Misfit(rng.normal(0.15, 0.01, 500), rng.normal(0.05, 0.01, 200)))
    >>> ax.get_title(loc="right")
    'At least 9.0% of the rows do not come from the fitted model.'
    """
    if misfit.by:
        return _by_level(misfit, ax)
    ax = axes_for(ax)
    _histogram(ax, misfit.floor_draws, CHANCE, "by chance alone", "//")
    _histogram(ax, misfit.draws, ROBUST.colour, "of these data", "")
    ax.axvline(misfit.lower, color=INK, linestyle="--", label=f"at least: {misfit.lower:.1%}")
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
