"""What `fit` returns: the posterior, how the data were encoded, and answers from both."""

import os
from dataclasses import dataclass, replace
from html import escape
from typing import Any

from tvdbayes.data.sources import Data
from tvdbayes.fitting.check import CheckAnswers
from tvdbayes.fitting.effects import EffectAnswers
from tvdbayes.fitting.files import forms_of
from tvdbayes.fitting.goodness import GoodnessAnswers
from tvdbayes.fitting.plot import PlotAnswers
from tvdbayes.fitting.predictions import PredictionAnswers
from tvdbayes.fitting.rows import RowAnswers
from tvdbayes.fitting.scores import ScoreAnswers
from tvdbayes.fitting.sensitivity import SensitivityAnswers
from tvdbayes.fitting.story import ReportAnswers
from tvdbayes.formula.survey import Survey
from tvdbayes.models.families import AbstractFamily
from tvdbayes.results.tree import for_arviz, to_tree
from tvdbayes.sampling.options import Options
from tvdbayes.sampling.posterior import Posterior
from tvdbayes.sampling.summary import IntervalKind, Summary
from tvdbayes.storage import read_record, write_record

__all__ = ["Fit", "fit_of", "load"]


@dataclass(frozen=True, eq=False, repr=False)
class Fit(
    PlotAnswers,
    ReportAnswers,
    EffectAnswers,
    GoodnessAnswers,
    RowAnswers,
    SensitivityAnswers,
    CheckAnswers,
    PredictionAnswers,
    ScoreAnswers,
):
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
        write_record(self, path, forms_of(Fit))

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
    return Fit(
        replace(posterior, options=options.kept(n_draws=posterior.n_draws)),
        found.formula,
        found.design.encoding,
        found.cell_of_row,
        found.data,
        found.design.more_encodings,
        found.left_out,
    )


def load(path: str | os.PathLike[str], *, family: AbstractFamily | None = None) -> Fit | Posterior:
    """Read what `Fit.save` has written, bit for bit.

    Parameters
    ----------
    path : str or path
        A stranger's file can be opened: it holds no code, and nothing in it is run. A file that
        was cut, altered, or written by a later version raises `StorageError`.
    family : AbstractFamily, optional
        The law that the fit was made with, where that is a `CustomFamily`: functions are not
        written to files.

    Returns
    -------
    Fit or Posterior
        The latter where `tvdbayes.storage.save` has written one.

    Examples
    --------
    >>> import tempfile, numpy as np, tvdbayes as tb
    >>> y = np.random.default_rng(0).poisson(3, 100)
    >>> fit = tb.fit("y ~ 1", {"y": y}, n_draws=8)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     fit.save(f"{folder}/fit.tvd")
    ...     again = tb.load(f"{folder}/fit.tvd")
    >>> bool((again.draws == fit.draws).all())
    True
    """
    record: Fit | Posterior = read_record(path, forms_of(Fit), family=family)
    return record
