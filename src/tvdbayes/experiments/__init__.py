"""The paper's experiments by name, as published and corrected, and an atlas beyond it."""

import json
import math
from collections.abc import Callable
from pathlib import Path

import pandas as pd

from tvdbayes._errors import SettingsError
from tvdbayes.experiments.atlas import ContaminationAtlas
from tvdbayes.experiments.contract import AS_PUBLISHED, CORRECTED, AbstractExperiment, Report
from tvdbayes.experiments.figure_1 import FigureOne
from tvdbayes.experiments.network import NetworkExperiment
from tvdbayes.experiments.poisson import PoissonExperiment
from tvdbayes.experiments.probit import ProbitExperiment
from tvdbayes.experiments.runs import run_tasks
from tvdbayes.experiments.zero_inflation import ZeroInflation

__all__ = [
    "AS_PUBLISHED",
    "CORRECTED",
    "Report",
    "experiment_named",
    "reproduce",
    "write_report",
]


def experiment_named(
    name: str, data: Path | None = None, device: str | None = None
) -> AbstractExperiment:
    """The experiment of this name; `data` is the folder of the paper's data, and networks are
    trained on the `device`, such as "gpu".
    """
    known: tuple[AbstractExperiment, ...] = (
        FigureOne(),
        PoissonExperiment(),
        ZeroInflation(),
        ProbitExperiment(data),
        NetworkExperiment(data, device),
        ContaminationAtlas(),
    )
    found = {experiment.name: experiment for experiment in known}
    if name not in found:
        raise SettingsError(f"There is no experiment {name!r}. Choose from {', '.join(found)}.")
    if device is not None and name != NetworkExperiment.name:
        raise SettingsError(
            f"The experiment {name!r} trains no networks, so that device={device!r} has no meaning "
            "for it. Leave it out."
        )
    return found[name]


def reproduce(
    experiment: AbstractExperiment,
    mode: str,
    *,
    kept: Path,
    quick: bool = False,
    n_jobs: int = 1,
    progress: Callable[[int, int], None] | None = None,
) -> Report:
    """Run an experiment in one of its modes on some processes (-1: all cores), and report on it.

    Parts are kept in a folder and not run again; `progress` is called with the parts done and the
    parts in all. A quick run has a few data sets and draws, to see how it looks.
    """
    if mode not in experiment.modes:
        raise SettingsError(
            f"The experiment {experiment.name!r} has no mode {mode!r}. Choose from "
            f"{', '.join(experiment.modes)}."
        )
    tasks = experiment.tasks(mode, quick)
    measured = run_tasks(experiment, tasks, kept=kept, n_jobs=n_jobs, progress=progress)
    return experiment.report(mode, tasks, measured)


def write_report(report: Report, folder: Path, about: dict[str, object]) -> list[str]:
    """Write the table, the pictures, the numbers as JSON and the words; return the files' names."""
    pd.DataFrame(report.table).to_csv(folder / "table.csv", index=False)
    # JSON has no NaN or infinity: they become null.
    table = [
        {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in line.items()}
        for line in report.table
    ]
    numbers = json.dumps({**about, "results": table}, indent=1, allow_nan=False)
    (folder / "results.json").write_text(numbers + "\n")
    for name, text in {"agreement.txt": report.text, **report.pages}.items():
        (folder / name).write_text(text + "\n")
    for name, figure in report.figures.items():
        figure.savefig(folder / f"{name}.png", dpi=150)
    return sorted(path.name for path in folder.iterdir())
