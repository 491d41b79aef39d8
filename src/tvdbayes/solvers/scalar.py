"""Exact search for one parameter: every kink near the minimum, and every smooth piece between.

A scan of common candidates is nearly free, since the model is evaluated once for all draws; it
tells in which stretch each draw's minimum lies. There the problem names its kinks. It is smooth
between them, so the minimum is one of the kinks or lies inside a piece whose middle says so.

Ties: where the set of parameters within 1e-9 of the minimum is wider than 2e-4, its midpoint is
the answer.
"""

from dataclasses import replace

import numpy as np

from tvdbayes._typing import Array, BoolArray, IntArray
from tvdbayes.solvers._problem import KinkedProblem, Problem
from tvdbayes.solvers._solution import Solution, Status

__all__ = ["scalar"]

_STRETCH = 0.03
"""Candidates within this much of a draw's best one bound the stretch that is searched exactly."""

_SHALLOW = 0.01
_SHORT = 0.1
_MOST_ELEMENTS = 1 << 19
"""Terms x kinks x draws at a time: each kink is a column of all terms, so memory grows with the
square of the terms."""
_EXACT = 1e-14
_FLAT = 1e-9
_NARROW = 1e-4


def scalar(problem: KinkedProblem, candidates: Array) -> Solution:
    """Minimise one-parameter problems; candidates (K,) are sorted and hold the mode of each pmf."""
    size = max(1, _MOST_ELEMENTS // problem.n_terms**2)
    parts = [
        _scalar(problem.take(np.arange(start, min(start + size, problem.n_draws))), candidates)
        for start in range(0, problem.n_draws, size)
    ]
    return parts[0] if len(parts) == 1 else Solution.join(parts)


def _scalar(problem: KinkedProblem, candidates: Array) -> Solution:
    scores = problem.score(candidates[None])
    near = scores < scores.min(0) + _STRETCH
    last = candidates.size - 1
    low = candidates[np.maximum(near.argmax(0) - 1, 0)]
    high = candidates[np.minimum(last - near[::-1].argmax(0) + 1, last)]
    at, draw = problem.kinks(candidates, low, high)
    # Candidates split long smooth pieces, which may hold more than one minimum.
    split, owner = np.nonzero((candidates[:, None] >= low) & (candidates[:, None] <= high))
    at, draw = np.concatenate([at, candidates[split]]), np.concatenate([draw, owner])
    order = np.lexsort((at, draw))
    at, draw = at[order], draw[order]
    value = problem.take(draw).value(at[None])

    best = _first_lowest(value, draw)
    theta, lowest = at[best], value[best]
    n_iter = np.bincount(draw, minlength=low.size)
    solution = Solution(
        theta[None],
        lowest,
        np.full(low.size, int(Status.CONVERGED)),
        n_iter,
        np.zeros(low.size),
        np.zeros(low.size),
    )
    # A hollow much lower than both ends of a short piece would need more curvature than there is.
    width = at[1:] - at[:-1]
    likely = (np.minimum(value[1:], value[:-1]) < lowest[draw[1:]] + _SHALLOW) | (width > _SHORT)
    piece = np.flatnonzero((draw[1:] == draw[:-1]) & (width > 0) & likely)
    left, right, owner = at[piece], at[piece + 1], draw[piece]
    middle = (left + right) / 2
    height, slope, bend = _measure(problem.take(owner), middle)
    with np.errstate(all="ignore"):
        hollow = (bend > 0) & (np.abs(slope) < bend * (right - left))
        hollow &= height - slope * slope / bend < lowest[owner] + 1e-6
    inside = np.flatnonzero(hollow)
    if inside.size:
        found = _close_in(problem.take(owner[inside]), left[inside], right[inside], middle[inside])
        solution = solution.improved_by(found, owner[inside])
    return _centre_ties(problem, solution)


def _first_lowest(value: Array, draw: IntArray) -> IntArray:
    """For each draw (sorted), the position of its lowest value."""
    order = np.lexsort((value, draw))
    return order[np.searchsorted(draw[order], np.arange(draw[-1] + 1))]


def _close_in(problem: Problem, low: Array, high: Array, start: Array) -> Solution:
    """Minimise smooth one-parameter problems between low and high (B,): Newton in a bracket."""
    theta, status = start.copy(), np.full(start.size, int(Status.OUT_OF_STEPS))
    decrement, residual = np.full(start.size, np.inf), np.full(start.size, np.inf)
    draws, batch, low, high = np.arange(start.size), problem, low.copy(), high.copy()
    n_iter = np.zeros(start.size, np.intp)
    for _ in range(25):
        at = theta[draws]
        _, slope, bend = _measure(batch, at)
        low, high = np.where(slope < 0, at, low), np.where(slope > 0, at, high)
        with np.errstate(all="ignore"):
            aim = at - slope / bend
            decrement[draws] = np.abs(slope * slope / bend)
        residual[draws] = np.abs(slope)
        n_iter[draws] += 1
        done = (decrement[draws] < _EXACT) | (high - low < 1e-14 * (1 + np.abs(at)))
        status[draws[done]] = Status.CONVERGED
        keep = np.flatnonzero(~done)
        if not keep.size:
            break
        inside = (aim >= low) & (aim <= high)
        theta[draws] = np.where(done, at, np.where(inside, aim, (low + high) / 2))
        draws, batch, low, high = draws[keep], batch.take(keep), low[keep], high[keep]
    return Solution(theta[None], problem.value(theta[None]), status, n_iter, decrement, residual)


def _measure(problem: Problem, theta: Array) -> tuple[Array, Array, Array]:
    """Value, slope and curvature of the problem itself, not smoothed, at (B,)."""
    view = problem.at(theta[None]).expand(np.zeros(theta.size), None)
    return view.merit, view.grad[0], view.hess[0, 0]


def _centre_ties(problem: Problem, solution: Solution) -> Solution:
    """Replace a minimiser on a flat stretch by the middle of the stretch."""
    theta, limit = solution.theta[0], solution.value + _FLAT
    edges = []
    for sign in (-1.0, 1.0):
        flat = np.flatnonzero(problem.value((theta + sign * _NARROW)[None]) <= limit)
        reach = np.zeros(theta.size)
        if flat.size:
            reach[flat] = _flat_reach(problem.take(flat), theta[flat], limit[flat], sign)
        edges.append(theta + sign * reach)
    middle = (edges[0] + edges[1]) / 2
    value = problem.value(middle[None])
    # An uneven kink is not a tie: its midpoint is worse than its minimum by most of the margin.
    fine = value <= solution.value + 0.01 * _FLAT
    return replace(
        solution,
        theta=np.where(fine, middle, theta)[None],
        value=np.where(fine, value, solution.value),
    )


def _flat_reach(problem: Problem, theta: Array, limit: Array, sign: float) -> Array:
    """How far one can go in a direction before the value exceeds its limit."""

    def flat_at(reach: Array) -> BoolArray:
        return problem.value((theta + sign * reach)[None]) <= limit

    inner, outer = np.full(theta.size, _NARROW), np.full(theta.size, 2 * _NARROW)
    for _ in range(20):
        still = flat_at(outer)
        if not still.any():
            break
        inner, outer = np.where(still, outer, inner), np.where(still, 2 * outer, outer)
    for _ in range(30):
        middle = (inner + outer) / 2
        still = flat_at(middle)
        inner, outer = np.where(still, middle, inner), np.where(still, outer, middle)
    return inner
