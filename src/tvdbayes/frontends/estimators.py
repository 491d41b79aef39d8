"""The door for scikit-learn: a regressor for counts and a classifier.

Both clone, pickle, and work in pipelines and grid searches. Rows and weights mean what they mean
everywhere in this package: a weight of 2 is the row twice, to the bit.
"""

# ruff: noqa: N803 (scikit-learn calls the covariates X)

import warnings
from collections.abc import Sequence
from numbers import Integral, Real
from typing import Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from scipy.special import xlogy
from sklearn.base import (  # type: ignore[import-untyped]
    BaseEstimator,
    ClassifierMixin,
    RegressorMixin,
)
from sklearn.utils import Tags, check_random_state  # type: ignore[import-untyped]
from sklearn.utils.multiclass import check_classification_targets  # type: ignore[import-untyped]
from sklearn.utils.validation import (  # type: ignore[import-untyped]
    _check_sample_weight,
    check_consistent_length,
    check_is_fitted,
    column_or_1d,
    validate_data,
)

from tvdbayes._errors import DataError, FamilyError, SettingsError, TVDBayesWarning, listing
from tvdbayes._typing import Array, BoolArray
from tvdbayes.bootstrap import posterior_bootstrap
from tvdbayes.cells import Cells
from tvdbayes.divergences import AbstractDivergence
from tvdbayes.families import AbstractFamily, AbstractLink, Bernoulli, Categorical
from tvdbayes.frontends._checks import check_table
from tvdbayes.frontends._laws import family_by_name
from tvdbayes.frontends._settings import DIVERGENCES, LINKS, PARTITIONS, named
from tvdbayes.model import Model
from tvdbayes.partitions import AbstractPartition
from tvdbayes.posterior import Posterior
from tvdbayes.posterior.prediction import (
    NewRows,
    mean_interval,
    outcome_interval,
    outcome_mean,
    pmf,
)
from tvdbayes.predictors import Linear, dependent_columns

__all__ = ["RobustClassifier", "RobustCountRegressor"]

_NAMED_COLUMNS = 5


