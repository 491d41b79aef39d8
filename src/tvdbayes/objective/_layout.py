"""The fixed part of an objective: a model bound to a table and its groups."""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from tvdbayes._array import Device, Segments
from tvdbayes._typing import Array
from tvdbayes.data.cells import Cells
from tvdbayes.models.families import AbstractFamily
from tvdbayes.models.model import Model
from tvdbayes.models.predictors import AbstractBound
from tvdbayes.objective._pairs import Canonical, Pairs
from tvdbayes.objective._slots import LAWS, MOST_DISPERSED, MOST_TRIALS, Slots, further_constant
from tvdbayes.objective._tables import make_units
from tvdbayes.objective._units import AbstractUnits, Listed
from tvdbayes.objective.partitions import AbstractPartition, Bins, Grouping
from tvdbayes.solvers import Accuracy


@dataclass(frozen=True, eq=False)
class Layout:
    """A model bound to a table and its groups, in coordinates standardised on `scale_on`.

    ``fold`` lets one of two outcomes stand for both, where family and divergence allow; ``bins``
    are the outcomes that are compared together; ``grouped`` is the grouping where it is known;
    ``device`` is where the table lies, None for the memory of NumPy; ``given`` is the predictor at
    the x rows, where it is not the model's.
    """

    model: Model
    cells: Cells
    partition: AbstractPartition
    scale_on: Cells
    fold: bool = False
    bins: Bins | None = None
    grouped: Grouping | None = None
    device: Device | None = None
    given: AbstractBound | None = None

    def to(self, device: Device) -> "Layout":
        """The same with its table on a device."""
        return replace(self, grouped=self.grouping, device=device)

    def at_home(self) -> "Layout":
        """The same with its table in the memory of NumPy."""
        return self if self.device is None else replace(self, device=None)

    def put(self, p: Array) -> Array:
        """Masses (m, B) where the table is, so that draws lie side by side."""
        if self.device is not None:
            return self.device.put(p)
        return np.ascontiguousarray(p)

    def accuracy(self, wanted: Accuracy) -> Accuracy:
        """The accuracy that can be reached where the table is."""
        single = self.device is not None and self.device.dtype == "float32"
        return wanted.in_single_precision() if single else wanted

    def batch_size(self, n: int) -> int:
        """Draws to compute together where n are needed: a device compiles every size anew."""
        return n if self.device is None else 4 ** ((max(n - 1, 0).bit_length() + 1) // 2)

    @cached_property
    def bound(self) -> AbstractBound:
        """The predictor at the x rows of the table."""
        bound = self.given or self.model.bind(self.cells, self.scale_on)
        return bound if self.device is None else bound.put(self.device)

    @property
    def family(self) -> AbstractFamily:
        """The law of the outcome."""
        return self.model.family

    @cached_property
    def cell_pairs(self) -> Pairs:
        """The cells as pairs of an x row and an outcome."""
        cells = self.cells
        x_of_pair = Segments(cells.x_index, cells.n_x)
        trials = cells.trials[cells.x_index, None]
        pairs = Pairs(self.family, self.bound, x_of_pair, cells.y[:, None], trials)
        return pairs if self.device is None else pairs.put(self.device)

    @property
    def canonical(self) -> Canonical | None:
        """The cells in canonical form, where the law has one and they are in NumPy's memory."""
        return self.cell_pairs.canonical if self.device is None else None

    @cached_property
    def units(self) -> AbstractUnits:
        """Where data and model are compared."""
        units = make_units(
            self.family, self.bound, self.cells, self.grouping, fold=self.fold, bins=self.bins
        )
        return units if self.device is None else units.put(self.device)

    @cached_property
    def slots(self) -> Slots | None:
        """The units as lists that the kernel reads; None where it does not cover the model."""
        law, units = self.family.compiled_pmf(folded=self.units.folded), self.units
        covered = law in LAWS and self.device is None and self.bound.linear
        covered &= self.cells.trials.max(initial=1.0) <= MOST_TRIALS
        # Counts of thousands need another form of the pmf.
        covered &= not self.family.canonical or units.pairs.canonical is not None
        if len(self.family.predictors) > 1:
            covered = covered and further_constant(self.bound)
            covered &= units.pairs.y.max(initial=0.0) <= MOST_DISPERSED
        # In one parameter kinks are enumerated, many points for each draw.
        searched = not units.exact or self.bound.n_params > 1
        return units.slots(law) if law is not None and covered and searched else None

    def listed(self) -> list[Listed]:
        """The units of each partition of the ensemble, by themselves."""
        whole = self.grouping
        return [
            make_units(
                self.family,
                self.bound,
                self.cells,
                replace(whole, groups=groups[None]),
                fold=self.fold,
                bins=self.bins,
            ).listed()
            for groups in whole.groups
        ]

    @cached_property
    def grouping(self) -> Grouping:
        """The partition applied to the table."""
        return self.grouped or self.partition.group(self.cells)

    @property
    def x_trials(self) -> Array:
        """Trials of each x row, (n_x, 1)."""
        return self.cells.trials[:, None]

    def rebind(self, cells: Cells) -> "Layout":
        """The same model, groups and coordinates on another table."""
        return replace(
            self, cells=cells, grouped=self.grouping.of_other_outcomes(self.cells, cells)
        )
