"""From masses of cells to trained networks."""

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from tvdbayes._array import Device, to_host
from tvdbayes._errors import SettingsError
from tvdbayes._typing import Array, IntArray
from tvdbayes.models.families import AbstractFamily
from tvdbayes.models.predictors import MLP, BoundNetwork
from tvdbayes.objective import Layout
from tvdbayes.objective._kinds import AbstractDivergence
from tvdbayes.sampling.neural._steps import Steps, group_steps, rounded, row_steps
from tvdbayes.solvers import Solution, Status

if TYPE_CHECKING:
    from tvdbayes.sampling.neural._training import Table

_FEWEST_STEPS = 200
"""A small table is passed over more often, so that at least so many steps are taken."""

_STILL_FALLING = 0.01
"""Relative fall of the held-out score in the last tenth of the passes that is not an end."""

_AWAY = 0.1
"""Training that ends with more than twice the score of its start, and this, has run away."""


@dataclass(frozen=True, eq=False)
class Masses:
    """Tables p (m, B) split into what a draw trains on and what it is scored on."""

    train: Array
    held_out: Array

    @classmethod
    def split(cls, p: Array, held_out: Array) -> "Masses":
        """Hold out a share (m, B) of each mass; nothing, if nothing would be left to train on."""
        held_out = np.where((p * (1 - held_out)).any(axis=0), held_out, 0.0)
        return cls(p * (1 - held_out), p * held_out)

    def take(self, draws: IntArray) -> "Masses":
        """Those of some draws."""
        return Masses(self.train[:, draws], self.held_out[:, draws])

    def kept(self, share: Array) -> "Masses":
        """The same with a share (m, B) of each mass kept."""
        return Masses(self.train * share, self.held_out * share)


def held_out_share(counts: Array, share: float, rng: np.random.Generator) -> Array:
    """The share of each cell's mass that a draw holds out, (m,).

    Rows are held out with this probability. A cell of several rows is split as they are: the weight
    of some of its rows, as a share of all of them, has a Beta law.
    """
    rows = _whole_rows(counts)
    out = rng.binomial(rows, share)
    some = np.flatnonzero((out > 0) & (out < rows))
    held: Array = np.where(out == rows, 1.0, 0.0)
    held[some] = rng.beta(out[some], rows[some] - out[some])
    return held


def _whole_rows(counts: Array) -> IntArray:
    return np.maximum(np.round(counts), 1).astype(int)


