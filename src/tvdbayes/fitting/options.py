"""The options of `fit` that a fit was made with, for those who make it again."""

from inspect import signature
from typing import Any

from tvdbayes.fitting.base import AbstractFit
from tvdbayes.fitting.fit_formula import fit as fit_all
from tvdbayes.fitting.settings import DIVERGENCES, PARTITIONS

__all__ = ["all_options", "options_set"]

_NAMED: dict[str, dict[str, Any]] = {"divergence": DIVERGENCES, "partition": PARTITIONS}
"""Options that are kept as objects, and the names that stand for some of them."""


def all_options(fit: AbstractFit) -> dict[str, Any]:
    """Every option that the draws depend on.

    ``n_jobs``, ``resume`` and ``progress`` are not among them: no draw depends on these.
    """
    data, posterior = fit.data, fit.posterior
    prior = posterior.prior
    of_prior = {} if prior is None else vars(prior)
    return {
        "divergence": posterior.divergence,
        "n_draws": posterior.n_draws,
        "seed": posterior.seed,
        "offset": data.offset,
        "exposure": data.exposure,
        "weights": data.weights,
        "network": posterior.model.predictor.network,
        **of_prior,
        **vars(fit.asked),
    }


def options_set(fit: AbstractFit) -> dict[str, Any]:
    """The options that differ from the defaults of `fit`, in the order of its signature."""
    named = {
        option: _name(value, _NAMED.get(option, {})) for option, value in all_options(fit).items()
    }
    return {
        option: named[option]
        for option, parameter in signature(fit_all).parameters.items()
        if option in named and named[option] != parameter.default
    }


def _name(value: Any, names: dict[str, Any]) -> Any:
    """The name that stands for a value, or else the value."""
    return next((name for name, meant in names.items() if meant == value), value)
