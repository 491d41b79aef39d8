"""The plan behind a record, made again: how other tables are solved as the draws were."""

import numpy as np

from tvdbayes._errors import SettingsError
from tvdbayes.sampling.execution import single_threaded
from tvdbayes.sampling.plan import AbstractPlan
from tvdbayes.sampling.planners import asked_of, make_plan, planner_of
from tvdbayes.sampling.posterior import Posterior
from tvdbayes.sampling.setup import Setup

__all__ = ["plan_for_replicates", "plan_of"]


def plan_of(posterior: Posterior, device: str | None = None) -> AbstractPlan:
    """The plan behind a record, made again: the same objectives, starts and random numbers.

    What is solved by it (`solve_tables`) is comparable draw by draw with the record. Nothing is
    solved where the record has kept the starts; one without draws has not. A `device` is where
    networks are trained.
    """
    planner, setup = planner_of(posterior.model), Setup.of(posterior)
    there = planner.device(device, posterior.model, 1)
    asked = asked_of(setup, posterior.seed, posterior.refine)
    with single_threaded():
        plan = planner.again(setup, posterior, asked, there)
        if plan is not None and plan.minimiser is not None:
            problem = plan.robust.on(plan.robust.layout.cells.p[:, None])
            _check_same(posterior, problem.distance(plan.minimiser[:, None]))
    if plan is not None:
        return plan
    plan, found = make_plan(
        setup,
        posterior.divergence,
        ridge=posterior.options.ridge,
        seed=posterior.seed,
        pilot=True,
        refine=posterior.refine,
        device=there,
    )
    _check_same(posterior, found.distance)
    return plan


def plan_for_replicates(posterior: Posterior) -> AbstractPlan:
    """The plan behind a record, for data sets of the model's own making.

    They are solved from where the model is.
    """
    return plan_of(posterior).for_replicates()


def _check_same(posterior: Posterior, distance: np.ndarray) -> None:
    """Raise unless the distance (1,) of the minimiser is the one on record."""
    planner = planner_of(posterior.model)
    if not planner.same(posterior.minimiser_distance, float(distance[0])):
        raise SettingsError(
            "This fit cannot be run again: its distance from the data comes out differently, so it "
            "was made by another version or with another prior. Fit the data again first."
        )
