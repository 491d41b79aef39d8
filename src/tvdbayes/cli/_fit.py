"""``tvdbayes fit``: from a file to answers and a folder of results."""

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext, redirect_stderr
from io import StringIO
from pathlib import Path

import click

from tvdbayes._errors import Interrupted
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
from tvdbayes.data.sources import AbstractSource

__all__ = ["answer", "run_fit", "write"]


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
        answers = answer(request, source, quiet)
        if staged is not None:
            files = write(answers, source, staged, draws_format, command)
    places = [] if out is None else [str(out / name) for name in files]
    if as_json:
        click.echo(json.dumps({**answers.to_json(), "files": places}, indent=2, allow_nan=False))
    elif not quiet:
        answers.show()
        if out is not None:
            click.echo(f"\n{paragraph(f'Written to {out}: ' + ', '.join(files) + '.', '  ')}")


def answer(request: Request, source: AbstractSource, quiet: bool) -> Answers:
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
        raise Interrupted(
            f"Stopped after {done} of {request.options.n_draws} draws;", None
        ) from stop


@contextmanager
def _unwatched() -> Iterator[None]:
    """Show no progress: bars are for terminals, and what is said goes through a buffer here."""
    said = StringIO()
    try:
        with redirect_stderr(said):
            yield
    finally:
        click.echo(said.getvalue(), err=True, nl=False)


def write(
    answers: Answers, source: AbstractSource, folder: Path, form: DrawsFormat, command: str
) -> list[str]:
    from tvdbayes.report import write_report

    answers.fit.save(folder / "fit.tvd")
    draws = write_draws(answers.fit, folder, form)
    write_csv(rows_table(source.whole(), answers.rows), folder / "rows.csv")
    write_report(answers.fit, folder / "report.html", command=command)
    return ["fit.tvd", draws, "rows.csv", "report.html"]
