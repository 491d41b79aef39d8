"""The fields of a fit, the answers that need no computation, and new rows in its encoding."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar

import numpy as np
from formulaic import ModelSpec

from tvdbayes._errors import DataError
from tvdbayes._typing import Array, IntArray
from tvdbayes.data.fit_data import FitData
from tvdbayes.data.table import Table
from tvdbayes.formula.columns import offsets, trials_of
from tvdbayes.formula.design import Design
from tvdbayes.objective.partitions import Bins, GroupReport
from tvdbayes.results.prediction import NewRows
from tvdbayes.sampling.options import Options
from tvdbayes.sampling.posterior import Posterior

_MUCH = 0.5
"""Posterior deviations from which on rounding is worth a warning."""


@dataclass(frozen=True, eq=False)
class Rounded:
    """What rounding continuous columns in an engine (``grid=``) has done to a fit.

    Parameters
    ----------
    n_bins : int
        Bins of each column.
    method : str
        How they were made.
    lost : dict
        Share of the variance of each rounded column that lies within bins, over all rows.
    moved : (d,) or None
        By how much rounding moves maximum likelihood if the model is true, in expectation over a
        sample of unrounded rows; None where that cannot be found.
    deviations : (d,) or None
        The same in posterior deviations.
    n_sample : int
        Rows of that sample.
    param_names : tuple of str
    """

    n_bins: int
    method: str
    lost: dict[str, float]
    moved: Array | None
    deviations: Array | None
    n_sample: int
    param_names: tuple[str, ...]

    @property
    def worst(self) -> tuple[str, float] | None:
        """The parameter that moves most, and by how many posterior deviations."""
        return None if self.deviations is None else self._largest(self.deviations)

    def _largest(self, moves: Array) -> tuple[str, float]:
        most = int(np.abs(moves).argmax())
        return self.param_names[most], float(np.abs(moves[most]))

    @property
    def matters(self) -> bool:
        """Whether that is much beside the uncertainty of the draws, or not known."""
        return self.moved is None or (self.worst is not None and self.worst[1] > _MUCH)

    def __str__(self) -> str:
        lost = ", ".join(f"{name} {share:.2%}" for name, share in self.lost.items())
        text = (
            f"Rounded to means in {self.n_bins} bins ({self.method}); variance lost: {lost}. "
            "Coefficients move by "
        )
        if self.moved is None:
            return text + "an amount that the sample does not tell."
        name, most = self.worst or self._largest(self.moved)
        much = f"{most:.2g} posterior deviations" if self.worst else f"{most:.2g}"
        return f"{text}at most {much} ({name}), expected from {self.n_sample:,} unrounded rows."


Given = ParamSpec("Given")
Answer = TypeVar("Answer")
Asked = TypeVar("Asked", bound="AbstractFit")


def needs_rows(
    answer: Callable[Concatenate[Asked, Given], Answer],
) -> Callable[Concatenate[Asked, Given], Answer]:
    """An answer that looks at every row, so that it cannot be had where rows stayed with Dask."""

    @wraps(answer)
    def asked(self: Asked, /, *args: Given.args, **options: Given.kwargs) -> Answer:
        require_rows(self, f"{answer.__name__}()")
        return answer(self, *args, **options)

    return asked


@dataclass(frozen=True, eq=False, repr=False)
class AbstractFit:
    """The fields of `Fit`, which describes them; answers to questions are in its other bases."""

    posterior: Posterior
    formula: str
    encoding: ModelSpec
    cell_of_row: IntArray
    data: FitData
    more_encodings: dict[str, ModelSpec] = field(default_factory=dict)
    left_out: tuple[str, ...] = ()
    rounded: Rounded | None = None
    sample_fit: "AbstractFit | None" = None

    @property
    def design(self) -> Design:
        """How columns became covariates, for all predictors."""
        return Design(self.encoding, self.more_encodings, self.posterior.cells.names)

    @property
    def param_names(self) -> tuple[str, ...]:
        """Names of the parameters, such as `age` and `region[T.south]`."""
        return self.posterior.param_names

    @property
    def estimate(self) -> Array:
        """Point estimate, (d,).

        The fit to the unweighted data; without refinement (plain TVD, other divergences), where
        covariates repeat, the posterior mean.
        """
        return self.posterior.estimate

    @property
    def draws(self) -> Array:
        """Posterior draws, (B, d)."""
        return self.posterior.draws

    @property
    def kld_draws(self) -> Array:
        """The likelihood fit of each draw, (B, d)."""
        return self.posterior.kld_draws

    @property
    def distance(self) -> Array:
        """Divergence that each draw reached, (B,); under TVD, the share of mass it cannot explain.

        Noise is part of it; `misfit` says what is more than noise.
        """
        return self.posterior.distance

    @property
    def status(self) -> IntArray:
        """How the search of each draw ended, codes of `Status`, (B,)."""
        return self.posterior.status

    @property
    def groups(self) -> GroupReport:
        """Which rows were compared together, to see which are too many.

        Fits that compare groups, such as plain TVD (``refine=None``), have slopes that are a little
        too steep; the default has not.

        Examples
        --------
        >>> import tvdbayes as tb
        >>> fit = tb.fit("visits ~ age", tb.example_data(), n_draws=50)
        >>> print(fit.groups)
        distinct: 4 groups, median 263 rows, slopes from groups too steep by about 0.2%
        """
        return self.posterior.groups

    @property
    def bins(self) -> Bins | None:
        """Which counts were compared together, if any, since large ones hardly repeat."""
        return self.posterior.bins

    @property
    def n_rows(self) -> int:
        """Rows of the data, those included that were left out."""
        grouped = self.data.n_grouped
        return len(self.cell_of_row) if grouped is None else grouped

    @property
    def n_left_out(self) -> int:
        """Rows of the data that were left out, for a gap, a weight of zero or no exposure."""
        return int((self.cell_of_row < 0).sum()) + self.data.n_dropped

    @property
    def why_left_out(self) -> str:
        """Why rows of the data were left out, in words."""
        n, others = self.data.n_unexposed, "gaps or a weight of zero"
        if n == self.n_left_out:
            return "no exposure" if n else others
        return f"{others}, {n:,} for no exposure" if n else others

    @property
    def seed(self) -> int:
        """The seed that gives these draws again."""
        return self.posterior.seed

    @property
    def options(self) -> Options:
        """Options of `fit` as they were given.

        With the same formula and data they give the same draws, bit for bit. ``n_jobs``, ``resume``
        and ``progress`` are not kept, since no draw depends on these. Only options that differ from
        their defaults are shown; ``options.changed()`` has these as a dict.

        Examples
        --------
        >>> import tvdbayes as tb
        >>> data = tb.example_data(60)
        >>> fit = tb.fit("visits ~ region", data, divergence=tb.Hellinger(), n_draws=20, ridge=0.1)
        >>> fit.options
        Options(divergence='hellinger', n_draws=20, ridge=0.1)
        """
        return self.posterior.options

    def _side(self, ordinary: bool) -> Posterior:
        """The robust draws, or those of the likelihood fit."""
        return self.posterior.twin if ordinary else self.posterior


def new_rows(fit: AbstractFit, table: Table) -> NewRows:
    """The rows of a table as the model sees them, in the order of the input."""
    posterior, family = fit.posterior, fit.posterior.model.family
    x = fit.design.encode(table)
    offset, trials = offsets(table, fit.data.offset, fit.data.exposure), None
    if family.needs_trials:
        trials = trials_of(table, fit.data.trials, family)[table.index]
    return NewRows.of(
        posterior,
        x[table.index],
        offset=None if offset is None else offset[table.index],
        trials=trials,
    )


def require_rows(fit: AbstractFit, answer: str) -> None:
    """Raise where an answer needs rows that stayed with Dask."""
    if fit.sample_fit is not None:
        raise DataError(
            f"The {fit.n_rows:,} rows of this fit stayed with Dask; {answer} would look at each. "
            f"Ask fit.sample_fit, the fit of the {len(fit.cell_of_row):,} rows that were read."
        )
