"""Groups for covariates that hardly repeat: an ensemble of k-means partitions.

A group has about ``size * max(12, min(n / (8 d), sqrt(n)))`` rows, for n rows and d parameters:
larger groups have less bias, about 0.6 / (rows per group) of a slope, and resist wrong rows less.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

import numpy as np

from tvdbayes._errors import SettingsError
from tvdbayes._typing import Array, IntArray
from tvdbayes.data.cells import Cells
from tvdbayes.objective.partitions._base import AbstractPartition, Distinct, Grouping
from tvdbayes.objective.partitions._kmeans import learn_centres, nearest
from tvdbayes.objective.partitions._metrics import METRICS, row_order
from tvdbayes.objective.partitions._two_levels import Search, learn_cells, learn_centres_of_many

ENOUGH_ROWS = 12
"""Rows at one x from which it can stand as a group of its own; groups smaller than this bias."""

_SAMPLE = 20_000
"""Rows that metrics and centres are learned on, if there are more."""

_MANY_GROUPS = 512
"""Groups from which a search in two levels saves time."""


def rows_per_group(n_obs: float, n_params: int) -> float:
    """The balance between bias (small groups) and resistance (large ones)."""
    return max(float(ENOUGH_ROWS), min(n_obs / (8 * n_params), float(np.sqrt(n_obs))))


@dataclass(frozen=True)
class Cluster:
    """One kind of partition in an ensemble.

    Parameters
    ----------
    metric : "tail" or "spread"
        What "nearby" means. "spread" scales every covariate by its standard deviation; "tail" gives
        most weight to directions in which most rows are close together and few lie far out, so that
        the latter get groups of their own. Units, order and signs of the columns matter to neither;
        the reference level of a category matters to "spread" alone.
    size : float
        Rows per group, in multiples of ``min(n / (8 d), sqrt(n))`` or 12, whichever is more, for n
        rows and d parameters.
    copies : int
        Partitions of this kind, from different seeds.

    Examples
    --------
    Larger groups leave less bias on clean data, and resist less:

    >>> import numpy as np, tvdbayes as tb
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=500)
    >>> data = {"y": rng.poisson(np.exp(1 + 0.5 * x)), "x": x}
    >>> for size in (1.0, 4.0):
    ...     groups = tb.KMeansGroups((tb.Cluster(size=size, copies=4),))
    ...     print(tb.fit("y ~ x", data, partition=groups, n_draws=0).groups)
    kmeans: 4 partitions of 22 groups, median 31 rows, slopes from groups too steep by about 1.9%
    kmeans: 4 partitions of 6 groups, median 120 rows, slopes from groups too steep by about 0.5%
    """

    metric: str = "tail"
    size: float = 2.0
    copies: int = 10

    def __post_init__(self) -> None:
        if self.metric not in METRICS:
            raise SettingsError(
                f"There is no metric {self.metric!r}. Choose from {', '.join(METRICS)}."
            )
        if not (self.size > 0 and self.copies >= 1):
            raise SettingsError(
                f"size must be above 0 and copies at least 1; got {self.size} and {self.copies}."
            )


TWO_SIZES = (Cluster(size=2.0, copies=5), Cluster(size=1.0, copies=5))
"""The default ensemble. Large groups keep the bias small and isolate clusters far out; small ones
resist wrong rows inside the bulk. The metric is the same: groups that follow the spread of each
covariate alone fail when covariates are correlated (benchmarks/results)."""


@dataclass(frozen=True)
class KMeansGroups(AbstractPartition):
    """Ensemble of k-means partitions of covariates, offset and log trials; never looks at y.

    Covariate rows that hold at least 12 rows each stay groups of their own; the rest is clustered.
    Centres are learned on a sample if there are many rows, and the nearest is found in two levels
    if there are many centres too. The groups are the same in any units, order and coding of the
    covariates, unless their design has an exact symmetry (swapping two columns or levels gives the
    same rows): which of two equal rows a group begins at then depends on the order of the columns.

    Parameters
    ----------
    kinds : tuple of Cluster
        Which partitions the ensemble has: five with large groups and five with smaller ones unless
        given.

    Examples
    --------
    By name it is ``partition="kmeans"``; where covariates hardly repeat, "auto" chooses it anyway:

    >>> import numpy as np, tvdbayes as tb
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=500)
    >>> data = {"y": rng.poisson(np.exp(1 + 0.5 * x)), "x": x}
    >>> fit = tb.fit("y ~ x", data, partition=tb.KMeansGroups(), n_draws=0)
    >>> print(fit.groups)
    kmeans: 10 partitions of 16.5 groups, median 42 rows, slopes from groups too steep by about 1.4%
    """

    kinds: tuple[Cluster, ...] = TWO_SIZES

    name: ClassVar[str] = "kmeans"
    thin: ClassVar[float] = np.inf
    pools_rows: ClassVar[bool] = True

    def learn(self, cells: Cells, n_params: int, seed: int) -> "LearnedGroups":
        mass = cells.x_counts
        common = mass >= ENOUGH_ROWS
        z, weights = features(cells)[~common], mass[~common]
        moves = np.ptp(z, axis=0) > 0 if len(z) else np.zeros(z.shape[1], bool)
        z = z[:, moves]
        # A value of each column, so that taking it away costs no digits however far out z lies.
        origin = np.quantile(z, 0.5, axis=0, method="lower") if moves.any() else np.zeros(0)
        z = z - origin
        order = row_order(z, weights) if moves.any() else np.arange(len(z))
        learn = learn_centres_of_many if len(order) > _SAMPLE else learn_centres
        base = rows_per_group(cells.n_obs, n_params)
        n_groups = [max(2, round(weights.sum() / (kind.size * base))) for kind in self.kinds]
        in_cells = len(order) > _SAMPLE and max(n_groups) > _MANY_GROUPS
        learned: dict[str, tuple[Array, list[tuple[Array, Array]]]] = {}
        maps, centres, found = [], [], []
        for kind_number, kind in enumerate(self.kinds):
            if not moves.any():
                break
            rng = np.random.default_rng([seed, kind_number])
            rows = _sample(order, rng)
            if kind.metric not in learned:
                metric = METRICS[kind.metric](z[rows], weights[rows])
                mapped = z[rows] @ metric
                cell = [learn_cells(mapped, weights[rows], rng)] if in_cells else []
                learned[kind.metric] = metric, cell
            metric, cell = learned[kind.metric]
            n = n_groups[kind_number]
            for _ in range(kind.copies):
                rows = _sample(order, rng, 10 * n)
                maps.append(metric)
                centres.append(learn(z[rows] @ metric, weights[rows], n, rng))
            found += cell * kind.copies
        columns = tuple(np.flatnonzero(moves).tolist())
        return LearnedGroups(
            columns,
            origin,
            tuple(maps),
            tuple(centres),
            cells.x[common],
            cells.offset[common],
            cells.trials[common],
            tuple(middles for middles, _ in found),
            tuple(reach for _, reach in found),
        )

    def group(self, cells: Cells) -> Grouping:
        """Learn on this very table and apply."""
        return self.learn(cells, cells.x.shape[1], 0).group(cells)


@dataclass(frozen=True, eq=False)
class LearnedGroups(AbstractPartition):
    """Centres of an ensemble: a function of x that new rows and prior atoms obey too.

    Parameters
    ----------
    columns : tuple of int
        The features that vary.
    origin : (q,)
        What is taken from them first: a value in the middle of each.
    maps : tuple of (q, r)
        The metric of each partition.
    centres : tuple of (G, r)
        The centres of each partition.
    common, common_offset, common_trials : (n, p), (n,), (n,)
        Covariate rows that are groups of their own.
    middles, reach : tuple of (C, r) and of (C,)
        Where there are many rows and groups: the cells of each partition's search.
    """

    columns: tuple[int, ...]
    origin: Array
    maps: tuple[Array, ...]
    centres: tuple[Array, ...]
    common: Array
    common_offset: Array
    common_trials: Array
    middles: tuple[Array, ...] = ()
    reach: tuple[Array, ...] = ()

    name: ClassVar[str] = "kmeans"
    thin: ClassVar[float] = np.inf
    pools_rows: ClassVar[bool] = True

    def group(self, cells: Cells) -> Grouping:
        rows = np.arange(cells.n_x)
        z = features(cells)
        own = _find_rows(z, _features(self.common, self.common_offset, self.common_trials))
        clustered = own < 0
        z = z[clustered][:, list(self.columns)] - self.origin
        labels = [own + len(centres) for centres in self.centres]
        if clustered.any():
            for label, closest in zip(labels, self._closest(z), strict=True):
                label[clustered] = closest
        if not labels:
            # One x row alone was left to cluster: it, and whatever is new, is the rest.
            labels.append(np.where(clustered, len(self.common), own))
        return Grouping(cells.x_index, rows, np.array(labels, np.int32))

    def _closest(self, z: Array) -> list[IntArray]:
        """The nearest centre of each row in each partition."""
        labels: list[IntArray] = []
        for first, last in _runs(self.maps):
            mapped, centres = z @ self.maps[first], self.centres[first:last]
            if self.middles:
                search = Search.among(self.middles[first], self.reach[first], centres)
                labels += search.labels(mapped)
            else:
                labels += [nearest(mapped, one) for one in centres]
        return labels


@dataclass(frozen=True)
class Auto(AbstractPartition):
    """Distinct x where nine tenths of the rows share theirs with enough others, else groups.

    Parameters
    ----------
    kinds : tuple of Cluster
        As in `KMeansGroups`.

    Examples
    --------
    It is the default, ``partition="auto"``; `Fit.groups` says what it chose:

    >>> import numpy as np, tvdbayes as tb
    >>> rng = np.random.default_rng(0)
    >>> data = {"y": rng.poisson(3, 300), "age": rng.integers(2, 6, 300), "x": rng.random(300)}
    >>> tb.fit("y ~ age", data, partition=tb.Auto(), n_draws=0).groups.name
    'distinct'
    >>> tb.fit("y ~ x", data, n_draws=0).groups.name
    'kmeans'
    """

    kinds: tuple[Cluster, ...] = TWO_SIZES

    name: ClassVar[str] = "auto"
    thin: ClassVar[float] = np.inf

    def learn(self, cells: Cells, n_params: int, seed: int) -> AbstractPartition:
        mass = cells.x_counts
        if cells.n_x == 1 or mass[mass >= ENOUGH_ROWS].sum() >= 0.9 * cells.n_obs:
            return Distinct()
        return KMeansGroups(self.kinds).learn(cells, n_params, seed)

    def group(self, cells: Cells) -> Grouping:
        """Learn on this very table and apply."""
        return self.learn(cells, cells.x.shape[1], 0).group(cells)


def features(cells: Cells) -> Array:
    """What groups are formed on, (n_x, p + 2): covariates, offset and log trials."""
    return _features(cells.x, cells.offset, cells.trials)


def _features(x: Array, offset: Array, trials: Array) -> Array:
    return np.column_stack([x, offset, np.log(trials)])


def _sample(order: IntArray, rng: np.random.Generator, at_least: int = 0) -> IntArray:
    """Rows to learn from: all of them, or so many by chance."""
    most = max(_SAMPLE, at_least)
    if len(order) <= most:
        return order
    return order[np.sort(rng.choice(len(order), most, replace=False))]


def _runs(maps: Sequence[Array]) -> list[tuple[int, int]]:
    """First and last of partitions, next to each other, that have the same metric."""
    starts = [
        number
        for number, one in enumerate(maps)
        if number == 0 or not np.array_equal(one, maps[number - 1])
    ]
    return list(pairwise([*starts, len(maps)]))


def _find_rows(x: Array, known: Array) -> IntArray:
    """The number of each row of x among the known rows, or -1."""
    if not len(known):
        return np.full(len(x), -1)
    _, index = np.unique(np.concatenate([known, x]), axis=0, return_inverse=True)
    index = index.ravel()
    number = np.full(index.max() + 1, -1)
    number[index[: len(known)]] = np.arange(len(known))
    return number[index[len(known) :]]
