r"""How much wider draws must be where whole clusters, or weighted rows, are reweighted.

A unit c (a cluster) has the score :math:`s_c = \sum_i w_i s_i` and the information
:math:`I_c = \sum_i w_i I_i`; with :math:`n_h` units in stratum h, to first order random weights
have the covariance

.. math:: V_0 = I^{-1} \Big(\sum_h \frac{n_h}{n_h + 1} \sum_{c \in h} (s_c - \bar s_h)
    (s_c - \bar s_h)^T\Big) I^{-1}.

As in `weighted`, scores are too small where a unit has leverage. CR3 takes the score of each unit
at the fit without it, :math:`\tilde s_c = (1 - I_c I^{-1})^{-1} s_c` (Bell and McCaffrey, 2002),
which is the jackknife by units; with several strata deviations from their means, times
:math:`n_h / (n_h - 1)`. The degrees of freedom are those of Bell and McCaffrey, for outcomes of
which the model is right and rows are independent, at most the units less the strata. With weights
the scores have the covariance :math:`M_c = \sum_i w_i^2 I_i`, so those of the fit have

.. math:: \operatorname{Cov}(s_c, s_e) = M_c [c = e] - I_c I^{-1} M_e - M_c I^{-1} I_e
    + I_c I^{-1} M I^{-1} I_e.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tvdbayes._typing import Array, IntArray
from tvdbayes.data.sampling_units import SamplingUnits
from tvdbayes.objective import Layout

_MOST = 0.9
"""Leverages are taken to be at most this."""
_ELEMENTS = 1 << 22
"""Rows of units x squared parameters in work at a time."""


@dataclass(frozen=True, eq=False)
class UnitScores:
    """Scores of units at an estimate, and their covariance.

    Parameters
    ----------
    layout : Layout
    units : SamplingUnits
    score, information : (k, m), (k, k, m)
        Of a row of each cell, times the share of it that is kept.
    inverse : (d, d)
        Of the information of all rows.
    """

    layout: Layout
    units: SamplingUnits
    score: Array
    information: Array
    inverse: Array

    def covariances(self) -> tuple[Array, Array]:
        """The covariance of the draws, and CR3, of the scores (d, d)."""
        parts = [(s, np.einsum("uij,uj->ui", alone, s)) for _, s, _, _, alone in self._parts()]
        plain, wide = (np.concatenate(part) for part in zip(*parts, strict=True))
        units, n = self.units, self.units.units_of_stratum
        plain = self._centred(plain)
        more = np.ones(1)
        if units.n_strata > 1:
            wide, more = self._centred(wide), n / (n - 1)
        return self._squares(plain, n / (n + 1)), self._squares(wide, more)

    def freedoms(self, along: Array) -> Array:
        """Degrees of freedom along several columns (d, D)."""
        return np.array([self.freedom(one) for one in along.T])

    def freedom(self, along: Array) -> float:
        """Degrees of freedom of the variance of ``along @ score``, from CR3."""
        d = len(along)
        joint, whole = np.zeros((2 * d, 2 * d)), np.zeros((d, d))
        kept: list[tuple[Array, Array, Array]] = []
        for counts, _, info, squared, alone in self._parts():
            b = np.einsum("uij,i->uj", alone, along)
            g, u = np.einsum("uij,uj->ui", info, b), np.einsum("uij,uj->ui", squared, b)
            both = np.concatenate([g, u], axis=1)
            joint += (both * counts[:, None]).T @ both
            whole += np.einsum("u,uij->ij", counts, squared)
            kept.append((counts, (b * u).sum(1), both))
        inverse = self.inverse
        outer = np.block([[inverse @ whole @ inverse, -inverse], [-inverse, np.zeros((d, d))]])
        squares, total = float(np.trace(outer @ joint @ outer @ joint)), 0.0
        for counts, own, both in kept:
            pulled = ((both @ outer) * both).sum(1)
            squares += float(counts @ (own**2 + 2 * own * pulled))
            total += float(counts @ (own + pulled))
        most = self.units.n_units - self.units.n_strata
        return min(total**2 / max(squares, 1e-300), most)

    def _centred(self, scores: Array) -> Array:
        units = self.units
        total = np.add.reduceat(units.counts[:, None] * scores, units.strata_starts)
        return scores - (total / units.units_of_stratum[:, None])[units.stratum]

    def _squares(self, scores: Array, factor: Array) -> Array:
        """Sums of squares and products over units, times a factor of each stratum."""
        units = self.units
        weight = units.counts * np.broadcast_to(factor, units.n_strata)[units.stratum]
        total: Array = (scores * weight[:, None]).T @ scores
        return total

    def _parts(self) -> Iterator[tuple[Array, Array, Array, Array, Array]]:
        """Some units at a time: how many there are of each, their scores, informations I and M, and
        what takes a score to that at the fit without the unit.
        """
        units, d = self.units, len(self.inverse)
        starts = np.searchsorted(units.unit, np.arange(len(units.counts) + 1))
        most, first = max(1, _ELEMENTS // d**2), 0
        while first < len(units.counts):
            last = int(np.searchsorted(starts, starts[first] + most, side="right")) - 1
            last = min(max(last, first + 1), len(units.counts))
            entries = np.arange(starts[first], starts[last])
            begin = starts[first:last] - starts[first]
            yield units.counts[first:last], *self._of_entries(entries, begin)
            first = last

    def _of_entries(self, entries: IntArray, begin: IntArray) -> tuple[Array, Array, Array, Array]:
        units, cells = self.units, self.layout.cells
        cell, mass = units.cell[entries], units.mass[entries]
        jacobian = np.zeros((len(entries), len(self.score), len(self.inverse)))
        linear = self.layout.bound
        for a, (z, columns) in enumerate(zip(linear.designs, linear.slices, strict=True)):
            jacobian[:, a, columns] = z[cells.x_index[cell]]
        each = np.einsum("eai,ae->ei", jacobian, self.score[:, cell])
        inner = np.einsum("abe,ebj->eaj", self.information[:, :, cell], jacobian)
        info = np.einsum("eai,eaj->eij", jacobian, inner)
        score, of_units, squared = (
            np.add.reduceat(values, begin, axis=0)
            for values in (
                mass[:, None] * each,
                mass[:, None, None] * info,
                (mass**2 / units.rows[entries])[:, None, None] * info,
            )
        )
        share = of_units @ self.inverse
        size = np.trace(share, axis1=1, axis2=2)
        share *= np.minimum(1.0, _MOST / np.maximum(size, _MOST))[:, None, None]
        alone = np.asarray(np.linalg.inv(np.eye(share.shape[1]) - share), float)
        return score, of_units, squared, alone
