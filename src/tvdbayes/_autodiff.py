"""Derivatives of a user's function, by JAX. The only place in the core that knows it."""

from collections.abc import Callable
from typing import Any

import numpy as np

from tvdbayes._errors import SettingsError
from tvdbayes._typing import Array


class ElementwiseJet:
    """An elementwise ``function(y, *eta)`` with its first and second derivatives in eta.

    Compiled once for every power of two of elements: what is asked for is padded, because the
    batches of a solver shrink by a few draws at a time and compiling takes longer than a fit.
    """

    def __init__(self, function: Callable[..., Any], n: int) -> None:
        self._function = function
        self._n = n
        self._compiled: Callable[..., Any] | None = None

    def __call__(self, y: Array, eta: Array) -> tuple[Array, Array, Array]:
        """Value (...), first (n, ...) and second derivatives (n, n, ...) at eta (n, ...)."""
        jax = _jax()
        shape = np.broadcast_shapes(np.shape(y), eta.shape[1:])
        size = int(np.prod(shape))
        padded = 1 << max(size - 1, 1).bit_length()

        def flat(values: Array) -> Array:
            whole = np.broadcast_to(values, shape).ravel()
            return np.pad(whole, (0, padded - size), mode="edge")

        with jax.enable_x64(True):
            if self._compiled is None:
                self._compiled = jax.jit(self._all)
            found = self._compiled(flat(y), np.stack([flat(part) for part in eta]))
            value, first, second = (np.array(part, float)[..., :size] for part in found)
        n = self._n
        return value.reshape(shape), first.reshape(n, *shape), second.reshape(n, n, *shape)

    def _all(self, y: Any, eta: Any) -> tuple[Any, Any, Any]:
        jax = _jax()
        along = [jax.numpy.zeros_like(eta).at[j].set(1.0) for j in range(self._n)]

        def value(at: Any) -> Any:
            return jax.numpy.asarray(self._function(y, *at), float)

        def slope(j: int) -> Callable[[Any], Any]:
            return lambda at: jax.jvp(value, (at,), (along[j],))[1]

        first = [slope(j)(eta) for j in range(self._n)]
        second = [
            [jax.jvp(slope(j), (eta,), (along[i],))[1] for j in range(self._n)]
            for i in range(self._n)
        ]
        stack = jax.numpy.stack
        return value(eta), stack(first), stack([stack(row) for row in second])

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_compiled": None}


def jax_numpy() -> Any:
    """The array functions that JAX can differentiate."""
    return _jax().numpy


def _jax() -> Any:
    try:
        import jax
    except ImportError as error:
        raise SettingsError(
            "Derivatives of your log_pmf need JAX: pip install 'tvdbayes[jax]'. "
            "Or pass them yourself, as score= and curvature=."
        ) from error
    return jax
