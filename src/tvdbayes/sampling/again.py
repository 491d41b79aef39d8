"""The plan behind a record, made again: how other tables are solved as the draws were."""

from tvdbayes._errors import SettingsError
from tvdbayes.sampling.execution import single_threaded
from tvdbayes.sampling.plan import AbstractPlan, Solved
from tvdbayes.sampling.planners import make_plan, planner_of
from tvdbayes.sampling.posterior import Posterior
from tvdbayes.sampling.setup import Setup
from tvdbayes.sampling.trimmed import recorded_plan

__all__ = ["plan_for_replicates", "plan_of"]


def plan_of(posterior: Posterior, device: str | None = None) -> AbstractPlan:
    """The plan behind a record, made again: the same objectives, starts and random numbers.

    What is solved by it (`solve_tables`) is comparable draw by draw with the record. A `device` is
    for networks, which are trained there.
    """
    there = planner_of(posterior.model).device(device, posterior.model, 1)
    asked = posterior.options
    ridge = posterior.ridge if asked is None else asked.ridge
    plan, found = make_plan(
        Setup.of(posterior),
        posterior.divergence,
        ridge=ridge,
        seed=posterior.seed,
        pilot=True,
        refine=posterior.refine,
        device=there,
    )
    _check_same(posterior, found)
    return plan


def plan_for_replicates(posterior: Posterior) -> AbstractPlan:
    """The plan behind a record, for data sets of the model's own making.

    They are solved from where the model is. A trimmed likelihood needs no more for that than what
    is on record.
    """
    if posterior.kept_rows is None or posterior.prior is not None:
        return plan_of(posterior).for_replicates()
    setup = Setup.of(posterior)
    with single_threaded():
        size = setup.block_size
        plan, found = recorded_plan(setup.layout, posterior, posterior.kept_rows, size)
    _check_same(posterior, found)
    return plan.for_replicates()


def _check_same(posterior: Posterior, found: Solved) -> None:
    """Raise unless this is the solution on record."""
    if not planner_of(posterior.model).same(posterior, found):
        raise SettingsError(
            "This fit cannot be run again: its estimate comes out differently, so it was made by "
            "another version or with another prior. Fit the data again first."
        )
