"""What a fit says about new rows: expected outcomes, probabilities, and intervals of both.

Repeated rows are predicted once, and rows are taken a stretch at a time, so that a table of rows x
draws is never larger than `_ELEMENTS`, however many rows are asked for.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from tvdbayes._errors import DataError, SettingsError, listing
from tvdbayes._typing import Array, ArrayLike, IntArray
from tvdbayes.cells import Cells, compress
from tvdbayes.execution import single_threaded
from tvdbayes.posterior._record import Posterior
from tvdbayes.predictors import BoundLinear
from tvdbayes.weights import Stream

__all__ = ["NewRows", "mean_draws", "mean_interval", "outcome_interval", "outcome_mean", "pmf"]

_ELEMENTS = 1 << 20
"""Rows x draws at a time, times k (k + 1) for k predictors: a family's formula may hold second
derivatives. That is 8 MiB; about six such arrays are alive at the peak, below 64 MiB in all."""

_OUTCOMES = 4000
"""New outcomes sampled for a row, at least: the ends of a 90% interval are then off by 0.4%."""


_LARGEST = 1e15
"""Beyond this mean NumPy cannot sample counts, and neighbouring counts are hardly told apart."""

Formula = Callable[[Array, Array], Array]
"""From predictors (k, n, B) and trials (n, 1) to one entry, or several, for each row: (n, ...)."""


@dataclass(frozen=True, eq=False)
class NewRows:
    """Covariate rows to predict, checked and without repetitions.

    Parameters
    ----------
    table : Cells
        The distinct rows.
    number : (n,)
        The distinct row that each row asked for is.
    """

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
        odd = ~((made.cells.trials >= 1) & (made.cells.trials % 1 == 0))[made.cell_of_row]
        if odd.any():
            raise DataError(
                f"Trials must be whole numbers of at least 1; {listing(odd, trials, 'row')}. "
                "Check the trials."
            )
        return cls(made.cells, made.cell_of_row)


def mean_draws(posterior: Posterior, rows: NewRows) -> Array:
    """Expected outcome of each row under each draw, (B, n); the result itself may be large."""
    return _by_stretches(posterior, rows, posterior.model.family.mean).T


def outcome_mean(posterior: Posterior, rows: NewRows) -> Array:
    """Expected outcome of each row, (n,): the mean over the draws.

    Examples
    --------
    >>> import numpy as np, tvdbayes as tb
    >>> from tvdbayes.posterior.prediction import NewRows, outcome_mean
    >>> y = np.random.default_rng(0).poisson(3, 500)
    >>> cells = tb.Cells.from_rows(np.ones((500, 1)), y)
    >>> posterior = tb.posterior_bootstrap(tb.Model(tb.Poisson()), cells, n_draws=50)
    >>> outcome_mean(posterior, NewRows.of(posterior, [[1.0], [1.0]])).round()
    array([3., 3.])
    """
    family = posterior.model.family
    return _by_stretches(posterior, rows, lambda eta, trials: family.mean(eta, trials).mean(-1))


def mean_interval(posterior: Posterior, rows: NewRows, interval: float = 0.9) -> Array:
    """Equal-tailed interval of the expected outcome of each row, (n, 2)."""
    tails, family = _tails(posterior, interval), posterior.model.family

    def ends(eta: Array, trials: Array) -> Array:
        return np.quantile(family.mean(eta, trials), tails, axis=-1).T

    return _by_stretches(posterior, rows, ends)


def pmf(posterior: Posterior, rows: NewRows, y: ArrayLike) -> Array:
    """Probability of each of some outcomes y (K,) in each row, (n, K): the mean over the draws."""
    family = posterior.model.family
    outcomes = np.atleast_1d(np.asarray(y, float))

    def masses(eta: Array, trials: Array) -> Array:
        return np.stack([family.pmf(one, eta, trials).mean(-1) for one in outcomes], axis=-1)

    return _by_stretches(posterior, rows, masses)


def outcome_interval(
    posterior: Posterior, rows: NewRows, interval: float = 0.9, *, seed: int | None = None
) -> Array:
    """Equal-tailed interval of a new outcome in each row, (n, 2), by sampling.

    It holds at least the share `interval` of the outcomes of the model, the uncertainty of the
    draws included. A row's interval depends on that row and the seed alone (the seed of the fit
    unless given), not on the rows around it.
    """
    tails, family = _tails(posterior, interval), posterior.model.family
    seed = posterior.seed if seed is None else seed
    copies = -(-_OUTCOMES // posterior.n_draws)

    def ends(eta: Array, trials: Array) -> Array:
        _require_moderate(family.mean(eta, trials))
        found = np.empty((eta.shape[1], 2))
        for i in range(len(found)):
            # The same random numbers for every row: only intervals are compared, never outcomes.
            rng = Stream.generator(seed, Stream.OUTCOMES)
            outcomes = family.sample(rng, np.tile(eta[:, i], copies), trials[i])
            found[i] = np.quantile(outcomes, tails, method="inverted_cdf")
        return found

    return _by_stretches(posterior, rows, ends)


def _by_stretches(posterior: Posterior, rows: NewRows, formula: Formula) -> Array:
    """Apply a formula to all rows in the order they were asked for, a stretch at a time."""
    bound = posterior.model.bind(rows.table, posterior.cells)
    # Without draws the point estimate stands for them all.
    draws = posterior.draws if posterior.n_draws else posterior.estimate[None]
    theta = bound.from_user(draws.T)
    k = len(bound.designs)
    size = max(1, _ELEMENTS // (k * (k + 1) * len(draws)))
    parts = [slice(start, start + size) for start in range(0, rows.table.n_x, size)]
    with single_threaded():
        found = [
            formula(_cut(bound, part).eta(theta), rows.table.trials[part, None]) for part in parts
        ]
    return np.concatenate(found)[rows.number]


def _cut(bound: BoundLinear, part: slice) -> BoundLinear:
    designs = tuple(z[part] for z in bound.designs)
    return replace(bound, designs=designs, offset=bound.offset[part])


def _tails(posterior: Posterior, interval: float) -> Array:
    if not 0 < interval < 1:
        raise SettingsError(f"interval must lie between 0 and 1; got {interval}. Try 0.9.")
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
