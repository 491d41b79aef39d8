"""Newton's method on many draws at once, with the kinks smoothed away and back.

Every pass evaluates all unfinished draws at their own trial points. A draw whose trial lowers its
merit takes a new Newton step and narrows its smoothing; the others shorten their step. The
multipliers of the kinks are carried along (a primal-dual method), which keeps full steps possible
as the smoothing goes to zero. Finished draws leave the batch, so stragglers cost little.
"""

import numpy as np

from tvdbayes._array import xp
from tvdbayes._typing import Array
from tvdbayes.solvers._cholesky import solve_positive
from tvdbayes.solvers._problem import Accuracy, Point, Problem
from tvdbayes.solvers._solution import Solution, Status

__all__ = ["newton"]

_ARMIJO = 1e-4
_SHORTEN = 0.3
_SHORTEST = 1e-5
_LONGEST = 5.0
"""Longest step in standardised coordinates; a linear predictor rarely needs more in one go."""


def newton(
    problem: Problem,
    start: Array,
    *,
    tau: float | None = None,
    accuracy: Accuracy | None = None,
    max_iter: int = 150,
) -> Solution:
    """Minimise from start (d, B), with kinks smoothed, from `tau` if given, to the accuracy."""
    n_draws = start.shape[1]
    goal, kinked = accuracy or problem.accuracy, problem.kinked
    theta, status = start.copy(), np.full(n_draws, int(Status.OUT_OF_STEPS))
    n_iter = np.zeros(n_draws, np.intp)
    reached, decrement, residual = (np.full(n_draws, np.inf) for _ in range(3))

    # State of the draws still in the batch, in its order.
    draws, batch, open_ = np.arange(n_draws), problem, np.ones(n_draws, bool)
    trial, step = start.copy(), np.zeros_like(start)
    begin = goal.begin if tau is None else tau
    widths = np.full(n_draws, begin if kinked else 0.0)
    length, merit, promise = np.zeros(n_draws), np.full(n_draws, np.inf), np.zeros(n_draws)
    pull: Array | None = None
    for _ in range(max_iter):
        point = batch.at(trial)
        with np.errstate(invalid="ignore"):
            enough = merit - _ARMIJO * length * promise + goal.rounding * (1 + np.abs(merit))
        here = point.merit(widths)
        taken = open_ & (here <= enough)
        theta[:, draws[taken]] = trial[:, taken]
        last = widths <= goal.tau if kinked else np.ones(draws.size, bool)
        narrow = taken & ~last & (length > 0.3)
        widths = np.where(narrow, _narrowed(point, widths, here, promise, goal.tau), widths)

        view = point.expand(widths, pull)
        with np.errstate(all="ignore"):
            new_step = _bounded(-solve_positive(view.hess, view.grad), view.grad)
        new_promise = -(view.grad * new_step).sum(0)
        if kinked:
            new_pull = view.pull_after(new_step)
            pull = new_pull if pull is None or taken.all() else xp.where(taken, new_pull, pull)
        step, promise = np.where(taken, new_step, step), np.where(taken, new_promise, promise)
        merit = np.where(taken, view.merit, merit)
        length = np.where(taken, 1.0, _SHORTEN * length)
        reached[draws[taken]] = view.merit[taken]
        residual[draws[taken]] = np.abs(view.grad).max(0)[taken]
        decrement[draws[taken]] = new_promise[taken]
        n_iter[draws[open_]] += 1

        stuck = open_ & (length < _SHORTEST)
        sure = taken & last & (promise < goal.decrement)
        # The last step is too short to be worth an evaluation, but not to be taken.
        theta[:, draws[sure]] += step[:, sure]
        status[draws[sure]] = Status.CONVERGED
        status[draws[stuck & last]] = Status.STALLED
        open_ &= ~(sure | (stuck & last))
        if not open_.any():
            break
        # No progress at this width, or none worth having: narrow it and take a new step from the
        # last good point.
        restart = ~last & (stuck | (taken & (promise < goal.decrement)))
        widths = np.where(restart, np.maximum(widths * 0.1, goal.tau), widths)
        length, merit = np.where(restart, 0.0, length), np.where(restart, np.inf, merit)
        size = batch.batch_size(int(open_.sum()))
        if size < 0.8 * draws.size:
            # Unfinished draws first; finished ones fill up what must have a round size.
            keep = np.argsort(~open_, kind="stable")[:size]
            draws, batch, open_ = draws[keep], batch.take(keep), open_[keep]
            step, widths, length = step[:, keep], widths[keep], length[keep]
            merit, promise = merit[keep], promise[keep]
            pull = None if pull is None else pull[..., keep]
        trial = theta[:, draws] + length * step
    # Merits are values where there are no kinks; the last step hardly changes them.
    value = problem.value(theta) if kinked else reached
    return Solution(theta, value, status, n_iter, decrement, residual)


def _narrowed(point: Point, widths: Array, merit: Array, promise: Array, tau: float) -> Array:
    """Widths (B,) that the smoothing goes on with, down to tau.

    Narrowing pays once it changes more than the last step promised. Before that, too few kinks
    would be left to steer by: in large tables they lie dense, and near the optimum.
    """
    gain = merit - point.merit(0.1 * widths)
    factor = np.where(promise > gain, 1.0, np.where(promise < 0.1 * gain, 0.1, 0.1**0.5))
    narrower: Array = np.maximum(widths * factor, tau)
    return narrower


def _bounded(step: Array, grad: Array) -> Array:
    """The step, not too long; along the gradient where curvature overflowed."""
    lost = ~np.isfinite(step).all(0)
    if lost.any():
        down = np.nan_to_num(-grad[:, lost], posinf=1.0, neginf=-1.0)
        step[:, lost] = down / np.maximum(np.abs(down).max(0), 1.0)
    size: Array = np.abs(step).max(0)
    return step * np.minimum(1.0, _LONGEST / np.maximum(size, 1e-300))
