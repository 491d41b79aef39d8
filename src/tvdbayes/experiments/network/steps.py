"""The steps that the released script took on its networks, by JAX.

A network of one hidden layer is trained on rows sampled by their weights, draw after draw and never
reset; from each state that this leaves, a short descent goes towards the smallest TVD.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
from jax import numpy as jnp

from tvdbayes.models.predictors import Layers

_RATE, _MOMENTUM = 0.01, 0.9
_ITERATIONS = 20
_FLAT, _STILL, _CURVED = 1e-7, 1e-9, 1e-10
"""Gradients and changes that end a descent, and the curvature below which a step is forgotten."""


class Split(NamedTuple):
    """Training data: x (n, p) and y (n,), in the order in which rows were sampled.

    The TVD saw x sorted, while labels and weights (B, n) were not. Batches (B, steps, rows) are the
    rows of each step of each draw; `used` (steps, rows) is 0 where a batch is filled up, else 1.
    """

    x: Any
    y: Any
    sorted_x: Any
    batches: Any
    used: Any
    weights: Any


class Draws(NamedTuple):
    """Networks (B, d) of both kinds, and the one from which the next split starts, (d,)."""

    tvd: Any
    kld: Any
    last: Any


@partial(jax.jit, static_argnums=0)
def train(layers: Layers, start: Any, split: Split) -> Draws:
    """Train the networks of all draws, each from where the one before it ended."""

    def tvd(theta: Any, weights: Any) -> Any:
        law = jnp.exp(_log_law(layers, theta, split.sorted_x))
        seen = jnp.stack([1 - split.y, split.y])
        return 0.5 * (weights * jnp.abs(law - seen).sum(0)).sum()

    def draw(theta: Any, own: Any) -> Any:
        batches, weights = own
        theta = _descend(layers, theta, split, batches)
        robust = lbfgs(jax.value_and_grad(lambda at: tvd(at, weights)), theta, _RATE)
        return theta, (robust, theta)

    last, (robust, ordinary) = jax.lax.scan(draw, start, (split.batches, split.weights))
    return Draws(robust, ordinary, last)


@partial(jax.jit, static_argnums=0)
def probabilities(layers: Layers, draws: Any, x: Any) -> Any:
    """Probability of label 1 under each draw (B, d) in each row, (B, n)."""
    return jax.lax.map(lambda theta: jnp.exp(_log_law(layers, theta, x)[1]), draws)


def _log_law(layers: Layers, theta: Any, x: Any) -> Any:
    """Log-probabilities (2, n) of both labels."""
    return jax.nn.log_softmax(layers.forward(theta, x), axis=0)


def _descend(layers: Layers, theta: Any, split: Split, batches: Any) -> Any:
    """Gradient descent with momentum on the mean negative log-likelihood of each batch."""

    def loss(at: Any, rows: Any, used: Any) -> Any:
        log_law = _log_law(layers, at, split.x[rows])
        own = jnp.where(split.y[rows] == 1, log_law[1], log_law[0])
        return -(used * own).sum() / used.sum()

    def step(state: Any, batch: Any) -> Any:
        at, speed = state
        speed = _MOMENTUM * speed + jax.grad(loss)(at, *batch)
        return (at - _RATE * speed, speed), None

    state = (theta, jnp.zeros_like(theta))
    return jax.lax.scan(step, state, (batches, split.used))[0][0]


class _Memory(NamedTuple):
    """Steps and changes of the gradient along them, (20, d); the first `held` are there."""

    moves: Any
    bends: Any
    held: Any
    scale: Any


class _State(NamedTuple):
    theta: Any
    value: Any
    grad: Any
    memory: _Memory
    number: Any
    ended: Any


def lbfgs(value_and_grad: Callable[[Any], Any], start: Any, rate: float) -> Any:
    """Twenty iterations of limited-memory BFGS with steps of a fixed rate: no line search.

    The first step is along the gradient, at most `rate` long in the sum of its entries. Ends early
    where gradient, step or value hardly move.
    """

    def iterate(state: _State) -> _State:
        along = _direction(state.grad, state.memory)
        first = jnp.minimum(1.0, 1 / jnp.abs(state.grad).sum())
        move = rate * jnp.where(state.number == 0, first, 1.0) * along
        level = state.grad @ along > -_STILL
        move = jnp.where(level, jnp.zeros_like(move), move)
        value, grad = value_and_grad(state.theta + move)
        ended = (
            level
            | (jnp.abs(grad).max() <= _FLAT)
            | (jnp.abs(move).max() <= _STILL)
            | (jnp.abs(value - state.value) < _STILL)
        )
        memory = _remember(state.memory, move, grad - state.grad)
        return _State(state.theta + move, value, grad, memory, state.number + 1, ended)

    value, grad = value_and_grad(start)
    nothing = jnp.zeros((_ITERATIONS, start.size), start.dtype)
    memory = _Memory(nothing, nothing, jnp.array(0), jnp.ones((), start.dtype))
    state = _State(start, value, grad, memory, jnp.array(0), jnp.abs(grad).max() <= _FLAT)
    last: Any = jax.lax.while_loop(
        lambda now: ~now.ended & (now.number < _ITERATIONS), iterate, state
    )
    return last.theta


def _direction(grad: Any, memory: _Memory) -> Any:
    """Minus the gradient times the inverse curvature that the steps in memory have seen."""
    moves, bends, held, scale = memory

    def back(number: Any, state: Any) -> Any:
        along, shares = state
        at = held - 1 - number
        share = (moves[at] @ along) / (moves[at] @ bends[at])
        return along - share * bends[at], shares.at[at].set(share)

    def forth(at: Any, along: Any) -> Any:
        share = (bends[at] @ along) / (moves[at] @ bends[at])
        return along + (shares[at] - share) * moves[at]

    none = jnp.zeros(len(moves), grad.dtype)
    along, shares = jax.lax.fori_loop(0, held, back, (-grad, none))
    return jax.lax.fori_loop(0, held, forth, scale * along)


def _remember(memory: _Memory, move: Any, bend: Any) -> _Memory:
    curvature = bend @ move
    worth = curvature > _CURVED
    more = _Memory(
        memory.moves.at[memory.held].set(move),
        memory.bends.at[memory.held].set(bend),
        memory.held + 1,
        curvature / (bend @ bend),
    )
    chosen: _Memory = jax.tree.map(lambda new, old: jnp.where(worth, new, old), more, memory)
    return chosen
