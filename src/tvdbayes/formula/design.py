"""How columns become covariates: learned by formulaic on one table, replayed on new data."""

from collections import Counter
from collections.abc import Iterable
from copy import deepcopy
from dataclasses import dataclass, replace
from numbers import Real

import numpy as np
import pandas as pd
from formulaic import ModelSpec
from formulaic.parser.types import Factor

from tvdbayes._errors import DataError, FormulaError, SettingsError, WildValueWarning, warn
from tvdbayes._typing import Array
from tvdbayes.data.cells import Cells
from tvdbayes.data.sources import Data, open_data
from tvdbayes.data.table import Table
from tvdbayes.formula.columns import holds_numbers, refuse_slips, require_numbers
from tvdbayes.formula.guard import Reading, calculated_with, not_by_category, read_formula
from tvdbayes.formula.matrix import (
    alias_of,
    as_written,
    column_of,
    mask,
    model_matrix,
    quoted,
    readable,
)
from tvdbayes.models.families import AbstractFamily
from tvdbayes.models.model import check_sizes
from tvdbayes.models.predictors import Linear, dependent_columns


def columns_of(spec: ModelSpec) -> set[str]:
    """The columns of the data that an encoding reads."""
    return {column_of(str(name)) for name in spec.required_variables}


_MOST_COLUMNS = 1000
"""Levels and covariates that are encoded at most: a column with more is likely an identifier, and
the covariance of so many parameters is already slow."""


@dataclass(frozen=True, eq=False)
class Design:
    """How columns of the data become covariates: learned on one table, replayed on any other.

    Encodings of the main formula and of further predictors remember levels, contrasts, and what
    transforms have seen; the covariates, the columns of x, have names.
    """

    encoding: ModelSpec
    more_encodings: dict[str, ModelSpec]
    names: tuple[str, ...]

    @property
    def encodings(self) -> tuple[ModelSpec, ...]:
        """The main encoding, then the further ones."""
        return (self.encoding, *self.more_encodings.values())

    @property
    def columns(self) -> list[str]:
        """The columns of the data that the encodings read."""
        return sorted(set().union(*map(columns_of, self.encodings)))

    def encode(self, table: Table) -> Array:
        """Covariates (m, p) of the distinct rows of a table.

        A covariate that several encodings make comes from the first of them.
        """
        made: dict[str, Array] = {}
        for spec in self.encodings:
            for name, column in zip(spec.column_names, _replay(spec, table).T, strict=True):
                made.setdefault(readable(str(name)), column)
        return np.column_stack([made[name] for name in self.names])

    def encode_rows(self, data: Data) -> Array:
        """Covariates (n, p) of each row of new data, of which only the columns in use are read."""
        source = open_data(data)
        if not self.columns:
            return np.ones((len(source.native), len(self.names)))
        table = source.table(self.columns, None, "error")
        return self.encode(table)[table.index]


def encode(reading: Reading, table: Table) -> tuple[Array, tuple[str, ...], ModelSpec]:
    """Covariates of the distinct rows, their names, and the spec that encodes new data alike."""
    used = table.frame.loc[:, list(reading.columns)]
    for name, where in calculated_with(reading.terms).items():
        require_numbers(table, name, f", as {where!r} calculates with it")
    for name in sorted(not_by_category(reading.terms)):
        refuse_slips(table, name, f"If they are categories, write C({as_written(alias_of(name))}).")
    for name in reading.columns:
        if holds_numbers(used[name]):
            continue
        n_levels = used[name].nunique()
        if n_levels > _MOST_COLUMNS:
            raise FormulaError(
                f"The column {name!r} has {n_levels:,} levels; at most {_MOST_COLUMNS} can be "
                "encoded. Is it an identifier?"
            )
    try:
        matrix, unknown = model_matrix(reading.terms, used, table.counts)
        x = np.asarray(matrix, float)
    except Exception as error:
        # formulaic wraps whatever a transform raises; the user needs its words, not its type.
        said = readable(str(error))
        raise FormulaError(f"The formula cannot be evaluated on these data: {said}") from error
    if unknown is not None:
        raise DataError(
            f"The data have values that are not among levels=: {unknown}. Name all levels, or drop "
            "these rows first."
        )
    spec = matrix.model_spec
    names = tuple(readable(str(name)) for name in spec.column_names)
    if not names:
        raise FormulaError("The formula has no terms. Write 1 for an intercept alone.")
    if len(names) > _MOST_COLUMNS:
        raise FormulaError(
            f"The formula makes {len(names)} columns; at most {_MOST_COLUMNS} are allowed. "
            "Is a numeric column coded as a category?"
        )
    empty = [str(term) for term, columns in spec.term_indices.items() if not len(columns)]
    if empty:
        raise FormulaError(
            f"The term {as_written(empty[0])!r} makes no column (a single level?). Leave it out."
        )
    _require_levels_told_apart(spec)
    table.require_finite(names, x)
    return x, names, spec


