"""Tables that print themselves, and that of the draws: mean, spread, interval, direction.

In a `Summary` the robust draws stand beside those of the likelihood fit. In a notebook everything
that comes from data is escaped.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from typing import ClassVar, Literal

import numpy as np

from tvdbayes._errors import SettingsError
from tvdbayes._typing import Array
from tvdbayes._validate import probability


@dataclass(frozen=True, eq=False)
class AbstractTable:
    """Columns of numbers, with a line for each name; prints itself.

    Parameters
    ----------
    names : tuple of str
    columns : dict of (d,)
    note : str
        Printed below the table.
    """

    names: tuple[str, ...]
    columns: dict[str, Array]
    note: str = ""

    first: ClassVar[str]
    """What the names are called."""
    caption: ClassVar[str]
    unprinted: ClassVar[tuple[str, ...]] = ()
    """Columns for those who ask: with them a line is too long for most screens."""

    def to_dict(self) -> dict[str, object]:
        """Columns by name, ready for a data frame."""
        return {self.first: list(self.names), **self.columns}

    def __getitem__(self, column: str) -> Array:
        return self.columns[column]

    def _lines(self) -> list[list[str]]:
        """What is printed: a header, and a line for each name."""
        shown = {name: c for name, c in self.columns.items() if name not in self.unprinted}
        return [[self.first, *shown]] + [
            [name, *(f"{column[i]:.4g}" for column in shown.values())]
            for i, name in enumerate(self.names)
        ]

    def __str__(self) -> str:
        return "\n".join([text_table(self._lines()), *([self.note] if self.note else [])])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        head, *lines = self._lines()
        below = f"<p>{escape(self.note)}</p>" if self.note else ""
        return html_table(self.caption, head, lines) + below


def text_table(lines: Sequence[Sequence[str]]) -> str:
    """Lines of cells, the first of them to the left, the others to the right."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(
            [first.ljust(widths[0])]
            + [cell.rjust(width) for cell, width in zip(rest, widths[1:], strict=True)]
        )
        for first, *rest in lines
    )


