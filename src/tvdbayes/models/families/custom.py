"""A family of the user's own: it is given by its log pmf, and the rest is computed from that."""

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from itertools import product
from numbers import Real
from typing import Any, ClassVar, Literal

import numpy as np

from tvdbayes._autodiff import ElementwiseJet, jax_numpy
from tvdbayes._errors import FamilyError, SettingsError, TVDBayesError
from tvdbayes._typing import Array, BoolArray
from tvdbayes.models.families._base import AbstractFamily, Jet
from tvdbayes.models.families._support import CERTAIN, mean_by_sum, panels

Scale = Literal["log", "logit", "identity"]
Law = Callable[..., Any]

_LARGE = 300.0
"""Bound on predictors before exp, whose square is then finite."""

_GRID = (-1.0, 0.0, 0.7)
"""Values of each predictor at which a family is checked: small, zero, and not symmetric."""

_LONGEST = 1e12
"""Sums over an unbounded support end at this outcome at the latest."""

_MOST_STEPS = 1_000_000
"""Steps from outcome to outcome when sampling: beyond them the support has no end in practice."""

_SUMS_TO_ONE = 1e-6
"""Error that is allowed for the sum of the pmf over its support."""

_AGREES = 1e-4
"""Error that is allowed for derivatives beside central differences."""

_SMALLEST, _NEVER = -700.0, -1e6
"""Below exp(-700) a pmf underflows and its derivatives mean nothing; the log pmf is then at least
-1e6."""


