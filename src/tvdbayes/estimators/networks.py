"""The door for scikit-learn to networks: a classifier and a regressor for counts.

They clone, pickle, and work in pipelines and grid searches like the linear ones. Training needs
JAX and optax (``pip install 'tvdbayes[jax]'``); making an estimator does not.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Literal

from tvdbayes.estimators.base import (
    AbstractClassifier,
    AbstractCountRegressor,
    AbstractEstimator,
)
from tvdbayes.estimators.rows import Rows
from tvdbayes.models.families import AbstractFamily
from tvdbayes.models.model import hidden_layers
from tvdbayes.models.predictors import MLP
from tvdbayes.sampling.plan import AUTO_RIDGE


@dataclass(eq=False, repr=False, kw_only=True)
class AbstractNetwork(AbstractEstimator):
    """An estimator of which every draw is a network."""

    hidden: Sequence[int] | int = (50,)
    activation: Literal["relu", "silu", "tanh"] = "relu"
    refine: Literal["reweight"] | None = "reweight"
    n_draws: int = 50
    epochs: int = MLP.epochs
    learning_rate: float = MLP.learning_rate
    batch_rows: int = MLP.batch_rows
    weight_decay: float = MLP.weight_decay
    hold_out: float = MLP.hold_out

    def _fit_rows(self, rows: Rows, law: AbstractFamily) -> None:
        given = self.get_params(deep=False) | {"hidden": hidden_layers(self.hidden)}
        network = MLP(**{one.name: given[one.name] for one in fields(MLP) if one.name in given})
        refine = "auto" if self.refine == "reweight" else self.refine
        # Networks begin at lines, where the ridge decides between columns that determine one
        # another.
        self._draw(rows, law, network, ridge=AUTO_RIDGE, refine=refine)


@dataclass(eq=False, repr=False)
class RobustMLPClassifier(AbstractClassifier, AbstractNetwork):
    """Classification by networks whose wrong labels do not drive the answer.

    Two classes: a yes/no answer. More: multinomial logit, all classes treated alike. Every draw is
    a network of its own; probabilities are averaged over them.

    Parameters
    ----------
    hidden : sequence of int, or int
        Nodes of each hidden layer; a number is one layer.
    activation : "relu", "silu" or "tanh"
        What a hidden node does.
    refine : "reweight" or None
        End every draw with one-step reweighting: rows that the closest network cannot explain lose
        their weight, and maximum likelihood trains on the rest. Without effect where the divergence
        compares row by row ("kld", "density_power").
    n_draws : int
        Posterior draws; 0 gives one network alone, without intervals.
    epochs, learning_rate, batch_rows, weight_decay, hold_out
        How networks are trained, see `MLP`.
    device : str, optional
        Where to train: "gpu", or "gpu:float32"; the processor unless given.
    divergence, partition, n_jobs, progress, random_state
        As in `RobustCountRegressor`.

    Attributes
    ----------
    classes_, posterior_, n_features_in_, feature_names_in_
        As in `RobustClassifier`; draws are networks.

    Examples
    --------
    >>> import tvdbayes as tb
    >>> data = tb.example_data()
    >>> model = tb.RobustMLPClassifier(hidden=8, n_draws=5).fit(data["age"][:, None], data["ill"])
    >>> model.predict([[2], [5]])
    array([0, 1])
    """

    hidden: Sequence[int] | int = (50,)


@dataclass(eq=False, repr=False)
class RobustMLPRegressor(AbstractCountRegressor, AbstractNetwork):
    """Regression for counts by networks whose wrong rows do not drive the answer.

    Every draw is a network of its own; predictions are expected counts, averaged over them.

    Parameters
    ----------
    hidden : sequence of int, or int
        Nodes of each hidden layer; a number is one layer.
    family, bins, partition, n_jobs, progress, random_state
        As in `RobustCountRegressor`.
    divergence : str or AbstractDivergence
        "tvd", "kld" (likelihood), "hellinger" or "power".
    activation, refine, n_draws, epochs, learning_rate, batch_rows, weight_decay, hold_out, device
        As in `RobustMLPClassifier`.

    Attributes
    ----------
    posterior_, n_features_in_, feature_names_in_
        As in `RobustCountRegressor`; draws are networks.

    Examples
    --------
    >>> import numpy as np, tvdbayes as tb
    >>> rng = np.random.default_rng(1)
    >>> X = rng.integers(0, 5, (600, 1))
    >>> y = rng.poisson(np.where(X[:, 0] < 3, 1, 8))  # no line can say this
    >>> y[:60] += 40  # a tenth of the rows is wrong
    >>> model = tb.RobustMLPRegressor(hidden=8, n_draws=5).fit(X, y)
    >>> np.abs(model.predict([[1], [4]]) - [1, 8]) < 1.5  # off by little
    array([ True,  True])
    """

    hidden: Sequence[int] | int = (50,)
