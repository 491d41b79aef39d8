"""The rows that a trimmed likelihood is made of, and what is said of them."""

from dataclasses import dataclass
from typing import Literal

from tvdbayes._typing import Array, BoolArray
from tvdbayes.data.cells import Cells, amount
from tvdbayes.trimming.far import where

Route = Literal["central", "closest", "ordinary"]

MANY = 0.16
"""Share of dropped rows from which dropping must pay for itself, and another family may explain
them."""
_MANY_FAR = 0.25
"""If so large a share of the far rows is dropped, these contradict the others."""
_NOTHING = 1e-9
"""Shares of rows below this are rounding errors."""


@dataclass(frozen=True, eq=False)
class KeptRows:
    """The rows that an estimate is made of.

    Parameters
    ----------
    share : (m,)
        The share of each cell's mass that is kept.
    route : str
        Where the search began that won: "central" (the rows that are not far out) or "closest" (the
        closest model in total variation); "ordinary" if all rows are kept because dropping so many
        would not have paid.
    far : (n_x,)
        Which x rows are far out.
    far_agree : bool
        Whether these agree with the others and were let in.
    far_judged : bool
        Whether they are enough to be judged: the test would notice if the effects had the opposite
        sign out there.
    bend : int or None
        The column of x whose effect seems to bend, which is why far rows that contradict were let
        in.
    without_far : (d,) or None
        The fit without the far rows.
    worth : float
        How many independent rows a row counted for: less than 1 where rows belong together or weigh
        unequally (`dependence`).
    second : (d,) or None
        Another fit, far from this one, that the same rule would choose for some of the randomly
        reweighted tables, with other rows dropped. The draws, whose rows are held, do not show it.
    second_wins : float
        The share of these tables.
    """

    share: Array
    route: Route
    far: BoolArray
    far_agree: bool
    far_judged: bool = True
    bend: int | None = None
    without_far: Array | None = None
    worth: float = 1.0
    second: Array | None = None
    second_wins: float = 0.0

    def far_kept_out(self, cells: Cells) -> bool:
        """Whether far rows have no say, as a block or because many of them were dropped."""
        if self.bend is not None or not self.far.any():
            return False
        return not self.far_agree or _lost(cells, self.far, self.share) >= _MANY_FAR

    def of_all(self, cells: Cells) -> str:
        """How many rows of a table were used, and why."""
        n = cells.n_obs
        dropped = float(cells.counts @ (1 - self.share))
        if self.route == "ordinary":
            return (
                f"All {amount(n)} rows are used, by maximum likelihood: a robust fit would drop "
                f"over {MANY:.0%} of them and explain hardly more. The family may be too "
                "narrow, or an effect bent."
            )
        if dropped < _NOTHING * n:
            return f"All {amount(n)} rows are used."
        found = (
            f"{max(dropped, 1):,.0f} of {amount(n)} rows were dropped: more of these outcomes "
            "than the model allows."
        )
        if self.route == "closest":
            found += " The search began at the closest model in total variation."
        if dropped > MANY * n:
            found += " These are many: another family may explain them."
        return found

    def of_far(self, cells: Cells) -> str:
        """What became of the rows far out in the covariates; empty if there are none."""
        if not self.far.any() or self.route == "ordinary":
            return ""
        n_far = float(cells.x_counts @ self.far)
        rows, dropped = where(cells, self.far), n_far * _lost(cells, self.far, self.share)
        if self.bend is not None:
            return (
                f"{rows} contradict a straight line, but the effect of {cells.names[self.bend]} "
                "seems to bend among the other rows too, and the bend predicts them: they take "
                "part in the line."
            )
        if self.far_kept_out(cells):
            some = dropped < n_far - 0.5
            which = f"{dropped:,.0f} of them " if some else ""
            return (
                f"{rows} contradict the fit to the others, and {which}are dropped: they may be "
                "wrong, or an effect may bend there."
            )
        if dropped >= 1:
            return f"Of {rows} {dropped:,.0f} were dropped, the others agree with the fit."
        if not self.far_judged:
            return f"{rows} take part, but are too few to be judged by the others."
        return f"{rows} agree with the others."


def _lost(cells: Cells, far: BoolArray, share: Array) -> float:
    """The share of the far rows that is dropped where cells keep shares (m,)."""
    return float((cells.counts * far[cells.x_index]) @ (1 - share) / (cells.x_counts @ far))
