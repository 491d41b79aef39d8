"""What can go wrong, one class per stage; every error of ours is a `TVDBayesError`.

A message says what was wrong, what was got and what to do, in the user's own words.
"""

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tvdbayes._typing import BoolArray, IntArray


class TVDBayesError(ValueError):
    """The root of every error that this package raises on purpose.

    It is a `ValueError`. A message says what was wrong, what was got and what to do.

    Examples
    --------
    One ``except`` is enough for all of them:

    >>> import tvdbayes as tb
    >>> try:
    ...     tb.fit("visits ~ agee", tb.example_data())
    ... except tb.TVDBayesError as error:
    ...     print(f"{type(error).__name__}: {error}")
    FormulaError: The data have no column 'agee', which the formula names. Did you mean
    'age'? Columns: age, region, visits, ill.
    """


class DataError(TVDBayesError):
    """Rows, weights or shapes that cannot be used.

    Examples
    --------
    >>> import tvdbayes as tb
    >>> tb.fit("y ~ 1", {"y": [1, 2, None]})
    Traceback (most recent call last):
        ...
    tvdbayes._errors.DataError: Every value of 'y' must be a finite number; 1 of 3 is not (first:
    nan in row 2). Drop or repair these rows first, or pass missing="drop" to leave out rows with
    gaps.
    """


class FamilyError(TVDBayesError):
    """Outcomes that a family cannot produce, or a family that does not exist.

    Examples
    --------
    >>> import tvdbayes as tb
    >>> tb.fit("y ~ 1", {"y": [1, 2, -1]}, family="poisson")
    Traceback (most recent call last):
        ...
    tvdbayes._errors.FamilyError: Poisson needs whole outcomes of at least 0; 1 of 3 is not (first:
    -1.0 in row 2). Check the outcome column (round it if it should be whole), or choose another
    family.
    """


class FormulaError(TVDBayesError):
    """A formula that cannot be read, or that asks for more than columns and known functions.

    Examples
    --------
    A formula is not Python code, so one from a stranger cannot do harm:

    >>> import tvdbayes as tb
    >>> tb.fit("y ~ open('secrets')", {"y": [1, 2, 3]})
    Traceback (most recent call last):
        ...
    tvdbayes._errors.FormulaError: ...
    """


class SettingsError(TVDBayesError):
    """An option outside its range.

    Examples
    --------
    >>> import tvdbayes as tb
    >>> tb.fit("y ~ 1", {"y": [1, 2, 3]}, divergence="l2")
    Traceback (most recent call last):
        ...
    tvdbayes._errors.SettingsError: There is no divergence 'l2'. Choose from tvd, hellinger,
    power, kld, density_power.
    """


class StorageError(TVDBayesError):
    """A file that cannot be read back, or something that cannot be saved.

    Examples
    --------
    >>> import tvdbayes as tb
    >>> tb.load("nowhere.tvd")
    Traceback (most recent call last):
        ...
    tvdbayes._errors.StorageError: There is no file 'nowhere.tvd'. Check the name and the working
    directory.
    """


class MemoryBudgetError(TVDBayesError):
    """Work that would need more memory than it was given.

    Examples
    --------
    >>> import tvdbayes as tb
    >>> cells = tb.Cells.from_rows([[1]] * 50, range(50))
    >>> tb.posterior_bootstrap(tb.Model(tb.Poisson()), cells, memory_budget=1 << 20)
    Traceback (most recent call last):
        ...
    tvdbayes._errors.MemoryBudgetError: One block of draws needs about ... MiB, above the budget of
    1 MiB. Raise memory_budget, or coarsen the covariates so that more rows share a cell.
    """


class Interrupted(KeyboardInterrupt):
    """Work that was stopped by hand. What was done is in `partial`; ``resume=`` goes on from it.

    Parameters
    ----------
    message : str
        How far the work was.
    partial : Fit or Posterior
        The finished draws.
    kept : str
        What is left of them in files.

    Examples
    --------
    Somebody presses Ctrl-C after the first block of draws. Nothing is lost, and the draws are the
    same as if nobody had:

    >>> import numpy as np, tvdbayes as tb
    >>> def ctrl_c(done, in_all):
    ...     raise KeyboardInterrupt
    >>> cells = tb.Cells.from_rows(np.ones((60, 1)), [0, 1, 1, 2, 2, 3] * 10)
    >>> model = tb.Model(tb.Poisson())
    >>> try:
    ...     fit = tb.posterior_bootstrap(model, cells, n_draws=1500, progress=ctrl_c)
    ... except tb.Interrupted as stopped:
    ...     partial = stopped.partial
    >>> partial.n_draws
    1024
    >>> tb.posterior_bootstrap(model, cells, n_draws=1500, resume=partial).n_draws
    1500
    """

    def __init__(self, message: str, partial: Any, kept: str = "nothing was written") -> None:
        super().__init__(message)
        self.partial = partial
        self.kept = kept


