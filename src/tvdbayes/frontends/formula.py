"""The main door: a formula and a data frame in, a fit out."""

import warnings
from typing import Literal, TypeVar

import numpy as np
import pandas as pd
from formulaic import Formula, ModelSpec

from tvdbayes._errors import (
    DataError,
    FamilyError,
    FormulaError,
    SettingsError,
    SmallGroupsWarning,
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
from tvdbayes.frontends._guard import read_formula
from tvdbayes.frontends._progress import progress_bar
from tvdbayes.model import Model
from tvdbayes.partitions import AbstractPartition, Distinct, Singletons, median_group_size
from tvdbayes.predictors import dependent_columns
from tvdbayes.weights import BaseMeasure, Prior

__all__ = ["fit"]

Part = TypeVar("Part")

_LINKS: dict[str, AbstractLink] = {"logit": Logit(), "probit": Probit(), "cloglog": Cloglog()}
_DIVERGENCES: dict[str, AbstractDivergence] = {
    d.name: d for d in (TVD(), KLD(), Hellinger(), DensityPower())
}
_PARTITIONS: dict[str, AbstractPartition] = {
    "auto": Distinct(),
    "distinct": Distinct(),
    "singletons": Singletons(),
}
_FEW_ROWS = 12
_MOST_COLUMNS = 1000


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
        Which rows are compared together: "auto", "distinct", "singletons".
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
    outcome, terms = read_formula(formula, list(frame.columns))
    law = _family(family, link)
    if trials is None and law.needs_trials:
        raise FamilyError(
            f"The family {law.name!r} needs trials=, a column or a number; it is never guessed "
            'from the data. For 0/1 outcomes use family="bernoulli".'
        )
    y = _column(frame, outcome)
    n_trials = np.ones(len(frame)) if trials is None else _trials(frame, trials)
    counts = None if weights is None else _column(frame, weights)
    law.check_outcomes(y, n_trials)
    x, names, spec = _encode(terms, frame)
    made = compress(
        x,
        y,
        weights=counts,
        offset=_offset(frame, offset, exposure),
        trials=n_trials,
        names=names,
    )
    _check_columns(made.cells)
    groups = _named(partition, _PARTITIONS, "partition")
    _check_groups(made.cells, groups)
    with progress_bar(progress, f"{n_draws} draws") as report:
        posterior = posterior_bootstrap(
            Model(law),
            made.cells,
            divergence=_named(divergence, _DIVERGENCES, "divergence"),
            partition=groups,
            n_draws=n_draws,
            seed=seed,
            prior=_prior(alpha, base_measure, n_atoms),
            ridge=ridge,
            n_jobs=n_jobs,
            progress=report,
        )
    return Fit(posterior, formula, spec, made.cell_of_row)


def _frame(data: pd.DataFrame | dict[str, object]) -> pd.DataFrame:
    try:
        frame = data if isinstance(data, pd.DataFrame) else pd.DataFrame(data)
    except (ValueError, TypeError) as error:
        raise DataError(
            f"The data must be a data frame or a dict of columns of equal length: {error}"
        ) from error
    if not len(frame):
        raise DataError(
            "The data hold 0 rows. Check that they were read, and that filters left some."
        )
    return frame


def _column(frame: pd.DataFrame, name: str) -> Array:
    """A column of numbers without gaps."""
    if name not in frame.columns:
        raise DataError(
            f"{name!r} is no column of the data. Columns: {', '.join(map(str, frame.columns))}."
        )
    column = frame[name]
    if not (pd.api.types.is_numeric_dtype(column) or pd.api.types.is_bool_dtype(column)):
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


def _encode(terms: Formula, frame: pd.DataFrame) -> tuple[Array, tuple[str, ...], ModelSpec]:
    """Covariates, their names, and the spec that encodes new data the same way."""
    for name in sorted({str(v) for v in terms.required_variables} & set(map(str, frame.columns))):
        column = frame[name]
        if pd.api.types.is_numeric_dtype(column):
            _require_finite(column.to_numpy(dtype=float, na_value=np.nan), name)
        elif column.isna().any():
            missing = column.isna().to_numpy()
            raise DataError(
                f"The column {name!r} must have no gaps; {listing(missing, missing, 'row')}. "
                "Drop or repair these rows first."
            )
    try:
        matrix = terms.get_model_matrix(
            frame, context={"sqrt": np.sqrt, "log1p": np.log1p}, output="numpy"
        )
    except Exception as error:
        # formulaic wraps whatever a transform raises; the user needs its words, not its type.
        raise FormulaError(f"The formula cannot be evaluated on these data: {error}") from error
    spec = matrix.model_spec
    if len(spec.column_names) > _MOST_COLUMNS:
        raise FormulaError(
            f"The formula makes {len(spec.column_names)} columns; at most {_MOST_COLUMNS} are "
            "allowed. Is a numeric column coded as a category?"
        )
    return np.asarray(matrix, float), tuple(spec.column_names), spec


def _family(family: str | AbstractFamily, link: str | None) -> AbstractFamily:
    if not isinstance(family, str):
        return family
    if family == "poisson":
        if link not in (None, "log"):
            raise FamilyError(f'The family "poisson" has the link "log"; got {link!r}.')
        return Poisson()
    bounded = {"bernoulli": Bernoulli, "binomial": Binomial}
    if family not in bounded:
        raise FamilyError(
            f"There is no family {family!r}. Choose from poisson, {', '.join(bounded)}."
        )
    return bounded[family](_named(link or "logit", _LINKS, "link"))


def _named(value: str | Part, table: dict[str, Part], what: str) -> Part:
    """Translate a name; anything else is already the thing itself."""
    if not isinstance(value, str):
        return value
    if value not in table:
        raise SettingsError(f"There is no {what} {value!r}. Choose from {', '.join(table)}.")
    return table[value]


def _trials(frame: pd.DataFrame, trials: str | int) -> Array:
    return _column(frame, trials) if isinstance(trials, str) else np.full(len(frame), float(trials))


def _offset(frame: pd.DataFrame, offset: str | None, exposure: str | None) -> Array | None:
    if exposure is None:
        return None if offset is None else _column(frame, offset)
    time = _column(frame, exposure)
    if (time <= 0).any():
        raise DataError(
            f"The exposure {exposure!r} must be above 0; {listing(time <= 0, time, 'row')}. "
            "Drop rows without exposure."
        )
    return np.log(time) if offset is None else np.log(time) + _column(frame, offset)


def _prior(alpha: float, base_measure: Cells | BaseMeasure | None, n_atoms: int) -> Prior | None:
    if not alpha >= 0:
        raise SettingsError(f"alpha must be at least 0; got {alpha}.")
    if alpha == 0:
        return None
    if base_measure is None:
        raise SettingsError(
            f"alpha = {alpha} asks for a prior, so base_measure must be given: a table (Cells) or "
            "a function (rng, size) to (x, y)."
        )
    return Prior(alpha, base_measure, n_atoms)


def _check_columns(cells: Cells) -> None:
    dependent = dependent_columns(cells.x)
    if dependent:
        raise DataError(
            "The other columns already determine "
            f"{', '.join(repr(cells.names[j]) for j in dependent)} (constant, duplicated, or more "
            f"columns than distinct rows: {cells.x.shape[1]} and {cells.n_x}). Leave it out."
        )


def _check_groups(cells: Cells, partition: AbstractPartition) -> None:
    size = median_group_size(cells, partition.group(cells))
    if size < _FEW_ROWS:
        warnings.warn(
            f"Half of the rows share their covariates with fewer than {_FEW_ROWS} rows (median "
            f"group: {size:g}). With so few, slopes are too steep and rates too low even on clean "
            "data. Use coarser covariates.",
            SmallGroupsWarning,
            stacklevel=3,
        )
