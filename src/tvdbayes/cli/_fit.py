"""``tvdbayes fit``: from a file to answers and a folder of results."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext, redirect_stderr
from io import StringIO
from pathlib import Path
from typing import Any

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
from tvdbayes.cli._text import echo_json, paragraph
from tvdbayes.cli._words import noted
from tvdbayes.data.table import AbstractSource
from tvdbayes.report import render


def run_fit(
    command: str,
    *,
    out: Path | None,
    draws_format: DrawsFormat,
    as_json: bool,
    quiet: bool,
    **model: Any,
) -> None:
    """Fit, write, then print: nothing is said of files that are not there."""
    request = Request.of(**model)
    require_writer(draws_format)
    files: list[str] = []
    with ExitStack() as stack:
        # The folder is made first, so that nobody waits for a fit that cannot be written.
        staged = None if out is None else stack.enter_context(whole_folder(out))
        source = request.open()
        answers = answer(request, source, quiet=quiet, page=out is not None)
        if staged is not None:
            files = write(answers, source, staged, draws_format, command)
    places = [] if out is None else [str(out / name) for name in files]
    if as_json:
        echo_json({**answers.to_json(), "files": places})
    elif not quiet:
        answers.show()
        if out is not None:
            click.echo(f"\n{paragraph(f'Written to {out}: ' + ', '.join(files) + '.', '  ')}")


def answer(request: Request, source: AbstractSource, *, quiet: bool, page: bool) -> Answers:
    """The fit and what is told of it; an interruption says how many draws were done."""
    done = 0
    try:
        with _unwatched() if quiet else nullcontext():
            with noted() as notes:
                fit = request.fit(source)
            done = len(fit.draws)
            return Answers.of(fit, notes, page=page)
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
    """Write the files, and return their names; without a story there are no rows and no report."""
    fit, story = answers.fit, answers.story
    fit.save(folder / "fit.tvd")
    files = ["fit.tvd"]
    # The weights of networks mean nothing one by one.
    if fit.options.network is None:
        files.append(write_draws(fit, folder, form))
    if story is None:
        return files
    write_csv(rows_table(source.whole(), story.rows), folder / "rows.csv")
    (folder / "report.html").write_bytes(render(story, command=command).encode())
    return [*files, "rows.csv", "report.html"]
