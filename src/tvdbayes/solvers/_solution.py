"""The outcome of a solve: one column for each draw, none ever dropped."""

from dataclasses import dataclass, fields, replace
from enum import IntEnum

import numpy as np

from tvdbayes._typing import Array, BoolArray, IntArray


class Status(IntEnum):
    """How the search of one draw ended; the sentence is what a user reads.

    No draw is ever dropped: `Fit.status` has a code for each of them.

    Examples
    --------
    >>> import tvdbayes as tb
    >>> fit = tb.fit("y ~ 1", {"y": [0, 1, 1, 2, 2, 3] * 10}, n_draws=20)
    >>> {tb.Status(code).name for code in fit.status}
    {'CONVERGED'}
    >>> for status in tb.Status:
    ...     print(int(status), status.sentence)
    0 A minimum was found to the requested accuracy.
    1 No step lowered the objective further, though the accuracy was not certified.
    2 The limit on steps was reached before the requested accuracy.
    3 The minimum lies at infinity; the coefficients are where the search ended.
    4 The network was trained to the end of its schedule; no minimum is certified.
    5 The minimum lies at the boundary of the family: a dispersion or an inflation is as good as 0.
    """

    sentence: str

    def __new__(cls, number: int, sentence: str) -> "Status":
        member = int.__new__(cls, number)
        member._value_ = number
        member.sentence = sentence
        return member

    CONVERGED = 0, "A minimum was found to the requested accuracy."
    STALLED = 1, "No step lowered the objective further, though the accuracy was not certified."
    OUT_OF_STEPS = 2, "The limit on steps was reached before the requested accuracy."
    SEPARATED = 3, "The minimum lies at infinity; the coefficients are where the search ended."
    TRAINED = 4, "The network was trained to the end of its schedule; no minimum is certified."
    BOUNDARY = (
        5,
        "The minimum lies at the boundary of the family: a dispersion or an inflation is as good "
        "as 0.",
    )


@dataclass(frozen=True, eq=False)
class Solution:
    """Minimisers and how they were reached.

    Parameters
    ----------
    theta : (d, B)
    value : (B,)
        The objective itself, not smoothed.
    status : (B,)
        Codes of `Status`.
    n_iter : (B,)
        Evaluations spent.
    decrement : (B,)
        Newton decrement: twice the decrease that the last quadratic model still promised.
    residual : (B,)
        Largest entry of the gradient at the end.
    """

    theta: Array
    value: Array
    status: IntArray
    n_iter: IntArray
    decrement: Array
    residual: Array

    @staticmethod
    def join(parts: "list[Solution]") -> "Solution":
        """The draws of all parts, in order."""
        return Solution(
            *(
                np.concatenate([getattr(part, field.name) for part in parts], axis=-1)
                for field in fields(Solution)
            )
        )

    def take(self, index: IntArray | BoolArray) -> "Solution":
        """The draws with these numbers."""
        return Solution(*(getattr(self, field.name)[..., index] for field in fields(Solution)))

    def replaced_by(self, other: "Solution", draws: IntArray) -> "Solution":
        """Replace these draws by `other`, one column for each."""
        parts = {}
        for field in fields(Solution):
            parts[field.name] = np.array(getattr(self, field.name))
            parts[field.name][..., draws] = getattr(other, field.name)
        return Solution(**parts)

    def improved_by(self, other: "Solution", draws: IntArray) -> "Solution":
        """Replace these draws where `other`, one column for each, has a lower value."""
        # A draw may come several times: the last assignment below is then the lowest value.
        order = np.argsort(-other.value, kind="stable")
        other, draws = other.take(order), draws[order]
        better = ~(other.value >= self.value[draws])
        n_iter = self.n_iter.copy()
        np.add.at(n_iter, draws, other.n_iter)
        return replace(self.replaced_by(other.take(better), draws[better]), n_iter=n_iter)
