"""Options that do not exist are answered with those that do, by the words of other packages too."""

from collections.abc import Callable
from functools import wraps
from inspect import signature
from typing import ParamSpec, TypeVar

from tvdbayes._errors import SettingsError
from tvdbayes._validate import did_you_mean

P = ParamSpec("P")
R = TypeVar("R")

_OTHER_NAMES = {
    **dict.fromkeys(("draws", "samples", "n_samples", "num_samples", "n_boot", "nsim"), "n_draws"),
    **dict.fromkeys(("iter", "iterations", "draws_per_chain", "B"), "n_draws"),
    **dict.fromkeys(("random_state", "random_seed", "rng_seed"), "seed"),
    **dict.fromkeys(("cores", "threads", "workers", "n_workers", "num_processes"), "n_jobs"),
    **dict.fromkeys(("freq_weights", "frequency_weights", "fweights", "weight"), "weights"),
    **dict.fromkeys(("sample_weight", "counts"), "weights"),
    **dict.fromkeys(("n_trials", "size", "denominator"), "trials"),
    **dict.fromkeys(("na_action", "dropna"), "missing"),
    **dict.fromkeys(("loss", "distance", "metric"), "divergence"),
    **dict.fromkeys(("penalty", "l2", "regularization", "C"), "ridge"),
    **dict.fromkeys(("ziformula", "zi_formula", "dispformula", "inflation"), "predictors"),
    **dict.fromkeys(("progressbar", "verbose", "show_progress"), "progress"),
    **dict.fromkeys(("hidden", "hidden_layer_sizes", "layers"), "network"),
    "distribution": "family",
}
"""What other packages call an option of `fit`."""

_NONE_OF_THEM = {
    **dict.fromkeys(
        ("chains", "tune", "warmup", "burn_in", "burnin", "thin"),
        "Draws are independent: there are no chains and no warm-up. Leave it out.",
    ),
    **dict.fromkeys(
        ("prior", "priors"),
        "Coefficients have no priors. See alpha= and base_measure= for a prior of the data, and "
        "ridge= for a penalty.",
    ),
    **dict.fromkeys(
        ("cov_type", "robust", "vce"),
        "Intervals are those of a weighted bootstrap, which allows for unequal variances. Leave it "
        "out.",
    ),
}
"""Options of other packages that have no counterpart, and why."""


def answered(function: Callable[P, R]) -> Callable[P, R]:
    """The function, which answers an option that it does not have with the one that was meant."""
    known = tuple(signature(function).parameters)

    @wraps(function)
    def checked(*args: P.args, **kwargs: P.kwargs) -> R:
        for name in kwargs:
            if name not in known:
                raise _unknown(function.__name__, name, known)
        return function(*args, **kwargs)

    return checked


def _unknown(function: str, name: str, known: tuple[str, ...]) -> SettingsError:
    if name in _NONE_OF_THEM:
        return SettingsError(f"{function} has no option {name!r}. {_NONE_OF_THEM[name]}")
    other = _OTHER_NAMES.get(name)
    meant = f" Did you mean {other!r}?" if other in known else did_you_mean(name, known)
    return SettingsError(
        f"{function} has no option {name!r}.{meant} It has: {', '.join(known[2:])}."
    )
