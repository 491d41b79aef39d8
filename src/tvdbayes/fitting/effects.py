"""Effects, contrasts and average predictions in the user's own columns."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any

import numpy as np
from formulaic.parser.types import Factor

from tvdbayes._errors import DataError, SettingsError
from tvdbayes._typing import Array, IntArray
from tvdbayes.data.fit_data import Column, FitData, plain_table
from tvdbayes.fitting.predictions import new_rows, outcome_numbers, posterior_of
from tvdbayes.fitting.record import Fit
from tvdbayes.fitting.slopes import row_slopes
from tvdbayes.formula.columns import offsets
from tvdbayes.formula.design import columns_of, encode_table
from tvdbayes.formula.names import column_of
from tvdbayes.results.effects import (
    Effect,
    Outcomes,
    average_outcome,
    average_slope,
    effect_of,
)
from tvdbayes.sampling.posterior import Posterior

__all__ = ["contrast", "effects", "predictions"]

_MOST_SETTINGS = 1_000


@dataclass(frozen=True, eq=False)
class _Question:
    """The data of a fit, averaged over, and what is averaged.

    Parameters
    ----------
    columns, counts
        Distinct rows of all columns but the outcome, and their weights.
    outcomes : tuple or None
        Numbers of the outcomes whose probabilities are meant; None is the expected outcome.
    labels : tuple of str
        What these are called behind a comma; one empty text for the expected outcome.
    """

    fit: Fit
    posterior: Posterior
    columns: dict[str, Column]
    counts: Array
    outcomes: Outcomes
    labels: tuple[str, ...]

    def setting(self, values: Mapping[str, object]) -> dict[str, Column]:
        """The columns, some of them set to one value in every row."""
        known = {name: self.column(name).set_to(value, name) for name, value in values.items()}
        return {**self.columns, **known}

    def average(self, values: Mapping[str, object]) -> Array:
        """Averages (2B + 2, K) with some columns set."""
        table = plain_table(self.setting(values), self.counts)
        rows = new_rows(self.fit, table)
        return average_outcome(self.posterior, rows, self.counts, self.outcomes)

    def column(self, name: object) -> Column:
        """A column that can be asked about, or an error that names those that can."""
        if not isinstance(name, str) or name not in self.columns:
            data = self.fit.data
            what = "is the outcome" if name == data.outcome else "is not among the columns"
            raise DataError(
                f"{name!r} {what} of {self.fit.formula!r}. Choose from "
                f"{', '.join(map(repr, self.columns)) or 'none: it has no covariates'}."
            )
        return self.columns[name]

    def effect(self, names: Iterable[str], values: Array, what: str) -> Effect:
        """The record; every name comes once for each label."""
        whole = tuple(name + label for name in names for label in self.labels)
        return effect_of(self.posterior, whole, values, what)

    def about(self, at: Mapping[str, object]) -> str:
        """What is averaged, and over what, in words."""
        outcome = self.fit.data.outcome
        quantity = f"expected {outcome}" if self.outcomes is None else f"probability of {outcome}"
        where = f", at {_setting(at)}" if at else ""
        return f"{quantity}, over {self.counts.sum():,.12g} rows{where}"


def effects(
    fit: Fit, variable: str, *, at: Mapping[str, object] | None, outcome: object, ordinary: bool
) -> Effect:
    """See `Fit.effects`."""
    ask, at = _question(fit, outcome, ordinary), _mapping(at)
    levels = _levels(fit, variable, ask.column(variable))
    if levels is None:
        values = _average_slope(ask, variable, at)
        return ask.effect([variable], values, f"Average slope in {variable} of {ask.about(at)}.")
    _require_free(variable, at)
    if len(levels) < 2:
        raise DataError(f"{variable!r} has one value only, {levels[0]!r}: nothing to compare.")
    base, *others = (ask.average({**at, variable: level}) for level in levels)
    first, *rest = map(_word, levels)
    return ask.effect(
        [f"{variable}: {other} - {first}" for other in rest],
        np.concatenate([other - base for other in others], axis=1),
        f"Average difference between levels of {variable} in {ask.about(at)}.",
    )


def contrast(
    fit: Fit,
    variable: str,
    a: object,
    b: object,
    *,
    at: Mapping[str, object] | None,
    ratio: bool,
    outcome: object,
    ordinary: bool,
) -> Effect:
    """See `Fit.contrast`."""
    ask, at = _question(fit, outcome, ordinary), _mapping(at)
    ask.column(variable)
    _require_free(variable, at)
    first, second = (ask.average({**at, variable: value}) for value in (a, b))
    if ratio and (second == 0).any():
        raise DataError(
            f"There is no ratio: with {variable} set to {_word(b)} the average is 0 in some draws. "
            "Leave ratio= out for the difference."
        )
    sign, word = ("/", "Ratio of averages") if ratio else ("-", "Average difference")
    return ask.effect(
        [f"{variable}: {_word(a)} {sign} {_word(b)}"],
        first / second if ratio else first - second,
        f"{word} between two values of {variable} in {ask.about(at)}.",
    )


def predictions(
    fit: Fit, at: Mapping[str, object] | None, *, outcome: object, ordinary: bool
) -> Effect:
    """See `Fit.predictions`."""
    ask = _question(fit, outcome, ordinary)
    lists = {name: _list(values) for name, values in _mapping(at).items()}
    n_settings = prod(len(values) for values in lists.values())
    if n_settings > _MOST_SETTINGS:
        raise SettingsError(
            f"at= asks for {n_settings:,} combinations; at most {_MOST_SETTINGS:,} are averaged. "
            "Give fewer values."
        )
    settings = [dict(zip(lists, one, strict=True)) for one in product(*lists.values())]
    return ask.effect(
        [_setting(one) or "as in the data" for one in settings],
        np.concatenate([ask.average(one) for one in settings], axis=1),
        f"Average {ask.about({})}.",
    )


def _question(fit: Fit, outcome: object, ordinary: bool) -> _Question:
    data, posterior = fit.data, posterior_of(fit, ordinary)
    family = posterior.model.family
    names = list(family.levels) if outcome is None else [outcome]
    outcomes = tuple(outcome_numbers(family, names).tolist()) if names else None
    labels = tuple(f", P({_word(name)})" for name in names) or ("",)
    columns, counts = data.distinct(_used(fit, data))
    return _Question(fit, posterior, columns, counts, outcomes, labels)


def _used(fit: Fit, data: FitData) -> list[str]:
    """Columns of the formulas, then those of offset, exposure and trials."""
    further = [name for name in (data.offset, data.exposure, data.trials) if isinstance(name, str)]
    return list(dict.fromkeys([*columns_of(fit.encodings), *further]))


def _average_slope(ask: _Question, variable: str, at: Mapping[str, object]) -> Array:
    """The average derivative in a column of numbers, through every term that it is part of."""
    fit, data = ask.fit, ask.fit.data
    if variable == data.trials:
        raise DataError(
            f"{variable!r} counts the trials, which have no slope. Ask for a contrast of two "
            "numbers of trials."
        )
    columns = ask.setting(at)

    def encoded(values: Array, rows: IntArray) -> Array:
        moved = {name: column.take(rows) for name, column in columns.items()}
        moved[variable] = Column("number", values)
        table = plain_table(moved, ask.counts[rows])
        x = encode_table(fit.encodings, fit.posterior.cells.names, table)
        offset = offsets(table, data.offset, data.exposure)
        return np.column_stack([x, np.zeros(len(rows)) if offset is None else offset])

    x, seen = (np.asarray(c.values, float) for c in (columns[variable], ask.columns[variable]))
    # Splines refuse what lies outside of the data, so nothing is asked for there.
    low, high, spread = min(x.min(), seen.min()), max(x.max(), seen.max()), float(seen.std())
    if spread == 0:
        low, high, spread = -np.inf, np.inf, max(1.0, abs(x[0]))
    change = row_slopes(encoded, x, spread, (low, high))
    wrong = np.isnan(change).any(axis=0)
    if wrong.any():
        term = (*fit.posterior.cells.names, "the offset")[int(wrong.argmax())]
        where = x[np.isnan(change).any(axis=1)][0]
        raise DataError(
            f"{term!r} has no finite slope in {variable!r} where that is {where:g}. Set it to "
            f"another value with at={{{variable!r}: ...}}, or ask for a contrast of two values."
        )
    rows = new_rows(fit, plain_table(columns, ask.counts))
    return average_slope(ask.posterior, rows, ask.counts, change, ask.outcomes)


def _levels(fit: Fit, name: str, column: Column) -> tuple[object, ...] | None:
    """The values that are compared with the first; None where the column is one of numbers."""
    if column.kind != "number":
        return column.choices
    for spec in fit.encodings:
        for entry in spec.structure:
            for factor in (f.factor for term in entry.scoped_terms for f in term.factors):
                kind, _ = spec.encoder_state.get(factor.expr, (None, None))
                if kind is Factor.Kind.CATEGORICAL and name in map(
                    column_of, map(str, factor.variables or ())
                ):
                    return tuple(np.unique(column.values).tolist())
    return None


def _mapping(at: object) -> dict[str, Any]:
    if at is None:
        return {}
    if not isinstance(at, Mapping):
        raise SettingsError(f'at must be a dict such as {{"age": 40}}; got {at!r}.')
    return dict(at)


def _require_free(variable: str, at: Mapping[str, object]) -> None:
    if variable in at:
        raise SettingsError(
            f"{variable!r} is what is compared, so at= cannot set it. Leave it out of at=."
        )


def _list(values: Any) -> list[object]:
    found = [values] if np.ndim(values) == 0 else list(values)
    if not found:
        raise SettingsError("A column in at= needs at least one value; got an empty list.")
    return found


def _word(value: object) -> str:
    """A value as names have it: whole numbers without decimals."""
    number = isinstance(value, float | np.floating)
    return f"{value:.12g}" if number else str(value)


def _setting(values: Mapping[str, object]) -> str:
    return ", ".join(f"{name}={_word(value)}" for name, value in values.items())
