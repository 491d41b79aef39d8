"""Labels that are wrong: at random, in one class, or where they are the easiest to tell."""

from dataclasses import dataclass

import numpy as np

from tvdbayes._typing import Array, IntArray


@dataclass(frozen=True)
class Scenario:
    """Which training labels are wrong: a share of all rows.

    If structured, only rows with label 1 get a wrong one, at most half of them. Rows are taken at
    random, or those first of which logistic regression on the right labels is surest that they have
    label 1.
    """

    kind: str
    share: float
    structured: bool = False
    surest: bool = False

    @property
    def name(self) -> str:
        """As in "surest 10 %"."""
        return f"{self.kind} {100 * self.share:g} %" if self.share else self.kind

    def labels(self, x: Array, y: IntArray, seed: int) -> IntArray:
        """Labels y (n,) of rows x (n, p), some of them wrong."""
        rng = np.random.default_rng([seed, *self.name.encode()])
        rows, n_wrong = np.arange(len(y)), round(self.share * len(y))
        if self.structured:
            rows = rows[y == 1]
            n_wrong = min(n_wrong, rows.size // 2)
        order = np.argsort(-logistic(x, y, x[rows])) if self.surest else rng.permutation(rows.size)
        wrong = rows[order[:n_wrong]]
        found = y.copy()
        found[wrong] = 1 - y[wrong]
        return found


SCENARIOS = (
    Scenario("clean", 0.0),
    Scenario("random", 0.1),
    Scenario("random", 0.2),
    Scenario("surest", 0.1, structured=True, surest=True),
    Scenario("surest", 0.2, structured=True, surest=True),
    Scenario("class", 0.15, structured=True),
)


def logistic(x: Array, y: IntArray, at: Array) -> Array:
    """Probability of label 1 in rows `at` (m, p), (m,), learned from rows x (n, p), y (n,).

    Columns are scaled, and a weak ridge keeps coefficients finite where labels are separated.
    """
    from sklearn.linear_model import LogisticRegression

    centre, scale = x.mean(0), x.std(0)
    scale = np.where(scale > 0, scale, 1.0)
    made = LogisticRegression(max_iter=1000).fit((x - centre) / scale, y)
    return np.asarray(made.predict_proba((at - centre) / scale)[:, 1], float)
