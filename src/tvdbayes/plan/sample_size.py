"""How many rows an interval needs to be narrow.

The expected width of the interval of a coefficient at n rows is the mean over simulated data sets.
It falls about as n**(-1/2), so between two sizes the one with the wanted width is found on a
straight line in log n and log width.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from tvdbayes._typing import Array, IntArray
from tvdbayes._validate import finite_number
from tvdbayes.models.model import Model
from tvdbayes.objective.partitions import AbstractPartition
from tvdbayes.plan._study import AbstractPlanned, Contaminant, Design, Progress, Simulated, Study

_MOST_SIZES = 12
"""Numbers of rows that are tried: each is at least 1.4 times the one before, so the last is at
least 40 times the first, and usually far larger."""


@dataclass(frozen=True, eq=False)
class SampleSize(AbstractPlanned):
    """Width of the interval of a coefficient against the number of rows.

    Parameters
    ----------
    coefficient, truth : str, float
        The coefficient, and its value for good rows.
    target, interval : float
        The width that is wanted, and the probability inside the interval.
    share : float
        Share of wrong rows.
    rows : (S,)
        Numbers of rows that were tried, in order.
    width, error : (S,)
        Mean width of the interval, and its Monte-Carlo standard error.
    ordinary_width : (S,)
        The same of the likelihood fit, which does not know of the wrong rows.
    covers, ordinary_covers : (S,)
        Share of data sets whose interval holds the true value.
    warned : (S,)
        Share of data sets whose fit had something to warn of.
    n_sets : int
        Data sets of each size.

    Examples
    --------
    >>> import numpy as np, tvdbayes as tb
    >>> from tvdbayes import plan
    >>> options = {"coefficient": 0, "width": 0.1, "rows": [200, 800], "n_sets": 5, "n_draws": 50}
    >>> found = plan.sample_size(tb.Model(tb.Poisson()), [[1.0]], [np.log(3)], **options)
    >>> found.width.round(2), found.vacuous  # 800 rows are enough
    (array([0.12, 0.06]), False)
    """

    coefficient: str
    truth: float
    target: float
    interval: float
    share: float
    rows: IntArray
    width: Array
    error: Array
    ordinary_width: Array
    covers: Array
    ordinary_covers: Array
    warned: Array
    n_sets: int

    @property
    def needed(self) -> int | None:
        """Rows from which the mean width is as wanted; None if no number that was tried is."""
        return _crossing(self.rows, self.width, self.target)

    @property
    def range(self) -> tuple[int | None, int | None]:
        """The same with two Monte-Carlo errors taken off the widths, and added to them."""
        return (
            _crossing(self.rows, self.width - 2 * self.error, self.target),
            _crossing(self.rows, self.width + 2 * self.error, self.target),
        )

    @property
    def vacuous(self) -> bool:
        """Whether no number of rows that was tried is enough."""
        return self.needed is None

    @property
    def statement(self) -> str:
        """The result in words."""
        if self.needed is None:
            return (
                f"With {self.rows[-1]:,} rows{self._wrong} the {self.interval:.0%} interval of "
                f"{self.coefficient} is still {self.width[-1]:.3g} wide, not {self.target:.3g}."
            )
        low, high = self.range
        first = "" if self.needed > self.rows[0] else "or fewer "
        covers = np.interp(self.needed, self.rows, self.covers)
        return (
            f"About {self.needed:,} rows {first}({_rows(low)} to {_rows(high)}){self._wrong} make "
            f"the {self.interval:.0%} interval of {self.coefficient} {self.target:.3g} wide on "
            f"average; it then holds the true value in {covers:.0%} of the data sets."
        )


def sample_size(
    model: Model,
    design: Design,
    theta: ArrayLike,
    *,
    coefficient: str | int,
    width: float,
    share: float = 0.0,
    contaminant: Contaminant | None = None,
    interval: float = 0.9,
    rows: Sequence[int] | None = None,
    n_sets: int = 20,
    n_draws: int = 200,
    trials: float = 1.0,
    partition: AbstractPartition | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> SampleSize:
    """Find by simulation how many rows make the interval of a coefficient as narrow as wanted.

    Parameters
    ----------
    model : Model
    design : (m, p) or callable
        Planned covariate rows, drawn with replacement; or a function (rng, n) to (n, p). An
        intercept is a column of ones.
    theta : (d,)
        Parameters that good rows are assumed to have.
    coefficient : str or int
        Name of a parameter (columns are called x0, x1, ...), or its place.
    width : float
        Width of the interval that is wanted.
    share : float
        Share of wrong rows that is feared.
    contaminant : callable, optional
        What becomes of them, (rng, x, y) to (x, y): `shifted_by`, `replaced_by`, or your own.
    interval : float
        Probability inside the interval.
    rows : sequence of int, optional
        Numbers of rows to try; otherwise from 100 upwards until there are enough.
    n_sets, n_draws : int
        Data sets of each size, and draws of each fit.
    trials : float
        Of every row, for successes out of several.
    partition : AbstractPartition, optional
        Which rows are compared together, as in a fit.
    seed : int
        The same seed gives the same answer.
    progress : callable, optional
        Called with the data sets done, and in all as far as that is known.

    Examples
    --------
    >>> import numpy as np, tvdbayes as tb
    >>> from tvdbayes import plan
    >>> found = plan.sample_size(
    ...     tb.Model(tb.Poisson()), [[1.0]], [np.log(3)], coefficient=0, width=0.1,
    ...     share=0.1, contaminant=plan.shifted_by(20), n_sets=5, n_draws=50,
    ... )
    >>> 200 < found.needed < 1000
    True
    """
    finite_number("width", width, above=0.0)
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
    found = _climb(study, width) if rows is None else study.each(rows)
    name, truth = study.about
    low, high = np.moveaxis(np.stack([sets.ends for sets in found]), 2, 0)
    widths = high - low
    robust, ordinary = widths.mean(-1).T
    covers, ordinary_covers = ((low <= truth) & (truth <= high)).mean(-1).T
    return SampleSize(
        name,
        truth,
        float(width),
        interval,
        float(share),
        np.array([sets.n for sets in found]),
        robust,
        widths[:, 0].std(-1, ddof=1) / np.sqrt(n_sets),
        ordinary,
        covers,
        ordinary_covers,
        np.array([sets.warned for sets in found]),
        n_sets,
    )


def _climb(study: Study, target: float) -> list[Simulated]:
    """Sizes from 100 upwards: widths fall like 1/sqrt(n), which says where to look next."""
    n, found = 100, [study.simulate(100, 0, 1)]
    while (width := _mean_width(found[-1])) > target and len(found) < _MOST_SIZES:
        n = int(np.ceil(n * np.clip(1.3 * (width / target) ** 2, 1.4, 4.0)))
        found.append(study.simulate(n, len(found), len(found) + 1))
    return found


def _mean_width(sets: Simulated) -> float:
    low, high = sets.ends[0]
    return float((high - low).mean())


def _crossing(rows: IntArray, width: Array, target: float) -> int | None:
    """Where the width falls to the target, between sizes as a power of the rows."""
    enough = np.flatnonzero(width <= target)
    if not enough.size:
        return None
    last = int(enough[0])
    if last == 0:
        return int(rows[0])
    (a, b), (high, low) = np.log(rows[last - 1 : last + 1]), np.log(width[last - 1 : last + 1])
    return int(np.ceil(np.exp(a + (b - a) * (high - np.log(target)) / (high - low))))


def _rows(n: int | None) -> str:
    return "more than were tried" if n is None else f"{n:,}"
