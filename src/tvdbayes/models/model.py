"""A model: a family with a predictor; and parts of one by name."""

import re
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np

from tvdbayes._errors import DataError, SettingsError
from tvdbayes._typing import Array
from tvdbayes.data.cells import Cells
from tvdbayes.models.families import AbstractFamily, AbstractLink, Cloglog, Logit, Probit
from tvdbayes.models.predictors import MLP, AbstractBound, AbstractPredictor, Linear

_HUGE = 1e100
"""Covariates and offsets may not be larger, nor differ by less than its inverse."""

_STRINGS_AND_CLASSES = re.compile(r"""('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")|\b([A-Z]\w*)\(""")


def check_sizes(cells: Cells) -> None:
    """Raise where covariates or offsets are too large, or too close together, to calculate with."""
    columns = [*zip(cells.names, cells.x.T, strict=True), ("offset", cells.offset)]
    for name, column in columns:
        low, high = column.min(), column.max()
        # Differences are taken last: those of larger numbers overflow.
        if max(-low, high) > _HUGE or 0 < high - low < 1 / _HUGE:
            raise DataError(
                f"The column {name!r} ranges from {low:g} to {high:g}; squares of such numbers "
                "cannot be computed. Use other units."
            )


@dataclass(frozen=True)
class Model:
    """The conditional law of the outcome given covariates.

    Parameters
    ----------
    family : AbstractFamily
        The law of the outcome given its linear predictors.
    predictor : AbstractPredictor
        `Linear`, which is the default, or an `MLP`.

    Examples
    --------
    Probabilities of the outcomes 0 and 1 at a rate of 1, and at a rate of 2:

    >>> import numpy as np, tvdbayes as tb
    >>> model = tb.Model(tb.Poisson())
    >>> cells = tb.Cells.from_rows([[1], [1]], [0, 1])
    >>> model.pmf(cells, np.log([[1, 2]])).round(3)
    array([[0.368, 0.135],
           [0.368, 0.271]])
    """

    family: AbstractFamily
    predictor: AbstractPredictor = field(default_factory=Linear)

    def param_names(self, cells: Cells) -> tuple[str, ...]:
        """Names of the parameters on a table with these columns."""
        family = self.family
        return self.predictor.param_names(cells.names, family.predictors, family.n_main)

    def ratios(self, cells: Cells) -> tuple[str, ...]:
        """What exp of each parameter is called; empty for those that give no ratio."""
        family = self.family
        n_more = len(family.predictors) - family.n_main
        blocks = self.predictor.blocks(len(cells.names), family.n_main, n_more)
        return tuple(name for name, block in zip(family.ratios, blocks, strict=True) for _ in block)

    def complexity(self, cells: Cells) -> int:
        """The parameters that groups of rows of this table must be able to tell apart."""
        varying = int((np.ptp(cells.x, axis=0) > 0).sum())
        return self.predictor.complexity(varying, len(self.param_names(cells)))

    def bind(self, cells: Cells, scale_on: Cells) -> AbstractBound:
        """The predictors at the x rows of a table, in coordinates standardised on another."""
        n_main = self.family.n_main
        n_more = len(self.family.predictors) - n_main
        return self.predictor.bind(cells, scale_on, n_main, n_more)

    def check(self, cells: Cells) -> None:
        """Raise unless the model can produce every outcome of the table."""
        empty = ~cells.x.any(axis=0)
        if empty.any():
            raise DataError(
                f"The column {cells.names[int(empty.argmax())]!r} is 0 in every row, so its "
                "coefficient cannot be found. Leave it out."
            )
        check_sizes(cells)
        self.family.check_outcomes(cells.y, cells.trials[cells.x_index], unit="cell")

    def pmf(self, cells: Cells, theta: Array) -> Array:
        """Probability of each cell's outcome given its x, (m, B), at parameters (d, B)."""
        theta = np.asarray(theta)
        d = len(self.param_names(cells))
        if theta.ndim != 2 or len(theta) != d or theta.dtype.kind not in "iuf":
            raise SettingsError(
                f"theta must hold numbers in the shape ({d} parameters, draws); "
                f"got {theta.dtype} of shape {theta.shape}."
            )
        if not np.isfinite(theta).all():
            raise SettingsError("theta must be finite.")
        self.check(cells)
        bound = self.bind(cells, cells)
        eta = bound.eta(bound.from_user(theta))[:, cells.x_index]
        return self.family.pmf(cells.y[:, None], eta, cells.trials[cells.x_index, None])


Part = TypeVar("Part")

LINKS: dict[str, AbstractLink] = {"logit": Logit(), "probit": Probit(), "cloglog": Cloglog()}


def named(value: str | Part, table: dict[str, Part], what: str, kind: type) -> Part:
    """Translate a name; anything else must already be the thing itself."""
    if isinstance(value, str):
        if value not in table:
            raise SettingsError(f"There is no {what} {value!r}. Choose from {', '.join(table)}.")
        return table[value]
    if not isinstance(value, kind):
        raise SettingsError(f"{what} must be one of {', '.join(table)}; got {value!r}.")
    return value


def network_of(network: object) -> MLP:
    """A network itself, or one with hidden layers of these sizes."""
    return network if isinstance(network, MLP) else MLP(hidden=hidden_layers(network))


def hidden_layers(hidden: Any) -> tuple[int, ...]:
    """Sizes of hidden layers, from any sequence or, for one layer, a number; `MLP` checks them."""
    if isinstance(hidden, list | tuple | np.ndarray):
        return tuple(int(size) if isinstance(size, np.integer) else size for size in hidden)
    # What is neither goes on as it is, for the message to show.
    single = isinstance(hidden, int | np.integer) and not isinstance(hidden, bool)
    return (int(hidden),) if single else hidden


def name_of(family: object) -> str:
    """What a family is called: the classes in its repr, links aside."""
    text = repr(family)
    names = (
        found[2]
        for found in _STRINGS_AND_CLASSES.finditer(text)
        if found[2] and not text[: found.start()].endswith("link=")
    )
    return re.sub("(?<=[a-z])(?=[A-Z])", " ", " ".join(names))
