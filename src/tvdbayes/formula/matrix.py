"""What formulaic is given, so that it evaluates formulas as they are meant here.

formulaic tells factors and terms apart by their text, and runs that text as Python. So a column
called ``x:b``, ``log1p(x)``, ``1``, ``Sepal.Length`` or ``log`` would be taken for something else.
It is given an alias that is a plain identifier, from which the name can be read back.

Its own means, scales and knots count rows. The functions here use weights, and see each distinct
row once, in a fixed order. So a weight of 2 is the same as the row twice, and the order of the rows
does not matter, to the last bit. New data are transformed with the remembered values.
"""

import ast
import builtins
import keyword
import re
import unicodedata
import warnings
from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np
import pandas as pd
from formulaic import Formula, ModelSpec
from formulaic.errors import DataMismatchWarning
from formulaic.transforms import TRANSFORMS
from formulaic.transforms import basis_spline as formulaic_bs
from formulaic.utils.stateful_transforms import stateful_transform

from tvdbayes._errors import FormulaError
from tvdbayes._typing import Array

_QUOTED = r"`(?P<quoted>(?:[^`]|``)*)`"
_TEXT = r"""(?P<text>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")"""
# R's names may have dots. What is neither ASCII nor blank may be part of a name, so that letters
# that only look like others, and accents that are characters of their own, are never cut off.
_WORD = r"(?P<word>(?:\.?[^\W\d]|[^\x00-\x7f\s])(?:[\w.]|[^\x00-\x7f\s])*)"
_TOKEN = re.compile(rf"{_QUOTED}|{_TEXT}|(?P<number>[0-9][\w.]*)|{_WORD}", re.DOTALL)
_ALIAS = re.compile(r"\b_named_((?:[0-9a-f]{2})*)_\b")
_CONSTANTS = frozenset({"True", "False", "None"})
_NUMPY = ("np", "numpy")
"""Modules whose functions may be called by their full names, as Python users write them."""
_TAKEN = frozenset({*keyword.kwlist, *dir(builtins), *TRANSFORMS, "sqrt", "log1p"})
"""Names that formulaic or Python would not take for a column."""


def alias_of(name: str) -> str:
    """What formulaic is given for a column: plain names as they are, all others in code."""
    plain = name.isidentifier() and unicodedata.normalize("NFKC", name) == name
    if plain and name not in _TAKEN and not _ALIAS.search(name):
        return name
    return f"_named_{name.encode('utf-8', 'surrogatepass').hex()}_"


def column_of(alias: str) -> str:
    """The column that has this alias."""
    coded = _ALIAS.fullmatch(alias)
    return alias if coded is None else _decoded(coded)


def _decoded(coded: "re.Match[str]") -> str:
    return bytes.fromhex(coded[1]).decode("utf-8", "surrogatepass")


def readable(text: str) -> str:
    """Text of formulaic's, with the names of columns in place of their aliases."""
    return _ALIAS.sub(_name_or_text, text)


def _name_or_text(coded: "re.Match[str]") -> str:
    """The name behind an alias. A level of the data that only looks like one is kept."""
    try:
        name = _decoded(coded)
    except ValueError:
        return coded[0]
    return name if alias_of(name) == coded[0] else coded[0]


def as_written(expression: str) -> str:
    """An expression of formulaic's as a formula may have it: names that are not plain in quotes."""
    return _ALIAS.sub(lambda coded: quoted(_decoded(coded)), expression)


def quoted(name: str) -> str:
    """A name in backticks, as a formula can have any name; a backtick in it is doubled."""
    return f"`{name.replace('`', '``')}`"


def mask(text: str) -> str:
    """The same text with everything in quotes replaced by "q", character by character."""
    return _TOKEN.sub(
        lambda token: (
            "q" * len(token[0])
            if token["quoted"] is not None or token["text"] is not None
            else token[0]
        ),
        text,
    )


def rewrite(
    text: str,
    columns: Collection[str],
    functions: Collection[str],
    require: Callable[[str], None],
) -> str:
    """Terms with columns replaced by aliases; `require` raises for a name that is not a column."""

    def replaced(token: "re.Match[str]") -> str:
        if token["quoted"] is not None:
            name = token["quoted"].replace("``", "`")
            require(name)
            return alias_of(name)
        if token["text"] is not None:
            return _escaped(token["text"])
        word = token["word"]
        if word is None or word in _CONSTANTS:
            return token[0]
        after = token.string[token.end() :].lstrip()
        called, option = after.startswith("("), re.match(r"=(?!=)", after)
        module, _, name = word.rpartition(".")
        if called and module in _NUMPY and name in functions:
            return name
        # Unknown functions are refused with all other calls.
        if called or option or (word in functions and word not in columns):
            return token[0]
        require(word)
        return alias_of(word)

    return _TOKEN.sub(replaced, text)


def _escaped(text: str) -> str:
    """Text in quotes, in which brackets and the like are escaped: formulaic would count them."""
    try:
        value = ast.literal_eval(text)
    except (SyntaxError, ValueError):
        return text
    safe = (c if c.isascii() and (c.isalnum() or c == " ") else f"\\U{ord(c):08x}" for c in value)
    return f'"{"".join(safe)}"'


State = dict[str, Any]


def formula_context(weights: Array | None = None) -> dict[str, Callable[..., Any]]:
    """The functions that formulas may call; weights (n,) are needed where data are first seen."""
    counts = np.ones(1) if weights is None else weights
    found = {**_scales(counts), **_bases(counts)}
    made = {name: stateful_transform(function) for name, function in found.items()}
    made |= {"standardize": made["scale"], "sqrt": np.sqrt, "log1p": np.log1p}
    return {**{k: TRANSFORMS[k] for k in ("C", "I", "cr") if k in TRANSFORMS}, **made}


def model_matrix(
    terms: Formula | ModelSpec, frame: pd.DataFrame, weights: Array | None = None
) -> tuple[Any, str | None]:
    """The model matrix of some rows, and their values that are not known levels, as text."""
    columns = {alias_of(str(name)): frame[name] for name in frame}
    columns = columns or {"": pd.Series(np.ones(len(frame)))}
    with warnings.catch_warnings(record=True) as said, np.errstate(all="ignore"):
        warnings.simplefilter("always")
        matrix = terms.get_model_matrix(
            pd.DataFrame(columns, copy=False),
            context=formula_context(weights),
            output="numpy",
            na_action="ignore",
        )
    unknown = [str(w.message) for w in said if issubclass(w.category, DataMismatchWarning)]
    if not unknown:
        return matrix, None
    # NumPy prints the types of its numbers, which users need not know.
    values = re.findall(r"\{.*\}", re.sub(r"np\.\w+\(([^()]*)\)", r"\1", unknown[0]), re.DOTALL)
    return matrix, ", ".join(values)


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
