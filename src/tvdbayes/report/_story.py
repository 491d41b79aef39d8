"""The facts and sentences of a report, each computed once, and the call that repeats the fit."""

import math
from dataclasses import MISSING, dataclass, fields, is_dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

import tvdbayes
from tvdbayes._typing import BoolArray
from tvdbayes.data.cells import amount
from tvdbayes.results.base import AbstractFit
from tvdbayes.results.effects import Effect
from tvdbayes.results.findings import Finding
from tvdbayes.results.misfit import Misfit
from tvdbayes.results.rows import SCORES
from tvdbayes.sampling.statements import RowsUsed
from tvdbayes.sampling.summary import Summary

INTERVAL = 0.9
"""Probability inside all intervals of a report."""


@dataclass(frozen=True, eq=False)
class Averages:
    """Averages of `quantity` over the data, a column set to each of its values (`levels`), and
    `slopes` in numbers; `notes` say what is not among them, and why.
    """

    quantity: str
    levels: tuple[Effect, ...]
    slopes: tuple[Effect, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Story:
    """Facts about a fit, from which the terminal, the JSON and the HTML page are made.

    Parameters
    ----------
    fit : AbstractFit
    summary : Summary or None
        The coefficients of both fits with intervals; None where there are too few draws.
    ratios : Summary or None
        The same as ratios; None where the link gives none.
    differs : (d,)
        Which coefficients differ between both fits by more than chance.
    comparison : str
        The same as a sentence.
    misfit : Misfit or None
        The unexplained share; None where there are too few draws.
    rows, suspicious : pandas.DataFrame
        `Fit.rows` and `Fit.suspicious_rows`.
    rows_used : RowsUsed or None
        Which rows a trimmed fit uses.
    findings : tuple of Finding
        All that `Fit.check` looks at.
    averages : Averages or None
        Average predictions and slopes, if asked for.
    """

    fit: AbstractFit
    summary: Summary | None
    ratios: Summary | None
    differs: BoolArray
    comparison: str
    misfit: Misfit | None
    rows: pd.DataFrame
    suspicious: pd.DataFrame
    rows_used: RowsUsed | None
    findings: tuple[Finding, ...]
    averages: Averages | None

    @property
    def outcome(self) -> str:
        """The column of the outcome."""
        return self.fit.data.outcome

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the data in the tables of rows."""
        own = (*SCORES, "flag", "count")
        return tuple(str(name) for name in self.suspicious if name not in own)

    @property
    def n_known(self) -> float:
        """Rows that have scores."""
        return float(self.suspicious["count"].sum())

    @property
    def n_flagged(self) -> float:
        """Rows that stand out."""
        return float(self.suspicious.loc[self.suspicious["flag"], "count"].sum())

    @property
    def flagged(self) -> str:
        """How many rows stand out, as a sentence without its full stop."""
        if not self.n_flagged:
            return "No row stands out by more than chance"
        verb = "stands" if self.n_flagged == 1 else "stand"
        rows = "row" if self.n_known == 1 else "rows"
        shares = f"{amount(self.n_flagged)} of {amount(self.n_known)} {rows}"
        return f"{shares} {verb} out by more than chance"

    @property
    def equal_rows(self) -> str:
        """How the lines of suspicious rows are to be read."""
        return "Equal rows are in one line, and count says how many they are."


_MOST_VALUES = 200
"""Text with more values than this, those of a base measure say, would hardly be read."""


class Call(NamedTuple):
    """Python that makes a fit again.

    `text` names the data ``data``; options `left_open` cannot be held by text, in the call they are
    variables of the same name; `note` says what the call gives, and what it needs for that.
    """

    text: str
    left_open: tuple[str, ...]
    note: str


def call_of(fit: AbstractFit) -> Call:
    """The call that makes this fit again, from the options that were set."""
    written = {option: code_of(value) for option, value in fit.options.changed().items()}
    left_open = tuple(option for option, code in written.items() if code is None)
    lines = [
        repr(fit.formula),
        "data",
        *(f"{option}={option if code is None else code}" for option, code in written.items()),
    ]
    text = "import tvdbayes as tb\n\nfit = tb.fit(\n    " + ",\n    ".join(lines) + ",\n)"
    return Call(text, left_open, _note(left_open))


def _note(left_open: tuple[str, ...]) -> str:
    if not left_open:
        return (
            "With the same data, and defaults for all that it does not name, this call gives the "
            "same numbers bit for bit."
        )
    names = " and ".join(left_open)
    return (
        f"This call is not complete: the {names} of this fit cannot be written as text. Where "
        f"{names} and data are what was given to this fit, the call gives the same numbers bit for "
        "bit."
    )


def code_of(value: object) -> str | None:
    """Python that makes a value, with classes taken from ``tb``; None where text cannot say it.

    It can where the value is made of numbers, text, and classes that ``tvdbayes`` has by name.
    """
    value = value.item() if isinstance(value, np.generic) else value
    if isinstance(value, float) and not math.isfinite(value):
        return f"float({str(value)!r})"
    if value is None or isinstance(value, int | float | str):
        return repr(value)
    kind = type(value)
    if isinstance(value, tuple | dict) and len(value) > _MOST_VALUES:
        return None
    if isinstance(value, tuple):
        parts, form = [("", part) for part in value], "({},)" if len(value) == 1 else "({})"
    elif isinstance(value, dict):
        parts, form = [(f"{key!r}: ", part) for key, part in value.items()], "{{{}}}"
    elif getattr(tvdbayes, kind.__name__, None) is kind and is_dataclass(kind):
        parts, form = _arguments(value), f"tb.{kind.__name__}({{}})"
    else:
        return None
    codes = [code_of(part) for _, part in parts]
    if None in codes:
        return None
    inside = (f"{before}{code}" for (before, _), code in zip(parts, codes, strict=True))
    return form.format(", ".join(inside))


def _arguments(value: Any) -> list[tuple[str, object]]:
    """The fields of a dataclass that are not at their defaults, as arguments."""
    given = [(field, getattr(value, field.name)) for field in fields(value) if field.init]
    return [
        (f"{field.name}=", part)
        for field, part in given
        if field.default is MISSING or part != field.default
    ]
