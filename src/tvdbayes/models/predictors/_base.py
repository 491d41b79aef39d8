"""The contract of a predictor: from covariates and parameters to the predictors of a family."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from tvdbayes._array import Device, xp
from tvdbayes._errors import SettingsError
from tvdbayes._typing import Array, BoolArray, IntArray
from tvdbayes.data.cells import Cells

if TYPE_CHECKING:
    from tvdbayes.models.predictors.network import MLP


@dataclass(frozen=True)
class EndWords:
    """Words for how the search of a draw ended.

    Parameters
    ----------
    found : str
        What a draw is that ended well, in the plural.
    well, badly : str
        Complete "100 draws ...".
    advice : str
        Completes `badly` in a warning.
    alone : str
        The warning if the only fit there is ended badly; empty for none.
    """

    found: str
    well: str
    badly: str
    advice: str = ""
    alone: str = ""


class AbstractPredictor(ABC):
    """A map from covariate rows and parameters to the k predictors of a family."""

    averages: ClassVar[bool] = True
    """Whether the mean of parameters is a parameter that makes sense."""

    reweighted: ClassVar[bool] = False
    """Whether draws end with one-step reweighting where nothing else is asked for."""

    solver: ClassVar[str] = "newton"
    """How its parameters are found, a name in `sampling.planners.PLANNERS`."""

    block_draws: ClassVar[int] = 1024
    """Draws that are solved together at most."""

    ends: ClassVar[EndWords] = EndWords(
        "certified minima", "ended in certified minima", "ended without a certified minimum"
    )
    """What a user reads of how searches ended."""

    @property
    def label(self) -> str:
        """What stands behind the name of the family where a fit is printed."""
        return ""

    @property
    def network(self) -> "MLP | None":
        """The option `network` of `fit` that gives this predictor."""
        return None

    @property
    def step_elements(self) -> int:
        """Array elements that a step on one draw needs beside those of `draw_elements`."""
        return 0

    def draw_elements(self, n_params: int, n_cells: int, n_compared: int) -> int:
        """Array elements that one draw needs where so many masses are compared."""
        return n_compared + n_params**2

    def require_coefficients(self, wanted: str, instead: str) -> None:
        """Raise where parameters mean nothing one by one; see `Posterior.require_coefficients`."""
        if not self.averages:
            raise SettingsError(
                f"A network has no coefficients {wanted}; ask for {instead} instead."
            )

    @abstractmethod
    def bind(self, cells: Cells, scale_on: Cells, n_main: int, n_more: int) -> "AbstractBound":
        """Evaluate at the x rows of `cells`, in coordinates standardised on `scale_on`.

        The family has `n_main` predictors of its own covariates and `n_more` further ones.
        """

    @abstractmethod
    def blocks(self, n_columns: int, n_main: int, n_more: int) -> tuple[tuple[int, ...], ...]:
        """The columns that each predictor uses, of a table with this many; -1 is an intercept."""

    @abstractmethod
    def param_names(
        self, names: tuple[str, ...], predictors: tuple[str, ...], n_main: int
    ) -> tuple[str, ...]:
        """Names of theta; those of further predictors are prefixed, as in ``inflation:x``."""

    @abstractmethod
    def complexity(self, n_varying: int, n_params: int) -> int:
        """The parameters that groups of rows must be able to tell apart; columns that vary."""


class AbstractBound(ABC):
    """A predictor at fixed x rows, in standardised coordinates.

    Newton's method needs the derivatives of a predictor that is linear in its parameters:
    `direction`, `pullback` and `pullback_curvature`, and the attributes below. Other predictors
    leave them out.
    """

    offset: Array
    """Added to the first predictor, (n_x,)."""
    linear: ClassVar[bool] = False
    """Whether each predictor is its design times its parameters, plus an offset."""
    designs: tuple[Array, ...]
    """Standardised columns (n_x, d_k) of each predictor."""
    slices: tuple[slice, ...]
    """Where the parameters of each predictor stand in theta."""
    blocks: tuple[tuple[int, ...], ...]
    """The columns of x that each predictor uses; -1 is an intercept."""

    @property
    @abstractmethod
    def n_params(self) -> int:
        """Number of parameters, d."""

    @property
    @abstractmethod
    def n_predictors(self) -> int:
        """Number of predictors, k."""

    @property
    @abstractmethod
    def penalised(self) -> BoolArray:
        """Which parameters a ridge pulls on, (d,): all but intercepts."""

    def ridge_gradient(self, theta: Array) -> Array:
        """Half the gradient (d, B) of what a ridge penalises; its product with theta is that.

        Unless said otherwise the squares of the penalised parameters.
        """
        return np.where(self.penalised[:, None], theta, 0.0)

    @abstractmethod
    def eta(self, theta: Array) -> Array:
        """Predictors (k, n_x, B) at parameters (d, B)."""

    def extremes(self, theta: Array) -> Array:
        """The smallest and the largest value of each predictor over the x rows, (k, 2, B)."""
        eta = self.eta(theta)
        return xp.stack([eta.min(1), eta.max(1)], axis=1)

    def enclosed(self, theta: Array) -> Array:
        """Values (k, 2, B) that each predictor lies between in all x rows; none nearer is known
        without a pass over the rows for every draw.
        """
        return self.extremes(theta)

    @abstractmethod
    def slope(self, theta: Array, change: Array) -> Array:
        """Derivative (k, n_x, B) of the predictors as the rows change.

        ``change`` (n_x, p + 1) is that of the columns, in the user's units, and of the offset.
        """

    @abstractmethod
    def to_user(self, theta: Array) -> Array:
        """Standardised (d, B) to the user's coordinates."""

    @abstractmethod
    def from_user(self, theta: Array) -> Array:
        """The user's coordinates (d, B) to standardised."""

    @abstractmethod
    def cut(self, rows: slice | IntArray) -> "AbstractBound":
        """The same at some of the x rows."""

    @abstractmethod
    def put(self, device: Device) -> "AbstractBound":
        """The same on a device."""

    def direction(self, step: Array) -> Array:
        """Change of the predictors (k, n_x, B) along a step (d, B)."""
        raise SettingsError(_NOT_LINEAR)

    def pullback(self, slope: Sequence[Array]) -> Array:
        """Gradient (d, B) of a sum whose derivative in each of the k predictors is (n_x, B)."""
        raise SettingsError(_NOT_LINEAR)

    def pullback_curvature(self, curvature: Sequence[Sequence[Array]]) -> Array:
        """Second derivative (d, d, B) of a sum; its own in the predictors, (n_x, B) for each pair
        of them, is given as a lower triangle.
        """
        raise SettingsError(_NOT_LINEAR)


_NOT_LINEAR = (
    "This needs the coefficients of a linear predictor, and the predictor of this fit is a "
    "network, whose weights mean nothing one by one. Ask for predictions and effects."
)
