"""Figure 1 of the paper: counts of which a tenth are shifted far to the right.

``python -m tvdbayes.experiments.figure_1 [PATH]`` prints both posteriors and writes the picture.
"""

import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.stats import gaussian_kde, poisson

from tvdbayes._typing import Array, IntArray
from tvdbayes.bootstrap import posterior_bootstrap
from tvdbayes.cells import Cells
from tvdbayes.families import Poisson
from tvdbayes.model import Model

__all__ = ["FigureOne", "run"]

RATE = 3.0


@dataclass(frozen=True, eq=False)
class FigureOne:
    """Counts, and the posterior of their rate under both divergences."""

    counts: IntArray
    contaminated: int
    rate_tvd: Array
    rate_kld: Array

    def table(self) -> str:
        """Both posteriors beside the truth."""
        lines = [
            f"{self.counts.size} Poisson({RATE:g}) counts, {self.contaminated} shifted by 15.",
            f"{'':<24}{'mean':>8}{'sd':>8}   90% interval",
            f"{'truth':<24}{RATE:>8.3f}",
        ]
        names = ("robust (TVD)", "ordinary (KLD)")
        for name, rate in zip(names, (self.rate_tvd, self.rate_kld), strict=True):
            low, high = np.quantile(rate, [0.05, 0.95])
            lines.append(
                f"{name:<24}{rate.mean():>8.3f}{rate.std(ddof=1):>8.3f}   {low:.3f} to {high:.3f}"
            )
        return "\n".join(lines)

    def draw(self, path: Path) -> None:
        """Write the picture: the data with both fits, and both posteriors."""
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure

        figure = Figure(figsize=(9, 3.4), layout="constrained")
        FigureCanvasAgg(figure)
        left, right = figure.subplots(1, 2)
        values = np.arange(self.counts.max() + 1)
        share = np.bincount(self.counts) / self.counts.size
        left.bar(values, share, color="0.82", label="data")
        fits = (("robust (TVD)", self.rate_tvd, "C0"), ("ordinary (KLD)", self.rate_kld, "C3"))
        for label, rate, colour in fits:
            left.plot(
                values, poisson.pmf(values, rate.mean()), "o-", ms=3, color=colour, label=label
            )
        left.set(xlabel="count", ylabel="share of rows", title="Data and fitted models")
        left.legend(frameon=False)
        grid = np.linspace(min(self.rate_tvd.min(), RATE) - 0.2, self.rate_kld.max() + 0.2, 400)
        for label, rate, colour in fits:
            density = gaussian_kde(rate)(grid)
            right.fill_between(grid, density, color=colour, alpha=0.25, lw=0)
            right.plot(grid, density, color=colour, label=label)
        right.axvline(RATE, color="black", ls="--", lw=1, label="truth")
        right.set(xlabel="rate", yticks=[], ylim=(0, None), title="Posterior of the rate")
        right.legend(frameon=False)
        for axes in (left, right):
            axes.spines[["top", "right"]].set_visible(False)
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, dpi=150)


def run(n_obs: int = 500, n_draws: int = 1000, seed: int = 0) -> FigureOne:
    """Draw the data (a tenth shifted by 15) and fit both."""
    rng = np.random.default_rng(seed)
    counts = rng.poisson(RATE, n_obs)
    contaminated = n_obs // 10
    counts[:contaminated] += 15
    cells = Cells.from_rows(np.ones((n_obs, 1)), counts)
    posterior = posterior_bootstrap(Model(Poisson()), cells, n_draws=n_draws, seed=seed)
    return FigureOne(
        counts,
        contaminated,
        np.exp(posterior.draws[:, 0]),
        np.exp(posterior.kld_draws[:, 0]),
    )


def main() -> None:
    """Print the table and write the picture."""
    result = run()
    path = Path(sys.argv[1] if len(sys.argv) > 1 else "demo/figure_1.png")
    result.draw(path)
    print(result.table())
    print(f"Picture: {path}")


if __name__ == "__main__":
    main()
