"""A sample of the rows, fitted in memory.

It gives the starts of the search, the coding of the columns, and the groups of all rows.
"""

import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from tvdbayes._errors import (
    BoundaryWarning,
    ConvergenceWarning,
    DataError,
    FamilyError,
    FormulaError,
    SeparationWarning,
    SmallGroupsWarning,
    TooFewRowsWarning,
)
from tvdbayes.data.cells import Cells
from tvdbayes.fitting.fit_formula import fit
from tvdbayes.fitting.record import Fit
from tvdbayes.large.cluster.chunks import Rules, spread_of
from tvdbayes.large.cluster.rows import joined
from tvdbayes.large.pieces import Pieces
from tvdbayes.large.profile import DataProfile
from tvdbayes.large.recipe import Recipe, join_frames, some_rows
from tvdbayes.large.used import Used
from tvdbayes.models.families import AbstractFamily
from tvdbayes.objective.partitions import (
    Bins,
    KMeansGroups,
    LearnedGroups,
    learn_bins,
    report_groups,
    rows_per_group,
)
from tvdbayes.sampling.weights import Stream

_SAMPLE_ROWS = 100_000
"""Rows of the sample: enough that its fit is near that of all rows, few enough for one process."""

_MOST_NODES = 500
"""Probabilities for each row: every sum over all rows evaluates the pmf so many times."""

_MOST_GROUPS = 1000
"""Groups of one partition: to find the group of a row costs as much as there are groups, and with
a thousand every group of a large table has more rows than it needs."""


def draw_sample(
    client: Any, pieces: Pieces, used: Used, profile: DataProfile, seed: int
) -> pd.DataFrame:
    """Rows drawn at random, and those that show the range and the levels of the data."""
    rng = Stream.generator(seed, Stream.ROWS)
    drawn = rng.choice(profile.n_rows, min(profile.n_rows, _SAMPLE_ROWS), replace=False)
    rows = np.union1d(drawn, profile.must_see())
    ends = np.cumsum(profile.sizes)
    cuts = np.searchsorted(rows, np.append(0, ends))
    mine = [
        (rows[a:b] - (end - size), used.columns, size) if b > a else None
        for a, b, end, size in zip(cuts, cuts[1:], ends, profile.sizes, strict=False)
    ]
    parts = pieces.start(client, used.columns, some_rows, mine)
    found: pd.DataFrame = joined(client, parts, join_frames)
    return found


def fit_sample(formula: str, frame: pd.DataFrame, **options: Any) -> Fit:
    """The fit of the sample in memory, without warnings that only concern its size."""
    of_size = (
        *(BoundaryWarning, ConvergenceWarning, SeparationWarning),
        *(SmallGroupsWarning, TooFewRowsWarning),
    )
    with warnings.catch_warnings():
        for kind in of_size:
            warnings.simplefilter("ignore", kind)
        try:
            # As all rows are fitted, by plain total variation.
            return fit(formula, frame, refine=None, **options)
        except (DataError, FamilyError, FormulaError) as error:
            raise type(error)(
                f"In the sample of {len(frame):,} rows that is fitted first: {error}"
            ) from error


def recipe_of(sample: Fit, used: Used, profile: DataProfile, seed: int) -> tuple[Recipe, Rules]:
    """How all rows are encoded, grouped and compared: as the sample is, in groups for all rows."""
    cells, model = sample.posterior.cells, sample.posterior.model
    groups = groups_for(cells, profile.n_rows, model.complexity(cells), seed)
    recipe = Recipe(used, model.family, sample.design, groups)
    trials = np.unique(cells.trials)
    bins = None if model.family.binary else _bins(cells, groups, model.family)
    sizes = recipe.sizes
    rules = Rules(model, spread_of(cells), sum(sizes), len(sizes), bins, trials, seed)
    n_nodes = rules.nodes[1].size
    if n_nodes > _MOST_NODES:
        raise DataError(
            f"The outcome {used.outcome!r} is spread so widely (up to {cells.y.max():g}) that each "
            f"row needs {n_nodes} probabilities; at most {_MOST_NODES} are computed on a cluster. "
            "Cap the outcome, or fit a sample of the rows with tvdbayes.fit."
        )
    return recipe, rules


def _bins(cells: Cells, groups: LearnedGroups, law: AbstractFamily) -> Bins:
    """Outcomes that are compared together; they leave no gap, since the sample has both ends."""
    grouping = groups.group(cells)
    size = report_groups(cells, groups.name, grouping).median_size
    outcomes = np.unique(cells.y)
    learned = learn_bins(cells, grouping, size) or Bins(outcomes, outcomes)
    return learned.filled().isolating(law.spikes)


def groups_for(sample: Cells, n_obs: float, n_params: int, seed: int) -> LearnedGroups:
    """Groups for so many rows, learned on a sample of them."""
    most = KMeansGroups()
    wanted = min(n_obs / rows_per_group(n_obs, n_params), _MOST_GROUPS)
    here = sample.n_obs / rows_per_group(sample.n_obs, n_params)
    kinds = tuple(replace(kind, size=kind.size * here / wanted) for kind in most.kinds)
    return KMeansGroups(kinds).learn(sample, n_params, seed)


def scaled_up(sample: Cells, n_obs: float) -> Cells:
    """A sample whose cells count for all rows that they stand for."""
    return replace(sample, counts=sample.counts * (n_obs / sample.n_obs))