class RobustCountRegressor(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Regression for counts whose wrong rows do not drive the answer.

    An intercept is added. Predictions are expected counts, averaged over the posterior.

    Parameters
    ----------
    family : str or AbstractFamily
        Law of the counts: "poisson", "negativebinomial", "geometric", "discreteweibull", one of
        these after "zero_inflated_", "hurdle_" or "truncated_", or a family itself.
    divergence : str or AbstractDivergence
        "tvd", "kld" (ordinary), "hellinger", "power" or "density_power".
    n_draws : int
        Posterior draws; 0 gives the point fit alone, without intervals.
    partition : str or AbstractPartition
        Which rows are compared together: "auto", "distinct", "kmeans" or "singletons".
    ridge : float or "auto"
        Penalty on squared standardised slopes. It decides between columns that determine one
        another, which are fitted with a warning.
    bins : "auto", "none" or numbers
        Counts that are compared together, by the first of each bin.
    n_jobs : int or None
        Processes to use; None is 1, -1 is one for each core. The answer is the same bit for bit.
    random_state : int, RandomState or None
        An int fixes the draws; otherwise a seed is taken from the generator, or from NumPy's own.

    Attributes
    ----------
    coef_ : (n_features,)
        Point estimate of the slopes; 0 for a column that is 0 in every row.
    intercept_ : float
        Point estimate of the intercept.
    posterior_ : Posterior
        Draws, their ordinary twins, statuses and seed; further parameters such as a dispersion.
    n_features_in_ : int
        Number of columns of X.
    feature_names_in_ : (n_features,)
        Their names, where X has names.

    Examples
    --------
    >>> import numpy as np
    >>> from tvdbayes import RobustCountRegressor
    >>> rng = np.random.default_rng(1)
    >>> X = rng.integers(0, 3, (600, 1))
    >>> y = rng.poisson(np.exp(0.7 + 0.3 * X[:, 0]))
    >>> y[:60] += 15  # a tenth of the rows is wrong
    >>> model = RobustCountRegressor(n_draws=50).fit(X, y)
    >>> model.predict([[0], [2]]).round()  # the truth: 2.0 and 3.7
    array([2., 4.])
    >>> model.predict_interval([[0]], kind="outcome")
    array([[0., 4.]])
    """

    coef_: Array
    intercept_: float
    posterior_: Posterior
    _kept: BoolArray

    def __init__(
        self,
        family: str | AbstractFamily = "poisson",
        *,
        divergence: str | AbstractDivergence = "tvd",
        n_draws: int = 200,
        partition: str | AbstractPartition = "auto",
        ridge: float | Literal["auto"] = 1e-4,
        bins: Sequence[float] | Literal["auto", "none"] = "auto",
        n_jobs: int | None = 1,
        random_state: int | np.random.RandomState | None = 0,
    ) -> None:
        self.family = family
        self.divergence = divergence
        self.n_draws = n_draws
        self.partition = partition
        self.ridge = ridge
        self.bins = bins
        self.n_jobs = n_jobs
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Draw from the posterior.

        Parameters
        ----------
        X : (n, n_features)
            Covariates: finite numbers.
        y : (n,)
            Counts: whole numbers.
        sample_weight : (n,), optional
            How many times each row counts.

        Returns
        -------
        self
        """
        law = _count_law(self.family)
        x, outcome, weights = _training(self, X, y, sample_weight)
        counts, used = _counts(outcome, law), weights > 0
        self.posterior_ = _draw(self, x[used], counts[used], weights[used], law=law, bins=self.bins)
        slopes, intercepts = _coefficients(self)
        self.coef_, self.intercept_ = slopes[0], float(intercepts[0])
        return self

    def predict(self, X: ArrayLike) -> Array:
        """Expected count of each row, (n,): its posterior mean."""
        return outcome_mean(*_new(self, X))

    def predict_interval(
        self, X: ArrayLike, interval: float = 0.9, *, kind: Literal["mean", "outcome"] = "mean"
    ) -> Array:
        """Equal-tailed interval for each row, (n, 2).

        Parameters
        ----------
        X : (n, n_features)
        interval : float
            Posterior probability that it holds, between 0 and 1.
        kind : "mean" or "outcome"
            Of the expected count, or of a new count; the latter is found by sampling with the seed
            of the fit and ends at counts, so it may hold more than it was asked to.
        """
        if kind not in ("mean", "outcome"):
            raise SettingsError(f'kind must be "mean" or "outcome"; got {kind!r}.')
        rows = _new(self, X)
        found = mean_interval if kind == "mean" else outcome_interval
        return found(*rows, interval)

    def score(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Share of the Poisson deviance that the predictions explain (D squared), at most 1.

        As in scikit-learn's ``PoissonRegressor``, for every family. Wrong rows among those scored
        weigh heavily: to choose settings by it, score on rows that can be trusted. Where y is
        constant it is 1 for a perfect prediction, else 0.
        """
        predicted = np.maximum(self.predict(X), np.finfo(float).tiny)
        outcome = _numbers(column_or_1d(y))
        check_consistent_length(predicted, outcome)
        if not (outcome >= 0).all():
            raise DataError(
                f"y must hold numbers of at least 0; {listing(~(outcome >= 0), outcome, 'row')}."
            )
        weights = _weights(sample_weight, predicted)
        left = _deviance(outcome, predicted, weights)
        if np.ptp(outcome[weights > 0]) == 0:
            return float(left == 0)
        return 1 - left / _deviance(outcome, np.average(outcome, weights=weights), weights)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = True
        # The tag's own yardstick is 200 rows in 10 columns of y without noise: half the groups that
        # eleven parameters ask for (the fit warns), and no law of counts is that precise.
        tags.regressor_tags.poor_score = True
        return tags


class RobustClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Classification whose wrong labels do not drive the answer.

    Two classes: a yes/no answer with a link. More: multinomial logit, all classes treated alike.
    An intercept is added. Probabilities are averaged over the posterior.

    Parameters
    ----------
    link : str or AbstractLink
        "logit", "probit" or "cloglog"; more than two classes have "logit" only.
    divergence : str or AbstractDivergence
        "tvd", "kld" (ordinary), "hellinger", "power" or "density_power".
    n_draws : int
        Posterior draws; 0 gives the point fit alone.
    partition : str or AbstractPartition
        Which rows are compared together: "auto", "distinct", "kmeans" or "singletons".
    ridge : float or "auto"
        Penalty on squared standardised slopes. It decides between columns that determine one
        another, which are fitted with a warning, and keeps slopes finite where classes separate.
    n_jobs : int or None
        Processes to use; None is 1, -1 is one for each core. The answer is the same bit for bit.
    random_state : int, RandomState or None
        An int fixes the draws; otherwise a seed is taken from the generator, or from NumPy's own.

    Attributes
    ----------
    classes_ : (n_classes,)
        The classes among the rows of positive weight, sorted.
    coef_ : (1, n_features) or (n_classes, n_features)
        Point estimate of the slopes: of the second class of two, else of each class, adding up to
        0 over the classes; 0 for a column that is 0 in every row.
    intercept_ : (1,) or (n_classes,)
        Point estimate of the intercepts, in the same way.
    posterior_ : Posterior
        Draws, their ordinary twins, statuses and seed.
    n_features_in_ : int
        Number of columns of X.
    feature_names_in_ : (n_features,)
        Their names, where X has names.

    Examples
    --------
    >>> import numpy as np
    >>> from tvdbayes import RobustClassifier
    >>> rng = np.random.default_rng(1)
    >>> X = rng.integers(-2, 3, (1000, 1))
    >>> y = np.where(rng.random(1000) < 1 / (1 + np.exp(-2 * X[:, 0])), "yes", "no")
    >>> model = RobustClassifier(n_draws=50).fit(X, y)
    >>> model.predict([[-2], [2]])
    array(['no', 'yes'], dtype='<U3')
    >>> model.predict_proba([[0]]).round(1)
    array([[0.5, 0.5]])
    """

    classes_: NDArray[np.generic]
    coef_: Array
    intercept_: Array
    posterior_: Posterior
    _kept: BoolArray

    def __init__(
        self,
        link: str | AbstractLink = "logit",
        *,
        divergence: str | AbstractDivergence = "tvd",
        n_draws: int = 200,
        partition: str | AbstractPartition = "auto",
        ridge: float | Literal["auto"] = 1e-4,
        n_jobs: int | None = 1,
        random_state: int | np.random.RandomState | None = 0,
    ) -> None:
        self.link = link
        self.divergence = divergence
        self.n_draws = n_draws
        self.partition = partition
        self.ridge = ridge
        self.n_jobs = n_jobs
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Draw from the posterior.

        Parameters
        ----------
        X : (n, n_features)
            Covariates: finite numbers.
        y : (n,)
            Classes: numbers or text.
        sample_weight : (n,), optional
            How many times each row counts.

        Returns
        -------
        self
        """
        x, labels, weights = _training(self, X, y, sample_weight)
        check_classification_targets(labels)
        used = weights > 0
        self.classes_, number = np.unique(labels[used], return_inverse=True)
        law, outcome = _class_law(self.link, self.classes_), number.astype(float)
        self.posterior_ = _draw(self, x[used], outcome, weights[used], law=law, bins="none")
        slopes, intercepts = _coefficients(self)
        if len(self.classes_) > 2:
            slopes, intercepts = (
                np.concatenate([-part.sum(0, keepdims=True), part]) for part in (slopes, intercepts)
            )
        self.coef_, self.intercept_ = slopes, intercepts
        return self

    def predict_proba(self, X: ArrayLike) -> Array:
        """Probability of each class in each row, (n, n_classes): its posterior mean."""
        rows = _new(self, X)
        return pmf(*rows, np.arange(len(self.classes_)))

    def predict(self, X: ArrayLike) -> NDArray[np.generic]:
        """The most probable class of each row, (n,)."""
        probabilities = self.predict_proba(X)
        best: NDArray[np.generic] = self.classes_[probabilities.argmax(axis=1)]
        return best


_Estimator = RobustCountRegressor | RobustClassifier


def _draw(
    estimator: _Estimator,
    x: Array,
    y: Array,
    weights: Array,
    *,
    law: AbstractFamily,
    bins: Sequence[float] | Literal["auto", "none"],
) -> Posterior:
    """The posterior of checked rows, with an intercept and without columns that are all 0.

    Rows of weight 0 must be gone: they are as if they had never been there.
    """
    divergence = named(estimator.divergence, DIVERGENCES, "divergence", AbstractDivergence)
    partition = named(estimator.partition, PARTITIONS, "partition", AbstractPartition)
    estimator._kept = (x != 0).any(axis=0)
    names = _column_names(estimator)
    kept = ("Intercept", *(n for n, keep in zip(names, estimator._kept, strict=True) if keep))
    cells = Cells.from_rows(_design(estimator, x), y, weights=weights, names=kept)
    check_table(cells, law, Linear(), estimator.ridge)
    _warn_of_dependent(x, names)
    return posterior_bootstrap(
        Model(law),
        cells,
        divergence=divergence,
        partition=partition,
        n_draws=estimator.n_draws,
        seed=_seed(estimator.random_state),
        ridge=estimator.ridge,
        bins=bins,
        n_jobs=1 if estimator.n_jobs is None else estimator.n_jobs,
    )


def _design(estimator: _Estimator, x: Array) -> Array:
    return np.column_stack([np.ones(len(x)), x[:, estimator._kept]])


def _new(estimator: _Estimator, X: ArrayLike) -> tuple[Posterior, NewRows]:
    """The posterior, and new rows that it can predict."""
    check_is_fitted(estimator)
    _refuse_text(X)
    x = validate_data(estimator, X, reset=False, dtype=np.float64, ensure_all_finite=False)
    _require_finite(estimator, x)
    return estimator.posterior_, NewRows.of(estimator.posterior_, _design(estimator, x))


def _coefficients(estimator: _Estimator) -> tuple[Array, Array]:
    """Slopes (n_main, n_features) and intercepts (n_main,) of the main predictors."""
    posterior, kept = estimator.posterior_, estimator._kept
    n_main = posterior.model.family.n_main
    # Further predictors, such as a dispersion, come after the main ones.
    main = posterior.estimate[: n_main * (1 + kept.sum())].reshape(n_main, -1)
    slopes = np.zeros((n_main, kept.size))
    slopes[:, kept] = main[:, 1:]
    return slopes, main[:, 0]


def _training(
    estimator: _Estimator, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None
) -> tuple[Array, NDArray[np.generic], Array]:
    """Rows, outcomes and weights, checked as scikit-learn does; messages name column and row."""
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
    weights = _weights(sample_weight, x)
    if weights.sum() < 2:
        raise DataError(
            f"sample_weight counts rows, but adds up to {weights.sum():g}; at least 2 are needed. "
            "Multiply weights that are shares by the number of rows."
        )
    return x, outcome, weights


def _weights(sample_weight: ArrayLike | None, rows: Array) -> Array:
    weights: Array = _check_sample_weight(sample_weight, rows, dtype=np.float64)
    if (weights < 0).any():
        raise DataError(
            "sample_weight counts rows and must be at least 0; "
            f"{listing(weights < 0, weights, 'row')}."
        )
    if not weights.any():
        raise DataError("All weights are zero, so no row is left. Give some a positive weight.")
    return weights


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


def _require_finite(estimator: _Estimator, x: Array) -> None:
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


def _column_names(estimator: _Estimator) -> tuple[str, ...]:
    known = getattr(estimator, "feature_names_in_", None)
    return tuple(f"x{j}" for j in range(estimator.n_features_in_)) if known is None else (*known,)


def _warn_of_dependent(x: Array, names: tuple[str, ...]) -> None:
    """Say which columns the ridge alone decides about."""
    moves = np.flatnonzero(np.ptp(x, axis=0) > 0)
    others = dependent_columns(np.column_stack([np.ones(len(x)), x[:, moves]]))
    dependent = sorted({*range(len(names))} - {*moves} | {int(moves[j - 1]) for j in others})
    if dependent:
        shown = ", ".join(repr(names[j]) for j in dependent[:_NAMED_COLUMNS])
        more = ", ..." if len(dependent) > _NAMED_COLUMNS else ""
        warnings.warn(
            f"{len(dependent)} of {len(names)} columns are constant or determined by the others "
            f"({shown}{more}). Their coefficients rest on the ridge alone; predictions for rows "
            "like those of the data do not suffer.",
            TVDBayesWarning,
            stacklevel=4,
        )


def _count_law(family: str | AbstractFamily) -> AbstractFamily:
    law = family_by_name(family, None)
    if not law.counts or law.needs_trials:
        raise FamilyError(
            f"RobustCountRegressor needs a family of counts without trials; got {law.name!r}. "
            "For classes use RobustClassifier, for trials tvdbayes.fit."
        )
    return law


def _class_law(link: str | AbstractLink, classes: NDArray[np.generic]) -> AbstractFamily:
    chosen = named(link, LINKS, "link", AbstractLink)
    if len(classes) < 2:
        raise DataError(
            f"At least 2 classes are needed, but there is 1 class: every row of positive weight "
            f"is {str(classes[0])!r}."
        )
    if len(classes) == 2:
        return Bernoulli(chosen)
    if chosen != LINKS["logit"]:
        raise FamilyError(
            f'{len(classes)} classes have the link "logit" only; got {chosen.name!r}. '
            "Choose it, or leave two classes."
        )
    return Categorical(tuple(map(str, classes)), "sum")


def _numbers(y: NDArray[np.generic]) -> Array:
    numeric = y.dtype.kind in "biuf"
    if not numeric and not (y.dtype == object and all(isinstance(one, Real) for one in y)):
        raise DataError(f"y must hold numbers; got {y.dtype} (first: {y[0]!r}). Convert it first.")
    return y.astype(float)


def _counts(y: NDArray[np.generic], law: AbstractFamily) -> Array:
    """Outcomes as numbers that the law can produce."""
    counts = _numbers(y)
    broken = counts != np.round(counts)
    if broken.any():
        raise DataError(
            f"y must hold whole numbers; {listing(broken, counts, 'row')}. Round it (y.round()) if "
            "these are counts; what is measured rather than counted needs another method."
        )
    law.check_outcomes(counts, np.ones(len(counts)))
    return counts


def _seed(random_state: int | np.random.RandomState | None) -> int:
    if isinstance(random_state, Integral):
        return int(random_state)
    return int(check_random_state(random_state).randint(np.iinfo(np.int32).max))


def _deviance(y: Array, mean: Array | float, weights: Array) -> float:
    return float(2 * weights @ (xlogy(y, y / mean) - y + mean))
