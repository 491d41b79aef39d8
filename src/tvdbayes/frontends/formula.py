"""The main door: a formula and a data frame in, a fit out."""

import warnings
from numbers import Real
from typing import Literal, TypeVar

import numpy as np
import pandas as pd
from formulaic import ModelSpec

from tvdbayes._errors import (
    DataError,
    FamilyError,
    FormulaError,
    SettingsError,
    WildValueWarning,
    listing,
)
from tvdbayes._typing import Array
from tvdbayes.bootstrap import posterior_bootstrap
from tvdbayes.cells import Cells, compress
from tvdbayes.divergences import KLD, TVD, AbstractDivergence, DensityPower, Hellinger
from tvdbayes.families import (
    AbstractFamily,
    AbstractLink,
    Bernoulli,
    Binomial,
    Cloglog,
    Logit,
    Poisson,
    Probit,
)
from tvdbayes.frontends._fit import Fit
from tvdbayes.frontends._guard import Reading, read_formula
from tvdbayes.frontends._progress import progress_bar
from tvdbayes.model import Model
from tvdbayes.partitions import (
    AbstractPartition,
    Auto,
    Distinct,
    KMeansGroups,
    Singletons,
)
from tvdbayes.predictors import dependent_columns
from tvdbayes.weights import BaseMeasure, Prior

__all__ = ["fit"]

Part = TypeVar("Part")

_LINKS: dict[str, AbstractLink] = {"logit": Logit(), "probit": Probit(), "cloglog": Cloglog()}
_DIVERGENCES: dict[str, AbstractDivergence] = {
    d.name: d for d in (TVD(), KLD(), Hellinger(), DensityPower())
}
_PARTITIONS: dict[str, AbstractPartition] = {
    "auto": Auto(),
    "distinct": Distinct(),
    "kmeans": KMeansGroups(),
    "singletons": Singletons(),
}
_MOST_COLUMNS = 1000
_WILD_X = 1e8
_WILD_Y = 1e6


def fit(
    formula: str,
    data: pd.DataFrame | dict[str, object],
    *,
    family: str | AbstractFamily = "poisson",
    link: str | None = None,
    divergence: str | AbstractDivergence = "tvd",
    n_draws: int = 1000,
    seed: int = 0,
    offset: str | None = None,
    exposure: str | None = None,
    trials: str | int | None = None,
    weights: str | None = None,
    partition: str | AbstractPartition = "auto",
    alpha: float = 0.0,
    base_measure: Cells | BaseMeasure | None = None,
    n_atoms: int = 100,
    ridge: float | Literal["auto"] = "auto",
    n_jobs: int = 1,
    progress: bool | None = None,
) -> Fit:
    """Fit a model for a discrete outcome so that wrong rows do not drive it.

    Parameters
    ----------
    formula : str
        ``"outcome ~ terms"``; terms are columns and C, log, sqrt, poly, ... of columns.
    data : DataFrame or dict of columns
    family : str or AbstractFamily
        "poisson", "bernoulli" or "binomial".
    link : str, optional
        "log" for counts; "logit" (default), "probit" or "cloglog" otherwise.
    divergence : str or AbstractDivergence
        "tvd", "kld" (ordinary), "hellinger" or "density_power".
    n_draws, seed : int
        Posterior draws, and the seed that fixes them.
    offset, exposure : str, optional
        Column added to the linear predictor, or whose logarithm is.
    trials : str or int, optional
        Column, or number for all rows; needed by "binomial".
    weights : str, optional
        Column of frequency weights: a weight of 2 is that row twice.
    partition : str or AbstractPartition
        Which rows are compared together. "auto": those with equal x where these repeat, else an
        ensemble of groups of nearby x ("kmeans"). "singletons" is the paper's improper score.
    alpha, base_measure, n_atoms
        Dirichlet-process prior, see `Prior`; alpha = 0 is none.
    ridge : float or "auto"
        Penalty on squared standardised slopes.
    n_jobs : int
        Processes to use.
    progress : bool, optional
        Whether to show a bar; by default only on a terminal, after a second.

    Returns
    -------
    Fit

    Examples
    --------
    >>> import numpy as np, tvdbayes as tb
    >>> rng = np.random.default_rng(0)
    >>> visits = rng.poisson(3, 500)
    >>> visits[:50] += 15                                # a broken counter
    >>> fit = tb.fit("visits ~ 1", {"visits": visits})
    >>> bool(abs(np.exp(fit.estimate[0]) - 3) < 0.3)
    True
    """
    frame = _frame(data)
    reading = read_formula(formula, list(frame.columns))
    law = _family(family, link)
    divergence = _named(divergence, _DIVERGENCES, "divergence", AbstractDivergence)
    groups = _named(partition, _PARTITIONS, "partition", AbstractPartition)
    prior = _prior(alpha, base_measure, n_atoms)
    y = _column(frame, reading.outcome, "outcome")
    n_trials = _trials(frame, trials, law)
    counts = None if weights is None else _column(frame, weights, "weights")
    law.check_outcomes(y, n_trials)
    x, names, spec = _encode(reading, frame)
    made = compress(
        x,
        y,
        weights=counts,
        offset=_offset(frame, offset, exposure),
        trials=n_trials,
        names=names,
    )
    _check_table(made.cells, law, ridge)
    with progress_bar(progress, f"{n_draws} draws") as report:
        posterior = posterior_bootstrap(
            Model(law),
            made.cells,
            divergence=divergence,
            partition=groups,
            n_draws=n_draws,
            seed=seed,
            prior=prior,
            ridge=ridge,
            n_jobs=n_jobs,
            progress=report,
        )
    return Fit(posterior, formula, spec, made.cell_of_row)


