"""``tvdbayes summary``, ``report`` and ``compare``: commands on saved fits."""

from pathlib import Path

import click

from tvdbayes._errors import SettingsError, StorageError
from tvdbayes.cli._answers import Answers, lines_of, whole_folder
from tvdbayes.cli._commands import noted, printable
from tvdbayes.cli._text import Column, echo_json, echo_notes, paragraph, table
from tvdbayes.fitting import Fit, compare, load
from tvdbayes.sampling.summary import number


def load_fit(path: Path) -> Fit:
    """The fit in a file."""
    found = load(path)
    if not isinstance(found, Fit):
        raise StorageError(
            f"{str(path)!r} holds draws without their formula. Save what fit returns, fit.save()."
        )
    return found


def run_summary(path: Path, *, ratios: bool, as_json: bool) -> None:
    """Print what `tvdbayes fit` has printed, from a file."""
    answers = Answers.of(load_fit(path), [], page=False)
    if as_json:
        echo_json(answers.to_json())
    else:
        answers.show(ratios=ratios)


def run_report(path: Path, out: Path | None, title: str | None) -> None:
    """Write the page, whole, and say where it is."""
    fit = load_fit(path)
    target = path.with_suffix(".html") if out is None else out
    if target.is_dir():
        raise StorageError(f"{str(target)!r} is a folder. Give the name of a file: --out FILE.")
    with whole_folder(target.parent) as staged:
        fit.report(staged / target.name, title=title)
    click.echo(f"Report: {target}")


def run_compare(fits: tuple[Path, ...], *, folds: int, draws: int, as_json: bool) -> None:
    """Score fits on rows that they have not seen, and print the best first."""
    if len(set(fits)) < len(fits):
        raise SettingsError("A file is named twice. Name each fit once.")
    short = [path.stem for path in fits]
    if len(set(short)) < len(short):
        short = [str(path) for path in fits]
    named = {name: load_fit(path) for name, path in zip(short, fits, strict=True)}
    with noted() as notes:
        found = compare(named, n_folds=folds, n_draws=draws)
    if as_json:
        echo_json({"fits": lines_of(found, "fit"), "warnings": notes})
        return
    behind = zip(found["log_diff"], found["log_error"], strict=True)
    shown = table(
        [
            Column("fit", found.names, left=True),
            Column("log score", [f"{v:.4f}" for v in found["log"]]),
            Column("behind (s.e.)", [f"{v:.4f} ({e:.4f})" if e else "" for v, e in behind]),
            Column("unexplained", [f"{v:.1%}" for v in found["unexplained"]]),
            Column("by chance", [f"{v:.1%}" for v in found["by_chance"]]),
            Column("ranked prob. score", [number(v) for v in found["rps"]], needed=False),
        ],
        bold=True,
    )
    click.echo(f"{shown}\n")
    for name, fit in named.items():
        family, by = fit.posterior.model.family.name, fit.posterior.divergence.name
        formula = " ".join(printable(fit.formula).split())
        click.echo(paragraph(f"{name}: {formula} ({family} by {by})", "  "))
    meaning = (
        f"Scores are of rows held out in {folds} folds: lower is better. Held-out rows may be "
        "wrong too, and a fit that follows wrong rows scores well on them: look at the "
        "unexplained share beside the score."
    )
    click.echo(f"\n{paragraph(meaning)}")
    echo_notes(notes)
