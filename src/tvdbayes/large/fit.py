"""`fit_large`: a fit to rows that no single worker can hold, by sums over rows on a Dask
cluster.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from tvdbayes._errors import (
    ConvergenceWarning,
    FamilyError,
    SettingsError,
    warn,
)
from tvdbayes._typing import Array, BoolArray
from tvdbayes._validate import seed_of, whole_number
from tvdbayes.fitting.keywords import answered
from tvdbayes.fitting.progress import progress_bar
from tvdbayes.fitting.record import Fit
from tvdbayes.formula.columns import BY_LEVELS, family_by_name, named_here
from tvdbayes.large.cluster.chunks import Rules
from tvdbayes.large.cluster.rows import DaskRows, joined, result_of
from tvdbayes.large.cluster.solve import solve_rows
from tvdbayes.large.cluster.workers import dask_module
from tvdbayes.large.pieces import Pieces, open_pieces
from tvdbayes.large.profile import DataProfile
from tvdbayes.large.recipe import Recipe, encode_piece
from tvdbayes.large.record import LargeFit
from tvdbayes.large.sample import draw_sample, fit_sample, recipe_of, scaled_up
from tvdbayes.large.used import Used, columns_in_use
from tvdbayes.models.families import AbstractFamily
from tvdbayes.objective import Layout, Objective
from tvdbayes.objective.divergences import KLD, TVD
from tvdbayes.objective.partitions import LearnedGroups, report_groups
from tvdbayes.sampling.plan import AUTO_RIDGE, Solved
from tvdbayes.sampling.posterior import solutions
from tvdbayes.sampling.statements import is_frequent, unsure
from tvdbayes.solvers import Status

_CHUNK_ROWS = 1 << 18
"""Rows of a chunk: with ten covariates 20 MiB, of which a worker holds several."""

_STAGES = 4
"""What comes before the draws: a profile, a sample, groups, chunks."""


@answered
def fit_large(
    formula: str,
    data: Any,
    *,
    client: Any = None,
    family: str | AbstractFamily = "bernoulli",
    link: str | None = None,
    n_draws: int = 50,
    seed: int | np.random.Generator = 0,
    offset: str | None = None,
    exposure: str | None = None,
    trials: str | int | None = None,
    weights: str | None = None,
    ridge: float | Literal["auto"] = "auto",
    chunk_rows: int = _CHUNK_ROWS,
    progress: bool | None = None,
) -> "LargeFit":
    """Fit a model to rows that no single worker can hold, on a Dask cluster.

    The covariates need not repeat (where they do, `fit` groups tables of any size). A sample of
    100,000 rows is fitted here first: it gives the starts, the coding of the columns, and the rule
    by which rows are put into groups. Rows then stay on the workers, and each step of the search
    is a sum over all of them. Random weights are made again wherever they are needed.

    Parameters
    ----------
    formula : str
        As in `fit`. Levels of categories are those of all rows, at most 1,000 in a column; what
        ``center``, ``scale``, ``poly`` and ``bs`` remember of the data is that of the sample.
    data : Dask DataFrame, or path
        A path, a pattern such as ``"parts/*.parquet"``, or a folder, of Parquet or CSV files that
        every worker can read. Rows with gaps are an error.
    client : distributed.Client, optional
        The cluster. None starts one worker for each core of this machine, and stops them at the
        end; a script must then be guarded by ``if __name__ == "__main__":``.
    family : str or AbstractFamily
        One with a single predictor: "bernoulli", "binomial", "poisson", "geometric".
    link : str, optional
        As in `fit`.
    n_draws, seed : int
        Posterior draws, and the seed that fixes them. The result is the same bit for bit for any
        number of workers, but not for another order of the rows or other `chunk_rows`.
    offset, exposure, trials, weights, ridge
        As in `fit`.
    chunk_rows : int
        Rows that are kept and computed together. Partitions of a Dask DataFrame stay as they are.
    progress : bool, optional
        Whether to show a bar; by default only on a terminal, after a second.

    Returns
    -------
    LargeFit

    Examples
    --------
    Workers are threads here; leave out ``client=`` to get a process for each core:

    >>> import pandas as pd, tvdbayes as tb
    >>> from dask.dataframe import from_pandas
    >>> from distributed import Client
    >>> data = from_pandas(pd.DataFrame(tb.example_data()), npartitions=2)
    >>> with Client(processes=False, n_workers=1, dashboard_address=":0") as client:
    ...     fit = tb.fit_large("ill ~ age", data, client=client, n_draws=2)
    >>> fit
    ill ~ age
    <Bernoulli fit by tvd to 1,000 rows: 2 draws of 2 parameters, 100.0% certified minima>
    """
    law = _law(family, link)
    whole_number("n_draws", n_draws, 0)
    seed = seed_of("seed", seed)
    whole_number("chunk_rows", chunk_rows, 1)
    pieces = open_pieces(data, chunk_rows)
    roles = {"offset": offset, "exposure": exposure, "weights": weights}
    used = columns_in_use(formula, pieces.columns, law, trials, roles)
    with _cluster(client) as cluster, progress_bar(progress, "all rows") as report:
        stage = _Stages(n_draws, report)
        profile = _profile_of(cluster, pieces, used, law)
        stage.done()
        sample = fit_sample(
            formula,
            draw_sample(cluster, pieces, used, profile, seed),
            family=family,
            link=link,
            n_draws=n_draws,
            seed=seed,
            trials=trials,
            ridge=ridge,
            progress=False,
            **roles,
        )
        stage.done()
        recipe, rules = recipe_of(sample, used, profile, seed)
        stage.done()
        rows = DaskRows(rules, cluster, _chunks(cluster, pieces, profile, recipe))
        stage.done()
        solved = solve_rows(
            rows,
            sample.posterior.minimiser,
            sample.posterior.kld_minimiser,
            n_draws=n_draws,
            ridge=AUTO_RIDGE if ridge == "auto" else float(ridge),
            progress=stage.draws,
        )
    made = LargeFit(
        sample, _whole(sample, recipe.groups, rules, solved, profile.n_rows), profile.n_rows
    )
    _warn_of(made)
    return made


def _law(family: str | AbstractFamily, link: str | None) -> AbstractFamily:
    """The family, which must have one predictor."""
    here, link = named_here(family, link)
    law = None if here in BY_LEVELS else family_by_name(here, link)
    if law is None or (law.levels and not law.binary) or len(law.predictors) > 1:
        name = family if isinstance(family, str) else type(family).__name__
        raise FamilyError(
            f"The family {name!r} has several predictors, which rows on a cluster are not fitted "
            'with. Use "bernoulli", "binomial", "poisson" or "geometric", or fit a sample of the '
            "rows with tvdbayes.fit."
        )
    return law


@contextmanager
def _cluster(client: Any) -> Iterator[Any]:
    """A client of the user's, or of a cluster that lives as long as this."""
    distributed = dask_module("distributed")
    if client is None:
        with (
            distributed.LocalCluster(threads_per_worker=1, dashboard_address=":0") as cluster,
            distributed.Client(cluster) as own,
        ):
            yield own
        return
    if not isinstance(client, distributed.Client) or client.asynchronous:
        raise SettingsError(
            "client must be a distributed.Client that is not asynchronous; "
            f"got {type(client).__name__}."
        )
    if client.status != "running":
        raise SettingsError(f"The client is {client.status}. Connect to the cluster again.")
    yield client


