"""What a check of a fit finds: findings, flat ranges, and families that explain more."""

import warnings
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from tvdbayes._errors import TVDBayesError, TVDBayesWarning
from tvdbayes._typing import Array, BoolArray
from tvdbayes.models.families import Neighbour, neighbours
from tvdbayes.models.model import Model
from tvdbayes.models.predictors import Linear
from tvdbayes.objective.divergences import KLD, TVD
from tvdbayes.results.replicates import chance_without_refits
from tvdbayes.results.rows import layout_of, minimiser, unexplained
from tvdbayes.sampling.bootstrap import posterior_bootstrap
from tvdbayes.sampling.execution import single_threaded
from tvdbayes.sampling.posterior import Posterior
from tvdbayes.sampling.tables import html_table

Level = Literal["good", "note", "problem"]

_STEPS = np.array([0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0, 1.4, 2.0, 3.0])
"""Steps that are tried, in posterior deviations."""
_SAME = 0.02
"""Changes of the distance below this share of its own posterior deviation do not count."""
_WIDE = 1.4
"""Clean data, too, have flat ranges, in which random differences between data and model cancel:
half a posterior deviation is common. In 60 clean samples of Poisson(3) with 2,500 rows 2 % were as
wide as this, and 76 % where a fifth of the rows was far off."""

