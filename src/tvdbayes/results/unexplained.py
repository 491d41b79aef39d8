"""The unexplained share of the data, draw by draw, over all rows and within levels of a factor."""

import numpy as np

from tvdbayes._typing import Array
from tvdbayes.results.rows import layout_of, scores_by
from tvdbayes.sampling.execution import single_threaded
from tvdbayes.sampling.posterior import Posterior
from tvdbayes.sampling.weights import Stream, reweight

__all__ = ["share_of_data"]

_ELEMENTS = 1 << 22


def share_of_data(posterior: Posterior, levels: Array | None = None) -> Array:
    """Mass that each draw cannot explain of its own reweighted data, (1 + L, B).

    First of all rows, then within levels, whose weights for each cell are ``levels`` (L, m).
    """
    cells = posterior.cells
    parts = np.ones((1, cells.n_cells))
    if levels is not None:
        parts = np.concatenate([parts, levels / np.maximum(levels.sum(0), 1e-300)])
    layout = layout_of(posterior)
    size = max(1, _ELEMENTS // cells.n_cells)
    found = [np.zeros((len(parts), 0))]
    with single_threaded():
        for first in range(0, posterior.n_draws, size):
            draws = (posterior.draws - posterior.shift)[first : first + size]
            p = reweight(cells, Stream.draws(posterior.seed, first=first), len(draws)).p
            score = np.concatenate([m.score for m in scores_by(layout, draws, p)], axis=1)
            found.append((parts @ (p * score)) / np.maximum(parts @ p, 1e-300))
    return np.concatenate(found, axis=1)
