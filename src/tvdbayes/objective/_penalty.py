"""A quadratic pull on the parameters: the ridge, and the rule that breaks ties."""

from dataclasses import dataclass

import numpy as np

from tvdbayes._typing import Array, BoolArray

__all__ = ["TIE_BREAK", "Penalty"]

TIE_BREAK = 1e-11
"""Weight of the squared distance to the reference (in standardised coordinates). Among parameters
whose divergence is the same to about ten digits, the one nearest the reference is chosen; an
optimum at infinity becomes a finite one far out."""


@dataclass(frozen=True, eq=False)
class Penalty:
    """``ridge * |slopes|^2 + TIE_BREAK * |theta - reference|^2``, coordinates standardised."""

    ridge: Array
    reference: Array

    @classmethod
    def make(cls, ridge: float, slopes: BoolArray, reference: Array) -> "Penalty":
        """A ridge on the slopes, ties broken towards the reference (d,)."""
        return cls(np.where(slopes, ridge, 0.0)[:, None], reference[:, None])

    def value(self, theta: Array) -> Array:
        """(d, B) to (B,)."""
        away = theta - self.reference
        total: Array = (self.ridge * theta * theta + TIE_BREAK * away * away).sum(0)
        return total

    def grad(self, theta: Array) -> Array:
        """(d, B) to (d, B)."""
        return 2 * (self.ridge * theta + TIE_BREAK * (theta - self.reference))

    def add_curvature(self, hess: Array) -> None:
        """Add the second derivative to hess (d, d, B) in place."""
        d = hess.shape[0]
        hess[range(d), range(d)] += 2 * (self.ridge + TIE_BREAK)
