"""Data sets of the model's own making in which rows belong together as in the data.

Each cluster has its rows at the same covariates as in the data, with the same weights. The null is
that every row has the law of the fitted model, and that rows of one cluster depend on one another
as strongly as in the data: their outcomes come from normal scores

    z_i = sqrt(r) z(cluster) + sqrt(1 - r) e_i

with the correlation r (a Gaussian copula). A row has the outcome of rank Phi(z_i) among a few drawn
from its law, so that its law is exact for any family. What these ranks and the steps of outcomes
take from the correlation is found by trial: r is such that the correlation of outcomes is that of
the data (`trimming.dependence`).
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy.special import ndtr

from tvdbayes._typing import Array, IntArray
from tvdbayes.data.cells import Cells
from tvdbayes.data.sampling_units import SamplingUnits
from tvdbayes.objective import Layout
from tvdbayes.results.clusters import ClusterRule
from tvdbayes.results.makers import AbstractMaker, Made
from tvdbayes.results.rows import layout_of, masses_of, minimiser
from tvdbayes.sampling.posterior import Posterior
from tvdbayes.sampling.weights import Stream
from tvdbayes.trimming import correlation, outcome_scores, rarity_scores

_RANKED = 16
"""Outcomes of which a row has one."""
_TRIAL, _TRIALS = 0.5, 8
"""The correlation that is tried, and how often."""
_MOST = 0.95
_TRIAL_SEED = 1 << 32
"""Beyond the numbers of replicates."""


@dataclass(frozen=True, eq=False)
class RowsOfUnits:
    """The rows of the data one by one, sorted by unit.

    Parameters
    ----------
    unit, x_row : (n,)
    mass : (n,)
        How many rows each stands for.
    stratum : (U,)
        Of each unit.
    """

    unit: IntArray
    x_row: IntArray
    mass: Array
    stratum: IntArray

    @classmethod
    def of(cls, units: SamplingUnits, cells: Cells) -> "RowsOfUnits":
        """Every unit as often as there are of its kind, rounded to whole numbers, as are rows."""
        number = np.maximum(np.round(units.counts), 1).astype(np.intp)
        kind = np.repeat(np.arange(len(number)), number)
        begin = np.searchsorted(units.unit, np.arange(len(number) + 1))
        size = np.diff(begin)[kind]
        unit = np.repeat(np.arange(len(kind)), size)
        entry = begin[kind][unit] + np.arange(len(unit)) - (np.cumsum(size) - size)[unit]
        share = (units.counts / number)[kind][unit]
        rows = np.maximum(np.round(units.rows[entry]), 1).astype(np.intp)
        mass = share * units.mass[entry] / rows
        at = np.repeat(np.arange(len(unit)), rows)
        x_row = cells.x_index[units.cell[entry]]
        return cls(unit[at], x_row[at], mass[at], units.stratum[kind])

    def units(self, cell: IntArray, n_cells: int) -> SamplingUnits:
        """The units with their rows in these cells (n,)."""
        n, ones = len(self.stratum), np.ones(len(self.unit))
        return SamplingUnits(
            *(self.unit, cell, ones, self.mass, np.ones(n), self.stratum, n_cells), clustered=True
        )


@dataclass(frozen=True, eq=False)
class UnitMaker(AbstractMaker):
    """Makes replicates of a fit whose rows belong together or weigh unequally."""

    posterior: Posterior
    units: SamplingUnits

    @cached_property
    def rows(self) -> RowsOfUnits:
        """The rows of the data."""
        return RowsOfUnits.of(self.units, self.posterior.cells)

    @cached_property
    def layout(self) -> Layout:
        """The layout of the data."""
        return layout_of(self.posterior)

    @cached_property
    def latent(self) -> float:
        """The correlation of normal scores within a unit."""
        if not self.units.clustered:
            return 0.0
        layout, theta = self.layout, minimiser(self.layout, self.posterior)[:, 0]
        seen = correlation(self.units, *outcome_scores(layout, theta), self.kept)
        if seen == 0:
            return 0.0
        tried = []
        for number in range(_TRIALS):
            rng = Stream.generator(self.posterior.seed, Stream.REPLICATES, _TRIAL_SEED + number)
            table, cell = _tabulate(self.posterior, self.rows.x_row, self._outcomes(rng, _TRIAL))
            here = layout.rebind(table)
            units = self.rows.units(cell, table.n_cells)
            ones = np.ones(table.n_cells)
            tried.append(correlation(units, *outcome_scores(here, theta), ones))
        return float(np.clip(_TRIAL * seen / max(float(np.mean(tried)), 1e-3), 0.0, _MOST))

    @property
    def kept(self) -> Array:
        """The share of each cell that the model explains, (m,)."""
        posterior, layout = self.posterior, self.layout
        if posterior.kept_rows is not None:
            return posterior.kept_rows.share
        if not posterior.divergence.on_groups:
            return np.ones(layout.cells.n_cells)
        p = layout.cells.p[:, None]
        return 1 - masses_of(layout, minimiser(layout, posterior), p).score[:, 0]

    def outcomes(self, number: int) -> Array:
        """The outcomes (n,) of a replicate."""
        rng = Stream.generator(self.posterior.seed, Stream.REPLICATES, number)
        return self._outcomes(rng, self.latent)

    def _outcomes(self, rng: np.random.Generator, latent: float) -> Array:
        cells, family = self.posterior.cells, self.posterior.model.family
        bound = self.layout.bound
        theta = bound.from_user(self.posterior.minimiser[:, None])
        x_row = self.rows.x_row
        eta, trials = bound.eta(theta)[..., 0][:, x_row], cells.trials[x_row]
        if latent == 0:
            return np.asarray(family.sample(rng, eta, trials), float)
        n, several = len(x_row), np.tile(trials, _RANKED)
        drawn = family.sample(rng, np.tile(eta, (1, _RANKED)), several).reshape(_RANKED, n)
        drawn.sort(axis=0)
        common = rng.standard_normal(len(self.rows.stratum))[self.rows.unit]
        own = rng.standard_normal(n)
        rank = _RANKED * ndtr(np.sqrt(latent) * common + np.sqrt(1 - latent) * own)
        chosen = np.minimum(rank.astype(np.intp), _RANKED - 1)
        return np.asarray(drawn[chosen, np.arange(n)], float)

    def make(self, numbers: range) -> Made:
        """See `AbstractMaker`."""
        rows, n = self.rows, len(numbers)
        outcomes = np.concatenate([self.outcomes(number) for number in numbers])
        table, cell = _tabulate(self.posterior, np.tile(rows.x_row, n), outcomes)
        cell = cell.reshape(n, -1)
        rngs = iter(Stream.draws(self.posterior.seed, Stream.REPLICATE_WEIGHTS, numbers.start))
        random = [self.random(next(rngs)) for _ in numbers]

        def total(mass: list[Array]) -> Array:
            sums = [np.bincount(c, m, table.n_cells) for c, m in zip(cell, mass, strict=True)]
            return np.array(sums, float).T

        counts, mass = total([rows.mass] * n), total(random)
        table = replace(table, counts=counts.sum(1))
        return Made(table, counts, mass / mass.sum(0), cell)

    @cached_property
    def rule(self) -> ClusterRule:
        """How clusters are judged."""
        layout, theta = self.layout, minimiser(self.layout, self.posterior)[:, 0]
        scores = outcome_scores(layout, theta), rarity_scores(layout, theta)
        return ClusterRule(*(correlation(self.units, *one, self.kept) for one in scores))

    def clusters(self, made: Made, layout: Layout, theta: Array) -> Array:
        """See `AbstractMaker`."""
        if not self.units.clustered:
            return np.zeros(theta.shape[1])
        unit, ones = self.rows.unit, np.ones(len(self.rows.unit))
        each = zip(made.cell, theta.T, strict=True)
        return np.array(
            [self.rule.surprise(layout, at, unit, cell, ones).max() for cell, at in each]
        )

    def random(self, rng: np.random.Generator) -> Array:
        """Random weights (n,) of the rows, by unit."""
        rows = self.rows
        weight = rng.standard_exponential(len(rows.stratum))
        number, total = np.bincount(rows.stratum), np.bincount(rows.stratum, weight)
        return rows.mass * (weight * (number / total)[rows.stratum])[rows.unit]


def _tabulate(posterior: Posterior, x_row: IntArray, y: Array) -> tuple[Cells, IntArray]:
    """The cells of rows at these x rows with these outcomes, and the cell of each row."""
    cells, family = posterior.cells, posterior.model.family
    outcomes, code = np.unique(y, return_inverse=True)
    family.check_outcomes(outcomes, np.full(len(outcomes), cells.trials.max()), unit="outcome")
    key, cell = np.unique(x_row * len(outcomes) + code.ravel(), return_inverse=True)
    table = replace(
        cells,
        x_index=(key // len(outcomes)).astype(np.intp),
        y=outcomes[key % len(outcomes)],
        counts=np.bincount(cell.ravel()).astype(float),
    )
    return table, cell.ravel()
