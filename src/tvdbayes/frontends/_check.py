"""What is good and what is doubtful about a fit, in plain words."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np

from tvdbayes.frontends._fit import Fit
from tvdbayes.partitions import ENOUGH_ROWS
from tvdbayes.posterior._html import html_table
from tvdbayes.posterior.summary import intervals
from tvdbayes.posterior.ties import flat_ranges
from tvdbayes.solvers import Status

__all__ = ["Check", "Finding", "check"]

Level = Literal["good", "note", "problem"]

_FLAT = 0.3
_ELSEWHERE = 6.0
_FEW_DRAWS = 200


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at."""

    level: Level
    about: str
    text: str


@dataclass(frozen=True)
class Check:
    """Findings about a fit; prints as a list."""

    findings: tuple[Finding, ...]

    @property
    def problems(self) -> tuple[Finding, ...]:
        """What should be seen to before the fit is used."""
        return tuple(f for f in self.findings if f.level == "problem")

    def __str__(self) -> str:
        width = max(len(f.about) for f in self.findings)
        return "\n".join(f"{f.level:<8} {f.about:<{width}}  {f.text}" for f in self.findings)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        lines = ([f.about, f.level, f.text] for f in self.findings)
        return html_table("Check", ["", "", ""], lines)


def check(fit: Fit, *, misfit: bool = True) -> Check:
    """Look at the search, the groups, ties, the draws, and what cannot be explained."""
    found = [
        *_search(fit),
        *_groups(fit),
        *_ties(fit),
        *_draws(fit),
        *_difference(fit),
        *_rounding(fit),
    ]
    if misfit and fit.posterior.n_draws > 1 and fit.posterior.prior is None:
        found.append(_misfit(fit))
    return Check(tuple(found))


def _by_coefficient(fit: Fit) -> bool:
    """Whether parameters can be looked at one by one; those of networks cannot."""
    return fit.posterior.model.predictor.averages


def _search(fit: Fit) -> Iterator[Finding]:
    well, badly = fit.posterior.model.predictor.fitted_by(
        solving=lambda: ("ended in certified minima", "ended without a certified minimum"),
        training=lambda _: ("were trained to the end", "were still improving, or broke"),
    )
    for about, status in (
        ("search", fit.status),
        ("ordinary search", fit.posterior.kld_status),
    ):
        n = len(status)
        gone = int((status == Status.SEPARATED).sum())
        unsure = int(np.isin(status, [Status.STALLED, Status.OUT_OF_STEPS]).sum())
        if gone:
            yield Finding(
                "problem",
                about,
                f"{gone} of {n} draws have their optimum at infinity, or far out: some covariate "
                "separates the outcomes. Look for a level with a single outcome, merge it, or pass "
                "a larger ridge=.",
            )
        if unsure:
            level: Level = "problem" if unsure > 0.01 * n else "note"
            yield Finding(level, about, f"{unsure} of {n} draws {badly}.")
        if not gone and not unsure:
            yield Finding("good", about, f"All {n} draws {well}.")


def _groups(fit: Fit) -> Iterator[Finding]:
    groups = fit.groups
    if not fit.posterior.divergence.on_groups:
        return
    if groups.median_size < ENOUGH_ROWS:
        yield Finding(
            "problem",
            "groups",
            f"The median row is compared with only {groups.median_size:g} rows, too few: slopes "
            f"come out too steep {groups.steepness}. Use "
            'partition="auto", or fewer covariates.',
        )
    else:
        yield Finding("good", "groups", f"Rows are compared by {groups}.")
    predictor, names = fit.posterior.model.predictor, fit.posterior.cells.names
    d = predictor.complexity(len(names), len(fit.param_names))
    if fit.posterior.partition.pools_rows and groups.n_groups < 2 * d:
        yield Finding(
            "problem",
            "groups",
            f"{groups.n_groups:g} groups for {d} parameters are few. Drop covariates.",
        )
    if fit.bins is not None:
        yield Finding("note", "bins", f"Counts are compared in bins: {fit.bins}.")


def _ties(fit: Fit) -> Iterator[Finding]:
    plain = fit.posterior.divergence.name == "tvd" and fit.posterior.refine is None
    if not (plain and _by_coefficient(fit)):
        return
    flat = flat_ranges(fit.posterior)
    loose = [name for name, width in zip(fit.param_names, flat, strict=True) if width >= _FLAT]
    if loose:
        yield Finding(
            "note",
            "ties",
            f"The distance does not change while {', '.join(loose)} moves by a third of a "
            "posterior deviation or more, as with far-off wrong rows. The draws spread over that "
            'stretch; refine="reweight" narrows it.',
        )
    else:
        yield Finding("good", "ties", "No coefficient can move far without the distance noticing.")


def _draws(fit: Fit) -> Iterator[Finding]:
    n = len(fit.draws)
    if n < _FEW_DRAWS:
        yield Finding(
            "problem" if n < 2 else "note",
            "draws",
            f"{n} draws are few for intervals; n_draws=1000 puts their ends within 5 % of a "
            "deviation.",
        )
        return
    yield Finding(
        "good",
        "draws",
        f"{n} independent draws: a mean is off by {1 / np.sqrt(n):.1%} of its deviation.",
    )
    if not _by_coefficient(fit):
        return
    middle = np.median(fit.draws, axis=0)
    spread = 1.4826 * np.median(np.abs(fit.draws - middle), axis=0)
    away = (np.abs(fit.draws - middle) > _ELSEWHERE * np.maximum(spread, 1e-12)).any(1).mean()
    if away > 0.01:
        yield Finding(
            "note",
            "draws",
            f"{away:.1%} of the draws lie in another basin, far from the others: the data allow "
            "two answers. Look at a histogram of the draws.",
        )


def _difference(fit: Fit) -> Iterator[Finding]:
    if len(fit.draws) < 2 or fit.posterior.divergence.name == "kld" or not _by_coefficient(fit):
        return
    low, high = intervals(fit.draws - fit.kld_draws)
    apart = [n for n, a, b in zip(fit.param_names, low, high, strict=True) if a > 0 or b < 0]
    if apart:
        yield Finding(
            "note",
            "ordinary fit",
            f"Robust and ordinary answers differ in {', '.join(apart)}: some rows, or the model's "
            "form, pull the ordinary one. See rows() and the columns diff of summary().",
        )
    else:
        yield Finding("good", "ordinary fit", "Robust and ordinary answers agree.")


def _rounding(fit: Fit) -> Iterator[Finding]:
    if fit.rounded is not None:
        yield Finding("note" if fit.rounded.matters else "good", "rounding", str(fit.rounded))


def _misfit(fit: Fit) -> Finding:
    share = fit.misfit()
    level: Level = "good" if share.lower == 0 else "note"
    return Finding(level, "misfit", " ".join(str(share).split("\n")[:2]))
