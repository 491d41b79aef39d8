"""Figure 1 of the paper: counts of which a tenth are shifted far to the right."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from matplotlib.figure import Figure
from scipy.stats import gaussian_kde, poisson

from tvdbayes._typing import Array
from tvdbayes.data.cells import compress
from tvdbayes.experiments.contract import AS_PUBLISHED, AbstractExperiment, Measured, Report, Task
from tvdbayes.experiments.pictures import COLOURS
from tvdbayes.experiments.released import tables, weights
from tvdbayes.models.families import Poisson
from tvdbayes.models.model import Model
from tvdbayes.sampling.bootstrap import posterior_bootstrap
from tvdbayes.sampling.plan import solve_tables
from tvdbayes.sampling.planners import plan_of

__all__ = ["FigureOne"]

RATE, SHIFT = 3.0, 15
_N, _SEED = 500, 16
"""The design and the seed of the released code."""
_MODEL = Model(Poisson())


@dataclass(frozen=True)
class FigureOne(AbstractExperiment):
    """One data set, both posteriors, and the models that they mean."""

    name: ClassVar[str] = "figure-1"

    def tasks(self, mode: str, quick: bool) -> list[Task]:
        """A single data set; the released code made 500 draws."""
        return [Task(mode, f"k={SHIFT}", _SEED, 500 if mode == AS_PUBLISHED else 1000)]

    def measure(self, task: Task) -> Measured:
        state = np.random.RandomState(task.number)
        counts = state.poisson(RATE, _N)
        counts[: _N // 10] += SHIFT
        made = compress(np.ones((_N, 1)), counts)
        fit = posterior_bootstrap(
            _MODEL, made.cells, n_draws=task.n_draws, seed=task.number, refine=None
        )
        tvd, kld = fit.draws[:, 0], fit.kld_draws[:, 0]
        if task.mode == AS_PUBLISHED:
            solved = solve_tables(plan_of(fit), tables(made, weights(_N, task.n_draws)))
            tvd, kld = solved.robust.theta[0], solved.likelihood.theta[0]
        return {
            "data|counts": counts.astype(float),
            "TVD|rate": np.exp(tvd),
            "KLD|rate": np.exp(kld),
        }

    def report(self, mode: str, tasks: Sequence[Task], measured: Sequence[Measured]) -> Report:
        (found,) = measured
        rates = {"TVD": found["TVD|rate"], "KLD": found["KLD|rate"]}
        table: list[dict[str, object]] = [
            {
                "setting": f"k={SHIFT}",
                "method": method,
                "criterion": "rate",
                "median": float(np.median(rate)),
                "q05": float(np.quantile(rate, 0.05)),
                "q95": float(np.quantile(rate, 0.95)),
                "mean": float(rate.mean()),
            }
            for method, rate in rates.items()
        ]
        text = (
            f"{_N} Poisson({RATE:g}) counts, {_N // 10} of them shifted by {SHIFT}. Mean of the "
            f"rate: {rates['TVD'].mean():.3f} by TVD, {rates['KLD'].mean():.3f} by KLD. No numbers "
            "were published with this figure: its TVD model sits on the bulk of the counts, its "
            "KLD model to the right of it, as here."
        )
        return Report(table, {"figure": _picture(found["data|counts"], rates)}, text)


def _picture(counts: Array, rates: dict[str, Array]) -> Figure:
    """The data with both fits, as in the paper, and both posteriors."""
    figure = Figure(figsize=(9, 3.4), layout="constrained")
    left, right = figure.subplots(1, 2)
    values = np.arange(int(counts.max()) + 1)
    left.bar(values, np.bincount(counts.astype(int)) / counts.size, color="0.82", label="data")
    for method, rate in rates.items():
        pmf = poisson.pmf(values, rate.mean())
        left.plot(values, pmf, "o-", ms=3, color=COLOURS[method], label=method)
    left.set(xlabel="count", ylabel="probability mass", title="Data and fitted models")
    left.legend(frameon=False)
    grid = np.linspace(min(rates["TVD"].min(), RATE) - 0.2, float(rates["KLD"].max()) + 0.2, 400)
    for method, rate in rates.items():
        density = gaussian_kde(rate)(grid)
        right.fill_between(grid, density, color=COLOURS[method], alpha=0.25, lw=0)
        right.plot(grid, density, color=COLOURS[method], label=method)
    right.axvline(RATE, color="black", ls="--", lw=1, label="truth")
    right.set(xlabel="rate", yticks=[], ylim=(0, None), title="Posterior of the rate")
    right.legend(frameon=False)
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
    return figure
