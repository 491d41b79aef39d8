"""From a family's name and an outcome column to a family and numbers."""

import numpy as np
import pandas as pd

from tvdbayes._errors import DataError, FamilyError, SettingsError, listing
from tvdbayes._typing import Array
from tvdbayes.families import (
    COUNT_FAMILIES,
    AbstractFamily,
    AbstractLink,
    Bernoulli,
    BetaBinomial,
    Binomial,
    Categorical,
    Cloglog,
    Hurdle,
    Logit,
    Ordinal,
    Probit,
    ZeroInflated,
    ZeroTruncated,
)
from tvdbayes.frontends._columns import numbers, require_column

__all__ = ["law_and_outcome"]

_LINKS: dict[str, AbstractLink] = {"logit": Logit(), "probit": Probit(), "cloglog": Cloglog()}
_WITH_LOG = {law.name: law for law in COUNT_FAMILIES}
_WITH_LINK = {f.name: f for f in (Bernoulli, Binomial, BetaBinomial)}
_WRAPPERS = {f"{f.name}_": f for f in (ZeroInflated, Hurdle, ZeroTruncated)}
_BY_LEVELS = ("categorical", "ordinal")
_NAMES = (*_WITH_LOG, *_WITH_LINK, *_BY_LEVELS, *(f"{prefix}X" for prefix in _WRAPPERS))
_MOST_LEVELS = 100


def law_and_outcome(
    family: str | AbstractFamily, link: str | None, frame: pd.DataFrame, outcome: str
) -> tuple[AbstractFamily, Array]:
    """The family, with levels read from the data where it needs them, and the outcome (n,)."""
    if isinstance(family, str) and family in _BY_LEVELS:
        column = _outcome_column(frame, outcome)
        levels = _levels(column, ordered=family == "ordinal")
        if family == "categorical":
            if link not in (None, "logit"):
                raise FamilyError(f'The family "categorical" has the link "logit"; got {link!r}.')
            law: AbstractFamily = Categorical(tuple(map(str, levels)))
        else:
            law = Ordinal(tuple(map(str, levels)), _link(link))
        return law, _codes(column, law.levels)
    law = _family(family, link)
    if law.levels:
        return law, _codes(_outcome_column(frame, outcome), law.levels)
    return law, numbers(frame, outcome, "outcome")


def _family(family: str | AbstractFamily, link: str | None) -> AbstractFamily:
    if isinstance(family, AbstractFamily):
        if link is not None:
            raise SettingsError(
                f"link={link!r} goes with a family given by name; give {type(family).__name__} "
                "its own link instead."
            )
        return family
    if not isinstance(family, str):
        raise FamilyError(f"family must be a name or a family such as Poisson(); got {family!r}.")
    for prefix, wrapper in _WRAPPERS.items():
        if family.startswith(prefix):
            inside = _family(family.removeprefix(prefix), link)
            if not inside.counts:
                raise FamilyError(
                    f"{family!r}: {inside.name!r} is no family of counts. After {prefix!r} "
                    f"comes one of {', '.join((*_WITH_LOG, 'binomial', 'betabinomial'))}."
                )
            return wrapper(inside)
    if family in _WITH_LOG:
        if link not in (None, "log"):
            raise FamilyError(f'The family {family!r} has the link "log"; got {link!r}.')
        return _WITH_LOG[family]
    if family in _WITH_LINK:
        return _WITH_LINK[family](_link(link))
    raise FamilyError(f"There is no family {family!r}. Choose from {', '.join(_NAMES)}.")


def _link(link: str | None) -> AbstractLink:
    if link is not None and link not in _LINKS:
        raise SettingsError(f"There is no link {link!r}. Choose from {', '.join(_LINKS)}.")
    return _LINKS[link or "logit"]


def _outcome_column(frame: pd.DataFrame, outcome: str) -> pd.Series:
    require_column(frame, outcome, "outcome")
    column = frame[outcome]
    missing = column.isna().to_numpy()
    if missing.any():
        raise DataError(
            f"The outcome {outcome!r} must have no gaps; "
            f"{listing(missing, column.to_numpy(dtype=object), 'row')}. "
            "Drop or repair these rows first."
        )
    return column


def _levels(column: pd.Series, ordered: bool) -> list[object]:
    """The levels in order: as declared by a categorical column, else sorted."""
    if isinstance(column.dtype, pd.CategoricalDtype):
        if ordered and not column.dtype.ordered:
            raise DataError(
                f"The levels of {column.name!r} have no order. Make the column an ordered "
                "categorical, or name the levels from low to high: "
                'family=tb.Ordinal(("low", "middle", "high")).'
            )
        seen = set(column)
        levels = [level for level in column.dtype.categories if level in seen]
    else:
        levels = list(column.unique())
        text = [level for level in levels if isinstance(level, str)]
        if ordered and text:
            raise DataError(
                f"The outcome {column.name!r} is text ({text[0]!r}, ...), and its alphabetical "
                "order need not be the right one. Make it an ordered categorical or numbers, or "
                'name the levels from low to high: family=tb.Ordinal(("low", "middle", "high")).'
            )
        levels = sorted(levels, key=lambda level: (isinstance(level, str), level))
    if not 2 <= len(levels) <= _MOST_LEVELS:
        raise DataError(
            f"The outcome {column.name!r} has {len(levels)} different value(s); between 2 and "
            f"{_MOST_LEVELS} levels are needed."
        )
    return levels


def _codes(column: pd.Series, levels: tuple[str, ...]) -> Array:
    """The number of each row's level, found by its name."""
    known = {name: number for number, name in enumerate(levels)}
    # A column of whole floats, 1.0 and 2.0, is meant by the levels "1" and "2" too.
    whole = column.dtype.kind == "f" and bool((column == column.round()).all())
    names = [str(int(v)) if whole and str(v) not in known else str(v) for v in column]
    unknown = np.array([name not in known for name in names])
    if unknown.any():
        raise DataError(
            f"The outcome {column.name!r} must be one of {', '.join(levels[:10])}; "
            f"{listing(unknown, np.array(names, object), 'row')}."
        )
    return np.array([float(known[name]) for name in names])
