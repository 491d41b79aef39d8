"""What a user asks for on the command line, and the library's words for it."""

from dataclasses import dataclass
from typing import Any, Literal

from tvdbayes.data.sources import MAX_CELLS, AbstractSource, open_source
from tvdbayes.fitting import Fit, fit
from tvdbayes.fitting.asked import Asked
from tvdbayes.fitting.settings import PARTITIONS
from tvdbayes.formula.survey import Survey, survey

__all__ = ["Request"]


@dataclass(frozen=True)
class Request:
    """Data, formula and settings, as the options of `fit` and `check` give them."""

    data: str
    formula: str
    family: str = "poisson"
    link: str | None = None
    divergence: str = "tvd"
    draws: int = 1000
    seed: int = 0
    offset: str | None = None
    exposure: str | None = None
    trials: str | int | None = None
    weights: str | None = None
    partition: str = "auto"
    ridge: float | Literal["auto"] = "auto"
    refine: Literal["auto", "trim", "reweight"] | None = "auto"
    missing: Literal["error", "drop"] = "error"
    collinear: Literal["error", "drop"] = "error"
    jobs: int = 1
    sep: str = ","
    engine: Literal["memory", "duckdb"] | None = None
    grid: int | None = None
    max_cells: int = MAX_CELLS

    def open(self) -> AbstractSource:
        """The table in the file or files."""
        return open_source(
            self.data,
            engine=self.engine,
            grid=self.grid,
            max_cells=self.max_cells,
            sep=self.sep,
        )

    @property
    def _encoding(self) -> dict[str, Any]:
        return {
            "family": self.family,
            "link": self.link,
            "offset": self.offset,
            "exposure": self.exposure,
            "trials": self.trials,
            "weights": self.weights,
            "missing": self.missing,
            "collinear": self.collinear,
        }

    @property
    def asked(self) -> Asked:
        """What `fit` would be asked for, for a record of a few draws."""
        return Asked(
            family=self.family,
            link=self.link,
            trials=self.trials,
            partition=PARTITIONS[self.partition],
            ridge=self.ridge,
            bins="auto",
            predictors=None,
            refine=self.refine,
            missing=self.missing,
            collinear=self.collinear,
            device=None,
            engine=self.engine,
            grid=self.grid,
            max_cells=self.max_cells,
        )

    def fit(self, source: AbstractSource) -> Fit:
        """Fit the model to the table."""
        return fit(
            self.formula,
            source,
            divergence=self.divergence,
            n_draws=self.draws,
            seed=self.seed,
            partition=self.partition,
            ridge=self.ridge,
            refine=self.refine,
            n_jobs=self.jobs,
            engine=self.engine,
            grid=self.grid,
            max_cells=self.max_cells,
            **self._encoding,
        )

    def survey(self, source: AbstractSource) -> Survey:
        """Encode the table, and fit nothing."""
        return survey(self.formula, source, predictors=None, **self._encoding)
