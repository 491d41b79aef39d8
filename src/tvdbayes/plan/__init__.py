"""Planning a study: how many rows, by simulation with the wrong rows that are feared."""

from tvdbayes.plan._simulation import replaced_by, shifted_by
from tvdbayes.plan.groups import GroupPlan, groups
from tvdbayes.plan.sample_size import Power, SampleSize, power, sample_size

__all__ = [
    "GroupPlan",
    "Power",
    "SampleSize",
    "groups",
    "power",
    "replaced_by",
    "sample_size",
    "shifted_by",
]