def _frame(data: pd.DataFrame | dict[str, object]) -> pd.DataFrame:
    if not isinstance(data, pd.DataFrame | dict):
        raise DataError(
            f"The data must be a data frame or a dict of columns; got {type(data).__name__}."
        )
    try:
        frame = data if isinstance(data, pd.DataFrame) else pd.DataFrame(data)
    except (ValueError, TypeError) as error:
        raise DataError(f"The data must be columns of equal length: {error}") from error
    if not len(frame):
        raise DataError(
            "The data hold 0 rows. Check that they were read, and that filters left some."
        )
    repeated = frame.columns[frame.columns.duplicated()].unique()
    if len(repeated):
        raise DataError(
            f"Column names must be unique; {', '.join(map(repr, repeated))} comes more than once. "
            "Rename one of them."
        )
    return frame


def _column(frame: pd.DataFrame, name: str, what: str) -> Array:
    """A column of numbers without gaps."""
    if not isinstance(name, str):
        raise DataError(
            f"{what}= takes the name of a column; got {type(name).__name__}. Put the values into "
            "the data and pass their name."
        )
    if name not in frame.columns:
        raise DataError(
            f"{what} names {name!r}, which is no column of the data. "
            f"Columns: {', '.join(map(str, frame.columns))}."
        )
    column = frame[name]
    kind = column.dtype.kind if hasattr(column.dtype, "kind") else "O"
    if kind not in "biuf":
        raise DataError(
            f"The column {name!r} must hold numbers; got {column.dtype} "
            f"(first: {column.iloc[0]!r}). Convert it first."
        )
    values = column.to_numpy(dtype=float, na_value=np.nan)
    _require_finite(values, name)
    return values


def _require_finite(values: Array, name: str) -> None:
    wrong = ~np.isfinite(values)
    if wrong.any():
        raise DataError(
            f"Every value of {name!r} must be a finite number; {listing(wrong, values, 'row')}. "
            "Drop or repair these rows first."
        )


def _encode(reading: Reading, frame: pd.DataFrame) -> tuple[Array, tuple[str, ...], ModelSpec]:
    """Covariates, their names, and the spec that encodes new data the same way."""
    used = frame.loc[:, list(reading.columns)].copy(deep=False)
    for name in reading.columns:
        column = used[name]
        kind = getattr(column.dtype, "kind", "O")
        if kind in "biuf":
            _require_finite(column.to_numpy(dtype=float, na_value=np.nan), name)
        elif kind in "cmMV":
            raise DataError(
                f"The column {name!r} holds {column.dtype}, which is neither a number nor a "
                "category. Convert it first."
            )
        elif column.isna().any():
            missing = column.isna().to_numpy()
            raise DataError(
                f"The column {name!r} must have no gaps; "
                f"{listing(missing, column.to_numpy(dtype=object), 'row')}. "
                "Drop or repair these rows first."
            )
        else:
            # Text of every pandas flavour is a category; only plain objects are read as such.
            n_levels = column.nunique()
            if n_levels > _MOST_COLUMNS:
                raise FormulaError(
                    f"The column {name!r} has {n_levels:,} levels; at most {_MOST_COLUMNS} can be "
                    "encoded. Is it an identifier?"
                )
            if not isinstance(column.dtype, pd.CategoricalDtype):
                used[name] = column.astype(object)
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore", RuntimeWarning)
            matrix = reading.terms.get_model_matrix(
                used if len(used.columns) else frame.iloc[:, :1],
                context={"sqrt": np.sqrt, "log1p": np.log1p},
                output="numpy",
                na_action="ignore",
            )
        x = np.asarray(matrix, float)
    except Exception as error:
        # formulaic wraps whatever a transform raises; the user needs its words, not its type.
        raise FormulaError(f"The formula cannot be evaluated on these data: {error}") from error
    spec = matrix.model_spec
    names = tuple(map(str, spec.column_names))
    if not names:
        raise FormulaError("The formula has no terms. Write 1 for an intercept alone.")
    if len(names) > _MOST_COLUMNS:
        raise FormulaError(
            f"The formula makes {len(names)} columns; at most {_MOST_COLUMNS} are allowed. "
            "Is a numeric column coded as a category?"
        )
    empty = [str(term) for term, columns in spec.term_indices.items() if not len(columns)]
    if empty:
        raise FormulaError(
            f"The term {empty[0]!r} makes no column (a single level?). Leave it out."
        )
    for name, column in zip(names, x.T, strict=True):
        _require_finite(column, name)
    return x, names, spec


