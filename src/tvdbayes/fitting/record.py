"""What `fit` returns: the posterior, how the data were encoded, and answers from both."""

import os
from dataclasses import dataclass
from html import escape
from typing import Any

from tvdbayes.fitting.files import forms_of
from tvdbayes.fitting.plot import PlotAnswers
from tvdbayes.fitting.predictions import PredictionAnswers
from tvdbayes.fitting.story import ReportAnswers
from tvdbayes.fitting.update import UpdateAnswers
from tvdbayes.models.families import AbstractFamily
from tvdbayes.results.tree import for_arviz, to_tree
from tvdbayes.sampling.posterior import Posterior
from tvdbayes.sampling.summary import IntervalKind, Summary
from tvdbayes.storage import read_record, write_record


@dataclass(frozen=True, eq=False, repr=False)
class Fit(PlotAnswers, ReportAnswers, PredictionAnswers, UpdateAnswers):
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
    >>> import tvdbayes as tb
    >>> fit = tb.fit("visits ~ age + region", tb.example_data(), n_draws=50)
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

        Examples
        --------
        >>> import tvdbayes as tb
        >>> fit = tb.fit("visits ~ age + region", tb.example_data(wrong=0.1), n_draws=50)
        >>> table = fit.summary()
        >>> for name in ("low", "high", "kld_low", "kld_high"):
        ...     print(f"{name:<8} {table[name][1]:.2f}")  # of age; the truth: 0.3
        low      0.28
        high     0.35
        kld_low  0.11
        kld_high 0.23
        """
        return self.posterior.summary(interval, kind=kind, rope=rope)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fit to a file, which `tvdbayes.load` reads; it holds no code and no pickle.

        Examples
        --------
        >>> import tempfile, tvdbayes as tb
        >>> fit = tb.fit("visits ~ age", tb.example_data(), n_draws=8)
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
        >>> tree = tb.fit("visits ~ age", tb.example_data(), n_draws=20).to_arviz()
        >>> dict(tree["posterior"]["beta"].sizes)
        {'chain': 1, 'draw': 20, 'parameter': 2}
        >>> "beta_kld" in tree["posterior"]  # the ordinary twin
        True
        >>> dict(tree["log_likelihood"]["y"].sizes)
        {'chain': 1, 'draw': 20, 'row': 1000}
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
    >>> import tempfile, tvdbayes as tb
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     tb.fit("visits ~ age", tb.example_data(), n_draws=8).save(f"{folder}/fit.tvd")
    ...     tb.load(f"{folder}/fit.tvd").param_names
    ('Intercept', 'age')
    """
    record: Fit | Posterior = read_record(path, forms_of(Fit), family=family)
    return record
