"""A quadratic penalty on the parameters: the ridge, the rule that breaks ties, and pins."""

from dataclasses import dataclass

import numpy as np

from tvdbayes._typing import Array, BoolArray
from tvdbayes.models.predictors import AbstractBound

TIE_BREAK = 1e-11
"""Weight of the squared distance to the reference (in standardised coordinates). Among parameters
whose divergence is the same to about ten digits, the one nearest the reference is chosen; an
optimum at infinity becomes a finite one far out."""

PIN = 1e5
"""The same for parameters that are held at the reference: a divergence in [0, 1] whose slopes are
of the order of 1 moves them by less than 1e-5."""


@dataclass(frozen=True, eq=False)
class Penalty:
    """``ridge * spread(slopes) + tie_break_weight * |theta - reference|^2``.

    Coordinates are standardised. The spread is what `bound` says, see
    `AbstractBound.ridge_gradient`.
    """

    ridge: float
    bound: AbstractBound | None
    tie_break_weight: Array
    reference: Array

    @classmethod
    def make(
        cls,
        ridge: float,
        bound: AbstractBound,
        reference: Array,
        pinned: BoolArray | None = None,
    ) -> "Penalty":
        """A ridge on the slopes, ties broken towards the reference (d,), which holds the pinned."""
        n_params = len(reference)
        weight = np.full(n_params, TIE_BREAK)
        if pinned is not None:
            weight = np.where(pinned, PIN, TIE_BREAK)
        return cls(ridge, bound, weight[:, None], reference[:, None])

    @classmethod
    def none(cls, n_params: int) -> "Penalty":
        """No penalty at all."""
        return cls(0.0, None, *np.zeros((2, n_params, 1)))

    def value(self, theta: Array) -> Array:
        """(d, B) to (B,)."""
        away = theta - self.reference
        total: Array = (theta * self._ridge(theta) + self.tie_break_weight * away * away).sum(0)
        return total

    def grad(self, theta: Array) -> Array:
        """(d, B) to (d, B)."""
        return 2 * (self._ridge(theta) + self.tie_break_weight * (theta - self.reference))

    def add_curvature(self, hess: Array) -> None:
        """Add the second derivative to hess (d, d, B) in place."""
        d = hess.shape[0]
        hess += 2 * self.ridge_form(d)[:, :, None]
        hess[range(d), range(d)] += 2 * self.tie_break_weight

    def ridge_form(self, n_params: int) -> Array:
        """The quadratic form (d, d) of the ridge."""
        return self._ridge(np.eye(n_params))

    def _ridge(self, theta: Array) -> Array:
        if self.bound is None or self.ridge == 0:
            return np.zeros_like(theta)
        return self.ridge * self.bound.ridge_gradient(theta)
