"""Guarantees that hold at any number of rows: each with its statement and its assumptions.

Every result says whether it is ``vacuous``, that is, whether it says anything at all. Where the
paper prints a version of its own it can be had with ``as_printed=True``.

Examples
--------
>>> from tvdbayes import bounds
>>> found = bounds.robustness_radius(0.1)  # a tenth of the rows is wrong, in any way
>>> print(f"the distance to any model changes by {found.radius:.2f} at most")
the distance to any model changes by 0.15 at most
>>> bounds.tvd_radius(50, n_cells=1000).vacuous  # 50 rows say nothing about 1000 cells
True

References
----------
The paper: Knoblauch, J. and Vomfell, L. (2020). Robust Bayesian inference for discrete outcomes
with the total variation distance. arXiv:2010.13456.
McDiarmid, C. (1989). On the method of bounded differences. Surveys in Combinatorics, 148-188.
Weissman, T., Ordentlich, E., Seroussi, G., Verdu, S. and Weinberger, M. (2003). Inequalities for
the L1 deviation of the empirical distribution. Hewlett-Packard Labs, HPL-2003-97.
"""

from tvdbayes.bounds.cells_report import CellsReport, cells_report
from tvdbayes.bounds.kernel import KernelTVD, kernel_failure_probability, kernel_tvd
from tvdbayes.bounds.misfit import MisfitUpper, misfit_split, misfit_upper
from tvdbayes.bounds.parameter_set import ParameterSet, parameter_set
from tvdbayes.bounds.radius import Radius, deviation, failure_probability, tvd_radius
from tvdbayes.bounds.robustness import Robustness, robustness_radius

__all__ = [
    "CellsReport",
    "KernelTVD",
    "MisfitUpper",
    "ParameterSet",
    "Radius",
    "Robustness",
    "cells_report",
    "deviation",
    "failure_probability",
    "kernel_failure_probability",
    "kernel_tvd",
    "misfit_split",
    "misfit_upper",
    "parameter_set",
    "robustness_radius",
    "tvd_radius",
]
