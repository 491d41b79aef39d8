"""How likely the interval of a coefficient is to exclude zero.

The power at n rows is the share of simulated data sets whose interval lies on the true side of
zero, with the standard error of a proportion, sqrt(p (1 - p) / S) over S data sets.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tvdbayes._typing import Array, ArrayLike, BoolArray, IntArray
from tvdbayes.models.model import Model
from tvdbayes.objective.partitions import AbstractPartition
from tvdbayes.plan._runner import Runner, assumed, check_options, sizes_of
from tvdbayes.plan._simulation import Contaminant, Design, Progress, scenario_of

__all__ = ["Power", "power"]


@dataclass(frozen=True, eq=False)
class Power:
    """Probability that the interval of a coefficient excludes zero, against the number of rows.

    Parameters
    ----------
    coefficient, truth : str, float
        The coefficient, and its value for good rows.
    interval, share : float
        Probability inside the interval, and share of wrong rows.
    rows : (S,)
        Numbers of rows, in order.
    power, ordinary_power : (S,)
        Share of data sets whose interval lies on the true side of zero, robust and ordinary (on
        either side where the truth is zero).
    error : (S,)
        Monte-Carlo standard error of the first.
    n_sets : int
        Data sets of each size.

    Examples
    --------
    >>> import numpy as np, tvdbayes as tb
    >>> from tvdbayes import plan
    >>> found = plan.power(
    ...     tb.Model(tb.Poisson()), [[1, 0], [1, 1]], [1.0, 0.8], coefficient="x1", rows=200,
    ...     n_sets=2, n_draws=20,
    ... )
    >>> print(found.statement)
    Probability that the 90% interval of x1 excludes 0: 200 rows: 100% (+- 53%).
    """

    coefficient: str
    truth: float
    interval: float
    share: float
    rows: IntArray
    power: Array
    ordinary_power: Array
    error: Array
    n_sets: int

    @property
    def vacuous(self) -> bool:
        """Whether there are too few data sets to tell anything."""
        return bool((2 * self.error >= 0.5).all())

    @property
    def statement(self) -> str:
        """What was found, in words."""
        wrong = f", {self.share:.0%} of them wrong," if self.share else ""
        found = ", ".join(
            f"{n:,} rows: {p:.0%} (+- {2 * e:.0%})"
            for n, p, e in zip(self.rows, self.power, self.error, strict=True)
        )
        return (
            f"Probability that the {self.interval:.0%} interval of {self.coefficient}{wrong} "
            f"excludes 0: {found}."
        )

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What was simulated."""
        return assumed(self.coefficient, self.truth, self.n_sets)

    def __str__(self) -> str:
        return f"{self.statement} Assumes: {'; '.join(self.assumptions)}."

    __repr__ = __str__


def power(
    model: Model,
    design: Design,
    theta: ArrayLike,
    *,
    coefficient: str | int,
    rows: int | Sequence[int],
    share: float = 0.0,
    contaminant: Contaminant | None = None,
    interval: float = 0.9,
    n_sets: int = 40,
    n_draws: int = 200,
    trials: float = 1.0,
    partition: AbstractPartition | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> Power:
    """Find by simulation how often the interval of a coefficient will exclude zero.

    Parameters
    ----------
    rows : int or sequence of int
        Numbers of rows to try.
    model, design, theta, coefficient, share, contaminant, interval, n_sets, n_draws, trials, \
partition, seed, progress
        As in `sample_size`.

    Returns
    -------
    Power

    Examples
    --------
    >>> import numpy as np, tvdbayes as tb
    >>> from tvdbayes import plan
    >>> groups = np.array([[1.0, 0.0], [1.0, 1.0]])
    >>> found = plan.power(
    ...     tb.Model(tb.Poisson()), groups, [1.0, 0.8], coefficient="x1", rows=200, n_sets=5,
    ...     n_draws=50,
    ... )
    >>> found.power
    array([1.])
    """
    check_options(interval, n_sets, n_draws)
    scenario = scenario_of(
        model,
        design,
        theta,
        coefficient=coefficient,
        share=share,
        contaminant=contaminant,
        trials=trials,
        partition=partition,
    )
    sizes = sizes_of(np.atleast_1d(rows))
    found = Runner(scenario, n_sets, n_draws, interval, seed, progress).each(sizes)
    truth = scenario.truth

    def excludes(low: Array, high: Array) -> BoolArray:
        above: BoolArray = (low > 0) & (truth >= 0)
        return above | ((high < 0) & (truth <= 0))

    share_of_sets = np.array([excludes(s.low, s.high).mean() for s in found])
    # A share of 0 or 1 in few data sets is not certain either: half a data set is added to both.
    smoothed = (share_of_sets * n_sets + 0.5) / (n_sets + 1)
    return Power(
        scenario.name,
        truth,
        interval,
        scenario.share,
        np.array(sizes),
        share_of_sets,
        np.array([excludes(s.ordinary_low, s.ordinary_high).mean() for s in found]),
        np.sqrt(smoothed * (1 - smoothed) / n_sets),
        n_sets,
    )
