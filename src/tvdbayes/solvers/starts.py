"""Where to start: modes found once, solutions of other draws, the best of them for each draw."""

from dataclasses import replace

import numpy as np

from tvdbayes._typing import Array, IntArray
from tvdbayes.solvers._problem import Accuracy, Problem
from tvdbayes.solvers._solution import Solution, Status
from tvdbayes.solvers.newton import newton

_ROUGH = Accuracy(tau=1e-2, decrement=1e-6)
"""How far many starts are followed before the few best of them are followed to the end."""

_TRIED, _KEPT = 12, 4
"""Starts that are followed, and modes that are followed to the end, chosen by trial on the designs
of ``benchmarks``."""

_SAME = 0.02
"""Minima closer than this in every standardised coordinate are one mode."""

_END = 1e-13
"""Newton decrement of the best mode in the end."""

_FEW = 16
"""Draws up to which starts are followed one after another: small blocks are of large tables."""


def find_modes(problem: Problem, starts: Array) -> Solution:
    """Distinct local minima of a single problem, best first, from the best of starts (d, S)."""
    order = np.argsort(problem.score(starts)[:, 0], kind="stable")[:_TRIED]
    rough = _distinct(
        newton(_copies(problem, order.size), starts[:, order], tau=0.3, accuracy=_ROUGH)
    )
    kept = rough.theta[:, :_KEPT]
    return _to_the_end(
        problem, _distinct(newton(_copies(problem, kept.shape[1]), kept, tau=_ROUGH.tau))
    )


def _to_the_end(problem: Problem, modes: Solution) -> Solution:
    """The same with the best mode followed on as far as rounding allows.

    Where it lies is then the same to rounding in any units and coding of the columns; with the
    usual accuracy it would depend, in the fourth digit, on where the search began.
    """
    usual = problem.accuracy
    goal = replace(usual, decrement=max(_END, usual.rounding))
    if goal.decrement >= usual.decrement:
        return modes
    best = newton(problem, modes.theta[:, :1], tau=usual.tau, accuracy=goal)
    if best.status[0] != Status.CONVERGED:
        return modes
    return Solution.join([best, modes.take(np.arange(1, modes.value.size))])


def _copies(problem: Problem, n: int) -> Problem:
    return problem.take(np.zeros(n, np.intp))


def _distinct(found: Solution) -> Solution:
    """The different minima of a single problem, best first."""
    found = found.take(np.argsort(found.value, kind="stable"))
    kept: list[int] = []
    for j in range(found.value.size):
        gaps = np.abs(found.theta[:, kept] - found.theta[:, [j]]).max(0)
        if (gaps > _SAME).all():
            kept.append(j)
    return found.take(np.array(kept))


def solve_from_pool(
    problem: Problem, pool: Array, n_starts: int, solved: Solution | None = None
) -> Solution:
    """Solve every draw from the best few, mutually distant, candidates of a pool (d, K).

    What is `solved` already, from the best candidate, is not solved again.
    """
    alone = pool.shape[1] == 1
    scores = np.zeros((1, problem.n_draws)) if alone else problem.score(pool)
    first, *others = _choose(scores, pool, n_starts)
    solution = solved or newton(problem, pool[:, first])
    draws = np.arange(problem.n_draws)
    if problem.n_draws <= _FEW:
        # Few draws are a large problem: one start after another, without copies of it.
        for start in others:
            solution = solution.improved_by(newton(problem, pool[:, start]), draws)
    elif others:
        draws = np.tile(draws, len(others))
        found = newton(problem.take(draws), pool[:, np.concatenate(others)])
        solution = solution.improved_by(found, draws)
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
