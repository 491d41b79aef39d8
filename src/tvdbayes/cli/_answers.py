"""What a fit says, for people and for machines: printed, as JSON, and in files written whole."""

import csv
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

import click
import numpy as np
import pandas as pd

from tvdbayes import __version__
from tvdbayes._errors import SettingsError, StorageError
from tvdbayes._typing import BoolArray
from tvdbayes.cli._commands import noted, plain, printable
from tvdbayes.cli._text import Column, echo_notes, heading, paragraph, table
from tvdbayes.data.sources import harmless
from tvdbayes.fitting import Fit
from tvdbayes.fitting.story import story_of
from tvdbayes.report import INTERVAL, Story, expected_rows
from tvdbayes.results.rows import SCORES
from tvdbayes.results.tree import to_tree
from tvdbayes.sampling.options import Options
from tvdbayes.sampling.statements import headline, how_it_went, sampled
from tvdbayes.sampling.summary import Summary, number
from tvdbayes.sampling.tables import AbstractTable

_SHOWN = 10
_MISFIT = (
    *("mean", "low", "high", "floor", "floor_high", "lower"),
    *("wrong", "wrong_low", "wrong_high"),
)
_USED = ("rows used", "far rows")
_SAID_ELSEWHERE = ("search", "likelihood search", "groups", "likelihood fit", "misfit", *_USED)
"""Findings of a check that the warnings of a fit, the table or the unexplained share tell too."""


@dataclass(frozen=True, eq=False)
class Answers:
    """The story of a fit and its warnings; no story where the fit lacks answers."""

    fit: Fit
    story: Story | None
    notes: tuple[str, ...]

    @classmethod
    def of(cls, fit: Fit, notes: list[str], *, page: bool) -> "Answers":
        """Ask the fit; `notes` are what it has warned of so far, `page` is whether one is made."""
        if why := lacking(fit.options):
            return cls(fit, None, (*notes, why))
        with noted() as more:
            story = story_of(fit, averages=page)
        found = [
            plain(finding.text)
            for finding in story.findings
            if finding.level != "good" and finding.about not in _SAID_ELSEWHERE
        ]
        return cls(fit, story, tuple(dict.fromkeys([*notes, *more, *found])))

    def show(self, *, ratios: bool = False) -> None:
        """Print for a reader; coefficients as ratios where asked for and where there are any."""
        click.echo(heading(printable(self.fit.formula)))
        notes = self.notes
        if ratios and (self.story is None or self.story.ratios is None):
            notes, ratios = (*notes, _no_ratios(self.fit)), False
        parts = _bare(self.fit) if self.story is None else _told(self.story, ratios=ratios)
        click.echo("\n\n".join(parts))
        if notes:
            click.echo()
        echo_notes(notes)

    def to_json(self) -> dict[str, Any]:
        """The same for a machine; rows count from 0, as everywhere."""
        posterior = self.fit.posterior
        names, estimate = list(self.fit.param_names), self.fit.estimate.tolist()
        bare = {"parameters": names, "estimate": estimate}
        return {
            "tvdbayes": __version__,
            "formula": self.fit.formula,
            "family": posterior.model.family.name,
            "n_rows": self.fit.n_rows,
            "n_draws": posterior.n_draws,
            "seed": posterior.seed,
            **(bare if self.story is None else _facts(self.story)),
            "warnings": list(self.notes),
        }


def lacking(options: Options) -> str:
    """Why a fit with these options lacks answers; empty if it has all of them."""
    if options.network is not None:
        return (
            "A network has no coefficients, so there are no table and no report here. "
            "The file of the fit keeps its predictions and effects."
        )
    return ""


def _bare(fit: Fit) -> list[str]:
    """Output for a fit that lacks answers."""
    said = paragraph(repr(fit.posterior))
    return [said] if fit.options.network is not None else [said, str(fit.summary())]


def _no_ratios(fit: Fit) -> str:
    """Why there is no table of ratios."""
    family = fit.posterior.model.family
    if fit.posterior.n_draws < 2:
        return "There are too few draws for a table of ratios."
    link = f" and the {family.link_name} link" if family.link_name else ""
    return (
        f"There is no table of ratios: exp of a coefficient of {family.name}{link} is not a ratio."
    )


def _told(story: Story, *, ratios: bool) -> list[str]:
    """Output for any other fit."""
    posterior = story.fit.posterior
    more = f"; {story.fit.n_left_out:,} more left out" if story.fit.n_left_out else ""
    parts = [paragraph(f"{headline(posterior)}{more}; {how_it_went(posterior)}")]
    if ratios and story.ratios is not None:
        parts.append(_ratios(story, story.ratios))
    elif story.summary is not None:
        parts.append(_coefficients(story, story.summary))
    if said := sampled(posterior):
        parts.append(paragraph(plain(said)))
    if story.rows_used is not None:
        parts.append(f"{heading('Rows used')}\n{paragraph(plain(story.rows_used))}")
    if story.misfit is not None:
        parts.append(f"{heading('Unexplained')}\n{paragraph(str(story.misfit))}")
    return [*parts, _suspects(story)]


