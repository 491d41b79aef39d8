"""Outcomes that are names, with or without an order; y holds their numbers 0, 1, ...

With K levels,

    categorical    f(j) = exp(eta_j) / sum_l exp(eta_l)
    ordinal        f(j) = F(c_j - eta) - F(c_{j - 1} - eta),  c_0 = 0,
                   c_j = c_{j - 1} + exp(gap_j)

where F is the inverse of the link.

References
----------
McCullagh, P. (1980). Regression models for ordinal data. Journal of the Royal Statistical Society B
42, 109-142.
"""

from dataclasses import dataclass, field
from typing import ClassVar, Literal

import numpy as np

from tvdbayes._array import xp
from tvdbayes._errors import SettingsError
from tvdbayes._typing import Array, BoolArray
from tvdbayes._validate import one_of
from tvdbayes.models.families._base import AbstractFamily, Jet
from tvdbayes.models.families._support import CERTAIN
from tvdbayes.models.families.links import AbstractLink, Logit, require_link

_LARGE_GAP = 60.0
"""Bound on the log gap between two cutpoints: exp of it, and its square, are finite."""


class _Levels(AbstractFamily):
    """What the two families share: a finite list of levels."""

    names: tuple[str, ...]

    needs: ClassVar[str] = "the numbers 0, 1, ... of its levels"

    @property
    def levels(self) -> tuple[str, ...]:
        return self.names

    def _check_levels(self) -> None:
        given: object = self.names
        named = isinstance(given, tuple) and all(isinstance(name, str) for name in given)
        if not named or len(set(self.names)) < max(len(self.names), 2):
            raise SettingsError(
                f"{type(self).__name__} needs a tuple of at least 2 different names; got {given!r}."
            )

    def probabilities(self, eta: Array, trials: Array) -> Array:
        """Probability of each level, (K, ...)."""
        return xp.stack(
            [self.pmf(xp.array(float(j)), eta, trials) for j in range(len(self.levels))]
        )

    def mean(self, eta: Array, trials: Array) -> Array:
        numbers = xp.arange(float(len(self.levels)))
        mean: Array = xp.tensordot(numbers, self.probabilities(eta, trials), 1)
        return mean

    def sample(self, rng: np.random.Generator, eta: Array, trials: Array) -> Array:
        below = xp.cumsum(self.probabilities(eta, trials), axis=0)[:-1]
        drawn: Array = (rng.random(eta.shape[1:]) > below).sum(0).astype(float)
        return drawn

    def nodes(self, eta: Array, trials: Array, power: float) -> tuple[Array, Array]:
        y = xp.arange(float(len(self.levels))).reshape((-1,) + (1,) * (eta.ndim - 1))
        return y, xp.ones_like(y)

    def possible(self, y: Array, trials: Array) -> BoolArray:
        known: BoolArray = (y == xp.round(y)) & (y >= 0) & (y < len(self.levels))
        return known

    def degenerate(self, eta: Array, trials: Array) -> BoolArray:
        certain: BoolArray = self.probabilities(eta, trials).max(0) > 1 - CERTAIN
        return certain


