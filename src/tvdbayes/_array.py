"""The only place that knows which array library is in use.

The core asks for functions, special functions and sums here. Its arrays are NumPy's unless a table
was put on a device (`Device`): then they are JAX's, and so is what becomes of them. Formulas are
written once, with `xp`.
"""

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from scipy import sparse, special

from tvdbayes._errors import SettingsError
from tvdbayes._typing import Array, IntArray

HALF_LOG_2PI = 0.9189385332046727
"""Half of log(2 pi): the constant of a normal density, and of Stirling's formula."""

Result = TypeVar("Result")


def on_device(*values: object) -> bool:
    """Whether one of the values, or of what a list among them holds, is an array of JAX."""
    jax = sys.modules.get("jax")
    if jax is None:
        return False
    return any(
        isinstance(value, jax.Array) or (isinstance(value, list | tuple) and on_device(*value))
        for value in values
    )


def known(condition: object, otherwise: bool) -> bool:
    """Whether a condition holds; while JAX compiles nothing is known yet, and it is `otherwise`."""
    jax = sys.modules.get("jax")
    traced = jax is not None and isinstance(condition, jax.core.Tracer)
    return otherwise if traced else bool(condition)


@cache
def compiled(law: Callable[..., Any]) -> Callable[..., Any]:
    """A function of arrays that JAX turns into one pass over them."""
    import jax

    made: Callable[..., Any] = jax.jit(law)
    return made


_HELPERS: ContextVar[int] = ContextVar("helpers", default=1)
"""Threads for work here that a device would have to wait for; 1 unless one is in use."""


def in_parts(work: Callable[[int], Result], parts: Sequence[int]) -> list[Result]:
    """``work(part)`` for all parts, in their order; by several threads beside a device."""
    n_threads = _HELPERS.get()
    if n_threads == 1 or len(parts) == 1:
        return [work(part) for part in parts]
    with ThreadPoolExecutor(n_threads) as threads:
        return list(threads.map(work, parts))


def tiny(values: Array) -> float:
    """What masses are at least taken as, so that 0 / 0 cannot appear: its square root is exact."""
    return 1e-100 if values.dtype == float else 1e-36


def to_host(values: Array) -> Array:
    """The same numbers as an array of NumPy, in double precision."""
    return values if isinstance(values, np.ndarray) else np.array(values, float)


@dataclass(frozen=True)
class Device:
    """Where tables are put so that JAX computes on them: "cpu", "gpu", and in which precision."""

    platform: str
    dtype: str = "float64"

    @classmethod
    def named(cls, name: str) -> "Device":
        """The device of a name such as "gpu" or "gpu:float32", or an error that says what to do."""
        platform, _, dtype = name.partition(":")
        try:
            import jax
        except ImportError as error:
            raise SettingsError(
                f"device={name!r} needs JAX. Run: pip install 'tvdbayes[jax]'"
            ) from error
        if dtype not in ("", "float32", "float64"):
            raise SettingsError(
                f'device={name!r}: precision is "float32" or "float64", as in "gpu:float32".'
            )
        try:
            jax.devices(platform)
        except RuntimeError as error:
            seen = ", ".join(sorted({device.platform for device in jax.devices()} | {"cpu"}))
            raise SettingsError(
                f"There is no device {platform!r} that JAX can use here; it sees: {seen}. "
                "Leave device out to compute with NumPy."
            ) from error
        return cls(platform, dtype or "float64")

    @property
    def memory(self) -> int | None:
        """Bytes that it has, where it says so."""
        stats = self._device.memory_stats()
        return None if not stats else int(stats["bytes_limit"])

    @contextmanager
    def here(self) -> Iterator[None]:
        """Let what is put and computed inside be there, in its precision."""
        import jax

        token = _HELPERS.set(os.cpu_count() or 1)
        try:
            with jax.enable_x64(self.dtype == "float64"), jax.default_device(self._device):
                yield
        finally:
            _HELPERS.reset(token)

    @property
    def _device(self) -> Any:
        import jax

        return jax.devices(self.platform)[0]

    def put(self, values: Array) -> Array:
        """The same numbers there."""
        from jax import numpy as jnp

        if on_device(values):
            return values
        # A transposed view travels as it lies in memory, and is turned there.
        turned = values.ndim == 2 and values.flags.f_contiguous
        found: Any = jnp.asarray(values.T if turned else values, self.dtype)
        placed: Array = found.T if turned else found
        return placed


