"""The table of the draws: mean, spread, interval, direction, and the same as ratios.

The robust draws stand beside those of the likelihood fit.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np

from tvdbayes._errors import SettingsError
from tvdbayes._typing import Array
from tvdbayes._validate import probability
from tvdbayes.sampling.tables import AbstractTable

IntervalKind = Literal["equal", "hdi"]
"""Equal tails, or the shortest interval (highest density)."""


_NEGLIGIBLE, _ROUNDING = 1e-3, 1e-9
"""Differences are 0 below so many standard deviations, or such a share of the mean."""


def number(value: float, spread: float | None = None) -> str:
    """A number to two digits of its spread, or to three digits.

    Examples
    --------
    >>> from tvdbayes.sampling.summary import number
    >>> number(1.23456, 0.0789), number(-0.001, 0.2), number(0.0001234), number(12345678.0)
    ('1.235', '0.00', '0.000123', '1.23e+07')
    """
    if not math.isfinite(value):
        return str(value)
    if spread is None or not (math.isfinite(spread) and spread > 0):
        return f"{value:.3g}"
    digits = 1 - math.floor(math.log10(spread))
    if digits > 6 or abs(value) >= 1e7:
        return f"{value:.3g}"
    text = f"{value:.{max(digits, 0)}f}"
    return text if float(text) else text.removeprefix("-")


@dataclass(frozen=True, eq=False, repr=False)
class Summary(AbstractTable):
    """A table with one line for each parameter; prints itself, and `to_dict` gives the columns.

    Printed are means and intervals to two digits of the standard deviation, intervals under the
    shares of draws below them ("5%" and "95%"); ``sd``, ``direction`` and ``mc_error`` are by name
    only, as in ``summary["sd"]``.

    ``mean``, ``sd``, ``low`` and ``high`` are those of the robust draws; ``direction`` is the share
    of draws on the commoner side of 0, ``rope`` that inside a region of practical equivalence,
    where one was given, and ``mc_error`` the Monte-Carlo error of the mean. ``kld_...`` is the
    likelihood fit on the same random weights, ``diff...`` robust minus likelihood fit in pairs. A
    large difference hints that the model does not fit, or that some rows drive the likelihood fit.
    A small one does not, also where its interval excludes 0: one extreme row of clean data that is
    dropped is enough for that. `Fit.check` asks for both, of all coefficients together.
    Differences that are all below a thousandth of the standard deviation, such as those that a weak
    ridge makes where no row is dropped, are 0.

    A table of ratios (``exponentiate=True``) has ``ratio`` in place of ``mean``, and ``quotient``,
    the robust ratio divided by that of the likelihood fit, in place of ``diff``.

    Parameters
    ----------
    names : tuple of str
        The parameters.
    columns : dict of (d,)
        The columns by name, in order.
    note : str
        Which rows the estimates are made of, where some may be dropped; printed below the table.
    header : str
        Family, link, rows, draws, seed, level, and how the searches ended; printed above it.
    library : str
        Whose data frames `to_frame` makes: that of the data.
    interval : float
        Probability inside the intervals.
    kind : "equal" or "hdi"
        Equal tails, or the shortest interval.
    ratio : str
        What the ratios are called, in a table of ratios.
    of_parameter : tuple of int
        In a table of ratios, the numbers of the parameters that its lines are of.

    Examples
    --------
    >>> import tvdbayes as tb
    >>> table = tb.fit("visits ~ age", tb.example_data(wrong=0.1), n_draws=200).summary()
    >>> print(table)
    Poisson (log link) by tvd, trimmed: 1,000 rows, 200 draws, seed 0
    90% intervals (equal tails); all draws ended in certified minima.
    parameter    mean      5%     95%  kld_mean  kld_5%  kld_95%    diff  diff_5%  diff_95%
    Intercept  -0.334  -0.482  -0.192     0.802   0.542    1.106  -1.137   -1.456    -0.885
    age         0.324   0.295   0.357     0.186   0.109    0.257   0.138    0.072     0.217
    100 of 1,000 rows were dropped: more of these outcomes than the model allows.
    >>> table.to_frame()[["parameter", "mean", "sd"]].round(2)
       parameter  mean    sd
    0  Intercept -0.33  0.08
    1        age  0.32  0.02
    >>> table["diff_low"].round(2)  # of age above 0: wrong rows drive the likelihood fit
    array([-1.46,  0.07])
    >>> print(table.to_markdown().splitlines()[-2][:41])

    """

    interval: float = 0.9
    kind: IntervalKind = "equal"
    ratio: str = ""
    of_parameter: tuple[int, ...] = ()

    first: ClassVar[str] = "parameter"
    caption: ClassVar[str] = "Coefficients"
    unprinted: ClassVar[tuple[str, ...]] = ("sd", "direction", "mc_error")

    def heading(self, column: str) -> str:
        """What stands above a column: ends of intervals by their level, ratios by their name."""
        side, gap, name = column.rpartition("_")
        if name in ("low", "high"):
            if self.kind == "hdi":
                return f"{column} {100 * self.interval:.4g}%"
            tail = (1 + (1 if name == "high" else -1) * self.interval) / 2
            return f"{side}{gap}{100 * tail:.4g}%"
        return self.ratio if column == "ratio" else column

    def __getitem__(self, column: str) -> Array:
        """A column by its name, or by the heading that it is printed under."""
        if column in self.columns:
            return self.columns[column]
        by_heading = {self.heading(name): values for name, values in self.columns.items()}
        if column not in by_heading:
            raise SettingsError(
                f"There is no column {column!r}. The columns are {', '.join(self.columns)}."
            )
        return by_heading[column]

    def text(self, column: str, line: int) -> str:
        """A number to two digits of the standard deviation of the robust draws."""
        value = self.columns[column][line]
        return f"{value:.3f}" if column == "rope" else number(value, self.columns["sd"][line])

    def exponentiated(self, ratios: Sequence[str]) -> "Summary":
        """The table of ratios: exp of estimates and of the ends of intervals, as in R and Stata.

        Parameters
        ----------
        ratios : sequence of str
            What exp of each parameter is called; empty for parameters that give no ratio, which
            are left out. ``sd`` and ``mc_error`` are those of the coefficient times the ratio (the
            delta method); ``direction`` and ``rope`` are those of the coefficient.
        """
        kept = [j for j, name in enumerate(ratios) if name]
        kinds = list(dict.fromkeys(ratios[j] for j in kept))
        renamed = {"mean": "ratio", "kld_mean": "kld_ratio", "diff": "quotient"}
        with np.errstate(over="ignore"):
            ratio = np.exp(self.columns["mean"][kept])
            made = {}
            for name, values in self.columns.items():
                new = renamed.get(name, name.replace("diff_", "quotient_"))
                if name in ("sd", "mc_error"):
                    made[new] = values[kept] * ratio
                elif name in ("direction", "rope"):
                    made[new] = values[kept]
                else:
                    made[new] = np.exp(values[kept])
        return replace(
            self,
            names=tuple(self.names[j] for j in kept),
            columns=made,
            of_parameter=tuple(kept),
            ratio=kinds[0] if len(kinds) == 1 else "ratio",
            note=f"{_about_ratios(self.names, ratios)}\n{self.note}".strip(),
        )


def _about_ratios(names: Sequence[str], ratios: Sequence[str]) -> str:
    """How a table of ratios is to be read: kinds where there are several, what is left out."""
    by_kind: dict[str, list[str]] = {}
    for name, kind in zip(names, ratios, strict=True):
        by_kind.setdefault(kind, []).append(name)
    left_out = by_kind.pop("", [])
    told = ["Ratios are exp of an estimate and of the ends of its interval."]
    if len(by_kind) > 1:
        kinds = (f"{', '.join(own)} ({kind})" for kind, own in by_kind.items())
        told.append(f"They are of {'; '.join(kinds)}.")
    if any(name.rsplit(":", 1)[-1] == "Intercept" for own in by_kind.values() for name in own):
        told.append("exp of an intercept is the value where all covariates are 0.")
    if left_out:
        told.append(f"Left out, since exp of them is no ratio: {', '.join(left_out)}.")
    return " ".join(told)


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
        interval=interval,
        kind=kind,
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
