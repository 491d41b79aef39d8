"""Does the model look like the data? Outcomes, ranks, probabilities and groups, seen and expected.

Every function takes the table of a fit and its predictive law, the mean of the model's laws over
the draws (see `score` for how many of them). Rows count with their weights: a row of weight 2 is
that row twice. The fit has seen these outcomes, so small departures are hidden, large ones not.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betainc, ndtri

from tvdbayes._errors import DataError, SettingsError
from tvdbayes._typing import Array
from tvdbayes._validate import probability, seed_of, whole_number
from tvdbayes.data.cells import totals
from tvdbayes.results.laws import blocks, law_of, pieces, support
from tvdbayes.results.prediction import NewRows, outcome_mean, pmf
from tvdbayes.results.rows import check_rows
from tvdbayes.sampling.posterior import Posterior
from tvdbayes.sampling.weights import Stream

_LEAST_MOST = 10
_SOME_ROWS = 64
"""Rows from which the range of a rootogram is read."""
_RESIDUALS = 1
"""The block of the stream of outcomes that residuals are randomised by."""
_SMALLEST = float(np.finfo(float).eps) / 2
"""Residuals stay within the normal quantile of this, which is 8.2 deviations."""
_UNBOUNDED = 2.0**53
"""Outcomes that may be as large as this have no largest value: the last bar is open."""


@dataclass(frozen=True, eq=False)
class Rootogram:
    """How often each outcome was seen, and how often the model expects it.

    Parameters
    ----------
    labels : tuple of str
        Names of the bars: outcomes, stretches such as "10 to 19", or levels.
    outcomes, ends : (K,)
        First and last outcome of each bar; the last end may be infinite.
    observed, expected : (K,)
        Numbers of rows, in all as many as the table has.
    low, high : (K,)
        Ends of the interval for the observed number, bar by bar, if the model is right.
    """

    labels: tuple[str, ...]
    outcomes: Array
    ends: Array
    observed: Array
    expected: Array
    low: Array
    high: Array


def rootogram(
    posterior: Posterior,
    interval: float = 0.9,
    most: int = 60,
    *,
    like: Rootogram | None = None,
) -> Rootogram:
    """Count outcomes beside what the model expects at the covariates of the data.

    The ends of an interval are quantiles of binomial counts out of all rows, mixed over the draws;
    each row has a probability of its own, so the true spread is that or less. Wide counts are
    joined into at most `most` bars, and outcomes far from all that the model expects are gathered
    in the first or the last one.
    """
    probability("interval", interval, 0.9)
    family, cells = posterior.model.family, posterior.cells
    starts = _bars(posterior, most) if like is None else like.outcomes
    per_draw, x_counts = np.zeros((len(starts), 1)), cells.x_counts
    for block in blocks(posterior, cells):
        for piece in pieces(family, block, starts):
            by_node = np.tensordot(x_counts[block.rows], piece.pmf, (0, 1))
            bar = np.searchsorted(starts, piece.y, side="right") - 1
            into = (bar == np.arange(len(starts))[:, None]) * piece.weights
            per_draw = per_draw + into @ by_node
    bar = np.searchsorted(starts, cells.y, side="right") - 1
    top = support(family, cells)[1]
    ends = np.append(starts[1:] - 1, top if top < _UNBOUNDED else np.inf)
    tails = (1 - interval) / 2, (1 + interval) / 2
    low, high = (_binomial_quantile(tail, cells.n_obs, per_draw / cells.n_obs) for tail in tails)
    observed = totals(bar, cells.counts, len(starts))
    labels = family.levels or tuple(map(_label, starts, ends))
    return Rootogram(labels, starts, ends, observed, per_draw.mean(1), low, high)


def _bars(posterior: Posterior, most: int) -> Array:
    """First outcomes of the bars."""
    family, cells = posterior.model.family, posterior.cells
    whole_number("most", most, _LEAST_MOST)
    low, top = support(family, cells)
    if not family.counts:
        return np.arange(low, top + 1)
    # Where the model expects outcomes; what was seen beyond counts for twice that range.
    some = np.linspace(0, cells.n_x - 1, min(cells.n_x, _SOME_ROWS)).round().astype(np.intp)
    laws = [(b.rows, law_of(family, b, np.zeros(0))) for b in blocks(posterior, cells, some)]
    y = np.concatenate([law.y for _, law in laws])
    counts, order = cells.x_counts, np.argsort(y, kind="stable")
    mass = np.concatenate([law.weights * (law.mass @ counts[rows]) for rows, law in laws])[order]
    # A tiny mass everywhere, in case that all laws ran away.
    cdf = np.cumsum(mass + 1e-300) / (mass + 1e-300).sum()
    first, last = np.round(y[order][np.searchsorted(cdf, [0.001, 0.998])])
    reach = 2 * (last - first + 1)
    first = max(min(first, cells.y.min()), first - reach)
    last = min(max(last, cells.y.max()), last + reach)
    room = most - 2 - 2 * len(family.spikes)
    widths = (size * 10.0**power for power in range(16) for size in (1, 2, 5))
    width = next(width for width in widths if (last - first + 1) / width <= room - 1)
    first = np.floor(first / width) * width
    starts = np.arange(first, np.floor(last / width) * width + 2 * width, width)
    alone = [spike + step for spike in family.spikes for step in (0, 1)]
    starts = np.unique(np.concatenate([[low], starts[starts > low], alone]))
    return starts[starts <= top]


def _label(first: float, last: float) -> str:
    if first == last:
        return f"{first:.0f}"
    return f"{first:.0f} or more" if np.isinf(last) else f"{first:.0f} to {last:.0f}"


def _binomial_quantile(share: float, n: float, prob: Array) -> Array:
    """Smallest counts (K,) that n trials do not exceed with at least this probability, (K, B)."""
    low, high = np.full(len(prob), -1.0), np.full(len(prob), np.ceil(n))
    while (high - low > 1).any():
        middle = np.floor((low + high) / 2)
        cdf = betainc(n - middle[:, None], middle[:, None] + 1, 1 - np.clip(prob, 0, 1)).mean(1)
        # Between neighbours the middle is the lower one, which is known to be too low.
        enough = (cdf >= share) & (middle > low)
        low, high = np.where(enough, low, middle), np.where(enough, middle, high)
    return high


@dataclass(frozen=True, eq=False)
class Pit:
    """Predictive probability of less than the outcome of each cell, and of at most that, (m,)."""

    low: Array
    high: Array


def pit(posterior: Posterior) -> Pit:
    """Probability integral transform of each cell: where its outcome lies in its predictive law.

    A point drawn uniformly between `low` and `high` is uniform on [0, 1] if the model is right.
    """
    family, cells = posterior.model.family, posterior.cells
    # Levels with separate predictors have no order; two levels need none.
    if family.n_main > 1:
        raise SettingsError(
            f"Where an outcome lies in its law needs an order, and the levels of "
            f"{type(family).__name__} have none: {list(family.levels)}. "
            "Use calibration(level=...), or the family Ordinal if they are ordered."
        )
    low, high = np.empty((2, cells.n_cells))
    for block in blocks(posterior, cells):
        law = law_of(family, block, block.y)
        low[block.cells] = law.up_to(block.y - 1, block.column)
        high[block.cells] = law.up_to(block.y, block.column)
    return Pit(low, high)


@dataclass(frozen=True, eq=False)
class PitHistogram:
    """Histogram of the probability integral transform: flat at 1 if the model is right.

    Parameters
    ----------
    edges : (J + 1,)
    density : (J,)
    low, high : float
        The interval for each bar if the model is right; discrete outcomes vary less than that.
    """

    edges: Array
    density: Array
    low: float
    high: float


def pit_histogram(posterior: Posterior, n_bins: int = 10) -> PitHistogram:
    """Histogram of the probability integral transform, without random numbers; see `Fit.pit`.

    A row is spread evenly from `Pit.low` to `Pit.high` (Czado, Gneiting and Held 2009). The 90%
    interval is that of binomial counts.
    """
    whole_number("n_bins", n_bins, 1)
    found, n = pit(posterior), posterior.cells.n_obs
    edges, width = np.linspace(0, 1, n_bins + 1), found.high - found.low

    def share(edge: float) -> float:
        """Share of the rows' mass up to an edge."""
        inside = np.clip((edge - found.low) / np.maximum(width, 1e-300), 0.0, 1.0)
        return float(posterior.cells.p @ np.where(width > 0, inside, edge >= found.high))

    cdf = np.array([0.0, *map(share, edges[1:-1]), 1.0])
    uniform = np.full((1, 1), 1 / n_bins)
    low, high = (
        float(_binomial_quantile(tail, n, uniform)[0]) * n_bins / n for tail in (0.05, 0.95)
    )
    return PitHistogram(edges, np.diff(cdf) * n_bins, low, high)


