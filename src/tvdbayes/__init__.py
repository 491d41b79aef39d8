"""Robust Bayesian inference for discrete outcomes: a posterior draw is the model closest to a
reweighted table.

Start with `fit`; `posterior_bootstrap` is the core on arrays.

Examples
--------
>>> import numpy as np, tvdbayes as tb
>>> visits = np.random.default_rng(0).poisson(3, 2000)
>>> visits[:200] += 20  # a tenth of the rows is wrong
>>> fit = tb.fit("visits ~ 1", {"visits": visits}, n_draws=200)
>>> np.exp(fit.draws.mean(0)).round(1), np.exp(fit.kld_draws.mean(0)).round(1)
(array([3.]), array([5.]))
"""

from importlib import import_module

__version__ = "0.1.0"

_HOME = {
    "fit": "frontends",
    "fit_large": "frontends.large",
    "LargeFit": "frontends.large",
    "load": "frontends",
    "RobustCountRegressor": "frontends.estimators",
    "RobustClassifier": "frontends.estimators",
    "RobustMLPClassifier": "frontends.networks",
    "RobustMLPRegressor": "frontends.networks",
    "Fit": "frontends",
    "compare": "frontends",
    "posterior_bootstrap": "bootstrap",
    "Posterior": "posterior",
    "Summary": "posterior",
    "Effect": "posterior.effects",
    "Misfit": "posterior.misfit",
    "Scores": "posterior.scores",
    "Cells": "cells",
    "Model": "model",
    "Linear": "predictors",
    "MLP": "predictors",
    "Prior": "weights",
    "Grid": "sources",
    "TVD": "divergences",
    "KLD": "divergences",
    "Hellinger": "divergences",
    "DensityPower": "divergences",
    "PowerDivergence": "divergences",
    "Poisson": "families",
    "Bernoulli": "families",
    "Binomial": "families",
    "BetaBinomial": "families",
    "Categorical": "families",
    "Censored": "families",
    "CustomFamily": "families",
    "DiscreteWeibull": "families",
    "Geometric": "families",
    "Hurdle": "families",
    "NegativeBinomial": "families",
    "Ordinal": "families",
    "ZeroInflated": "families",
    "ZeroTruncated": "families",
    "Logit": "families",
    "Probit": "families",
    "Cloglog": "families",
    "Auto": "partitions",
    "Bins": "partitions",
    "Distinct": "partitions",
    "KMeansGroups": "partitions",
    "Cluster": "partitions",
    "GroupReport": "partitions",
    "Singletons": "partitions",
    "Status": "solvers",
    "TVDBayesError": "_errors",
    "TVDBayesWarning": "_errors",
    "DataError": "_errors",
    "FamilyError": "_errors",
    "FormulaError": "_errors",
    "Interrupted": "_errors",
    "MemoryBudgetError": "_errors",
    "MissingRowsWarning": "_errors",
    "SettingsError": "_errors",
    "StorageError": "_errors",
    "BoundaryWarning": "_errors",
    "CoarseWarning": "_errors",
    "CollinearWarning": "_errors",
    "ConvergenceWarning": "_errors",
    "SeparationWarning": "_errors",
    "SmallGroupsWarning": "_errors",
    "TooFewRowsWarning": "_errors",
    "WildValueWarning": "_errors",
}
"""Where each public name lives. Rooms are imported on first use, so that the import is light."""

_ROOMS = ("bounds", "plan")
"""Rooms that are public as a whole."""

__all__ = ["__version__", *_HOME, *_ROOMS]  # noqa: PLE0604 (all are strings)


def __getattr__(name: str) -> object:
    if name in _ROOMS:
        return import_module(f"tvdbayes.{name}")
    if name not in _HOME:
        raise AttributeError(f"module 'tvdbayes' has no attribute {name!r}")
    value = getattr(import_module(f"tvdbayes.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
