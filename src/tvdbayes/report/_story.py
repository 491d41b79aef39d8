"""What is told about a fit: facts, each asked once, and the sentences that several places print."""

from dataclasses import dataclass

import pandas as pd

from tvdbayes._typing import BoolArray
from tvdbayes.results.base import AbstractFit
from tvdbayes.results.effects import Effect
from tvdbayes.results.findings import Finding
from tvdbayes.results.misfit import Misfit
from tvdbayes.results.rows import SCORES
from tvdbayes.sampling.statements import RowsUsed
from tvdbayes.sampling.summary import Summary

INTERVAL = 0.9
"""Probability inside all intervals that are told."""


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
        return (
            f"{self.n_flagged:,.12g} of {self.n_known:,.12g} {rows} {verb} out by more than chance"
        )

    @property
    def equal_rows(self) -> str:
        """How the lines of suspicious rows are to be read."""
        return "Equal rows are in one line, and count says how many they are."
