"""Text in a column of numbers: a single such cell turns the whole column into text."""

from typing import Any

import numpy as np
import pandas as pd

from tvdbayes._typing import BoolArray


def no_numbers(values: Any) -> BoolArray:
    """Which values are not finite numbers, nor text that reads as one, (n,)."""
    series = pd.Series(values, dtype=object).map(lambda v: v if isinstance(v, str) else str(v))
    read = pd.to_numeric(series, errors="coerce").to_numpy(float, na_value=np.nan)
    wrong: BoolArray = ~np.isfinite(read)
    return wrong


def mostly_numbers(levels: Any) -> bool:
    """Whether these different values are numbers in the main, but not all of them.

    At least half of them are: a column of 0 and 1 with one letter O has three. Where a user means
    categories such as 1, 2 and 3+, the formula says so by C().
    """
    n_wrong = int(no_numbers(levels).sum())
    return 0 < n_wrong <= len(levels) / 2
