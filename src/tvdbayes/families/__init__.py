"""The law of the outcome given its linear predictors, one family per class."""

from tvdbayes.families._base import AbstractFamily, Jet
from tvdbayes.families.bounded import Bernoulli, Binomial
from tvdbayes.families.counts import Poisson
from tvdbayes.families.links import AbstractLink, Cloglog, Logit, Probit

__all__ = [
    "ALL_FAMILIES",
    "ALL_LINKS",
    "AbstractFamily",
    "AbstractLink",
    "Bernoulli",
    "Binomial",
    "Cloglog",
    "Jet",
    "Logit",
    "Poisson",
    "Probit",
]

ALL_LINKS: tuple[AbstractLink, ...] = (Logit(), Probit(), Cloglog())

ALL_FAMILIES: tuple[AbstractFamily, ...] = (
    Poisson(),
    *(Bernoulli(link) for link in ALL_LINKS),
    *(Binomial(link) for link in ALL_LINKS),
)
"""One instance of every family and link; the law tests run over it."""
