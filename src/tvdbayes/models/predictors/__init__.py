"""From covariates to the predictors of a family: eta(x; theta).

A predictor is bound to a table once; the bound form works in *standardised* coordinates (unit
scale, centred where there is an intercept), so that solvers, starts and penalties do not depend
on the units of x.
"""

from tvdbayes.models.predictors._base import AbstractBound, AbstractPredictor, EndWords
from tvdbayes.models.predictors._layers import Layers
from tvdbayes.models.predictors.linear import BoundLinear, Linear, dependent_columns
from tvdbayes.models.predictors.network import MLP, BoundNetwork
from tvdbayes.models.predictors.saturated import BoundSaturated

__all__ = [
    "MLP",
    "AbstractBound",
    "AbstractPredictor",
    "BoundLinear",
    "BoundNetwork",
    "BoundSaturated",
    "EndWords",
    "Layers",
    "Linear",
    "dependent_columns",
]
