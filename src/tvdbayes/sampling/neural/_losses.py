"""The loss of one step for one network, by JAX: the divergences and families of the core.

Families bring their own derivatives, which keep their digits where a formula differentiated as it
stands would not; JAX differentiates the network in front of them.
"""

from collections.abc import Callable
from typing import Any

import jax
from jax import numpy as jnp

from tvdbayes.models.families import AbstractFamily
from tvdbayes.objective.divergences import (
    AbstractDivergence,
    AbstractGroupDivergence,
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
    return divergence.build(
        group=lambda one: _group_loss(one, family, folded, n_units),
        row=lambda one: _row_loss(one, family),
    )


def held_out_loss(
    divergence: AbstractRowDivergence, family: AbstractFamily
) -> Callable[[Any, Any, Any, Any], Any]:
    """Loss of cells from predictors (k, m), outcomes, trials and masses (m,)."""
    log_pmf = _value_with_slope(lambda *at: family.log_jet(*at)[:2])

    def loss(eta: Any, y: Any, trials: Any, mass: Any) -> Any:
        found = divergence.loss(log_pmf(y, eta, trials))
        if divergence.power:
            found = found + _power_sum(family, divergence.power)(trials, eta, trials)
        return (mass * found).sum()

    return loss


def _group_loss(
    divergence: AbstractGroupDivergence, family: AbstractFamily, folded: bool, n_units: int
) -> Loss:
    pmf = _value_with_slope(family.slopes)

    def loss(eta: Any, step: Any, cell_mass: Any, atom_mass: Any) -> Any:
        def total(values: Any, unit: Any) -> Any:
            return jax.ops.segment_sum(values, unit, n_units)[:, None]

        mass = atom_mass[step.pair_mass] * step.pair_weight
        chance = pmf(step.pair_y, eta[:, step.pair_x], step.pair_trials)
        model = total(mass * chance, step.pair_unit)
        data = total(cell_mass[step.cell] * step.cell_weight, step.cell_unit)
        if folded:
            whole: Any = jnp.maximum(total(mass, step.pair_unit), _LEAST)
            compared = divergence.compare_halves(data, model, whole)
        else:
            seen: Any = jnp.maximum(data, _LEAST)
            compared = divergence.compare(seen, model)
        smooth: Any = jnp.full(1, _SMOOTH if divergence.kinked else 0.0)
        return compared.total(smooth)[0]

    return loss


def _row_loss(divergence: AbstractRowDivergence, family: AbstractFamily) -> Loss:
    of_cells = held_out_loss(divergence, family)

    def loss(eta: Any, step: Any, cell_mass: Any, _: Any) -> Any:
        mass = cell_mass[step.pair_mass] * step.pair_weight
        return of_cells(eta[:, step.pair_x], step.pair_y, step.pair_trials, mass)

    return loss


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
