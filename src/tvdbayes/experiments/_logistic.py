"""Logistic regression, as a yardstick and to tell which rows are sure."""

import numpy as np

from tvdbayes._typing import Array, IntArray

__all__ = ["logistic"]


def logistic(x: Array, y: IntArray, at: Array) -> Array:
    """Probability of label 1 in rows `at` (m, p), (m,), learned from rows x (n, p), y (n,).

    Columns are scaled, and a weak ridge keeps coefficients finite where labels are separated.
    """
    from sklearn.linear_model import LogisticRegression  # type: ignore[import-untyped]

    centre, scale = x.mean(0), x.std(0)
    scale = np.where(scale > 0, scale, 1.0)
    made = LogisticRegression(max_iter=1000).fit((x - centre) / scale, y)
    return np.asarray(made.predict_proba((at - centre) / scale)[:, 1], float)
