"""Which rows a fit cannot explain, in the columns of the data, and what they do to coefficients."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pandas as pd

from tvdbayes._validate import probability
from tvdbayes.fitting.misfit import MisfitAnswers
from tvdbayes.fitting.progress import progress_bar
from tvdbayes.results.base import AbstractFit
from tvdbayes.results.rows import SCORES, cell_scores, most_suspicious
from tvdbayes.results.sensitivity import DropWorst, Sensitivity, drop_worst, sensitivity


class RowAnswers(MisfitAnswers):
    """Methods of `Fit` on single rows, and on what wrong ones can do to its coefficients."""

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

        Examples
        --------
        >>> import tvdbayes as tb
        >>> fit = tb.fit("visits ~ age + region", tb.example_data(wrong=0.1), n_draws=50)
        >>> flagged = fit.rows().query("flag")
        >>> len(flagged), bool((flagged["visits"] >= 20).all())
        (100, True)
        >>> flagged.head(2)[["visits", "score", "observed", "expected"]].round(2)
           visits  score  observed  expected
        0      20    1.0       1.0       0.0
        1      25    1.0       5.0       0.0
        """
        by_cell = self._scores(false_alarm, n_replicates)
        used = self.cell_of_row >= 0
        flag = by_cell.pop("flag").to_numpy()[self.cell_of_row] & used
        spread = by_cell.iloc[self.cell_of_row].reset_index(drop=True)
        spread.loc[~used] = np.nan
        spread["flag"] = flag
        raw = self.data.frame()
        if self.data.n_grouped is not None:
            counts = self.data.counts
            whole = counts.astype(np.int64) if (counts % 1 == 0).all() else counts
            raw = _apart(raw, ["count"]).assign(count=whole)
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
        >>> import tvdbayes as tb
        >>> fit = tb.fit("visits ~ region", tb.example_data(wrong=0.1), n_draws=50)
        >>> fit.suspicious_rows().head(2)[["region", "visits", "count", "flag"]]
          region  visits  count  flag
        0  south      20     17  True
        3  south      21     12  True
        """
        return suspicious_of(self, self.rows(false_alarm=false_alarm, n_replicates=n_replicates))

    def cells(self, *, false_alarm: float = 0.05, n_replicates: int = 200) -> pd.DataFrame:
        """The same for each cell (distinct covariates with an outcome).

        ``signed`` is above 0 where the data have too many rows, below 0 where they have too few.
        The arguments are those of `rows`.

        Examples
        --------
        >>> import tvdbayes as tb
        >>> fit = tb.fit("visits ~ region", tb.example_data(wrong=0.1), n_draws=50)
        >>> fit.cells()[["outcome", "observed", "expected", "flag"]].tail(2).round(1)
            outcome  observed  expected  flag
        32     26.0       1.0       0.0  True
        33     27.0       1.0       0.0  True
        """
        cells, levels = self.posterior.cells, self.posterior.model.family.levels
        scores = self._scores(false_alarm, n_replicates)
        taken = {"outcome", "count", *SCORES, "flag"}
        names = (f"data: {name}" if name in taken else name for name in cells.names)
        columns: dict[str, Any] = dict(zip(names, cells.x[cells.x_index].T, strict=True))
        outcome = np.array(levels, object)[cells.y.astype(int)] if levels else cells.y
        known = pd.DataFrame({**columns, "outcome": outcome, "count": cells.counts})
        return _noted(pd.concat([known, scores], axis=1), self)

    def sensitivity(self, names: Sequence[str] | None = None) -> tuple[Sensitivity, ...]:
        """What each coefficient can be if a share of the rows is wrong, and when its sign is lost.

        `names` are coefficients; all but intercepts unless given.

        Examples
        --------
        >>> import tvdbayes as tb
        >>> fit = tb.fit("visits ~ age + region", tb.example_data(), n_draws=50)
        >>> (found,) = fit.sensitivity(["age"])
        >>> print(found)
        age is positive if fewer than 10.5% of the rows are wrong.
        >>> low, high = found.interval(0.05)  # what it can be if 5% of the rows are wrong
        >>> print(f"{low:.2f} to {high:.2f}")
        0.10 to 0.54
        """
        self.posterior.require_coefficients("to profile", "misfit(), rows() and effects()")
        noise = float(np.quantile(self.chance.unfitted, 0.95, method="higher"))
        with progress_bar(None, "sensitivity") as report:
            return sensitivity(self.posterior, noise, names, progress=report)

    def drop_worst(self, shares: Sequence[float] = (0.0, 0.01, 0.02, 0.05, 0.1)) -> DropWorst:
        """Estimates, robust and ordinary, without the rows that are hardest to explain.

        `shares` are shares of the rows to leave out, in the order of `suspicious_rows`. Estimates
        are without random weights, so that those at a share of 0 are not the means of draws that
        `summary` shows; printed, both stand side by side.

        Examples
        --------
        The ordinary fit moves, the robust one stays:

        >>> import tvdbayes as tb
        >>> fit = tb.fit("visits ~ age", tb.example_data(wrong=0.1), n_draws=50)
        >>> found = fit.drop_worst([0, 0.05, 0.1])
        >>> found.robust[:, 1].round(1), found.ordinary[:, 1].round(1)
        (array([0.3, 0.3, 0.3]), array([0.2, 0.4, 0.3]))
        """
        self.posterior.require_coefficients(
            "to follow as rows are dropped",
            "rows(), and for the predictions of a fit without some,",
        )
        return drop_worst(self.posterior, shares)

    def _scores(self, false_alarm: float, n_replicates: int) -> pd.DataFrame:
        probability("false_alarm", false_alarm, 0.05)
        scores = cell_scores(self.posterior)
        threshold = self._chance(n_replicates).threshold(false_alarm)
        return pd.DataFrame({**scores.columns, "flag": scores.surprise > threshold})


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


def _noted(frame: pd.DataFrame, fit: AbstractFit) -> pd.DataFrame:
    """The table with a sentence on how to read it."""
    note = "Scores are of an outcome at an x: all rows that share both have the same."
    if fit.posterior.partition.pools_rows:
        note = (
            "Scores are means over the groups of nearby x that a row is in: they name a group and "
            "an outcome, not a proven row."
        )
    if fit.posterior.kept_rows is not None:
        note += (
            " Kept is the share of a row that the fit uses. Rows that it does not use are flagged "
            "where so many, or an outcome so far out, surprise more than chance would."
        )
    frame.attrs["note"] = note
    return frame
