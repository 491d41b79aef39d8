"""How far a fixed model is at most from the distribution of the data, for any number of rows.

The distance D_n between a table of n rows and a fixed model is a supremum of means, so its
expectation is no smaller than the true distance D; and one row can change it by 2 / n (by 1 / n if
its x is fixed). By McDiarmid's inequality, except with probability delta,

    D <= D_n + sqrt(2 log(1 / delta) / n)    (1/2 in place of 2 if x is fixed or constant).

Parameters and groups must not be learned from the rows that judge them; `misfit_split` therefore
fits one half of the rows and judges on the other. Single outcomes are compared, whatever bins the
fit used: a bin cannot show which of its counts occur.
"""

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike

from tvdbayes._errors import SettingsError
from tvdbayes._typing import Array
from tvdbayes._validate import one_of, probability
from tvdbayes.bounds._distance import distance_seen
from tvdbayes.bounds._words import (
    INDEPENDENT,
    AbstractGuarantee,
    at_most,
    percent,
    row_counts,
    vector,
)
from tvdbayes.data.cells import Cells
from tvdbayes.models.model import Model
from tvdbayes.objective.partitions import AbstractPartition, Distinct
from tvdbayes.results.scores import fold_counts, loses_a_column, part_of
from tvdbayes.sampling.bootstrap import posterior_bootstrap
from tvdbayes.sampling.execution import single_threaded
from tvdbayes.sampling.posterior import Posterior

Design = Literal["random", "fixed"]


@dataclass(frozen=True)
class MisfitUpper(AbstractGuarantee):
    """An upper bound on the distance between a fixed model and the law behind the data.

    The distance is the total variation over covariates and single outcomes, where the model has the
    covariates of the law: its mean over x. Where rows of different x were compared in groups, it is
    that over groups and single outcomes, the model averaged over the x that the law has in each
    group, and a mean over the partitions of an ensemble. It is no larger than the former, so inside
    groups the model may be farther away. The statement says which of them is bounded.

    Parameters
    ----------
    upper : float
        The bound, at most 1.
    distance, slack : float
        The distance that was seen, and what is added to it.
    delta : float
        Probability of data for which the bound fails.
    statement, assumptions : str, tuple of str
        What is bounded, and what must be true for it.

    Examples
    --------
    What was seen, and what is added to be sure:

    >>> import tvdbayes as tb
    >>> cells = tb.Cells.from_counts([[1]] * 4, [0, 1, 2, 3], [365, 370, 185, 80])
    >>> found = tb.bounds.misfit_upper(tb.Model(tb.Poisson()), cells, theta=[0.0])
    >>> print(f"{found.distance:.3f} + {found.slack:.3f} = {found.upper:.3f}")
    0.022 + 0.039 = 0.061
    """

    upper: float
    distance: float
    slack: float
    delta: float
    _bound: ClassVar[str] = "upper"


