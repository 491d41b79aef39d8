"""The page of a fit: what it says, and one self-contained file of HTML.

The file loads nothing: pictures are in it, its script is a few lines that sort and filter a table,
and everything that comes from data is text.
"""

import base64
import hashlib
import platform
import re
from collections.abc import Iterator
from importlib.resources import files
from types import SimpleNamespace

import numpy as np
import pandas as pd
import scipy

from tvdbayes import __version__
from tvdbayes._typing import Array
from tvdbayes.data.cells import amount
from tvdbayes.data.fit_data import FitData
from tvdbayes.models.model import name_of
from tvdbayes.report._story import Averages, Story, call_of
from tvdbayes.report._tables import (
    Line,
    coefficient_lines,
    count,
    draw_calibration,
    draw_coefficients,
    draw_misfit,
    draw_rootogram,
    effect_lines,
    listed,
    number,
    ratio_lines,
    row_table,
    span,
)
from tvdbayes.sampling.posterior import Posterior
from tvdbayes.sampling.statements import sampled

_LEVELS = ("problem", "note", "good")
_DISTANCES = {
    "tvd": "the total variation distance",
    "hellinger": "the Hellinger distance",
    "power": "a power divergence",
    "density_power": "the density power divergence",
}
_COMPUTED_BY = {"c": "the compiled kernel", "numpy": "NumPy alone"}


_UNPRINTABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff\u202a-\u202e\u2066-\u2069]")
"""What no file of HTML may hold, and what turns the rest of a sentence around; names may."""


def render(story: Story, *, title: str | None = None, command: str | None = None) -> str:
    """The page of a fit, as text; the same fit gives the same page.

    Parameters
    ----------
    story : Story
    title : str, optional
        The heading; the formula unless given.
    command : str, optional
        The command line that made the fit; the call of `fit` unless given.
    """
    from jinja2 import Environment, StrictUndefined

    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["sha256"] = _sha256
    source = (files(__package__) / "page.html.jinja").read_text("utf-8")
    page = page_of(story, title=title, command=command)
    return _UNPRINTABLE.sub("\ufffd", environment.from_string(source).render(page=page))


def _sha256(script: str) -> str:
    """How a content security policy names the one script that may run."""
    return "sha256-" + base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


def page_of(story: Story, *, title: str | None, command: str | None) -> SimpleNamespace:
    """All texts and pictures of the page."""
    fit, posterior, outcome, table = story.fit, story.fit.posterior, story.outcome, story.summary
    lines, misfit, ratios = coefficient_lines(story), story.misfit, story.ratios
    compares = posterior.divergence.name != "kld"
    compared = lines if table is not None and compares else ()
    averages = story.averages or Averages("", (), (), ())
    call = call_of(fit)
    return SimpleNamespace(
        title=title or fit.formula,
        formula=fit.formula,
        question=_question(story),
        how=_how(posterior),
        compares=compares,
        robust=_robust(posterior) if compares else "likelihood",
        trimmed=posterior.refine == "trim",
        answers=tuple(_answers(story, compared)),
        figures=tuple(_figures(story, compared)),
        facts=tuple(_facts(story)),
        coefficients=lines,
        ratios=() if ratios is None else ratio_lines(ratios, story.differs),
        ratio="" if ratios is None else f"{ratios.ratio[:1].upper()}{ratios.ratio[1:]}",
        ratios_note="" if ratios is None else ratios.note.partition("\n")[0],
        coefficients_picture=None
        if table is None or not compares
        else draw_coefficients(posterior, table),
        misfit=misfit,
        misfit_picture=None if misfit is None else draw_misfit(misfit),
        outcome=outcome,
        rootogram=draw_rootogram(posterior, outcome),
        calibration=draw_calibration(posterior, outcome),
        rows=row_table(story),
        quantity=averages.quantity,
        averages=tuple(line for effect in averages.levels for line in effect_lines(effect)),
        slopes=tuple(line for effect in averages.slopes for line in effect_lines(effect)),
        averages_notes=averages.notes,
        # What needs attention comes first.
        findings=tuple(sorted(story.findings, key=lambda f: _LEVELS.index(f.level))),
        command=command or call.text,
        command_note="This report was made by the command" if command else call.note,
        versions=(
            ("tvdbayes", __version__),
            ("Python", platform.python_version()),
            ("NumPy", np.__version__),
            ("SciPy", scipy.__version__),
            ("pandas", pd.__version__),
            ("computed by", _COMPUTED_BY[posterior.kernel]),
        ),
        version=__version__,
        n_draws=posterior.n_draws,
        seed=posterior.seed,
    )


def covariates(data: FitData, formula: str) -> list[str]:
    """Columns of the formulas, in the order in which the main one names them."""
    others = {data.outcome, data.offset, data.exposure, data.trials, *data.sampling}
    names = [name for name in data.columns if name not in others]
    return sorted(names, key=lambda name: (name not in formula, formula.find(name)))


