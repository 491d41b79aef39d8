"""Where the model is evaluated: an x row with an outcome."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from tvdbayes._array import Device, Segments, compiled, on_device
from tvdbayes._typing import Array, IntArray
from tvdbayes.models.families import AbstractFamily, Jet, once_per_outcome
from tvdbayes.models.predictors import AbstractBound

_CHUNK_ELEMENTS = 1 << 16
"""Pairs x draws at a time: 512 KiB for each array, so that the few needed stay in the cache."""
_MANY = 2
"""Outcomes of each x row, on average, from which it pays to take the cumulant once per row."""
_PLAIN = 2000.0
"""Up to cumulants of this size the canonical form loses less than 1e-12."""


@dataclass(frozen=True, eq=False)
class Canonical:
    """Pairs of a canonical law, with what depends on outcomes alone worked out.

    The log pmf is ``y (eta - centre) - (K(eta) - level)`` with the cumulant K. The centre is the
    predictor that makes y likely: there the terms are small, so that they lose no digits.

    Parameters
    ----------
    x_of_pair : Segments
        The x row of each pair.
    y, centre, level : (Q, 1)
    trials : (n_x, 1)
        The trials of each x row.
    """

    x_of_pair: Segments
    y: Array
    centre: Array
    level: Array
    trials: Array

    @classmethod
    def of(cls, pairs: "Pairs") -> "Canonical | None":
        """The form of these pairs; None where the law has none, or it would lose digits."""
        family, y, trials = pairs.family, pairs.y, pairs.trials
        if not family.canonical or not len(y):
            return None
        at_x = np.ones((pairs.x_of_pair.n, 1))
        at_x[pairs.x_of_pair.index] = trials
        index: IntArray | slice = slice(None)
        if (trials == trials[0]).all():
            # What depends on outcomes alone is worked out once for each.
            each, index = pairs.outcomes
            own, trials = each[:, None], trials[:1]
        else:
            own = y
        centre = family.saturated(own, trials)
        cumulant = family.cumulant(centre, trials)[0]
        if cumulant.max() > _PLAIN:
            return None
        level = cumulant + family.log_pmf(own, centre, trials)
        return cls(pairs.x_of_pair, y, centre[0][index], level[index], at_x)

    @property
    def constant(self) -> Array:
        """The log pmf without ``y eta - K(eta)``, (Q, 1)."""
        return self.level - self.y * self.centre


@dataclass(frozen=True, eq=False)
class Pairs:
    """Q pairs of an x row and an outcome, sorted by x row.

    Parameters
    ----------
    x_of_pair : Segments
        The x row of each pair.
    y, trials : (Q, 1)
        Outcome and trials of each pair.
    coded : tuple or None
        See `outcomes`, where that is known.
    """

    family: AbstractFamily
    bound: AbstractBound
    x_of_pair: Segments
    y: Array
    trials: Array
    coded: tuple[Array, IntArray] | None = None

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
        return self._either(0, self.family.slopes, theta)[0]

    def jet(self, theta: Array) -> Jet:
        """The pmf with derivatives in eta."""
        value, first, second = self._either(2, self.family.jet, theta)
        return value, first, second

    def slopes(self, theta: Array) -> tuple[Array, Array]:
        """The pmf with first derivatives in eta."""
        value, first = self._either(1, self.family.slopes, theta)
        return value, first

    def log_pmf(self, theta: Array) -> Array:
        """(Q, B)."""
        return self._by_chunks(self.family.log_jet, self.eta(theta))[0]

    def log_jet(self, theta: Array) -> Jet:
        """The log pmf with derivatives in eta."""
        value, first, second = self._by_chunks(self.family.log_jet, self.eta(theta))
        return value, first, second

    @cached_property
    def canonical(self) -> Canonical | None:
        """The canonical form, where there is one."""
        return Canonical.of(self)

    def _either(
        self, order: int, law: Callable[[Array, Array, Array], tuple[Array, ...]], theta: Array
    ) -> tuple[Array, ...]:
        """The pmf with so many derivatives, in canonical form where that saves work."""
        at_x = self.bound.eta(theta)
        if on_device(at_x) or len(self.y) < _MANY * self.x_of_pair.n or self.canonical is None:
            return self._by_chunks(law, self.spread(at_x))
        return self._from_cumulant(self.canonical, order, at_x)

    def _from_cumulant(self, form: Canonical, order: int, at_x: Array) -> tuple[Array, ...]:
        """The pmf (Q, B) with so many derivatives in eta, so many pairs at a time as stay in the
        cache.
        """
        eta = at_x[0]
        value, mean, variance = self.family.cumulant(at_x, form.trials)
        shape = (len(self.y), eta.shape[-1])
        found = tuple(np.empty((1,) * k + shape) for k in range(order + 1))
        size = max(1, _CHUNK_ELEMENTS // shape[1])
        for start in range(0, len(self.y), size):
            part = slice(start, start + size)
            rows, y = self.x_of_pair.index[part], form.y[part]
            log_pmf = eta.take(rows, axis=0)
            log_pmf -= form.centre[part]
            log_pmf *= y
            less = value.take(rows, axis=0)
            less -= form.level[part]
            log_pmf -= less
            pmf = np.exp(log_pmf, out=found[0][part])
            if order:
                score = y - mean.take(rows, axis=0)
                np.multiply(pmf, score, out=found[1][0, part])
            if order > 1:
                score *= score
                score -= variance.take(rows, axis=0)
                np.multiply(pmf, score, out=found[2][0, 0, part])
        return found

    def _by_chunks(
        self, law: Callable[[Array, Array, Array], tuple[Array, ...]], eta: Array
    ) -> tuple[Array, ...]:
        """Evaluate an elementwise law at all pairs, so many at a time as stay in the cache."""
        size = max(1, _CHUNK_ELEMENTS // eta.shape[-1])
        if on_device(eta):
            found: tuple[Array, ...] = compiled(law)(self.y, eta, self.trials)
            return found
        if size >= len(self.y):
            return law(self.y, eta, self.trials)
        whole: list[Array] = []
        with once_per_outcome(self.outcomes[0]):
            for start in range(0, len(self.y), size):
                part = slice(start, start + size)
                results = law(self.y[part], eta[:, part], self.trials[part])
                if not whole:
                    shape = (len(self.y), eta.shape[-1])
                    whole = [np.empty(r.shape[:-2] + shape) for r in results]
                for array, result in zip(whole, results, strict=True):
                    array[..., part, :] = result
        return tuple(whole)

    @cached_property
    def outcomes(self) -> tuple[Array, IntArray]:
        """The distinct outcomes, and the number of each pair's among them, (Q,)."""
        return self.coded or np.unique(self.y[:, 0], return_inverse=True)

    def pullback_slope(self, slope: Array) -> Array:
        """Gradient in theta from the derivative in the predictors of the pairs, (k, Q, B)."""
        return self.bound.pullback([self.x_of_pair.total(part) for part in slope])

    def pullback(self, slope: Array, curvature: Array) -> tuple[Array, Array]:
        """Gradient and second derivative in theta from those in the predictors of the pairs."""
        k = slope.shape[0]
        total = self.x_of_pair.total
        grad = self.pullback_slope(slope)
        hess = self.bound.pullback_curvature(
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
            for k, z in enumerate(self.bound.designs)
            for j in range(z.shape[1])
        ]
