"""The contract of a family: the distribution f(y | eta) of y given its linear predictors.

Conventions
-----------
A family has k predictors (rate; dispersion, inflation, ...), named in `predictors`.
``y`` and ``trials`` broadcast against one predictor, ``eta`` has shape (k, ...): axis 0 runs
over predictors. Values have the shape of one predictor, first derivatives (k, ...), second
derivatives (k, k, ...). Everything is elementwise, so the same formula serves cells x draws,
new rows, and a grid.
"""

from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np

from tvdbayes._array import xp
from tvdbayes._errors import FamilyError, listing
from tvdbayes._typing import Array, BoolArray, IntArray
from tvdbayes._validate import LARGEST, bad_trials

_MOST_ELEMENTS = 1 << 20
"""Nodes x predictors that a sum over the support holds at a time."""

Jet = tuple[Array, Array, Array]
"""A value with its first and second derivatives in eta: (...), (k, ...), (k, k, ...)."""


def from_triangle(*rows: list[Array]) -> Array:
    """A symmetric matrix (k, k, ...) from its lower triangle, row by row."""
    shape = xp.broadcast_shapes(*(entry.shape for row in rows for entry in row))
    whole = [[rows[max(i, j)][min(i, j)] for j in range(len(rows))] for i in range(len(rows))]
    return xp.stack([xp.stack([xp.broadcast_to(e, shape) for e in row]) for row in whole])


def bordered(inner: Array, side: Array, corner: Array) -> Array:
    """The symmetric matrix (k + 1, k + 1, ...) of one (k, k, ...), a last row and a corner."""
    last = xp.concatenate([side, corner[None]])
    return xp.concatenate([xp.concatenate([inner, side[:, None]], axis=1), last[None]])


