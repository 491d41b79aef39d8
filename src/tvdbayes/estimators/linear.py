"""The door for scikit-learn: a regressor for counts and a classifier.

Both clone, pickle, and work in pipelines and grid searches. Rows and weights mean what they mean
everywhere in this package: a weight of 2 is the row twice, to the bit.
"""

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from tvdbayes._typing import Array
from tvdbayes.estimators.base import (
    AbstractClassifier,
    AbstractCountRegressor,
    cells_of,
    options_of,
)
from tvdbayes.estimators.rows import Rows, warn_of_dependent
from tvdbayes.formula.checks import check_table
from tvdbayes.models.families import AbstractFamily, AbstractLink
from tvdbayes.models.model import Model
from tvdbayes.models.predictors import Linear
from tvdbayes.objective.divergences import AbstractDivergence
from tvdbayes.objective.partitions import AbstractPartition
from tvdbayes.sampling.bootstrap import posterior_bootstrap
from tvdbayes.sampling.posterior import Posterior

__all__ = ["RobustClassifier", "RobustCountRegressor"]


class RobustCountRegressor(AbstractCountRegressor):
    """Regression for counts whose wrong rows do not drive the answer.

    An intercept is added. Predictions are expected counts, averaged over the posterior.

    Parameters
    ----------
    family : str or AbstractFamily
        Law of the counts: "poisson", "negativebinomial", "geometric", "discreteweibull", one of
        these after ``zero_inflated_``, ``hurdle_`` or ``truncated_``, or a family itself.
    divergence : str or AbstractDivergence
        "tvd", "kld" (ordinary), "hellinger", "power" or "density_power".
    n_draws : int
        Posterior draws; 0 gives the point fit alone, without intervals.
    partition : str or AbstractPartition
        Which rows are compared together: "auto", "distinct", "kmeans" or "singletons".
    ridge : float or "auto"
        Penalty on the variance of the linear predictor. It decides between columns that determine
        one another, which are fitted with a warning.
    bins : "auto", "none" or numbers
        Counts that are compared together, by the first of each bin.
    refine : "auto", "trim", "reweight" or None
        As in `fit`: "auto" drops rows that the model cannot explain and fits the others by maximum
        likelihood; None is the closest model in total variation itself.
    n_jobs : int or None
        Processes to use; None is 1 unless in a joblib context, -1 is one for each core.
        The answer is the same bit for bit.
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

    def __init__(
        self,
        family: str | AbstractFamily = "poisson",
        *,
        divergence: str | AbstractDivergence = "tvd",
        n_draws: int = 200,
        partition: str | AbstractPartition = "auto",
        ridge: float | Literal["auto"] = 1e-4,
        bins: Sequence[float] | Literal["auto", "none"] = "auto",
        refine: Literal["auto", "trim", "reweight"] | None = "auto",
        n_jobs: int | None = None,
        random_state: int | np.random.RandomState | None = 0,
    ) -> None:
        self.family = family
        self.divergence = divergence
        self.n_draws = n_draws
        self.partition = partition
        self.ridge = ridge
        self.bins = bins
        self.refine = refine
        self.n_jobs = n_jobs
        self.random_state = random_state

    def _fit_rows(self, rows: Rows, law: AbstractFamily) -> None:
        self.posterior_ = _draw(self, rows, law)
        slopes, intercepts = _coefficients(self)
        self.coef_, self.intercept_ = slopes[0], float(intercepts[0])


class RobustClassifier(AbstractClassifier):
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
        Penalty on the variance of the linear predictor. It decides between columns that determine
        one another, which are fitted with a warning, and keeps slopes finite where classes
        separate.
    refine : "auto", "trim", "reweight" or None
        As in `fit`: "auto" drops rows that the model cannot explain and fits the others by maximum
        likelihood; None is the closest model in total variation itself.
    n_jobs : int or None
        Processes to use; None is 1 unless in a joblib context, -1 is one for each core.
        The answer is the same bit for bit.
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

    coef_: Array
    intercept_: Array

    def __init__(
        self,
        link: str | AbstractLink = "logit",
        *,
        divergence: str | AbstractDivergence = "tvd",
        n_draws: int = 200,
        partition: str | AbstractPartition = "auto",
        ridge: float | Literal["auto"] = 1e-4,
        refine: Literal["auto", "trim", "reweight"] | None = "auto",
        n_jobs: int | None = None,
        random_state: int | np.random.RandomState | None = 0,
    ) -> None:
        self.link = link
        self.divergence = divergence
        self.n_draws = n_draws
        self.partition = partition
        self.ridge = ridge
        self.refine = refine
        self.n_jobs = n_jobs
        self.random_state = random_state

    def _fit_rows(self, rows: Rows, law: AbstractFamily) -> None:
        self.posterior_ = _draw(self, rows, law, bins="none")
        slopes, intercepts = _coefficients(self)
        if len(self.classes_) > 2:
            slopes, intercepts = (
                np.concatenate([-part.sum(0, keepdims=True), part]) for part in (slopes, intercepts)
            )
        self.coef_, self.intercept_ = slopes, intercepts


_Estimator = RobustCountRegressor | RobustClassifier


def _draw(estimator: _Estimator, rows: Rows, law: AbstractFamily, **others: Any) -> Posterior:
    """The posterior of checked rows."""
    options = options_of(estimator, **others)
    cells = cells_of(estimator, rows)
    check_table(cells, law, Linear(), options.ridge)
    warn_of_dependent(rows)
    return posterior_bootstrap(Model(law), cells, **options.of_draws)


def _coefficients(estimator: _Estimator) -> tuple[Array, Array]:
    """Slopes (n_main, n_features) and intercepts (n_main,) of the main predictors."""
    posterior, kept = estimator.posterior_, estimator._kept
    n_main = posterior.model.family.n_main
    # Further predictors, such as a dispersion, come after the main ones.
    main = posterior.estimate[: n_main * (1 + kept.sum())].reshape(n_main, -1)
    slopes = np.zeros((n_main, kept.size))
    slopes[:, kept] = main[:, 1:]
    return slopes, main[:, 0]
