"""Coefficients of both fits with their intervals, and against the share of wrong rows."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import ArrayLike

from tvdbayes._errors import DataError, SettingsError
from tvdbayes._typing import Array
from tvdbayes.plots._style import (
    CHANCE,
    INK,
    ORDINARY,
    ROBUST,
    axes_for,
    dots,
    finished,
    intervals,
    label_axes,
    label_lines,
    legend_above,
    new_figure,
    numbers,
    percent,
    title_above,
)
from tvdbayes.results.sensitivity import Sensitivity
from tvdbayes.sampling.summary import summarise

_APART = 0.17
"""Distance of the two fits from the line of their coefficient."""

_SHARES = 201
"""Points of each curve: more would not be visible at the width of a page."""


def plot_coefficients(
    names: Sequence[str],
    draws: ArrayLike,
    kld_draws: ArrayLike,
    *,
    interval: float = 0.9,
    skip_intercepts: bool = True,
    ax: Axes | None = None,
) -> Axes:
    """Draw mean and interval of each coefficient, robust above likelihood fit.

    Parameters
    ----------
    names : sequence of str, length d
    draws, kld_draws : (B, d)
        Draws of the robust and of the likelihood fit, as in a `tvdbayes.Posterior`, a
        `tvdbayes.Fit` or a `tvdbayes.Effect`.
    interval : float
        Probability of the equal-tailed intervals.
    skip_intercepts : bool
        Whether to leave out intercepts, where there is anything else.
    ax : matplotlib.axes.Axes, optional

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
    return finished(ax, f"coefficient: mean and {interval:.0%} interval", "")


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
        One for each path. A tuple of them is returned, also if there is but one.

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
