"""Trimmed maximum likelihood: total variation says which rows are too many, the rest is fitted.

Rows far out in the covariates have the power to pull a fit to themselves, so they do not take part
at first. They are let in if they agree with the fit to the others, or if an effect bends.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from tvdbayes._array import tiny
from tvdbayes._typing import Array, BoolArray
from tvdbayes.data.cells import Cells, amount
from tvdbayes.models.families import AbstractFamily
from tvdbayes.objective import Layout
from tvdbayes.objective.divergences import DensityPower
from tvdbayes.trimming.bend import bending_column
from tvdbayes.trimming.far import far_rows, where
from tvdbayes.trimming.surplus import kept_share
from tvdbayes.trimming.weighted import weighted_fit

Route = Literal["central", "closest", "ordinary"]

RIDGE = 1e-6
"""Weak penalty on the variance of the linear predictor that keeps separated fits finite."""

_SEARCH_RIDGE, _ROWS_OF_RIDGE = 1e-4, 0.1
"""The same penalty while rows to drop are looked for: without the rows that contradict a steep fit
it becomes steeper, so a search with less may end at a fit that is sure of every row. From a
thousand rows on the penalty is that of a tenth of a row, so that it does not outlast the data."""
_DISAGREE = -6.0
"""Far rows stay out if their log-likelihood lies so many deviations below its expectation."""
_CLIP = 0.02
"""Probabilities of outcomes that are names are clipped to this, so that a few rows of which the
model is sure cannot decide."""
_MARGIN = 0.25
"""The start from the closest model must win by this, divided by the root of the rows."""
MANY, _PAYS, _FREE = 0.16, 0.2, 0.05
"""If more than the share `MANY` is dropped, what is dropped above `_FREE` must pay for itself by
this much of explained mass, else the model is bent, not the rows bad. A bend is looked for only
where at most `_FREE` of the rows that are not far out are dropped."""

_MANY_FAR = 0.25
"""If so large a share of the far rows is dropped, these contradict the others."""
_FEWEST = 0.5
"""A fit that explains less than this share of the rows is a fit to wrong rows."""
_NOTHING = 1e-9
"""Shares of rows below this are rounding errors."""


@dataclass(frozen=True, eq=False)
class KeptRows:
    """The rows that an estimate is made of.

    Parameters
    ----------
    share : (m,)
        The share of each cell's mass that is kept.
    route : str
        Where the search began that won: "central" (the rows that are not far out) or "closest" (the
        closest model in total variation); "ordinary" if all rows are kept because dropping so many
        would not have paid.
    far : (n_x,)
        Which x rows are far out.
    far_agree : bool
        Whether these agree with the others and were let in.
    far_judged : bool
        Whether they are enough to be judged: the test would notice if the effects had the opposite
        sign out there.
    bend : int or None
        The column of x whose effect seems to bend, which is why far rows that contradict were let
        in.
    without_far : (d,) or None
        The fit without the far rows.
    worth : float
        How many independent rows a row counted for: less than 1 where rows belong together or weigh
        unequally (`dependence`).
    """

    share: Array
    route: Route
    far: BoolArray
    far_agree: bool
    far_judged: bool = True
    bend: int | None = None
    without_far: Array | None = None
    worth: float = 1.0

    def far_kept_out(self, cells: Cells) -> bool:
        """Whether far rows have no say, as a block or because many of them were dropped."""
        if self.bend is not None or not self.far.any():
            return False
        return not self.far_agree or _lost(cells, self.far, self.share) >= _MANY_FAR

    def of_all(self, cells: Cells) -> str:
        """How many rows of a table were used, and why."""
        n = cells.n_obs
        dropped = float(cells.counts @ (1 - self.share))
        if self.route == "ordinary":
            return (
                f"All {amount(n)} rows are used, by maximum likelihood: a robust fit would drop "
                f"over {MANY:.0%} of them and explain hardly more. The family may be too "
                "narrow, or an effect bent."
            )
        if dropped < _NOTHING * n:
            return f"All {amount(n)} rows are used."
        found = (
            f"{max(dropped, 1):,.0f} of {amount(n)} rows were dropped: more of these outcomes "
            "than the model allows."
        )
        if self.route == "closest":
            found += " The search began at the closest model in total variation."
        if dropped > MANY * n:
            found += " These are many: another family may explain them."
        return found

    def of_far(self, cells: Cells) -> str:
        """What became of the rows far out in the covariates; empty if there are none."""
        if not self.far.any() or self.route == "ordinary":
            return ""
        n_far = float(cells.x_counts @ self.far)
        rows, dropped = where(cells, self.far), n_far * _lost(cells, self.far, self.share)
        if self.bend is not None:
            return (
                f"{rows} contradict a straight line, but the effect of {cells.names[self.bend]} "
                "seems to bend among the other rows too, and the bend predicts them: they take "
                "part in the line."
            )
        if self.far_kept_out(cells):
            some = dropped < n_far - 0.5
            which = f"{dropped:,.0f} of them " if some else ""
            return (
                f"{rows} contradict the fit to the others, and {which}are dropped: they may be "
                "wrong, or an effect may bend there."
            )
        if dropped >= 1:
            return f"Of {rows} {dropped:,.0f} were dropped, the others agree with the fit."
        if not self.far_judged:
            return f"{rows} take part, but are too few to be judged by the others."
        return f"{rows} agree with the others."


def trimmed_fit(
    layout: Layout,
    ordinary: Array,
    closest: Array,
    ridge: float = RIDGE,
    least: Array | float = 0.0,
) -> tuple[Array, KeptRows]:
    """The estimate (d,) from the whole table of a layout in which every outcome is compared.

    ``ordinary`` and ``closest`` (d,) are maximum likelihood and the closest model in total
    variation. All parameters are standardised. ``ridge`` is the penalty beside the likelihood of
    the rows that are kept, ``least`` (m,) is the share of each cell that is no row but the mass of
    a prior, which is never dropped.
    """
    search_with = search_ridge(ridge, layout.cells.n_obs)
    search = _Search(layout, far_rows(layout.cells), search_with, least)
    cells, far, central = layout.cells, search.far, search.central
    middle = search.fit(central, ordinary)
    starts: dict[Route, Array] = {
        "central": search.fit(central, middle, DensityPower()),
        "closest": closest,
    }
    found = {route: search.settle(theta) for route, theta in starts.items()}
    needed = found["closest"][0] + _MARGIN / np.sqrt(cells.n_obs)
    route: Route = "closest" if needed < found["central"][0] else "central"
    value, alone, theta, share, agree = found[route]
    dropped = 1 - cells.p @ share
    every = np.ones(cells.n_cells)
    whole = search.fit(every, ordinary)
    hopeless = np.isinf(value)
    if hopeless or (dropped > MANY and search.judge(whole) - value < _PAYS * (dropped - _FREE)):
        whole = weighted_fit(layout, cells.p, ordinary, ridge)
        return whole, KeptRows(every, "ordinary", far, True)
    kept = KeptRows(share, route, far, agree)
    bend = None
    # Where many of the central rows are dropped they are wrong, and so may be what looks bent.
    if kept.far_kept_out(cells) and cells.p @ (central * (1 - share)) < _FREE:
        found_bend = bending_column(
            layout,
            alone,
            cells.p * central * share,
            far,
            agree=lambda bent, at: _agree(bent, at, every, far),
            ridge=search.ridge,
        )
        if found_bend is not None:
            bend, bent, at = found_bend
            share = np.maximum(kept_share(bent, cells.p, at, cells.n_obs), least)
            theta = search.fit(share, alone)
    judged = not far.any() or bool(_against(layout, alone, far) < _DISAGREE)
    without = layout.bound.to_user(alone[:, None])[:, 0]
    theta = weighted_fit(layout, cells.p * share, theta, ridge)
    return theta, KeptRows(share, route, far, agree or bend is not None, judged, bend, without)


def search_ridge(ridge: float, n_obs: float) -> float:
    """The penalty while rows to drop are looked for, at least the one beside the likelihood."""
    return max(ridge, min(_SEARCH_RIDGE, _ROWS_OF_RIDGE / n_obs))


@dataclass(frozen=True, eq=False)
class _Search:
    """The search for the rows to keep, see `trimmed_fit`."""

    layout: Layout
    far: BoolArray
    ridge: float
    least: Array | float

    @cached_property
    def central(self) -> Array:
        """1 for the cells (m,) whose rows are not far out, 0 for the others."""
        return np.where(self.far, 0.0, 1.0)[self.layout.cells.x_index]

    def fit(self, share: Array, start: Array, divergence: DensityPower | None = None) -> Array:
        """The fit to these shares (m,) of the cells."""
        return weighted_fit(self.layout, self.layout.cells.p * share, start, self.ridge, divergence)

    def keep(self, theta: Array, *, with_far: bool) -> Array:
        """The shares (m,) of the cells that are kept at parameters theta (d,)."""
        cells = self.layout.cells
        share = kept_share(self.layout, cells.p, theta, cells.n_obs)
        return np.maximum(share if with_far else share * self.central, self.least)

    def settle(self, theta: Array) -> tuple[float, Array, Array, Array, bool]:
        """From a start: unexplained mass, infinite for a fit to wrong rows, the fits without the
        far rows and with those that agree, the shares that are kept, and whether they agree.
        """
        p, far = self.layout.cells.p, self.far
        few = _FEWEST * (p @ self.central)
        for _ in range(2):
            share = self.keep(theta, with_far=False)
            if p @ share < few:
                return np.inf, theta, theta, share, False
            theta = self.fit(share, theta)
        alone = theta
        agree = not far.any() or _agree(self.layout, theta, self.keep(theta, with_far=True), far)
        for _ in range(3):
            share = self.keep(theta, with_far=agree)
            if p @ share < few:
                return np.inf, alone, theta, share, agree
            theta = self.fit(share, theta)
        return self.judge(theta), alone, theta, share, agree

    def judge(self, theta: Array) -> float:
        """Unexplained mass of the central rows, with a weak ridge."""
        layout, units = self.layout, self.layout.units
        mass = layout.cells.p * self.central
        mass = (mass / mass.sum())[:, None]
        data = np.maximum(units.data_mass(mass), tiny(mass))
        model = units.total(units.atom_mass(mass) * units.pairs.pmf(theta[:, None]))
        spread = theta @ layout.bound.ridge_gradient(theta[:, None])[:, 0]
        return float(np.maximum(data - model, 0.0).sum() + _SEARCH_RIDGE * spread)


def _lost(cells: Cells, far: BoolArray, share: Array) -> float:
    """The share of the far rows that is dropped where cells keep shares (m,)."""
    return float((cells.counts * far[cells.x_index]) @ (1 - share) / (cells.x_counts @ far))


def _agree(layout: Layout, theta: Array, kept: Array, far: BoolArray) -> bool:
    """Whether the far rows that were kept agree, as a block, with the fit to the others."""
    return agreement(layout, theta, kept, far) >= _DISAGREE


def agreement(layout: Layout, theta: Array, kept: Array, far: BoolArray) -> float:
    """How well the x rows that are far out (n_x,) agree, as a block, with a fit theta (d,).

    Their log-likelihood, with the shares ``kept`` (m,) of their cells, minus its mean under the
    model, in standard deviations: below 0 where they fit worse than the model expects.
    """
    cells, rows = layout.cells, np.flatnonzero(far)
    eta, trials = layout.bound.eta(theta[:, None])[:, rows, 0], cells.trials[rows]
    mean, variance = _expected(layout.family, eta, eta, trials)
    held = np.flatnonzero(far[cells.x_index])
    of = np.searchsorted(rows, cells.x_index[held])
    own = np.log(_probability(layout.family, cells.y[held], eta[:, of], trials[of]))
    weight = kept[held] * cells.counts[held]
    spread = float(np.sqrt((kept[held] * weight) @ variance[of]))
    return float(weight @ (own - mean[of]) / max(spread, 1e-6))


def _against(layout: Layout, theta: Array, far: BoolArray) -> float:
    """How many deviations the log-likelihood of the far rows would lie below its expectation, on
    average, if the effects had the opposite sign out there.
    """
    cells, family, rows = layout.cells, layout.family, np.flatnonzero(far)
    eta, trials = layout.bound.eta(theta[:, None])[..., 0], cells.trials
    line = eta.copy()
    line[0] -= cells.offset
    central = np.where(far, 0.0, cells.x_counts)
    turned = eta.copy()
    # Around the centre of the others; predictors beside the main ones stay.
    turned[: family.n_main] -= (
        2 * (line - (line @ central)[:, None] / central.sum())[: family.n_main]
    )
    weight = cells.x_counts[rows]
    mean, variance = _expected(family, eta[:, rows], eta[:, rows], trials[rows])
    there, _ = _expected(family, eta[:, rows], turned[:, rows], trials[rows])
    return float(weight @ (there - mean)) / max(float(np.sqrt(weight @ variance)), 1e-6)


def _expected(
    family: AbstractFamily, eta: Array, truth: Array, trials: Array
) -> tuple[Array, Array]:
    """Mean and variance of the log-probabilities under eta of outcomes drawn under another."""
    y, weights = family.nodes(truth, trials, 1.0)
    value = np.log(_probability(family, y, eta[:, None], trials))
    mass = weights * _probability(family, y, truth[:, None], trials)
    # Clipped probabilities do not quite add up to 1.
    mass = mass / mass.sum(0)
    mean = (mass * value).sum(0)
    return mean, (mass * (value - mean) ** 2).sum(0)


def _probability(family: AbstractFamily, y: Array, eta: Array, trials: Array) -> Array:
    least = 1e-300 if family.counts else _CLIP
    return np.clip(family.pmf(y, eta, trials), least, 1 - least)
