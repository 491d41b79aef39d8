"""Pictures of a fit, with axes named in the words of its data."""

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np

from tvdbayes._errors import SettingsError
from tvdbayes.fitting.effects import EffectAnswers
from tvdbayes.fitting.goodness import GoodnessAnswers
from tvdbayes.fitting.misfit import MisfitAnswers
from tvdbayes.results.rows import suspicious_of
from tvdbayes.sampling.summary import intervals

_VALUES = 41
"""Points of a curve over a column that has more different values."""


class PlotAnswers(EffectAnswers, GoodnessAnswers, MisfitAnswers):
    """The property of `Fit` that draws pictures; it needs the answers that they show."""

    @property
    def plot(self) -> "Plots":
        """Pictures, ``fit.plot.coefficients()`` and so on; each returns matplotlib axes.

        There are ``coefficients``, ``misfit``, ``rootogram``, ``calibration``, ``rows``,
        ``bands(column)``, ``sensitivity``, ``pit`` and ``residuals``. Each takes axes to draw on
        (``ax=``), or makes a figure of its own: a notebook shows it, elsewhere no window opens.

        Examples
        --------
        >>> import tvdbayes as tb
        >>> fit = tb.fit("visits ~ age", tb.example_data(), n_draws=50)
        >>> ax = fit.plot.rootogram()
        >>> ax.get_xlabel()
        'visits'
        >>> figure = ax.figure  # for figure.savefig("visits.pdf")
        """
        return Plots(self)


@dataclass(frozen=True, eq=False)
class Plots:
    """One method for each picture; each takes axes to draw on (`ax`), or makes them."""

    fit: PlotAnswers

    @property
    def _outcome(self) -> str:
        return self.fit.data.outcome

    def _draw(self, picture: str, *shown: Any, **settings: Any) -> Any:
        """The axes of a picture of `tvdbayes.plots`, which imports matplotlib."""
        return getattr(import_module("tvdbayes.plots"), f"plot_{picture}")(*shown, **settings)

    def coefficients(
        self, *, interval: float = 0.9, skip_intercepts: bool = True, ax: Any = None
    ) -> Any:
        """Coefficients with intervals, robust beside likelihood fit."""
        fit = self.fit
        fit.posterior.require_coefficients("to draw", "plot.bands(column)")
        shown = fit.param_names, fit.draws, fit.kld_draws
        settings = {"interval": interval, "skip_intercepts": skip_intercepts}
        return self._draw("coefficients", *shown, **settings, ax=ax)

    def misfit(self, *, by: str | Sequence[object] | None = None, ax: Any = None) -> Any:
        """The share that the model cannot explain, beside what chance would leave."""
        return self._draw("misfit", self.fit.misfit(by=by), ax=ax)

    def rootogram(self, *, ax: Any = None) -> Any:
        """How often each outcome was seen, hanging from how often the model expects it."""
        sides = (self.fit.rootogram(ordinary=ordinary) for ordinary in (False, True))
        return self._draw("rootogram", *sides, outcome=self._outcome, ax=ax)

    def calibration(self, *, level: str | None = None, n_bins: int = 10, ax: Any = None) -> Any:
        """What was seen against what was predicted, in bins of rows."""
        sides = (self.fit.calibration(n_bins, level=level, ordinary=o) for o in (False, True))
        return self._draw("calibration", *sides, outcome=self._outcome, ax=ax)

    def rows(self, *, false_alarm: float = 0.05, ax: Any = None) -> Any:
        """Score of each row, with those marked that stand out."""
        rows = self.fit._rows(false_alarm)
        number = np.flatnonzero(rows["score"].notna())
        order = np.searchsorted(number, suspicious_of(self.fit, rows).index.to_numpy())
        score, flag = (rows[name].to_numpy()[number] for name in ("score", "flag"))
        return self._draw("rows", number, score, flag, order=order, ax=ax)

    def bands(
        self,
        variable: str,
        *,
        values: Sequence[object] | None = None,
        interval: float = 0.9,
        ax: Any = None,
    ) -> Any:
        """Average expected outcome as a column changes, with intervals, over the data."""
        data = self.fit.data
        if variable not in data.columns:
            raise SettingsError(
                f"{variable!r} is no column of this fit; it has {', '.join(data.columns)}."
            )
        column = data.columns[variable]
        if values is None:
            seen: Any = [] if column.choices else np.unique(column.values)
            if len(seen) > _VALUES:
                seen = np.linspace(seen[0], seen[-1], _VALUES)
            values = list(column.choices or seen)
        at = self.fit.predictions({variable: values})
        both = at.draws, at.kld_draws
        ends = [intervals(draws, interval) for draws in both]
        sides = [(draws.mean(0), *own) for draws, own in zip(both, ends, strict=True)]
        labels = {"xlabel": variable, "ylabel": f"expected {self._outcome}"}
        return self._draw("bands", values, *sides, self._observed(variable), **labels, ax=ax)

    def _observed(self, variable: str) -> Any:
        """Points (x, y, flag) of the rows, where the outcome is a number."""
        family = self.fit.posterior.model.family
        if family.levels or family.needs_trials:
            return None
        rows = self.fit._rows()
        rows = rows[rows["score"].notna()]
        # Columns of the data that are called like a score are renamed there.
        x, outcome = (
            rows[f"data: {name}" if f"data: {name}" in rows else name]
            for name in (variable, self._outcome)
        )
        return x.to_numpy(), outcome.to_numpy(float), rows["flag"].to_numpy(bool)

    def sensitivity(self, names: Sequence[str] | None = None) -> Any:
        """What coefficients can be, as the assumed share of wrong rows grows."""
        return self._draw("sensitivity", self.fit.sensitivity(names).each)

    def pit(self, *, ax: Any = None) -> Any:
        """Histogram of the probability integral transform."""
        return self._draw("pit", self.fit.pit(), ax=ax)

    def residuals(self, *, ax: Any = None) -> Any:
        """Randomised quantile residuals against normal quantiles."""
        residuals = self.fit.residuals()
        return self._draw("residuals", residuals[np.isfinite(residuals)], ax=ax)