_REPLICATES = 20
"""The largest share of so many is about its 95 % point."""
_MUCH = 0.05
"""Families are compared where at least this share of the rows cannot come from the model."""
_DROPPED = 0.1
"""Families are compared where more rows than these were dropped, or none since it did not pay."""
_SOME = 0.05
"""From this share of dropped rows on it is asked whether another family drops fewer."""
_BEYOND = 0.5
"""A family is named if it leaves at most this share of what the other leaves beyond chance, or
drops at most this share of the rows that the other drops."""
_HARDLY = 0.02
"""A simpler family is preferred if it leaves at most this much more."""


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at."""

    level: Level
    about: str
    text: str


@dataclass(frozen=True)
class Check:
    """Findings about a fit; prints as a list."""

    findings: tuple[Finding, ...]

    @property
    def problems(self) -> tuple[Finding, ...]:
        """Problems to resolve before the fit is used."""
        return tuple(f for f in self.findings if f.level == "problem")

    def __str__(self) -> str:
        width = max(len(f.about) for f in self.findings)
        return "\n".join(f"{f.level:<8} {f.about:<{width}}  {f.text}" for f in self.findings)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        lines = ([f.about, f.level, f.text] for f in self.findings)
        return html_table("Check", ["", "", ""], lines)


@dataclass(frozen=True, eq=False)
class FlatRanges:
    """Ranges around the minimiser in which the distance hardly changes, one coefficient at a time.

    Their ends `low` and `high`, their `width` in posterior deviations, at most 6, and the share of
    the draws `inside` them, (d,) each.
    """

    low: Array
    high: Array
    width: Array
    inside: Array

    @property
    def wide(self) -> BoolArray:
        """Which ranges are wider than chance makes them, (d,): 1.4 posterior deviations."""
        found: BoolArray = self.width > _WIDE - 1e-9
        return found


def flat_ranges(posterior: Posterior) -> FlatRanges:
    """Move each coefficient away from the minimiser, until the unexplained share changes by 2 % of
    its posterior deviation.

    Where a share s of the rows lies far from everything that the model can produce, the model needs
    to explain only 1 - s of the data, and the distance is the same for all parameters whose pmf is
    nowhere below 1 - s times that of the other rows. Random differences between data and model make
    short flat ranges in clean data, too.
    """
    theta, d = posterior.minimiser, len(posterior.param_names)
    if posterior.n_draws < 2:
        return FlatRanges(theta, theta, np.zeros(d), np.zeros(d))
    spread = posterior.draws.std(0)
    moves = np.concatenate([_STEPS, -_STEPS])
    steps = (np.eye(d)[:, None] * moves[None, :, None]).reshape(-1, d) * spread
    with single_threaded():
        layout = layout_of(posterior)
        tried = layout.bound.from_user(np.concatenate([theta[None], theta + steps]).T)
        p = np.broadcast_to(posterior.cells.p[:, None], (posterior.cells.n_cells, tried.shape[1]))
        share = unexplained(layout, tried, p)
    hardly = _SAME * posterior.distance.std()
    same = (np.abs(share[1:] - share[0]) < hardly).reshape(d, 2, len(_STEPS))
    # A range ends at the first step that changes the distance.
    up, down = np.where(np.logical_and.accumulate(same, axis=2), _STEPS, 0.0).max(2).T
    low, high = theta - down * spread, theta + up * spread
    inside = ((posterior.draws >= low) & (posterior.draws <= high)).mean(0)
    return FlatRanges(low, high, np.where(spread > 0, up + down, 0.0), inside)


@dataclass(frozen=True)
class BetterFamily:
    """A family that explains the data better; prints as a sentence.

    It leaves the share `share` of the data unexplained, and `chance` of data of its own making; the
    family of the fit, `named`, leaves `own_share` and `own_chance`.
    """

    neighbour: Neighbour
    share: float
    chance: float
    named: str
    own_share: float
    own_chance: float

    def __str__(self) -> str:
        return (
            f"{self.neighbour.words} leaves {self.share:.0%} of the data unexplained (chance: "
            f"{self.chance:.0%}) where {self.named} leaves {self.own_share:.0%} (chance: "
            f"{self.own_chance:.0%}): try {self.neighbour.options}."
        )


def better_family(posterior: Posterior) -> BetterFamily | None:
    """The neighbour of the family that leaves least, where it leaves much less beyond chance.

    None where little is unexplained, or no more than a few rows that were dropped.
    """
    family = posterior.model.family
    found = neighbours(family)
    linear, has_rows = posterior.model.predictor.averages, posterior.prior is None
    if not (found and linear and has_rows and _dropped(posterior) > _DROPPED):
        return None
    own, own_chance = _share(posterior), chance_without_refits(posterior, _REPLICATES)
    noise = float(own_chance.max())
    if own - noise <= _MUCH * (1 - noise):
        return None
    others = [(_share(fit), one, fit) for one in found if (fit := _fit(posterior, one)) is not None]
    if not others:
        return None
    least = min(share for share, _, _ in others)
    # Neighbours are listed from the simplest on.
    share, best, other = next(one for one in others if one[0] <= least + _HARDLY)
    chance = float(chance_without_refits(other, _REPLICATES).mean())
    before = float(own_chance.mean())
    if share - chance > _BEYOND * (own - before):
        return None
    return BetterFamily(best, share, chance, type(family).__name__, own, before)


@dataclass(frozen=True)
class FewerDropped:
    """A family that needs to drop fewer rows; prints as a sentence.

    Its trimmed fit drops the share `dropped` of the rows, that of the family of the fit, `named`,
    the share `own_dropped`.
    """

    neighbour: Neighbour
    dropped: float
    named: str
    own_dropped: float

    def __str__(self) -> str:
        return (
            f"{self.neighbour.words} drops {self.dropped:.0%} of the rows where {self.named} drops "
            f"{self.own_dropped:.0%}: try {self.neighbour.options}."
        )


def fewer_dropped(posterior: Posterior) -> FewerDropped | None:
    """The simplest neighbour of the family, if it drops at most half as many rows.

    Wrong rows are dropped by both; rows that are only more dispersed than the family allows are
    not. None where the fit drops few rows.
    """
    family, found = posterior.model.family, neighbours(posterior.model.family)
    own = _dropped(posterior)
    if posterior.kept_rows is None or posterior.prior is not None or not found or own <= _SOME:
        return None
    other = _fit(posterior, found[0], TVD())
    if other is None or _dropped(other) > _BEYOND * own:
        return None
    return FewerDropped(found[0], _dropped(other), type(family).__name__, own)


def _dropped(posterior: Posterior) -> float:
    """The share of the rows that a trimmed fit drops; all where that did not pay."""
    kept = posterior.kept_rows
    if kept is None or kept.route == "ordinary":
        return 1.0
    return float(posterior.cells.p @ (1 - kept.share))


def _share(posterior: Posterior) -> float:
    """The mass of the data that the estimate leaves unexplained."""
    layout = layout_of(posterior)
    return float(unexplained(layout, minimiser(layout, posterior), posterior.cells.p[:, None])[0])


def _fit(
    posterior: Posterior, neighbour: Neighbour, divergence: KLD | TVD | None = None
) -> Posterior | None:
    """The neighbour's fit, judged in the same groups and bins; None where it has none.

    By maximum likelihood unless told, which is fast: it explains all rows only if the family does.
    """
    cells, family = posterior.cells, neighbour.family
    first = posterior.model.bind(cells, cells).blocks[0]
    further = ((-1,),) * (len(family.predictors) - 1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TVDBayesWarning)
        try:
            model = Model(family, Linear((first, *further)))
            found = posterior_bootstrap(
                model,
                cells,
                divergence=divergence or KLD(),
                partition=posterior.partition,
                n_draws=0,
                units=posterior.units,
                seed=posterior.seed,
            )
        except TVDBayesError:
            return None
    return replace(found, partition=posterior.partition, bins=posterior.bins)
