"""Effects, contrasts and average predictions in the user's own columns."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from math import prod
from typing import Any

import numpy as np
from formulaic.parser.types import Factor

from tvdbayes._errors import DataError, SettingsError
from tvdbayes._typing import Array, IntArray
from tvdbayes.data.cells import amount
from tvdbayes.data.fit_data import Column, plain_table
from tvdbayes.fitting.predictions import outcome_numbers
from tvdbayes.formula.columns import offsets
from tvdbayes.formula.matrix import column_of
from tvdbayes.report import covariates
from tvdbayes.results.base import AbstractFit, new_rows
from tvdbayes.results.effects import Effect, Outcomes, average_outcome, average_slope, row_slopes
from tvdbayes.sampling.posterior import Posterior

_MOST_SETTINGS = 1_000
"""Combinations of values, each of which averages over all rows."""


@dataclass(frozen=True, eq=False)
class _Question:
    """The data of a fit, averaged over, and what is averaged.

    `columns` and `counts` are the distinct rows of all columns but the outcome, and their weights;
    `outcomes` the numbers of the outcomes whose probabilities are meant, None for the expected
    outcome; `labels` what these are called behind a comma, one empty text for the expected outcome.
    """

    fit: AbstractFit
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
        """The record of values (2B + 2, K); every name comes once for each label."""
        whole, b = tuple(name + label for name in names for label in self.labels), len(values) // 2
        points = values[-2], values[-1], what
        return Effect(whole, values[: b - 1], values[b - 1 : -2], *points, self.fit.data.library)

    def about(self, at: Mapping[str, object]) -> str:
        """What is averaged, and over what, in words."""
        where = f", at {_setting(at)}" if at else ""
        return f"{self.quantity}, over {amount(self.counts.sum())} rows{where}"

    @property
    def quantity(self) -> str:
        """What is averaged, in words."""
        outcome = self.fit.data.outcome
        return f"expected {outcome}" if self.outcomes is None else f"probability of {outcome}"

    def typical(self, but: Iterable[str]) -> dict[str, object]:
        """Typical values of all columns but these."""
        trials = self.fit.data.trials
        return {
            name: column.typical(self.counts, whole=name == trials)
            for name, column in self.columns.items()
            if name not in but
        }


class EffectAnswers(AbstractFit):
    """Methods of `Fit` on averages over the rows of the data."""

    @cached_property
    def _covariate_rows(self) -> tuple[dict[str, Column], Array]:
        """Distinct rows of all columns in use but the outcome, and their weights."""
        uses = (self.data.offset, self.data.exposure, self.data.trials)
        further = [name for name in uses if isinstance(name, str)]
        return self.data.distinct(dict.fromkeys([*self.design.columns, *further]))

    def effects(
        self,
        variable: str | None = None,
        *,
        at: Mapping[str, object] | None = None,
        outcome: object = None,
        ordinary: bool = False,
    ) -> Effect:
        """Average effect of a column on the expected outcome, or of every column.

        For a column of numbers it is the slope: the derivative in that column, through every term
        and predictor that it is part of, averaged over the rows of the data. For any other column
        (and for numbers that are 0 and 1, or that the formula takes as categories) it is the
        difference between each level and the first, every row taken at both.

        Parameters
        ----------
        variable : str, optional
            A column of the data, not a term of the formula. Unless given, all that the formulas
            name, one after the other, as ``margins, dydx(*)`` in Stata; levels that `at` sets are
            not compared.
        at : dict, optional
            Columns to set before averaging, such as ``{"region": "north", "age": 40}``. All others
            stay as they are in the data, offset, exposure and trials included.
        outcome : optional
            An outcome whose probability is meant in place of the expected outcome. By default each
            level in turn, where outcomes are names.
        ordinary : bool
            Whether to take the likelihood fit in place of the robust draws.

        Examples
        --------
        >>> import tvdbayes as tb
        >>> fit = tb.fit("visits ~ age + region", tb.example_data(), n_draws=50)
        >>> fit.effects("age").estimate.round(1)  # visits for a year more
        array([0.8])
        >>> found = fit.effects("region", at={"age": 5})
        >>> found.names, found.estimate.round(1)
        (('region: south - north',), array([-1.9]))
        >>> fit.effects().names
        ('age', 'region: south - north')
        """
        ask, at = _question(self, self._side(ordinary), outcome), _mapping(at)
        if variable is None:
            return _every_effect(ask, at)
        ask.column(variable)
        levels = levels_of_column(self, variable)
        if levels is None:
            what = f"Average slope in {variable} of {ask.about(at)}."
            return ask.effect([variable], _average_slope(ask, variable, at), what)
        what = f"Average difference between levels of {variable} in {ask.about(at)}."
        return ask.effect(*_differences(ask, variable, levels, at), what)

    def contrast(
        self,
        variable: str,
        a: object,
        b: object,
        *,
        at: Mapping[str, object] | None = None,
        ratio: bool = False,
        outcome: object = None,
        ordinary: bool = False,
    ) -> Effect:
        """Average expected outcome with a column set to `a`, minus that with `b`, or their ratio.

        The other arguments are those of `effects`.

        Examples
        --------
        >>> import tvdbayes as tb
        >>> fit = tb.fit("visits ~ age + region", tb.example_data(), n_draws=50)
        >>> found = fit.contrast("age", 5, 2, ratio=True)
        >>> found.names, found.estimate.round(1)  # the truth: exp(0.9) = 2.5
        (('age: 5 / 2',), array([2.6]))
        """
        ask, at = _question(self, self._side(ordinary), outcome), _mapping(at)
        ask.column(variable)
        _require_free(variable, at)
        first, second = (ask.average({**at, variable: value}) for value in (a, b))
        if ratio and (second == 0).any():
            raise DataError(
                f"There is no ratio: with {variable} set to {_word(b)} the average is 0 in some "
                "draws. Leave ratio= out for the difference."
            )
        sign, word = ("/", "Ratio of averages") if ratio else ("-", "Average difference")
        return ask.effect(
            [f"{variable}: {_word(a)} {sign} {_word(b)}"],
            first / second if ratio else first - second,
            f"{word} between two values of {variable} in {ask.about(at)}.",
        )

    def predictions(
        self,
        at: Mapping[str, object] | None = None,
        *,
        outcome: object = None,
        ordinary: bool = False,
        typical: bool = False,
    ) -> Effect:
        """Average expected outcome over the data, some columns set to each of some values.

        Parameters
        ----------
        at : dict, optional
            Values by column, ``{"age": [20, 40, 60], "region": ["a", "b"]}``; every combination
            gives an average. None leaves the data as they are.
        outcome, ordinary
            As in `effects`.
        typical : bool
            Whether all other columns are at typical values (see `predict`), as in a reference grid:
            then there is one row, and no average.

        Examples
        --------
        >>> import tvdbayes as tb
        >>> fit = tb.fit("visits ~ age + region", tb.example_data(), n_draws=50)
        >>> found = fit.predictions({"age": [2, 5]})
        >>> found.names, found.estimate.round(1)
        (('age=2', 'age=5'), array([1.4, 3.5]))

        And the probability of no visit at all:

        >>> fit.predictions({"age": [2, 5]}, outcome=0).estimate.round(2)
        array([0.27, 0.04])
        >>> found = fit.predictions({"age": [2, 5]}, typical=True)
        >>> found.what
        'Expected visits, at region=south.'
        """
        ask = _question(self, self._side(ordinary), outcome)
        lists = {name: _list(values) for name, values in _mapping(at).items()}
        n_settings = prod(len(values) for values in lists.values())
        if n_settings > _MOST_SETTINGS:
            raise SettingsError(
                f"at= asks for {n_settings:,} combinations; at most {_MOST_SETTINGS:,} are "
                "averaged. Give fewer values."
            )
        settings = [dict(zip(lists, one, strict=True)) for one in product(*lists.values())]
        others, rest = ask.typical(lists) if typical else {}, "as in the data"
        what = f"Average {ask.about({})}."
        if typical:
            rest, where = "typical", f", at {_setting(others)}" if others else ""
            what = f"{ask.quantity[0].upper()}{ask.quantity[1:]}{where}."
        return ask.effect(
            [_setting(one) or rest for one in settings],
            np.concatenate([ask.average({**others, **one}) for one in settings], axis=1),
            what,
        )


def _question(fit: EffectAnswers, posterior: Posterior, outcome: object) -> _Question:
    family = posterior.model.family
    # The mean of a yes/no answer is the probability of a yes.
    levels = () if family.binary else family.levels
    names = list(levels) if outcome is None else [outcome]
    outcomes = tuple(outcome_numbers(family, names).tolist()) if names else None
    labels = tuple(f", P({_word(name)})" for name in names) or ("",)
    return _Question(fit, posterior, *fit._covariate_rows, outcomes, labels)


def _every_effect(ask: _Question, at: Mapping[str, object]) -> Effect:
    """The effects of all covariates, in the order of the formula."""
    names: list[str] = []
    values: list[Array] = []
    for variable in covariates(ask.fit.data, ask.fit.formula):
        levels = levels_of_column(ask.fit, variable)
        if levels is None:
            names.append(variable)
            values.append(_average_slope(ask, variable, at))
        elif variable not in at:
            own, differences = _differences(ask, variable, levels, at)
            names += own
            values.append(differences)
    if not names:
        raise DataError(f"{ask.fit.formula!r} has no covariates whose effect could be asked for.")
    what = (
        f"Average effects on {ask.about(at)}: slopes in numbers, elsewhere differences from the "
        "first level."
    )
    return ask.effect(names, np.concatenate(values, axis=1), what)


def _differences(
    ask: _Question, variable: str, levels: tuple[object, ...], at: Mapping[str, object]
) -> tuple[list[str], Array]:
    """Differences between each level of a column and the first, with their names."""
    _require_free(variable, at)
    if len(levels) < 2:
        raise DataError(f"{variable!r} has one value only, {levels[0]!r}: nothing to compare.")
    base, *others = (ask.average({**at, variable: level}) for level in levels)
    first, *rest = map(_word, levels)
    names = [f"{variable}: {other} - {first}" for other in rest]
    return names, np.concatenate([other - base for other in others], axis=1)


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
        x = fit.design.encode(table)
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


def levels_of_column(fit: AbstractFit, name: str) -> tuple[object, ...] | None:
    """The values that are compared with the first; None where the column is one of numbers."""
    column = fit.data.columns[name]
    if column.kind != "number":
        return column.choices
    if column.is_flag:
        return (0, 1)
    for spec in fit.design.encodings:
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
