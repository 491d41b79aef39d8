"""The public names, and where each lives: read by type checkers, and by `__init__.py`.

A name is imported on its first use, so that `import tvdbayes` is light.
"""

from tvdbayes import bounds as bounds
from tvdbayes import plan as plan
from tvdbayes._errors import BoundaryWarning as BoundaryWarning
from tvdbayes._errors import CoarseWarning as CoarseWarning
from tvdbayes._errors import CollinearWarning as CollinearWarning
from tvdbayes._errors import ConvergenceWarning as ConvergenceWarning
from tvdbayes._errors import DataError as DataError
from tvdbayes._errors import FamilyError as FamilyError
from tvdbayes._errors import FormulaError as FormulaError
from tvdbayes._errors import Interrupted as Interrupted
from tvdbayes._errors import MemoryBudgetError as MemoryBudgetError
from tvdbayes._errors import MissingRowsWarning as MissingRowsWarning
from tvdbayes._errors import SeparationWarning as SeparationWarning
from tvdbayes._errors import SettingsError as SettingsError
from tvdbayes._errors import SmallGroupsWarning as SmallGroupsWarning
from tvdbayes._errors import StorageError as StorageError
from tvdbayes._errors import TooFewRowsWarning as TooFewRowsWarning
from tvdbayes._errors import TVDBayesError as TVDBayesError
from tvdbayes._errors import TVDBayesWarning as TVDBayesWarning
from tvdbayes._errors import WildValueWarning as WildValueWarning
from tvdbayes.data.cells import Cells as Cells
from tvdbayes.data.example import example_data as example_data
from tvdbayes.data.grid import Grid as Grid
from tvdbayes.estimators.linear import RobustClassifier as RobustClassifier
from tvdbayes.estimators.linear import RobustCountRegressor as RobustCountRegressor
from tvdbayes.estimators.networks import RobustMLPClassifier as RobustMLPClassifier
from tvdbayes.estimators.networks import RobustMLPRegressor as RobustMLPRegressor
from tvdbayes.fitting import Fit as Fit
from tvdbayes.fitting import compare as compare
from tvdbayes.fitting import fit as fit
from tvdbayes.fitting import load as load
from tvdbayes.models.families import Bernoulli as Bernoulli
from tvdbayes.models.families import BetaBinomial as BetaBinomial
from tvdbayes.models.families import Binomial as Binomial
from tvdbayes.models.families import Categorical as Categorical
from tvdbayes.models.families import Censored as Censored
from tvdbayes.models.families import Cloglog as Cloglog
from tvdbayes.models.families import CustomFamily as CustomFamily
from tvdbayes.models.families import DiscreteWeibull as DiscreteWeibull
from tvdbayes.models.families import Geometric as Geometric
from tvdbayes.models.families import Hurdle as Hurdle
from tvdbayes.models.families import Logit as Logit
from tvdbayes.models.families import NegativeBinomial as NegativeBinomial
from tvdbayes.models.families import Ordinal as Ordinal
from tvdbayes.models.families import Poisson as Poisson
from tvdbayes.models.families import Probit as Probit
from tvdbayes.models.families import ZeroInflated as ZeroInflated
from tvdbayes.models.families import ZeroTruncated as ZeroTruncated
from tvdbayes.models.model import Model as Model
from tvdbayes.models.predictors import MLP as MLP
from tvdbayes.models.predictors import Linear as Linear
from tvdbayes.objective.divergences import KLD as KLD
from tvdbayes.objective.divergences import TVD as TVD
from tvdbayes.objective.divergences import DensityPower as DensityPower
from tvdbayes.objective.divergences import Hellinger as Hellinger
from tvdbayes.objective.divergences import PowerDivergence as PowerDivergence
from tvdbayes.objective.partitions import Auto as Auto
from tvdbayes.objective.partitions import Bins as Bins
from tvdbayes.objective.partitions import Cluster as Cluster
from tvdbayes.objective.partitions import Distinct as Distinct
from tvdbayes.objective.partitions import GroupReport as GroupReport
from tvdbayes.objective.partitions import KMeansGroups as KMeansGroups
from tvdbayes.objective.partitions import Singletons as Singletons
from tvdbayes.results.effects import Effect as Effect
from tvdbayes.results.misfit import Misfit as Misfit
from tvdbayes.results.scores import Scores as Scores
from tvdbayes.sampling.bootstrap import posterior_bootstrap as posterior_bootstrap
from tvdbayes.sampling.posterior import Posterior as Posterior
from tvdbayes.sampling.summary import Summary as Summary
from tvdbayes.sampling.weights import Prior as Prior
from tvdbayes.solvers import Status as Status

__version__: str
