"""Groups of rows for data of which only a sample is in memory."""

from dataclasses import replace

from tvdbayes.data.cells import Cells
from tvdbayes.objective.partitions import KMeansGroups, LearnedGroups, rows_per_group

__all__ = ["MOST_GROUPS", "groups_for", "scaled_up"]

MOST_GROUPS = 1000
"""Groups of one partition: to find the group of a row costs as much as there are groups, and with
a thousand every group of a large table has more rows than it needs."""


def groups_for(sample: Cells, n_obs: float, n_params: int, seed: int) -> LearnedGroups:
    """Groups for so many rows, learned on a sample of them."""
    most = KMeansGroups()
    wanted = min(n_obs / rows_per_group(n_obs, n_params), MOST_GROUPS)
    here = sample.n_obs / rows_per_group(sample.n_obs, n_params)
    kinds = tuple(replace(kind, size=kind.size * here / wanted) for kind in most.kinds)
    return KMeansGroups(kinds).learn(sample, n_params, seed)


def scaled_up(sample: Cells, n_obs: float) -> Cells:
    """A sample whose cells count for all rows that they stand for."""
    return replace(sample, counts=sample.counts * (n_obs / sample.n_obs))
