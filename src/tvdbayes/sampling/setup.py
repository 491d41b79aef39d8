"""A model laid out on a table, and what its options come to there: what "auto" stands for."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

from tvdbayes._array import Device
from tvdbayes._errors import MemoryBudgetError, SettingsError
from tvdbayes.data.cells import Cells
from tvdbayes.data.sampling_units import SamplingUnits
from tvdbayes.models.model import Model
from tvdbayes.objective import Layout
from tvdbayes.objective._kinds import AbstractDivergence
from tvdbayes.objective.divergences import TVD
from tvdbayes.objective.partitions import (
    AbstractPartition,
    Bins,
    GroupReport,
    learn_bins,
    median_cell,
    report_groups,
)
from tvdbayes.sampling.execution import single_threaded
from tvdbayes.sampling.weights import Prior, RandomWeights, Stream, block_size

Refine = Literal["reweight", "trim"] | None
"""What is done to the closest model: one-step reweighting, or the trimmed likelihood."""

_ARRAYS = 24
"""Arrays of the size of a block that a solve keeps alive at its peak, measured and rounded up."""

_NODES = 16
"""A sum over the support costs a draw so much more time that blocks must be smaller."""


@dataclass(frozen=True, eq=False)
class Setup:
    """A model laid out on a table, with all that was asked of its draws.

    Parameters
    ----------
    cells : Cells
        The data.
    layout : Layout
        On the data and, where there is one, the mass of the prior.
    divergence, prior, seed, refine, ridge
        As they were asked for; what `refine` comes to, see `refined`.
    units : SamplingUnits or None
        What is exchangeable; None: the rows.
    size : int
        Draws in a block, see `binned`.
    device : Device or None
        Where the draws are computed; None is NumPy.
    """

    cells: Cells
    layout: Layout
    divergence: AbstractDivergence
    prior: Prior | None = None
    seed: int = 0
    refine: Refine = None
    ridge: float | Literal["auto"] = "auto"
    size: int = 1
    device: Device | None = None
    units: SamplingUnits | None = None

    @classmethod
    def make(
        cls,
        model: Model,
        cells: Cells,
        *,
        divergence: AbstractDivergence,
        partition: AbstractPartition,
        prior: Prior | None = None,
        seed: int = 0,
        refine: Refine = None,
        ridge: float | Literal["auto"] = "auto",
        units: SamplingUnits | None = None,
    ) -> "Setup":
        """Absorb the prior, learn the groups."""
        table = cells
        if prior is not None:
            table = prior.absorb(cells, Stream.generator(seed, Stream.PRIOR))
            model.check(table)
        with single_threaded():
            groups = partition.learn(table, model.complexity(cells), seed)
            fold = divergence.folds and model.family.binary
            layout = Layout(model, table, groups, cells, fold, grouped=groups.group(table))
        return cls(cells, layout, divergence, prior, seed, refine, ridge, units=units)

    def binned(self, bins: Bins | None) -> "Setup":
        """The same with outcomes compared in bins, and with blocks as large as that allows."""
        there = replace(self, layout=replace(self.layout, bins=bins))
        size = block_size(there._per_draw, there._n_atoms)
        return replace(there, size=min(size, self.layout.model.predictor.block_draws))

    @cached_property
    def report(self) -> GroupReport:
        """Which rows are compared together."""
        layout = self.layout
        return report_groups(layout.cells, layout.partition.name, layout.grouping)

    @property
    def drawn(self) -> Prior | None:
        """The prior, if its atoms must be drawn."""
        return self.prior if self.prior is not None and self.prior.drawn else None

    @property
    def reweighted(self) -> Cells:
        """The table that is reweighted; atoms that are drawn are not part of it."""
        return self.cells if self.drawn else self.layout.cells

    @property
    def weights(self) -> RandomWeights:
        """How the table is reweighted at random."""
        return RandomWeights(self.reweighted, self.units, self.drawn)

    @property
    def pilot_weights(self) -> RandomWeights:
        """The same, where atoms of a prior are part of the table: once and for all, not drawn."""
        return RandomWeights(self.layout.cells, self.units)

    @property
    def block_elements(self) -> int:
        """Array elements that a block of draws needs."""
        return self.size * (self._per_draw + self.size * self._n_atoms)

    def size_within(self, memory: int, n_draws: int) -> int:
        """Draws in a block that a device with so many bytes can hold: a power of two."""
        elements = self._per_draw + self.layout.model.predictor.step_elements
        most = memory // (8 * _ARRAYS * elements)
        wanted = 1 << max(min(n_draws, 1024) - 1, 0).bit_length()
        return min(wanted, 1 << max(int(most).bit_length() - 1, 0))

    @property
    def _n_atoms(self) -> int:
        return self.drawn.n_atoms if self.drawn else 0

    @property
    def _per_draw(self) -> int:
        layout, n_cells = self.layout, self.layout.cells.n_cells
        # Draws of a trimmed likelihood look at cells alone.
        on_groups = self.divergence.on_groups and self.refine != "trim"
        compared = layout.units.n_elements if on_groups else n_cells
        compared *= _NODES if self.divergence.sums else 1
        return layout.model.predictor.draw_elements(layout.bound.n_params, n_cells, compared)


def affordable(elements: int, budget: int) -> int:
    """How many blocks of this many cells x draws may be in work at once on one machine."""
    need = 8 * elements * _ARRAYS
    if need > budget:
        raise MemoryBudgetError(
            f"One block of draws needs about {need / 2**20:,.0f} MiB, above the budget of "
            f"{budget / 2**20:,.0f} MiB. Raise memory_budget, or coarsen the covariates so that "
            "more rows share a cell."
        )
    return int(budget // need)


def refined(refine: object, divergence: AbstractDivergence, model: Model) -> Refine:
    """What is done to the closest model."""
    if refine is None:
        return None
    if refine == "auto":
        if model.predictor.reweighted:
            return "reweight" if divergence.on_groups else None
        return "trim" if divergence == TVD() else None
    if not divergence.on_groups:
        raise SettingsError(
            f"refine={refine!r} takes away mass that a robust fit cannot explain, and the "
            f'divergence {divergence.name!r} compares row by row. Use divergence="tvd", or leave '
            "refine out."
        )
    if refine == "reweight":
        return "reweight"
    if not model.predictor.averages:
        raise SettingsError('refine="trim" is for linear predictors; networks have "reweight".')
    return "trim"


def outcome_bins(wanted: Sequence[float] | str, setup: Setup) -> Bins | None:
    """The outcomes that are compared together, as asked for or as the table needs it."""
    layout, divergence = setup.layout, setup.divergence
    family, cells = layout.family, layout.cells
    applies = divergence.on_groups and family.counts
    if not isinstance(wanted, str):
        if not applies:
            raise SettingsError(
                f"bins= joins counts that are compared by groups; {type(family).__name__} with "
                f"the divergence {divergence.name!r} has none. Leave it out."
            )
        return Bins.starting_at(wanted, float(cells.y.max())).isolating(family.spikes)
    if not applies:
        return None
    # Thin cells pull a free spread in, so a law with one is binned sooner.
    thin = layout.partition.thin * len(family.predictors)
    if wanted == "none" or median_cell(cells, layout.grouping) >= thin:
        return None
    learned = learn_bins(cells, layout.grouping, setup.report.median_size)
    return None if learned is None else learned.isolating(family.spikes)


def device_named(name: str, model: Model, n_jobs: int | None) -> Device:
    """The device of this name, if the model can be computed there."""
    if n_jobs not in (None, 1):
        raise SettingsError(
            f"device={name!r} computes all draws of a block together; leave n_jobs at 1, got "
            f"{n_jobs}."
        )
    if not model.family.on_device:
        raise SettingsError(
            f"{type(model.family).__name__} is computed with NumPy only. Leave device out."
        )
    return Device.named(name)
