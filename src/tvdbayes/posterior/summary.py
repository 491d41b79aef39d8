"""Draws in a table: mean, spread, interval and direction, robust beside ordinary."""

from dataclasses import dataclass

import numpy as np

from tvdbayes._errors import SettingsError
from tvdbayes._typing import Array
from tvdbayes.posterior._html import html_table

__all__ = ["Summary", "summarise"]


@dataclass(frozen=True, eq=False)
class Summary:
    """A table with one line for each parameter; prints itself, and `to_dict` gives the columns."""

    names: tuple[str, ...]
    columns: dict[str, Array]

    def to_dict(self) -> dict[str, object]:
        """Columns by name, ready for a data frame."""
        return {"parameter": list(self.names), **self.columns}

    def __getitem__(self, column: str) -> Array:
        return self.columns[column]

    def __str__(self) -> str:
        width = max(len("parameter"), *(len(n) for n in self.names))
        lines = [" ".join([f"{'parameter':<{width}}", *(f"{c:>10}" for c in self.columns)])]
        for i, name in enumerate(self.names):
            cells = (f"{column[i]:>10.4g}" for column in self.columns.values())
            lines.append(" ".join([f"{name:<{width}}", *cells]))
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        lines = (
            [name, *(f"{column[i]:.4g}" for column in self.columns.values())]
            for i, name in enumerate(self.names)
        )
        return html_table("Coefficients", ["parameter", *self.columns], lines)


def summarise(
    names: tuple[str, ...], draws: Array, kld_draws: Array, interval: float = 0.9
) -> Summary:
    """Summarise draws (B, d): equal-tailed intervals, direction, and the paired difference."""
    if not 0 < interval < 1:
        raise SettingsError(f"interval must lie between 0 and 1; got {interval}. Try 0.9.")
    if draws.shape[0] < 2:
        raise SettingsError(
            f"Intervals need at least 2 draws; got {draws.shape[0]}. Fit with n_draws=1000."
        )
    tails = np.array([(1 - interval) / 2, (1 + interval) / 2])
    low, high = np.quantile(draws, tails, axis=0)
    kld_low, kld_high = np.quantile(kld_draws, tails, axis=0)
    difference = draws - kld_draws
    gap_low, gap_high = np.quantile(difference, tails, axis=0)
    positive = (draws > 0).mean(0)
    return Summary(
        names,
        {
            "mean": draws.mean(0),
            "sd": draws.std(0, ddof=1),
            "low": low,
            "high": high,
            "direction": np.maximum(positive, 1 - positive),
            "kld_mean": kld_draws.mean(0),
            "kld_low": kld_low,
            "kld_high": kld_high,
            "diff": difference.mean(0),
            "diff_low": gap_low,
            "diff_high": gap_high,
        },
    )
