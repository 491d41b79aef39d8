"""A progress bar, on a terminal or in a notebook, for work that takes more than a second."""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread
from time import monotonic

Report = Callable[[int, int], None]

_PATIENCE = 1.0
"""Seconds before anything is shown, and between two looks at a bar in a notebook."""


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