def _facts(story: Story) -> dict[str, Any]:
    posterior, summary = story.fit.posterior, story.summary
    return {
        "divergence": posterior.divergence.name,
        "refine": posterior.refine,
        "n_cells": posterior.cells.n_cells,
        "random_weights": sampled(posterior) or None,
        "rows_used": None if story.rows_used is None else plain(story.rows_used),
        "rounding": None if story.fit.rounded is None else str(story.fit.rounded),
        "n_left_out": story.fit.n_left_out,
        "n_unexposed": story.fit.data.n_unexposed,
        "interval": INTERVAL,
        "coefficients": [] if summary is None else lines_of(summary, "name"),
        "ratios": [] if story.ratios is None else lines_of(story.ratios, "name"),
        "misfit": {name: finite(getattr(story.misfit, name, None)) for name in _MISFIT},
        "flagged_rows": _flagged_rows(story),
    }


def _coefficients(story: Story, summary: Summary) -> str:
    keys = {
        "robust": ("mean", ""),
        "likelihood": ("kld_mean", "kld_"),
        "difference": ("diff", "diff_"),
    }
    mark = "* " if story.differs.any() else ""
    said = paragraph(mark + plain(story.comparison), "  ")
    return f"{_both_fits(summary, keys, story.differs)}\n{said}"


def _ratios(story: Story, ratios: Summary) -> str:
    keys = {
        f"{ratios.ratio}: robust": ("ratio", ""),
        "likelihood": ("kld_ratio", "kld_"),
        "robust / likelihood": ("quotient", "quotient_"),
    }
    differs = story.differs[list(ratios.of_parameter)]
    about, mark = ratios.note.partition("\n")[0], "* " if differs.any() else ""
    said = paragraph(f"{mark}{plain(story.comparison)} {about}", "  ")
    return f"{_both_fits(ratios, keys, differs)}\n{said}"


def _both_fits(found: Summary, keys: dict[str, tuple[str, str]], differs: BoolArray) -> str:
    """Both fits side by side, and their difference where there is room."""

    def interval(ends: str) -> list[str]:
        low, high = f"{ends}low", f"{ends}high"
        return [f"[{found.text(low, i)}, {found.text(high, i)}]" for i in lines]

    lines, span = range(len(found.names)), f"{INTERVAL:.0%} interval"
    (robust, one), (ordinary, two), (between, gap) = (
        (
            Column(head, [found.text(mean, i) for i in lines], needed=head != last),
            Column(span, interval(ends), needed=head != last),
        )
        for last in [list(keys)[-1]]
        for head, (mean, ends) in keys.items()
    )
    marks = Column("", ["*" if apart else " " for apart in differs])
    names = Column("", found.names, left=True)
    return table([names, robust, one, ordinary, two, marks, between, gap], bold=True)


def lines_of(found: AbstractTable, called: str) -> list[dict[str, Any]]:
    """The lines of a table by name, for JSON."""
    return [
        {called: name, **{key: finite(column[i]) for key, column in found.columns.items()}}
        for i, name in enumerate(found.names)
    ]


def _suspects(story: Story) -> str:
    # Rows of which less than half is too much are no suspects.
    worst = story.suspicious[story.suspicious["surprise"] > 0].head(_SHOWN)
    if worst.empty:
        return f"{heading('Suspicious rows')}\nNone."
    columns = [
        Column("", ["*" if flag else " " for flag in worst["flag"]]),
        Column("row", [str(i) for i in worst.index]),
        Column("count", [number(v) for v in worst["count"]]),
        *(_data_column(name, worst[name], i == 0) for i, name in enumerate(story.columns)),
        Column("seen", [number(v) for v in worst["observed"]]),
        Column("expected", [expected_rows(v) for v in worst["expected"]]),
        Column("unexplained", [f"{v:.0%}" for v in worst["score"]], needed=False),
    ]
    told = f"{story.flagged}{' (*)' if story.n_flagged else ''}. {story.equal_rows} "
    if story.fit.data.n_grouped is None:
        told += "Row 0 is the first below the header. "
    told += "Seen and expected count rows with this outcome and the same or nearby covariates."
    if "kept" in worst:
        columns.append(Column("used", [f"{v:.0%}" for v in worst["kept"]], needed=False))
        told += " Used is the share of a row that the robust fit is made of."
    return "\n".join([heading("Most suspicious rows"), paragraph(told), table(columns)])


def _flagged_rows(story: Story) -> list[dict[str, Any]]:
    """Each line that stands out: its first row, its outcome and scores, and all rows in it."""
    flagged = story.suspicious[story.suspicious["flag"]]
    renamed = f"data: {story.outcome}"
    outcome = renamed if renamed in flagged else story.outcome
    own = [name for name in (outcome, "count", *SCORES) if name in flagged]
    rows = pd.Series(story.fit.data.row)
    members = rows[rows >= 0].groupby(rows, sort=False).groups.values()
    equal = {int(found[0]): [int(i) for i in found] for found in members}
    return [
        {"row": row, **{name: finite(flagged[name][row]) for name in own}, "rows": equal[row]}
        for row in flagged.index.tolist()
    ]


