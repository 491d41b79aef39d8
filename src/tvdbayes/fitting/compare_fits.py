"""Fits of the same rows side by side: by what they predict and by what they leave unexplained."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tvdbayes._errors import DataError, SettingsError
from tvdbayes._typing import Array, IntArray
from tvdbayes.fitting.record import Fit
from tvdbayes.results.misfit import share_of_data
from tvdbayes.results.replicates import replicate
from tvdbayes.results.scores import cross_validate
from tvdbayes.sampling.execution import progress_bar
from tvdbayes.sampling.posterior import Posterior
from tvdbayes.sampling.tables import AbstractTable
from tvdbayes.sampling.weights import Stream

_REPLICATES = 100
"""Simulated data sets, whose mean distance is what chance leaves unexplained."""


@dataclass(frozen=True, eq=False, repr=False)
class Comparison(AbstractTable):
    """One line for each fit, the best by log score first; prints itself.

    Parameters
    ----------
    names : tuple of str
    columns : dict of (F,)
        ``log``, ``rps``: held-out scores, lower is better; ``log_diff``, ``log_error``: paired
        difference to the first line, and its standard error; ``unexplained``, ``by_chance``: share
        that the fit cannot explain, and what chance would leave; ``closest``: share of draws, on
        the same random weights, in which it leaves least (NaN where fits have other covariates).
    note : str
    """

    note: str = (
        "Lower is better. Held-out rows may be wrong too: among them a fit that follows wrong "
        "rows\nscores well, so look at the unexplained share beside the score."
    )
    first: ClassVar[str] = "fit"
    caption: ClassVar[str] = "Comparison, best held-out log score first"


def compare(
    fits: Mapping[str, Fit] | Sequence[Fit], *, n_folds: int = 10, n_draws: int = 200
) -> Comparison:
    """Compare fits of the same rows: other families, divergences or formulas.

    Every fit is scored on rows that it has not seen (the same folds for all), beside the share of
    the data that it cannot explain. Fits with the same covariates and seed are compared on the same
    random weights.

    Parameters
    ----------
    fits : dict of Fit, or list of Fit
        By name; in a list they are named by family, divergence and formula.
    n_folds, n_draws : int
        Folds of the cross-validation, and draws of each refit.

    Returns
    -------
    Comparison
        Held-out rows may be wrong too: a fit that follows wrong rows scores well on them.

    Examples
    --------
    >>> import numpy as np, tvdbayes as tb
    >>> y = np.random.default_rng(0).negative_binomial(2, 0.4, 300)
    >>> fits = {f: tb.fit("y ~ 1", {"y": y}, family=f, n_draws=40, divergence="kld")
    ...         for f in ("poisson", "negativebinomial")}
    >>> tb.compare(fits, n_folds=3, n_draws=20).names
    ('negativebinomial', 'poisson')
    """
    if isinstance(fits, Fit):
        raise SettingsError("compare takes a dict or a list of fits; got one fit.")
    for one in fits.values() if isinstance(fits, Mapping) else fits:
        if not isinstance(one, Fit):
            raise SettingsError(f"compare takes fits; got a {type(one).__name__}.")
    named = dict(fits) if isinstance(fits, Mapping) else _named(fits)
    if any(one.posterior.units for one in named.values()):
        raise DataError(
            "Fits with clusters=, strata= or sampling_weights= cannot be compared by compare yet. "
            "Compare their cross_validate(), which holds out whole clusters."
        )
    if any(one.data.weights or one.data.weighted for one in named.values()):
        raise DataError(
            "Fits with a weights column, or whose equal rows were put together, cannot be compared "
            "yet: which rows a weight stands for is not kept. Repeat the rows instead."
        )
    with progress_bar(None, f"{len(named)} fits") as report:
        return compare_posteriors(
            {name: (one.posterior, one.cell_of_row) for name, one in named.items()},
            n_folds=n_folds,
            n_draws=n_draws,
            progress=report,
        )


def _named(fits: Sequence[Fit]) -> dict[str, Fit]:
    """Names that tell fits apart."""
    found: dict[str, Fit] = {}
    for one in fits:
        name = f"{one.posterior.model.family.name}, {one.posterior.method}: {one.formula}"
        while name in found:
            name += "'"
        found[name] = one
    return found


def compare_posteriors(
    fits: Mapping[str, tuple[Posterior, IntArray]],
    *,
    n_folds: int = 10,
    n_draws: int = 200,
    progress: Callable[[int, int], None] | None = None,
) -> Comparison:
    """Compare fits by name, each given with the cell of each of its rows.

    All are of the same rows with the same outcomes, in the same order; see `compare`.
    """
    cell = _same_rows(fits)
    n = len(next(iter(cell.values())))
    if not 2 <= n_folds <= n:
        raise SettingsError(f"folds must be from 2 to {n} rows; got {n_folds}.")
    seed = next(iter(fits.values()))[0].seed
    fold = Stream.generator(seed, Stream.FOLDS).permutation(np.arange(n) % n_folds)
    scores: dict[str, list[Array]] = {"log": [], "rps": []}
    shares, floors = [], []
    for number, (name, (posterior, _)) in enumerate(fits.items()):
        m = posterior.cells.n_cells
        dealt = np.bincount(fold * m + cell[name], minlength=n_folds * m)
        held = cross_validate(posterior, dealt.reshape(n_folds, m), n_draws=n_draws)
        for kind, parts in scores.items():
            parts.append(held.by_fold[kind][fold, cell[name]])
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


def _same_rows(fits: Mapping[str, tuple[Posterior, IntArray]]) -> dict[str, IntArray]:
    """The cell of each row in use, for each fit."""
    if len(fits) < 2:
        raise SettingsError(f"Comparing takes at least two fits; got {len(fits)}.")
    for name, (posterior, _) in fits.items():
        if not posterior.n_draws:
            raise SettingsError(f"{name!r} has no draws to compare. Fit it with n_draws=1000.")
    first, (base, rows) = next(iter(fits.items()))
    used = np.flatnonzero(rows >= 0)
    outcome = base.cells.y[rows[used]]
    for name, (posterior, cell_of_row) in fits.items():
        same = cell_of_row.shape == rows.shape and np.array_equal(cell_of_row >= 0, rows >= 0)
        if not same or not np.array_equal(posterior.cells.y[cell_of_row[used]], outcome):
            raise DataError(
                f"{first!r} and {name!r} are fits of different rows or outcomes. Fit all of them "
                "to the same data, with the same rows left out."
            )
    return {name: cell_of_row[used] for name, (_, cell_of_row) in fits.items()}


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
