"""What "closest" means: divergences between a table and a model, as elementwise terms.

Of masses p(u) of the data and f(u) of the model in units u (a group of rows and an outcome in it):

    TVD                 sum_u max(p - f, 0)            = half of sum |p - f| over all outcomes
    Hellinger           sum_u p - sqrt(p f)            = 1 - sum sqrt(p f)
    PowerDivergence(t)  sum_u p - p^(1 - t) f^t        = 1 - sum p^(1 - t) f^t

The sums are over the units that were observed; others are accounted for by the total mass being 1.
Of the log-probabilities of cells, up to a constant of the table:

    KLD                 -sum_{x, y} p(x, y) log f(y | x)
    DensityPower(t)     sum_x p(x) sum_y f(y | x)^(1 + t)
                        - (1 + 1 / t) sum_{x, y} p(x, y) f(y | x)^t

The kink of total variation is smoothed while a search lasts: |r|, for r = (p - f) / p, becomes
sqrt(r^2 + tau^2) with a width tau that goes to 1e-9. Its curvature is the primal-dual one of Chan,
Golub and Mulet,

    (1 - w r / s) / s    with s = sqrt(r^2 + tau^2) and a dual variable w in [-1, 1] for r / s,

which stays informative where r / s itself, the usual choice, is already nearly a sign.

Each divergence has derivatives in its own argument only; the chain rule to parameters is
`objective`'s.

References
----------
Basu, A., Harris, I. R., Hjort, N. L. and Jones, M. C. (1998). Robust and efficient estimation by
minimising a density power divergence. Biometrika 85, 549-559.
Chan, T. F., Golub, G. H. and Mulet, P. (1999). A nonlinear primal-dual method for total
variation-based image restoration. SIAM Journal on Scientific Computing 20, 1964-1977.
Cressie, N. and Read, T. R. C. (1984). Multinomial goodness-of-fit tests. Journal of the Royal
Statistical Society B 46, 440-464.
Knoblauch, J. and Vomfell, L. (2020). Robust Bayesian inference for discrete outcomes with the total
variation distance. arXiv:2010.13456.
"""

from dataclasses import dataclass
from functools import cached_property
from numbers import Real
from typing import ClassVar

from tvdbayes._array import tiny, xp
from tvdbayes._errors import SettingsError
from tvdbayes._typing import Array
from tvdbayes.objective._kinds import (
    AbstractDivergence,
    AbstractGroupDivergence,
    AbstractRowDivergence,
)
from tvdbayes.objective._terms import AbstractComparison

TINY = 1e-100
"""What a comparison of one's own may take for a mass of 0 in double precision."""


@dataclass(frozen=True)
class TVD(AbstractGroupDivergence):
    """Total variation distance, half the L1 distance, in [0, 1].

    Sum of ``max(data - model, 0)`` over observed units: the mass that the model cannot explain.

    Examples
    --------
    It is what `fit` minimises unless told otherwise, ``divergence="tvd"``. The distance that is
    left is a share of the data, here the tenth of wrong rows and some noise:

    >>> import numpy as np, tvdbayes as tb
    >>> y = np.random.default_rng(0).poisson(3, 2000)
    >>> y[:200] += 20
    >>> fit = tb.fit("y ~ 1", {"y": y}, divergence=tb.TVD(), n_draws=20)
    >>> print(f"rate {np.exp(fit.estimate[0]):.1f}, {fit.distance.mean():.0%} unexplained")
    rate 3.0, 11% unexplained
    """

    name: ClassVar[str] = "tvd"
    kinked: ClassVar[bool] = True
    folds: ClassVar[bool] = True
    compiled: ClassVar[bool] = True

    by_excess: ClassVar[bool] = True

    def of_excess(self, excess: Array, *, folded: bool) -> Array:
        # What one outcome has too much the other has too little.
        terms = xp.abs(excess) if folded else xp.maximum(excess, 0.0)
        total: Array = terms.sum(0)
        return total

    def term(self, data_mass: Array, model_mass: Array) -> Array:
        return xp.maximum(data_mass - model_mass, 0.0)

    def compare(self, data_mass: Array, model_mass: Array) -> AbstractComparison:
        return _Excess(data_mass, 1 - model_mass / data_mass, 0.5, 0.5)

    def compare_halves(
        self, data_mass: Array, model_mass: Array, whole: Array
    ) -> AbstractComparison:
        # What one outcome has too much the other has too little: |data - model| counts both.
        return _Excess(whole, (data_mass - model_mass) / whole, 0.0, 1.0)


