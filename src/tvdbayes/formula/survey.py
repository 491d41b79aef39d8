"""Data that a formula has encoded, before anything is fitted to them."""

from collections import Counter
from dataclasses import dataclass, replace
from typing import Literal

from tvdbayes._errors import CollinearWarning, FormulaError, SettingsError, warn
from tvdbayes._typing import IntArray
from tvdbayes.data.cells import Cells, compress
from tvdbayes.data.fit_data import FitData
from tvdbayes.data.sources import AbstractSource, Coarsening, Missing
from tvdbayes.formula.columns import offsets, trials_of
from tvdbayes.formula.design import Encoded, encode_all, read_further, without_dependent
from tvdbayes.formula.family import law_and_outcome
from tvdbayes.formula.guard import Reading, read_formula
from tvdbayes.models.families import AbstractFamily
from tvdbayes.models.model import Model
from tvdbayes.models.predictors import MLP

__all__ = ["Survey", "survey"]


@dataclass(frozen=True, eq=False)
class Survey:
    """What a formula makes of a table of data.

    Parameters
    ----------
    formula : str
        As given.
    model : Model
        The law of the outcome, and who uses which covariate.
    cells : Cells
        Distinct covariates and outcome, with counts.
    encoded : Encoded
        The covariates, and how to encode new data alike.
    left_out : tuple of str
        Columns that others determine, left out by ``collinear="drop"``.
    cell_of_row : (n,)
        The cell of each input row, -1 where it was left out.
    data : FitData
        The distinct rows of the columns in use.
    coarsening : Coarsening or None
        What rounding by an engine has done to them.
    """

    formula: str
    model: Model
    cells: Cells
    encoded: Encoded
    left_out: tuple[str, ...]
    cell_of_row: IntArray
    data: FitData
    coarsening: Coarsening | None


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
    collinear: Literal["error", "drop"],
    network: MLP | None = None,
) -> Survey:
    """Read the columns that are used, check them, and encode them; see `fit` for the arguments."""
    reading = read_formula(formula, source.columns)
    if network is not None and predictors:
        raise SettingsError(
            f"With network=, further predictors are constant; got covariates for "
            f"{', '.join(map(repr, predictors))}. Leave predictors= or network= out."
        )
    further = read_further(predictors, reading.outcome, source.columns)
    trials = reading.trials if trials is None else _only_once(reading, trials)
    options = {"offset": offset, "exposure": exposure, "weights": weights}
    used = [reading.outcome, *reading.columns, *(c for r in further.values() for c in r.columns)]
    used += [name for name in (offset, exposure) if name is not None]
    used += [trials] if isinstance(trials, str) else []
    exact = [reading.outcome, *([trials] if isinstance(trials, str) else [])]
    table = source.table(used, weights, missing, exact)
    law, y = law_and_outcome(family, link, table, reading.outcome)
    n_trials = trials_of(table, trials, law)
    law.check_outcomes(y[table.index], n_trials[table.index], table.unit, table.rows)
    if law.n_main > 1 and (offset is not None or exposure is not None):
        raise SettingsError(
            f"The family {law.name!r} has a predictor for each level, so an offset or exposure "
            "has no place in it. Leave it out, or use it as a covariate."
        )
    encoded = encode_all(reading, further, law, table)
    left_out: tuple[str, ...] = ()
    if collinear == "drop":
        encoded, left_out = without_dependent(encoded)
        _say_left_out(left_out)
    made = compress(
        encoded.x,
        y,
        weights=table.counts,
        offset=offsets(table, offset, exposure),
        trials=n_trials,
        names=encoded.names,
    )
    model = Model(law, encoded.linear)
    # A network has no coefficients that would be asked for by name.
    if network is None:
        _require_own_names(model.param_names(made.cells))
    else:
        model = replace(model, predictor=network)
    return Survey(
        formula,
        model,
        made.cells,
        encoded,
        left_out,
        table.of_input(made.cell_of_row),
        FitData.of(table, made.cell_of_row, reading.outcome, trials=trials, **options),
        table.coarsening,
    )


def _require_own_names(names: tuple[str, ...]) -> None:
    """Raise where parameters of different predictors have one name."""
    twice = [name for name, times in Counter(names).items() if times > 1]
    if twice:
        raise FormulaError(
            f"Two parameters would be called {twice[0]!r}: a term of the formula, and one of "
            "another predictor. Rename a column of the data."
        )


def _say_left_out(names: tuple[str, ...]) -> None:
    if names:
        warn(
            f"The other columns already determine {', '.join(map(repr, names))}; left out.",
            CollinearWarning,
        )


def _only_once(reading: Reading, trials: str | float) -> str | float:
    if reading.trials is not None:
        raise SettingsError(
            f"The formula names the trials ({reading.trials!r}), and so does trials={trials!r}. "
            "Give them once."
        )
    return trials
