"""Predictions for rows in the user's own columns."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd

from tvdbayes._errors import DataError, SettingsError
from tvdbayes._typing import Array, IntArray
from tvdbayes.data.cells import Cells
from tvdbayes.data.sources import Data, FrameSource, Table, open_data
from tvdbayes.fitting.record import Fit
from tvdbayes.formula.columns import numbers, offsets, trials_of
from tvdbayes.formula.design import columns_of, encode_table
from tvdbayes.formula.family import codes
from tvdbayes.models.families import AbstractFamily
from tvdbayes.results.prediction import (
    NewRows,
    likely_pmf,
    mean_interval,
    outcome_mean,
    outcome_quantiles,
    pmf,
    sample_outcomes,
    tails,
)
from tvdbayes.sampling.posterior import Posterior

__all__ = [
    "Kind",
    "further_columns",
    "new_rows",
    "outcome_numbers",
    "posterior_of",
    "predict",
    "sample",
]

Kind = Literal["mean", "pmf", "outcome", "class"]
_KINDS = get_args(Kind)


def predict(
    fit: Fit,
    new: Data | None,
    kind: Kind,
    *,
    interval: float,
    outcomes: Sequence[object] | None,
    seed: int | None,
    ordinary: bool,
) -> pd.DataFrame:
    """See `Fit.predict`."""
    if kind not in _KINDS:
        raise SettingsError(f"kind must be one of {', '.join(_KINDS)}; got {kind!r}.")
    if outcomes is not None and kind != "pmf":
        raise SettingsError(f'outcomes= goes with kind="pmf"; got kind={kind!r}. Leave it out.')
    _check_seed(seed)
    posterior = posterior_of(fit, ordinary)
    _require_numbers(posterior.model.family, kind)
    asked = _asked(fit, new)
    rows = asked.rows
    found: dict[Any, Any]
    match kind:
        case "mean":
            found = _mean(posterior, rows, interval)
        case "outcome":
            found = _outcome(posterior, rows, interval, seed)
        case "pmf":
            found = _pmf(posterior, rows, outcomes)
        case "class":
            found = _class(posterior, rows)
    whole = pd.DataFrame(found, index=asked.kept).reindex(range(asked.n_rows))
    return whole if asked.index is None else whole.set_axis(asked.index)


def sample(
    fit: Fit, new: Data | None, *, n_draws: int | None, seed: int | None, ordinary: bool
) -> Array:
    """See `Fit.sample`."""
    _check_seed(seed)
    if n_draws is not None and not (_whole(n_draws) and n_draws >= 1):
        raise SettingsError(f"n_draws must be a whole number of at least 1; got {n_draws!r}.")
    asked = _asked(fit, new)
    drawn = sample_outcomes(posterior_of(fit, ordinary), asked.rows, n_draws, seed=seed)
    if len(asked.kept) == asked.n_rows:
        return drawn
    found = np.full((len(drawn), asked.n_rows), np.nan)
    found[:, asked.kept] = drawn
    return found


def posterior_of(fit: Fit, ordinary: bool) -> Posterior:
    """The robust draws, or their ordinary twins."""
    return fit.posterior.twin if ordinary else fit.posterior


def new_rows(fit: Fit, table: Table) -> NewRows:
    """The rows of a table as the model sees them, in the order of the input."""
    posterior, family = fit.posterior, fit.posterior.model.family
    x = encode_table(fit.encodings, posterior.cells.names, table)
    offset = offsets(table, fit.data.offset, fit.data.exposure)
    trials = None
    if family.needs_trials:
        trials = trials_of(table, fit.data.trials, family)[table.index]
    return NewRows.of(
        posterior,
        x[table.index],
        offset=None if offset is None else offset[table.index],
        trials=trials,
    )


def new_cells(fit: Fit, source: FrameSource, weights: str | None = None) -> Cells:
    """Rows with outcomes as a table of cells, encoded as in the fit."""
    outcome, family = fit.data.outcome, fit.posterior.model.family
    used = [outcome, *columns_of(fit.encodings), *further_columns(fit, source.columns)]
    table = source.table(used, weights, "error")
    y = (
        codes(table, outcome, family.levels, all_seen=False)
        if family.levels
        else numbers(table, outcome)
    )
    distinct = replace(table, index=np.arange(len(y)))
    rows = new_rows(fit, distinct)
    at = rows.number
    return Cells.from_rows(
        rows.table.x[at],
        y,
        weights=table.counts,
        offset=rows.table.offset[at],
        trials=rows.table.trials[at],
        names=rows.table.names,
    )


@dataclass(frozen=True, eq=False)
class _Asked:
    """Rows that a user asked about.

    Parameters
    ----------
    rows : NewRows
        Those that can be predicted.
    kept : (m,)
        Their places among all rows.
    n_rows : int
        Number of all rows.
    index : pandas.Index or None
        What the user's data frame calls the rows.
    """

    rows: NewRows
    kept: IntArray
    n_rows: int
    index: "pd.Index[Any] | None" = None


def _asked(fit: Fit, new: Data | None) -> _Asked:
    if new is None:
        cells, kept = fit.posterior.cells, np.flatnonzero(fit.cell_of_row >= 0)
        rows = NewRows(cells, cells.x_index[fit.cell_of_row[kept]])
        return _Asked(rows, kept, len(fit.cell_of_row))
    source = open_data(new)
    native, n = source.native.to_native(), len(source.native)
    used = [*columns_of(fit.encodings), *further_columns(fit, source.columns)]
    if used:
        table = source.table(used, None, "error")
    else:
        table = Table(pd.DataFrame(index=[0]), np.array([n]), np.zeros(n, int), np.arange(n), n)
    index = native.index if isinstance(native, pd.DataFrame) else None
    return _Asked(new_rows(fit, table), np.arange(n), n, index)


def further_columns(fit: Fit, columns: list[str]) -> list[str]:
    """Columns that the fit used beside its formulas, all of which new data must have."""
    data = fit.data
    uses = {"offset": data.offset, "exposure": data.exposure, "trials": data.trials}
    named = {use: name for use, name in uses.items() if isinstance(name, str)}
    for use, name in named.items():
        if name not in columns:
            raise DataError(
                f"The fit was made with {use}={name!r}, which is no column of the new data. "
                f"Columns: {', '.join(map(str, columns))}. Add it."
            )
    return list(named.values())


def _mean(posterior: Posterior, rows: NewRows, interval: float) -> dict[str, Array]:
    low, high = mean_interval(posterior, rows, interval).T
    return {"mean": outcome_mean(posterior, rows), "low": low, "high": high}


def _outcome(
    posterior: Posterior, rows: NewRows, interval: float, seed: int | None
) -> dict[str, Array]:
    shares = np.array([*tails(posterior, interval), 0.5])
    low, high, median = outcome_quantiles(posterior, rows, shares, seed=seed).T
    return {"low": low, "median": median, "high": high}


def _pmf(
    posterior: Posterior, rows: NewRows, outcomes: Sequence[object] | None = None
) -> dict[object, Array]:
    family = posterior.model.family
    if outcomes is None and not (family.levels or family.binary):
        y, masses = likely_pmf(posterior, rows)
        return dict(zip(map(int, y), masses.T, strict=True))
    names: Sequence[object] = (family.levels or (0, 1)) if outcomes is None else outcomes
    masses = pmf(posterior, rows, outcome_numbers(family, names))
    return dict(zip(names, masses.T, strict=True))


def _class(posterior: Posterior, rows: NewRows) -> dict[str, Any]:
    masses = _pmf(posterior, rows)
    table = np.stack(list(masses.values()), axis=-1)
    best = table.argmax(axis=-1)
    names = np.array(list(masses), dtype=object if posterior.model.family.levels else int)
    return {"class": names[best], "probability": table[np.arange(len(best)), best]}


def outcome_numbers(family: AbstractFamily, names: Sequence[Any]) -> Array:
    """The numbers of outcomes that are given by name, or as whole numbers."""
    if np.ndim(names) != 1 or not len(names):
        raise SettingsError(f"outcomes= takes a list of outcomes; got {names!r}.")
    for name in names:
        if family.levels and str(name) not in family.levels:
            raise SettingsError(
                f"There is no outcome {name!r}. The levels are {', '.join(family.levels)}."
            )
        if not family.levels and not (_whole(name) or (isinstance(name, float) and name % 1 == 0)):
            raise SettingsError(f"Outcomes of {family.name!r} are whole numbers; got {name!r}.")
    if family.levels:
        return np.array([float(family.levels.index(str(name))) for name in names])
    return np.asarray(names, float)


def _require_numbers(family: AbstractFamily, kind: Kind) -> None:
    if family.levels and kind in ("mean", "outcome"):
        raise SettingsError(
            f"The outcomes of {family.name!r} are names ({', '.join(family.levels[:3])}, ...), so "
            f'there is no kind={kind!r} for them. Ask for kind="pmf", their probabilities, or '
            'kind="class", the most probable one.'
        )


def _check_seed(seed: object) -> None:
    if seed is not None and not (_whole(seed) and seed >= 0):  # type: ignore[operator]
        raise SettingsError(f"seed must be a whole number of at least 0; got {seed!r}.")


def _whole(value: object) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)
