"""What chance alone does: data made by the fitted model, fitted again in the same way."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from tvdbayes._typing import Array, IntArray
from tvdbayes.data.cells import Cells, places
from tvdbayes.objective import Layout
from tvdbayes.objective.partitions import learn_bins_of_tables
from tvdbayes.results.base_measure import tabulated
from tvdbayes.results.makers import AbstractMaker, Made
from tvdbayes.results.rows import layout_of, masses_of, minimiser, surprise_of_dropped, unexplained
from tvdbayes.results.side_by_side import SideBySide
from tvdbayes.results.unit_replicates import UnitMaker
from tvdbayes.sampling.execution import single_threaded
from tvdbayes.sampling.planners import plan_for_replicates
from tvdbayes.sampling.posterior import Posterior
from tvdbayes.sampling.weights import Stream, block_size
from tvdbayes.trimming import due_in_tails, kept_shares, weighted_fits

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
    of_clusters : (R,)
        The largest surprise of any cluster of each data set (`clusters`); 0 without clusters.
    """

    distance: Array
    even: Array
    unfitted: Array
    by_level: Array
    surprise: Array
    dropped: Array
    of_clusters: Array

    def threshold(self, false_alarm: float) -> float:
        """The surprise that this share of clean data sets exceed somewhere."""
        return _threshold(self.surprise, false_alarm)

    def threshold_of_clusters(self, false_alarm: float) -> float:
        """The surprise that a cluster of this share of clean data sets exceeds."""
        return _threshold(self.of_clusters, false_alarm)


