"""How much of the data the model cannot explain, beside what chance alone would leave."""

from dataclasses import dataclass, field
from html import escape

import numpy as np

from tvdbayes._errors import SettingsError
from tvdbayes._typing import Array
from tvdbayes._validate import probability

__all__ = ["Certificate", "Misfit", "misfit"]

_CHANCE = 0.95
"""The noise floor is taken at this quantile for the lower bound."""
_ALL = 0.99
"""Where chance alone may leave so much, the unexplained share says nothing."""
_ROUNDING = 1e-9
_SHOWN = 0.0005
"""Shares below this are printed as 0.0%."""


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
        Equally likely values of the share of rows that are wrong (see `posterior.wrong`), where a
        trimmed likelihood says which rows are.
    wrong_unknown : bool
        Whether a trimmed fit uses all rows, although it would drop many, as that would not pay.

    Examples
    --------
    >>> import numpy as np, tvdbayes as tb
    >>> y = np.random.default_rng(0).poisson(3, 2000)
    >>> y[:200] += 20  # a tenth of the rows is wrong
    >>> found = tb.fit("y ~ 1", {"y": y}, n_draws=50).misfit(n_replicates=50)
    >>> print(found)
    The model cannot explain 10.5% of the data (90% interval 9.3% to 12.1%).
    Chance alone would leave 3.1% (up to 4.3%): at least 6.5% of the rows do not come from the
    fitted model.
    About 10.0% of the rows are wrong (90% interval 8.9% to 11.1%); rows whose outcomes the model
    finds usual are not counted.
    >>> found.lower > 0.05
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
        return self._wrong_at((1 - self.interval) / 2)

    @property
    def wrong_high(self) -> float | None:
        """Upper end of the equal-tailed interval of that share."""
        return self._wrong_at((1 + self.interval) / 2)

    def _wrong_at(self, level: float) -> float | None:
        return None if self.wrong_draws is None else float(np.quantile(self.wrong_draws, level))

    def __str__(self) -> str:
        return "\n".join(
            [
                self._share,
                self._beside_chance,
                *([self.about_wrong_rows] if self.about_wrong_rows else []),
                *(
                    f"  {name}: {part.mean:.1%}, by chance {part.floor:.1%}, at least "
                    f"{part.lower:.1%}"
                    for name, part in self.by.items()
                ),
                *([str(self.certificate)] if self.certificate else []),
            ]
        )

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
    def about_wrong_rows(self) -> str:
        """The share of wrong rows in a sentence or two; empty where the fit drops no rows."""
        if self.wrong_unknown:
            return (
                "What share of the rows is wrong cannot be said: the fit uses all of them, as "
                "dropping many would explain hardly more."
            )
        if self.wrong is None:
            return ""
        low, high = self.wrong_low or 0.0, self.wrong_high or 0.0
        if low >= _SHOWN:
            found = f"{'About' if self.lower else 'Even so, about'} {self.wrong:.1%} of the rows"
            found += " are wrong"
        else:
            doubt = (
                "the form of the model is wrong and no row is" if self.lower else "no row is wrong"
            )
            found = f"Perhaps {doubt}; at most {high:.1%} of them are"
        span = f"({self.interval:.0%} interval {low:.1%} to {high:.1%})"
        return f"{found} {span}; rows whose outcomes the model finds usual are not counted."

    def _repr_html_(self) -> str:
        return "".join(f"<p>{escape(line)}</p>" for line in str(self).splitlines())


def misfit(draws: Array, floor_draws: Array, interval: float = 0.9) -> Misfit:
    """Check and collect."""
    probability("interval", interval, 0.9)
    if len(draws) < 2:
        raise SettingsError(
            f"The unexplained share needs at least 2 draws; got {len(draws)}. Fit with "
            "n_draws=1000."
        )
    return Misfit(draws, floor_draws, interval)
