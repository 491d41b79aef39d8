"""Newton's method on many draws at once, with the kinks smoothed away and back.

Each draw minimises a smoothed function F(theta; tau) with gradient g and second derivative H, made
positive definite where it is not. A step s solves

    H s = -g,    theta <- theta + length * s,

and is taken if F falls by at least ``armijo * length * (-g's)``, else it is shortened. The
decrement ``-g's`` is twice the decrease that the quadratic model promises; the search ends where it
is below the accuracy at the last width tau of the smoothing.

For a kinked term the second derivative is the primal-dual one: dual variables of the kinks are
carried from step to step, which keeps full steps possible as tau goes to zero. All draws are
evaluated together, each at its own trial point, and finished draws leave the batch.

References
----------
Nocedal, J. and Wright, S. J. (2006). Numerical Optimization, 2nd ed., chapter 3.
Chan, T. F., Golub, G. H. and Mulet, P. (1999). A nonlinear primal-dual method for total
variation-based image restoration. SIAM Journal on Scientific Computing 20, 1964-1977.
"""

from dataclasses import dataclass

import numpy as np

from tvdbayes._array import xp
from tvdbayes._typing import Array, BoolArray, IntArray
from tvdbayes.solvers._problem import Accuracy, Expansion, Point, Problem
from tvdbayes.solvers._solution import Solution, Status


@dataclass(frozen=True)
class Newton:
    """The rules of the search; what accuracy is wanted belongs to the problem.

    Parameters
    ----------
    armijo : float
        Share of the promised decrease that a step must achieve: the usual 1e-4 refuses hardly any
        step that goes down at all (Nocedal and Wright, section 3.1).
    shorten : float
        Factor of a refused step: four refusals take it to a hundredth. With 0.1 or 0.5 a count and
        a logit problem took within 3 % as many evaluations.
    shortest : float
        Share of a Newton step below which the search is stuck: ten refusals in a row.
    longest : float
        Longest step in standardised coordinates; a linear predictor rarely needs more in one go.
    full : float
        Only after a step of more than this share of a Newton step is the smoothing narrowed: a
        refusal (0.3) means that the quadratic model does not hold yet.
    narrow : float
        Factor of the width when the smoothing is narrowed. With 0.3 the same problems took 4 and
        29 % more evaluations, with 0.01 8 % fewer and 3 % more.
    compact : float
        Share of open draws below which the batch is rebuilt without the finished ones. Without
        that the same problems took a quarter to a half longer; 0.5 makes no difference.
    max_iter : int
        Evaluations at most. Ten to forty are usual.
    """

    armijo: float = 1e-4
    shorten: float = 0.3
    shortest: float = 1e-5
    longest: float = 5.0
    full: float = 0.3
    narrow: float = 0.1
    compact: float = 0.8
    max_iter: int = 150

    def minimise(
        self, problem: Problem, start: Array, tau: float | None, goal: Accuracy
    ) -> Solution:
        """Minimise from start (d, B), smoothed from `tau` if given, to the accuracy."""
        begin = goal.begin if tau is None else tau
        if problem.compiled is not None:
            return problem.compiled.minimise(start, begin, goal, self)
        found = _Found.at(start)
        batch = _Batch.begin(problem, start, begin)
        for _ in range(self.max_iter):
            taken, last = self._evaluate(batch, found, goal)
            open_before = batch.open_
            done = self._finish(batch, found, taken, last, goal)
            found.n_iter[batch.draws[open_before]] += 1
            if done:
                break
            self._narrow_stuck(batch, taken, last, goal)
            batch.compact(self.compact)
            batch.trial = found.theta[:, batch.draws] + batch.length * batch.step
        # Merits are values where there are no kinks; the last step hardly changes them.
        value = problem.value(found.theta) if problem.kinked else found.reached
        return Solution(
            found.theta, value, found.status, found.n_iter, found.decrement, found.residual
        )

    def _evaluate(
        self, batch: "_Batch", found: "_Found", goal: Accuracy
    ) -> tuple[BoolArray, BoolArray]:
        """Evaluate the trial points; which were taken, and whose smoothing is the last one."""
        point = batch.problem.at(batch.trial)
        with np.errstate(invalid="ignore"):
            enough = batch.merit - self.armijo * batch.length * batch.promise
            enough += goal.rounding * (1 + np.abs(batch.merit))
        merit = point.merit(batch.widths)
        taken = batch.open_ & (merit <= enough)
        found.theta[:, batch.draws[taken]] = batch.trial[:, taken]
        kinked = batch.problem.kinked
        last = batch.widths <= goal.tau if kinked else np.ones(batch.draws.size, bool)
        narrow = taken & ~last & (batch.length > self.full)
        narrower = self._narrowed(point, batch, merit, goal.tau)
        batch.widths = np.where(narrow, narrower, batch.widths)

        view = point.expand(batch.widths, batch.dual)
        with np.errstate(all="ignore"):
            step = self._bounded(-solve_positive(view.hess, view.grad), view.grad)
        batch.renew(view, step, taken, self.shorten)
        found.note(batch, view, taken)
        return taken, last

    def _finish(
        self, batch: "_Batch", found: "_Found", taken: BoolArray, last: BoolArray, goal: Accuracy
    ) -> bool:
        """Close the draws whose search has ended; whether none is left."""
        draws, stuck = batch.draws, batch.open_ & (batch.length < self.shortest)
        sure = taken & last & (batch.promise < goal.decrement)
        # The last step is too short to be worth an evaluation, but not to be taken.
        found.theta[:, draws[sure]] += batch.step[:, sure]
        found.status[draws[sure]] = Status.CONVERGED
        found.status[draws[stuck & last]] = Status.STALLED
        batch.open_ = batch.open_ & ~(sure | (stuck & last))
        return not batch.open_.any()

    def _narrow_stuck(
        self, batch: "_Batch", taken: BoolArray, last: BoolArray, goal: Accuracy
    ) -> None:
        """Narrow the smoothing where no progress is left at this width.

        The draw takes a new step from the last point that was taken.
        """
        stuck = batch.open_ & (batch.length < self.shortest)
        restart = ~last & (stuck | (taken & (batch.promise < goal.decrement)))
        narrower = np.maximum(batch.widths * self.narrow, goal.tau)
        batch.widths = np.where(restart, narrower, batch.widths)
        batch.length = np.where(restart, 0.0, batch.length)
        batch.merit = np.where(restart, np.inf, batch.merit)

    def _narrowed(self, point: Point, batch: "_Batch", merit: Array, tau: float) -> Array:
        """Widths (B,) that the smoothing goes on with, down to tau.

        Narrowing pays once it changes more than the last step promised. Before that, too few kinks
        would be left to steer by: in large tables they lie dense, and near the optimum.
        """
        promise, gain = batch.promise, merit - point.merit(self.narrow * batch.widths)
        half_way = np.where(promise < 0.1 * gain, self.narrow, self.narrow**0.5)
        factor = np.where(promise > gain, 1.0, half_way)
        narrower: Array = np.maximum(batch.widths * factor, tau)
        return narrower

    def _bounded(self, step: Array, grad: Array) -> Array:
        """The step, not too long; along the gradient where curvature overflowed."""
        lost = ~np.isfinite(step).all(0)
        if lost.any():
            down = np.nan_to_num(-grad[:, lost], posinf=1.0, neginf=-1.0)
            step[:, lost] = down / np.maximum(np.abs(down).max(0), 1.0)
        size: Array = np.abs(step).max(0)
        return step * np.minimum(1.0, self.longest / np.maximum(size, 1e-300))