if TYPE_CHECKING:
    xp = np
else:

    class _Functions:
        """NumPy's functions, or JAX's of the same name where an argument lies on a device.

        JAX's arrays never change, so that it has no `out`: callers must use what is returned.
        """

        def __getattr__(self, name: str) -> Any:
            plain = getattr(np, name)
            if not callable(plain) or isinstance(plain, type):
                return plain
            chosen = _either(plain, lambda: getattr(sys.modules["jax"].numpy, name))
            setattr(self, name, chosen)
            return chosen

    xp = _Functions()


def _either(
    plain: Callable[..., Any], other: Callable[[], Callable[..., Any]]
) -> Callable[..., Any]:
    """A function that calls another one where an argument lies on a device."""

    def chosen(*args: Any, **options: Any) -> Any:
        if not on_device(*args):
            return plain(*args, **options)
        options.pop("out", None)
        return other()(*args, **options)

    return chosen


def _special(name: str) -> Callable[..., Array]:
    """A special function of SciPy, or of JAX."""

    def other() -> Any:
        import jax.scipy.special

        return getattr(jax.scipy.special, {"psi": "digamma"}.get(name, name))

    return _either(getattr(special, name), other)


gammaln, gammainc, ndtr = (_special(name) for name in ("gammaln", "gammainc", "ndtr"))
log_ndtr, psi, zeta = (_special(name) for name in ("log_ndtr", "psi", "zeta"))


def erfcx(x: Array) -> Array:
    """exp(x^2) erfc(x), for x of at least 0."""
    if not on_device(x):
        return np.asarray(special.erfcx(x), float)
    # JAX has none. The tail of the normal law in logarithms keeps its digits.
    return xp.exp(log_ndtr(-x * _ROOT_2) + _LOG_2 + x * x)


_ROOT_2, _LOG_2 = 1.4142135623730951, 0.6931471805599453


class Ones:
    """A sparse matrix of ones: a product with it adds up what belongs together."""

    def __init__(self, matrix: sparse.csr_array) -> None:
        self._matrix = matrix

    @classmethod
    def at(cls, rows: IntArray, columns: IntArray, shape: tuple[int, int] | None = None) -> "Ones":
        """Ones in these places."""
        return cls(sparse.csr_array((np.ones(rows.size), (rows, columns)), shape))

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self._matrix.shape[0], self._matrix.shape[1]

    @property
    def nnz(self) -> int:
        """How many ones there are."""
        return int(self._matrix.nnz)

    @cached_property
    def T(self) -> "Ones":  # noqa: N802
        """The transpose; on the host a view, whose product streams over the same entries."""
        return Ones(self._matrix.T)  # type: ignore[arg-type]

    @property
    def columns(self) -> tuple[IntArray, IntArray]:
        """Where the ones of each row begin, and their columns, row by row."""
        matrix = sparse.csr_array(self._matrix)
        return np.asarray(matrix.indptr), np.asarray(matrix.indices)

    def only_column(self) -> IntArray:
        """The column of the one in each row, -1 where there is none; none may have several."""
        found = np.full(self.shape[0], -1)
        rows, columns = self._matrix.nonzero()
        found[rows] = columns
        return found

    def __matmul__(self, values: Array) -> Array:
        """(columns, B) to (rows, B)."""
        if not on_device(values):
            return np.asarray(self._matrix @ values)
        same, columns, ends = self._on_device
        if not same:
            from jax.experimental.sparse import BCSR

            ones: Any = xp.ones_like(values, shape=(columns.size,))
            found: Array = BCSR((ones, columns, ends), shape=self.shape) @ values
            return found
        summed: Array = compiled(_sum_of_copies)(values, columns)
        return summed

    @cached_property
    def _on_device(self) -> tuple[bool, Any, Any]:
        """Whether all rows have as many ones; their columns, by row if so; and the rows' ends."""
        from jax import numpy as jnp

        matrix = sparse.csr_array(self._matrix)
        count = np.diff(matrix.indptr)
        same = count.size > 0 and bool((count == count[0]).all()) and 0 < count[0] <= _SIDE_BY_SIDE
        columns = matrix.indices.reshape(count.size, -1) if same else matrix.indices
        return same, jnp.asarray(columns), jnp.asarray(matrix.indptr)


_SIDE_BY_SIDE = 16
"""Ones in a row up to which a sum over copies of values is one pass in which no two threads write
to one place."""


