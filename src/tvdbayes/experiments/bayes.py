"""The ordinary Bayesian posterior, which the paper sampled by Stan: what ours is compared with.

Every coefficient, in the user's own units, has an independent normal prior around 0. Inside,
coordinates are standardised, and the prior is carried over.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from numbers import Real
from typing import Any

import numpy as np
from scipy.linalg import cholesky, solve_triangular
from scipy.optimize import minimize

from tvdbayes._errors import SettingsError
from tvdbayes._typing import Array
from tvdbayes._validate import whole_number
from tvdbayes.data.cells import Cells
from tvdbayes.models.model import Model
from tvdbayes.objective import Layout
from tvdbayes.objective.partitions import Distinct
from tvdbayes.sampling.weights import Stream

_SHAPE, _RATE = 4.0, 1.0
"""The paper's prior of a Poisson rate, a gamma law."""

_FREEDOM = 5.0
_PROPOSALS = 2
"""Proposals for each draw, to begin with: a normal posterior of 14 parameters needs 1.5."""
_FEWEST = 2000
_WORTH = 2.0
"""Effective number of proposals for each draw that is kept: these are then independent up to a few
percent."""
_REFITS = 3
_GOOD, _POOR = 0.25, 0.05
"""The efficiency from which the proposal is not refitted, and below which it is not used."""
_CHUNK_ELEMENTS = 1 << 16
"""Cells x proposals that are evaluated at a time, half a megabyte."""
_FLAT = 1e-6
"""Gradient of the log posterior at which the search of its mode ends."""

_CHAINS, _WARM_UP = 4, 1000
"""As in the paper, whose Stan had these by default."""


@dataclass(frozen=True, eq=False)
class FullBayes:
    """Draws (B, d) from an ordinary posterior, and how they were made.

    The efficiency is what a proposal of the importance sampler was worth in independent draws, from
    0 to 1; where it was too low, the method is "nuts" instead of "importance".
    """

    draws: Array
    efficiency: float
    method: str


def poisson_rate(y_sum: float, n: float, n_draws: int, rng: np.random.Generator) -> Array:
    """Draws (B,) from the posterior of a Poisson rate, exactly: n counts that add up to `y_sum`."""
    return rng.gamma(_SHAPE + y_sum, 1 / (_RATE + n), n_draws)


def full_bayes(
    model: Model, cells: Cells, n_draws: int, seed: int, *, scale: float = 2.0
) -> FullBayes:
    """Draw from the posterior of a model whose coefficients are Normal(0, scale) before the data.

    Importance sampling from a t law at the mode, resampled. The posterior's tails are no heavier
    than those of its prior, hence lighter than those of the proposal, so weights are bounded. A
    poor proposal is refitted to what it found. If it remains poor, `nuts` takes over: slower, and
    for fewer families, but it needs no proposal.
    """
    target = _target(model, cells, n_draws, scale)
    rng = Stream.generator(seed, Stream.DRAWS)
    n_proposals = max(_PROPOSALS * n_draws, _FEWEST)
    proposal = target.at_the_mode()
    sample = proposal.sample(target, n_proposals, rng)
    for _ in range(_REFITS):
        if sample.efficiency >= _GOOD:
            break
        refitted = sample.refit(proposal)
        again = refitted.sample(target, n_proposals, rng)
        if again.efficiency > sample.efficiency:
            proposal, sample = refitted, again
    efficiency = sample.efficiency
    if not efficiency >= _POOR:
        return FullBayes(nuts(model, cells, n_draws, seed, scale=scale), efficiency, "nuts")
    missing = int(np.ceil(_WORTH * n_draws / efficiency)) - n_proposals
    if missing > 0:
        sample = sample.join(proposal.sample(target, missing, rng))
    draws = target.layout.bound.to_user(sample.resample(n_draws, rng))
    return FullBayes(np.ascontiguousarray(draws.T), sample.efficiency, "importance")