def newton(
    problem: Problem,
    start: Array,
    *,
    tau: float | None = None,
    accuracy: Accuracy | None = None,
    rules: Newton = Newton(),
    values: bool = True,
) -> Solution:
    """Minimise from start (d, B), with kinks smoothed, from `tau` if given, to the accuracy.

    A problem may have a faster way, `by_kernel`; what that leaves open is done here. Its `values`
    take a pass of their own: they are not numbers where they are not asked for.
    """
    goal = accuracy or problem.accuracy
    quick = getattr(problem, "by_kernel", None)
    found: Solution | None = None if quick is None else quick(start, goal, values)
    if found is None:
        return rules.minimise(problem, start, tau, goal)
    left = np.flatnonzero(found.status != Status.CONVERGED)
    if left.size:
        slow = rules.minimise(problem.take(left), start[:, left], tau, goal)
        found = found.replaced_by(slow, left)
    return found


@dataclass(eq=False)
class _Found:
    """The last point that each draw has taken, and what is known there; all draws, in order."""

    theta: Array
    status: IntArray
    n_iter: IntArray
    reached: Array
    decrement: Array
    residual: Array

    @classmethod
    def at(cls, start: Array) -> "_Found":
        """Nothing is known but where the search begins."""
        theta, n_draws = start.copy(), start.shape[1]
        status = np.full(n_draws, int(Status.OUT_OF_STEPS))
        unknown = (np.full(n_draws, np.inf) for _ in range(3))
        return cls(theta, status, np.zeros(n_draws, np.intp), *unknown)

    def note(self, batch: "_Batch", view: Expansion, taken: BoolArray) -> None:
        """What is known at the points that were taken."""
        draws = batch.draws[taken]
        self.reached[draws] = view.merit[taken]
        self.residual[draws] = np.abs(view.grad).max(0)[taken]
        self.decrement[draws] = batch.promise[taken]


