"""Trimmed maximum likelihood: total variation says which rows are too many, the rest is fitted.

Rows far out in the covariates have the power to pull a fit to themselves, so they do not take part
at first. They are let in if they agree with the fit to the others, or if an effect bends.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from tvdbayes._typing import Array, BoolArray
from tvdbayes.models.families import AbstractFamily
from tvdbayes.objective import Layout
from tvdbayes.objective.divergences import DensityPower
from tvdbayes.trimming.bend import bending_column, log_loss
from tvdbayes.trimming.far import far_rows
from tvdbayes.trimming.kept import MANY, KeptRows, Route
from tvdbayes.trimming.surplus import kept_share
from tvdbayes.trimming.weighted import weighted_fit

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
_APART = 8.0
"""Another fit is far from the one chosen if the log-likelihood of the rows that this one keeps is
so much lower there: four posterior deviations away."""
_MARGIN = 0.25
"""The start from the closest model must win by this, divided by the root of the rows."""
_PAYS, _FREE = 0.2, 0.05
"""If more than the share `MANY` is dropped, what is dropped above `_FREE` must pay for itself by
this much of explained mass, else the model is bent, not the rows bad. A bend is looked for only
where at most `_FREE` of the rows that are not far out are dropped."""

_FEWEST = 0.5
"""A fit that explains less than this share of the rows is a fit to wrong rows."""


def trimmed_fit(
    layout: Layout,
    ordinary: Array,
    closest: Array,
    ridge: float = RIDGE,
    least: Array | float = 0.0,
    *,
    reweighted: Callable[[], Iterable[Array]] | None = None,
) -> tuple[Array, KeptRows]:
    """The estimate (d,) from the whole table of a layout in which every outcome is compared.

    ``ordinary`` and ``closest`` (d,) are maximum likelihood and the closest model in total
    variation. All parameters are standardised. ``ridge`` is the penalty beside the likelihood of
    the rows that are kept, ``least`` (m,) is the share of each cell that is no row but the mass of
    a prior, which is never dropped. ``reweighted`` makes random tables (m, B) in blocks, which are
    asked whether they have another answer.
    """
    search_with = search_ridge(ridge, layout.cells.n_obs)
    search = _Search(layout, far_rows(layout.cells), search_with, least)
    cells, far, central = layout.cells, search.far, search.central
    answers = search.answers(ordinary, closest)
    (route,) = answers.routes(cells.p[:, None])
    theta, share, alone, agree = answers.found[route]
    kept, bend = KeptRows(share, route, far, agree), None
    if route == "ordinary":
        theta = weighted_fit(layout, cells.p, ordinary, ridge)
        return theta, answers.with_second(kept, theta, reweighted)
    # Where many of the central rows are dropped they are wrong, and so may be what looks bent.
    if kept.far_kept_out(cells) and cells.p @ (central * (1 - share)) < _FREE:
        found_bend = bending_column(
            layout,
            alone,
            cells.p * central * share,
            far,
            agree=lambda bent, at: _agree(bent, at, np.ones(cells.n_cells), far),
            ridge=search.ridge,
        )
        if found_bend is not None:
            bend, bent, at = found_bend
            share = np.maximum(kept_share(bent, cells.p, at, cells.n_obs), least)
            theta = search.fit(share, alone)
    theta = weighted_fit(layout, cells.p * share, theta, ridge)
    kept = replace(
        kept,
        share=share,
        far_agree=agree or bend is not None,
        far_judged=not far.any() or bool(_against(layout, alone, far) < _DISAGREE),
        bend=bend,
        without_far=layout.bound.to_user(alone[:, None])[:, 0],
    )
    return theta, answers.with_second(kept, theta, reweighted)


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

    def answers(self, ordinary: Array, closest: Array) -> "_Answers":
        """Where the search ends from each start, and maximum likelihood, which keeps all rows."""
        middle = self.fit(self.central, ordinary)
        starts: dict[Route, Array] = {
            "central": self.fit(self.central, middle, DensityPower()),
            "closest": closest,
        }
        every = np.ones(self.layout.cells.n_cells)
        whole = self.fit(every, ordinary)
        found: dict[Route, _Answer] = {"ordinary": _Answer(whole, every, whole, True)}
        for route, theta in starts.items():
            answer = self.settle(theta)
            if answer is not None:
                found[route] = answer
        return _Answers(self, found)

    def settle(self, theta: Array) -> "_Answer | None":
        """Where the search ends from a start; None at a fit to wrong rows."""
        p, far = self.layout.cells.p, self.far
        few = _FEWEST * (p @ self.central)
        for _ in range(2):
            share = self.keep(theta, with_far=False)
            if p @ share < few:
                return None
            theta = self.fit(share, theta)
        alone = theta
        agree = not far.any() or _agree(self.layout, theta, self.keep(theta, with_far=True), far)
        for _ in range(3):
            share = self.keep(theta, with_far=agree)
            if p @ share < few:
                return None
            theta = self.fit(share, theta)
        return _Answer(theta, share, alone, agree)

    def judge(self, theta: Array, p: Array) -> Array:
        """Unexplained mass (B,) of the central rows of tables p (m, B), with a weak ridge."""
        layout = self.layout
        mass = p * self.central[:, None]
        mass = mass / mass.sum(0)
        at = np.repeat(theta[:, None], p.shape[1], axis=1)
        data, model = (layout.batches or layout.units).masses(mass, at)
        spread = theta @ layout.bound.ridge_gradient(theta[:, None])[:, 0]
        unexplained: Array = np.maximum(data - model, 0.0).sum(0) + _SEARCH_RIDGE * spread
        return unexplained


class _Answer(NamedTuple):
    """Where a search ended.

    Parameters
    ----------
    theta : (d,)
    share : (m,)
        The share of each cell that is kept.
    alone : (d,)
        The fit without the far rows.
    agree : bool
        Whether these agree with it.
    """

    theta: Array
    share: Array
    alone: Array
    agree: bool


@dataclass(frozen=True, eq=False)
class _Answers:
    """The fits that the rule chooses from."""

    search: _Search
    found: dict[Route, _Answer]

    def routes(self, p: Array) -> list[Route]:
        """Which of them is chosen for tables p (m, B)."""
        values = {route: self.search.judge(one.theta, p) for route, one in self.found.items()}
        margin = _MARGIN / np.sqrt(self.search.layout.cells.n_obs)
        return [
            self._route(
                p[:, b], {route: float(value[b]) for route, value in values.items()}, margin
            )
            for b in range(p.shape[1])
        ]

    def _route(self, p: Array, value: dict[Route, float], margin: float) -> Route:
        central, closest = (value.get(route, np.inf) for route in ("central", "closest"))
        route: Route = "closest" if closest + margin < central else "central"
        if route not in value:
            return "ordinary"
        dropped = 1 - p @ self.found[route].share
        gain = value["ordinary"] - value[route]
        return "ordinary" if dropped > MANY and gain < _PAYS * (dropped - _FREE) else route

    def with_second(
        self, kept: KeptRows, theta: Array, tables: Callable[[], Iterable[Array]] | None
    ) -> KeptRows:
        """The same with the other answer, far from the fit theta (d,), that most tables choose."""
        layout = self.search.layout
        mass = layout.cells.p * kept.share
        at = log_loss(layout, mass, theta)
        apart = [
            route
            for route, one in self.found.items()
            if route != kept.route and log_loss(layout, mass, one.theta) - at > _APART
        ]
        if tables is None or not apart:
            return kept
        routes = [route for p in tables() for route in self.routes(p)]
        second = max(apart, key=routes.count)
        return replace(
            kept,
            second=layout.bound.to_user(self.found[second].theta[:, None])[:, 0],
            second_wins=routes.count(second) / len(routes),
        )


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
