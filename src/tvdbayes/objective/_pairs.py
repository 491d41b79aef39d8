"""Where the model is evaluated: an x row with an outcome."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from tvdbayes._array import Device, Segments, compiled, on_device
from tvdbayes._typing import Array
from tvdbayes.families import AbstractFamily, Jet
from tvdbayes.predictors import AbstractBound

__all__ = ["Pairs"]

_CHUNK_ELEMENTS = 1 << 16


@dataclass(frozen=True, eq=False)
class Pairs:
    """Q pairs of an x row and an outcome, sorted by x row.

    Parameters
    ----------
    x_of_pair : Segments
        The x row of each pair.
    y, trials : (Q, 1)
        Outcome and trials of each pair.
    """

    family: AbstractFamily
    bound: AbstractBound
    x_of_pair: Segments
    y: Array
    trials: Array

    def eta(self, theta: Array) -> Array:
        """Predictors (k, Q, B) at parameters (d, B)."""
        return self.spread(self.bound.eta(theta))

    def spread(self, at_x: Array) -> Array:
        """(k, n_x, B) to (k, Q, B)."""
        if at_x.shape[0] == 1:
            return self.x_of_pair.spread(at_x[0])[None]
        return at_x.take(self.x_of_pair.index, axis=1)

    def pmf(self, theta: Array) -> Array:
        """(Q, B)."""
        return self._by_chunks(self.family.slopes, theta)[0]

    def jet(self, theta: Array) -> Jet:
        """The pmf with derivatives in eta."""
        value, first, second = self._by_chunks(self.family.jet, theta)
        return value, first, second

    def slopes(self, theta: Array) -> tuple[Array, Array]:
        """The pmf with first derivatives in eta."""
        value, first = self._by_chunks(self.family.slopes, theta)
        return value, first

    def log_pmf(self, theta: Array) -> Array:
        """(Q, B)."""
        return self._by_chunks(self.family.log_jet, theta)[0]

    def log_jet(self, theta: Array) -> Jet:
        """The log pmf with derivatives in eta."""
        value, first, second = self._by_chunks(self.family.log_jet, theta)
        return value, first, second

    def _by_chunks(
        self, law: Callable[[Array, Array, Array], tuple[Array, ...]], theta: Array
    ) -> tuple[Array, ...]:
        """Evaluate an elementwise law at all pairs, so many at a time as stay in the cache."""
        eta = self.eta(theta)
        size = max(1, _CHUNK_ELEMENTS // eta.shape[-1])
        if on_device(eta):
            found: tuple[Array, ...] = compiled(law)(self.y, eta, self.trials)
            return found
        if size >= len(self.y):
            return law(self.y, eta, self.trials)
        whole: list[Array] = []
        for start in range(0, len(self.y), size):
            part = slice(start, start + size)
            results = law(self.y[part], eta[:, part], self.trials[part])
            if not whole:
                shape = (len(self.y), eta.shape[-1])
                whole = [np.empty(r.shape[:-2] + shape) for r in results]
            for array, result in zip(whole, results, strict=True):
                array[..., part, :] = result
        return tuple(whole)

    def pull_back_slope(self, slope: Array) -> Array:
        """Gradient in theta from the derivative in the predictors of the pairs, (k, Q, B)."""
        return self.bound.linear.pullback([self.x_of_pair.total(part) for part in slope])

    def pull_back(self, slope: Array, curvature: Array) -> tuple[Array, Array]:
        """Gradient and second derivative in theta from those in the predictors of the pairs."""
        k = slope.shape[0]
        total = self.x_of_pair.total
        grad = self.pull_back_slope(slope)
        hess = self.bound.linear.pull_curvature(
            [[total(curvature[a, b]) for b in range(a + 1)] for a in range(k)]
        )
        return grad, hess

    def put(self, device: Device) -> "Pairs":
        """The same on a device."""
        bound = self.bound.put(device)
        return replace(self, bound=bound, y=device.put(self.y), trials=device.put(self.trials))

    @cached_property
    def columns(self) -> list[tuple[int, Array]]:
        """For each parameter, its predictor and its standardised column at the pairs (Q, 1)."""
        return [
            (k, self.x_of_pair.spread(z[:, j].copy()[:, None]))
            for k, z in enumerate(self.bound.linear.designs)
            for j in range(z.shape[1])
        ]
