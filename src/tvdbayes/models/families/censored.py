"""Counts recorded only up to a largest value, which then means "or more".

With g the pmf of the base family and u the largest value,

    f(y) = g(y)  for y < u,    f(u) = sum_{k >= u} g(k).
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tvdbayes._array import xp
from tvdbayes._typing import Array, BoolArray
from tvdbayes._validate import whole_number
from tvdbayes.models.families._base import AbstractFamily, Jet
from tvdbayes.models.families._support import CERTAIN, panels
from tvdbayes.models.families._wrapper import AbstractWrapper

_TOO_RARE = 1e-5
"""A tail less probable than this is summed itself, as 1 minus the rest would keep too few
digits."""

_REACH = 1e6
"""The tail is summed up to this multiple of the largest recorded value: beyond it nothing is
left."""

_MOST_BELOW = 10_000
"""The largest recorded value that is allowed: the probability below it is a sum of so many
terms."""


@dataclass(frozen=True)
class Censored(AbstractWrapper):
    """Counts of a base family that are recorded only up to `upper`, which means "or more".

    Parameters
    ----------
    base : AbstractFamily
        A count family.
    upper : int
        The largest count that is recorded.

    Examples
    --------
    A questionnaire whose last box says "5 or more":

    >>> import numpy as np, tvdbayes as tb
    >>> visits = np.minimum(np.random.default_rng(0).poisson(4, 2000), 5)
    >>> law = tb.Censored(tb.Poisson(), 5)
    >>> fit = tb.fit("visits ~ 1", {"visits": visits}, family=law, n_draws=0)
    >>> np.exp(fit.estimate).round(1)
    array([4.])
    """

    base: AbstractFamily
    upper: int

    about_zeros: ClassVar[bool] = False
    name: ClassVar[str] = "censored"
    needs: ClassVar[str] = "whole outcomes from 0 to its upper limit"

    def __post_init__(self) -> None:
        self._check_base()
        whole_number("upper", self.upper, 1, _MOST_BELOW)

    @property
    def on_device(self) -> bool:
        return False

    @property
    def spikes(self) -> tuple[float, ...]:
        return (*self.base.spikes, float(self.upper))

    def log_jet(self, y: Array, eta: Array, trials: Array) -> Jet:
        value, score, curvature = self.base.log_jet(xp.minimum(y, self.upper - 1.0), eta, trials)
        at = xp.broadcast_to(y >= self.upper, value.shape)
        if at.any():
            eta, trials = (
                xp.broadcast_to(eta, (len(eta), *at.shape)),
                xp.broadcast_to(trials, at.shape),
            )
            if at.ndim == 2 and (at == at[:, :1]).all():
                # Whole rows: a dispersion that they share is then seen to be shared.
                rows = xp.flatnonzero(at[:, 0])
                tail = self._log_tail(eta[:, rows], trials[rows])
                value[rows], score[:, rows], curvature[:, :, rows] = tail
            else:
                tail = self._log_tail(eta[:, at][..., None], trials[at][..., None])
                value[at], score[:, at], curvature[:, :, at] = (part[..., 0] for part in tail)
        return value, score, curvature

    def _log_tail(self, eta: Array, trials: Array) -> Jet:
        """Log of the probability of `upper` or more, with derivatives, at eta (k, n, B)."""
        jet = self._sum(xp.arange(float(self.upper)), xp.ones(self.upper), eta, trials)
        jet = (1 - jet[0], -jet[1], -jet[2])
        rare = jet[0] < _TOO_RARE
        if rare.any():
            beyond, weights = panels(xp.array(self.upper * _REACH), xp.array(1.0), 0)
            few = (eta[:, rare][..., None], trials[rare][..., None])
            sums = self._sum(self.upper + beyond, weights, *few)
            for mine, its in zip(jet, sums, strict=True):
                mine[..., rare] = its[..., 0]
        total = xp.maximum(jet[0], 1e-300)
        first = jet[1] / total
        return xp.log(total), first, jet[2] / total - first[:, None] * first

    def _sum(self, y: Array, weights: Array, eta: Array, trials: Array) -> Jet:
        """Sum of the base's pmf over y (S,), with derivatives."""
        k, *shape = eta.shape
        total, first, second = xp.zeros(shape), xp.zeros(eta.shape), xp.zeros((k, *eta.shape))
        for outcome, weight in zip(y, weights, strict=True):
            possible = self.base.possible(xp.ceil(outcome), trials)
            at = xp.full((len(trials), 1), outcome) if possible.all() else outcome * possible
            parts = self.base.jet(at, eta, trials)
            for whole, part in zip((total, first, second), parts, strict=True):
                xp.add(whole, xp.where(possible, weight * part, 0.0), out=whole)
        return total, first, second

    def mean(self, eta: Array, trials: Array) -> Array:
        y, weights = self.nodes(eta, trials, 1.0)
        mean: Array = (weights * y * self.pmf(y, eta[:, None], trials)).sum(0)
        return mean

    def sample(self, rng: np.random.Generator, eta: Array, trials: Array) -> Array:
        return xp.minimum(self.base.sample(rng, eta, trials), float(self.upper))

    def nodes(self, eta: Array, trials: Array, power: float) -> tuple[Array, Array]:
        y = xp.arange(self.upper + 1.0).reshape((-1,) + (1,) * (eta.ndim - 1))
        possible = self.possible(y, trials)
        return xp.where(possible, y, 0.0), possible.astype(float)

    def possible(self, y: Array, trials: Array) -> BoolArray:
        return self.base.possible(y, trials) & (y <= self.upper)

    def degenerate(self, eta: Array, trials: Array) -> BoolArray:
        full = self.pmf(xp.full(eta.shape[1:], float(self.upper)), eta, trials)
        return self.base.degenerate(eta, trials) | (full > 1 - CERTAIN)
