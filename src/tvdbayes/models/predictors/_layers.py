"""The layers of a network: how its parameters lie in theta, and what it makes of them.

With weights W_l, biases b_l and an activation a, a row z of standardised columns gives

    h_0 = z,    h_l = a(h_(l - 1) W_l + b_l),    eta = h_(L - 1) W_L + b_L + z D,

where D is the direct, linear way from columns to outputs.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from tvdbayes._array import xp
from tvdbayes._typing import Array, BoolArray

_SMALL = 0.1
"""Size of the last layer at the start beside a direct way: nearly linear, but not stuck at 0."""


def _relu(values: Array) -> Array:
    return xp.maximum(values, 0.0)


def _relu_slope(values: Array) -> Array:
    return xp.where(values > 0, 1.0, 0.0)


def _silu(values: Array) -> Array:
    found: Array = 0.5 * values * (1 + xp.tanh(values / 2))
    return found


def _silu_slope(values: Array) -> Array:
    share = 0.5 * (1 + xp.tanh(values / 2))
    slope: Array = share * (1 + values * (1 - share))
    return slope


def _tanh(values: Array) -> Array:
    return xp.tanh(values)


def _tanh_slope(values: Array) -> Array:
    slope: Array = 1 - xp.tanh(values) ** 2
    return slope


ACTIVATIONS: dict[str, tuple[Callable[[Array], Array], Callable[[Array], Array]]] = {
    "relu": (_relu, _relu_slope),
    "silu": (_silu, _silu_slope),
    "tanh": (_tanh, _tanh_slope),
}
"""What a hidden node does, and its derivative."""


@dataclass(frozen=True)
class Layers:
    """How the parameters of one network lie in theta, and what it makes of them.

    Theta holds the weights and biases of each layer, the direct way, and constants.

    Parameters
    ----------
    sizes : tuple of int
        Nodes of all layers: columns, hidden ones, outputs.
    direct : bool
        Whether columns also have a linear way to the outputs.
    n_more : int
        Further predictors, each of which is one constant.
    activation : str
    """

    sizes: tuple[int, ...]
    direct: bool
    n_more: int
    activation: str

    @property
    def n_params(self) -> int:
        """Number of parameters, d."""
        between = sum((a + 1) * b for a, b in pairwise(self.sizes))
        return between + self.direct * self.sizes[0] * self.sizes[-1] + self.n_more

    @cached_property
    def penalised(self) -> BoolArray:
        """The weights between layers; biases and the direct way are free, as in a linear model."""
        layers = [np.repeat([True, False], [a * b, b]) for a, b in pairwise(self.sizes)]
        n_layers = sum(mark.size for mark in layers)
        return np.concatenate([*layers, np.zeros(self.n_params - n_layers, bool)])

    def layers(self, theta: Array) -> Iterator[tuple[Array, Array]]:
        """Weights (from, to, ...) and biases (to, ...) of each layer, from theta (d, ...)."""
        start = 0
        for a, b in pairwise(self.sizes):
            end = start + a * b
            yield theta[start:end].reshape(a, b, *theta.shape[1:]), theta[end : end + b]
            start = end + b

    def direct_way(self, theta: Array) -> Array:
        """Weights (columns, outputs, ...) of the direct way; none if there is none."""
        a, b = self.direct * self.sizes[0], self.sizes[-1]
        end = self.n_params - self.n_more
        return theta[end - a * b : end].reshape(a, b, *theta.shape[1:])

    def constants(self, theta: Array) -> Array:
        """The further predictors, (n_more, ...)."""
        return theta[self.n_params - self.n_more :]

    def forward(self, theta: Array, x: Array) -> Array:
        """Predictors (k, n) of one network theta (d,) at standardised rows (n, p)."""
        act, _ = ACTIVATIONS[self.activation]
        values, last = x, len(self.sizes) - 2
        for number, (weights, biases) in enumerate(self.layers(theta)):
            values = values @ weights + biases
            values = act(values) if number < last else values
        if self.direct:
            values = values + x @ self.direct_way(theta)
        more = [xp.broadcast_to(one, values.shape[:1]) for one in self.constants(theta)]
        return xp.stack([*values.T, *more])

    def slope(self, theta: Array, x: Array, change: Array) -> Array:
        """Derivatives (k, n) of the predictors along a change (n, p) of the rows."""
        act, slope = ACTIVATIONS[self.activation]
        values, moved, last = x, change, len(self.sizes) - 2
        for number, (weights, biases) in enumerate(self.layers(theta)):
            values, moved = values @ weights + biases, moved @ weights
            if number < last:
                values, moved = act(values), moved * slope(values)
        if self.direct:
            moved = moved + change @ self.direct_way(theta)
        return np.stack([*moved.T, *np.zeros((self.n_more, len(x)))])

    def start(self, rng: np.random.Generator) -> Array:
        """Random layers and nothing else, (d,).

        Weights have variance 2 over the nodes before. Beside a direct way the last layer starts
        small, so that a network starts as nearly linear.
        """
        found = np.zeros(self.n_params)
        for number, (weights, _) in enumerate(self.layers(found)):
            last = number == len(self.sizes) - 2
            size = np.sqrt((1.0 if last else 2.0) / len(weights))
            size *= _SMALL if last and self.direct else 1.0
            weights[:] = rng.normal(0.0, size, weights.shape)
        return found
