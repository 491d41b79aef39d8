"""Proper scores of a fit, on its own rows, on new ones, and on rows held out."""

from tvdbayes.data.sources import Data, open_data
from tvdbayes.fitting.base import AbstractFit
from tvdbayes.fitting.predictions import new_cells
from tvdbayes.fitting.progress import progress_bar
from tvdbayes.results import HeldOut, cross_validate, leave_one_out
from tvdbayes.results.scores import Scores, score

__all__ = ["ScoreAnswers"]


class ScoreAnswers(AbstractFit):
    """Methods of `Fit` that score its predictions."""

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
        posterior = self._side(ordinary)
        if new is None:
            return score(posterior)
        return score(posterior, new_cells(self, open_data(new)))

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
