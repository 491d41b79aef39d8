"""Sums over rows in an engine whose result does not depend on the order of addition."""

from dataclasses import dataclass
from math import frexp, ldexp
from typing import Any

_EXACT = "decimal(38, 12)"
"""Fractions are added as decimals: sums of floating numbers depend on their order."""


@dataclass(frozen=True)
class Weigh:
    """What rows count for: a column of weights, or each once.

    Fractions are kept to 12 digits after the first one of the largest weight.
    """

    weights: str | None
    largest: float

    @property
    def _unit(self) -> float:
        """A power of two, by which dividing loses nothing."""
        return ldexp(1.0, frexp(self.largest)[1]) if self.largest > 0 else 1.0

    def total(self, rows: Any) -> Any:
        """The rows of a cell, or their weight."""
        if self.weights is None:
            return rows.count().cast("float64")
        column = rows[self.weights]
        if column.type().is_floating():
            return (column / self._unit).cast(_EXACT).sum().cast("float64") * self._unit
        return column.sum().cast("float64")

    def sum(self, rows: Any, values: Any) -> Any:
        """The weighted sum of some values, which should be of the order of 1."""
        if self.weights is None:
            return values.cast(_EXACT).sum().cast("float64")
        mass = rows[self.weights].cast("float64") / self._unit
        return (mass * values).cast(_EXACT).sum().cast("float64") * self._unit
