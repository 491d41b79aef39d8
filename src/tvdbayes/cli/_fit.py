"""``tvdbayes fit``: from what a user asks for to answers and a folder of results."""

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext, redirect_stderr
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from typing import Any, Self

import click

from tvdbayes._errors import Interrupted
from tvdbayes.cli._answers import (
    Answers,
    DrawsFormat,
    require_writer,
    rows_table,
    whole_folder,
    write_csv,
    write_draws,
)
from tvdbayes.cli._commands import noted
from tvdbayes.cli._stored import load_fit
from tvdbayes.cli._text import echo_json, paragraph
from tvdbayes.data.files import read_stream
from tvdbayes.data.sources import open_source
from tvdbayes.data.table import AbstractSource
from tvdbayes.fitting import Fit
from tvdbayes.fitting.run import fit_with
from tvdbayes.report import render
from tvdbayes.sampling.options import Options

STANDARD_INPUT = "-"
"""The data that another program writes, as in ``cat visits.csv | tvdbayes fit - ...``."""


@dataclass(frozen=True)
class Request:
    """Data, a formula, and the options of a fit.

    Parameters
    ----------
    data, formula : str
    sep : str
        What separates the values of a CSV file.
    options : Options
    """

    data: str
    formula: str
    sep: str = ","
    options: Options = field(default_factory=Options)

    @classmethod
    def of(cls, data: str, formula: str, sep: str, **given: Any) -> Self:
        """A request from the values of flags, where files stand by their names."""
        resume = given.pop("resume", None)
        if resume is not None:
            resume = load_fit(Path(resume))
        return cls(data, formula, sep, Options(resume=resume, **given))

    def open(self) -> AbstractSource:
        """The table in the file or files, or what another program writes."""
        o = self.options
        piped = self.data == STANDARD_INPUT
        data = read_stream(sys.stdin.buffer, self.sep) if piped else self.data
        return open_source(data, engine=o.engine, grid=o.grid, max_cells=o.max_cells, sep=self.sep)

    def fit(self, source: AbstractSource) -> Fit:
        """Fit the model to the table."""
        return fit_with(self.formula, source, self.options, Fit)


def run_fit(
    command: str,
    *,
    out: Path | None,
    draws_format: DrawsFormat,
    as_json: bool,
    quiet: bool,
    ratios: bool = False,
    **model: Any,
) -> None:
    """Fit, write the files, then print."""
    request = Request.of(**model)
    require_writer(draws_format)
    files: list[str] = []
    with ExitStack() as stack:
        # The folder is made first: one that cannot be made is an error before the fit.
        staged = None if out is None else stack.enter_context(whole_folder(out))
        source = request.open()
        answers = answer(request, source, quiet=quiet, page=out is not None)
        if staged is not None:
            files = write(answers, source, staged, draws_format, command)
    places = [] if out is None else [str(out / name) for name in files]
    if as_json:
        echo_json({**answers.to_json(), "files": places})
    elif not quiet:
        answers.show(ratios=ratios)
        if out is not None:
            click.echo(f"\n{paragraph(f'Written to {out}: ' + ', '.join(files) + '.', '  ')}")


def answer(request: Request, source: AbstractSource, *, quiet: bool, page: bool) -> Answers:
    """The fit and its story; an interruption says how many draws were done."""
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
    """Show no progress bars, and buffer the output."""
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
    # Single weights of a network have no meaning of their own.
    if fit.options.network is None:
        files.append(write_draws(fit, folder, form))
    if story is None:
        return files
    write_csv(rows_table(source.whole(), story.rows), folder / "rows.csv")
    (folder / "report.html").write_bytes(render(story, command=command).encode())
    return [*files, "rows.csv", "report.html"]
