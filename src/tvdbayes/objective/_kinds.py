"""The two kinds of divergence, and what each asks of a model.

A *group* divergence compares, for every group of covariate rows and every outcome seen in it, the
mass of the data with the mass of the model. A *row* divergence looks at each cell's own
log-probability.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Protocol

from tvdbayes._array import xp
from tvdbayes._typing import Array
from tvdbayes.objective._group import GroupProblem
from tvdbayes.objective._row import RowProblem
from tvdbayes.objective._terms import AbstractComparison, Parts


class Evaluated(Protocol):
    """A model evaluated at some parameters, by the units or by the cells of a table."""

    def units(self) -> tuple[Array, Array, Array | None]:
        """Masses (U, 1) of data and model; where one of two outcomes is given, of their groups."""

    def cells(self) -> tuple[Array, Array]:
        """Log-probability and mass of each cell."""

    def power_sum(self, power: float) -> Array:
        """Sum over the support of ``pmf ** power`` for each cell."""


class AbstractDivergence(ABC):
    """A way to compare a table with a model."""

    name: ClassVar[str]
    on_groups: ClassVar[bool]
    """Whether masses of groups are compared, so that the partition matters."""
    kinked: ClassVar[bool] = False
    """Whether the divergence has kinks, which solvers smooth away and back."""
    sums: ClassVar[bool] = False
    """Whether every step sums over the whole support."""
    folds: ClassVar[bool] = False
    """Whether, of two outcomes, comparing one is enough (see `compare_halves`)."""

    @abstractmethod
    def problem(self, parts: Parts, p: Array) -> GroupProblem | RowProblem:
        """The minimisation problems of the cell masses p (m, B)."""

    @abstractmethod
    def at(self, model: Evaluated, tau: Array) -> Array:
        """The smoothed divergence, (), where a model is evaluated; `tau` (1,) as in comparisons."""

    @property
    @abstractmethod
    def row_score(self) -> "AbstractRowDivergence":
        """What held-out rows, each for itself, are scored by."""


class AbstractGroupDivergence(AbstractDivergence):
    """Sum over units (a group and an outcome seen in it) of a term in data mass and model mass.

    The data masses of a draw sum to 1 and are at least `tiny`.
    """

    on_groups: ClassVar[bool] = True
    compiled: ClassVar[bool] = False
    """Whether the compiled kernel knows it."""
    by_excess: ClassVar[bool] = False
    """Whether it depends on the masses of data and model by their difference alone."""

    def of_excess(self, excess: Array, *, folded: bool) -> Array:
        """The divergence (B,) where the data have so much more mass than the model, (U, B).

        ``folded`` says whether one of two outcomes stands for both.
        """
        raise NotImplementedError(f"{type(self).__name__} is no function of the difference.")

    def problem(self, parts: Parts, p: Array) -> GroupProblem:
        layout = parts.layout
        many = self.by_excess and layout.batches is not None
        return GroupProblem(parts, self, p if many else layout.put(p))

    def at(self, model: Evaluated, tau: Array) -> Array:
        data, expected, whole = model.units()
        if whole is None:
            value: Array = self.compare(data, expected).total(tau)[0]
        else:
            value = self.compare_halves(data, expected, whole).total(tau)[0]
        return value

    @property
    def row_score(self) -> "AbstractRowDivergence":
        # Of ten rows that are compared together one is held out, and compared alone it would
        # reward certainty.
        return BoundedLogScore()

    @abstractmethod
    def term(self, data_mass: Array, model_mass: Array) -> Array:
        """The terms whose sum over units is the divergence."""

    @abstractmethod
    def compare(self, data_mass: Array, model_mass: Array) -> AbstractComparison:
        """The divergence at these masses, ready for derivatives."""

    def compare_halves(
        self, data_mass: Array, model_mass: Array, whole: Array
    ) -> AbstractComparison:
        """The same for two outcomes of which one is given; the other has the rest of `whole`."""
        raise NotImplementedError(f"{type(self).__name__} compares every outcome.")


class AbstractRowDivergence(AbstractDivergence):
    """Mean over cells of a loss in the log-probability, plus a sum over the support if `power`.

    Up to a constant of the table: the same expression with the table's own conditional
    probabilities is subtracted, so that a model equal to the table has divergence 0.
    """

    on_groups: ClassVar[bool] = False

    likelihood: ClassVar[bool] = False
    """Whether the loss is minus the log-probability itself."""
    power: float = 0.0
    """If positive, the sum over the support of ``pmf ** power`` is added for every row."""

    def problem(self, parts: Parts, p: Array) -> RowProblem:
        return RowProblem.make(parts.layout, self, parts.penalty, p)

    def at(self, model: Evaluated, tau: Array) -> Array:
        log_pmf, mass = model.cells()
        loss = self.loss(log_pmf)
        if self.power:
            loss = loss + model.power_sum(self.power)
        total: Array = (mass * loss).sum()
        return total

    @property
    def row_score(self) -> "AbstractRowDivergence":
        return self

    @abstractmethod
    def loss(self, log_pmf: Array) -> Array:
        """Loss of a cell."""

    @abstractmethod
    def derivatives(self, log_pmf: Array) -> tuple[Array, Array]:
        """First and second derivative of `loss`, of a shape that broadcasts."""


@dataclass(frozen=True)
class BoundedLogScore(AbstractRowDivergence):
    """The log score of a probability to which a little is added: no row can cost more than 4.6.

    The best probability of a yes/no answer is off by at most that little.
    """

    name: ClassVar[str] = "bounded"
    least: ClassVar[float] = 0.01

    def loss(self, log_pmf: Array) -> Array:
        return -xp.log(xp.exp(log_pmf) + self.least)

    def derivatives(self, log_pmf: Array) -> tuple[Array, Array]:
        share = 1 / (1 + self.least * xp.exp(-log_pmf))
        return -share, -share * (1 - share)
