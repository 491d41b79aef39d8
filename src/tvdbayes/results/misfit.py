r"""How much of the data the model cannot explain, beside what chance alone would leave.

A trimmed likelihood says more, the share of rows that are wrong. Let each row be wrong with
probability :math:`\epsilon`, all rows alike. Of n rows the rule drops K: the wrong ones, and by
chance a share c of the others,

.. math:: E(K / n) = \epsilon + (1 - \epsilon) c.

Given K, the law of the dropped share is in equal parts Beta(K, n - K + 1) and Beta(K + 1, n - K):
the laws behind both ends of the interval of Clopper and Pearson (1934), the former of which is 0
where nothing is dropped. The law of c is that of what the rule drops of data sets of the model's
own making. Solved for :math:`\epsilon` and cut at 0, this gives the law of the share of wrong rows.

Here rows far out in the covariates are judged like all others, by their own outcomes: where they
were kept out of the fit as a block, some of them may be good. Wrong rows whose outcomes are usual
under the model are not dropped, so no data can say how many of them there are.
"""

from dataclasses import dataclass, field
from html import escape

import numpy as np
from scipy.special import betaincinv

from tvdbayes._errors import SettingsError
from tvdbayes._typing import Array
from tvdbayes._validate import probability
from tvdbayes.results.rows import layout_of, minimiser, scores_by
from tvdbayes.sampling.execution import single_threaded
from tvdbayes.sampling.posterior import Posterior
from tvdbayes.sampling.weights import Stream
from tvdbayes.trimming import MANY, kept_share

_CHANCE = 0.95
"""The noise floor is taken at this quantile for the lower bound."""
_ALL = 0.99
"""Where chance alone may leave so much, the unexplained share says nothing."""
_ROUNDING = 1e-9
_SHOWN = 0.0005
"""Shares below this are printed as 0.0%."""
_POINTS = 200
"""Quantiles that stand for the law of the dropped share: ends of intervals are right to 1 %."""
_ELEMENTS = 1 << 22
"""Cells x draws in work at a time."""


@dataclass(frozen=True)
class Certificate:
    """An upper bound on the distance between a fixed model and the law behind the data.

    Parameters
    ----------
    upper : float
        The bound, at most 1.
    confidence : float
        Probability with which it holds, over random data.
    statement, assumptions : str
        What is bounded, and what must be true for it.
    """

    upper: float
    confidence: float
    statement: str
    assumptions: str

    @property
    def vacuous(self) -> bool:
        """Whether the bound says nothing."""
        return self.upper >= 1

    def __str__(self) -> str:
        return f"{self.statement} Assumes: {self.assumptions}"


