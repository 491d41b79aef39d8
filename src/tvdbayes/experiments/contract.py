"""The contract of an experiment: tasks that are measured one by one, and a report on all of them.

Conventions
-----------
A task is one data set or one split: it is run at once and its result is kept. What it measures is
named "method|criterion" and holds one number or one for each test row. A report is made of boxes:
all that was measured for one setting, method and criterion, (tasks, rows).
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from matplotlib.figure import Figure

from tvdbayes._typing import Array

AS_PUBLISHED, CORRECTED = "as-published", "corrected"

Measured = dict[str, Array]
"""From "method|criterion" to numbers (rows,); one number for a whole data set is (1,)."""

_RESAMPLES = 400
"""Samples of whole data sets that the error of a median is taken over."""


@dataclass(frozen=True)
class Task:
    """One data set or one split: its number seeds all that is random in it.

    A setting is a point on the horizontal axis, or a data set; `content` is the checksum of the
    file that the data come from, if any.
    """

    mode: str
    setting: str
    number: int
    n_draws: int
    content: str = ""


@dataclass(frozen=True, eq=False)
class Box:
    """All that one method scored in one setting by one criterion, values (tasks, rows).

    Rows of one data set depend on each other, so errors are taken over whole data sets.
    """

    setting: str
    method: str
    criterion: str
    values: Array

    @property
    def median(self) -> float:
        """The middle of the box, over all rows of all data sets."""
        return float(np.median(self.values))

    @property
    def mean(self) -> float:
        """The mean over all rows of all data sets."""
        return float(self.values.mean())

    def error(self, of_mean: bool = False) -> float:
        """Monte-Carlo error of the median, or of the mean: other data sets would change it so."""
        n_sets = len(self.values)
        if n_sets < 2:
            return float("nan")
        if of_mean:
            return float(self.values.mean(1).std(ddof=1) / np.sqrt(n_sets))
        rng = np.random.default_rng(0)
        again = rng.integers(n_sets, size=(_RESAMPLES, n_sets))
        return float(np.std([np.median(self.values[chosen]) for chosen in again], ddof=1))


@dataclass(frozen=True, eq=False)
class Report:
    """What came out: a line for each setting, method and criterion, pictures, and words.

    The words say what agrees with what was published and what does not, and why. Pictures and
    further pages have the names of their files.
    """

    table: list[dict[str, object]]
    figures: dict[str, Figure]
    text: str
    pages: dict[str, str] = field(default_factory=dict)


class AbstractExperiment(ABC):
    """An experiment that can be run by name, in parts."""

    name: ClassVar[str]
    modes: ClassVar[tuple[str, ...]] = (AS_PUBLISHED, CORRECTED)

    @abstractmethod
    def tasks(self, mode: str, quick: bool) -> list[Task]:
        """All that must be measured, a few of it if quick."""

    @abstractmethod
    def measure(self, task: Task) -> Measured:
        """Make or split the data, fit, and score. Depends on the task alone."""

    @abstractmethod
    def report(self, mode: str, tasks: Sequence[Task], measured: Sequence[Measured]) -> Report:
        """What all of it says."""


def named(method: str, scores: Measured) -> Measured:
    """The scores of a method, with criteria named as in the measurements."""
    return {f"{method}|{criterion}": values for criterion, values in scores.items()}


def by_key(boxes: Sequence[Box]) -> dict[tuple[str, str, str], Box]:
    """Boxes by setting, method and criterion."""
    return {(box.setting, box.method, box.criterion): box for box in boxes}


def ranking(boxes: Sequence[Box], setting: str, criterion: str, *, lower: bool = True) -> str:
    """Methods from best to worst, with what they scored on average; lower or higher is better."""
    found = {b.method: b.mean for b in boxes if (b.setting, b.criterion) == (setting, criterion)}
    order = sorted(found, key=lambda method: found[method] if lower else -found[method])
    return ", ".join(f"{method} {found[method]:.3f}" for method in order)


def boxes_of(tasks: Sequence[Task], measured: Sequence[Measured]) -> list[Box]:
    """Group measurements by setting, method and criterion, in order of appearance.

    A method that is measured on some of the tasks only has a box of these.
    """
    found: dict[tuple[str, str, str], list[Array]] = {}
    for task, result in zip(tasks, measured, strict=True):
        for key, values in result.items():
            method, _, criterion = key.partition("|")
            found.setdefault((task.setting, method, criterion), []).append(values)
    return [Box(*key, np.stack(values)) for key, values in found.items()]
