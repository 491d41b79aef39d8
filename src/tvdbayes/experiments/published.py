"""Medians of the paper's figures, as read from its published pictures, and agreement with them."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

import numpy as np

from tvdbayes.experiments.contract import Box

CRITERIA = {"pred_lik": "predictive likelihood", "accuracy": "accuracy"}
"""Published values for classifiers."""

CLOSE = 0.03
"""How far medians of classifiers over splits may lie apart."""

_ERRORS = 3.0
"""Combined Monte-Carlo errors that ours and the published median may lie apart."""

_PIXELS = {
    "epsilon": {"abs_diff": 0.0165, "abs_err": 0.0385, "pred_lik": 0.0014},
    "zero_inflation": {"abs_diff": 0.0018, "abs_err": 0.039, "pred_lik": 0.0038},
}
"""One pixel of the published panels, in their units."""

_AXES = {"epsilon": "k", "zero_inflation": "eps"}


@dataclass(frozen=True)
class Reading:
    """A published median, and how finely it could be read."""

    median: float
    pixel: float


@cache
def published(experiment: str) -> dict[tuple[str, str, str], Reading]:
    """Published medians by setting, method and criterion.

    >>> published("epsilon")["8", "KLD", "abs_diff"]
    Reading(median=1.1887, pixel=0.0165)
    """
    text = files("tvdbayes.experiments").joinpath("published_results.json").read_text()
    results = json.loads(text)[experiment]
    if experiment not in _AXES:
        # Vector paths: exact.
        return {
            (name, method, _SHORT[criterion]): Reading(box["median"], 0.0)
            for name, criteria in results.items()
            for criterion, methods in criteria.items()
            for method, box in methods.items()
        }
    settings = [f"{value:g}" for value in results[_AXES[experiment]]]
    return {
        (setting, method, criterion): Reading(median, pixel)
        for criterion, pixel in _PIXELS[experiment].items()
        for method, medians in results[criterion].items()
        for setting, median in zip(settings, medians, strict=True)
    }


_SHORT = {"predictive_likelihood": "pred_lik", "accuracy": "accuracy"}


def compare(
    boxes: Sequence[Box],
    readings: dict[tuple[str, str, str], Reading],
    *,
    tolerance: float | None = None,
) -> list[dict[str, object]]:
    """One line for each box: its quantiles, and the published median where there is one.

    Medians agree if they lie within three combined Monte-Carlo errors and a pixel, or within a
    fixed tolerance. The published one has an error of the same size as ours, as it rests on as
    many data sets.
    """
    lines = []
    for box in boxes:
        error = box.error()
        low, q1, q3, high = np.quantile(box.values, (0.05, 0.25, 0.75, 0.95)).tolist()
        line: dict[str, object] = {
            "setting": box.setting,
            "method": box.method,
            "criterion": box.criterion,
            "median": box.median,
            "error": error,
            "q05": low,
            "q25": q1,
            "q75": q3,
            "q95": high,
            "mean": box.mean,
            "error_of_mean": box.error(of_mean=True),
            "n_sets": len(box.values),
        }
        reading = readings.get((box.setting, box.method, box.criterion))
        if reading is not None:
            allowed = _ERRORS * np.sqrt(2) * error + reading.pixel
            allowed = float(allowed if tolerance is None else tolerance)
            difference = box.median - reading.median
            line |= {
                "published": reading.median,
                "difference": difference,
                "allowed": allowed,
                "agrees": bool(abs(difference) <= allowed),
            }
        lines.append(line)
    return lines


def agreement(
    table: Sequence[dict[str, object]],
    *,
    explain: Callable[[dict[str, object]], str] = lambda _: "",
    furthest: bool = False,
) -> list[str]:
    """How many published medians of classifiers are met, and which are not, and why."""
    lines = []
    for criterion, name in CRITERIA.items():
        mine = [line for line in table if line["criterion"] == criterion and "published" in line]
        met = sum(bool(line["agrees"]) for line in mine)
        text = f"{name}: {met} of {len(mine)} published medians lie within .03 of ours"
        if furthest:
            apart = max(abs(float(str(line["difference"]))) for line in mine)
            text += f", the furthest {apart:.4f} away"
        lines.append(f"{text}.")
        lines += [
            f"- {line['setting']}, {line['method']}: ours {line['median']:.3f}, published "
            f"{line['published']:.3f}.{explain(line)}"
            for line in mine
            if not line["agrees"]
        ]
    return lines
