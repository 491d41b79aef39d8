"""What a fit says about new rows: expected outcomes, probabilities, intervals, and new outcomes.

Repeated rows are predicted once, and rows are taken a stretch at a time, so that a table of rows x
draws is never larger than `_ELEMENTS`, however many rows are asked for.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from tvdbayes._errors import DataError, MemoryBudgetError, SettingsError, listing
from tvdbayes._typing import Array, BoolArray, IntArray
from tvdbayes._validate import bad_trials, probability
from tvdbayes.data.cells import Cells, compress
from tvdbayes.models.families import AbstractFamily, odd_trials
from tvdbayes.models.predictors import AbstractBound
from tvdbayes.sampling.execution import single_threaded
from tvdbayes.sampling.posterior import Posterior
from tvdbayes.sampling.weights import Stream

_ELEMENTS = 1 << 20
"""Rows x draws at a time, times k (k + 1) for k predictors: a family's formula may hold second
derivatives. That is 8 MiB; about six such arrays are alive at the peak, below 64 MiB in all."""

_OUTCOMES = 4000
"""New outcomes sampled for a row, at least: the ends of a 90% interval are then off by 0.4%."""

_LARGEST = 1e15
"""Beyond this mean NumPy cannot sample counts, and neighbouring counts are hardly told apart."""

_MOST_OUTCOMES = 1000
"""Outcomes whose probabilities are listed without being asked for by name."""

_MOST_BYTES = 2 << 30
"""Memory of a table of predictions, 2 GiB, beyond which it is refused."""

Formula = Callable[[Array, Array], Array]
"""From predictors (k, n, B) and trials (n, 1) to one entry, or several, for each row: (n, ...)."""


@dataclass(frozen=True, eq=False)
class NewRows:
    """Covariate rows to predict: the distinct ones, and which of them each row (n,) is."""

    table: Cells
    number: IntArray

    @classmethod
    def of(
        cls,
        posterior: Posterior,
        x: ArrayLike,
        *,
        offset: ArrayLike | None = None,
        trials: ArrayLike | None = None,
    ) -> "NewRows":
        """Check rows x (n, p) against the columns that the model was fitted to."""
        names, family = posterior.cells.names, posterior.model.family
        shape = np.shape(x)
        if len(shape) == 2 and shape[1] != len(names):
            raise DataError(
                f"The model was fitted to {len(names)} column(s) ({', '.join(names[:10])}), but x "
                f"has {shape[1]}. Pass the same columns in the same order."
            )
        if family.needs_trials != (trials is not None):
            needs = "needs" if family.needs_trials else "has no"
            raise SettingsError(
                f"The family {family.name!r} {needs} trials; got trials={trials!r}. "
                "Give one number for each row where it needs them, else leave them out."
            )
        made = compress(x, np.zeros(shape[:1]), offset=offset, trials=trials, names=names)
        odd = odd_trials(made.cells.trials)[made.cell_of_row]
        if odd.any():
            raise DataError(bad_trials(listing(odd, trials, "row")))
        return cls(made.cells, made.cell_of_row)


def mean_draws(posterior: Posterior, rows: NewRows) -> Array:
    """Expected outcome of each row under each draw, (B, n); the result itself may be large."""
    return _by_stretches(posterior, rows, posterior.model.family.mean).T


def outcome_mean(posterior: Posterior, rows: NewRows) -> Array:
    """Expected outcome of each row, (n,): the mean over the draws."""
    family = posterior.model.family
    return _by_stretches(posterior, rows, lambda eta, trials: family.mean(eta, trials).mean(-1))


def mean_interval(posterior: Posterior, rows: NewRows, interval: float = 0.9) -> Array:
    """Equal-tailed interval of the expected outcome of each row, (n, 2)."""
    ends, family = tails(posterior, interval), posterior.model.family

    def found(eta: Array, trials: Array) -> Array:
        return np.quantile(family.mean(eta, trials), ends, axis=-1).T

    return _by_stretches(posterior, rows, found)


def pmf(posterior: Posterior, rows: NewRows, y: ArrayLike) -> Array:
    """Probability of each of some outcomes y (K,) in each row, (n, K): the mean over the draws."""
    family = posterior.model.family
    outcomes = np.atleast_1d(np.asarray(y, float))
    _require_memory(f"Probabilities of {outcomes.size:,} outcomes", outcomes.size, rows)

    def masses(eta: Array, trials: Array) -> Array:
        each = (probability_of(family, one, eta, trials).mean(-1) for one in outcomes)
        return np.stack(list(each), axis=-1)

    return _by_stretches(posterior, rows, masses)


def likely_pmf(posterior: Posterior, rows: NewRows, share: float = 0.99) -> tuple[Array, Array]:
    """Counts from 0 on, (K,), and their probabilities (n, K), which sum to at least this share."""
    family, table = posterior.model.family, rows.table
    each = NewRows(table, np.arange(table.n_x))
    first, found = min(0.0, float(posterior.cells.y.min())), np.zeros((table.n_x, 0))
    too_many = outcome_mean(posterior, each).max() > 2 * _MOST_OUTCOMES
    while (found.sum(1) < share).any():
        if too_many or found.shape[1] >= _MOST_OUTCOMES:
            raise SettingsError(
                f"More than {_MOST_OUTCOMES:,} counts would be needed to hold {share:.0%} of the "
                "probability in every row. Name those you want: outcomes=[0, 1, 2]."
            )
        more = first + np.arange(found.shape[1], max(2 * found.shape[1], 16))
        found = np.concatenate([found, pmf(posterior, each, more)], axis=1)
    enough = int((found.cumsum(1) < share).sum(1).max()) + 1
    y = np.arange(first, first + enough)
    kept = np.array([possible_rows(family, one, table.trials[:, None]).any() for one in y])
    return y[kept], found[:, :enough][:, kept][rows.number]


def outcome_interval(
    posterior: Posterior, rows: NewRows, interval: float = 0.9, *, seed: int | None = None
) -> Array:
    """Equal-tailed interval of a new outcome in each row, (n, 2); see `outcome_quantiles`.

    It holds at least the share `interval` of the outcomes of the model, the uncertainty of the
    draws included.
    """
    return outcome_quantiles(posterior, rows, tails(posterior, interval), seed=seed)


def outcome_quantiles(
    posterior: Posterior, rows: NewRows, shares: Array, *, seed: int | None = None
) -> Array:
    """Outcomes that these shares of new outcomes do not exceed, (n, shares), by sampling.

    Those of a row depend on it and the seed alone (that of the fit unless given).
    """
    family = posterior.model.family
    seed = posterior.seed if seed is None else seed
    copies = -(-_OUTCOMES // max(posterior.n_draws, 1))

    def ends(eta: Array, trials: Array) -> Array:
        _require_moderate(family.mean(eta, trials))
        found = np.empty((eta.shape[1], len(shares)))
        for i in range(len(found)):
            # The same random numbers for every row: only intervals are compared, never outcomes.
            rng = Stream.generator(seed, Stream.OUTCOMES)
            outcomes = family.sample(rng, np.tile(eta[:, i], copies), trials[i])
            found[i] = np.quantile(outcomes, shares, method="inverted_cdf")
        return found

    return _by_stretches(posterior, rows, ends)


def sample_outcomes(
    posterior: Posterior, rows: NewRows, n_draws: int | None = None, *, seed: int | None = None
) -> Array:
    """New outcomes of each row, (B, n): one under each draw, equal rows independently.

    Another number of draws than the posterior's takes its first ones, or all of them in turn.
    """
    draws, family = _draws(posterior), posterior.model.family
    wanted = len(draws) if n_draws is None else n_draws
    _require_memory(f"{wanted:,} outcomes", wanted, rows)
    draws = draws[np.arange(wanted) % len(draws)]
    rng = Stream.generator(posterior.seed if seed is None else seed, Stream.OUTCOMES)
    found = np.empty((wanted, len(rows.number)))
    with single_threaded():
        for part, eta in stretches(posterior, rows.table, draws, rows.number):
            trials = rows.table.trials[rows.number[part], None]
            _require_moderate(family.mean(eta, trials))
            found[:, part] = family.sample(rng, eta, trials).T
    return found


def stretches(
    posterior: Posterior, table: Cells, draws: Array, number: IntArray | None = None
) -> Iterator[tuple[slice, Array]]:
    """Predictors (k, rows, B) of all or some x rows under draws (B, d), a stretch at a time."""
    for part, bound, theta in parts_of(posterior, table, draws, number):
        yield part, bound.eta(theta)


def parts_of(
    posterior: Posterior, table: Cells, draws: Array, number: IntArray | None = None
) -> Iterator[tuple[slice, AbstractBound, Array]]:
    """The predictor at a stretch of x rows after the other, and standardised parameters (d, B)."""
    bound = posterior.model.bind(table, posterior.cells)
    theta = bound.from_user(draws.T)
    k = bound.n_predictors
    size = max(1, _ELEMENTS // (k * (k + 1) * len(draws)))
    for start in range(0, table.n_x if number is None else len(number), size):
        part = slice(start, start + size)
        yield part, bound.cut(part if number is None else number[part]), theta


def possible_rows(family: AbstractFamily, y: float, trials: Array) -> BoolArray:
    """Which rows can have the outcome y at all, (n,), from trials (n, 1)."""
    return np.broadcast_to(family.possible(np.asarray(y), trials), trials.shape)[:, 0]


def probability_of(family: AbstractFamily, y: float, eta: Array, trials: Array) -> Array:
    """Probabilities (n, B) of the outcome y, 0 in rows that cannot have it."""
    can = possible_rows(family, y, trials)
    found = np.zeros(eta.shape[1:])
    if can.any():
        found[can] = family.pmf(np.asarray(y), eta[:, can], trials[can])
    return found


def _by_stretches(posterior: Posterior, rows: NewRows, formula: Formula) -> Array:
    """Apply a formula to all rows in the order they were asked for, a stretch at a time."""
    with single_threaded():
        found = [
            formula(eta, rows.table.trials[part, None])
            for part, eta in stretches(posterior, rows.table, _draws(posterior))
        ]
    return np.concatenate(found)[rows.number]


def _draws(posterior: Posterior) -> Array:
    """The draws, or the point estimate where there are none."""
    return posterior.draws if posterior.n_draws else posterior.estimate[None]


def tails(posterior: Posterior, interval: float) -> Array:
    """The shares below an equal-tailed interval and up to its end, (2,)."""
    probability("interval", interval, 0.9)
    if posterior.n_draws < 2:
        raise SettingsError(
            f"Intervals need at least 2 draws; got {posterior.n_draws}. Fit with n_draws=1000."
        )
    return np.array([(1 - interval) / 2, (1 + interval) / 2])


def _require_moderate(mean: Array) -> None:
    if not (mean <= _LARGEST).all():
        raise DataError(
            f"Outcomes can be sampled up to a mean of {_LARGEST:g}; some draws expect "
            f"{mean.max():g}. Such rows lie far outside the data: predict rows nearer to them."
        )


def _require_memory(what: str, per_row: int, rows: NewRows) -> None:
    need = 8 * per_row * len(rows.number)
    if need > _MOST_BYTES:
        raise MemoryBudgetError(
            f"{what} for each of {len(rows.number):,} rows take {need / 2**30:.1f} GiB; at most "
            f"{_MOST_BYTES / 2**30:.0f} GiB are made. Ask for fewer, or a part of the rows at a "
            "time."
        )
