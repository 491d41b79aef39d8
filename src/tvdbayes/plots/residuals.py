"""Probability integral transforms and quantile residuals: uniform, or normal, if the model
holds.
"""

import numpy as np
from matplotlib.axes import Axes
from scipy.special import betaincinv, ndtri

from tvdbayes._errors import DataError
from tvdbayes._typing import ArrayLike
from tvdbayes.plots._style import CHANCE, INK, ROBUST, axes_for, label_axes, legend_above, numbers
from tvdbayes.results.checks import PitHistogram

__all__ = ["plot_pit", "plot_residuals"]

_MOST = 2000
"""Points of a quantile-quantile picture; of more rows the middle is thinned."""


def plot_pit(histogram: PitHistogram, ax: Axes | None = None) -> Axes:
    """Draw the histogram of the probability integral transform, with its range if all is well.

    A U-shape says that outcomes vary more than the model, a hump that they vary less, a slope that
    the model predicts too low or too high.

    Parameters
    ----------
    histogram : PitHistogram
    ax : matplotlib.axes.Axes, optional

    Returns
    -------
    matplotlib.axes.Axes

    Examples
    --------
    >>> import numpy as np
    >>> from tvdbayes.plots import plot_pit
    >>> from tvdbayes.results.checks import PitHistogram
    >>> ax = plot_pit(PitHistogram(np.linspace(0, 1, 3), np.array([1.1, 0.9]), 0.8, 1.2))
    >>> ax.patches[0].get_height()
    np.float64(1.1)
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
    legend_above(ax)
    label_axes(ax, "predictive probability up to the outcome", "density of rows")
    return ax


def plot_residuals(residuals: ArrayLike, ax: Axes | None = None) -> Axes:
    """Draw quantile residuals against normal quantiles; they follow the line if the model is right.

    The band holds each point with probability 90 %, one by one: of many points some are outside.

    Parameters
    ----------
    residuals : (n,)
        See `quantile_residuals`; nan, for rows of weight zero, is left out.
    ax : matplotlib.axes.Axes, optional

    Returns
    -------
    matplotlib.axes.Axes

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
        # Evenly in the normal quantile, so that the tails stay whole.
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
    legend_above(ax)
    label_axes(ax, "normal quantile", "quantile residual")
    return ax
