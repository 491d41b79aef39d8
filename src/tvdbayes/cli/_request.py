"""What a user asks for on the command line."""

import warnings
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

from tvdbayes._errors import TVDBayesWarning
from tvdbayes.cli._stored import load_fit
from tvdbayes.data.sources import open_data, open_source
from tvdbayes.data.table import AbstractSource
from tvdbayes.fitting import Fit
from tvdbayes.fitting.predictions import new_cells
from tvdbayes.fitting.run import fit_with
from tvdbayes.sampling.options import Options


@dataclass(frozen=True)
class Request:
    """Data, a formula, and the options of a fit.

    Parameters
    ----------
    data, formula : str
    sep : str
        What separates the values of a CSV file.
    options : Options
        Without a prior.
    prior : (float, str), optional
        How many rows it counts for, and the file of rows that it expects to see.
    """

    data: str
    formula: str
    sep: str = ","
    options: Options = field(default_factory=Options)
    prior: tuple[float, str] | None = None

    @classmethod
    def of(cls, data: str, formula: str, sep: str, **given: Any) -> Self:
        """A request from the values of flags, where files stand by their names."""
        resume, base = given.pop("resume", None), given.pop("base_measure", None)
        prior = None if base is None else (given.pop("alpha"), base)
        if resume is not None:
            resume = load_fit(Path(resume))
        return cls(data, formula, sep, Options(resume=resume, **given), prior)

    def open(self) -> AbstractSource:
        """The table in the file or files."""
        o = self.options
        return open_source(
            self.data, engine=o.engine, grid=o.grid, max_cells=o.max_cells, sep=self.sep
        )

    def options_for(self, source: AbstractSource) -> Options:
        """The options, with the rows of a prior encoded as those of the table."""
        if self.prior is None:
            return self.options
        alpha, path = self.prior
        with warnings.catch_warnings(action="ignore", category=TVDBayesWarning):
            plain = replace(self.options, n_draws=0, resume=None, progress=False)
            without = fit_with(self.formula, source, plain, Fit)
        base = new_cells(without, open_data(path), self.options.weights)
        return replace(self.options, alpha=alpha, base_measure=base)

    def fit(self, source: AbstractSource) -> Fit:
        """Fit the model to the table."""
        return fit_with(self.formula, source, self.options_for(source), Fit)
