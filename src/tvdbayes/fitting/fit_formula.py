"""The main door: a formula and a data frame in, a fit out."""

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from tvdbayes.data.cells import Cells
from tvdbayes.data.grid import Grid
from tvdbayes.data.sources import Data
from tvdbayes.data.sql import MAX_CELLS
from tvdbayes.data.table import Missing
from tvdbayes.fitting.keywords import answered
from tvdbayes.fitting.record import Fit
from tvdbayes.fitting.run import fit_with
from tvdbayes.models.families import AbstractFamily
from tvdbayes.models.predictors import MLP
from tvdbayes.objective._kinds import AbstractDivergence
from tvdbayes.objective.partitions import AbstractPartition
from tvdbayes.sampling.options import OPTIONS, Options
from tvdbayes.sampling.weights import BaseMeasure


@answered
def fit(
    formula: str,
    data: Data,
    *,
    family: str | AbstractFamily = "poisson",
    link: str | None = None,
    success: str | float | None = None,
    divergence: str | AbstractDivergence = "tvd",
    n_draws: int = 1000,
    seed: int | np.random.Generator = 0,
    rng: int | np.random.Generator | None = None,
    offset: str | None = None,
    exposure: str | None = None,
    trials: str | int | None = None,
    weights: str | None = None,
    clusters: str | None = None,
    strata: str | None = None,
    sampling_weights: str | None = None,
    partition: str | AbstractPartition = "auto",
    alpha: float = 0.0,
    base_measure: Data | Cells | BaseMeasure | Literal["fit"] | None = None,
    n_atoms: int = 100,
    ridge: float | Literal["auto"] = "auto",
    bins: Sequence[float] | Literal["auto", "none"] = "auto",
    predictors: dict[str, str] | None = None,
    network: MLP | tuple[int, ...] | None = None,
    refine: Literal["auto", "trim", "reweight"] | None = "auto",
    missing: Missing = "error",
    zero_exposure: Missing = "error",
    collinear: Literal["error", "drop"] = "error",
    n_jobs: int | None = None,
    device: str | None = None,
    engine: Any = None,
    grid: Grid | int | None = None,
    max_cells: int = MAX_CELLS,
    resume: Fit | None = None,
    progress: bool | None = None,
) -> Fit:
    """Fit a model for a discrete outcome so that wrong rows do not drive it.

    Parameters
    ----------
    formula : str
        ``"outcome ~ terms"``; terms are columns and C, log, sqrt, poly, ... of columns;
        ``offset(log(years))`` is ``exposure="years"``, ``offset(z)`` is ``offset="z"``. Binomial
        outcomes may be written ``"successes / total ~ terms"``. Names may have dots; any other
        name goes into backticks, as in ``"y ~ log(`age (years)`)"``. Text is a category, but where
        it is numbers in the main, cells that are none are an error unless ``C()`` stands around it.
    data : data frame, dict of columns, path, Ibis table, or Dask DataFrame
        pandas, polars, pyarrow, ...; a path to a CSV or Parquet file. Several files (a folder, or
        a pattern such as ``"parts/*.parquet"``), files over 256 MiB or five million rows, and
        Ibis tables are grouped by an engine, which gives back distinct rows with counts
        (``pip install 'tvdbayes[sql]'``); a Dask DataFrame is grouped by Dask.
    family : str or AbstractFamily
        "poisson", "negativebinomial", "geometric", "discreteweibull", "compoisson",
        "generalizedpoisson", "bernoulli", "binomial",
        "betabinomial", "categorical", "ordinal"; "zero_inflated_X", "hurdle_X" or "truncated_X"
        around a count family X, or what other packages call these ("nb", "logit", "zip"); or a
        family such as ``Censored(Poisson(), 10)``.
    link : str, optional
        "log" for counts; "logit" (default), "probit" or "cloglog" otherwise.
    success : str or number, optional
        Which of the two answers of a "bernoulli" outcome that is text counts as 1; the second in
        the order of the levels (of the alphabet) unless given. `Fit.summary` says which it is.
    divergence : str or AbstractDivergence
        "tvd", "kld" (maximum likelihood), "hellinger", "power" or "density_power". What is done
        with it is `refine`.
    n_draws : int
        Posterior draws.
    seed, rng : int or numpy.random.Generator
        The seed that fixes the draws, by either name. A generator gives one, its next whole number
        below 2**53, which is kept: ``seed=fit.posterior.seed`` makes the same fit again.
    offset, exposure : str, optional
        Column added to the linear predictor, or whose logarithm is.
    trials : str or int, optional
        Column, or number for all rows; needed by "binomial".
    weights : str, optional
        Column of frequency weights: a weight of 2 is that row twice.
    clusters : str, optional
        Column of labels of rows that belong together, such as the visits of a patient: a draw gives
        each cluster one random weight, so that intervals allow for any dependence within clusters.
    strata : str, optional
        Column of labels of the strata that rows, or whole clusters, were drawn from.
    sampling_weights : str, optional
        Column of how many of the population each row stands for, above 0, on any scale.
    partition : str or AbstractPartition
        Which rows are compared together, to see which are too many. "auto": those with equal x
        where these repeat, else an ensemble of groups of nearby x ("kmeans"). "singletons" is the
        paper's improper score.
    alpha : float
        How many rows a Dirichlet-process prior counts for; 0 is no prior.
    base_measure : "fit", data, Cells or function
        What this prior expects to see. "fit", the default: outcomes of the likelihood fit at the
        covariates of the data. Data: rows in the same columns (a frame, dict or file). Cells, or a
        function that draws encoded rows: see `Prior`.
    n_atoms : int
        Rows that each draw sees of a function.
    ridge : float or "auto"
        Penalty on the variance of the linear predictor (intercepts are free); see
        `posterior_bootstrap`.
    bins : "auto", "none" or numbers
        Counts that are compared together, by the first of each bin; "auto" where they are thin.
    predictors : dict, optional
        Covariates of further predictors by name, as in ``{"inflation": "~ child"}``; dispersion,
        inflation and the like are constant otherwise.
    network : MLP or tuple of int, optional
        A network in place of a linear predictor: hidden layers of so many nodes, as in
        ``network=(50,)``, or an `MLP` with settings of its own. It is trained by JAX
        (``pip install 'tvdbayes[jax]'``), and has predictions and effects but no coefficients.
        Every draw is a network of its own: begin with ``n_draws=50``.
    refine : "auto", "trim", "reweight" or None
        "auto" is right for nearly everybody: "trim" for a linear predictor and "tvd", "reweight"
        for a network whose divergence compares groups, None otherwise. "trim" drops the rows that
        the model cannot explain (too many of an outcome in a group of nearby rows, too many in the
        tails of their own distributions, or a block of rows far out in the covariates that
        contradicts the others) and fits the rest by maximum likelihood; `Fit.summary` says which
        rows were used. See benchmarks/results/default.md for where it loses. None is the posterior
        of the paper, the model closest in total variation. "reweight" ends every draw of it with
        one-step reweighting: rows that the closest model cannot explain lose their weight, and
        maximum likelihood fits the rest.
    missing : str
        What to do with rows that have a gap in a column in use: "error", or "drop" with a warning.
    zero_exposure : str
        What to do with rows whose exposure is 0, or whose offset is minus infinity: "error", or
        "drop" with a warning; ``fit.data.n_unexposed`` counts them.
    collinear : str
        What to do with columns that others already determine: "error", or "drop" with a warning.
        A network has no coefficients that these would leave open, so it takes them as they are.
    n_jobs : int, optional
        Blocks of draws to compute at once: 1 is this process, -1 is one for each core. Left out, it
        is what a joblib context says (all of a cluster that it names), else 1; docs/clusters.md.
    device : str, optional
        "gpu" computes the draws on a graphics card by JAX (``pip install 'tvdbayes[jax]'``), which
        pays from about a hundred thousand rows of different x; "gpu:float32" in single precision.
    engine : "memory", "duckdb" or an Ibis connection, optional
        "memory" reads every row of a file, "duckdb" groups them first. With a connection, to
        PostgreSQL or Spark say, `data` is the name of a table there.
    grid : int or Grid, optional
        Let the engine round continuous columns, each to so many values, so that rows repeat and
        can be counted; `Fit.rounded` says what that does to the answer.
    max_cells : int
        Distinct rows that an engine or Dask may give back; more are refused.
    resume : Fit, optional
        Draws of the same fit that exist already: `Interrupted.partial` after Ctrl-C, or a loaded
        file. The result is the same bit for bit.
    progress : bool, optional
        Whether to show a bar; by default on a terminal or in a notebook, after a second, unless
        ``TVDBAYES_PROGRESS=0`` is in the environment.

    Examples
    --------
    >>> import tvdbayes as tb
    >>> data = tb.example_data(wrong=0.1)  # the true coefficients: 0, -0.5 and 0.3
    >>> fit = tb.fit("visits ~ region + age", data, n_draws=200)
    >>> fit.draws.mean(0).round(1), fit.kld_draws.mean(0).round(1)
    (array([-0.1, -0.5,  0.3]), array([ 1. , -0.4,  0.2]))

    Covariates, years at risk, and rows that stand for several:

    >>> data = {
    ...     "visits": [0, 1, 2, 3, 1, 4] * 40,
    ...     "years": [1, 1, 2, 2, 3, 3] * 40,
    ...     "smokes": ["no", "yes"] * 120,
    ...     "times": [1, 2, 1, 1, 2, 1] * 40,
    ... }
    >>> fit = tb.fit("visits ~ smokes", data, exposure="years", weights="times", n_draws=0)
    >>> fit.param_names
    ('Intercept', 'smokes[T.yes]')
    """
    given = locals()
    return fit_with(formula, data, Options(**{name: given[name] for name in OPTIONS}), Fit)
