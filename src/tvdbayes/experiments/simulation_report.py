"""The report on a simulation: the paper's three panels, its medians beside ours, and words."""

from collections.abc import Sequence
from functools import partial

import numpy as np

from tvdbayes.experiments.contract import AS_PUBLISHED, Box, Measured, Report, Task, boxes_of
from tvdbayes.experiments.pictures import box_panels
from tvdbayes.experiments.published import compare, published

_PAPER = {
    "abs_diff": "Absolute difference",
    "abs_err": "Absolute error",
    "pred_lik": "Predictive likelihood",
}
_PROPER = {
    "log, clean rows": "Log score, clean rows",
    "rps, clean rows": "Ranked probability score, clean rows",
    "log": "Log score, all rows",
}
_PUBLISHED = ("TVD", "KLD")
_APPENDIX = ("TVD", "KLD", "Bayes", "Bayes, same scores")
_ALL = ("TVD", "KLD", "Bayes", "TVD reweighted", "Hellinger", "density power")


def simulation_report(
    experiment: str,
    mode: str,
    tasks: Sequence[Task],
    measured: Sequence[Measured],
    *,
    axis: str,
    suffix: str = "",
) -> Report:
    """Boxes by setting; settings that end with the suffix are of a second design."""
    boxes = boxes_of(tasks, measured)
    settings = list(dict.fromkeys(task.setting for task in tasks))
    readings = published(experiment) if mode == AS_PUBLISHED else {}
    table = compare(boxes, readings)
    picture = partial(box_panels, boxes, axis=axis, readings=readings)
    if mode == AS_PUBLISHED:
        names = {setting: setting for setting in settings}
        title = "As published: the released code's data, splits and weights"
        figures = {
            name: picture(methods, _PAPER, settings=names, title=title)
            for name, methods in (("figure", _PUBLISHED), ("figure_bayes", _APPENDIX))
        }
        return Report(table, figures, _agreement(table, boxes))
    figures = {}
    for design in dict.fromkeys(("", suffix)):
        members = [s for s in settings if bool(design) == bool(suffix and s.endswith(suffix))]
        names = {setting: setting.removesuffix(suffix) for setting in members}
        for kind, criteria in (("figure", _PAPER), ("figure_proper", _PROPER)):
            name = f"{kind}{'_design_of_code' if design else ''}"
            figures[name] = picture(_ALL, criteria, settings=names, title=f"Corrected{design}")
    return Report(table, figures, _best(boxes, settings))


def _agreement(table: Sequence[dict[str, object]], boxes: Sequence[Box]) -> str:
    """Which published medians are met, and what the released optimiser makes of the others."""
    known = [line for line in table if "published" in line]
    off = [line for line in known if not line["agrees"]]
    released = {
        (line["setting"], line["criterion"]): line["median"]
        for line in table
        if line["method"] == "TVD released"
    }
    lines = [
        f"{len(known) - len(off)} of {len(known)} published medians lie within three combined "
        "Monte-Carlo errors and a pixel of ours."
    ]
    for line in off:
        text = (
            f"- {line['setting']}, {line['method']}, {line['criterion']}: ours "
            f"{line['median']:.4f}, published {line['published']:.4f}, allowed "
            f"{line['allowed']:.4f}."
        )
        own = released.get((line["setting"], line["criterion"]))
        if line["method"] == "TVD" and own is not None:
            text += f" The released optimiser on the same data: {own:.4f}."
        lines.append(text)
    dropped = {
        box.setting: box.mean
        for box in boxes
        if box.criterion == "dropped" and box.method == "TVD released"
    }
    ours = [box.mean for box in boxes if box.criterion == "dropped" and box.method == "TVD"]
    if dropped:
        shares = ", ".join(f"{share:.1%} at {setting}" for setting, share in dropped.items())
        lines.append(
            f"Draws that the released code leaves out of its figure: {shares}. Here "
            f"{'none are' if not any(ours) else f'{max(ours):.1%} would be'} left out."
        )
    kept = [box.mean for box in boxes if box.criterion == "negative but kept"]
    if kept:
        lines.append(
            f"Draws with a negative rate that it keeps in its errors: up to {max(kept):.1%}."
        )
    off_trials = [box.mean for box in boxes if box.method == "data"]
    if off_trials:
        lines.append(
            f"Trials taken as the largest count seen are wrong in {np.mean(off_trials):.1%} of the "
            "data sets."
        )
    lines.append(
        "No numbers were published for full Bayes, only a picture. 'Bayes' is scored as there: by "
        "outcomes drawn from the predictive, averaged over test rows. 'Bayes, same scores' is the "
        "same posterior scored like the other two."
    )
    return "\n".join(lines)


def _best(boxes: Sequence[Box], settings: Sequence[str]) -> str:
    """The best method of each setting by each criterion, and those within chance of it."""
    lines = []
    criteria = ("abs_diff", "log, clean rows", "rps, clean rows", "log")
    for setting in settings:
        for criterion in criteria:
            found = {
                box.method: box.values.mean(1)
                for box in boxes
                if box.setting == setting and box.criterion == criterion
            }
            best = min(found, key=lambda method: found[method].mean())
            near = [m for m in found if m != best and _within(found[m] - found[best])]
            tied = f"; within chance of it: {', '.join(near)}" if near else ""
            lines.append(
                f"- {setting}, {criterion}: {best} ({found[best].mean():.4f}){tied}; TVD "
                f"{found['TVD'].mean():.4f}, KLD {found['KLD'].mean():.4f}"
            )
    return "Best on average (lower is better):\n" + "\n".join(lines)


def _within(difference: np.ndarray) -> bool:
    """Whether the mean of paired differences is within two of its errors of 0."""
    error = difference.std(ddof=1) / np.sqrt(len(difference))
    return bool(difference.mean() <= 2 * error)
