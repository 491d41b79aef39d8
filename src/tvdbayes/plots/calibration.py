"""Predicted against observed frequencies, in bins of rows or in groups."""

import numpy as np
from matplotlib.axes import Axes

from tvdbayes.plots._style import (
    INK,
    ORDINARY,
    ROBUST,
    Style,
    axes_for,
    intervals,
    label_axes,
    label_lines,
    legend_above,
)
from tvdbayes.results.checks import ByGroup, Calibration

__all__ = ["plot_calibration", "plot_groups"]

_AREA = 55.0
"""Of the marker of the largest bin, in square points."""


def plot_calibration(
    calibration: Calibration,
    ordinary: Calibration | None = None,
    ax: Axes | None = None,
    *,
    outcome: str = "outcome",
) -> Axes:
    """Draw observed against predicted means or probabilities: on the diagonal, if calibrated.

    Parameters
    ----------
    calibration : Calibration
        Of the robust fit.
    ordinary : Calibration, optional
        Of the ordinary fit.
    ax : matplotlib.axes.Axes, optional
    outcome : str
        What is predicted, such as "visits" or "probability of yes".

    Returns
    -------
    matplotlib.axes.Axes

    Examples
    --------
    >>> import numpy as np
    >>> from tvdbayes.plots import plot_calibration
    >>> from tvdbayes.results.checks import Calibration
    >>> seen = np.array([0.2, 0.7])
    >>> bins = Calibration(seen, seen, seen - 0.1, seen + 0.1, np.array([40.0, 20.0]))
    >>> plot_calibration(bins, outcome="probability of yes").get_ylabel()
    'observed probability of yes'
    """
    ax = axes_for(ax, 4.6, 4.4)
    fits = [(calibration, ROBUST)] + ([] if ordinary is None else [(ordinary, ORDINARY)])
    for bins, style in fits:
        _bins(ax, bins, style)
    ax.axline((0, 0), slope=1, color=INK, linewidth=0.8, linestyle=":", label="as predicted")
    ends = np.concatenate([(b.predicted, b.observed, b.low, b.high) for b, _ in fits], axis=None)
    low, high = np.nanmin(ends), np.nanmax(ends)
    margin = 0.05 * (high - low) or 0.5
    limits = low - margin, high + margin
    ax.set(xlim=limits, ylim=limits)
    sizes = np.concatenate([bins.counts for bins, _ in fits])
    note = " (larger: more rows)" if sizes.max() > 1.2 * sizes.min() else ""
    legend_above(ax)
    label_axes(ax, f"predicted {outcome}{note}", f"observed {outcome}")
    return ax


def _bins(ax: Axes, bins: Calibration, style: Style) -> None:
    known = np.isfinite(bins.low) & np.isfinite(bins.high)
    intervals(ax, bins.predicted[known], bins.low[known], bins.high[known], style, upright=True)
    ax.scatter(
        bins.predicted,
        bins.observed,
        _AREA * bins.counts / bins.counts.max(),
        marker=style.marker,
        facecolors=style.fill,
        edgecolors=style.colour,
        linewidths=1.2,
        zorder=3,
        label=style.label,
    )


def plot_groups(groups: ByGroup, *, outcome: str = "outcome", ax: Axes | None = None) -> Axes:
    """Draw the mean outcome of each group beside the interval in which the model expects it.

    Parameters
    ----------
    groups : ByGroup
        What `tvdbayes.Fit.observed` gives.
    outcome : str
        What the outcome is called.
    ax : matplotlib.axes.Axes, optional

    Returns
    -------
    matplotlib.axes.Axes

    Examples
    --------
    >>> import numpy as np, tvdbayes as tb
    >>> from tvdbayes.plots import plot_groups
    >>> rng = np.random.default_rng(0)
    >>> age = rng.integers(2, 6, 200)
    >>> data = {"visits": rng.poisson(np.exp(0.3 * age)), "age": age}
    >>> fit = tb.fit("visits ~ age", data, n_draws=20)
    >>> ax = plot_groups(fit.observed("age"), outcome="visits")
    >>> [label.get_text() for label in ax.get_yticklabels()]
    ['2', '3', '4', '5']
    """
    ax = axes_for(ax, height=1.3 + 0.32 * len(groups.labels))
    at = np.arange(len(groups.labels), dtype=float)
    intervals(ax, at, groups.low, groups.high, ROBUST)
    ax.plot(
        groups.expected,
        at,
        "|",
        color=ROBUST.colour,
        markersize=10,
        markeredgewidth=1.6,
        label="expected: robust",
    )
    ax.plot(groups.observed, at, "D", color=INK, markersize=4.5, label="seen")
    label_lines(ax, groups.labels)
    legend_above(ax)
    label_axes(ax, f"mean {outcome}", "")
    return ax
