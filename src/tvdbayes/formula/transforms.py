"""Transforms in a formula that depend on the data: means, scales, knots.

formulaic's own versions count rows. These use weights, and see each distinct row once, in a fixed
order. So a weight of 2 is the same as the row twice, and the order of the rows does not matter, to
the last bit. New data are transformed with the remembered values.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from formulaic.transforms import TRANSFORMS
from formulaic.transforms import basis_spline as formulaic_bs
from formulaic.utils.stateful_transforms import stateful_transform

from tvdbayes._errors import FormulaError
from tvdbayes._typing import Array

State = dict[str, Any]


def formula_context(weights: Array | None = None) -> dict[str, Callable[..., Any]]:
    """The functions that formulas may call; weights (n,) are needed where data are first seen."""
    counts = np.ones(1) if weights is None else weights
    found = {**_scales(counts), **_bases(counts)}
    made = {name: stateful_transform(function) for name, function in found.items()}
    made |= {"standardize": made["scale"], "sqrt": np.sqrt, "log1p": np.log1p}
    return {**{k: TRANSFORMS[k] for k in ("C", "I", "cr") if k in TRANSFORMS}, **made}


def _scales(weights: Array) -> dict[str, Callable[..., Any]]:
    """`center` and `scale`, which remember a weighted mean and standard deviation."""

    def mean(values: Array) -> float:
        return float(weights @ values / weights.sum())

    def center(data: Any, _state: State) -> Array:
        x = np.asarray(data, float)
        if "center" not in _state:
            _state["center"] = mean(x)
        centred: Array = x - _state["center"]
        return centred

    def scale(
        data: Any,
        center: bool = True,
        scale: bool = True,
        ddof: int = 1,
        _state: State | None = None,
    ) -> Array:
        assert _state is not None
        x = np.asarray(data, float)
        if "center" not in _state:
            _state["center"] = mean(x) if center else 0.0
            off = x - _state["center"]
            spread = float(np.sqrt(weights @ (off * off) / (weights.sum() - ddof)))
            _state["scale"] = spread if scale else 1.0
        if _state["scale"] == 0:
            raise FormulaError("A constant column cannot be scaled. Leave it out.")
        scaled: Array = (x - _state["center"]) / _state["scale"]
        return scaled

    return {"center": center, "scale": scale}


def _bases(weights: Array) -> dict[str, Callable[..., Any]]:
    """`poly` and `bs`, which remember a recurrence and knots at weighted quantiles."""

    def poly(
        data: Any, degree: int = 1, raw: bool = False, _state: State | None = None
    ) -> dict[str, Array]:
        assert _state is not None
        x = np.asarray(data, float)
        if raw:
            return {str(k): x**k for k in range(1, degree + 1)}
        if "alpha" not in _state:
            _state["alpha"], _state["norms"] = _recurrence(x, weights, degree)
        basis = _orthogonal(x, _state["alpha"], _state["norms"])
        return {str(k): basis[k] for k in range(1, degree + 1)}

    def bs(
        x: Any,
        df: int | None = None,
        *,
        knots: Sequence[float] | None = None,
        degree: int = 3,
        include_intercept: bool = False,
        lower_bound: float | None = None,
        upper_bound: float | None = None,
        extrapolation: str = "raise",
        _state: State | None = None,
    ) -> Any:
        assert _state is not None
        if df is not None and knots is None and "knots" not in _state:
            n_knots = df - degree - int(include_intercept)
            if n_knots < 0:
                raise FormulaError(f"bs needs df of at least {degree + int(include_intercept)}.")
            shares = np.linspace(0, 1, n_knots + 2)[1:-1]
            values = np.asarray(x, float)
            found = np.quantile(values, shares, weights=weights, method="inverted_cdf")
            knots, df = sorted(set(found.tolist())), None
        elif "knots" in _state:
            df = knots = None
        return formulaic_bs(
            x,
            df=df,
            knots=knots,
            degree=degree,
            include_intercept=include_intercept,
            lower_bound=lower_bound,
            upper_bound=upper_bound,
            extrapolation=extrapolation,
            _state=_state,
        )

    return {"poly": poly, "bs": bs}


def _recurrence(x: Array, weights: Array, degree: int) -> tuple[list[float], list[float]]:
    """Coefficients of the polynomials in x that are orthogonal under these weights."""
    alpha: list[float] = []
    norms: list[float] = [float(weights.sum())]
    before, now = np.zeros_like(x), np.ones_like(x)
    for k in range(degree):
        alpha.append(float(weights @ (x * now * now)) / norms[k])
        beta = norms[k] / norms[k - 1] if k else 0.0
        before, now = now, (x - alpha[k]) * now - beta * before
        norms.append(float(weights @ (now * now)))
        if norms[-1] <= 1e-20 * norms[0] * max(float(np.abs(x).max()) ** (2 * k + 2), 1e-300):
            raise FormulaError(f"poly of degree {degree} needs more than {k + 1} distinct values.")
    return alpha, norms


def _orthogonal(x: Array, alpha: Sequence[float], norms: Sequence[float]) -> list[Array]:
    basis = [np.ones_like(x)]
    before, now = np.zeros_like(x), np.ones_like(x)
    for k, shift in enumerate(alpha):
        beta = norms[k] / norms[k - 1] if k else 0.0
        before, now = now, (x - shift) * now - beta * before
        basis.append(now / np.sqrt(norms[k + 1]))
    return basis
