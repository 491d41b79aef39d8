"""Which rows a fit cannot explain, in the columns of the data."""

from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd

from tvdbayes._typing import Array, IntArray
from tvdbayes._validate import probability
from tvdbayes.fitting.base import AbstractFit
from tvdbayes.fitting.misfit import MisfitAnswers
from tvdbayes.results.rows import SCORES, cell_scores, most_suspicious

__all__ = ["RowAnswers", "suspicious_of"]


class RowAnswers(MisfitAnswers):
    """Methods of `Fit` on single rows."""

    def rows(self, *, false_alarm: float = 0.05, n_replicates: int = 200) -> pd.DataFrame:
        """Which rows the model cannot explain: one line for each input row, in input order.

        ``score`` is the share of rows with this outcome in this group that are too many,
        ``probability`` the share of draws in which it is at least a half, ``observed`` and
        ``expected`` how many such rows there are and how many the model expects; ``surprise`` is
        minus log10 of the probability of so many. ``flag`` marks rows that stand out: on clean
        data, about one data set in twenty (`false_alarm`) has any.

        Of a trimmed fit, which is the default, ``kept`` is the share of the row that the fit uses.
        Only rows that are mostly dropped can stand out: for so many of them, for an outcome so far
        out by the row's own law, or as a block of rows far out in the covariates that contradicts
        the others; ``surprise`` is the largest of these. Not all dropped rows stand out: one or a
        few good ones that are extreme are dropped from many clean data sets, above all large ones.

        Where covariates hardly repeat, a score is a mean over the groups of nearby x that a row is
        in: it names a group and an outcome, not a proven row. Rows that the fit left out have NaN.

        Where an engine has grouped the data, a line is a *distinct* row, and ``count`` says how
        many rows are equal to it.

        Parameters
        ----------
        false_alarm : float
            Share of clean data sets in which any row is flagged.
        n_replicates : int
            Data sets that the limit of a flag is found from.

        Returns
        -------
        pandas.DataFrame

        Examples
        --------
        >>> import numpy as np, tvdbayes as tb
        >>> y = np.random.default_rng(0).poisson(3, 2000)
        >>> y[:200] += 20  # a tenth of the rows is wrong
        >>> fit = tb.fit("y ~ 1", {"y": y}, n_draws=50)
        >>> flagged = fit.rows().query("flag")
        >>> len(flagged), bool((flagged["y"] >= 20).all())
        (200, True)
        >>> flagged.head(2)[["y", "score", "observed", "expected"]].round(2)
            y  score  observed  expected
        0  22    1.0      44.0       0.0
        1  20    1.0       5.0       0.0
        """
        by_cell = self._scores(false_alarm, n_replicates)
        used = self.cell_of_row >= 0
        flag = by_cell.pop("flag").to_numpy()[self.cell_of_row] & used
        spread = by_cell.iloc[self.cell_of_row].reset_index(drop=True)
        spread.loc[~used] = np.nan
        spread["flag"] = flag
        raw = self.data.frame()
        if self.data.n_grouped is not None:
            raw = _apart(raw, ["count"]).assign(count=_whole(self.data.counts))
        raw = raw.iloc[np.maximum(self.data.row, 0)].reset_index(drop=True)
        if not used.all():
            raw = raw.where(np.broadcast_to(used[:, None], raw.shape))
        return _noted(pd.concat([_apart(raw, [*SCORES, "flag"]), spread], axis=1), self)

    def suspicious_rows(
        self, *, false_alarm: float = 0.05, n_replicates: int = 200
    ) -> pd.DataFrame:
        """The rows of `rows`, the most suspicious first, and equal ones in one line.

        Lines are in the order of ``surprise``, then of ``score``. Rows that are equal in all
        columns in use are one line: ``count`` says how many they are, and the index is the number
        of the first of them. Rows that the fit left out are not listed. The command line and the
        report list the same rows in the same order. The arguments are those of `rows`.

        Examples
        --------
        >>> import numpy as np, tvdbayes as tb
        >>> y = np.random.default_rng(0).poisson(3, 2000)
        >>> y[500:540] = 25
        >>> y[7] = 80
        >>> fit = tb.fit("y ~ 1", {"y": y}, n_draws=50)
        >>> fit.suspicious_rows().head(2)[["y", "count", "score", "flag"]]
              y  count  score  flag
        500  25     40    1.0  True
        7    80      1    1.0  True
        """
        return suspicious_of(self, self.rows(false_alarm=false_alarm, n_replicates=n_replicates))

    def cells(self, *, false_alarm: float = 0.05, n_replicates: int = 200) -> pd.DataFrame:
        """The same for each cell (distinct covariates with an outcome).

        ``signed`` is above 0 where the data have too many rows, below 0 where they have too few.
        The arguments are those of `rows`.

        Examples
        --------
        >>> import numpy as np, tvdbayes as tb
        >>> y = np.random.default_rng(0).poisson(3, 2000)
        >>> y[:200] += 20  # a tenth of the rows is wrong
        >>> fit = tb.fit("y ~ 1", {"y": y}, n_draws=50)
        >>> fit.cells()[["outcome", "observed", "expected", "flag"]].tail(3).round(1)
            outcome  observed  expected  flag
        18     27.0       8.0       0.0  True
        19     28.0       1.0       0.0  True
        20     30.0       1.0       0.0  True
        """
        cells = self.posterior.cells
        levels = self.posterior.model.family.levels
        scores = self._scores(false_alarm, n_replicates)
        taken = {"outcome", "count", *SCORES, "flag"}
        names = (f"data: {name}" if name in taken else name for name in cells.names)
        columns: dict[str, Any] = dict(zip(names, cells.x[cells.x_index].T, strict=True))
        outcome = np.array(levels, object)[cells.y.astype(int)] if levels else cells.y
        known = pd.DataFrame({**columns, "outcome": outcome, "count": cells.counts})
        return _noted(pd.concat([known, scores], axis=1), self)

    def _scores(self, false_alarm: float, n_replicates: int) -> pd.DataFrame:
        probability("false_alarm", false_alarm, 0.05)
        scores = cell_scores(self.posterior)
        threshold = self._chance(n_replicates).threshold(false_alarm)
        return pd.DataFrame({**scores.columns, "flag": scores.stands_out(threshold)})


