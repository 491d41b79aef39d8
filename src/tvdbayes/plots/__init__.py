"""Pictures, one function for each.

They take records and arrays, draw on the axes `ax` if these are given, and return the axes;
without, on a new figure, ``ax.figure``, of which no window opens: ``ax.figure.savefig("it.pdf")``.
A notebook shows it below the cell. A fit has the same pictures as methods, `tvdbayes.Fit.plot`,
with axes named in the words of its data.

Examples
--------
>>> import tempfile, numpy as np
>>> from tvdbayes import plots
>>> rng = np.random.default_rng(0)
>>> robust = rng.normal(0.3, 0.1, (100, 1))
>>> ordinary = rng.normal(0.8, 0.1, (100, 1))
>>> ax = plots.plot_coefficients(["age"], robust, ordinary)
>>> with tempfile.TemporaryDirectory() as folder:
...     ax.figure.savefig(f"{folder}/age.pdf")
"""

from tvdbayes.plots.bands import plot_bands
from tvdbayes.plots.bounds import (
    plot_bound,
    plot_parameter_set,
    plot_power,
    plot_sample_size,
)
from tvdbayes.plots.checks import (
    plot_calibration,
    plot_groups,
    plot_pit,
    plot_residuals,
    plot_rootogram,
)
from tvdbayes.plots.coefficients import plot_coefficients, plot_sensitivity
from tvdbayes.plots.unexplained import plot_misfit, plot_rows

__all__ = [
    "plot_bands",
    "plot_bound",
    "plot_calibration",
    "plot_coefficients",
    "plot_groups",
    "plot_misfit",
    "plot_parameter_set",
    "plot_pit",
    "plot_power",
    "plot_residuals",
    "plot_rootogram",
    "plot_rows",
    "plot_sample_size",
    "plot_sensitivity",
]
