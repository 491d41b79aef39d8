"""How guarantees are written out, and checks of their arguments."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from numbers import Real
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from tvdbayes._errors import SettingsError
from tvdbayes._typing import Array, IntArray
from tvdbayes.data.cells import Cells

INDEPENDENT = "rows are drawn independently from one law"


@dataclass(frozen=True, eq=False)
class AbstractGuarantee:
    """A result with its statement in words and the assumptions of that."""

    statement: str = field(kw_only=True)
    assumptions: tuple[str, ...] = field(kw_only=True)

    _bound: ClassVar[str] = "radius"
    """The field that bounds a distance."""

    @property
    def vacuous(self) -> bool:
        """Whether the guarantee says nothing: every distance is at most 1."""
        return bool(getattr(self, self._bound) >= 1)

    def _remark(self) -> str:
        """A remark that follows the statement."""
        return "This says nothing: every distance is at most 1." if self.vacuous else ""

    def __str__(self) -> str:
        return written(self.statement, self.assumptions, self._remark())


def written(statement: str, assumptions: Sequence[str], remark: str = "") -> str:
    """A statement with its assumptions."""
    said = f"{statement} {remark}" if remark else statement
    return f"{said} Assumes: {'; '.join(assumptions)}."


def percent(share: float) -> str:
    """A share as a percentage, with the digits that it has."""
    return f"{100 * share:.6g}%"


def at_most(value: float, sign: str = "") -> str:
    """An upper bound with three decimals, rounded up so that the printed bound is valid."""
    return _decimals(value, ROUND_CEILING, sign)


def at_least(value: float) -> str:
    """A lower bound with three decimals, rounded down."""
    return _decimals(value, ROUND_FLOOR)


def _decimals(value: float, rounding: str, sign: str = "") -> str:
    if not np.isfinite(value):
        return f"{value:{sign}}"
    # Beyond 12 decimals there is nothing but the error of binary fractions: 0.1 is 0.100.
    exact = Decimal(f"{value:.12f}")
    return f"{exact.quantize(Decimal('0.001'), rounding):{sign}}"


def share_of(value: float) -> float:
    """A share of wrong rows, from 0 to 1."""
    if not (isinstance(value, Real) and 0 <= value <= 1):
        raise SettingsError(
            f"share must lie from 0 to 1; got {value!r}. Ten per cent of wrong rows are 0.1."
        )
    return float(value)


def vector(name: str, values: ArrayLike) -> Array:
    """Numbers, at least one-dimensional."""
    found = np.atleast_1d(np.asarray(values))
    if found.dtype.kind not in "biuf":
        raise SettingsError(f"{name} must hold numbers; got {found.dtype}.")
    return found.astype(float)


def row_counts(cells: Cells) -> IntArray:
    """The rows of each cell; fractional weights are no rows, so no inequality holds for them."""
    odd = cells.counts[cells.counts % 1 != 0]
    if odd.size:
        raise SettingsError(
            "A guarantee counts independent rows, so weights must be whole numbers of rows; got "
            f"{odd[0]:g}. Leave the weights out, or round them if they count rows."
        )
    return cells.counts.astype(np.intp)