@dataclass(frozen=True, eq=False)
class Misfit:
    """Posterior of the unexplained share, with its noise floor.

    Parameters
    ----------
    draws : (B,)
        Share of mass that the model of a draw cannot explain, of its reweighted table.
    floor_draws : (R,)
        The same for data that the fitted model itself has made: what chance leaves unexplained.
    interval : float
        Mass of the intervals.
    by : dict
        The same for each level of a factor, if asked for.
    certificate : Certificate or None
        A bound that needs no asymptotics, if asked for.
    wrong_draws : (D,) or None
        Equally likely values of the share of rows that are wrong (as explained above), where a
        trimmed likelihood says which rows are.
    wrong_unknown : bool
        Whether a trimmed fit uses all rows, although it would drop many, as that would not pay.

    Examples
    --------
    >>> import tvdbayes as tb
    >>> fit = tb.fit("visits ~ age + region", tb.example_data(wrong=0.1), n_draws=50)
    >>> found = fit.misfit(n_replicates=50)
    >>> print(found)
    The model cannot explain 16.5% of the data (90% interval 14.2% to 18.3%).
    Chance alone would leave 11.6% (up to 12.7%): at least 4.4% of the rows do not come from the
    fitted model.
    About 9.9% of the rows are wrong (90% interval 8.1% to 11.6%); rows whose outcomes the model
    finds usual are not counted.
    >>> found.lower > 0.04
    True
    """

    draws: Array
    floor_draws: Array
    interval: float = 0.9
    by: "dict[str, Misfit]" = field(default_factory=dict)
    certificate: Certificate | None = None
    wrong_draws: Array | None = None
    wrong_unknown: bool = False

    @property
    def mean(self) -> float:
        """Posterior mean of the unexplained share."""
        return float(self.draws.mean())

    @property
    def low(self) -> float:
        """Lower end of the equal-tailed interval; its floor is not taken off."""
        return float(np.quantile(self.draws, (1 - self.interval) / 2))

    @property
    def high(self) -> float:
        """Upper end of the equal-tailed interval."""
        return float(np.quantile(self.draws, (1 + self.interval) / 2))

    @property
    def floor(self) -> float:
        """What chance alone would leave unexplained, on average."""
        return float(self.floor_draws.mean())

    @property
    def floor_high(self) -> float:
        """What chance alone would leave unexplained in one case out of twenty."""
        return float(np.quantile(self.floor_draws, _CHANCE, method="higher"))

    @property
    def lower(self) -> float:
        """Floor-corrected lower bound of the share of rows that do not come from the model.

        If a share s of the rows is wrong, at most ``s + (1 - s) * noise`` is unexplained, the noise
        being that of the good rows. Solved for s, with the noise at its 95 % point. On clean data
        it is 0 in at least 95 % of cases. It is 0, too, where chance alone may leave nearly all
        unexplained.
        """
        noise = self.floor_high
        bound = (self.mean - noise) / (1 - noise) if noise < _ALL else 0.0
        return bound if bound > _ROUNDING else 0.0

    @property
    def wrong(self) -> float | None:
        """Estimate of the share of rows that are wrong; None where none can be given.

        Unlike the unexplained share it holds no noise, and its interval is about the law that the
        data come from. Wrong rows whose outcomes the model finds usual are not counted.
        """
        return None if self.wrong_draws is None else float(self.wrong_draws.mean())

    @property
    def wrong_low(self) -> float | None:
        """Lower end of the equal-tailed interval of that share."""
        return self._wrong_at(1 - self.interval)

    @property
    def wrong_high(self) -> float | None:
        """Upper end of the equal-tailed interval of that share."""
        return self._wrong_at(1 + self.interval)

    def _wrong_at(self, twice: float) -> float | None:
        return None if self.wrong_draws is None else float(np.quantile(self.wrong_draws, twice / 2))

    def __str__(self) -> str:
        levels = (
            f"  {name}: {part.mean:.1%}, by chance {part.floor:.1%}, at least {part.lower:.1%}"
            for name, part in self.by.items()
        )
        bound = "" if self.certificate is None else str(self.certificate)
        lines = [self._share, self._beside_chance, self.about_wrong_rows, *levels, bound]
        return "\n".join(line for line in lines if line)

    __repr__ = __str__

    @property
    def about_share(self) -> str:
        """The unexplained share beside what chance would leave, in two sentences."""
        return f"{self._share} {self._beside_chance}"

    @property
    def _share(self) -> str:
        return (
            f"The model cannot explain {self.mean:.1%} of the data "
            f"({self.interval:.0%} interval {self.low:.1%} to {self.high:.1%})."
        )

    @property
    def _beside_chance(self) -> str:
        chance = f"Chance alone would leave {self.floor:.1%} (up to {self.floor_high:.1%})"
        if self.lower == 0:
            return f"{chance}: no more than that."
        return f"{chance}: at least {self.lower:.1%} of the rows do not come from the fitted model."

    @property
    def wrong_is_clear(self) -> bool:
        """Whether some rows are surely wrong, and not so many that the family must be in doubt."""
        low = self.wrong_low or 0.0
        return self.lower > 0 and _SHOWN <= low <= MANY

    @property
    def about_wrong_rows(self) -> str:
        """The share of wrong rows in a sentence or two; empty where the fit drops no rows."""
        if self.wrong_unknown:
            return (
                "The share of wrong rows cannot be estimated: the fit uses all rows, because "
                "dropping many of them would hardly explain more."
            )
        if self.wrong is None:
            return ""
        low, high = self.wrong_low or 0.0, self.wrong_high or 0.0
        if low >= _SHOWN:
            about = "About" if self.lower else "Even so, about"
            if low > MANY:
                # An overdispersed law looks the same: the data cannot say which of both it is.
                about = "If the family is right for the others, about"
            found = f"{about} {self.wrong:.1%} of the rows are wrong"
        else:
            form = "the form of the model is wrong and no row is"
            doubt = form if self.lower else "no row is wrong"
            found = f"Perhaps {doubt}; at most {high:.1%} of them are"
        span = f"({self.interval:.0%} interval {low:.1%} to {high:.1%})"
        return f"{found} {span}; rows whose outcomes the model finds usual are not counted."

    def _repr_html_(self) -> str:
        return "".join(f"<p>{escape(line)}</p>" for line in str(self).splitlines())


