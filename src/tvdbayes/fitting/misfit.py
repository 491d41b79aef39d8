"""How much of the data a fit cannot explain, and what chance alone would leave unexplained."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from tvdbayes._errors import DataError, SettingsError
from tvdbayes._typing import Array, IntArray
from tvdbayes._validate import probability
from tvdbayes.bounds import misfit_split
from tvdbayes.fitting.progress import progress_bar
from tvdbayes.results.base import AbstractFit
from tvdbayes.results.misfit import (
    Certificate,
    Misfit,
    dropped_rows,
    misfit,
    share_of_data,
    wrong_share,
)
from tvdbayes.results.replicates import Replicates, replicate
from tvdbayes.sampling.posterior import Posterior

N_REPLICATES = 200

_MOST_LEVELS = 100

By = str | Sequence[object] | None
"""The factor that shares are wanted for: a column of the fit, or a label for each row."""


class MisfitAnswers(AbstractFit):
    """Methods of `Fit` on the share of the data that the model cannot explain."""

    @cached_property
    def chance(self) -> Replicates:
        """What chance alone does, seen on 200 data sets of the model's own making, fitted again.

        Kept after the first time, as `misfit`, `rows`, `check` and `sensitivity` all need it.
        """
        return replicates_of(self, N_REPLICATES)

    def misfit(
        self,
        interval: float = 0.9,
        *,
        by: str | Sequence[object] | None = None,
        n_replicates: int = 200,
        certificate: float | None = None,
    ) -> Misfit:
        """How much of the data the model cannot explain, beside what chance would leave.

        The model is the one shown, also after ``refine="reweight"``, where `distance` holds the
        distances of the closest models that reweighting begins at.

        Parameters
        ----------
        interval : float
            Probability inside the interval.
        by : str or sequence, optional
            A column of the fit, or a label for each row: the share within each level, too.
        n_replicates : int
            Data sets that the noise floor is found from.
        certificate : float, optional
            Confidence of a bound that needs no asymptotics, such as 0.95: the model is fitted to
            one half of the rows, with the options of this fit, and judged on the other, outcome by
            outcome (see `bounds.misfit_split`). Weights must count rows.

        Returns
        -------
        Misfit
            ``lower`` is the share of rows that at least do not come from the model; it is 0 on
            clean data in 95 % of cases. ``wrong``, ``wrong_low`` and ``wrong_high`` are an estimate
            of the share of wrong rows and its interval, from what a trimmed fit drops.

        Examples
        --------
        `Misfit` shows what is printed. Where are the wrong rows?

        >>> import tvdbayes as tb
        >>> fit = tb.fit("visits ~ age + region", tb.example_data(wrong=0.1), n_draws=50)
        >>> found = fit.misfit(by=["clinic a"] * 200 + ["clinic b"] * 800)
        >>> {name: round(part.lower, 2) for name, part in found.by.items()}
        {'clinic a': 0.46, 'clinic b': 0.0}
        """
        posterior, levels, wrong = self.posterior, {}, None
        if by is None:
            chance, share = self._chance(n_replicates), _shares(posterior)
        else:
            names, of_cells, of_x = levels_of(self, by)
            share, *shares = share_of_data(posterior, of_cells)
            chance = replicates_of(self, n_replicates, of_x)
            levels = {
                name: misfit(own, floor, interval)
                for name, own, floor in zip(names, shares, chance.by_level, strict=True)
            }
        route = None if posterior.kept_rows is None else posterior.kept_rows.route
        if route not in (None, "ordinary"):
            wrong = wrong_share(dropped_rows(posterior), posterior.cells.n_obs, chance.dropped)
        return replace(
            misfit(share, chance.distance, interval),
            by=levels,
            certificate=None if certificate is None else _certify(self, certificate),
            wrong_draws=wrong,
            wrong_unknown=route == "ordinary",
        )

    def _chance(self, n_replicates: int) -> Replicates:
        return self.chance if n_replicates == N_REPLICATES else replicates_of(self, n_replicates)


def replicates_of(fit: AbstractFit, n_replicates: int, levels: Array | None = None) -> Replicates:
    """Data of the model's own making, fitted again."""
    if not 20 <= n_replicates <= 100_000:
        raise SettingsError(
            f"n_replicates must be from 20 to 100,000; got {n_replicates}. Try 200."
        )
    with progress_bar(None, f"{n_replicates} replicates") as report:
        return replicate(fit.posterior, n_replicates, levels=levels, progress=report)


