"""The covariates of all predictors of a family, from one formula for each."""

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from formulaic import ModelSpec
from formulaic.parser.types import Factor

from tvdbayes._errors import DataError, FormulaError, SettingsError
from tvdbayes._typing import Array
from tvdbayes.data.sources import Data, Table, open_data
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

__all__ = [
    "Encoded",
    "columns_of",
    "encode_all",
    "encode_new",
    "encode_table",
    "read_further",
    "without_dependent",
]


@dataclass(frozen=True, eq=False)
class Encoded:
    """Columns of x, who uses which, and the specs that encode new data the same way."""

    x: Array
    names: tuple[str, ...]
    linear: Linear
    spec: ModelSpec
    more: dict[str, ModelSpec]


def encode_new(spec: ModelSpec, names: tuple[str, ...], data: Data) -> Array:
    """Covariates (n, p) of new data, encoded as a spec remembers it; only these columns of it."""
    source = open_data(data)
    used = columns_of((spec,))
    if not used:
        return np.ones((len(source.native), len(names)))
    table = source.table(used, None, "error")
    return encode_table((spec,), names, table)[table.index]


def columns_of(specs: Sequence[ModelSpec]) -> list[str]:
    """The columns of the data that some specs use."""
    return sorted({column_of(str(name)) for spec in specs for name in spec.required_variables})


def encode_table(specs: Sequence[ModelSpec], names: Sequence[str], table: Table) -> Array:
    """Covariates (n, p) with these names, each from the first spec that makes it."""
    made: dict[str, Array] = {}
    for spec in specs:
        for name, column in zip(spec.column_names, _replay(spec, table).T, strict=True):
            made.setdefault(readable(str(name)), column)
    return np.column_stack([made[name] for name in names])


def _replay(spec: ModelSpec, table: Table) -> Array:
    """Rows encoded as a spec remembers it, all of its columns."""
    frame = table.frame
    if not spec.required_variables:
        return np.ones((len(frame), len(spec.column_names)))
    columns = {name: frame[name] for name in columns_of((spec,))}
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


def without_dependent(encoded: Encoded) -> tuple[Encoded, tuple[str, ...]]:
    """Leave out columns that others in the same predictor determine, and name them."""
    columns = encoded.linear.columns or ()
    blocks, dropped = [], set()
    for block in columns:
        used = [j for j in block if j >= 0]
        lost = {used[j] for j in dependent_columns(encoded.x[:, used])} if used else set()
        dropped |= lost
        blocks.append(tuple(j for j in block if j not in lost))
    still = sorted({j for block in blocks for j in block if j >= 0})
    number = {old: new for new, old in enumerate(still)} | {-1: -1}
    made = replace(
        encoded,
        x=encoded.x[:, still],
        names=tuple(encoded.names[j] for j in still),
        linear=Linear(tuple(tuple(number[j] for j in block) for block in blocks)),
    )
    return made, tuple(encoded.names[j] for j in sorted(dropped))


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


def encode_all(
    reading: Reading,
    further: dict[str, Reading],
    law: AbstractFamily,
    table: Table,
) -> Encoded:
    """Encode the main formula and those of further predictors, which are constant otherwise."""
    x, names, spec = encode(reading, table)
    main = tuple(range(len(names)))
    known = law.predictors[law.n_main :]
    blocks: dict[str, tuple[int, ...]] = dict.fromkeys(known, (-1,))
    specs: dict[str, ModelSpec] = {}
    for name, terms in further.items():
        if name not in known:
            raise SettingsError(
                f"The family {law.name!r} has no further predictor {name!r}. "
                f"It has: {', '.join(known) or 'none'}."
            )
        more, more_names, specs[name] = encode(terms, table)
        new = [j for j, column in enumerate(more_names) if column not in names]
        x, names = np.column_stack([x, more[:, new]]), (*names, *(more_names[j] for j in new))
        blocks[name] = tuple(names.index(column) for column in more_names)
    require_told_apart([spec, *specs.values()])
    linear = Linear((main,) * law.n_main + tuple(blocks.values()))
    return Encoded(x, names, linear, spec, specs)
