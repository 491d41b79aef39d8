"""What the released network script did: scrambled labels, one network for all, and its scores."""

from typing import TYPE_CHECKING, Any

import numpy as np

from tvdbayes._array import Device
from tvdbayes._typing import Array, IntArray
from tvdbayes.experiments.contract import Measured
from tvdbayes.experiments.data import DataSet
from tvdbayes.experiments.network.labels import logistic
from tvdbayes.experiments.released import split_nine_tenths, weights
from tvdbayes.models.predictors import Layers

if TYPE_CHECKING:
    from tvdbayes.experiments.network.steps import Split

_NODES, _EPOCHS, _BATCH = 50, 10, 64
"""As in the released script."""


def scrambled(data: DataSet) -> tuple[Array, IntArray, IntArray]:
    """Distinct rows in sorted order, their labels in the released script, and their own.

    The script indexes the labels with the place of each row among the distinct ones, where it
    should have been the place of each distinct row among all.
    """
    x, first, place = np.unique(data.x, axis=0, return_index=True, return_inverse=True)
    # Where rows repeat, labels are left over at the end; no row asks for them.
    return x, data.y[place.ravel()][: len(x)], data.y[first]


def outer_likelihood(prob: Array, y: IntArray) -> float:
    """The published "predictive likelihood" of probabilities (B, n): all of them with all labels.

    The mean of 1 - |p - y| over every pair of a probability and a label, whichever row they are of.
    """
    p, share = prob.mean(), y.mean()
    return float(p * share + (1 - p) * (1 - share))


def released(data: DataSet, n_splits: int, n_draws: int) -> Measured:
    """One number for each split 0, 1, ...; the network is not reset between splits."""
    from tvdbayes.experiments.network.steps import probabilities, train

    x, y, own = scrambled(data)
    layers = Layers((x.shape[1], _NODES, 2), False, 0, "relu")
    network: Any = _start(layers)
    found: list[dict[str, float]] = []
    # In single precision, as the script; its steps are too small for a device to be of use.
    with Device.named("cpu:float32").here():
        for number in range(n_splits):
            state = np.random.RandomState(number)
            train_rows, test = split_nine_tenths(state, len(x))
            given = _split(x[train_rows], y[train_rows], n_draws, state)
            draws = train(layers, network, given)
            network = draws.last
            scores = _around(x, y, own, train_rows, test)
            for method, theta in (("TVD", draws.tvd), ("KLD", draws.kld)):
                prob = np.asarray(probabilities(layers, theta, x[test]), float)
                scores |= {f"{method}|{key}": v for key, v in _scores(prob, y[test]).items()}
            found.append(scores)
    chance = y.mean() * own.mean() + (1 - y.mean()) * (1 - own.mean())
    labels = {"data|labels of their rows": np.mean(y == own), "data|by chance": chance}
    values = {key: [scores[key] for scores in found] for key in found[0]}
    return {key: np.atleast_1d(numbers) for key, numbers in (labels | values).items()}


def _start(layers: Layers) -> Array:
    """Weights and biases that are uniform within one over the root of the nodes before them."""
    rng = np.random.default_rng(0)
    theta = np.zeros(layers.n_params)
    for part, biases in layers.layers(theta):
        reach = 1 / np.sqrt(len(part))
        part[:] = rng.uniform(-reach, reach, part.shape)
        biases[:] = rng.uniform(-reach, reach, biases.shape)
    return theta


def _split(x: Array, y: IntArray, n_draws: int, state: np.random.RandomState) -> "Split":
    """The rows of every step, by the generator that has made the split."""
    from tvdbayes.experiments.network.steps import Split

    n = len(y)
    n_steps = -(-n // _BATCH)
    places = np.zeros((n_draws, _EPOCHS, n_steps * _BATCH), np.int32)
    w = weights(n, n_draws)
    for draw, own in enumerate(w):
        for epoch in range(_EPOCHS):
            places[draw, epoch, :n] = state.choice(n, n, replace=True, p=own)
    used = np.tile(np.arange(n_steps * _BATCH) < n, _EPOCHS).reshape(-1, _BATCH)
    batches = places.reshape(n_draws, -1, _BATCH)
    return Split(x, y, np.unique(x, axis=0), batches, used.astype(float), w)


def _scores(prob: Array, y: IntArray) -> dict[str, float]:
    """Scores of probabilities (B, n): the published ones, and what they hide."""
    called = prob > 0.5
    return {
        "pred_lik": outer_likelihood(prob, y),
        "accuracy": float((called == (y == 1)).mean()),
        "likelihood by row": float(np.where(y == 1, prob, 1 - prob).mean()),
        "constant draws": float((called == called[:, :1]).all(1).mean()),
    }


def _around(
    x: Array, y: IntArray, own: IntArray, train: IntArray, test: IntArray
) -> dict[str, float]:
    """What needs no network: the larger class, and logistic regression on either labels."""
    found = {"data|larger class": float((y[test] == round(float(y.mean()))).mean())}
    for name, labels in (("own labels", own), ("scrambled labels", y)):
        right = (logistic(x[train], labels[train], x[test]) > 0.5) == (labels[test] == 1)
        found[f"logistic, {name}|accuracy"] = float(right.mean())
    return found
