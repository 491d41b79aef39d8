"""What the page says, gathered from a fit as plain text and numbers."""

import platform
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import scipy

from tvdbayes import __version__
from tvdbayes._errors import DataError
from tvdbayes._typing import Array, BoolArray
from tvdbayes.report._call import call_of, name_of
from tvdbayes.report._pictures import (
    Picture,
    draw_calibration,
    draw_coefficients,
    draw_misfit,
    draw_rootogram,
)
from tvdbayes.report._reportable import DataLike, FindingLike, Reportable
from tvdbayes.report._words import count, listed, number, span
from tvdbayes.results.checks import calibration, rootogram
from tvdbayes.results.effects import Effect
from tvdbayes.results.misfit import Misfit
from tvdbayes.results.rows import SCORES
from tvdbayes.sampling.posterior import Posterior
from tvdbayes.sampling.rows_used import rows_used
from tvdbayes.sampling.rules import FALSE_ALARM, differing
from tvdbayes.sampling.summary import Summary

__all__ = ["Page", "gather"]

_MOST_ROWS = 500
_MOST_VARIABLES, _MOST_LEVELS = 12, 12
_FEW_VALUES = 8
"""Values of a column of numbers up to which each has a prediction of its own."""

_MOST_WORK = 1e8
"""Means of rows, draw by draw, that predictions may take: about two seconds."""

_LEVELS = ("problem", "note", "good")
_DISTANCES = {
    "tvd": "the total variation distance",
    "hellinger": "the Hellinger distance",
    "power": "a power divergence",
    "density_power": "the density power divergence",
}


_SCORES: dict[str, Callable[[float], str]] = {
    "score": "{:.2f}".format,
    "probability": "{:.2f}".format,
    "observed": number,
    "expected": number,
    "surprise": "{:.1f}".format,
    "kept": "{:.2f}".format,
}
"""What is shown of each row's scores, and how."""


@dataclass(frozen=True)
class Estimate:
    """A number and its interval, which is empty where there are too few draws for one."""

    mean: str
    interval: str = ""


@dataclass(frozen=True)
class Line:
    """One quantity by both fits.

    ``differs`` says that the fits differ by more than chance (`rules.differing`), ``robust_sign``
    and ``ordinary_sign`` on which side of 0 (1, -1) an interval lies, or 0 if it holds 0.
    """

    name: str
    robust: Estimate
    ordinary: Estimate
    difference: Estimate
    direction: str = ""
    differs: bool = False
    robust_sign: int = 0
    ordinary_sign: int = 0

    @property
    def intercept(self) -> bool:
        """Whether it is an intercept, of which no one draws conclusions."""
        return self.name.rsplit(":", 1)[-1] == "Intercept"


@dataclass(frozen=True)
class Cell:
    """Text of a table, and the number that it is sorted by where the text is not that number."""

    text: str
    value: str = ""


@dataclass(frozen=True)
class RowTable:
    """Distinct rows of the data, the most suspicious first.

    ``n_lines`` counts distinct rows, listed or not; ``n_known`` and ``n_flagged`` count all rows.
    """

    headings: tuple[str, ...]
    numeric: tuple[bool, ...]
    lines: tuple[tuple[Cell, ...], ...]
    n_lines: int
    n_known: int
    n_flagged: int
    note: str

    @property
    def shown(self) -> str:
        """How many of how many are there."""
        equal = "Equal rows are in one line, and count says how many they are."
        if len(self.lines) == self.n_lines:
            return f"All {count(self.n_known, 'row')} of the fit are listed. {equal}"
        return (
            f"Of {self.n_lines:,} different rows the {len(self.lines):,} most suspicious are "
            f"listed. {equal}"
        )


