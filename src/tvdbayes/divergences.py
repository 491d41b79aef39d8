"""What "closest" means: divergences between a table and a model, as elementwise terms.

Two kinds. A *group* divergence compares, for every group of covariate rows and every outcome
seen in it, the mass of the data with the mass of the model. Only observed outcomes appear: for
the total variation distance and for Hellinger the unobserved ones are accounted for by the total
mass being 1. A *row* divergence looks at each cell's own log-probability.

Each has derivatives in its own argument only; the chain rule to parameters is `objective`'s.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, TypeVar

import numpy as np

from tvdbayes._errors import SettingsError
from tvdbayes._typing import Array

__all__ = [
    "KLD",
    "TVD",
    "AbstractDivergence",
    "AbstractGroupDivergence",
    "AbstractRowDivergence",
    "DensityPower",
    "Hellinger",
]

Group = TypeVar("Group")
Row = TypeVar("Row")

# Model mass below this is taken as this, so that 0 / 0 cannot appear.
_TINY = 1e-150


class AbstractDivergence(ABC):
    """A way to compare a table with a model."""

    name: ClassVar[str]
    kinked: ClassVar[bool] = False
    """Whether the divergence has kinks, which solvers smooth away and back."""

    @abstractmethod
    def build(
        self,
        *,
        group: "Callable[[AbstractGroupDivergence], Group]",
        row: "Callable[[AbstractRowDivergence], Row]",
    ) -> Group | Row:
        """Call the builder that is named after this divergence's kind."""


class AbstractGroupDivergence(AbstractDivergence):
    """Sum over units (a group and an outcome seen in it) of a term in data mass and model mass.

    The data masses of a draw sum to 1. A divergence with kinks is smoothed over a mass of
    ``width`` around each; width 0 is the divergence itself.
    """

    def build(
        self,
        *,
        group: "Callable[[AbstractGroupDivergence], Group]",
        row: "Callable[[AbstractRowDivergence], Row]",
    ) -> Group | Row:
        return group(self)

    @abstractmethod
    def term(self, data_mass: Array, model_mass: Array) -> Array:
        """The terms whose sum over units is the divergence."""

    @abstractmethod
    def smoothed(self, data_mass: Array, model_mass: Array, width: Array) -> Array:
        """The terms, smoothed."""

    @abstractmethod
    def expand(
        self, data_mass: Array, model_mass: Array, width: Array, pull: Array | None
    ) -> tuple[Array, Array, Array]:
        """The smoothed term, and its first and second derivative in the model mass.

        ``pull`` is an estimate of minus the first derivative at the solution. Where a kinked term
        is given one, its curvature is the primal-dual one, which stays informative as the width
        shrinks (Chan, Golub and Mulet 1999).
        """


@dataclass(frozen=True)
class TVD(AbstractGroupDivergence):
    """Total variation distance, half the L1 distance, in [0, 1].

    Sum of ``max(data - model, 0)`` over observed units: the mass that the model cannot explain.
    """

    name: ClassVar[str] = "tvd"
    kinked: ClassVar[bool] = True

    def term(self, data_mass: Array, model_mass: Array) -> Array:
        return np.maximum(data_mass - model_mass, 0.0)

    def smoothed(self, data_mass: Array, model_mass: Array, width: Array) -> Array:
        excess = data_mass - model_mass
        return 0.5 * (excess + np.sqrt(excess * excess + width * width))

    def expand(
        self, data_mass: Array, model_mass: Array, width: Array, pull: Array | None
    ) -> tuple[Array, Array, Array]:
        excess = data_mass - model_mass
        distance = np.sqrt(excess * excess + np.maximum(width * width, _TINY))
        sign = excess / distance
        balance = sign if pull is None else 2 * pull - 1
        curvature = (0.5 - 0.5 * balance * sign) / distance
        return 0.5 * (excess + distance), -0.5 - 0.5 * sign, curvature


@dataclass(frozen=True)
class Hellinger(AbstractGroupDivergence):
    """Squared Hellinger distance, ``1 - sum(sqrt(data * model))``, in [0, 1]."""

    name: ClassVar[str] = "hellinger"

    def term(self, data_mass: Array, model_mass: Array) -> Array:
        return data_mass - np.sqrt(data_mass * model_mass)

    def smoothed(self, data_mass: Array, model_mass: Array, width: Array) -> Array:
        return self.term(data_mass, model_mass)

    def expand(
        self, data_mass: Array, model_mass: Array, width: Array, pull: Array | None
    ) -> tuple[Array, Array, Array]:
        model_mass = np.maximum(model_mass, _TINY)
        slope = -0.5 * np.sqrt(data_mass / model_mass)
        return self.term(data_mass, model_mass), slope, -0.5 * slope / model_mass


class AbstractRowDivergence(AbstractDivergence):
    """Mean over cells of a loss in the log-probability, plus a sum over the support if `power`.

    Up to a constant of the table: the same expression with the table's own conditional
    probabilities is subtracted, so that a model equal to the table has divergence 0.
    """

    power: float = 0.0
    """If positive, the sum over the support of ``pmf ** power`` is added for every row."""

    def build(
        self,
        *,
        group: Callable[[AbstractGroupDivergence], Group],
        row: "Callable[[AbstractRowDivergence], Row]",
    ) -> Group | Row:
        return row(self)

    @abstractmethod
    def loss(self, log_pmf: Array) -> Array:
        """Loss of a cell."""

    @abstractmethod
    def derivatives(self, log_pmf: Array) -> tuple[Array, Array]:
        """First and second derivative of `loss`, of a shape that broadcasts."""


@dataclass(frozen=True)
class KLD(AbstractRowDivergence):
    """Kullback-Leibler divergence: minimising it is (weighted) maximum likelihood."""

    name: ClassVar[str] = "kld"

    def loss(self, log_pmf: Array) -> Array:
        return -log_pmf

    def derivatives(self, log_pmf: Array) -> tuple[Array, Array]:
        return np.array(-1.0), np.array(0.0)


@dataclass(frozen=True)
class DensityPower(AbstractRowDivergence):
    """Density power divergence of Basu et al. (1998); ``tuning`` goes from KLD (0) to L2 (1)."""

    tuning: float = 0.5

    name: ClassVar[str] = "density_power"

    def __post_init__(self) -> None:
        if not 0 < self.tuning <= 1:
            raise SettingsError(
                f"DensityPower needs a tuning in (0, 1]; got {self.tuning}. "
                "Use KLD() for the limit 0."
            )

    @property
    def power(self) -> float:  # type: ignore[override]
        return 1 + self.tuning

    def loss(self, log_pmf: Array) -> Array:
        return -(1 + 1 / self.tuning) * np.exp(self.tuning * log_pmf)

    def derivatives(self, log_pmf: Array) -> tuple[Array, Array]:
        first = -(1 + self.tuning) * np.exp(self.tuning * log_pmf)
        return first, self.tuning * first


ALL_DIVERGENCES: tuple[AbstractDivergence, ...] = (TVD(), Hellinger(), KLD(), DensityPower())
"""One instance of every divergence; the law tests run over it."""
