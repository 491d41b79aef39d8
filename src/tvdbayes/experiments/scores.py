"""Scores of predictions: the paper's criteria, and proper ones beside them.

Conventions
-----------
A law (rows, outcomes) holds the predictive probability of 0, 1, ..., K for each test row; outcomes
y (rows,) are whole. Lower is better for the log, Brier and ranked probability score.
"""

from collections.abc import Sequence

import numpy as np

from tvdbayes._typing import Array, IntArray
from tvdbayes.experiments.contract import Box, Measured, Task, boxes_of

_LEVELS = np.linspace(0, 1, 11)[1:-1]
_BINS = 10
"""Bins of predicted probabilities in which the calibration error is taken."""
_TINY = 1e-300
"""Probabilities below this are taken for this, so that something can be divided by them."""


def paper_criteria(mean: Array, log_pmf: Array, y: IntArray, *, of_logs: bool) -> Measured:
    """Absolute error and predictive likelihood of each test row, from (rows, draws).

    The paper defines the likelihood as the mean of the probabilities over draws; its code took the
    exponential of the mean of their logarithms (`of_logs`).
    """
    lik = np.exp(log_pmf.mean(1)) if of_logs else np.exp(log_pmf).mean(1)
    return {"abs_err": np.abs(mean - y[:, None]).mean(1), "pred_lik": lik}


def means(scores: Measured) -> Measured:
    """One number for each score: its mean over the test rows."""
    return {name: np.array([values.mean()]) for name, values in scores.items()}


def log_score(log_pmf: Array) -> Array:
    """Minus the logarithm of the mean over draws of probabilities, from their logarithms (rows, B).

    Where an outcome has no probability left that a float could hold, it still has a logarithm.
    """
    peak = log_pmf.max(1)
    score: Array = -(peak + np.log(np.exp(log_pmf - peak[:, None]).mean(1)))
    return score


def proper_scores(law: Array, y: IntArray) -> Measured:
    """Quadratic (Brier) and ranked probability score of each row, and whether it was right."""
    rows = np.arange(y.size)
    p = law[rows, y]
    below = y[:, None] <= np.arange(law.shape[1])
    return {
        "brier": (law**2).sum(1) - 2 * p + 1,
        "rps": ((law.cumsum(1) - below) ** 2).sum(1),
        "accuracy": (law.argmax(1) == y).astype(float),
    }


def answer_scores(log_pmf: Array, prob: Array, y: IntArray) -> Measured:
    """Scores of each test row (rows,), from probabilities of its label and of label 1 (rows, B)."""
    mean = prob.mean(1)
    return {
        "log": log_score(log_pmf),
        "brier": (mean - y) ** 2,
        "accuracy": ((mean > 0.5) == (y == 1)).astype(float),
    }


def calibration_error(law: Array, y: IntArray) -> float:
    """How far stated probabilities are from frequencies, on average.

    Of two outcomes: the mean gap between probability and frequency over ten bins of probability,
    each counted by its rows. Of more: the mean distance between the distribution of the
    probability integral transform, spread evenly over the step at y, and the uniform one.
    """
    if law.shape[1] == 2:
        bins = np.minimum((law[:, 1] * _BINS).astype(int), _BINS - 1)
        gaps = np.bincount(bins, law[:, 1] - y, _BINS)
        return float(np.abs(gaps).sum() / y.size)
    rows = np.arange(y.size)
    at = law.cumsum(1)[rows, y]
    step = np.maximum(law[rows, y], _TINY)
    reached = np.clip((_LEVELS[:, None] - (at - step)) / step, 0, 1).mean(1)
    return float(np.abs(reached - _LEVELS).mean())


def boxes_of_splits(tasks: Sequence[Task], measured: Sequence[Measured]) -> list[Box]:
    """Boxes of the means over the test rows of each split."""
    rows = [{key: v for key, v in found.items() if v.size == 1} for found in measured]
    return boxes_of(tasks, rows)


def calibration_boxes(tasks: Sequence[Task], measured: Sequence[Measured]) -> list[Box]:
    """Calibration error over the test rows of all splits together: a single split has too few."""
    together: dict[tuple[str, str], list[Measured]] = {}
    for task, found in zip(tasks, measured, strict=True):
        for key in found:
            method, _, criterion = key.partition("|")
            if criterion == "prob":
                rows = {"prob": found[key], "y": found["data|y"]}
                together.setdefault((task.setting, method), []).append(rows)
    boxes = []
    for (setting, method), parts in together.items():
        prob, y = (np.concatenate([part[name] for part in parts]) for name in ("prob", "y"))
        error = calibration_error(np.column_stack([1 - prob, prob]), y.astype(int))
        boxes.append(Box(setting, method, "calibration", np.array([[error]])))
    return boxes
