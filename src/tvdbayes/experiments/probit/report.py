"""The report on classifiers: a panel for each data set, with the published medians, and words."""

from collections.abc import Sequence

from tvdbayes.experiments.contract import (
    AS_PUBLISHED,
    Box,
    Measured,
    Report,
    Task,
    ranking,
)
from tvdbayes.experiments.pictures import grid_panels
from tvdbayes.experiments.published import CLOSE, CRITERIA, agreement, compare, published
from tvdbayes.experiments.scores import boxes_of_splits, calibration_boxes

_NAMES = {
    "mammographic_mass": "mammograph",
    "fourclass": "fourclass",
    "heart": "heart",
    "haberman": "haberman",
    "breast-cancer-wisconsin": "breast cancer",
}
_CORRECTED = {
    "pred_lik": "predictive likelihood\n(improper)",
    "log": "log score",
    "brier": "Brier score",
    "accuracy": "accuracy",
}
_METHODS = (
    *("TVD", "KLD", "Bayes", "naive TVD"),
    *("TVD reweighted", "Hellinger", "density power"),
)
_WITHOUT = ("TVD without broken rows", "KLD without broken rows")
_LOWER = ("log", "brier", "calibration")


def probit_report(mode: str, tasks: Sequence[Task], measured: Sequence[Measured]) -> Report:
    """Boxes of the means over the test rows of each split."""
    boxes = boxes_of_splits(tasks, measured)
    if mode == AS_PUBLISHED:
        readings = published("probit")
        table = compare(boxes, readings, tolerance=CLOSE)
        figure = grid_panels(
            boxes,
            ("TVD", "KLD", "TVD released"),
            CRITERIA,
            settings=_NAMES,
            readings=readings,
            title="Probit as published: the released code's data, splits and weights",
        )
        return Report(table, {"figure": figure}, _agreement(table))
    boxes += calibration_boxes(tasks, measured)
    figure = grid_panels(
        boxes,
        _METHODS,
        _CORRECTED,
        settings=_NAMES,
        readings={},
        title="Probit corrected: intercept, scaled covariates, no broken rows, proper scores",
        log_scale=("log",),
    )
    return Report(compare(boxes, {}), {"figure": figure}, _best(boxes))


def _agreement(table: Sequence[dict[str, object]]) -> str:
    """Published medians that are met, and what explains the others."""
    medians = {(line["setting"], line["method"], line["criterion"]): line for line in table}

    def explain(line: dict[str, object]) -> str:
        if line["method"] != "TVD":
            return ""
        released = medians[line["setting"], "TVD released", line["criterion"]]
        return f" The released optimiser on the same splits: {released['median']:.3f}."

    lines = agreement(table, explain=explain)
    lines += [
        f"{line['setting']}, {name}: predictive likelihood {line['median']:.3f}."
        for (_, name, criterion), line in medians.items()
        if criterion == "pred_lik" and name in _WITHOUT
    ]
    return "\n".join(lines)


def _best(boxes: Sequence[Box]) -> str:
    """The best method of each data set by each score, by the mean over splits."""
    lines = [
        f"- {setting}, {score}: {ranking(boxes, setting, score, lower=score in _LOWER)}"
        for setting in dict.fromkeys(box.setting for box in boxes)
        for score in (*_LOWER, "accuracy")
    ]
    return "Methods from best to worst, by the mean over splits:\n" + "\n".join(lines)
