"""The door for scikit-learn to networks: a classifier and a regressor for counts.

They clone, pickle, and work in pipelines and grid searches like the linear ones. Training needs
JAX and optax (``pip install 'tvdbayes[jax]'``); making an estimator does not.
"""

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from tvdbayes.estimators.base import (
    AbstractClassifier,
    AbstractCountRegressor,
    cells_of,
    options_of,
)
from tvdbayes.estimators.rows import Rows
from tvdbayes.formula.checks import check_table
from tvdbayes.models.families import AbstractFamily
from tvdbayes.models.model import Model
from tvdbayes.models.named import hidden_layers
from tvdbayes.models.predictors import MLP, Linear
from tvdbayes.objective.divergences import AbstractDivergence
from tvdbayes.objective.partitions import AbstractPartition
from tvdbayes.sampling.bootstrap import AUTO_RIDGE, posterior_bootstrap
from tvdbayes.sampling.posterior import Posterior

__all__ = ["RobustMLPClassifier", "RobustMLPRegressor"]


class RobustMLPClassifier(AbstractClassifier):
    """Classification by networks whose wrong labels do not drive the answer.

    Two classes: a yes/no answer. More: multinomial logit, all classes treated alike. Every draw is
    a network of its own; probabilities are averaged over them.

    Parameters
    ----------
    hidden : sequence of int, or int
        Nodes of each hidden layer; a number is one layer.
    activation : "relu", "silu" or "tanh"
        What a hidden node does.
    divergence : str or AbstractDivergence
        "tvd", "kld" (ordinary), "hellinger", "power" or "density_power".
    refine : "reweight" or None
        End every draw with one-step reweighting: rows that the closest network cannot explain lose
        their weight, and maximum likelihood trains on the rest. Without effect where the divergence
        compares row by row ("kld", "density_power").
    n_draws : int
        Posterior draws; 0 gives one network alone.
    partition : str or AbstractPartition
        Which rows are compared together: "auto", "distinct", "kmeans" or "singletons".
    epochs, learning_rate, batch_rows, weight_decay, hold_out
        How networks are trained, see `MLP`.
    n_jobs : int or None
        Processes to use; None is 1 unless in a joblib context, -1 is one for each core.
    device : str, optional
        Where to train: "gpu", or "gpu:float32"; the processor unless given.
    random_state : int, RandomState or None
        An int fixes the draws; otherwise a seed is taken from the generator, or from NumPy's own.

    Attributes
    ----------
    classes_ : (n_classes,)
        The classes among the rows of positive weight, sorted.
    posterior_ : Posterior
        Networks, their ordinary twins, statuses and seed.
    n_features_in_ : int
        Number of columns of X.
    feature_names_in_ : (n_features,)
        Their names, where X has names.

    Examples
    --------
    >>> import numpy as np
    >>> from tvdbayes import RobustMLPClassifier
    >>> rng = np.random.default_rng(1)
    >>> X = rng.integers(-2, 3, (1000, 1))
    >>> y = np.where(rng.random(1000) < np.where(X[:, 0] > 0, 0.9, 0.1), "yes", "no")
    >>> model = RobustMLPClassifier(hidden=8, n_draws=5).fit(X, y)
    >>> model.predict([[-2], [2]])
    array(['no', 'yes'], dtype='<U3')
    """

    def __init__(
        self,
        hidden: Sequence[int] | int = (50,),
        *,
        activation: Literal["relu", "silu", "tanh"] = "relu",
        divergence: str | AbstractDivergence = "tvd",
        refine: Literal["reweight"] | None = "reweight",
        n_draws: int = 50,
        partition: str | AbstractPartition = "auto",
        epochs: int = MLP.epochs,
        learning_rate: float = MLP.learning_rate,
        batch_rows: int = MLP.batch_rows,
        weight_decay: float = MLP.weight_decay,
        hold_out: float = MLP.hold_out,
        n_jobs: int | None = None,
        device: str | None = None,
        random_state: int | np.random.RandomState | None = 0,
    ) -> None:
        self.hidden = hidden
        self.activation = activation
        self.divergence = divergence
        self.refine = refine
        self.n_draws = n_draws
        self.partition = partition
        self.epochs = epochs
        self.learning_rate = learning_rate
        self.batch_rows = batch_rows
        self.weight_decay = weight_decay
        self.hold_out = hold_out
        self.n_jobs = n_jobs
        self.device = device
        self.random_state = random_state

    def _fit_rows(self, rows: Rows, law: AbstractFamily) -> None:
        self.posterior_ = _draw(self, rows, law, bins="none")


