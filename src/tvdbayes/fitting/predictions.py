"""Predictions for rows in the user's own columns."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import pandas as pd

from tvdbayes._errors import DataError, SettingsError
from tvdbayes._typing import Array, IntArray, Library
from tvdbayes._validate import is_whole, seed_of, whole_number
from tvdbayes.data.cells import Cells
from tvdbayes.data.frames import FrameSource, open_frame
from tvdbayes.data.sources import Data, native_frame, open_data
from tvdbayes.data.table import Table
from tvdbayes.formula.columns import codes, numbers
from tvdbayes.formula.design import Design
from tvdbayes.formula.survey import SamplingColumns
from tvdbayes.models.families import AbstractFamily
from tvdbayes.results.base import AbstractFit, new_rows, require_rows
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

_KINDS = ("mean", "pmf", "outcome", "class")


class PredictionAnswers(AbstractFit):
    """Methods of `Fit` on rows of new data."""

    def encode(self, data: Data) -> Array:
        """Covariates of new data for the main predictor, encoded as in the fit, (n, p).

        Levels that the fit has not seen are an error that names them.

        Examples
        --------
        >>> import tvdbayes as tb
        >>> fit = tb.fit("visits ~ region", tb.example_data(), n_draws=0)
        >>> fit.encode({"region": ["south", "north"]})
        array([[1., 1.],
               [1., 0.]])
        """
        names, family = self.posterior.cells.names, self.posterior.model.family
        n_more = len(family.predictors) - family.n_main
        main = self.posterior.model.predictor.blocks(len(names), family.n_main, n_more)[0]
        return Design(self.encoding, {}, tuple(names[j] for j in main)).encode_rows(data)

    def predict(
        self,
        new: Data | None = None,
        kind: Literal["mean", "pmf", "outcome", "class"] = "mean",
        *,
        interval: float = 0.9,
        outcomes: Sequence[object] | None = None,
        seed: int | np.random.Generator | None = None,
        ordinary: bool = False,
        typical: bool = False,
    ) -> Any:
        """Predict rows of new data, or the rows of the fit.

        Parameters
        ----------
        new : data frame, dict of columns, or path, optional
            Rows with the columns of the formulas and those of offset, exposure and trials; their
            order, and further columns, do not matter. The rows of the fit unless given.
        kind : str
            "mean": the expected outcome, ``mean``, ``low`` and ``high``. "outcome": of a new
            outcome ``low``, ``median`` and ``high``, found by sampling. "pmf": the probability of
            each outcome, a column for each. "class": the most probable outcome, ``class``, and its
            ``probability``. Outcomes that are names have "pmf" and "class" only.
        interval : float
            Probability between ``low`` and ``high``, which cut off equal tails; an interval of
            outcomes may hold more.
        outcomes : sequence, optional
            For "pmf": the outcomes to list. By default all levels, or counts from 0 on until they
            hold 99% of the probability in every row.
        seed : int, optional
            For "outcome"; that of the fit unless given.
        ordinary : bool
            Whether to predict by the likelihood fit to the same random weights.
        typical : bool
            Whether columns that `new` lacks are at typical values of the fit's data: numbers at
            their mean; text, categories, trials, and numbers that are all 0 or 1, at the value that
            most rows have.

        Returns
        -------
        data frame
            One line for each row, in a frame of the library of `new`, or of the fit's data: polars
            for polars, pandas for what is no frame. A pandas frame has the index of `new`. Rows
            that the fit left out are NaN.

        Examples
        --------
        >>> import tvdbayes as tb
        >>> fit = tb.fit("visits ~ age + region", tb.example_data(), n_draws=50)
        >>> new = {"age": [2, 5], "region": ["north", "south"]}
        >>> fit.predict(new).round(1)  # the truth: 1.8 and 2.7
           mean  low  high
        0   1.7  1.6   1.9
        1   2.6  2.5   2.8
        >>> fit.predict(new, "outcome")  # where new visits will lie
           low  median  high
        0  0.0     2.0   4.0
        1  0.0     2.0   6.0
        >>> fit.predict(new, "pmf", outcomes=[0, 1, 2]).round(2)
              0     1     2
        0  0.18  0.31  0.26
        1  0.07  0.19  0.25
        >>> fit.predict({"age": [2, 5]}, typical=True)["mean"].round(1).tolist()  # most are south
        [1.0, 2.6]
        """
        if kind not in _KINDS:
            raise SettingsError(f"kind must be one of {', '.join(_KINDS)}; got {kind!r}.")
        if outcomes is not None and kind != "pmf":
            raise SettingsError(f'outcomes= goes with kind="pmf"; got kind={kind!r}. Leave it out.')
        seed = None if seed is None else seed_of("seed", seed)
        posterior = self._side(ordinary)
        family = posterior.model.family
        if family.levels and not family.binary and kind in ("mean", "outcome"):
            raise SettingsError(
                f"The outcomes of {family.name!r} are names ({', '.join(family.levels[:3])}, ...), "
                f'so there is no kind={kind!r} for them. Ask for kind="pmf", their probabilities, '
                'or kind="class", the most probable one.'
            )
        rows, kept, index, library = _asked(self, new, typical=typical)
        found: dict[Any, Any]
        match kind:
            case "mean":
                low, high = mean_interval(posterior, rows, interval).T
                found = {"mean": outcome_mean(posterior, rows), "low": low, "high": high}
            case "outcome":
                shares = np.array([*tails(posterior, interval), 0.5])
                low, high, median = outcome_quantiles(posterior, rows, shares, seed=seed).T
                found = {"low": low, "median": median, "high": high}
            case "pmf":
                found = _pmf(posterior, rows, outcomes)
            case "class":
                found = _class(posterior, rows)
        frame = pd.DataFrame(found, index=kept).reindex(range(len(index))).set_axis(index)
        return native_frame(frame, library)

    def sample(
        self,
        new: Data | None = None,
        *,
        n_draws: int | None = None,
        seed: int | np.random.Generator | None = None,
        ordinary: bool = False,
    ) -> Array:
        """New outcomes of rows, (B, n): the posterior predictive, one line for each draw.

        Outcomes that are names come as their numbers in ``posterior.model.family.levels``. Rows
        that the fit left out are NaN. Arguments are those of `predict`; `n_draws` takes the first
        draws, or, where there are fewer, all of them in turn.

        Examples
        --------
        How likely is a year with more than ten visits of two patients together?

        >>> import tvdbayes as tb
        >>> fit = tb.fit("visits ~ age + region", tb.example_data(), n_draws=50)
        >>> visits = fit.sample({"age": [4, 5], "region": ["north"] * 2}, n_draws=1000)
        >>> visits.shape
        (1000, 2)
        >>> print(f"{(visits.sum(axis=1) > 10).mean():.0%}")
        19%
        """
        seed = None if seed is None else seed_of("seed", seed)
        if n_draws is not None:
            whole_number("n_draws", n_draws, 1)
        rows, kept, index, _ = _asked(self, new)
        drawn = sample_outcomes(self._side(ordinary), rows, n_draws, seed=seed)
        if len(kept) == len(index):
            return drawn
        found = np.full((len(drawn), len(index)), np.nan)
        found[:, kept] = drawn
        return found


def new_cells(fit: AbstractFit, source: FrameSource) -> Cells:
    """Rows with outcomes as a table of cells, encoded and weighted as in the fit."""
    data, family = fit.data, fit.posterior.model.family
    outcome, sampling = data.outcome, SamplingColumns(weights=data.sampling_weights)
    _require_columns(
        {"weights": data.weights, "sampling_weights": data.sampling_weights}, source.columns
    )
    further = [*_further_columns(fit, source.columns), *sampling.used]
    used = [outcome, *fit.design.columns, *further]
    table = source.table(used, data.weights, "error")
    stand_for = sampling.rows_stood_for(table)
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
        weights=table.counts if stand_for is None else table.counts * stand_for,
        offset=rows.table.offset[at],
        trials=rows.table.trials[at],
        names=rows.table.names,
    )


def _asked(
    fit: AbstractFit, new: Data | None, *, typical: bool = False
) -> tuple[NewRows, IntArray, "pd.Index[Any]", Library]:
    """Rows that can be predicted, their places among all rows, what all are called, the library."""
    if new is None:
        require_rows(fit, "predictions without new rows")
        cells, kept = fit.posterior.cells, np.flatnonzero(fit.cell_of_row >= 0)
        rows = NewRows(cells, cells.x_index[fit.cell_of_row[kept]])
        return rows, kept, pd.RangeIndex(len(fit.cell_of_row)), fit.data.library
    source = open_data(new)
    native, n = source.native.to_native(), len(source.native)
    index = native.index if isinstance(native, pd.DataFrame) else pd.RangeIndex(n)
    seen = _filled(fit, source) if typical else source
    return read_rows(fit, seen), np.arange(n), index, source.library


def _filled(fit: AbstractFit, source: FrameSource) -> FrameSource:
    """New data with the columns that they lack, at typical values of the fit's data."""
    data = fit.data
    further = [name for name in (data.offset, data.exposure, data.trials) if isinstance(name, str)]
    lacking = [n for n in (*fit.design.columns, *further) if n not in source.columns]
    values: Any = {
        n: data.columns[n].typical(data.stands_for, whole=n == data.trials) for n in lacking
    }
    return open_frame(source.rows(source.columns).assign(**values))


