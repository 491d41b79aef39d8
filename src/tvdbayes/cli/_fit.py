"""``tvdbayes fit``: from what a user asks for to answers and a folder of results."""

import sys
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext, redirect_stderr
from dataclasses import dataclass, field, replace
from io import StringIO
from pathlib import Path
from typing import Any, Self

import click

from tvdbayes._errors import Interrupted, TVDBayesWarning
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
from tvdbayes.data.frames import read_stream
from tvdbayes.data.sources import open_data, open_source
from tvdbayes.data.table import AbstractSource
from tvdbayes.fitting import Fit
from tvdbayes.fitting.predictions import new_cells
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
        Without a prior.
    prior : (float, str), optional
        How many rows it counts for, and the file of rows that it expects to see.
    """

    data: str
    formula: str
    sep: str = ","
    options: Options = field(default_factory=Options)
    prior: tuple[float, str] | None = None

    @classmethod
    def of(cls, data: str, formula: str, sep: str, **given: Any) -> Self:
        """A request from the values of flags, where files stand by their names."""
        resume, base = given.pop("resume", None), given.pop("base_measure", None)
        prior = None if base is None else (given.pop("alpha"), base)
        if resume is not None:
            resume = load_fit(Path(resume))
        return cls(data, formula, sep, Options(resume=resume, **given), prior)

    def open(self) -> AbstractSource:
        """The table in the file or files, or what another program writes."""
        o = self.options
        piped = self.data == STANDARD_INPUT
        data = read_stream(sys.stdin.buffer, self.sep) if piped else self.data
        return open_source(data, engine=o.engine, grid=o.grid, max_cells=o.max_cells, sep=self.sep)

    def options_for(self, source: AbstractSource) -> Options:
        """The options, with the rows of a prior encoded as those of the table."""
        if self.prior is None:
            return self.options
        alpha, path = self.prior
        with warnings.catch_warnings(action="ignore", category=TVDBayesWarning):
            plain = replace(self.options, n_draws=0, resume=None, progress=False)
            without = fit_with(self.formula, source, plain, Fit)
        base = new_cells(without, open_data(path))
        return replace(self.options, alpha=alpha, base_measure=base)

    def fit(self, source: AbstractSource) -> Fit:
        """Fit the model to the table."""
        return fit_with(self.formula, source, self.options_for(source), Fit)


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
        answers.show(ratios=ratios)
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
