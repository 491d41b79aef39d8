"""Robust Bayesian inference for discrete outcomes: a posterior draw is a fit to randomly reweighted
rows, without those that the model cannot explain.

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

import ast
from importlib import import_module
from pkgutil import get_data

__version__ = "0.2.0"


def _homes() -> dict[str, str]:
    """The module of each public name, from the stub that type checkers read."""
    try:
        stub = get_data(__name__, "__init__.pyi")
    except OSError:
        stub = None
    if stub is None:
        raise ImportError("tvdbayes is not whole: __init__.pyi is missing. Install it again.")
    lines = [line for line in ast.parse(stub).body if isinstance(line, ast.ImportFrom)]
    return {name.name: line.module or "" for line in lines for name in line.names}


_HOME = _homes()
__all__ = ["__version__", *_HOME]  # noqa: PLE0604 (all are strings)


def __getattr__(name: str) -> object:
    """Import on first use, so that `import tvdbayes` is light."""
    if name not in _HOME:
        raise AttributeError(f"module 'tvdbayes' has no attribute {name!r}")
    home = _HOME[name]
    if home == __name__:
        return import_module(f"{home}.{name}")
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
