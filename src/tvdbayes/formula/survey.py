"""From a formula and data to a model and its table of cells, before anything is fitted."""

from collections import Counter
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from tvdbayes._errors import CollinearWarning, DataError, FormulaError, SettingsError, warn
from tvdbayes._typing import Array, IntArray
from tvdbayes._validate import one_of
from tvdbayes.data.cells import Cells, Compressed, compress
from tvdbayes.data.fit_data import Column, FitData
from tvdbayes.data.grid import Coarsening
from tvdbayes.data.sample import AllRows
from tvdbayes.data.sampling_units import Labels, SamplingUnits, relative_weights
from tvdbayes.data.table import AbstractSource, Exposure, Missing, Table
from tvdbayes.formula.columns import (
    family_and_outcome,
    numbers,
    offsets,
    require_one_predictor,
    trials_of,
)
from tvdbayes.formula.design import Design, learn_design, read_further, without_dependent
from tvdbayes.formula.guard import Reading, read_formula
from tvdbayes.models.families import AbstractFamily
from tvdbayes.models.model import Model
from tvdbayes.models.predictors import MLP, Linear


@dataclass(frozen=True, eq=False)
class Survey:
    """What a formula makes of a table of data; the fields of `Fit` of the same name are these.

    The model has `linear` for its predictor, which says which predictor uses which covariate, or a
    network; `coarsening` is what rounding by an engine has done to the data, `rest` all rows where
    these are a sample.
    """

    formula: str
    model: Model
    cells: Cells
    design: Design
    linear: Linear
    left_out: tuple[str, ...]
    cell_of_row: IntArray
    data: FitData
    coarsening: Coarsening | None
    units: SamplingUnits | None
    rest: AllRows | None = None


@dataclass(frozen=True)
class SamplingColumns:
    """The names of these columns; None where there is none."""

    clusters: str | None = None
    strata: str | None = None
    weights: str | None = None

    @property
    def used(self) -> list[str]:
        """Those that are there."""
        return [name for name in (self.clusters, self.strata, self.weights) if name is not None]

    def rows_stood_for(self, table: Table) -> Array | None:
        """How many rows each row of a distinct row stands for, relative to the others."""
        if self.weights is None:
            return None
        weights = numbers(table, self.weights)
        if (weights <= 0).any():
            raise DataError(
                f"sampling_weights={self.weights!r} must be above 0; "
                f"{table.listing(weights <= 0, weights)}. Drop rows of weight 0; numbers of "
                "equal rows are weights=."
            )
        return relative_weights(table.counts, weights)

    def units(self, table: Table, made: Compressed, weights: Array | None) -> SamplingUnits | None:
        """What is exchangeable; None where it is the rows."""
        if not self.used:
            return None
        return SamplingUnits.of_rows(
            made.cell_of_row,
            made.cells.n_cells,
            table.counts,
            clusters=_labels(table, self.clusters),
            strata=_labels(table, self.strata),
            weights=weights,
        )


def _labels(table: Table, name: str | None) -> Labels | None:
    return None if name is None else Labels.of(table.frame[name])


def survey(
    formula: str,
    source: AbstractSource,
    *,
    family: str | AbstractFamily,
    link: str | None,
    offset: str | None,
    exposure: str | None,
    trials: str | float | None,
    weights: str | None,
    predictors: dict[str, str] | None,
    missing: Missing,
    zero_exposure: Missing,
    collinear: Literal["error", "drop"],
    network: MLP | None = None,
    success: str | None = None,
    sampling: SamplingColumns | None = None,
) -> Survey:
    """Read the columns that are used, check them, and encode them; see `fit` for the arguments."""
    one_of("collinear", collinear, ("error", "drop"))
    reading, further = _read(formula, predictors, source.columns, network)
    trials = reading.once("trials", trials)
    offset, exposure = reading.once("offset", offset), reading.once("exposure", exposure)
    exact = [reading.outcome, *([trials] if isinstance(trials, str) else [])]
    covariates = [*reading.columns, *(c for r in further.values() for c in r.columns)]
    added = [name for name in (offset, exposure) if name is not None]
    sampling = sampling or SamplingColumns()
    used = [reading.outcome, *covariates, *added, *exact[1:], *sampling.used]
    exact += sampling.used
    table = source.table(used, weights, missing, exact, Exposure(exposure, offset, zero_exposure))
    family, y = family_and_outcome(
        family, link, table, reading.outcome, trials=trials, success=success
    )
    n_trials = trials_of(table, trials, family)
    family.check_outcomes(y[table.index], n_trials[table.index], table.unit, table.rows)
    if added:
        require_one_predictor(family)
    design, x, linear = learn_design(reading, further, family, table)
    left_out: tuple[str, ...] = ()
    if collinear == "drop":
        design, x, linear, left_out = without_dependent(design, x, linear)
    if left_out:
        names = ", ".join(map(repr, left_out))
        warn(f"The other columns already determine {names}; left out.", CollinearWarning)
    shift = offsets(table, offset, exposure)
    stand_for = sampling.rows_stood_for(table)
    mass = table.counts if stand_for is None else table.counts * stand_for
    made = compress(x, y, weights=mass, offset=shift, trials=n_trials, names=design.names)
    model = Model(family, linear)
    # A network has no coefficients that would be asked for by name.
    if network is None:
        _require_own_names(model.param_names(made.cells))
    else:
        model = replace(model, predictor=network)
    columns = {str(name): Column.of(series) for name, series in table.frame.items()}
    columns[reading.outcome] = columns[reading.outcome].named()
    row = table.of_input(np.arange(len(table.counts)))
    uses = (reading.outcome, offset, exposure, trials, weights)
    grouped = (table.n_grouped, table.n_dropped, table.n_unexposed)
    sampled = (sampling.clusters, sampling.strata, sampling.weights)
    data = FitData(
        columns, table.counts, made.cell_of_row, row, *uses, *grouped, *sampled, table.library
    )
    rows = table.of_input(made.cell_of_row)
    found = (formula, model, made.cells, design, linear, left_out, rows, data)
    units = sampling.units(table, made, stand_for)
    return Survey(*found, table.coarsening, units, table.rest)


def _read(
    formula: str,
    predictors: dict[str, str] | None,
    columns: list[str],
    network: MLP | None,
) -> tuple[Reading, dict[str, Reading]]:
    """The formula, and those of further predictors by name."""
    reading = read_formula(formula, columns)
    if network is not None and predictors:
        raise SettingsError(
            f"With network=, further predictors are constant; got covariates for "
            f"{', '.join(map(repr, predictors))}. Leave predictors= or network= out."
        )
    return reading, read_further(predictors, reading.outcome, columns)


def _require_own_names(names: tuple[str, ...]) -> None:
    """Raise where parameters of different predictors have one name."""
    twice = [name for name, times in Counter(names).items() if times > 1]
    if twice:
        raise FormulaError(
            f"Two parameters would be called {twice[0]!r}: a term of the formula, and one of "
            "another predictor. Rename a column of the data."
        )
