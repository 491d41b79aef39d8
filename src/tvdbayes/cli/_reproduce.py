"""``tvdbayes reproduce``: an experiment of the paper by name, as published and corrected."""

import time
from pathlib import Path

import click

from tvdbayes import __version__
from tvdbayes.cli._answers import whole_folder
from tvdbayes.cli._text import Column, heading, in_words, paragraph, table
from tvdbayes.experiments import Report, experiment_named, reproduce, write_report
from tvdbayes.sampling.execution import progress_bar
from tvdbayes.sampling.summary import number

_WORDS = ("setting", "method", "criterion")
_COLUMNS = (*_WORDS, "median", "error", "published", "difference", "agrees")
_MOST = 40
"""Lines of the table that a terminal shows; the files have all."""


def run_reproduce(
    name: str,
    mode: str,
    *,
    quick: bool,
    out: Path,
    data: Path | None,
    jobs: int,
    device: str | None,
) -> None:
    """Run what has not been run yet, write the results of each mode, and print them."""
    experiment = experiment_named(name, data, device)
    for chosen in experiment.modes if mode == "both" else (mode,):
        started = time.monotonic()
        with progress_bar(None, f"{name}, {chosen}") as progress:
            report = reproduce(
                experiment,
                chosen,
                kept=out / name / "parts",
                quick=quick,
                n_jobs=jobs,
                progress=progress,
            )
        seconds = time.monotonic() - started
        about = {"experiment": name, "mode": chosen, "quick": quick, "tvdbayes": __version__}
        # What took minutes must not take the place of what took hours.
        folder = out / name / (f"{chosen}-quick" if quick else chosen)
        with whole_folder(folder) as staged:
            files = write_report(report, staged, about)
        _show(report, f"{name}, {chosen}{' (quick)' if quick else ''}")
        took = in_words(seconds).removeprefix("about ")
        click.echo(f"\n{paragraph(f'Took {took}. Written to {folder}: ' + ', '.join(files) + '.')}")


def _show(report: Report, title: str) -> None:
    """Medians beside the published ones where there are any, and the words."""
    click.echo(heading(title))
    lines = [line for line in report.table if "published" in line] or report.table
    if len(lines) <= _MOST:
        names = [name for name in _COLUMNS if any(name in line for line in lines)]
        cells = {name: [_cell(line.get(name)) for line in lines] for name in names}
        click.echo(table([Column(name, cells[name], name in _WORDS) for name in names]))
    if len(lines) < len(report.table) or len(lines) > _MOST:
        click.echo(f"All {len(report.table)} lines are in table.csv.")
    click.echo(f"\n{paragraph(report.text, '  ')}")


def _cell(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return number(value) if isinstance(value, float) else "" if value is None else str(value)
