"""Fits of the same rows side by side: by what they predict and by what they leave unexplained."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tvdbayes._errors import SettingsError
from tvdbayes._typing import Array, IntArray
from tvdbayes.fitting.held_units import HeldUnits, held_units, require_same, units_of_rows
from tvdbayes.fitting.record import Fit
from tvdbayes.results.base import require_rows
from tvdbayes.results.misfit import share_of_data
from tvdbayes.results.replicates import replicate
from tvdbayes.results.scores import cross_validate
from tvdbayes.sampling.execution import progress_bar
from tvdbayes.sampling.posterior import Posterior
from tvdbayes.sampling.tables import AbstractTable

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
    random weights. Weighted rows and clusters are held out as such: rows of a frequency weight one
    by one, clusters whole, and scores are means over the population that sampling weights describe;
    standard errors are by cluster.

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
        require_rows(one, "compare()")
    named = dict(fits) if isinstance(fits, Mapping) else _named(fits)
    held = {name: held_units(one) for name, one in named.items()}
    with progress_bar(None, f"{len(named)} fits") as report:
        return _compared(held, n_folds, n_draws, report)


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
    held = {name: units_of_rows(posterior, at) for name, (posterior, at) in fits.items()}
    return _compared(held, n_folds, n_draws, progress)


def _compared(
    held: Mapping[str, HeldUnits],
    n_folds: int,
    n_draws: int,
    progress: Callable[[int, int], None] | None,
) -> Comparison:
    require_same(held)
    first = next(iter(held.values()))
    dealt = first.folds(n_folds)
    fold, unit = np.nonzero(dealt)
    times = dealt[fold, unit].astype(float)
    scores: dict[str, list[Array]] = {"log": [], "rps": []}
    shares, floors = [], []
    for number, one in enumerate(held.values()):
        found = cross_validate(one.refitted, one.removed(dealt), n_draws=n_draws)
        for kind, parts in scores.items():
            parts.append(one.sums(found.by_fold[kind], fold, unit))
        posterior = one.posterior
        shares.append(share_of_data(posterior)[0])
        floors.append(replicate(posterior, _REPLICATES).distance.mean())
        if progress is not None:
            progress(number + 1, len(held))
    # What some fit could not do without is left out for all.
    known = np.isfinite(scores["log"]).all(0)
    if not known.any():
        raise SettingsError("No row could be held out of every fit. Merge rare levels first.")
    times, size = times[known], first.size[unit[known]]
    n = float(times @ size)

    def mean(sums: Array) -> Array:
        return np.asarray((times * sums).sum(1) / n)

    log = np.array(scores["log"])[:, known]
    order = np.argsort(mean(log), kind="stable")
    gap = log - log[order[0]]
    away = gap - mean(gap)[:, None] * size
    columns = {
        "log": mean(log),
        "log_diff": mean(gap),
        "log_error": np.sqrt((times * away**2).sum(1)) / n,
        "rps": mean(np.array(scores["rps"])[:, known]),
        "unexplained": np.array([share.mean() for share in shares]),
        "by_chance": np.array(floors),
        "closest": _closest([one.posterior for one in held.values()], shares),
    }
    names = tuple(held)
    return Comparison(
        tuple(names[i] for i in order), {key: column[order] for key, column in columns.items()}
    )


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
