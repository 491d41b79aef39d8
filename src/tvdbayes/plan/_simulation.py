"""Simulated data sets of a planned study, with wrong rows, and the intervals that they give."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from tvdbayes._errors import DataError, SettingsError, TVDBayesWarning
from tvdbayes._typing import Array, ArrayLike
from tvdbayes.data.cells import Cells, compress
from tvdbayes.models.model import Model
from tvdbayes.objective.partitions import AbstractPartition
from tvdbayes.sampling.bootstrap import posterior_bootstrap

__all__ = [
    "Contaminant",
    "Design",
    "Progress",
    "Scenario",
    "Simulated",
    "replaced_by",
    "scenario_of",
    "shifted_by",
    "simulate",
]

Progress: TypeAlias = Callable[[int, int], None]
Design: TypeAlias = ArrayLike | Callable[[np.random.Generator, int], ArrayLike]
"""Planned covariate rows (they are drawn with replacement), or a function (rng, n) to (n, p)."""
Contaminant: TypeAlias = Callable[[np.random.Generator, Array, Array], tuple[ArrayLike, ArrayLike]]
"""What becomes of wrong rows: (rng, x, y) to (x, y)."""

_FEWEST = 10
"""Rows of the example from which the names of the parameters are read."""


def shifted_by(amount: float) -> Contaminant:
    """Wrong rows whose outcome has this added.

    Parameters
    ----------
    amount : float
        What is added.

    Returns
    -------
    callable
        (rng, x, y) to (x, y), as `sample_size` and `power` take it.

    Examples
    --------
    A counter that skips: 20 too many.

    >>> import numpy as np
    >>> from tvdbayes import plan
    >>> wrong = plan.shifted_by(20)
    >>> x, y = wrong(np.random.default_rng(0), np.ones((3, 1)), np.array([0.0, 1.0, 5.0]))
    >>> y
    array([20., 21., 25.])
    """
    return lambda _, x, y: (x, y + amount)


def replaced_by(outcome: float) -> Contaminant:
    """Wrong rows whose outcome is always this one.

    Parameters
    ----------
    outcome : float
        The outcome.

    Returns
    -------
    callable
        (rng, x, y) to (x, y), as `sample_size` and `power` take it.

    Examples
    --------
    A sensor that reports 0 when it is broken; for `power` and `sample_size` it is
    ``share=0.1, contaminant=plan.replaced_by(0)``.

    >>> import numpy as np
    >>> from tvdbayes import plan
    >>> wrong = plan.replaced_by(0)
    >>> x, y = wrong(np.random.default_rng(0), np.ones((3, 1)), np.array([0.0, 1.0, 5.0]))
    >>> y
    array([0., 0., 0.])
    """
    return lambda _, x, y: (x, np.full(len(y), float(outcome)))


@dataclass(frozen=True, eq=False)
class Scenario:
    """What is planned and feared.

    Parameters
    ----------
    model : Model
        The model of good rows.
    rows : callable
        (rng, n) to covariates (n, p).
    theta : (d,)
        Its parameters.
    index : int
        The coefficient that matters, by its place; `name` is what it is called.
    share : float
        Share of wrong rows.
    contaminant : callable
        What becomes of them.
    """

    model: Model
    rows: Callable[[np.random.Generator, int], Array]
    theta: Array
    index: int
    name: str
    share: float
    contaminant: Contaminant
    trials: float
    partition: AbstractPartition | None

    @property
    def truth(self) -> float:
        """The coefficient of good rows."""
        return float(self.theta[self.index])

    def data(self, rng: np.random.Generator, n: int) -> Cells:
        """One data set of n rows."""
        x, trials = self.rows(rng, n), np.full(n, self.trials)
        made = compress(x, np.zeros(n), trials=trials)
        bound = self.model.bind(made.cells, made.cells)
        eta = bound.eta(bound.from_user(self.theta[:, None]))[..., 0]
        # All outcomes are 0 so far, so a cell is an x row.
        y = self.model.family.sample(rng, eta[:, made.cell_of_row], trials)
        wrong = rng.random(n) < self.share
        if wrong.any():
            x_wrong, y_wrong = self.contaminant(rng, x[wrong], y[wrong])
            x, y = x.copy(), y.astype(float)
            x[wrong], y[wrong] = x_wrong, y_wrong
        return Cells.from_rows(x, y, trials=trials)


@dataclass(frozen=True, eq=False)
class Simulated:
    """Intervals of the coefficient in data sets of n rows.

    Parameters
    ----------
    n : int
    low, high, ordinary_low, ordinary_high : (S,)
        Ends in each data set, of the robust and of the likelihood fit.
    warned : float
        Share of data sets whose fit had something to warn of.
    """

    n: int
    low: Array
    high: Array
    ordinary_low: Array
    ordinary_high: Array
    warned: float


def scenario_of(
    model: Model,
    design: Design,
    theta: ArrayLike,
    *,
    coefficient: str | int,
    share: float,
    contaminant: Contaminant | None,
    trials: float,
    partition: AbstractPartition | None,
) -> Scenario:
    """Check what is planned."""
    rows = _rows_of(design)
    example = rows(np.random.default_rng(0), _FEWEST)
    cells = Cells.from_rows(example, np.zeros(len(example)))
    names = model.param_names(cells)
    truth = np.atleast_1d(np.asarray(theta))
    numeric = truth.dtype.kind in "biuf" and bool(np.isfinite(truth).all())
    if truth.shape != (len(names),) or not numeric:
        raise SettingsError(
            f"theta must hold one finite number for each of {list(names)}; got {truth.tolist()}."
        )
    known = dict(zip(names, range(len(names)), strict=True))
    index = known.get(str(coefficient), coefficient)
    if index not in known.values():
        raise SettingsError(
            f"coefficient must be one of {list(names)} or its place; got {coefficient!r}."
        )
    if not 0 <= share < 1:
        raise SettingsError(f"share must be at least 0 and below 1; got {share!r}.")
    if share > 0 and contaminant is None:
        raise SettingsError(
            "With a share of wrong rows, contaminant must say what becomes of them, for example "
            "plan.shifted_by(20) or plan.replaced_by(0)."
        )
    return Scenario(
        model,
        rows,
        truth.astype(float),
        int(index),
        names[int(index)],
        float(share),
        contaminant or shifted_by(0.0),
        float(trials),
        partition,
    )


def simulate(
    scenario: Scenario,
    n: int,
    *,
    n_sets: int,
    n_draws: int,
    interval: float,
    seed: int,
    progress: Callable[[int], None],
) -> Simulated:
    """Intervals in so many data sets of n rows; set j of n rows is a function of (seed, n, j)."""
    tails = ((1 - interval) / 2, (1 + interval) / 2)
    ends, warned = np.empty((n_sets, 4)), 0
    for number in range(n_sets):
        cells = scenario.data(np.random.default_rng([seed, n, number]), n)
        with warnings.catch_warnings(record=True) as heard:
            warnings.simplefilter("always", TVDBayesWarning)
            fit = posterior_bootstrap(
                scenario.model,
                cells,
                partition=scenario.partition,
                n_draws=n_draws,
                seed=number,
            )
        warned += any(issubclass(w.category, TVDBayesWarning) for w in heard)
        for other in heard:
            if not issubclass(other.category, TVDBayesWarning):
                warnings.warn_explicit(other.message, other.category, other.filename, other.lineno)
        j = scenario.index
        ends[number, :2] = np.quantile(fit.draws[:, j], tails)
        ends[number, 2:] = np.quantile(fit.kld_draws[:, j], tails)
        progress(number + 1)
    low, high, ordinary_low, ordinary_high = ends.T
    return Simulated(n, low, high, ordinary_low, ordinary_high, warned / n_sets)


def _rows_of(design: Design) -> Callable[[np.random.Generator, int], Array]:
    make = design if callable(design) else _drawn_from(np.asarray(design, dtype=float))

    def rows(rng: np.random.Generator, n: int) -> Array:
        x = np.asarray(make(rng, n), dtype=float)
        if x.ndim != 2 or len(x) != n or not np.isfinite(x).all():
            raise DataError(
                f"design must give finite covariates of shape ({n} rows, columns); got {x.shape}. "
                "A column of ones is the intercept."
            )
        return x

    return rows


def _drawn_from(planned: Array) -> Callable[[np.random.Generator, int], Array]:
    if planned.ndim != 2 or not len(planned):
        raise DataError(
            f"design must be a table of planned covariate rows, or a function (rng, n); got shape "
            f"{planned.shape}."
        )
    return lambda rng, n: planned[rng.integers(0, len(planned), n)]
