"""Misfit, rows and cells in terms of the user's columns."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from numbers import Real
from typing import Any

import numpy as np
import pandas as pd

from tvdbayes._errors import DataError, SettingsError
from tvdbayes._typing import Array, IntArray
from tvdbayes.bounds import misfit_split
from tvdbayes.fitting.progress import progress_bar
from tvdbayes.fitting.record import Fit
from tvdbayes.results import Replicates, replicate, share_of_data
from tvdbayes.results.misfit import Certificate, Misfit, misfit
from tvdbayes.results.rows import SCORES, cell_scores, most_suspicious
from tvdbayes.results.wrong import dropped_rows, wrong_share

__all__ = [
    "N_REPLICATES",
    "By",
    "cells_of",
    "levels_of",
    "misfit_of",
    "replicates_of",
    "rows_of",
    "suspicious_of",
]

N_REPLICATES = 200

_MOST_LEVELS = 100

By = str | Sequence[object] | None
"""The factor that shares are wanted for: a column of the fit, or a label for each row."""


def replicates_of(fit: Fit, n_replicates: int, levels: Array | None = None) -> Replicates:
    """Data of the model's own making, fitted again."""
    if not 20 <= n_replicates <= 100_000:
        raise SettingsError(
            f"n_replicates must be from 20 to 100,000; got {n_replicates}. Try 200."
        )
    with progress_bar(None, f"{n_replicates} replicates") as report:
        return replicate(fit.posterior, n_replicates, levels=levels, progress=report)


def _chance(fit: Fit, n_replicates: int) -> Replicates:
    return fit.chance if n_replicates == N_REPLICATES else replicates_of(fit, n_replicates)


def misfit_of(
    fit: Fit, interval: float, by: By, n_replicates: int, certificate: float | None
) -> Misfit:
    """The unexplained share, overall and by level."""
    posterior = fit.posterior
    if by is None:
        chance = _chance(fit, n_replicates)
        found = misfit(_shares(fit), chance.distance, interval)
    else:
        names, of_cells, of_x = levels_of(fit, by)
        shares = share_of_data(posterior, of_cells)
        chance = replicates_of(fit, n_replicates, of_x)
        found = replace(
            misfit(shares[0], chance.distance, interval),
            by={
                name: misfit(share, floor, interval)
                for name, share, floor in zip(names, shares[1:], chance.by_level, strict=True)
            },
        )
    kept = posterior.kept_rows
    if kept is not None and kept.route == "ordinary":
        found = replace(found, wrong_unknown=True)
    elif kept is not None:
        dropped = dropped_rows(posterior)
        found = replace(
            found, wrong_draws=wrong_share(dropped, posterior.cells.n_obs, chance.dropped)
        )
    if certificate is None:
        return found
    return replace(found, certificate=_certify(fit, certificate))


def _certify(fit: Fit, confidence: float) -> Certificate:
    """The bound of `bounds.misfit_split`, in the terms of a misfit."""
    if not (isinstance(confidence, Real) and 0 < confidence < 1):
        raise SettingsError(
            f"certificate must be a probability between 0 and 1; got {confidence!r}. Try 0.95."
        )
    found = misfit_split(fit.posterior, 1 - confidence)
    assumptions = list(found.assumptions)
    if fit.rounded is not None:
        assumptions.append("covariates are meant as the engine has rounded them (grid=)")
    return Certificate(found.upper, confidence, found.statement, f"{'; '.join(assumptions)}.")


def _shares(fit: Fit) -> Array:
    """Shares draw by draw; those of a TVD fit are its distances, unless refined."""
    posterior = fit.posterior
    plain = posterior.prior is None and posterior.refine is None
    if posterior.divergence.name == "tvd" and plain:
        return posterior.distance
    (shares,) = share_of_data(posterior)
    return np.asarray(shares, float)