class TVDBayesWarning(UserWarning):
    """The root of every warning of this package.

    Examples
    --------
    All of them can be silenced at once, or, with "error", made errors:

    >>> import warnings, tvdbayes as tb
    >>> with warnings.catch_warnings(action="ignore", category=tb.TVDBayesWarning):
    ...     fit = tb.fit("y ~ 1", {"y": [1, 2, None] * 20}, missing="drop", n_draws=10)
    >>> fit.n_left_out
    20
    """


class BoundaryWarning(TVDBayesWarning):
    """A dispersion, an inflation or a level that the data do not show.

    Examples
    --------
    These counts vary less than Poisson counts, so there is no overdispersion to be found; the
    answer is ``family="poisson"``:

    >>> import warnings, tvdbayes as tb
    >>> with warnings.catch_warnings(record=True, action="always") as heard:
    ...     fit = tb.fit("y ~ 1", {"y": [2, 3, 4] * 20}, family="negativebinomial", n_draws=0)
    >>> print(heard[0].message)
    'dispersion:Intercept' ended at -...: the data drive it to -infinity (no inflation, no
    overdispersion, an unseen level). A simpler family fits as well; its interval means nothing.
    """


class CoarseWarning(TVDBayesWarning):
    """Rounding in an engine moves the answer by as much as its uncertainty.

    Examples
    --------
    Two bins are too few for a continuous column; more bins in ``grid=`` end the warning:

    >>> import warnings, numpy as np, tvdbayes as tb
    >>> x = np.random.default_rng(0).normal(size=2000)
    >>> data = {"x": x, "y": x + np.random.default_rng(1).logistic(size=2000) > 0}
    >>> with warnings.catch_warnings(record=True) as heard:
    ...     warnings.simplefilter("always", tb.CoarseWarning)
    ...     fit = tb.fit("y ~ x", data, family="bernoulli", engine="duckdb", grid=2, n_draws=20)
    >>> heard[0].category.__name__
    'CoarseWarning'
    """


class CollinearWarning(TVDBayesWarning):
    """Columns that others already determine were left out, as asked.

    Examples
    --------
    >>> import warnings, numpy as np, tvdbayes as tb
    >>> cm = np.arange(80) % 4
    >>> data = {"y": np.arange(80) % 3, "cm": cm, "inch": cm / 2.54}
    >>> with warnings.catch_warnings(record=True, action="always") as heard:
    ...     fit = tb.fit("y ~ cm + inch", data, collinear="drop", n_draws=10)
    >>> print(heard[0].message)
    The other columns already determine 'inch'; left out.
    >>> fit.left_out
    ('inch',)
    """


class ConvergenceWarning(TVDBayesWarning):
    """Some draws did not reach the requested accuracy; `status` says which.

    Rare, but for networks that were trained too briefly.

    Examples
    --------
    A job that nobody watches may rather stop. Where the warning stays one, the draws in question
    can be told from the others:

    >>> import warnings, tvdbayes as tb
    >>> with warnings.catch_warnings(action="error", category=tb.ConvergenceWarning):
    ...     fit = tb.fit("y ~ 1", {"y": [0, 1, 1, 2] * 20}, n_draws=20)
    >>> certified = fit.draws[fit.status == tb.Status.CONVERGED]
    >>> len(certified)
    20
    """


class SeparationWarning(TVDBayesWarning):
    """Some draws have their optimum at infinity; the search was bounded.

    Examples
    --------
    Nobody in group "a" said yes, so its log odds are minus infinity. The slope of the closest model
    is kept finite by a small ridge; the likelihood fit is not:

    >>> import warnings, tvdbayes as tb
    >>> data = {"yes": [0] * 20 + [0, 1] * 20, "group": ["a"] * 20 + ["b"] * 40}
    >>> with warnings.catch_warnings(record=True, action="always") as heard:
    ...     fit = tb.fit("yes ~ group", data, family="bernoulli", refine=None, n_draws=10)
    >>> print(heard[0].message)
    Some coefficients have their optimum at infinity (the covariates separate the outcomes, or a
    rate is 0). A ridge of 0.0001 on the linear predictor keeps them finite; intercepts are not
    penalised. Pass ridge= to choose another.
    """


