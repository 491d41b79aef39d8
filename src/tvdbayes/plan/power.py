"""How likely the interval of a coefficient is to exclude zero.

The power at n rows is the share of simulated data sets whose interval lies on the true side of
zero, with the standard error of a proportion, sqrt(p (1 - p) / S) over S data sets.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from tvdbayes._typing import Array, IntArray
from tvdbayes.models.model import Model
from tvdbayes.objective.partitions import AbstractPartition
from tvdbayes.plan._study import AbstractPlanned, Contaminant, Design, Progress, Study


@dataclass(frozen=True, eq=False)
class Power(AbstractPlanned):
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
        Share of data sets whose interval lies on the true side of zero, of the robust and the
        likelihood fit (on either side where the truth is zero).
    error : (S,)
        Monte-Carlo standard error of the first.
    n_sets : int
        Data sets of each size.

    Examples
    --------
    >>> import numpy as np
    >>> from tvdbayes import plan
    >>> none, many = np.array([0.1]), np.array([0.9])
    >>> found = plan.Power("x1", 0.8, 0.9, 0.0, np.array([200]), many, none, np.array([0.05]), 40)
    >>> print(found.statement)
    Probability that the 90% interval of x1 excludes 0: 200 rows: 90% (+- 10%).
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
        """The result in words."""
        found = ", ".join(
            f"{n:,} rows: {p:.0%} (+- {2 * e:.0%})"
            for n, p, e in zip(self.rows, self.power, self.error, strict=True)
        )
        return (
            f"Probability that the {self.interval:.0%} interval of {self.coefficient}{self._wrong} "
            f"excludes 0: {found}."
        )


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

    Examples
    --------
    >>> import tvdbayes as tb
    >>> from tvdbayes import plan
    >>> two, model = [[1, 0], [1, 1]], tb.Model(tb.Poisson())
    >>> options = {"coefficient": "x1", "n_sets": 5, "n_draws": 50}
    >>> plan.power(model, two, [1.0, 0.2], rows=[50, 400], **options).power
    array([0.4, 1. ])
    """
    study = Study(
        model=model,
        design=design,
        theta=theta,
        coefficient=coefficient,
        share=share,
        contaminant=contaminant,
        interval=interval,
        n_sets=n_sets,
        n_draws=n_draws,
        trials=trials,
        partition=partition,
        seed=seed,
        progress=progress,
    )
    found = study.each(rows)
    name, truth = study.about
    low, high = np.moveaxis(np.stack([sets.ends for sets in found]), 2, 0)
    excludes = ((low > 0) & (truth >= 0)) | ((high < 0) & (truth <= 0))
    robust, ordinary = excludes.mean(-1).T
    # A share of 0 or 1 in few data sets is not certain either: half a data set is added to both.
    smoothed = (robust * n_sets + 0.5) / (n_sets + 1)
    error = np.sqrt(smoothed * (1 - smoothed) / n_sets)
    sizes = np.array([sets.n for sets in found])
    return Power(name, truth, interval, float(share), sizes, robust, ordinary, error, n_sets)
