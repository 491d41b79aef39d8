"""The reports on networks: as published beside its medians, corrected by kind of wrong labels."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from tvdbayes.experiments.contract import (
    Box,
    Measured,
    Report,
    Task,
    boxes_of,
    by_key,
    ranking,
)
from tvdbayes.experiments.network.labels import Scenario
from tvdbayes.experiments.pictures import COLOURS, grid_panels, legend_below
from tvdbayes.experiments.published import CLOSE, CRITERIA, agreement, compare, published
from tvdbayes.experiments.scores import boxes_of_splits, calibration_boxes

_METHODS = ("TVD", "KLD")
_TWICE, _AS = "diabetic", "pima"
"""The same data set with exchanged labels and with the original ones."""

_COLOURS = {
    "TVD": COLOURS["TVD"],
    "TVD unrefined": "#00543D",
    "KLD": COLOURS["KLD"],
    "naive TVD": COLOURS["naive TVD"],
    "continuation": COLOURS["Hellinger"],
    "density power": COLOURS["density power"],
    "deep ensemble": COLOURS["Bayes"],
    "linear TVD": "0.25",
    "linear KLD": "0.6",
}
_DIFFERENCE = "TVD - KLD"
_NEAR = 0.02
"""Share of KLD's log score that TVD's may exceed it by on clean data."""
_ERRORS = 2.0
"""Monte-Carlo errors within which two methods are called level."""
_ROOM = 1.5
"""A score beyond so many times the worst of the two main methods is off the picture."""

Settings = Mapping[str, tuple[str, Scenario]]
Boxes = Mapping[tuple[str, str, str], Box]


def network_report(
    settings: Settings, tasks: Sequence[Task], measured: Sequence[Measured]
) -> Report:
    """A line for each setting, method and score, a panel for each data set, and words."""
    boxes = boxes_of_splits(tasks, measured)
    boxes += _differences(boxes) + calibration_boxes(tasks, measured)
    known = by_key(boxes)
    seen = {task.setting: settings[task.setting] for task in tasks}
    words = [_clean(known, seen), _wrong(known, seen), _order(known, seen), _CAUTION]
    return Report(compare(boxes, {}), {"figure": _picture(known, seen)}, "\n".join(words))


_CAUTION = (
    "Errors are over splits. These share rows, so that other data would differ by more than they "
    "say."
)


def _differences(boxes: Sequence[Box]) -> list[Box]:
    """Log score of TVD less that of KLD, split by split: negative is better."""
    log = {(b.setting, b.method): b.values for b in boxes if b.criterion == "log"}
    return [
        Box(setting, _DIFFERENCE, "log", values - log[setting, "KLD"])
        for (setting, method), values in log.items()
        if method == "TVD"
    ]


def _clean(known: Boxes, seen: Settings) -> str:
    """What TVD costs where no label is wrong."""
    lines = []
    for setting, (name, scenario) in seen.items():
        if scenario.share:
            continue
        tvd, kld, gap = _main(known, setting)
        more = tvd.mean / kld.mean - 1
        within = "within" if more <= _NEAR else "not within"
        lines.append(
            f"- {name}: {within} {_NEAR:.0%}. TVD {tvd.mean:.4f}, KLD {kld.mean:.4f} "
            f"({more:+.1%}); {_gap(gap)}."
        )
    return "\n".join(["Clean labels, log score (lower is better):", *lines])


def _wrong(known: Boxes, seen: Settings) -> str:
    """Where TVD is better or worse than KLD under wrong labels."""
    lines = []
    for setting, (_, scenario) in seen.items():
        if not scenario.share:
            continue
        tvd, kld, gap = _main(known, setting)
        kind = "structured" if scenario.structured else "random"
        lines.append(
            f"- {setting} ({kind}): TVD is {_verdict(gap)}. TVD {tvd.mean:.4f}, KLD "
            f"{kld.mean:.4f}; {_gap(gap)}."
        )
    structured = [s for s, (_, scenario) in seen.items() if scenario.structured]
    for name in dict.fromkeys(name for name, _ in seen.values()):
        verdicts = [_verdict(_main(known, s)[2]) for s in structured if seen[s][0] == name]
        if verdicts:
            counted = ", ".join(f"{v} in {verdicts.count(v)}" for v in dict.fromkeys(verdicts))
            lines.append(f"- {name}, structured, {len(verdicts)} settings: TVD is {counted}.")
    return "\n".join(["Wrong labels in training, right ones in the test, log score:", *lines])


def _order(known: Boxes, seen: Settings) -> str:
    """All methods from best to worst, each with as many draws."""
    boxes = [*known.values()]
    lines = [f"- {setting}: {ranking(boxes, setting, 'log, few draws')}" for setting in seen]
    head = "Methods from best to worst by the log score, all with the draws of those that have few:"
    return "\n".join([head, *lines])


def _main(known: Boxes, setting: str) -> tuple[Box, Box, Box]:
    """Log scores of TVD and KLD, and their difference."""
    tvd, kld, gap = (known[setting, method, "log"] for method in ("TVD", "KLD", _DIFFERENCE))
    return tvd, kld, gap


def _gap(gap: Box) -> str:
    return f"paired difference {gap.mean:+.4f}, error {gap.error(of_mean=True):.4f}"


def _verdict(gap: Box) -> str:
    """Better, worse, or level but for chance."""
    reach = _ERRORS * gap.error(of_mean=True)
    if gap.mean < -reach:
        return "better"
    return "worse" if gap.mean > reach else "level with KLD"


def _picture(known: Boxes, seen: Settings) -> Figure:
    """A panel for each data set: the log score by wrong labels and method."""
    names = list(dict.fromkeys(name for name, _ in seen.values()))
    seen_methods = {method for _, method, _ in known}
    methods = [method for method in _COLOURS if method in seen_methods]
    shape = -(-len(names) // 2), min(len(names), 2)
    figure = Figure(figsize=(5.6 * shape[1], 3.3 * shape[0] + 1.0), layout="constrained")
    panels = figure.subplots(*shape, squeeze=False).ravel()
    for ax, name in zip(panels, names, strict=False):
        mine = {s: scenario.name for s, (whose, scenario) in seen.items() if whose == name}
        _panel(ax, known, methods, mine)
        ax.set_title(name, fontsize=10)
    for ax in panels[len(names) :]:
        ax.set_visible(False)
    for ax in panels[:: shape[1]]:
        ax.set_ylabel("log score")
    handles = [Line2D([], [], ls="", marker="o", color=_COLOURS[m], label=m) for m in methods]
    legend_below(figure, handles, 5 if len(names) > 1 else 3)
    figure.suptitle(
        "Networks corrected: log score on right labels by wrong labels in training\n"
        "bars: two Monte-Carlo errors; triangles: beyond the picture",
        fontsize=10,
    )
    return figure


def _panel(ax: Axes, known: Boxes, methods: Sequence[str], settings: Mapping[str, str]) -> None:
    main = [known[s, m, "log"].mean for s in settings for m in ("TVD", "KLD")]
    top = _ROOM * max(main)
    lowest = top
    for number, method in enumerate(methods):
        aside = 0.8 * ((number + 0.5) / len(methods) - 0.5)
        for place, setting in enumerate(settings):
            box = known.get((setting, method, "log"))
            if box is None:
                continue
            colour, at = _COLOURS[method], place + aside
            if box.mean > top:
                ax.plot(at, top, "^", color=colour, ms=5, clip_on=False)
                continue
            reach = np.nan_to_num(_ERRORS * box.error(of_mean=True))
            ax.errorbar(at, box.mean, float(reach), fmt="o", color=colour, ms=4, lw=1)
            lowest = min(lowest, box.mean - reach)
    ax.set_ylim(max(lowest - 0.05 * (top - lowest), 0.0), top)
    labels = [name.replace(" ", "\n", 1) for name in settings.values()]
    ax.set_xticks(range(len(settings)), labels, fontsize=8)
    ax.set_xlim(-0.6, len(settings) - 0.4)
    ax.spines[["top", "right"]].set_visible(False)


def published_report(tasks: Sequence[Task], measured: Sequence[Measured]) -> Report:
    """Boxes over the splits of each data set, beside the published medians."""
    # A task is all splits of a data set.
    boxes = [replace(box, values=box.values.T) for box in boxes_of(tasks, measured)]
    readings = published("nn")
    figure = grid_panels(
        boxes,
        _METHODS,
        CRITERIA,
        settings={task.setting: task.setting for task in tasks},
        readings=readings,
        title="Networks as published: the released script's labels, splits, weights and scores",
    )
    table = compare(boxes, readings, tolerance=CLOSE)
    medians = {key: box.median for key, box in by_key(boxes).items()}
    words = [*agreement(table, furthest=True), _notes(tasks, medians)]
    if any(task.setting == _AS for task in tasks):
        words.append(_same_data(medians))
    return Report(table, {"figure": figure}, "\n".join(words))


def _notes(tasks: Sequence[Task], medians: Mapping[tuple[str, str, str], float]) -> str:
    """What stands behind the numbers of each data set."""
    readings = published("nn")
    lines = ["What these numbers are made of, as medians over splits:"]
    for name in (task.setting for task in tasks):

        def ours(method: str, criterion: str, name: str = name) -> float:
            return medians[name, method, criterion]

        known = [readings[name, method, "accuracy"].median for method in _METHODS]
        rows = [ours(method, "likelihood by row") for method in _METHODS]
        outer = [ours(method, "pred_lik") for method in _METHODS]
        constant = [ours(method, "constant draws") for method in _METHODS]
        lines.append(
            f"- {name}: {ours('data', 'labels of their rows'):.1%} of the labels belong to their "
            f"rows ({ours('data', 'by chance'):.1%} would by chance). The larger class holds "
            f"{ours('data', 'larger class'):.3f} of the test labels; published accuracy "
            f"{_both(known)}, and {_both(constant, '.0%')} of the draws call all test rows the "
            f"same. Scored row by row the same predictions have a likelihood of {_both(rows)} "
            f"instead of {_both(outer)}. Logistic regression is right on "
            f"{ours('logistic, own labels', 'accuracy'):.3f} of the rows with their own labels, "
            f"and on {ours('logistic, scrambled labels', 'accuracy'):.3f} with the script's."
        )
    return "\n".join(lines)


def _same_data(medians: Mapping[tuple[str, str, str], float]) -> str:
    """Published values for the data set whose labels are exchanged."""
    readings = published("nn")
    parts = []
    for criterion, label in CRITERIA.items():
        shown = {
            f"published as {_TWICE}": [readings[_TWICE, m, criterion].median for m in _METHODS],
            f"published as {_AS}": [readings[_AS, m, criterion].median for m in _METHODS],
            f"ours on {_AS}": [medians[_AS, m, criterion] for m in _METHODS],
        }
        parts.append(
            f"{label} " + ", ".join(f"{_both(found)} ({name})" for name, found in shown.items())
        )
    return (
        f"- {_TWICE} is {_AS} with exchanged labels, and was not run: {'; '.join(parts)}. Numbers "
        f"are those of {' and '.join(_METHODS)}."
    )


def _both(values: Sequence[float], form: str = ".3f") -> str:
    return " and ".join(format(float(np.round(value, 6)), form) for value in values)
