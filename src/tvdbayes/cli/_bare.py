"""What is told of a fit that most answers do not exist for: with a prior, or of a network."""

from dataclasses import dataclass
from typing import Any

import click

from tvdbayes import __version__
from tvdbayes.cli._answers import Answers
from tvdbayes.cli._text import heading, note, paragraph
from tvdbayes.cli._words import printable
from tvdbayes.fitting import Fit
from tvdbayes.sampling.options import Options

__all__ = ["Bare", "lacking", "told"]


def told(fit: Fit, notes: list[str], *, page: bool) -> "Answers | Bare":
    """All answers of a fit, or what there is; `page` is whether a report is made."""
    why = lacking(fit.options)
    return Bare(fit, (*notes, why)) if why else Answers.of(fit, notes, page=page)


def lacking(options: Options) -> str:
    """Why a fit with these options lacks answers; empty if it has all of them."""
    if options.network is not None:
        return (
            "A network has no coefficients, so there are no table and no report here. "
            "tvdbayes.load reads the file of the fit, for predictions and effects."
        )
    if options.base_measure is not None:
        return (
            "The mass of a prior is no row, so the unexplained share, suspicious rows and the "
            "report are not available."
        )
    return ""


@dataclass(frozen=True, eq=False)
class Bare:
    """A fit and what was noted."""

    fit: Fit
    notes: tuple[str, ...]
    story: None = None

    def show(self) -> None:
        """Print for a reader."""
        click.echo(heading(printable(self.fit.formula)))
        click.echo(paragraph(repr(self.fit.posterior)))
        if self.fit.options.network is None:
            click.echo(f"\n{self.fit.summary()}")
        click.echo()
        for text in self.notes:
            click.echo(note(text))

    def to_json(self) -> dict[str, Any]:
        """The same for a machine."""
        posterior = self.fit.posterior
        return {
            "tvdbayes": __version__,
            "formula": self.fit.formula,
            "family": posterior.model.family.name,
            "n_rows": self.fit.n_rows,
            "n_draws": posterior.n_draws,
            "seed": posterior.seed,
            "parameters": list(self.fit.param_names),
            "estimate": self.fit.estimate.tolist(),
            "warnings": list(self.notes),
        }
