"""Start values from the data: a least-squares guess, elemental fits, and a scan for one parameter.

An *elemental* fit passes through a few randomly chosen cells only: when these are clean, so is the
fit, however contaminated the rest may be.
"""

import numpy as np

from tvdbayes._typing import Array
from tvdbayes.objective import Layout

_FAR_OUT = 2.5
"""Deviations from the median beyond which 1.2 % of a normal column lie."""


def least_squares(layout: Layout) -> Array:
    """Weighted least squares on the predictors that each cell alone would ask for, (d,)."""
    root = np.sqrt(layout.cells.p)[:, None]
    return np.concatenate(
        [
            np.linalg.lstsq(root * z, root[:, 0] * eta, rcond=None)[0]
            for z, eta in zip(_designs(layout), _saturated(layout), strict=True)
        ]
    )


def elemental(layout: Layout, guess: Array, rng: np.random.Generator, n: int) -> Array:
    """Fits of the first predictor through random cells, (d, n); other predictors as in `guess`."""
    design, eta = _designs(layout)[0], _saturated(layout)[0]
    first = layout.bound.slices[0]
    d = design.shape[1]
    # The d cells with the largest keys are a draw without replacement, weighted by mass.
    keys = np.log(layout.cells.p) + rng.gumbel(size=(n, eta.size))
    chosen = np.argpartition(-keys, min(d, eta.size) - 1, axis=1)[:, :d]
    starts = np.repeat(guess[:, None], n, axis=1)
    starts[first] = (np.linalg.pinv(design[chosen]) @ eta[chosen][..., None])[..., 0].T
    return starts


def scan(layout: Layout, extra: Array, n_grid: int = 64) -> Array:
    """Sorted candidates (K,) for one parameter: the modes of the cells, between and beyond."""
    design, eta = _designs(layout)[0][:, 0], _saturated(layout)[0]
    modes = np.unique(eta[design != 0] / design[design != 0])
    low, high = modes[0], modes[-1]
    beyond = np.array([1.0, 2.0, 4.0, 8.0, 16.0, 32.0])
    grid = np.linspace(low - 1, high + 1, n_grid)
    between = (modes[1:] + modes[:-1]) / 2
    return np.unique(np.concatenate([modes, between, grid, low - beyond, high + beyond, extra]))


def _designs(layout: Layout) -> list[Array]:
    return [z[layout.cells.x_index] for z in layout.bound.designs]


def _saturated(layout: Layout) -> Array:
    """The predictors (k, m) that would make each cell's outcome the likeliest, offset removed."""
    eta = layout.family.saturated(layout.cell_pairs.y, layout.cell_pairs.trials)[..., 0].copy()
    eta[0] -= layout.bound.offset[layout.cells.x_index]
    return eta


def central_mass(layout: Layout) -> Array:
    """Cell masses (m,) without the rows that are far out in some covariate; blind to y."""
    cells = layout.cells
    kept = np.ones(cells.n_x, bool)
    for column in cells.x.T:
        away = np.abs(column - np.median(column))
        scale = 1.4826 * np.median(away)
        if scale > 0:
            kept &= away <= _FAR_OUT * scale
    p: Array = cells.p * np.where(kept[cells.x_index], 1.0, 1e-6)
    p /= p.sum()
    return p


def lengths(layout: Layout, theta: Array, sizes: tuple[float, ...] = (1.0, 2.0, 6.0)) -> Array:
    """Parameters (d,) and copies whose slopes are rescaled to these spreads of eta, (d, K)."""
    slopes = layout.bound.penalised
    norm = np.sqrt(max(float(theta @ layout.bound.ridge_gradient(theta[:, None])[:, 0]), 0.0))
    scales = [1.0] + [size / max(norm, 1e-12) for size in sizes]
    return np.column_stack([np.where(slopes, scale * theta, theta) for scale in scales])