@dataclass(frozen=True)
class Categorical(_Levels):
    """One of several names: multinomial logit, every covariate with a slope for each level.

    Parameters
    ----------
    names : tuple of str
        Names of the outcomes 0, 1, ...
    coding : str
        "reference": log odds of each further level against the first. "sum": log odds against the
        average. A ridge shrinks the slopes that are parameters, those of all levels but the
        first, so under a strong one it matters which level is first; less so with "sum".

    Examples
    --------
    By name it is "categorical", with the levels found in the data:

    >>> import numpy as np, tvdbayes as tb
    >>> rng = np.random.default_rng(0)
    >>> way = rng.choice(["bus", "car", "train"], 400, p=[0.5, 0.4, 0.1])
    >>> fit = tb.fit("way ~ 1", {"way": way}, family="categorical", n_draws=0)
    >>> fit.param_names  # log odds against "bus"
    ('car:Intercept', 'train:Intercept')
    >>> fit.predict({"row": [0]}, "pmf").round(1)
       bus  car  train
    0  0.5  0.4    0.1
    """

    names: tuple[str, ...]
    coding: Literal["reference", "sum"] = "reference"

    name: ClassVar[str] = "categorical"
    suits: ClassVar[str] = "names without an order"

    def __post_init__(self) -> None:
        self._check_levels()
        one_of("coding", self.coding, ("reference", "sum"))

    @property
    def predictors(self) -> tuple[str, ...]:
        return self.levels[1:]

    @property
    def n_main(self) -> int:
        return len(self.levels) - 1

    @property
    def link_name(self) -> str:
        return "logit"

    @property
    def ratios(self) -> tuple[str, ...]:
        against = "" if self.coding == "reference" else " against the average"
        return (f"odds ratio{against}",) * self.n_main

    def _first(self, eta: Array) -> Array:
        """The predictor of the first level."""
        return xp.zeros(eta.shape[1:]) if self.coding == "reference" else -eta.sum(0)

    def log_jet(self, y: Array, eta: Array, trials: Array) -> Jet:
        whole = xp.concatenate([self._first(eta)[None], eta])
        peak = whole.max(0)
        mass = xp.exp(whole - peak)
        total = mass.sum(0)
        prob = mass / total
        number = xp.arange(len(whole)).reshape((-1,) + (1,) * (eta.ndim - 1))
        hit = number == y
        value = xp.where(hit, whole - peak, 0.0).sum(0) - xp.log(total)
        off = hit - prob
        curvature = xp.where(number[:, None] == number, prob, 0.0) - prob[:, None] * prob
        if self.coding == "reference":
            return value, off[1:], -curvature[1:, 1:] + 0 * value
        # Every predictor counts with -1 for the first level.
        first = off[1:] - off[0]
        second = -(curvature[1:, 1:] - curvature[1:, :1] - curvature[:1, 1:] + curvature[0, 0])
        return value, first, second + 0 * value

    def slopes(self, y: Array, eta: Array, trials: Array) -> tuple[Array, Array]:
        prob = self.probabilities(eta, trials)
        number = xp.arange(len(prob)).reshape((-1,) + (1,) * (eta.ndim - 1))
        hit = number == y
        pmf = xp.where(hit, prob, 0.0).sum(0)
        off = pmf * (hit - prob)
        return pmf, off[1:] if self.coding == "reference" else off[1:] - off[0]

    def pmf(self, y: Array, eta: Array, trials: Array) -> Array:
        return self.slopes(y, eta, trials)[0]

    def probabilities(self, eta: Array, trials: Array) -> Array:
        whole = xp.concatenate([self._first(eta)[None], eta])
        mass = xp.exp(whole - whole.max(0))
        prob: Array = mass / mass.sum(0)
        return prob

    def saturated(self, y: Array, trials: Array) -> Array:
        number = xp.arange(1, len(self.levels)).reshape((-1,) + (1,) * xp.ndim(y))
        guess = xp.where(number == y, 2.0, 0.0)
        return guess - xp.where(y == 0, 2.0, 0.0)


