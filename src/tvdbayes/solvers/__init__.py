"""Minimisers for many draws at once. They know no statistics."""

from tvdbayes.solvers._problem import Accuracy, Expansion, KinkedProblem, Point, Problem
from tvdbayes.solvers._solution import Solution, Status
from tvdbayes.solvers.newton import newton
from tvdbayes.solvers.scalar import scalar
from tvdbayes.solvers.starts import find_modes, solve_from_pool, spread_out

__all__ = [
    "Accuracy",
    "Expansion",
    "KinkedProblem",
    "Point",
    "Problem",
    "Solution",
    "Status",
    "find_modes",
    "newton",
    "scalar",
    "solve_from_pool",
    "spread_out",
]
