"""What `fit` was asked for, where the record of the fit holds only what came of it."""

from dataclasses import dataclass
from typing import Literal

from tvdbayes.families import AbstractFamily
from tvdbayes.partitions import AbstractPartition
from tvdbayes.sources import Missing

__all__ = ["Asked"]


@dataclass(frozen=True, eq=False)
class Asked:
    """Options of `fit`, by its own names and in the form they were given in.

    A family by name learns its levels from the data, "auto" chooses by them, groups are learned on
    them: with more rows all of that may come out differently, so the wish is kept beside it. What
    the data cannot change (divergence, seed, prior, network, the uses of columns) is in the record.
    """

    family: str | AbstractFamily
    link: str | None
    trials: str | float | None
    partition: AbstractPartition
    ridge: float | Literal["auto"]
    bins: tuple[float, ...] | Literal["auto", "none"]
    predictors: dict[str, str] | None
    refine: Literal["auto", "reweight"] | None
    missing: Missing
    collinear: Literal["error", "drop"]
