"""How far a coefficient can move without the distance noticing."""

import numpy as np

from tvdbayes._typing import Array
from tvdbayes.execution import single_threaded
from tvdbayes.posterior._record import Posterior
from tvdbayes.posterior.rows import layout_of, masses_of

__all__ = ["flat_ranges"]

_STEPS = np.array([0.03, 0.1, 0.3, 1.0, 3.0])
_SAME = 0.02
"""Changes of the distance below this share of its own posterior deviation do not count."""


def flat_ranges(posterior: Posterior) -> Array:
    """How far each coefficient can move from the minimiser, (d,), in posterior deviations, while
    the unexplained share hardly changes; at most 3.

    Far-off wrong rows make the distance flat: any rate in a whole stretch explains the rest
    equally well, and the solution is then a rule's, not the data's.
    """
    theta, d = posterior.minimiser, len(posterior.param_names)
    if posterior.n_draws < 2:
        return np.zeros(d)
    spread = posterior.draws.std(0)
    moves = np.concatenate([_STEPS, -_STEPS])
    steps = (np.eye(d)[:, None] * moves[None, :, None]).reshape(-1, d) * spread
    with single_threaded():
        layout = layout_of(posterior)
        tried = layout.bound.from_user(np.concatenate([theta[None], theta + steps]).T)
        p = np.broadcast_to(posterior.cells.p[:, None], (posterior.cells.n_cells, tried.shape[1]))
        unexplained = (p * masses_of(layout, tried, p).score).sum(0)
    same = (np.abs(unexplained[1:] - unexplained[0]) < _SAME * posterior.distance.std()).reshape(
        d, 2, len(_STEPS)
    )
    # A stretch ends at the first step that is noticed.
    reached = np.where(np.logical_and.accumulate(same, axis=2), _STEPS, 0.0).max(2)
    reached[spread == 0] = 0.0
    widest: Array = reached.max(1)
    return widest
