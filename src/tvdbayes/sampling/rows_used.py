"""Which rows a trimmed likelihood used, and what rows far out change about the answer."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tvdbayes._typing import Array
from tvdbayes.sampling.rules import differing
from tvdbayes.sampling.summary import intervals
from tvdbayes.trimming import KeptRows, farthest_column

if TYPE_CHECKING:
    from tvdbayes.sampling.posterior import Posterior


@dataclass(frozen=True)
class RowsUsed:
    """What is said of the rows of a fit; prints as a paragraph.

    Parameters
    ----------
    kept : str
        How many rows were dropped, and why.
    far : str
        What became of the rows far out in the covariates, with both answers where it matters; empty
        if there are none.
    doubtful : bool
        Whether the far rows contradict the others, or decide though they are too few to be judged.
    caveat : str
        Why two fits that agree do not tell that the far rows are right; empty if they do.
    """

    kept: str
    far: str
    doubtful: bool
    caveat: str

    def __str__(self) -> str:
        return " ".join(text for text in (self.kept, self.far) if text)


def rows_used(posterior: "Posterior") -> RowsUsed | None:
    """Which rows a fit used; None unless it is a trimmed likelihood."""
    kept, cells = posterior.kept_rows, posterior.cells
    if kept is None:
        return None
    out, far = kept.far_kept_out(cells), kept.of_far(cells)
    second = _second_answer(posterior, kept, out)
    taken_in = kept.bend is not None or not kept.far_judged
    caveat = ""
    if out:
        caveat = "Rows far out that contradict the others were dropped, see rows used."
    elif far and taken_in:
        caveat = "Both use the rows far out, which need not be right: see rows used."
    doubtful = out or kept.bend is not None or bool(second and taken_in)
    return RowsUsed(kept.of_all(cells), f"{far} {second}".strip(), doubtful, caveat)


def _second_answer(posterior: "Posterior", kept: KeptRows, out: bool) -> str:
    """Both answers for the coefficient in which they differ most; empty if none does."""
    draws, without = posterior.draws, kept.without_far
    others: Array = posterior.kld_draws
    if not out:
        if without is None or (kept.bend is None and kept.far_judged):
            return ""
        others = np.broadcast_to(without, draws.shape)
    apart = differing(draws, others)
    if not apart.any():
        return ""
    gap = draws - others
    away = np.abs(gap.mean(0)) / np.maximum(gap.std(0), 1e-300)
    j = int(np.argmax(np.where(apart, away, -1.0)))
    column = posterior.cells.names[
        farthest_column(posterior.cells, kept.far) if kept.bend is None else kept.bend
    ]
    spline = f"bs({column})" if column.isidentifier() else "a spline, bs(...),"
    name, shown = posterior.param_names[j], _shown(draws[:, j])
    if out:
        return (
            f"The coefficient of {name} is {shown} without them, which is shown, and "
            f"{_shown(others[:, j])} in the likelihood fit of all rows: "
            f'divergence="kld" shows that one, and {spline} in the formula models a bend.'
        )
    return (
        f"The coefficient of {name} is {shown} with them, which is shown, and {others[0, j]:.3g} "
        f"without them: leave them out of the data to see that fit, or model a bend by {spline} in "
        "the formula."
    )


def _shown(draws: Array) -> str:
    low, high = intervals(draws[:, None])[:, 0]
    return f"{draws.mean():.3g} [{low:.3g}, {high:.3g}]"
