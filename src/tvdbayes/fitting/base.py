"""What a fit keeps, and what is read off it without further work."""

from dataclasses import dataclass, field

from formulaic import ModelSpec

from tvdbayes._typing import Array, IntArray
from tvdbayes.data.fit_data import FitData
from tvdbayes.fitting.rounded import Rounded
from tvdbayes.formula.design import Design
from tvdbayes.objective.partitions import Bins, GroupReport
from tvdbayes.sampling.options import Options
from tvdbayes.sampling.posterior import Posterior

__all__ = ["AbstractFit"]


@dataclass(frozen=True, eq=False, repr=False)
class AbstractFit:
    """The fields of `Fit`, which describes them; answers to questions are in its other bases."""

    posterior: Posterior
    formula: str
    encoding: ModelSpec
    cell_of_row: IntArray
    data: FitData
    more_encodings: dict[str, ModelSpec] = field(default_factory=dict)
    left_out: tuple[str, ...] = ()
    rounded: Rounded | None = None

    @property
    def design(self) -> Design:
        """How columns became covariates, for all predictors."""
        return Design(self.encoding, self.more_encodings, self.posterior.cells.names)

    @property
    def param_names(self) -> tuple[str, ...]:
        """Names of the parameters.

        Examples
        --------
        >>> import tvdbayes as tb
        >>> data = {"y": [0, 0, 0, 1, 2, 3] * 20, "region": ["north", "south"] * 60}
        >>> tb.fit("y ~ region", data, family="hurdle_poisson", n_draws=0).param_names
        ('Intercept', 'region[T.south]', 'zero:Intercept')
        """
        return self.posterior.param_names

    @property
    def estimate(self) -> Array:
        """Point estimate, (d,).

        The fit to the unweighted data; without refinement (plain TVD, other divergences), where
        covariates repeat, the posterior mean.
        """
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
        """Divergence that each draw reached, (B,); under TVD, the share of mass it cannot explain.

        Noise is part of it; `misfit` says what is more than noise.
        """
        return self.posterior.distance

    @property
    def status(self) -> IntArray:
        """How the search of each draw ended, codes of `Status`, (B,).

        Examples
        --------
        >>> import numpy as np, tvdbayes as tb
        >>> y = np.random.default_rng(0).poisson(3, 200)
        >>> fit = tb.fit("y ~ 1", {"y": y}, n_draws=50)
        >>> int((fit.status == tb.Status.CONVERGED).sum())
        50
        """
        return self.posterior.status

    @property
    def groups(self) -> GroupReport:
        """Which rows were compared together, to see which are too many.

        Fits that compare groups, such as plain TVD (``refine=None``), have slopes that are a little
        too steep; the default has not.

        Examples
        --------
        >>> import numpy as np, tvdbayes as tb
        >>> rng = np.random.default_rng(0)
        >>> age = rng.integers(2, 6, 2000)
        >>> data = {"visits": rng.poisson(np.exp(0.3 * age)), "age": age}
        >>> fit = tb.fit("visits ~ age", data, n_draws=50)
        >>> print(fit.groups)
        distinct: 4 groups, median 520 rows, slopes from groups too steep by about 0.1%
        """
        return self.posterior.groups

    @property
    def bins(self) -> Bins | None:
        """Which counts were compared together, if any.

        Examples
        --------
        Large counts hardly repeat, so neighbours are compared together:

        >>> import numpy as np, tvdbayes as tb
        >>> y = np.random.default_rng(0).poisson(3000, 500)
        >>> fit = tb.fit("y ~ 1", {"y": y}, n_draws=0)
        >>> len(np.unique(y)), fit.bins.n_bins
        (197, 52)
        """
        return self.posterior.bins

    @property
    def n_rows(self) -> int:
        """Rows of the data, those included that were left out."""
        grouped = self.data.n_grouped
        return len(self.cell_of_row) if grouped is None else grouped

    @property
    def n_left_out(self) -> int:
        """Rows of the data that were left out, for a gap or a weight of zero."""
        return int((self.cell_of_row < 0).sum()) + self.data.n_dropped

    @property
    def seed(self) -> int:
        """The seed that gives these draws again."""
        return self.posterior.seed

    @property
    def options(self) -> Options:
        """Options of `fit` as they were given.

        With the same formula and data they give the same draws, bit for bit. ``n_jobs``, ``resume``
        and ``progress`` are not kept, since no draw depends on these. Only options that differ from
        their defaults are shown; ``options.changed()`` has these as a dict.

        Examples
        --------
        >>> import tvdbayes as tb
        >>> data = {"y": [0, 1, 2, 2, 3, 5] * 10, "region": ["north", "south"] * 30}
        >>> fit = tb.fit("y ~ region", data, divergence=tb.Hellinger(), n_draws=20, ridge=0.1)
        >>> fit.options
        Options(divergence='hellinger', n_draws=20, ridge=0.1)
        """
        return self.posterior.options

    def _side(self, ordinary: bool) -> Posterior:
        """The robust draws, or their ordinary twins."""
        return self.posterior.twin if ordinary else self.posterior