@dataclass(eq=False)
class _Batch:
    """The draws that are evaluated together; everything is in their order, the last axis.

    Parameters
    ----------
    draws : IntArray
        Their numbers among all draws.
    problem : Problem
        Their problems.
    open_ : BoolArray
        Which have not ended; others only fill up the batch.
    trial : (d, B)
        The points to be evaluated next.
    step, length
        The Newton step (d, B) from the last point taken, and the share of it that is tried.
    widths
        The width tau of each draw's smoothing.
    merit, promise
        Smoothed value at the last point taken, and the decrement there.
    dual : array or None
        Dual variables of the kinks, as estimated for the end of the step.
    """

    draws: IntArray
    problem: Problem
    open_: BoolArray
    trial: Array
    step: Array
    length: Array
    widths: Array
    merit: Array
    promise: Array
    dual: Array | None = None

    @classmethod
    def begin(cls, problem: Problem, start: Array, tau: float) -> "_Batch":
        """All draws, at their starts, which are always taken: no merit is known yet."""
        n = start.shape[1]
        return cls(
            draws=np.arange(n),
            problem=problem,
            open_=np.ones(n, bool),
            trial=start.copy(),
            step=np.zeros_like(start),
            length=np.zeros(n),
            widths=np.full(n, tau if problem.kinked else 0.0),
            merit=np.full(n, np.inf),
            promise=np.zeros(n),
        )

    def renew(self, view: Expansion, step: Array, taken: BoolArray, shorten: float) -> None:
        """A new step where the trial was taken, a shorter one elsewhere."""
        promise = -(view.grad * step).sum(0)
        if self.problem.kinked:
            dual = view.dual_after(step)
            if self.dual is not None and not taken.all():
                dual = xp.where(taken, dual, self.dual)
            self.dual = dual
        self.step = np.where(taken, step, self.step)
        self.promise = np.where(taken, promise, self.promise)
        self.merit = np.where(taken, view.merit, self.merit)
        self.length = np.where(taken, 1.0, shorten * self.length)

    def compact(self, share: float) -> None:
        """Leave finished draws out, if so many are that it pays."""
        size = self.problem.batch_size(int(self.open_.sum()))
        if size >= share * self.draws.size:
            return
        # Unfinished draws first; finished ones fill up what must have a round size.
        keep = np.argsort(~self.open_, kind="stable")[:size]
        self.draws, self.problem = self.draws[keep], self.problem.take(keep)
        self.open_, self.step = self.open_[keep], self.step[:, keep]
        self.widths, self.length = self.widths[keep], self.length[keep]
        self.merit, self.promise = self.merit[keep], self.promise[keep]
        self.dual = None if self.dual is None else self.dual[..., keep]


_FLOOR = 1e-10
"""Pivots and eigenvalues below this share of the curvature are rounding errors of it."""


def solve_positive(hess: Array, grad: Array) -> Array:
    """Solve ``H step = grad`` for hess (d, d, B), with H made positive definite where it is not.

    By Cholesky factors of all at once, vectorised over the last axis, which for small matrices
    beats a call of LAPACK for each. Matrices that are not positive definite are few: they get the
    absolute values of their eigenvalues. Unlike with a rule for pivots, the order of the
    parameters then does not matter to the minimum that is found.

    A pivot is judged beside the curvature of its own parameter, so that a parameter that is flat
    beside a kink has a Newton step too.
    """
    d = grad.shape[0]
    smallest = _FLOOR * np.maximum(np.abs(hess[range(d), range(d)]), 1e-100)
    definite = np.ones(grad.shape[1], bool)
    factor = np.empty_like(hess)
    pivots = np.empty_like(grad)
    solution = grad.copy()
    for j in range(d):
        column = hess[j:, j] - np.einsum("ikb,kb->ib", factor[j:, :j], pivots[:j] * factor[j, :j])
        definite &= column[0] >= smallest[j]
        pivots[j] = np.maximum(column[0], smallest[j])
        factor[j:, j] = column / pivots[j]
        solution[j + 1 :] -= factor[j + 1 :, j] * solution[j]
    solution /= pivots
    for j in range(d - 1, 0, -1):
        solution[:j] -= factor[j, :j] * solution[j]
    if not definite.all():
        # What has overflowed has no eigenvalues: the caller sees that the step is not finite.
        other = np.flatnonzero(~definite)
        solution[:, other] = np.nan
        other = other[np.isfinite(hess[:, :, other]).all((0, 1))]
        solution[:, other] = _by_eigenvalues(hess[:, :, other], grad[:, other])
    return solution


def _by_eigenvalues(hess: Array, grad: Array) -> Array:
    size, axes = np.linalg.eigh(hess.transpose(2, 0, 1))
    size = np.abs(size)
    size = np.maximum(size, _FLOOR * np.maximum(size.max(1, keepdims=True), 1e-100))
    along = (axes.transpose(0, 2, 1) @ grad.T[:, :, None])[..., 0] / size
    found: Array = (axes @ along[..., None])[..., 0].T
    return found
