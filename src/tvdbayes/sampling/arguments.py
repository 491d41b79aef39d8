"""Checks of the arguments of `posterior_bootstrap`, and what "auto" stands for."""

from collections.abc import Sequence

import numpy as np

from tvdbayes._array import Device
from tvdbayes._errors import SettingsError
from tvdbayes._validate import is_number, is_whole, whole_number
from tvdbayes.models.model import Model
from tvdbayes.objective.divergences import TVD, AbstractDivergence
from tvdbayes.objective.partitions import Bins, learn_bins, median_cell
from tvdbayes.sampling.plan import Refine
from tvdbayes.sampling.setup import Setup

__all__ = ["check_settings", "device_named", "outcome_bins", "refined"]

_MOST_DRAWS = 10_000_000
"""Draws asked for at most: of a single parameter they take 80 MB for each column of the record."""


def check_settings(
    n_draws: object, seed: object, ridge: object, n_jobs: object, memory_budget: object
) -> None:
    """Raise where a number is none, or out of range."""
    whole_number("n_draws", n_draws, 0, _MOST_DRAWS)
    whole_number("seed", seed, 0)
    named = isinstance(ridge, str) and ridge == "auto"
    if not (named or (is_number(ridge) and 0 <= ridge < np.inf)):
        raise SettingsError(f'ridge must be "auto" or a number of at least 0; got {ridge!r}.')
    if not (n_jobs is None or (is_whole(n_jobs) and (n_jobs == -1 or n_jobs >= 1))):
        raise SettingsError(f"n_jobs must be at least 1, or -1 for all cores; got {n_jobs!r}.")
    if not (is_number(memory_budget) and memory_budget > 0):
        raise SettingsError(f"memory_budget must be a number of bytes; got {memory_budget!r}.")


def refined(refine: object, divergence: AbstractDivergence, model: Model) -> Refine:
    """What is done to the closest model."""
    if refine is None:
        return None
    if refine == "auto":
        if model.predictor.reweighted:
            return "reweight" if divergence.on_groups else None
        return "trim" if divergence == TVD() else None
    if refine not in ("reweight", "trim"):
        raise SettingsError(f'refine must be "auto", "trim", "reweight" or None; got {refine!r}.')
    if not divergence.on_groups:
        raise SettingsError(
            f"refine={refine!r} takes away mass that a robust fit cannot explain, and the "
            f'divergence {divergence.name!r} compares row by row. Use divergence="tvd", or leave '
            "refine out."
        )
    if refine == "reweight":
        return "reweight"
    if not model.predictor.averages:
        raise SettingsError('refine="trim" is for linear predictors; networks have "reweight".')
    return "trim"


def outcome_bins(
    wanted: Sequence[float] | str, setup: Setup, divergence: AbstractDivergence
) -> Bins | None:
    """The outcomes that are compared together, as asked for or as the table needs it."""
    layout, report = setup.layout, setup.report
    family, cells = layout.family, layout.cells
    applies = divergence.on_groups and family.counts
    if isinstance(wanted, str) and wanted not in ("auto", "none"):
        raise SettingsError(
            f'bins must be "auto", "none" or the first count of each bin; got {wanted!r}.'
        )
    if not isinstance(wanted, str):
        if not applies:
            raise SettingsError(
                f"bins= joins counts that are compared by groups; {type(family).__name__} with "
                f"the divergence {divergence.name!r} has none. Leave it out."
            )
        return Bins.starting_at(wanted, float(cells.y.max())).isolating(family.spikes)
    if not applies:
        return None
    # Thin cells pull a free spread in, so a law with one is binned sooner.
    thin = layout.partition.thin * len(family.predictors)
    if wanted == "none" or median_cell(cells, layout.grouping) >= thin:
        return None
    learned = learn_bins(cells, layout.grouping, report.median_size)
    return None if learned is None else learned.isolating(family.spikes)


def device_named(name: object, model: Model, n_jobs: int | None) -> Device:
    """The device of this name, if the model can be computed there."""
    if not isinstance(name, str):
        raise SettingsError(f'device must be a name such as "gpu", or None; got {name!r}.')
    if n_jobs not in (None, 1):
        raise SettingsError(
            f"device={name!r} computes all draws of a block together; leave n_jobs at 1, got "
            f"{n_jobs}."
        )
    if not model.family.on_device:
        raise SettingsError(
            f"{type(model.family).__name__} is computed with NumPy only. Leave device out."
        )
    return Device.named(name)
