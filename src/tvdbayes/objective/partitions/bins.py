"""Neighbouring outcomes that are compared together, where counts are large and spread out.

In a group of rows whose outcomes are nearly all different, each observed outcome holds more mass
than the model gives it: rates come out too low, and a free dispersion is driven to its boundary. A
bin is as wide as the stretch that holds `ENOUGH_ROWS` rows in the typical group.
"""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from tvdbayes._errors import SettingsError
from tvdbayes._typing import Array, IntArray
from tvdbayes.data.cells import Cells
from tvdbayes.models.families import gauss_sum
from tvdbayes.objective.partitions._base import Grouping
from tvdbayes.objective.partitions.groups import ENOUGH_ROWS

_LEAST_BINS = 3
"""A bin holds at most this part of a typical group, so that a group has several bins."""

_ALL = 24
"""Stretches of up to this many outcomes are summed one by one."""
_FEW_PIECES, _MANY_PIECES = 4, 400
"""A learned bin is narrower than what its rows spread over, so a pmf that fits is smooth in it; a
bin that was asked for may be as wide as anyone likes."""
_GROWTH = 3.0
"""By how much a bin may be wider than the one before it: windows reach across gaps to outliers."""


@dataclass(frozen=True, eq=False)
class Bins:
    """Sorted stretches of outcomes, from `lows` to `highs` (both included).

    Of several tables that are compared as one (`joined`) each has its own, one after the other, and
    ``bin_of_cell`` says to which each cell belongs.

    Examples
    --------
    >>> from tvdbayes import Bins
    >>> print(Bins.starting_at([0, 1, 2, 4], 9))
    2 to 3, 4 to 9
    """

    lows: Array
    highs: Array
    most_pieces: int = _FEW_PIECES
    bin_of_cell: IntArray | None = None

    @classmethod
    def joined(cls, tables: Sequence["Bins"], y: Array, ends: IntArray) -> "Bins":
        """Those of several tables, whose cells with outcomes y stand one table after the other.

        ``ends`` are the first cell of each table, and how many cells there are.
        """
        first, number = 0, []
        for bins, (start, end) in zip(tables, pairwise(ends.tolist()), strict=True):
            number.append(bins.number(y[start:end]) + first)
            first += bins.n_bins
        lows, highs = (
            np.concatenate([getattr(bins, side) for bins in tables]) for side in ("lows", "highs")
        )
        return replace(tables[0], lows=lows, highs=highs, bin_of_cell=np.concatenate(number))

    @classmethod
    def starting_at(cls, lows: Sequence[float], last: float) -> "Bins":
        """Bins that begin at these outcomes; the last one ends at `last`."""
        try:
            first = np.asarray(lows, float)
        except (ValueError, TypeError):
            first = np.zeros(0)
        good = first.ndim == 1 and first.size > 1 and bool(np.isfinite(first).all())
        if not (good and (first == np.round(first)).all() and (np.diff(first) > 0).all()):
            raise SettingsError(
                "bins must be the first outcomes of at least two bins, whole numbers that "
                f"increase; got {lows!r}."
            )
        first = first[first <= last]
        if first.size < 2 or first[0] < 0:
            raise SettingsError(
                f"bins must start between 0 and the largest outcome, {last:g}; got {lows!r}."
            )
        ends = np.append(first[1:] - 1, last)
        if (np.sqrt(ends) - np.sqrt(first) > _MANY_PIECES).any():
            raise SettingsError(
                f"A bin up to {last:g} is too wide to be summed. Start more bins below it."
            )
        return cls(first, ends, 2 * _MANY_PIECES)

    @property
    def n_bins(self) -> int:
        """Number of bins."""
        return len(self.lows)

    @property
    def wide(self) -> bool:
        """Whether any bin holds more than one outcome."""
        return bool((self.highs > self.lows).any())

    def covering(self, y: Array) -> "Bins":
        """These bins, and bins of their own for outcomes that lie in none."""
        alone = np.unique(y[self._holds(y) < 0])
        lows, highs = np.append(self.lows, alone), np.append(self.highs, alone)
        order = np.argsort(lows)
        return replace(self, lows=lows[order], highs=highs[order])

    def filled(self) -> "Bins":
        """These bins without gaps between them.

        Outcomes between learned bins were not observed, but new data may have them.
        """
        return replace(self, highs=np.append(self.lows[1:] - 1, self.highs[-1]))

    def placing(self, y: Array) -> tuple["Bins", IntArray]:
        """The bins that the outcomes y (m,) of a table's cells need, and the bin of each cell."""
        if self.bin_of_cell is not None:
            return self, self.bin_of_cell
        bins = self.covering(np.unique(y))
        return bins, bins.number(y)

    def isolating(self, outcomes: Sequence[float]) -> "Bins":
        """These bins, with the given outcomes cut out to stand alone."""
        lows, highs = self.lows, self.highs
        for outcome in outcomes:
            cut = (lows <= outcome) & (highs >= outcome)
            left, right = cut & (lows < outcome), cut & (highs > outcome)
            alone, before, after = (
                np.full(n.sum(), outcome + step)
                for n, step in ((cut, 0.0), (left, -1.0), (right, 1.0))
            )
            lows = np.sort(np.concatenate([lows[~cut], lows[left], alone, after]))
            highs = np.sort(np.concatenate([highs[~cut], before, alone, highs[right]]))
        return replace(self, lows=lows, highs=highs)

    def number(self, y: Array) -> IntArray:
        """The bin of each outcome, all of which must lie in one."""
        return np.searchsorted(self.lows, y, side="right") - 1

    def _holds(self, y: Array) -> IntArray:
        number = self.number(y)
        return np.where((number >= 0) & (y <= self.highs[number]), number, -1)

    def nodes(self, cuts: Array) -> tuple[IntArray, Array, Array]:
        """The bin of each node, the nodes, and their weights.

        A weighted sum over the nodes of a bin is the sum over its outcomes: all of them near 0,
        Gauss nodes of short stretches above. No stretch goes across one of the `cuts` (numbers of
        trials), beyond which some rows have no outcomes.
        """
        stretches = list(zip(self.lows.tolist(), self.highs.tolist(), strict=True))
        # Bins of several tables are often the same.
        each = {stretch: self._nodes(*stretch, cuts) for stretch in dict.fromkeys(stretches)}
        found = [each[stretch] for stretch in stretches]
        bins = np.repeat(np.arange(self.n_bins), [len(y) for y, _ in found])
        y, weights = (np.concatenate(parts) for parts in zip(*found, strict=True))
        return bins, y, weights

    def _nodes(self, low: float, high: float, cuts: Array) -> tuple[Array, Array]:
        """Nodes and weights of one bin."""
        pieces, start = [], low
        for end in [*cuts[(cuts >= low) & (cuts < high)].tolist(), high]:
            pieces += _pieces(start, end, self.most_pieces)
            start = end + 1
        y, weights = (np.concatenate(parts) for parts in zip(*pieces, strict=True))
        return y, weights

    def __str__(self) -> str:
        wide = self.highs > self.lows
        named = [
            f"{low:g} to {high:g}"
            for low, high in zip(self.lows[wide], self.highs[wide], strict=True)
        ]
        return ", ".join(named[:6]) + (", ..." if len(named) > 6 else "")


