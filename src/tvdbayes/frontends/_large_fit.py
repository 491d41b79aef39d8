"""What `fit_large` returns: the draws of all rows, beside a fit of a sample of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd

from tvdbayes._typing import Array, IntArray
from tvdbayes.frontends._fit import Fit
from tvdbayes.partitions import GroupReport
from tvdbayes.posterior import Summary
from tvdbayes.posterior.effects import Effect
from tvdbayes.posterior.summary import IntervalKind
from tvdbayes.solvers import Status
from tvdbayes.sources import Data

__all__ = ["LargeFit"]


@dataclass(frozen=True, eq=False, repr=False)
class LargeFit:
    """A model fitted to rows that lie elsewhere: estimates and draws, robust beside ordinary.

    Parameters
    ----------
    sample : Fit
        The ordinary fit of the sample of rows that was brought here: its draws are wider, and its
        rows, misfit and pictures are those of the sample. Beside rows drawn at random it holds up
        to 20 rows of each level and the rows with the smallest and largest numbers.
    whole : Fit
        The draws of all rows, beside the rows of the sample: for predictions and effects.
    n_rows : int
        Rows of the data.
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
        """Point estimate (d,): the minimiser for the unweighted data."""
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
        """The ordinary twin on the same random weights, (B, d)."""
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
        """The same for the ordinary twin, (B,)."""
        return self.whole.posterior.kld_status

    @property
    def groups(self) -> GroupReport:
        """Which rows were compared together; sizes are estimated from the sample."""
        return self.whole.posterior.groups

    @property
    def seed(self) -> int:
        """As given."""
        return self.whole.posterior.seed

    def summary(
        self,
        interval: float = 0.9,
        *,
        kind: IntervalKind = "equal",
        rope: tuple[float, float] | None = None,
    ) -> Summary:
        """Coefficients with intervals, robust beside ordinary; see `Posterior.summary`."""
        return self.whole.summary(interval, kind=kind, rope=rope)

    def predict(
        self,
        new: Data,
        kind: Literal["mean", "pmf", "outcome", "class"] = "mean",
        *,
        interval: float = 0.9,
        outcomes: Sequence[object] | None = None,
        seed: int | None = None,
        ordinary: bool = False,
    ) -> pd.DataFrame:
        """Predict rows of new data, which fit into memory; see `Fit.predict`."""
        return self.whole.predict(
            new, kind, interval=interval, outcomes=outcomes, seed=seed, ordinary=ordinary
        )

    def effects(
        self,
        variable: str,
        *,
        at: Mapping[str, object] | None = None,
        outcome: object = None,
        ordinary: bool = False,
    ) -> Effect:
        """Average effect of a column over the rows of the sample; see `Fit.effects`."""
        return self.whole.effects(variable, at=at, outcome=outcome, ordinary=ordinary)

    def __repr__(self) -> str:
        certified = np.mean(self.status == Status.CONVERGED) if self.status.size else 1.0
        law = type(self.whole.posterior.model.family).__name__
        return (
            f"{self.formula}\n<{law} fit by tvd to {self.n_rows:,} rows: {len(self.draws)} draws "
            f"of {len(self.param_names)} parameters, {certified:.1%} certified minima>"
        )
