"""What `fit` returns: the posterior, and how the data were encoded."""

import os
from dataclasses import dataclass, field
from html import escape
from typing import Any

from formulaic import ModelSpec

from tvdbayes._typing import Array, IntArray
from tvdbayes.frontends._encoded import encode_new
from tvdbayes.frontends._tables import Data
from tvdbayes.partitions import Bins, GroupReport
from tvdbayes.posterior import Posterior, Summary

__all__ = ["Fit"]


@dataclass(frozen=True, eq=False, repr=False)
class Fit:
    """A fitted model: estimates and draws, robust beside ordinary.

    Parameters
    ----------
    posterior : Posterior
        The record of the fit.
    formula : str
        As given.
    encoding : formulaic.ModelSpec
        How columns became covariates; replayed on new data.
    cell_of_row : (n,)
        The cell of each input row, -1 for rows of weight zero.
    more_encodings : dict of formulaic.ModelSpec
        The same for further predictors that have covariates.
    left_out : tuple of str
        Columns that others determine, left out by ``collinear="drop"``.
    """

    posterior: Posterior
    formula: str
    encoding: ModelSpec
    cell_of_row: IntArray
    more_encodings: dict[str, ModelSpec] = field(default_factory=dict)
    left_out: tuple[str, ...] = ()

    @property
    def param_names(self) -> tuple[str, ...]:
        """Names of the parameters."""
        return self.posterior.param_names

    @property
    def estimate(self) -> Array:
        """Point estimate, (d,)."""
        return self.posterior.estimate

    @property
    def draws(self) -> Array:
        """Posterior draws, (B, d)."""
        return self.posterior.draws

    @property
    def kld_draws(self) -> Array:
        """The ordinary twin of each draw, (B, d)."""
        return self.posterior.kld_draws

    @property
    def distance(self) -> Array:
        """Divergence of each draw, (B,): under TVD, the share of mass it cannot explain."""
        return self.posterior.distance

    @property
    def status(self) -> IntArray:
        """How the search of each draw ended, codes of `Status`, (B,)."""
        return self.posterior.status

    @property
    def groups(self) -> GroupReport:
        """Which rows were compared together, and what that does to the answer."""
        return self.posterior.groups

    @property
    def bins(self) -> Bins | None:
        """Which counts were compared together, if any."""
        return self.posterior.bins

    @property
    def seed(self) -> int:
        """The seed that gives these draws again."""
        return self.posterior.seed

    def summary(self, interval: float = 0.9) -> Summary:
        """Coefficients with intervals, robust beside ordinary, and their paired difference."""
        return self.posterior.summary(interval)

    def encode(self, data: Data) -> Array:
        """Covariates of new data for the main predictor, encoded as in the fit, (n, p).

        Levels that the fit has not seen are an error that names them.
        """
        linear = self.posterior.model.predictor
        names = self.posterior.cells.names
        family = self.posterior.model.family
        n_more = len(family.predictors) - family.n_main
        main = linear.blocks(len(names), family.n_main, n_more)[0]
        return encode_new(self.encoding, tuple(names[j] for j in main), data)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fit to a file, which `tvdbayes.load` reads; it holds no code and no pickle."""
        from tvdbayes.frontends._files import save_fit

        save_fit(self, path)

    def to_arviz(self, *, by_row: bool = False, log_likelihood: bool = True) -> Any:
        """An `xarray.DataTree` for ArviZ 1.x; for 0.23 pass it through `arviz.from_datatree`.

        Data and log-likelihood are by cell (with counts), or by row, as leave-one-out needs them.
        """
        from tvdbayes.posterior.tree import to_tree

        rows = self.cell_of_row if by_row else None
        attrs = {"formula": self.formula}
        return to_tree(self.posterior, cell_of_row=rows, log_likelihood=log_likelihood, attrs=attrs)

    def __repr__(self) -> str:
        return f"{self.formula}\n{self.posterior!r}"

    def _repr_html_(self) -> str:
        return f"<p><code>{escape(self.formula)}</code></p>{self.posterior._repr_html_()}"
