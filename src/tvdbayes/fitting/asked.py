"""What `fit` was asked for, where the record of the fit holds only what came of it."""

from dataclasses import dataclass
from typing import Any, Literal, Self

from tvdbayes.data.sources import Grid, Missing
from tvdbayes.models.families import AbstractFamily
from tvdbayes.objective.partitions import AbstractPartition

__all__ = ["Asked", "Connection"]


@dataclass(frozen=True)
class Connection:
    """Stands for an Ibis connection, which no file can hold, by the name of its kind."""

    kind: str

    @classmethod
    def of(cls, engine: Any) -> str | Self | None:
        """What is kept of ``engine=``."""
        return engine if engine is None or isinstance(engine, str) else cls(str(engine.name))


@dataclass(frozen=True, eq=False)
class Asked:
    """Options of `fit`, by its own names and in the form they were given in.

    A family by name learns its levels from the data, "auto" chooses by them, groups are learned on
    them: with more rows all of that may come out differently, so the wish is kept beside it. What
    the data cannot change (divergence, seed, prior, network, the uses of columns) is in the record;
    `tvdbayes.fitting.options` puts both together.
    """

    family: str | AbstractFamily
    link: str | None
    trials: str | float | None
    partition: AbstractPartition
    ridge: float | Literal["auto"]
    bins: tuple[float, ...] | Literal["auto", "none"]
    predictors: dict[str, str] | None
    refine: Literal["auto", "trim", "reweight"] | None
    missing: Missing
    collinear: Literal["error", "drop"]
    device: str | None
    engine: str | Connection | None
    grid: Grid | int | None
    max_cells: int