class AbstractFamily(ABC):
    """The distribution of a discrete outcome given its linear predictors."""

    name: ClassVar[str]
    needs: ClassVar[str]
    """The outcomes it takes, in words: "whole outcomes of at least 0"."""
    suits: ClassVar[str]
    """What it is for, in a few words, for the list of the families that have a name."""
    binary: ClassVar[bool] = False
    """Whether there are just the outcomes 0 and 1."""

    counts: ClassVar[bool] = False
    """Whether outcomes are numbers of which neighbours may be binned; the formula of the pmf must
    then make sense between whole numbers too."""

    @property
    def on_device(self) -> bool:
        """Whether its formulas also work on arrays of a device."""
        return True

    @property
    def single_precision(self) -> bool:
        """Whether its formulas keep enough digits in single precision to train a network."""
        return True

    @property
    def predictors(self) -> tuple[str, ...]:
        """Names of the k predictors; the first is the main one and has no name of its own."""
        return ("",)

    @property
    def n_main(self) -> int:
        """How many of the predictors use all covariates; the others are constant unless asked."""
        return 1

    @property
    def link_name(self) -> str:
        """What links the main predictor to the outcome: "log", "logit", ..."""
        return ""

    @property
    def ratios(self) -> tuple[str, ...]:
        """What exp of a coefficient of each predictor is called; empty where it is no ratio."""
        return ("",) * len(self.predictors)

    @property
    def levels(self) -> tuple[str, ...]:
        """Names of the outcomes 0, 1, ..., where outcomes are names."""
        return ()

    def with_answers(self, names: tuple[str, ...]) -> "AbstractFamily":
        """The same law of a yes/no outcome whose answers 0 and 1 have these names."""
        raise NotImplementedError(f"{type(self).__name__} is no law of a yes/no outcome.")

    @property
    def yes_in_words(self) -> str:
        """Which of two named answers counts as 1, in a sentence; empty for other outcomes."""
        return ""

    @property
    def needs_trials(self) -> bool:
        """Whether outcomes are counted out of a known number of trials."""
        return False

    @property
    def spikes(self) -> tuple[float, ...]:
        """Outcomes with a probability of their own, which bins must not join with their
        neighbours.
        """
        return ()

    @property
    def smooth_sums(self) -> bool:
        """Whether sums of powers of the pmf are smooth functions of one predictor alone, over a
        long support, so that they are worth a table (see `_support`).
        """
        return False

    @property
    def canonical(self) -> bool:
        """Whether the log pmf is ``y * eta - cumulant(eta)`` plus a function of y and trials."""
        return False

    @property
    def compiled(self) -> str | None:
        """The name of its weighted likelihood in the compiled kernel; None if that has none."""
        return None

    def compiled_pmf(self, *, folded: bool) -> str | None:
        """What the compiled kernel calls the pmf, or, folded, the probability of a yes; None if it
        does not know it.
        """
        return None

    def cumulant(self, eta: Array, trials: Array) -> Jet:
        """The cumulant of a `canonical` family, each of one predictor's shape: K, K', K''."""
        raise NotImplementedError(f"{type(self).__name__} is not canonical.")

    @abstractmethod
    def log_jet(self, y: Array, eta: Array, trials: Array) -> Jet:
        """Logarithm of the probability of y, with first and second derivatives in eta."""

    @abstractmethod
    def mean(self, eta: Array, trials: Array) -> Array:
        """Expected outcome."""

    @abstractmethod
    def sample(self, rng: np.random.Generator, eta: Array, trials: Array) -> Array:
        """One outcome for each entry of a predictor."""

    @abstractmethod
    def nodes(self, eta: Array, trials: Array, power: float) -> tuple[Array, Array]:
        """Outcomes y (S, ...) and weights (S, ...) with ``sum(weights * pmf(y) ** power)`` equal to
        the sum over the whole support to a relative 1e-12, for any power of at least 1.
        """

    @abstractmethod
    def saturated(self, y: Array, trials: Array) -> Array:
        """Predictors under which y is (nearly) the likeliest outcome, (k, ...): start values."""

    @abstractmethod
    def possible(self, y: Array, trials: Array) -> BoolArray:
        """Whether the outcome lies in the support."""

    @abstractmethod
    def degenerate(self, eta: Array, trials: Array) -> BoolArray:
        """Whether all but 1e-6 of the mass sits on one outcome at the edge of the support."""

    def pmf(self, y: Array, eta: Array, trials: Array) -> Array:
        """Probability of y."""
        return xp.exp(self.log_pmf(y, eta, trials))

    def log_pmf(self, y: Array, eta: Array, trials: Array) -> Array:
        """Logarithm of the probability of y."""
        return self.log_jet(y, eta, trials)[0]

    def score(self, y: Array, eta: Array, trials: Array) -> Array:
        """First derivative of `log_pmf` in eta, (k, ...)."""
        return self.log_jet(y, eta, trials)[1]

    def curvature(self, y: Array, eta: Array, trials: Array) -> Array:
        """Second derivative of `log_pmf` in eta, (k, k, ...)."""
        return self.log_jet(y, eta, trials)[2]

    def slopes(self, y: Array, eta: Array, trials: Array) -> tuple[Array, Array]:
        """`pmf` with its first derivatives in eta, to about 1e-14: what most steps need.

        Worth overriding where second derivatives or tails to all digits are costly.
        """
        log_pmf, score, _ = self.log_jet(y, eta, trials)
        pmf = xp.exp(log_pmf)
        return pmf, pmf * score

    def jet(self, y: Array, eta: Array, trials: Array) -> Jet:
        """`pmf` with its first and second derivatives in eta."""
        log_pmf, score, curvature = self.log_jet(y, eta, trials)
        pmf = xp.exp(log_pmf)
        first = pmf * score
        second = first[:, None] * score
        second += pmf * curvature
        return pmf, first, second

    def power_sum(self, eta: Array, power: float, trials: Array) -> Jet:
        """Sum of ``pmf ** power`` over the support, with derivatives; density power needs it."""
        y, weights = self.nodes(eta, trials, power)
        total, first, second = xp.zeros(eta.shape[1:]), xp.zeros(eta.shape), xp.zeros(())
        size = max(1, _MOST_ELEMENTS // max(eta[0].size, 1))
        for start in range(0, len(y), size):
            part = slice(start, start + size)
            log_pmf, score, curvature = self.log_jet(y[part], eta[:, None], trials)
            mass = weights[part] * xp.exp(power * log_pmf)
            total = total + mass.sum(0)
            first = first + power * (mass * score).sum(1)
            curved = power * score[:, None] * score + curvature
            second = second + power * (mass * curved).sum(2)
        return total, first, second

    def check_outcomes(
        self, y: Array, trials: Array, unit: str = "row", numbers: IntArray | None = None
    ) -> None:
        """Raise unless every outcome lies in the support; ``numbers`` name the units."""
        if self.needs_trials:
            odd = odd_trials(trials)
            if odd.any():
                raise FamilyError(bad_trials(listing(odd, trials, unit, numbers)))
        huge = y > LARGEST
        if huge.any():
            raise FamilyError(
                "Outcomes must be below 2**53, from where on neighbours are the same number; "
                f"{listing(huge, y, unit, numbers)}. Rescale them."
            )
        wrong = ~self.possible(y, trials)
        if wrong.any():
            raise FamilyError(
                f"{type(self).__name__} needs {self.needs}; {listing(wrong, y, unit, numbers)}. "
                "Check the outcome column (round it if it should be whole), or choose another "
                "family."
            )


def odd_trials(trials: Array) -> BoolArray:
    """Which trials are not whole numbers from 1 to 2**53 - 1."""
    odd: BoolArray = ~((trials >= 1) & (trials <= LARGEST) & (trials == xp.round(trials)))
    return odd
