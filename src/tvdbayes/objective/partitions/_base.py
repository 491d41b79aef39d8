"""Which covariate rows are compared together.

A partition looks at x only, never at y. In a group g the model is averaged over the x of the data,
sum_{i in g} p(x_i) f(y | x_i; theta), so the divergence is zero at the true parameters for any
groups.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from math import inf
from typing import ClassVar

import numpy as np

from tvdbayes._typing import Array, IntArray
from tvdbayes.data.cells import Cells, amount


@dataclass(frozen=True, eq=False)
class Grouping:
    """A partition (or an ensemble of R) applied to a table.

    The pieces that carry mass are *atoms*: normally one for each x row.

    Parameters
    ----------
    atom_of_cell : (m,)
        The atom that each cell's mass belongs to; does not decrease.
    x_of_atom : (n_atoms,)
        The x row of each atom.
    groups : (R, n_atoms)
        The group of each atom in each of the R partitions.
    """

    atom_of_cell: IntArray
    x_of_atom: IntArray
    groups: IntArray

    def of_other_outcomes(self, before: Cells, cells: Cells) -> "Grouping | None":
        """The same for another table of the very x rows of the one `before`.

        None where x differs, or atoms are not x rows.
        """
        same_x = all(getattr(cells, name) is getattr(before, name) for name in _COVARIATES)
        if same_x and self.atom_of_cell is before.x_index:
            return Grouping(cells.x_index, self.x_of_atom, self.groups)
        return None


_COVARIATES = ("x", "offset", "trials")
"""What groups are formed on."""


class AbstractPartition(ABC):
    """A rule that groups covariate rows."""

    name: ClassVar[str]
    pools_rows: ClassVar[bool] = False
    """Whether groups hold rows of different x. The point estimate is then the minimiser for the
    unweighted data, otherwise the posterior mean, which recovers half of the lost efficiency."""

    thin: ClassVar[float]
    """Outcomes are binned where the median row shares group and outcome with fewer rows than this,
    for each predictor of the family."""

    def learn(self, cells: Cells, n_params: int, seed: int) -> "AbstractPartition":
        """Fix the rule on a table; what is returned is a function of x alone."""
        return self

    @abstractmethod
    def group(self, cells: Cells) -> Grouping:
        """Apply the rule to a table."""


@dataclass(frozen=True)
class Distinct(AbstractPartition):
    """Rows with the same x form a group: the paper's estimator.

    Examples
    --------
    By name it is ``partition="distinct"``; where covariates repeat, "auto" chooses it anyway:

    >>> import numpy as np, tvdbayes as tb
    >>> rng = np.random.default_rng(0)
    >>> age = rng.integers(2, 6, 400)
    >>> data = {"visits": rng.poisson(np.exp(0.3 * age)), "age": age}
    >>> fit = tb.fit("visits ~ age", data, partition=tb.Distinct(), n_draws=0)
    >>> print(fit.groups)
    distinct: 4 groups, median 105 rows, slopes from groups too steep by about 0.6%
    """

    name: ClassVar[str] = "distinct"
    thin: ClassVar[float] = 5.0

    def group(self, cells: Cells) -> Grouping:
        rows = np.arange(cells.n_x)
        return Grouping(cells.x_index, rows, rows[None])


@dataclass(frozen=True)
class Singletons(AbstractPartition):
    """Every cell on its own: the paper's estimator for continuous x, an improper score.

    Its optimum does not tend to the truth on clean data; kept to show just that.

    Examples
    --------
    The true coefficients are 0 and 1, and no row is wrong:

    >>> import warnings, numpy as np, tvdbayes as tb
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=1000)
    >>> data = {"y": rng.random(1000) < 1 / (1 + np.exp(-x)), "x": x}
    >>> options = {"family": "bernoulli", "refine": None, "n_draws": 0}
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore", tb.TVDBayesWarning)
    ...     fit = tb.fit("y ~ x", data, partition="singletons", **options)
    >>> grouped = tb.fit("y ~ x", data, **options)
    >>> print(f"alone {fit.estimate[1]:.1f}, in groups {grouped.estimate[1]:.1f}")
    alone 6.3, in groups 0.9
    """

    name: ClassVar[str] = "singletons"
    thin: ClassVar[float] = 0.0

    def group(self, cells: Cells) -> Grouping:
        atoms = np.arange(cells.n_cells)
        return Grouping(atoms, cells.x_index, atoms[None])


@dataclass(frozen=True)
class GroupReport:
    """How rows are compared: what a partition makes of a table.

    Parameters
    ----------
    name : str
        The partition.
    n_partitions : int
        Partitions in the ensemble.
    n_groups : float
        Groups in one of them, on average.
    median_size : float
        Rows in the group that the median row finds itself in.

    Examples
    --------
    >>> import numpy as np, tvdbayes as tb
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=500)
    >>> fit = tb.fit("y ~ x", {"y": rng.poisson(np.exp(1 + 0.5 * x)), "x": x}, n_draws=0)
    >>> print(fit.groups)
    kmeans: 10 partitions of 16.5 groups, median 42 rows, slopes from groups too steep by about 1.4%
    >>> fit.groups.n_partitions
    10
    """

    name: str
    n_partitions: int
    n_groups: float
    median_size: float

    @property
    def expected_bias(self) -> float:
        """By how much slopes are too steep on clean data, as a share; about 0.6 / group size.

        This is the bias of fits that compare groups, such as plain TVD (``refine=None``). The
        default only looks there for rows that are too many.

        Rows that are compared one by one say nothing of a slope's size, and it may run to infinity.
        """
        return 0.6 / self.median_size if self.median_size > 1 else inf

    @property
    def steepness(self) -> str:
        """The same in words, to follow "too steep"."""
        bias = self.expected_bias
        return "without bound" if bias == inf else f"by about {bias:.1%}"

    @property
    def made(self) -> str:
        """Which groups there are, without what they do to slopes."""
        ensemble = f"{self.n_partitions} partitions of " if self.n_partitions > 1 else ""
        groups = f"{self.n_groups:g} group{'s' if self.n_groups != 1 else ''}"
        return f"{self.name}: {ensemble}{groups}, median {amount(self.median_size)} rows"

    def __str__(self) -> str:
        return f"{self.made}, slopes from groups too steep {self.steepness}"


def report_groups(cells: Cells, name: str, grouping: Grouping) -> GroupReport:
    """Describe the groups that a partition of this name has made of a table."""
    mass = np.bincount(grouping.atom_of_cell, cells.counts)
    sizes = []
    for labels in grouping.groups:
        total = np.bincount(labels, mass)
        sizes.append(total[total > 0])
    # A row finds itself in a group as often as the group has rows.
    size: Array = np.sort(np.concatenate(sizes))
    total = np.cumsum(size)
    median = float(size[np.searchsorted(total, total[-1] / 2)])
    return GroupReport(name, len(sizes), float(np.mean([len(s) for s in sizes])), median)


def median_cell(cells: Cells, grouping: Grouping) -> float:
    """Rows that share group and outcome with the median row, in the first partition."""
    group = grouping.groups[0][grouping.atom_of_cell]
    _, cell = np.unique(np.stack([group, cells.y], axis=1), axis=0, return_inverse=True)
    size = np.bincount(cell.ravel(), cells.counts)[cell.ravel()]
    order = np.argsort(size, kind="stable")
    total = np.cumsum(cells.counts[order])
    return float(size[order][np.searchsorted(total, total[-1] / 2)])
