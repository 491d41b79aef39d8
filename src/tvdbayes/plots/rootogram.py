"""Hanging rootogram: observed frequencies of outcomes against expected ones."""

import numpy as np
from matplotlib.axes import Axes

from tvdbayes._errors import DataError
from tvdbayes._typing import Array
from tvdbayes.plots._style import (
    CHANCE,
    INK,
    ORDINARY,
    ROBUST,
    Style,
    axes_for,
    label_axes,
    label_bars,
    legend_above,
)
from tvdbayes.results.checks import Rootogram

__all__ = ["plot_rootogram"]


def plot_rootogram(
    rootogram: Rootogram,
    ordinary: Rootogram | None = None,
    *,
    outcome: str = "outcome",
    ax: Axes | None = None,
) -> Axes:
    """Draw a hanging rootogram: bars of what was seen hang from the curve of what is expected.

    A bar that ends below zero was seen too often, one that ends above too rarely. The band around
    zero is where bars end if the model is right. Square roots make rare outcomes visible and their
    noise the same for all.

    Parameters
    ----------
    rootogram : Rootogram
        Of the robust fit.
    ordinary : Rootogram, optional
        Of the ordinary fit, with the same bars; its expected curve is added.
    outcome : str
        What the outcome is called.
    ax : matplotlib.axes.Axes, optional

    Returns
    -------
    matplotlib.axes.Axes

    Examples
    --------
    >>> import tvdbayes as tb
    >>> from tvdbayes.plots import plot_rootogram
    >>> from tvdbayes.results.checks import rootogram
    >>> cells = tb.Cells.from_counts([[1], [1], [1]], [0, 1, 3], [40, 30, 10])
    >>> fit = tb.posterior_bootstrap(tb.Model(tb.Poisson()), cells, n_draws=0)
    >>> ax = plot_rootogram(rootogram(fit), outcome="visits")
    >>> ax.get_ylabel()
    'square root of the number of rows'
    """
    if ordinary is not None and ordinary.labels != rootogram.labels:
        raise DataError(
            f"Both rootograms must have the same bars; got {len(rootogram.labels)} "
            f"({rootogram.labels[0]} ... {rootogram.labels[-1]}) and {len(ordinary.labels)} "
            f"({ordinary.labels[0]} ... {ordinary.labels[-1]}). Leave the ordinary one out."
        )
    ax = axes_for(ax)
    at = np.arange(len(rootogram.labels), dtype=float)
    seen, expected = np.sqrt(rootogram.observed), np.sqrt(rootogram.expected)
    ax.bar(at, -seen, 0.8, expected, color="0.82", edgecolor="0.55", linewidth=0.5, label="seen")
    ax.bar(
        at,
        np.sqrt(rootogram.high) - np.sqrt(rootogram.low),
        1.0,
        expected - np.sqrt(rootogram.high),
        color=CHANCE,
        alpha=0.45,
        label="bars should end here",
    )
    ax.axhline(0, color=INK, linewidth=0.8)
    _curve(ax, at, expected, ROBUST)
    if ordinary is not None:
        _curve(ax, at, np.sqrt(ordinary.expected), ORDINARY)
    # Bars would end the axes where they begin, and cut the markers there.
    ax.use_sticky_edges = False
    label_bars(ax, rootogram.labels)
    legend_above(ax)
    label_axes(ax, outcome, "square root of the number of rows")
    return ax


def _curve(ax: Axes, at: Array, height: Array, style: Style) -> None:
    ax.plot(
        at,
        height,
        linestyle=style.line,
        linewidth=1.2,
        marker=style.marker,
        markersize=3.5,
        color=style.colour,
        markerfacecolor=style.fill,
        label=f"expected: {style.label}",
    )