class SmallGroupsWarning(TVDBayesWarning):
    """Too few rows share a covariate value for the answer to be free of bias.

    Examples
    --------
    Twenty values of x for a hundred rows, and `partition="auto"`, which would group them, was
    overruled in plain TVD:

    >>> import warnings, numpy as np, tvdbayes as tb
    >>> data = {**tb.example_data(100), "x": np.arange(100) % 20}
    >>> with warnings.catch_warnings(record=True, action="always") as heard:
    ...     fit = tb.fit("visits ~ x", data, partition="distinct", refine=None, n_draws=10)
    >>> print(heard[0].message)
    Half of the rows are compared in groups of fewer than 12 rows (median group: 5). With so few,
    slopes are too steep and rates too low even on clean data, here by about 12.0%. Use the
    partition "auto", or fewer or coarser covariates.
    """


class TooFewRowsWarning(TVDBayesWarning):
    """Fewer groups of rows than the number of parameters asks for.

    Examples
    --------
    Plain TVD needs rows where covariates do not repeat: `tvdbayes.plan.groups` says how many. The
    default does not:

    >>> import warnings, numpy as np, tvdbayes as tb
    >>> data = {**tb.example_data(40), "x": np.random.default_rng(0).normal(size=40)}
    >>> with warnings.catch_warnings(record=True, action="always") as heard:
    ...     fit = tb.fit("visits ~ x", data, refine=None, n_draws=10)
    >>> print(str(heard[0].message).split(";")[0])
    40 rows make 2.5 groups for 2 parameters
    >>> tb.plan.groups(2).rows
    96
    """


class WildValueWarning(TVDBayesWarning):
    """A covariate or outcome with values far outside the others.

    Examples
    --------
    A code for "unknown" that was taken for an income:

    >>> import warnings, numpy as np, tvdbayes as tb
    >>> income = np.array([2.1, 2.4, 3.0, 999999999.0] * 25)
    >>> data = {"y": np.arange(100) % 3, "income": income}
    >>> with warnings.catch_warnings(record=True, action="always") as heard:
    ...     fit = tb.fit("y ~ income", data, n_draws=10)
    >>> print(heard[0].message)
    The column 'income' ranges from 2.1 to 1e+09, but half of it lies between 2.1 and 3. Look for
    wrong units or typing errors.
    """


class MissingRowsWarning(TVDBayesWarning):
    """Rows with gaps were left out, as asked.

    Examples
    --------
    >>> import warnings, tvdbayes as tb
    >>> with warnings.catch_warnings(record=True, action="always") as heard:
    ...     fit = tb.fit("y ~ 1", {"y": [1, 2, None, 3] * 10}, missing="drop", n_draws=10)
    >>> print(heard[0].message)
    10 of 40 rows have a gap in a column that is used and were left out.
    """


def listing(wrong: BoolArray, values: Any, unit: str, numbers: IntArray | None = None) -> str:
    """Say how many are wrong and name the first: ``3 of 400 are not (first: -1.0 in row 17)``.

    ``numbers`` are what rows are called, where that is not their position.
    """
    first = int(wrong.argmax())
    value = values[first]
    called = first if numbers is None else int(numbers[first])
    verb = "is" if int(wrong.sum()) == 1 else "are"
    return f"{int(wrong.sum())} of {wrong.size} {verb} not (first: {value} in {unit} {called})"


def first_line(error: BaseException) -> str:
    """What a parser, an engine or the system says, without its own prefix and full stop."""
    text = str(getattr(error, "strerror", None) or error).strip() or type(error).__name__
    return text.splitlines()[0].removeprefix("Error tokenizing data. C error: ").rstrip(".")


def warn(message: str, category: type[TVDBayesWarning]) -> None:
    """Warn at the line outside this package that called into it, however deep this is."""
    level = 1
    # A decorated function of this package is called by contextlib.
    while (
        sys._getframe(level).f_globals.get("__name__", "").startswith(("tvdbayes.", "contextlib"))
    ):
        level += 1
    warnings.warn(message, category, stacklevel=level + 1)


@contextmanager
def hearing() -> Iterator[list[str]]:
    """Collect what this package warns of, until the block ends; other warnings are shown then."""
    messages: list[str] = []
    with warnings.catch_warnings(record=True, action="always", category=TVDBayesWarning) as heard:
        yield messages
    for one in heard:
        if issubclass(one.category, TVDBayesWarning):
            messages.append(str(one.message))
        else:
            warnings.showwarning(one.message, one.category, one.filename, one.lineno)
