"""A planned study: simulated data sets with wrong rows, and the intervals that they give."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from tvdbayes._errors import DataError, SettingsError, hearing
from tvdbayes._typing import Array
from tvdbayes._validate import probability, whole_number
from tvdbayes.bounds._words import written
from tvdbayes.data.cells import Cells, compress
from tvdbayes.models.model import Model
from tvdbayes.objective.partitions import AbstractPartition
from tvdbayes.sampling.bootstrap import posterior_bootstrap

Progress: TypeAlias = Callable[[int, int], None]
Design: TypeAlias = ArrayLike | Callable[[np.random.Generator, int], ArrayLike]
"""Planned covariate rows (they are drawn with replacement), or a function (rng, n) to (n, p)."""
Contaminant: TypeAlias = Callable[[np.random.Generator, Array, Array], tuple[ArrayLike, ArrayLike]]
"""How wrong rows are made: (rng, x, y) to (x, y)."""

_FEWEST = 10
"""Rows of the example from which the names of the parameters are read."""


def shifted_by(amount: float) -> Contaminant:
    """Wrong rows whose outcome has this added.

    Returns a function (rng, x, y) to (x, y), as `sample_size` and `power` take it.

    Examples
    --------
    A counter that skips: 20 too many.

    >>> import numpy as np
    >>> from tvdbayes import plan
    >>> plan.shifted_by(20)(np.random.default_rng(0), np.ones((2, 1)), np.array([1.0, 5.0]))[1]
    array([21., 25.])
    """
    return lambda _, x, y: (x, y + amount)


def replaced_by(outcome: float) -> Contaminant:
    """Wrong rows whose outcome is always this one; see `shifted_by`.

    Examples
    --------
    A sensor that reports 0 when it is broken; for `power` and `sample_size` it is
    ``share=0.1, contaminant=plan.replaced_by(0)``.

    >>> import numpy as np
    >>> from tvdbayes import plan
    >>> plan.replaced_by(0)(np.random.default_rng(0), np.ones((2, 1)), np.array([1.0, 5.0]))[1]
    array([0., 0.])
    """
    return lambda _, x, y: (x, np.full(len(y), float(outcome)))


@dataclass(frozen=True, eq=False)
class Simulated:
    """Intervals of the coefficient in S data sets of n rows.

    Parameters
    ----------
    n : int
    ends : (2, 2, S)
        Low and high ends, of the robust fit first, then of the likelihood fit.
    warned : float
        Share of data sets whose fit had something to warn of.
    """

    n: int
    ends: Array
    warned: float


@dataclass(frozen=True, eq=False)
class Study:
    """The checked settings of a study; the parameters are those of `sample_size`."""

    model: Model
    design: Design
    theta: ArrayLike
    coefficient: str | int
    share: float
    contaminant: Contaminant | None
    interval: float
    n_sets: int
    n_draws: int
    trials: float
    partition: AbstractPartition | None
    seed: int
    progress: Progress | None

    def __post_init__(self) -> None:
        probability("interval", self.interval, 0.9)
        whole_number("n_sets", self.n_sets, 2)
        whole_number("n_draws", self.n_draws, 2)
        theta = np.asarray(self.theta)
        numeric = theta.dtype.kind in "biuf" and bool(np.isfinite(theta).all())
        if np.atleast_1d(theta).shape != (len(self.names),) or not numeric:
            raise SettingsError(
                f"theta must hold one finite number for each of {list(self.names)}; got "
                f"{np.atleast_1d(theta).tolist()}."
            )
        if self.index < 0:
            raise SettingsError(
                f"coefficient must be one of {list(self.names)} or its place; got "
                f"{self.coefficient!r}."
            )
        if not 0 <= self.share < 1:
            raise SettingsError(f"share must be at least 0 and below 1; got {self.share!r}.")
        if self.share > 0 and self.contaminant is None:
            raise SettingsError(
                "With a share of wrong rows, contaminant must say what becomes of them, for "
                "example plan.shifted_by(20) or plan.replaced_by(0)."
            )

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The parameters."""
        example = self._rows(np.random.default_rng(0), _FEWEST)
        return self.model.param_names(Cells.from_rows(example, np.zeros(len(example))))

    @property
    def index(self) -> int:
        """Index of the coefficient of interest; -1 if there is none."""
        places = {name: place for place, name in enumerate(self.names)}
        place = places.get(str(self.coefficient), self.coefficient)
        return int(place) if place in range(len(self.names)) else -1

    @property
    def about(self) -> tuple[str, float]:
        """Name of the coefficient, and its value for good rows."""
        return self.names[self.index], float(np.ravel(self.theta)[self.index])

    def each(self, rows: int | Sequence[int]) -> list[Simulated]:
        """Data sets of each of these numbers of rows, the smallest first."""
        sizes = sorted(np.atleast_1d(rows).tolist())
        if not sizes or any(n < 2 or n % 1 for n in sizes):
            raise SettingsError(f"rows must be whole numbers of at least 2; got {rows!r}.")
        return [self.simulate(int(n), i, len(sizes)) for i, n in enumerate(sizes)]

    def simulate(self, n: int, number: int, n_sizes: int) -> Simulated:
        """Data sets of n rows, the size of this number of so many; set j follows from the seed."""
        tails = ((1 - self.interval) / 2, (1 + self.interval) / 2)
        ends, warned = np.empty((2, 2, self.n_sets)), 0
        for j in range(self.n_sets):
            cells = self._data(np.random.default_rng([self.seed, n, j]), n)
            with hearing() as heard:
                fit = posterior_bootstrap(
                    self.model, cells, partition=self.partition, n_draws=self.n_draws, seed=j
                )
            warned += bool(heard)
            for draws, of_fit in zip((fit.draws, fit.kld_draws), ends, strict=True):
                of_fit[:, j] = np.quantile(draws[:, self.index], tails)
            if self.progress is not None:
                self.progress(number * self.n_sets + j + 1, n_sizes * self.n_sets)
        return Simulated(n, ends, warned / self.n_sets)

    def _data(self, rng: np.random.Generator, n: int) -> Cells:
        """One data set of n rows."""
        x, trials = self._rows(rng, n), np.full(n, float(self.trials))
        made = compress(x, np.zeros(n), trials=trials)
        bound = self.model.bind(made.cells, made.cells)
        theta = np.atleast_1d(np.asarray(self.theta, dtype=float))
        eta = bound.eta(bound.from_user(theta[:, None]))[..., 0]
        # All outcomes are 0 so far, so a cell is an x row.
        y = self.model.family.sample(rng, eta[:, made.cell_of_row], trials)
        wrong = rng.random(n) < self.share
        if self.contaminant is not None and wrong.any():
            x_wrong, y_wrong = self.contaminant(rng, x[wrong], y[wrong])
            x, y = x.copy(), y.astype(float)
            x[wrong], y[wrong] = x_wrong, y_wrong
        return Cells.from_rows(x, y, trials=trials)

    def _rows(self, rng: np.random.Generator, n: int) -> Array:
        """Covariates of n rows."""
        if callable(self.design):
            x = np.asarray(self.design(rng, n), dtype=float)
        else:
            planned = np.asarray(self.design, dtype=float)
            if planned.ndim != 2 or not len(planned):
                raise DataError(
                    "design must be a table of planned covariate rows, or a function (rng, n); "
                    f"got shape {planned.shape}."
                )
            x = planned[rng.integers(0, len(planned), n)]
        if x.ndim != 2 or len(x) != n or not np.isfinite(x).all():
            raise DataError(
                f"design must give finite covariates of shape ({n} rows, columns); got {x.shape}. "
                "A column of ones is the intercept."
            )
        return x


class AbstractPlanned(ABC):
    """What a study finds about a coefficient, in words."""

    coefficient: str
    truth: float
    interval: float
    share: float
    n_sets: int

    @property
    @abstractmethod
    def statement(self) -> str:
        """The result in words."""

    @property
    def assumptions(self) -> tuple[str, ...]:
        """The assumptions of the simulation."""
        return (
            f"{self.coefficient} is {self.truth:g} for good rows",
            "covariates and wrong rows are as simulated",
            f"{self.n_sets} data sets of each size, so the last digits are noise",
        )

    @property
    def _wrong(self) -> str:
        return f", {self.share:.0%} of them wrong," if self.share else ""

    def __str__(self) -> str:
        return written(self.statement, self.assumptions)

    __repr__ = __str__