class CustomFamily(AbstractFamily):
    """The distribution of an outcome, given by its log pmf.

    Parameters
    ----------
    log_pmf : callable
        ``log_pmf(y, first, second, ...)``, elementwise over arrays, with one argument for each
        parameter. Written with ``jax.numpy`` it needs nothing more. It should make sense between
        whole numbers too: sums over many outcomes are taken at few points.
    support : (low, high)
        Smallest and largest outcome; None for no largest.
    parameters : dict
        Name and scale of each parameter: "log" (above 0), "logit" (between 0 and 1) or
        "identity". The first gets the covariates, the others are constant unless asked.
    score, curvature : callable, optional
        Derivatives of log_pmf in the parameters (not their logarithms): a sequence of k arrays,
        and k sequences of k. Needed where JAX is not installed.
    mean, sample : callable, optional
        ``mean(*parameters)`` and ``sample(rng, *parameters)``; made from the pmf unless given.
    start : dict, optional
        Where searches start, by parameter; 1, 1/2 or 0 unless given, and for the first parameter
        the outcome itself.
    name : str
        What messages call it.

    Examples
    --------
    >>> import numpy as np, tvdbayes as tb
    >>> halves = tb.CustomFamily(
    ...     log_pmf=lambda y, q: y * np.log(q) + np.log1p(-q),
    ...     score=lambda y, q: [y / q - 1 / (1 - q)],
    ...     curvature=lambda y, q: [[-y / q**2 - 1 / (1 - q) ** 2]],
    ...     support=(0, None),
    ...     parameters={"q": "logit"},
    ... )
    >>> halves.pmf(np.array([0.0, 1.0]), np.zeros((1, 2)), np.ones(1))
    array([0.5 , 0.25])

    It is fitted like any other:

    >>> y = np.random.default_rng(0).geometric(0.25, 2000) - 1
    >>> fit = tb.fit("y ~ 1", {"y": y}, family=halves, n_draws=0)
    >>> (1 / (1 + np.exp(-fit.estimate))).round(2)  # the truth: 0.75
    array([0.75])
    """

    name: ClassVar[str] = "custom"
    counts: ClassVar[bool] = True

    @property
    def on_device(self) -> bool:
        return False

    def __init__(
        self,
        log_pmf: Law,
        support: tuple[float, float | None],
        parameters: Mapping[str, Scale],
        *,
        score: Law | None = None,
        curvature: Law | None = None,
        mean: Law | None = None,
        sample: Law | None = None,
        start: Mapping[str, float] | None = None,
        name: str = "custom",
    ) -> None:
        self._law, self._score, self._curvature = log_pmf, score, curvature
        self._mean, self._sample = mean, sample
        self.label = name
        self.low, self.high = _check_support(support)
        self.scales = _check_scales(parameters)
        self.start = _check_start(self.scales, start or {})
        if (score is None) != (curvature is None):
            raise SettingsError("Give both score= and curvature=, or neither.")
        try:
            self._check_on_a_grid()
        except TVDBayesError:
            raise
        except Exception as error:
            # The user's own functions may raise anything; it must be clear that they did.
            raise FamilyError(
                f"Your functions for {self!r} cannot be used: {type(error).__name__}: {error}. "
                "log_pmf takes y and one array for each parameter, and is written with jax.numpy "
                "unless score= and curvature= are given."
            ) from error

    def __repr__(self) -> str:
        return f"CustomFamily({self.label})"

    @property
    def needs(self) -> str:  # type: ignore[override]
        """The outcomes it takes, in words."""
        end = "on" if self.high is None else f"to {self.high:g}"
        return f"whole outcomes from {self.low:g} {end}"

    @property
    def predictors(self) -> tuple[str, ...]:
        return ("", *list(self.scales)[1:])

    @property
    def link_name(self) -> str:
        return next(iter(self.scales.values()))

    @property
    def ratios(self) -> tuple[str, ...]:
        of_scale = {"log": "ratio of {}", "logit": "odds ratio of {}", "identity": ""}
        return tuple(of_scale[scale].format(name) for name, scale in self.scales.items())

    @cached_property
    def _by_jax(self) -> ElementwiseJet:
        jnp, scales = jax_numpy(), list(self.scales.values())

        def function(y: Any, *eta: Any) -> Any:
            return self._law(
                y, *(_value(scale, e, jnp) for scale, e in zip(scales, eta, strict=True))
            )

        return ElementwiseJet(function, len(scales))

    def log_jet(self, y: Array, eta: Array, trials: Array) -> Jet:
        value, first, second = self._jet(y, eta)
        # Where the pmf is too small to be held its derivatives mean nothing.
        gone = ~(value > _SMALLEST)
        if gone.any():
            value = np.where(gone, np.fmax(value, _NEVER), value)
            first, second = np.where(gone, 0.0, first), np.where(gone, 0.0, second)
        return value, first, second

    def _jet(self, y: Array, eta: Array) -> Jet:
        if self._score is None or self._curvature is None:
            return self._by_jax(np.asarray(y, float), eta)
        values = self._parameters(eta)
        shape = np.broadcast_shapes(np.shape(y), eta.shape[1:])
        k = len(values)
        value = np.broadcast_to(np.asarray(self._law(y, *values), float), shape)
        slope, curvature = np.empty((k, *shape)), np.empty((k, k, *shape))
        for j, part in enumerate(_parts(self._score(y, *values), k, "score")):
            slope[j] = part
        for i, row in enumerate(_parts(self._curvature(y, *values), k, "curvature")):
            for j, part in enumerate(_parts(row, k, "curvature")):
                curvature[i, j] = part
        # From the parameters to their predictors.
        steps = [_steps(s, v) for s, v in zip(self.scales.values(), values, strict=True)]
        first = np.stack([slope[j] * steps[j][0] for j in range(k)])
        second = np.empty_like(curvature)
        for i, j in product(range(k), range(k)):
            second[i, j] = curvature[i, j] * steps[i][0] * steps[j][0]
            if i == j:
                second[i, i] += slope[i] * steps[i][1]
        return value, first, second

    def _parameters(self, eta: Array) -> list[Array]:
        return [_value(s, e, np) for s, e in zip(self.scales.values(), eta, strict=True)]

    def mean(self, eta: Array, trials: Array) -> Array:
        if self._mean is not None:
            given = np.asarray(self._mean(*self._parameters(eta)), float)
            return np.broadcast_to(given, eta.shape[1:]).copy()
        return mean_by_sum(self, eta, trials)

    def sample(self, rng: np.random.Generator, eta: Array, trials: Array) -> Array:
        if self._sample is not None:
            return np.asarray(self._sample(rng, *self._parameters(eta)), float)
        left = rng.random(eta.shape[1:])
        y = np.full(left.shape, self.low)
        open_ = np.ones(left.shape, bool)
        for _ in range(_MOST_STEPS):
            left[open_] -= self.pmf(y[open_], eta[:, open_], np.ones(1))
            open_ &= left > 0
            if self.high is not None:
                open_ &= y < self.high
            if not open_.any():
                return y
            y[open_] += 1
        raise FamilyError(
            f"{self!r} cannot be sampled by going up from {self.low:g}: outcomes are too large. "
            "Pass sample=."
        )

    def nodes(self, eta: Array, trials: Array, power: float) -> tuple[Array, Array]:
        ndim = eta.ndim - 1
        if self.high is not None:
            y = np.arange(self.low, self.high + 1).reshape((-1,) + (1,) * ndim)
            return y, np.ones_like(y)
        reach = 1000.0
        while True:
            y, weights = panels(np.array(reach), np.array(0.1), ndim)
            y = y + self.low
            last = self.log_pmf(np.full(eta.shape[1:], self.low + reach), eta, trials)
            if (last + np.log(reach) < -32).all() or reach > _LONGEST:
                return y, weights
            reach *= 8

    def saturated(self, y: Array, trials: Array) -> Array:
        main, *more = self.scales
        guesses = np.stack(
            [np.full(np.shape(y), _link(self.scales[n], self.start[n])) for n in (main, *more)]
        )
        if self.scales[main] == "log":
            guesses[0] = np.log(np.maximum(y - min(self.low, 0), 0.25))
        elif self.scales[main] == "identity":
            guesses[0] = y
        return guesses

    def possible(self, y: Array, trials: Array) -> BoolArray:
        inside: BoolArray = (y == np.round(y)) & (y >= self.low)
        return inside if self.high is None else inside & (y <= self.high)

    def degenerate(self, eta: Array, trials: Array) -> BoolArray:
        ends = [self.low] if self.high is None else [self.low, self.high]
        sure = [self.pmf(np.full(eta.shape[1:], end), eta, trials) > 1 - CERTAIN for end in ends]
        certain: BoolArray = np.logical_or.reduce(sure)
        return certain

    def _check_on_a_grid(self) -> None:
        """Find a mistake in the user's functions now, and name it."""
        k = len(self.scales)
        eta = np.array(list(product(_GRID, repeat=k))).T
        last = self.low + 5 if self.high is None else min(self.high, self.low + 5)
        y = np.arange(self.low, last + 1)
        for outcome in y:
            raw = np.asarray(self._law(np.full(eta.shape[1], outcome), *self._parameters(eta)))
            if raw.dtype.kind not in "biuf":
                raise FamilyError(f"log_pmf must return numbers; it returned {raw.dtype}.")
            if raw.shape != (eta.shape[1],):
                raise FamilyError(
                    f"log_pmf must return one value for each element; for {eta.shape[1]} outcomes "
                    f"it returned the shape {raw.shape}. Use elementwise operations only."
                )
            if np.isnan(raw).any() or (raw > 0).any():
                at = int(np.argmax(np.isnan(raw) | (raw > 0)))
                raise FamilyError(
                    f"log_pmf must be the logarithm of a probability; it is {raw[at]:g} at "
                    f"y = {outcome:g}, {self._words(eta[:, at])}."
                )
        ones = np.ones(1)
        nodes, weights = self.nodes(eta, ones, 1.0)
        total = (weights * self.pmf(nodes, eta[:, None], ones)).sum(0)
        off = np.abs(total - 1)
        if not (off < _SUMS_TO_ONE).all():
            at = int(np.argmax(np.where(np.isnan(off), np.inf, off)))
            raise FamilyError(
                f"The probabilities must add up to 1 over the support; they add up to "
                f"{total[at]:.6g} at {self._words(eta[:, at])}. Check log_pmf and support."
            )
        for jet in self.log_jet(y[:, None], eta[:, None], ones)[1:]:
            wrong = ~np.isfinite(jet)
            if wrong.any():
                *_, row, at = (int(index[0]) for index in np.nonzero(wrong))
                raise FamilyError(
                    f"The derivatives of log_pmf must be finite; one is not at y = {y[row]:g}, "
                    f"{self._words(eta[:, at])}. Guard powers and logarithms of 0."
                )
        if self._score is not None:
            self._check_derivatives(y[:, None], eta[:, None])

    def _check_derivatives(self, y: Array, eta: Array) -> None:
        ones, h = np.ones(1), 1e-5
        _, first, second = self.log_jet(y, eta, ones)
        for j in range(len(first)):
            step = np.zeros((len(first), 1, 1))
            step[j] = h
            up, down = (self.log_jet(y, eta + s * step, ones) for s in (1, -1))
            for what, given, law in (
                ("score", first[j], (up[0] - down[0]) / (2 * h)),
                ("curvature", second[:, j], (up[1] - down[1]) / (2 * h)),
            ):
                if not np.allclose(given, law, rtol=_AGREES, atol=_AGREES):
                    raise FamilyError(
                        f"{what} does not agree with the differences of log_pmf for the parameter "
                        f"{list(self.scales)[j]!r}. It must hold derivatives in the parameters "
                        "themselves."
                    )

    def _words(self, eta: Array) -> str:
        values = self._parameters(eta[:, None])
        return ", ".join(f"{n} = {v[0]:g}" for n, v in zip(self.scales, values, strict=True))


