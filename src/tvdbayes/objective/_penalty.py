"""A quadratic pull on the parameters: the ridge, the rule that breaks ties, and pins."""

from dataclasses import dataclass

import numpy as np

from tvdbayes._typing import Array, BoolArray

__all__ = ["TIE_BREAK", "Penalty"]

TIE_BREAK = 1e-11
"""Weight of the squared distance to the reference (in standardised coordinates). Among parameters
whose divergence is the same to about ten digits, the one nearest the reference is chosen; an
optimum at infinity becomes a finite one far out."""

PIN = 1e5
"""The same for parameters that are held at the reference: a divergence in [0, 1] whose slopes are
of the order of 1 moves them by less than 1e-5."""


@dataclass(frozen=True, eq=False)
class Penalty:
    """``ridge * |slopes|^2 + pull * |theta - reference|^2``, coordinates standardised."""

    ridge: Array
    pull: Array
    reference: Array

    @classmethod
    def make(
        cls, ridge: float, slopes: BoolArray, reference: Array, pinned: BoolArray | None = None
    ) -> "Penalty":
        """A ridge on the slopes, ties broken towards the reference (d,), which holds the pinned."""
        pull = (
            np.full(slopes.size, TIE_BREAK) if pinned is None else np.where(pinned, PIN, TIE_BREAK)
        )
        return cls(np.where(slopes, ridge, 0.0)[:, None], pull[:, None], reference[:, None])

    @classmethod
    def none(cls, n_params: int) -> "Penalty":
        """No pull at all."""
        return cls(*np.zeros((3, n_params, 1)))

    def value(self, theta: Array) -> Array:
        """(d, B) to (B,)."""
        away = theta - self.reference
        total: Array = (self.ridge * theta * theta + self.pull * away * away).sum(0)
        return total

    def grad(self, theta: Array) -> Array:
        """(d, B) to (d, B)."""
        return 2 * (self.ridge * theta + self.pull * (theta - self.reference))

    def add_curvature(self, hess: Array) -> None:
        """Add the second derivative to hess (d, d, B) in place."""
        d = hess.shape[0]
        hess[range(d), range(d)] += 2 * (self.ridge + self.pull)
