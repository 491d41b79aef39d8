"""Effects: what the expected outcome, or a probability, does on average over rows.

Averages are taken a stretch of rows at a time, for all draws, their ordinary twins and both
minimisers together: the rows of `every_theta`. So rows x draws never stand in memory, and an effect
of the robust fit is paired with that of the ordinary one.
"""

from dataclasses import dataclass

import numpy as np

from tvdbayes._typing import Array
from tvdbayes.models.families import AbstractFamily
from tvdbayes.results.prediction import NewRows, parts_of, possible_rows, stretches
from tvdbayes.sampling.execution import single_threaded
from tvdbayes.sampling.posterior import Posterior
from tvdbayes.sampling.summary import Summary, summarise

__all__ = ["Effect", "Outcomes", "average_outcome", "average_slope", "effect_of"]

Outcomes = tuple[float, ...] | None
"""The outcomes whose probabilities are meant, or None for the expected outcome."""

_STEP = 2.0**-9
"""Of the differences in eta, on whose unit scale means change: errors are then below 1e-11."""


@dataclass(frozen=True, eq=False, repr=False)
class Effect:
    """Effects or averages in the units of the outcome, with their posterior draws.

    Parameters
    ----------
    names : tuple of str
        What each column is.
    draws, kld_draws : (B, K)
        One line for each posterior draw, and for its ordinary twin on the same random weights.
    minimiser, kld_minimiser : (K,)
        The same at the minimisers for the unweighted data; the second is maximum likelihood.
    what : str
        What was computed, in a sentence.

    Examples
    --------
    >>> import numpy as np, tvdbayes as tb
    >>> rng = np.random.default_rng(0)
    >>> age = rng.integers(2, 6, 400)
    >>> data = {"visits": rng.poisson(np.exp(0.3 * age)), "age": age}
    >>> effect = tb.fit("visits ~ age", data, n_draws=50).effects("age")
    >>> effect.what
    'Average slope in age of expected visits, over 400 rows.'
    >>> effect.estimate.round(1)  # a year more, so many visits more
    array([0.8])
    >>> bool((effect.draws > 0).all())
    True
    """

    names: tuple[str, ...]
    draws: Array
    kld_draws: Array
    minimiser: Array
    kld_minimiser: Array
    what: str

    @property
    def estimate(self) -> Array:
        """Mean of the draws, (K,); without any, the value at the minimiser."""
        mean: Array = self.draws.mean(0) if len(self.draws) else self.minimiser
        return mean

    def summary(self, interval: float = 0.9) -> Summary:
        """Effects with intervals, robust beside ordinary, and their paired difference.

        Examples
        --------
        >>> import numpy as np, tvdbayes as tb
        >>> rng = np.random.default_rng(0)
        >>> age = rng.integers(2, 6, 400)
        >>> data = {"visits": rng.poisson(np.exp(0.3 * age)), "age": age}
        >>> found = tb.fit("visits ~ age", data, n_draws=50).effects("age").summary()
        >>> found["low"].round(1), found["high"].round(1)
        (array([0.7]), array([0.8]))
        """
        return summarise(self.names, self.draws, self.kld_draws, interval)

    def __str__(self) -> str:
        if len(self.draws) > 1:
            return f"{self.what}\n{self.summary()}"
        return "\n".join(
            [self.what, *(f"{n} {e:.4g}" for n, e in zip(self.names, self.estimate, strict=True))]
        )

    __repr__ = __str__


def average_outcome(
    posterior: Posterior, rows: NewRows, counts: Array, outcomes: Outcomes = None
) -> Array:
    """Average over rows, each counted `counts` (n,) times, for `every_theta`: (2B + 2, K)."""
    family, table = posterior.model.family, rows.table
    share = np.bincount(rows.number, counts / counts.sum(), table.n_x)
    total = np.zeros(())
    with single_threaded():
        for part, eta in stretches(posterior, table, _every_theta(posterior)):
            total = total + share[part] @ _value(family, outcomes, eta, table.trials[part, None])
    return total.T


def average_slope(
    posterior: Posterior, rows: NewRows, counts: Array, change: Array, outcomes: Outcomes = None
) -> Array:
    """Average derivative for `every_theta`, (2B + 2, K), as the covariates of rows change.

    ``change`` (n, p + 1) is the derivative of each row's columns, and of its offset, in whatever
    is changed.
    """
    family, table = posterior.model.family, rows.table
    # A derivative is linear in the change: rows of equal x share one, weighted.
    share = counts / counts.sum()
    joint: Array = np.stack(
        [np.bincount(rows.number, share * c, table.n_x) for c in change.T], axis=-1
    )
    total = np.zeros(())
    with single_threaded():
        for part, bound, theta in parts_of(posterior, table, _every_theta(posterior)):
            moved = bound.slope(theta, joint[part])
            trials = table.trials[part, None]
            total = total + _slope(family, outcomes, bound.eta(theta), moved, trials).sum(1)
    return total.T


def effect_of(posterior: Posterior, names: tuple[str, ...], values: Array, what: str) -> Effect:
    """The record of values (2B + 2, K) for `every_theta`."""
    b = posterior.n_draws
    return Effect(names, values[:b], values[b : 2 * b], values[2 * b], values[2 * b + 1], what)


def _every_theta(posterior: Posterior) -> Array:
    """Draws, their ordinary twins, and both minimisers, (2B + 2, d)."""
    one = posterior
    return np.concatenate([one.draws, one.kld_draws, one.minimiser[None], one.kld_minimiser[None]])


def _value(family: AbstractFamily, outcomes: Outcomes, eta: Array, trials: Array) -> Array:
    """The expected outcome, or probabilities, (K, n, B)."""
    if outcomes is None:
        return family.mean(eta, trials)[None]
    found = np.zeros((len(outcomes), *eta.shape[1:]))
    for mass, y in zip(found, outcomes, strict=True):
        can = possible_rows(family, y, trials)
        if can.any():
            mass[can] = family.pmf(np.asarray(y), eta[:, can], trials[can])
    return found


def _slope(
    family: AbstractFamily, outcomes: Outcomes, eta: Array, change: Array, trials: Array
) -> Array:
    """The derivative of `_value` (K, n, B) as the predictors (k, n, B) change."""
    if outcomes is None and not family.binary:
        return _mean_slope(family, eta, change, trials)[None]
    outcomes = (1.0,) if outcomes is None else outcomes
    found = np.zeros((len(outcomes), *eta.shape[1:]))
    for slope, y in zip(found, outcomes, strict=True):
        can = possible_rows(family, y, trials)
        if can.any():
            _, first = family.slopes(np.asarray(y), eta[:, can], trials[can])
            slope[can] = (first * change[:, can]).sum(0)
    return found


def _mean_slope(family: AbstractFamily, eta: Array, change: Array, trials: Array) -> Array:
    """The derivative of the mean (n, B), by a difference of fourth order of fixed length in eta."""
    size = np.abs(change).max(0)
    step = change * (_STEP / np.where(size > 0, size, 1.0))

    def gap(times: float) -> Array:
        return family.mean(eta + times * step, trials) - family.mean(eta - times * step, trials)

    slope: Array = size * (8 * gap(1.0) - gap(2.0)) / (12 * _STEP)
    return slope
