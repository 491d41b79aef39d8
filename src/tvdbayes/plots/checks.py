"""Observed against expected outcomes: calibration, groups, rootogram, PIT, residuals."""

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import ArrayLike
from scipy.special import betaincinv, ndtri

from tvdbayes._errors import DataError
from tvdbayes._typing import Array
from tvdbayes.plots._style import (
    CHANCE,
    INK,
    ORDINARY,
    ROBUST,
    axes_for,
    finished,
    intervals,
    label_bars,
    label_lines,
    numbers,
)
from tvdbayes.results.checks import ByGroup, Calibration, PitHistogram, Rootogram

_AREA = 55.0
"""Of the marker of the largest bin, in square points."""

_MOST = 2000
"""Points of a quantile-quantile picture; of more rows the middle is thinned."""


def plot_calibration(
    calibration: Calibration,
    ordinary: Calibration | None = None,
    ax: Axes | None = None,
    *,
    outcome: str = "outcome",
) -> Axes:
    """Draw observed against predicted means or probabilities: on the diagonal, if calibrated.

    The axes end where most bins do, so that a few wild predictions or wide intervals cannot shrink
    the others to a dot; how many points lie beyond is written below.

    Parameters
    ----------
    calibration : Calibration
        Of the robust fit.
    ordinary : Calibration, optional
        Of the likelihood fit.
    ax : matplotlib.axes.Axes, optional
    outcome : str
        What is predicted, such as "visits" or "probability of yes".

    Examples
    --------
    >>> import tvdbayes as tb
    >>> from tvdbayes.plots import plot_calibration
    >>> fit = tb.fit("ill ~ age", tb.example_data(), family="bernoulli", n_draws=20)
    >>> plot_calibration(fit.calibration(), outcome="probability of yes").get_ylabel()
    'observed probability of yes'
    """
    ax = axes_for(ax, 4.6, 4.4)
    fits = [(calibration, ROBUST)] + ([] if ordinary is None else [(ordinary, ORDINARY)])
    for bins, style in fits:
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
    ax.axline((0, 0), slope=1, color=INK, linewidth=0.8, linestyle=":", label="as predicted")
    limits = _limits([bins for bins, _ in fits])
    ax.set(xlim=limits, ylim=limits)
    sizes = np.concatenate([bins.counts for bins, _ in fits])
    notes = ["larger: more rows"] if sizes.max() > 1.2 * sizes.min() else []
    places = np.concatenate([np.stack([b.predicted, b.observed]) for b, _ in fits], axis=1)
    beyond = int(((places < limits[0]) | (places > limits[1])).any(0).sum())
    notes += [f"{beyond} more beyond the axes"] if beyond else []
    note = f" ({'; '.join(notes)})" if notes else ""
    return finished(ax, f"predicted {outcome}{note}", f"observed {outcome}")


def _limits(fits: list[Calibration]) -> tuple[float, float]:
    """Ends of both axes: all points up to twice the range of what was seen from it, and intervals
    up to a quarter of the range of these points.
    """
    seen = fits[0].observed
    points = _near(seen, 2.0, [part for b in fits for part in (b.predicted, b.observed)])
    ends = _near(points, 0.25, [part for b in fits for part in (b.low, b.high)])
    low, high = min(points.min(), ends.min()), max(points.max(), ends.max())
    margin = 0.05 * (high - low) or 0.5
    return float(low - margin), float(high + margin)


def _near(centre: Array, times: float, parts: list[Array]) -> Array:
    """Finite values of all parts, moved to within so many ranges of the centre's own range."""
    values = np.concatenate(parts)
    reach = times * (np.ptp(centre) or 1.0)
    inside = np.clip(values[np.isfinite(values)], centre.min() - reach, centre.max() + reach)
    return np.concatenate([centre, inside])


