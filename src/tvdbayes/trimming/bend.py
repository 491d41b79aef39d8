"""Bent or bad: whether far rows contradict the others because an effect bends.

Rows far out may be wrong, or right where the effect of a column is no line. What tells the two
apart is the other rows: a bend that explains the far rows begins among them. The effect of the
column is made a line of several pieces, fitted without the far rows. It is called bent if that
improves the fit to the central rows by more than chance (likelihood-ratio test) and the far rows
agree with what the last piece predicts for them.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from scipy.special import gammaincc

from tvdbayes._typing import Array, BoolArray
from tvdbayes.models.model import Model
from tvdbayes.models.predictors import Linear
from tvdbayes.objective import Layout
from tvdbayes.trimming.far import DEVIATIONS, deviations, quantile
from tvdbayes.trimming.weighted import weighted_fit

_LEVEL = 0.01
"""Of the likelihood-ratio test, all columns that are tried together."""
_KNOTS = (0.15, 0.85)
"""Quantiles of the central rows at which the effect may bend."""
_MANY = 0.25
"""A column is tried if so large a share of the far rows is far out in it by itself."""


def bending_column(
    layout: Layout,
    theta: Array,
    mass: Array,
    far: BoolArray,
    *,
    agree: Callable[[Layout, Array], bool],
    ridge: float,
) -> tuple[int, Layout, Array] | None:
    """The column of x whose bent effect explains far rows that contradict, with the layout and the
    parameters of the bent fit; None if no bend does.

    ``theta`` (d,) is the fit to the masses (m,) of the central rows, ``agree`` says whether the far
    rows agree with a fit of another layout.
    """
    cells = layout.cells
    weights = cells.x_counts
    tried = [
        j
        for j, z in deviations(cells).items()
        if weights @ (far & (np.abs(z) > DEVIATIONS)) >= _MANY * (weights @ far)
    ]
    found = []
    for j in tried:
        bent = _bent(layout, j, far)
        extra = bent.bound.n_params - layout.bound.n_params
        if not extra:
            continue
        other = weighted_fit(bent, mass, _start(layout, bent, theta), ridge)
        gain = log_loss(layout, mass, theta) - log_loss(bent, mass, other)
        chance = float(gammaincc(extra / 2, max(gain, 0.0)))
        if chance < _LEVEL / len(tried) and agree(bent, other):
            found.append((gain, j, bent, other))
    # By how much, not by place: the order of the columns must not matter.
    return max(found, key=lambda one: one[0])[1:] if found else None


def _bent(layout: Layout, column: int, far: BoolArray) -> Layout:
    """The layout with hinges of a column in the main predictors."""
    cells, blocks = layout.cells, layout.bound.blocks
    values, weights = cells.x[:, column], np.where(far, 0.0, cells.x_counts)
    # The mean of both one-sided quantiles is the same in a column of the other sign.
    knots = {(quantile(values, weights, q) - quantile(-values, weights, 1 - q)) / 2 for q in _KNOTS}
    inside = [k for k in sorted(knots) if values[~far].min() < k < values[~far].max()]
    hinges = [np.maximum(values - k, 0.0) for k in inside]
    new = tuple(range(len(cells.names), len(cells.names) + len(hinges)))
    wider = replace(
        cells,
        x=np.column_stack([cells.x, *hinges]),
        names=(*cells.names, *(f"{cells.names[column]} bent at {k:g}" for k in inside)),
    )
    n_main = layout.family.n_main
    predictor = Linear(
        tuple((*block, *new) if k < n_main else block for k, block in enumerate(blocks))
    )
    # The rows are the same, and with them their groups.
    return replace(
        layout,
        model=Model(layout.family, predictor),
        cells=wider,
        scale_on=wider,
        grouped=layout.grouping,
    )


def _start(layout: Layout, bent: Layout, theta: Array) -> Array:
    """The parameters of the wider layout that make the same predictions."""
    user = layout.bound.to_user(theta[:, None])[:, 0]
    parts = []
    for old, new in zip(layout.bound.slices, bent.bound.slices, strict=True):
        width = new.stop - new.start
        parts.append(np.pad(user[old], (0, width - (old.stop - old.start))))
    return bent.bound.from_user(np.concatenate(parts)[:, None])[:, 0]


def log_loss(layout: Layout, mass: Array, theta: Array) -> float:
    """Minus the log-likelihood of the rows."""
    log_pmf = layout.cell_pairs.log_pmf(theta[:, None])[:, 0]
    return float(-layout.cells.n_obs * (mass @ log_pmf))
