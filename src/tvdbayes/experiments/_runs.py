"""Run tasks on several processes, and keep what each of them found.

The name of a kept result is a checksum of all it depends on: the task (with the checksum of its
data), the experiment, the code, and the versions of NumPy and SciPy. So an interrupted run goes on
where it was, what is known is not computed again, and nothing is taken for what it is not.
"""

import os
import sys
from collections.abc import Callable, Sequence
from functools import cache
from hashlib import sha256
from importlib.resources import files
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
import scipy

from tvdbayes._errors import Interrupted, MemoryBudgetError, StorageError
from tvdbayes.execution import single_threaded
from tvdbayes.experiments._base import AbstractExperiment, Measured, Task

__all__ = ["run_tasks"]

_AROUND = ("bounds", "cli", "frontends", "plan", "plots", "refits", "report", "storage")
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
    work = (delayed(_measure)(experiment, task, path) for task, path in missing)
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
    return [_measured(path, known) for path, known in zip(paths, found, strict=True)]


def _measure(experiment: AbstractExperiment, task: Task, path: Path) -> None:
    with single_threaded():
        found = experiment.measure(task)
    # Whole or not at all, also if two runs write the same part.
    part = path.with_name(f"{path.stem}-{os.getpid()}.part")
    try:
        with part.open("wb") as file:
            arrays: dict[str, Any] = {key: np.asarray(value, float) for key, value in found.items()}
            np.savez(file, **arrays)
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


def _measured(path: Path, known: Measured | None) -> Measured:
    found = _load(path) if known is None else known
    if found is None:
        raise StorageError(f"{str(path)!r} cannot be read back. Is the disk full?")
    return found


def _load(path: Path) -> Measured | None:
    """What a part holds; None if it is not there or damaged, so that it is run again."""
    try:
        # Opened here, as NumPy leaves a file open that turns out to be none of its own.
        with path.open("rb") as file, np.load(file, allow_pickle=False) as stored:
            return {key: stored[key] for key in stored.files}
    except (OSError, ValueError, EOFError, BadZipFile):
        return None


def _key(experiment: AbstractExperiment, task: Task) -> str:
    text = f"{experiment.name}|{task!r}|{_code(type(experiment).__module__)}"
    return sha256(text.encode()).hexdigest()[:32]


@cache
def _code(module: str) -> str:
    """Checksum of the code that a measurement goes through: other code may give other results."""
    root = Path(str(files("tvdbayes")))
    own = Path(str(sys.modules[module].__file__))
    beside = root / "experiments"
    shared = {beside / "data.py", *beside.glob("_*.py")} - {*beside.glob("_*report.py")}
    core = (
        path
        for path in root.rglob("*.py")
        if path.relative_to(root).parts[0] not in (*_AROUND, "experiments")
    )
    digest = sha256(f"{np.__version__} {scipy.__version__}".encode())
    for path in sorted({*core, *shared, own}):
        digest.update(path.read_bytes())
    return digest.hexdigest()
