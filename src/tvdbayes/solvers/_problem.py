"""What a solver needs to know of a problem: B independent minimisations over theta (d, B).

Solvers know no statistics. A problem with kinks is met smoothed: `tau` (B,) is the relative width
of the smoothing, 0 the problem itself. Evaluating is split in two, because the costly part (`at`)
does not depend on `tau`.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from tvdbayes._typing import Array, IntArray

if TYPE_CHECKING:
    from tvdbayes.solvers._solution import Solution
    from tvdbayes.solvers.newton import Newton


@dataclass(frozen=True)
class Accuracy:
    """How a draw is solved: the last smoothing, the Newton decrement that ends the search there,
    and the smoothing to begin with.
    """

    tau: float
    decrement: float
    begin: float = 0.1
    rounding: float = 1e-15
    """Relative error of a merit."""

    def in_single_precision(self) -> "Accuracy":
        """What of it can be had with seven digits."""
        return Accuracy(max(self.tau, 1e-4), max(self.decrement, 1e-6), self.begin, 1e-6)


class Expansion(Protocol):
    """A quadratic model of the smoothed problem around a point."""

    @property
    def merit(self) -> Array:
        """Smoothed value, (B,)."""

    @property
    def grad(self) -> Array:
        """(d, B)."""

    @property
    def hess(self) -> Array:
        """(d, d, B)."""

    def dual_after(self, step: Array) -> Array:
        """Estimate of the dual variables of the kinks after a step (d, B); last axis B."""


class Point(Protocol):
    """A problem evaluated at some theta."""

    def merit(self, tau: Array) -> Array:
        """Smoothed value, (B,)."""

    def expand(self, tau: Array, dual: Array | None) -> Expansion:
        """Value, gradient and curvature; `dual` are dual variables carried from the last step."""


class CompiledSearch(Protocol):
    """The same minimisations in compiled code."""

    def minimise(self, start: Array, tau: float, goal: Accuracy, rules: "Newton") -> "Solution":
        """What `Newton.minimise` finds, to rounding; each draw as if it were alone."""


class Problem(Protocol):
    """B independent minimisations, solved together."""

    @property
    def compiled(self) -> CompiledSearch | None:
        """The same in compiled code; None where there is none."""

    @property
    def n_params(self) -> int:
        """D."""

    @property
    def n_draws(self) -> int:
        """B."""

    @property
    def kinked(self) -> bool:
        """Whether there is anything to smooth."""

    @property
    def accuracy(self) -> Accuracy:
        """When to stop."""

    def at(self, theta: Array) -> Point:
        """Evaluate at (d, B)."""

    def value(self, theta: Array) -> Array:
        """The value itself, not smoothed, (B,)."""

    def score(self, pool: Array) -> Array:
        """The values of K common candidates (d, K) in every problem, (K, B)."""

    def take(self, index: IntArray) -> "Problem":
        """The problems with these numbers, in this order, repeats allowed."""

    def batch_size(self, n: int) -> int:
        """How many problems to take where these many are needed: some sizes suit a device."""


class KinkedProblem(Problem, Protocol):
    """One-parameter problems that know where their kinks are."""

    @property
    def n_terms(self) -> int:
        """Number of terms that can have a kink."""

    def take(self, index: IntArray) -> "KinkedProblem":
        """The problems with these numbers, in this order, repeats allowed."""

    def kinks(self, candidates: Array, low: Array, high: Array) -> tuple[Array, IntArray]:
        """Positions of the kinks between low and high (B,), and the draw that each belongs to.

        `candidates` are sorted and hold the mode of each pmf, so that a pmf is monotone between
        neighbours.
        """