def _certify(fit: AbstractFit, confidence: float) -> Certificate:
    """The bound of `bounds.misfit_split`, in the terms of a misfit."""
    probability("certificate", confidence, 0.95)
    found = misfit_split(fit.posterior, 1 - confidence)
    assumptions = list(found.assumptions)
    if fit.rounded is not None:
        assumptions.append("covariates are meant as the engine has rounded them (grid=)")
    return Certificate(found.upper, confidence, found.statement, f"{'; '.join(assumptions)}.")


def _shares(posterior: Posterior) -> Array:
    """Shares draw by draw; those of a TVD fit are its distances, unless refined."""
    plain = posterior.prior is None and posterior.refine is None
    if posterior.divergence.name == "tvd" and plain:
        return posterior.distance
    (shares,) = share_of_data(posterior)
    return np.asarray(shares, float)


def levels_of(fit: AbstractFit, by: By) -> tuple[list[str], Array, Array]:
    """Names of the levels, and the weight that each has in each cell (L, m) and x row (L, n_x)."""
    data, cells = fit.data, fit.posterior.cells
    if isinstance(by, str):
        if by not in data.columns:
            raise DataError(
                f"{by!r} is no column of this fit; it has {', '.join(data.columns)}. For another "
                "column pass its values, one for each row."
            )
        if by == data.outcome:
            raise DataError(
                f"{by!r} is the outcome, and levels that are chosen by it look odd by chance "
                "alone. Ask by a covariate; rows() says which outcomes stand out."
            )
        labels = data.columns[by].series().to_numpy(dtype=object)
        cell, weight = data.cell, data.counts
    else:
        given = np.asarray(by, dtype=object)
        if given.shape != fit.cell_of_row.shape:
            raise DataError(
                f"by= needs one label for each of the {len(fit.cell_of_row)} rows; got shape "
                f"{given.shape}."
            )
        used = np.flatnonzero(data.row >= 0)
        labels, cell = given[used], fit.cell_of_row[used]
        # Rows of one distinct row share its weight.
        weight = (data.counts / np.bincount(data.row[used]))[data.row[used]]
    names, code = _coded(labels)
    if len(names) > _MOST_LEVELS:
        raise DataError(
            f"by= has {len(names)} different values, and at most {_MOST_LEVELS} levels are shown. "
            "Cut it into a few first, for example with pandas.cut."
        )
    m = cells.n_cells
    total = np.bincount(code * m + cell, weight, len(names) * m).astype(float)
    of_cells: Array = total.reshape(len(names), m)
    of_x = np.zeros((len(names), cells.n_x))
    np.add.at(of_x.T, cells.x_index, of_cells.T)
    return names, of_cells, of_x / cells.x_counts


def _coded(labels: Any) -> tuple[list[str], IntArray]:
    try:
        codes, found = pd.factorize(pd.Series(labels), sort=False)
    except TypeError as error:
        raise DataError(f"by= needs labels that are numbers or text: {error}.") from error
    if (codes < 0).any():
        raise DataError(f"by= has {int((codes < 0).sum())} gaps; every row needs a label.")
    try:
        order = np.argsort(found.to_numpy(), kind="stable")
    except TypeError:
        # Labels of several kinds have no order of their own: as they come.
        order = np.arange(len(found))
    rank = np.empty(len(found), np.intp)
    rank[order] = np.arange(len(found))
    return [str(found[i]) for i in order], rank[codes]
