"""What a fit says, for people and for machines."""

from dataclasses import dataclass
from typing import Any

import click
import numpy as np
import pandas as pd

from tvdbayes import __version__
from tvdbayes.cli._text import Column, heading, note, number, paragraph, table
from tvdbayes.cli._words import noted, plain, printable
from tvdbayes.fitting import Fit
from tvdbayes.fitting.rows import suspicious_of
from tvdbayes.results.misfit import Misfit
from tvdbayes.results.rows import SCORES
from tvdbayes.sampling.rows_used import rows_used
from tvdbayes.sampling.rules import FALSE_ALARM, differing

__all__ = ["Answers", "finite"]

_INTERVAL = 0.9
_SHOWN = 10
_USED = ("rows used", "far rows")
_SAID_ELSEWHERE = ("search", "ordinary search", "groups", "ordinary fit", "misfit", *_USED)
"""Findings of a check that the warnings of a fit, the table or the unexplained share tell too."""


@dataclass(frozen=True, eq=False)
class Answers:
    """A fit with everything that is told of it."""

    fit: Fit
    misfit: Misfit
    rows: pd.DataFrame
    suspicious: pd.DataFrame
    notes: tuple[str, ...]

    @classmethod
    def of(cls, fit: Fit, notes: list[str]) -> "Answers":
        """Ask the fit; `notes` are what it has warned of so far."""
        with noted() as more:
            misfit, rows, check = fit.misfit(_INTERVAL), fit.rows(), fit.check(misfit=False)
        found = [
            plain(finding.text)
            for finding in check.findings
            if finding.level != "good" and finding.about not in _SAID_ELSEWHERE
        ]
        told = tuple(dict.fromkeys([*notes, *more, *found]))
        return cls(fit, misfit, rows, suspicious_of(fit, rows), told)

    def show(self) -> None:
        """Print for a reader."""
        posterior = self.fit.posterior
        click.echo(heading(printable(self.fit.formula)))
        left_out = self.fit.n_left_out
        more = f" ({left_out:,} more left out)" if left_out else ""
        click.echo(
            paragraph(
                f"{posterior.model.family.name} by {posterior.method}: "
                f"{posterior.cells.n_obs:,.12g} rows{more}, {posterior.n_draws:,} draws, seed "
                f"{posterior.seed}"
            )
        )
        click.echo(f"\n{self._coefficients()}")
        if used := self._rows_used():
            click.echo(f"\n{heading('Rows used')}\n{paragraph(used)}")
        click.echo(f"\n{heading('Unexplained')}\n{paragraph(str(self.misfit))}")
        click.echo(f"\n{self._suspects()}")
        if self.notes:
            click.echo()
        for text in self.notes:
            click.echo(note(text))

    def _coefficients(self) -> str:
        summary = self.fit.summary(_INTERVAL)
        spread = summary["sd"]

        def interval(low: str, high: str) -> list[str]:
            ends = zip(summary[low], summary[high], spread, strict=True)
            return [f"[{number(a, sd)}, {number(b, sd)}]" for a, b, sd in ends]

        def mean(name: str) -> list[str]:
            return [number(value, sd) for value, sd in zip(summary[name], spread, strict=True)]

        apart = differing(self.fit.draws, self.fit.kld_draws)
        span = f"{_INTERVAL:.0%} interval"
        shown = table(
            [
                Column("", summary.names, left=True),
                Column("robust", mean("mean")),
                Column(span, interval("low", "high")),
                Column("ordinary", mean("kld_mean")),
                Column(span, interval("kld_low", "kld_high")),
                Column("", ["*" if one else " " for one in apart]),
                Column("difference", mean("diff"), needed=False),
                Column(span, interval("diff_low", "diff_high"), needed=False),
            ]
        )
        level = f"{FALSE_ALARM:.0%} level, all coefficients together"
        used = rows_used(self.fit.posterior)
        caveat = plain(used.caveat) if used else ""
        told = (
            f"* robust and ordinary differ ({level}): some rows, or the form of the model, "
            "influence the ordinary one."
            if apart.any()
            else f"Robust and ordinary do not differ by more than chance ({level}). {caveat}"
        )
        head, *lines = shown.split("\n")
        return "\n".join([heading(head), *lines, paragraph(told, "  ")])

    def _rows_used(self) -> str:
        used = rows_used(self.fit.posterior)
        return plain(used) if used else ""

    def _suspects(self) -> str:
        lines = self.suspicious
        flagged, n_rows = lines.loc[lines["flag"], "count"].sum(), lines["count"].sum()
        # Rows of which less than half is too much are no suspects.
        worst = lines[lines["surprise"] > 0].head(_SHOWN)
        if worst.empty:
            return f"{heading('Suspicious rows')}\nNone."
        known = [name for name in lines.columns if name not in (*SCORES, "flag", "count")]
        columns = [
            Column("", ["*" if flag else " " for flag in worst["flag"]]),
            Column("row", [str(i) for i in worst.index]),
            Column("count", [number(v) for v in worst["count"]]),
            *(_data_column(name, worst[name], i == 0) for i, name in enumerate(known)),
            Column("seen", [number(v) for v in worst["observed"]]),
            Column("expected", ["<0.001" if v < 1e-3 else number(v) for v in worst["expected"]]),
            Column("unexplained", [f"{v:.0%}" for v in worst["score"]], needed=False),
            *(
                [Column("used", [f"{v:.0%}" for v in worst["kept"]], needed=False)]
                if "kept" in worst
                else []
            ),
        ]
        stand = "stands" if flagged == 1 else "stand"
        told = (
            f"{flagged:,.12g} of {n_rows:,.12g} rows {stand} out (*). "
            if flagged
            else "No row stands out beyond chance. "
        )
        told += "Equal rows are in one line, and count says how many they are. "
        if self.fit.data.n_grouped is None:
            told += "Row 0 is the first below the header. "
        told += "Seen and expected count rows with this outcome and the same or nearby covariates."
        if "kept" in worst:
            told += " Used is the share of a row that the robust fit is made of."
        title = "Most suspicious rows"
        return "\n".join([heading(title), paragraph(told), table(columns)])

    def to_json(self) -> dict[str, Any]:
        """The same for a machine; rows count from 0, as everywhere."""
        posterior = self.fit.posterior
        summary = self.fit.summary(_INTERVAL)
        equal = self._equal_rows()
        flagged = self.suspicious[self.suspicious["flag"]]
        own = [name for name in (self._outcome(), "count", *SCORES) if name in flagged]
        return {
            "tvdbayes": __version__,
            "formula": self.fit.formula,
            "family": posterior.model.family.name,
            "divergence": posterior.divergence.name,
            "refine": posterior.refine,
            "n_rows": self.fit.n_rows,
            "n_cells": posterior.cells.n_cells,
            "rows_used": self._rows_used() or None,
            "rounding": None if self.fit.rounded is None else str(self.fit.rounded),
            "n_left_out": self.fit.n_left_out,
            "n_draws": posterior.n_draws,
            "seed": posterior.seed,
            "interval": _INTERVAL,
            "coefficients": [
                {
                    "name": name,
                    **{key: finite(column[i]) for key, column in summary.columns.items()},
                }
                for i, name in enumerate(summary.names)
            ],
            "misfit": {
                name: finite(getattr(self.misfit, name))
                for name in (
                    *("mean", "low", "high", "floor", "floor_high", "lower"),
                    *("wrong", "wrong_low", "wrong_high"),
                )
            },
            "flagged_rows": [
                {
                    "row": row,
                    **{name: finite(flagged[name][row]) for name in own},
                    "rows": equal[row],
                }
                for row in flagged.index.tolist()
            ],
            "warnings": list(self.notes),
        }

    def _equal_rows(self) -> dict[int, list[int]]:
        """For each line, by its number, the numbers of all rows that are in it."""
        rows = pd.Series(self.fit.data.row)
        members = rows[rows >= 0].groupby(rows, sort=False).groups.values()
        return {int(found[0]): [int(i) for i in found] for found in members}

    def _outcome(self) -> str:
        name = self.fit.data.outcome
        return f"data: {name}" if f"data: {name}" in self.rows else name


def finite(value: Any) -> Any:
    """A value that JSON can hold: what is not finite is null."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not np.isfinite(value):
        return None
    return value if isinstance(value, int | float | str | bool | None) else str(value)


def _data_column(name: str, values: "pd.Series", needed: bool) -> Column:
    numbers = values.dtype.kind in "iuf"
    cells = [str(v) if not numbers or v == int(v) else f"{v:.4g}" for v in values.tolist()]
    return Column(str(name), cells, left=not numbers, needed=needed)
