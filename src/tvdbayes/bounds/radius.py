"""How far the observed table can be from the distribution of the data, for any number of rows.

Three radii r with P(TVD(observed, true) > r) <= delta, for any true distribution:

- Weissman and others (2003): ``sqrt((log(2**K - 2) + log(1/delta)) / (2 n))`` for K cells;
- McDiarmid: ``sqrt((K - 1) / n) / 2 + sqrt(log(1/delta) / (2 n))``, better above 150 cells or so;
- from the counts alone, for unknown or infinite K:
  ``sum_j E|S(n_j)| / n + sqrt(2 log(1/delta) / n)``, S a simple random walk.

Proposition 2 of the paper has n_x + n_y cells in place of K = n_x n_y, and is false as printed
(``as_printed=True``). With K it holds, for all parameters at once.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import poch

from tvdbayes._errors import SettingsError
from tvdbayes._typing import Array
from tvdbayes._validate import finite_number, probability, whole_number
from tvdbayes.bounds._words import (
    INDEPENDENT,
    AbstractGuarantee,
    at_most,
    percent,
    vector,
)

_FALSE = (
    "As printed in the paper (Proposition 2), whose alphabet should be n_x times n_y cells, not "
    "n_x plus n_y: THIS IS NOT TRUE IN GENERAL."
)


@dataclass(frozen=True)
class Radius(AbstractGuarantee):
    """A distance that is exceeded with probability `delta` at most.

    Parameters
    ----------
    radius : float
        The bound; where it is 1 or more it says nothing.
    delta : float
        Probability of a data set for which it fails.
    method : str
        The inequality that gave it.
    candidates : dict
        What each inequality gives, by name.
    statement, assumptions : str, tuple of str
        What is bounded, and what must be true for it.
    holds : bool
        Whether the statement is true; the paper's printed one is not.

    Examples
    --------
    >>> from tvdbayes.bounds import tvd_radius
    >>> found = tvd_radius(1000, n_cells=5)
    >>> print(f"{found.radius:.3f} by {found.method}; vacuous: {found.vacuous}")
    0.057 by Weissman; vacuous: False
    >>> {name: round(value, 3) for name, value in found.candidates.items()}
    {'Weissman': 0.057, 'McDiarmid': 0.07}
    """

    radius: float
    delta: float
    method: str
    candidates: dict[str, float] = field(repr=False)
    holds: bool = True

    def _remark(self) -> str:
        said = super()._remark()
        return said if self.holds else f"{said} {_FALSE}".lstrip()


def tvd_radius(
    n: int, delta: float = 0.05, n_cells: int | None = None, counts: ArrayLike | None = None
) -> Radius:
    """Bound the distance between the table of n rows and the law that they come from.

    Parameters
    ----------
    n : int
        Number of rows.
    delta : float
        Probability of failure that is accepted.
    n_cells : int, optional
        Number of different rows that are possible, K: fixed before the data were seen.
    counts : (m,), optional
        Rows in each cell that was seen; enough where K is unknown or infinite. With both, each
        kind of radius gets half of `delta`, so that the smaller one may be taken.

    Examples
    --------
    >>> from tvdbayes.bounds import tvd_radius
    >>> print(tvd_radius(1000, 0.05, n_cells=5))
    With probability 95% the observed table of 1,000 rows is within 0.057 (total variation) of the
    law behind it (Weissman). Assumes: rows are drawn independently from one law; no more than 5
    cells are possible, a number not taken from the data.
    """
    n, delta = _whole("n", n), probability("delta", delta)
    if n_cells is None and counts is None:
        raise SettingsError(
            "A radius needs n_cells (how many different rows are possible) or counts (rows in each "
            "cell seen); got neither."
        )
    # A radius that depends on the data cannot be compared with a fixed one for free.
    spent = delta if n_cells is None or counts is None else delta / 2
    assumptions = [INDEPENDENT]
    candidates: dict[str, float] = {}
    if n_cells is not None:
        n_cells = _whole("n_cells", n_cells)
        candidates |= _fixed(n, spent, n_cells)
        assumptions.append(
            f"no more than {n_cells:,} cells are possible, a number not taken from the data"
        )
    if counts is not None:
        rows = _rows(counts, n, n_cells)
        candidates["counts"] = float(_walk(rows).sum() / n + np.sqrt(2 * np.log(1 / spent) / n))
    says = f"the observed table of {n:,} rows is within {{}} (total variation) of the law behind it"
    return _smallest(candidates, delta, says, assumptions)


def deviation(
    n: int, delta: float = 0.05, *, n_x: int, n_y: int, as_printed: bool = False
) -> Radius:
    """Bound the error of the estimated distance, for all parameters at once.

    The distance between data and model, seen on n rows, differs from the one between law and model
    by at most the distances of the tables and of their x-marginals: no parameter is in there.

    Parameters
    ----------
    n, delta
        As in `tvd_radius`.
    n_x, n_y : int
        Different covariate rows (1 without covariates) and outcomes that are possible.
    as_printed : bool
        The paper's Proposition 2, which is false; see `failure_probability`.

    Examples
    --------
    >>> from tvdbayes.bounds import deviation
    >>> print(deviation(2000, 0.05, n_x=4, n_y=9))
    With probability 95% for every parameter at once the distance seen on 2,000 rows is within 0.125
    (total variation) of the distance between law and model (Weissman, and of x). Assumes: rows are
    drawn independently from one law; no more than 4 x 9 cells are possible.
    """
    n, n_x, n_y = _whole("n", n), _whole("n_x", n_x), _whole("n_y", n_y)
    delta, n_cells = probability("delta", delta), n_x * n_y
    if as_printed:
        log_size = log_subsets(n_x + n_y) + np.log(2)
        candidates = {"as printed": float(np.sqrt(2 * (log_size + np.log(1 / delta)) / n))}
    elif n_x == 1:
        candidates = _fixed(n, delta, n_cells)
    else:
        joint, half = _fixed(n, delta, n_cells), _fixed(n, delta / 2, n_cells)
        marginal = min(_fixed(n, delta / 2, n_x).values())
        candidates = {f"{name}, twice": 2 * radius for name, radius in joint.items()}
        candidates |= {f"{name}, and of x": r + marginal for name, r in half.items()}
    says = f"for every parameter at once the distance seen on {n:,} rows is within {{}} (total "
    says += "variation) of the distance between law and model"
    assumptions = [INDEPENDENT, f"no more than {n_x:,} x {n_y:,} cells are possible"]
    return _smallest(candidates, delta, says, assumptions, holds=not as_printed)


def failure_probability(
    n: int, radius: float, *, n_x: int, n_y: int, as_printed: bool = False
) -> float:
    """Bound the probability that `deviation` exceeds a given radius.

    Parameters
    ----------
    radius : float
        Above 0.
    n, n_x, n_y, as_printed
        As in `deviation`.

    Examples
    --------
    With 30 x 30 cells and 300 rows an error of 0.6 is certain; the paper's formula says otherwise:

    >>> from tvdbayes.bounds import failure_probability
    >>> failure_probability(300, 0.6, n_x=30, n_y=30)
    1.0
    >>> f"{failure_probability(300, 0.6, n_x=30, n_y=30, as_printed=True):.0e}"
    '8e-06'
    """
    n, n_x, n_y = _whole("n", n), _whole("n_x", n_x), _whole("n_y", n_y)
    finite_number("radius", radius, above=0.0)
    if as_printed:
        return float(min(1.0, np.exp(log_subsets(n_x + n_y) + np.log(2) - n * radius**2 / 2)))
    table = radius if n_x == 1 else radius / 2
    beyond = max(0.0, table - np.sqrt((n_x * n_y - 1) / n) / 2)
    exponents = (log_subsets(n_x * n_y) - 2 * n * table**2, -2 * n * beyond**2)
    return float(min(1.0, np.exp(min(exponents))))


def _whole(name: str, value: int) -> int:
    return whole_number(name, value, 1, floats=True)


def _fixed(n: int, delta: float, n_cells: int) -> dict[str, float]:
    """Radii that are known before the data."""
    if n_cells == 1:
        return {"Weissman": 0.0}
    log = np.log(1 / delta)
    return {
        "Weissman": float(np.sqrt((log_subsets(n_cells) + log) / (2 * n))),
        "McDiarmid": float(np.sqrt((n_cells - 1) / n) / 2 + np.sqrt(log / (2 * n))),
    }


def log_subsets(n_cells: int) -> float:
    """log(2**K - 2), the sets of cells that can tell two laws apart."""
    if n_cells == 1:
        return -np.inf
    return float(n_cells * np.log(2) + np.log1p(-(2.0 ** (1 - n_cells))))


def _walk(steps: Array) -> Array:
    """Mean distance of a simple random walk from its start after so many steps."""
    # An odd step and the even one after it are as far out: 2k C(2k, k) / 4**k.
    half = np.ceil(steps / 2)
    distance: Array = np.asarray(2 / np.sqrt(np.pi) * poch(half, 0.5))
    return distance


def _rows(counts: ArrayLike, n: int, n_cells: int | None) -> Array:
    rows: Array = vector("counts", counts).ravel()
    rows = rows[rows != 0]
    if not (rows.size and (rows >= 1).all() and (rows % 1 == 0).all()):
        raise SettingsError("counts must be whole numbers of rows, at least one of them above 0.")
    if rows.sum() != n:
        raise SettingsError(f"counts must add up to n = {n:,}; they add up to {rows.sum():,.0f}.")
    if n_cells is not None and rows.size > n_cells:
        raise SettingsError(
            f"{rows.size:,} cells were seen, so there are more than n_cells = {n_cells:,}."
        )
    return rows


def _smallest(
    candidates: dict[str, float],
    delta: float,
    says: str,
    assumptions: list[str],
    *,
    holds: bool = True,
) -> Radius:
    method = min(candidates, key=lambda name: candidates[name])
    radius = candidates[method]
    said = says.format(at_most(radius))
    statement = f"With probability {percent(1 - delta)} {said} ({method})."
    return Radius(
        radius,
        delta,
        method,
        candidates,
        holds,
        statement=statement,
        assumptions=tuple(assumptions),
    )
