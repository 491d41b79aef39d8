"""A progress bar, on a terminal or in a notebook, for work that takes more than a second."""

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["Report", "progress_bar"]

Report = Callable[[int, int], None]


@contextmanager
def progress_bar(wanted: bool | None, label: str) -> Iterator[Report | None]:
    """A callback (done, total); None asks for a bar only if someone is looking.

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
    """On a terminal."""
    from rich.console import Console
    from rich.progress import Progress

    started = time.monotonic()
    with Progress(console=Console(stderr=True), transient=True, disable=False) as bar:
        task = bar.add_task(label, total=None, visible=at_once)

        def update(done: int, total: int) -> None:
            late = time.monotonic() - started > 1
            bar.update(task, completed=done, total=total, visible=at_once or late)

        yield update


@contextmanager
def _line(label: str, at_once: bool) -> Iterator[Report]:
    """In a notebook: a line of text that is written over, since widgets may not be installed."""
    started, shown = time.monotonic(), ""

    def update(done: int, total: int) -> None:
        nonlocal shown
        if at_once or time.monotonic() - started > 1:
            shown = f"{label}: {done / max(total, 1):.0%}"
            print(f"\r{shown}", end="", file=sys.stderr, flush=True)

    try:
        yield update
    finally:
        if shown:
            print(f"\r{' ' * len(shown)}\r", end="", file=sys.stderr, flush=True)