class RobustMLPRegressor(AbstractCountRegressor):
    """Regression for counts by networks whose wrong rows do not drive the answer.

    Every draw is a network of its own; predictions are expected counts, averaged over them.

    Parameters
    ----------
    hidden : sequence of int, or int
        Nodes of each hidden layer; a number is one layer.
    activation : "relu", "silu" or "tanh"
        What a hidden node does.
    family : str or AbstractFamily
        Law of the counts: "poisson", "negativebinomial", "geometric", "discreteweibull", one of
        these after ``zero_inflated_``, ``hurdle_`` or ``truncated_``, or a family itself.
    divergence : str or AbstractDivergence
        "tvd", "kld" (ordinary), "hellinger" or "power".
    refine : "reweight" or None
        End every draw with one-step reweighting: rows that the closest network cannot explain lose
        their weight, and maximum likelihood trains on the rest. Without effect where the divergence
        compares row by row ("kld").
    n_draws : int
        Posterior draws; 0 gives one network alone, without intervals.
    partition : str or AbstractPartition
        Which rows are compared together: "auto", "distinct", "kmeans" or "singletons".
    epochs, learning_rate, batch_rows, weight_decay, hold_out
        How networks are trained, see `MLP`.
    bins : "auto", "none" or numbers
        Counts that are compared together, by the first of each bin.
    n_jobs : int or None
        Processes to use; None is 1 unless in a joblib context, -1 is one for each core.
    device : str, optional
        Where to train: "gpu", or "gpu:float32"; the processor unless given.
    random_state : int, RandomState or None
        An int fixes the draws; otherwise a seed is taken from the generator, or from NumPy's own.

    Attributes
    ----------
    posterior_ : Posterior
        Networks, their ordinary twins, statuses and seed; further parameters such as a dispersion.
    n_features_in_ : int
        Number of columns of X.
    feature_names_in_ : (n_features,)
        Their names, where X has names.

    Examples
    --------
    >>> import numpy as np
    >>> from tvdbayes import RobustMLPRegressor
    >>> rng = np.random.default_rng(1)
    >>> X = rng.integers(0, 5, (600, 1))
    >>> y = rng.poisson(np.where(X[:, 0] < 3, 1, 8))  # no line can say this
    >>> y[:60] += 40  # a tenth of the rows is wrong
    >>> model = RobustMLPRegressor(hidden=8, n_draws=5).fit(X, y)
    >>> np.abs(model.predict([[1], [4]]) - [1, 8]) < 1.5  # off by little
    array([ True,  True])
    """

    def __init__(
        self,
        hidden: Sequence[int] | int = (50,),
        *,
        activation: Literal["relu", "silu", "tanh"] = "relu",
        family: str | AbstractFamily = "poisson",
        divergence: str | AbstractDivergence = "tvd",
        refine: Literal["reweight"] | None = "reweight",
        n_draws: int = 50,
        partition: str | AbstractPartition = "auto",
        epochs: int = MLP.epochs,
        learning_rate: float = MLP.learning_rate,
        batch_rows: int = MLP.batch_rows,
        weight_decay: float = MLP.weight_decay,
        hold_out: float = MLP.hold_out,
        bins: Sequence[float] | Literal["auto", "none"] = "auto",
        n_jobs: int | None = None,
        device: str | None = None,
        random_state: int | np.random.RandomState | None = 0,
    ) -> None:
        self.hidden = hidden
        self.activation = activation
        self.family = family
        self.divergence = divergence
        self.refine = refine
        self.n_draws = n_draws
        self.partition = partition
        self.epochs = epochs
        self.learning_rate = learning_rate
        self.batch_rows = batch_rows
        self.weight_decay = weight_decay
        self.hold_out = hold_out
        self.bins = bins
        self.n_jobs = n_jobs
        self.device = device
        self.random_state = random_state

    def _fit_rows(self, rows: Rows, law: AbstractFamily) -> None:
        self.posterior_ = _draw(self, rows, law)


_Estimator = RobustMLPClassifier | RobustMLPRegressor


def _draw(estimator: _Estimator, rows: Rows, law: AbstractFamily, **others: Any) -> Posterior:
    """The posterior of checked rows."""
    network = MLP(
        hidden=hidden_layers(estimator.hidden),
        activation=estimator.activation,
        epochs=estimator.epochs,
        learning_rate=estimator.learning_rate,
        batch_rows=estimator.batch_rows,
        weight_decay=estimator.weight_decay,
        hold_out=estimator.hold_out,
    )
    # Networks begin at lines, where the ridge decides between columns that determine one another.
    others = {"ridge": AUTO_RIDGE, **others}
    if estimator.refine == "reweight":
        others["refine"] = "auto"
    options = options_of(estimator, **others)
    cells = cells_of(estimator, rows)
    check_table(cells, law, Linear(), options.ridge)
    return posterior_bootstrap(Model(law, network), cells, **options.of_draws)
