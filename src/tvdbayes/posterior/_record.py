"""The record of a fit: draws, how they were found, and where they came from."""

from dataclasses import dataclass, replace
from html import escape
from typing import Literal

import numpy as np

from tvdbayes._typing import Array, IntArray
from tvdbayes.cells import Cells
from tvdbayes.divergences import KLD, AbstractDivergence
from tvdbayes.model import Model
from tvdbayes.partitions import AbstractPartition, Bins, Distinct, GroupReport
from tvdbayes.posterior.summary import IntervalKind, Summary, summarise
from tvdbayes.weights import Prior

__all__ = ["Posterior"]


@dataclass(frozen=True, eq=False, repr=False)
class Posterior:
    """Posterior draws with their ordinary twins, and provenance.

    Parameters
    ----------
    draws, kld_draws : (B, d)
        Draws under the divergence asked for, and weighted maximum likelihood on the same weights:
        their differences are paired.
    minimiser, kld_minimiser : (d,)
        The same for the unweighted data.
    distance, kld_distance : (B,)
        Divergence reached by each draw, penalties excluded.
    status, kld_status : (B,)
        Codes of `Status`, one for each draw.
    shift : (d,)
        What was added to every draw. Not 0 where rows are compared in small groups: random weights
        push the draws outwards there, and the shift brings their centre back to the minimiser. The
        minimisers themselves are ``draws - shift``; `distance` and `status` are theirs.
    groups : GroupReport
        Which rows were compared together, and what that does to the answer.
    bins : Bins or None
        Which outcomes were compared together, if any.
    prior : Prior or None
        The Dirichlet-process prior, if any.
    refine : str or None
        "reweight" where draws end with one-step reweighting; `distance` and `status` are those of
        the closest model before that.
    """

    model: Model
    cells: Cells
    divergence: AbstractDivergence
    partition: AbstractPartition
    param_names: tuple[str, ...]
    minimiser: Array
    minimiser_distance: float
    kld_minimiser: Array
    draws: Array
    distance: Array
    status: IntArray
    n_iter: IntArray
    decrement: Array
    residual: Array
    kld_draws: Array
    kld_distance: Array
    kld_status: IntArray
    ridge: float
    seed: int
    shift: Array
    groups: GroupReport
    bins: Bins | None
    prior: Prior | None = None
    refine: Literal["reweight"] | None = None

    @property
    def n_draws(self) -> int:
        """B."""
        return len(self.draws)

    @property
    def estimate(self) -> Array:
        """Point estimate (d,): the posterior mean where x repeats, else the minimiser."""
        if self.n_draws and not self.partition.pools_rows and self.refine is None:
            mean: Array = self.draws.mean(0)
            return mean
        return self.minimiser

    @property
    def twin(self) -> "Posterior":
        """The ordinary analysis on the same random weights, as a record of its own."""
        return replace(
            self,
            divergence=KLD(),
            partition=Distinct(),
            minimiser=self.kld_minimiser,
            minimiser_distance=float("nan"),
            draws=self.kld_draws,
            distance=self.kld_distance,
            status=self.kld_status,
            shift=np.zeros_like(self.shift),
            ridge=0.0,
            bins=None,
            refine=None,
        )

    def summary(
        self,
        interval: float = 0.9,
        *,
        kind: IntervalKind = "equal",
        rope: tuple[float, float] | None = None,
    ) -> Summary:
        """Coefficients with intervals, robust beside ordinary, and their paired difference.

        Parameters
        ----------
        interval : float
            Probability inside the intervals.
        kind : "equal" or "hdi"
            Equal tails, or the shortest interval.
        rope : (float, float), optional
            Region of practical equivalence; the share of draws in it becomes a column.
        """
        return summarise(
            self.param_names, self.draws, self.kld_draws, interval, kind=kind, rope=rope
        )

    def _repr_html_(self) -> str:
        coefficients = self.summary()._repr_html_() if self.n_draws > 1 else ""
        return f"<p>{escape(repr(self))}</p>{coefficients}"

    def __repr__(self) -> str:
        family = type(self.model.family).__name__
        certified = np.mean(self.status == 0) if self.n_draws else 1.0
        return (
            f"<{family} fit by {self.divergence.name}: {self.n_draws} draws of "
            f"{len(self.param_names)} parameters, {self.cells.n_obs:g} rows in "
            f"{self.cells.n_cells} cells, {certified:.1%} certified minima>"
        )
