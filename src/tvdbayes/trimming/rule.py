"""Trimmed maximum likelihood: total variation says which rows are too many, the rest is fitted.

Rows far out in the covariates have the power to pull a fit to themselves, so they do not take part
at first. They are let in if they agree with the fit to the others.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from tvdbayes._array import tiny
from tvdbayes._typing import Array, BoolArray
from tvdbayes.cells import Cells
from tvdbayes.divergences import KLD, DensityPower
from tvdbayes.objective import Layout, Objective
from tvdbayes.solvers import newton
from tvdbayes.trimming.far import far_rows
from tvdbayes.trimming.surplus import kept_share

__all__ = ["RIDGE", "KeptRows", "Route", "trimmed_fit"]

Route = Literal["central", "closest", "ordinary"]

RIDGE = 1e-6
"""Weak penalty on the variance of the linear predictor that keeps separated fits finite."""

_JUDGE_RIDGE = 1e-4
_DISAGREE = -6.0
"""Far rows stay out if their log-likelihood lies so many deviations below its expectation."""
_CLIP = 0.02
"""Probabilities of outcomes that are names are clipped to this, so that a few rows of which the
model is sure cannot decide."""
_MARGIN = 0.25
"""The start from the closest model must win by this, divided by the root of the rows."""
_MOST, _PAYS, _FREE = 0.16, 0.15, 0.05
"""If more than the share `_MOST` is dropped, what is dropped above `_FREE` must pay for itself by
this much of explained mass, else the model is bent, not the rows bad."""


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
    """

    share: Array
    route: Route
    far: BoolArray
    far_agree: bool

    def sentences(self, cells: Cells) -> str:
        """Which rows of a table were used, and why.

        Examples
        --------
        >>> import numpy as np, tvdbayes as tb
        >>> y = np.random.default_rng(0).poisson(3, 500)
        >>> y[:50] += 20
        >>> fit = tb.fit("y ~ 1", {"y": y}, refine="trim", n_draws=0).posterior
        >>> print(fit.kept_rows.sentences(fit.cells))
        50 of 500 rows were dropped: more of these outcomes than the model allows.
        """
        n = cells.n_obs
        n_far = float(cells.x_counts[self.far].sum())
        dropped = float(cells.counts @ (1 - self.share))
        if self.route == "ordinary":
            return (
                f"All {n:,.12g} rows are used, by maximum likelihood: a robust fit would drop over "
                f"{_MOST:.0%} of them and explain hardly more, as where an effect is bent."
            )
        if dropped < _NOTHING * n:
            found = [f"All {n:,.12g} rows are used."]
        else:
            found = [
                f"{max(dropped, 1):,.0f} of {n:,.12g} rows were dropped: more of these outcomes "
                "than the model allows."
            ]
        if n_far and not self.far_agree:
            found.append(
                f"{n_far:,.12g} rows far out in the covariates are among them: together they "
                "contradict the fit to the others. They may be wrong, or an effect may bend there."
            )
        elif n_far and self.route == "central":
            found.append(f"{n_far:,.12g} rows far out in the covariates agree with the others.")
        if self.route == "closest":
            found.append("The search began at the closest model in total variation.")
        return " ".join(found)