def _parts(given: Any, k: int, what: str) -> list[Any]:
    if not (isinstance(given, Sequence | np.ndarray) and len(given) == k):
        raise FamilyError(
            f"{what} must return {k} part(s), one for each parameter; got {type(given).__name__}"
            f"{f' of length {len(given)}' if hasattr(given, '__len__') else ''}."
        )
    return list(given)


def _check_support(support: Sequence[float | None]) -> tuple[float, float | None]:
    try:
        low, high = support
        ends = [float(end) for end in (low, high) if end is not None]
    except (TypeError, ValueError) as error:
        raise SettingsError(
            f"support must be (smallest, largest) outcome, None for no largest; got {support!r}."
        ) from error
    whole = all(np.isfinite(end) and end == round(end) for end in ends)
    if low is None or not whole or (high is not None and ends[1] <= ends[0]):
        raise SettingsError(
            f"support must be two whole numbers, the second larger or None; got {support!r}."
        )
    if high is not None and ends[1] - ends[0] > _MOST_STEPS:
        raise SettingsError(
            f"support has more than {_MOST_STEPS:,} outcomes; leave the largest out (None)."
        )
    return ends[0], (ends[1] if high is not None else None)


def _check_scales(parameters: Mapping[str, Scale]) -> dict[str, Scale]:
    known = ("log", "logit", "identity")
    good = isinstance(parameters, Mapping) and parameters
    if not good or any(scale not in known for scale in parameters.values()):
        raise SettingsError(
            'parameters must name each parameter with its scale, as in {"scale": "log"}; scales '
            f"are {', '.join(known)}; got {parameters!r}."
        )
    return dict(parameters)