class _Stages:
    """How far a fit is: what comes before the draws counts for a tenth each."""

    def __init__(self, n_draws: int, report: Callable[[int, int], None] | None) -> None:
        self._each, self._report, self._n_done = max(n_draws // 10, 1), report, 0
        self._total = n_draws + _STAGES * self._each

    def done(self) -> None:
        """One more stage is done."""
        self._n_done += 1
        self.draws(0, 0)

    def draws(self, n_done: int, _: int) -> None:
        """So many draws are done."""
        if self._report is not None:
            self._report(self._n_done * self._each + n_done, self._total)


def _profile_of(client: Any, pieces: Pieces, used: Used, law: AbstractFamily) -> DataProfile:
    """Profile all rows, and raise where a column cannot be used."""
    asked = [(used, law)] * len(pieces.parts)
    parts = pieces.start(client, used.columns, DataProfile.at, asked)
    profile: DataProfile = joined(client, parts, DataProfile.join)
    profile.check(used, law)
    return profile


def _chunks(client: Any, pieces: Pieces, profile: DataProfile, recipe: Recipe) -> list[Any]:
    """Encode all pieces that have rows, on the workers, where they stay."""
    shared, starts = dask_module("dask").delayed(recipe, pure=False), np.cumsum((0, *profile.sizes))
    mine = [
        (shared, number, int(start), size) if size else None
        for number, (start, size) in enumerate(zip(starts, profile.sizes, strict=False))
    ]
    chunks = pieces.start(client, recipe.used.columns, encode_piece, mine)
    dask_module("distributed").wait(chunks)
    for chunk in chunks:
        if chunk.status != "finished":
            result_of(chunk)
    return chunks


def _whole(
    sample: Fit,
    groups: LearnedGroups,
    rules: Rules,
    solved: tuple[Solved, list[Solved]],
    n_rows: int,
) -> Fit:
    """The draws of all rows in the place of those of the sample."""
    cells, (unweighted, blocks) = sample.posterior.cells, solved
    layout = Layout(rules.model, cells, groups, cells, rules.model.family.binary, rules.bins)
    report = report_groups(scaled_up(cells, n_rows), groups.name, layout.grouping)
    n_draws = sum(block.distance.size for block in blocks)
    fields = solutions(unweighted, blocks, n_draws)
    for side, divergence in (("", TVD()), ("kld_", KLD())):
        away = _runs_away(Objective(layout, divergence), fields[f"{side}draws"])
        fields[f"{side}status"] = np.where(away, int(Status.SEPARATED), fields[f"{side}status"])
    posterior = replace(
        sample.posterior,
        **fields,
        divergence=TVD(),
        partition=groups,
        shift=np.zeros_like(fields["minimiser"]),
        groups=report,
        bins=rules.bins,
        prepared=None,
    )
    return replace(sample, posterior=posterior)


def _runs_away(objective: Objective, draws: Array) -> BoolArray:
    """Whether the optimum of a draw is at infinity, which can be seen on the sample, (B,)."""
    layout = objective.layout
    theta = layout.bound.from_user(draws.T)
    problem = objective.on(np.repeat(layout.cells.p[:, None], len(draws), axis=1))
    return objective.runs_away(problem, theta)


def _warn_of(made: LargeFit) -> None:
    for label, status in (("", made.status), ("ordinary (KLD) ", made.kld_status)):
        badly = unsure(status) + int((status == Status.SEPARATED).sum())
        if is_frequent(badly, status.size):
            warn(
                f"{badly} of {status.size} {label}draws ended without a certified minimum, or "
                "have it at infinity; `status` says which. They are kept.",
                ConvergenceWarning,
            )
