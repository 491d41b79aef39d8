"""What the estimators for scikit-learn share: from rows to a posterior, and to predictions."""

# ruff: noqa: N803 (scikit-learn calls the covariates X)

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import xlogy
from sklearn.base import (
    BaseEstimator,
    ClassifierMixin,
    RegressorMixin,
)
from sklearn.metrics import accuracy_score
from sklearn.utils import Tags
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import (
    check_consistent_length,
    column_or_1d,
)

from tvdbayes._errors import DataError, FamilyError, listing
from tvdbayes._typing import Array, BoolArray
from tvdbayes._validate import one_of
from tvdbayes.data.cells import Cells
from tvdbayes.estimators.rows import (
    Added,
    Rows,
    counts_of,
    new_x,
    numbers,
    seed_from,
    training_rows,
    weights_of,
)
from tvdbayes.formula.columns import family_by_name, require_one_predictor
from tvdbayes.formula.design import check_table
from tvdbayes.models.families import AbstractFamily, AbstractLink, Bernoulli, Categorical
from tvdbayes.models.model import LINKS, Model, named
from tvdbayes.models.predictors import AbstractPredictor, Linear
from tvdbayes.objective._kinds import AbstractDivergence
from tvdbayes.objective.partitions import AbstractPartition
from tvdbayes.results.base_measure import fitted_base, likelihood_fit
from tvdbayes.results.prediction import (
    NewRows,
    mean_interval,
    outcome_interval,
    outcome_mean,
    pmf,
)
from tvdbayes.sampling.bootstrap import posterior_bootstrap
from tvdbayes.sampling.execution import progress_bar
from tvdbayes.sampling.options import OPTIONS, Options
from tvdbayes.sampling.posterior import Posterior
from tvdbayes.sampling.weights import Prior