def html_table(caption: str, headers: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """A table whose first column names the lines."""
    head = "".join(f'<th scope="col">{escape(h)}</th>' for h in headers)
    body = "".join(
        f'<tr><th scope="row" style="text-align: left">{escape(first)}</th>'
        + "".join(f"<td>{escape(cell)}</td>" for cell in rest)
        + "</tr>"
        for first, *rest in lines
    )
    return (
        f'<table><caption style="text-align: left">{escape(caption)}</caption>'
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    )


IntervalKind = Literal["equal", "hdi"]
"""Equal tails, or the shortest interval (highest density)."""


_NEGLIGIBLE, _ROUNDING = 1e-3, 1e-9
"""Differences are 0 below so many standard deviations, or such a share of the mean."""


@dataclass(frozen=True, eq=False, repr=False)
class Summary(AbstractTable):
    """A table with one line for each parameter; prints itself, and `to_dict` gives the columns.

    Printed are means and intervals; ``sd``, ``direction`` and ``mc_error`` are by name only, as in
    ``summary["sd"]``.

    ``mean``, ``sd``, ``low`` and ``high`` are those of the robust draws; ``direction`` is the share
    of draws on the commoner side of 0, ``rope`` that inside a region of practical equivalence,
    where one was given, and ``mc_error`` the Monte-Carlo error of the mean. ``kld_...`` is the
    likelihood fit on the same random weights, ``diff...`` robust minus likelihood fit in pairs. A
    large difference hints that the model does not fit, or that some rows drive the likelihood fit.
    A small one does not, also where its interval excludes 0: one extreme row of clean data that is
    dropped is enough for that. `Fit.check` asks for both, of all coefficients together.
    Differences that are all below a thousandth of the standard deviation, such as those that a weak
    ridge makes where no row is dropped, are 0.

    Parameters
    ----------
    names : tuple of str
        The parameters.
    columns : dict of (d,)
        The columns by name, in order.
    note : str
        Which rows the estimates are made of, where some may be dropped; printed below the table.

    Examples
    --------
    >>> import pandas as pd, tvdbayes as tb
    >>> table = tb.fit("visits ~ age", tb.example_data(wrong=0.1), n_draws=200).summary()
    >>> print(table)
    parameter     mean      low     high  kld_mean  kld_low  kld_high    diff  diff_low  diff_high
    Intercept  -0.3341  -0.4825  -0.1919    0.8024    0.542     1.106  -1.137    -1.456    -0.8854
    age         0.3241   0.2951   0.3575    0.1856   0.1092    0.2568  0.1385   0.07217     0.2168
    100 of 1,000 rows were dropped: more of these outcomes than the model allows.
    >>> pd.DataFrame(table.to_dict())[["parameter", "mean", "sd"]].round(2)
       parameter  mean    sd
    0  Intercept -0.33  0.08
    1        age  0.32  0.02
    >>> table["diff_low"].round(2)  # of age above 0: wrong rows drive the likelihood fit
    array([-1.46,  0.07])
    """

    first: ClassVar[str] = "parameter"
    caption: ClassVar[str] = "Coefficients"
    unprinted: ClassVar[tuple[str, ...]] = ("sd", "direction", "mc_error")


def summarise(
    names: tuple[str, ...],
    draws: Array,
    kld_draws: Array,
    interval: float = 0.9,
    *,
    kind: IntervalKind = "equal",
    rope: tuple[float, float] | None = None,
) -> Summary:
    """Summarise draws (B, d): intervals, direction, and the paired difference."""
    difference = _without_rounding(draws, kld_draws)
    (low, high), (kld_low, kld_high), (gap_low, gap_high) = (
        intervals(values, interval, kind) for values in (draws, kld_draws, difference)
    )
    mean, sd = draws.mean(0), draws.std(0, ddof=1)
    positive = (draws > 0).mean(0)
    columns = {
        "mean": mean,
        "sd": sd,
        "low": low,
        "high": high,
        "direction": np.maximum(positive, 1 - positive),
    }
    if rope is not None:
        columns["rope"] = _inside(draws, rope)
    return Summary(
        names,
        {
            **columns,
            "mc_error": sd / np.sqrt(len(draws)),
            "kld_mean": kld_draws.mean(0),
            "kld_low": kld_low,
            "kld_high": kld_high,
            "diff": difference.mean(0),
            "diff_low": gap_low,
            "diff_high": gap_high,
        },
    )


def _without_rounding(draws: Array, kld_draws: Array) -> Array:
    """Differences (B, d), 0 in columns where none is large enough to matter."""
    difference = draws - kld_draws
    if len(draws) < 2:
        return difference
    least = np.maximum(_NEGLIGIBLE * draws.std(0), _ROUNDING * np.abs(draws).max(0))
    return np.where(np.abs(difference).max(0) > least, difference, 0.0)


def intervals(draws: Array, interval: float = 0.9, kind: IntervalKind = "equal") -> Array:
    """Ends (2, d) of the interval of each column of draws (B, d)."""
    probability("interval", interval, 0.9)
    if kind not in ("equal", "hdi"):
        raise SettingsError(f'kind must be "equal" (tails) or "hdi" (shortest); got {kind!r}.')
    n = len(draws)
    if n < 2:
        raise SettingsError(f"Intervals need at least 2 draws; got {n}. Fit with n_draws=1000.")
    if kind == "equal":
        ends: Array = np.quantile(draws, [(1 - interval) / 2, (1 + interval) / 2], axis=0)
        return ends
    ordered = np.sort(draws, axis=0)
    inside = max(int(np.ceil(interval * n)) - 1, 1)
    first = (ordered[inside:] - ordered[: n - inside]).argmin(0)
    columns = np.arange(draws.shape[1])
    return np.stack([ordered[first, columns], ordered[first + inside, columns]])


def _inside(draws: Array, rope: tuple[float, float]) -> Array:
    """Share of draws in a region of practical equivalence."""
    ends = np.asarray(rope, float)
    if ends.shape != (2,) or not ends[0] < ends[1]:
        raise SettingsError(
            f"rope must be two numbers, the smaller first, such as (-0.1, 0.1); got {rope!r}."
        )
    share: Array = ((draws >= ends[0]) & (draws <= ends[1])).mean(0)
    return share
