"""The negative binomial pmf with a real size, which two families use."""

from tvdbayes._array import HALF_LOG_2PI, excess_exp, stirling_error, xp
from tvdbayes._typing import Array
from tvdbayes.models.families._by_outcome import by_outcome


def log_negbin(y: Array, size: Array, log_mean: Array) -> Array:
    """Log pmf of y for a size (1 / dispersion) and a mean, in Loader's form.

    It is the binomial pmf of ``size`` in ``size + y``: peak minus two deviances, without
    cancellation for any size and counts.
    """
    mean = xp.exp(log_mean)
    count = xp.maximum(y, 1.0)
    drift = log_ratio(count, mean, size)
    peak = by_outcome(_peak, y, size)
    deviance = size * excess_exp(drift) + count * excess_exp(log_mean - xp.log(count) + drift)
    value: Array = xp.where(y > 0, peak - deviance, -size * xp.log1p(mean / size))
    return value


def log_ratio(y: Array, mean: Array, size: Array) -> Array:
    """The logarithm of (size + y) / (size + mean), whether that is near 1 or not."""
    away = (y - mean) / (size + mean)
    far = xp.log(size + y) - xp.log(size + mean)
    ratio: Array = xp.where(xp.abs(away) < 0.5, xp.log1p(xp.clip(away, -0.5, 0.5)), far)
    return ratio


def _peak(y: Array, size: Array) -> Array:
    """The largest log pmf that y can have, for y above 0."""
    count = xp.maximum(y, 1.0)
    peak = 0.5 * (xp.log(size) - xp.log(size + count) - xp.log(count)) - HALF_LOG_2PI
    peak += stirling_error(size + count) - stirling_error(size) - stirling_error(count)
    return peak