def _family(family: str | AbstractFamily, link: str | None) -> AbstractFamily:
    if isinstance(family, AbstractFamily):
        if link is not None:
            raise SettingsError(
                f"link={link!r} goes with a family given by name; give {type(family).__name__} "
                "its own link instead."
            )
        return family
    if not isinstance(family, str):
        raise FamilyError(f"family must be a name or a family such as Poisson(); got {family!r}.")
    if family == "poisson":
        if link not in (None, "log"):
            raise FamilyError(f'The family "poisson" has the link "log"; got {link!r}.')
        return Poisson()
    bounded = {"bernoulli": Bernoulli, "binomial": Binomial}
    if family not in bounded:
        raise FamilyError(
            f"There is no family {family!r}. Choose from poisson, {', '.join(bounded)}."
        )
    chosen = "logit" if link is None else link
    return bounded[family](_named(chosen, _LINKS, "link", AbstractLink))


def _named(value: str | Part, table: dict[str, Part], what: str, kind: type) -> Part:
    """Translate a name; anything else must already be the thing itself."""
    if isinstance(value, str):
        if value not in table:
            raise SettingsError(f"There is no {what} {value!r}. Choose from {', '.join(table)}.")
        return table[value]
    if not isinstance(value, kind):
        raise SettingsError(f"{what} must be one of {', '.join(table)}; got {value!r}.")
    return value


def _trials(frame: pd.DataFrame, trials: str | int | None, law: AbstractFamily) -> Array:
    if trials is None:
        if law.needs_trials:
            raise FamilyError(
                f"The family {law.name!r} needs trials=, a column or a number; it is never guessed "
                'from the data. For 0/1 outcomes use family="bernoulli".'
            )
        return np.ones(len(frame))
    if not law.needs_trials:
        raise SettingsError(
            f"The family {law.name!r} has no trials; got trials={trials!r}. "
            'Leave it out, or use family="binomial".'
        )
    if isinstance(trials, Real) and not isinstance(trials, bool):
        return np.full(len(frame), float(trials))
    return _column(frame, trials, "trials")  # type: ignore[arg-type]


def _offset(frame: pd.DataFrame, offset: str | None, exposure: str | None) -> Array | None:
    if exposure is None:
        return None if offset is None else _column(frame, offset, "offset")
    time = _column(frame, exposure, "exposure")
    if (time <= 0).any():
        raise DataError(
            f"The exposure {exposure!r} must be above 0; {listing(time <= 0, time, 'row')}. "
            "Drop rows without exposure."
        )
    return np.log(time) if offset is None else np.log(time) + _column(frame, offset, "offset")


def _prior(alpha: float, base_measure: Cells | BaseMeasure | None, n_atoms: int) -> Prior | None:
    if not (isinstance(alpha, Real) and alpha >= 0):
        raise SettingsError(f"alpha must be a number of at least 0; got {alpha!r}.")
    if alpha == 0:
        if base_measure is not None:
            raise SettingsError("A base_measure needs alpha above 0: how many rows it counts for.")
        return None
    if base_measure is None:
        raise SettingsError(
            f"alpha = {alpha} asks for a prior, so base_measure must be given: a table (Cells) or "
            "a function (rng, size) to (x, y)."
        )
    return Prior(alpha, base_measure, n_atoms)


def _check_table(cells: Cells, law: AbstractFamily, ridge: float | str) -> None:
    """Raise for data that cannot identify the coefficients; warn of wild values."""
    if cells.n_obs < 2:
        raise DataError("The data hold 1 sample (1 row of positive weight); at least 2 are needed.")
    if law.binary and np.ptp(cells.y) == 0:
        raise DataError(
            f"Every outcome is {cells.y[0]:g}; both 0 and 1 must occur to tell them apart."
        )
    dependent = dependent_columns(cells.x)
    if dependent and not (isinstance(ridge, Real) and ridge > 0):
        raise DataError(
            "The other columns already determine "
            f"{', '.join(repr(cells.names[j]) for j in dependent)} (constant, duplicated, an "
            f"unused level, or more columns than distinct rows: {cells.x.shape[1]} and "
            f"{cells.n_x}). Leave it out, or pass a ridge above 0."
        )
    for name, column in zip(cells.names, cells.x.T, strict=True):
        low, high = _quantiles(column, cells.x_counts, [0.25, 0.75])
        if high > low and np.ptp(column) > _WILD_X * (high - low):
            warnings.warn(
                f"The column {name!r} ranges from {column.min():g} to {column.max():g}, but half "
                f"of it lies between {low:g} and {high:g}. Look for wrong units or typing errors.",
                WildValueWarning,
                stacklevel=3,
            )
    (middle,) = _quantiles(cells.y, cells.counts, [0.5])
    if cells.y.max() > _WILD_Y * max(middle, 1):
        warnings.warn(
            f"The largest outcome is {cells.y.max():g}, the median {middle:g}. "
            "Look for wrong units or typing errors.",
            WildValueWarning,
            stacklevel=3,
        )


def _quantiles(values: Array, counts: Array, shares: list[float]) -> Array:
    return np.quantile(values, shares, weights=counts, method="inverted_cdf")
