"""Coefficients as a function of the share of wrong rows."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from tvdbayes._errors import DataError, SettingsError
from tvdbayes._typing import Array, ArrayLike
from tvdbayes.plots._style import (
    CHANCE,
    INK,
    ROBUST,
    axes_for,
    label_axes,
    legend_above,
    new_figure,
    numbers,
    percent,
    title_above,
)
from tvdbayes.results.sensitivity import Sensitivity

__all__ = ["plot_sensitivity"]

_SHARES = 201
"""Points of each curve: more cannot be told apart at the width of a page."""


def plot_sensitivity(
    paths: Sensitivity | Sequence[Sensitivity],
    *,
    shares: ArrayLike | None = None,
    ax: Axes | Sequence[Axes] | None = None,
) -> tuple[Axes, ...]:
    """Draw the values that each coefficient can have against the share of rows assumed wrong.

    The band begins at the share that the data need. It leaves the picture where every value that
    was tried is possible.

    Parameters
    ----------
    paths : Sensitivity or sequence of Sensitivity
        A panel for each.
    shares : (S,), optional
        Assumed shares of wrong rows, from 0 to 1; by default from 0 to beyond the share at which
        the last sign is lost.
    ax : matplotlib.axes.Axes or sequence of them, optional
        One for each path.

    Returns
    -------
    tuple of matplotlib.axes.Axes
        One for each path, also if there is but one.

    Examples
    --------
    >>> import numpy as np
    >>> from tvdbayes.plots import plot_sensitivity
    >>> from tvdbayes.results.sensitivity import Sensitivity
    >>> path = Sensitivity("age", 1.0, np.array([0, 1.0, 2]), np.array([0.3, 0.1, 0.2]), 0.1)
    >>> (ax,) = plot_sensitivity(path)
    >>> ax.get_title(loc="right")
    'age: positive up to 30.0%'
    """
    records = _flat(paths)
    if not records:
        raise DataError("plot_sensitivity needs at least one path; got none.")
    assumed = _default_shares(records) if shares is None else _checked(shares)
    panels = _panels(len(records)) if ax is None else _flat(ax)
    if len(panels) != len(records):
        raise SettingsError(
            f"ax must be {len(records)} axes, one for each path; got {len(panels)}."
        )
    for path, panel in zip(records, panels, strict=True):
        _panel(axes_for(panel), path, assumed)
    # A panel may lack a line that others have.
    found = [panel.get_legend_handles_labels() for panel in panels]
    keys = {label: handle for pair in found for handle, label in zip(*pair, strict=True)}
    legend_above(panels[0], list(keys.values()), whole_figure=ax is None)
    for path, panel in zip(records, panels, strict=True):
        label_axes(panel, "share of rows assumed wrong", "coefficient")
        title_above(panel, _title(path))
    return tuple(panels)


def _panel(ax: Axes, path: Sensitivity, shares: Array) -> None:
    known = np.union1d(shares[shares > path.needed], np.clip(path.needed, shares[0], shares[-1]))
    low, high = np.transpose([path.interval(share) for share in known])
    bottom, top = path.values[0], path.values[-1]
    ax.fill_between(
        known,
        np.clip(low, bottom, top),
        np.clip(high, bottom, top),
        color=ROBUST.colour,
        alpha=0.3,
        linewidth=0,
        label="possible values",
    )
    ax.axhline(path.estimate, color=ROBUST.colour, linewidth=1.4, label="estimate")
    ax.axhline(0, color=INK, linewidth=0.8, linestyle=":")
    ax.axvline(path.needed, color=CHANCE, linewidth=1.4, label="the data need this")
    if path.sign_holds_to > path.needed:
        ax.axvline(path.sign_holds_to, color=INK, linestyle="--", label="the sign is lost")
    ax.set_xlim(shares[0], shares[-1])
    ax.set_ylim(
        bottom if np.isinf(low).any() else None,
        top if np.isinf(high).any() else None,
    )
    percent(ax)


def _title(path: Sensitivity) -> str:
    if path.sign_holds_to <= path.needed:
        return f"{path.name}: sign not certain"
    sign = "positive" if path.estimate > 0 else "negative"
    return f"{path.name}: {sign} up to {path.sign_holds_to:.1%}"


def _default_shares(records: list[Sensitivity]) -> Array:
    beyond = max(0.05, *(max(path.sign_holds_to, path.needed) for path in records))
    return np.linspace(0, min(1.0, 1.3 * beyond), _SHARES)


def _checked(shares: ArrayLike) -> Array:
    found = np.unique(numbers("shares", shares))
    if len(found) < 2 or found[0] < 0 or found[-1] > 1:
        raise SettingsError(f"shares must be at least 2 numbers from 0 to 1; got {shares!r}.")
    return found


def _panels(n: int) -> list[Axes]:
    columns = 2 if n == 4 else min(n, 3)
    rows = -(-n // columns)
    figure = new_figure(max(5.0, 3.1 * columns), 0.6 + 2.7 * rows)
    return [figure.add_subplot(rows, columns, number + 1) for number in range(n)]


def _flat(one_or_more: Any) -> list[Any]:
    """A list of what may be one thing, several, or a grid of axes."""
    return list(np.ravel(np.asarray(one_or_more, dtype=object)))