def finite(value: Any) -> Any:
    """A value that JSON can hold: NaN and infinity become null."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not np.isfinite(value):
        return None
    return value if isinstance(value, int | float | str | bool | None) else str(value)


def _data_column(name: str, values: "pd.Series", needed: bool) -> Column:
    numbers = values.dtype.kind in "iuf"
    cells = [str(v) if not numbers or v == int(v) else f"{v:.4g}" for v in values.tolist()]
    return Column(str(name), cells, left=not numbers, needed=needed)


DrawsFormat = Literal["csv", "parquet", "netcdf"]

_WRITERS: dict[DrawsFormat, tuple[str, tuple[str, ...], str]] = {
    "csv": (".csv", (), ""),
    "parquet": (".parquet", ("pyarrow",), "pip install pyarrow"),
    "netcdf": (".nc", ("xarray", "h5netcdf", "h5py"), "pip install 'tvdbayes[arviz]'"),
}
"""The ending of the file, the libraries that it needs, and how they are installed."""


@contextmanager
def whole_folder(target: Path) -> Iterator[Path]:
    """A folder to write into; its files move to the target when the block ends well.

    The target is made if it is not there, and is gone again if the block fails.
    """
    made = [folder for folder in (target, *target.parents) if not folder.exists()]
    try:
        target.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError) as error:
        raise StorageError(
            f"{str(target)!r} cannot be a folder: a file is in the way. Choose another."
        ) from error
    try:
        with TemporaryDirectory(prefix=".tvdbayes-", dir=target) as name:
            staged = Path(name)
            yield staged
            files = sorted(staged.iterdir())
            for file in files:
                if (target / file.name).is_dir():
                    raise StorageError(
                        f"{str(target / file.name)!r} is a folder where a file should be written. "
                        "Move it away, or choose another place."
                    )
            for file in files:
                os.replace(file, target / file.name)
    except BaseException:
        for folder in made:
            # Files that another program has put there are kept.
            with suppress(OSError):
                folder.rmdir()
        raise


def require_writer(form: DrawsFormat) -> None:
    """Raise before any work is done if the draws could not be written in the end."""
    _, needed, command = _WRITERS[form]
    lacking = [name for name in needed if find_spec(name) is None]
    if lacking:
        raise SettingsError(f"Draws as {form} need {' and '.join(lacking)}. Run: {command}")


def write_draws(fit: Fit, folder: Path, form: DrawsFormat) -> str:
    """Write the draws, and return the name of their file."""
    path = folder / f"draws{_WRITERS[form][0]}"
    if form == "csv":
        write_csv(draws_table(fit), path)
    elif form == "parquet":
        draws_table(fit).to_parquet(path, index=False)
    else:
        tree = to_tree(fit.posterior, by_row=False, attrs={"formula": fit.formula})
        tree.to_netcdf(path, engine="h5netcdf")
    return path.name


def draws_table(fit: Fit) -> pd.DataFrame:
    """One line for each draw: coefficients of both fits, distance and status.

    No covariate can clash with a name here: coefficients are prefixed.
    """
    both = {"robust": fit.draws, "likelihood": fit.kld_draws}
    coefficients = {
        f"{side}:{name}": column
        for side, draws in both.items()
        for name, column in zip(fit.param_names, draws.T, strict=True)
    }
    number = np.arange(len(fit.draws))
    return pd.DataFrame(
        {"draw": number, **coefficients, "distance": fit.distance, "status": fit.status}
    )


def rows_table(frame: pd.DataFrame | None, scores: pd.DataFrame) -> pd.DataFrame:
    """All columns of the data, used or not, with the scores of `Fit.rows`; rows count from 0.

    Where an engine has grouped the rows there is no such frame: lines are distinct rows then.
    """
    if frame is None:
        return scores
    scored = [name for name in (*SCORES, "flag") if name in scores]
    own = ("row", *SCORES, "flag")
    named = frame.rename(columns={name: f"data: {name}" for name in frame if name in own})
    number = pd.Series(np.arange(len(frame)), name="row")
    return pd.concat([number, named.reset_index(drop=True), scores[scored]], axis=1)


def write_csv(frame: pd.DataFrame, path: Path) -> None:
    """Write a table in which no text can be run as a formula by a spreadsheet.

    All text stands in quotes: a carriage return in it would begin a new line otherwise.
    """
    columns = {
        name: column if column.dtype.kind in "biuf" else column.astype(object).map(harmless)
        for name, column in frame.items()
    }
    pd.DataFrame(columns).rename(columns=harmless).to_csv(
        path, index=False, lineterminator="\n", quoting=csv.QUOTE_NONNUMERIC
    )