def plot_groups(groups: ByGroup, *, outcome: str = "outcome", ax: Axes | None = None) -> Axes:
    """Draw the mean outcome of each group beside the interval in which the model expects it.

    Parameters
    ----------
    groups : ByGroup
        What `tvdbayes.Fit.observed` gives.
    outcome : str
        What the outcome is called.
    ax : matplotlib.axes.Axes, optional

    Examples
    --------
    >>> import tvdbayes as tb
    >>> from tvdbayes.plots import plot_groups
    >>> fit = tb.fit("visits ~ age", tb.example_data(), n_draws=20)
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
    return finished(ax, f"mean {outcome}", "")


def plot_rootogram(
    rootogram: Rootogram,
    ordinary: Rootogram | None = None,
    *,
    outcome: str = "outcome",
    ax: Axes | None = None,
) -> Axes:
    """Draw a hanging rootogram: bars of observed counts hang from the curve of expected ones.

    A bar that ends below zero was seen too often, one that ends above too rarely. The band around
    zero is where bars end if the model is right. Square roots make rare outcomes visible and their
    noise the same for all.

    Parameters
    ----------
    rootogram : Rootogram
        Of the robust fit.
    ordinary : Rootogram, optional
        Of the likelihood fit, with the same bars; its expected curve is added.
    outcome : str
        What the outcome is called.
    ax : matplotlib.axes.Axes, optional

    Examples
    --------
    >>> import tvdbayes as tb
    >>> from tvdbayes.plots import plot_rootogram
    >>> fit = tb.fit("visits ~ age", tb.example_data(), n_draws=20)
    >>> plot_rootogram(fit.rootogram(), outcome="visits").get_ylabel()
    'square root of the number of rows'
    """
    if ordinary is not None and ordinary.labels != rootogram.labels:
        raise DataError(
            f"Both rootograms must have the same bars; got {len(rootogram.labels)} "
            f"({rootogram.labels[0]} ... {rootogram.labels[-1]}) and {len(ordinary.labels)} "
            f"({ordinary.labels[0]} ... {ordinary.labels[-1]}). Leave the second one out."
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
    curves = [(expected, ROBUST)]
    curves += [] if ordinary is None else [(np.sqrt(ordinary.expected), ORDINARY)]
    for height, style in curves:
        label = f"expected: {style.label}"
        ax.plot(at, height, style.line, linewidth=1.2, markersize=3.5, label=label, **style.looks)
    # Bars would end the axes where they begin, and cut the markers there.
    ax.use_sticky_edges = False
    label_bars(ax, rootogram.labels)
    return finished(ax, outcome, "square root of the number of rows")


def plot_pit(histogram: PitHistogram, ax: Axes | None = None) -> Axes:
    """Draw the histogram of the probability integral transform, with its range if all is well.

    A U-shape says that outcomes vary more than the model, a hump that they vary less, a slope that
    the model predicts too low or too high.

    Parameters
    ----------
    histogram : PitHistogram
    ax : matplotlib.axes.Axes, optional

    Examples
    --------
    >>> import tvdbayes as tb
    >>> from tvdbayes.plots import plot_pit
    >>> fit = tb.fit("visits ~ age", tb.example_data(), n_draws=20)
    >>> plot_pit(fit.pit()).get_ylabel()
    'density of rows'
    """
    ax = axes_for(ax)
    ax.bar(
        histogram.edges[:-1],
        histogram.density,
        np.diff(histogram.edges),
        align="edge",
        color=ROBUST.colour,
        alpha=0.35,
        edgecolor=ROBUST.colour,
        label="rows",
    )
    ax.axhspan(
        histogram.low, histogram.high, color=CHANCE, alpha=0.4, label="range if the model is right"
    )
    ax.axhline(1, color=INK, linewidth=0.8, linestyle="--")
    ax.set_xlim(0, 1)
    ax.set_ylim(0, 1.1 * max(histogram.density.max(), histogram.high))
    return finished(ax, "predictive probability up to the outcome", "density of rows")


def plot_residuals(residuals: ArrayLike, ax: Axes | None = None) -> Axes:
    """Draw quantile residuals against normal quantiles; they follow the line if the model is right.

    The band holds each point with probability 90 %, one by one: of many points some are outside.

    Parameters
    ----------
    residuals : (n,)
        See `quantile_residuals`; nan, for rows of weight zero, is left out.
    ax : matplotlib.axes.Axes, optional

    Examples
    --------
    >>> from tvdbayes.plots import plot_residuals
    >>> plot_residuals([-1.0, 0.0, 1.0]).lines[0].get_ydata()
    array([-1.,  0.,  1.])
    """
    given = np.asarray(residuals)
    known = given[~np.isnan(given)] if given.dtype.kind == "f" else given
    ordered = np.sort(numbers("residuals", known))
    n = len(ordered)
    if n < 2:
        raise DataError(f"A picture of residuals needs at least 2 of them; got {n}.")
    rank = np.arange(1, n + 1)
    if n > _MOST:
        # Evenly spaced in the normal quantile, which keeps the tails.
        normal = np.linspace(ndtri(0.5 / n), -ndtri(0.5 / n), _MOST)
        rank = np.unique(np.clip(np.searchsorted(ndtri((rank - 0.5) / n), normal), 0, n - 1)) + 1
    at = ndtri((rank - 0.5) / n)
    low, high = (ndtri(betaincinv(rank, n + 1 - rank, tail)) for tail in (0.05, 0.95))
    ax = axes_for(ax, 4.6, 4.4)
    ax.fill_between(
        at, low, high, color=CHANCE, alpha=0.4, linewidth=0, label="range if the model is right"
    )
    ax.plot(at, ordered[rank - 1], "o", color=ROBUST.colour, markersize=2.5, label="rows")
    ax.axline((0, 0), slope=1, color=INK, linewidth=0.8, linestyle="--")
    return finished(ax, "normal quantile", "quantile residual")
