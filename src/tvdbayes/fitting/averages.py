"""Average predictions and slopes of every covariate, as a report shows them."""

import re

import numpy as np

from tvdbayes._errors import DataError
from tvdbayes.data.fit_data import FitData
from tvdbayes.fitting.effects import EffectAnswers
from tvdbayes.report import Averages, covariates, listed

__all__ = ["averages_of"]

_MOST_VARIABLES, _MOST_LEVELS = 12, 12
_FEW_VALUES = 8
"""Values of a column of numbers up to which each has a prediction of its own."""

_MOST_WORK = 1e8
"""Means of rows, draw by draw, that predictions may take: about two seconds."""


def averages_of(fit: EffectAnswers) -> Averages:
    """Averages over the data, a column set to each of its values, and slopes in numbers."""
    data, family = fit.data, fit.posterior.model.family
    levels, slopes, notes, skipped = [fit.predictions()], [], list[str](), list[str]()
    each = fit.posterior.cells.n_x * (2 * fit.posterior.n_draws + 2) * max(1, len(family.levels))
    left, columns = _MOST_WORK, covariates(data, fit.formula)
    for name in columns:
        is_factor, values = _values(data, name, fit.formula)
        left -= each * max(1, len(values))
        if name in columns[_MOST_VARIABLES:] or len(values) > _MOST_LEVELS or left < 0:
            skipped.append(name)
            continue
        try:
            if values:
                levels.append(fit.predictions({name: values}))
            if not is_factor:
                slopes.append(fit.effects(name))
        except DataError as error:
            # A slope need not exist, as that of log(x) at 0: the page says so.
            notes.append(f"{name}: {error}")
    if skipped:
        notes.append(
            f"Not shown here, for time and room: {listed(skipped)}. Ask fit.predictions or "
            "fit.effects for them."
        )
    quantity = f"probability of {data.outcome}" if family.levels else f"expected {data.outcome}"
    if family.binary and not family.levels:
        quantity = f"probability of {data.outcome} = 1"
    return Averages(quantity, tuple(levels), tuple(slopes), tuple(notes))


def _values(data: FitData, name: str, formula: str) -> tuple[bool, list[object]]:
    """Whether a column is one of categories, and the values that each have a prediction."""
    column = data.columns[name]
    # The formula may take a column of numbers as categories.
    coded = re.search(rf"\bC\(\s*`?{re.escape(name)}`?\s*[,)]", formula) is not None
    is_factor = bool(column.choices) or coded
    values = list(column.choices) or np.unique(column.values).tolist()
    return is_factor, values if is_factor or len(values) <= _FEW_VALUES else []
