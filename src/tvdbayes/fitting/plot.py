"""Pictures of a fit, with axes named in the words of its data."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tvdbayes._errors import SettingsError
from tvdbayes.fitting.effects import predictions
from tvdbayes.fitting.record import Fit
from tvdbayes.fitting.rows import suspicious_of
from tvdbayes.sampling.summary import intervals

__all__ = ["Plots"]

_VALUES = 41


@dataclass(frozen=True, eq=False)
class Plots:
    """One method for each picture; each takes axes to draw on (`ax`), or makes them."""

    fit: Fit

    @property
    def _outcome(self) -> str:
        return self.fit.data.outcome

    def coefficients(
        self, *, interval: float = 0.9, skip_intercepts: bool = True, ax: Any = None
    ) -> Any:
        """Coefficients with intervals, robust beside ordinary."""
        self.fit.posterior.require_coefficients("to draw", "plot.bands(column)")
        from tvdbayes.plots import plot_coefficients

        return plot_coefficients(
            self.fit.param_names,
            self.fit.draws,
            self.fit.kld_draws,
            interval=interval,
            skip_intercepts=skip_intercepts,
            ax=ax,
        )

    def misfit(self, *, by: str | Sequence[object] | None = None, ax: Any = None) -> Any:
        """The share that the model cannot explain, beside what chance would leave."""
        from tvdbayes.plots import plot_misfit

        return plot_misfit(self.fit.misfit(by=by), ax=ax)

    def rootogram(self, *, ax: Any = None) -> Any:
        """How often each outcome was seen, hanging from how often the model expects it."""
        from tvdbayes.plots import plot_rootogram

        return plot_rootogram(
            self.fit.rootogram(),
            self.fit.rootogram(ordinary=True),
            outcome=self._outcome,
            ax=ax,
        )

    def calibration(self, *, level: str | None = None, n_bins: int = 10, ax: Any = None) -> Any:
        """What was seen against what was predicted, in bins of rows."""
        from tvdbayes.plots import plot_calibration

        return plot_calibration(
            self.fit.calibration(n_bins, level=level),
            self.fit.calibration(n_bins, level=level, ordinary=True),
            outcome=self._outcome,
            ax=ax,
        )

    def rows(self, *, false_alarm: float = 0.05, ax: Any = None) -> Any:
        """Score of each row, with those marked that stand out."""
        from tvdbayes.plots import plot_rows

        rows = self.fit.rows(false_alarm=false_alarm)
        number = np.flatnonzero(rows["score"].notna())
        worst = suspicious_of(self.fit, rows).index.to_numpy()
        return plot_rows(
            number,
            rows["score"].to_numpy()[number],
            rows["flag"].to_numpy()[number],
            order=np.searchsorted(number, worst),
            ax=ax,
        )

    def bands(
        self,
        variable: str,
        *,
        values: Sequence[object] | None = None,
        interval: float = 0.9,
        ax: Any = None,
    ) -> Any:
        """Average expected outcome as a column changes, with intervals, over the data."""
        from tvdbayes.plots import plot_bands

        data = self.fit.data
        if variable not in data.columns:
            raise SettingsError(
                f"{variable!r} is no column of this fit; it has {', '.join(data.columns)}."
            )
        column = data.columns[variable]
        if values is None:
            numeric = not column.choices
            seen = np.unique(column.values) if numeric else np.zeros(0)
            if numeric and len(seen) > _VALUES:
                seen = np.linspace(seen[0], seen[-1], _VALUES)
            values = list(seen) if numeric else list(column.choices)
        at = predictions(self.fit, {variable: values}, outcome=None, ordinary=False)
        both = at.draws, at.kld_draws
        ends = [intervals(draws, interval) for draws in both]
        sides = [(draws.mean(0), *own) for draws, own in zip(both, ends, strict=True)]
        return plot_bands(
            values,
            sides[0],
            sides[1],
            self._observed(variable),
            xlabel=variable,
            ylabel=f"expected {self._outcome}",
            ax=ax,
        )

    def _observed(self, variable: str) -> Any:
        """Points (x, y, flag) of the rows, where the outcome is a number."""
        family = self.fit.posterior.model.family
        if family.levels or family.needs_trials:
            return None
        rows = self.fit.rows()
        rows = rows[rows["score"].notna()]
        # Columns of the data that are called like a score are renamed there.
        x, outcome = (
            rows[f"data: {name}" if f"data: {name}" in rows else name]
            for name in (variable, self._outcome)
        )
        return x.to_numpy(), outcome.to_numpy(float), rows["flag"].to_numpy(bool)

    def sensitivity(self, names: Sequence[str] | None = None) -> Any:
        """What coefficients can be, as the assumed share of wrong rows grows."""
        from tvdbayes.plots import plot_sensitivity

        return plot_sensitivity(self.fit.sensitivity(names))

    def pit(self, *, ax: Any = None) -> Any:
        """Histogram of the probability integral transform."""
        from tvdbayes.plots import plot_pit

        return plot_pit(self.fit.pit(), ax=ax)

    def residuals(self, *, ax: Any = None) -> Any:
        """Randomised quantile residuals against normal quantiles."""
        from tvdbayes.plots import plot_residuals

        residuals = self.fit.residuals()
        return plot_residuals(residuals[np.isfinite(residuals)], ax=ax)
