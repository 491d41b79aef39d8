"""Divergences and partitions by name."""

from tvdbayes.objective.divergences import (
    KLD,
    TVD,
    AbstractDivergence,
    DensityPower,
    Hellinger,
    PowerDivergence,
)
from tvdbayes.objective.partitions import (
    AbstractPartition,
    Auto,
    Distinct,
    KMeansGroups,
    Singletons,
)

__all__ = ["DIVERGENCES", "PARTITIONS"]

DIVERGENCES: dict[str, AbstractDivergence] = {
    d.name: d for d in (TVD(), KLD(), Hellinger(), PowerDivergence(), DensityPower())
}
PARTITIONS: dict[str, AbstractPartition] = {
    "auto": Auto(),
    "distinct": Distinct(),
    "kmeans": KMeansGroups(),
    "singletons": Singletons(),
}
