"""All parameters that a share of wrong rows leaves possible: a confidence set.

If at most k of n rows are wrong, the distance between the table and the true model is at most k / n
plus the noise of the n - k good rows. The number of wrong rows is at most the binomial quantile,
except with probability delta / 2. The noise has a distribution that follows from the model and is
simulated, so the set is valid at any n. Parameters with a larger distance are excluded.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from tvdbayes._errors import SettingsError
from tvdbayes._typing import Array, BoolArray, IntArray
from tvdbayes._validate import probability
from tvdbayes.bounds._parameter_test import ParameterTest, Progress
from tvdbayes.bounds._words import (
    AbstractGuarantee,
    at_least,
    at_most,
    percent,
    row_counts,
    share_of,
    vector,
)
from tvdbayes.data.cells import Cells
from tvdbayes.models.model import Model
from tvdbayes.models.predictors import AbstractBound
from tvdbayes.objective.partitions import AbstractPartition, Distinct
from tvdbayes.sampling.bootstrap import posterior_bootstrap
from tvdbayes.sampling.execution import single_threaded

_COARSE, _FINE = 9, {1: 61, 2: 21}
"""Values along each axis, to find where the set ends and to draw it: at most 441 tests for the
drawing of two parameters."""

_DOUBLINGS = 9
"""How often the rectangle is doubled to reach the ends of the set. It begins 4 / sqrt(n) to each
side of the estimate, in standardised coordinates, so it ends at 2048 / sqrt(n)."""


@dataclass(frozen=True, eq=False)
class ParameterSet(AbstractGuarantee):
    """Parameters that were tried, and those that cannot be excluded.

    Parameters
    ----------
    names : tuple of str
        The d parameters.
    values : (V, d)
        Parameters that were tried.
    distance, limit : (V,)
        Distance of each from the data, and the largest that wrong rows and chance can explain.
    low, high : (d,)
        The set lies between these (the nearest excluded values); infinite where no end was found,
        or where wrong rows and chance may be half of the table: the set may have other parts then.
        NaN where parameters were given, or all are excluded.
    share, delta : float
        Share of wrong rows assumed at most, and probability of failure.
    statement, assumptions : str, tuple of str
        What is known, and what must be true for it.

    Examples
    --------
    >>> import numpy as np, tvdbayes as tb
    >>> cells = tb.Cells.from_counts([[1]] * 5, [0, 1, 2, 3, 30], [180, 185, 95, 40, 50])
    >>> rates = np.array([0.4, 0.6, 0.8, 1.0, 1.2, 1.5, 2.0])
    >>> model = tb.Model(tb.Poisson())
    >>> found = tb.bounds.parameter_set(model, cells, 0.15, theta=np.log(rates)[:, None])
    >>> rates[found.inside]
    array([0.6, 0.8, 1. , 1.2, 1.5])
    """

    names: tuple[str, ...]
    values: Array
    distance: Array
    limit: Array
    low: Array
    high: Array
    share: float
    delta: float

    @property
    def inside(self) -> BoolArray:
        """Which of the values cannot be excluded, (V,)."""
        return self.distance <= self.limit

    @property
    def set(self) -> Array:
        """The values that cannot be excluded."""
        kept: Array = self.values[self.inside]
        return kept

    @property
    def vacuous(self) -> bool:
        """Whether nothing can be excluded."""
        return bool((self.limit >= 1).all() or np.isinf([self.low, self.high]).all())

    def _remark(self) -> str:
        return "This says nothing." if self.vacuous else ""

    __repr__ = AbstractGuarantee.__str__


def parameter_set(
    model: Model,
    cells: Cells,
    share: float,
    delta: float = 0.05,
    *,
    theta: ArrayLike | None = None,
    partition: AbstractPartition | None = None,
    n_simulations: int = 400,
    seed: int = 0,
    progress: Progress | None = None,
) -> ParameterSet:
    """Find the parameters that at most a share of wrong rows leaves possible, whatever these are.

    Parameters
    ----------
    model : Model
    cells : Cells
        The data.
    share : float
        Each row is wrong with this probability at most.
    delta : float
        Probability, over data, that the set misses the true parameters.
    theta : (d,) or (V, d), optional
        Parameters to test, of any number; without, one or two are searched on a grid.
    partition : AbstractPartition, optional
        Which rows are compared together: distinct x unless given.
    n_simulations : int
        Simulated tables for each value without covariates, where any number keeps `delta` and more
        give smoother limits; with covariates, or very many rows, only means are simulated, and 100
        or fewer are enough.
    seed : int
        Of the simulation; all values share it.
    progress : callable, optional
        Called with the values done and those known to be needed.

    Examples
    --------
    >>> import numpy as np, tvdbayes as tb
    >>> y = tb.example_data(500, wrong=0.1)["visits"]
    >>> cells = tb.Cells.from_rows(np.ones((500, 1)), y)
    >>> model = tb.Model(tb.NegativeBinomial())
    >>> print(tb.bounds.parameter_set(model, cells, 0.15, theta=[[1, 0], [2, 0]]))
    1 of 2 given parameter vectors cannot be excluded if at most 15% of the rows are wrong (failure
    probability 5%). Assumes: rows are wrong independently of each other with probability 15% at
    most; the other rows come from the model, independently.
    """
    share, delta = share_of(share), probability("delta", delta)
    row_counts(cells)
    model.check(cells)
    model.predictor.require_coefficients("to search", "predictions")
    if not n_simulations * delta >= 2:
        raise SettingsError(
            f"n_simulations must be at least {int(np.ceil(2 / delta))} for delta={delta:g}; got "
            f"{n_simulations}."
        )
    names = model.param_names(cells)
    groups = Distinct() if partition is None else partition.learn(cells, len(names), seed)
    test = ParameterTest(
        model, cells, _labels(groups, cells), share, delta, int(n_simulations), seed
    )
    with single_threaded():
        if theta is not None:
            values = _given(theta, len(names))
            found = test.many(values, progress)
            low = high = np.full(len(names), np.nan)
            says = f"{int((found[0] <= found[1]).sum())} of {len(values)} given parameter vectors "
            says += f"cannot be excluded if at most {percent(share)} of the rows are wrong"
        else:
            values, found, low, high = _search(test, groups, progress)
            says = _said(names, low, high, share)
    says += f" (failure probability {percent(delta)})."
    assumptions = (
        f"rows are wrong independently of each other with probability {percent(share)} at most",
        f"the other rows come from the model, independently{' given x' * (cells.n_x > 1)}",
    )
    return ParameterSet(
        *(names, values, *found, low, high, share, delta),
        statement=says,
        assumptions=assumptions,
    )


def _search(
    test: ParameterTest, partition: AbstractPartition, progress: Progress | None
) -> tuple[Array, tuple[Array, Array], Array, Array]:
    """Values on a grid, their distances and limits, and the ends of the set."""
    cells, bound = test.cells, test.bound
    d = bound.n_params
    if d not in _FINE:
        raise SettingsError(
            f"A grid is for one or two parameters; this model has {d}. Pass theta= with the "
            "parameters to test."
        )
    point = posterior_bootstrap(
        test.model, cells, partition=partition, n_draws=0, seed=test.seed, refine=None
    )
    # A rectangle in standardised coordinates, in which parameters are hardly correlated.
    centre = bound.from_user(point.minimiser[:, None])[:, 0]
    half, open_end = np.full(d, 4 / np.sqrt(test.n)), np.ones(d, bool)
    for _ in range(_DOUBLINGS):
        axes = [np.linspace(c - h, c + h, _COARSE) for c, h in zip(centre, half, strict=True)]
        inside = _inside(test.many(_grid(bound, axes), None), axes)
        open_end = np.array([inside.take([0, -1], axis=j).any() for j in range(d)])
        if not open_end.any():
            break
        half[open_end] *= 2
    axes = [_zoomed(axis, inside, j, _FINE[d]) for j, axis in enumerate(axes)]
    values = _grid(bound, axes)
    found = test.many(values, progress)
    kept = np.argwhere(_inside(found, axes))
    if not len(kept):
        nowhere = np.full(d, np.nan)
        return values, found, nowhere, nowhere
    # The nearest values outside: between neighbours nothing was tried.
    around = np.array(np.meshgrid(*[[-1, 0, 1]] * d, indexing="ij")).reshape(d, -1).T
    shape = [len(axis) for axis in axes]
    near = np.clip((kept[:, None] + around).reshape(-1, d), 0, np.array(shape) - 1)
    hull = values[np.ravel_multi_index(tuple(near.T), shape)]
    # Laws that are both nearer than 1/2 to the table overlap. Where the limit is larger, the set
    # may have a part elsewhere, which the rectangle does not reach.
    elsewhere = (found[1][_inside(found, axes).ravel()] >= 0.5).any()
    # An end that was not found in standardised coordinates may be any end of the user's.
    beyond = np.inf if open_end.any() or elsewhere else 0.0
    return values, found, hull.min(0) - beyond, hull.max(0) + beyond


def _grid(bound: AbstractBound, axes: list[Array]) -> Array:
    """All combinations of standardised values, (V, d), in the user's coordinates."""
    points = np.array(np.meshgrid(*axes, indexing="ij")).reshape(len(axes), -1)
    return bound.to_user(points).T


