"""A fit with rows added: the table grows, and the draws are taken anew.

A posterior depends on rows through the table of distinct ones alone, and a fit remembers that
table. So an update is no approximation: it is the fit to all rows, which need not be read again.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tvdbayes._errors import DataError, FamilyError
from tvdbayes.data.sources import AbstractSource, Data, Table, Wanted, open_source
from tvdbayes.fitting.fit_formula import fit_with
from tvdbayes.fitting.join import join
from tvdbayes.fitting.record import Fit
from tvdbayes.sampling.options import DEFAULTS

__all__ = ["update"]

_OF_SOURCES = ("engine", "grid", "max_cells")
"""Options of `fit` on how rows are read."""


@dataclass(frozen=True, eq=False)
class _Read(AbstractSource):
    """Rows that have been read, checked and grouped already."""

    read: Table

    @property
    def columns(self) -> list[str]:
        """Names of the columns."""
        return list(self.read.frame.columns)

    def require(self, names: Sequence[str]) -> None:
        """The columns are those in use; of the weights only the counts have been kept."""

    def group(self, wanted: Wanted) -> Table:
        """The table as it is."""
        return self.read


def update(
    fit: Fit,
    new: Data,
    *,
    n_draws: int | None,
    keep_rows: bool,
    n_jobs: int | None,
    device: str | None,
    resume: Fit | None,
    progress: bool | None,
) -> Fit:
    """See `Fit.update`."""
    data, options = fit.data, fit.options
    if fit.rounded is not None:
        raise DataError(
            "The columns of this fit were rounded by an engine (grid=), to values that belong to "
            "its rows alone. Fit all rows again, with the same grid."
        )
    added = open_source(new).table(list(data.columns), data.weights, options.missing)
    whole = join(data, added, keep_rows=keep_rows)
    options = replace(
        options,
        n_draws=options.n_draws if n_draws is None else n_draws,
        n_jobs=n_jobs,
        device=device,
        resume=resume,
        progress=progress,
        # The rows are here by now, whatever has read the earlier ones.
        **{name: DEFAULTS[name] for name in _OF_SOURCES},
    )
    try:
        return fit_with(fit.formula, _Read(whole), options)
    except (DataError, FamilyError) as error:
        if " in row " not in str(error):
            raise
        first = whole.n_rows - added.n_rows
        raise type(error)(f"{error} The first of the new rows is row {first}.") from error
