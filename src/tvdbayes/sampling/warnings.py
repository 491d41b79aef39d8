"""What a finished fit should say aloud: once each, with counts, and what it means."""

from tvdbayes._errors import (
    BoundaryWarning,
    ConvergenceWarning,
    SeparationWarning,
    SmallGroupsWarning,
    TooFewRowsWarning,
    warn,
)
from tvdbayes.objective.partitions import ENOUGH_ROWS
from tvdbayes.sampling.plan import AUTO_RIDGE
from tvdbayes.sampling.posterior import Posterior
from tvdbayes.sampling.rules import few_groups, is_frequent, small_groups, unsure
from tvdbayes.solvers import Status

_AT_THE_EDGE = 12.0
"""Log odds or log scales beyond this are as good as infinite."""


def warn_of(posterior: Posterior, rescued: bool, alone: int) -> None:
    """Say once, with counts, what the statuses say draw by draw.

    ``alone`` is the status of the fit to the unweighted data, which matters where it is all.
    """
    n = posterior.status.size
    broken = alone in (Status.STALLED, Status.OUT_OF_STEPS)
    ends = posterior.model.predictor.ends
    if n == 0 and broken and ends.alone:
        warn(ends.alone, ConvergenceWarning)
    _warn_of_groups(posterior)
    if rescued:
        warn(
            "Some coefficients have their optimum at infinity (the covariates separate the "
            f"outcomes, or a rate is 0). A ridge of {AUTO_RIDGE} on the linear predictor keeps "
            "them finite; intercepts are not penalised. Pass ridge= to choose another.",
            SeparationWarning,
        )
    _warn_of_edges(posterior)
    for label, status in (("", posterior.status), ("ordinary (KLD) ", posterior.kld_status)):
        gone = int((status == Status.SEPARATED).sum())
        if gone:
            held = posterior.ridge > 0 and not label
            warn(
                f"{gone} of {n} {label}draws "
                + (
                    f"are kept finite by the ridge of {posterior.ridge:g} alone: without it their "
                    "minimum would lie far out or at infinity, so their slopes depend on it. "
                    if held
                    else f"have their optimum at infinity: {Status.SEPARATED.sentence} "
                )
                + "Look for a level or a rate with a single outcome, or covariates that separate "
                "the outcomes.",
                SeparationWarning,
            )
        badly = unsure(status)
        if is_frequent(badly, n):
            warn(
                f"{badly} of {n} {label}draws {ends.badly}{ends.advice}; `status` says which. "
                "They are kept.",
                ConvergenceWarning,
            )


def _warn_of_edges(posterior: Posterior) -> None:
    """Say which further predictors (log scales, log odds) the data have driven to an end."""
    family, names = posterior.model.family, posterior.param_names
    named = family.predictors[family.n_main :] if not family.levels else family.predictors
    for name, value in zip(names, posterior.minimiser, strict=True):
        further = name.endswith(":Intercept") and name.rsplit(":", 1)[0] in named
        if further and abs(value) > _AT_THE_EDGE:
            warn(
                f"{name!r} ended at {value:.3g}: the data drive it to {'-' if value < 0 else '+'}"
                "infinity (no inflation, no overdispersion, an unseen level). A simpler family "
                "fits as well; its interval means nothing.",
                BoundaryWarning,
            )


def _warn_of_groups(posterior: Posterior) -> None:
    """Say what too small or too few groups do to the answer."""
    groups, d = posterior.groups, posterior.model.complexity(posterior.cells)
    if small_groups(posterior):
        warn(
            f"Half of the rows are compared in groups of fewer than {ENOUGH_ROWS} rows (median "
            f"group: {groups.median_size:g}). With so few, slopes are too steep and rates too low "
            f"even on clean data, here {groups.steepness}. Use the "
            'partition "auto", or fewer or coarser covariates.',
            SmallGroupsWarning,
        )
    if few_groups(posterior):
        warn(
            f"{posterior.cells.n_obs:g} rows make {groups.n_groups:g} groups for {d} parameters; "
            "with fewer than 2 groups per parameter the robust fit has little to go by. Drop "
            'covariates, raise the ridge, use divergence="density_power", or, if rows count '
            "successes of several trials, expand them to single 0/1 trials.",
            TooFewRowsWarning,
        )
