"""Rows as scikit-learn hands them over: checked, with messages that name column and row."""

# ruff: noqa: N803 (scikit-learn calls the covariates X)

from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import (
    _check_sample_weight,
    check_consistent_length,
    check_is_fitted,
    column_or_1d,
    validate_data,
)

from tvdbayes._errors import DataError, TVDBayesWarning, listing, warn
from tvdbayes._typing import Array, BoolArray
from tvdbayes._validate import seed_of
from tvdbayes.data.cells import Cells, compress
from tvdbayes.data.sampling_units import Labels, SamplingUnits, relative_weights
from tvdbayes.models.families import AbstractFamily
from tvdbayes.models.predictors import dependent_columns

_NAMED_COLUMNS = 5


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows to fit.

    Parameters
    ----------
    x : (n, n_features)
    y : (n,)
    weights : (n,)
        How many times each row counts.
    names : tuple of str
        Of the columns of x.
    sampled : Sampled
        Which rows belong together, and what they stand for.
    offset : (n,), optional
        What is added to the linear predictor.
    """

    x: Array
    y: NDArray[Any]
    weights: Array
    names: tuple[str, ...]
    sampled: "Sampled"
    offset: Array | None = None

    def used(self) -> "Rows":
        """Those of positive weight: it is as if the others had never been there."""
        used = self.weights > 0
        of_rows = (self.x[used], self.y[used], self.weights[used])
        offset = None if self.offset is None else self.offset[used]
        return Rows(*of_rows, self.names, self.sampled.take(used), offset)

    def cells(self, design: Array, names: tuple[str, ...]) -> tuple[Cells, SamplingUnits | None]:
        """The table of these rows with columns (n, p), and what is exchangeable in it."""
        sampled, mass = self.sampled, self.weights
        relative = None
        if sampled.weights is not None:
            relative = relative_weights(self.weights, sampled.weights)
            mass = mass * relative
        made = compress(design, self.y, weights=mass, offset=self.offset, names=names)
        units = SamplingUnits.of_rows(
            made.cell_of_row,
            made.cells.n_cells,
            self.weights,
            clusters=sampled.labels("clusters"),
            strata=sampled.labels("strata"),
            weights=relative,
        )
        return made.cells, units


@dataclass(frozen=True, eq=False)
class Sampled:
    """How rows were sampled: labels (n,) of clusters and strata, and sampling weights (n,)."""

    clusters: NDArray[Any] | None = None
    strata: NDArray[Any] | None = None
    weights: Array | None = None

    @classmethod
    def of(cls, x: Array, **given: ArrayLike | None) -> "Sampled":
        """What was given to `fit`, checked."""
        found = {name: None if v is None else column_or_1d(v) for name, v in given.items()}
        for name, values in found.items():
            if values is not None:
                check_consistent_length(x, values)
                gaps = pd.isna(values)
                if gaps.any():
                    raise DataError(f"{name} must have no gaps; {listing(gaps, values, 'row')}.")
        weights = found.pop("sampling_weights")
        if weights is not None:
            weights = numbers(weights)
            wrong = ~((weights > 0) & np.isfinite(weights))
            if wrong.any():
                raise DataError(
                    "sampling_weights must be finite and above 0; "
                    f"{listing(wrong, weights, 'row')}. Leave out rows that stand for nobody."
                )
        return cls(found["clusters"], found["strata"], weights)

    def take(self, used: BoolArray) -> "Sampled":
        """Those of some rows."""
        parts = (self.clusters, self.strata, self.weights)
        return Sampled(*(part if part is None else part[used] for part in parts))

    def labels(self, name: str) -> Labels | None:
        """The labels of clusters or strata by number."""
        values = getattr(self, name)
        return None if values is None else Labels.of(pd.Series(values))


@dataclass(frozen=True, eq=False)
class Added:
    """What is added to the linear predictor of rows: an offset, the logarithm of an exposure."""

    offset: ArrayLike | None
    exposure: ArrayLike | None

    @property
    def given(self) -> tuple[str, ...]:
        """Which of them are there."""
        return tuple(name for name, value in vars(self).items() if value is not None)

    def to(self, x: Array) -> Array | None:
        """The sum for each of these rows, (n,), checked; None where nothing is added."""
        total = None
        for name in self.given:
            values = numbers(column_or_1d(getattr(self, name)), name)
            check_consistent_length(x, values)
            wrong = ~np.isfinite(values)
            if wrong.any():
                raise DataError(
                    f"{name} must hold finite numbers; {listing(wrong, values, 'row')}. "
                    "Drop or repair these rows first."
                )
            if name == "exposure":
                wrong = values <= 0
                if wrong.any():
                    raise DataError(
                        f"exposure must be above 0; {listing(wrong, values, 'row')}. "
                        "Drop or repair these rows first."
                    )
                values = np.log(values)
            total = values if total is None else total + values
        return total


def training_rows(
    estimator: BaseEstimator,
    X: ArrayLike,
    y: ArrayLike,
    sample_weight: ArrayLike | None,
    added: "Added",
    **sampling: ArrayLike | None,
) -> Rows:
    """Rows, outcomes and weights, checked as scikit-learn does."""
    _refuse_text(X)
    _require_known(y)
    x, outcome = validate_data(
        estimator,
        X,
        y,
        dtype=np.float64,
        ensure_all_finite=False,
        ensure_min_samples=2,
    )
    _require_finite(estimator, x)
    weights = weights_of(sample_weight, x)
    if weights.sum() < 2:
        raise DataError(
            f"sample_weight counts rows, but adds up to {weights.sum():g}; at least 2 are needed. "
            "Multiply weights that are shares by the number of rows."
        )
    names, sampled = _column_names(estimator), Sampled.of(x, **sampling)
    return Rows(x, outcome, weights, names, sampled, added.to(x))


def new_x(estimator: BaseEstimator, X: ArrayLike) -> Array:
    """Rows to predict, (n, n_features)."""
    check_is_fitted(estimator)
    _refuse_text(X)
    x: Array = validate_data(estimator, X, reset=False, dtype=np.float64, ensure_all_finite=False)
    _require_finite(estimator, x)
    return x


def weights_of(sample_weight: ArrayLike | None, rows: Array) -> Array:
    """How many times each row counts; 1 unless given."""
    weights: Array = _check_sample_weight(sample_weight, rows, dtype=np.float64)
    if (weights < 0).any():
        raise DataError(
            "sample_weight counts rows and must be at least 0; "
            f"{listing(weights < 0, weights, 'row')}."
        )
    if not weights.any():
        raise DataError("All weights are zero, so no row is left. Give some a positive weight.")
    return weights


def numbers(y: NDArray[np.generic], name: str = "y") -> Array:
    """Outcomes, or what else is given by row, as numbers; text like numbers is refused."""
    numeric = y.dtype.kind in "biuf"
    if not numeric and not (y.dtype == object and all(isinstance(one, Real) for one in y)):
        raise DataError(
            f"{name} must hold numbers; got {y.dtype} (first: {y[0]!r}). Convert it first."
        )
    return y.astype(float)


def counts_of(y: NDArray[np.generic], law: AbstractFamily) -> Array:
    """Outcomes as numbers that the law can produce."""
    counts = numbers(y)
    broken = counts != np.round(counts)
    if broken.any():
        raise DataError(
            f"y must hold whole numbers; {listing(broken, counts, 'row')}. Round it (y.round()) if "
            "these are counts; what is measured rather than counted needs another method."
        )
    law.check_outcomes(counts, np.ones(len(counts)))
    return counts


def seed_from(random_state: Any) -> int:
    """The seed itself, or one from a generator of NumPy's, old or new."""
    if isinstance(random_state, Integral | np.random.Generator):
        return seed_of("random_state", random_state)
    return int(check_random_state(random_state).randint(np.iinfo(np.int32).max))


