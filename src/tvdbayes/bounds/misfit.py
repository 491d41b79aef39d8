"""How far a fixed model is at most from the law behind the data: no alphabet, no asymptotics.

The distance between a table and a fixed model is a supremum of means, so on average it is too
large; and one row can change it by 2/n (by 1/n if its x is fixed). McDiarmid's inequality does the
rest. It needs parameters that were not fitted to the rows that judge them: hence the split.
"""

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from tvdbayes._errors import SettingsError
from tvdbayes._typing import ArrayLike
from tvdbayes.bounds._words import INDEPENDENT, percent, probability, row_counts, vector, written
from tvdbayes.cells import Cells
from tvdbayes.execution import single_threaded
from tvdbayes.model import Model
from tvdbayes.objective import Layout
from tvdbayes.partitions import AbstractPartition, Distinct
from tvdbayes.posterior import Posterior
from tvdbayes.posterior.rows import layout_of, masses_of
from tvdbayes.refits.certificate import fitted_half

__all__ = ["Design", "MisfitUpper", "misfit_split", "misfit_upper"]

Design = Literal["random", "fixed"]


@dataclass(frozen=True)
class MisfitUpper:
    """An upper bound on the distance between a fixed model and the law behind the data.

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

    >>> import numpy as np, tvdbayes as tb
    >>> from tvdbayes.bounds import misfit_upper
    >>> y = np.random.default_rng(0).poisson(3, 2000)
    >>> cells = tb.Cells.from_rows(np.ones((2000, 1)), y)
    >>> found = misfit_upper(tb.Model(tb.Poisson()), cells, theta=[np.log(3)])
    >>> print(f"{found.distance:.3f} + {found.slack:.3f} = {found.upper:.3f}")
    0.014 + 0.027 = 0.041
    """

    upper: float
    distance: float
    slack: float
    delta: float
    statement: str
    assumptions: tuple[str, ...]

    @property
    def vacuous(self) -> bool:
        """Whether the bound says nothing."""
        return self.upper >= 1

    def __str__(self) -> str:
        return written(self.statement, self.assumptions, self.vacuous)


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
        A fit to *other* rows, judged at its minimiser, its groups and bins; or a model, judged at
        `theta`.
    cells : Cells
        The rows that judge.
    delta : float
        Probability of failure that is accepted.
    theta : (d,), optional
        Parameters of a model that were chosen without these rows.
    design : "random" or "fixed"
        Whether covariates are drawn like outcomes; or given, so that the bound is about outcomes at
        these very covariates. Without covariates both are the same.
    partition : AbstractPartition, optional
        Which rows a model is compared on together: distinct x unless given. It must not have been
        learned from the outcomes of these rows.

    Returns
    -------
    MisfitUpper

    Examples
    --------
    >>> import numpy as np, tvdbayes as tb
    >>> from tvdbayes.bounds import misfit_upper
    >>> y = np.random.default_rng(0).poisson(3, 2000)
    >>> cells = tb.Cells.from_rows(np.ones((2000, 1)), y)
    >>> print(misfit_upper(tb.Model(tb.Poisson()), cells, theta=[np.log(3)]))
    With probability 95% the model is within 0.041 (total variation; seen: 0.014) of the law behind
    the 2,000 rows. Assumes: rows are drawn independently from one law; the parameters were chosen
    without these rows.
    """
    delta = probability("delta", delta)
    if design not in ("random", "fixed"):
        raise SettingsError(f'design must be "random" or "fixed"; got {design!r}.')
    row_counts(cells)
    # A door: what the caller has decides, and both are told apart in this one place.
    if isinstance(fitted, Posterior):
        if theta is not None or partition is not None:
            raise SettingsError(
                "A fit is judged at its own parameters, on its own groups. Pass its model to judge "
                "others: misfit_upper(posterior.model, cells, theta=...)."
            )
        if _same(fitted.cells, cells):
            raise SettingsError(
                "These are the rows that the parameters were fitted to, so the bound would not "
                "hold. Use misfit_split(posterior), which fits one half and judges on the other; "
                "or pass rows that were held out."
            )
        return _judge(layout_of(replace(fitted, cells=cells)), fitted.minimiser, delta, design)
    if theta is None:
        raise SettingsError(
            "A model has no parameters of its own. Pass theta=, chosen without these rows, or a "
            "fit to other rows."
        )
    at = vector("theta", theta)
    fitted.pmf(cells, at[:, None])
    groups = Distinct() if partition is None else partition
    return _judge(Layout(fitted, cells, groups, cells), at, delta, design)


def misfit_split(
    posterior: Posterior, delta: float = 0.05, *, design: Design = "random"
) -> MisfitUpper:
    """Fit one half of the rows as the record was fitted, and judge on the other half.

    Parameters
    ----------
    posterior : Posterior
        Says which model, rows and settings.
    delta : float
        Probability of failure that is accepted.
    design : "random" or "fixed"
        See `misfit_upper`.

    Returns
    -------
    MisfitUpper

    Examples
    --------
    >>> import numpy as np, tvdbayes as tb
    >>> from tvdbayes.bounds import misfit_split
    >>> y = np.random.default_rng(0).poisson(3, 2000)
    >>> fit = tb.fit("y ~ 1", {"y": y}, n_draws=0)
    >>> print(misfit_split(fit.posterior))
    With probability 95% the model is within 0.068 (total variation; seen: 0.029) of the law behind
    the 1,000 rows. Assumes: rows are drawn independently from one law; the parameters were chosen
    without these rows.
    """
    row_counts(posterior.cells)
    half, second = fitted_half(posterior)
    return _judge(layout_of(replace(half, cells=second)), half.minimiser, delta, design)


def _judge(layout: Layout, theta: ArrayLike, delta: float, design: Design) -> MisfitUpper:
    cells = layout.cells
    with single_threaded():
        p = cells.p[:, None]
        at = layout.bound.from_user(np.asarray(theta, dtype=float)[:, None])
        distance = float((p * masses_of(layout, at, p).score).sum())
    given = design == "fixed" or cells.n_x == 1
    slack = float(np.sqrt(np.log(1 / delta) * (0.5 if given else 2.0) / cells.n_obs))
    upper = min(1.0, distance + slack)
    units = ", groups as compared" if layout.partition.pools_rows else ""
    where = "outcomes at the covariates of" if design == "fixed" else "law behind"
    assumptions = [
        "outcomes are drawn independently, given covariates" if design == "fixed" else INDEPENDENT,
        "the parameters were chosen without these rows",
    ]
    if layout.partition.pools_rows:
        assumptions.append("groups were chosen without the outcomes of these rows")
    return MisfitUpper(
        upper,
        distance,
        slack,
        delta,
        f"With probability {percent(1 - delta)} the model is within {upper:.3f} (total variation"
        f"{units}; seen: {distance:.3f}) of the {where} the {cells.n_obs:,.0f} rows.",
        tuple(assumptions),
    )


def _same(left: Cells, right: Cells) -> bool:
    parts = ("x", "offset", "trials", "x_index", "y", "counts")
    return left is right or all(
        np.array_equal(getattr(left, name), getattr(right, name)) for name in parts
    )