@dataclass(eq=False, repr=False, kw_only=True)
class AbstractEstimator(BaseEstimator, ABC):  # type: ignore[misc]
    """An estimator, whatever its outcomes and its predictor; fields are its parameters."""

    divergence: str | AbstractDivergence = "tvd"
    partition: str | AbstractPartition = "auto"
    device: str | None = None
    n_jobs: int | None = None
    progress: bool | None = False
    random_state: int | np.random.RandomState | np.random.Generator | None = 0
    posterior_: Posterior = field(init=False)
    _kept: BoolArray = field(init=False)
    _added: tuple[str, ...] = field(init=False)

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        clusters: ArrayLike | None = None,
        strata: ArrayLike | None = None,
        sampling_weights: ArrayLike | None = None,
        offset: ArrayLike | None = None,
        exposure: ArrayLike | None = None,
    ) -> Self:
        """Draw from the posterior.

        Parameters
        ----------
        X : (n, n_features)
            Covariates: finite numbers.
        y : (n,)
            Counts, which are whole numbers; or classes, numbers or text.
        sample_weight : (n,), optional
            How many times each row counts.
        clusters, strata : (n,), optional
            Labels of rows that belong together, and of the strata that rows or clusters were drawn
            from.
        sampling_weights : (n,), optional
            How many of the population each row stands for, above 0, on any scale.
        offset, exposure : (n,), optional
            Numbers added to the linear predictor, or above 0 and their logarithms are.

        Returns
        -------
        self
        """
        sampling = {"clusters": clusters, "strata": strata, "sampling_weights": sampling_weights}
        added = Added(offset, exposure)
        rows, law = self._understood(training_rows(self, X, y, sample_weight, added, **sampling))
        if added.given:
            require_one_predictor(law)
        self._added = added.given
        self._fit_rows(rows, law)
        return self

    @abstractmethod
    def _understood(self, rows: Rows) -> tuple[Rows, AbstractFamily]:
        """The rows of positive weight with outcomes as numbers, and the law of these."""

    @abstractmethod
    def _fit_rows(self, rows: Rows, law: AbstractFamily) -> None:
        """Set `posterior_`, and what else is known after a fit."""

    def _draw(
        self, rows: Rows, law: AbstractFamily, predictor: AbstractPredictor, **others: Any
    ) -> None:
        """Set `posterior_`: rows are fitted without columns that are all 0, with an intercept."""
        given = {"bins": "none", **self.get_params(deep=False), **others}
        given["seed"] = seed_from(given["random_state"])
        self._kept = (rows.x != 0).any(axis=0)
        kept = (name for name, keep in zip(rows.names, self._kept, strict=True) if keep)
        names = ("Intercept", *kept)
        base = given.get("base_measure")
        if isinstance(base, tuple | list):
            given["base_measure"] = self._base_measure(base, law, names)
        # What is called a link here may be a thing, and is part of the law by now.
        options = Options(
            **{name: given[name] for name in OPTIONS if name in given and name != "link"}
        )
        cells, units = rows.cells(self._design(rows.x), names)
        check_table(cells, law, Linear(), options.ridge)
        of_draws = options.of_draws
        if options.alpha and options.prior is None:
            expected = fitted_base(likelihood_fit(Model(law, Linear()), cells), options.seed)
            of_draws["prior"] = Prior(options.alpha, expected)
        with progress_bar(options.progress, f"{options.n_draws} draws") as report:
            self.posterior_ = posterior_bootstrap(
                Model(law, predictor), cells, units=units, progress=report, **of_draws
            )

    def _base_measure(
        self, pair: Sequence[ArrayLike], law: AbstractFamily, names: tuple[str, ...]
    ) -> Cells:
        """The rows (X, y) of a base measure as a table, with the columns of the data."""
        if len(pair) != 2:
            raise DataError(
                f'base_measure must be "fit" or a pair (X, y) of rows; got {len(pair)} parts.'
            )
        x, y = new_x(self, pair[0]), column_or_1d(pair[1])
        check_consistent_length(x, y)
        return Cells.from_rows(self._design(x), self._numbers(y, law), names=names)

    @abstractmethod
    def _numbers(self, y: NDArray[np.generic], law: AbstractFamily) -> Array:
        """Outcomes (n,) as numbers, once the classes are known."""

    def _design(self, x: Array) -> Array:
        return np.column_stack([np.ones(len(x)), x[:, self._kept]])

    def _new(self, X: ArrayLike, added: Added) -> tuple[Posterior, NewRows]:
        """The posterior, and new rows that it can predict."""
        x = new_x(self, X)
        for name in self._added:
            if name not in added.given:
                raise DataError(
                    f"This {type(self).__name__} was fitted with {name}=. Give it for these rows "
                    f"too{', np.ones(len(X)) for one unit' if name == 'exposure' else ''}; "
                    f"scikit-learn passes it on after set_predict_request({name}=True) and "
                    f"set_score_request({name}=True)."
                )
        design = self._design(x)
        return self.posterior_, NewRows.of(self.posterior_, design, offset=added.to(x))


