"""The doors: formulas, data frames, files, scikit-learn."""

from tvdbayes.fitting.compare_fits import compare
from tvdbayes.fitting.fit_formula import fit
from tvdbayes.fitting.record import Fit, load

__all__ = ["Fit", "compare", "fit", "load"]
