"""A model laid out on a table, and how many draws a block of it has."""

from dataclasses import dataclass, replace

from tvdbayes._errors import MemoryBudgetError
from tvdbayes.data.cells import Cells
from tvdbayes.models.model import Model
from tvdbayes.objective import Layout
from tvdbayes.objective.divergences import AbstractDivergence
from tvdbayes.objective.partitions import AbstractPartition, Bins, GroupReport, report_groups
from tvdbayes.sampling.execution import single_threaded
from tvdbayes.sampling.plan import Refine
from tvdbayes.sampling.posterior import Posterior
from tvdbayes.sampling.weights import Prior, Stream, block_size

__all__ = ["Setup", "affordable"]

_ARRAYS = 24
"""Arrays of the size of a block that a solve keeps alive at its peak, measured and rounded up."""

_NODES = 16
"""A sum over the support costs a draw so much more time that blocks must be smaller."""


@dataclass(frozen=True, eq=False)
class Setup:
    """A model laid out on a table, with what a plan needs beside it.

    Parameters
    ----------
    cells : Cells
        The data.
    layout : Layout
        On the data and, where there is one, the mass of the prior.
    prior, drawn : Prior or None
        The prior, and the same if its atoms must be drawn.
    report : GroupReport
        Which rows are compared together.
    on_groups, sums : bool
        What is needed of every draw: masses of groups, sums over the support.
    """

    cells: Cells
    layout: Layout
    prior: Prior | None
    drawn: Prior | None
    report: GroupReport
    on_groups: bool
    sums: bool

    @classmethod
    def make(
        cls,
        model: Model,
        cells: Cells,
        *,
        divergence: AbstractDivergence,
        partition: AbstractPartition,
        prior: Prior | None,
        seed: int,
        refine: Refine,
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
            report = report_groups(table, groups.name, layout.grouping)
        drawn = prior if prior is not None and prior.drawn else None
        # Draws of a trimmed likelihood look at cells alone.
        on_groups = divergence.on_groups and refine != "trim"
        return cls(cells, layout, prior, drawn, report, on_groups, divergence.sums)

    @classmethod
    def of(cls, posterior: Posterior) -> "Setup":
        """The setting of a record."""
        return cls.make(
            posterior.model,
            posterior.cells,
            divergence=posterior.divergence,
            partition=posterior.partition,
            prior=posterior.prior,
            seed=posterior.seed,
            refine=posterior.refine,
        ).binned(posterior.bins)

    def binned(self, bins: Bins | None) -> "Setup":
        """The same with outcomes compared in bins."""
        return replace(self, layout=replace(self.layout, bins=bins))

    @property
    def block_elements(self) -> int:
        """Array elements that a block of draws needs."""
        return self.block_size * (
            self._per_draw + (self.block_size * self.drawn.n_atoms if self.drawn else 0)
        )

    @property
    def block_size(self) -> int:
        """Draws in a block."""
        size = block_size(self._per_draw, self.drawn.n_atoms if self.drawn else 0)
        return min(size, self.layout.model.predictor.block_draws)

    def size_within(self, memory: int, n_draws: int) -> int:
        """Draws in a block that a device with so many bytes can hold: a power of two."""
        elements = self._per_draw + self.layout.model.predictor.step_elements
        most = memory // (8 * _ARRAYS * elements)
        wanted = 1 << max(min(n_draws, 1024) - 1, 0).bit_length()
        return min(wanted, 1 << max(int(most).bit_length() - 1, 0))

    @property
    def _per_draw(self) -> int:
        layout = self.layout
        compared = layout.units.n_elements if self.on_groups else layout.cells.n_cells
        compared *= _NODES if self.sums else 1
        n_params, n_cells = layout.bound.n_params, layout.cells.n_cells
        return layout.model.predictor.draw_elements(n_params, n_cells, compared)


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
