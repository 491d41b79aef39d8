"""Columns of a table as the numbers of a model: outcome (and family), trials, offsets."""

import numpy as np
import pandas as pd

from tvdbayes._errors import DataError, FamilyError, SettingsError
from tvdbayes._typing import Array
from tvdbayes._validate import bad_exposure, did_you_mean, is_number, level_name, not_numbers
from tvdbayes.data.table import Table, mostly_numbers, no_numbers
from tvdbayes.formula.family_names import other_name
from tvdbayes.models.families import (
    COUNT_FAMILIES,
    INSIDE,
    LINKED_FAMILIES,
    WRAPPERS,
    AbstractFamily,
    AbstractLink,
    Bernoulli,
    Binomial,
    Categorical,
    Ordinal,
)
from tvdbayes.models.model import LINKS


def numbers(table: Table, name: str) -> Array:
    """A column of numbers, one for each distinct row."""
    require_numbers(table, name)
    return table.frame[name].to_numpy(dtype=float)


def holds_numbers(column: pd.Series) -> bool:
    """Whether a column holds numbers or truth values."""
    return getattr(column.dtype, "kind", "O") in "biuf"


def require_numbers(table: Table, name: str, where: str = "") -> None:
    """Raise unless a column holds numbers, and name the first cell that does not."""
    column = table.frame[name]
    if holds_numbers(column):
        return
    wrong = no_numbers(column)
    found = (
        f"{table.listing(wrong, column)}. Repair these cells, or convert the column first."
        if wrong.any()
        else f"got numbers written as text (first: {column.iloc[0]!r}). Convert it first."
    )
    raise not_numbers(name, found, where)


def refuse_slips(table: Table, name: str, on_purpose: str) -> None:
    """Raise where a column is text because of a few cells.

    `on_purpose` tells users how to make it a category if it is one.
    """
    column = table.frame[name]
    if holds_numbers(column) or isinstance(column.dtype, pd.CategoricalDtype):
        return
    if mostly_numbers(column.unique()):
        raise DataError(
            f"Values of {name!r} are numbers in the main; "
            f"{table.listing(no_numbers(column), column)}. Repair these cells, or empty them and "
            f'pass missing="drop" to leave their rows out. {on_purpose}'
        )


def trials_of(table: Table, trials: str | float | None, family: AbstractFamily) -> Array:
    """Trials of the distinct rows, 1 for families that have none."""
    if trials is None:
        if family.needs_trials:
            raise FamilyError(
                f"The family {family.name!r} needs trials=, a column or a number; it is never "
                'guessed from the data. For 0/1 outcomes use family="bernoulli".'
            )
        return np.ones(len(table.frame))
    if not family.needs_trials:
        raise SettingsError(
            f"The family {family.name!r} has no trials; got trials={trials!r}. "
            'Leave it out, or use family="binomial".'
        )
    if is_number(trials):
        try:
            return np.full(len(table.frame), float(trials))
        except OverflowError as error:
            raise FamilyError("Trials must be below 2**53. Check trials=.") from error
    return numbers(table, str(trials))


def offsets(table: Table, offset: str | None, exposure: str | None) -> Array | None:
    """The offset of the linear predictor, for the distinct rows."""
    if exposure is None:
        return None if offset is None else numbers(table, offset)
    time = numbers(table, exposure)
    if (time <= 0).any():
        raise bad_exposure(exposure, table.listing(time <= 0, time))
    return np.log(time) if offset is None else np.log(time) + numbers(table, offset)


def require_one_predictor(family: AbstractFamily) -> None:
    """Raise where a family has several main predictors, so that nothing can be added to one."""
    if family.n_main > 1:
        raise SettingsError(
            f"The family {family.name!r} has a predictor for each level, so an offset or exposure "
            "has no place in it. Leave it out, or use it as a covariate."
        )


_WITH_LOG = {family.name: family for family in COUNT_FAMILIES}
_WITH_LINK = {family.name: family for family in LINKED_FAMILIES}
_WRAPPERS = {f"{family.name}_": family for family in WRAPPERS}
BY_LEVELS = (Categorical.name, Ordinal.name)
_NAMES = (*_WITH_LOG, *_WITH_LINK, *BY_LEVELS, *(f"{prefix}X" for prefix in _WRAPPERS))
_WRITTEN = frozenset((*_NAMES, *(f"{prefix}{law}" for prefix in _WRAPPERS for law in INSIDE)))
_MOST_LEVELS = 100
"""An outcome with more levels than this is likely a number or an identifier."""


