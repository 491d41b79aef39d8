"""The covariates of all predictors of a family, from one formula for each."""

from dataclasses import dataclass, replace

import numpy as np
from formulaic import ModelSpec

from tvdbayes._errors import FormulaError, SettingsError
from tvdbayes._typing import Array
from tvdbayes.families import AbstractFamily
from tvdbayes.frontends._columns import encode
from tvdbayes.frontends._guard import Reading, read_formula
from tvdbayes.frontends._tables import Table
from tvdbayes.predictors import Linear, dependent_columns

__all__ = ["Encoded", "encode_all", "read_further", "without_dependent"]


@dataclass(frozen=True, eq=False)
class Encoded:
    """Columns of x, who uses which, and the specs that encode new data the same way."""

    x: Array
    names: tuple[str, ...]
    linear: Linear
    spec: ModelSpec
    more: dict[str, ModelSpec]


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
    given: object = predictors
    if not (given is None or isinstance(given, dict)):
        raise SettingsError(
            f'predictors must be a dict such as {{"inflation": "~ x"}}; got {given!r}.'
        )
    found = {}
    for name, terms in (predictors or {}).items():
        text = terms.strip().removeprefix("~").strip() if isinstance(terms, str) else ""
        if not text or "~" in text:
            raise FormulaError(f'predictors[{name!r}] must be text such as "~ x"; got {terms!r}.')
        found[name] = read_formula(f"`{outcome}` ~ {text}", columns)
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
    linear = Linear((main,) * law.n_main + tuple(blocks.values()))
    return Encoded(x, names, linear, spec, specs)
