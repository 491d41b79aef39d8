"""The report on classifiers: a panel for each data set, with the published medians, and words."""

from collections.abc import Sequence

from tvdbayes.experiments._base import AS_PUBLISHED, Box, Measured, Report, Task, boxes_of
from tvdbayes.experiments._boxes import grid_panels
from tvdbayes.experiments._published import compare, published
from tvdbayes.experiments._scores import calibration_boxes

__all__ = ["probit_report"]

_TOLERANCE = 0.03
_NAMES = {
    "mammographic_mass": "mammograph",
    "fourclass": "fourclass",
    "heart": "heart",
    "haberman": "haberman",
    "breast-cancer-wisconsin": "breast cancer",
}
_PUBLISHED = {"pred_lik": "predictive likelihood", "accuracy": "accuracy"}
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
    rows = [{k: v for k, v in found.items() if v.size == 1} for found in measured]
    boxes = boxes_of(tasks, rows)
    if mode == AS_PUBLISHED:
        readings = published("probit")
        table = compare(boxes, readings, tolerance=_TOLERANCE)
        figure = grid_panels(
            boxes,
            ("TVD", "KLD", "TVD released"),
            _PUBLISHED,
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
    """Published medians that are met within .03, and what explains the others."""
    known = [line for line in table if "published" in line]
    medians = {(line["setting"], line["method"], line["criterion"]): line for line in table}
    lines = []
    for criterion, name in _PUBLISHED.items():
        mine = [line for line in known if line["criterion"] == criterion]
        met = sum(bool(line["agrees"]) for line in mine)
        lines.append(f"{name}: {met} of {len(mine)} published medians lie within .03 of ours.")
        for line in mine:
            if line["agrees"]:
                continue
            text = (
                f"- {line['setting']}, {line['method']}: ours {line['median']:.3f}, published "
                f"{line['published']:.3f}."
            )
            if line["method"] == "TVD":
                released = medians[line["setting"], "TVD released", criterion]
                text += f" The released optimiser on the same splits: {released['median']:.3f}."
            lines.append(text)
    lines += [
        f"{line['setting']}, {name}: predictive likelihood {line['median']:.3f}."
        for (_, name, criterion), line in medians.items()
        if criterion == "pred_lik" and name in _WITHOUT
    ]
    return "\n".join(lines)


def _best(boxes: Sequence[Box]) -> str:
    """The best method of each data set by each score, by the mean over splits."""
    lines = []
    for setting in dict.fromkeys(box.setting for box in boxes):
        for criterion in ("log", "brier", "calibration", "accuracy"):
            means = {
                box.method: box.mean
                for box in boxes
                if box.setting == setting and box.criterion == criterion
            }
            order = sorted(means, key=lambda m: means[m] if criterion in _LOWER else -means[m])
            listed = ", ".join(f"{method} {means[method]:.3f}" for method in order)
            lines.append(f"- {setting}, {criterion}: {listed}")
    return "Methods from best to worst, by the mean over splits:\n" + "\n".join(lines)
