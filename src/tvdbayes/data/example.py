"""Made-up data to try things on."""

from typing import Any

import numpy as np
from numpy.typing import NDArray


def example_data(n: int = 1000, *, wrong: float = 0.0, seed: int = 0) -> dict[str, NDArray[Any]]:
    """Made-up visits to a doctor, some of them wrong, to try things on.

    The true model is visits ~ Poisson(exp(0.3 age - 0.5 [region is south])), and the log odds of
    being ill are age - 3.5.

    Parameters
    ----------
    n : int
        Number of rows.
    wrong : float
        Share of the rows, the first ones, whose visits are 20 too many.
    seed : int
        The same seed gives the same rows.

    Returns
    -------
    dict
        The columns `age` (2 to 5), `region` (north, south), `visits` and `ill` (0 or 1).

    Examples
    --------
    >>> import tvdbayes as tb
    >>> data = tb.example_data(500, wrong=0.1)
    >>> data["visits"][:5], data["visits"][-5:]
    (array([24, 26, 23, 23, 21]), array([5, 3, 0, 2, 1]))
    """
    rng = np.random.default_rng(seed)
    age, region = rng.integers(2, 6, n), rng.choice(["north", "south"], n)
    visits = rng.poisson(np.exp(0.3 * age - 0.5 * (region == "south")))
    ill = rng.binomial(1, 1 / (1 + np.exp(3.5 - age)))
    visits[: round(wrong * n)] += 20
    return {"age": age, "region": region, "visits": visits, "ill": ill}
