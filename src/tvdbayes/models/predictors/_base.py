"""The contract of a predictor: from covariates and parameters to the predictors of a family."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar, TypeVar

import numpy as np

from tvdbayes._array import Device
from tvdbayes._errors import SettingsError
from tvdbayes._typing import Array, BoolArray, IntArray
from tvdbayes.data.cells import Cells

if TYPE_CHECKING:
    from tvdbayes.models.predictors.linear import BoundLinear
    from tvdbayes.models.predictors.network import MLP, BoundNetwork

__all__ = ["AbstractBound", "AbstractPredictor"]

Result = TypeVar("Result")


class AbstractPredictor(ABC):
    """A map from covariate rows and parameters to the k predictors of a family."""

    averages: ClassVar[bool] = True
    """Whether the mean of parameters is a parameter that makes sense."""

    reweighted: ClassVar[bool] = False
    """Whether draws end with one-step reweighting where nothing else is asked for."""

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

    @abstractmethod
    def fitted_by(
        self, *, solving: Callable[[], Result], training: "Callable[[MLP], Result]"
    ) -> Result:
        """Call the way in which its parameters are found."""


class AbstractBound(ABC):
    """A predictor at fixed x rows, in standardised coordinates."""

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

    def ridge_pull(self, theta: Array) -> Array:
        """Half the gradient (d, B) of what a ridge penalises; its product with theta is that.

        Unless said otherwise the squares of the penalised parameters.
        """
        return np.where(self.penalised[:, None], theta, 0.0)

    @abstractmethod
    def eta(self, theta: Array) -> Array:
        """Predictors (k, n_x, B) at parameters (d, B)."""

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

    @property
    def linear(self) -> "BoundLinear":
        """The same where it is linear in its parameters, which what asks for this needs."""
        raise SettingsError(
            "This needs the coefficients of a linear predictor, and the predictor of this fit is a "
            "network, whose weights mean nothing one by one. Ask for predictions and effects."
        )

    @property
    def network(self) -> "BoundNetwork":
        """The same where it is a network."""
        raise SettingsError("This needs a network, and the predictor of this fit is linear.")