def nuts(model: Model, cells: Cells, n_draws: int, seed: int, *, scale: float = 2.0) -> Array:
    """Draws (B, d) from the same posterior by NUTS in NumPyro, run as the paper ran Stan.

    The laws are NumPyro's own, and numbers are of double precision. Draws come chain by chain.
    """
    target = _target(model, cells, n_draws, scale)
    try:
        import jax
        from numpyro.infer import MCMC, NUTS
    except ImportError as error:
        raise SettingsError(
            "This posterior is to be sampled by NUTS, but NumPyro is not installed: "
            "pip install 'tvdbayes[paper]'."
        ) from error
    # Where Stan's chains begin.
    rng = Stream.generator(seed, Stream.STARTS)
    start = rng.uniform(-2, 2, (_CHAINS, len(target.precision)))
    with jax.enable_x64(True):
        kernel = NUTS(potential_fn=_potential(target), dense_mass=True)
        sampler = MCMC(
            kernel,
            num_warmup=_WARM_UP,
            num_samples=-(-n_draws // _CHAINS),
            num_chains=_CHAINS,
            chain_method="vectorized",
            progress_bar=False,
        )
        sampler.run(jax.random.PRNGKey(seed), init_params=jax.numpy.asarray(start))
        theta = np.array(sampler.get_samples(), float)[:n_draws].T
    return np.ascontiguousarray(target.layout.bound.to_user(theta).T)


@dataclass(frozen=True, eq=False)
class _Target:
    """A posterior in standardised coordinates; the precision (d, d) is the prior's."""

    layout: Layout
    precision: Array

    def log_density(self, theta: Array) -> Array:
        """(d, N) to (N,), in chunks that fit into the cache."""
        pairs, counts = self.layout.cell_pairs, self.layout.cells.counts
        size = max(8, _CHUNK_ELEMENTS // counts.size)
        parts = [theta[:, start : start + size] for start in range(0, theta.shape[1], size)]
        fit = np.concatenate([counts @ pairs.log_pmf(part) for part in parts])
        log_density: Array = fit - 0.5 * (theta * (self.precision @ theta)).sum(0)
        return log_density

    def loss(self, theta: Array) -> tuple[float, Array]:
        """Minus the log density at theta (d,), with its gradient."""
        value, score, _ = self.layout.cell_pairs.log_jet(theta[:, None])
        counts, prior = self.layout.cells.counts[:, None], self.precision @ theta
        grad = prior - self.layout.cell_pairs.pullback_slope(counts * score)[:, 0]
        return float(0.5 * theta @ prior - (counts * value).sum()), grad

    def curvature(self, theta: Array) -> Array:
        """Second derivative of `loss`, (d, d)."""
        pairs, counts = self.layout.cell_pairs, self.layout.cells.counts[:, None]
        _, score, curvature = pairs.log_jet(theta[:, None])
        return self.precision - pairs.pullback(score, counts * curvature)[1][..., 0]

    def at_the_mode(self) -> "_Proposal":
        """The t law with the posterior's mode and its curvature there."""
        found = minimize(
            self.loss,
            np.zeros(len(self.precision)),
            jac=True,
            hess=self.curvature,
            method="trust-exact",
            options={"gtol": _FLAT, "max_trust_radius": 10.0},
        )
        root = cholesky(self.curvature(found.x), lower=True)
        return _Proposal(found.x, solve_triangular(root, np.eye(len(root)), lower=True).T)


@dataclass(frozen=True, eq=False)
class _Proposal:
    """A t law around a location (d,) whose scale matrix is factor @ factor.T, (d, d)."""

    location: Array
    factor: Array

    def sample(self, target: _Target, n: int, rng: np.random.Generator) -> "_Sample":
        """Propose n parameters and weigh them."""
        d = self.location.size
        away = rng.standard_normal((d, n)) / np.sqrt(rng.chisquare(_FREEDOM, n) / _FREEDOM)
        theta = self.location[:, None] + self.factor @ away
        log_proposal = -0.5 * (_FREEDOM + d) * np.log1p((away * away).sum(0) / _FREEDOM)
        # Weights of samples of one proposal are comparable, those of two proposals are not.
        return _Sample(theta, target.log_density(theta) - log_proposal)


@dataclass(frozen=True, eq=False)
class _Sample:
    """Proposed parameters (d, N) and the logarithms of their weights (N,)."""

    theta: Array
    log_weight: Array

    @cached_property
    def weight(self) -> Array:
        """Weights that sum to 1, (N,)."""
        weight = np.exp(self.log_weight - self.log_weight.max())
        return np.asarray(weight / weight.sum())

    @property
    def efficiency(self) -> float:
        """Kish's effective size, for each proposal."""
        return float(1 / (self.weight @ self.weight) / self.weight.size)

    def refit(self, proposal: _Proposal) -> _Proposal:
        """A proposal of the sample's own centre and spread, as far as these are known."""
        d, size = len(self.theta), self.efficiency * self.weight.size
        location = self.theta @ self.weight
        away = self.theta - location[:, None]
        spread = (self.weight * away) @ away.T
        # As if the last proposal had been seen in d draws: so the spread is never singular.
        before = proposal.factor @ proposal.factor.T
        mixed = (size * spread + d * before) / (size + d)
        return _Proposal(location, cholesky(mixed, lower=True))

    def join(self, other: "_Sample") -> "_Sample":
        """Both samples of one proposal."""
        return _Sample(
            np.concatenate([self.theta, other.theta], axis=1),
            np.concatenate([self.log_weight, other.log_weight]),
        )

    def resample(self, n: int, rng: np.random.Generator) -> Array:
        """So many parameters (d, n), each as often as its weight says, to less than one draw."""
        steps = (np.arange(n) + rng.random()) / n
        index = np.searchsorted(np.cumsum(self.weight), steps)
        return self.theta[:, np.minimum(index, self.weight.size - 1)]


def _target(model: Model, cells: Cells, n_draws: int, scale: float) -> _Target:
    whole_number("n_draws", n_draws, 1)
    if not (isinstance(scale, Real) and np.isfinite(scale) and scale > 0):
        raise SettingsError(
            f"scale must be a positive number, the prior's standard deviation; got {scale!r}."
        )
    model.check(cells)
    layout = Layout(model, cells, Distinct(), scale_on=cells)
    to_user = layout.bound.to_user(np.eye(layout.bound.n_params)) / scale
    return _Target(layout, to_user.T @ to_user)


def _potential(target: _Target) -> Callable[[Any], Any]:
    """Minus the log posterior at theta (d,), for JAX, with laws that are not our own."""
    import jax
    import jax.numpy as jnp
    from jax.scipy.special import log_ndtr
    from numpyro import distributions as laws

    cells, bound = target.layout.cells, target.layout.bound
    family: Any = target.layout.family
    trials = cells.trials[cells.x_index]
    log_odds: dict[str, Callable[[Any], Any]] = {
        "logit": lambda eta: eta,
        "probit": lambda eta: log_ndtr(eta) - log_ndtr(-eta),
        "cloglog": lambda eta: jnp.exp(eta) + jnp.log(-jnp.expm1(-jnp.exp(eta))),
    }
    known: dict[str, Callable[..., Any]] = {
        "poisson": lambda eta: laws.Poisson(jnp.exp(eta)),
        "negativebinomial": lambda eta, more: laws.NegativeBinomial2(jnp.exp(eta), jnp.exp(-more)),
        "bernoulli": lambda eta: laws.Bernoulli(logits=log_odds[family.link.name](eta)),
        "binomial": lambda eta: laws.Binomial(trials, logits=log_odds[family.link.name](eta)),
    }
    if family.name not in known:
        raise SettingsError(
            "NUTS, which takes over where importance sampling is poor, knows the families "
            f"{', '.join(known)}; got {family.name}. Choose one of them, or a smaller scale."
        )

    # Compiled as a whole: NumPyro begins by calling it as it is, step by step.
    @jax.jit
    def potential(theta: Any) -> Any:
        parts = zip(bound.designs, bound.slices, strict=True)
        main, *more = [(z @ theta[s])[cells.x_index] for z, s in parts]
        law = known[family.name](main + bound.offset[cells.x_index], *more)
        fit = (cells.counts * law.log_prob(cells.y)).sum()
        return 0.5 * theta @ (target.precision @ theta) - fit

    return potential