def read_rows(fit: AbstractFit, source: FrameSource) -> NewRows:
    """Rows of new data as the model sees them, in the order of the input."""
    used, n = [*fit.design.columns, *_further_columns(fit, source.columns)], len(source.native)
    if used:
        return new_rows(fit, source.table(used, None, "error"))
    alike = Table(pd.DataFrame(index=[0]), np.array([n]), np.zeros(n, int), np.arange(n), n)
    return new_rows(fit, alike)


def _further_columns(fit: AbstractFit, columns: list[str]) -> list[str]:
    """Columns that the fit used beside its formulas, all of which new data must have."""
    data = fit.data
    return _require_columns(
        {"offset": data.offset, "exposure": data.exposure, "trials": data.trials}, columns
    )


def _require_columns(uses: dict[str, str | float | None], columns: list[str]) -> list[str]:
    """The columns among these, by their use; raise where new data lack one."""
    named = {use: name for use, name in uses.items() if isinstance(name, str)}
    for use, name in named.items():
        if name not in columns:
            raise DataError(
                f"The fit was made with {use}={name!r}, which is no column of the new data. "
                f"Columns: {', '.join(map(str, columns))}. Add it."
            )
    return list(named.values())


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
    if not family.levels:
        for name in names:
            if not (is_whole(name) or (isinstance(name, float) and name % 1 == 0)):
                raise SettingsError(f"Outcomes of {family.name!r} are whole numbers; got {name!r}.")
        return np.asarray(names, float)
    for name in names:
        if str(name) not in family.levels:
            raise SettingsError(
                f"There is no outcome {name!r}. The levels are {', '.join(family.levels)}."
            )
    return np.array([float(family.levels.index(str(name))) for name in names])
