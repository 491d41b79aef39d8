"""How well a fit predicts outcomes: proper scores, also of rows that it has not seen.

Beside proper scores stand the paper's improper ones. A row is one unit of a cell's count: leaving
it out lowers the count by one. Its random weight is taken out of every draw and the rest stays as
it was (a Gamma(n) times a Beta(n - 1, 1) is a Gamma(n - 1)), so draws with and without the row are
paired, and all rows of a cell have the same answer. Groups are those of the whole fit, which never
looked at outcomes for them; bins, starts and the shift of the draws are so too, and outcomes had a
small part in those.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from numbers import Integral

import numpy as np

from tvdbayes._errors import DataError, MemoryBudgetError, SettingsError
from tvdbayes._typing import Array, BoolArray, IntArray
from tvdbayes._validate import whole_number
from tvdbayes.data.cells import Cells, places
from tvdbayes.models.families import AbstractFamily
from tvdbayes.models.predictors import dependent_columns
from tvdbayes.results.base_measure import tabulated
from tvdbayes.results.laws import Block, blocks, law_of
from tvdbayes.sampling.execution import single_threaded
from tvdbayes.sampling.plan import AbstractPlan, draws_of
from tvdbayes.sampling.planners import plan_of
from tvdbayes.sampling.posterior import Posterior
from tvdbayes.sampling.weights import Stream

_PROPER = ("log", "brier", "rps")
_MEANS = (*_PROPER, "predictive_likelihood", "absolute_error", "accuracy")
"""The scores by name, of which those are proper that no other law than the true one improves."""
Progress = Callable[[int, int], None]

_MOST_REFITS = 5000
"""Of one row at a time; the table of their scores has as many lines and columns."""
_DEALT_EXACTLY = 1_000_000_000
"""NumPy draws from a hypergeometric law below this number of rows."""


@dataclass(frozen=True, eq=False, repr=False)
class Scores:
    """Scores of the predictive law, averaged over rows.

    The first three are *proper*: no other law has a better expected score than the one that made
    the outcomes, so they cannot be improved by pretending to know more than one does.

    Parameters
    ----------
    log : float
        Mean of -log p(y given x); lower is better.
    brier : float
        Mean of (p - y) ** 2 for outcomes 0 and 1, with p the probability of 1. Otherwise the
        quadratic score, the mean of ``sum_k p_k ** 2 - 2 p_y + 1``, which of two outcomes would be
        twice that. Lower is better.
    rps : float
        Ranked probability score, the mean of ``sum_k (P(Y <= k) - 1{y <= k}) ** 2``: it counts how
        far off a prediction is. Lower is better. Of two outcomes it is the Brier score; without an
        order among three or more it makes no sense and is nan.
    predictive_likelihood : float
        The paper's mean of p(y given x). Improper: it can reward overconfidence, so a law that is
        surer than the truth may have a higher one.
    absolute_error : float
        The paper's mean over rows and draws j of ``|E_j(Y given x) - y|``, with the expected
        outcome of each draw. Lower is better, but it is improper: the best guess in this sense is
        the median, not the expected outcome. Levels of an ordinal outcome are 0, 1, ... here;
        without an order among three or more it makes no sense and is nan.
    accuracy : float
        Share of rows whose outcome is the most probable one (the smallest of several such).
        Higher is better, but it ignores how sure a prediction is.
    n : float
        Number of rows (total weight).
    counts : (m,)
        The same by cell.
    by_cell : dict
        "log", "brier" and "rps" of each cell, (m,): scores of two fits on the same table may be
        compared in pairs.

    Examples
    --------
    One wild row decides the log score, which is therefore best for the fit that follows such rows:

    >>> import tvdbayes as tb
    >>> fit = tb.fit("visits ~ age", tb.example_data(wrong=0.1), n_draws=20)
    >>> fit.score().log > fit.score(ordinary=True).log
    True
    >>> clean = tb.example_data(seed=1)
    >>> fit.score(clean).log < fit.score(clean, ordinary=True).log
    True
    """

    log: float
    brier: float
    rps: float
    predictive_likelihood: float
    absolute_error: float
    accuracy: float
    n: float
    counts: Array
    by_cell: dict[str, Array]

    def __str__(self) -> str:
        lower = "lower is better"
        ranked = lower if np.isfinite(self.rps) else "outcomes have no order"
        improper = "improper: can reward overconfidence"
        guess = "improper: best for the median" if np.isfinite(self.rps) else ranked
        lines = (
            ("log score", self.log, lower),
            ("Brier score", self.brier, lower),
            ("ranked probability score", self.rps, ranked),
            ("accuracy", self.accuracy, "higher is better"),
            ("predictive likelihood", self.predictive_likelihood, improper),
            ("absolute error", self.absolute_error, guess),
        )
        table = [f"{name:<24} {value:>10.4f}  {note}" for name, value, note in lines]
        return "\n".join([*table, f"means over {self.n:g} rows"])

    __repr__ = __str__


def score(posterior: Posterior, cells: Cells | None = None) -> Scores:
    """Score the predictive law on the table of the fit, or on new rows.

    The predictive law of a row is the mean of the model's laws over the draws; without draws, the
    law at the point estimate. Where x rows times draws exceed half a million, it is the mean over
    evenly spaced draws, at least 200. Sums over counts are accurate to about 1e-8 of their size.

    On the table of the fit, all scores are a little too good, as the fit has seen the outcomes. See
    `Fit.score`; ``cells`` are rows that the fit has not seen, with the same columns.
    """
    family = posterior.model.family
    table = posterior.cells if cells is None else _checked(posterior, cells)
    log, brier, rps, off, hit = np.empty((5, table.n_cells))
    for block in blocks(posterior, table):
        law, at, column = law_of(family, block, block.y), block.cells, block.column
        log[at] = -block.log_pmf(family)
        p = np.exp(-log[at])
        square = (law.weights @ law.mass**2)[column]
        brier[at] = (1 - p) ** 2 if family.binary else square - 2 * p + 1
        # Levels with separate predictors have no order; two levels need none.
        ordered = family.n_main == 1
        rps[at] = law.ranked(block.y, column) if ordered else np.nan
        off[at] = _apart(family, block) if ordered else np.nan
        hit[at] = law.y[law.mass.argmax(0)][column] == block.y
    counts, n = table.counts, table.n_obs
    by_cell = dict(zip(_MEANS, (log, brier, rps, np.exp(-log), off, hit), strict=True))
    means = {name: float(counts @ values / n) for name, values in by_cell.items()}
    return Scores(**means, n=n, counts=counts, by_cell={name: by_cell[name] for name in _PROPER})


def _apart(family: AbstractFamily, block: Block) -> Array:
    """Criterion 2 of the paper for each cell: the mean over draws of ``|E_j(Y given x) - y|``."""
    expected = family.mean(block.eta, block.trials)[block.column]
    apart: Array = np.abs(expected - block.y[:, None]).mean(-1)
    return apart


def _checked(posterior: Posterior, cells: Cells) -> Cells:
    names = posterior.cells.names
    if cells.names != names:
        raise DataError(
            f"The new rows must have the columns of the fit, {list(names)}, in this order; got "
            f"{list(cells.names)}. Encode both alike, and pass names= to Cells.from_rows."
        )
    posterior.model.family.check_outcomes(cells.y, cells.trials[cells.x_index], unit="cell")
    return cells


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Scores of rows that were left out, robust and likelihood fit.

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
        text = f"Robust:\n{self.robust}\nOrdinary:\n{self.ordinary}"
        if self.undefined.any():
            text += (
                f"\n{int(self.undefined.sum())} cell(s) could not be left out: in every other row "
                "a column would be 0, or follow from the others."
            )
        return text

    __repr__ = __str__


def leave_one_out(
    posterior: Posterior, *, n_draws: int = 200, progress: Progress | None = None
) -> HeldOut:
    """Score every row by the fit to all others: one refit for each cell, with its count less one.

    See `Fit.leave_one_out`; counts must be whole.
    """
    counts = _whole_counts(posterior)
    if len(counts) > _MOST_REFITS:
        raise MemoryBudgetError(
            f"Leaving out one row or cluster at a time takes {len(counts):,} refits; at most "
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

    ``folds`` is their number, filled at random with single rows, or with whole clusters where rows
    belong together; or the rows (clusters) of each kind in each, (K, u). Counts must be whole.
    """
    counts = _whole_counts(posterior)
    if isinstance(folds, Integral):
        folds = fold_counts(counts, int(folds), posterior.seed)
    elif np.shape(folds)[1:] != counts.shape or not (np.sum(folds, axis=0) == counts).all():
        raise SettingsError(
            "The rows of all folds together must be the rows of the table, cell by cell. Pass the "
            "number of folds instead."
        )
    return _held_out(posterior, np.asarray(folds), None, n_draws, progress)


