"""How a plan is made, or made again from a record, for each way to find parameters.

A predictor names its way (`AbstractPredictor.solver`); a further way is an entry in `PLANNERS`.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from tvdbayes._array import Device
from tvdbayes._errors import SettingsError
from tvdbayes.models.model import Model
from tvdbayes.sampling.execution import single_threaded
from tvdbayes.sampling.networks import NetworkPlan, network_of
from tvdbayes.sampling.neural.trainer import device_for
from tvdbayes.sampling.plan import AbstractPlan, Solved
from tvdbayes.sampling.posterior import Posterior
from tvdbayes.sampling.search import begin, prepare
from tvdbayes.sampling.setup import Setup, device_named
from tvdbayes.sampling.trimmed import trimmed_plan


class AbstractPlanner(ABC):
    """One way in which the parameters of a predictor are found."""

    @abstractmethod
    def device(self, name: str | None, model: Model, n_jobs: int | None) -> Device | None:
        """The device of this name; where to compute if it is None."""

    @abstractmethod
    def plan(self, setup: Setup, *, pilot: bool) -> tuple[AbstractPlan, Solved]:
        """Solve the unweighted table, and collect what every draw needs."""

    @abstractmethod
    def again(self, setup: Setup, posterior: Posterior) -> AbstractPlan | None:
        """The plan behind a record, without solving; None if the record has not kept enough."""

    @abstractmethod
    def same(self, kept: float, found: float) -> bool:
        """Whether a distance on record may have come out like this."""


class NewtonPlanner(AbstractPlanner):
    """Newton's method, for predictors that are linear in their parameters."""

    def device(self, name: str | None, model: Model, n_jobs: int | None) -> Device | None:
        return None if name is None else device_named(name, model, n_jobs)

    def plan(self, setup: Setup, *, pilot: bool) -> tuple[AbstractPlan, Solved]:
        if setup.refine != "trim":
            return prepare(setup, pilot=pilot)
        return trimmed_plan(begin(setup), pilot)

    def again(self, setup: Setup, posterior: Posterior) -> AbstractPlan | None:
        if posterior.prepared is None:
            return None
        if setup.device is not None:
            setup = replace(setup, layout=setup.layout.to(setup.device))
        return posterior.prepared.plan(setup, posterior.kept_rows, posterior.ridge)

    def same(self, kept: float, found: float) -> bool:
        # Single precision on a device has seven digits.
        return abs(found - kept) <= 1e-5


class TrainingPlanner(AbstractPlanner):
    """Training by JAX, for networks."""

    def device(self, name: str | None, model: Model, n_jobs: int | None) -> Device | None:
        if name is not None and ":" not in name:
            # Steps are random, so that double precision buys nothing but for some families.
            name += ":float32" if model.family.single_precision else ":float64"
        if name is not None:
            return device_for(device_named(name, model, n_jobs), model.family)
        if not model.family.on_device:
            raise SettingsError(
                f"{type(model.family).__name__} is computed with NumPy, and networks are trained "
                "by JAX. Choose another family, or a linear predictor."
            )
        return device_for(None, model.family)

    def plan(self, setup: Setup, *, pilot: bool) -> tuple[AbstractPlan, Solved]:
        divergence = setup.divergence
        if divergence.sums and setup.layout.family.counts:
            raise SettingsError(
                f"The divergence {divergence.name!r} sums over all counts in every step, which is "
                'too slow to train. Use "tvd", "hellinger" or "power".'
            )
        plan = NetworkPlan.starting(setup, lambda line: prepare(line, pilot=pilot)[0])
        return plan, plan.unweighted()

    def again(self, setup: Setup, posterior: Posterior) -> AbstractPlan | None:
        kept = posterior.prepared
        if kept is None and network_of(setup.layout.model).direct:
            return None
        return NetworkPlan.starting(setup, None if kept is None else kept.plan)

    def same(self, kept: float, found: float) -> bool:
        # Training amplifies rounding differences between machines.
        return bool(np.isclose(found, kept, rtol=0.1, atol=0.02))


PLANNERS: Mapping[str, AbstractPlanner] = {
    "newton": NewtonPlanner(),
    "training": TrainingPlanner(),
}


def planner_of(model: Model) -> AbstractPlanner:
    """The way in which the parameters of this model are found."""
    return PLANNERS[model.predictor.solver]


def make_plan(setup: Setup, *, pilot: bool = True) -> tuple[AbstractPlan, Solved]:
    """Solve the unweighted table, and collect what every draw needs."""
    with single_threaded():
        return planner_of(setup.layout.model).plan(setup, pilot=pilot)


def plan_of(posterior: Posterior, device: str | None = None) -> AbstractPlan:
    """The plan behind a record, made again: the same objectives, starts and random numbers.

    What is solved by it (`solve_tables`) is comparable draw by draw with the record. Nothing is
    solved where the record has kept the starts; one without draws has not. A `device` is where
    networks are trained.
    """
    planner = planner_of(posterior.model)
    setup = Setup.make(
        posterior.model,
        posterior.cells,
        divergence=posterior.divergence,
        partition=posterior.partition,
        prior=posterior.prior,
        seed=posterior.seed,
        refine=posterior.refine,
        ridge=posterior.options.ridge,
        units=posterior.units,
    ).binned(posterior.bins)
    setup = replace(setup, device=planner.device(device, posterior.model, 1))
    with single_threaded():
        plan = planner.again(setup, posterior)
        if plan is None:
            plan, found = planner.plan(setup, pilot=True)
            distance = found.distance
        elif plan.minimiser is not None:
            problem = plan.robust.on(plan.robust.layout.cells.p[:, None])
            distance = problem.distance(plan.minimiser[:, None])
        else:
            return plan
    if not planner.same(posterior.minimiser_distance, float(distance[0])):
        raise SettingsError(
            "This fit cannot be run again: its distance from the data comes out differently, so it "
            "was made by another version or with another prior. Fit the data again first."
        )
    return plan


def plan_for_replicates(posterior: Posterior) -> AbstractPlan:
    """The plan behind a record, for data sets of the model's own making.

    They are solved from where the model is.
    """
    return plan_of(posterior).for_replicates()
