"""Which covariate rows are compared together."""

from tvdbayes.partitions._base import (
    AbstractPartition,
    Distinct,
    Grouping,
    Singletons,
    median_group_size,
)
from tvdbayes.partitions.groups import (
    ENOUGH_ROWS,
    Auto,
    Cluster,
    KMeansGroups,
    LearnedGroups,
    rows_per_group,
)

__all__ = [
    "ENOUGH_ROWS",
    "AbstractPartition",
    "Auto",
    "Cluster",
    "Distinct",
    "Grouping",
    "KMeansGroups",
    "LearnedGroups",
    "Singletons",
    "median_group_size",
    "rows_per_group",
]