@dataclass(frozen=True)
class Ordinal(_Levels):
    """Ordered names: P(Y <= j) = F(threshold_j - eta), with F the inverse of the link.

    The first threshold is 0, since eta has an intercept (minus the usual first threshold); the
    logarithms of the gaps between thresholds are further predictors, so that the order is kept.

    Parameters
    ----------
    names : tuple of str
        Names of the outcomes, in order.
    link : AbstractLink
        `Logit`, `Probit` or `Cloglog`.

    Examples
    --------
    By name it is "ordinal", for numbers and for ordered categories; names in a column of text have
    no order, so the family must say it:

    >>> import numpy as np, tvdbayes as tb
    >>> rating = np.random.default_rng(0).choice(["poor", "fair", "good"], 300, p=[0.2, 0.3, 0.5])
    >>> law = tb.Ordinal(("poor", "fair", "good"))
    >>> fit = tb.fit("rating ~ 1", {"rating": rating}, family=law, n_draws=0)
    >>> fit.param_names
    ('Intercept', 'gap fair:Intercept')
    >>> fit.predict({"row": [0]}, "pmf").round(2)
       poor  fair  good
    0  0.19  0.26  0.55
    """

    names: tuple[str, ...]
    link: AbstractLink = field(default_factory=Logit)

    name: ClassVar[str] = "ordinal"
    suits: ClassVar[str] = "ranks: numbers or ordered names"

    def __post_init__(self) -> None:
        self._check_levels()
        require_link(self.link)

    @property
    def single_precision(self) -> bool:
        return self.link.name != "cloglog"

    @property
    def predictors(self) -> tuple[str, ...]:
        return ("", *(f"gap {name}" for name in self.levels[1:-1]))

    @property
    def link_name(self) -> str:
        return self.link.name

    @property
    def ratios(self) -> tuple[str, ...]:
        # Thresholds minus eta: exp(eta) divides the hazard of a cloglog, it does not multiply it.
        main = self.link.ratio if self.link.name == "logit" else ""
        return (main, *("" for _ in self.predictors[1:]))

    def log_jet(self, y: Array, eta: Array, trials: Array) -> Jet:
        gaps = xp.exp(xp.clip(eta[1:], -_LARGE_GAP, _LARGE_GAP))
        number = xp.arange(1, len(self.levels) - 1).reshape((-1,) + (1,) * (eta.ndim - 1))
        at_top, at_bottom = y == len(self.levels) - 1, y == 0
        # The gaps below the outcome's upper threshold and below its lower one.
        up, down = xp.where(number <= y, gaps, 0.0), xp.where(number < y, gaps, 0.0)
        high, low = up.sum(0) - eta[0], down.sum(0) - eta[0]
        gap = xp.where(at_top | at_bottom, 1.0, (up - down).sum(0))
        bottom, top = self.link.log_tails(xp.where(at_top, low, high))
        between = self.link.log_between(low, gap)
        value = xp.where(at_bottom, bottom[0], xp.where(at_top, top[0], between))
        # Derivatives in the upper and the lower threshold: densities as a share of the mass.
        log_high, high_ratio = self.link.log_density(high)
        log_low, low_ratio = self.link.log_density(low)
        a, b = xp.exp(log_high - between), xp.exp(log_low - between)
        in_high = xp.where(at_bottom, bottom[1], xp.where(at_top, 0.0, a))
        in_low = xp.where(at_top, top[1], xp.where(at_bottom, 0.0, -b))
        high_2 = xp.where(at_bottom, bottom[2], xp.where(at_top, 0.0, a * (high_ratio - a)))
        low_2 = xp.where(at_top, top[2], xp.where(at_bottom, 0.0, -b * (low_ratio + b)))
        mixed = xp.where(at_top | at_bottom, 0.0, a * b)
        up, down = (xp.concatenate([0 * high[None] - 1, part + 0 * high]) for part in (up, down))
        first = in_high * up + in_low * down
        second = (
            high_2 * up[:, None] * up
            + low_2 * down[:, None] * down
            + mixed * (up[:, None] * down + down[:, None] * up)
        )
        every = xp.arange(len(first)).reshape((-1,) + (1,) * (eta.ndim - 1))
        own = (every[:, None] == every) & (every > 0)
        return value, first, second + xp.where(own, first, 0.0)

    def slopes(self, y: Array, eta: Array, trials: Array) -> tuple[Array, Array]:
        gaps = xp.exp(xp.clip(eta[1:], -_LARGE_GAP, _LARGE_GAP))
        number = xp.arange(1, len(self.levels) - 1).reshape((-1,) + (1,) * (eta.ndim - 1))
        up, down = xp.where(number <= y, gaps, 0.0), xp.where(number < y, gaps, 0.0)
        yes = xp.array(True)
        high, in_high = self.link.tail_slope(yes, up.sum(0) - eta[0])
        low, in_low = self.link.tail_slope(yes, down.sum(0) - eta[0])
        top, bottom = y == len(self.levels) - 1, y == 0
        high, in_high = xp.where(top, 1.0, high), xp.where(top, 0.0, in_high)
        low, in_low = xp.where(bottom, 0.0, low), xp.where(bottom, 0.0, in_low)
        first = xp.concatenate([(in_low - in_high)[None], in_high * up - in_low * down])
        return high - low, first

    def saturated(self, y: Array, trials: Array) -> Array:
        middle = (len(self.levels) - 1) / 2
        main = (y - 0.5) * 4 / max(middle, 1.0)
        gaps = xp.full((len(self.levels) - 2, *xp.shape(y)), xp.log(4 / max(middle, 1.0)))
        return xp.concatenate([main[None], gaps])