def misfit_upper(
    fitted: Posterior | Model,
    cells: Cells,
    delta: float = 0.05,
    *,
    theta: ArrayLike | None = None,
    design: Design = "random",
    partition: AbstractPartition | None = None,
) -> MisfitUpper:
    """Bound the distance between a model and the law behind rows that it was not fitted to.

    Parameters
    ----------
    fitted : Posterior or Model
        A fit to *other* rows, judged at its minimiser on its groups; or a model, judged at `theta`.
        Single outcomes are compared, also where the fit joined them in bins.
    cells : Cells
        The rows that judge; a cell of count 10 is ten rows.
    delta : float
        Probability of failure that is accepted.
    theta : (d,), optional
        Parameters of a model that were chosen without these rows.
    design : "random" or "fixed"
        Whether covariates are drawn like outcomes; or given, so that the bound is about outcomes at
        these very covariates. Without covariates both are the same.
    partition : AbstractPartition, optional
        Which rows a model is compared on together: distinct x unless given. Groups that are learned
        from the covariates of these rows need ``design="fixed"``.

    Examples
    --------
    >>> import tvdbayes as tb
    >>> cells = tb.Cells.from_counts([[1]] * 4, [0, 1, 2, 3], [365, 370, 185, 80])
    >>> print(tb.bounds.misfit_upper(tb.Model(tb.Poisson()), cells, theta=[0.0]))
    With probability 95% the model is within 0.061 of the law behind the rows (total variation over
    single outcomes; seen on 1,000 rows: 0.022). Assumes: rows are drawn independently from one law;
    the parameters were chosen without these rows; all rows have the same covariates.
    """
    _check(delta, design)
    row_counts(cells)
    # A public function that takes either; this is the only place that asks.
    if isinstance(fitted, Posterior):
        if theta is not None or partition is not None:
            raise SettingsError(
                "A fit is judged at its own parameters, on its own groups. Pass its model to judge "
                "others: misfit_upper(posterior.model, cells, theta=...)."
            )
        require_independent_rows(fitted)
        if _same(fitted.cells, cells):
            raise SettingsError(
                "These are the rows that the parameters were fitted to, so the bound would not "
                "hold. Use misfit_split(posterior), which fits one half and judges on the other; "
                "or pass rows that were held out."
            )
        judged = fitted.model, fitted.minimiser, fitted.partition, fitted.cells
        return _bound(*judged, cells, delta=delta, design=design, who="the fitted model")
    if theta is None:
        raise SettingsError(
            "A model has no parameters of its own. Pass theta=, chosen without these rows, or a "
            "fit to other rows."
        )
    at = vector("theta", theta)
    fitted.pmf(cells, at[:, None])
    rule = Distinct() if partition is None else partition
    groups = rule.learn(cells, fitted.complexity(cells), 0)
    if groups is not rule and groups.pools_rows and design == "random":
        raise SettingsError(
            "Groups that are learned from the covariates of these rows depend on them, so the "
            'bound would not hold for other rows. Pass design="fixed", for a bound at these very '
            "covariates, or groups that were learned on other rows (partition.learn)."
        )
    return _bound(fitted, at, groups, cells, cells, delta=delta, design=design, who="the model")


def misfit_split(
    posterior: Posterior, delta: float = 0.05, *, design: Design = "random"
) -> MisfitUpper:
    """Fit one half of the rows as the record was fitted, and judge on the other half.

    All options of the fit apply to the half: divergence, prior, ridge, bins, partition, refine,
    family, predictors, network, offset, exposure and trials. Groups, bins and an automatic ridge
    are learned anew, on the half alone. Rows are dealt at random; weights count rows, so a row of
    weight 10 is ten independent rows, and some of them may come to either half.

    Parameters
    ----------
    posterior : Posterior
        Says which model, rows and options.
    delta, design
        As in `misfit_upper`.

    Examples
    --------
    >>> import tvdbayes as tb
    >>> fit = tb.fit("visits ~ age + region", tb.example_data(2000), n_draws=0)
    >>> print(tb.bounds.misfit_split(fit.posterior))
    With probability 95% the model fitted to one half of the rows is within 0.167 of the law behind
    the rows (total variation over covariates and single outcomes; seen on 1,000 rows: 0.089).
    Assumes: rows are drawn independently from one law; family, columns and options were chosen
    without these rows.
    """
    _check(delta, design)
    require_independent_rows(posterior)
    half, second = fitted_half(posterior)
    return _bound(
        *(half.model, half.minimiser, half.partition, half.cells, second),
        delta=delta,
        design=design,
        who="the model fitted to one half of the rows",
        chosen="family, columns and options",
    )


def require_independent_rows(posterior: Posterior) -> None:
    """Raise for a fit whose rows belong together or were sampled with unequal probabilities."""
    if posterior.units is not None:
        raise SettingsError(
            "A guarantee holds for rows that were drawn independently and with equal probability; "
            "those of this fit belong together, or stand for more or fewer of the population "
            "(clusters=, strata=, sampling_weights=). Ask for misfit() without a certificate, "
            "whose floor is that of clusters."
        )