def _check_start(scales: Mapping[str, Scale], start: Mapping[str, float]) -> dict[str, float]:
    given: object = start
    if not isinstance(given, Mapping) or not all(isinstance(v, Real) for v in given.values()):
        raise SettingsError(f"start must give a number for parameters by name; got {given!r}.")
    unknown = set(start) - set(scales)
    if unknown:
        raise SettingsError(f"start names {sorted(unknown)}, which are not parameters.")
    default = {"log": 1.0, "logit": 0.5, "identity": 0.0}
    chosen = {name: float(start.get(name, default[scale])) for name, scale in scales.items()}
    for name, value in chosen.items():
        if not np.isfinite(_link(scales[name], value)):
            raise SettingsError(f"start for {name!r} must lie inside its scale; got {value}.")
    return chosen


def _value(scale: Scale, eta: Any, numpy: Any) -> Any:
    """A parameter from its predictor, in the given array library."""
    if scale == "identity":
        return eta
    if scale == "log":
        return numpy.exp(numpy.clip(eta, -_LARGE, _LARGE))
    return 1 / (1 + numpy.exp(-numpy.clip(eta, -_LARGE, _LARGE)))


def _steps(scale: Scale, value: Array) -> tuple[Array, Array]:
    """First and second derivative of a parameter in its predictor."""
    if scale == "identity":
        return np.ones_like(value), np.zeros_like(value)
    if scale == "log":
        return value, value
    first = value * (1 - value)
    return first, first * (1 - 2 * value)


def _link(scale: Scale, value: float) -> float:
    with np.errstate(all="ignore"):
        if scale == "log":
            return float(np.log(value))
        return float(np.log(value / (1 - value))) if scale == "logit" else value
