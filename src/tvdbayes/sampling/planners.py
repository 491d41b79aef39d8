"""How a plan is made, for each way in which the parameters of a predictor are found.

A predictor names its way (`AbstractPredictor.solver`); a further way is an entry in `PLANNERS`.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Literal, TypedDict

import numpy as np

from tvdbayes._array import Device
from tvdbayes._errors import SettingsError
from tvdbayes.data.cells import Cells
from tvdbayes.models.model import Model
from tvdbayes.objective.divergences import AbstractDivergence
from tvdbayes.sampling.arguments import device_named
from tvdbayes.sampling.execution import single_threaded
from tvdbayes.sampling.networks import prepare_networks
from tvdbayes.sampling.neural import device_for
from tvdbayes.sampling.plan import AbstractPlan, Refine, Solved
from tvdbayes.sampling.posterior import Posterior
from tvdbayes.sampling.search import prepare
from tvdbayes.sampling.setup import Setup
from tvdbayes.sampling.trimmed import trimmed_plan
from tvdbayes.sampling.weights import Prior
from tvdbayes.solvers import Status

__all__ = ["Asked", "make_plan", "planner_of"]


class Asked(TypedDict):
    """What all plans are made of beside a layout."""

    ridge: float | Literal["auto"]
    cells: Cells
    prior: Prior | None
    seed: int
    size: int
    pilot: bool
    refine: Refine


class AbstractPlanner(ABC):
    """One way in which the parameters of a predictor are found."""

    @abstractmethod
    def device(self, name: object, model: Model, n_jobs: int | None) -> Device | None:
        """The device of this name; where to compute if it is None."""

    @abstractmethod
    def plan(
        self, setup: Setup, divergence: AbstractDivergence, device: Device | None, asked: Asked
    ) -> tuple[AbstractPlan, Solved]:
        """Solve the unweighted table, and collect what every draw needs."""

    @abstractmethod
    def same(self, posterior: Posterior, found: Solved) -> bool:
        """Whether this is the solution on record."""


class NewtonPlanner(AbstractPlanner):
    """Newton's method, for predictors that are linear in their parameters."""

    def device(self, name: object, model: Model, n_jobs: int | None) -> Device | None:
        return None if name is None else device_named(name, model, n_jobs)

    def plan(
        self, setup: Setup, divergence: AbstractDivergence, device: Device | None, asked: Asked
    ) -> tuple[AbstractPlan, Solved]:
        if asked["refine"] != "trim":
            return prepare(setup.layout, divergence, device=device, **asked)
        closest: Asked = {**asked, "refine": None, "pilot": False}
        plan, found = prepare(setup.layout, divergence, device=device, **closest)
        return trimmed_plan(plan, found, asked["ridge"], asked["pilot"])

    def same(self, posterior: Posterior, found: Solved) -> bool:
        # An optimum at infinity is wherever the search has ended.
        near = np.allclose(found.robust.theta[:, 0], posterior.minimiser, rtol=1e-6, atol=1e-8)
        return bool(near or found.robust.status[0] == Status.SEPARATED)


class TrainingPlanner(AbstractPlanner):
    """Training by JAX, for networks."""

    def device(self, name: object, model: Model, n_jobs: int | None) -> Device | None:
        if isinstance(name, str) and ":" not in name:
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

    def plan(
        self, setup: Setup, divergence: AbstractDivergence, device: Device | None, asked: Asked
    ) -> tuple[AbstractPlan, Solved]:
        layout, network = setup.layout, setup.layout.model.predictor.network
        if network is None:
            raise SettingsError("Only networks are trained. Give this predictor solver='newton'.")
        device = device or device_for(None, layout.family)
        return prepare_networks(layout, divergence, network, device, **asked)

    def same(self, posterior: Posterior, found: Solved) -> bool:
        # Training amplifies rounding differences between machines.
        kept, again = posterior.minimiser_distance, found.distance[0]
        return bool(np.allclose(again, kept, rtol=0.1, atol=0.02))


PLANNERS: Mapping[str, AbstractPlanner] = {
    "newton": NewtonPlanner(),
    "training": TrainingPlanner(),
}


def planner_of(model: Model) -> AbstractPlanner:
    """The way in which the parameters of this model are found."""
    return PLANNERS[model.predictor.solver]


def make_plan(
    setup: Setup,
    divergence: AbstractDivergence,
    *,
    ridge: float | Literal["auto"],
    seed: int,
    pilot: bool,
    refine: Refine,
    device: Device | None = None,
) -> tuple[AbstractPlan, Solved]:
    """Solve the unweighted table, and collect what every draw needs."""
    asked: Asked = {
        "ridge": ridge,
        "cells": setup.cells if setup.drawn else setup.layout.cells,
        "prior": setup.drawn,
        "seed": seed,
        "size": setup.block_size,
        "pilot": pilot,
        "refine": refine,
    }
    with single_threaded():
        return planner_of(setup.layout.model).plan(setup, divergence, device, asked)
