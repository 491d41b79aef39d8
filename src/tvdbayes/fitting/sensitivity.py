"""What the coefficients of a fit would be if some of the rows are wrong."""

from collections.abc import Sequence

import numpy as np

from tvdbayes.fitting.misfit import MisfitAnswers
from tvdbayes.fitting.progress import progress_bar
from tvdbayes.results import DropWorst, Sensitivity, drop_worst, sensitivity

__all__ = ["SensitivityAnswers"]


class SensitivityAnswers(MisfitAnswers):
    """Methods of `Fit` on what wrong rows can do to its coefficients."""

    def sensitivity(self, names: Sequence[str] | None = None) -> tuple[Sensitivity, ...]:
        """What each coefficient can be if a share of the rows is wrong, and when its sign is lost.

        `names` are coefficients; all but intercepts unless given.

        Examples
        --------
        >>> import numpy as np, tvdbayes as tb
        >>> rng = np.random.default_rng(0)
        >>> age = rng.integers(2, 6, 2000)
        >>> data = {"visits": rng.poisson(np.exp(0.3 * age)), "age": age}
        >>> fit = tb.fit("visits ~ age", data, n_draws=50)
        >>> (found,) = fit.sensitivity(["age"])
        >>> print(found)
        age is positive if fewer than 15.8% of the rows are wrong.
        >>> low, high = found.interval(0.05)  # what it can be if 5% of the rows are wrong
        >>> print(f"{low:.2f} to {high:.2f}")
        0.17 to 0.45
        """
        self.posterior.require_coefficients("to profile", "misfit(), rows() and effects()")
        noise = float(np.quantile(self.chance.unfitted, 0.95, method="higher"))
        with progress_bar(None, "sensitivity") as report:
            return sensitivity(self.posterior, noise, names, progress=report)

    def drop_worst(self, shares: Sequence[float] = (0.0, 0.01, 0.02, 0.05, 0.1)) -> DropWorst:
        """Estimates, robust and ordinary, without the rows that are hardest to explain.

        `shares` are shares of the rows to leave out, in the order of `suspicious_rows`. Estimates
        are without random weights, so that those at a share of 0 are not the means of draws that
        `summary` shows; printed, both stand side by side.

        Examples
        --------
        The ordinary fit moves, the robust one stays:

        >>> import numpy as np, tvdbayes as tb
        >>> y = np.random.default_rng(0).poisson(3, 2000)
        >>> y[:200] += 20  # a tenth of the rows is wrong
        >>> fit = tb.fit("y ~ 1", {"y": y}, n_draws=50)
        >>> found = fit.drop_worst([0, 0.05, 0.1])
        >>> np.exp(found.robust[:, 0]).round(1), np.exp(found.ordinary[:, 0]).round(1)
        (array([3., 3., 3.]), array([5., 4., 3.]))
        """
        self.posterior.require_coefficients(
            "to follow as rows are dropped",
            "rows(), and for the predictions of a fit without some,",
        )
        return drop_worst(self.posterior, shares)