def _pieces(low: float, high: float, most: int) -> list[tuple[Array, Array]]:
    """Nodes and weights of stretches over which any pmf of counts is smooth: two deviations of a
    Poisson distribution, the narrowest that matters; but not many more than `most` of them.
    """
    found, least = [], np.ceil((high - low + 1) / most)
    while low <= high:
        length = _ALL if low < _ALL else max(_ALL, np.floor(2 * np.sqrt(low)), least)
        end = min(low + length - 1, high)
        found.append(gauss_sum(low, end, 12) if end - low >= _ALL else gauss_sum(low, end, _ALL))
        low = end + 1
    return found


def learn_bins(cells: Cells, grouping: Grouping, group_size: float) -> Bins | None:
    """Bins for a table whose median group has this many rows; None where none is needed.

    A bin holds `ENOUGH_ROWS` rows of a typical group, but no more than a third of it.
    """
    ends = np.array([0, cells.n_cells])
    (bins,) = learn_bins_of_tables(cells, grouping, group_size, ends)
    return bins if bins.wide else None


def learn_bins_of_tables(
    cells: Cells, grouping: Grouping, group_size: float, ends: IntArray
) -> tuple[Bins, ...]:
    """The same for several tables whose cells stand one table after the other, none in the groups
    of another; ``ends`` as in `Bins.joined`. Where none is needed each outcome has its own.
    """
    windows = _windows(cells, grouping, min(ENOUGH_ROWS, group_size / _LEAST_BINS))
    place, widths = (np.concatenate(parts) for parts in zip(*windows, strict=True))
    table = np.searchsorted(ends, place, side="right") - 1
    order = np.argsort(table, kind="stable")
    place, widths = place[order], widths[order]
    parts = pairwise(np.searchsorted(table[order], np.arange(len(ends))).tolist())
    found = []
    for (first, last), (start, end) in zip(parts, pairwise(ends.tolist()), strict=True):
        at, outcomes = place[first:last], np.unique(cells.y[start:end])
        typical = _medians(cells.y[at], widths[first:last], cells.counts[at])
        found.append(_bins_as_wide(outcomes, *typical))
    return tuple(found)


