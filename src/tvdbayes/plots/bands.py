"""Predictions over a covariate, of the robust and the likelihood fit, with the data."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import ArrayLike

from tvdbayes._errors import DataError
from tvdbayes._typing import Array
from tvdbayes.plots._style import (
    CHANCE,
    FLAGGED,
    ORDINARY,
    ROBUST,
    axes_for,
    dots,
    finished,
    intervals,
    label_bars,
    numbers,
    points,
)

Band = tuple[ArrayLike, ArrayLike, ArrayLike]
"""Mean and both ends of an interval, at each x."""

_APART = 0.12
"""Distance of the robust from the likelihood fit along x, where x is discrete."""

_JITTER = 0.2
"""Whole numbers are moved by up to this, so that equal points do not hide each other."""


def plot_bands(
    x: ArrayLike | Sequence[object],
    robust: Band,
    ordinary: Band | None = None,
    observed: tuple[ArrayLike, ArrayLike, ArrayLike] | None = None,
    *,
    xlabel: str,
    ylabel: str,
    ax: Axes | None = None,
) -> Axes:
    """Draw predictions with intervals: bands over numbers, dots over levels.

    Parameters
    ----------
    x : (K,)
        Numbers, or names of levels.
    robust, ordinary : tuple of three (K,)
        Mean, low and high at each x; the second is optional.
    observed : tuple of three (n,), optional
        x, outcome and whether it is flagged, for each row. Whole numbers are moved a little, always
        in the same way, so that equal rows do not hide each other.
    xlabel, ylabel : str
        What x and the outcome are called.
    ax : matplotlib.axes.Axes, optional

    Examples
    --------
    >>> import numpy as np
    >>> from tvdbayes.plots import plot_bands
    >>> mean = np.array([1.0, 2.0])
    >>> ax = plot_bands([20, 40], (mean, mean - 1, mean + 1), xlabel="age", ylabel="visits")
    >>> ax.lines[0].get_ydata()
    array([1., 2.])
    """
    places = np.asarray(x)
    levels = None if places.dtype.kind in "iuf" else tuple(map(str, places))
    ax = axes_for(ax)
    apart = 0.0 if ordinary is None else _APART
    fits = [("robust", robust, ROBUST, -apart)]
    fits += [] if ordinary is None else [("ordinary", ordinary, ORDINARY, apart)]
    at = numbers("x", places if levels is None else np.arange(len(levels)))
    order = np.argsort(at, kind="stable")
    for name, band, style, side in fits:
        mean, low, high = (numbers(name, part, len(at))[order] for part in band)
        if levels is None and len(at) > 1:
            ax.fill_between(at[order], low, high, color=style.colour, alpha=0.22, linewidth=0)
            ax.plot(at[order], mean, style.line, color=style.colour, label=style.label)
        else:
            intervals(ax, at + side, low, high, style, upright=True)
            dots(ax, at + side, mean, style)
    if observed is not None:
        _points(ax, observed, levels)
    if levels is not None:
        label_bars(ax, levels)
    return finished(ax, xlabel, ylabel)


def _points(
    ax: Axes, observed: tuple[ArrayLike, ArrayLike, ArrayLike], levels: Sequence[str] | None
) -> None:
    """Draw rows, flagged ones with a cross."""
    rng = np.random.default_rng(0)
    at, seen, flag = observed
    x = numbers("x of observed", at if levels is None else _codes(at, levels))
    y = numbers("outcomes of observed", seen, len(x))
    flagged = numbers("flags of observed", flag, len(x)) > 0
    x, y = _moved(x, rng), _moved(y, rng)
    good: dict[str, Any] = {"color": CHANCE, "marker": "o", "alpha": 0.5, "linewidths": 0}
    bad: dict[str, Any] = {"color": FLAGGED, "marker": "x", "alpha": 0.9, "linewidths": 1.0}
    for which, size, label, looks in (
        (~flagged, 8, "rows", good),
        (flagged, 20, "flagged rows", bad),
    ):
        shown = label if which.any() else None
        points(ax, x[which], y[which], size, shown, zorder=1, **looks)


def _codes(at: ArrayLike, levels: Sequence[str]) -> list[int]:
    number = {level: i for i, level in enumerate(levels)}
    names = [str(name) for name in np.asarray(at)]
    if unknown := [name for name in names if name not in number]:
        raise DataError(
            f"x of observed must be among the levels {list(levels)}; {len(unknown)} of "
            f"{len(names)} are not (first: {unknown[0]!r}). Leave them out."
        )
    return [number[name] for name in names]


def _moved(values: Array, rng: np.random.Generator) -> Array:
    """Whole numbers, moved a little at random."""
    shift = rng.uniform(-_JITTER, _JITTER, len(values))
    return values + shift if (values == np.round(values)).all() else values
