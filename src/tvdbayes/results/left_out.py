"""How well a fit predicts rows that it has not seen: leave-one-out and folds.

A row is one unit of a cell's count: leaving it out lowers the count by one. Its random weight is
taken out of every draw and the rest stays as it was (a Gamma(n) times a Beta(n - 1, 1) is a
Gamma(n - 1)), so draws with and without the row are paired, and all rows of a cell have the same
answer. Groups are those of the whole fit, which never looked at outcomes for them; bins, starts and
the shift of the draws are so too, and outcomes had a small part in those.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from numbers import Integral

import numpy as np

from tvdbayes._errors import MemoryBudgetError, SettingsError
from tvdbayes._typing import Array, BoolArray, IntArray
from tvdbayes._validate import whole_number
from tvdbayes.data.cells import Cells
from tvdbayes.models.predictors import dependent_columns
from tvdbayes.results.scores import Scores, score
from tvdbayes.sampling.bootstrap import AbstractPlan, draws_of, plan_of
from tvdbayes.sampling.execution import single_threaded
from tvdbayes.sampling.posterior import Posterior
from tvdbayes.sampling.weights import Stream, reweight

__all__ = [
    "HeldOut",
    "cross_validate",
    "fold_counts",
    "leave_one_out",
    "loses_a_column",
    "part_of",
    "whole_counts",
    "without",
]

Progress = Callable[[int, int], None]

_PROPER = ("log", "brier", "rps")

_MOST_REFITS = 5000
"""Of one row at a time; the table of their scores has as many lines and columns."""


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Scores of rows that were left out, robust and ordinary.

    Parameters
    ----------
    robust, ordinary : Scores
        Over all rows that could be left out.
    undefined : (m,)
        Cells that could not: without them a column of x would be 0, or follow from the others.
    by_fold : dict of (K, m)
        The scores of the robust fit for each cell when it is held out in each fold, NaN where no
        row of it is.
    """

    robust: Scores
    ordinary: Scores
    undefined: BoolArray
    by_fold: dict[str, Array]

    def __str__(self) -> str:
        lines = [f"Robust:\n{self.robust}", f"Ordinary:\n{self.ordinary}"]
        if self.undefined.any():
            lines.append(
                f"{int(self.undefined.sum())} cell(s) could not be left out: in every other row a "
                "column would be 0, or follow from the others."
            )
        return "\n".join(lines)

    __repr__ = __str__


def leave_one_out(
    posterior: Posterior, *, n_draws: int = 200, progress: Progress | None = None
) -> HeldOut:
    """Score every row by the fit to all others: one refit for each cell, with its count less one.

    See `Fit.leave_one_out`; counts must be whole.
    """
    counts = whole_counts(posterior.cells)
    if len(counts) > _MOST_REFITS:
        raise MemoryBudgetError(
            f"Leaving out one row at a time takes {len(counts):,} refits; at most "
            f"{_MOST_REFITS:,} are made. Use cross_validate."
        )
    removed = np.eye(len(counts), dtype=np.intp)
    return _held_out(posterior, removed, counts, n_draws, progress)


def cross_validate(
    posterior: Posterior,
    folds: int | IntArray = 10,
    *,
    n_draws: int = 200,
    progress: Progress | None = None,
) -> HeldOut:
    """Score every row by the fit to the other folds; see `Fit.cross_validate`.

    ``folds`` is their number, filled at random with single rows, or the rows of each cell in each,
    (K, m). Counts must be whole.
    """
    counts = whole_counts(posterior.cells)
    if isinstance(folds, Integral):
        folds = fold_counts(counts, int(folds), posterior.seed)
    elif np.shape(folds)[1:] != counts.shape or not (np.sum(folds, axis=0) == counts).all():
        raise SettingsError(
            "The rows of all folds together must be the rows of the table, cell by cell. Pass the "
            "number of folds instead."
        )
    return _held_out(posterior, np.asarray(folds), None, n_draws, progress)


_DEALT_EXACTLY = 1_000_000_000
"""NumPy draws from a hypergeometric law below this number of rows."""