def _inside(found: tuple[Array, Array], axes: list[Array]) -> BoolArray:
    kept: BoolArray = (found[0] <= found[1]).reshape([len(axis) for axis in axes])
    return kept


def _zoomed(axis: Array, inside: BoolArray, j: int, size: int) -> Array:
    """The part of an axis that covers the set, with the next value on either side."""
    kept = np.flatnonzero(inside.any(axis=tuple(i for i in range(inside.ndim) if i != j)))
    if not kept.size:
        return np.linspace(axis[0], axis[-1], size)
    first, last = max(kept[0] - 1, 0), min(kept[-1] + 1, len(axis) - 1)
    return np.linspace(axis[first], axis[last], size)


def _labels(partition: AbstractPartition, cells: Cells) -> IntArray:
    grouping = partition.group(cells)
    if not np.array_equal(grouping.x_of_atom, np.arange(cells.n_x)):
        raise SettingsError(
            f"The partition {partition.name!r} compares every row on its own, which gives no "
            "bound. Use Distinct() or Auto()."
        )
    return grouping.groups


def _given(theta: ArrayLike, d: int) -> Array:
    values = vector("theta", theta)
    values = values[None] if values.ndim == 1 else values
    if values.ndim != 2 or values.shape[1] != d or not np.isfinite(values).all():
        raise SettingsError(
            f"theta must hold finite numbers in the shape ({d},) or (values, {d}); got shape "
            f"{np.shape(theta)}."
        )
    return values


def _said(names: tuple[str, ...], low: Array, high: Array, share: float) -> str:
    wrong = f"if at most {percent(share)} of the rows are wrong"
    if np.isnan(low).any():
        return f"No parameters fit the data {wrong}: more are, or the model is another"
    ends = ", ".join(
        f"{name} lies between {at_least(a)} and {at_most(b)}"
        for name, a, b in zip(names, low, high, strict=True)
    )
    return f"{wrong[0].upper()}{wrong[1:]}, {ends}"
