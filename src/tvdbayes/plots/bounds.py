"""Guarantees beside observed errors, parameter sets, and sample sizes."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter
from numpy.typing import ArrayLike

from tvdbayes._errors import DataError
from tvdbayes._typing import Array, IntArray
from tvdbayes.bounds import ParameterSet
from tvdbayes.plan import Power, SampleSize
from tvdbayes.plots._style import (
    CHANCE,
    FLAGGED,
    INK,
    ORDINARY,
    ROBUST,
    axes_for,
    finished,
    numbers,
)

_STYLES = (
    (ROBUST.colour, "-"),
    (ORDINARY.colour, "--"),
    (FLAGGED, "-."),
    (INK, ":"),
    (CHANCE, "-"),
)


def plot_bound(
    x: ArrayLike,
    bounds: Mapping[str, ArrayLike],
    happened: Mapping[str, ArrayLike] | None = None,
    *,
    xlabel: str,
    ylabel: str,
    title: str = "",
    log: bool = True,
    ax: Axes | None = None,
) -> Axes:
    """Draw guarantees as lines and simulated distances as dots.

    Parameters
    ----------
    x : (S,)
        Numbers of rows, shares, bandwidths.
    bounds : mapping of str to (S,)
        A line for each name.
    happened : mapping of str to (S,), optional
        Dots for each name.
    xlabel, ylabel, title : str
    log : bool
        Whether x is drawn on a logarithmic scale.
    ax : matplotlib.axes.Axes, optional

    Examples
    --------
    >>> from tvdbayes.bounds import tvd_radius
    >>> from tvdbayes.plots.bounds import plot_bound
    >>> n = [100, 1000, 10000]
    >>> radii = {"guaranteed": [tvd_radius(k, n_cells=10).radius for k in n]}
    >>> ax = plot_bound(n, radii, xlabel="rows", ylabel="distance", title="It falls.")
    >>> ax.get_xscale(), ax.get_title(loc="right")
    ('log', 'It falls.')
    """
    at = numbers("x", x)
    if len(bounds) > len(_STYLES):
        raise DataError(f"plot_bound draws up to {len(_STYLES)} lines; got {len(bounds)}.")
    ax = axes_for(ax)
    if log:
        ax.set_xscale("log")
        ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
    for (name, values), (colour, line) in zip(bounds.items(), _STYLES, strict=False):
        ax.plot(at, numbers(name, values, len(at)), line, color=colour, linewidth=1.6, label=name)
    for (name, values), marker in zip((happened or {}).items(), "osD", strict=False):
        seen = numbers(name, values, len(at))
        ax.plot(at, seen, marker, color=INK, markersize=4, markerfacecolor="white", label=name)
    return finished(ax, xlabel, ylabel, title)


def plot_parameter_set(found: ParameterSet, ax: Axes | None = None) -> Axes:
    """Draw which values of one or two parameters cannot be excluded.

    One parameter: its distance from the data, and the largest that wrong rows and chance explain;
    the set is where the first is below the second. Two: the values that are left.

    Parameters
    ----------
    found : ParameterSet
        Of one or two parameters.
    ax : matplotlib.axes.Axes, optional

    Examples
    --------
    >>> import tvdbayes as tb
    >>> from tvdbayes.plots import plot_parameter_set
    >>> cells = tb.Cells.from_counts([[1], [1], [1]], [0, 1, 3], [40, 30, 10])
    >>> rates = [[-1.0], [-0.5], [0.0], [0.5]]
    >>> found = tb.bounds.parameter_set(tb.Model(tb.Poisson()), cells, 0.1, theta=rates)
    >>> plot_parameter_set(found).get_title(loc="right")
    'If at most 10% of the rows are wrong.'
    """
    d = len(found.names)
    if d > 2:
        raise DataError(f"A set of one or two parameters can be drawn; this one has {d}.")
    ax = axes_for(ax)
    if d == 1:
        order = np.argsort(found.values[:, 0])
        x, inside = found.values[order, 0], found.inside[order]
        limit = found.limit[order]
        ax.plot(x, found.distance[order], color=ROBUST.colour, label="distance from the data")
        ax.plot(x, limit, "--", color=INK, label="explained by wrong rows and chance")
        ax.fill_between(
            x, 0, limit, where=inside, color=ROBUST.colour, alpha=0.2, linewidth=0, label="the set"
        )
        ax.set_ylim(bottom=0)
        ylabel = "share of the data"
    else:
        x, y = found.values.T
        out = ~found.inside
        ax.plot(x[out], y[out], ".", color=CHANCE, markersize=2, label="excluded")
        ax.plot(*found.set.T, "o", color=ROBUST.colour, markersize=4, label="the set")
        ylabel = found.names[1]
    title = f"If at most {found.share:.0%} of the rows are wrong."
    return finished(ax, found.names[0], ylabel, title)


def plot_sample_size(found: SampleSize, ax: Axes | None = None) -> Axes:
    """Draw the width of an interval against the number of rows, with its Monte-Carlo error.

    Parameters
    ----------
    found : SampleSize
    ax : matplotlib.axes.Axes, optional

    Examples
    --------
    >>> import tvdbayes as tb
    >>> from tvdbayes.plots import plot_sample_size
    >>> options = {"width": 0.15, "rows": [200, 800], "n_sets": 2, "n_draws": 10}
    >>> found = tb.plan.sample_size(tb.Model(tb.Poisson()), [[1]], [1], coefficient=0, **options)
    >>> plot_sample_size(found).get_ylabel()
    'width of the 90% interval of x0'
    """
    ax = axes_for(ax)
    _both(ax, found.rows, found.width, found.error, found.ordinary_width)
    ax.set_ylim(bottom=0)
    ax.axhline(found.target, color=INK, linewidth=1, linestyle=":", label="wanted")
    title = f"{found.rows[-1]:,} rows are not enough."
    if found.needed is not None:
        ax.axvline(found.needed, color=INK, linewidth=1, linestyle="--", label="needed")
        title = f"About {found.needed:,} rows are needed."
    ylabel = f"width of the {found.interval:.0%} interval of {found.coefficient}"
    return finished(ax, "rows", ylabel, title)


def plot_power(found: Power, ax: Axes | None = None) -> Axes:
    """Draw how often the interval excludes zero against the number of rows.

    Parameters
    ----------
    found : Power
    ax : matplotlib.axes.Axes, optional

    Examples
    --------
    >>> import tvdbayes as tb
    >>> from tvdbayes.plots import plot_power
    >>> options = {"coefficient": "x1", "rows": [50, 200], "n_sets": 2, "n_draws": 10}
    >>> found = tb.plan.power(tb.Model(tb.Poisson()), [[1, 0], [1, 1]], [1.0, 0.5], **options)
    >>> ax = plot_power(found)
    >>> [label.get_text() for label in ax.get_xticklabels()], ax.get_xlabel()
    (['50', '200'], 'rows')
    """
    ax = axes_for(ax)
    _both(ax, found.rows, found.power, found.error, found.ordinary_power)
    ax.set_ylim(-0.03, 1.03)
    return finished(ax, "rows", f"probability that the interval of {found.coefficient} excludes 0")


def _both(ax: Axes, rows: IntArray, robust: Array, error: Array, ordinary: Array) -> None:
    """Robust with two Monte-Carlo errors, and likelihood fit, against the rows that were tried."""
    ax.set_xscale("log")
    looks: dict[str, Any] = {"markersize": 5, "capsize": 2, "label": ROBUST.label}
    ax.errorbar(rows, robust, 2 * error, **looks, **ROBUST.looks)
    looks = {"markersize": 5, "linestyle": ORDINARY.line, "label": ORDINARY.label}
    ax.plot(rows, ordinary, **looks, **ORDINARY.looks)
    ax.set_xticks(rows, [f"{n:,}" for n in rows])
    ax.minorticks_off()
