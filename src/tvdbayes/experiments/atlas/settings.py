"""Settings of the contamination atlas: a law, covariates, and rows that follow neither.

Conventions
-----------
Data sets of one law, design and number of rows are the same in every setting but for the wrong
rows, so that what is measured can be compared in pairs. Rows are alike, so the wrong ones are the
first: exactly the share, and at 15 % all that are wrong at 5 %.
"""

from dataclasses import dataclass, replace
from zlib import crc32

import numpy as np

from tvdbayes._typing import Array
from tvdbayes.data.cells import Cells
from tvdbayes.models.families import AbstractFamily, Bernoulli, Binomial, Poisson

CLEAN = "clean"
DISCRETE, CONTINUOUS = "discrete", "continuous"


@dataclass(frozen=True)
class Law:
    """The uncontaminated process: a family with logarithmic or logistic link, and coefficients.

    The truth is that of the intercept and two covariates, the first slope positive; `overlap` is
    added to the predictor of wrong rows that look like good ones; R calls the family `glm`.
    """

    family: AbstractFamily
    truth: tuple[float, ...]
    trials: int
    overlap: float
    glm: str

    def sample(self, rng: np.random.Generator, x: Array, added: float = 0.0) -> Array:
        """One outcome for each row of x."""
        trials = np.full(len(x), float(self.trials))
        return self.family.sample(rng, (x @ np.array(self.truth) + added)[None], trials)


LAWS = {
    "Poisson": Law(Poisson(), (1.0, 0.5, -0.3), 1, float(np.log(2)), "poisson"),
    "Bernoulli": Law(Bernoulli(), (0.5, 1.0, -1.0), 1, 1.5, "binomial"),
    "binomial": Law(Binomial(), (-0.3, 0.8, -0.6), 8, 1.5, "binomial"),
}


@dataclass(frozen=True, eq=False)
class Rows:
    """Covariates x (n, 3) with an intercept, outcomes and trials (n,)."""

    x: Array
    y: Array
    trials: Array

    @property
    def cells(self) -> Cells:
        """The same as a table."""
        return Cells.from_rows(self.x, self.y, trials=self.trials)


CONTAMINATIONS = ("far", "shift", "overlap", "zeros", "flips", "leverage")
"""20 or 5 added; a doubled rate, or log odds raised by 1.5; no counts; failures for successes; and
no counts at x1 near 4, where many are expected."""


def _contaminated(kind: str, law: Law, rows: Rows, rng: np.random.Generator) -> Rows:
    """All rows as they would be if they were wrong."""
    if kind == "leverage":
        x = rows.x.copy()
        x[:, 1] = rng.normal(4, 0.3, len(x))
        return replace(rows, x=x, y=np.zeros_like(rows.y))
    outcomes = {
        "far": rows.y + 20,
        "shift": rows.y + 5,
        "overlap": law.sample(rng, rows.x, law.overlap),
        "zeros": np.zeros_like(rows.y),
        "flips": rows.trials - rows.y,
    }
    return replace(rows, y=outcomes[kind])


@dataclass(frozen=True)
class Setting:
    """One line of the atlas: a share of wrong rows, of a kind in `CONTAMINATIONS` or `CLEAN`."""

    law: str
    design: str
    contamination: str
    share: float
    n_obs: int

    @property
    def name(self) -> str:
        """All of it in words; no two settings have the same."""
        wrong = CLEAN if self.contamination == CLEAN else f"{self.share:.0%} {self.contamination}"
        return f"{self.law}, {self.design}, {wrong}, n={self.n_obs}"


def clean_rows(setting: Setting, number: int, n_rows: int, *, stream: int = 0) -> Rows:
    """Rows of the uncontaminated process, others for each number and stream."""
    law, rng = LAWS[setting.law], _generator(setting, number, stream)
    more: Array = np.column_stack([rng.integers(-1, 2, n_rows), rng.integers(0, 2, n_rows)])
    if setting.design == CONTINUOUS:
        more = rng.normal(size=(n_rows, 2))
    x: Array = np.column_stack([np.ones(n_rows), more])
    return Rows(x, law.sample(rng, x), np.full(n_rows, float(law.trials)))


def wrong_rows(setting: Setting, number: int) -> Rows:
    """The data set of this number, with its share of wrong rows."""
    rows = clean_rows(setting, number, setting.n_obs)
    if setting.contamination == CLEAN:
        return rows
    wrong = _contaminated(
        setting.contamination, LAWS[setting.law], rows, _generator(setting, number, 1)
    )
    n_wrong = round(setting.share * setting.n_obs)
    x, y = rows.x.copy(), rows.y.copy()
    x[:n_wrong], y[:n_wrong] = wrong.x[:n_wrong], wrong.y[:n_wrong]
    return replace(rows, x=x, y=y)


def _generator(setting: Setting, number: int, stream: int) -> np.random.Generator:
    kind = crc32(f"{setting.law} {setting.design}".encode())
    return np.random.default_rng([kind, setting.n_obs, number, stream])
