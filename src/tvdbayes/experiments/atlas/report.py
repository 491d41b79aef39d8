"""What the contamination atlas says: a line for each setting and method, pictures, and words.

Nothing here is measured, so that other words need no other run.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm, Normalize
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from tvdbayes._typing import Array
from tvdbayes.experiments.atlas.settings import CLEAN, LAWS, Setting
from tvdbayes.experiments.contract import Measured, Report, Task, boxes_of

_METHODS = (
    *("TVD", "TVD reweighted", "Hellinger", "density power"),
    *("glmrob", "glmrob (x weights)", "KLD", "Bayes"),
)
_ORDINARY = "KLD"
_NOMINAL = 0.9
_ERRORS = 2.0
"""Monte-Carlo errors within which two numbers are called the same."""
_MUCH_LARGER = 1.5
"""An error beyond this multiple of the lowest is never called the same."""

_WORST = 30.0
_MISSING = "-"
_CELL = 0.23
_INK, _PAPER, _NOTHING = "0.1", "white", "0.95"
_COLOURS = "YlGnBu"
"""From light to dark, so that it can be read without colours."""


@dataclass(frozen=True, eq=False)
class Line:
    """What one method scored in one setting, by data set; all arrays are (sets,).

    Of the coefficients, the mean of the squared errors and the share inside their 90 % interval;
    log and ranked probability score on clean rows, beyond those of the true law.
    """

    setting: Setting
    method: str
    squares: Array
    covered: Array
    log: Array
    rps: Array
    failed: Array

    @property
    def rmse(self) -> float:
        """Root mean squared error over data sets and coefficients."""
        return float(np.sqrt(self.squares.mean()))

    def as_good_as(self, other: "Line") -> bool:
        """Whether the squared errors exceed the other's by no more than chance, in pairs.

        Where a few data sets dominate, chance is not known well, so a much larger error never does.
        """
        gap = self.squares - other.squares
        error = _error(gap)
        near = error is not None and float(gap.mean()) <= _ERRORS * error
        return self is other or (near and self.rmse <= _MUCH_LARGER * other.rmse)

    def record(self, best: "Line") -> dict[str, object]:
        """A line of the table."""
        setting, error = self.setting, _error(self.squares)
        return {
            "family": setting.law,
            "design": setting.design,
            "contamination": setting.contamination,
            "share": setting.share,
            "n": setting.n_obs,
            "method": self.method,
            "rmse": self.rmse,
            "rmse_error": None if error is None else error / (2 * max(self.rmse, 1e-300)),
            "as_good_as_best": self.as_good_as(best),
            **_mean("coverage", self.covered),
            **_mean("log_excess", self.log),
            **_mean("rps_excess", self.rps),
            "sets": self.squares.size,
            "failed": int(self.failed.sum()),
        }


Atlas = dict[Setting, dict[str, Line]]
"""Lines by setting and method."""


def atlas_report(
    settings: Mapping[str, Setting], tasks: Sequence[Task], measured: Sequence[Measured]
) -> Report:
    """Table, pictures and words; settings by the name that tasks call them."""
    atlas = _lines_of(settings, tasks, measured)
    table = [line.record(_best(lines)) for lines in atlas.values() for line in lines.values()]
    ratios = _ratios(atlas)
    figures = {
        "atlas": _picture(
            atlas,
            lambda line: ratios[line.setting, line.method],
            lambda line: line.as_good_as(_best(atlas[line.setting])),
            norm=LogNorm(1, _WORST, clip=True),
            reverse=False,
            title="RMSE of coefficients, as a multiple of that of KLD on clean data\n"
            "framed: lowest, or within Monte-Carlo error of it; grey: not measured",
        ),
        "atlas_coverage": _picture(
            atlas,
            lambda line: float(line.covered.mean()),
            _covers,
            norm=Normalize(0, 1),
            reverse=True,
            title="Coverage of nominal 90 % intervals of coefficients\n"
            "framed: not below 90 % but for Monte-Carlo error; grey: not measured",
        ),
    }
    return Report(table, figures, _words(atlas), {"summary.md": _markdown(atlas)})


def _lines_of(
    settings: Mapping[str, Setting], tasks: Sequence[Task], measured: Sequence[Measured]
) -> Atlas:
    """Group measurements by setting and method."""
    values: dict[tuple[str, str], Measured] = {}
    for box in boxes_of(tasks, measured):
        values.setdefault((box.setting, box.method), {})[box.criterion] = box.values
    atlas: Atlas = {}
    for (name, method), found in values.items():
        setting = settings[name]
        d = len(LAWS[setting.law].truth)
        atlas.setdefault(setting, {})[method] = Line(
            setting,
            method,
            (found["error"].reshape(-1, d) ** 2).mean(1),
            found["covered"].reshape(-1, d).mean(1),
            *(found[name].ravel() for name in ("log", "rps", "failed")),
        )
    return atlas


def _markdown(atlas: Atlas) -> str:
    """A short table for documents: RMSE as in the picture, with no or the most wrong rows.

    Cells hold one number for each number of rows; bold ones are lowest, or as low but for chance.
    """
    ratios, methods, sizes = _ratios(atlas), _methods(atlas), _sizes(atlas)
    most = max(setting.share for setting in atlas)

    def cell(row: tuple[str, ...], method: str) -> str:
        shown = []
        for n_obs in sizes:
            setting = next((s for s in atlas if (*_row(s), s.n_obs) == (*row, n_obs)), None)
            line = None if setting is None else atlas[setting].get(method)
            if line is None:
                shown.append(_MISSING)
                continue
            number = _short(ratios[line.setting, method])
            bold = line.as_good_as(_best(atlas[line.setting]))
            shown.append(f"**{number}**" if bold else number)
        return " / ".join(shown)

    rows = dict.fromkeys(_row(s) for s in atlas if s.share in (0, most))
    head = ["family, x", "wrong rows", *methods]
    body = [
        [f"{law}, {design}", wrong, *(cell((law, design, wrong), m) for m in methods)]
        for law, design, wrong in rows
    ]
    lines = [head, ["---"] * len(head), *body]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _error(values: Array) -> float | None:
    """Monte-Carlo error of a mean over data sets."""
    return float(values.std(ddof=1) / np.sqrt(values.size)) if values.size > 1 else None


def _mean(name: str, values: Array) -> dict[str, float | None]:
    return {name: float(values.mean()), f"{name}_error": _error(values)}


def _covers(line: Line) -> bool:
    """Whether intervals cover as often as they say, but for chance; more often is no fault."""
    return float(line.covered.mean()) + _ERRORS * (_error(line.covered) or 0.0) >= _NOMINAL


def _best(lines: Mapping[str, Line]) -> Line:
    return min(lines.values(), key=lambda line: line.rmse)


def _ratios(atlas: Atlas) -> dict[tuple[Setting, str], float]:
    """RMSE over that of the likelihood fit to clean data of the same law, design and size."""
    clean = {
        (s.law, s.design, s.n_obs): lines[_ORDINARY].rmse
        for s, lines in atlas.items()
        if s.contamination == CLEAN
    }
    return {
        (s, method): line.rmse / clean[s.law, s.design, s.n_obs]
        for s, lines in atlas.items()
        for method, line in lines.items()
    }


def _methods(atlas: Atlas) -> list[str]:
    seen = {method for lines in atlas.values() for method in lines}
    return [method for method in _METHODS if method in seen]


def _sizes(atlas: Atlas) -> list[int]:
    return sorted({setting.n_obs for setting in atlas})


def _row(setting: Setting) -> tuple[str, str, str]:
    """Law, design and wrong rows: a line of the pictures."""
    share = f"{setting.share:.0%} " if setting.share else ""
    return setting.law, setting.design, f"{share}{setting.contamination}"


def _short(value: float) -> str:
    return f"{value:.2f}" if value < 9.95 else f"{value:.0f}"


def _picture(
    atlas: Atlas,
    value: Callable[[Line], float],
    framed: Callable[[Line], bool],
    *,
    norm: Normalize,
    reverse: bool,
    title: str,
) -> Figure:
    """A heat map: a line for each kind of data, a panel for each number of rows."""
    methods, sizes = _methods(atlas), _sizes(atlas)
    places: dict[tuple[str, ...], int] = {}
    headings: dict[str, int] = {}
    for setting in sorted(atlas, key=lambda s: (list(LAWS).index(s.law), s.design == "continuous")):
        heading = f"{setting.law}, {setting.design} x"
        if heading not in headings:
            headings[heading] = len(places) + len(headings)
        places.setdefault(_row(setting), len(places) + len(headings))
    n_lines = len(places) + len(headings)
    figure = Figure(
        figsize=(2.2 + 0.55 * len(methods) * len(sizes), 1.9 + _CELL * n_lines),
        layout="constrained",
    )
    panels = figure.subplots(1, len(sizes), squeeze=False, sharey=True)[0]
    colours = colormaps[_COLOURS + ("_r" if reverse else "")]
    for ax, n_obs in zip(panels, sizes, strict=True):
        for y in places.values():
            width = len(methods)
            ax.add_patch(Rectangle((-0.5, y - 0.5), width, 1, fc=_NOTHING, ec=_PAPER, lw=0.5))
        for setting, lines in atlas.items():
            if setting.n_obs != n_obs:
                continue
            for method, line in lines.items():
                at = methods.index(method), places[_row(setting)]
                _cell(ax, at, value(line), framed(line), colours(norm(value(line))))
        _frame(ax, methods, n_lines, f"n = {n_obs:,}")
    panels[0].set_yticks(
        [*headings.values(), *places.values()],
        [*headings, *(wrong for *_, wrong in places)],
        fontsize=8,
    )
    for label in panels[0].get_yticklabels()[: len(headings)]:
        label.set_fontweight("bold")
    figure.suptitle(title, fontsize=9)
    return figure


def _cell(
    ax: Axes, at: tuple[int, int], value: float, framed: bool, colour: tuple[float, ...]
) -> None:
    x, y = at
    ax.add_patch(Rectangle((x - 0.5, y - 0.5), 1, 1, facecolor=colour, edgecolor=_PAPER, lw=0.5))
    light = float(np.dot(colour[:3], (0.299, 0.587, 0.114))) > 0.5
    ink = _INK if light else _PAPER
    weight = "bold" if framed else "normal"
    ax.text(x, y, _short(value), ha="center", va="center", fontsize=7, color=ink, weight=weight)
    if framed:
        frame = Rectangle((x - 0.44, y - 0.42), 0.88, 0.84, fill=False, edgecolor=ink, lw=1.1)
        ax.add_patch(frame)


def _frame(ax: Axes, methods: Sequence[str], n_lines: int, title: str) -> None:
    ax.set(xlim=(-0.5, len(methods) - 0.5), ylim=(n_lines - 0.4, -0.6))
    ax.set_xticks(range(len(methods)), methods, fontsize=8, rotation=40, ha="left")
    ax.tick_params(length=0, top=True, labeltop=True, bottom=False, labelbottom=False)
    ax.spines[:].set_visible(False)
    ax.set_title(title, fontsize=9, loc="left", weight="bold")


def _words(atlas: Atlas) -> str:
    """The lowest error by family and kind of wrong rows, methods near it, and where TVD loses."""
    n_sets = sorted({line.squares.size for lines in atlas.values() for line in lines.values()})
    parts = [
        f"{len(atlas)} settings, each with {' or '.join(map(str, n_sets))} data sets. 'Near' means "
        f"that squared errors differ, in pairs, by at most {_ERRORS:g} Monte-Carlo errors, and "
        f"that the RMSE is at most {_MUCH_LARGER:g} times the lowest."
    ]
    if not any(method.startswith("glmrob") for method in _methods(atlas)):
        parts.append("glmrob was not measured: Rscript with the package robustbase was not found.")
    kinds = dict.fromkeys((setting.law, setting.contamination) for setting in atlas)
    for law, kind in sorted(kinds, key=lambda k: list(LAWS).index(k[0])):
        some = {s: x for s, x in atlas.items() if (s.law, s.contamination) == (law, kind)}
        parts.append(_about(f"{law}, {kind}", some))
    parts.append(_about("All together", atlas).removeprefix("- "))
    parts.append(_failures(line for lines in atlas.values() for line in lines.values()))
    return "\n".join(parts)


def _about(name: str, some: Atlas) -> str:
    best = {setting: _best(lines) for setting, lines in some.items()}
    lowest = Counter(line.method for line in best.values())
    near = Counter(
        line.method
        for setting, lines in some.items()
        for line in lines.values()
        if line.as_good_as(best[setting])
    )
    text = (
        f"- {name} ({len(some)} setting{'s' if len(some) > 1 else ''}): lowest RMSE "
        f"{_counted(lowest)}; lowest or near it {_counted(near)}."
    )
    behind = {
        setting: lines["TVD"].rmse / best[setting].rmse
        for setting, lines in some.items()
        if not lines["TVD"].as_good_as(best[setting])
    }
    if not behind:
        return f"{text} TVD is near the lowest everywhere."
    worst = max(behind, key=lambda setting: behind[setting])
    wrong = f"{worst.share:.0%}, " if worst.share else ""
    return (
        f"{text} TVD loses in {len(behind)}, at most by a factor {behind[worst]:.2f} "
        f"({best[worst].method}; {worst.design}, {wrong}n={worst.n_obs})."
    )


def _counted(counts: Counter[str]) -> str:
    return ", ".join(f"{method} {count}" for method, count in counts.most_common())


def _failures(lines: Iterable[Line]) -> str:
    failed: Counter[str] = Counter()
    total: Counter[str] = Counter()
    for line in lines:
        failed[line.method] += int(line.failed.sum())
        total[line.method] += line.squares.size
    rows = [f"{method} {failed[method]} of {total[method]}" for method in failed if failed[method]]
    return (
        f"Fits that did not converge, kept as they ended: {', '.join(rows) or 'none'}. Where "
        "glmrob stops with an error, maximum likelihood stands in for it."
    )
