"""How well a fit describes its data, how well it predicts rows, also held out; and for ArviZ."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from tvdbayes._errors import SettingsError
from tvdbayes._typing import Array
from tvdbayes.data.sources import Data, open_data
from tvdbayes.fitting.misfit import levels_of
from tvdbayes.fitting.predictions import new_cells
from tvdbayes.results.base import AbstractFit, needs_rows, require_rows
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
from tvdbayes.results.scores import HeldOut, Scores, cross_validate, leave_one_out, score
from tvdbayes.results.tree import for_arviz, to_tree
from tvdbayes.sampling.execution import progress_bar


class GoodnessAnswers(AbstractFit):
    """Methods of `Fit` that set the data beside what the model expects.

    ``ordinary`` asks the likelihood fit; ``level``, where outcomes are names, is the one whose
    probability is meant, the last unless given.
    """

    @needs_rows
    def rootogram(self, interval: float = 0.9, *, ordinary: bool = False) -> Rootogram:
        """How often each outcome was seen, and how often the model expects it.

        Examples
        --------
        >>> import tvdbayes as tb
        >>> fit = tb.fit("visits ~ age + region", tb.example_data(wrong=0.1), n_draws=50)
        >>> bars = fit.rootogram()
        >>> for label, seen, expected in list(zip(bars.labels, bars.observed, bars.expected))[:3]:
        ...     print(f"{label}: {seen:.0f} seen, {expected:.0f} expected")
        0: 119 seen, 138 expected
        1: 208 seen, 229 expected
        2: 207 seen, 221 expected
        """
        robust = rootogram(self.posterior, interval)
        return rootogram(self.posterior.twin, interval, like=robust) if ordinary else robust

    @needs_rows
    def calibration(
        self, n_bins: int = 10, *, level: str | None = None, ordinary: bool = False
    ) -> Calibration:
        """Predicted probabilities or means in bins of rows, beside what was seen there.

        Bins have about equal weight. Of the robust fit only the rows that it has not dropped are
        shown, of the likelihood fit all. `level` is as in `observed`.

        Examples
        --------
        >>> import tvdbayes as tb
        >>> fit = tb.fit("visits ~ age + region", tb.example_data(), n_draws=50)
        >>> bins = fit.calibration(2)
        >>> bins.predicted.round(1), bins.observed.round(1)
        (array([1.5, 3.2]), array([1.5, 3.2]))
        """
        return calibration(self._side(ordinary), n_bins, level)

    @needs_rows
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

    @needs_rows
    def residuals(
        self, *, seed: int | np.random.Generator | None = None, ordinary: bool = False
    ) -> Array:
        """Randomised quantile residuals of the rows, (n,): normal if the model is right.

        Examples
        --------
        >>> import tvdbayes as tb
        >>> fit = tb.fit("visits ~ age + region", tb.example_data(wrong=0.1), n_draws=50)
        >>> residuals = fit.residuals()
        >>> bool((residuals[:100] > 3).all()), round(float(residuals[100:].std()), 1)
        (True, 1.0)
        """
        return quantile_residuals(self._side(ordinary), self.cell_of_row, seed)

    @needs_rows
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
            Whether to look at the likelihood fit.

        Examples
        --------
        >>> import tvdbayes as tb
        >>> fit = tb.fit("visits ~ age + region", tb.example_data(), n_draws=50)
        >>> found = fit.observed("region")
        >>> for region, seen, expected in zip(found.labels, found.observed, found.expected):
        ...     print(f"{region}: {seen:.1f} seen, {expected:.1f} expected")
        north: 3.1 seen, 3.1 expected
        south: 1.7 seen, 1.7 expected
        """
        names, of_cells, _ = levels_of(self, by)
        if ((of_cells != 0).sum(0) > 1).any():
            raise SettingsError(
                "observed(by=) needs a column of the formula: rows with the same covariates and "
                "outcome must be in one level."
            )
        return observed_by_group(self._side(ordinary), of_cells.argmax(0), tuple(names), level)

    def score(self, new: Data | None = None, *, ordinary: bool = False) -> Scores:
        """Proper scores, and beside them the paper's, of new rows or of those of the fit.

        New rows have all columns that the fit used: the outcome, those of the formula, and those
        named by ``weights=`` and ``sampling_weights=``. A weight of 2 counts as the row twice, and
        scores with sampling weights are means over the population, of new rows as of those of the
        fit. To count each new row once, add the column with ones. Scores of the rows of the fit
        are a little too good.

        Examples
        --------
        Wrong rows should not judge, so score rows that are known to be good:

        >>> import tvdbayes as tb
        >>> fit = tb.fit("visits ~ age + region", tb.example_data(wrong=0.1), n_draws=50)
        >>> good = tb.example_data(seed=1)
        >>> robust, likelihood = fit.score(good), fit.score(good, ordinary=True)
        >>> print(f"robust {robust.log:.2f}, likelihood {likelihood.log:.2f}")
        robust 1.75, likelihood 2.33
        """
        posterior = self._side(ordinary)
        if new is None:
            require_rows(self, "score() without new rows")
            return score(posterior)
        return score(posterior, new_cells(self, open_data(new)))

    @needs_rows
    def leave_one_out(self, *, n_draws: int = 200) -> HeldOut:
        """Scores of each row by the fit to all others: one refit for each distinct row.

        Refits take so many draws each; scores are of the robust and of the likelihood fit.

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

    @needs_rows
    def cross_validate(self, n_folds: int = 10, *, n_draws: int = 200) -> HeldOut:
        """Scores of each row by the fit to the other folds; see `leave_one_out`.

        Examples
        --------
        Wrong rows are held out too, and a fit that follows them is rewarded for it; the ranked
        probability score is less at their mercy than the log score:

        >>> import tvdbayes as tb
        >>> fit = tb.fit("visits ~ age", tb.example_data(wrong=0.1), n_draws=50)
        >>> held_out = fit.cross_validate(3, n_draws=20)
        >>> print(f"robust {held_out.robust.rps:.1f}, likelihood {held_out.ordinary.rps:.1f}")
        robust 2.7, likelihood 3.0
        """
        with progress_bar(None, f"{n_folds} folds") as report:
            return cross_validate(self.posterior, n_folds, n_draws=n_draws, progress=report)

    @needs_rows
    def to_arviz(
        self,
        *,
        by_row: bool | None = None,
        log_likelihood: bool = True,
        posterior_predictive: bool = True,
        ordinary: bool = False,
    ) -> Any:
        """The draws for ArviZ, as the installed version takes them.

        The groups are ``posterior`` (``beta`` by parameter), ``likelihood_fit`` (the same of the
        likelihood fit on the same random weights), ``sample_stats`` (how each draw was found;
        ``status`` are codes of `Status`), ``observed_data``, ``constant_data``, and, by row,
        ``log_likelihood`` and ``posterior_predictive``. To compare both fits by a function that
        looks at one posterior, give it a tree of each: ``arviz.plot_forest``, ``arviz.compare``.

        ``arviz.loo`` assumes draws from a density that is proportional to a prior times the
        likelihood of all rows. Draws here are estimates on randomly weighted rows. For
        ``divergence="kld"`` and a model that holds the two are alike with many rows; robust draws
        hardly depend on wrong rows, and there ``arviz.loo`` only says how well the draws predict
        rows that they were fitted to. `leave_one_out` fits again without each row.

        It needs ``pip install 'tvdbayes[arviz]'``.

        Parameters
        ----------
        by_row : bool, optional
            Whether data and log-likelihood have an entry for each row, a row of weight 2 being two
            rows. If not, the data are by cell, ``constant_data.counts`` says how many rows each
            cell stands for, and there are no log-likelihood and no new outcomes, since ArviZ would
            take a cell for one observation. Unless given it is by row, where weights are whole
            numbers and the log-likelihood takes at most 256 MiB.
        log_likelihood : bool
            Whether to compute it.
        posterior_predictive : bool
            Whether to sample a new outcome of each row under each draw, as `sample` does.
        ordinary : bool
            Whether the tree is that of the likelihood fit.

        Returns
        -------
        xarray.DataTree, or arviz.InferenceData with ArviZ before 1.0

        Examples
        --------
        >>> import tvdbayes as tb
        >>> tree = tb.fit("visits ~ age", tb.example_data(), n_draws=20).to_arviz()
        >>> tree["likelihood_fit"]["beta"].sizes == tree["posterior"]["beta"].sizes
        True
        >>> dict(tree["log_likelihood"]["y"].sizes)
        {'chain': 1, 'draw': 20, 'row': 1000}
        """
        made = to_tree(
            self._side(ordinary),
            by_row=by_row,
            cell_of_row=self.cell_of_row,
            log_likelihood=log_likelihood,
            posterior_predictive=posterior_predictive,
            attrs={"formula": self.formula},
        )
        return for_arviz(made)