@dataclass(frozen=True, eq=False)
class Trainer:
    """Trains networks on tables of one layout, which is in the memory of NumPy, on a device.

    The seed is that of the order of steps, which all draws share.
    """

    settings: MLP
    layout: Layout
    device: Device
    seed: int

    @cached_property
    def bound(self) -> BoundNetwork:
        """The network at the rows of the table."""
        return bound_network(self.settings, self.layout)

    def train(
        self, divergence: AbstractDivergence, masses: Masses, start: Array, rate: float = 1.0
    ) -> Solution:
        """Networks (d, B) that begin at `start` (d, B), with a multiple of the learning rate."""
        with self.device.here():
            from jax import numpy as jnp

            from tvdbayes.sampling.neural._training import Draw, Phase, train

            settings, layout = self.settings, self.layout
            table, n_units = self._group_table if divergence.on_groups else self._row_table
            phase = Phase(
                *(divergence, divergence.row_score, layout.family, self.bound.layers),
                *(layout.fold, n_units, settings.learning_rate * rate, settings.weight_decay),
            )
            cell, mass = self._held_out(masses.held_out)
            train_mass = masses.train / masses.train.sum(0)
            atoms = layout.units.atom_of_cell.total(train_mass)
            arrays = (start.T, _filled(train_mass).T, _filled(atoms).T, cell, mass)
            draws = Draw(*(jnp.asarray(part) for part in arrays))
            found = train(phase, table, draws, together=self.device.platform != "cpu")
            theta, scores = (np.asarray(to_host(part), float) for part in found)
        return _solution(theta.T, scores, table.order.size)

    @cached_property
    def _row_table(self) -> "tuple[Table, int]":
        rng = np.random.default_rng([self.seed, 0])
        return self._table(row_steps(self.layout.cells, self.settings.batch_rows, rng), rng)

    @cached_property
    def _group_table(self) -> "tuple[Table, int]":
        rng = np.random.default_rng([self.seed, 1])
        return self._table(group_steps(self.layout.listed(), self.settings.batch_rows, rng), rng)

    def _table(self, steps: Steps, rng: np.random.Generator) -> "tuple[Table, int]":
        """What all draws see, and the units of a step."""
        from jax import numpy as jnp

        from tvdbayes.sampling.neural._training import Table

        n_ways, n_steps = steps.x.shape[:2]
        n_passes = max(self.settings.epochs, -(-_FEWEST_STEPS // n_steps))
        ways = np.concatenate([rng.permutation(n_ways) for _ in range(-(-n_passes // n_ways))])
        order = np.stack([way * n_steps + rng.permutation(n_steps) for way in ways[:n_passes]])
        cells = self.layout.cells
        of_cells = (cells.x_index, cells.y, cells.trials[cells.x_index])
        table = Table(
            jnp.asarray(_filled(self.bound.x)),
            jnp.asarray(_filled(self.bound.offset)),
            Steps._make(jnp.asarray(part.reshape(n_ways * n_steps, -1)) for part in steps),
            jnp.asarray(order),
            *(jnp.asarray(_filled(part)) for part in of_cells),
        )
        return table, steps.n_units

    def _held_out(self, mass: Array) -> tuple[IntArray, Array]:
        """Numbers and masses (B, h) of the cells that are held out, filled up with masses of 0."""
        share, rows = self.settings.hold_out, _whole_rows(self.layout.cells.counts)
        mean = float((1 - (1 - share) ** rows).sum())
        # The same for all blocks, so that training is compiled once.
        size = min(len(mass), rounded(int(mean + 6 * np.sqrt(mean)) + 1))
        cell = np.argsort(-mass, axis=0, kind="stable")[:size]
        held = np.take_along_axis(mass, cell, axis=0)
        return cell.T, (held / np.maximum(held.sum(0), 1e-300)).T

    def __getstate__(self) -> dict[str, Any]:
        return {name: self.__dict__[name] for name in ("settings", "layout", "device", "seed")}


def _solution(theta: Array, scores: Array, n_steps: int) -> Solution:
    """The record of networks (d, B) from the held-out scores of start and passes, (B, 1 + n)."""
    n_passes = scores.shape[1] - 1
    late = max(1, n_passes // 10)
    lowest = np.minimum.accumulate(np.where(np.isfinite(scores), scores, np.inf), axis=1)
    with np.errstate(invalid="ignore"):
        fall = (lowest[:, -1 - late] - lowest[:, -1]) if n_passes > late else np.zeros(len(scores))
    fall = np.nan_to_num(fall, posinf=0.0)
    falling = fall > _STILL_FALLING * np.abs(lowest[:, -1])
    away = scores[:, -1] > 2 * np.abs(scores[:, 0]) + _AWAY
    broken = away | ~np.isfinite(scores[:, 1:]).all(axis=1)
    status = np.where(falling, Status.OUT_OF_STEPS, Status.TRAINED)
    return Solution(
        theta,
        lowest[:, -1],
        np.where(broken, Status.STALLED, status).astype(int),
        np.full(len(scores), n_steps),
        fall,
        scores[:, -1],
    )


def _filled(values: Any) -> Any:
    """The same with zeros at the end of the first axis, up to a size that tables share."""
    more = rounded(len(values)) - len(values)
    return np.pad(values, ((0, more), *((0, 0),) * (values.ndim - 1)))


def bound_network(settings: MLP, layout: Layout) -> BoundNetwork:
    """The network at the x rows of a table."""
    family = layout.family
    n_more = len(family.predictors) - family.n_main
    return settings.bind(layout.cells, layout.scale_on, family.n_main, n_more)


def device_for(wanted: Device | None, family: AbstractFamily) -> Device:
    """Where networks are trained: here, in the precision of the family, unless elsewhere."""
    try:
        import optax  # noqa: F401
    except ImportError as error:
        raise SettingsError(
            "Networks are trained by JAX and optax. Run: pip install 'tvdbayes[jax]'"
        ) from error
    here = Device.named("cpu:float32" if family.single_precision else "cpu:float64")
    return here if wanted is None else wanted
