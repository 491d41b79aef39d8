"""Coefficients of both fits with their intervals."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes

from tvdbayes._errors import DataError
from tvdbayes._typing import Array, ArrayLike
from tvdbayes.plots._style import (
    INK,
    ORDINARY,
    ROBUST,
    axes_for,
    dots,
    intervals,
    label_axes,
    label_lines,
    legend_above,
)
from tvdbayes.sampling.summary import summarise

__all__ = ["plot_coefficients"]

_APART = 0.17
"""Distance of the two fits from the line of their coefficient."""


def plot_coefficients(
    names: Sequence[str],
    draws: ArrayLike,
    kld_draws: ArrayLike,
    *,
    interval: float = 0.9,
    skip_intercepts: bool = True,
    ax: Axes | None = None,
) -> Axes:
    """Draw mean and interval of each coefficient, robust above ordinary.

    Parameters
    ----------
    names : sequence of str, length d
    draws, kld_draws : (B, d)
        Posterior draws and their ordinary twins; those of a `tvdbayes.Posterior`, a `tvdbayes.Fit`
        or a `tvdbayes.Effect`.
    interval : float
        Probability of the equal-tailed intervals.
    skip_intercepts : bool
        Whether to leave out intercepts, where there is anything else.
    ax : matplotlib.axes.Axes, optional

    Returns
    -------
    matplotlib.axes.Axes

    Examples
    --------
    >>> import numpy as np
    >>> from tvdbayes.plots import plot_coefficients
    >>> draws = np.random.default_rng(0).normal([0, 1, 2], 0.1, (500, 3))
    >>> ax = plot_coefficients(("Intercept", "age", "dose"), draws, draws + 0.3)
    >>> [label.get_text() for label in ax.get_yticklabels()]
    ['age', 'dose']
    """
    robust, ordinary = (_columns(a, len(names)) for a in (draws, kld_draws))
    slopes = [j for j, name in enumerate(names) if name.rsplit(":", 1)[-1] != "Intercept"]
    shown = slopes if skip_intercepts and slopes else list(range(len(names)))
    kept = tuple(names[j] for j in shown)
    table = summarise(kept, robust[:, shown], ordinary[:, shown], interval)

    ax = axes_for(ax, height=1.2 + 0.38 * len(kept))
    at = np.arange(len(kept), dtype=float)
    ax.axvline(0, color=INK, linewidth=0.8, linestyle=":")
    for style, prefix, side in ((ROBUST, "", -_APART), (ORDINARY, "kld_", _APART)):
        intervals(ax, at + side, table[f"{prefix}low"], table[f"{prefix}high"], style)
        dots(ax, table[f"{prefix}mean"], at + side, style)
    label_lines(ax, kept)
    legend_above(ax)
    label_axes(ax, f"coefficient: mean and {interval:.0%} interval", "")
    return ax


def _columns(draws: ArrayLike, n: int) -> Array:
    found = np.asarray(draws)
    if found.ndim != 2 or found.shape[1] != n or not n or found.dtype.kind not in "biuf":
        raise DataError(
            f"draws must have a column of numbers for each name, of which there are {n}; got "
            f"{found.dtype} of shape {found.shape}."
        )
    if not (finite := np.isfinite(found)).all():
        raise DataError(f"draws must be finite; {(~finite).sum()} of {found.size} are not.")
    return found.astype(float)
