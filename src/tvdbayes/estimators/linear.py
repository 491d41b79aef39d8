"""The door for scikit-learn: a regressor for counts and a classifier.

Both clone, pickle, and work in pipelines and grid searches. Rows and weights mean what they mean
everywhere in this package: a weight of 2 is the row twice, to the bit.
"""

from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from tvdbayes._typing import Array
from tvdbayes.estimators.base import (
    AbstractClassifier,
    AbstractCountRegressor,
    AbstractEstimator,
)
from tvdbayes.estimators.rows import Rows, warn_of_dependent
from tvdbayes.models.families import AbstractFamily, AbstractLink
from tvdbayes.models.predictors import Linear


@dataclass(eq=False, repr=False, kw_only=True)
class AbstractLinear(AbstractEstimator):
    """An estimator with a linear predictor."""

    n_draws: int = 200
    ridge: float | Literal["auto"] = 1e-4
    refine: Literal["auto", "trim", "reweight"] | None = "auto"
    alpha: float = 0.0
    base_measure: Literal["fit"] | tuple[ArrayLike, ArrayLike] | None = None

    def _coefficients(self, rows: Rows, law: AbstractFamily) -> tuple[Array, Array]:
        """Slopes (n_main, n_features) and intercepts (n_main,) of the main predictors, drawn."""
        self._draw(rows, law, Linear())
        warn_of_dependent(rows)
        # Further predictors, such as a dispersion, come after the main ones.
        n_main = law.n_main
        main = self.posterior_.estimate[: n_main * (1 + self._kept.sum())].reshape(n_main, -1)
        slopes = np.zeros((n_main, self._kept.size))
        slopes[:, self._kept] = main[:, 1:]
        return slopes, main[:, 0]


@dataclass(eq=False, repr=False)
class RobustCountRegressor(AbstractCountRegressor, AbstractLinear):
    """Regression for counts whose wrong rows do not drive the answer.

    An intercept is added. Predictions are expected counts, averaged over the posterior.

    Parameters
    ----------
    family : str or AbstractFamily
        Law of the counts: "poisson", "negativebinomial", "geometric", "discreteweibull",
        "compoisson", "generalizedpoisson", one of these after ``zero_inflated_``, ``hurdle_`` or
        ``truncated_``, or a family itself.
    divergence : str or AbstractDivergence
        "tvd", "kld" (likelihood), "hellinger", "power" or "density_power".
    n_draws : int
        Posterior draws; 0 gives the point fit alone, without intervals.
    partition : str or AbstractPartition
        Which rows are compared together: "auto", "distinct", "kmeans" or "singletons".
    ridge : float or "auto"
        Penalty on the variance of the linear predictor. It decides between columns that determine
        one another, which are fitted with a warning, and keeps slopes finite where classes
        separate.
    bins : "auto", "none" or numbers
        Counts that are compared together, by the first of each bin.
    refine : "auto", "trim", "reweight" or None
        As in `fit`: "auto" drops rows that the model cannot explain and fits the others by maximum
        likelihood; None is the closest model in total variation itself.
    device : str or None
        Where JAX computes the draws: "gpu", or "gpu:float32"; NumPy computes them unless given.
    alpha : float
        How many rows a Dirichlet-process prior counts for; 0 is no prior.
    base_measure : "fit", or a pair (X, y) of rows
        What this prior expects to see: the likelihood fit (unless given), or such rows.
    n_jobs : int or None
        Processes to use; None is 1 unless in a joblib context, -1 is one for each core.
        The answer is the same bit for bit.
    progress : bool or None
        Whether to show a progress bar; None shows one where standard error is a terminal.
    random_state : int, RandomState, Generator or None
        An int fixes the draws; otherwise a seed is taken from the generator, or from NumPy's own.

    Attributes
    ----------
    coef_ : (n_features,)
        Point estimate of the slopes; 0 for a column that is 0 in every row.
    intercept_ : float
        Point estimate of the intercept.
    posterior_ : Posterior
        Draws of both fits, statuses and seed; further parameters such as a dispersion.
    n_features_in_, feature_names_in_ : int, (n_features,)
        Number of columns of X, and their names, where X has names.

    Examples
    --------
    >>> import tvdbayes as tb
    >>> data = tb.example_data(wrong=0.1)
    >>> model = tb.RobustCountRegressor(n_draws=50).fit(data["age"][:, None], data["visits"])
    >>> model.predict([[2], [5]]).round(1)
    array([1.4, 3.6])
    >>> model.predict_interval([[2]], kind="outcome")
    array([[0., 4.]])
    """

    family: str | AbstractFamily = "poisson"
    coef_: Array = field(init=False)
    intercept_: float = field(init=False)

    def _fit_rows(self, rows: Rows, law: AbstractFamily) -> None:
        slopes, intercepts = self._coefficients(rows, law)
        self.coef_, self.intercept_ = slopes[0], float(intercepts[0])


@dataclass(eq=False, repr=False)
class RobustClassifier(AbstractClassifier, AbstractLinear):
    """Classification whose wrong labels do not drive the answer.

    Two classes: a yes/no answer with a link. More: multinomial logit, all classes treated alike.
    An intercept is added. Probabilities are averaged over the posterior.

    Parameters
    ----------
    link : str or AbstractLink
        "logit", "probit" or "cloglog"; more than two classes have "logit" only.
    divergence, n_draws, partition, ridge, refine, device
        As in `RobustCountRegressor`.
    alpha, base_measure, n_jobs, progress, random_state
        As in `RobustCountRegressor`.

    Attributes
    ----------
    classes_ : (n_classes,)
        The classes among the rows of positive weight, sorted.
    coef_ : (1, n_features) or (n_classes, n_features)
        Point estimate of the slopes: of the second class of two, else of each class, adding up to
        0 over the classes; 0 for a column that is 0 in every row.
    intercept_ : (1,) or (n_classes,)
        Point estimate of the intercepts, in the same way.
    posterior_, n_features_in_, feature_names_in_
        As in `RobustCountRegressor`.

    Examples
    --------
    >>> import tvdbayes as tb
    >>> data = tb.example_data()
    >>> model = tb.RobustClassifier(n_draws=50).fit(data["age"][:, None], data["ill"])
    >>> model.predict([[2], [5]])
    array([0, 1])
    """

    link: str | AbstractLink = "logit"
    coef_: Array = field(init=False)
    intercept_: Array = field(init=False)

    def _fit_rows(self, rows: Rows, law: AbstractFamily) -> None:
        slopes, intercepts = self._coefficients(rows, law)
        if len(self.classes_) > 2:
            slopes, intercepts = (
                np.concatenate([-part.sum(0, keepdims=True), part]) for part in (slopes, intercepts)
            )
        self.coef_, self.intercept_ = slopes, intercepts
