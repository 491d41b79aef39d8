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
from scipy import sparse

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
        """Degrees of freedom of the variance of ``along' @ score`` from CR3, for columns (d, D)."""
        d, n = along.shape
        # Of each term b' (s - I_c inv(I) s_total): b' M_c b, and with b' the rows of both (u, 2d).
        joint, weighted = np.zeros((2, n, 2 * d, 2 * d))
        whole = np.zeros((d, d))
        own_sum, own_squares = np.zeros(n), np.zeros(n)
        for counts, _, info, squared, alone in self._parts():
            whole += np.tensordot(counts, squared, 1)
            for j, one in enumerate(along.T):
                b = one @ alone
                g, u = (info @ b[:, :, None])[:, :, 0], (squared @ b[:, :, None])[:, :, 0]
                own, both = (b * u).sum(1), np.concatenate([g, u], axis=1)
                joint[j] += (both * counts[:, None]).T @ both
                weighted[j] += (both * (counts * own)[:, None]).T @ both
                own_sum[j] += counts @ own
                own_squares[j] += counts @ own**2
        inverse = self.inverse
        outer = np.block([[inverse @ whole @ inverse, -inverse], [-inverse, np.zeros((d, d))]])
        pulled = outer @ joint
        total = own_sum + np.trace(pulled, axis1=1, axis2=2)
        crossed = np.trace(pulled @ pulled, axis1=1, axis2=2)
        crossed += own_squares + 2 * np.trace(outer @ weighted, axis1=1, axis2=2)
        most = self.units.n_units - self.units.n_strata
        found: Array = np.minimum(total**2 / np.maximum(crossed, 1e-300), most)
        return found

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
        units, cells, d = self.units, self.layout.cells, len(self.inverse)
        cell, mass = units.cell[entries], units.mass[entries]
        # Scores and informations of each cell, or of each entry where these are fewer.
        few = cells.n_cells <= len(cell)
        at, place = (np.arange(cells.n_cells), cell) if few else (cell, np.arange(len(cell)))
        jacobian = np.zeros((len(at), len(self.score), d))
        linear = self.layout.bound
        for a, (z, columns) in enumerate(zip(linear.designs, linear.slices, strict=True)):
            jacobian[:, a, columns] = z[cells.x_index[at]]
        each = np.einsum("eai,ae->ei", jacobian, self.score[:, at])
        inner = np.einsum("abe,ebj->eaj", self.information[:, :, at], jacobian)
        info = np.einsum("eai,eaj->eij", jacobian, inner).reshape(len(at), d * d)
        where = np.append(begin, len(cell))

        def total(weight: Array, values: Array) -> Array:
            by_unit = sparse.csr_array((weight, place, where), (len(begin), len(at)))
            return np.asarray(by_unit @ values, float)

        of_units = total(mass, info).reshape(-1, d, d)
        squared = total(mass**2 / units.rows[entries], info).reshape(-1, d, d)
        share = of_units @ self.inverse
        size = np.trace(share, axis1=1, axis2=2)
        share *= np.minimum(1.0, _MOST / np.maximum(size, _MOST))[:, None, None]
        alone = np.asarray(np.linalg.inv(np.eye(d) - share), float)
        return total(mass, each), of_units, squared, alone
