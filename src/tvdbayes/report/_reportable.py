"""What the page needs of a fit; fits are made in a later room, so it is written as a contract."""

from collections.abc import Mapping
from typing import Any, Protocol

import pandas as pd

from tvdbayes._typing import IntArray
from tvdbayes.results.effects import Effect
from tvdbayes.results.misfit import Misfit
from tvdbayes.sampling.options import Options
from tvdbayes.sampling.posterior import Posterior

__all__ = ["ColumnLike", "DataLike", "FindingLike", "Reportable"]


class ColumnLike(Protocol):
    """A column of the data."""

    @property
    def kind(self) -> str: ...
    @property
    def values(self) -> Any: ...
    @property
    def choices(self) -> tuple[object, ...]: ...


class DataLike(Protocol):
    """What a fit remembers of its data, and what columns were used for."""

    @property
    def columns(self) -> Mapping[str, ColumnLike]: ...
    @property
    def outcome(self) -> str: ...
    @property
    def offset(self) -> str | None: ...
    @property
    def exposure(self) -> str | None: ...
    @property
    def trials(self) -> str | float | None: ...
    @property
    def weights(self) -> str | None: ...


class FindingLike(Protocol):
    """One thing that a check looked at; its level is "problem", "note" or "good"."""

    @property
    def level(self) -> str: ...
    @property
    def about(self) -> str: ...
    @property
    def text(self) -> str: ...


class CheckLike(Protocol):
    """All that a check looked at."""

    @property
    def findings(self) -> tuple[FindingLike, ...]: ...


class Reportable(Protocol):
    """What the page needs of a fit; `tvdbayes.Fit` has it."""

    @property
    def formula(self) -> str: ...
    @property
    def posterior(self) -> Posterior: ...
    @property
    def data(self) -> DataLike: ...
    @property
    def cell_of_row(self) -> IntArray: ...
    @property
    def n_rows(self) -> int: ...
    @property
    def n_left_out(self) -> int: ...
    @property
    def rounded(self) -> object | None: ...
    @property
    def left_out(self) -> tuple[str, ...]: ...
    @property
    def options(self) -> Options: ...
    def misfit(self) -> Misfit:
        """The unexplained share."""

    def suspicious_rows(self) -> pd.DataFrame:
        """One line for each distinct row, the most suspicious first."""

    def check(self) -> CheckLike:
        """What is good and what is doubtful."""

    def effects(self, variable: str) -> Effect:
        """Average effect of a column."""

    def predictions(self, at: Mapping[str, object] | None = None) -> Effect:
        """Average expected outcomes."""