def _require_levels_told_apart(spec: ModelSpec) -> None:
    """Raise where two levels of a category print alike, since columns are named by them."""
    for expression, (_, state) in spec.encoder_state.items():
        levels = list(state.get("categories", ()))
        texts = Counter(map(str, levels))
        if len(texts) < len(levels):
            alike = [level for level in levels if texts[str(level)] > 1]
            raise DataError(
                f"{readable(expression)!r} has levels that print alike: "
                f"{', '.join(map(repr, alike[:2]))}. Make them equal, or rename one of them."
            )


def _require_told_apart(specs: Iterable[ModelSpec]) -> None:
    """Raise where terms of one or several formulas make different columns of one name."""
    term_of: dict[str, str] = {}
    for spec in specs:
        made: set[str] = set()
        for entry in spec.structure:
            term = as_written(str(entry.term))
            for name in map(readable, map(str, entry.columns)):
                if name in made or term_of.setdefault(name, term) != term:
                    both = [_in_words(term_of[name]), _in_words(term)]
                    raise FormulaError(
                        f"Two columns of the model would be called {name!r}: one made of "
                        f"{both[0]}, one of {both[1]}. Rename a column of the data."
                    )
                made.add(name)


def _in_words(term: str) -> str:
    return "the intercept" if term == "1" else f"the term {term}"


def _replay(spec: ModelSpec, table: Table) -> Array:
    """Rows encoded as a spec remembers it, all of its columns."""
    frame = table.frame
    if not spec.required_variables:
        return np.ones((len(frame), len(spec.column_names)))
    columns = {name: frame[name] for name in sorted(columns_of(spec))}
    for name, column in columns.items():
        kind, _ = spec.encoder_state.get(alias_of(name), (None, None))
        if kind is Factor.Kind.CATEGORICAL and column.dtype.kind in "biuf":
            # Numbers where the fit saw a category are levels too, which formulaic does not notice.
            columns[name] = column.astype(object)
        elif kind is Factor.Kind.NUMERICAL:
            require_numbers(table, name)
    for name, where in calculated_with(spec.formula).items():
        require_numbers(table, name, f", as {where!r} calculates with it")
    # formulaic writes to a spec as it goes, and would remember data that it then refuses.
    spec = spec.update(
        encoder_state=deepcopy(spec.encoder_state), transform_state=deepcopy(spec.transform_state)
    )
    try:
        matrix, unseen = model_matrix(spec, pd.DataFrame(columns, copy=False))
    except Exception as error:
        # formulaic wraps whatever a transform raises; the user needs its words, not its type.
        said = readable(str(error))
        raise DataError(f"The new data cannot be encoded as in the fit: {said}") from error
    if unseen is not None:
        known = {
            readable(factor): sorted(map(str, state["categories"]))
            for factor, (_, state) in spec.encoder_state.items()
            if "categories" in state
        }
        raise DataError(
            f"The new data have levels that the fit has not seen: {unseen}. Known are "
            + "; ".join(f"{factor}: {', '.join(names)}" for factor, names in known.items())
            + ". Leave these rows out, or fit with them."
        )
    return np.asarray(matrix, float)


def without_dependent(
    design: Design, x: Array, linear: Linear
) -> tuple[Design, Array, Linear, tuple[str, ...]]:
    """Leave out columns that others of the same predictor determine, and name them last."""
    blocks, dropped = [], set()
    for block in linear.columns or ():
        used = [j for j in block if j >= 0]
        lost = {used[j] for j in dependent_columns(x[:, used])} if used else set()
        dropped |= lost
        blocks.append(tuple(j for j in block if j not in lost))
    kept = sorted({j for block in blocks for j in block if j >= 0})
    number = {old: new for new, old in enumerate(kept)} | {-1: -1}
    return (
        replace(design, names=tuple(design.names[j] for j in kept)),
        x[:, kept],
        Linear(tuple(tuple(number[j] for j in block) for block in blocks)),
        tuple(design.names[j] for j in sorted(dropped)),
    )