def misfit(draws: Array, floor_draws: Array, interval: float = 0.9) -> Misfit:
    """The record, checked."""
    probability("interval", interval, 0.9)
    if len(draws) < 2:
        raise SettingsError(
            f"The unexplained share needs at least 2 draws; got {len(draws)}. Fit with "
            "n_draws=1000."
        )
    return Misfit(draws, floor_draws, interval)


def share_of_data(posterior: Posterior, levels: Array | None = None) -> Array:
    """Mass that each draw cannot explain of its own reweighted data, (1 + L, B).

    First of all rows, then within levels, whose weights for each cell are ``levels`` (L, m).
    """
    cells = posterior.cells
    levels = np.zeros((0, cells.n_cells)) if levels is None else levels
    every = np.ones((1, cells.n_cells))
    parts = np.concatenate([every, levels / np.maximum(levels.sum(0), 1e-300)])
    layout = layout_of(posterior)
    size = max(1, _ELEMENTS // cells.n_cells)
    found = [np.zeros((len(parts), 0))]
    with single_threaded():
        for first in range(0, posterior.n_draws, size):
            draws = (posterior.draws - posterior.shift)[first : first + size]
            rngs = Stream.draws(posterior.seed, first=first)
            p = posterior.weights.draw(rngs, len(draws)).p
            score = np.concatenate([m.score for m in scores_by(layout, draws, p)], axis=1)
            found.append((parts @ (p * score)) / np.maximum(parts @ p, 1e-300))
    return np.concatenate(found, axis=1)


def dropped_rows(posterior: Posterior) -> float:
    """How many independent rows the rule of a trimmed fit drops for their own outcomes."""
    layout = layout_of(posterior)
    cells = layout.cells
    theta = minimiser(layout, posterior)[:, 0]
    return float(cells.counts @ (1 - kept_share(layout, cells.p, theta, cells.n_obs)))


def wrong_share(dropped: float, n_obs: float, by_chance: Array) -> Array:
    """Equally likely values of the share of wrong rows, sorted, where so many rows were dropped.

    ``by_chance`` holds the share that is dropped of each of some clean data sets.

    Examples
    --------
    >>> import numpy as np
    >>> from tvdbayes.results.misfit import wrong_share
    >>> np.quantile(wrong_share(50, 500, np.zeros(20)), [0.05, 0.95]).round(3)
    array([0.08 , 0.124])
    >>> np.quantile(wrong_share(1, 500, np.full(20, 0.002)), [0.05, 0.95]).round(3)
    array([0.   , 0.006])
    """
    at = (np.arange(_POINTS) + 0.5) / _POINTS
    left = max(n_obs - dropped, 0.0)
    high = betaincinv(dropped + 1, left, at) if left else np.ones(_POINTS)
    low = betaincinv(dropped, left + 1, at) if dropped else np.zeros(_POINTS)
    share = np.concatenate([low, high])
    chance = by_chance[:, None]
    wrong: Array = np.maximum((share - chance) / (1 - chance), 0.0)
    return np.sort(wrong.ravel())