def _sum_of_copies(values: Array, columns: IntArray) -> Array:
    """Row i is the sum of the values in the places columns[i]."""
    total: Array = values[columns[:, 0]]
    for number in range(1, columns.shape[1]):
        total = total + values[columns[:, number]]
    return total


class Segments:
    """Sorted pieces of an axis: ``spread`` copies a value to its piece, ``total`` adds each up.

    ``index`` names the piece of every entry along the first axis and must not decrease; with
    ``one_each`` every piece is a single entry.
    """

    def __init__(self, index: IntArray, n: int) -> None:
        self.index = index
        self.n = n
        self.one_each = index.size == n and bool((index == np.arange(n)).all())

    @cached_property
    def _sum(self) -> Ones:
        """A product with a sparse matrix of ones is several times faster than add.reduceat."""
        ends = np.searchsorted(self.index, np.arange(self.n + 1))
        ones = np.ones(self.index.size), np.arange(self.index.size), ends
        return Ones(sparse.csr_array(ones, (self.n, self.index.size)))

    def spread(self, values: Array) -> Array:
        """(n, B) to (len(index), B)."""
        if self.one_each:
            return values
        return values.take(self._device_index if on_device(values) else self.index, axis=0)

    @cached_property
    def _device_index(self) -> Any:
        from jax import numpy as jnp

        return jnp.asarray(self.index)

    def total(self, values: Array) -> Array:
        """(len(index), B) to (n, B)."""
        return values if self.one_each else self._sum @ values


def excess_exp(t: Array) -> Array:
    """exp(t) - 1 - t, the deviance of a count whose rate is off by a factor exp(t)."""
    # Beyond 300 it only has to be huge, and small enough to be multiplied by a count.
    excess: Array = xp.expm1(xp.minimum(t, 300.0)) - t
    return excess


def stirling_error(n: Array) -> Array:
    """Log n! minus Stirling's formula, for n above 0, to full precision."""
    small = xp.minimum(n, 16.0)
    exact = gammaln(small + 1) - (small + 0.5) * xp.log(small) + small - HALF_LOG_2PI
    large = xp.maximum(n, 16.0)
    square = 1 / (large * large)
    tail = (1 / 12 - square * (1 / 360 - square * (1 / 1260 - square / 1680))) / large
    error: Array = xp.where(n < 16, exact, tail)
    return error


def log1m_exp(log_prob: Array) -> Array:
    """log(1 - exp(l)) for l below 0, without loss of digits at either end."""
    near, far = xp.maximum(log_prob, -0.7), xp.minimum(log_prob, -0.7)
    value: Array = xp.where(log_prob > -0.7, xp.log(-xp.expm1(near)), xp.log1p(-xp.exp(far)))
    return value


def digamma_gap(y: Array, r: Array) -> Array:
    """psi(y + r) - psi(r), which for large r is a small difference of large numbers."""
    gap: Array = xp.log1p(y / r) - (_log_minus_psi(y + r) - _log_minus_psi(r))
    return gap


def trigamma_gap(y: Array, r: Array) -> Array:
    """psi'(y + r) - psi'(r), in the same way."""
    gap: Array = _trigamma_excess(y + r) - _trigamma_excess(r) - y / (r * (y + r))
    return gap


def _log_minus_psi(x: Array) -> Array:
    """log(x) - psi(x); from 10 on by its asymptotic series, which has nothing to cancel."""
    t = 1 / xp.maximum(x, 10.0)
    s = t * t
    value: Array = t / 2 + s * (1 / 12 - s * (1 / 120 - s * (1 / 252 - s * (1 / 240 - s / 132))))
    if known(xp.min(x, initial=10.0) < 10, True):
        small = xp.minimum(x, 10.0)
        value = xp.where(x < 10, xp.log(small) - psi(small), value)
    return value


def _trigamma_excess(x: Array) -> Array:
    """psi'(x) - 1 / x, in the same way."""
    t = 1 / xp.maximum(x, 10.0)
    s = t * t
    tail = s * (1 / 6 - s * (1 / 30 - s * (1 / 42 - s * (1 / 30 - s * (5 / 66)))))
    value: Array = s / 2 + t * tail
    if known(xp.min(x, initial=10.0) < 10, True):
        small = xp.minimum(x, 10.0)
        value = xp.where(x < 10, zeta(2.0, small) - 1 / small, value)
    return value
