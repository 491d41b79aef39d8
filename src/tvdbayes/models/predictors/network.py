"""A network as a predictor: layers of weights in front of the predictors of a family.

Written with `xp`: the same lines predict with NumPy here, and are trained by JAX (`neural`).
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np

from tvdbayes._array import Device
from tvdbayes._errors import SettingsError
from tvdbayes._typing import Array, BoolArray, IntArray
from tvdbayes._validate import finite_number, is_number, is_whole, one_of, whole_number
from tvdbayes.data.cells import Cells
from tvdbayes.models.predictors._base import AbstractBound, AbstractPredictor, EndWords
from tvdbayes.models.predictors._layers import ACTIVATIONS, Layers
from tvdbayes.models.predictors.linear import Linear

_ELEMENTS = 1 << 22
"""Hidden nodes x rows that are held at a time."""

_COPIES = 16
"""Arrays of the size of a network that its training keeps alive, in single precision."""


_ADVICE = ", when training ended (raise its epochs, or lower the learning rate)"


@dataclass(frozen=True)
class MLP(AbstractPredictor):
    """A network of fully connected layers beside a linear part, and how it is trained.

    Its outputs are the main predictors of the family: one for a rate or a yes/no answer, one for
    each level but the first of categories. Further predictors, such as a dispersion, are constant.

    Every draw is a network of its own, trained on its own weights from its own random layers.

    Parameters
    ----------
    hidden : tuple of int
        Nodes of each hidden layer.
    activation : "relu", "silu" or "tanh"
        What a hidden node does.
    direct : bool
        Whether covariates also have a direct, linear way to the outputs. Its weights start at the
        linear fit of the same draw, robust or by likelihood, so that the layers only add what a
        line cannot say. Without it a network starts at random, and robust ones at that of the
        likelihood fit, as in the paper: where wrong rows have drawn that along, no later step
        brings it back.
    epochs : int
        Passes over the data in each of the two phases.
    learning_rate : float
        Step of Adam at the start; it falls to 0 along a cosine. The second phase begins at
        `second_rate` times it.
    second_rate : float
        See `learning_rate`.
    batch_rows : int
        Rows of a step; whole groups where groups are compared.
    weight_decay : float
        Penalty on the squared weights (not the biases) beside the divergence, in both phases.
    hold_out : float
        Share of the rows that a draw does not train on; it ends as the network of the epoch that
        did best there, by a score that rewards honest probabilities. 0 keeps the last epoch.

    Examples
    --------
    Through the main door it is ``tb.fit(..., network=tb.MLP((20, 20), epochs=50))``, or
    ``network=(20, 20)`` for the settings that are the default. How large such a network is:

    >>> import numpy as np, tvdbayes as tb
    >>> model = tb.Model(tb.Bernoulli(), tb.MLP(hidden=(20, 20)))
    >>> cells = tb.Cells.from_rows(np.ones((2, 3)), [0, 1])
    >>> len(model.param_names(cells))
    524
    """

    hidden: tuple[int, ...] = (50,)
    activation: Literal["relu", "silu", "tanh"] = "relu"
    direct: bool = True
    epochs: int = 30
    learning_rate: float = 0.01
    second_rate: float = 0.3
    batch_rows: int = 256
    weight_decay: float = 3e-3
    hold_out: float = 0.1

    averages: ClassVar[bool] = False
    # Without it networks lost 3 to 15 % of their log score on clean data (docs/networks.md).
    reweighted: ClassVar[bool] = True
    solver: ClassVar[str] = "training"
    # They are trained one by one on the CPU, and their lines need a few tables at a time.
    block_draws: ClassVar[int] = 8
    ends: ClassVar[EndWords] = EndWords(
        "trained networks",
        "were trained to the end",
        "were still improving, or broke",
        _ADVICE,
        f"The network was still improving, or broke{_ADVICE}.",
    )

    def __post_init__(self) -> None:
        given: object = self.hidden
        if not (isinstance(given, tuple) and all(is_whole(n) and n >= 1 for n in given)):
            raise SettingsError(
                f"MLP needs hidden layers of whole numbers of nodes, such as (50,); got {given!r}."
            )
        one_of("activation", self.activation, tuple(ACTIVATIONS))
        for name in ("epochs", "batch_rows"):
            whole_number(name, getattr(self, name), 1)
        for name in ("learning_rate", "second_rate"):
            finite_number(name, getattr(self, name), above=0.0)
        finite_number("weight_decay", self.weight_decay, least=0.0)
        if not (is_number(self.hold_out) and 0 <= self.hold_out < 1):
            raise SettingsError(
                f"hold_out must be a share of at least 0 and below 1; got {self.hold_out!r}."
            )

    def blocks(self, n_columns: int, n_main: int, n_more: int) -> tuple[tuple[int, ...], ...]:
        return (tuple(range(n_columns)),) * n_main + ((-1,),) * n_more

    def param_names(
        self, names: tuple[str, ...], predictors: tuple[str, ...], n_main: int
    ) -> tuple[str, ...]:
        outputs = [name or "output" for name in predictors[:n_main]]
        found: list[str] = []
        before = list(names)
        for number, size in enumerate((*self.hidden, n_main), 1):
            last = number > len(self.hidden)
            nodes = outputs if last else [f"hidden{number}.{node + 1}" for node in range(size)]
            found += [f"{node}:{source}" for source in before for node in nodes]
            found += [f"{node}:Intercept" for node in nodes]
            before = nodes
        if self.direct:
            found += [f"{node}.direct:{source}" for source in names for node in outputs]
        return (*found, *(f"{name}:Intercept" for name in predictors[n_main:]))

    def complexity(self, n_varying: int, n_params: int) -> int:
        return n_varying + 1

    @property
    def label(self) -> str:
        return f" network {self.hidden}"

    @property
    def network(self) -> "MLP":
        return self

    @property
    def step_elements(self) -> int:
        return self.batch_rows * sum(self.hidden)

    def draw_elements(self, n_params: int, n_cells: int, n_compared: int) -> int:
        return n_cells + _COPIES * n_params

    def bind(self, cells: Cells, scale_on: Cells, n_main: int, n_more: int) -> "BoundNetwork":
        weights = scale_on.x_counts / scale_on.n_obs
        centre = weights @ scale_on.x
        spread = np.sqrt(weights @ (scale_on.x - centre) ** 2)
        # A constant column, such as an intercept, has nothing to say beside the biases.
        scale = np.where(np.ptp(scale_on.x, axis=0) > 0, spread, np.inf)
        layers = Layers(
            (cells.x.shape[1], *self.hidden, n_main), self.direct, n_more, self.activation
        )
        return BoundNetwork(layers, (cells.x - centre) / scale, cells.offset, centre, scale)


@dataclass(frozen=True, eq=False)
class BoundNetwork(AbstractBound):
    """A network at fixed x rows, in standardised coordinates.

    Parameters
    ----------
    layers : Layers
    x : (n_x, p)
        Standardised columns; one that was constant is 0.
    offset : (n_x,)
        Added to the first predictor.
    centre, scale : (p,)
        What the columns were standardised by; the scale of a constant one is infinite.
    """

    layers: Layers
    x: Array
    offset: Array
    centre: Array
    scale: Array

    @property
    def n_params(self) -> int:
        return self.layers.n_params

    @property
    def n_predictors(self) -> int:
        return self.layers.sizes[-1] + self.layers.n_more

    @property
    def penalised(self) -> BoolArray:
        return self.layers.penalised

    def eta(self, theta: Array) -> Array:
        found = self._of_each(theta, lambda one, part: self.layers.forward(one, self.x[part]))
        found[0] += self.offset[:, None]
        return found

    def slope(self, theta: Array, change: Array) -> Array:
        along = change[:, :-1] / self.scale
        found = self._of_each(
            theta, lambda one, part: self.layers.slope(one, self.x[part], along[part])
        )
        found[0] += change[:, -1:]
        return found

    def _of_each(self, theta: Array, made: Callable[[Array, slice], Array]) -> Array:
        """What is made (k, rows) of each network of theta (d, B) at a stretch of rows."""
        found = np.empty((self.n_predictors, len(self.x), theta.shape[1]))
        size = max(1, _ELEMENTS // max(self.layers.sizes))
        for start in range(0, len(self.x), size):
            part = slice(start, start + size)
            for draw, one in enumerate(theta.T):
                found[:, part, draw] = made(one, part)
        return found

    @property
    def line(self) -> Linear:
        """A linear predictor of the same columns, with an intercept."""
        main = (-1, *self._varying.tolist())
        return Linear((main,) * self.layers.sizes[-1] + ((-1,),) * self.layers.n_more)

    def with_line(self, theta: Array, coefficients: Array) -> Array:
        """Networks (d, B) whose direct way is `line` with these (user's) coefficients."""
        net, found, columns = self.layers, self.to_user(theta), self._varying
        n_outputs, n_line = net.sizes[-1], net.sizes[-1] * (columns.size + 1)
        by_output = coefficients[:n_line].reshape(n_outputs, columns.size + 1, -1)
        *_, (_, biases) = net.layers(found)
        biases += by_output[:, 0]
        net.direct_way(found)[columns] = by_output[:, 1:].transpose(1, 0, 2)
        net.constants(found)[:] = coefficients[n_line:]
        return self.from_user(found)

    @property
    def _varying(self) -> IntArray:
        return np.flatnonzero(np.isfinite(self.scale))

    def cut(self, rows: slice | IntArray) -> "BoundNetwork":
        return replace(self, x=self.x[rows], offset=self.offset[rows])

    def put(self, device: Device) -> "BoundNetwork":
        # Networks are evaluated here; `neural` puts what it trains on.
        return self

    def to_user(self, theta: Array) -> Array:
        return self._rescaled(theta, 1 / self.scale, -self.centre / self.scale)

    def from_user(self, theta: Array) -> Array:
        return self._rescaled(
            theta, np.where(np.isfinite(self.scale), self.scale, 0.0), self.centre
        )

    def _rescaled(self, theta: Array, scale: Array, shift: Array) -> Array:
        """Multiply the weights that columns have, and move the biases behind them to match."""
        found = np.array(theta, float)
        layers = list(self.layers.layers(found))
        direct = self.layers.direct_way(found)
        for biases, weights in ((layers[0][1], layers[0][0]), (layers[-1][1], direct)):
            if len(weights):
                biases[:] += np.einsum("p,pj...->j...", shift, weights)
                weights[:] *= scale.reshape(-1, *(1,) * (weights.ndim - 1))
        return found
