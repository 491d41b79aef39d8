"""How much wrong rows can change the distance between data and model, whatever they are.

A share e of rows comes from any other distribution. The distance to a model at the x of good rows
changes by e at most (the triangle inequality). The estimator sees the x of the wrong rows, too: its
distance rises by e at most (convexity) and falls by ``2 e / (1 + sqrt(e))`` at most. All three are
attained. Proposition 1 of the paper has 2 e, which is true and not sharp (``as_printed=True``).
"""

from dataclasses import dataclass

import numpy as np

from tvdbayes.bounds._words import AbstractGuarantee, at_least, at_most, percent, share_of


@dataclass(frozen=True)
class Robustness(AbstractGuarantee):
    """The range in which wrong rows can move a distance.

    Parameters
    ----------
    share : float
        Share of wrong rows, at most.
    lower, upper : float
        The distance changes by no less and no more.
    statement, assumptions : str, tuple of str
        What is bounded, and what must be true for it.

    Examples
    --------
    >>> from tvdbayes.bounds import robustness_radius
    >>> found = robustness_radius(0.05, contaminated_x=False)  # only outcomes are wrong
    >>> found.lower, found.upper, found.closest_model
    (-0.05, 0.05, 0.1)
    """

    share: float
    lower: float
    upper: float

    @property
    def radius(self) -> float:
        """The largest change, up or down."""
        return max(-self.lower, self.upper)

    @property
    def closest_model(self) -> float:
        """How far the model closest to the contaminated law can be from the true one.

        It is no farther from what is seen than the true model is, so both ends add up.
        """
        return min(1.0, self.upper - self.lower)


def robustness_radius(
    share: float, contaminated_x: bool = True, *, as_printed: bool = False
) -> Robustness:
    """Bound what a share of wrong rows does to the distance between law and model.

    Parameters
    ----------
    share : float
        Share of wrong rows, from 0 to 1.
    contaminated_x : bool
        Whether wrong rows may have any covariates, as in data; False if only their outcomes are
        wrong, or without covariates.
    as_printed : bool
        The paper's Proposition 1: twice the share, true and not sharp.

    Examples
    --------
    >>> from tvdbayes.bounds import robustness_radius
    >>> print(robustness_radius(0.1))
    If at most 10% of the rows are wrong, the distance to any model changes by -0.152 to +0.100, and
    the closest model is within 0.252 of the true one. Assumes: the other rows come from the model;
    nothing about the wrong ones.
    """
    share = share_of(share)
    upper = 2 * share if as_printed else share
    lower = -2 * share / (1 + np.sqrt(share)) if contaminated_x and not as_printed else -upper
    return Robustness(
        share,
        float(lower),
        upper,
        statement=f"If at most {percent(share)} of the rows are wrong, the distance to any model "
        f"changes by {at_least(lower)} to {at_most(upper, '+')}, and the closest model is within "
        f"{at_most(min(1.0, upper - lower))} of the true one.",
        assumptions=("the other rows come from the model", "nothing about the wrong ones"),
    )
