"""Which covariate rows are compared together."""

from tvdbayes.objective.partitions._base import (
    AbstractPartition,
    Distinct,
    Grouping,
    GroupReport,
    Singletons,
    median_cell,
    report_groups,
)
from tvdbayes.objective.partitions.bins import Bins, learn_bins, learn_bins_of_tables
from tvdbayes.objective.partitions.groups import (
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
    "Bins",
    "Cluster",
    "Distinct",
    "GroupReport",
    "Grouping",
    "KMeansGroups",
    "LearnedGroups",
    "Singletons",
    "learn_bins",
    "learn_bins_of_tables",
    "median_cell",
    "report_groups",
    "rows_per_group",
]