def quantile_residuals(
    posterior: Posterior, cell_of_row: ArrayLike, seed: int | np.random.Generator | None = None
) -> Array:
    """Randomised quantile residuals, one for each row: standard normal if the model is right.

    The normal quantile of a uniform draw between the bounds of `pit` (Dunn and Smyth 1996), within
    8.2 deviations. The seed is that of the fit unless given; rows of weight zero, whose
    ``cell_of_row`` (n,) is -1, get nan.
    """
    rows = check_rows(posterior, cell_of_row)
    found, seed = pit(posterior), posterior.seed if seed is None else seed_of("seed", seed)
    rng = Stream.generator(seed, Stream.OUTCOMES, block=_RESIDUALS)
    at = found.low[rows] + rng.random(rows.size) * (found.high - found.low)[rows]
    residuals: Array = ndtri(np.clip(at, _SMALLEST, 1 - _SMALLEST))
    return np.where(rows >= 0, residuals, np.nan)


@dataclass(frozen=True, eq=False)
class Calibration:
    """Predicted means or probabilities in bins of rows, beside what was seen there.

    Parameters
    ----------
    predicted, observed : (J,)
    low, high : (J,)
        Interval for the mean of which `observed` is an estimate: a calibrated model's `predicted`
        lies inside in the share `interval` of the bins.
    counts : (J,)
        Rows in each bin.
    """

    predicted: Array
    observed: Array
    low: Array
    high: Array
    counts: Array

    def __str__(self) -> str:
        """What it shows, in a sentence."""
        known = np.isfinite(self.low) & np.isfinite(self.high)
        n = int(known.sum())
        if not n:
            return "No bin has an interval: there are too few rows."
        high, low = (self.predicted > self.high)[known], (self.predicted < self.low)[known]
        within = float(np.median((self.high - self.low)[known])) / 2
        sides = {"low": int(low.sum()), "high": int(high.sum())}
        text = f"Seen and predicted agree in {n - sum(sides.values())} of {n} bins"
        wrong = [f"{number} predicted too {side}" for side, number in sides.items() if number]
        off = f"; {', '.join(wrong)}" if wrong else ""
        return f"{text}{off} (intervals typically reach {within:.2g} to either side)."


