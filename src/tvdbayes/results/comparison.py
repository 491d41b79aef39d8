"""Fits of the same rows side by side: by what they predict and by what they leave unexplained."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from tvdbayes._errors import DataError, SettingsError
from tvdbayes._typing import Array, IntArray
from tvdbayes.results.left_out import cross_validate
from tvdbayes.results.replicates import replicate
from tvdbayes.results.unexplained import share_of_data
from tvdbayes.sampling.posterior import Posterior
from tvdbayes.sampling.summary import html_table
from tvdbayes.sampling.weights import Stream

__all__ = ["Comparison", "compare_posteriors"]

_REPLICATES = 100


@dataclass(frozen=True, eq=False)
class Comparison:
    """One line for each fit, the best by log score first.

    Parameters
    ----------
    names : tuple of str
    columns : dict of (F,)
        ``log``, ``rps``: held-out scores, lower is better; ``log_diff``, ``log_error``: paired
        difference to the first line, and its standard error; ``unexplained``, ``by_chance``: share
        that the fit cannot explain, and what chance would leave; ``closest``: share of draws, on
        the same random weights, in which it leaves least (NaN where fits have other covariates).
    """

    names: tuple[str, ...]
    columns: dict[str, Array]

    def __getitem__(self, column: str) -> Array:
        return self.columns[column]

    def to_dict(self) -> dict[str, object]:
        """Columns by name, ready for a data frame."""
        return {"fit": list(self.names), **self.columns}

    def __str__(self) -> str:
        width = max(3, *(len(name) for name in self.names))
        head = " ".join([f"{'fit':<{width}}", *(f"{c:>11}" for c in self.columns)])
        lines = [
            " ".join([f"{name:<{width}}", *(f"{c[i]:>11.4g}" for c in self.columns.values())])
            for i, name in enumerate(self.names)
        ]
        return "\n".join(
            [
                head,
                *lines,
                "Lower is better. Held-out rows may be wrong too: among them a fit that follows "
                "wrong rows\nscores well, so look at the unexplained share beside the score.",
            ]
        )

    __repr__ = __str__

    def _repr_html_(self) -> str:
        lines = (
            [name, *(f"{c[i]:.4g}" for c in self.columns.values())]
            for i, name in enumerate(self.names)
        )
        return html_table(
            "Comparison, best held-out log score first", ["fit", *self.columns], lines
        )


def compare_posteriors(
    fits: Mapping[str, tuple[Posterior, IntArray]],
    weight_of_row: IntArray | None = None,
    *,
    n_folds: int = 10,
    n_draws: int = 200,
    progress: Callable[[int, int], None] | None = None,
) -> Comparison:
    """Compare fits, each given with the cell of each of its rows.

    Parameters
    ----------
    fits : mapping
        By name; all of the same rows with the same outcomes, in the same order.
    weight_of_row : (n,), optional
        Rows that each row stands for; 1 unless given.
    n_folds, n_draws : int
        Folds of the cross-validation, the same for all fits, and draws of each refit.
    """
    cell, used = _same_rows(fits)
    weight = np.ones(used.size, np.intp) if weight_of_row is None else weight_of_row[used]
    unit = np.repeat(np.arange(used.size), weight)
    if not 2 <= n_folds <= unit.size:
        raise SettingsError(f"folds must be from 2 to {unit.size} rows; got {n_folds}.")
    seed = next(iter(fits.values()))[0].seed
    fold = Stream.generator(seed, Stream.FOLDS).permutation(np.arange(unit.size) % n_folds)
    scores: dict[str, list[Array]] = {"log": [], "rps": []}
    shares, floors = [], []
    for number, (name, (posterior, _)) in enumerate(fits.items()):
        m = posterior.cells.n_cells
        dealt = np.bincount(fold * m + cell[name][unit], minlength=n_folds * m)
        held = cross_validate(posterior, dealt.reshape(n_folds, m), n_draws=n_draws)
        for kind, parts in scores.items():
            parts.append(held.by_fold[kind][fold, cell[name][unit]])
        shares.append(share_of_data(posterior)[0])
        floors.append(replicate(posterior, _REPLICATES).distance.mean())
        if progress is not None:
            progress(number + 1, len(fits))
    log = np.array(scores["log"])
    # Rows that some fit could not do without are left out for all.
    known = np.isfinite(log).all(0)
    if not known.any():
        raise SettingsError("No row could be held out of every fit. Merge rare levels first.")
    mean = log[:, known].mean(1)
    order = np.argsort(mean, kind="stable")
    gap = log[:, known] - log[order[0], known]
    columns = {
        "log": mean,
        "log_diff": gap.mean(1),
        "log_error": gap.std(1) / np.sqrt(known.sum()),
        "rps": np.array(scores["rps"])[:, known].mean(1),
        "unexplained": np.array([share.mean() for share in shares]),
        "by_chance": np.array(floors),
        "closest": _closest([posterior for posterior, _ in fits.values()], shares),
    }
    names = tuple(fits)
    return Comparison(
        tuple(names[i] for i in order), {key: column[order] for key, column in columns.items()}
    )


def _same_rows(
    fits: Mapping[str, tuple[Posterior, IntArray]],
) -> tuple[dict[str, IntArray], IntArray]:
    """The cell of each row in use, for each fit, and the numbers of these rows."""
    if len(fits) < 2:
        raise SettingsError(f"Comparing takes at least two fits; got {len(fits)}.")
    for name, (posterior, _) in fits.items():
        if not posterior.n_draws:
            raise SettingsError(f"{name!r} has no draws to compare. Fit it with n_draws=1000.")
    (first, (base, rows)), *others = fits.items()
    used = np.flatnonzero(rows >= 0)
    outcome = base.cells.y[rows[used]]
    cell = {first: rows[used]}
    for name, (posterior, cell_of_row) in others:
        same = cell_of_row.shape == rows.shape and np.array_equal(cell_of_row >= 0, rows >= 0)
        if not same or not np.array_equal(posterior.cells.y[cell_of_row[used]], outcome):
            raise DataError(
                f"{first!r} and {name!r} are fits of different rows or outcomes. Fit all of them "
                "to the same data, with the same rows left out."
            )
        cell[name] = cell_of_row[used]
    return cell, used


def _closest(posteriors: list[Posterior], shares: list[Array]) -> Array:
    """How often each fit leaves least, where all draws are of the same random tables."""
    first = posteriors[0]
    paired = all(
        other.seed == first.seed
        and other.n_draws == first.n_draws
        and np.array_equal(other.cells.x, first.cells.x)
        and np.array_equal(other.cells.x_index, first.cells.x_index)
        for other in posteriors
    )
    if not paired:
        return np.full(len(posteriors), np.nan)
    best = np.array(shares).argmin(0)
    return np.bincount(best, minlength=len(posteriors)) / len(best)