def _threshold(surprise: Array, false_alarm: float) -> float:
    rank = int(np.ceil((len(surprise) + 1) * (1 - false_alarm)))
    return np.inf if rank > len(surprise) else float(np.sort(surprise)[rank - 1])


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
    posterior = tabulated(posterior)
    cells = posterior.cells
    shares = np.zeros((0, cells.n_x)) if levels is None else levels
    n = int(np.clip(_MOST_ROWS // max(cells.n_obs, 1), _FEWEST, n_replicates))
    size = max(1, int(_ELEMENTS // max(min(cells.n_obs, _MANY * cells.n_x), 1)))
    found = []
    with single_threaded():
        # The model that made the data is known, and as good a start as any.
        plan = plan_for_replicates(posterior)
        plan = replace(plan, robust=replace(plan.robust, layout=_filled(plan.robust.layout)))
        layout = _filled(layout_of(posterior))
        maker = _maker(posterior, layout)
        size = min(size, plan.size, block_size(layout.units.n_elements))
        due = _due(posterior, layout)
        for first in range(0, n, size):
            numbers = range(first, min(first + size, n))
            made = maker.make(numbers)
            table, counts, random = made.table, made.counts, made.random
            here, even = layout.rebind(table), counts / counts.sum(0)
            both = np.column_stack([random, even])
            fitted = plan.minimisers(*_with_prior(posterior, table, both, numbers))
            theta = np.split(here.bound.from_user(fitted), 2, axis=1)
            excess = random * masses_of(here, theta[0], random).score
            truth = here.bound.from_user(np.repeat(posterior.minimiser[:, None], len(numbers), 1))
            surprise, dropped = _surprise(posterior, here, counts, theta[1], due)
            at_x = here.cell_pairs.x_of_pair.total
            found.append(
                (
                    excess.sum(0),
                    unexplained(here, theta[1], even),
                    unexplained(here, truth, even),
                    (shares @ at_x(excess)) / np.maximum(shares @ at_x(random), 1e-300),
                    surprise,
                    dropped,
                    maker.clusters(made, here, theta[1]),
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
        made = _maker(posterior, layout).make(range(n_replicates))
        here, counts = layout.rebind(made.table), made.counts
        at = np.repeat(minimiser(layout, posterior), n_replicates, axis=1)
        return unexplained(here, at, counts / counts.sum(0))


def _with_prior(
    posterior: Posterior, table: Cells, p: Array, numbers: range | None = None
) -> tuple[Array, Cells]:
    """Tables p (m, B), and the mass of the prior beside them, which every fit takes in.

    With the ``numbers`` of replicates the first half of the tables are reweighted at random, so
    that the prior is, too; the others hold it as it is.
    """
    prior = posterior.prior
    if prior is None:
        return p, table
    assert not callable(prior.base_measure)
    n_obs = posterior.cells.n_obs
    rows = replace(prior.base_measure, counts=prior.base_measure.p * prior.alpha)
    joint = table.merge(rows)
    mass = np.zeros((joint.n_cells, p.shape[1]))
    mass[places(joint, table)] = n_obs * p
    own = np.repeat(rows.counts[:, None], p.shape[1], axis=1)
    for j, number in enumerate(numbers or ()):
        rng = Stream.generator(posterior.seed, Stream.REPLICATE_PRIOR, number)
        own[:, j] = rng.standard_gamma(rows.counts)
        mass[:, j] *= rng.standard_gamma(n_obs) / n_obs
    mass[places(joint, rows)] += own
    return mass / mass.sum(0), joint


def _maker(posterior: Posterior, layout: Layout) -> AbstractMaker:
    if posterior.units is None:
        return RowMaker(posterior, layout.bound.eta)
    return UnitMaker(posterior, posterior.units)


@dataclass(frozen=True, eq=False)
class RowMaker(AbstractMaker):
    """Makes replicates of independent rows; ``eta_at`` are the predictors at parameters."""

    posterior: Posterior
    eta_at: Callable[[Array], Array]

    def make(self, numbers: range) -> Made:
        """See `AbstractMaker`."""
        table, counts = _simulate(self.posterior, self.eta_at, numbers)
        weights = iter(Stream.draws(self.posterior.seed, Stream.REPLICATE_WEIGHTS, numbers.start))
        mass = np.array([next(weights).standard_gamma(column) for column in counts.T])
        return Made(table, counts, mass.T / mass.sum(1), np.zeros((len(numbers), 0), np.intp))

    def clusters(self, made: Made, layout: Layout, theta: Array) -> Array:
        """See `AbstractMaker`."""
        return np.zeros(theta.shape[1])


def _filled(layout: Layout) -> Layout:
    """The same layout with bins that hold all outcomes between those that were seen.

    Outcomes beyond them stand alone, as the largest ones of the data do.
    """
    return replace(layout, bins=layout.bins and layout.bins.filled())


def _surprise(
    posterior: Posterior, layout: Layout, counts: Array, theta: Array, due: Array | None = None
) -> tuple[Array, Array]:
    """The largest surprise of any cell of each data set, and the share that is dropped, (R,) each.

    Parameters are (d, R). Only rows that a trimmed likelihood would drop count; what is dropped is
    judged by a fit without it, as in the data. Where the bins of the record were learned from its
    data, those of each data set are learned from that data set: learned bins end at outcomes of the
    data.
    """
    p, together = counts / counts.sum(0), None
    # Bins that were asked for are what they are.
    if posterior.bins is not None and posterior.options.bins == "auto":
        together = _with_own_bins(posterior, layout, counts)

    def judged(theta: Array) -> tuple[Array, Array]:
        if together is None:
            return _judged(posterior, layout, p, theta, due=due)
        own, at, ends = together.of_cells(p), together.parameters(layout, theta), together.ends
        surprise, kept = _judged(posterior, together.layout, own, at, due=due, ends=ends)
        return together.by_table(surprise, 0.0), together.by_table(kept, 1.0)

    surprise, kept = judged(theta)
    dropped = (p * (1 - kept)).sum(0)
    some = np.flatnonzero(dropped > 0)
    if some.size:
        refit = theta.copy()
        mass, table = _with_prior(posterior, layout.cells, p[:, some] * kept[:, some])
        here = layout if table is layout.cells else layout.rebind(table)
        refit[:, some] = weighted_fits(here, mass, theta[:, some], posterior.ridge)
        surprise = judged(refit)[0]
    return np.where(counts > 0, surprise, 0.0).max(0), dropped


def _judged(
    posterior: Posterior,
    layout: Layout,
    p: Array,
    theta: Array,
    *,
    due: Array | None,
    ends: IntArray | None = None,
) -> tuple[Array, Array]:
    """The surprise of each cell of tables p (m, B), and the share of it that is kept, (m, B)."""
    n_obs, masses = posterior.cells.n_obs * posterior.worth, masses_of(layout, theta, p)
    if posterior.kept_rows is None:
        return masses.surprise(n_obs), np.ones(p.shape)
    known = masses.data, masses.model
    kept = kept_shares(layout, p, theta, n_obs, due, masses=known, ends=ends)
    return surprise_of_dropped(masses, theta, n_obs, kept), kept


def _with_own_bins(posterior: Posterior, layout: Layout, counts: Array) -> SideBySide:
    """The data sets side by side, each with bins learned from it."""
    together = SideBySide.of(layout, counts)
    learned = learn_bins_of_tables(
        together.layout.cells,
        together.layout.grouping,
        posterior.groups.median_size,
        together.ends,
    )
    spikes = posterior.model.family.spikes
    return together.in_bins(
        tuple(bins.isolating(spikes).filled() if bins.wide else bins for bins in learned)
    )


def _due(posterior: Posterior, layout: Layout) -> Array | None:
    """Mass due in the tails of the data, where a fit looks at it, and so of any replicate."""
    if posterior.kept_rows is None:
        return None
    return due_in_tails(layout, layout.cells.p, minimiser(layout, posterior)[:, 0])


def _simulate(
    posterior: Posterior, eta_at: Callable[[Array], Array], numbers: range
) -> tuple[Cells, Array]:
    """The cells of some replicates together, and the rows (m, R) that each has in them."""
    cells, family = posterior.cells, posterior.model.family
    theta = posterior.model.bind(cells, cells).from_user(posterior.minimiser[:, None])
    eta = eta_at(theta)[..., 0]
    rngs = (Stream.generator(posterior.seed, Stream.REPLICATES, number) for number in numbers)
    drawn = [_outcomes(rng, posterior, eta) for rng in rngs]
    x_index, y, mass = (np.concatenate(parts) for parts in zip(*drawn, strict=True))
    number = np.repeat(np.arange(len(numbers)), [len(part[1]) for part in drawn])
    outcomes, code = np.unique(y, return_inverse=True)
    key, cell = np.unique(x_index * len(outcomes) + code.ravel(), return_inverse=True)
    total = np.bincount(number + len(numbers) * cell.ravel(), mass, len(key) * len(numbers))
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
    parts = [(rows, y, share[rows])]
    for x_row in np.flatnonzero(many):
        trials = cells.trials[x_row]
        seen = family.sample(rng, np.repeat(eta[:, [x_row]], _MANY, axis=1), np.full(_MANY, trials))
        reach = max(1.0, seen.max() - seen.min())
        grid = np.arange(max(0.0, seen.min() - reach), seen.max() + reach + 1)
        grid = grid[family.possible(grid, np.full(len(grid), trials))]
        each = np.full(len(grid), trials)
        law = family.pmf(grid, np.repeat(eta[:, [x_row]], len(grid), axis=1), each)
        drawn = rng.multinomial(whole[x_row], law / law.sum())
        held = drawn > 0
        parts.append((np.full(held.sum(), x_row), grid[held], share[x_row] * drawn[held]))
    x_index, y, mass = (np.concatenate(part) for part in zip(*parts, strict=True))
    return x_index, y, mass