def calibration(
    posterior: Posterior, n_bins: int = 10, level: str | None = None, interval: float = 0.9
) -> Calibration:
    """Compare predictions with outcomes in bins of about equal weight; see `Fit.calibration`.

    What is predicted is the probability of 1, or of a level (the last unless given); for counts the
    mean, per trial if there are trials. Rows with the same prediction stay together. Intervals are
    Wilson's for shares; for counts normal, by the observed spread of rows around their predictions,
    and nan where a bin has but one row. Rows that the fit has dropped are left out: it does not
    claim to predict them.
    """
    whole_number("n_bins", n_bins, 1)
    cells, kept = posterior.cells, posterior.kept_rows
    watched, seen, size = _outcomes(posterior, level)
    counts = cells.counts if kept is None else cells.counts * kept.share
    used = counts > 0
    counts, seen, size = counts[used], seen[used], size[used]
    each = NewRows(cells, cells.x_index[used])
    if watched is None:
        predicted = outcome_mean(posterior, each)
    else:
        predicted = pmf(posterior, each, [watched])[:, 0]
    _, same = np.unique(predicted / size, return_inverse=True)
    weight = np.bincount(same, counts)
    place = (np.cumsum(weight) - weight / 2) / counts.sum()
    _, number = np.unique(np.floor(place * n_bins)[same], return_inverse=True)

    def total(values: Array) -> Array:
        return totals(number, counts * values, int(number.max()) + 1)

    rows, units = total(np.ones(len(seen))), total(size)
    mean, expected = total(seen) / units, total(predicted) / units
    z = float(ndtri((1 + interval) / 2))
    if watched is None:
        off = (seen - predicted) - ((mean - expected)[number] * size)
        spare = np.where(rows > 1, rows - 1, np.nan)
        spread = z * np.sqrt(total(off**2) * rows / spare) / units
        return Calibration(expected, mean, mean - spread, mean + spread, rows)
    centre = (mean + z * z / (2 * rows)) / (1 + z * z / rows)
    spread = z * np.sqrt(mean * (1 - mean) / rows + (z / (2 * rows)) ** 2) / (1 + z * z / rows)
    return Calibration(expected, mean, centre - spread, centre + spread, rows)


