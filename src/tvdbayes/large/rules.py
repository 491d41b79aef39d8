"""What a sample of the rows decides for all of them: groups, and outcomes compared together."""

from dataclasses import replace

import numpy as np

from tvdbayes._errors import DataError
from tvdbayes.data.cells import Cells
from tvdbayes.large.chunks import Rules, spread_of
from tvdbayes.large.encode import Encoder
from tvdbayes.objective import Compared
from tvdbayes.objective.partitions import Bins, KMeansGroups, LearnedGroups, rows_per_group
from tvdbayes.sampling.posterior import Posterior

_MOST_NODES = 500
"""Probabilities for each row: every sum over all rows evaluates the pmf so many times."""

_MOST_GROUPS = 1000
"""Groups of one partition: to find the group of a row costs as much as there are groups, and with
a thousand every group of a large table has more rows than it needs."""


def groups_for(
    sample: Cells, n_obs: float, n_params: int, seed: int, most: KMeansGroups | None = None
) -> LearnedGroups:
    """Groups for so many rows, learned on a sample of them."""
    most = most or KMeansGroups()
    wanted = min(n_obs / rows_per_group(n_obs, n_params), _MOST_GROUPS)
    here = sample.n_obs / rows_per_group(sample.n_obs, n_params)
    kinds = tuple(replace(kind, size=kind.size * here / wanted) for kind in most.kinds)
    return KMeansGroups(kinds).learn(sample, n_params, seed)


def rules_of(sample: Posterior, encoder: Encoder) -> Rules:
    """How all rows are compared: as the sample is, in groups for all rows."""
    cells, model, sizes = sample.cells, sample.model, encoder.sizes
    bins = None if model.family.binary else _bins(sample)
    trials = np.unique(cells.trials)
    compared = Compared(sum(sizes), len(sizes), bins, trials)
    n_nodes = compared.nodes[1].size
    if n_nodes > _MOST_NODES:
        raise DataError(
            f"The outcome is spread so widely (up to {cells.y.max():g}) that each row needs "
            f"{n_nodes} probabilities; at most {_MOST_NODES} are computed for rows that stay with "
            "Dask. Cap the outcome, or fit a sample of the rows."
        )
    return Rules(model, spread_of(cells), compared, sample.seed)


def _bins(sample: Posterior) -> Bins:
    """Outcomes that are compared together; they leave no gap, since the sample has both ends."""
    outcomes = np.unique(sample.cells.y)
    bins = sample.bins or Bins(outcomes, outcomes)
    return bins.filled().isolating(sample.model.family.spikes)
