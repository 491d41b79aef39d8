"""How many rows plain TVD (``refine=None``) needs for a number of continuous covariates.

Two groups for each of d parameters, of s rows each, need 2 d s rows; slopes are then too steep by a
share of about 0.6 / s.
"""

from dataclasses import dataclass

from tvdbayes._validate import finite_number, whole_number
from tvdbayes.bounds._words import written
from tvdbayes.objective.partitions import ENOUGH_ROWS

_GROUPS_PER_PARAM = 2
"""With fewer plain TVD has little to go by, and warns."""
_LARGE = 2.0
"""The larger groups of the default ensemble, in multiples of `rows_per_group`."""


@dataclass(frozen=True)
class GroupPlan:
    """Rows that plain TVD (``refine=None``) needs where covariates hardly repeat.

    Parameters
    ----------
    n_params : int
        Parameters, the intercept included.
    rows : int
        The fewest rows that make two groups for each parameter.
    n_groups : int
        Groups that these rows make.
    group_size : float
        Rows in each of them.
    expected_bias : float
        By how much slopes are too steep on clean data with groups of that size, as a share.
    comfortable : int
        Rows from which groups begin to grow, so that this bias gets smaller.

    Examples
    --------
    >>> from tvdbayes import plan
    >>> for n_params in (3, 6, 12):
    ...     print(n_params, plan.groups(n_params).rows)
    3 144
    6 288
    12 576
    """

    n_params: int
    rows: int
    n_groups: int
    group_size: float
    expected_bias: float
    comfortable: int

    @property
    def statement(self) -> str:
        """The numbers in words."""
        return (
            f"{self.n_params} parameters need at least {self.rows:,} rows: {self.n_groups} groups "
            f"of about {self.group_size:g}, with which slopes are too steep by about "
            f"{self.expected_bias:.1%}; from {self.comfortable:,} rows on groups grow."
        )

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What must be true for it."""
        return (
            "covariates hardly repeat, so plain TVD (refine=None) compares rows in groups",
            "up to about a tenth of the rows are wrong; more of them need more rows",
        )

    @property
    def vacuous(self) -> bool:
        """Whether the statement is empty; never."""
        return False

    def __str__(self) -> str:
        return written(self.statement, self.assumptions)


def groups(n_params: int, *, group_size: float | None = None) -> GroupPlan:
    """Find how many rows plain TVD needs where covariates hardly repeat.

    Other divergences that compare groups need as many. The default of `fit` is not fitted to groups
    and needs no minimum.

    Parameters
    ----------
    n_params : int
        Parameters, the intercept included.
    group_size : float, optional
        Rows in a group; the default of a fit unless given, about 24.

    Examples
    --------
    >>> from tvdbayes import plan
    >>> print(plan.groups(6))
    6 parameters need at least 288 rows: 12 groups of about 24, with which slopes are too steep by
    about 2.5%; from 576 rows on groups grow. Assumes: covariates hardly repeat, so plain TVD
    (refine=None) compares rows in groups; up to about a tenth of the rows are wrong; more of them
    need more rows.
    """
    n_params = whole_number("n_params", n_params, 1, floats=True)
    if group_size is not None:
        finite_number("group_size", group_size, least=1.0)
    size = _LARGE * ENOUGH_ROWS if group_size is None else float(group_size)
    n_groups = _GROUPS_PER_PARAM * int(n_params)
    rows = int(-(-n_groups * size // 1))
    # Where both limits of `rows_per_group` leave its smallest value.
    comfortable = max(rows, 8 * int(n_params) * ENOUGH_ROWS, ENOUGH_ROWS**2)
    return GroupPlan(int(n_params), rows, n_groups, size, 0.6 / size, comfortable)
