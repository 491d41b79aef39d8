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
from tvdbayes.objective._kinds import AbstractDivergence, AbstractRowDivergence

Loss = Callable[[Any, Any, Any, Any], Any]

_SMOOTH = 0.02
"""Width of the smoothing of kinks, as a share of a unit's mass: steps are random anyway."""

_LEAST = 1e-9
"""Data masses are at least this, so that what is divided by them stays in single precision."""


def step_loss(
    divergence: AbstractDivergence, family: AbstractFamily, folded: bool, n_units: int
) -> Loss:
    """The divergence on one step, whose masses sum to about 1.

    A function of the predictors (k, rows) of the step, the step, and masses of cells and atoms.
    """

    def loss(eta: Any, step: Any, cell_mass: Any, atom_mass: Any) -> Any:
        at: Any
        if divergence.on_groups:
            at = _Units(family, folded, n_units, eta, step, cell_mass, atom_mass)
        else:
            mass = cell_mass[step.pair_mass] * step.pair_weight
            at = _Cells(family, eta[:, step.pair_x], step.pair_y, step.pair_trials, mass)
        return divergence.at(at, jnp.full(1, _SMOOTH))  # type: ignore[arg-type]

    return loss


def held_out_loss(score: AbstractRowDivergence, family: AbstractFamily) -> Loss:
    """The score of cells, a function of predictors (k, m), outcomes, trials and masses (m,)."""

    def loss(eta: Any, y: Any, trials: Any, mass: Any) -> Any:
        at: Any = _Cells(family, eta, y, trials, mass)
        return score.at(at, jnp.zeros(1))  # type: ignore[arg-type]

    return loss


@dataclass(frozen=True, eq=False)
class _Units:
    """A network at the units of a step, see `Evaluated`; arrays are those of JAX."""

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


@dataclass(frozen=True, eq=False)
class _Cells:
    """A network at some cells, see `Evaluated`."""

    family: AbstractFamily
    eta: Any
    y: Any
    trials: Any
    mass: Any

    def cells(self) -> tuple[Any, Any]:
        log_pmf = _value_with_slope(lambda *at: self.family.log_jet(*at)[:2])
        return log_pmf(self.y, self.eta, self.trials), self.mass

    def power_sum(self, power: float) -> Any:
        total = _value_with_slope(lambda _, *at: self.family.power_sum(at[0], power, at[1])[:2])
        return total(self.trials, self.eta, self.trials)


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
