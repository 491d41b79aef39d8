"""How well a fit predicts outcomes: proper scores, and beside them the paper's improper one."""

from dataclasses import dataclass

import numpy as np

from tvdbayes._errors import DataError
from tvdbayes._typing import Array
from tvdbayes.data.cells import Cells
from tvdbayes.results.laws import blocks, law_of
from tvdbayes.sampling.posterior import Posterior

__all__ = ["Scores", "score"]


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
    One wild row decides the log score, which is therefore best for the fit that follows such rows;
    the ranked probability score counts how far off a prediction is:

    >>> import numpy as np, tvdbayes as tb
    >>> y = np.random.default_rng(0).poisson(3, 2000)
    >>> y[:200] += 20
    >>> fit = tb.fit("y ~ 1", {"y": y}, n_draws=20)
    >>> robust, ordinary = fit.score(), fit.score(ordinary=True)
    >>> robust.log > ordinary.log
    True
    >>> clean = {"y": y[200:]}
    >>> fit.score(clean).log < fit.score(clean, ordinary=True).log
    True
    """

    log: float
    brier: float
    rps: float
    predictive_likelihood: float
    accuracy: float
    n: float
    counts: Array
    by_cell: dict[str, Array]

    def __str__(self) -> str:
        ranked = "lower is better" if np.isfinite(self.rps) else "outcomes have no order"
        lines = (
            ("log score", self.log, "lower is better"),
            ("Brier score", self.brier, "lower is better"),
            ("ranked probability score", self.rps, ranked),
            ("accuracy", self.accuracy, "higher is better"),
            (
                "predictive likelihood",
                self.predictive_likelihood,
                "improper: can reward overconfidence",
            ),
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
    log, brier, rps, hit = (np.empty(table.n_cells) for _ in range(4))
    for block in blocks(posterior, table):
        law, at, column = law_of(family, block, block.y), block.cells, block.column
        log[at] = -block.log_pmf(family)
        p = np.exp(-log[at])
        square = (law.weights @ law.mass**2)[column]
        brier[at] = (1 - p) ** 2 if family.binary else square - 2 * p + 1
        # Levels of which each has predictors of its own have no order; of two none is needed.
        rps[at] = law.ranked(block.y, column) if family.n_main == 1 else np.nan
        hit[at] = law.y[law.mass.argmax(0)][column] == block.y
    counts, n = table.counts, table.n_obs

    def mean(values: Array) -> float:
        return float(counts @ values / n)

    return Scores(
        log=mean(log),
        brier=mean(brier),
        rps=mean(rps),
        predictive_likelihood=mean(np.exp(-log)),
        accuracy=mean(hit),
        n=n,
        counts=counts,
        by_cell={"log": log, "brier": brier, "rps": rps},
    )


def _checked(posterior: Posterior, cells: Cells) -> Cells:
    names = posterior.cells.names
    if cells.names != names:
        raise DataError(
            f"The new rows must have the columns of the fit, {list(names)}, in this order; got "
            f"{list(cells.names)}. Encode both alike, and pass names= to Cells.from_rows."
        )
    posterior.model.family.check_outcomes(cells.y, cells.trials[cells.x_index], unit="cell")
    return cells
