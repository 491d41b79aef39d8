"""The Conway-Maxwell-Poisson law: counts that vary less than Poisson counts, or more.

With c = exp(eta_1) and nu = exp(-eta_2),

    f(y) = (c**y / y!)**nu / Z,   Z = sum_k (c**k / k!)**nu.

A Poisson pmf p of rate c takes the place of ``c**y / y!``, which changes Z alone and keeps its
terms between 0 and 1. Derivatives of log Z are moments under f: with g(y) = nu log p(y),

    d log Z = E(dg),   d2 log Z = E(d2g) + Cov(dg).

The sum over k ends where it is known to be whole. By Stirling's formula

    g(c (1 + u)) <= max g - nu c ((1 + u) log(1 + u) - u),

which is below -45 (1e-19 of the largest term) from ``u = a / 3 + sqrt(a**2 / 9 + 2 a)`` with
``a = 45 / (nu c)`` on (Bennett's and Bernstein's bounds); from there on, terms fall faster and
faster. In between the sum is taken by Gaussian quadrature for sums, or, where a count of 0 has no
mass (nu c above 40), by the trapezoid rule on a bump.

References
----------
Conway, R. W. and Maxwell, W. L. (1962). A queuing model with state dependent service rates. Journal
of Industrial Engineering 12, 132-136.
Benson, A. and Friel, N. (2021). Bayesian inference, model selection and likelihood estimation using
fast rejection sampling: the Conway-Maxwell-Poisson distribution. Bayesian Analysis 16, 905-931.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tvdbayes._typing import Array, IntArray
from tvdbayes._validate import LARGEST
from tvdbayes.models.families._base import Jet, from_triangle
from tvdbayes.models.families._counts import (
    LARGE_LOG_MEAN,
    AbstractCounts,
    log_count,
    poisson_draws,
    poisson_log_pmf,
)
from tvdbayes.models.families._support import bump_nodes, panels

_LARGEST_DISPERSION = 5.0
"""Bound on the log dispersion on either side: nu lies between 1/150 and 150."""

_BUMP = 40.0
"""From this nu c on, a count of 0 has less than exp(-40) of the largest term."""
_LOST = 45.0
"""Terms below exp(-45) of the largest are left out."""
_MOST_ELEMENTS = 1 << 18
"""Terms that are held at a time."""


@dataclass(frozen=True)
class ComPoisson(AbstractCounts):
    """Counts that vary less than Poisson counts, or more (Conway-Maxwell-Poisson).

    The first predictor is the logarithm of the centre c, which is Poisson's rate where the
    dispersion is 1, and near the mean elsewhere: where the centre is large the mean is about
    ``c + (dispersion - 1) / 2`` and the variance about ``dispersion * c``. The second is the
    logarithm of the dispersion, between -5 and 5, of which 0 is Poisson. Every probability needs a
    sum, so that a fit takes many times as long as one of negative binomial counts.

    Examples
    --------
    By name it is "compoisson" or "com-poisson". Goals that come too evenly for Poisson:

    >>> import numpy as np, tvdbayes as tb
    >>> law, rng = tb.ComPoisson(), np.random.default_rng(0)
    >>> y = law.sample(rng, np.log([[4.0], [0.3]]) * np.ones(2000), None)
    >>> fit = tb.fit("y ~ 1", {"y": y}, family="compoisson", n_draws=0)
    >>> fit.param_names
    ('Intercept', 'dispersion:Intercept')
    >>> np.exp(fit.estimate).round(1)
    array([4. , 0.3])
    """

    name: ClassVar[str] = "compoisson"
    suits: ClassVar[str] = "counts, spread estimated"

    @property
    def on_device(self) -> bool:
        return False

    @property
    def single_precision(self) -> bool:
        return False

    @property
    def predictors(self) -> tuple[str, ...]:
        return ("", "dispersion")

    @property
    def ratios(self) -> tuple[str, ...]:
        return ("centre ratio", "dispersion ratio")

    def log_jet(self, y: Array, eta: Array, trials: Array) -> Jet:
        log_centre, nu = _bounded(eta)
        log_total, (mean, spread), (square, mixed, own) = _moments(log_centre, nu)
        centre = np.exp(log_centre)
        term = nu * poisson_log_pmf(y, log_centre, centre)
        away = nu * (y - centre)
        value = term - log_total
        first = np.stack([nu * (y - mean), spread - term])
        # Of d2g/d eta_1^2 = -nu c nothing is left: it does not depend on the count.
        mixed = nu * mixed - first[0]
        return (
            value,
            first,
            from_triangle([-nu * nu * square + 0 * away], [mixed, term - spread - own]),
        )

    def mean(self, eta: Array, trials: Array) -> Array:
        found: Array = _moments(*_bounded(eta))[1][0]
        return found

    def sample(self, rng: np.random.Generator, eta: Array, trials: Array) -> Array:
        log_centre, nu = (part.ravel() for part in _bounded(eta))
        centre = np.exp(log_centre)
        # Poisson counts stand above the law where nu is at least 1, geometric counts elsewhere.
        tight = nu >= 1
        success = np.where(tight, 0.5, 2 * nu / (2 * centre * nu + 1 + nu))
        with np.errstate(over="ignore"):
            far = centre * np.exp(-np.log1p(-success) / nu)
        top = np.floor(np.where(tight, centre, np.minimum(far, LARGEST)))
        power, slope = nu - tight, np.where(tight, 0.0, np.log1p(-success))

        def excess(y: Array, at: IntArray) -> Array:
            log_pmf = poisson_log_pmf(y, log_centre[at], centre[at])
            found: Array = power[at] * log_pmf - y * slope[at]
            return found

        drawn, open_ = np.zeros(nu.size), np.arange(nu.size)
        highest = excess(top, open_)
        while open_.size:
            y = np.where(
                tight[open_],
                poisson_draws(rng, centre[open_]),
                np.minimum(rng.geometric(success[open_]) - 1.0, LARGEST),
            )
            kept = np.log(rng.random(open_.size)) <= excess(y, open_) - highest[open_]
            drawn[open_[kept]] = y[kept]
            open_ = open_[~kept]
        return drawn.reshape(eta.shape[1:])

    def nodes(self, eta: Array, trials: Array, power: float) -> tuple[Array, Array]:
        log_centre, nu = _bounded(eta)
        return _nodes(np.exp(log_centre), nu * power)

    def saturated(self, y: Array, trials: Array) -> Array:
        return np.stack([log_count(y), np.zeros(np.shape(y))])


def _bounded(eta: Array) -> tuple[Array, Array]:
    """The logarithm of the centre, and nu."""
    log_centre = np.clip(eta[0], -LARGE_LOG_MEAN, LARGE_LOG_MEAN)
    return log_centre, np.exp(np.clip(-eta[1], -_LARGEST_DISPERSION, _LARGEST_DISPERSION))


def _nodes(centre: Array, nu: Array) -> tuple[Array, Array]:
    """Outcomes and weights (S, ...) of a sum of powers nu of Poisson pmfs."""
    centre, nu = np.broadcast_arrays(centre, nu)
    sharp = nu * centre >= _BUMP
    y, weights = bump_nodes(centre, centre / nu)
    if sharp.all():
        return y, weights
    a = _LOST / np.maximum(nu * centre, 1e-100)
    reach = np.where(sharp, 0.0, centre * (1 + a / 3 + np.sqrt(a * a / 9 + 2 * a)))
    width = np.where(sharp, np.inf, 1 / np.sqrt(np.maximum(nu * centre, 1e-100)))
    low, of_low = panels(reach + 2, width, centre.ndim)
    if not sharp.any():
        return low, of_low
    size = max(len(y), len(low))
    y, weights, low, of_low = (_padded(part, size) for part in (y, weights, low, of_low))
    return np.where(sharp, y, low), np.where(sharp, weights, of_low)


def _padded(part: Array, size: int) -> Array:
    return np.concatenate([part, np.zeros((size - len(part), *part.shape[1:]))])


def _moments(
    log_centre: Array, nu: Array
) -> tuple[Array, tuple[Array, Array], tuple[Array, Array, Array]]:
    """The log of the sum of exp(g); means of y and g; variance of y, covariance, variance of g."""
    shape = np.broadcast_shapes(log_centre.shape, nu.shape)
    log_centre, nu = (np.broadcast_to(part, shape).ravel() for part in (log_centre, nu))
    # Like is summed with like: nodes for the whole stretch must serve each of its laws.
    order = np.argsort(log_centre + 1000 * (nu * np.exp(log_centre) >= _BUMP), kind="stable")
    found, start = np.empty((6, order.size)), 0
    while start < order.size:
        size = 64
        y, _ = _nodes(
            np.exp(log_centre[order[start : start + size]]), nu[order[start : start + size]]
        )
        size = max(size, _MOST_ELEMENTS // len(y)) if len(y) < _MOST_ELEMENTS else size
        part = order[start : start + size]
        found[:, part] = _summed(log_centre[part], nu[part])
        start += size
    log_total, *others = found.reshape(6, *shape)
    mean, spread, square, mixed, own = others
    return log_total, (mean, spread), (square, mixed, own)


def _summed(log_centre: Array, nu: Array) -> Array:
    centre = np.exp(log_centre)
    y, weights = _nodes(centre, nu)
    g = nu * poisson_log_pmf(y, log_centre, centre)
    largest = g.max(0)
    mass = weights * np.exp(g - largest)
    total = mass.sum(0)
    mass /= total
    mean, spread = (mass * y).sum(0), (mass * g).sum(0)
    off, away = y - mean, g - spread
    return np.stack(
        [
            largest + np.log(total),
            mean,
            spread,
            (mass * off * off).sum(0),
            (mass * off * away).sum(0),
            (mass * away * away).sum(0),
        ]
    )
