"""The paper's kernel surrogate for a continuous covariate (Proposition 3), computed exactly.

Data and model are smoothed over x by a uniform kernel of half-width h (the paper's own example),
and compared as densities:

    D_h = sum_y integral max(p_h(x, y) - p_h(x) f(y | x; theta), 0) dx,
    p_h(x, y) = sum_i 1(|x - x_i| <= h, y_i = y) / (2 h n).

The smoothed data are constant between the points x_i - h and x_i + h, so D_h is a sum of integrals
of smooth functions over short pieces; a piece is split where its integrand changes sign. As h goes
to 0 at fixed n every row ends up alone, and D_h becomes one minus the mean of f(y_i | x_i), a score
whose best parameters are far from the true ones. Except with probability delta, the distance of the
smoothed distributions is at most D_h + sqrt(2 log(1 / delta) / n).
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from tvdbayes._errors import SettingsError
from tvdbayes._typing import Array
from tvdbayes._validate import finite_number, probability
from tvdbayes.bounds._words import (
    INDEPENDENT,
    AbstractGuarantee,
    at_most,
    percent,
    row_counts,
    vector,
)
from tvdbayes.bounds.radius import log_subsets
from tvdbayes.data.cells import Cells
from tvdbayes.models.model import Model

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(7)
"""Gauss nodes for each part: exact for polynomials of degree 13."""

_FINEST = 16
"""Pieces are no longer than the range of x divided by this."""
_SMALLEST = 1e-10
"""Bandwidths below this, relative to x, are lost in rounding."""
_BISECTIONS = 26
"""The error of the integral is the square of that of the place where its sign changes."""


@dataclass(frozen=True)
class KernelTVD(AbstractGuarantee):
    """The distance between smoothed data and smoothed model.

    Parameters
    ----------
    distance : float
        The surrogate, in [0, 1].
    bandwidth : float
        Half-width h of the uniform kernel.
    limit : float
        What it becomes as h goes to 0.
    smoothed_upper : float
        Bound on the distance between the *smoothed* law and model, at most 1.
    upper : float
        Bound on the distance between law and model; 1 without a smoothness constant.
    delta : float
        Probability of failure of the bounds.
    statement, assumptions : str, tuple of str
        What is bounded, and what must be true for it.

    Examples
    --------
    Without a smoothness constant, which no data can tell, nothing is known about the law itself:

    >>> import numpy as np, tvdbayes as tb
    >>> data = tb.example_data()
    >>> cells = tb.Cells.from_rows(np.c_[np.ones(1000), data["age"]], data["ill"])
    >>> found = tb.bounds.kernel_tvd(tb.Model(tb.Bernoulli()), [-3.5, 1], cells, 0.1)
    >>> found.vacuous, round(found.smoothed_upper, 2)
    (True, 0.11)
    """

    distance: float
    bandwidth: float
    limit: float
    smoothed_upper: float
    upper: float
    delta: float
    _bound: ClassVar[str] = "upper"

    def _remark(self) -> str:
        return "About the law itself this says nothing." if self.vacuous else ""


def kernel_tvd(
    model: Model,
    theta: ArrayLike,
    cells: Cells,
    bandwidth: float,
    *,
    delta: float = 0.05,
    smoothness: float | None = None,
) -> KernelTVD:
    """Compute the kernel surrogate of the distance between data and model.

    Parameters
    ----------
    model : Model
    theta : (d,)
        Parameters, chosen without these rows if a bound is wanted.
    cells : Cells
        Data with one covariate that varies.
    bandwidth : float
        Half-width of the uniform kernel, above 0.
    delta : float
        Probability of failure that is accepted.
    smoothness : float, optional
        A number that the integral over x of ``|d p(x, y) / dx|``, summed over y, does not exceed.
        No data can tell it, and without it nothing is known about the law before smoothing.

    Examples
    --------
    >>> import numpy as np, tvdbayes as tb
    >>> from tvdbayes.bounds import kernel_tvd
    >>> x, u = np.random.default_rng(0).random((2, 1000))
    >>> cells = tb.Cells.from_rows(np.c_[np.ones(1000), x], u < 1 / (1 + np.exp(1 - 3 * x)))
    >>> model = tb.Model(tb.Bernoulli())
    >>> [round(kernel_tvd(model, [-1, 3], cells, h).distance, 2) for h in (0.2, 0.005, 1e-6)]
    [0.04, 0.12, 0.41]
    """
    delta = probability("delta", delta)
    finite_number("bandwidth", bandwidth, above=0.0)
    if smoothness is not None:
        finite_number("smoothness", smoothness, least=0.0)
    at = vector("theta", theta)
    pmf = model.pmf(cells, at[:, None])[:, 0]
    row_counts(cells)
    column = _column(cells)
    distance = _smoothed(cells, column, _law(model, cells, at, column), float(bandwidth))
    slack = float(np.sqrt(2 * np.log(1 / delta) / cells.n_obs))
    smoothed = min(1.0, distance + slack)
    # The mean of |u| under the kernel is 1/2; law and x-marginal are both moved by smoothing.
    upper = 1.0 if smoothness is None else min(1.0, distance + slack + bandwidth * smoothness / 2)
    assumptions = [INDEPENDENT, "the parameters were chosen without these rows"]
    if smoothness is not None:
        assumptions.append(f"the density of x varies by {smoothness:g} at most, summed over y")
    itself = "" if upper >= 1 else f", and the law within {at_most(upper)} of the model"
    return KernelTVD(
        distance,
        float(bandwidth),
        float(np.maximum(cells.p - (cells.x_counts / cells.n_obs)[cells.x_index] * pmf, 0).sum()),
        smoothed,
        upper,
        delta,
        statement=f"Smoothed over x by {bandwidth:g}, data and model are {distance:.3f} apart; "
        f"with probability {percent(1 - delta)} the smoothed law is within {at_most(smoothed)} of "
        f"the smoothed model{itself}.",
        assumptions=tuple(assumptions),
    )


def kernel_failure_probability(outcome_counts: ArrayLike, radius: float) -> float:
    """The failure probability that the paper prints for Proposition 3, at most 1.

    With n_y rows of outcome y, n in all, K outcomes and radius e, the end of its proof has

        min_y {3 exp(-n_y e**2 / 450) + exp(-2 n_y e**2 / 225)}
        + 3 exp(-n e**2 / 450) + exp(-2 n e**2 / 225) + (2**K - 2) exp(-n e**2 / 18).

    It is stated for n "large enough", without a way to know, and is no guarantee at any n: the
    minimum over outcomes should be a maximum, and no bandwidth or smoothness enters, although the
    surrogate tends to a score far from the distance as the bandwidth goes to 0. `kernel_tvd` has
    bounds that hold.

    Parameters
    ----------
    outcome_counts : (K,)
        Rows of each outcome.
    radius : float
        The error of the surrogate that is to be exceeded with this probability at most; above 0.

    Examples
    --------
    At a thousand rows it says nothing about an error of 0.3:

    >>> from tvdbayes.bounds import kernel_failure_probability
    >>> kernel_failure_probability([500, 500], 0.3)
    1.0
    >>> f"{kernel_failure_probability([50_000, 50_000], 0.3):.0e}"
    '1e-04'
    """
    counts = vector("outcome_counts", outcome_counts)
    if counts.size < 2 or not ((counts >= 1) & (counts == np.round(counts))).all():
        raise SettingsError(
            "outcome_counts must hold the number of rows, at least 1, of each of two or more "
            f"outcomes; got {counts.tolist()}."
        )
    finite_number("radius", radius, above=0.0)
    n, square = counts.sum(), radius**2

    def of_density(rows: Array) -> Array:
        found: Array = 3 * np.exp(-rows * square / 450) + np.exp(-2 * rows * square / 225)
        return found

    tables = np.exp(min(0.0, log_subsets(counts.size) - n * square / 18))
    return float(min(1.0, of_density(counts).min() + of_density(n) + tables))


Law = Callable[[float, Array], Array]
"""The pmf of an outcome at covariates x (...)."""


def _column(cells: Cells) -> int:
    """The one column of x that varies."""
    moving = np.flatnonzero(np.ptp(cells.x, axis=0) > 0)
    if len(moving) != 1 or np.ptp(cells.offset) > 0 or np.ptp(cells.trials) > 0:
        names = [cells.names[j] for j in moving]
        raise SettingsError(
            "The kernel surrogate is computed for one covariate that varies, without offset and "
            f"with equal trials; got {names}. Use a partition for more: misfit_upper."
        )
    return int(moving[0])


def _law(model: Model, cells: Cells, theta: Array, column: int) -> Law:
    def pmf(y: float, x: Array) -> Array:
        n = x.size
        rows = np.repeat(cells.x[:1], n, axis=0)
        rows[:, column] = x.ravel()
        table = replace(
            cells,
            x=rows,
            offset=np.full(n, cells.offset[0]),
            trials=np.full(n, cells.trials[0]),
            x_index=np.arange(n),
            y=np.full(n, y),
            counts=np.ones(n),
        )
        # Standardised on the data: the points of one piece hardly differ.
        bound = model.bind(table, cells)
        eta = bound.eta(bound.from_user(theta[:, None]))[..., 0]
        return model.family.pmf(table.y, eta, table.trials).reshape(x.shape)

    return pmf


def _smoothed(cells: Cells, column: int, law: Law, h: float) -> float:
    """The integral of what the smoothed data have too much, over x and outcomes."""
    at, counts = cells.x[cells.x_index, column], cells.counts
    if h < _SMALLEST * np.abs(at).max():
        raise SettingsError(
            f"bandwidth must be at least {_SMALLEST * np.abs(at).max():.1g} here, below which "
            f"numbers are lost in rounding; got {h:g}. The limit is in the record of any other."
        )
    ends = np.unique(np.concatenate([at - h, at + h]))
    longest = np.ptp(at) / _FINEST
    n_parts = np.maximum(1, np.ceil(np.diff(ends) / longest)).astype(np.intp)
    total = 0.0
    rows = _covering(at, counts, ends, h)
    for y in np.unique(cells.y):
        of_y = cells.y == y
        seen = _covering(at[of_y], counts[of_y], ends, h)
        pieces = np.flatnonzero(seen > 0)
        piece = np.repeat(pieces, n_parts[pieces])
        part = np.concatenate([np.arange(k) for k in n_parts[pieces]])
        width = (ends[piece + 1] - ends[piece]) / n_parts[piece]
        left = ends[piece] + part * width
        total += _excess(left, left + width, seen[piece], rows[piece], partial(law, y))
    return min(1.0, total / (2 * h * cells.n_obs))


def _covering(at: Array, counts: Array, ends: Array, h: float) -> Array:
    """Rows whose kernel covers each piece between neighbouring ends."""
    change = np.zeros(len(ends))
    np.add.at(change, np.searchsorted(ends, at - h), counts)
    np.add.at(change, np.searchsorted(ends, at + h), -counts)
    return np.round(np.cumsum(change)[:-1])


def _excess(
    left: Array, right: Array, seen: Array, rows: Array, pmf: Callable[[Array], Array]
) -> float:
    """Sum over pieces of the integral of ``max(seen - rows * pmf(x), 0)``."""
    sign_left, sign_right = (seen - rows * pmf(x) > 0 for x in (left, right))
    crosses = np.flatnonzero(sign_left != sign_right)
    low, high = left[crosses], right[crosses]
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        before = (seen[crosses] - rows[crosses] * pmf(middle) > 0) == sign_left[crosses]
        low, high = np.where(before, middle, low), np.where(before, high, middle)
    starts, stops = left.copy(), right.copy()
    falls = sign_left[crosses]
    stops[crosses[falls]] = low[falls]
    starts[crosses[~falls]] = high[~falls]
    half = (stops - starts)[:, None] / 2
    x = (starts + stops)[:, None] / 2 + half * _NODES
    gap = np.maximum(seen[:, None] - rows[:, None] * pmf(x), 0)
    return float((half * _WEIGHTS * gap).sum())
