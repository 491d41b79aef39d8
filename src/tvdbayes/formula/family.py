"""The family by its name, and the outcome column as numbers."""

import numpy as np
import pandas as pd

from tvdbayes._errors import DataError, FamilyError, SettingsError
from tvdbayes._typing import Array
from tvdbayes.data.table import Table
from tvdbayes.formula.columns import numbers, refuse_slips
from tvdbayes.models.families import (
    COUNT_FAMILIES,
    INSIDE,
    LINKED_FAMILIES,
    WRAPPERS,
    AbstractFamily,
    AbstractLink,
    Categorical,
    Ordinal,
)
from tvdbayes.models.named import LINKS

_WITH_LOG = {family.name: family for family in COUNT_FAMILIES}
_WITH_LINK = {family.name: family for family in LINKED_FAMILIES}
_WRAPPERS = {f"{family.name}_": family for family in WRAPPERS}
_BY_LEVELS = (Categorical.name, Ordinal.name)
_NAMES = (*_WITH_LOG, *_WITH_LINK, *_BY_LEVELS, *(f"{prefix}X" for prefix in _WRAPPERS))
_MOST_LEVELS = 100
"""An outcome with more levels than this is likely a number or an identifier."""


def family_and_outcome(
    family: str | AbstractFamily, link: str | None, table: Table, outcome: str
) -> tuple[AbstractFamily, Array]:
    """The family, with levels read from the data where it needs them, and the outcome."""
    column = table.frame[outcome]
    if isinstance(family, str) and family in _BY_LEVELS:
        kind, some = family.capitalize(), ", ".join(map(repr, column.unique()[:2].tolist()))
        refuse_slips(
            table,
            outcome,
            f"If they are levels, name all of them: family=tb.{kind}(({some}, ...)).",
        )
        levels = _levels(column, ordered=family == "ordinal")
        if family == "categorical":
            if link not in (None, "logit"):
                raise FamilyError(f'The family "categorical" has the link "logit"; got {link!r}.')
            found: AbstractFamily = Categorical(levels)
        else:
            found = Ordinal(levels, _link(link))
        return found, codes(table, outcome, found.levels)
    found = family_by_name(family, link)
    if found.levels:
        return found, codes(table, outcome, found.levels)
    return found, numbers(table, outcome)


def family_by_name(family: str | AbstractFamily, link: str | None) -> AbstractFamily:
    """The family of a name such as "zero_inflated_poisson", with the link; or the family itself."""
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
            name = family.removeprefix(prefix)
            if name not in INSIDE:
                raise FamilyError(
                    f"There is no family {family!r}: {name!r} is not a plain family of counts. "
                    f"After {prefix!r} comes one of {', '.join(INSIDE)}."
                )
            return wrapper(family_by_name(name, link))
    if family in _WITH_LOG:
        if link not in (None, "log"):
            raise FamilyError(f'The family {family!r} has the link "log"; got {link!r}.')
        return _WITH_LOG[family]
    if family in _WITH_LINK:
        return _WITH_LINK[family](_link(link))
    raise FamilyError(f"There is no family {family!r}. Choose from {', '.join(_NAMES)}.")


def _link(link: str | None) -> AbstractLink:
    if link is not None and link not in LINKS:
        raise SettingsError(f"There is no link {link!r}. Choose from {', '.join(LINKS)}.")
    return LINKS[link or "logit"]


def _levels(column: pd.Series, ordered: bool) -> tuple[str, ...]:
    """Names of the levels in order: as declared by a categorical column, else sorted."""
    if isinstance(column.dtype, pd.CategoricalDtype):
        if ordered and not column.dtype.ordered:
            raise DataError(
                f"The levels of {column.name!r} have no order. Make the column an ordered "
                "categorical, or name the levels from low to high: "
                'family=tb.Ordinal(("low", "middle", "high")).'
            )
        levels = column.cat.remove_unused_categories().cat.categories.tolist()
    else:
        levels = sorted(column.unique().tolist())
        if ordered and isinstance(levels[0], str):
            raise DataError(
                f"The outcome {column.name!r} is text ({levels[0]!r}, ...), and its alphabetical "
                "order need not be the right one. Make it an ordered categorical or numbers, or "
                'name the levels from low to high: family=tb.Ordinal(("low", "middle", "high")).'
            )
    if not 2 <= len(levels) <= _MOST_LEVELS:
        raise DataError(
            f"The outcome {column.name!r} has {len(levels)} different value(s); between 2 and "
            f"{_MOST_LEVELS} levels are needed."
        )
    names = tuple(_name(level) for level in levels)
    if len(set(names)) < len(names):
        raise DataError(f"Two levels of {column.name!r} read the same: {', '.join(names)}.")
    return names


def _name(level: object) -> str:
    """What a level is called; whole numbers have no decimals, whatever their type."""
    if isinstance(level, float) and level.is_integer():
        return str(int(level))
    return str(level)


def codes(table: Table, outcome: str, levels: tuple[str, ...], *, all_seen: bool = True) -> Array:
    """The number of each row's level, found by its name; a fit must have seen all of them."""
    column = table.frame[outcome]
    known = {name: number for number, name in enumerate(levels)}
    names = [_name(value) for value in column.tolist()]
    unknown = np.array([name not in known for name in names])
    if unknown.any():
        raise DataError(
            f"The outcome {column.name!r} must be one of {', '.join(levels[:10])}; "
            f"{table.listing(unknown, names)}."
        )
    unseen = set(levels) - set(names)
    if unseen and all_seen:
        raise DataError(
            f"No row of {column.name!r} is {sorted(unseen)[0]!r}, so nothing can be said of it. "
            "Leave this level out of the family."
        )
    return np.array([float(known[name]) for name in names])
