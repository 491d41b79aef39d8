"""How well a fit describes the data: what was seen beside what the model expects."""

from collections.abc import Sequence

import numpy as np

from tvdbayes._errors import SettingsError
from tvdbayes._typing import Array
from tvdbayes.fitting.base import AbstractFit
from tvdbayes.fitting.misfit import levels_of
from tvdbayes.results.checks import (
    ByGroup,
    Calibration,
    PitHistogram,
    Rootogram,
    calibration,
    observed_by_group,
    pit_histogram,
    quantile_residuals,
    rootogram,
)

__all__ = ["GoodnessAnswers"]


class GoodnessAnswers(AbstractFit):
    """Methods of `Fit` that set the data beside what the model expects."""

    def rootogram(self, interval: float = 0.9, *, ordinary: bool = False) -> Rootogram:
        """How often each outcome was seen, and how often the model expects it.

        Examples
        --------
        >>> import numpy as np, tvdbayes as tb
        >>> y = np.random.default_rng(0).poisson(3, 2000)
        >>> y[:200] += 20  # a tenth of the rows is wrong
        >>> fit = tb.fit("y ~ 1", {"y": y}, n_draws=50)
        >>> bars = fit.rootogram()
        >>> for label, seen, expected in list(zip(bars.labels, bars.observed, bars.expected))[:3]:
        ...     print(f"{label}: {seen:.0f} seen, {expected:.0f} expected")
        0: 102 seen, 100 expected
        1: 256 seen, 300 expected
        2: 410 seen, 449 expected
        """
        robust = rootogram(self.posterior, interval)
        return rootogram(self.posterior.twin, interval, like=robust) if ordinary else robust

    def calibration(
        self, n_bins: int = 10, *, level: str | None = None, ordinary: bool = False
    ) -> Calibration:
        """Predicted probabilities or means in bins of rows, beside what was seen there.

        Of the robust fit only the rows that it has not dropped are shown, of its ordinary twin all.

        Parameters
        ----------
        n_bins : int
            Bins of about equal weight, by predicted value.
        level : str, optional
            Where outcomes are names: the one whose probability is meant, the last unless given.
        ordinary : bool
            Whether to look at the ordinary twin.

        Returns
        -------
        Calibration

        Examples
        --------
        >>> import numpy as np, tvdbayes as tb
        >>> rng = np.random.default_rng(0)
        >>> age = rng.integers(2, 6, 2000)
        >>> data = {"visits": rng.poisson(np.exp(0.3 * age)), "age": age}
        >>> fit = tb.fit("visits ~ age", data, n_draws=50)
        >>> bins = fit.calibration(2)
        >>> bins.predicted.round(1), bins.observed.round(1)
        (array([2.1, 3.9]), array([2.1, 3.9]))
        """
        return calibration(self._side(ordinary), n_bins, level)

    def pit(self, n_bins: int = 10, *, ordinary: bool = False) -> PitHistogram:
        """Histogram of the probability integral transform: flat if the model is right.

        Examples
        --------
        These counts vary more than Poisson counts, so both ends are too high:

        >>> import numpy as np, tvdbayes as tb
        >>> y = np.random.default_rng(0).negative_binomial(3, 0.3, 2000)
        >>> fit = tb.fit("y ~ 1", {"y": y}, divergence="kld", n_draws=20)
        >>> fit.pit(4).density.round(1)
        array([1.7, 0.6, 0.5, 1.2])
        """
        return pit_histogram(self._side(ordinary), n_bins)

    def residuals(self, *, seed: int | None = None, ordinary: bool = False) -> Array:
        """Randomised quantile residuals of the rows, (n,): normal if the model is right.

        Examples
        --------
        >>> import numpy as np, tvdbayes as tb
        >>> y = np.random.default_rng(0).poisson(3, 2000)
        >>> y[:200] += 20  # a tenth of the rows is wrong
        >>> fit = tb.fit("y ~ 1", {"y": y}, n_draws=50)
        >>> residuals = fit.residuals()
        >>> bool((residuals[:200] > 3).all()), round(float(residuals[200:].std()), 1)
        (True, 1.0)
        """
        return quantile_residuals(self._side(ordinary), self.cell_of_row, seed)

    def observed(
        self, by: str | Sequence[object], *, level: str | None = None, ordinary: bool = False
    ) -> ByGroup:
        """Observed and expected mean outcome in each level of a column of covariates.

        Parameters
        ----------
        by : str or sequence
            A column of the formula, or a label for each row.
        level : str, optional
            Where outcomes are names: the one whose probability is meant, the last unless given.
        ordinary : bool
            Whether to look at the ordinary twin.

        Returns
        -------
        ByGroup

        Examples
        --------
        >>> import numpy as np, tvdbayes as tb
        >>> rng = np.random.default_rng(0)
        >>> age = rng.integers(2, 6, 2000)
        >>> data = {"visits": rng.poisson(np.exp(0.3 * age)), "age": age}
        >>> fit = tb.fit("visits ~ age", data, n_draws=50)
        >>> found = fit.observed("age")
        >>> for age, seen, expected in zip(found.labels, found.observed, found.expected):
        ...     print(f"{age}: {seen:.1f} seen, {expected:.1f} expected")
        2: 1.8 seen, 1.8 expected
        3: 2.4 seen, 2.4 expected
        4: 3.3 seen, 3.3 expected
        5: 4.5 seen, 4.5 expected
        """
        names, of_cells, _ = levels_of(self, by)
        if (np.count_nonzero(of_cells, axis=0) > 1).any():
            raise SettingsError(
                "observed(by=) needs a column of the formula: rows with the same covariates and "
                "outcome must be in one level."
            )
        return observed_by_group(self._side(ordinary), of_cells.argmax(0), tuple(names), level)