def family_and_outcome(
    family: str | AbstractFamily,
    link: str | None,
    table: Table,
    outcome: str,
    *,
    trials: str | float | None = None,
    success: str | None = None,
) -> tuple[AbstractFamily, Array]:
    """The family, with levels read from the data where it needs them, and the outcome."""
    column = table.frame[outcome]
    family, link = named_here(family, link)
    if family == Binomial.name and trials is None and _is_yes_or_no(column):
        # As in other packages: a yes/no answer is one trial.
        family = Bernoulli.name
    if isinstance(family, str) and family in BY_LEVELS:
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
    if found.binary and not found.levels:
        found = found.with_answers(_answers(table, outcome, success))
    elif success is not None:
        raise SettingsError(
            f"The family {found.name!r} has no answers, one of which success= could name; got "
            f'{success!r}. Leave it out, or use family="bernoulli".'
        )
    if found.levels:
        return found, codes(table, outcome, found.levels)
    return found, numbers(table, outcome)


def _is_yes_or_no(column: pd.Series) -> bool:
    """Whether a column holds truth values, 0 and 1, or two names."""
    values = column.unique()
    return bool(np.isin(values, (0, 1)).all()) if holds_numbers(column) else len(values) == 2


def _answers(table: Table, outcome: str, success: str | None) -> tuple[str, ...]:
    """What the outcomes 0 and 1 are called; empty for numbers that are 0 and 1 themselves.

    The second in the order of the data is 1, unless ``success=`` names the other.
    """
    column = table.frame[outcome]
    values = column.unique()
    if success is None and holds_numbers(column):
        if len(values) == 2 and not _is_yes_or_no(column):
            names = [level_name(value) for value in sorted(values.tolist())]
            raise FamilyError(
                f"The outcome {outcome!r} is {names[0]} or {names[1]}, not 0 or 1. Name the "
                f"answer that counts as 1: success={names[1]}."
            )
        return ()
    if success is None:
        refuse_slips(table, outcome, "If these are two answers, name one by success=.")
    if len(values) != 2:
        shown = ", ".join(repr(level_name(value)) for value in values[:5].tolist())
        raise DataError(
            f"A yes/no outcome has two different values; {outcome!r} has {len(values):,}: "
            f'{shown}{", ..." if len(values) > 5 else ""}. Repair it, or use family="categorical".'
        )
    first, second = _levels(column, ordered=False)
    if success not in (None, first, second):
        raise SettingsError(
            f"No row of {outcome!r} is {success!r}.{did_you_mean(success, (first, second))} "
            f"success= is {first!r} or {second!r}."
        )
    return (second, first) if success == first else (first, second)


def named_here(
    family: str | AbstractFamily, link: str | None
) -> tuple[str | AbstractFamily, str | None]:
    """A family by the name that it has here, and the link; other packages have further names."""
    if not isinstance(family, str) or family in _WRITTEN:
        return family, link
    found, implied = other_name(family, _NAMES)
    if link is not None and implied is not None and link != implied:
        raise SettingsError(
            f"family={family!r} has the link {implied!r}; got link={link!r}. Leave one of them out."
        )
    return found, link or implied


def family_by_name(family: str | AbstractFamily, link: str | None) -> AbstractFamily:
    """The family of a name such as "zero_inflated_poisson", with the link; or the family itself."""
    family, link = named_here(family, link)
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
            return wrapper(family_by_name(family.removeprefix(prefix), link))
    if family in _WITH_LOG:
        if link not in (None, "log"):
            raise FamilyError(f'The family {family!r} has the link "log"; got {link!r}.')
        return _WITH_LOG[family]
    if family in _WITH_LINK:
        return _WITH_LINK[family](_link(link))
    raise FamilyError(
        f"The levels of {family!r} are those of an outcome, and there is none. Name another family."
    )


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
    names = tuple(level_name(level) for level in levels)
    if len(set(names)) < len(names):
        raise DataError(f"Two levels of {column.name!r} read the same: {', '.join(names)}.")
    return names


def codes(table: Table, outcome: str, levels: tuple[str, ...], *, all_seen: bool = True) -> Array:
    """The number of each row's level, found by its name; a fit must have seen all of them."""
    column = table.frame[outcome]
    known = {name: number for number, name in enumerate(levels)}
    names = [level_name(value) for value in column.tolist()]
    unknown = np.array([name not in known for name in names])
    if unknown.any():
        raise DataError(
            f"The outcome {column.name!r} must be one of {', '.join(levels[:10])}; "
            f"{table.listing(unknown, names)}."
        )
    unseen = set(levels) - set(names)
    if unseen and all_seen:
        raise DataError(
            f"No row of {column.name!r} is {sorted(unseen)[0]!r}, so its probability cannot be "
            "estimated. Leave this level out of the family."
        )
    return np.array([float(known[name]) for name in names])
