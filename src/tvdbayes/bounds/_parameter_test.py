"""The test behind a parameter set: distance of a parameter from the table, and its limit.

With at most k wrong rows of n, except with probability delta/2, a true parameter has a distance of
at most

    k / n + (n - k) / n q,    q the noise of n - k good rows,

where q is an order statistic of simulated distances (one covariate row), or a mean of simulated
distances plus McDiarmid's sqrt((n - k) log(2 / delta) / 2) / n (several).
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import bdtrc

from tvdbayes._typing import Array, IntArray
from tvdbayes.bounds._words import row_counts
from tvdbayes.data.cells import Cells
from tvdbayes.models.model import Model
from tvdbayes.models.predictors import AbstractBound

_ELEMENTS = 1 << 20
"""Rows x simulated tables, and cells x simulated tables, in work at a time: 8 MiB for each
array."""

_NEAR = 128
"""Outcomes that span less than this are coded by subtraction, which needs no sorting."""

_N_MEANS, _FEWEST = 100, 10
"""Simulated tables where only their mean is needed; fewer if there are many rows."""

_MOST_ROWS = 1 << 24
"""Rows of all simulated tables of one value; beyond that their mean is
used, which needs fewer tables."""

Progress = Callable[[int, int], None]


@dataclass(frozen=True, eq=False)
class ParameterTest:
    """Distance and limit of any parameters.

    ``groups`` (P, n_x) holds the group of each x row in each of P partitions.
    """

    model: Model
    cells: Cells
    groups: IntArray
    share: float
    delta: float
    n_simulations: int
    seed: int

    @property
    def n(self) -> int:
        return int(self.cells.n_obs)

    @cached_property
    def rows(self) -> IntArray:
        """The x row of every row of data, (n,)."""
        return np.repeat(self.cells.x_index, row_counts(self.cells))

    @cached_property
    def y(self) -> Array:
        """The outcome of every row of data, (n,)."""
        return np.repeat(self.cells.y, row_counts(self.cells))

    @cached_property
    def bound(self) -> AbstractBound:
        return self.model.bind(self.cells, self.cells)

    @property
    def spent(self) -> float:
        """Probability of failure that is left for chance: the rest is for too many wrong rows."""
        return self.delta / 2 if self.share > 0 else self.delta

    @cached_property
    def n_wrong(self) -> int:
        """Wrong rows at most, except with probability delta/2."""
        # By Hoeffding's inequality the quantile is no larger than the last of these.
        reach = np.sqrt(self.n * np.log(2 / self.delta) / 2)
        first = int(self.n * self.share)
        rows = np.arange(first, min(self.n, int(np.ceil(self.n * self.share + reach))) + 1)
        return int(rows[np.argmax(bdtrc(rows, self.n, self.share) <= self.delta / 2)])

    def many(self, values: Array, progress: Progress | None) -> tuple[Array, Array]:
        """Distances and limits (V,) of parameters (V, d)."""
        found = np.empty((2, len(values)))
        for number, theta in enumerate(values):
            found[:, number] = self.one(theta)
            if progress is not None:
                progress(number + 1, len(values))
        return found[0], found[1]

    def one(self, theta: Array) -> tuple[float, float]:
        """Distance and limit of parameters (d,)."""
        eta = self.bound.eta(self.bound.from_user(theta[:, None]))[..., 0]
        distance = self._distances(eta, self.rows, self.y[:, None])
        return float(distance[0]), self._limit(eta)

    def _limit(self, eta: Array) -> float:
        n, good, rows = self.n, self.n - self.n_wrong, self.rows
        if good == 0:
            return 1.0
        wrong, rng = self.n_wrong / n, np.random.default_rng(self.seed)
        if self.cells.n_x == 1 and good * self.n_simulations <= _MOST_ROWS:
            noise = np.sort(self._simulate(rng, eta, rows[:good], self.n_simulations))
            # This order statistic keeps the probability of failure exactly, whatever the number.
            rank = int(np.ceil((len(noise) + 1) * (1 - self.spent)))
            return float(wrong + good / n * noise[rank - 1])
        # Which x are those of good rows is not known. The noise of the good rows is less, on
        # average, than that of all (Jensen); around its mean it varies by McDiarmid's inequality.
        size = int(np.clip(_MOST_ROWS // n, _FEWEST, _N_MEANS))
        noise = self._simulate(rng, eta, rows, size)
        mean = noise.mean() + 3 * noise.std(ddof=1) / np.sqrt(len(noise))
        return float(wrong + mean + np.sqrt(good * np.log(1 / self.spent) / 2) / n)

    def _simulate(self, rng: np.random.Generator, eta: Array, rows: IntArray, size: int) -> Array:
        """Distances of tables that the model makes at the x of these rows."""
        step = max(1, _ELEMENTS // len(rows))
        trials = self.cells.trials[rows, None]
        found = []
        for at in range(0, size, step):
            shape = (len(eta), len(rows), min(step, size - at))
            y = self.model.family.sample(rng, np.broadcast_to(eta[:, rows, None], shape), trials)
            found.append(self._distances(eta, rows, y))
        return np.concatenate(found)

    def _distances(self, eta: Array, rows: IntArray, y: Array) -> Array:
        """Distances (R,) between the model and tables of these x rows (n,), outcomes (n, R)."""
        outcomes, code = _coded(y)
        n, n_y = len(rows), len(outcomes)
        family, trials = self.model.family, self.cells.trials[:, None]
        pmf = family.pmf(outcomes, eta[:, :, None], trials)
        x_mass = np.bincount(rows, minlength=self.cells.n_x) / n
        total = np.zeros(y.shape[1])
        for labels in self.groups:
            n_units = (int(labels.max()) + 1) * n_y
            mass = np.zeros((n_units // n_y, n_y))
            np.add.at(mass, labels, x_mass[:, None] * pmf)
            unit = labels[rows, None] * n_y + code
            step = max(1, _ELEMENTS // n_units)
            for at in range(0, y.shape[1], step):
                part = unit[:, at : at + step]
                flat = part + n_units * np.arange(part.shape[1])
                data = np.bincount(flat.ravel(), minlength=n_units * part.shape[1])
                excess = data.reshape(-1, n_units) / n - mass.ravel()
                total[at : at + step] += np.maximum(excess, 0).sum(1)
        return total / len(self.groups)


def _coded(y: Array) -> tuple[Array, IntArray]:
    """Outcomes, and the place of each y among them; neighbours need no sorting."""
    low, high = y.min(), y.max()
    if high - low < _NEAR:
        return np.arange(low, high + 1), (y - low).astype(np.intp)
    outcomes, code = np.unique(y, return_inverse=True)
    return outcomes, code.reshape(y.shape)