def fold_counts(counts: IntArray, n_folds: int, seed: int) -> IntArray:
    """Deal the rows of cells with these counts (m,) into folds at random, (K, m).

    Fold sizes differ by one row at most. From a billion rows on each row is assigned to a fold
    independently, so that sizes are equal to about one in 10,000. The time depends on the number of
    cells, not of rows.
    """
    n = int(counts.sum())
    if not 2 <= n_folds <= n:
        raise SettingsError(f"folds must be from 2 to the number of rows, {n}; got {n_folds}.")
    rng = Stream.generator(seed, Stream.FOLDS)
    dealt = np.empty((n_folds, len(counts)), np.int64)
    left = np.asarray(counts, np.int64)
    for fold in range(n_folds):
        others = n_folds - fold
        if n < _DEALT_EXACTLY:
            size = -(-int(left.sum()) // others)
            dealt[fold] = rng.multivariate_hypergeometric(left, size, method="marginals")
        else:
            dealt[fold] = rng.binomial(left, 1 / others)
        left = left - dealt[fold]
    return dealt


def without(
    plan: AbstractPlan, posterior: Posterior, removed: IntArray, n_draws: int
) -> tuple[Array, Array]:
    """Draws (B, d), robust and ordinary, without so many rows (m,) of each cell."""
    cells = posterior.cells
    p = np.ascontiguousarray(reweight(cells, Stream.draws(posterior.seed), n_draws).p)
    left = cells.counts - removed
    for cell in np.flatnonzero(removed):
        rng = Stream.generator(posterior.seed, Stream.LEFT_OUT, int(cell))
        share = rng.beta(left[cell], removed[cell], n_draws) if left[cell] else np.zeros(n_draws)
        p[cell] *= share
    p /= p.sum(0)
    table, p = _reduced(cells, left, p)
    return draws_of(plan, p, table)


def _held_out(
    posterior: Posterior,
    removed: IntArray,
    counts: IntArray | None,
    n_draws: int,
    progress: Progress | None,
) -> HeldOut:
    """Hold out each line (m,) of `removed` in turn; `counts` are the rows that it stands for."""
    if posterior.prior is not None:
        raise SettingsError(
            "Rows cannot be held out of a fit with a prior, whose mass is no row. Fit without."
        )
    whole_number("n_draws", n_draws, 1)
    cells = posterior.cells
    fits: list[list[tuple[Scores, Array]]] = [[], []]
    by_fold = {name: np.full(removed.shape, np.nan) for name in _PROPER}
    undefined = np.zeros(cells.n_cells, bool)
    with single_threaded():
        plan = plan_of(posterior)
        for number, line in enumerate(removed):
            held = np.flatnonzero(line)
            if loses_a_column(posterior, cells.counts - line):
                undefined[held] = True
            else:
                draws = without(plan, posterior, line, int(n_draws))
                table = part_of(cells, held, line[held].astype(float))
                stands_for = line[held] if counts is None else counts[held]
                for kind, own in zip(fits, draws, strict=True):
                    found = score(replace(posterior, draws=own), table)
                    kind.append((found, stands_for.astype(float)))
                for name in _PROPER:
                    by_fold[name][number, held] = fits[0][-1][0].by_cell[name]
            if progress is not None:
                progress(number + 1, len(removed))
    if undefined.all():
        raise SettingsError(
            "No row can be left out: without it a column of x would be 0, or follow from the "
            "others. Use fewer covariates or merge rare levels."
        )
    robust, ordinary = map(_joined, fits)
    return HeldOut(robust, ordinary, undefined, by_fold)


def _joined(parts: list[tuple[Scores, Array]]) -> Scores:
    """Scores of several tables together; the rows that each cell stands for are given."""
    counts = np.concatenate([weight for _, weight in parts])
    n = float(counts.sum())

    def mean(name: str) -> float:
        return float(sum(getattr(part, name) * weight.sum() for part, weight in parts) / n)

    means = ("log", "brier", "rps", "predictive_likelihood", "accuracy")
    by_cell = {name: np.concatenate([part.by_cell[name] for part, _ in parts]) for name in _PROPER}
    return Scores(**{name: mean(name) for name in means}, n=n, counts=counts, by_cell=by_cell)


def whole_counts(cells: Cells) -> IntArray:
    """The counts of a table as whole numbers, which they must be."""
    if (cells.counts % 1 != 0).any():
        odd = cells.counts[cells.counts % 1 != 0][0]
        raise SettingsError(
            f"Rows can be held out only where weights are whole numbers of rows; got {odd:g}."
        )
    return cells.counts.astype(np.intp)


def loses_a_column(posterior: Posterior, left: Array) -> bool:
    """Whether the rows that are left no longer tell some column of x from the others."""
    cells, family = posterior.cells, posterior.model.family
    kept = np.bincount(cells.x_index, left, cells.n_x) > 0
    if kept.all() or not kept.any():
        return not kept.any()
    n_more = len(family.predictors) - family.n_main
    blocks = posterior.model.predictor.blocks(len(cells.names), family.n_main, n_more)
    columns = {tuple(j for j in block if j >= 0) for block in blocks} - {()}
    return any(
        len(dependent_columns(cells.x[kept][:, own])) > len(dependent_columns(cells.x[:, own]))
        for own in columns
    )


def _reduced(cells: Cells, left: Array, p: Array) -> tuple[Cells, Array]:
    """The table of the rows that are left; cells and x rows without any are gone."""
    kept = np.flatnonzero(left > 0)
    if kept.size == cells.n_cells:
        return cells, p
    return part_of(cells, kept, left[kept]), np.ascontiguousarray(p[kept])


def part_of(cells: Cells, index: IntArray, counts: Array) -> Cells:
    """Some cells of a table, with other counts."""
    used, x_index = np.unique(cells.x_index[index], return_inverse=True)
    return Cells(
        x=cells.x[used],
        offset=cells.offset[used],
        trials=cells.trials[used],
        x_index=x_index.ravel(),
        y=cells.y[index],
        counts=counts,
        names=cells.names,
    )
