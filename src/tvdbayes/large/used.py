"""The columns of the data that a fit to rows on a cluster uses, and what for."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from tvdbayes._errors import DataError
from tvdbayes._validate import no_column
from tvdbayes.data.table import Table
from tvdbayes.formula.columns import require_name, require_trials, trials_of
from tvdbayes.formula.guard import calculated_with, categories_in, not_by_category, read_formula
from tvdbayes.models.families import AbstractFamily


@dataclass(frozen=True)
class Used:
    """The columns in use, and what for.

    The values of those in `levels` must all be known. Terms calculate with those in `calculated`,
    and use those in `uncoded` in some other way than by C.
    """

    outcome: str
    terms: tuple[str, ...]
    levels: frozenset[str]
    calculated: frozenset[str]
    uncoded: frozenset[str]
    offset: str | None
    exposure: str | None
    trials: str | float | None
    weights: str | None

    @property
    def columns(self) -> list[str]:
        """Each once."""
        trials = self.trials if isinstance(self.trials, str) else None
        more = (self.offset, self.exposure, trials, self.weights)
        named = [self.outcome, *self.terms, *(name for name in more if name is not None)]
        return list(dict.fromkeys(named))

    @property
    def numbers(self) -> list[str]:
        """The columns that must hold numbers."""
        more = self.calculated
        return [name for name in self.columns if name not in self.terms or name in more]


def columns_in_use(
    formula: str,
    columns: list[str],
    law: AbstractFamily,
    trials: str | int | None,
    options: dict[str, str | None],
) -> Used:
    """Read the formula, and name the columns that it and the options use."""
    reading = read_formula(formula, columns)
    asked = reading.once("trials", trials)
    named = {name: reading.once(name, options[name]) for name in ("offset", "exposure")}
    options = {**options, **named}
    for option, name in options.items():
        require_name(name, option)
    if asked is not None:
        require_trials(asked)
    if not (law.needs_trials and isinstance(asked, str)):
        # No row is needed to see that these are missing, or out of place.
        none = np.zeros(0, np.intp)
        trials_of(Table(pd.DataFrame(), np.ones(0), none, none, 0), asked, law)
    for given in (asked, *options.values()):
        if isinstance(given, str) and given not in columns:
            raise DataError(no_column(given, columns))
    levels = categories_in(reading.terms) | ({asked} if isinstance(asked, str) else set())
    return Used(
        reading.outcome,
        reading.columns,
        levels,
        frozenset(calculated_with(reading.terms)),
        not_by_category(reading.terms),
        trials=asked,
        **options,
    )
