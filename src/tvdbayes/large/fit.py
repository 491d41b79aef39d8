"""A posterior from all rows of a Dask DataFrame, begun at that of a sample of them."""

from dataclasses import replace

import numpy as np

from tvdbayes._errors import ConvergenceWarning, SettingsError, warn
from tvdbayes._typing import Array, BoolArray
from tvdbayes.formula.survey import Survey
from tvdbayes.large.encode import Encoder
from tvdbayes.large.rows import AbstractRows, DaskRows
from tvdbayes.large.rules import groups_for, rules_of
from tvdbayes.large.solve import Progress, solve_closest, solve_trimmed
from tvdbayes.large.trim import TrimmedRows
from tvdbayes.models.model import Model
from tvdbayes.objective import Batch, Layout, Objective
from tvdbayes.objective.divergences import KLD, TVD
from tvdbayes.objective.partitions import KMeansGroups, report_groups
from tvdbayes.sampling.options import Options
from tvdbayes.sampling.plan import AUTO_RIDGE
from tvdbayes.sampling.posterior import Posterior, solutions
from tvdbayes.sampling.statements import is_frequent, unsure
from tvdbayes.solvers import Status
from tvdbayes.trimming.far import learn_far


def require_options(options: Options, model: Model) -> None:
    """Raise for what rows that stay with Dask are not fitted with."""
    several = options.refine is None and len(model.family.predictors) > 1
    refused = {
        f"refine=None for the family {model.family.name!r}, which has several predictors": several,
        f"divergence={options.divergence!r}": options.divergence != TVD(),
        f"refine={options.refine!r}": options.refine == "reweight",
        "network=": options.network is not None,
        "alpha=": options.alpha > 0,
        "device=": options.device is not None,
        "resume=": options.resume is not None,
        "clusters=": options.clusters is not None,
        "strata=": options.strata is not None,
        "sampling_weights=": options.sampling_weights is not None,
        f"partition={options.partition!r}": options.partition.name not in ("auto", "kmeans"),
    }
    for option, given in refused.items():
        if given:
            raise SettingsError(
                f"The columns in use have more distinct rows than max_cells, so all rows stay with "
                f"Dask, and there is no {option} for that. Leave it out, round continuous columns, "
                "or pass a sample of the rows."
            )


def posterior_of_all(
    found: Survey, sample: Posterior, options: Options, progress: Progress
) -> Posterior:
    """The draws of all rows in the place of those of the sample, whose cells stand for them."""
    assert found.rest is not None
    cells, model = sample.cells, sample.model
    kinds = getattr(options.partition, "kinds", KMeansGroups().kinds)
    n_params = model.complexity(cells)
    n_obs = cells.n_obs * found.rest.n_kept / len(found.cell_of_row)
    groups = groups_for(cells, n_obs, n_params, sample.seed, KMeansGroups(kinds))
    encoder = Encoder.of(found, groups)
    rules = rules_of(sample, encoder)
    return posterior_of(
        DaskRows.of(found.rest, encoder, rules), encoder, sample, options.n_draws, progress
    )


def posterior_of(
    rows: AbstractRows, encoder: Encoder, sample: Posterior, n_draws: int, progress: Progress
) -> Posterior:
    """The same from chunks of rows."""
    rules, cells, groups = rows.rules, sample.cells, encoder.groups
    layout = Layout(rules.model, cells, groups, rules.scale_on, False, rules.compared.bins)
    start, ordinary = sample.minimiser, sample.kld_minimiser
    kept = sample.kept_rows
    if kept is None:
        ridge = AUTO_RIDGE if sample.options.ridge == "auto" else sample.ridge
        unweighted, blocks = solve_closest(
            rows, start, ordinary, n_draws=n_draws, ridge=ridge, progress=progress
        )
    else:
        begin = start if kept.without_far is None else kept.without_far
        trimmed = TrimmedRows(rows, layout, kept, learn_far(cells), sample.ridge)
        unweighted, blocks, shares = solve_trimmed(
            trimmed, begin, ordinary, n_draws=n_draws, progress=progress
        )
        if shares is not None:
            numbered = encoder.numbered(layout.grouping.groups)
            kept = replace(kept, share=shares.of(Batch(rules.compared, layout, numbered.T)))
    fields = solutions(unweighted, blocks, n_draws)
    for side, divergence in (("", TVD()), ("kld_", KLD())):
        away = _runs_away(Objective(layout, divergence), fields[f"{side}draws"])
        fields[f"{side}status"] = np.where(away, int(Status.SEPARATED), fields[f"{side}status"])
    made = replace(
        sample,
        **fields,
        partition=groups,
        shift=np.zeros_like(fields["minimiser"]),
        groups=report_groups(cells, groups.name, layout.grouping),
        bins=rules.compared.bins,
        kept_rows=kept,
        prepared=None,
    )
    _warn_of(made)
    return made


def _runs_away(objective: Objective, draws: Array) -> BoolArray:
    """Whether the optimum of a draw is at infinity, which can be seen on the sample, (B,)."""
    layout = objective.layout
    theta = layout.bound.from_user(draws.T)
    problem = objective.on(np.repeat(layout.cells.p[:, None], len(draws), axis=1))
    return objective.runs_away(problem, theta)


def _warn_of(made: Posterior) -> None:
    for label, status in (("", made.status), ("likelihood (KLD) ", made.kld_status)):
        badly = unsure(status) + int((status == Status.SEPARATED).sum())
        if is_frequent(badly, status.size):
            warn(
                f"{badly} of {status.size} {label}draws ended without a certified minimum, or "
                "have it at infinity; `status` says which. They are kept.",
                ConvergenceWarning,
            )
