"""The doors: formulas, data frames, files, scikit-learn."""

from tvdbayes.frontends._compare import compare
from tvdbayes.frontends._files import load
from tvdbayes.frontends._fit import Fit
from tvdbayes.frontends.formula import fit

__all__ = ["Fit", "compare", "fit", "load"]
