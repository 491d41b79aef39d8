"""What `fit` returns: the posterior, how the data were encoded, and what is remembered of them."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from html import escape
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd
from formulaic import ModelSpec

from tvdbayes._errors import SettingsError
from tvdbayes._typing import Array, IntArray
from tvdbayes.data.fit_data import FitData
from tvdbayes.data.sources import Data
from tvdbayes.fitting.progress import progress_bar
from tvdbayes.fitting.rounded import Rounded
from tvdbayes.formula.design import encode_new
from tvdbayes.formula.survey import Survey
from tvdbayes.objective.partitions import Bins, GroupReport
from tvdbayes.results import (
    DropWorst,
    HeldOut,
    Replicates,
    Sensitivity,
    cross_validate,
    drop_worst,
    leave_one_out,
    sensitivity,
)
from tvdbayes.results.checks import (
    ByGroup,
    Calibration,
    PitHistogram,
    Rootogram,
    calibration,
    observed_by_group,
    pit_histogram,
    quantile_residuals,
    rootogram,
)
from tvdbayes.results.effects import Effect
from tvdbayes.results.misfit import Misfit
from tvdbayes.results.scores import Scores
from tvdbayes.sampling.options import Options
from tvdbayes.sampling.posterior import Posterior
from tvdbayes.sampling.summary import IntervalKind, Summary

if TYPE_CHECKING:
    from tvdbayes.fitting.check import Check
    from tvdbayes.fitting.plot import Plots

__all__ = ["Fit", "fit_of"]


@dataclass(frozen=True, eq=False, repr=False)
class Fit:
    """A fitted model: estimates and draws, robust beside ordinary.

    Parameters
    ----------
    posterior : Posterior
        The record of the fit.
    formula : str
        As given.
    encoding : formulaic.ModelSpec
        How columns became covariates; replayed on new data.
    cell_of_row : (n,)
        The cell of each input row, -1 for rows of weight zero.
    data : FitData
        The distinct rows of the columns in use.
    more_encodings : dict of formulaic.ModelSpec
        The same for further predictors that have covariates.
    left_out : tuple of str
        Columns that others determine, left out by ``collinear="drop"``.
    rounded : Rounded or None
        What rounding continuous columns in an engine has done, where that was asked for.

    Examples
    --------
    >>> import numpy as np, tvdbayes as tb
    >>> rng = np.random.default_rng(0)
    >>> age, region = rng.integers(2, 6, 800), rng.choice(["north", "south"], 800)
    >>> visits = rng.poisson(np.exp(0.3 * age - 0.5 * (region == "south")))
    >>> data = {"visits": visits, "age": age, "region": region}
    >>> fit = tb.fit("visits ~ age + region", data, n_draws=50)
    >>> new = {"age": [2, 5], "region": ["south", "north"]}
    >>> fit.predict(new)["mean"].round().tolist()  # the truth: 1.1 and 4.5
    [1.0, 4.0]
    >>> fit.effects("region").names
    ('region: south - north',)
    """

    posterior: Posterior
    formula: str
    encoding: ModelSpec
    cell_of_row: IntArray
    data: FitData
    more_encodings: dict[str, ModelSpec] = field(default_factory=dict)
    left_out: tuple[str, ...] = ()
    rounded: Rounded | None = None

    @property
    def encodings(self) -> tuple[ModelSpec, ...]:
        """How columns became covariates, for the main predictor and then the further ones."""
        return (self.encoding, *self.more_encodings.values())

    @property
    def param_names(self) -> tuple[str, ...]:
        """Names of the parameters.

        Examples
        --------
        >>> import tvdbayes as tb
        >>> data = {"y": [0, 0, 0, 1, 2, 3] * 20, "region": ["north", "south"] * 60}
        >>> tb.fit("y ~ region", data, family="hurdle_poisson", n_draws=0).param_names
        ('Intercept', 'region[T.south]', 'zero:Intercept')
        """
        return self.posterior.param_names

    @property
    def estimate(self) -> Array:
        """Point estimate, (d,).

        The fit to the unweighted data; without refinement (plain TVD, other divergences), where
        covariates repeat, the posterior mean.
        """
        return self.posterior.estimate

    @property
    def draws(self) -> Array:
        """Posterior draws, (B, d)."""
        return self.posterior.draws

    @property
    def kld_draws(self) -> Array:
        """The ordinary twin of each draw, (B, d)."""
        return self.posterior.kld_draws

    @property
    def distance(self) -> Array:
        """Divergence that each draw reached, (B,); under TVD, the share of mass it cannot explain.

        Noise is part of it; `misfit` says what is more than noise.
        """
        return self.posterior.distance

    @property
    def status(self) -> IntArray:
        """How the search of each draw ended, codes of `Status`, (B,).

        Examples
        --------
        >>> import numpy as np, tvdbayes as tb
        >>> y = np.random.default_rng(0).poisson(3, 200)
        >>> fit = tb.fit("y ~ 1", {"y": y}, n_draws=50)
        >>> int((fit.status == tb.Status.CONVERGED).sum())
        50
        """
        return self.posterior.status

    @property
    def groups(self) -> GroupReport:
        """Which rows were compared together, to see which are too many.

        Fits that compare groups, such as plain TVD (``refine=None``), have slopes that are a little
        too steep; the default has not.

        Examples
        --------
        >>> import numpy as np, tvdbayes as tb
        >>> rng = np.random.default_rng(0)
        >>> age = rng.integers(2, 6, 2000)
        >>> data = {"visits": rng.poisson(np.exp(0.3 * age)), "age": age}
        >>> fit = tb.fit("visits ~ age", data, n_draws=50)
        >>> print(fit.groups)
        distinct: 4 groups, median 520 rows, slopes from groups too steep by about 0.1%
        """
        return self.posterior.groups

    @property
    def bins(self) -> Bins | None:
        """Which counts were compared together, if any.

        Examples
        --------
        Large counts hardly repeat, so neighbours are compared together:

        >>> import numpy as np, tvdbayes as tb
        >>> y = np.random.default_rng(0).poisson(3000, 500)
        >>> fit = tb.fit("y ~ 1", {"y": y}, n_draws=0)
        >>> len(np.unique(y)), fit.bins.n_bins
        (197, 52)
        """
        return self.posterior.bins

    @property
    def n_rows(self) -> int:
        """Rows of the data, those included that were left out."""
        grouped = self.data.n_grouped
        return len(self.cell_of_row) if grouped is None else grouped

    @property
    def n_left_out(self) -> int:
        """Rows of the data that were left out, for a gap or a weight of zero."""
        return int((self.cell_of_row < 0).sum()) + self.data.n_dropped

    @property
    def seed(self) -> int:
        """The seed that gives these draws again."""
        return self.posterior.seed

    @property
    def options(self) -> Options:
        """Options of `fit` as they were given.

        With the same formula and data they give the same draws, bit for bit. ``n_jobs``, ``resume``
        and ``progress`` are not kept, since no draw depends on these. Only options that differ from
        their defaults are shown; ``options.changed()`` has these as a dict.

        Examples
        --------
        >>> import tvdbayes as tb
        >>> data = {"y": [0, 1, 2, 2, 3, 5] * 10, "region": ["north", "south"] * 30}
        >>> fit = tb.fit("y ~ region", data, divergence=tb.Hellinger(), n_draws=20, ridge=0.1)
        >>> fit.options
        Options(divergence='hellinger', n_draws=20, ridge=0.1)
        """
        return self.posterior.options

    def summary(
        self,
        interval: float = 0.9,
        *,
        kind: IntervalKind = "equal",
        rope: tuple[float, float] | None = None,
    ) -> Summary:
        """Coefficients with intervals, robust beside ordinary, and their paired difference.

        Parameters
        ----------
        interval : float
            Probability inside the intervals.
        kind : "equal" or "hdi"
            Equal tails, or the shortest interval.
        rope : (float, float), optional
            Region of practical equivalence; the share of draws in it becomes a column.

        Returns
        -------
        Summary

        Examples
        --------
        >>> import numpy as np, tvdbayes as tb
        >>> y = np.random.default_rng(0).poisson(3, 2000)
        >>> y[:200] += 20  # a tenth of the rows is wrong
        >>> fit = tb.fit("y ~ 1", {"y": y}, n_draws=50)
        >>> table = fit.summary()
        >>> for name in ("low", "high", "kld_low", "kld_high"):
        ...     print(f"{name:<8} {np.exp(table[name][0]):.1f}")
        low      2.9
        high     3.1
        kld_low  4.8
        kld_high 5.4
        """
        return self.posterior.summary(interval, kind=kind, rope=rope)

    @cached_property
    def chance(self) -> Replicates:
        """What chance alone does, seen on 200 data sets of the model's own making, fitted again.

        Kept after the first time, as `misfit`, `rows`, `check` and `sensitivity` all need it.

        Examples
        --------
        >>> import numpy as np, tvdbayes as tb
        >>> y = np.random.default_rng(0).poisson(3, 2000)
        >>> fit = tb.fit("y ~ 1", {"y": y}, n_draws=50)
        >>> fit.chance.distance.shape
        (200,)
        """
        from tvdbayes.fitting.rows import N_REPLICATES, replicates_of

        return replicates_of(self, N_REPLICATES)

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
        >>> import numpy as np, tvdbayes as tb
        >>> y = np.random.default_rng(0).poisson(3, 2000)
        >>> y[:200] += 20  # a tenth of the rows is wrong
        >>> fit = tb.fit("y ~ 1", {"y": y}, n_draws=50)
        >>> print(fit.misfit())
        The model cannot explain 10.5% of the data (90% interval 9.3% to 12.1%).
        Chance alone would leave 3.2% (up to 4.8%): at least 6.0% of the rows do not come from the
        fitted model.
        About 10.0% of the rows are wrong (90% interval 8.9% to 11.1%); rows whose outcomes the
        model finds usual are not counted.

        Where are they?

        >>> found = fit.misfit(by=["clinic a"] * 400 + ["clinic b"] * 1600)
        >>> {name: round(part.lower, 2) for name, part in found.by.items()}
        {'clinic a': 0.48, 'clinic b': 0.0}
        """
        from tvdbayes.fitting.rows import misfit_of

        return misfit_of(self, interval, by, n_replicates, certificate)

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
        from tvdbayes.fitting.rows import rows_of

        return rows_of(self, false_alarm, n_replicates)

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
        from tvdbayes.fitting.rows import rows_of, suspicious_of

        return suspicious_of(self, rows_of(self, false_alarm, n_replicates))

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
        from tvdbayes.fitting.rows import cells_of

        return cells_of(self, false_alarm, n_replicates)

    def check(self, *, misfit: bool = True) -> "Check":
        """What is good and what is doubtful about this fit, in plain words.

        `misfit` includes the unexplained share, which takes some refits.

        Lines that depend on chance are false alarms on at most 5 % of clean data sets each:
        ``search``, ``ties`` (a nearly flat range at least 1.4 posterior deviations wide),
        ``draws`` (a second mode), ``far rows`` (these contradict the others, or decide), ``ordinary
        fit`` (a simultaneous interval for all coefficients excludes 0, and the difference is at
        least three quarters of a posterior deviation), ``family`` (another one explains more) and
        ``misfit`` (its lower bound is above 0). The measured shares are in
        benchmarks/results/statements.md. The lines ``rows used``, ``groups``, ``bins``,
        ``rounding`` and the number of draws are facts about the fit.

        Examples
        --------
        >>> import tvdbayes as tb
        >>> fit = tb.fit("y ~ 1", {"y": [0, 1, 1, 2, 2, 3, 30] * 10}, n_draws=50)
        >>> found = fit.check(misfit=False)
        >>> for finding in found.findings:
        ...     print(finding.level, finding.about)
        good search
        good ordinary search
        good groups
        note rows used
        note draws
        note ordinary fit
        >>> print(found.findings[-1].text)
        The robust and the likelihood fit differ in Intercept (5% level, all coefficients together):
        some rows, or the form of the model, influence the likelihood fit. See rows() and the
        columns diff of summary().
        >>> found.problems
        ()
        """
        from tvdbayes.fitting.check import check

        return check(self, misfit=misfit)

    def score(self, new: Data | None = None, *, ordinary: bool = False) -> Scores:
        """Proper scores, and beside them the paper's, of new rows or of those of the fit.

        Parameters
        ----------
        new : data frame, dict of columns, or path, optional
            Rows with all columns of the formula, the outcome included; the rows of the fit unless
            given, of which scores are a little too good.
        ordinary : bool
            Whether to score the ordinary twin.

        Returns
        -------
        Scores

        Examples
        --------
        Wrong rows should not judge, so score rows that are known to be good:

        >>> import numpy as np, tvdbayes as tb
        >>> y = np.random.default_rng(0).poisson(3, 2000)
        >>> y[:200] += 20  # a tenth of the rows is wrong
        >>> fit = tb.fit("y ~ 1", {"y": y}, n_draws=50)
        >>> good = {"y": [2, 3, 3, 4]}
        >>> print(f"{fit.score(good).log:.2f}, ordinary {fit.score(good, ordinary=True).log:.2f}")
        1.57, ordinary 2.06
        """
        from tvdbayes.fitting.compare_fits import score_of

        return score_of(self, new, ordinary)

    def leave_one_out(self, *, n_draws: int = 200) -> HeldOut:
        """Scores of each row by the fit to all others: one refit for each distinct row.

        Parameters
        ----------
        n_draws : int
            Draws of each refit.

        Returns
        -------
        HeldOut
            Robust beside ordinary.

        Examples
        --------
        >>> import tvdbayes as tb
        >>> fit = tb.fit("y ~ 1", {"y": [0, 1, 1, 2, 2, 3] * 10}, n_draws=20)
        >>> held_out = fit.leave_one_out(n_draws=20)
        >>> held_out.robust.log > fit.score().log  # rows that were not seen are harder
        True
        """
        with progress_bar(None, "leaving out") as report:
            return leave_one_out(self.posterior, n_draws=n_draws, progress=report)

    def cross_validate(self, n_folds: int = 10, *, n_draws: int = 200) -> HeldOut:
        """Scores of each row by the fit to the other folds.

        Parameters
        ----------
        n_folds : int
            Into how many parts rows are dealt.
        n_draws : int
            Draws of each refit.

        Returns
        -------
        HeldOut
            Robust beside ordinary.

        Examples
        --------
        Wrong rows are held out too, and a fit that follows them is rewarded for it; the ranked
        probability score is less at their mercy than the log score:

        >>> import numpy as np, tvdbayes as tb
        >>> y = np.random.default_rng(0).poisson(3, 2000)
        >>> y[:200] += 20  # a tenth of the rows is wrong
        >>> fit = tb.fit("y ~ 1", {"y": y}, n_draws=50)
        >>> held_out = fit.cross_validate(3, n_draws=20)
        >>> print(f"{held_out.robust.rps:.1f}, ordinary {held_out.ordinary.rps:.1f}")
        2.8, ordinary 3.1
        """
        with progress_bar(None, f"{n_folds} folds") as report:
            return cross_validate(self.posterior, n_folds, n_draws=n_draws, progress=report)

    def sensitivity(self, names: Sequence[str] | None = None) -> tuple[Sensitivity, ...]:
        """What each coefficient can be if a share of the rows is wrong, and when its sign is lost.

        `names` are coefficients; all but intercepts unless given.

        Examples
        --------
        >>> import numpy as np, tvdbayes as tb
        >>> rng = np.random.default_rng(0)
        >>> age = rng.integers(2, 6, 2000)
        >>> data = {"visits": rng.poisson(np.exp(0.3 * age)), "age": age}
        >>> fit = tb.fit("visits ~ age", data, n_draws=50)
        >>> (found,) = fit.sensitivity(["age"])
        >>> print(found)
        age stays positive as long as fewer than 15.8% of the rows are wrong (at least 0.0% are).
        >>> low, high = found.interval(0.05)  # what it can be if 5% of the rows are wrong
        >>> print(f"{low:.2f} to {high:.2f}")
        0.17 to 0.45
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

        >>> import numpy as np, tvdbayes as tb
        >>> y = np.random.default_rng(0).poisson(3, 2000)
        >>> y[:200] += 20  # a tenth of the rows is wrong
        >>> fit = tb.fit("y ~ 1", {"y": y}, n_draws=50)
        >>> found = fit.drop_worst([0, 0.05, 0.1])
        >>> np.exp(found.robust[:, 0]).round(1), np.exp(found.ordinary[:, 0]).round(1)
        (array([3., 3., 3.]), array([5., 4., 3.]))
        """
        self.posterior.require_coefficients(
            "to follow as rows are dropped",
            "rows(), and for the predictions of a fit without some,",
        )
        return drop_worst(self.posterior, shares)

    def rootogram(self, interval: float = 0.9, *, ordinary: bool = False) -> Rootogram:
        """How often each outcome was seen, and how often the model expects it.

        Examples
        --------
        >>> import numpy as np, tvdbayes as tb
        >>> y = np.random.default_rng(0).poisson(3, 2000)
        >>> y[:200] += 20  # a tenth of the rows is wrong
        >>> fit = tb.fit("y ~ 1", {"y": y}, n_draws=50)
        >>> bars = fit.rootogram()
        >>> for label, seen, expected in list(zip(bars.labels, bars.observed, bars.expected))[:3]:
        ...     print(f"{label}: {seen:.0f} seen, {expected:.0f} expected")
        0: 102 seen, 100 expected
        1: 256 seen, 300 expected
        2: 410 seen, 449 expected
        """
        robust = rootogram(self.posterior, interval)
        return rootogram(self.posterior.twin, interval, like=robust) if ordinary else robust

    def calibration(
        self, n_bins: int = 10, *, level: str | None = None, ordinary: bool = False
    ) -> Calibration:
        """Predicted probabilities or means in bins of rows, beside what was seen there.

        Of the robust fit only the rows that it has not dropped are shown, of its ordinary twin all.

        Parameters
        ----------
        n_bins : int
            Bins of about equal weight, by predicted value.
        level : str, optional
            Where outcomes are names: the one whose probability is meant, the last unless given.
        ordinary : bool
            Whether to look at the ordinary twin.

        Returns
        -------
        Calibration

        Examples
        --------
        >>> import numpy as np, tvdbayes as tb
        >>> rng = np.random.default_rng(0)
        >>> age = rng.integers(2, 6, 2000)
        >>> data = {"visits": rng.poisson(np.exp(0.3 * age)), "age": age}
        >>> fit = tb.fit("visits ~ age", data, n_draws=50)
        >>> bins = fit.calibration(2)
        >>> bins.predicted.round(1), bins.observed.round(1)
        (array([2.1, 3.9]), array([2.1, 3.9]))
        """
        return calibration(self._side(ordinary), n_bins, level)

    def pit(self, n_bins: int = 10, *, ordinary: bool = False) -> PitHistogram:
        """Histogram of the probability integral transform: flat if the model is right.

        Examples
        --------
        These counts vary more than Poisson counts, so both ends are too high:

        >>> import numpy as np, tvdbayes as tb
        >>> y = np.random.default_rng(0).negative_binomial(3, 0.3, 2000)
        >>> fit = tb.fit("y ~ 1", {"y": y}, divergence="kld", n_draws=20)
        >>> fit.pit(4).density.round(1)
        array([1.7, 0.6, 0.5, 1.2])
        """
        return pit_histogram(self._side(ordinary), n_bins)

    def residuals(self, *, seed: int | None = None, ordinary: bool = False) -> Array:
        """Randomised quantile residuals of the rows, (n,): normal if the model is right.

        Examples
        --------
        >>> import numpy as np, tvdbayes as tb
        >>> y = np.random.default_rng(0).poisson(3, 2000)
        >>> y[:200] += 20  # a tenth of the rows is wrong
        >>> fit = tb.fit("y ~ 1", {"y": y}, n_draws=50)
        >>> residuals = fit.residuals()
        >>> bool((residuals[:200] > 3).all()), round(float(residuals[200:].std()), 1)
        (True, 1.0)
        """
        return quantile_residuals(self._side(ordinary), self.cell_of_row, seed)

    def observed(
        self, by: str | Sequence[object], *, level: str | None = None, ordinary: bool = False
    ) -> ByGroup:
        """Observed and expected mean outcome in each level of a column of covariates.

        Parameters
        ----------
        by : str or sequence
            A column of the formula, or a label for each row.
        level : str, optional
            Where outcomes are names: the one whose probability is meant, the last unless given.
        ordinary : bool
            Whether to look at the ordinary twin.

        Returns
        -------
        ByGroup

        Examples
        --------
        >>> import numpy as np, tvdbayes as tb
        >>> rng = np.random.default_rng(0)
        >>> age = rng.integers(2, 6, 2000)
        >>> data = {"visits": rng.poisson(np.exp(0.3 * age)), "age": age}
        >>> fit = tb.fit("visits ~ age", data, n_draws=50)
        >>> found = fit.observed("age")
        >>> for age, seen, expected in zip(found.labels, found.observed, found.expected):
        ...     print(f"{age}: {seen:.1f} seen, {expected:.1f} expected")
        2: 1.8 seen, 1.8 expected
        3: 2.4 seen, 2.4 expected
        4: 3.3 seen, 3.3 expected
        5: 4.5 seen, 4.5 expected
        """
        from tvdbayes.fitting.rows import levels_of

        names, of_cells, _ = levels_of(self, by)
        if (np.count_nonzero(of_cells, axis=0) > 1).any():
            raise SettingsError(
                "observed(by=) needs a column of the formula: rows with the same covariates and "
                "outcome must be in one level."
            )
        return observed_by_group(self._side(ordinary), of_cells.argmax(0), tuple(names), level)

    @property
    def plot(self) -> "Plots":
        """Pictures, ``fit.plot.coefficients()`` and so on; each returns matplotlib axes.

        There are ``coefficients``, ``misfit``, ``rootogram``, ``calibration``, ``rows``,
        ``bands(column)``, ``sensitivity``, ``pit`` and ``residuals``. Each takes axes to draw on
        (``ax=``), or makes a figure of its own: a notebook shows it, elsewhere no window opens.

        Examples
        --------
        >>> import numpy as np, tvdbayes as tb
        >>> rng = np.random.default_rng(0)
        >>> age = rng.integers(2, 6, 2000)
        >>> data = {"visits": rng.poisson(np.exp(0.3 * age)), "age": age}
        >>> fit = tb.fit("visits ~ age", data, n_draws=50)
        >>> ax = fit.plot.rootogram()
        >>> ax.get_xlabel()
        'visits'
        >>> figure = ax.figure  # for figure.savefig("visits.pdf")
        """
        from tvdbayes.fitting.plot import Plots

        return Plots(self)

    def _side(self, ordinary: bool) -> Posterior:
        return self.posterior.twin if ordinary else self.posterior

    def encode(self, data: Data) -> Array:
        """Covariates of new data for the main predictor, encoded as in the fit, (n, p).

        Levels that the fit has not seen are an error that names them.

        Examples
        --------
        >>> import tvdbayes as tb
        >>> data = {"y": [0, 1, 2, 2, 3, 5] * 10, "region": ["north", "south"] * 30}
        >>> fit = tb.fit("y ~ region", data, n_draws=0)
        >>> fit.encode({"region": ["south", "north"]})
        array([[1., 1.],
               [1., 0.]])
        """
        linear = self.posterior.model.predictor
        names = self.posterior.cells.names
        family = self.posterior.model.family
        n_more = len(family.predictors) - family.n_main
        main = linear.blocks(len(names), family.n_main, n_more)[0]
        return encode_new(self.encoding, tuple(names[j] for j in main), data)

    def predict(
        self,
        new: Data | None = None,
        kind: Literal["mean", "pmf", "outcome", "class"] = "mean",
        *,
        interval: float = 0.9,
        outcomes: Sequence[object] | None = None,
        seed: int | None = None,
        ordinary: bool = False,
    ) -> pd.DataFrame:
        """Predict rows of new data, or the rows of the fit.

        Parameters
        ----------
        new : data frame, dict of columns, or path, optional
            Rows with the columns of the formulas and those of offset, exposure and trials; their
            order, and further columns, do not matter. The rows of the fit unless given.
        kind : str
            "mean": the expected outcome, ``mean``, ``low`` and ``high``. "outcome": of a new
            outcome ``low``, ``median`` and ``high``, found by sampling. "pmf": the probability of
            each outcome, a column for each. "class": the most probable outcome, ``class``, and its
            ``probability``. Outcomes that are names have "pmf" and "class" only.
        interval : float
            Probability between ``low`` and ``high``, which cut off equal tails; an interval of
            outcomes may hold more.
        outcomes : sequence, optional
            For "pmf": the outcomes to list. By default all levels, or counts from 0 on until they
            hold 99% of the probability in every row.
        seed : int, optional
            For "outcome"; that of the fit unless given.
        ordinary : bool
            Whether to predict by the ordinary twin, weighted maximum likelihood.

        Returns
        -------
        pandas.DataFrame
            One line for each row, with the index of `new` where that is a pandas frame. Rows that
            the fit left out are NaN.

        Examples
        --------
        >>> import numpy as np, tvdbayes as tb
        >>> rng = np.random.default_rng(0)
        >>> age = rng.integers(2, 6, 2000)
        >>> data = {"visits": rng.poisson(np.exp(0.3 * age)), "age": age}
        >>> fit = tb.fit("visits ~ age", data, n_draws=50)
        >>> fit.predict({"age": [2, 5]}).round(1)  # the truth: 1.8 and 4.5
           mean  low  high
        0   1.8  1.7   1.9
        1   4.5  4.3   4.6
        >>> fit.predict({"age": [2, 5]}, "outcome")  # where new visits will lie
           low  median  high
        0  0.0     2.0   4.0
        1  1.0     4.0   8.0
        >>> fit.predict({"age": [2, 5]}, "pmf", outcomes=[0, 1, 2]).round(2)
              0     1     2
        0  0.17  0.30  0.27
        1  0.01  0.05  0.11
        """
        from tvdbayes.fitting.predictions import predict

        return predict(
            self, new, kind, interval=interval, outcomes=outcomes, seed=seed, ordinary=ordinary
        )

    def sample(
        self,
        new: Data | None = None,
        *,
        n_draws: int | None = None,
        seed: int | None = None,
        ordinary: bool = False,
    ) -> Array:
        """New outcomes of rows, (B, n): the posterior predictive, one line for each draw.

        Outcomes that are names come as their numbers in ``posterior.model.family.levels``. Rows
        that the fit left out are NaN. Arguments are those of `predict`; `n_draws` takes the first
        draws, or, where there are fewer, all of them in turn.

        Examples
        --------
        How likely is a year with more than ten visits of two patients together?

        >>> import numpy as np, tvdbayes as tb
        >>> rng = np.random.default_rng(0)
        >>> age = rng.integers(2, 6, 2000)
        >>> data = {"visits": rng.poisson(np.exp(0.3 * age)), "age": age}
        >>> fit = tb.fit("visits ~ age", data, n_draws=50)
        >>> visits = fit.sample({"age": [4, 5]}, n_draws=1000)
        >>> visits.shape
        (1000, 2)
        >>> print(f"{np.mean(visits.sum(axis=1) > 10):.0%}")
        18%
        """
        from tvdbayes.fitting.predictions import sample

        return sample(self, new, n_draws=n_draws, seed=seed, ordinary=ordinary)

    def effects(
        self,
        variable: str,
        *,
        at: Mapping[str, object] | None = None,
        outcome: object = None,
        ordinary: bool = False,
    ) -> Effect:
        """Average effect of a column on the expected outcome.

        For a column of numbers it is the slope: the derivative in that column, through every term
        and predictor that it is part of, averaged over the rows of the data. For any other column
        (and for numbers that the formula takes as categories) it is the difference between each
        level and the first, every row taken at both.

        Parameters
        ----------
        variable : str
            A column of the data, not a term of the formula.
        at : dict, optional
            Columns to set before averaging, such as ``{"region": "north", "age": 40}``. All others
            stay as they are in the data, offset, exposure and trials included.
        outcome : optional
            An outcome whose probability is meant in place of the expected outcome. By default each
            level in turn, where outcomes are names.
        ordinary : bool
            Whether to take the ordinary twin in place of the robust draws.

        Returns
        -------
        Effect

        Examples
        --------
        >>> import numpy as np, tvdbayes as tb
        >>> rng = np.random.default_rng(0)
        >>> age, region = rng.integers(2, 6, 2000), rng.choice(["north", "south"], 2000)
        >>> visits = rng.poisson(np.exp(0.3 * age - 0.5 * (region == "south")))
        >>> data = {"visits": visits, "age": age, "region": region}
        >>> fit = tb.fit("visits ~ age + region", data, n_draws=50)
        >>> fit.effects("age").estimate.round(1)  # visits for a year more
        array([0.7])
        >>> found = fit.effects("region", at={"age": 5})
        >>> found.names, found.estimate.round(1)
        (('region: south - north',), array([-1.7]))
        """
        from tvdbayes.fitting.effects import effects

        return effects(self, variable, at=at, outcome=outcome, ordinary=ordinary)

    def contrast(
        self,
        variable: str,
        a: object,
        b: object,
        *,
        at: Mapping[str, object] | None = None,
        ratio: bool = False,
        outcome: object = None,
        ordinary: bool = False,
    ) -> Effect:
        """Average expected outcome with a column set to `a`, minus that with `b`, or their ratio.

        The other arguments are those of `effects`.

        Examples
        --------
        >>> import numpy as np, tvdbayes as tb
        >>> rng = np.random.default_rng(0)
        >>> age = rng.integers(2, 6, 2000)
        >>> data = {"visits": rng.poisson(np.exp(0.3 * age)), "age": age}
        >>> fit = tb.fit("visits ~ age", data, n_draws=50)
        >>> found = fit.contrast("age", 5, 2, ratio=True)
        >>> found.names, found.estimate.round(1)  # the truth: exp(0.9) = 2.5
        (('age: 5 / 2',), array([2.5]))
        """
        from tvdbayes.fitting.effects import contrast

        return contrast(
            self, variable, a, b, at=at, ratio=ratio, outcome=outcome, ordinary=ordinary
        )

    def predictions(
        self,
        at: Mapping[str, object] | None = None,
        *,
        outcome: object = None,
        ordinary: bool = False,
    ) -> Effect:
        """Average expected outcome over the data, some columns set to each of some values.

        Parameters
        ----------
        at : dict, optional
            Values by column, ``{"age": [20, 40, 60], "region": ["a", "b"]}``; every combination
            gives an average. None leaves the data as they are.
        outcome, ordinary
            As in `effects`.

        Returns
        -------
        Effect

        Examples
        --------
        >>> import numpy as np, tvdbayes as tb
        >>> rng = np.random.default_rng(0)
        >>> age = rng.integers(2, 6, 2000)
        >>> data = {"visits": rng.poisson(np.exp(0.3 * age)), "age": age}
        >>> fit = tb.fit("visits ~ age", data, n_draws=50)
        >>> found = fit.predictions({"age": [2, 5]})
        >>> found.names, found.estimate.round(1)  # the truth: 1.8 and 4.5
        (('age=2', 'age=5'), array([1.8, 4.5]))

        And the probability of no visit at all:

        >>> fit.predictions({"age": [2, 5]}, outcome=0).estimate.round(2)
        array([0.17, 0.01])
        """
        from tvdbayes.fitting.effects import predictions

        return predictions(self, at, outcome=outcome, ordinary=ordinary)

    def update(
        self,
        new: Data,
        *,
        n_draws: int | None = None,
        keep_rows: bool = True,
        n_jobs: int | None = None,
        device: str | None = None,
        resume: "Fit | None" = None,
        progress: bool | None = None,
    ) -> "Fit":
        """The fit to the rows of this one and new rows, which this one stays free of.

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
        >>> import numpy as np, tvdbayes as tb
        >>> y = np.random.default_rng(0).poisson(3, 300)
        >>> fit = tb.fit("y ~ 1", {"y": y[:200]}, n_draws=50)
        >>> both = fit.update({"y": y[200:]})
        >>> bool((both.draws == tb.fit("y ~ 1", {"y": y}, n_draws=50).draws).all())
        True
        """
        from tvdbayes.fitting.update import update

        return update(
            self,
            new,
            n_draws=n_draws,
            keep_rows=keep_rows,
            n_jobs=n_jobs,
            device=device,
            resume=resume,
            progress=progress,
        )

    def report(self, path: str | os.PathLike[str], *, title: str | None = None) -> None:
        """Write one self-contained HTML page about this fit, which must have coefficients.

        Parameters
        ----------
        path : str or path
            The file to write.
        title : str, optional
            What stands above; made from the formula unless given.

        Examples
        --------
        >>> import tempfile, tvdbayes as tb
        >>> from pathlib import Path
        >>> fit = tb.fit("y ~ 1", {"y": [0, 1, 1, 2, 2, 3, 30] * 10}, n_draws=50)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     fit.report(f"{folder}/fit.html", title="Visits, for the record")
        ...     page = Path(folder, "fit.html").read_text()
        >>> page[:15], "Visits, for the record" in page
        ('<!DOCTYPE html>', True)
        """
        self.posterior.require_coefficients(
            "for a report to be about", "check(), misfit(), effects() and the pictures of plot"
        )
        from tvdbayes.report import write_report

        write_report(self, path, title=title)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fit to a file, which `tvdbayes.load` reads; it holds no code and no pickle.

        Examples
        --------
        >>> import tempfile, tvdbayes as tb
        >>> fit = tb.fit("y ~ 1", {"y": [0, 1, 1, 2, 2, 3] * 10}, n_draws=20)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     fit.save(f"{folder}/fit.tvd")
        ...     again = tb.load(f"{folder}/fit.tvd")
        >>> bool((again.draws == fit.draws).all())
        True
        """
        from tvdbayes.fitting.files import save_fit

        save_fit(self, path)

    def to_arviz(self, *, by_row: bool | None = None, log_likelihood: bool = True) -> Any:
        """The draws for ArviZ, as the installed version takes them.

        ``arviz.loo`` assumes draws from a density that is proportional to a prior times the
        likelihood of all rows, and weighs them anew to leave one row out. Draws here are estimates
        on randomly weighted rows. For ``divergence="kld"`` and a model that holds the two are alike
        with many rows; robust draws hardly depend on wrong rows, and there ``arviz.loo`` only says
        how well the draws predict the rows that they were fitted to. `leave_one_out` fits again
        without each row, and needs no such assumption.

        It needs ``pip install 'tvdbayes[arviz]'``.

        Parameters
        ----------
        by_row : bool, optional
            Whether data and log-likelihood have an entry for each row, a row of weight 2 being two
            rows. If not, the data are by cell, ``constant_data.counts`` says how many rows each
            cell stands for, and there is no log-likelihood, since ArviZ would take a cell for one
            observation. Unless given it is by row, where weights are whole numbers and the
            log-likelihood takes at most 256 MiB.
        log_likelihood : bool
            Whether to compute it.

        Returns
        -------
        xarray.DataTree or arviz.InferenceData
            The latter with ArviZ before 1.0.

        Examples
        --------
        >>> import tvdbayes as tb
        >>> fit = tb.fit("y ~ 1", {"y": [0, 1, 1, 2, 2, 3] * 10}, n_draws=20)
        >>> tree = fit.to_arviz()
        >>> dict(tree["posterior"]["beta"].sizes)
        {'chain': 1, 'draw': 20, 'parameter': 1}
        >>> "beta_kld" in tree["posterior"]  # the ordinary twin
        True
        >>> dict(tree["log_likelihood"]["y"].sizes)
        {'chain': 1, 'draw': 20, 'row': 60}
        """
        from tvdbayes.results.tree import for_arviz, to_tree

        made = to_tree(
            self.posterior,
            by_row=by_row,
            cell_of_row=self.cell_of_row,
            log_likelihood=log_likelihood,
            attrs={"formula": self.formula},
        )
        return for_arviz(made)

    def __repr__(self) -> str:
        return f"{self.formula}\n{self.posterior!r}"

    def _repr_html_(self) -> str:
        return f"<p><code>{escape(self.formula)}</code></p>{self.posterior._repr_html_()}"


def fit_of(found: Survey, posterior: Posterior, options: Options) -> Fit:
    """The draws, with what is known of the data, and the options that were given."""
    encoded = found.encoded
    return Fit(
        replace(posterior, options=options.kept(n_draws=posterior.n_draws)),
        found.formula,
        encoded.spec,
        found.cell_of_row,
        found.data,
        encoded.more,
        found.left_out,
    )
