"""Group problems in the compiled kernel: the search for all draws of a block, and its values."""

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from tvdbayes._typing import Array
from tvdbayes.kernel import Library
from tvdbayes.objective._penalty import Penalty
from tvdbayes.objective._slots import Slots
from tvdbayes.objective._units import FLOOR
from tvdbayes.solvers import Accuracy, Newton, Solution

_CALL = 30_000_000
"""Nodes x draws in a call of the kernel, a tenth of a second: between calls Ctrl-C is heard."""

_RULES, _GOAL = Newton(), Accuracy(0.0, 0.0)
"""What is not used where nothing is searched for."""


@dataclass(frozen=True, eq=False)
class CompiledGroups:
    """B tables p (m, B) compared with the model unit by unit, in the kernel.

    Parameters
    ----------
    kernel : Library
    slots : Slots
    penalty : Penalty
    p : (m, B)
        Masses of the cells.
    anchor : (d, U, 1) or None
    n_units, n_partitions : int
    folded, curved : bool
        As in `GroupProblem`.
    """

    kernel: Library
    slots: Slots
    penalty: Penalty
    p: Array
    anchor: Array | None
    n_units: int
    n_partitions: int
    folded: bool
    curved: bool
    _ends: list[tuple[Array, Array]] = field(default_factory=list, init=False)
    """Where the last search ended, and the divergence there."""

    def minimise(self, start: Array, tau: float, goal: Accuracy, rules: Newton) -> Solution:
        """`Newton.minimise`, each draw as if it were alone."""
        d, n_draws = start.shape
        theta, value, exact = np.empty((d, n_draws)), np.empty(n_draws), np.empty(n_draws)
        decrement, residual = np.full(n_draws, np.inf), np.full(n_draws, np.inf)
        status, n_iter = np.zeros(n_draws, np.int64), np.zeros(n_draws, np.int64)
        ends = (theta, value, exact, decrement, residual, status, n_iter)
        place, memory = np.zeros(3, np.int64), self._memory()
        rounds = max(1, _CALL // (len(self.slots.node) * self.width))
        reals, start = self._reals(rules, goal), np.ascontiguousarray(start)
        while not place[2]:
            self._call(
                "search_groups", reals, self.p, n_draws, start, tau, rounds, place, *ends, memory
            )
        self._ends[:] = [(theta.copy(), exact)]
        return Solution(theta, value, status, n_iter, decrement, residual)

    def distance(self, theta: Array) -> Array:
        """The divergence itself, (B,)."""
        for end, known in self._ends:
            if np.array_equal(end, theta):
                return known.copy()
        exact: Array = self._measure(np.ascontiguousarray(theta), None, 1)[0]
        return exact

    def score(self, slot_pmf: Array) -> Array:
        """The same at K points for all draws, (K, B), where the slots' pmf is (n_slots, K)."""
        return self._measure(None, np.ascontiguousarray(slot_pmf), slot_pmf.shape[1])

    def _measure(self, theta: Array | None, pmf: Array | None, n_points: int) -> Array:
        exact = np.empty((n_points, self.p.shape[1]))
        given = (self.p, exact.shape[1], theta, pmf, n_points)
        self._call("measure_groups", self._reals(), *given, exact, self._memory())
        return exact

    def expand(
        self, theta: Array, tau: Array, dual: Array | None, step: Array
    ) -> tuple[Array, ...]:
        """Masses (U, B), smoothed value (B,), gradient (d, B), curvature (d, d, B) and the dual
        variables after a step: what the search is made of, for at most `width` draws.
        """
        d, n_draws = theta.shape
        shapes = ((self.n_units,), (), (d,), (d, d), (self.n_units,))
        found = tuple(np.empty((*shape, self.width)) for shape in shapes)
        given = (self.p, n_draws, theta, tau, dual, step)
        self._call("expand_groups", self._reals(), *given, *found, self._memory())
        lower, hess = np.tril_indices(d), found[3]
        hess[lower[1], lower[0]] = hess[lower]
        return tuple(part[..., :n_draws] for part in found)

    @property
    def width(self) -> int:
        """Draws that are computed side by side."""
        return 2 * self.kernel.lanes

    def _memory(self) -> Array:
        """What the kernel computes in, from a round address on."""
        size = np.zeros(1, np.int64)
        self._call("groups_memory", self._reals(), size)
        memory = np.empty(int(size[0]) + 8)
        return memory[(-memory.ctypes.data % 64) // 8 :]

    def _call(self, function: str, reals: Array, *values: object) -> None:
        """Call a function whose first argument is the kernel's `Groups`: numbers and addresses."""
        slots, (n_atoms, n_params) = self.slots, self.slots.z.shape
        numbers = (slots.law, self.folded, self.curved, n_params, n_atoms, self.n_units)
        arrays = (*slots.arrays, self._anchor, *self._penalty, reals)
        addresses = (0 if array is None else array.ctypes.data for array in arrays)
        sizes = (slots.atom_of_cell.size, slots.outcome.size)
        groups = np.array([*numbers, *sizes, *addresses], np.int64)
        self.kernel.call(function, groups, *values)

    @cached_property
    def _anchor(self) -> Array | None:
        return None if self.anchor is None else np.ascontiguousarray(self.anchor[:, :, 0].T)

    @cached_property
    def _penalty(self) -> tuple[Array, Array, Array]:
        """The quadratic form of the ridge, and the weight and the goal of what breaks ties."""
        penalty, d = self.penalty, self.slots.z.shape[1]
        shape = (d, 1)
        weight, reference = (
            np.array(np.broadcast_to(part, shape))[:, 0]
            for part in (penalty.tie_break_weight, penalty.reference)
        )
        return np.ascontiguousarray(penalty.ridge_form(d)), weight, reference

    def _reals(self, rules: Newton = _RULES, goal: Accuracy = _GOAL) -> Array:
        """The other numbers, in the order of the kernel's ``R_SHARE, ...``."""
        linear, kink = (0.0, 1.0) if self.folded else (0.5, 0.5)
        terms = (1 / self.n_partitions, linear, kink, FLOOR)
        search = (rules.armijo, rules.shorten, rules.shortest, rules.longest, rules.full)
        narrow = (rules.narrow, rules.narrow**0.5, rules.max_iter)
        end = (goal.tau, goal.decrement, goal.rounding)
        return np.array([*terms, *search, *narrow, *end], float)