@dataclass(frozen=True, eq=False)
class ByGroup:
    """Observed and expected means in groups of rows.

    Parameters
    ----------
    labels : tuple of str
    n : (G,)
        Rows of each group.
    observed, expected : (G,)
        Mean outcome, per trial if there are trials; or share of a level.
    low, high : (G,)
        Interval for the observed mean if the model is right.
    z : (G,)
        Difference in standard deviations of the model; beyond 2 or 3 it is more than noise.
    """

    labels: tuple[str, ...]
    n: Array
    observed: Array
    expected: Array
    low: Array
    high: Array
    z: Array


def observed_by_group(
    posterior: Posterior,
    group_of_cell: ArrayLike,
    labels: tuple[str, ...],
    level: str | None = None,
    interval: float = 0.9,
) -> ByGroup:
    """Compare the mean outcome of groups of cells with what the model expects of them.

    The spread is the model's own: of the rows around their means, and of these means over the
    draws. For families of levels the mean is the share of a level, the last unless given.
    ``group_of_cell`` (m,) is the group of each cell, a number from 0 on, or -1 for cells in none.
    """
    probability("interval", interval, 0.9)
    family, cells = posterior.model.family, posterior.cells
    (watched, seen, size), n_groups = _outcomes(posterior, level), len(labels)
    group = np.asarray(group_of_cell)
    right = group.shape == (cells.n_cells,) and group.dtype.kind in "iu"
    if not (right and ((group >= -1) & (group < n_groups)).all()):
        raise DataError(
            f"group_of_cell must hold one number from -1 to {n_groups - 1} for each of the "
            f"{cells.n_cells} cells; got {group.dtype} of shape {group.shape}."
        )

    def total(values: Array) -> Array:
        return totals(group + 1, cells.counts * values, n_groups + 1)[1:]

    rows, units = total(np.ones(cells.n_cells)), total(size)
    if not rows.all():
        empty = labels[int((rows == 0).argmax())]
        raise DataError(f"The group {empty!r} has no rows. Leave it out.")
    noise, per_draw = np.zeros(n_groups), np.zeros((n_groups, 1))
    for block in blocks(posterior, cells):
        if watched is None:
            law = law_of(family, block, np.zeros(0))
            mean = family.mean(block.eta, block.trials)
            variance = law.weights[:, None] * law.mass * (law.y[:, None] - mean.mean(-1)) ** 2
            within = variance.sum(0) - mean.var(-1)
        else:
            mean = block.pmf(family, np.array([watched]))[0]
            within = (mean * (1 - mean)).mean(-1)
        weight = np.zeros((n_groups + 1, len(block.rows)))
        np.add.at(weight, (group[block.cells] + 1, block.column), cells.counts[block.cells])
        noise += weight[1:] @ within
        per_draw = per_draw + weight[1:] @ mean
    observed, expected = total(seen) / units, per_draw.mean(1) / units
    sd = np.sqrt(np.maximum(noise, 0.0) + per_draw.var(1)) / units
    spread = float(ndtri((1 + interval) / 2)) * sd
    off = observed - expected
    z = np.divide(off, sd, out=np.where(off == 0, 0.0, np.sign(off) * np.inf), where=sd > 0)
    return ByGroup(tuple(labels), rows, observed, expected, expected - spread, expected + spread, z)


def _outcomes(posterior: Posterior, level: str | None) -> tuple[float | None, Array, Array]:
    """The outcome whose share is looked at, what was seen of it in each cell, and out of how many.

    None where outcomes are numbers: these are averaged, per trial.
    """
    family, cells = posterior.model.family, posterior.cells
    if level is None and family.counts:
        return None, cells.y, cells.trials[cells.x_index]
    if level is not None and level not in family.levels:
        known = f"one of {list(family.levels)}" if family.levels else "left out: it has no levels"
        raise SettingsError(f"level must be {known}; got {level!r}.")
    last = max(len(family.levels), 2) - 1.0
    watched = last if level is None else float(family.levels.index(level))
    return watched, (cells.y == watched).astype(float), np.ones(cells.n_cells)
