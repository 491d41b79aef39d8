"""The doors: formulas and data frames."""

from tvdbayes.frontends._fit import Fit
from tvdbayes.frontends.formula import fit

__all__ = ["Fit", "fit"]