def fitted_half(posterior: Posterior) -> tuple[Posterior, Cells]:
    """The point fit of a random half of the rows, as the record was fitted, and the other half."""
    cells, options = posterior.cells, posterior.options
    dealt = fold_counts(row_counts(cells), 2, posterior.seed)
    if loses_a_column(posterior, dealt[0]):
        raise SettingsError(
            "In one half of the rows a column of x is 0, or follows from the others, so the half "
            "cannot be fitted as all rows were. Merge rare levels, or pass rows that were held out "
            "to misfit_upper."
        )
    first, second = (part_of(cells, np.flatnonzero(n), n[n > 0].astype(float)) for n in dealt)
    half = posterior_bootstrap(
        posterior.model,
        first,
        divergence=posterior.divergence,
        partition=options.partition,
        n_draws=0,
        seed=posterior.seed,
        prior=posterior.prior,
        ridge=options.ridge,
        bins=options.bins,
        refine=posterior.refine,
    )
    return half, second


def _bound(
    model: Model,
    theta: Array,
    partition: AbstractPartition,
    known: Cells,
    cells: Cells,
    *,
    delta: float,
    design: Design,
    who: str,
    chosen: str = "the parameters",
) -> MisfitUpper:
    """Judge a model at theta by the rows in `cells`.

    The partition must not depend on these rows, or on their x alone. The parameters come from the
    rows in `known`, or from elsewhere if these are the same. `who` is judged, and what was `chosen`
    must not depend on the rows.
    """
    # A fit that compares rows singly is judged on distinct x.
    rule = partition if partition.pools_rows else Distinct()
    groups, varies = rule.group(cells).groups, _varies(known, cells)
    with single_threaded():
        distance = distance_seen(model, theta, cells, groups, known)
    one = 0.5 if design == "fixed" or not varies else 2.0
    slack = float(np.sqrt(np.log(1 / delta) * one / cells.n_obs))
    upper = min(1.0, distance + slack)
    if rule.pools_rows:
        ways = f", as a mean over {len(groups)} ways of grouping" * (len(groups) > 1)
        over = "groups of covariates and single outcomes, the model averaged over the "
        over += f"covariates in each group{ways}"
    else:
        over = "covariates and single outcomes" if varies else "single outcomes"
    law = "the law behind the rows"
    if design == "fixed":
        law = "the law of the outcomes at the covariates of these rows"
    inside = " Inside groups it may be farther away." * rule.pools_rows
    statement = (
        f"With probability {percent(1 - delta)} {who} is within {at_most(upper)} of {law} "
        f"(total variation over {over}; seen on {cells.n_obs:,.0f} rows: {distance:.3f}).{inside}"
    )
    assumptions = _assumptions(design, varies, rule.pools_rows, chosen)
    return MisfitUpper(upper, distance, slack, delta, statement=statement, assumptions=assumptions)


def _assumptions(design: Design, varies: bool, pools: bool, chosen: str) -> tuple[str, ...]:
    fixed = design == "fixed"
    found = [
        "outcomes are drawn independently, given covariates" if fixed else INDEPENDENT,
        f"{chosen} were chosen without these rows",
    ]
    if pools:
        of = "the outcomes of " if fixed else ""
        found.append(f"groups were chosen without {of}these rows")
    if not (varies or fixed):
        found.append("all rows have the same covariates")
    return tuple(found)


def _varies(*tables: Cells) -> bool:
    """Whether covariates, offset or trials differ between any rows of these tables."""
    known = np.concatenate([np.c_[table.x, table.offset, table.trials] for table in tables])
    return bool(np.ptp(known, axis=0).any())


def _check(delta: float, design: Design) -> None:
    probability("delta", delta)
    one_of("design", design, ("random", "fixed"))


def _same(left: Cells, right: Cells) -> bool:
    parts = ("x", "offset", "trials", "x_index", "y", "counts")
    return left is right or all(
        np.array_equal(getattr(left, name), getattr(right, name)) for name in parts
    )
