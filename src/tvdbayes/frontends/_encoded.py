"""The covariates of all predictors of a family, from one formula for each."""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from formulaic import ModelSpec

from tvdbayes._errors import FormulaError, SettingsError
from tvdbayes._typing import Array
from tvdbayes.families import AbstractFamily
from tvdbayes.frontends._columns import encode
from tvdbayes.frontends._guard import Reading, read_formula
from tvdbayes.predictors import Linear

__all__ = ["Encoded", "encode_all"]


@dataclass(frozen=True, eq=False)
class Encoded:
    """Columns of x, who uses which, and the specs that encode new data the same way."""

    x: Array
    names: tuple[str, ...]
    linear: Linear
    spec: ModelSpec
    more: dict[str, ModelSpec]


def encode_all(
    reading: Reading,
    predictors: dict[str, str] | None,
    law: AbstractFamily,
    frame: pd.DataFrame,
) -> Encoded:
    """Encode the main formula and those of further predictors, which are constant otherwise."""
    x, names, spec = encode(reading, frame)
    main = tuple(range(len(names)))
    further = law.predictors[law.n_main :]
    blocks: dict[str, tuple[int, ...]] = dict.fromkeys(further, (-1,))
    specs: dict[str, ModelSpec] = {}
    for name, terms in (predictors or {}).items():
        if name not in further:
            raise SettingsError(
                f"The family {law.name!r} has no further predictor {name!r}. "
                f"It has: {', '.join(further) or 'none'}."
            )
        if not isinstance(terms, str):
            raise FormulaError(f'predictors[{name!r}] must be text such as "~ x"; got {terms!r}.')
        text = f"`{reading.outcome}` ~ {terms.strip().removeprefix('~')}"
        more, more_names, specs[name] = encode(read_formula(text, list(frame.columns)), frame)
        new = [j for j, column in enumerate(more_names) if column not in names]
        x, names = np.column_stack([x, more[:, new]]), (*names, *(more_names[j] for j in new))
        blocks[name] = tuple(names.index(column) for column in more_names)
    linear = Linear((main,) * law.n_main + tuple(blocks.values()))
    return Encoded(x, names, linear, spec, specs)
