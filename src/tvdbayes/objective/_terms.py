"""What problems ask of divergences, and what divergences ask of problems."""

from abc import ABC, abstractmethod
from typing import Protocol

from tvdbayes._typing import Array
from tvdbayes.objective._layout import Layout
from tvdbayes.objective._penalty import Penalty


class AbstractComparison(ABC):
    """A group divergence at given masses of units, (U, B), with derivatives in the model mass.

    A divergence with kinks is smoothed: `tau` (B,) is the width of the smoothing as a share of a
    unit's data mass, 0 the divergence itself. Divergences without kinks ignore it.
    """

    @abstractmethod
    def total(self, tau: Array) -> Array:
        """The smoothed divergence, (B,)."""

    @abstractmethod
    def derivatives(self, tau: Array, dual: Array | None) -> tuple[Array, Array]:
        """First and second derivative of each unit's term in its model mass, (U, B).

        ``dual`` is what `dual_after` said of this point, an estimate of the dual variables of the
        kinks. Given one, the curvature of a kinked term is the primal-dual one, which stays
        informative as the smoothing shrinks (Chan, Golub and Mulet 1999).
        """

    @abstractmethod
    def dual_after(self, tau: Array, curvature: Array, change: Array) -> Array:
        """Estimate the dual variables once model masses have changed; `curvature` is that of
        `derivatives`.
        """


class GroupTerms(Protocol):
    """What a `GroupProblem` asks of a divergence; see `AbstractGroupDivergence`."""

    @property
    def kinked(self) -> bool: ...

    @property
    def compiled(self) -> bool: ...

    @property
    def by_excess(self) -> bool: ...

    def of_excess(self, excess: Array, *, folded: bool) -> Array: ...

    def term(self, data_mass: Array, model_mass: Array) -> Array: ...

    def compare(self, data_mass: Array, model_mass: Array) -> AbstractComparison: ...

    def compare_halves(
        self, data_mass: Array, model_mass: Array, whole: Array
    ) -> AbstractComparison: ...


class RowTerms(Protocol):
    """What a `RowProblem` asks of a divergence; see `AbstractRowDivergence`."""

    @property
    def likelihood(self) -> bool: ...

    @property
    def power(self) -> float: ...

    def loss(self, log_pmf: Array) -> Array: ...

    def derivatives(self, log_pmf: Array) -> tuple[Array, Array]: ...


class Parts(Protocol):
    """What a problem is made of beside masses; an `Objective`."""

    @property
    def layout(self) -> Layout: ...

    @property
    def penalty(self) -> Penalty: ...

    @property
    def anchor(self) -> Array | None:
        """What groups reuse at every point of every draw, see `AbstractUnits.anchor`."""

    @property
    def near(self) -> bool:
        """Whether searches begin near their ends."""
