"""How wrong the data would have to be for the answer to change.

A model with a coefficient held at some value leaves a share D of the data unexplained. If a share
s of the rows is wrong, the true model leaves at most ``s + (1 - s) * noise``, the noise being that
of the good rows. So a value is compatible with s only if ``(D - noise) / (1 - noise) <= s``: for
every assumed share that gives an interval, and for the value 0 the share at which the sign is lost.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from tvdbayes._errors import SettingsError
from tvdbayes._typing import Array, Library
from tvdbayes.data.cells import places
from tvdbayes.results.base_measure import tabulated
from tvdbayes.results.rows import cell_scores, most_suspicious
from tvdbayes.sampling.execution import single_threaded
from tvdbayes.sampling.plan import AbstractPlan, solve_tables
from tvdbayes.sampling.planners import plan_of
from tvdbayes.sampling.posterior import Posterior
from tvdbayes.sampling.summary import number
from tvdbayes.sampling.tables import AbstractTable, text_table
from tvdbayes.solvers import newton

_REACH = 8.0
_VALUES = 33
"""Values of a coefficient that are tried: so many posterior deviations around its estimate."""


@dataclass(frozen=True, eq=False)
class Sensitivity:
    """What a coefficient can be if some share of the rows is wrong.

    Parameters
    ----------
    name : str
        The coefficient.
    estimate : float
    values : (V,)
        Values that it was held at, in order; 0 is among them.
    share : (V,)
        The smallest share of wrong rows that each value needs.
    needed : float
        The share that even the estimate needs.
    """

    name: str
    estimate: float
    values: Array
    share: Array
    needed: float

    @property
    def sign_holds_to(self) -> float:
        """The share of wrong rows below which the coefficient cannot be 0."""
        return float(self.share[np.searchsorted(self.values, 0.0)])

    def interval(self, share: float) -> tuple[float, float]:
        """Smallest and largest value that are compatible with this share of wrong rows.

        An end is infinite where all values that were tried are; the estimate itself where none is.
        """
        inside = np.flatnonzero(self.share <= share)
        if not inside.size:
            return self.estimate, self.estimate
        return self._end(inside[0], -1, share), self._end(inside[-1], 1, share)

    def _end(self, index: int, step: int, share: float) -> float:
        """Where the share is crossed, between a value inside and its neighbour outside."""
        beyond = index + step
        if not 0 <= beyond < len(self.values):
            return step * np.inf
        gap = self.share[beyond] - self.share[index]
        part = (share - self.share[index]) / gap if gap > 0 else 0.0
        return float(self.values[index] + part * (self.values[beyond] - self.values[index]))

    def __str__(self) -> str:
        sign, least = "positive" if self.estimate > 0 else "negative", f"{self.needed:.1%}"
        if self.sign_holds_to <= self.needed:
            return (
                f"The sign of {self.name} is not certain, even if only {least} of the rows are "
                "wrong, which is the least that the fit allows."
            )
        must = "" if least == "0.0%" else f"; at least {least} of them must be"
        return (
            f"{self.name} is {sign} if fewer than {self.sign_holds_to:.1%} of the rows are wrong"
            f"{must}."
        )

    __repr__ = __str__


@dataclass(frozen=True, eq=False, repr=False)
class SensitivityTable(AbstractTable):
    """Estimates, the share of wrong rows that each sign stands, and intervals at some shares.

    The parameters are those of `AbstractTable`.
    """

    first: ClassVar[str] = "parameter"
    caption: ClassVar[str] = "What coefficients can be if a share of the rows is wrong"

    def text(self, column: str, line: int) -> str:
        """A number, shares as percentages."""
        value = self.columns[column][line]
        return f"{value:.1%}" if column == "sign holds to" else number(value, abs(value) / 10)


@dataclass(frozen=True, eq=False)
class Sensitivities:
    """Each coefficient's `Sensitivity`, in order; prints as sentences, `table` is for a paper.

    Parameters
    ----------
    each : tuple of Sensitivity
    library : Library
        Whose data frames `SensitivityTable.to_frame` makes.
    """

    each: tuple[Sensitivity, ...]
    library: Library = "pandas"

    def table(self, shares: Sequence[float] = (0.01, 0.05, 0.1)) -> SensitivityTable:
        """One line for each coefficient: what it can be if these shares of the rows are wrong."""
        wrong = [share for share in shares if not 0 <= share < 1]
        if wrong:
            raise SettingsError(f"shares must be numbers from 0 to below 1; got {wrong[0]!r}.")
        columns = {
            "estimate": np.array([one.estimate for one in self.each]),
            "sign holds to": np.array([one.sign_holds_to for one in self.each]),
        }
        for share in shares:
            ends = np.array([one.interval(share) for one in self.each]).reshape(-1, 2)
            for end, values in zip(("low", "high"), ends.T, strict=True):
                columns[f"{end}, {100 * share:.4g}% wrong"] = values
        note = (
            "A sign holds to the share of wrong rows below which the coefficient cannot be 0.\n"
            "At each share stand the smallest and the largest value that so many wrong rows allow."
        )
        names = tuple(one.name for one in self.each)
        return SensitivityTable(names, columns, note, library=self.library)

    def __iter__(self) -> Iterator[Sensitivity]:
        return iter(self.each)

    def __len__(self) -> int:
        return len(self.each)

    def __getitem__(self, index: int) -> Sensitivity:
        return self.each[index]

    def __str__(self) -> str:
        return "\n".join(map(str, self.each))

    __repr__ = __str__


def sensitivity(
    posterior: Posterior,
    noise: float,
    names: Sequence[str] | None = None,
    *,
    progress: Callable[[int, int], None] | None = None,
) -> tuple[Sensitivity, ...]:
    """Hold coefficients at many values and see how much of the data is left unexplained.

    ``noise`` is what chance leaves unexplained at most of data from a known model, see
    `Replicates.unfitted`: a model that is fitted follows the noise, one that is held does not.
    """
    if posterior.divergence.name != "tvd":
        raise SettingsError(
            'Sensitivity is measured by the unexplained share, so it needs divergence="tvd"; got '
            f"{posterior.divergence.name!r}."
        )
    with single_threaded():
        plan = plan_of(posterior)
        bound = plan.robust.layout.bound
        slopes = dict(zip(posterior.param_names, bound.penalised.tolist(), strict=True))
        known = [name for name, slope in slopes.items() if slope]
        wanted = known if names is None else [names] if isinstance(names, str) else list(names)
        for name in wanted:
            if name not in known:
                raise SettingsError(
                    f"{name!r} is no coefficient of a covariate. Choose from "
                    f"{', '.join(known) or '(none)'}."
                )
        found = []
        for number, name in enumerate(wanted):
            found.append(_profile(plan, posterior, posterior.param_names.index(name), noise))
            if progress is not None:
                progress(number + 1, len(wanted))
    return tuple(found)


def _profile(plan: AbstractPlan, posterior: Posterior, index: int, noise: float) -> Sensitivity:
    # Which shares of the rows are wrong is asked of the data, without the mass of a prior.
    robust = plan.on(posterior.cells)[0]
    layout = robust.layout
    p, d = layout.cells.p[:, None], layout.bound.n_params
    estimate = float(posterior.estimate[index])
    spread = float(posterior.draws[:, index].std()) if posterior.n_draws > 1 else 0.0
    reach = max(_REACH * spread, 1.5 * abs(estimate), 1e-6)
    values = np.union1d(estimate + np.linspace(-reach, reach, _VALUES), [0.0])
    unit = layout.bound.to_user(np.eye(d))[index, index]
    centre = np.zeros(d) if plan.robust.reference is None else plan.robust.reference
    distance = np.empty(len(values))
    pinned = np.arange(d) == index
    # Outwards from the estimate on both sides, each from where its neighbour ended.
    middle = int(np.abs(values - estimate).argmin())
    for order in (range(middle, len(values)), range(middle - 1, -1, -1)):
        start = centre[:, None]
        for at in order:
            held = start[:, 0].copy()
            held[index] = values[at] / unit
            problem = replace(robust, reference=held, pinned=pinned).on(p)
            start = newton(problem, held[:, None]).theta
            distance[at] = problem.distance(start)[0]
    share = np.clip((distance - noise) / (1 - noise), 0.0, 1.0)
    return Sensitivity(posterior.param_names[index], estimate, values, share, float(share.min()))


@dataclass(frozen=True, eq=False)
class DropWorst:
    """Estimates without the most suspicious rows.

    Parameters
    ----------
    names : tuple of str
    share : (S,)
        Share of rows that were left out.
    robust, ordinary : (S, d)
        Estimates on what is left: the closest model and maximum likelihood, without random weights.
    robust_mean, ordinary_mean : (d,) or None
        Means of the draws of the fit to all rows, which `Fit.summary` shows; None without draws.
        They differ from the estimates at a share of 0 by what random weights do.
    """

    names: tuple[str, ...]
    share: Array
    robust: Array
    ordinary: Array
    robust_mean: Array | None = None
    ordinary_mean: Array | None = None

    def __str__(self) -> str:
        means = [] if self.robust_mean is None else ["summary()"]
        lines = [["parameter", "", *means, *(f"{share:.1%}" for share in self.share)]]
        sides = {
            "robust": (self.robust_mean, self.robust),
            "ordinary": (self.ordinary_mean, self.ordinary),
        }
        for j, name in enumerate(self.names):
            for side, (mean, table) in sides.items():
                values = table[:, j] if mean is None else [mean[j], *table[:, j]]
                lines.append([name, side, *(f"{value:.4g}" for value in values)])
        text = (
            f"{text_table(lines)}\nColumns are shares of the rows that are left out. Estimates are "
            "for the rows that are left, without random weights."
        )
        if means:
            text += "\nsummary() is the mean of the draws, each on random weights of all rows."
        return text

    __repr__ = __str__


def drop_worst(
    posterior: Posterior, shares: Sequence[float] = (0.0, 0.01, 0.02, 0.05, 0.1)
) -> DropWorst:
    """Fit again without the share of rows whose outcomes are hardest to explain.

    Rows are left out in the order of `most_suspicious`. The robust estimate should hardly move; the
    likelihood fit moves towards it if the rows are what separates the two.
    """
    wanted = np.asarray(shares, float)
    if wanted.ndim != 1 or not wanted.size or not ((wanted >= 0) & (wanted < 1)).all():
        raise SettingsError(f"shares must be numbers from 0 to below 1; got {shares!r}.")
    posterior = tabulated(posterior)
    cells, scores = posterior.cells, cell_scores(posterior)
    order = most_suspicious(scores.surprise, scores.score)
    with single_threaded():
        # The shift corrects for random weights; this table has none.
        plan, p = plan_of(posterior).uncentred(), cells.p[order, None]
        # Tables without the given shares of mass, taken from the cells in this order.
        taken = np.clip(wanted - (np.cumsum(p, axis=0) - p), 0.0, p)
        # The mass of a prior is no row, and stays.
        whole = plan.robust.layout.cells
        kept = np.repeat(whole.p[:, None], taken.shape[1], axis=1)
        kept[places(whole, cells)[order]] -= taken * (cells.n_obs / whole.n_obs)
        kept = np.maximum(kept, 0.0)
        solved = solve_tables(plan, kept / kept.sum(0))
    means = (posterior.draws.mean(0), posterior.kld_draws.mean(0)) if posterior.n_draws else ()
    estimates = solved.robust.theta.T, solved.likelihood.theta.T
    return DropWorst(posterior.param_names, wanted, *estimates, *means)
