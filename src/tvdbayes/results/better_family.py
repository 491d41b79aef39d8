"""Another family where one leaves much unexplained.

Each that is tried allows what the family of the fit does not: more spread, another share of zeros,
or another link.
"""

import warnings
from dataclasses import dataclass, replace

from tvdbayes._errors import TVDBayesError, TVDBayesWarning
from tvdbayes.models.families import (
    ALL_LINKS,
    AbstractFamily,
    AbstractLink,
    Bernoulli,
    BetaBinomial,
    Binomial,
    Geometric,
    Hurdle,
    NegativeBinomial,
    Poisson,
    ZeroInflated,
)
from tvdbayes.models.model import Model
from tvdbayes.models.predictors import Linear
from tvdbayes.objective.divergences import KLD, TVD
from tvdbayes.results.replicates import chance_without_refits
from tvdbayes.results.rows import layout_of, minimiser, unexplained
from tvdbayes.sampling.bootstrap import posterior_bootstrap
from tvdbayes.sampling.posterior import Posterior

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
class Neighbour:
    """A family to try.

    Parameters
    ----------
    family : AbstractFamily
    words : str
        What it is called at the start of a sentence.
    options : str
        How to ask for it.
    """

    family: AbstractFamily
    words: str
    options: str


def neighbours(family: AbstractFamily) -> tuple[Neighbour, ...]:
    """What to try in the place of a family; nothing for most.

    Examples
    --------
    >>> import tvdbayes as tb
    >>> from tvdbayes.results.better_family import neighbours
    >>> [one.options for one in neighbours(tb.Bernoulli())]
    ['family="bernoulli", link="probit"', 'family="bernoulli", link="cloglog"']
    """
    return next((found for one, found in _TABLE if one == family), ())


_OF_COUNTS = (
    Neighbour(NegativeBinomial(), "A negative binomial", 'family="negativebinomial"'),
    Neighbour(ZeroInflated(Poisson()), "A zero-inflated Poisson", 'family="zero_inflated_poisson"'),
    Neighbour(Hurdle(Poisson()), "A hurdle Poisson", 'family="hurdle_poisson"'),
    Neighbour(
        ZeroInflated(NegativeBinomial()),
        "A zero-inflated negative binomial",
        'family="zero_inflated_negativebinomial"',
    ),
)


def _beta_binomial(link: AbstractLink) -> Neighbour:
    asked = f'family="betabinomial", link="{link.name}"'
    return Neighbour(BetaBinomial(link), "A beta-binomial", asked)


def _bernoulli(link: AbstractLink) -> Neighbour:
    asked = f'family="bernoulli", link="{link.name}"'
    return Neighbour(Bernoulli(link), f"The {link.name} link", asked)


_TABLE: tuple[tuple[AbstractFamily, tuple[Neighbour, ...]], ...] = (
    (Poisson(), _OF_COUNTS),
    (Geometric(), _OF_COUNTS),
    *((Binomial(link), (_beta_binomial(link),)) for link in ALL_LINKS),
    *(
        (Bernoulli(link), tuple(_bernoulli(other) for other in ALL_LINKS if other != link))
        for link in ALL_LINKS
    ),
)


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
