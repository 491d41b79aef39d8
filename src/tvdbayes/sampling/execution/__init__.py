"""Run blocks of draws: here, on several processes, or on a cluster; and show how far they are.

Every block is computed with one BLAS thread and in the same shapes wherever it runs, so the results
are the same bit for bit. A block whose worker dies is done again, never dropped.
"""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread
from time import monotonic

from tvdbayes.sampling.execution._clusters import CLUSTERS, AbstractCluster, Dask, OnCluster, Ray
from tvdbayes.sampling.execution._executors import (
    AbstractExecutor,
    Joblib,
    Serial,
    Threads,
    single_threaded,
)
from tvdbayes.sampling.execution._parents import beside

__all__ = [
    "AbstractCluster",
    "AbstractExecutor",
    "Dask",
    "Joblib",
    "OnCluster",
    "Ray",
    "Report",
    "Serial",
    "Threads",
    "beside",
    "executor_for",
    "progress_bar",
    "single_threaded",
]

Report = Callable[[int, int], None]

_PATIENCE = 1.0
"""Seconds before anything is shown, and between two looks at a bar in a notebook."""


def executor_for(n_jobs: int | None, n_affordable: int, threads: bool = False) -> AbstractExecutor:
    """The executor for this many jobs.

    Parameters
    ----------
    n_jobs : int or None
        1 is this process, always. Above that, and -1 for all there are, the back end is that of
        joblib's context. None is what the context says: its own number of jobs, else all of a
        cluster that it names, else 1.
    n_affordable : int
        Blocks that the memory of one machine can hold. Workers of a cluster have their own.
    threads : bool
        Whether the work leaves room for other threads of this process, which then do what
        processes of joblib's own would do.
    """
    # Without joblib there is no context, and importing it takes a tenth of a second.
    if n_jobs == 1 or (n_jobs is None and "joblib" not in sys.modules):
        return Serial()
    from joblib import cpu_count
    from joblib.parallel import get_active_backend

    backend, n_in_context = get_active_backend()
    module = type(backend).__module__
    n_jobs = n_in_context if n_jobs is None else n_jobs
    if module in CLUSTERS:
        cluster = CLUSTERS[module](backend)
        whole = n_jobs is None or n_jobs < 0
        return Serial() if cluster is None else OnCluster(cluster, None if whole else n_jobs)
    if n_jobs is not None and n_jobs < 0:
        n_jobs += 1 + cpu_count()
    n_jobs = min(n_jobs or 1, n_affordable)
    if n_jobs <= 1:
        return Serial()
    own = type(backend).__name__ == "LokyBackend"
    return Threads(n_jobs) if threads and own else Joblib(n_jobs)


@contextmanager
def progress_bar(wanted: bool | None, label: str) -> Iterator[Report | None]:
    """A bar on a terminal or in a notebook, for work that takes more than a second.

    It is moved by a callback (done, total); None asks for a bar only if someone is looking.

    ``TVDBAYES_PROGRESS=0`` in the environment says that nobody is, as where notebooks are run in a
    batch.
    """
    notebook = "ipykernel" in sys.modules
    terminal = sys.stderr is not None and sys.stderr.isatty()
    watched = os.environ.get("TVDBAYES_PROGRESS") != "0" and (notebook or terminal)
    # Where standard error is closed there is nowhere to show anything.
    if sys.stderr is None or wanted is False or (wanted is None and not watched):
        yield None
        return
    bar = _line if notebook else _bar
    with bar(label, bool(wanted)) as report:
        yield report


@contextmanager
def _bar(label: str, at_once: bool) -> Iterator[Report]:
    """On a terminal; it moves to and fro until the first draws are there."""
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True, disable=False) as bar:
        task = bar.add_task(label, total=None, visible=at_once)

        def update(done: int, total: int) -> None:
            bar.update(task, completed=done, total=total)

        with _each_second(lambda: bar.update(task, visible=True)):
            yield update


@contextmanager
def _line(label: str, at_once: bool) -> Iterator[Report]:
    """In a notebook: a line of text that is written over, since widgets may not be installed.

    Until there is something to report it counts the seconds.
    """
    share, shown = 0.0, ""
    visible, start = at_once, monotonic()

    def show() -> None:
        nonlocal shown, visible
        far = f"{share:.0%}" if share else f"{monotonic() - start:.0f} s"
        # No shorter than what it is written over.
        visible, shown = True, f"{label}: {far}".ljust(len(shown))
        print(f"\r{shown}", end="", file=sys.stderr, flush=True)

    def update(done: int, total: int) -> None:
        nonlocal share
        share = done / max(total, 1)
        if visible:
            show()

    try:
        with _each_second(show):
            yield update
    finally:
        if shown:
            print(f"\r{' ' * len(shown)}\r", end="", file=sys.stderr, flush=True)


@contextmanager
def _each_second(show: Callable[[], None]) -> Iterator[None]:
    """Show what is under way after a second, and every second, also while nothing is reported."""
    over = Event()

    def again() -> None:
        while not over.wait(_PATIENCE):
            show()

    thread = Thread(target=again, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