def _question(story: Story) -> str:
    columns = covariates(story.fit.data, story.fit.formula)
    if columns:
        return f"How does {story.outcome} depend on {listed(columns, 12)}?"
    return f"How are the values of {story.outcome} distributed?"


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
            "the likelihood fit, by maximum likelihood to all rows."
        )
    return (
        f"{model} The robust fit minimises {_DISTANCES.get(name, name)} to the data, so that wrong "
        "rows do not drive it; beside it stands the likelihood fit."
    )


def _answers(story: Story, lines: tuple[Line, ...]) -> Iterator[str]:
    """The answer in a few sentences, the most important first."""
    misfit = story.misfit
    if misfit is None:
        yield "There are too few draws to say how sure this is: fit with n_draws=1000."
    else:
        yield misfit.about_share
        if misfit.about_wrong_rows:
            yield misfit.about_wrong_rows
    if lines:
        yield story.comparison
        yield from _conclusions(lines)
    if story.n_flagged:
        still = "" if misfit is None or misfit.lower > 0 else "Even so, "
        yield f"{still}{story.flagged}: see the first lines of the table of rows."
    problems = sum(finding.level == "problem" for finding in story.findings)
    if problems:
        yield (
            f"{count(problems, 'diagnostic points', 'diagnostics point')} to a problem: see them "
            "before you use this fit."
        )


def _conclusions(lines: tuple[Line, ...]) -> Iterator[str]:
    """Whether it matters which of the two fits one believes."""
    apart = [line for line in lines if line.differs]
    if not apart:
        return
    changed = [line for line in lines if _turn(line)]
    surely = [f"{line.name} ({_turn(line)})" for line in changed if line.differs]
    perhaps = [f"{line.name} ({_turn(line)})" for line in changed if not line.differs]
    if surely:
        yield f"It matters which one you believe: conclusions change for {listed(surely)}."
    elif any(not line.intercept for line in apart):
        whose = "these" if perhaps else "every coefficient"
        yield f"Both fits agree on the sign of {whose}; only the sizes differ."
    if perhaps:
        yield (
            f"How sure one can be changes for {listed(perhaps)}; there the fits themselves do not "
            "differ by more than chance."
        )


def _turn(line: Line) -> str:
    """How the conclusion about a coefficient changes from the likelihood to the robust fit."""
    if line.intercept or line.robust_sign == line.ordinary_sign:
        return ""
    said = {1: "above 0", -1: "below 0", 0: "uncertain"}
    return f"likelihood fit {said[line.ordinary_sign]}, robust {said[line.robust_sign]}"


def _figures(story: Story, lines: tuple[Line, ...]) -> Iterator[tuple[str, str]]:
    """The key numbers with what they count."""
    misfit = story.misfit
    if misfit is not None and misfit.wrong_is_clear:
        span = f"{misfit.wrong_low:.1%} to {misfit.wrong_high:.1%}"
        yield f"{misfit.wrong:.1%}", f"of the rows are wrong, by estimate (90% interval {span})"
    elif misfit is not None:
        yield (
            (f"{misfit.lower:.1%} or more", "of the rows do not come from the fitted model")
            if misfit.lower > 0
            else (f"{misfit.mean:.1%}", "is unexplained, no more than chance may leave")
        )
    if lines:
        n = sum(line.differs for line in lines)
        yield (
            f"{n} of {len(lines)}",
            "coefficients differ between robust and likelihood fit",
        )
    n_flagged, n_known = amount(story.n_flagged), amount(story.n_known)
    yield f"{n_flagged} of {n_known}", "rows stand out by more than chance"


def _facts(story: Story) -> Iterator[tuple[str, str]]:
    """The data and the settings, one by one."""
    fit, posterior, data = story.fit, story.fit.posterior, story.fit.data
    cells, family = posterior.cells, posterior.model.family
    n_lines, n_out = len(fit.cell_of_row), fit.n_left_out
    out = f", of which {n_out:,} were left out ({fit.why_left_out})" if n_out else ""
    grouped = "" if fit.n_rows == n_lines else f", equal ones put together: {n_lines:,} lines"
    yield "Rows", f"{fit.n_rows:,}{grouped}{out}"
    if fit.rounded is not None:
        yield "Rounding", str(fit.rounded)
    if data.weights is not None:
        yield "Weights", f"{data.weights}, in all {amount(cells.n_obs)}"
    if said := sampled(posterior):
        yield "Random weights", said
    yield "Outcome", f"{story.outcome}: {_spread(cells.y, cells.counts, family.levels)}"
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
    if story.rows_used is not None:
        yield "Rows used", str(story.rows_used)
    yield "Posterior draws", f"{posterior.n_draws:,}, from the seed {posterior.seed}"


def _spread(y: Array, counts: Array, levels: tuple[str, ...]) -> str:
    """What outcomes there are."""
    if levels:
        rows = np.bincount(y.astype(int), counts, len(levels))
        return listed([f"{name} ({amount(n)})" for name, n in zip(levels, rows, strict=True)], 10)
    mean, zeros = float(y @ counts / counts.sum()), float(counts[y == 0].sum() / counts.sum())
    return f"{span(y.min(), y.max())}, mean {number(mean)}, {zeros:.0%} zeros"
