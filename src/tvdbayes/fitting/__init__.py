"""`fit` on a formula and data from anywhere, and `Fit`: answers in the columns of the data."""

from tvdbayes.fitting.compare_fits import compare
from tvdbayes.fitting.fit_formula import fit
from tvdbayes.fitting.record import Fit, load

__all__ = ["Fit", "compare", "fit", "load"]