def trimmed_fit(
    layout: Layout, ordinary: Array, closest: Array, least: Array | float = 0.0
) -> tuple[Array, KeptRows]:
    """The estimate (d,) from the whole table of a layout in which every outcome is compared.

    ``ordinary`` and ``closest`` (d,) are maximum likelihood and the closest model in total
    variation. All parameters are standardised. ``least`` (m,) is the share of each cell that is no
    row but the mass of a prior, which is never dropped.
    """
    cells, n_obs = layout.cells, layout.cells.n_obs
    p, far = cells.p, far_rows(cells)
    central = np.where(far, 0.0, 1.0)[cells.x_index]
    judge = _judge(layout, central)

    def keep(theta: Array, *, with_far: bool) -> Array:
        share = kept_share(layout, p, theta, n_obs)
        return np.maximum(share if with_far else share * central, least)

    def settle(theta: Array) -> tuple[float, Array, Array, bool]:
        for _ in range(2):
            theta = weighted_fit(layout, p * keep(theta, with_far=False), theta)
        agree = not far.any() or _agree(layout, theta, keep(theta, with_far=True), far)
        for _ in range(3):
            share = keep(theta, with_far=agree)
            theta = weighted_fit(layout, p * share, theta)
        return judge(theta), theta, share, agree

    middle = weighted_fit(layout, p * central, ordinary)
    starts: dict[Route, Array] = {
        "central": _fit(layout, DensityPower(), p * central, middle),
        "closest": closest,
    }
    found = {route: settle(theta) for route, theta in starts.items()}
    gain = found["central"][0] - found["closest"][0]
    route: Route = "closest" if gain > _MARGIN / np.sqrt(n_obs) else "central"
    value, theta, share, agree = found[route]
    dropped = 1 - p @ share
    if dropped > _MOST and judge(ordinary) - value < _PAYS * (dropped - _FREE):
        return ordinary, KeptRows(np.ones(len(p)), "ordinary", far, True)
    return theta, KeptRows(share, route, far, agree)


def weighted_fit(layout: Layout, mass: Array, start: Array) -> Array:
    """Maximum likelihood (d,) with these masses (m,) of the cells."""
    return _fit(layout, KLD(), mass, start)


def _fit(layout: Layout, divergence: KLD | DensityPower, mass: Array, start: Array) -> Array:
    objective = Objective(layout, divergence, RIDGE, reference=start)
    theta: Array = newton(objective.on((mass / mass.sum())[:, None]), start[:, None]).theta[:, 0]
    return theta


def _judge(layout: Layout, central: Array) -> Callable[[Array], float]:
    """Unexplained mass of the central rows, with a weak ridge."""
    mass = layout.cells.p * central
    mass = (mass / mass.sum())[:, None]
    units = layout.units
    data = np.maximum(units.data_mass(mass), tiny(mass))
    at = units.atom_mass(mass)

    def value(theta: Array) -> float:
        model = units.total(at * units.pairs.pmf(theta[:, None]))
        spread = theta @ layout.bound.ridge_pull(theta[:, None])[:, 0]
        return float(np.maximum(data - model, 0.0).sum() + _JUDGE_RIDGE * spread)

    return value


def _agree(layout: Layout, theta: Array, kept: Array, far: BoolArray) -> bool:
    """Whether the far rows that were kept agree, as a block, with the fit to the others.

    Their log-likelihood is compared with its mean and variance under the model.
    """
    cells, family = layout.cells, layout.family
    rows = np.flatnonzero(far)
    eta, trials = layout.bound.eta(theta[:, None])[:, rows, 0], cells.trials[rows]
    y, weights = family.nodes(eta, trials, 1.0)

    def probability(y: Array, eta: Array, trials: Array) -> Array:
        least = 1e-300 if family.counts else _CLIP
        return np.clip(family.pmf(y, eta, trials), least, 1 - least)

    pmf = probability(y, eta[:, None], trials)
    value, mass = np.log(pmf), weights * pmf
    # Clipped probabilities do not quite add up to 1.
    mass = mass / mass.sum(0)
    mean = (mass * value).sum(0)
    variance = (mass * (value - mean) ** 2).sum(0)
    held = np.flatnonzero(far[cells.x_index])
    of = np.searchsorted(rows, cells.x_index[held])
    own = np.log(probability(cells.y[held], eta[:, of], trials[of]))
    weight = kept[held] * cells.counts[held]
    spread = np.sqrt((kept[held] * weight) @ variance[of])
    return bool(weight @ (own - mean[of]) >= _DISAGREE * max(spread, 1e-6))
