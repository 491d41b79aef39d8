"""The negative binomial law with real size, on which two families rest."""

from collections.abc import Callable

from tvdbayes._array import excess_exp, known, stirling_error, xp
from tvdbayes._typing import Array

__all__ = ["by_outcome", "log_negbin"]

_HALF_LOG_2PI = 0.9189385332046727


def log_negbin(y: Array, size: Array, log_mean: Array) -> Array:
    """Log pmf of y for a size (1 / dispersion) and a mean, in Loader's form.

    It is a binomial law of ``size`` in ``size + y``: peak minus two deviances, none of which
    cancels, however large size and counts are.
    """
    mean = xp.exp(log_mean)
    count = xp.maximum(y, 1.0)
    # The logarithm of (size + y) / (size + mean), whether that is near 1 or not.
    away = (count - mean) / (size + mean)
    far = xp.log(size + count) - xp.log(size + mean)
    drift = xp.where(xp.abs(away) < 0.5, xp.log1p(xp.clip(away, -0.5, 0.5)), far)
    peak = 0.5 * (xp.log(size) - xp.log(size + count) - xp.log(count)) - _HALF_LOG_2PI
    peak += stirling_error(size + count) - stirling_error(size) - stirling_error(count)
    deviance = size * excess_exp(drift) + count * excess_exp(log_mean - xp.log(count) + drift)
    value: Array = xp.where(y > 0, peak - deviance, -size * xp.log1p(mean / size))
    return value


def by_outcome(law: Callable[[Array, Array], Array], y: Array, size: Array) -> Array:
    """``law(y, size)`` (..., Q, B), once for each distinct y where all rows have the same size.

    They have one where the dispersion has no covariates. Special functions are what costs here.
    """
    column = y.ndim == 2 and y.shape[1] == 1 and size.ndim == 2 and len(y) > 1
    if column and known((size == size[:1]).all(), False):
        outcomes, index = xp.unique(y[:, 0], return_inverse=True)
        return law(outcomes[:, None], size[:1]).take(index, axis=-2)
    return law(y, size)
