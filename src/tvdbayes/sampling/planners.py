"""How a plan is made, for each way in which the parameters of a predictor are found.

A predictor names its way (`AbstractPredictor.solver`); a further way is an entry in `PLANNERS`.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Literal

import numpy as np

from tvdbayes._array import Device
from tvdbayes._errors import SettingsError
from tvdbayes.models.model import Model
from tvdbayes.models.predictors import MLP
from tvdbayes.objective.divergences import AbstractDivergence
from tvdbayes.sampling.arguments import device_named
from tvdbayes.sampling.execution import single_threaded
from tvdbayes.sampling.networks import networks_again, prepare_networks
from tvdbayes.sampling.neural import device_for
from tvdbayes.sampling.plan import AbstractPlan, Asked, Refine, Solved
from tvdbayes.sampling.posterior import Posterior
from tvdbayes.sampling.search import prepare
from tvdbayes.sampling.setup import Setup
from tvdbayes.sampling.trimmed import trimmed_plan

__all__ = ["asked_of", "make_plan", "planner_of"]


class AbstractPlanner(ABC):
    """One way in which the parameters of a predictor are found."""

    @abstractmethod
    def device(self, name: str | None, model: Model, n_jobs: int | None) -> Device | None:
        """The device of this name; where to compute if it is None."""

    @abstractmethod
    def plan(
        self,
        setup: Setup,
        divergence: AbstractDivergence,
        asked: Asked,
        *,
        ridge: float | Literal["auto"],
        pilot: bool,
        device: Device | None,
    ) -> tuple[AbstractPlan, Solved]:
        """Solve the unweighted table, and collect what every draw needs."""

    @abstractmethod
    def again(
        self, setup: Setup, posterior: Posterior, asked: Asked, device: Device | None
    ) -> AbstractPlan | None:
        """The plan behind a record, without solving; None if the record has not kept enough."""

    @abstractmethod
    def same(self, kept: float, found: float) -> bool:
        """Whether a distance on record may have come out like this."""


class NewtonPlanner(AbstractPlanner):
    """Newton's method, for predictors that are linear in their parameters."""

    def device(self, name: str | None, model: Model, n_jobs: int | None) -> Device | None:
        return None if name is None else device_named(name, model, n_jobs)

    def plan(
        self,
        setup: Setup,
        divergence: AbstractDivergence,
        asked: Asked,
        *,
        ridge: float | Literal["auto"],
        pilot: bool,
        device: Device | None,
    ) -> tuple[AbstractPlan, Solved]:
        if asked["refine"] != "trim":
            return prepare(
                setup.layout, divergence, ridge=ridge, pilot=pilot, device=device, **asked
            )
        closest: Asked = {**asked, "refine": None}
        plan, found = prepare(
            setup.layout, divergence, ridge=ridge, pilot=False, device=device, **closest
        )
        return trimmed_plan(plan, found, ridge, pilot)

    def again(
        self, setup: Setup, posterior: Posterior, asked: Asked, device: Device | None
    ) -> AbstractPlan | None:
        if posterior.prepared is None:
            return None
        layout = setup.layout if device is None else setup.layout.to(device)
        return posterior.prepared.plan(
            layout, posterior.divergence, asked, rows=posterior.kept_rows, penalty=posterior.ridge
        )

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

    def plan(
        self,
        setup: Setup,
        divergence: AbstractDivergence,
        asked: Asked,
        *,
        ridge: float | Literal["auto"],
        pilot: bool,
        device: Device | None,
    ) -> tuple[AbstractPlan, Solved]:
        layout, device = setup.layout, device or device_for(None, setup.layout.family)
        settings = _network_of(layout.model)
        return prepare_networks(
            layout, divergence, settings, device, ridge=ridge, pilot=pilot, asked=asked
        )

    def again(
        self, setup: Setup, posterior: Posterior, asked: Asked, device: Device | None
    ) -> AbstractPlan | None:
        layout, device = setup.layout, device or device_for(None, setup.layout.family)
        settings = _network_of(layout.model)
        return networks_again(
            layout,
            posterior.divergence,
            settings=settings,
            device=device,
            kept=posterior.prepared,
            asked=asked,
        )

    def same(self, kept: float, found: float) -> bool:
        # Training amplifies rounding differences between machines.
        return bool(np.isclose(found, kept, rtol=0.1, atol=0.02))


def _network_of(model: Model) -> MLP:
    network = model.predictor.network
    if network is None:
        raise SettingsError("Only networks are trained. Give this predictor solver='newton'.")
    return network


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
    planner, asked = planner_of(setup.layout.model), asked_of(setup, seed, refine)
    with single_threaded():
        return planner.plan(setup, divergence, asked, ridge=ridge, pilot=pilot, device=device)


def asked_of(setup: Setup, seed: int, refine: Refine) -> Asked:
    """What all plans for a setup are made of."""
    return {
        "cells": setup.cells if setup.drawn else setup.layout.cells,
        "prior": setup.drawn,
        "seed": seed,
        "size": setup.block_size,
        "refine": refine,
    }
