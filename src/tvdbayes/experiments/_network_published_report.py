"""The report on networks as published: which medians agree, and what they are made of."""

from collections.abc import Sequence

import numpy as np

from tvdbayes.experiments._base import Box, Measured, Report, Task
from tvdbayes.experiments._boxes import grid_panels
from tvdbayes.experiments._published import compare, published

__all__ = ["published_report"]

_TOLERANCE = 0.03
_CRITERIA = {"pred_lik": "predictive likelihood", "accuracy": "accuracy"}
_METHODS = ("TVD", "KLD")
_TWICE, _AS = "diabetic", "pima"


def published_report(tasks: Sequence[Task], measured: Sequence[Measured]) -> Report:
    """Boxes over the splits of each data set, beside the published medians."""
    boxes = [
        Box(task.setting, *_parts(key), values[:, None])
        for task, found in zip(tasks, measured, strict=True)
        for key, values in found.items()
    ]
    readings = published("nn")
    figure = grid_panels(
        boxes,
        _METHODS,
        _CRITERIA,
        settings={task.setting: task.setting for task in tasks},
        readings=readings,
        title="Networks as published: the released script's labels, splits, weights and scores",
    )
    table = compare(boxes, readings, tolerance=_TOLERANCE)
    medians = {(box.setting, box.method, box.criterion): box.median for box in boxes}
    words = [_agreement(table), _notes(tasks, medians)]
    if any(task.setting == _AS for task in tasks):
        words.append(_same_data(medians))
    return Report(table, {"figure": figure}, "\n".join(words))


def _parts(key: str) -> tuple[str, str]:
    method, _, criterion = key.partition("|")
    return method, criterion


Medians = dict[tuple[str, str, str], float]


def _agreement(table: Sequence[dict[str, object]]) -> str:
    """How many published medians are met within .03, and which are not."""
    lines = []
    for criterion, name in _CRITERIA.items():
        mine = [line for line in table if line["criterion"] == criterion and "published" in line]
        met = sum(bool(line["agrees"]) for line in mine)
        apart = max(abs(float(str(line["difference"]))) for line in mine)
        lines.append(
            f"{name}: {met} of {len(mine)} published medians lie within .03 of ours, the furthest "
            f"{apart:.4f} away."
        )
        lines += [
            f"- {line['setting']}, {line['method']}: ours {line['median']:.3f}, published "
            f"{line['published']:.3f}."
            for line in mine
            if not line["agrees"]
        ]
    return "\n".join(lines)


def _notes(tasks: Sequence[Task], medians: Medians) -> str:
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


def _same_data(medians: Medians) -> str:
    """What was published for the data set that is another one with exchanged labels."""
    readings = published("nn")
    parts = []
    for criterion, label in _CRITERIA.items():
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
