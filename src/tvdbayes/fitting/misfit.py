"""How much of the data a fit cannot explain, in which rows, and what these do to coefficients."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from tvdbayes._errors import DataError, SettingsError
from tvdbayes._typing import Array, IntArray
from tvdbayes._validate import probability
from tvdbayes.bounds import misfit_split
from tvdbayes.data.sources import native_frame
from tvdbayes.results.base import AbstractFit, needs_rows, require_rows
from tvdbayes.results.misfit import (
    Certificate,
    Misfit,
    dropped_rows,
    misfit,
    share_of_data,
    wrong_share,
)
from tvdbayes.results.replicates import Replicates, replicate
from tvdbayes.results.rows import SCORES, apart, cell_scores, noted, suspicious_of
from tvdbayes.results.sensitivity import DropWorst, Sensitivities, drop_worst, sensitivity
from tvdbayes.sampling.execution import progress_bar
from tvdbayes.sampling.posterior import Posterior

N_REPLICATES = 200
"""Simulated data sets: the 95 % point of 200 has a standard error of 1.5 % in its level."""

_MOST_LEVELS = 100
"""Levels that a table is still read with."""

By = str | Sequence[object] | None
"""The factor that shares are wanted for: a column of the fit, or a label for each row."""


class MisfitAnswers(AbstractFit):
    """Methods of `Fit` on what the model cannot explain, and what wrong rows do to coefficients."""

    @cached_property
    def chance(self) -> Replicates:
        """What chance alone does, seen on 200 data sets of the model's own making, fitted again.

        Kept after the first time, as `misfit`, `rows`, `check` and `sensitivity` all need it.
        """
        require_rows(self, "chance")
        return replicates_of(self, N_REPLICATES)

    @needs_rows
    def misfit(
        self,
        interval: float = 0.9,
        *,
        by: str | Sequence[object] | None = None,
        n_replicates: int = 200,
        certificate: float | None = None,
    ) -> Misfit:
        """How much of the data the model cannot explain, beside what chance would leave.

        The model is the one shown, also after ``refine="reweight"``, where `distance` holds the
        distances of the closest models that reweighting begins at.

        Parameters
        ----------
        interval : float
            Probability inside the interval.
        by : str or sequence, optional
            A column of the fit, or a label for each row: the share within each level, too.
        n_replicates : int
            Data sets that the noise floor is found from.
        certificate : float, optional
            Confidence of a bound that needs no asymptotics, such as 0.95: the model is fitted to
            one half of the rows, with the options of this fit, and judged on the other, outcome by
            outcome (see `bounds.misfit_split`). Weights must count rows.

        Returns
        -------
        Misfit
            ``lower`` is the share of rows that at least do not come from the model; it is 0 on
            clean data in 95 % of cases. ``wrong``, ``wrong_low`` and ``wrong_high`` are an estimate
            of the share of wrong rows and its interval, from what a trimmed fit drops.

        Examples
        --------
        `Misfit` shows what is printed. Where are the wrong rows?

        >>> import tvdbayes as tb
        >>> fit = tb.fit("visits ~ age + region", tb.example_data(wrong=0.1), n_draws=50)
        >>> found = fit.misfit(by=["clinic a"] * 200 + ["clinic b"] * 800)
        >>> {name: round(part.lower, 2) for name, part in found.by.items()}
        {'clinic a': 0.46, 'clinic b': 0.0}
        """
        posterior, levels, wrong = self.posterior, {}, None
        if by is None:
            chance, share = self._chance(n_replicates), self._unexplained
        else:
            names, of_cells, of_x = levels_of(self, by)
            share, *shares = share_of_data(posterior, of_cells)
            chance = replicates_of(self, n_replicates, of_x)
            levels = {
                name: misfit(own, floor, interval)
                for name, own, floor in zip(names, shares, chance.by_level, strict=True)
            }
        route = None if posterior.kept_rows is None else posterior.kept_rows.route
        if route not in (None, "ordinary"):
            n_obs = posterior.cells.n_obs * posterior.worth
            wrong = wrong_share(self._dropped, n_obs, chance.dropped)
        return replace(
            misfit(share, chance.distance, interval),
            by=levels,
            certificate=None if certificate is None else _certify(self, certificate),
            wrong_draws=wrong,
            wrong_unknown=route == "ordinary",
        )

    @needs_rows
    def rows(self, *, false_alarm: float = 0.05, n_replicates: int = 200) -> Any:
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
        many rows are equal to it. The table is a frame of the library that the data came in, polars
        say; pandas where they came in none.

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
        return native_frame(self._rows(false_alarm, n_replicates), self.data.library)

    @needs_rows
    def suspicious_rows(self, *, false_alarm: float = 0.05, n_replicates: int = 200) -> Any:
        """The rows of `rows`, the most suspicious first, and equal ones in one line.

        Lines are in the order of ``surprise``, then of ``score``. Rows that are equal in all
        columns in use are one line: ``count`` says how many they are, and the index is the number
        of the first of them (a column ``row`` where frames have no index, as in polars). Rows that
        the fit left out are not listed. The command line and the report list the same rows in the
        same order. The arguments are those of `rows`.

        Examples
        --------
        >>> import tvdbayes as tb
        >>> fit = tb.fit("visits ~ region", tb.example_data(wrong=0.1), n_draws=50)
        >>> fit.suspicious_rows().head(2)[["region", "visits", "count", "flag"]]
          region  visits  count  flag
        0  south      20     17  True
        3  south      21     12  True
        """
        found = suspicious_of(self, self._rows(false_alarm, n_replicates))
        return native_frame(found, self.data.library, index="row")

    @needs_rows
    def cells(self, *, false_alarm: float = 0.05, n_replicates: int = 200) -> Any:
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
        return native_frame(noted(pd.concat([known, scores], axis=1), self), self.data.library)

    @needs_rows
    def sensitivity(self, names: Sequence[str] | None = None) -> Sensitivities:
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
        >>> print(fit.sensitivity(["age"]).table([0.05]))  # for a paper, also to_latex()
        parameter  estimate  sign holds to  low, 5% wrong  high, 5% wrong
        age           0.318          10.5%         0.0978           0.542
        A sign holds to the share of wrong rows below which the coefficient cannot be 0.
        At each share stand the smallest and the largest value that so many wrong rows allow.
        """
        self.posterior.require_coefficients("to profile", "misfit(), rows() and effects()")
        noise = float(np.quantile(self.chance.unfitted, 0.95, method="higher"))
        with progress_bar(None, "sensitivity") as report:
            found = sensitivity(self.posterior, noise, names, progress=report)
        return Sensitivities(found, self.data.library)

    @needs_rows
    def drop_worst(self, shares: Sequence[float] = (0.0, 0.01, 0.02, 0.05, 0.1)) -> DropWorst:
        """Estimates, robust and ordinary, without the rows that are hardest to explain.

        `shares` are shares of the rows to leave out, in the order of `suspicious_rows`. Estimates
        are without random weights, so that those at a share of 0 are not the means of draws that
        `summary` shows; printed, both stand side by side.

        Examples
        --------
        The likelihood fit moves, the robust one stays:

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

    def _rows(self, false_alarm: float = 0.05, n_replicates: int = N_REPLICATES) -> pd.DataFrame:
        """The table of `rows`, in pandas."""
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
            raw = apart(raw, ["count"]).assign(count=whole)
        raw = raw.iloc[np.maximum(self.data.row, 0)].reset_index(drop=True)
        if not used.all():
            raw = raw.where(np.broadcast_to(used[:, None], raw.shape))
        return noted(pd.concat([apart(raw, [*SCORES, "flag"]), spread], axis=1), self)

    def _scores(self, false_alarm: float, n_replicates: int) -> pd.DataFrame:
        probability("false_alarm", false_alarm, 0.05)
        scores = cell_scores(self.posterior)
        threshold = self._chance(n_replicates).threshold(false_alarm)
        return pd.DataFrame({**scores.columns, "flag": scores.surprise > threshold})

    @cached_property
    def _unexplained(self) -> Array:
        return _shares(self.posterior)

    @cached_property
    def _dropped(self) -> float:
        return dropped_rows(self.posterior)

    def _chance(self, n_replicates: int) -> Replicates:
        return self.chance if n_replicates == N_REPLICATES else replicates_of(self, n_replicates)


def replicates_of(fit: AbstractFit, n_replicates: int, levels: Array | None = None) -> Replicates:
    """Data of the model's own making, fitted again."""
    if not 20 <= n_replicates <= 100_000:
        raise SettingsError(
            f"n_replicates must be from 20 to 100,000; got {n_replicates}. Try 200."
        )
    with progress_bar(None, f"{n_replicates} replicates") as report:
        return replicate(fit.posterior, n_replicates, levels=levels, progress=report)