@dataclass(frozen=True, eq=False)
class _Excess(AbstractComparison):
    """Data mass above model mass, r as a share of `scale`: ``scale * (linear * r + kink * |r|)``.

    With halves for both it is ``max(r, 0)``. The kink is smoothed, |r| to sqrt(r^2 + tau^2).
    """

    scale: Array
    excess: Array
    linear: float
    kink: float

    @cached_property
    def _square(self) -> Array:
        return self.excess * self.excess

    def _distance(self, tau: Array) -> Array:
        """How far from the kink; never 0, so that it can be divided by."""
        distance: Array = xp.sqrt(self._square + xp.maximum(tau * tau, tiny(self.excess)))
        return distance

    def total(self, tau: Array) -> Array:
        terms = self.kink * self._distance(tau)
        if self.linear:
            terms += self.linear * self.excess
        total: Array = xp.einsum("ub,ub->b", self.scale, terms)
        return total

    def derivatives(self, tau: Array, dual: Array | None) -> tuple[Array, Array]:
        distance = self._distance(tau)
        sign = self.excess / distance
        curvature = 1 - (sign if dual is None else dual) * sign
        curvature /= distance
        curvature /= self.scale
        curvature *= self.kink
        return -self.linear - self.kink * sign, curvature

    def dual_after(self, tau: Array, curvature: Array, change: Array) -> Array:
        dual: Array = self.excess / self._distance(tau) - (curvature / self.kink) * change
        return xp.clip(dual, -1.0, 1.0, out=dual)


@dataclass(frozen=True)
class Hellinger(AbstractGroupDivergence):
    """Squared Hellinger distance, ``1 - sum(sqrt(data * model))``, in [0, 1].

    Examples
    --------
    By name it is ``divergence="hellinger"``: smooth, and nearly as efficient as maximum likelihood
    where counts repeat often.

    >>> import numpy as np, tvdbayes as tb
    >>> y = np.random.default_rng(0).poisson(3, 2000)
    >>> y[:200] += 20
    >>> fit = tb.fit("y ~ 1", {"y": y}, divergence="hellinger", n_draws=20)
    >>> print(f"rate {np.exp(fit.estimate[0]):.1f}")
    rate 3.0
    """

    name: ClassVar[str] = "hellinger"

    def term(self, data_mass: Array, model_mass: Array) -> Array:
        return data_mass - xp.sqrt(data_mass * model_mass)

    def compare(self, data_mass: Array, model_mass: Array) -> AbstractComparison:
        return _Affinity(data_mass, xp.maximum(model_mass, tiny(model_mass)), 0.5)


@dataclass(frozen=True)
class PowerDivergence(AbstractGroupDivergence):
    """Power divergence of Cressie and Read, ``1 - sum(data ** (1 - t) * model ** t)``, in [0, 1].

    The tuning t lies between 0 (the model must explain all data) and 1 (it need not explain what
    it cannot: KLD from model to data); 1/2 is Hellinger. In Cressie and Read's notation it is
    lambda = -t, scaled to end at 1.

    Parameters
    ----------
    tuning : float
        t, between 0 and 1.

    Examples
    --------
    By name it is ``divergence="power"``, with a tuning of 0.7. The smaller it is, the more must be
    explained:

    >>> import numpy as np, tvdbayes as tb
    >>> y = np.random.default_rng(0).poisson(3, 2000)
    >>> y[:200] += 8
    >>> for tuning in (0.1, 0.9):
    ...     fit = tb.fit("y ~ 1", {"y": y}, divergence=tb.PowerDivergence(tuning), n_draws=20)
    ...     print(f"tuning {tuning}: rate {np.exp(fit.estimate[0]):.1f}")
    tuning 0.1: rate 3.7
    tuning 0.9: rate 3.1
    """

    tuning: float = 0.7

    name: ClassVar[str] = "power"

    def __post_init__(self) -> None:
        if not (isinstance(self.tuning, Real) and 0 < self.tuning < 1):
            raise SettingsError(f"PowerDivergence needs a tuning in (0, 1); got {self.tuning!r}.")

    def term(self, data_mass: Array, model_mass: Array) -> Array:
        return data_mass - data_mass ** (1 - self.tuning) * model_mass**self.tuning

    def compare(self, data_mass: Array, model_mass: Array) -> AbstractComparison:
        return _Affinity(data_mass, xp.maximum(model_mass, tiny(model_mass)), self.tuning)


