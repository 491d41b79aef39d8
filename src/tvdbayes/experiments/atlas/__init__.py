"""The contamination atlas: which method to use for which wrong rows. Not in the paper.

Every method fits the same data sets, some of whose rows are wrong in one of several ways, and is
judged by how well it finds the law of the good rows.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import ClassVar

import numpy as np

from tvdbayes._typing import Array, IntArray
from tvdbayes.experiments.atlas.glmrob import QuasiFit, glmrob, robustbase_version
from tvdbayes.experiments.atlas.report import atlas_report
from tvdbayes.experiments.atlas.settings import (
    CLEAN,
    CONTINUOUS,
    DISCRETE,
    LAWS,
    Rows,
    Setting,
    clean_rows,
    wrong_rows,
)
from tvdbayes.experiments.bayes import full_bayes
from tvdbayes.experiments.contract import CORRECTED, AbstractExperiment, Measured, Report, Task
from tvdbayes.experiments.methods import robust_fits
from tvdbayes.models.model import Model
from tvdbayes.results.scores import score
from tvdbayes.sampling.statements import is_frequent

__all__ = ["SETTINGS", "ContaminationAtlas"]

_SMALL, _LARGE = 300, 2000
_FEW, _MANY = 0.05, 0.15
_TEST_ROWS, _TEST = 1000, 2
_BATCHES = 3
_BATCH = {_SMALL: 10, _LARGE: 5}
"""Data sets of a task: R starts once for all of them."""

_TAILS = (0.05, 0.95)
_NORMAL_TAIL = 1.6448536269514722
"""Ends of 90 % intervals, of draws and of the normal law."""
_WRONG = {
    "Poisson": ("far", "shift", "overlap", "zeros"),
    "Bernoulli": ("zeros", "flips"),
    "binomial": ("overlap", "zeros", "flips"),
}
_MAIN = ("far", "overlap", "flips", "leverage")


def _settings() -> Iterator[Setting]:
    for n_obs, (law, kinds), design in product(_BATCH, _WRONG.items(), (DISCRETE, CONTINUOUS)):
        yield Setting(law, design, CLEAN, 0.0, n_obs)
        all_kinds = kinds if design == DISCRETE else (*kinds, "leverage")
        for kind, share in product(all_kinds, (_FEW, _MANY)):
            setting = Setting(law, design, kind, share, n_obs)
            if _affordable(setting):
                yield setting


def _slow(setting: Setting) -> bool:
    """Whether fits take seconds, not tenths: counts with continuous covariates."""
    return setting.design == CONTINUOUS and setting.law != "Bernoulli"


def _affordable(setting: Setting) -> bool:
    """Whether to measure this one: slow fits would take ten times as long as all the others."""
    worth = setting.n_obs == _SMALL or setting.contamination in _MAIN
    return not _slow(setting) or (setting.share == _MANY and worth)


SETTINGS = {setting.name: setting for setting in _settings()}


@dataclass(frozen=True)
class ContaminationAtlas(AbstractExperiment):
    """TVD and its rivals on counts, answers and proportions with wrong rows of many kinds."""

    name: ClassVar[str] = "contamination-atlas"
    modes: ClassVar[tuple[str, ...]] = (CORRECTED,)

    def tasks(self, mode: str, quick: bool) -> list[Task]:
        """30 data sets of 300 rows, or 15 of 2,000, for each setting; quick: 10 of a few.

        The version of robustbase is part of a task, empty if there is none: what was measured
        without glmrob is not taken for what is measured with it.
        """
        chosen = [setting for setting in SETTINGS.values() if not quick or _telling(setting)]
        version = robustbase_version()
        # Where a draw is dear there are fewer: estimates hardly depend on them, and intervals allow
        # for it.
        return [
            Task(mode, setting.name, batch, 100 if _slow(setting) else 200, version)
            for setting in chosen
            for batch in range(1 if quick else _BATCHES)
        ]

    def measure(self, task: Task) -> Measured:
        setting = SETTINGS[task.setting]
        size = _BATCH[setting.n_obs]
        numbers = range(task.number * size, (task.number + 1) * size)
        sets = [wrong_rows(setting, number) for number in numbers]
        robust: dict[str, list[QuasiFit]] = {}
        if task.content:
            given = [(rows.x, rows.y, rows.trials) for rows in sets]
            law = LAWS[setting.law].glm
            robust["glmrob"] = glmrob(given, law)
            if setting.design == CONTINUOUS:
                robust["glmrob (x weights)"] = glmrob(given, law, weigh_x=True)
        found = [
            _measure(
                setting, number, rows, task.n_draws, {m: fits[i] for m, fits in robust.items()}
            )
            for i, (number, rows) in enumerate(zip(numbers, sets, strict=True))
        ]
        return {key: np.concatenate([one[key] for one in found]) for key in found[0]}

    def report(self, mode: str, tasks: Sequence[Task], measured: Sequence[Measured]) -> Report:
        return atlas_report(SETTINGS, tasks, measured)


def _telling(setting: Setting) -> bool:
    """Whether to show it in a quick run: small data sets, no or many wrong rows, few slow fits."""
    kinds = (CLEAN, "leverage") if _slow(setting) else (CLEAN, *_WRONG[setting.law], "leverage")
    return (
        setting.n_obs == _SMALL
        and setting.share != _FEW
        and setting.contamination in kinds
        and (setting.law, setting.design) != ("binomial", CONTINUOUS)
    )


@dataclass(frozen=True, eq=False)
class _Answer:
    """What a method says: an estimate (d,), a 90 % interval, and draws (B, d) to predict from."""

    estimate: Array
    low: Array
    high: Array
    draws: Array
    failed: bool

    @classmethod
    def of(cls, draws: Array, estimate: Array | None = None, failed: bool = False) -> "_Answer":
        """From draws; the estimate is their mean unless given."""
        # These quantiles hold the next draw with probability .9, however few draws there are.
        low, high = np.quantile(draws, _TAILS, axis=0, method="weibull")
        return cls(draws.mean(0) if estimate is None else estimate, low, high, draws, failed)

    @classmethod
    def of_quasi(cls, fit: QuasiFit) -> "_Answer":
        """By Wald; predictions are those at the estimate."""
        away = _NORMAL_TAIL * fit.error
        estimate = fit.estimate
        return cls(estimate, estimate - away, estimate + away, estimate[None], fit.failed)


def _unsure(status: IntArray) -> bool:
    return is_frequent(int((status != 0).sum()), len(status))


def _measure(
    setting: Setting, number: int, rows: Rows, n_draws: int, quasi: dict[str, QuasiFit]
) -> Measured:
    """Errors and coverage of coefficients (d,), and scores beyond those of the true law (1,)."""
    model, cells = Model(LAWS[setting.law].family), rows.cells
    fits = robust_fits(model, cells, number, n_draws)
    plain, bayes = fits["TVD"], full_bayes(model, cells, n_draws, number).draws
    answers = {
        **{
            method: _Answer.of(fit.draws, fit.estimate, _unsure(fit.status))
            for method, fit in fits.items()
        },
        "KLD": _Answer.of(plain.kld_draws, failed=_unsure(plain.kld_status)),
        "Bayes": _Answer.of(bayes),
        **{method: _Answer.of_quasi(fit) for method, fit in quasi.items()},
    }
    truth = np.array(LAWS[setting.law].truth)
    test = clean_rows(setting, number, _TEST_ROWS, stream=_TEST).cells
    ideal = score(replace(plain, draws=truth[None]), test)
    found: Measured = {}
    for method, answer in answers.items():
        scores = score(replace(plain, draws=answer.draws), test)
        found |= {
            f"{method}|error": answer.estimate - truth,
            f"{method}|covered": ((answer.low <= truth) & (truth <= answer.high)).astype(float),
            f"{method}|log": np.array([scores.log - ideal.log]),
            f"{method}|rps": np.array([scores.rps - ideal.rps]),
            f"{method}|failed": np.array([float(answer.failed)]),
        }
    return found