def _certify(fit: AbstractFit, confidence: float) -> Certificate:
    """The bound of `bounds.misfit_split`, in the terms of a misfit."""
    probability("certificate", confidence, 0.95)
    found = misfit_split(fit.posterior, 1 - confidence)
    assumptions = list(found.assumptions)
    if fit.rounded is not None:
        assumptions.append("covariates are meant as the engine has rounded them (grid=)")
    return Certificate(found.upper, confidence, found.statement, f"{'; '.join(assumptions)}.")


def _shares(posterior: Posterior) -> Array:
    """Shares draw by draw; those of a TVD fit are its distances, unless reweighted."""
    plain = posterior.prior is None and posterior.refine in (None, "trim")
    if posterior.divergence.name == "tvd" and plain:
        return posterior.distance
    (shares,) = share_of_data(posterior)
    return np.asarray(shares, float)


def levels_of(fit: AbstractFit, by: By) -> tuple[list[str], Array, Array]:
    """Names of the levels, and the weight that each has in each cell (L, m) and x row (L, n_x)."""
    data, cells = fit.data, fit.posterior.cells
    if isinstance(by, str):
        if by not in data.columns:
            raise DataError(
                f"{by!r} is no column of this fit; it has {', '.join(data.columns)}. For another "
                "column pass its values, one for each row."
            )
        if by == data.outcome:
            raise DataError(
                f"{by!r} is the outcome, and levels that are chosen by it look odd by chance "
                "alone. Ask by a covariate; rows() says which outcomes stand out."
            )
        labels = data.columns[by].series().to_numpy(dtype=object)
        cell, weight = data.cell, data.stands_for
    else:
        given = np.asarray(by, dtype=object)
        if given.shape != fit.cell_of_row.shape:
            raise DataError(
                f"by= needs one label for each of the {len(fit.cell_of_row)} rows; got shape "
                f"{given.shape}."
            )
        used = np.flatnonzero(data.row >= 0)
        labels, cell = given[used], fit.cell_of_row[used]
        # Rows of one distinct row share its weight.
        weight = (data.stands_for / np.bincount(data.row[used]))[data.row[used]]
    names, code = _coded(labels)
    if len(names) > _MOST_LEVELS:
        raise DataError(
            f"by= has {len(names)} different values, and at most {_MOST_LEVELS} levels are shown. "
            "Cut it into a few first, for example with pandas.cut."
        )
    m = cells.n_cells
    total = np.bincount(code * m + cell, weight, len(names) * m).astype(float)
    of_cells: Array = total.reshape(len(names), m)
    of_x = np.zeros((len(names), cells.n_x))
    np.add.at(of_x.T, cells.x_index, of_cells.T)
    return names, of_cells, of_x / cells.x_counts


def _coded(labels: Any) -> tuple[list[str], IntArray]:
    try:
        codes, found = pd.factorize(pd.Series(labels), sort=False)
    except TypeError as error:
        raise DataError(f"by= needs labels that are numbers or text: {error}.") from error
    if (codes < 0).any():
        raise DataError(f"by= has {int((codes < 0).sum())} gaps; every row needs a label.")
    try:
        order = np.argsort(found.to_numpy(), kind="stable")
    except TypeError:
        # Labels of several kinds have no order of their own: as they come.
        order = np.arange(len(found))
    rank = np.empty(len(found), np.intp)
    rank[order] = np.arange(len(found))
    return [str(found[i]) for i in order], rank[codes]
