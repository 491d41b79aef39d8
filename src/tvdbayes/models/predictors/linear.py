"""The linear predictor, with the derivatives that Newton's method needs."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from itertools import pairwise
from typing import ClassVar

import numpy as np
from scipy.linalg import qr

from tvdbayes._array import Device, on_device, to_host, xp
from tvdbayes._errors import SettingsError
from tvdbayes._typing import Array, BoolArray, IntArray
from tvdbayes.data.cells import Cells
from tvdbayes.models.predictors._base import AbstractBound, AbstractPredictor

# Products of columns are kept for tables up to this size and recomputed by chunks above it.
_KEEP = 1 << 24
_CHUNK = 8192
_ROWS = 1 << 14
"""Rows whose predictors are made at a time."""
_FEW, _MANY = 4, 64
"""For so few draws, products of more pairs of columns than this are not worth making."""

_FREE = 1e-13
"""Directions with a smaller share of the variance than this are rounding errors."""


@dataclass(frozen=True)
class Linear(AbstractPredictor):
    """eta = x theta + offset, one block of theta for each predictor.

    Parameters
    ----------
    columns : tuple of tuples of int, optional
        The columns of x that each predictor uses; -1 is an intercept that need not be a column.
        None gives every column to the main predictors (for categories, one for each level but the
        first) and an intercept to the others. The offset belongs to the first predictor.

    Examples
    --------
    `fit` makes it from formulas. By hand: a zero-inflated model whose rate depends on the first
    two columns, and its inflation on the third, with an intercept:

    >>> import numpy as np, tvdbayes as tb
    >>> law = tb.ZeroInflated(tb.Poisson())
    >>> model = tb.Model(law, tb.Linear(((0, 1), (-1, 2))))
    >>> cells = tb.Cells.from_rows(np.ones((5, 3)), np.arange(5), names=("one", "age", "child"))
    >>> model.param_names(cells)
    ('one', 'age', 'inflation:Intercept', 'inflation:child')
    """

    columns: tuple[tuple[int, ...], ...] | None = None

    def blocks(self, n_columns: int, n_main: int, n_more: int) -> tuple[tuple[int, ...], ...]:
        """The columns of each predictor, for a table with this many."""
        if self.columns is None:
            return (tuple(range(n_columns)),) * n_main + ((-1,),) * n_more
        if len(self.columns) != n_main + n_more:
            raise SettingsError(
                f"The family has {n_main + n_more} predictor(s), but columns are given for "
                f"{len(self.columns)}."
            )
        return self.columns

    def param_names(
        self, names: tuple[str, ...], predictors: tuple[str, ...], n_main: int
    ) -> tuple[str, ...]:
        blocks = self.blocks(len(names), n_main, len(predictors) - n_main)
        known = (*names, "Intercept")
        return tuple(
            f"{predictor}:{known[j]}" if predictor else known[j]
            for predictor, block in zip(predictors, blocks, strict=True)
            for j in block
        )

    def complexity(self, n_varying: int, n_params: int) -> int:
        return n_params

    def bind(self, cells: Cells, scale_on: Cells, n_main: int, n_more: int) -> "BoundLinear":
        weights = scale_on.x_counts / scale_on.n_obs
        designs, transforms, constants, spreads = [], [], [], []
        blocks = self.blocks(cells.x.shape[1], n_main, n_more)
        for block in blocks:
            columns = _columns(scale_on.x, block)
            constant, centre, scale = _scaling(columns, weights)
            design = _columns(cells.x, block) - centre
            design /= scale
            designs.append(design)
            transforms.append(_to_user(constant, centre, scale))
            constants.append(constant)
            spreads.append(_spread(columns, centre, scale, weights, constant))
        return BoundLinear(
            tuple(designs),
            cells.offset,
            tuple(transforms),
            tuple(constants),
            tuple(spreads),
            blocks,
        )


@dataclass(frozen=True, eq=False)
class BoundLinear(AbstractBound):
    """A linear predictor at fixed x rows, in standardised coordinates.

    Parameters
    ----------
    designs : tuple of (n_x, d_k)
        Standardised columns of each predictor.
    offset : (n_x,)
        Added to the first predictor.
    transforms : tuple of (d_k, d_k)
        Take standardised parameters to the user's.
    constants : tuple of (d_k,)
        Which columns are intercepts; these are never penalised.
    spreads : tuple of (d_k, d_k)
        The quadratic form that a ridge penalises, see `_spread`.
    blocks : tuple of tuples of int
        The columns of x that each predictor uses; -1 is an intercept.
    """

    designs: tuple[Array, ...]
    offset: Array
    transforms: tuple[Array, ...]
    constants: tuple[BoolArray, ...]
    spreads: tuple[Array, ...]
    blocks: tuple[tuple[int, ...], ...]

    linear: ClassVar[bool] = True

    @cached_property
    def slices(self) -> tuple[slice, ...]:  # type: ignore[override]
        """See `AbstractBound`."""
        ends = np.cumsum([0] + [z.shape[1] for z in self.designs]).tolist()
        return tuple(slice(a, b) for a, b in pairwise(ends))

    @property
    def n_predictors(self) -> int:
        return len(self.designs)

    @property
    def n_params(self) -> int:
        return sum(z.shape[1] for z in self.designs)

    @property
    def penalised(self) -> BoolArray:
        return ~np.concatenate(self.constants)

    def ridge_gradient(self, theta: Array) -> Array:
        """See `AbstractBound`; penalised is the variance of each linear predictor over the rows."""
        parts = zip(self.spreads, self.slices, strict=True)
        return np.concatenate([spread @ theta[s] for spread, s in parts])

    def eta(self, theta: Array) -> Array:
        parts = self._parts(theta)
        if self.offset.any():
            parts[0] += self.offset[:, None]
        return xp.stack(parts)

    def extremes(self, theta: Array) -> Array:
        n = len(self.offset)
        if on_device(self.designs[0]) or n <= _ROWS:
            return super().extremes(theta)
        ends = []
        for start in range(0, n, _ROWS):
            eta = self.cut(slice(start, start + _ROWS)).eta(theta)
            # Minima of long rows are found several times faster.
            across = np.ascontiguousarray(eta.transpose(0, 2, 1))
            ends.append((across.min(2), across.max(2)))
        low, high = zip(*ends, strict=True)
        return np.stack([np.min(low, axis=0), np.max(high, axis=0)], axis=1)

    def enclosed(self, theta: Array) -> Array:
        """See `AbstractBound`; from the centre c of the draws on by Cauchy and Schwarz,
        ``|z'(theta - c)| <= sqrt(z'G^-1 z) sqrt((theta - c)'G (theta - c))``, G the mean of zz'.
        """
        centre = theta.mean(1, keepdims=True)
        if on_device(self.designs[0]) or not np.isfinite(theta).all():
            return super().enclosed(theta)
        at = self.extremes(centre)
        reach = np.empty((len(at), 1, theta.shape[1]))
        for number, (part, (gram, longest)) in enumerate(
            zip(self.slices, self._reach, strict=True)
        ):
            away = theta[part] - centre[part]
            reach[number] = longest * np.sqrt((away * (gram @ away)).sum(0))
        ends: Array = at + reach * np.array([[-1.0], [1.0]])
        return ends

    @cached_property
    def _reach(self) -> list[tuple[Array, float]]:
        """G of each predictor, and the largest sqrt(z'G^-1 z), a little more for rounding."""
        found = []
        for z in self.designs:
            gram = z.T @ z / max(len(z), 1)
            gram += 1e-8 * (1 + np.trace(gram)) * np.eye(len(gram))
            longest = (z.T * np.linalg.solve(gram, z.T)).sum(0).max(initial=0.0)
            found.append((gram, (1 + 1e-6) * float(np.sqrt(longest))))
        return found

    def slope(self, theta: Array, change: Array) -> Array:
        coefficients = self.to_user(theta)
        columns = [_columns(change, block, intercept=0.0) for block in self.blocks]
        parts = zip(columns, self.slices, strict=True)
        found = xp.stack([column @ coefficients[s] for column, s in parts])
        found[0] += change[:, -1:]
        return found

    def direction(self, step: Array) -> Array:
        """See `AbstractBound`."""
        return xp.stack(self._parts(step))

    def _parts(self, step: Array) -> list[Array]:
        parts = zip(self.designs, self.slices, strict=True)
        return [z @ step[s] for z, s in parts]

    def pullback(self, slope: Sequence[Array]) -> Array:
        """See `AbstractBound`."""
        parts = zip(self.designs, slope, strict=True)
        return np.concatenate([to_host(z.T @ g) for z, g in parts])

    def pullback_curvature(self, curvature: Sequence[Sequence[Array]]) -> Array:
        """See `AbstractBound`."""
        d, n_draws = self.n_params, curvature[0][0].shape[-1]
        hess = np.empty((d, d, n_draws))
        for a, left in enumerate(self.slices):
            for b, right in enumerate(self.slices[: a + 1]):
                block = self._products(a, b, curvature[a][b])
                hess[left, right] = block
                hess[right, left] = block.transpose(1, 0, 2)
        return hess

    def put(self, device: Device) -> "BoundLinear":
        """The same with its columns on a device; what comes back from there are small arrays."""
        return replace(self, designs=tuple(device.put(z) for z in self.designs))

    def cut(self, rows: slice | IntArray) -> "BoundLinear":
        designs = tuple(z[rows] for z in self.designs)
        return replace(self, designs=designs, offset=self.offset[rows])

    def to_user(self, theta: Array) -> Array:
        parts = zip(self.transforms, self.slices, strict=True)
        return np.concatenate([t @ theta[s] for t, s in parts])

    def from_user(self, theta: Array) -> Array:
        parts = zip(self.transforms, self.slices, strict=True)
        return np.concatenate([np.linalg.solve(t, theta[s]) for t, s in parts])

    def _products(self, a: int, b: int, weights: Array) -> Array:
        """sum_i w_i z_i z_i' for each draw, as one matrix product against products of columns."""
        rows, columns = _block(self.designs[a].shape[1], self.designs[b].shape[1], a == b)
        if weights.shape[1] <= _FEW and rows.size > _MANY and not on_device(weights):
            found = np.zeros((self.designs[a].shape[1], self.designs[b].shape[1], weights.shape[1]))
            for start in range(0, len(weights), _CHUNK):
                part = slice(start, start + _CHUNK)
                left, right = self.designs[a][part], self.designs[b][part]
                for draw, w in enumerate(weights[part].T):
                    found[..., draw] += left.T @ (right * w[:, None])
            return found
        if on_device(weights) or rows.size * weights.shape[0] <= _KEEP:
            packed = to_host(self._kept_products[a, b] @ weights)
        else:
            packed = np.zeros((rows.size, weights.shape[1]))
            for start in range(0, weights.shape[0], _CHUNK):
                part = slice(start, start + _CHUNK)
                packed += self._pairs(a, b, part) @ weights[part]
        shape = (self.designs[a].shape[1], self.designs[b].shape[1], weights.shape[1])
        out = np.empty(shape)
        out[rows, columns] = packed
        if a == b:
            out[columns, rows] = packed
        return out

    def _pairs(self, a: int, b: int, part: slice) -> Array:
        """Products of columns, (K, n): whole columns are copied, several times faster than rows."""
        left, right = self.designs[a][part].T.copy(), self.designs[b][part].T.copy()
        rows, columns = _block(len(left), len(right), a == b)
        return left[rows] * right[columns]

    @cached_property
    def _kept_products(self) -> dict[tuple[int, int], Array]:
        n = len(self.designs)
        return {(a, b): self._pairs(a, b, slice(None)) for a in range(n) for b in range(a + 1)}


@cache
def _block(n_left: int, n_right: int, symmetric: bool) -> tuple[IntArray, IntArray]:
    """Rows and columns of the entries that are computed: a lower triangle, or all."""
    if symmetric:
        return np.tril_indices(n_left)
    rows, columns = np.indices((n_left, n_right))
    return rows.ravel(), columns.ravel()


def _columns(x: Array, block: tuple[int, ...], intercept: float = 1.0) -> Array:
    """Some columns, where -1 is a constant one; all of them are x itself, which may be large."""
    if block == tuple(range(x.shape[1])):
        return x
    return np.column_stack([x[:, j] if j >= 0 else np.full(len(x), intercept) for j in block])


def _scaling(x: Array, weights: Array) -> tuple[BoolArray, Array, Array]:
    """Which columns are constant, and the centre and scale of each."""
    mean = weights @ x
    constant = np.ptp(x, axis=0) == 0
    # Only the first constant column is an intercept; without one nothing can be centred.
    intercept = np.zeros(x.shape[1], bool)
    if (constant & (mean != 0)).any():
        intercept[np.argmax(constant & (mean != 0))] = True
    centre = np.where(constant | (not intercept.any()), 0.0, mean)
    scale = np.sqrt(sum(weights[part] @ (x[part] - centre) ** 2 for part in _parts(x)))
    return intercept, centre, np.where(scale > 0, scale, 1.0)


def _parts(x: Array) -> list[slice]:
    """Stretches of the rows, so that what is computed of them stays in the cache."""
    return [slice(start, start + _CHUNK) for start in range(0, max(len(x), 1), _CHUNK)]


def _spread(x: Array, centre: Array, scale: Array, weights: Array, intercept: BoolArray) -> Array:
    """The quadratic form (d, d) of slopes that is the variance of the linear predictor; of columns
    x (n, d) in standardised coordinates.

    Unlike the sum of squared slopes, which it is if columns are uncorrelated, it does not depend
    on how a category is coded. Slopes that it leaves free, since columns determine each other, add
    their squares.
    """
    parts = [(part, weights[part]) for part in _parts(x)]
    mean = np.zeros(len(centre))
    if intercept.any():
        # The centre of columns far from zero has lost digits.
        mean = sum((w @ ((x[part] - centre) / scale) for part, w in parts), mean)
    form = np.zeros((len(centre), len(centre)))
    for part, w in parts:
        z = (x[part] - centre) / scale - mean
        form += (z.T * w) @ z
    size, axes = np.linalg.eigh(form)
    free = axes[:, size <= _FREE * max(size[-1], _FREE)]
    form += free @ free.T
    form[intercept] = form[:, intercept] = 0.0
    return form


def _to_user(intercept: BoolArray, centre: Array, scale: Array) -> Array:
    transform = np.diag(1 / scale)
    if intercept.any():
        row = int(np.argmax(intercept))
        transform[row] -= centre / scale / scale[row]
    return transform


def dependent_columns(x: Array) -> list[int]:
    """Columns that the others already determine, found by a pivoted QR on scaled columns."""
    unit = np.maximum(np.maximum(np.abs(x.max(0)), np.abs(x.min(0))), 1e-300)
    first, parts = x[0] / unit, _parts(x)
    constant = np.all([(x[part] == x[0]).all(0) for part in parts], axis=0)
    middle = np.zeros(x.shape[1])
    if (constant & (first != 0)).any():
        # Beside an intercept only what varies counts, however far from zero it lies.
        middle = sum(((x[part] / unit).sum(0) for part in parts), middle) / len(x)
        middle[constant] = 0.0
    square = sum(((x[part] / unit - middle) ** 2).sum(0) for part in parts)
    size = np.sqrt(square / len(x))
    scale = np.where(size > 0, size, 1.0)
    # The triangles of parts have that of the whole.
    z = np.concatenate([np.linalg.qr((x[at] / unit - middle) / scale, mode="r") for at in parts])
    r, order = qr(z, mode="r", pivoting=True)
    diagonal = np.zeros(x.shape[1])
    diagonal[: min(x.shape)] = np.abs(np.diag(r))
    return sorted(int(j) for j in order[diagonal <= 1e-10 * diagonal[0]])
