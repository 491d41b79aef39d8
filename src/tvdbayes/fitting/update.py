"""A fit with rows added: the table grows, and the draws are taken anew.

A posterior depends on rows through the table of distinct ones alone, and a fit remembers that
table. So an update is no approximation: it is the fit to all rows, which need not be read again.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from tvdbayes._errors import DataError, FamilyError
from tvdbayes._typing import IntArray, Library
from tvdbayes.data.cells import distinct_rows, totals
from tvdbayes.data.fit_data import Column, FitData, plain_table
from tvdbayes.data.sources import Data, open_source
from tvdbayes.data.table import AbstractSource, Exposure, Table, Wanted
from tvdbayes.fitting.run import fit_with
from tvdbayes.formula.columns import refuse_slips
from tvdbayes.results.base import AbstractFit, needs_rows
from tvdbayes.sampling.options import DEFAULTS

_OF_SOURCES = ("engine", "grid", "max_cells")
"""Options of `fit` on how rows are read."""

_WORDS = {
    "number": "numbers",
    "boolean": "truth values",
    "text": "text",
    "category": "categories",
    "ordered": "ordered categories",
}


class UpdateAnswers(AbstractFit):
    """The method of `Fit` that adds rows."""

    @needs_rows
    def update(
        self,
        new: Data,
        *,
        n_draws: int | None = None,
        keep_rows: bool = True,
        n_jobs: int | None = None,
        device: str | None = None,
        resume: "AbstractFit | None" = None,
        progress: bool | None = None,
    ) -> Self:
        """A new fit to the rows of this one and new rows; this one does not change.

        It is what `fit` gives for all rows together with the same options, bit for bit, and takes
        as long; fractional weights, whose sums depend on their order in the last bit, make that
        equal to rounding. Levels, groups, bins and the like are learned anew.

        Parameters
        ----------
        new : data frame, dict of columns, or path
            Rows with all columns in use, the weights included. A category goes on in the order
            that the new rows declare; text may stand for a category of the fit.
        n_draws : int, optional
            As many as before unless given.
        keep_rows : bool
            Whether to remember which earlier row is which. If not, `rows` has a line for each
            *distinct* row so far, then one for each new row, and a file of the fit does not grow
            with the number of rows.
        n_jobs, device, resume, progress
            As in `fit`: they are not remembered.

        Examples
        --------
        >>> import tvdbayes as tb
        >>> rows = tb.example_data(300)
        >>> old, new = ({name: v[part] for name, v in rows.items()}
        ...             for part in (slice(200), slice(200, None)))
        >>> both = tb.fit("visits ~ age", old, n_draws=50).update(new)
        >>> bool((both.draws == tb.fit("visits ~ age", rows, n_draws=50).draws).all())
        True
        """
        data, options = self.data, self.options
        if self.rounded is not None:
            raise DataError(
                "The columns of this fit were rounded by an engine (grid=), to values that belong "
                "to its rows alone. Fit all rows again, with the same grid."
            )
        added = open_source(new).table(
            list(data.columns),
            data.weights,
            options.missing,
            exposure=Exposure(data.exposure, data.offset, options.zero_exposure),
        )
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
            return fit_with(self.formula, _Read(whole), options, type(self))
        except (DataError, FamilyError) as error:
            if " in row " not in str(error):
                raise
            first = whole.n_rows - added.n_rows
            raise type(error)(f"{error} The first of the new rows is row {first}.") from error


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

    @property
    def library(self) -> Library:
        """That of the fit, whatever new rows come in."""
        return self.read.library

    def group(self, wanted: Wanted) -> Table:
        """The table as it is."""
        return self.read


def join(data: FitData, added: Table, *, keep_rows: bool) -> Table:
    """The table of all rows: those of the fit come first, then those that were added.

    Where rows are not kept, every distinct row of the fit stands for all that were equal to it.
    """
    columns = {
        name: _joined(column, _added(added, name, data.outcome, column.kind), name)
        for name, column in data.columns.items()
    }
    index, first = distinct_rows([column.codes() for column in columns.values()])
    n_old = len(data.counts)
    row = data.row if keep_rows else np.arange(n_old)
    kept = np.flatnonzero(row >= 0)
    n_old_rows = len(data.row) if data.n_grouped is None else data.n_grouped
    n_new_rows = added.n_rows if added.n_grouped is None else added.n_grouped
    # Rows that are forgotten were left out, if they were, without a line of their own.
    n_forgotten = 0 if keep_rows else int((data.row < 0).sum())
    one_by_one = keep_rows and data.n_grouped is None and added.n_grouped is None
    counts = totals(index, np.concatenate([data.counts, added.counts]), len(first))
    whole = plain_table({name: column.take(first) for name, column in columns.items()}, counts)
    return replace(
        whole,
        index=np.concatenate([index[:n_old][row[kept]], index[n_old:][added.index]]),
        rows=np.concatenate([kept, len(row) + added.rows]),
        n_rows=len(row) + added.n_rows,
        n_grouped=None if one_by_one else n_old_rows + n_new_rows,
        n_dropped=data.n_dropped + added.n_dropped + n_forgotten,
        n_unexposed=data.n_unexposed + added.n_unexposed,
        library=data.library,
    )


def _added(added: Table, name: str, outcome: str, kind: str) -> Column:
    """A column of the added rows, with all levels that it declares, seen or not."""
    series = added.frame[name]
    if kind == "number":
        refuse_slips(added, name, "The fit has numbers there.")
    if name in added.declared:
        series = series.cat.set_categories(list(added.declared[name]))
    column = Column.of(series)
    return column.named() if name == outcome else column


def _joined(old: Column, new: Column, name: str) -> Column:
    """The values of both, and of their levels those that some row has."""
    by_level = bool(new.levels) if old.kind == "text" else bool(old.levels)
    if not by_level:
        if old.kind != new.kind:
            raise DataError(
                f"The column {name!r} holds {_WORDS[old.kind]} in the fit and {_WORDS[new.kind]} "
                "in the new rows. Make it the same in both."
            )
        return replace(old, values=np.concatenate([old.values, new.values]))
    codes, levels = _levels(new)
    both = _union(old, new.kind, levels, codes, name)
    number = {level: j for j, level in enumerate(both)}
    of_old, of_new = (np.array([number[v] for v in part]) for part in (old.levels, levels))
    values = np.concatenate([of_old[old.values], of_new[codes]])
    seen, values = np.unique(values, return_inverse=True)
    return Column(old.kind, values, tuple(both[j] for j in seen))


def _levels(column: Column) -> tuple[IntArray, tuple[object, ...]]:
    if column.levels:
        return column.values.astype(np.intp), column.levels
    found, codes = np.unique(column.values, return_inverse=True)
    return codes, tuple(found.tolist())


def _union(
    old: Column, kind: str, levels: tuple[object, ...], codes: IntArray, name: str
) -> Sequence[object]:
    """All levels in their order: that of text, or the one that the new rows declare for all."""
    if old.kind == "text":
        return _sorted({*old.levels, *levels}, name)
    known, declared = set(old.levels), set(levels)
    # Text and numbers have an order that nobody declared.
    declares = kind in ("ordered", old.kind)
    agrees = [v for v in levels if v in known] == [v for v in old.levels if v in declared]
    if declares and agrees and known <= declared:
        return levels
    seen = (levels[j] for j in np.unique(codes))
    unknown = [v for v in seen if v not in known]
    if old.kind == "ordered" and (unknown or (declares and not agrees)):
        raise DataError(
            f"The order of the levels of {name!r} is not clear: the fit has "
            f"{' < '.join(map(str, old.levels))}, the new rows "
            f"{' < '.join(map(str, levels)) if declares else ', '.join(map(str, unknown))}. Make "
            "the column of the new rows an ordered category that declares all levels, low to high."
        )
    return (*old.levels, *(v for v in levels if v not in known))


def _sorted(levels: set[object], name: str) -> list[object]:
    try:
        # Whether levels can be put in order is found out by trying.
        return sorted(levels)  # type: ignore[type-var]
    except TypeError as error:
        raise DataError(
            f"The levels of {name!r} in the fit and in the new rows cannot be put in order: "
            f"{error}. Make them text or numbers in both."
        ) from error
