"""Training by Adam: one network, for as many draws at a time as are asked for.

A pass over the table is a scan over its steps; after each pass the held-out rows are scored, and
the best network so far is kept. On a device all draws of a block train side by side; on the CPU one
after the other, which keeps what a draw needs in the cache and is compiled once for any number.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import numpy as np
import optax
from jax import numpy as jnp

from tvdbayes.models.families import AbstractFamily
from tvdbayes.models.predictors import Layers
from tvdbayes.objective._kinds import AbstractDivergence, AbstractRowDivergence
from tvdbayes.sampling.neural._losses import held_out_loss, step_loss
from tvdbayes.sampling.neural._steps import Steps

_LARGEST = 40.0
"""Largest predictor that is trained on."""


@dataclass(frozen=True)
class Phase:
    """All that must be known when training is compiled.

    What is minimised, what held-out rows are scored by, whether one of two outcomes stands for
    both, the units of a step, the first step of Adam, and the penalty on squared weights.
    """

    divergence: AbstractDivergence
    scored_by: AbstractRowDivergence
    family: AbstractFamily
    layers: Layers
    folded: bool
    n_units: int
    rate: float
    decay: float


class Table(NamedTuple):
    """What all draws see.

    Standardised rows x (n_x, p) and their offsets, the steps (steps, entries), the order in which
    they are taken (passes, steps of a pass), and the cells (m,).
    """

    x: Any
    offset: Any
    steps: Steps
    order: Any
    cell_x: Any
    cell_y: Any
    cell_trials: Any


class Draw(NamedTuple):
    """What is a draw's own; the first axis is the draw.

    Where it begins (B, d), masses of cells and atoms that it trains on (B, m), (B, atoms), and
    numbers and masses of the cells that it is scored on (B, h).
    """

    theta: Any
    cell_mass: Any
    atom_mass: Any
    held_cell: Any
    held_mass: Any


class Trained(NamedTuple):
    """Networks (B, d), and the scores of the start and all passes (B, 1 + passes)."""

    theta: Any
    scores: Any


def train(phase: Phase, table: Table, draws: Draw, together: bool) -> Trained:
    """Train the networks of all draws, side by side or one after the other."""
    if together:
        side_by_side: Trained = _train_all(phase, table, draws)
        return side_by_side
    n_draws = len(draws.theta)
    each = [_train_one(phase, table, Draw(*(part[j] for part in draws))) for j in range(n_draws)]
    return Trained(*(np.stack(part) for part in zip(*each, strict=True)))


@partial(jax.jit, static_argnums=0)
def _train_all(phase: Phase, table: Table, draws: Draw) -> Trained:
    found: Trained = jax.vmap(lambda draw: _train_one(phase, table, draw))(draws)
    return found


@partial(jax.jit, static_argnums=0)
def _train_one(phase: Phase, table: Table, draw: Draw) -> Trained:
    layers, (n_passes, n_steps) = phase.layers, table.order.shape
    loss = step_loss(phase.divergence, phase.family, phase.folded, phase.n_units)
    score = held_out_loss(phase.scored_by, phase.family)
    adam = optax.adam(optax.cosine_decay_schedule(phase.rate, n_passes * n_steps))
    pull = phase.decay * jnp.asarray(layers.penalised, draw.theta.dtype)

    def eta(theta: Any, rows: Any) -> Any:
        found: Any = layers.forward(theta, table.x[rows])
        # Beyond this every law is certain, and its derivatives would leave single precision.
        return jnp.clip(found.at[0].add(table.offset[rows]), -_LARGEST, _LARGEST)

    def objective(theta: Any, step: Steps) -> Any:
        # Steps are parts of a pass: as many of them make up the whole mass.
        part = loss(eta(theta, step.x), step, draw.cell_mass * n_steps, draw.atom_mass * n_steps)
        return part + pull @ (theta * theta)

    def take_step(state: Any, number: Any) -> Any:
        theta, memory = state
        step = jax.tree.map(lambda entries: entries[number], table.steps)
        change, memory = adam.update(jax.grad(objective)(theta, step), memory)
        return (theta + change, memory), None

    def held_out(theta: Any) -> Any:
        cell = draw.held_cell
        at = eta(theta, table.cell_x[cell])
        return score(at, table.cell_y[cell], table.cell_trials[cell], draw.held_mass)

    def take_pass(state: Any, numbers: Any) -> Any:
        theta, memory, best, lowest = state
        (theta, memory), _ = jax.lax.scan(take_step, (theta, memory), numbers)
        found = held_out(theta)
        # Where no row is held out all passes are equal, and the last one counts. A network that is
        # not a number any more is never better.
        better = (found <= lowest) & jnp.isfinite(found) & jnp.isfinite(theta).all()
        best = jnp.where(better, theta, best)
        return (theta, memory, best, jnp.where(better, found, lowest)), found

    start = draw.theta
    # Training that only makes it worse leaves a network where it began.
    first = held_out(start)
    lowest = jnp.where(jnp.isfinite(first), first, jnp.inf)
    last, scores = jax.lax.scan(take_pass, (start, adam.init(start), start, lowest), table.order)
    return Trained(last[2], jnp.concatenate([first[None], scores]))
