"""The predictor of a saturated model: a parameter for each row and predictor of the family."""

from dataclasses import dataclass, replace

import numpy as np

from tvdbayes._array import Device
from tvdbayes._typing import Array, BoolArray, IntArray
from tvdbayes.models.predictors._base import AbstractBound


@dataclass(frozen=True, eq=False)
class BoundSaturated(AbstractBound):
    """Parameters are the predictors themselves, (k n_x, B) in the order of (k, n_x)."""

    n_rows: int
    n_each: int

    @property
    def n_params(self) -> int:
        return self.n_rows * self.n_each

    @property
    def n_predictors(self) -> int:
        return self.n_each

    @property
    def penalised(self) -> BoolArray:
        return np.zeros(self.n_params, bool)

    def eta(self, theta: Array) -> Array:
        return theta.reshape(self.n_each, self.n_rows, -1)

    def slope(self, theta: Array, change: Array) -> Array:
        return np.zeros_like(self.eta(theta))

    def to_user(self, theta: Array) -> Array:
        return theta

    def from_user(self, theta: Array) -> Array:
        return theta

    def cut(self, rows: slice | IntArray) -> "BoundSaturated":
        return replace(self, n_rows=len(np.arange(self.n_rows)[rows]))

    def put(self, device: Device) -> "BoundSaturated":
        return self