def read_further(
    predictors: dict[str, str] | None, outcome: str, columns: list[str]
) -> dict[str, Reading]:
    """Read the formulas of further predictors."""
    found = {}
    for name, terms in (predictors or {}).items():
        text = terms.strip().removeprefix("~").strip()
        if not text or "~" in mask(text):
            raise FormulaError(f'predictors[{name!r}] must be text such as "~ x"; got {terms!r}.')
        reading = read_formula(f"{quoted(outcome)} ~ {text}", columns)
        if reading.offset or reading.exposure:
            raise FormulaError(
                f"predictors[{name!r}] has an offset, which only the main formula may have. "
                "Leave it out."
            )
        found[name] = reading
    return found


def learn_design(
    reading: Reading, further: dict[str, Reading], family: AbstractFamily, table: Table
) -> tuple[Design, Array, Linear]:
    """Learn the encodings on a table; further predictors without a formula are constant.

    Returns
    -------
    Design
    x : (m, p)
        Covariates of the distinct rows.
    Linear
        Which predictor uses which of them.
    """
    x, names, spec = encode(reading, table)
    main = tuple(range(len(names)))
    known = family.predictors[family.n_main :]
    blocks: dict[str, tuple[int, ...]] = dict.fromkeys(known, (-1,))
    specs: dict[str, ModelSpec] = {}
    for name, terms in further.items():
        if name not in known:
            raise SettingsError(
                f"The family {family.name!r} has no further predictor {name!r}. "
                f"It has: {', '.join(known) or 'none'}."
            )
        more, more_names, specs[name] = encode(terms, table)
        new = [j for j, column in enumerate(more_names) if column not in names]
        x, names = np.column_stack([x, more[:, new]]), (*names, *(more_names[j] for j in new))
        blocks[name] = tuple(names.index(column) for column in more_names)
    _require_told_apart([spec, *specs.values()])
    linear = Linear((main,) * family.n_main + tuple(blocks.values()))
    return Design(spec, specs, names), x, linear


_WILD_X = 1e8
"""Ratio of the range of a covariate to its interquartile range that is worth a warning: heavy tails
of real data stay far below it, codes such as 999999999 do not."""

_WILD_Y = 1e6
"""The same for the largest outcome beside the median."""


def check_table(cells: Cells, family: AbstractFamily, linear: Linear, ridge: float | str) -> None:
    """Raise for data that cannot identify the coefficients; warn of wild values."""
    if cells.n_obs < 2:
        held = "1 sample" if cells.n_obs == 1 else f"rows of a total weight of {cells.n_obs:g}"
        raise DataError(f"The data hold {held}; at least 2 rows are needed. Weights count rows.")
    check_sizes(cells)
    if family.binary and np.ptp(cells.y) == 0:
        raise DataError(
            f"Every outcome is {cells.y[0]:g}; both 0 and 1 must occur to tell them apart."
        )
    for block in dict.fromkeys(linear.columns or ()):
        columns = [j for j in block if j >= 0]
        dependent = [columns[j] for j in dependent_columns(cells.x[:, columns])] if columns else []
        if dependent and not (isinstance(ridge, Real) and ridge > 0):
            raise DataError(
                "The other columns already determine "
                f"{', '.join(repr(cells.names[j]) for j in dependent)} (constant, duplicated, an "
                f"unused level, or more columns than distinct rows: {len(columns)} and "
                f'{cells.n_x}). Leave it out, or pass collinear="drop" or a ridge above 0.'
            )
    for name, column in zip(cells.names, cells.x.T, strict=True):
        low, high = _quantiles(column, cells.x_counts, [0.25, 0.75])
        if high > low and np.ptp(column) > _WILD_X * (high - low):
            warn(
                f"The column {name!r} ranges from {column.min():g} to {column.max():g}, but half "
                f"of it lies between {low:g} and {high:g}. Look for wrong units or typing errors.",
                WildValueWarning,
            )
    (middle,) = _quantiles(cells.y, cells.counts, [0.5])
    if cells.y.max() > _WILD_Y * max(middle, 1):
        warn(
            f"The largest outcome is {cells.y.max():g}, the median {middle:g}. "
            "Look for wrong units or typing errors.",
            WildValueWarning,
        )


def _quantiles(values: Array, counts: Array, shares: list[float]) -> Array:
    return np.quantile(values, shares, weights=counts, method="inverted_cdf")
