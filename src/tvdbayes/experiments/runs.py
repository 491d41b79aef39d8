"""Run tasks on several processes, and keep what each of them found.

The name of a kept result is a checksum of all it depends on: the task (with the checksum of its
data), the experiment, the code, and the versions of NumPy and SciPy. So an interrupted run goes on
where it was, what is known is not computed again, and nothing is taken for what it is not. Parts
are sealed as saved fits are: one that was altered is run again.
"""

import os
import sys
import warnings
from collections.abc import Callable, Sequence
from functools import cache
from hashlib import sha256
from importlib.resources import files
from pathlib import Path

import numpy as np
import scipy

from tvdbayes._errors import Interrupted, MemoryBudgetError, StorageError, TVDBayesWarning
from tvdbayes.experiments.contract import AbstractExperiment, Measured, Task
from tvdbayes.sampling.execution import beside, single_threaded
from tvdbayes.storage import read_archive, write_archive

_FORMAT, _VERSION = "tvdbayes part", 1
"""What kept parts of a run are marked with; parts of another version are not read."""

_AROUND = (
    "bounds",
    "cli",
    "estimators",
    "fitting",
    "formula",
    "large",
    "plan",
    "plots",
    "report",
    "storage",
)
"""Rooms that no measurement goes through."""


def run_tasks(
    experiment: AbstractExperiment,
    tasks: Sequence[Task],
    *,
    kept: Path,
    n_jobs: int = 1,
    progress: Callable[[int, int], None] | None = None,
) -> list[Measured]:
    """What every task measures, in their order; known results come from the folder `kept`.

    Raises
    ------
    Interrupted
        On Ctrl-C; what was done is in the folder.
    """
    from joblib import Parallel, delayed
    from joblib.externals.loky.process_executor import TerminatedWorkerError

    # Processes that are there already may be in another folder.
    kept = kept.resolve()
    kept.mkdir(parents=True, exist_ok=True)
    paths = [kept / f"{_key(experiment, task)}.npz" for task in tasks]
    found = [_load(path) for path in paths]
    missing = [
        (task, path) for task, path, known in zip(tasks, paths, found, strict=True) if known is None
    ]
    n_done = len(tasks) - len(missing)
    if progress is not None:
        progress(n_done, len(tasks))
    work = (
        delayed(beside)(os.getpid(), _measure, experiment, task, path) for task, path in missing
    )
    try:
        for _ in Parallel(n_jobs, return_as="generator_unordered", batch_size=1)(work):
            n_done += 1
            if progress is not None:
                progress(n_done, len(tasks))
    except KeyboardInterrupt as stop:
        raise Interrupted(
            f"Stopped after {n_done} of {len(tasks)} parts",
            None,
            kept="they are kept, and the same command goes on from there",
        ) from stop
    except TerminatedWorkerError as error:
        raise MemoryBudgetError(
            f"A process was killed, most likely for its memory, after {n_done} of {len(tasks)} "
            "parts, which are kept. Go on with fewer processes: n_jobs=1."
        ) from error
    for place, path in enumerate(paths):
        found[place] = found[place] or _load(path)
        if found[place] is None:
            raise StorageError(f"{str(path)!r} cannot be read back. Is the disk full?")
    return [known for known in found if known is not None]


def _measure(experiment: AbstractExperiment, task: Task, path: Path) -> None:
    with single_threaded(), warnings.catch_warnings():
        # Warnings about single fits are part of the measurement.
        warnings.simplefilter("ignore", TVDBayesWarning)
        found = experiment.measure(task)
    # Whole or not at all, also if two runs write the same part.
    arrays = {f"{key}.npy": np.asarray(value, float) for key, value in found.items()}
    write_archive(path, {"format": _FORMAT, "version": _VERSION, "part": path.stem}, arrays)


def _load(path: Path) -> Measured | None:
    """What a part holds; None if it is not there or damaged, so that it is run again."""
    try:
        header, arrays = read_archive(path, _FORMAT, _VERSION)
    except StorageError:
        return None
    if header.get("part") != path.stem:
        # Another part under this name.
        return None
    return {key.removesuffix(".npy"): value for key, value in arrays.items()}


def _key(experiment: AbstractExperiment, task: Task) -> str:
    text = f"{experiment.name}|{task!r}|{_code(type(experiment).__module__)}"
    return sha256(text.encode()).hexdigest()[:32]


@cache
def _code(module: str) -> str:
    """Checksum of the code that a measurement goes through: other code may give other results.

    Reports are not part of it, nor are the folders of other experiments.
    """
    root = Path(str(files("tvdbayes")))
    own = Path(str(sys.modules[module].__file__))
    known = {path for path in root.rglob("*.py") if path.relative_to(root).parts[0] not in _AROUND}
    known -= {*(root / "experiments").glob("*/*.py"), *(root / "experiments").glob("*report.py")}
    if own.name == "__init__.py":
        known |= {*own.parent.glob("*.py")} - {*own.parent.glob("*report.py")}
    digest = sha256(f"{np.__version__} {scipy.__version__}".encode())
    for path in sorted({*known, own}):
        digest.update(path.read_bytes())
    return digest.hexdigest()
