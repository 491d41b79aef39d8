"""What `fit_large` returns: the draws of all rows, beside a fit of a sample of them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Any, Concatenate, Literal, ParamSpec, TypeVar

import numpy as np

from tvdbayes._typing import Array, IntArray
from tvdbayes.data.sources import Data
from tvdbayes.fitting.record import Fit
from tvdbayes.objective.partitions import GroupReport
from tvdbayes.solvers import Status

Options = ParamSpec("Options")
Answer = TypeVar("Answer")


def _of_whole(
    method: Callable[Concatenate[Fit, Options], Answer],
) -> Callable[Concatenate["LargeFit", Options], Answer]:
    """The same answer, from the draws of all rows."""

    @wraps(method)
    def asked(self: "LargeFit", /, *args: Options.args, **options: Options.kwargs) -> Answer:
        return method(self.whole, *args, **options)

    return asked


@dataclass(frozen=True, eq=False, repr=False)
class LargeFit:
    """A model fitted to rows on a cluster: estimates and draws, robust and likelihood fit.

    Parameters
    ----------
    sample : Fit
        The ordinary fit of the sample of rows that was brought here: its draws are wider, and its
        rows, misfit and pictures are those of the sample. Beside rows drawn at random it holds up
        to 20 rows of each level and the rows with the smallest and largest numbers.
    whole : Fit
        The draws of all rows, beside the rows of the sample: predictions are made by it, and
        effects are averages over the rows of the sample.
    n_rows : int
        Rows of the data.

    Examples
    --------
    What needs the rows themselves is asked of the sample, here all of them:

    >>> import pandas as pd, tvdbayes as tb
    >>> from dask.dataframe import from_pandas
    >>> from distributed import Client
    >>> data = from_pandas(pd.DataFrame(tb.example_data()), npartitions=1)
    >>> with Client(processes=False, n_workers=1, dashboard_address=":0") as client:
    ...     fit = tb.fit_large("ill ~ age", data, client=client, n_draws=2)
    >>> fit.n_rows
    1000
    >>> print(fit.sample.groups)
    distinct: 4 groups, median 263 rows, slopes from groups too steep by about 0.2%
    >>> fit.estimate.round(1), fit.kld_estimate.round(1)  # the truth: -3.5 and 1
    (array([-3.4,  1. ]), array([-3.3,  0.9]))
    """

    sample: Fit
    whole: Fit
    n_rows: int

    @property
    def formula(self) -> str:
        """As given."""
        return self.sample.formula

    @property
    def param_names(self) -> tuple[str, ...]:
        """Names of the parameters."""
        return self.whole.param_names

    @property
    def estimate(self) -> Array:
        """Point estimate (d,), the minimiser for the unweighted data."""
        return self.whole.posterior.minimiser

    @property
    def kld_estimate(self) -> Array:
        """Maximum likelihood on all rows, (d,)."""
        return self.whole.posterior.kld_minimiser

    @property
    def draws(self) -> Array:
        """Posterior draws, (B, d)."""
        return self.whole.posterior.draws

    @property
    def kld_draws(self) -> Array:
        """Draws of the likelihood fit on the same random weights, (B, d)."""
        return self.whole.posterior.kld_draws

    @property
    def distance(self) -> Array:
        """The total variation distance that each draw reached, (B,)."""
        return self.whole.posterior.distance

    @property
    def status(self) -> IntArray:
        """How the search of each draw ended, codes of `Status`, (B,)."""
        return self.whole.posterior.status

    @property
    def kld_status(self) -> IntArray:
        """The same for the likelihood fit, (B,)."""
        return self.whole.posterior.kld_status

    @property
    def groups(self) -> GroupReport:
        """Which rows were compared together; sizes are estimated from the sample."""
        return self.whole.posterior.groups

    @property
    def seed(self) -> int:
        """As given."""
        return self.whole.posterior.seed

    summary = _of_whole(Fit.summary)
    effects = _of_whole(Fit.effects)

    def predict(
        self,
        new: Data,
        kind: Literal["mean", "pmf", "outcome", "class"] = "mean",
        *,
        interval: float = 0.9,
        outcomes: Sequence[object] | None = None,
        seed: int | None = None,
        ordinary: bool = False,
    ) -> Any:
        """Predict rows of new data, which fit into memory; see `Fit.predict`.

        Examples
        --------
        >>> import pandas as pd, tvdbayes as tb
        >>> from dask.dataframe import from_pandas
        >>> from distributed import Client
        >>> data = from_pandas(pd.DataFrame(tb.example_data()), npartitions=1)
        >>> with Client(processes=False, n_workers=1, dashboard_address=":0") as client:
        ...     fit = tb.fit_large("ill ~ age", data, client=client, n_draws=2)
        >>> fit.predict({"age": [2, 5]})["mean"].round(1).tolist()
        [0.2, 0.8]
        """
        return self.whole.predict(
            new, kind, interval=interval, outcomes=outcomes, seed=seed, ordinary=ordinary
        )

    def __repr__(self) -> str:
        certified = np.mean(self.status == Status.CONVERGED) if self.status.size else 1.0
        law = type(self.whole.posterior.model.family).__name__
        return (
            f"{self.formula}\n<{law} fit by tvd to {self.n_rows:,} rows: {len(self.draws)} draws "
            f"of {len(self.param_names)} parameters, {certified:.1%} certified minima>"
        )