@dataclass(eq=False, repr=False, kw_only=True)
class AbstractCountRegressor(RegressorMixin, AbstractEstimator):  # type: ignore[misc]
    """A regressor for counts."""

    family: str | AbstractFamily = "poisson"
    bins: Sequence[float] | Literal["auto", "none"] = "auto"

    def _understood(self, rows: Rows) -> tuple[Rows, AbstractFamily]:
        law = family_by_name(self.family, None)
        if not law.counts or law.needs_trials:
            raise FamilyError(
                f"{type(self).__name__} needs a family of counts without trials; got "
                f"{law.name!r}. For classes use RobustClassifier or RobustMLPClassifier, for "
                "trials tvdbayes.fit."
            )
        return replace(rows, y=counts_of(rows.y, law)).used(), law

    def _numbers(self, y: NDArray[np.generic], law: AbstractFamily) -> Array:
        return counts_of(y, law)

    def predict(
        self,
        X: ArrayLike,
        *,
        offset: ArrayLike | None = None,
        exposure: ArrayLike | None = None,
    ) -> Array:
        """Expected count of each row, (n,): its posterior mean; offset and exposure as in `fit`."""
        return outcome_mean(*self._new(X, Added(offset, exposure)))

    def predict_interval(
        self,
        X: ArrayLike,
        interval: float = 0.9,
        *,
        kind: Literal["mean", "outcome"] = "mean",
        offset: ArrayLike | None = None,
        exposure: ArrayLike | None = None,
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
        offset, exposure : (n,), optional
            As in `fit`.
        """
        one_of("kind", kind, ("mean", "outcome"))
        found = mean_interval if kind == "mean" else outcome_interval
        return found(*self._new(X, Added(offset, exposure)), interval)

    def score(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        offset: ArrayLike | None = None,
        exposure: ArrayLike | None = None,
    ) -> float:
        """Share of the Poisson deviance that the predictions explain (D squared), at most 1.

        As in scikit-learn's ``PoissonRegressor``, for every family. Wrong rows among those scored
        weigh heavily: to choose settings by it, score on rows that can be trusted. Where y is
        constant it is 1 for a perfect prediction, else 0.
        """
        mean = self.predict(X, offset=offset, exposure=exposure)
        predicted = np.maximum(mean, np.finfo(float).tiny)
        outcome = numbers(column_or_1d(y))
        check_consistent_length(predicted, outcome)
        if not (outcome >= 0).all():
            raise DataError(
                f"y must hold numbers of at least 0; {listing(~(outcome >= 0), outcome, 'row')}."
            )
        weights = weights_of(sample_weight, predicted)
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


@dataclass(eq=False, repr=False, kw_only=True)
class AbstractClassifier(ClassifierMixin, AbstractEstimator):  # type: ignore[misc]
    """A classifier, with the link "logit" unless it has a parameter `link`."""

    classes_: NDArray[np.generic] = field(init=False)

    def _understood(self, rows: Rows) -> tuple[Rows, AbstractFamily]:
        check_classification_targets(rows.y)
        rows = rows.used()
        self.classes_, number = np.unique(rows.y, return_inverse=True)
        link = self.get_params(deep=False).get("link", "logit")
        return replace(rows, y=number.astype(float)), _class_law(link, self.classes_)

    def _numbers(self, y: NDArray[np.generic], law: AbstractFamily) -> Array:
        del law
        unknown = ~np.isin(y, self.classes_)
        if unknown.any():
            raise DataError(
                f"base_measure has a class that no row of y has: {listing(unknown, y, 'row')}."
            )
        return np.searchsorted(self.classes_, y).astype(float)

    def predict_proba(
        self,
        X: ArrayLike,
        *,
        offset: ArrayLike | None = None,
        exposure: ArrayLike | None = None,
    ) -> Array:
        """Probability of each class in each row, (n, n_classes): its posterior mean.

        Offset and exposure are as in `fit`, for two classes.
        """
        return pmf(*self._new(X, Added(offset, exposure)), np.arange(len(self.classes_)))

    def predict(
        self,
        X: ArrayLike,
        *,
        offset: ArrayLike | None = None,
        exposure: ArrayLike | None = None,
    ) -> NDArray[np.generic]:
        """The most probable class of each row, (n,); offset and exposure as in `fit`."""
        probabilities = self.predict_proba(X, offset=offset, exposure=exposure)
        best: NDArray[np.generic] = self.classes_[probabilities.argmax(axis=1)]
        return best

    def score(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        offset: ArrayLike | None = None,
        exposure: ArrayLike | None = None,
    ) -> float:
        """Share of the rows whose class is predicted; offset and exposure as in `fit`."""
        predicted = self.predict(X, offset=offset, exposure=exposure)
        return float(accuracy_score(y, predicted, sample_weight=sample_weight))


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


def _deviance(y: Array, mean: Array | float, weights: Array) -> float:
    return float(2 * weights @ (xlogy(y, y / mean) - y + mean))