def _bins_as_wide(outcomes: Array, typical_at: Array, typical: Array) -> Bins:
    """Bins for these outcomes, as wide as is typical from where they start."""
    if not len(typical):
        return Bins(outcomes, outcomes)
    y, known, wide = outcomes.tolist(), typical_at.tolist(), typical.tolist()
    lows, highs = [], []
    at, width = 0, 1.0
    while at < len(y):
        low = y[at]
        wanted = max(1.0, wide[min(bisect_left(known, low), len(known) - 1)])
        width = wanted if at == 0 else min(wanted, _GROWTH * width)
        after = max(bisect_left(y, low + width), at + 1)
        lows.append(low)
        highs.append(y[after - 1])
        at = after
    return Bins(np.array(lows), np.array(highs))


def _windows(cells: Cells, grouping: Grouping, n_rows: float) -> list[tuple[IntArray, Array]]:
    """In every partition: the stretch from each cell on that holds enough rows of its group.

    The cells, and the widths of their stretches; without those with too few rows above them.
    """
    found = []
    for labels in grouping.groups:
        group = labels[grouping.atom_of_cell]
        order = np.lexsort((cells.y, group))
        y, counts = cells.y[order], cells.counts[order]
        # Where a group ends, for each of its cells.
        last_of_group = np.append(np.diff(group[order]) > 0, True)
        ends = np.flatnonzero(last_of_group) + 1
        after = ends[np.cumsum(last_of_group) - last_of_group]
        reached = np.cumsum(counts)
        last = np.searchsorted(reached, (reached - counts) + n_rows - 1e-9)
        inside = last < after
        found.append((order[inside], y[last[inside]] - y[inside]))
    return found


def _medians(starts: Array, widths: Array, mass: Array) -> tuple[Array, Array]:
    """The weighted median width for each distinct start."""
    order = np.lexsort((widths, starts))
    starts, widths, total = starts[order], widths[order], np.cumsum(mass[order])
    distinct, first = np.unique(starts, return_index=True)
    before = np.append(0.0, total)[first]
    whole = np.append(before[1:], total[-1]) - before
    return distinct, widths[np.searchsorted(total, before + whole / 2)]
