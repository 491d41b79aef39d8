"""Run tasks on several processes, and keep what each of them found.

The name of a kept result is a checksum of all it depends on: the task (with the checksum of its
data), the experiment, and the code. So an interrupted run goes on where it was, what is known is
not computed again, and nothing is taken for what it is not.
"""

import os
import sys
from collections.abc import Callable, Sequence
from functools import cache
from hashlib import sha256
from importlib.resources import files
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

import numpy as np

from tvdbayes._errors import Interrupted
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

    kept.mkdir(parents=True, exist_ok=True)
    paths = [kept / f"{_key(experiment, task)}.npz" for task in tasks]
    missing = [(task, path) for task, path in zip(tasks, paths, strict=True) if not path.exists()]
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
    return [_load(path) for path in paths]


def _measure(experiment: AbstractExperiment, task: Task, path: Path) -> None:
    with single_threaded():
        found = experiment.measure(task)
    # Whole or not at all, also if two runs write the same part.
    with NamedTemporaryFile(dir=path.parent, suffix=".part", delete=False) as file:
        arrays: dict[str, Any] = {key: np.asarray(value, float) for key, value in found.items()}
        np.savez(file, **arrays)
    os.replace(file.name, path)


def _load(path: Path) -> Measured:
    with np.load(path, allow_pickle=False) as stored:
        return {key: stored[key] for key in stored.files}


def _key(experiment: AbstractExperiment, task: Task) -> str:
    text = f"{experiment.name}|{task!r}|{_code(type(experiment).__module__)}"
    return sha256(text.encode()).hexdigest()[:32]


@cache
def _code(module: str) -> str:
    """Checksum of the code that a measurement goes through: other code may give other results."""
    root = Path(str(files("tvdbayes")))
    own = Path(str(sys.modules[module].__file__))
    shared = (root / "experiments").glob("_*.py")
    core = (
        path
        for path in root.rglob("*.py")
        if path.relative_to(root).parts[0] not in (*_AROUND, "experiments")
    )
    digest = sha256()
    for path in sorted({*core, *shared, own}):
        digest.update(path.read_bytes())
    return digest.hexdigest()
