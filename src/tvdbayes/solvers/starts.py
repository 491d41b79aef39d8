"""Where to start: modes found once, solutions of other draws, the best of them for each draw."""

import numpy as np

from tvdbayes._typing import Array, IntArray
from tvdbayes.solvers._problem import Accuracy, Problem
from tvdbayes.solvers._solution import Solution
from tvdbayes.solvers.newton import newton

__all__ = ["find_modes", "solve_from_pool", "spread_out"]

_COARSE = 1e-2
"""Smoothing at which starts are compared; minima closer than `_SAME` there are one basin, and a
difference in value below `_CLOSE` is left undecided."""
_SAME = 0.02
_CLOSE = 2e-3

_TRIAL = 64
"""Draws on which further starts are tried; they are used on all if they matter for one of these."""


def find_modes(problem: Problem, starts: Array, n_refined: int = 12) -> Solution:
    """Distinct local minima of a single problem, best first, from the best of starts (d, S)."""
    order = np.argsort(problem.score(starts)[:, 0], kind="stable")[:n_refined]
    copies = problem.take(np.zeros(order.size, np.intp))
    found = newton(copies, starts[:, order], tau=0.3)
    found = found.take(np.argsort(found.value, kind="stable"))
    kept: list[int] = []
    for j in range(order.size):
        gaps = np.abs(found.theta[:, kept] - found.theta[:, [j]]).max(0)
        if (gaps > _SAME).all():
            kept.append(j)
    return found.take(np.array(kept))


def solve_from_pool(problem: Problem, pool: Array, n_starts: int = 3) -> Solution:
    """Solve every draw from the best few, mutually distant, candidates of a pool (d, K).

    Starts are brought to the minimum of the smoothed problem first. Only the best of these, and
    those in other basins that come close to it, are followed to the end.
    """
    first, *others = _choose(problem.score(pool), pool, n_starts)
    draws = np.arange(problem.n_draws)
    best = _coarse(problem, draws, pool[:, first])
    solution = newton(problem, best.theta, tau=_COARSE)
    for tried in (draws[:_TRIAL], draws[_TRIAL:]):
        draw = np.tile(tried, len(others))
        if not draw.size:
            continue
        start = np.concatenate([chosen[tried] for chosen in others])
        other = _coarse(problem, draw, pool[:, start])
        gap = np.abs(other.theta - best.theta[:, draw]).max(0)
        rival = np.flatnonzero((gap > _SAME) & (other.value < best.value[draw] + _CLOSE))
        if not rival.size:
            break
        found = newton(problem.take(draw[rival]), other.theta[:, rival], tau=_COARSE)
        solution = solution.improved_by(found, draw[rival])
    return solution


def spread_out(theta: Array, most: int) -> Array:
    """At most this many columns of theta (d, K), each as far as can be from those before it."""
    scale = np.maximum(theta.std(1, keepdims=True), 1e-12)
    chosen = [0]
    gap = np.full(theta.shape[1], np.inf)
    for _ in range(min(most, theta.shape[1]) - 1):
        gap = np.minimum(gap, (((theta - theta[:, chosen[-1:]]) / scale) ** 2).sum(0))
        chosen.append(int(gap.argmax()))
    return theta[:, chosen]


def _coarse(problem: Problem, draws: IntArray, start: Array) -> Solution:
    return newton(problem.take(draws), start, accuracy=Accuracy(_COARSE, 1e-6), max_iter=25)


def _choose(scores: Array, pool: Array, n_starts: int) -> list[IntArray]:
    """For each draw, the best candidates by their scores (K, B), each away from those before it."""
    gaps = np.abs(pool[:, :, None] - pool[:, None, :])
    spread = np.median(np.abs(pool - np.median(pool, axis=1, keepdims=True)), axis=1)
    near = np.all(gaps <= spread[:, None, None], axis=0)
    chosen = []
    for _ in range(n_starts):
        best = scores.argmin(0)
        chosen.append(best)
        scores = np.where(near[best].T, np.inf, scores)
    return chosen
