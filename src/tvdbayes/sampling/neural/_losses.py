"""The loss of one step for one network, by JAX: the divergences and families of the core.

Families bring their own derivatives, which keep their digits where a formula differentiated as it
stands would not; JAX differentiates the network in front of them.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
from jax import numpy as jnp

from tvdbayes.models.families import AbstractFamily
from tvdbayes.objective.divergences import (
    AbstractDivergence,
    AbstractRowDivergence,
)

__all__ = ["Loss", "held_out_loss", "step_loss"]

Loss = Callable[[Any, Any, Any, Any], Any]
"""From predictors (k, rows) of a step, the step, and masses of cells and atoms to a number."""

_SMOOTH = 0.02
"""Width of the smoothing of kinks, as a share of a unit's mass: steps are random anyway."""

_LEAST = 1e-9
"""Data masses are at least this, so that what is divided by them stays in single precision."""


def step_loss(
    divergence: AbstractDivergence, family: AbstractFamily, folded: bool, n_units: int
) -> Loss:
    """The divergence on one step, whose masses sum to about 1."""

    def loss(eta: Any, step: Any, cell_mass: Any, atom_mass: Any) -> Any:
        at = _AtStep(family, folded, n_units, eta, step, cell_mass, atom_mass)
        width: Any = jnp.full(1, _SMOOTH)
        return divergence.at(at, width)

    return loss


def held_out_loss(
    score: AbstractRowDivergence, family: AbstractFamily
) -> Callable[[Any, Any, Any, Any], Any]:
    """Loss of cells from predictors (k, m), outcomes, trials and masses (m,)."""

    def loss(eta: Any, y: Any, trials: Any, mass: Any) -> Any:
        smooth: Any = jnp.zeros(1)
        return score.at(_AtCells(family, eta, y, trials, mass), smooth)

    return loss


@dataclass(frozen=True, eq=False)
class _AtStep:
    """A network on one step, see `Evaluated`; arrays are those of JAX."""

    family: AbstractFamily
    folded: bool
    n_units: int
    eta: Any
    step: Any
    cell_mass: Any
    atom_mass: Any

    def units(self) -> tuple[Any, Any, Any]:
        step = self.step
        mass = self.atom_mass[step.pair_mass] * step.pair_weight
        pmf = _value_with_slope(self.family.slopes)
        chance = pmf(step.pair_y, self.eta[:, step.pair_x], step.pair_trials)
        model = self._total(mass * chance, step.pair_unit)
        data = self._total(self.cell_mass[step.cell] * step.cell_weight, step.cell_unit)
        if self.folded:
            return data, model, jnp.maximum(self._total(mass, step.pair_unit), _LEAST)
        return jnp.maximum(data, _LEAST), model, None

    def _total(self, values: Any, unit: Any) -> Any:
        return jax.ops.segment_sum(values, unit, self.n_units)[:, None]

    def cells(self) -> tuple[Any, Any]:
        return self._cells.cells()

    def power_sum(self, power: float) -> Any:
        return self._cells.power_sum(power)

    @property
    def _cells(self) -> "_AtCells":
        step = self.step
        mass = self.cell_mass[step.pair_mass] * step.pair_weight
        eta = self.eta[:, step.pair_x]
        return _AtCells(self.family, eta, step.pair_y, step.pair_trials, mass)


@dataclass(frozen=True, eq=False)
class _AtCells:
    """A network at some cells, see `Evaluated`."""

    family: AbstractFamily
    eta: Any
    y: Any
    trials: Any
    mass: Any

    def units(self) -> tuple[Any, Any, Any]:
        raise NotImplementedError("Cells are scored one by one.")

    def cells(self) -> tuple[Any, Any]:
        log_pmf = _value_with_slope(lambda *at: self.family.log_jet(*at)[:2])
        return log_pmf(self.y, self.eta, self.trials), self.mass

    def power_sum(self, power: float) -> Any:
        return _power_sum(self.family, power)(self.trials, self.eta, self.trials)


def _power_sum(family: AbstractFamily, power: float) -> Callable[[Any, Any, Any], Any]:
    return _value_with_slope(lambda _, eta, trials: family.power_sum(eta, power, trials)[:2])


def _value_with_slope(law: Callable[[Any, Any, Any], Any]) -> Callable[[Any, Any, Any], Any]:
    """An elementwise law (y, eta, trials) whose derivative in eta is what it returns beside it."""

    @jax.custom_jvp
    def value(y: Any, eta: Any, trials: Any) -> Any:
        return law(y, eta, trials)[0]

    @value.defjvp
    def _along(at: Any, along: Any) -> Any:
        found, slope = law(*at)
        return found, (slope * along[1]).sum(0)

    return value
