"""Families to try where another one leaves much unexplained.

Each allows what its neighbour does not: more spread, another share of zeros, or another link.
"""

from dataclasses import dataclass

from tvdbayes.models.families._base import AbstractFamily
from tvdbayes.models.families.beta_binomial import BetaBinomial
from tvdbayes.models.families.bounded import Bernoulli, Binomial
from tvdbayes.models.families.counts import Geometric, NegativeBinomial, Poisson
from tvdbayes.models.families.inflated import Hurdle, ZeroInflated
from tvdbayes.models.families.links import AbstractLink, Cloglog, Logit, Probit


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
    >>> from tvdbayes.models.families import neighbours
    >>> [one.options for one in neighbours(tb.Bernoulli())]
    ['family="bernoulli", link="probit"', 'family="bernoulli", link="cloglog"']
    """
    return next((found for one, found in _TABLE if one == family), ())


_LINKS: tuple[AbstractLink, ...] = (Logit(), Probit(), Cloglog())

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
    *((Binomial(link), (_beta_binomial(link),)) for link in _LINKS),
    *(
        (Bernoulli(link), tuple(_bernoulli(other) for other in _LINKS if other != link))
        for link in _LINKS
    ),
)