def suspicious_of(fit: AbstractFit, rows: pd.DataFrame) -> pd.DataFrame:
    """The lines of `Fit.rows`, equal rows put together, the most suspicious first."""
    known = np.flatnonzero(rows["score"].notna())
    _, first, n_rows = np.unique(fit.data.row[known], return_index=True, return_counts=True)
    order = np.argsort(first)
    lines = rows.iloc[known[first[order]]]
    # Where equal rows were put together before, each line has its count already.
    if fit.data.n_grouped is None:
        lines = _apart(lines, ["count"])
        lines.insert(list(lines.columns).index(SCORES[0]), "count", n_rows[order])
    worst = most_suspicious(lines["surprise"].to_numpy(), lines["score"].to_numpy())
    return _noted(lines.iloc[worst], fit)


def _apart(frame: pd.DataFrame, taken: Iterable[object]) -> pd.DataFrame:
    """The table under other names where some are taken."""
    names = set(frame.columns) | set(taken)
    new = {}
    for name in set(taken).intersection(frame.columns):
        free = f"data: {name}"
        while free in names:
            free = f"data: {free}"
        new[name] = free
    return frame.rename(columns=new)


def _whole(counts: Array) -> Array | IntArray:
    """Counts as whole numbers, where they are."""
    whole = bool((counts == np.round(counts)).all())
    return counts.astype(np.int64) if whole else counts


def _noted(frame: pd.DataFrame, fit: AbstractFit) -> pd.DataFrame:
    """The table with a sentence on how to read it."""
    frame.attrs["note"] = (
        "Scores are means over the groups of nearby x that a row is in: they name a group and an "
        "outcome, not a proven row."
        if fit.posterior.partition.pools_rows
        else "Scores are of an outcome at an x: all rows that share both have the same."
    )
    if fit.posterior.kept_rows is not None:
        frame.attrs["note"] += (
            " Kept is the share of a row that the fit uses. Rows that it does not use are flagged "
            "where so many, or an outcome so far out, surprise more than chance would."
        )
    return frame