def rows_of(fit: Fit, false_alarm: float, n_replicates: int) -> pd.DataFrame:
    """One line for each input row, in input order."""
    by_cell = _scores(fit, false_alarm, n_replicates)
    used = fit.cell_of_row >= 0
    flag = by_cell.pop("flag").to_numpy()[fit.cell_of_row] & used
    spread = by_cell.iloc[fit.cell_of_row].reset_index(drop=True)
    spread.loc[~used] = np.nan
    spread["flag"] = flag
    raw = fit.data.frame()
    if fit.data.n_grouped is not None:
        raw = _apart(raw, ["count"]).assign(count=_whole(fit.data.counts))
    raw = raw.iloc[np.maximum(fit.data.row, 0)].reset_index(drop=True)
    if not used.all():
        raw = raw.where(np.broadcast_to(used[:, None], raw.shape))
    return _noted(pd.concat([_apart(raw, [*SCORES, "flag"]), spread], axis=1), fit)


def suspicious_of(fit: Fit, rows: pd.DataFrame) -> pd.DataFrame:
    """The lines of `rows_of`, equal rows put together, the most suspicious first."""
    known = np.flatnonzero(rows["score"].notna())
    _, first, n_rows = np.unique(fit.data.row[known], return_index=True, return_counts=True)
    order = np.argsort(first)
    lines = rows.iloc[known[first[order]]]
    # Where equal rows were put together before, each line has its count already.
    if fit.data.n_grouped is None:
        lines = _apart(lines, ["count"])
        lines.insert(list(lines.columns).index(SCORES[0]), "count", n_rows[order])
    worst = most_suspicious(lines["surprise"].to_numpy(), lines["score"].to_numpy())
    return _noted(lines.iloc[worst], fit)


def _apart(frame: pd.DataFrame, taken: Iterable[object]) -> pd.DataFrame:
    """The table under other names where some are taken."""
    names = set(frame.columns) | set(taken)
    new = {}
    for name in set(taken).intersection(frame.columns):
        free = f"data: {name}"
        while free in names:
            free = f"data: {free}"
        new[name] = free
    return frame.rename(columns=new)


def _whole(counts: Array) -> Array | IntArray:
    """Counts as whole numbers, where they are."""
    whole = bool((counts == np.round(counts)).all())
    return counts.astype(np.int64) if whole else counts


def cells_of(fit: Fit, false_alarm: float, n_replicates: int) -> pd.DataFrame:
    """One line for each cell: a distinct row of covariates with an outcome."""
    cells = fit.posterior.cells
    levels = fit.posterior.model.family.levels
    scores = _scores(fit, false_alarm, n_replicates)
    taken = {"outcome", "count", *SCORES, "flag"}
    names = (f"data: {name}" if name in taken else name for name in cells.names)
    columns: dict[str, Any] = dict(zip(names, cells.x[cells.x_index].T, strict=True))
    outcome = np.array(levels, object)[cells.y.astype(int)] if levels else cells.y
    known = pd.DataFrame({**columns, "outcome": outcome, "count": cells.counts})
    return _noted(pd.concat([known, scores], axis=1), fit)


def _scores(fit: Fit, false_alarm: float, n_replicates: int) -> pd.DataFrame:
    if not 0 < false_alarm < 1:
        raise SettingsError(f"false_alarm must lie between 0 and 1; got {false_alarm}. Try 0.05.")
    scores = cell_scores(fit.posterior)
    threshold = _chance(fit, n_replicates).threshold(false_alarm)
    return pd.DataFrame({**scores.columns, "flag": scores.stands_out(threshold)})


def _noted(frame: pd.DataFrame, fit: Fit) -> pd.DataFrame:
    """The table with a sentence on how to read it."""
    frame.attrs["note"] = (
        "Scores are means over the groups of nearby x that a row is in: they name a group and an "
        "outcome, not a proven row."
        if fit.posterior.partition.pools_rows
        else "Scores are of an outcome at an x: all rows that share both have the same."
    )
    if fit.posterior.kept_rows is not None:
        frame.attrs["note"] += (
            " Kept is the share of a row that the fit uses. Rows that it does not use are flagged "
            "where so many, or an outcome so far out, surprise more than chance would."
        )
    return frame


def levels_of(fit: Fit, by: By) -> tuple[list[str], Array, Array]:
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