def warn_of_dependent(rows: Rows) -> None:
    """Say which columns the ridge alone decides about."""
    x, names = rows.x, rows.names
    moves = np.flatnonzero(np.ptp(x, axis=0) > 0)
    others = dependent_columns(np.column_stack([np.ones(len(x)), x[:, moves]]))
    dependent = sorted({*range(len(names))} - {*moves} | {int(moves[j - 1]) for j in others})
    if dependent:
        shown = ", ".join(repr(names[j]) for j in dependent[:_NAMED_COLUMNS])
        more = ", ..." if len(dependent) > _NAMED_COLUMNS else ""
        warn(
            f"{len(dependent)} of {len(names)} columns are constant or determined by the others "
            f"({shown}{more}). Their coefficients rest on the ridge alone; predictions for rows "
            "like those of the data do not suffer.",
            TVDBayesWarning,
        )


def _refuse_text(X: ArrayLike) -> None:
    """Raise for text, which NumPy would turn into numbers where it looks like them."""
    raw = None if sparse.issparse(X) else np.asarray(X)
    if raw is None or raw.ndim != 2 or raw.dtype.kind not in "OSU":
        return
    for j, column in enumerate(raw.T):
        text = np.array([isinstance(value, str | bytes) for value in column])
        if text.any():
            name = getattr(X, "columns", range(raw.shape[1]))[j]
            raise DataError(
                f"The column {name!r} of X must hold numbers; "
                f"{listing(text, column, 'row')}. Encode categories first, with OneHotEncoder."
            )


def _require_finite(estimator: BaseEstimator, x: Array) -> None:
    wrong = ~np.isfinite(x)
    if wrong.any():
        j = int(wrong.any(axis=0).argmax())
        raise DataError(
            "X must hold finite numbers, not NaN or inf; in the column "
            f"{_column_names(estimator)[j]!r}, {listing(wrong[:, j], x[:, j], 'row')}. "
            "Drop or repair these rows first."
        )


def _require_known(y: ArrayLike) -> None:
    raw = np.asarray(y)
    if raw.ndim and raw.dtype.kind == "f" and not np.isfinite(raw).all():
        wrong = ~np.isfinite(raw).reshape(len(raw), -1).all(axis=1)
        raise DataError(
            f"y must have no gaps, neither NaN nor inf; {listing(wrong, raw, 'row')}. "
            "Drop or repair these rows first."
        )


def _column_names(estimator: BaseEstimator) -> tuple[str, ...]:
    known = getattr(estimator, "feature_names_in_", None)
    return tuple(f"x{j}" for j in range(estimator.n_features_in_)) if known is None else (*known,)
