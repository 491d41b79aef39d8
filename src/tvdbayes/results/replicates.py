"""What chance alone does: data made by the fitted model, fitted again in the same way."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from tvdbayes._errors import SettingsError
from tvdbayes._typing import Array, IntArray
from tvdbayes.data.cells import Cells
from tvdbayes.objective import Layout
from tvdbayes.objective.partitions import Bins, learn_bins
from tvdbayes.results.rows import layout_of, masses_of, surprise_of_dropped
from tvdbayes.sampling.bootstrap import plan_for_replicates, solve_tables
from tvdbayes.sampling.execution import single_threaded
from tvdbayes.sampling.posterior import Posterior
from tvdbayes.sampling.weights import Stream, block_size
from tvdbayes.trimming import due_in_tails, kept_shares, weighted_fits

__all__ = ["Replicates", "chance_without_refits", "replicate"]

_ELEMENTS = 1 << 21
"""Rows x replicates in work at a time."""
_MOST_ROWS = 1 << 25
"""Rows of all replicates together; of many rows fewer replicates say as much."""
_FEWEST = 20
_MANY = 10_000
"""Rows at one x from which outcomes are drawn as counts, not one by one."""


@dataclass(frozen=True, eq=False)
class Replicates:
    """R data sets from the fitted model, at the same x, fitted again.

    Parameters
    ----------
    distance : (R,)
        Unexplained share of each data set, reweighted at random like the draws.
    even : (R,)
        The same without random weights.
    unfitted : (R,)
        The same at the model that made the data, not fitted again.
    by_level : (L, R)
        The first within levels of a factor.
    surprise : (R,)
        The largest surprise of any cell of each data set, minus log10 of the probability of so many
        rows in it. Bins that were learned from the data are learned again from each data set.
    dropped : (R,)
        The share of each data set that a trimmed likelihood would drop; 0 for other fits.
    """

    distance: Array
    even: Array
    unfitted: Array
    by_level: Array
    surprise: Array
    dropped: Array

    def threshold(self, false_alarm: float) -> float:
        """The surprise that this share of clean data sets exceed somewhere."""
        rank = int(np.ceil((len(self.surprise) + 1) * (1 - false_alarm)))
        if rank > len(self.surprise):
            return np.inf
        return float(np.sort(self.surprise)[rank - 1])


def replicate(
    posterior: Posterior,
    n_replicates: int = 200,
    *,
    levels: Array | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Replicates:
    """Make and fit data sets from the model at its minimiser.

    ``levels`` (L, n_x) holds the weight of each x row in each level of a factor.
    """
    if posterior.prior is not None:
        raise SettingsError(
            "What chance leaves unexplained is not known for a fit with a prior, whose mass is no "
            "data. Fit without alpha= to ask for misfit, rows or sensitivity."
        )
    cells, seed = posterior.cells, posterior.seed
    shares = np.zeros((0, cells.n_x)) if levels is None else levels
    n = int(np.clip(_MOST_ROWS // max(cells.n_obs, 1), _FEWEST, n_replicates))
    size = max(1, int(_ELEMENTS // max(min(cells.n_obs, _MANY * cells.n_x), 1)))
    found = []
    with single_threaded():
        # The model that made the data is known, and as good a start as any.
        plan = plan_for_replicates(posterior)
        plan = replace(plan, robust=replace(plan.robust, layout=_filled(plan.robust.layout)))
        layout = _filled(layout_of(posterior))
        size = min(size, plan.size, block_size(layout.units.n_elements))
        due = _due(posterior, layout)
        for first in range(0, n, size):
            numbers = range(first, min(first + size, n))
            table, counts = _simulate(posterior, layout.bound.eta, numbers)
            here = layout.rebind(table)
            weights = iter(Stream.draws(seed, Stream.REPLICATE_WEIGHTS, first))
            mass = np.array(
                [next(weights).standard_gamma(counts[:, j]) for j in range(len(numbers))]
            )
            random, even = mass.T / mass.sum(1), counts / counts.sum(0)
            reweighted = solve_tables(plan, random, table)
            plain = solve_tables(plan, even, table)
            theta = [here.bound.from_user(s.robust.theta) for s in (reweighted, plain)]
            excess = random * masses_of(here, theta[0], random).score
            masses = masses_of(here, theta[1], even)
            maker = here.bound.from_user(np.repeat(posterior.minimiser[:, None], len(numbers), 1))
            surprise, dropped = _surprise(posterior, here, counts, theta[1], due)
            at_x = here.cell_pairs.x_of_pair.total
            found.append(
                (
                    excess.sum(0),
                    (even * masses.score).sum(0),
                    (even * masses_of(here, maker, even).score).sum(0),
                    (shares @ at_x(excess)) / np.maximum(shares @ at_x(random), 1e-300),
                    surprise,
                    dropped,
                )
            )
            if progress is not None:
                progress(numbers[-1] + 1, n)
    return Replicates(*(np.concatenate(parts, axis=-1) for parts in zip(*found, strict=True)))


def chance_without_refits(posterior: Posterior, n_replicates: int) -> Array:
    """The unexplained share of data sets that the model at its minimiser makes, (R,).

    The same as `Replicates.unfitted` but for bins learned anew, at a fraction of the time.
    """
    with single_threaded():
        layout = _filled(layout_of(posterior))
        theta = layout.bound.from_user(posterior.minimiser[:, None])
        table, counts = _simulate(posterior, layout.bound.eta, range(n_replicates))
        even = counts / counts.sum(0)
        here = layout.rebind(table)
        at = np.repeat(theta, n_replicates, axis=1)
        share: Array = (even * masses_of(here, at, even).score).sum(0)
    return share


def _filled(layout: Layout) -> Layout:
    """The same layout with bins that hold all outcomes between those that were seen.

    Outcomes beyond them stand alone, as the largest ones of the data do.
    """
    return replace(layout, bins=layout.bins and layout.bins.filled())


def _surprise(
    posterior: Posterior, layout: Layout, counts: Array, theta: Array, due: Array | None = None
) -> tuple[Array, Array]:
    """The largest surprise of any cell of each data set, and the share that is dropped, (R,) each.

    Parameters are (d, R). Where the bins of the record were learned from its data, those of each
    data set are learned from that data set, so that it is judged as the data are: learned bins end
    at outcomes of the data.
    """
    if not _learns_bins(posterior):
        return _judged(posterior, layout, counts, theta, due)
    table, parts = layout.cells, []
    for number in range(counts.shape[1]):
        held = counts[:, number] > 0
        cells = replace(
            table, x_index=table.x_index[held], y=table.y[held], counts=counts[held, number]
        )
        alone = layout.rebind(cells)
        own = replace(alone, bins=_learned_bins(posterior, alone), grouped=alone.grouping)
        parts.append(
            _judged(posterior, _filled(own), cells.counts[:, None], theta[:, [number]], due)
        )
    surprise, dropped = (np.concatenate(part) for part in zip(*parts, strict=True))
    return surprise, dropped


def _due(posterior: Posterior, layout: Layout) -> Array | None:
    """Mass due in the tails of the data, where a fit looks at it, and so of any replicate."""
    if posterior.kept_rows is None:
        return None
    theta = layout.bound.from_user(posterior.minimiser[:, None])[:, 0]
    return due_in_tails(layout, layout.cells.p, theta)


def _judged(
    posterior: Posterior, layout: Layout, counts: Array, theta: Array, due: Array | None
) -> tuple[Array, Array]:
    """See `_surprise`, with these bins. Only rows that a trimmed likelihood would drop count."""
    n_obs, p = posterior.cells.n_obs, counts / counts.sum(0)
    masses = masses_of(layout, theta, p)
    if posterior.kept_rows is None:
        surprise, dropped = masses.surprise(n_obs), np.zeros(counts.shape[1])
    else:
        kept = kept_shares(layout, p, theta, n_obs, due)
        surprise = surprise_of_dropped(masses, theta, n_obs, kept)
        dropped = (p * (1 - kept)).sum(0)
        # What is dropped is judged by a fit without it, as in the data.
        some = np.flatnonzero(dropped > 0)
        if some.size:
            mass = p[:, some] * kept[:, some]
            refit = weighted_fits(layout, mass, theta[:, some], posterior.ridge)
            surprise[:, some] = surprise_of_dropped(
                masses_of(layout, refit, p[:, some]),
                refit,
                n_obs,
                kept_shares(layout, p[:, some], refit, n_obs, due),
            )
    return np.where(counts > 0, surprise, 0.0).max(0), dropped


def _learns_bins(posterior: Posterior) -> bool:
    """Whether the bins of a record were learned from its data, not asked for."""
    return posterior.bins is not None and posterior.options.bins == "auto"


def _learned_bins(posterior: Posterior, layout: Layout) -> Bins | None:
    """Bins learned from the table of a layout in the groups of a record."""
    bins = learn_bins(layout.cells, layout.grouping, posterior.groups.median_size)
    return None if bins is None else bins.isolating(posterior.model.family.spikes)


def _simulate(
    posterior: Posterior, eta_at: Callable[[Array], Array], numbers: range
) -> tuple[Cells, Array]:
    """The cells of some replicates together, and the rows (m, R) that each has in them."""
    cells, family = posterior.cells, posterior.model.family
    theta = posterior.model.bind(cells, cells).from_user(posterior.minimiser[:, None])
    eta = eta_at(theta)[..., 0]
    x_of, y_of, mass_of, number_of = [], [], [], []
    for number in numbers:
        rng = Stream.generator(posterior.seed, Stream.REPLICATES, number)
        x_index, y, mass = _outcomes(rng, posterior, eta)
        x_of.append(x_index)
        y_of.append(y)
        mass_of.append(mass)
        number_of.append(np.full(len(y), number - numbers[0]))
    outcomes, code = np.unique(np.concatenate(y_of), return_inverse=True)
    key, cell = np.unique(np.concatenate(x_of) * len(outcomes) + code.ravel(), return_inverse=True)
    flat = np.concatenate(number_of) + len(numbers) * cell.ravel()
    total = np.bincount(flat, np.concatenate(mass_of), len(key) * len(numbers))
    counts: Array = total.reshape(len(key), len(numbers)).astype(float)
    family.check_outcomes(outcomes, np.full(len(outcomes), cells.trials.max()), unit="outcome")
    table = replace(
        cells,
        x_index=(key // len(outcomes)).astype(np.intp),
        y=outcomes[key % len(outcomes)],
        counts=counts.sum(1),
    )
    return table, counts


def _outcomes(
    rng: np.random.Generator, posterior: Posterior, eta: Array
) -> tuple[IntArray, Array, Array]:
    """New outcomes at every x row: their x row, value, and number of rows."""
    cells, family = posterior.cells, posterior.model.family
    # Fractional weights: a whole number of rows near them, whose masses add up to the weight.
    weight = cells.x_counts
    whole = np.maximum(np.floor(weight + rng.random(len(weight))), 1).astype(np.intp)
    share = weight / whole
    many = whole > _MANY
    rows = np.repeat(np.flatnonzero(~many), whole[~many])
    y = family.sample(rng, eta[:, rows], cells.trials[rows])
    x_parts, y_parts, mass_parts = [rows], [y], [share[rows]]
    for x_row in np.flatnonzero(many):
        trials = cells.trials[x_row]
        seen = family.sample(rng, np.repeat(eta[:, [x_row]], _MANY, axis=1), np.full(_MANY, trials))
        reach = max(1.0, seen.max() - seen.min())
        grid = np.arange(max(0.0, seen.min() - reach), seen.max() + reach + 1)
        grid = grid[family.possible(grid, np.full(len(grid), trials))]
        law = family.pmf(
            grid, np.repeat(eta[:, [x_row]], len(grid), axis=1), np.full(len(grid), trials)
        )
        drawn = rng.multinomial(whole[x_row], law / law.sum())
        held = drawn > 0
        x_parts.append(np.full(held.sum(), x_row))
        y_parts.append(grid[held])
        mass_parts.append(share[x_row] * drawn[held])
    return np.concatenate(x_parts), np.concatenate(y_parts), np.concatenate(mass_parts)
