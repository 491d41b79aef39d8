"""The distribution of the outcome given its linear predictors, one family per class."""

from tvdbayes.models.families._base import AbstractFamily, Jet, odd_trials
from tvdbayes.models.families._by_outcome import once_per_outcome
from tvdbayes.models.families._support import gauss_sum
from tvdbayes.models.families.beta_binomial import BetaBinomial
from tvdbayes.models.families.bounded import Bernoulli, Binomial
from tvdbayes.models.families.categorical import Categorical, Ordinal
from tvdbayes.models.families.censored import Censored
from tvdbayes.models.families.com_poisson import ComPoisson
from tvdbayes.models.families.counts import Geometric, NegativeBinomial, Poisson
from tvdbayes.models.families.custom import CustomFamily
from tvdbayes.models.families.generalized_poisson import GeneralizedPoisson
from tvdbayes.models.families.inflated import Hurdle, ZeroInflated, ZeroTruncated
from tvdbayes.models.families.links import AbstractLink, Cloglog, Logit, Probit
from tvdbayes.models.families.weibull import DiscreteWeibull

__all__ = [
    "ALL_FAMILIES",
    "ALL_LINKS",
    "COUNT_FAMILIES",
    "INSIDE",
    "LINKED_FAMILIES",
    "WRAPPERS",
    "AbstractFamily",
    "AbstractLink",
    "Bernoulli",
    "BetaBinomial",
    "Binomial",
    "Categorical",
    "Censored",
    "Cloglog",
    "ComPoisson",
    "CustomFamily",
    "DiscreteWeibull",
    "GeneralizedPoisson",
    "Geometric",
    "Hurdle",
    "Jet",
    "Logit",
    "NegativeBinomial",
    "Ordinal",
    "Poisson",
    "Probit",
    "ZeroInflated",
    "ZeroTruncated",
    "gauss_sum",
    "odd_trials",
    "once_per_outcome",
]

ALL_LINKS: tuple[AbstractLink, ...] = (Logit(), Probit(), Cloglog())

COUNT_FAMILIES: tuple[AbstractFamily, ...] = (
    Poisson(),
    Geometric(),
    NegativeBinomial(),
    DiscreteWeibull(),
    ComPoisson(),
    GeneralizedPoisson(),
)
"""Counts without a largest value, known by name."""

LINKED_FAMILIES: tuple[type[Bernoulli | Binomial | BetaBinomial], ...] = (
    Bernoulli,
    Binomial,
    BetaBinomial,
)
"""Known by name, with a link."""

WRAPPERS: tuple[type[ZeroInflated | Hurdle | ZeroTruncated], ...] = (
    ZeroInflated,
    Hurdle,
    ZeroTruncated,
)
"""Known by name, before the name of a family of counts."""

INSIDE = tuple(law.name for law in (*COUNT_FAMILIES, *LINKED_FAMILIES) if law.counts)
"""Names that may stand after that of a wrapper."""

_COUNTS = (*COUNT_FAMILIES, Binomial())

ALL_FAMILIES: tuple[AbstractFamily, ...] = (
    *_COUNTS,
    *(Bernoulli(link) for link in ALL_LINKS),
    *(Binomial(link) for link in ALL_LINKS[1:]),
    *(BetaBinomial(link) for link in ALL_LINKS),
    Categorical(("a", "b", "c", "d")),
    Categorical(("a", "b", "c"), "sum"),
    *(Ordinal(("low", "middle", "high", "top"), link) for link in ALL_LINKS),
    Ordinal(("no", "yes")),
    *(ZeroInflated(base) for base in _COUNTS),
    *(Hurdle(base) for base in _COUNTS),
    *(ZeroTruncated(base) for base in _COUNTS),
    *(Censored(base, 4) for base in _COUNTS),
)
"""One instance of every family, link and wrapper; the law tests run over it."""
