"""What the options of a fit come to for a model and a table: what "auto" stands for."""

from collections.abc import Sequence

from tvdbayes._array import Device
from tvdbayes._errors import SettingsError
from tvdbayes.models.model import Model
from tvdbayes.objective.divergences import TVD, AbstractDivergence
from tvdbayes.objective.partitions import Bins, learn_bins, median_cell
from tvdbayes.sampling.plan import Refine
from tvdbayes.sampling.setup import Setup

__all__ = ["device_named", "outcome_bins", "refined"]


def refined(refine: object, divergence: AbstractDivergence, model: Model) -> Refine:
    """What is done to the closest model."""
    if refine is None:
        return None
    if refine == "auto":
        if model.predictor.reweighted:
            return "reweight" if divergence.on_groups else None
        return "trim" if divergence == TVD() else None
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


def device_named(name: str, model: Model, n_jobs: int | None) -> Device:
    """The device of this name, if the model can be computed there."""
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
