"""What outcomes with a largest value share: a link from the first predictor to a probability."""

from typing import ClassVar

from tvdbayes._array import xp
from tvdbayes._errors import SettingsError
from tvdbayes._typing import Array, BoolArray
from tvdbayes.models.families._base import AbstractFamily
from tvdbayes.models.families.links import AbstractLink, require_link

_MOST_TRIALS = 1_000_000
"""Outcomes of a sum over the whole support: arrays of this size take 8 MiB for each row."""


class AbstractLinked(AbstractFamily):
    """A family whose first predictor is the probability of a success, through a link."""

    link: AbstractLink

    def __post_init__(self) -> None:
        require_link(self.link)

    @property
    def link_name(self) -> str:
        return self.link.name

    @property
    def ratios(self) -> tuple[str, ...]:
        return (self.link.ratio, *(f"{name} ratio" for name in self.predictors[1:]))

    @property
    def canonical(self) -> bool:
        return self._plain and self.link.canonical

    @property
    def compiled(self) -> str | None:
        return self.link.compiled if self._plain else None

    def compiled_pmf(self, *, folded: bool) -> str | None:
        return self.link.compiled_pmf(folded=folded) if self._plain else None

    @property
    def _plain(self) -> bool:
        """Whether the probability alone determines the law."""
        return len(self.predictors) == 1


class AbstractSuccesses(AbstractLinked):
    """A number of successes in a known number of trials."""

    needs: ClassVar[str] = "whole outcomes between 0 and their trials (at least 1)"
    counts: ClassVar[bool] = True

    @property
    def needs_trials(self) -> bool:
        return True

    def mean(self, eta: Array, trials: Array) -> Array:
        return trials * self.link.tail_slope(xp.array(True), eta[0])[0]

    def possible(self, y: Array, trials: Array) -> BoolArray:
        return within(y, trials)


def all_outcomes(trials: Array, ndim: int) -> tuple[Array, Array]:
    """Nodes and weights, (S, ...), of a sum over every outcome from 0 to the trials."""
    most = int(xp.max(trials))
    if most > _MOST_TRIALS:
        raise SettingsError(
            f"A sum over all outcomes is needed, and {most:,} trials are too many (at most "
            f'{_MOST_TRIALS:,}). Use divergence="tvd" with refine=None.'
        )
    y = xp.arange(most + 1.0).reshape((most + 1,) + (1,) * ndim)
    inside = y <= trials
    return xp.where(inside, y, 0.0), inside.astype(float)


def own_share(link: AbstractLink, y: Array, trials: Array) -> Array:
    """The predictor that makes the observed share of successes the likeliest, kept finite."""
    edge = 0.25 / (trials + 0.5)
    return link.link(xp.clip(y / trials, edge, 1 - edge))


def within(y: Array, trials: Array) -> BoolArray:
    """Whether these are whole numbers from 0 to their trials."""
    whole = (y == xp.round(y)) & (trials == xp.round(trials))
    inside: BoolArray = whole & (y >= 0) & (trials >= 1) & (y <= trials)
    return inside