def fold_counts(counts: IntArray, n_folds: int, seed: int) -> IntArray:
    """Deal the rows of cells with these counts (m,) into folds at random, (K, m).

    Fold sizes differ by one row at most. From a billion rows on each row is assigned to a fold
    independently, so that sizes are equal to about one in 10,000.
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
    """Draws (B, d), robust and ordinary, without so many units (u,) of each kind."""
    # The mass of a prior is part of what is reweighted, and is never left out.
    weights, data = plan.setup.weights, posterior.cells
    cells = weights.cells
    if cells is not data:
        line = np.zeros(cells.n_cells, removed.dtype)
        line[places(cells, data)] = removed
        removed = line
    p, kept = weights.draw_without(posterior.seed, removed, n_draws)
    # Cells and x rows without any rows are gone.
    if kept.size == cells.n_cells:
        return draws_of(plan, p, cells)
    left = weights.rows_of(weights.counts - removed)
    return draws_of(plan, p, part_of(cells, kept, left[kept]))


def _held_out(
    posterior: Posterior,
    removed: IntArray,
    counts: IntArray | None,
    n_draws: int,
    progress: Progress | None,
) -> HeldOut:
    """Hold out each line (u,) of `removed` in turn; `counts` are the units that it stands for."""
    whole_number("n_draws", n_draws, 1)
    posterior = tabulated(posterior)
    cells, weights = posterior.cells, posterior.weights
    fits: list[list[tuple[Scores, Array]]] = [[], []]
    by_fold = {name: np.full((len(removed), cells.n_cells), np.nan) for name in _PROPER}
    undefined = np.zeros(cells.n_cells, bool)
    with single_threaded():
        plan = plan_of(posterior)
        for number, line in enumerate(removed):
            rows = weights.rows_of(line)
            held = np.flatnonzero(rows)
            if loses_a_column(posterior, weights.rows_of(weights.counts - line)):
                undefined[held] = True
            else:
                table = part_of(cells, held, rows[held].astype(float))
                all_rows = rows if counts is None else weights.rows_of(counts * (line > 0))
                stands_for = all_rows[held].astype(float)
                draws = without(plan, posterior, line, int(n_draws))
                for kind, own in zip(fits, draws, strict=True):
                    kind.append((score(replace(posterior, draws=own), table), stands_for))
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
    means = {
        name: float(sum(getattr(part, name) * weight.sum() for part, weight in parts) / n)
        for name in _MEANS
    }
    by_cell = {name: np.concatenate([part.by_cell[name] for part, _ in parts]) for name in _PROPER}
    return Scores(**means, n=n, counts=counts, by_cell=by_cell)


def _whole_counts(posterior: Posterior) -> IntArray:
    """How many units there are of each kind, (u,), as whole numbers, which they must be."""
    counts = posterior.weights.counts
    odd = counts[counts % 1 != 0]
    if odd.size:
        raise SettingsError(
            f"Rows can be held out only where weights are whole numbers of rows; got {odd[0]:g}."
        )
    return counts.astype(np.intp)


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


def part_of(cells: Cells, index: IntArray, counts: Array) -> Cells:
    """Some cells of a table, with other counts."""
    used, x_index = np.unique(cells.x_index[index], return_inverse=True)
    return replace(
        cells,
        x=cells.x[used],
        offset=cells.offset[used],
        trials=cells.trials[used],
        x_index=x_index.ravel(),
        y=cells.y[index],
        counts=counts,
    )
