"""Exact search for one parameter: every kink near the minimum, and every smooth piece between.

A scan of common candidates is nearly free, since the model is evaluated once for all draws; it
tells in which stretch each draw's minimum lies. There the problem names its kinks. It is smooth
between them, so the minimum is one of the kinks or lies inside a piece whose middle says so.

For a sum of terms c |p - f(theta)| the kinks are the roots of f(theta) = p, at most two for each
cell, since a pmf in one parameter has one mode.

Ties: where the set of parameters within 1e-9 of the minimum is wider than 2e-4, its midpoint is
the answer.
"""

from dataclasses import dataclass, replace

import numpy as np

from tvdbayes._typing import Array, BoolArray, IntArray
from tvdbayes.solvers._problem import KinkedProblem, Problem
from tvdbayes.solvers._solution import Solution, Status

_MOST_ELEMENTS = 1 << 19
"""Terms x kinks x draws at a time: each kink is a column of all terms, so memory grows with the
square of the terms."""


@dataclass(frozen=True)
class Tolerances:
    """What the exact search takes for small; values are those of a distance in [0, 1].

    Parameters
    ----------
    stretch : float
        Candidates within this much of a draw's best one bound the stretch that is searched. A
        scan passes every mode, so a stretch holds the minimum unless a smooth piece falls by more
        than this between two candidates.
    shallow, short : float
        A hollow between two kinks can be the minimum only if one end is within `shallow` of the
        lowest kink, or if the piece is longer than `short`: a hollow much lower than both ends of a
        short piece would need more curvature than there is.
    decrement : float
        Newton decrement that ends the search inside a piece: the rounding error of a distance.
    bracket : float
        Relative width of the bracket at which it ends, some rounding errors.
    margin : float
        How far above the lowest value the quadratic model of a piece may promise a hollow, for the
        error of that model.
    flat, narrow : float
        Parameters within `flat` of the minimum tie with it: about the accuracy of a sum over many
        cells. A set of ties that is not wider than twice `narrow` is left alone.
    """

    stretch: float = 0.03
    shallow: float = 0.01
    short: float = 0.1
    decrement: float = 1e-14
    bracket: float = 1e-14
    margin: float = 1e-6
    flat: float = 1e-9
    narrow: float = 1e-4


_TOLERANCES = Tolerances()


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
    near = scores < scores.min(0) + _TOLERANCES.stretch
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
    width = at[1:] - at[:-1]
    lower_end = np.minimum(value[1:], value[:-1])
    likely = lower_end < lowest[draw[1:]] + _TOLERANCES.shallow
    likely |= width > _TOLERANCES.short
    piece = np.flatnonzero((draw[1:] == draw[:-1]) & (width > 0) & likely)
    left, right, owner = at[piece], at[piece + 1], draw[piece]
    middle = (left + right) / 2
    height, slope, curvature = _measure(problem.take(owner), middle)
    with np.errstate(all="ignore"):
        hollow = (curvature > 0) & (np.abs(slope) < curvature * (right - left))
        hollow &= height - slope * slope / curvature < lowest[owner] + _TOLERANCES.margin
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
        _, slope, curvature = _measure(batch, at)
        low, high = np.where(slope < 0, at, low), np.where(slope > 0, at, high)
        with np.errstate(all="ignore"):
            aim = at - slope / curvature
            decrement[draws] = np.abs(slope * slope / curvature)
        residual[draws] = np.abs(slope)
        n_iter[draws] += 1
        done = (decrement[draws] < _TOLERANCES.decrement) | (
            high - low < _TOLERANCES.bracket * (1 + np.abs(at))
        )
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
    theta, limit = solution.theta[0], solution.value + _TOLERANCES.flat
    edges = []
    for sign in (-1.0, 1.0):
        flat = np.flatnonzero(problem.value((theta + sign * _TOLERANCES.narrow)[None]) <= limit)
        reach = np.zeros(theta.size)
        if flat.size:
            reach[flat] = _flat_reach(problem.take(flat), theta[flat], limit[flat], sign)
        edges.append(theta + sign * reach)
    middle = (edges[0] + edges[1]) / 2
    value = problem.value(middle[None])
    # An uneven kink is not a tie: its midpoint is worse than its minimum by most of the margin.
    fine = value <= solution.value + 0.01 * _TOLERANCES.flat
    return replace(
        solution,
        theta=np.where(fine, middle, theta)[None],
        value=np.where(fine, value, solution.value),
    )


def _flat_reach(problem: Problem, theta: Array, limit: Array, sign: float) -> Array:
    """How far one can go in a direction before the value exceeds its limit."""

    def flat_at(reach: Array) -> BoolArray:
        return problem.value((theta + sign * reach)[None]) <= limit

    inner, outer = (
        np.full(theta.size, _TOLERANCES.narrow),
        np.full(theta.size, 2 * _TOLERANCES.narrow),
    )
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