@dataclass(frozen=True, eq=False)
class _Affinity(AbstractComparison):
    """Data mass minus the geometric mean, with weight t for the model, of data and model mass."""

    data_mass: Array
    model_mass: Array
    tuning: float

    @cached_property
    def _mean(self) -> Array:
        mean: Array = self.data_mass ** (1 - self.tuning) * self.model_mass**self.tuning
        return mean

    def total(self, tau: Array) -> Array:
        total: Array = (self.data_mass - self._mean).sum(0)
        return total

    def derivatives(self, tau: Array, dual: Array | None) -> tuple[Array, Array]:
        slope = -self.tuning * self._mean / self.model_mass
        return slope, (self.tuning - 1) * slope / self.model_mass

    def dual_after(self, tau: Array, curvature: Array, change: Array) -> Array:
        return change


@dataclass(frozen=True)
class KLD(AbstractRowDivergence):
    """Kullback-Leibler divergence: minimising it is (weighted) maximum likelihood.

    Examples
    --------
    By name it is ``divergence="kld"``: the Bayesian bootstrap of the likelihood fit, which follows
    wrong rows. Every fit has it at its side anyway, in ``kld_draws`` (which the default widens for
    leverage and for few rows):

    >>> import numpy as np, tvdbayes as tb
    >>> y = np.random.default_rng(0).poisson(3, 2000)
    >>> y[:200] += 20
    >>> likelihood_fit = tb.fit("y ~ 1", {"y": y}, divergence=tb.KLD(), n_draws=200)
    >>> print(f"rate {np.exp(likelihood_fit.estimate[0]):.1f}")
    rate 5.0
    >>> robust = tb.fit("y ~ 1", {"y": y}, refine=None, n_draws=200)
    >>> bool(np.allclose(robust.kld_draws, likelihood_fit.draws))
    True
    """

    name: ClassVar[str] = "kld"
    likelihood: ClassVar[bool] = True

    def loss(self, log_pmf: Array) -> Array:
        return -log_pmf

    def derivatives(self, log_pmf: Array) -> tuple[Array, Array]:
        return xp.array(-1.0), xp.array(0.0)


@dataclass(frozen=True)
class DensityPower(AbstractRowDivergence):
    """Density power divergence of Basu et al. (1998); ``tuning`` goes from KLD (0) to L2 (1).

    It compares row by row, so it needs no groups: a choice for few rows with continuous covariates.

    Parameters
    ----------
    tuning : float
        Above 0, at most 1. Larger values resist more and are less efficient on clean data.

    Examples
    --------
    By name it is ``divergence="density_power"``, with a tuning of 0.5:

    >>> import numpy as np, tvdbayes as tb
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=100)
    >>> y = rng.poisson(np.exp(1 + 0.5 * x))
    >>> y[:10] = 40
    >>> fit = tb.fit("y ~ x", {"y": y, "x": x}, divergence=tb.DensityPower(0.3), n_draws=0)
    >>> fit.estimate.round(1), fit.posterior.kld_minimiser.round(1)  # the truth: 1 and 0.5
    (array([1.1, 0.6]), array([1.9, 0.3]))
    """

    tuning: float = 0.5

    name: ClassVar[str] = "density_power"
    sums: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not (isinstance(self.tuning, Real) and 0 < self.tuning <= 1):
            raise SettingsError(
                f"DensityPower needs a tuning in (0, 1]; got {self.tuning!r}. "
                "Use KLD() for the limit 0."
            )

    @property
    def power(self) -> float:  # type: ignore[override]
        return 1 + self.tuning

    def loss(self, log_pmf: Array) -> Array:
        return -(1 + 1 / self.tuning) * xp.exp(self.tuning * log_pmf)

    def derivatives(self, log_pmf: Array) -> tuple[Array, Array]:
        first = -(1 + self.tuning) * xp.exp(self.tuning * log_pmf)
        return first, self.tuning * first


ALL_DIVERGENCES: tuple[AbstractDivergence, ...] = (
    TVD(),
    Hellinger(),
    PowerDivergence(),
    KLD(),
    DensityPower(),
)
"""One instance of every divergence; the law tests run over it."""
