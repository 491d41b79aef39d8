"""How columns become covariates: learned by formulaic on one table, replayed on new data."""

from copy import deepcopy
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from formulaic import ModelSpec
from formulaic.parser.types import Factor

from tvdbayes._errors import DataError, FormulaError, SettingsError
from tvdbayes._typing import Array
from tvdbayes.data.sources import Data, open_data
from tvdbayes.data.table import Table
from tvdbayes.formula.columns import (
    encode,
    model_matrix,
    require_numbers,
    require_told_apart,
)
from tvdbayes.formula.guard import Reading, calculated_with, read_formula
from tvdbayes.formula.names import alias_of, column_of, mask, quoted, readable
from tvdbayes.models.families import AbstractFamily
from tvdbayes.models.predictors import Linear, dependent_columns


def columns_of(spec: ModelSpec) -> set[str]:
    """The columns of the data that an encoding reads."""
    return {column_of(str(name)) for name in spec.required_variables}


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
        found[name] = read_formula(f"{quoted(outcome)} ~ {text}", columns)
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
    require_told_apart([spec, *specs.values()])
    linear = Linear((main,) * family.n_main + tuple(blocks.values()))
    return Design(spec, specs, names), x, linear
