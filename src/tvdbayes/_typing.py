"""Array aliases, and the letters that shapes are written in.

Everywhere in the core the *last* axis runs over posterior draws, so that a pass over
the table streams through memory and every draw of a block takes part in it.

    B  draws in a block              m    cells, the distinct (x, y)
    d  parameters                    n_x  distinct covariate rows
    k  predictors of a family        p    columns of x
    K  candidates in a pool          U    units, the (group, outcome) that are compared
"""

from typing import Any, Literal, TypeAlias

import numpy as np

# Not `NDArray`: since NumPy 2.5 it is an alias that `isinstance` refuses, and `storage` compares
# what it reads with these.
Array: TypeAlias = np.ndarray[tuple[Any, ...], np.dtype[np.float64]]
AnyArray: TypeAlias = np.ndarray[Any, Any]
IntArray: TypeAlias = np.ndarray[tuple[Any, ...], np.dtype[np.intp]]
BoolArray: TypeAlias = np.ndarray[tuple[Any, ...], np.dtype[np.bool_]]

Library = Literal["pandas", "polars", "pyarrow", "modin", "cudf"]
"""Libraries whose data frames rows come in, and answers can be given in."""