@dataclass(frozen=True)
class Predictions:
    """Average predictions and slopes, and what is not among them."""

    quantity: str
    averages: tuple[Line, ...]
    slopes: tuple[Line, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Page:
    """All that the page shows."""

    title: str
    formula: str
    question: str
    how: str
    compares: bool
    robust: str
    trimmed: bool
    answers: tuple[str, ...]
    figures: tuple[tuple[str, str], ...]
    facts: tuple[tuple[str, str], ...]
    coefficients: tuple[Line, ...]
    coefficients_picture: Picture | None
    misfit: Misfit | None
    misfit_picture: Picture | None
    outcome: str
    rootogram: Picture
    calibration: Picture | None
    rows: RowTable
    predictions: Predictions
    findings: tuple[FindingLike, ...]
    command: str
    command_note: str
    versions: tuple[tuple[str, str], ...]
    version: str
    n_draws: int
    seed: int


def gather(fit: Reportable, *, title: str | None, command: str | None) -> Page:
    """Ask a fit all that the page shows."""
    posterior, data = fit.posterior, fit.data
    outcome, columns = data.outcome, _covariates(data, fit.formula)
    table = posterior.summary() if posterior.n_draws > 1 else None
    lines = _lines(
        posterior.param_names,
        table,
        posterior.estimate,
        posterior.kld_minimiser,
        differing(posterior.draws, posterior.kld_draws),
    )
    misfit = fit.misfit() if table else None
    rows = _rows(fit)
    # What needs attention comes first.
    findings = sorted(fit.check().findings, key=lambda f: _LEVELS.index(f.level))
    compares = posterior.divergence.name != "kld"
    call = call_of(fit)
    return Page(
        title=title or fit.formula,
        formula=fit.formula,
        question=f"How does {outcome} depend on {listed(columns, 12)}?"
        if columns
        else f"How are the values of {outcome} distributed?",
        how=_how(posterior),
        compares=compares,
        robust=_robust(posterior) if compares else "ordinary",
        trimmed=posterior.refine == "trim",
        answers=tuple(
            _answers(
                misfit, lines if table and compares else (), rows, findings, _caveat(posterior)
            )
        ),
        figures=tuple(_figures(misfit, lines if table and compares else (), rows)),
        facts=tuple(_facts(fit, outcome)),
        coefficients=lines,
        coefficients_picture=None
        if table is None or not compares
        else draw_coefficients(posterior.param_names, posterior.draws, posterior.kld_draws, table),
        misfit=misfit,
        misfit_picture=None if misfit is None else draw_misfit(misfit),
        outcome=outcome,
        rootogram=_rootogram(posterior, outcome),
        calibration=_calibration(posterior, outcome),
        rows=rows,
        predictions=_predictions(fit, outcome, columns),
        findings=tuple(findings),
        command=command or call.text,
        command_note="This report was made by the command" if command else call.note,
        versions=(
            ("tvdbayes", __version__),
            ("Python", platform.python_version()),
            ("NumPy", np.__version__),
            ("SciPy", scipy.__version__),
            ("pandas", pd.__version__),
        ),
        version=__version__,
        n_draws=posterior.n_draws,
        seed=posterior.seed,
    )


def _covariates(data: DataLike, formula: str) -> list[str]:
    """Columns of the formulas, in the order in which the main one names them."""
    others = {data.outcome, data.offset, data.exposure, data.trials}
    names = [name for name in data.columns if name not in others]
    return sorted(names, key=lambda name: (name not in formula, formula.find(name)))


def _robust(posterior: Posterior) -> str:
    """The robust fit in the head of the table."""
    name = posterior.divergence.name.upper().replace("_", " ")
    return "robust (trimmed)" if posterior.refine == "trim" else f"robust ({name})"


def _how(posterior: Posterior) -> str:
    """The model and how it was fitted, in words."""
    name, rows = posterior.divergence.name, count(posterior.cells.n_obs, "row")
    model = f"The outcome is modelled as {name_of(posterior.model.family)}, from {rows}."
    if name == "kld":
        return f"{model} The fit is by maximum likelihood."
    if posterior.refine == "trim":
        return (
            f"{model} The robust fit drops the rows that the model cannot explain and fits the "
            "others by maximum likelihood, so that wrong rows do not drive it; beside it stands "
            "the ordinary fit, by maximum likelihood to all rows."
        )
    return (
        f"{model} The robust fit minimises {_DISTANCES.get(name, name)} to the data, so that wrong "
        "rows do not drive it; beside it stands the ordinary fit by maximum likelihood."
    )


def _lines(
    names: tuple[str, ...],
    table: Summary | None,
    robust: Array,
    ordinary: Array,
    apart: BoolArray,
) -> tuple[Line, ...]:
    """Both fits and their difference; without a table the bare numbers."""
    if table is None:
        return tuple(
            Line(name, Estimate(number(a)), Estimate(number(b)), Estimate(number(a - b)))
            for name, a, b in zip(names, robust, ordinary, strict=True)
        )

    def part(j: int, mean: str, ends: str) -> tuple[Estimate, int]:
        low, high = table[f"{ends}low"][j], table[f"{ends}high"][j]
        return Estimate(number(table[mean][j]), span(low, high)), int(low > 0) - int(high < 0)

    made = []
    for j, name in enumerate(names):
        (one, sign), (other, other_sign), (gap, _) = (
            part(j, *keys) for keys in (("mean", ""), ("kld_mean", "kld_"), ("diff", "diff_"))
        )
        direction = f"{table['direction'][j]:.1%}"
        made.append(Line(name, one, other, gap, direction, bool(apart[j]), sign, other_sign))
    return tuple(made)


def _answers(
    misfit: Misfit | None,
    lines: tuple[Line, ...],
    rows: RowTable,
    findings: Sequence[FindingLike],
    caveat: str,
) -> Iterator[str]:
    """The answer in a few sentences, the most important first."""
    if misfit is None:
        yield "There are too few draws to say how sure this is: fit with n_draws=1000."
    elif misfit.lower > 0:
        yield (
            f"At least {misfit.lower:.1%} of the rows do not come from the fitted model. It leaves "
            f"{misfit.mean:.1%} of the data unexplained, where chance alone would leave "
            f"{misfit.floor:.1%}."
        )
    else:
        yield (
            f"The model leaves {misfit.mean:.1%} of the data unexplained, no more than chance "
            f"alone may leave ({misfit.floor:.1%}, up to {misfit.floor_high:.1%})."
        )
    if lines:
        yield from _comparison(lines, caveat)
    if rows.n_flagged:
        verb = "stands" if rows.n_flagged == 1 else "stand"
        still = "" if misfit is None or misfit.lower > 0 else "Even so, "
        yield (
            f"{still}{rows.n_flagged:,} of {count(rows.n_known, 'row')} {verb} out by more than "
            "chance: see the first lines of the table of rows."
        )
    problems = sum(finding.level == "problem" for finding in findings)
    if problems:
        yield (
            f"{count(problems, 'diagnostic points', 'diagnostics point')} to a problem: see them "
            "before you use this fit."
        )


def _caveat(posterior: Posterior) -> str:
    used = rows_used(posterior)
    return used.caveat if used else ""


def _comparison(lines: tuple[Line, ...], caveat: str) -> Iterator[str]:
    """Whether it matters which of the two fits one believes."""
    apart = [line for line in lines if line.differs]
    if not apart:
        yield (
            "Robust and ordinary coefficients agree: they do not differ by more than chance "
            f"({FALSE_ALARM:.0%} level, all coefficients together). {caveat}".strip()
        )
        return
    yield (
        f"The robust and the ordinary fit differ in {listed([line.name for line in apart])} "
        f"({FALSE_ALARM:.0%} level, all coefficients together)."
    )
    changed = [line for line in lines if _turn(line)]
    surely = [f"{line.name} ({_turn(line)})" for line in changed if line.differs]
    perhaps = [f"{line.name} ({_turn(line)})" for line in changed if not line.differs]
    if surely:
        yield f"It matters which one you believe: conclusions change for {listed(surely)}."
    elif any(not line.intercept for line in apart):
        yield (
            "Sizes change, directions do not: each of these is on the same side of 0 by both fits, "
            "or open by both."
        )
    if perhaps:
        yield (
            f"How sure one can be changes for {listed(perhaps)}; there the fits themselves do not "
            "differ by more than chance."
        )


def _turn(line: Line) -> str:
    """How the conclusion about a coefficient changes from the ordinary to the robust fit."""
    if line.intercept or line.robust_sign == line.ordinary_sign:
        return ""
    said = {1: "above 0", -1: "below 0", 0: "open"}
    return f"ordinary {said[line.ordinary_sign]}, robust {said[line.robust_sign]}"


def _figures(
    misfit: Misfit | None, lines: tuple[Line, ...], rows: RowTable
) -> Iterator[tuple[str, str]]:
    """The key numbers with what they count."""
    if misfit is not None:
        yield (
            (f"{misfit.lower:.1%} or more", "of the rows do not come from the fitted model")
            if misfit.lower > 0
            else (f"{misfit.mean:.1%}", "is unexplained, no more than chance may leave")
        )
    if lines:
        n = sum(line.differs for line in lines)
        yield f"{n} of {len(lines)}", "coefficients differ between robust and ordinary"
    yield f"{rows.n_flagged:,} of {rows.n_known:,}", "rows stand out by more than chance"


def _facts(fit: Reportable, outcome: str) -> Iterator[tuple[str, str]]:
    """The data and the settings, one by one."""
    posterior, data = fit.posterior, fit.data
    cells, family = posterior.cells, posterior.model.family
    n_lines, n_out = len(fit.cell_of_row), fit.n_left_out
    out = f", of which {n_out:,} were left out (gaps or weight zero)" if n_out else ""
    grouped = "" if fit.n_rows == n_lines else f", equal ones put together: {n_lines:,} lines"
    yield "Rows", f"{fit.n_rows:,}{grouped}{out}"
    if fit.rounded is not None:
        yield "Rounding", str(fit.rounded)
    if data.weights is not None:
        yield "Weights", f"{data.weights}, in all {cells.n_obs:,.12g}"
    yield "Outcome", f"{outcome}: {_spread(cells.y, cells.counts, family.levels)}"
    uses = (("Offset", data.offset), ("Exposure", data.exposure), ("Trials", data.trials))
    yield from ((what, str(name)) for what, name in uses if name is not None)
    yield (
        "Table",
        f"{count(cells.n_x, 'distinct row')} of covariates and {count(cells.n_cells, 'cell')} "
        "(covariates with an outcome)",
    )
    if posterior.divergence.on_groups:
        groups = posterior.groups
        yield "Compared by", groups.made if posterior.refine == "trim" else str(groups)
        if posterior.bins is not None:
            yield "Bins of counts", str(posterior.bins)
    if fit.left_out:
        yield "Columns left out", f"{listed(fit.left_out, 20)}: others already determine them"
    yield "Family", repr(family)
    if posterior.prior is not None:
        yield "Prior", f"Dirichlet process that counts for {posterior.prior.alpha:g} rows"
    if posterior.refine is not None:
        yield "Refined by", posterior.refine
    if (used := rows_used(posterior)) is not None:
        yield "Rows used", str(used)
    yield "Posterior draws", f"{posterior.n_draws:,}, from the seed {posterior.seed}"


def _spread(y: Array, counts: Array, levels: tuple[str, ...]) -> str:
    """What outcomes there are."""
    if levels:
        rows = np.bincount(y.astype(int), counts, len(levels))
        return listed([f"{name} ({n:,.12g})" for name, n in zip(levels, rows, strict=True)], 10)
    mean, zeros = float(y @ counts / counts.sum()), float(counts[y == 0].sum() / counts.sum())
    return f"{span(y.min(), y.max())}, mean {number(mean)}, {zeros:.0%} zeros"


def _rootogram(posterior: Posterior, outcome: str) -> Picture:
    robust = rootogram(posterior)
    return draw_rootogram(robust, rootogram(posterior.twin, like=robust), outcome)


def _calibration(posterior: Posterior, outcome: str) -> Picture | None:
    """None without covariates, where there is but one prediction."""
    family = posterior.model.family
    robust, ordinary = calibration(posterior), calibration(posterior.twin)
    if len(robust.counts) < 2:
        return None
    what = f"share of {outcome}" if family.needs_trials else f"mean {outcome}"
    if not family.counts:
        level = f" {family.levels[-1]}" if family.levels else " 1"
        what = f"probability of {outcome} ={level}"
    dropped = bool(ordinary.counts.sum() - robust.counts.sum() > 0.5)
    return draw_calibration(robust, ordinary, what, dropped=dropped)


def _rows(fit: Reportable) -> RowTable:
    """Distinct rows in the order of `Fit.suspicious_rows`."""
    frame = fit.suspicious_rows()
    kept = frame.iloc[:_MOST_ROWS]
    own = [name for name in frame.columns if name not in (*SCORES, "flag", "count")]
    scored = [name for name in _SCORES if name in frame]
    texts = [
        [Cell(str(i)) for i in kept.index],
        [Cell("flagged", "1") if flag else Cell("", "0") for flag in kept["flag"]],
        [Cell(number(n) if n % 1 else f"{n:,.0f}", f"{n:.12g}") for n in kept["count"]],
        *(_column(kept[name]) for name in own),
        *([Cell(_SCORES[name](v), f"{v:.6g}") for v in kept[name]] for name in scored),
    ]
    is_number = [frame[name].dtype.kind in "iuf" for name in own]
    return RowTable(
        ("row", "flag", "count", *map(str, own), *scored),
        (True, True, True, *is_number, *(True for _ in scored)),
        tuple(zip(*texts, strict=True)),
        len(frame),
        int(frame["count"].sum()),
        int(frame.loc[frame["flag"], "count"].sum()),
        str(frame.attrs["note"]),
    )


def _column(values: "pd.Series[Any]") -> list[Cell]:
    if values.dtype.kind == "f":
        return [Cell(f"{v:.6g}", repr(float(v))) for v in values]
    return [Cell(str(v)) for v in values]


def _predictions(fit: Reportable, outcome: str, columns: list[str]) -> Predictions:
    """Averages over the data, a column set to each of its values, and slopes in numbers."""
    posterior, levels = fit.posterior, fit.posterior.model.family.levels
    quantity = f"probability of {outcome}" if levels else f"expected {outcome}"
    if posterior.model.family.binary and not levels:
        quantity = f"probability of {outcome} = 1"
    each = posterior.cells.n_x * (2 * posterior.n_draws + 2) * max(1, len(levels))
    averages, slopes = [*_effect_lines(fit.predictions())], list[Line]()
    notes, skipped, left = list[str](), list[str](), _MOST_WORK
    for name in columns:
        column = fit.data.columns[name]
        is_factor = bool(column.choices) or _is_factor(name, fit.formula)
        values = list(column.choices) or np.unique(column.values).tolist()
        if not is_factor and len(values) > _FEW_VALUES:
            values = []
        left -= each * max(1, len(values))
        if name in columns[_MOST_VARIABLES:] or len(values) > _MOST_LEVELS or left < 0:
            skipped.append(name)
            continue
        try:
            if values:
                averages += _effect_lines(fit.predictions({name: values}))
            if not is_factor:
                slopes += _effect_lines(fit.effects(name))
        except DataError as error:
            # A slope need not exist, as that of log(x) at 0: the page says so.
            notes.append(f"{name}: {error}")
    if skipped:
        notes.append(
            f"Not shown here, for time and room: {listed(skipped)}. Ask fit.predictions or "
            "fit.effects for them."
        )
    return Predictions(quantity, tuple(averages), tuple(slopes), tuple(notes))


def _effect_lines(effect: Effect) -> tuple[Line, ...]:
    table = effect.summary() if len(effect.draws) > 1 else None
    apart = differing(effect.draws, effect.kld_draws)
    return _lines(effect.names, table, effect.minimiser, effect.kld_minimiser, apart)


def _is_factor(name: str, formula: str) -> bool:
    """Whether the formula takes a column of numbers as categories."""
    return re.search(rf"\bC\(\s*`?{re.escape(name)}`?\s*[,)]", formula) is not None
